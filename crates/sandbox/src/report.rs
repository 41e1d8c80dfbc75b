//! What was enforced, and how: what a launcher has to show before anything foreign runs.
//!
//! A launcher notes each wall it raised in [`Raised`]; [`Raised::finish`] gives an [`Enforced`] only
//! if every wall its kind must raise stands, every limit of the plan is held, and the minimum is
//! met. There is no best-effort mode.
//!
//! Not guaranteed: a report says what a launcher claims. That the claim is true is for the probes and
//! the escape suite.
//!
//! Invariant: only [`Raised::finish`] makes an [`Enforced`], and only this crate can call it.

use crate::plan::{Class, Classes, Limit, Plan};
use crate::seccomp::Profile;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What raised the walls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Launcher {
    /// Airlock's own, on Linux.
    Native,
    /// Bubblewrap, on Linux.
    Bwrap,
    /// `sandbox-exec`, on macOS.
    Seatbelt,
}

macro_rules! walls {
    ($($(#[$doc:meta])* $wall:ident = $name:literal),* $(,)?) => {
        /// One thing that confines a sandbox.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Wall { $($(#[$doc])* $wall),* }

        impl Wall {
            /// Every wall.
            pub const ALL: &'static [Self] = &[$(Self::$wall),*];

            /// The word for it in reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$wall => $name),* }
            }
        }
    };
}

walls! {
    /// Own user namespace.
    UserNamespace = "user_namespace",
    /// Own mount namespace.
    MountNamespace = "mount_namespace",
    /// Own pid namespace.
    PidNamespace = "pid_namespace",
    /// Own network namespace.
    NetworkNamespace = "network_namespace",
    /// Own ipc namespace.
    IpcNamespace = "ipc_namespace",
    /// Own uts namespace.
    UtsNamespace = "uts_namespace",
    /// Own cgroup namespace.
    CgroupNamespace = "cgroup_namespace",
    /// A root built from nothing.
    Root = "root",
    /// Every denial of the plan, also for files that do not exist yet.
    Denials = "denials",
    /// Landlock rules, where the kernel has them.
    Landlock = "landlock",
    /// The seccomp filter of the plan's profile.
    Seccomp = "seccomp",
    /// No capabilities, and not uid 0 inside.
    Capabilities = "capabilities",
    /// no_new_privs.
    NoNewPrivileges = "no_new_privileges",
    /// Not uid 0 on the host either.
    HostUser = "host_user",
    /// The plan's environment alone.
    Environment = "environment",
    /// No descriptors but stdio.
    Descriptors = "descriptors",
    /// Own session and process group.
    Session = "session",
    /// Every descendant ends with the supervisor.
    Lifetime = "lifetime",
    /// A Seatbelt profile.
    Seatbelt = "seatbelt",
}

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Launcher {
    /// Whether it must raise `wall`, whatever the minimum says.
    pub const fn must_raise(self, wall: Wall) -> bool {
        match wall {
            Wall::Environment
            | Wall::Descriptors
            | Wall::Session
            | Wall::Lifetime
            | Wall::Denials
            | Wall::HostUser => true,
            // A second wall where there is one; a minimum can ask for it.
            Wall::Landlock => false,
            Wall::Seatbelt => matches!(self, Self::Seatbelt),
            Wall::UserNamespace
            | Wall::MountNamespace
            | Wall::PidNamespace
            | Wall::NetworkNamespace
            | Wall::IpcNamespace
            | Wall::UtsNamespace
            | Wall::CgroupNamespace
            | Wall::Root
            | Wall::Seccomp
            | Wall::Capabilities
            | Wall::NoNewPrivileges => matches!(self, Self::Native | Self::Bwrap),
        }
    }
}

/// How firmly something holds, and by what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Held {
    /// How firmly.
    pub class: Class,
    /// By what, for people.
    pub how: String,
}

/// What was enforced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    launcher: Launcher,
    template: Option<&'static str>,
    profile: Option<Profile>,
    walls: BTreeMap<Wall, Held>,
    limits: BTreeMap<Limit, Held>,
    absent: BTreeMap<Wall, String>,
}

/// The least a sandbox must have to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minimum {
    /// How firmly each limit must hold.
    pub classes: Classes,
    /// Walls beyond those every launcher of a kind must raise.
    pub walls: BTreeSet<Wall>,
}

impl Minimum {
    /// What `plan` itself asks for.
    pub fn of(plan: &Plan) -> Self {
        Self {
            classes: plan.classes().clone(),
            walls: BTreeSet::new(),
        }
    }
}

/// Something a sandbox lacks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Shortfall {
    /// A wall does not stand.
    #[error("the wall `{wall}` does not stand{}", because(.reason.as_deref()))]
    Wall {
        /// Which.
        wall: Wall,
        /// Why, where the launcher knows.
        reason: Option<String>,
    },
    /// A wall is only watched: a process could pass it before it is ended.
    #[error("the wall `{0}` is supervised, not enforced")]
    Supervised(Wall),
    /// A limit does not hold, or not firmly enough.
    #[error("the limit `{limit}` must be {}, and is {}", word(Some(*.required)), word(*.held))]
    Limit {
        /// Which.
        limit: Limit,
        /// How firmly it must hold.
        required: Class,
        /// How firmly it does.
        held: Option<Class>,
    },
}

impl Shortfall {
    /// What to do about it.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Wall { .. } | Self::Supervised(_) => {
                "`airlock doctor` says what this machine lacks and how to get it"
            }
            Self::Limit { .. } => "delegate a cgroup to this user, or let the limit be supervised",
        }
    }
}

fn because(reason: Option<&str>) -> String {
    reason
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default()
}

const fn word(class: Option<Class>) -> &'static str {
    match class {
        Some(Class::Enforced) => "enforced",
        Some(Class::Supervised) => "supervised",
        None => "not held",
    }
}

/// Everything a sandbox lacks; it does not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotEnforced(Vec<Shortfall>);

impl NotEnforced {
    /// What is lacking.
    pub fn shortfalls(&self) -> &[Shortfall] {
        &self.0
    }
}

impl fmt::Display for NotEnforced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the sandbox cannot be enforced in full")?;
        for shortfall in &self.0 {
            write!(f, "\n  {shortfall}")?;
        }
        Ok(())
    }
}

impl std::error::Error for NotEnforced {}

impl Report {
    /// Whether this is at least `minimum`, and whole for its launcher; else everything it lacks.
    pub fn satisfies(&self, minimum: &Minimum) -> Result<(), NotEnforced> {
        let required =
            |wall: &&Wall| self.launcher.must_raise(**wall) || minimum.walls.contains(*wall);
        let walls = Wall::ALL
            .iter()
            .filter(required)
            .filter_map(|wall| self.lacks(*wall));
        let limits = Limit::ALL.iter().filter_map(|limit| {
            let (required, held) = (minimum.classes.of(*limit), self.limits.get(limit));
            let held = held.map(|held| held.class);
            (held < Some(required)).then_some(Shortfall::Limit {
                limit: *limit,
                required,
                held,
            })
        });
        let shortfalls: Vec<Shortfall> = walls.chain(limits).collect();
        if shortfalls.is_empty() {
            Ok(())
        } else {
            Err(NotEnforced(shortfalls))
        }
    }

    fn lacks(&self, wall: Wall) -> Option<Shortfall> {
        match self.walls.get(&wall).map(|held| held.class) {
            Some(Class::Enforced) => None,
            Some(Class::Supervised) => Some(Shortfall::Supervised(wall)),
            None => Some(Shortfall::Wall {
                wall,
                reason: self.absent.get(&wall).cloned(),
            }),
        }
    }

    /// What raised the walls.
    pub const fn launcher(&self) -> Launcher {
        self.launcher
    }

    /// The walls that stand.
    pub const fn walls(&self) -> &BTreeMap<Wall, Held> {
        &self.walls
    }

    /// The limits that hold.
    pub const fn limits(&self) -> &BTreeMap<Limit, Held> {
        &self.limits
    }
}

/// A sandbox of which every wall stands: the only value that can start something.
#[derive(Debug)]
#[must_use = "a sandbox nothing is started in confines nothing"]
pub struct Enforced {
    plan: Plan,
    report: Report,
}

impl Enforced {
    /// What it is granted. It cannot be changed any more.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What was enforced, and how.
    pub const fn report(&self) -> &Report {
        &self.report
    }
}

/// Walls as they are being raised.
#[derive(Debug)]
pub(crate) struct Raised {
    report: Report,
}

impl Raised {
    pub(crate) const fn by(launcher: Launcher) -> Self {
        Self {
            report: Report {
                launcher,
                template: None,
                profile: None,
                walls: BTreeMap::new(),
                limits: BTreeMap::new(),
                absent: BTreeMap::new(),
            },
        }
    }

    pub(crate) fn wall(mut self, wall: Wall, class: Class, how: impl Into<String>) -> Self {
        let how = how.into();
        self.report.walls.insert(wall, Held { class, how });
        self
    }

    pub(crate) fn limit(mut self, limit: Limit, class: Class, how: impl Into<String>) -> Self {
        let how = how.into();
        self.report.limits.insert(limit, Held { class, how });
        self
    }

    /// Notes why a wall does not stand.
    pub(crate) fn absent(mut self, wall: Wall, why: impl Into<String>) -> Self {
        self.report.walls.remove(&wall);
        self.report.absent.insert(wall, why.into());
        self
    }

    /// Fails unless everything took effect that the launcher, the plan and `minimum` demand.
    pub(crate) fn finish(self, plan: Plan, minimum: &Minimum) -> Result<Enforced, NotEnforced> {
        let mut report = self.report;
        report.template = Some(plan.template().name);
        report.profile = Some(plan.profile());
        report.satisfies(&Minimum::of(&plan))?;
        report.satisfies(minimum)?;
        Ok(Enforced { plan, report })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Surroundings;
    use crate::template::Template;

    fn plan() -> Plan {
        let template = Template::find("code-executor").unwrap();
        Plan::builder(template, &Surroundings::default())
            .build()
            .unwrap()
    }

    fn whole(launcher: Launcher) -> Raised {
        let walls = Wall::ALL.iter().filter(|wall| launcher.must_raise(**wall));
        let raised = walls.fold(Raised::by(launcher), |raised, wall| {
            raised.wall(*wall, Class::Enforced, "test")
        });
        Limit::ALL.iter().fold(raised, |raised, limit| {
            raised.limit(*limit, Class::Enforced, "test")
        })
    }

    const LAUNCHERS: &[Launcher] = &[Launcher::Native, Launcher::Bwrap, Launcher::Seatbelt];

    #[test]
    fn without_any_one_wall_or_limit_nothing_is_enforced() {
        let minimum = Minimum::of(&plan());
        for launcher in LAUNCHERS.iter().copied() {
            assert!(whole(launcher).finish(plan(), &minimum).is_ok());
            for wall in Wall::ALL
                .iter()
                .copied()
                .filter(|wall| launcher.must_raise(*wall))
            {
                let raised = whole(launcher).absent(wall, "why");
                let lacking = raised.finish(plan(), &minimum).unwrap_err();
                let reason = Some("why".to_owned());
                assert_eq!(lacking.shortfalls(), [Shortfall::Wall { wall, reason }]);
                let raised = whole(launcher).wall(wall, Class::Supervised, "watched");
                let lacking = raised.finish(plan(), &minimum).unwrap_err();
                assert_eq!(lacking.shortfalls(), [Shortfall::Supervised(wall)]);
            }
            for limit in Limit::ALL.iter().copied() {
                let mut raised = whole(launcher);
                raised.report.limits.remove(&limit);
                let required = minimum.classes.of(limit);
                let want = Shortfall::Limit {
                    limit,
                    required,
                    held: None,
                };
                assert_eq!(
                    raised.finish(plan(), &minimum).unwrap_err().shortfalls(),
                    [want]
                );
            }
        }
    }

    #[test]
    fn a_minimum_can_only_ask_for_more() {
        let mut minimum = Minimum::of(&plan());
        minimum.walls.insert(Wall::Landlock);
        minimum.classes = minimum.classes.with(Limit::Memory, Class::Enforced);
        let watched = |raised: Raised| raised.limit(Limit::Memory, Class::Supervised, "watched");
        let raised = watched(whole(Launcher::Native)).absent(Wall::Landlock, "kernel has none");
        let lacking = raised.finish(plan(), &minimum).unwrap_err();
        assert_eq!(
            lacking.to_string(),
            "the sandbox cannot be enforced in full\n  \
             the wall `landlock` does not stand: kernel has none\n  \
             the limit `memory` must be enforced, and is supervised"
        );
        // The plan's own demands hold even if the minimum forgets them.
        minimum.classes = Classes::usual();
        let template = Template::find("code-executor").unwrap();
        let strict = Plan::builder(template, &Surroundings::default())
            .require(Limit::Memory, Class::Enforced)
            .build()
            .unwrap();
        let raised =
            watched(whole(Launcher::Native)).wall(Wall::Landlock, Class::Enforced, "abi 7");
        assert!(raised.finish(strict, &minimum).is_err());
    }

    #[test]
    fn a_report_is_readable_by_machines() {
        let enforced = Raised::by(Launcher::Bwrap)
            .wall(Wall::Seccomp, Class::Enforced, "standard")
            .limit(Limit::Memory, Class::Supervised, "watched every 50 ms")
            .absent(Wall::Landlock, "kernel has none");
        let text = serde_json::to_string(&enforced.report).unwrap();
        assert_eq!(
            text,
            r#"{"launcher":"bwrap","template":null,"profile":null,"#.to_owned()
                + r#""walls":{"seccomp":{"class":"enforced","how":"standard"}},"#
                + r#""limits":{"memory":{"class":"supervised","how":"watched every 50 ms"}},"#
                + r#""absent":{"landlock":"kernel has none"}}"#
        );
    }

    #[test]
    fn the_words_in_reports_are_the_names() {
        for wall in Wall::ALL {
            let text = serde_json::to_value(wall).unwrap();
            assert_eq!(text, wall.name());
        }
    }
}

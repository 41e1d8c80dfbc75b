//! One row of the table.

use crate::scene::Scene;
use airlock_sandbox::{Launcher, Wall};
use serde::Serialize;
use serde_json::Value;

/// What an attack is after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Reading what was not granted.
    Secrets,
    /// Reaching what is denied inside a grant.
    Denied,
    /// Writing outside the stage.
    Writing,
    /// Airlock's own policy, audit and state.
    State,
    /// Gaining rights.
    Privileges,
    /// Forbidden calls by every route.
    Syscalls,
    /// Reaching anything over a socket.
    Network,
    /// Typing into a terminal.
    Terminal,
    /// Taking more than its share.
    Bombs,
    /// Outliving the supervisor.
    Lifetime,
    /// Taking the host over when started as root.
    Takeover,
}

impl Class {
    /// Every class.
    pub const ALL: &'static [Self] = &[
        Self::Secrets,
        Self::Denied,
        Self::Writing,
        Self::State,
        Self::Privileges,
        Self::Syscalls,
        Self::Network,
        Self::Terminal,
        Self::Bombs,
        Self::Lifetime,
        Self::Takeover,
    ];

    /// The word for it in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Secrets => "reading secrets",
            Self::Denied => "denied inside a grant",
            Self::Writing => "writing outside",
            Self::State => "policy, audit, state",
            Self::Privileges => "new privileges",
            Self::Syscalls => "forbidden calls",
            Self::Network => "network",
            Self::Terminal => "terminal",
            Self::Bombs => "resource bombs",
            Self::Lifetime => "outliving",
            Self::Takeover => "host takeover",
        }
    }
}

/// Who can run the control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Anyone: the suite fails if it does not succeed.
    Anyone,
    /// Root alone. Run by an ordinary user, the suite says that it was not run.
    Root,
    /// Root with every capability and every device. Where the host keeps even root from it, as a
    /// container or a device cgroup does, the suite says so. Of no other row that is good enough.
    FullRoot,
}

/// Who says whether an attack achieved something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judge {
    /// The probe; and nothing may have changed on the host.
    Probe,
    /// The host alone: inside, the probe may well believe that it succeeded.
    Host,
}

/// One attack.
#[derive(Debug, Clone, Copy)]
pub struct Attack {
    /// Its name.
    pub name: &'static str,
    /// What it is after.
    pub class: Class,
    /// What is attempted.
    pub about: &'static str,
    /// What the probe calls it.
    pub(crate) probe: &'static str,
    /// Prepares the host and gives the probe's arguments.
    pub(crate) scene: fn(&mut Scene) -> Value,
    /// Who can run the control.
    pub control: Control,
    /// Who decides.
    pub judge: Judge,
    /// What each route may meet; nothing else is a denial.
    pub denied: &'static [&'static str],
    /// What a route may meet besides where bubblewrap raises the walls.
    pub denied_by_bwrap: &'static [&'static str],
    /// How the command may end other than by itself.
    pub ends: &'static [&'static str],
    /// The walls that stop it.
    pub walls: &'static [Wall],
    /// What must be there on the host for the control to make sense.
    pub target: Option<&'static str>,
    /// Whether hosts are known that do not have it. On any other row a missing target fails.
    pub rare: bool,
    /// What the launcher says when it refuses the plan: then nothing foreign has run.
    pub refused: Option<&'static str>,
    /// Whether the supervisor itself is killed.
    pub(crate) orphaned: bool,
    /// Where it is known to get through, and why that is so.
    pub limits: &'static [Limit],
}

/// A stated limit of the sandbox: an attack that is not stopped, or not always.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Why it is one.
    pub why: &'static str,
    /// The route by which it gets through, as the probe calls it or begins to. By any other it does
    /// not.
    pub route: &'static str,
    /// The launcher that has it, if not every one.
    pub launcher: Option<Launcher>,
    /// Whether it is one only where no cgroup may be made.
    pub without_cgroup: bool,
}

impl Limit {
    pub(crate) const fn new(route: &'static str, why: &'static str) -> Self {
        Self {
            why,
            route,
            launcher: None,
            without_cgroup: false,
        }
    }

    pub(crate) const fn with(mut self, launcher: Launcher) -> Self {
        self.launcher = Some(launcher);
        self
    }

    pub(crate) const fn without_cgroup(mut self) -> Self {
        self.without_cgroup = true;
        self
    }

    /// Whether it lets the attack through here.
    pub(crate) fn applies(&self, launcher: Launcher, cgroup: bool) -> bool {
        self.launcher.is_none_or(|own| own == launcher) && !(self.without_cgroup && cgroup)
    }

    /// Whether it is what let an attack through by `route`.
    pub(crate) fn excuses(&self, route: &str) -> bool {
        route.starts_with(self.route)
    }
}

impl Attack {
    pub(crate) const fn new(
        class: Class,
        name: &'static str,
        probe: &'static str,
        about: &'static str,
        scene: fn(&mut Scene) -> Value,
    ) -> Self {
        Self {
            name,
            class,
            about,
            probe,
            scene,
            control: Control::Anyone,
            judge: Judge::Probe,
            denied: &[],
            denied_by_bwrap: &[],
            ends: &[],
            walls: &[],
            target: None,
            rare: false,
            refused: None,
            orphaned: false,
            limits: &[],
        }
    }

    pub(crate) const fn denied(mut self, denied: &'static [&'static str]) -> Self {
        self.denied = denied;
        self
    }

    /// Bubblewrap's init is hidden whole: what is asked of it is not there.
    pub(crate) const fn of_init(self) -> Self {
        self.denied_by_bwrap(&["ENOENT"])
    }

    pub(crate) const fn denied_by_bwrap(mut self, denied: &'static [&'static str]) -> Self {
        self.denied_by_bwrap = denied;
        self
    }

    pub(crate) const fn ends(mut self, ends: &'static [&'static str]) -> Self {
        self.ends = ends;
        self
    }

    pub(crate) const fn by(mut self, walls: &'static [Wall]) -> Self {
        self.walls = walls;
        self
    }

    pub(crate) const fn root(mut self) -> Self {
        self.control = Control::Root;
        self
    }

    pub(crate) const fn full_root(mut self) -> Self {
        self.control = Control::FullRoot;
        self
    }

    pub(crate) const fn seen_from_outside(mut self) -> Self {
        self.judge = Judge::Host;
        self
    }

    pub(crate) const fn target(mut self, path: &'static str) -> Self {
        self.target = Some(path);
        self
    }

    /// A target that some hosts do not have.
    pub(crate) const fn rare_target(self, path: &'static str) -> Self {
        Self {
            rare: true,
            ..self.target(path)
        }
    }

    /// Whether a host may leave the row without a control that succeeds.
    pub fn may_lack_control(&self) -> bool {
        self.rare || self.control == Control::FullRoot
    }

    pub(crate) const fn limits(mut self, limits: &'static [Limit]) -> Self {
        self.limits = limits;
        self
    }

    /// A plan that no launcher takes, by these words.
    pub(crate) const fn refused(mut self, words: &'static str) -> Self {
        self.refused = Some(words);
        self
    }

    pub(crate) const fn orphaned(mut self) -> Self {
        self.orphaned = true;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_excuses_only_where_it_is_stated() {
        let (native, bwrap) = (Launcher::Native, Launcher::Bwrap);
        let limit = Limit::new("way", "x");
        for (limit, launcher, cgroup, applies) in [
            (limit, native, true, true),
            (limit.without_cgroup(), native, true, false),
            (limit.without_cgroup(), native, false, true),
            (limit.with(bwrap), native, false, false),
            (limit.with(bwrap), bwrap, true, true),
            (limit.with(bwrap).without_cgroup(), bwrap, true, false),
            (limit.with(bwrap).without_cgroup(), native, false, false),
        ] {
            let found = limit.applies(launcher, cgroup);
            assert_eq!(found, applies, "{limit:?} {launcher:?} {cgroup}");
        }
    }
}

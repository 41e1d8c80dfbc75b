//! The rules Airlock brings along. They are asked first, always, even when a token is valid, and
//! no policy can take them away.
//!
//! They look at effects, so a write, a patch, a move, a delete and a merge are all the same to
//! them, and at every path of a request. They never allow anything by themselves.

use super::conditions::Asked;
use super::hanging::Hanging;
use super::protected::{Leads, Protected, Shape, comparison};
use super::syscalls::SyscallSet;
use crate::decision::{Contribution, Contributions, Layer, Opinion};
use crate::glob::PathText;
use Shape::{Ending, Last, Named, Sequence, Under};
use airlock_core::{EffectSet, Mode, Request, RequestPath};
use serde_json::Value;
use std::sync::Arc;

/// When a built-in rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// A path of one of these shapes is written or deleted.
    Changes(&'static [Shape]),
    /// A protected path is written or deleted.
    ChangesProtected,
    /// One of these syscalls is made.
    Syscall(&'static [&'static str]),
    /// One of these syscalls is made by this plugin.
    SyscallBy(&'static str, &'static [&'static str]),
    /// This syscall is made in any mode but this one, or in none.
    SyscallOutside(&'static str, Mode),
    /// A session is put in a mode that is not known to be harmless.
    EntersDebug,
}

/// A rule compiled into Airlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltInRule {
    /// Its name, `built-in/...`.
    pub name: &'static str,
    /// What it says when it applies.
    pub opinion: Opinion,
    /// Why.
    pub reason: &'static str,
    /// When it applies.
    pub when: Trigger,
}

/// Every built-in rule, for the engine and the documentation.
pub const fn built_in_rules() -> &'static [BuiltInRule] {
    &RULES
}

const RULES: [BuiltInRule; 10] = [
    BuiltInRule {
        name: "built-in/policy-files",
        opinion: Opinion::Deny,
        reason: "policy files change only through `policy.update`",
        // The directory itself too: moving or replacing it would move or replace the policy.
        when: Trigger::Changes(&[
            Sequence(&[".airlock", "policy.yaml"]),
            Sequence(&[".airlock", "policy.yml"]),
            Last(".airlock"),
        ]),
    },
    BuiltInRule {
        name: "built-in/airlock-state",
        opinion: Opinion::Deny,
        reason: "audit and state databases, keys and Airlock's own binaries are out of reach",
        when: Trigger::ChangesProtected,
    },
    BuiltInRule {
        name: "built-in/airlock-directory",
        opinion: Opinion::RequireReview,
        reason: "`.airlock/` steers what agents may do here",
        when: Trigger::Changes(&[Named(".airlock")]),
    },
    BuiltInRule {
        name: "built-in/git-internals",
        opinion: Opinion::RequireReview,
        reason: "git runs what its hooks and configuration name",
        // A file called `.git`, or `commondir` in it, may point git at other hooks and settings. A
        // repository without a tree is by custom called `name.git`, and is one all the same.
        when: Trigger::Changes(&[
            Under(".git", "hooks"),
            Under(".git", "config"),
            Under(".git", "config.worktree"),
            Under(".git", "commondir"),
            Last(".git"),
            Named(".gitconfig"),
            Sequence(&[".config", "git"]),
            Ending(".git", "hooks"),
            Ending(".git", "config"),
        ]),
    },
    BuiltInRule {
        name: "built-in/shell-startup",
        opinion: Opinion::RequireReview,
        reason: "shells run their start-up files unasked",
        when: Trigger::Changes(SHELL_FILES),
    },
    BuiltInRule {
        name: "built-in/agent-configuration",
        opinion: Opinion::RequireReview,
        reason: "agents and editors obey, and some run, what these files say",
        when: Trigger::Changes(AGENT_FILES),
    },
    BuiltInRule {
        name: "built-in/person-decides",
        opinion: Opinion::RequireReview,
        reason: "a person decides what policy says, what a workspace brings along and what reaches the real tree",
        when: Trigger::Syscall(&[
            "policy.update",
            "trust.approve",
            "workflow.confirm",
            "merge.apply",
            "merge.undo",
            "plugin.install",
            "plugin.enable",
        ]),
    },
    // Without it, a policy that forgets these would lock its own author out.
    BuiltInRule {
        name: "built-in/owner-at-the-command-line",
        opinion: Opinion::Allow,
        reason: "the person at the command line may look at the log, their stages and sessions, run workflows, answer, take back trust, and end a kernel",
        when: Trigger::SyscallBy(
            "cli",
            &[
                "audit.read",
                "trust.revoke",
                "policy.init",
                "stage.read",
                "stage.drop",
                "approval.read",
                "approval.decide",
                "approval.revoke",
                "approval.passphrase",
                "kernel.stop",
                "kernel.renew",
                "workflow.run",
                "workflow.resume",
                "workflow.cancel",
                "session.create",
                "session.list",
                "session.show",
                "session.resume",
                "session.cancel",
                "session.archive",
                "session.set_mode",
                "session.observe",
                "session.recall",
                "session.result",
                "plugin.list",
                "plugin.show",
                "plugin.remove",
                "plugin.disable",
                "plugin.reload",
            ],
        ),
    },
    BuiltInRule {
        name: "built-in/debug-mode",
        opinion: Opinion::RequireReview,
        reason: "debug mode opens containers to the session",
        when: Trigger::EntersDebug,
    },
    BuiltInRule {
        name: "built-in/container-outside-debug",
        opinion: Opinion::Deny,
        reason: "containers run only in debug mode",
        when: Trigger::SyscallOutside("container.run", Mode::Debug),
    },
];

const SHELL_FILES: &[Shape] = &[
    Named(".profile"),
    Named(".bashrc"),
    Named(".bash_profile"),
    Named(".bash_login"),
    Named(".bash_logout"),
    Named(".bash_aliases"),
    Named(".zshrc"),
    Named(".zshenv"),
    Named(".zprofile"),
    Named(".zlogin"),
    Named(".zlogout"),
    Named(".kshrc"),
    Named(".cshrc"),
    Named(".tcshrc"),
    Named(".login"),
    Named(".logout"),
    Named(".envrc"),
    Named(".pam_environment"),
    Named(".xinitrc"),
    Named(".xprofile"),
    Sequence(&[".config", "fish"]),
    Sequence(&[".config", "nushell"]),
    Sequence(&[".config", "powershell"]),
    Sequence(&[".config", "autostart"]),
    Sequence(&[".config", "environment.d"]),
    Named("profile.ps1"),
    Named("microsoft.powershell_profile.ps1"),
];

const AGENT_FILES: &[Shape] = &[
    Named(".mcp.json"),
    Named("mcp.json"),
    Named("claude_desktop_config.json"),
    Named(".claude"),
    Named(".claude.json"),
    Named("claude.md"),
    Named("claude.local.md"),
    Named("agents.md"),
    Named("agents.override.md"),
    Named("gemini.md"),
    Named(".cursor"),
    Named(".cursorrules"),
    Named(".codex"),
    Named(".gemini"),
    Named(".windsurf"),
    Named(".windsurfrules"),
    Named(".continue"),
    Named(".clinerules"),
    Named(".roo"),
    Named(".roorules"),
    Named(".kiro"),
    Named(".amazonq"),
    Named(".aider.conf.yml"),
    Sequence(&[".github", "copilot-instructions.md"]),
    Sequence(&[".github", "instructions"]),
    Sequence(&[".vscode", "tasks.json"]),
    Sequence(&[".vscode", "settings.json"]),
    Sequence(&[".vscode", "launch.json"]),
    Last(".vscode"),
];

/// The built-in layer of an engine.
#[derive(Debug, Default)]
pub struct BuiltIns {
    rules: Vec<Ready>,
    leads: Leads,
    protected: Protected,
    /// The syscalls that alone may trigger a rule.
    watched: SyscallSet,
}

#[derive(Debug)]
struct Ready {
    rule: BuiltInRule,
    name: Arc<str>,
    reason: Arc<str>,
}

impl Ready {
    fn said(&self) -> Contribution {
        Contribution {
            layer: Layer::BuiltIn,
            rule: Arc::clone(&self.name),
            opinion: self.rule.opinion,
            reason: Arc::clone(&self.reason),
        }
    }
}

impl BuiltIns {
    /// Every built-in rule, with what this installation protects.
    pub fn standard(protected: Protected) -> Self {
        Self::of(built_in_rules(), protected)
    }

    /// No built-in rule at all: for engines that judge policies, never for one that guards.
    pub fn none() -> Self {
        Self::default()
    }

    /// Exactly these rules.
    pub fn of(rules: &[BuiltInRule], protected: Protected) -> Self {
        let shapes = rules.iter().flat_map(|rule| match rule.when {
            Trigger::Changes(shapes) => shapes,
            Trigger::ChangesProtected
            | Trigger::Syscall(_)
            | Trigger::SyscallBy(..)
            | Trigger::SyscallOutside(..)
            | Trigger::EntersDebug => &[],
        });
        let leads = Leads::of(shapes);
        let ready = |rule: &BuiltInRule| Ready {
            rule: *rule,
            name: rule.name.into(),
            reason: rule.reason.into(),
        };
        Self {
            rules: rules.iter().map(ready).collect(),
            leads,
            protected,
            watched: rules
                .iter()
                .map(watched)
                .fold(SyscallSet::default(), SyscallSet::union),
        }
    }

    /// The rules whose opinion of such a request hangs on its arguments.
    pub(crate) fn hanging(&self, request: &Request) -> Vec<Hanging> {
        let asks = |ready: &&Ready| {
            ready.rule.when == Trigger::EntersDebug && request.syscall.area() == "session"
        };
        let rules = self.rules.iter().filter(asks);
        rules
            .map(|ready| Hanging {
                on: ready.rule.name.to_owned(),
                said: ready.said(),
            })
            .collect()
    }

    /// Adds the opinion of every rule that applies.
    pub(crate) fn evaluate(&self, asked: Asked<'_>, contributions: &mut Contributions) {
        let request = asked.request;
        let changes = request.effects.intersects(EffectSet::CHANGES);
        let suspicious = changes && any_path(request, |path| self.leads.might_hold(path));
        let protected = changes
            && request
                .paths
                .iter()
                .any(|path| self.protected.touches(path));
        let watched = asked.position().is_none_or(|at| self.watched.contains(at));
        if !(suspicious || protected || watched) {
            return;
        }
        for ready in &self.rules {
            let applies = match ready.rule.when {
                Trigger::Changes(shapes) => {
                    suspicious && any_path(request, |path| self.holds(shapes, path))
                }
                Trigger::ChangesProtected => protected,
                Trigger::Syscall(names) => names.contains(&request.syscall.name()),
                Trigger::SyscallBy(plugin, names) => {
                    request.caller.plugin.as_str() == plugin
                        && request.caller.sandbox.is_none()
                        && names.contains(&request.syscall.name())
                }
                Trigger::SyscallOutside(name, mode) => {
                    request.syscall.name() == name && request.caller.mode != Some(mode)
                }
                Trigger::EntersDebug => enters_debug(request),
            };
            if applies {
                contributions.push(ready.said());
            }
        }
    }

    fn holds(&self, shapes: &[Shape], path: PathText<'_>) -> bool {
        let same = comparison(path);
        self.leads.might_hold(path) && shapes.iter().any(|shape| shape.holds(path, same))
    }
}

/// Whether a built-in rule objects to changing `path` because of its name.
pub(crate) fn is_guarded(path: &RequestPath) -> bool {
    let text = PathText::new(path.as_str());
    let same = comparison(text);
    RULES.iter().any(|rule| match rule.when {
        Trigger::Changes(shapes) => shapes.iter().any(|shape| shape.holds(text, same)),
        Trigger::ChangesProtected
        | Trigger::Syscall(_)
        | Trigger::SyscallBy(..)
        | Trigger::SyscallOutside(..)
        | Trigger::EntersDebug => false,
    })
}

/// The syscalls that trigger `rule`, whatever else a request holds.
fn watched(rule: &BuiltInRule) -> SyscallSet {
    let all = |words: &[&str]| {
        let sets = words.iter().map(|word| SyscallSet::named(word));
        sets.fold(SyscallSet::default(), SyscallSet::union)
    };
    match rule.when {
        Trigger::Changes(_) | Trigger::ChangesProtected => SyscallSet::default(),
        Trigger::Syscall(names) | Trigger::SyscallBy(_, names) => all(names),
        Trigger::SyscallOutside(name, _) => SyscallSet::named(name),
        Trigger::EntersDebug => SyscallSet::named("session.*"),
    }
}

fn any_path(request: &Request, holds: impl Fn(PathText<'_>) -> bool) -> bool {
    request
        .paths
        .iter()
        .any(|path| holds(PathText::new(path.as_str())))
}

/// Anything but a mode known to be harmless counts as debug, so that no spelling slips through.
fn enters_debug(request: &Request) -> bool {
    if !request.syscall.name().starts_with("session.") {
        return false;
    }
    let harmless = |mode: &Value| {
        let known = [Mode::Strict, Mode::Explore].map(Mode::as_str);
        mode.as_str().is_some_and(|mode| known.contains(&mode))
    };
    match request.arguments.get("mode") {
        Some(mode) => !harmless(mode),
        None => request.syscall.name() == "session.set_mode",
    }
}

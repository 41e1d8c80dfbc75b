//! Why nothing was run in the process tier.

use super::files::Refusal;
use airlock_audit::AppendError;
use airlock_sandbox::launch::{RunError, StartError};
use airlock_sandbox::plan::Problem;
use airlock_sandbox::{NotEnforced, PlanError};
use rustix::io::Errno;
use std::io;

/// Why a program was not run, or not watched to its end.
#[derive(Debug, thiserror::Error)]
pub enum ProcessFailure {
    /// A check of the execution contract failed.
    #[error("{id}: {what}")]
    Check {
        /// Which check.
        id: CheckId,
        /// What it found.
        what: String,
        /// What to do about it.
        fix: String,
    },
    /// The template needs a rule that names it.
    #[error("the template `{template}` needs a rule that names it, and none does")]
    TemplateNeedsRule {
        /// The template.
        template: String,
    },
    /// The template is not for running commands, or cannot be had yet.
    #[error("the template `{template}` {why}")]
    Template {
        /// The template.
        template: String,
        /// Why not.
        why: &'static str,
    },
    /// Policy wants foreign code kept further away than a process is.
    #[error("the policy's `minimum_tier` is `container`, and a program runs as a process")]
    TierTooLow,
    /// Policy lets the caller read nothing, so there is nothing to show to a program.
    #[error("rule `{rule}` keeps this caller from reading anything here")]
    NothingReadable {
        /// The rule.
        rule: String,
    },
    /// An extension judges reads one by one, which cannot be done inside a sandbox.
    #[error("the extension `{name}` judges reads, and a program's reads cannot be put to it")]
    ReadsByExtension {
        /// The extension.
        name: String,
    },
    /// What is asked for cannot be granted.
    #[error("the sandbox plan is refused: {}", listed(.0.problems()))]
    Plan(PlanError),
    /// A limit policy imposes is under what anything needs to start.
    #[error("a limit is lower than a sandbox can promise: {0}")]
    Limit(String),
    /// This machine cannot keep the program within its walls.
    #[error("the sandbox cannot be enforced in full: {}", listed(.0.shortfalls()))]
    NotEnforced(NotEnforced),
    /// There is no launcher for this platform.
    #[error("there is no sandbox for this platform")]
    Unsupported,
    /// No launcher can raise the walls on this machine.
    #[error("nothing on this machine can raise a sandbox's walls: {why}")]
    NoLauncher {
        /// Why not.
        why: String,
    },
    /// The kernel was opened without what it needs to know of the machine.
    #[error("this kernel was not told what it needs to run programs")]
    NoMachine,
    /// The kernel was opened without a program of its own to change files with.
    #[error("this kernel has no worker to change files with")]
    NoWorker,
    /// The state things are in does not allow the tool.
    #[error("not available in the state `{state}`: {reason}")]
    Unavailable {
        /// The state.
        state: &'static str,
        /// Why it does not allow the tool.
        reason: &'static str,
        /// What can be done instead.
        available: &'static str,
    },
    /// What a program printed cannot be made sense of.
    #[error("{0}")]
    Output(String),
    /// Files were not changed.
    #[error(transparent)]
    Files(Refusal),
    /// A directory would have to be made for it that may not be made.
    #[error("the directory `{directory}` would have to be made for it, and may not be: {why}")]
    Way {
        /// The directory.
        directory: String,
        /// Who says so.
        why: String,
    },
    /// The stage cannot be used.
    #[error("{what}")]
    Stage {
        /// What happened.
        what: String,
        /// Whether another command uses it.
        busy: bool,
    },
    /// Somebody allowed it for what the stage held, and it holds something else by now.
    #[error("stage `{stage}` was changed by another process after this was approved for it")]
    ChangedSince {
        /// The stage.
        stage: String,
    },
    /// A run in the stage was cut off, and what it left cannot be judged.
    #[error(
        "stage `{stage}` holds what a run left that was cut off, and it cannot be judged: {why}"
    )]
    Unjudged {
        /// The stage.
        stage: String,
        /// Why not.
        why: String,
    },
    /// What a run left that was cut off would have to be put back, and that cannot be recorded.
    #[error("nothing was done or returned, because the audit log cannot record it: {0}")]
    Unrecorded(AppendError),
    /// The sandbox could not be started or watched.
    #[error("{0}")]
    Sandbox(String),
    /// The machine can make sandboxes, and had no room for this one.
    #[error("{what}")]
    NoRoom {
        /// What happened.
        what: String,
        /// Of what there was too little.
        lack: Lack,
    },
}

/// What a machine can run out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// Room on a disk.
    Disk,
    /// What one process may have open.
    Descriptors,
    /// Memory or processes.
    Other,
}

impl Lack {
    /// What an error of the system says there is too little of.
    fn of(error: &io::Error) -> Option<Self> {
        match Errno::from_io_error(error)? {
            Errno::NOSPC | Errno::DQUOT => Some(Self::Disk),
            Errno::MFILE => Some(Self::Descriptors),
            Errno::NOMEM | Errno::AGAIN | Errno::NFILE => Some(Self::Other),
            _ => None,
        }
    }
}

/// A check of the execution contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckId {
    /// The command is in the policy's list.
    Command,
    /// The arguments are data.
    Arguments,
    /// Paths lie beneath the grants.
    Paths,
    /// The environment is filtered.
    Environment,
    /// Inputs are of a size, and limits in their ranges.
    Sizes,
}

impl CheckId {
    /// The id in errors.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Command => "IV-01",
            Self::Arguments => "IV-02",
            Self::Paths => "IV-03",
            Self::Environment => "IV-04",
            Self::Sizes => "IV-05",
        }
    }
}

impl std::fmt::Display for CheckId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ProcessFailure {
    /// A stable word for the kind of failure.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Check { id, .. } => match id {
                CheckId::Command => "command_not_listed",
                CheckId::Arguments | CheckId::Paths | CheckId::Environment | CheckId::Sizes => {
                    "check_failed"
                }
            },
            Self::TemplateNeedsRule { .. } => "template_needs_rule",
            Self::Template { .. } => "template_unavailable",
            Self::NothingReadable { .. } | Self::ReadsByExtension { .. } => "reads_denied",
            Self::Plan(_) => "plan_refused",
            Self::Limit(_) | Self::TierTooLow => "limit_not_enforceable",
            Self::NotEnforced(_) | Self::Unsupported | Self::NoLauncher { .. } => "not_enforceable",
            Self::NoMachine | Self::NoWorker => "tier_unavailable",
            Self::Files(refusal) => refusal.code(),
            Self::Unavailable { .. } => "tool_unavailable",
            Self::Output(_) => "output_not_understood",
            Self::Way { .. } => "directory_denied",
            Self::Stage { busy: true, .. } => "stage_busy",
            Self::Stage { busy: false, .. } => "stage_failed",
            Self::ChangedSince { .. } => "stage_changed",
            Self::Unjudged { .. } => "stage_unjudged",
            Self::Unrecorded(_) => "audit_unavailable",
            Self::Sandbox(_) | Self::NoRoom { .. } => "sandbox_failed",
        }
    }

    /// Whether the same call may succeed a moment later.
    pub const fn retryable(&self) -> bool {
        matches!(
            self,
            Self::Stage { busy: true, .. } | Self::ChangedSince { .. } | Self::Unrecorded(_)
        )
    }

    /// How to put it right, where that is known.
    pub fn hint(&self) -> Option<String> {
        let fix = match self {
            Self::Check { fix, .. } => return Some(fix.clone()),
            Self::TemplateNeedsRule { template } => {
                return Some(format!(
                    "add a rule with `match: {{ syscall: exec.run, template: {template} }}` and `action: allow`"
                ));
            }
            Self::Template { .. } => "use `code-executor`, which has no network",
            Self::TierTooLow => "lower `workspace.minimum_tier`; containers cannot be run yet",
            Self::NothingReadable { .. } => "give the rule a `path_glob`, or another caller",
            Self::ReadsByExtension { .. } => {
                "give the extension a `syscall` list without `fs.read`"
            }
            Self::Plan(error) => return plan_hint(error),
            Self::Limit(_) => "raise the limit in the policy: memory from 64MiB, output from 1KiB",
            Self::NotEnforced(_) | Self::NoLauncher { .. } => {
                "`airlock doctor` says what this machine lacks and how to get it"
            }
            Self::Unsupported => "Airlock runs programs on Linux only, for now",
            Self::Way { .. } => {
                "make the directory yourself, or use one that is there: \
                 `airlock policy explain fs.write --path DIRECTORY` says what denies it"
            }
            Self::Stage { busy: true, .. } => {
                "wait for the other command, or use another `--stage`"
            }
            Self::Stage { busy: false, .. } => {
                "`airlock stage list` shows what there is; `--no-stage` works without one"
            }
            Self::ChangedSince { .. } => {
                "ask again: it is decided anew, on what the stage holds now"
            }
            Self::Unjudged { stage, .. } => {
                return Some(format!(
                    "`airlock diff {stage}` shows what it holds; `airlock stage drop {stage}` throws it away"
                ));
            }
            Self::Unrecorded(error) => return error.hint().map(str::to_owned),
            Self::Files(refusal) => return refusal.hint().map(str::to_owned),
            Self::NoWorker => "use the `airlock` command, which is its own worker",
            Self::Unavailable { available, .. } => available,
            Self::Sandbox(_) => {
                "run it again; if it fails again, `airlock doctor` says what this machine lacks"
            }
            Self::NoRoom { lack, .. } => match lack {
                Lack::Disk => {
                    "make room on the disk that has Airlock's state: `$XDG_STATE_HOME/airlock`, \
                     or `~/.local/state/airlock`"
                }
                Lack::Descriptors => {
                    "raise how many files whoever starts Airlock may have open: `ulimit -n`"
                }
                Lack::Other => "run it again when fewer programs run",
            },
            Self::NoMachine | Self::Output(_) => return None,
        };
        Some(fix.to_owned())
    }
}

/// Every reason there is, in the one line that is told of a failure.
fn listed<T: ToString>(reasons: &[T]) -> String {
    let each: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    each.join("; ")
}

fn plan_hint(error: &PlanError) -> Option<String> {
    error
        .problems()
        .first()
        .map(|problem| problem.hint().to_owned())
}

impl From<PlanError> for ProcessFailure {
    fn from(error: PlanError) -> Self {
        let limits = |problem: &Problem| matches!(problem, Problem::Limit(_));
        if error.problems().iter().all(limits) {
            return Self::Limit(listed(error.problems()));
        }
        Self::Plan(error)
    }
}

impl From<StartError> for ProcessFailure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::NotEnforced(lacking) => Self::NotEnforced(lacking),
            StartError::Plan(error) => error.into(),
            StartError::Unsupported => Self::Unsupported,
            StartError::Step { ref source, .. } => {
                let what = error.to_string();
                match Lack::of(source) {
                    Some(lack) => Self::NoRoom { what, lack },
                    None => Self::Sandbox(what),
                }
            }
        }
    }
}

impl From<RunError> for ProcessFailure {
    fn from(error: RunError) -> Self {
        if matches!(error, RunError::Gone) {
            let why = "its first process was killed from outside, or the machine ran out of memory";
            return Self::Sandbox(format!("{error}: {why}"));
        }
        Self::Sandbox(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_sandbox::{Plan, Surroundings, Template};

    fn step(errno: Errno) -> StartError {
        StartError::Step {
            step: "write".to_owned(),
            source: errno.into(),
        }
    }

    #[test]
    fn what_the_machine_ran_out_of_is_no_lack_of_walls() {
        for (errno, want) in [
            (Errno::NOSPC, Some(Lack::Disk)),
            (Errno::MFILE, Some(Lack::Descriptors)),
            (Errno::AGAIN, Some(Lack::Other)),
            (Errno::PERM, None),
        ] {
            let failure = ProcessFailure::from(step(errno));
            let lack = if let ProcessFailure::NoRoom { lack, .. } = failure {
                Some(lack)
            } else {
                None
            };
            assert_eq!(lack, want, "{errno}");
        }
    }

    #[test]
    fn every_reason_is_told_in_one_line_and_with_a_way_out() {
        let template = Template::find("code-executor").unwrap();
        let around = Surroundings::default();
        let plan = Plan::builder(template, &around).read("/proc").read("/sys");
        let refused = ProcessFailure::from(plan.build().unwrap_err());
        for (failure, begins, reasons) in [
            (refused, "the sandbox plan is refused: read: ", 2),
            (
                ProcessFailure::from(RunError::Gone),
                "the sandbox ended unexpectedly: ",
                1,
            ),
            (
                ProcessFailure::from(step(Errno::NOSPC)),
                "cannot start a sandbox: ",
                1,
            ),
        ] {
            let told = failure.to_string();
            assert!(told.starts_with(begins), "{told}");
            assert!(!told.contains('\n'), "{told}");
            assert_eq!(told.split("; ").count(), reasons, "{told}");
            assert!(failure.hint().is_some(), "{told}");
        }
    }
}

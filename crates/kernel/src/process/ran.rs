//! How a command ended, as callers, the log and the shell are told.

use airlock_core::limits;
use airlock_sandbox::launch::{Ended, NotStarted, Refusal};
use airlock_sandbox::lifecycle::Outcome;
use airlock_sanitise::Sanitiser;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A limit a command went over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitHit {
    /// Its time.
    Duration,
    /// Its memory.
    Memory,
    /// Its processes and threads.
    Pids,
    /// Its output.
    Output,
    /// The size of one file.
    FileSize,
}

impl LimitHit {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Duration => "duration",
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Output => "output",
            Self::FileSize => "file_size",
        }
    }
}

/// A change to a stage that policy does not let stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutBack {
    /// Where, relative to the workspace.
    pub path: String,
    /// What it would have been: `fs.write`, `fs.delete` or `fs.move`.
    pub change: Cow<'static, str>,
    /// Why not.
    pub reason: String,
    /// Whether an earlier run did it, which was cut off before it was judged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub earlier: bool,
}

/// How a command ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ran {
    /// How.
    pub outcome: Outcome,
    /// Why its program was not even started.
    pub not_started: Option<NotStarted>,
    /// How long it took, in milliseconds.
    pub wall_ms: u64,
    /// The most memory it used, where that is known.
    pub peak_memory: Option<u64>,
    /// What it was kept from.
    pub refusals: Vec<Refusal>,
    /// The stage it wrote to.
    pub stage: Option<String>,
    /// How many files and directories that stage changes.
    pub changes: Option<u64>,
    /// What of its changes was put back.
    pub put_back: Vec<PutBack>,
    /// Which walls stood and which limits held.
    pub report: serde_json::Value,
    /// The sandbox.
    pub sandbox: String,
}

impl Ran {
    pub(super) fn new(ended: Ended, report: serde_json::Value, sandbox: &str) -> Self {
        Self {
            outcome: ended.outcome,
            not_started: ended.not_started,
            wall_ms: u64::try_from(ended.wall.as_millis()).unwrap_or(u64::MAX),
            peak_memory: ended.peak_memory,
            refusals: ended.refusals,
            stage: None,
            changes: None,
            put_back: Vec::new(),
            report,
            sandbox: sandbox.to_owned(),
        }
    }

    /// Takes secrets out of what was named by the command or by whoever asked for it. The report is
    /// the kernel's own words.
    pub(crate) fn clean(&mut self, sanitiser: &Sanitiser) {
        for refusal in &mut self.refusals {
            refusal.path = sanitiser.path(&refusal.path.to_string_lossy()).into();
            refusal.denial = sanitiser.path(&refusal.denial);
        }
        for back in &mut self.put_back {
            back.path = sanitiser.path(&back.path);
            back.reason = sanitiser.line(&back.reason, 2 * limits::SUMMARY_CHARS);
        }
    }

    /// The limit that ended it.
    pub const fn limit(&self) -> Option<LimitHit> {
        match self.outcome {
            Outcome::TimedOut => Some(LimitHit::Duration),
            Outcome::OutOfMemory => Some(LimitHit::Memory),
            Outcome::TooManyProcesses => Some(LimitHit::Pids),
            Outcome::TooMuchOutput => Some(LimitHit::Output),
            Outcome::FileTooLarge => Some(LimitHit::FileSize),
            Outcome::Exited(_) | Outcome::Signalled(_) | Outcome::Cancelled => None,
        }
    }

    /// The command's own exit code, if it came to its end by itself.
    pub(crate) fn exited(&self) -> Option<i32> {
        match self.outcome {
            Outcome::Exited(code) => Some(i32::from(code)),
            Outcome::Signalled(_)
            | Outcome::TimedOut
            | Outcome::OutOfMemory
            | Outcome::TooManyProcesses
            | Outcome::TooMuchOutput
            | Outcome::FileTooLarge
            | Outcome::Cancelled => None,
        }
    }

    /// The exit code a shell sees: the command's own, 128 and a signal's number, or 124 for a
    /// limit.
    pub const fn exit(&self) -> u8 {
        if let Some(why) = self.not_started {
            return match why {
                NotStarted::NotFound => 127,
                NotStarted::NotExecutable | NotStarted::TooLong | NotStarted::Other(_) => 126,
                NotStarted::NoDirectory => 125,
            };
        }
        match self.outcome {
            Outcome::Exited(code) => code,
            Outcome::Signalled(number) => 128_u8.saturating_add(number),
            Outcome::TimedOut
            | Outcome::OutOfMemory
            | Outcome::TooManyProcesses
            | Outcome::TooMuchOutput
            | Outcome::FileTooLarge => 124,
            Outcome::Cancelled => 130,
        }
    }

    /// One word for how it ended.
    pub const fn word(&self) -> &'static str {
        if self.not_started.is_some() {
            return "not_started";
        }
        match self.outcome {
            Outcome::Exited(_) => "exited",
            Outcome::Signalled(_) => "signalled",
            Outcome::TimedOut => "timed_out",
            Outcome::OutOfMemory => "out_of_memory",
            Outcome::TooManyProcesses => "too_many_processes",
            Outcome::TooMuchOutput => "too_much_output",
            Outcome::FileTooLarge => "file_too_large",
            Outcome::Cancelled => "cancelled",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_end_has_its_exit_code() {
        for (outcome, not_started, want) in [
            (Outcome::Exited(0), None, 0),
            (Outcome::Exited(3), None, 3),
            (Outcome::Exited(255), None, 255),
            (Outcome::Signalled(2), None, 130),
            (Outcome::Signalled(9), None, 137),
            (Outcome::TimedOut, None, 124),
            (Outcome::OutOfMemory, None, 124),
            (Outcome::TooManyProcesses, None, 124),
            (Outcome::TooMuchOutput, None, 124),
            (Outcome::FileTooLarge, None, 124),
            (Outcome::Cancelled, None, 130),
            (Outcome::Exited(127), Some(NotStarted::NotFound), 127),
            (Outcome::Exited(126), Some(NotStarted::NotExecutable), 126),
            (Outcome::Exited(126), Some(NotStarted::TooLong), 126),
            (Outcome::Exited(126), Some(NotStarted::Other(5)), 126),
            (Outcome::Exited(125), Some(NotStarted::NoDirectory), 125),
        ] {
            let ended = Ended {
                outcome,
                not_started,
                wall: Duration::ZERO,
                stdout: 0,
                stderr: 0,
                peak_memory: None,
                refusals: Vec::new(),
            };
            let ran = Ran::new(ended, serde_json::Value::Null, "x");
            assert_eq!(ran.exit(), want, "{outcome:?} {not_started:?}");
            let limited = want == 124;
            assert_eq!(ran.limit().is_some(), limited, "{outcome:?}");
        }
    }
}

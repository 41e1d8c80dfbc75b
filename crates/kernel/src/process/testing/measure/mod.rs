//! Runs of the tests that are measured, or made with other contents in some files.
//!
//! The command that measures is Airlock's own, like the one that does not: the runner's own
//! measuring where it has one, else the interpreter's. The report stays in a directory of the
//! sandbox and comes out behind the tests' output, between marks that no test is told; a report that
//! a test leaves in the workspace is not looked at.
//!
//! Guarantee: a run that cannot be measured is made all the same, and says what was missing.
//!
//! Non-guarantee: tests run in the process that is measured. One that goes for the interpreter's
//! own noting can falsify it, so lines count as tested only where a mutation of them is noticed.

use super::super::job::{Job, Work};
use super::{Framework, python};
use airlock_core::Span;

const RUN: &str = include_str!("run.sh");
const CARGO: &str = include_str!("cargo.sh");
const NODE: &str = include_str!("node.sh");
const NODE_REPORT: &str = include_str!("node.js");
const PYTEST: &str = include_str!("pytest.py");

/// Longest report that is taken; the script hands on one byte more.
const BYTES: usize = 8 * 1024 * 1024;

/// The most that a measured run prints beyond what its tests do.
pub(in crate::process) const BESIDE: usize = BYTES + 1024;

/// The lines of an lcov report that are looked at.
const LCOV: &str = "^(SF:|DA:|end_of_record)";
/// Those of a profile of Go's.
const PROFILE: &str = "^(mode:|[^:]+:[0-9]+[.][0-9]+,)";

/// Why there is no coverage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Rust's toolchain has no tools to read what its instrumentation leaves.
    LlvmTools,
    /// Node is too old.
    Node,
    /// The project's own script runs nothing that could be measured.
    Script,
    /// The configured command left no report.
    Command,
    /// The run left none: most often it did not come so far.
    Report,
    /// It is longer than any that is taken, or no report.
    Unreadable,
    /// It tells of no source of the workspace.
    NoSource,
}

impl Missing {
    /// What is missing.
    pub(crate) const fn why(self) -> &'static str {
        match self {
            Self::LlvmTools => "the Rust toolchain has no llvm-tools, which read what it measured",
            Self::Node => "node is older than version 20, which is the first that can be measured",
            Self::Script => "the project's test script runs no file of the project in node itself",
            Self::Command => "the configured command left no lcov report",
            Self::Report => "the tests did not come so far that something was measured",
            Self::Unreadable => "the coverage report is too long, or none",
            Self::NoSource => "the coverage report tells of no source of this workspace",
        }
    }

    /// How to come by it.
    pub(crate) const fn fix(self) -> &'static str {
        match self {
            Self::LlvmTools => {
                "rustup component add llvm-tools (and, if you like, cargo install cargo-llvm-cov)"
            }
            Self::Node => "install node 20 or newer",
            Self::Script => {
                "test with `node --test` or mocha, or let the policy's `phases.test_command` write lcov.info"
            }
            Self::Command => "let it write lcov.info or coverage/lcov.info",
            Self::Report => "make the tests compile and load",
            Self::Unreadable => "look at what the tests write",
            Self::NoSource => "name the source in the policy's `phases.source_paths`",
        }
    }

    fn told(code: &str) -> Self {
        match code {
            "missing:llvm-tools" => Self::LlvmTools,
            "missing:node" => Self::Node,
            "missing:script" => Self::Script,
            _ => Self::Report,
        }
    }
}

/// One more way to run the tests of a job.
#[derive(Debug, Default)]
pub(crate) struct Variation {
    /// Whether it is measured.
    pub(crate) measured: bool,
    /// Whether it is left out where nothing can be measured.
    pub(crate) or_nothing: bool,
    /// Files with what is in their place.
    pub(crate) files: Vec<(String, String)>,
    /// The longest it may take, where that is less than what the job itself may.
    pub(crate) longest: Option<Span>,
    /// The only tests that are run, by what the runner calls them; none: all.
    pub(crate) only: Vec<String>,
}

impl Job {
    /// Whether the tests called `only` can be run without the others.
    pub(crate) fn is_filtered(&self, only: &[String]) -> bool {
        match &self.work {
            Work::Tests(reading) => reading.narrowed(only).is_some(),
            Work::Command | Work::Files(_) | Work::Git(_) | Work::Unavailable(_) => false,
        }
    }

    /// The same run of the tests, varied; the job itself if it runs none.
    pub(crate) fn varied(&self, variation: &Variation) -> Self {
        let Work::Tests(reading) = &self.work else {
            return self.clone();
        };
        let mut limits = self.limits;
        limits.duration = match (limits.duration, variation.longest) {
            (Some(own), Some(longest)) => Some(own.min(longest)),
            (own, longest) => own.or(longest),
        };
        let mut reading = reading.clone();
        reading.coverage = variation.measured;
        reading.mark = None;
        if let Some(narrowed) = reading.narrowed(&variation.only) {
            reading.plain = narrowed;
            reading.whole = false;
        }
        let own = variation.measured && !reading.configured;
        if !own && variation.files.is_empty() {
            return Self {
                command: reading.plain.clone(),
                work: Work::Tests(reading),
                stdin: None,
                limits,
                ..self.clone()
            };
        }
        let directory = format!("/tmp/airlock-{:032x}", rand::random::<u128>());
        let mark = own.then(|| format!("{:032x}", rand::random::<u128>()));
        let keep = match reading.framework {
            Framework::Go => PROFILE,
            Framework::Cargo | Framework::Pytest | Framework::Node => LCOV,
        };
        let mut command = words(&["sh", "-c", RUN, "tests", &directory, keep]);
        let mut stdin = format!("{}\n", mark.as_deref().unwrap_or_default());
        for (path, text) in &variation.files {
            command.push(format!("./{path}"));
            command.push(text.len().to_string());
            stdin.push_str(text);
        }
        command.push("--".to_owned());
        command.extend(if own {
            measuring(&reading, &directory, variation.or_nothing)
        } else {
            reading.plain.clone()
        });
        reading.mark = mark;
        Self {
            command,
            stdin: Some(stdin),
            work: Work::Tests(reading),
            limits,
            ..self.clone()
        }
    }
}

impl super::Reading {
    /// The command that runs the tests called `only`; none if nothing can be asked for by name.
    fn narrowed(&self, only: &[String]) -> Option<Vec<String>> {
        if self.configured || only.is_empty() {
            return None;
        }
        super::detect::narrowed(self.framework, &self.plain, only)
    }

    /// The command that builds the tests and runs none; none if there is no such.
    pub(super) fn built(&self) -> Option<Vec<String>> {
        if self.configured {
            return None;
        }
        super::detect::built(self.framework, &self.plain)
    }
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|word| (*word).to_owned()).collect()
}

/// The command that measures what `reading` runs, and leaves a report in `directory`.
fn measuring(reading: &super::Reading, directory: &str, or_nothing: bool) -> Vec<String> {
    let report = format!("{directory}/report");
    let plain = &reading.plain;
    let otherwise = if or_nothing { "nothing" } else { "plain" };
    let (mut command, from) = match reading.framework {
        Framework::Cargo => {
            let words = words(&["sh", "-c", CARGO, "cargo", &report, otherwise]);
            (words, 0)
        }
        Framework::Node => {
            let script = ["sh", "-c", NODE, "node", &report, otherwise, NODE_REPORT];
            (words(&script), 0)
        }
        Framework::Go => {
            let profile = format!("-coverprofile={report}");
            (words(&["go", "test", &profile, "-coverpkg=./..."]), 2)
        }
        Framework::Pytest => {
            let module = plain.iter().position(|word| word == "-m").unwrap_or(0);
            let mut command = plain.get(..module).unwrap_or_default().to_vec();
            let script = format!("{}{PYTEST}", python::OUTSIDE);
            command.extend(words(&["-c", &script, &report]));
            (command, module + 2)
        }
    };
    command.extend(plain.iter().skip(from).cloned());
    command
}

/// What a run printed, parted from the report between its marks.
pub(in crate::process) fn parted(stdout: &str, mark: &str) -> (String, Result<String, Missing>) {
    let line = format!("\n{mark}\n");
    let found = stdout.find(&line).and_then(|first| {
        let rest = stdout.get(first + line.len()..)?;
        let end = rest.rfind(&line)?;
        Some((first, rest.get(..end)?, rest.get(end + line.len()..)?))
    });
    let Some((first, report, after)) = found else {
        return (stdout.to_owned(), Err(Missing::Report));
    };
    let printed = stdout.get(..first).unwrap_or_default();
    let report = if report.len() > BYTES {
        Err(Missing::Unreadable)
    } else if report.is_empty() || report.starts_with("missing:") {
        Err(Missing::told(report))
    } else {
        Ok(report.to_owned())
    };
    (format!("{printed}{after}"), report)
}

#[cfg(test)]
mod tests;

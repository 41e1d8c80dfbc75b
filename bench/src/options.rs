//! The command line.

use crate::cases;
use crate::failure::Failure;
use airlock_audit::Depth;
use std::path::PathBuf;

pub(crate) const USAGE: &str = "\
usage: cargo xtask bench [--only NAME]... [--quick] [--strict]
       cargo xtask bench --list
       cargo xtask bench --setup-peers

  --only NAME   measure this group only; may be repeated
  --quick       fewer rounds and smaller inputs: for a look, not for a claim
  --strict      exit with 1 if a target is not met
  --list        the groups there are
  --setup-peers install the peers that come from npm, into the target directory

A complete run (neither --only nor --quick) writes bench/RESULTS.md.";

/// What the command line asks for.
pub(crate) enum Task {
    Help,
    List,
    /// Not for people: verifies a log in a process whose memory holds nothing else.
    VerifyInChild(PathBuf, Depth),
    /// Not for people: measures in a process that may belong to another user.
    Worker {
        task: String,
        home: PathBuf,
        arguments: Vec<String>,
    },
    Measure(Options),
}

/// How to measure.
#[derive(Debug, Default)]
pub(crate) struct Options {
    only: Vec<String>,
    pub(crate) quick: bool,
    pub(crate) strict: bool,
}

impl Options {
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted == name)
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.only.is_empty() && !self.quick
    }

    /// `full`, or `quick` where a look is enough.
    pub(crate) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

pub(crate) fn parse(arguments: &[String]) -> Result<Task, Failure> {
    let mut options = Options::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--help" | "-h" => return Ok(Task::Help),
            "--list" => return Ok(Task::List),
            "--quick" => options.quick = true,
            "--strict" => options.strict = true,
            "--only" => options.only.push(group(rest.next())?),
            "--verify-in-child" => return in_child(rest.next(), Depth::Entries),
            "--verify-digests-in-child" => return in_child(rest.next(), Depth::Digests),
            "--worker" => return worker(rest.cloned().collect()),
            other => return Err(Failure::new(format!("unknown argument `{other}`\n{USAGE}"))),
        }
    }
    Ok(Task::Measure(options))
}

fn worker(mut words: Vec<String>) -> Result<Task, Failure> {
    if words.len() < 2 {
        return Err(Failure::new("which task, and where?"));
    }
    let arguments = words.split_off(2);
    let mut words = words.into_iter();
    let (Some(task), Some(home)) = (words.next(), words.next()) else {
        return Err(Failure::new("which task, and where?"));
    };
    Ok(Task::Worker {
        task,
        home: home.into(),
        arguments,
    })
}

fn in_child(directory: Option<&String>, depth: Depth) -> Result<Task, Failure> {
    let directory = directory.ok_or_else(|| Failure::new("which directory?"))?;
    Ok(Task::VerifyInChild(directory.into(), depth))
}

fn group(name: Option<&String>) -> Result<String, Failure> {
    let name = name.ok_or_else(|| Failure::new("`--only` needs a name; `--list` shows them"))?;
    if cases::ALL.iter().any(|case| case.name == name) {
        Ok(name.clone())
    } else {
        Err(Failure::new(format!(
            "there is no group `{name}`; `--list` shows them"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task, Failure> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    #[test]
    fn only_a_whole_run_is_complete() {
        for (line, complete) in [
            ("", true),
            ("--strict", true),
            ("--quick", false),
            ("--only decision", false),
        ] {
            let Ok(Task::Measure(options)) = parsed(line) else {
                panic!("`{line}` measures");
            };
            assert_eq!(options.is_complete(), complete, "{line}");
        }
    }

    #[test]
    fn a_group_that_does_not_exist_is_refused_rather_than_measured_as_nothing() {
        for line in ["--only", "--only nothing", "--fast", "decision"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}

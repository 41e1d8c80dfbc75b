//! The command line of the fuzz driver.

use airlock_fuzz::{Budget, Failure, Reason, TARGETS, Target, find, fuzz, keep, replay};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "\
usage: airlock-fuzz TARGET|all [--iterations N | --seconds N] [--seed S]
       airlock-fuzz replay TARGET FILE
       airlock-fuzz --list";

enum Command {
    List,
    Fuzz {
        targets: Vec<&'static Target>,
        budget: Option<Budget>,
        seed: u64,
    },
    Replay {
        target: &'static Target,
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match parse(&arguments) {
        Err(problem) => {
            complain(&format!("error: {problem}\n{USAGE}"));
            return ExitCode::from(2);
        }
        Ok(Command::List) => {
            for target in TARGETS {
                say(target.name);
            }
            Ok(())
        }
        Ok(Command::Fuzz {
            targets,
            budget,
            seed,
        }) => targets
            .into_iter()
            .try_for_each(|target| hunt(target, budget, seed)),
        Ok(Command::Replay { target, file }) => replay_file(target, &file),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            complain(&problem);
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Result<Command, String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--list"] => Ok(Command::List),
        ["replay", target, file] => Ok(Command::Replay {
            target: named(target)?,
            file: PathBuf::from(file),
        }),
        ["replay", ..] | [] => Err("a target is missing".to_owned()),
        [target, options @ ..] => {
            let targets = match *target {
                "all" => TARGETS.iter().collect(),
                name => vec![named(name)?],
            };
            let (budget, seed) = options_of(options)?;
            Ok(Command::Fuzz {
                targets,
                budget,
                seed,
            })
        }
    }
}

fn options_of(mut words: &[&str]) -> Result<(Option<Budget>, u64), String> {
    let (mut budget, mut seed) = (None, 1);
    while let [option, rest @ ..] = words {
        let [value, rest @ ..] = rest else {
            return Err(format!("`{option}` needs a value"));
        };
        let number = value
            .parse::<u64>()
            .map_err(|_| format!("`{value}` is not a number"))?;
        match *option {
            "--iterations" => budget = Some(Budget::Iterations(number)),
            "--seconds" => budget = Some(Budget::Time(Duration::from_secs(number))),
            "--seed" => seed = number,
            other => return Err(format!("unknown option `{other}`")),
        }
        words = rest;
    }
    Ok((budget, seed))
}

fn named(name: &str) -> Result<&'static Target, String> {
    find(name).ok_or_else(|| {
        let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        format!("no target `{name}`; there are: {}", known.join(", "))
    })
}

fn hunt(target: &Target, budget: Option<Budget>, seed: u64) -> Result<(), String> {
    let budget = budget.unwrap_or(Budget::Iterations(target.iterations));
    match fuzz(target, budget, seed) {
        Ok(stats) => {
            say(&format!(
                "{}: {} runs, nothing found",
                target.name, stats.runs
            ));
            Ok(())
        }
        Err(failure) => Err(kept(target, &failure)),
    }
}

/// Keeps the input that failed and says what happened and how to see it again.
fn kept(target: &Target, failure: &Failure) -> String {
    let replay = keep(target.name, &failure.input);
    let what = describe(&failure.reason);
    format!(
        "{}: failed after {} runs: {what}\n{replay}",
        target.name, failure.runs
    )
}

fn replay_file(target: &Target, file: &Path) -> Result<(), String> {
    let input = std::fs::read(file)
        .map_err(|error| format!("cannot read `{}`: {error}", file.display()))?;
    replay(target, &input)
        .map_err(|failure| format!("{}: {}", target.name, describe(&failure.reason)))?;
    say(&format!("{}: holds", target.name));
    Ok(())
}

fn describe(reason: &Reason) -> String {
    match reason {
        Reason::Panic(message) => message.clone(),
        Reason::Slow(took) => format!("one input took {:.1} s", took.as_secs_f64()),
    }
}

#[expect(
    clippy::print_stdout,
    reason = "a command line reports on standard output"
)]
fn say(text: &str) {
    println!("{text}");
}

#[expect(
    clippy::print_stderr,
    reason = "a command line complains on standard error"
)]
fn complain(text: &str) {
    eprintln!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    #[test]
    fn a_budget_and_a_seed_can_be_given() {
        let Ok(Command::Fuzz {
            targets,
            budget,
            seed,
        }) = parsed("units --seconds 3 --seed 9")
        else {
            panic!("not taken");
        };
        assert_eq!(targets.len(), 1);
        assert_eq!(budget, Some(Budget::Time(Duration::from_secs(3))));
        assert_eq!(seed, 9);
        let Ok(Command::Fuzz { targets, .. }) = parsed("all") else {
            panic!("not taken");
        };
        assert_eq!(targets.len(), TARGETS.len());
    }

    #[test]
    fn what_is_not_understood_is_refused_with_the_reason() {
        for (line, part) in [
            ("", "missing"),
            ("replay units", "missing"),
            ("nothing", "units"),
            ("units --seconds", "needs a value"),
            ("units --seconds soon", "not a number"),
            ("units --turbo 1", "unknown option"),
        ] {
            let problem = parsed(line).err().unwrap_or_default();
            assert!(problem.contains(part), "{line}: {problem}");
        }
    }
}

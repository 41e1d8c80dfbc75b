//! `test`: set-up, then every test of the workspace, then one line with the totals.
//!
//! The fuzz budget is a test of `airlock-fuzz`, so it runs on the same build and counts as well.
//! Without arguments test programs run two at a time, and the MCP server is held against the public
//! suites, too.

use crate::mcp;
use crate::programs::{self, Programs};
use crate::setup;
use crate::shell::{
    Failure, cargo, complain, run as run_command, say, target_directory, unstarted,
};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// Tests that passed and failed, over every test binary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Totals {
    passed: u64,
    failed: u64,
}

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if let Err(failure) = setup::run(&[]) {
        // What is missing fails the tests that need it, each with its reason; others can be run.
        complain(&failure.to_string());
    }
    let (totals, succeeded) = if arguments.is_empty() {
        everything()?
    } else {
        watch(&mut cargo(&command_line(arguments)))?
    };
    say(&format!(
        "{} passed, {} failed",
        totals.passed, totals.failed
    ));
    verdict(totals, succeeded)
}

/// Every test there is, and whether all that was to run did so.
fn everything() -> Result<(Totals, bool), Failure> {
    let (mut totals, mut succeeded) = in_programs()?;
    let (in_docs, docs_succeeded) = watch(&mut cargo(&command_line(&["--doc".to_owned()])))?;
    succeeded &= docs_succeeded;
    let others = mcp::run_with_tests();
    totals.passed += in_docs.passed + others.passed;
    totals.failed += in_docs.failed + others.failed;
    Ok((totals, succeeded))
}

/// Builds the test programs and runs them.
fn in_programs() -> Result<(Totals, bool), Failure> {
    let lost = |error: io::Error| Failure::new(format!("cannot prepare the tests: {error}"));
    let place = target_directory();
    std::fs::create_dir_all(&place).map_err(lost)?;
    let noted = place.join("test-programs");
    // A run that was broken off may have left one.
    if let Err(error) = std::fs::remove_file(&noted)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(lost(error));
    }
    // First all that tests may call, examples too: what is named below is only what is tested itself.
    run_command(cargo(&command_line(&[])).arg("--no-run"))?;
    let noting = std::env::current_exe().map_err(lost)?;
    let mut listing = cargo(&command_line(&[]));
    listing.args(["--lib", "--bins", "--tests"]);
    listing
        .arg("--config")
        .arg(programs::runner(&noting, &noted));
    run_command(&mut listing)?;
    let (mut totals, mut succeeded) = (Totals::default(), true);
    Programs::take(&noted)?.run(&place, |ran| {
        ran.show();
        ran.output.lines().for_each(|line| count(line, &mut totals));
        succeeded &= ran.status.success();
    })?;
    Ok((totals, succeeded))
}

/// All packages unless some are named; every binary even after a failure, so that the totals are.
fn command_line(arguments: &[String]) -> Vec<&str> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let names_package = words
        .iter()
        .any(|word| word.starts_with("-p") || word.starts_with("--package"));
    let mut line = vec!["test", "--no-fail-fast"];
    if !names_package {
        line.push("--workspace");
    }
    line.extend(words);
    line
}

/// A run without a test proves nothing, however well it ended.
fn verdict(totals: Totals, succeeded: bool) -> Result<(), Failure> {
    if totals.failed > 0 {
        return Err(Failure::new(format!("{} tests failed", totals.failed)));
    }
    if !succeeded {
        return Err(Failure::new(
            "`cargo test` failed outside of a test, see above",
        ));
    }
    if totals.passed == 0 {
        return Err(Failure::new("no test ran").hint("does the filter match a test's name?"));
    }
    Ok(())
}

/// Runs `command`, passes its output on as it comes, and counts.
fn watch(command: &mut Command) -> Result<(Totals, bool), Failure> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| unstarted(command, &error))?;
    let lost = |error: io::Error| Failure::new(format!("lost the output of the tests: {error}"));
    let mut totals = Totals::default();
    if let Some(output) = child.stdout.take() {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line).map_err(lost)? > 0 {
            io::stdout().write_all(&line).map_err(lost)?;
            count(&String::from_utf8_lossy(&line), &mut totals);
            line.clear();
        }
    }
    let status = child.wait().map_err(lost)?;
    Ok((totals, status.success()))
}

/// Adds what a `test result:` line says; other lines say nothing.
fn count(line: &str, totals: &mut Totals) {
    let Some((_, result)) = line.trim().split_once("test result: ") else {
        return;
    };
    for part in result.split(['.', ';']) {
        match part.trim().split_once(' ') {
            Some((number, "passed")) => totals.passed += number.parse().unwrap_or(0),
            Some((number, "failed")) => totals.failed += number.parse().unwrap_or(0),
            Some(_) | None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
running 2 tests
test a ... ok
test b ... FAILED
test result: FAILED. 11 passed; 1 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.00s
   Doc-tests x
test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s
5 passed; 5 failed
";

    #[test]
    fn totals_are_the_sum_over_binaries() {
        let mut totals = Totals::default();
        OUTPUT.lines().for_each(|line| count(line, &mut totals));
        assert_eq!(
            totals,
            Totals {
                passed: 13,
                failed: 1
            }
        );
    }

    #[test]
    fn only_a_run_with_passing_tests_and_no_failure_is_good() {
        for (passed, failed, succeeded, good) in [
            (3, 0, true, true),
            (0, 0, true, false),
            (3, 1, true, false),
            (3, 0, false, false),
        ] {
            let outcome = verdict(Totals { passed, failed }, succeeded);
            assert_eq!(outcome.is_ok(), good, "{passed} {failed} {succeeded}");
        }
    }

    #[test]
    fn arguments_go_to_cargo_test() {
        let line = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            command_line(&words).join(" ")
        };
        assert_eq!(line(&[]), "test --no-fail-fast --workspace");
        assert_eq!(line(&["globs"]), "test --no-fail-fast --workspace globs");
        assert_eq!(line(&["-p", "xtask"]), "test --no-fail-fast -p xtask");
    }
}

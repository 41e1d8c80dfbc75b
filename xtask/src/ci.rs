//! `ci`: every check, cheap ones first, stopping at the first that fails.

use crate::shell::{Failure, cargo, command, complain, output, root, run as run_command, say};
use crate::{test, tidy};
use std::time::Instant;

/// What a build of everything from nothing takes, in mebibytes, with some to spare.
const ROOM: u64 = 10 * 1024;

struct Step {
    name: &'static str,
    run: fn() -> Result<(), Failure>,
}

const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        run: || run_command(&mut cargo(&["fmt", "--all", "--check"])),
    },
    Step {
        name: "tidy",
        run: || tidy::run(&[]),
    },
    Step {
        name: "clippy",
        run: clippy,
    },
    Step {
        name: "docs",
        run: docs,
    },
    Step {
        name: "test",
        run: || test::run(&[]),
    },
];

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let steps = chosen(arguments)?;
    let begun = Instant::now();
    // A full disk shows as a linker that crashes, ten minutes from here.
    if let Some(free) = free_mebibytes().filter(|free| *free < ROOM) {
        complain(&format!(
            "warning: {free} MiB are free here, and a build from nothing takes about {ROOM} MiB"
        ));
    }
    for step in &steps {
        say(&format!("==> {}", step.name));
        let step_begun = Instant::now();
        let outcome = (step.run)();
        let took = step_begun.elapsed().as_secs_f64();
        if let Err(failure) = outcome {
            complain(&failure.to_string());
            return Err(
                Failure::new(format!("{} failed after {took:.1} s", step.name))
                    .hint(format!("run it alone with `cargo xtask ci {}`", step.name)),
            );
        }
        say(&format!("    {}: ok in {took:.1} s", step.name));
    }
    let total = begun.elapsed().as_secs_f64();
    say(&format!(
        "ci: {} of {} steps ok in {total:.1} s",
        steps.len(),
        STEPS.len()
    ));
    Ok(())
}

/// What the disk below the repository has left; none if that cannot be told.
fn free_mebibytes() -> Option<u64> {
    let mut df = command("df");
    df.args(["-P", "-m"]).arg(root());
    parse_free(&output(&mut df).ok()?)
}

/// The fourth column of the line after the heading.
fn parse_free(table: &str) -> Option<u64> {
    let line = table.lines().nth(1)?;
    line.split_whitespace().nth(3)?.parse().ok()
}

/// The steps named, or all, always in their own order.
fn chosen(names: &[String]) -> Result<Vec<&'static Step>, Failure> {
    let known = || STEPS.iter().map(|step| step.name);
    if let Some(name) = names.iter().find(|name| !known().any(|step| step == *name)) {
        let all: Vec<&str> = known().collect();
        return Err(Failure::usage(format!("no step `{name}`"))
            .hint(format!("the steps are {}", all.join(", "))));
    }
    let wanted = |step: &&Step| names.is_empty() || names.iter().any(|name| name == step.name);
    Ok(STEPS.iter().filter(wanted).collect())
}

fn clippy() -> Result<(), Failure> {
    let arguments = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    run_command(&mut cargo(&arguments))
}

/// API documentation without a warning, broken links included. Links of Markdown files are
/// `tidy`'s. With the examples, which need what tests need: dependencies get the same features as
/// for clippy, and are not checked a second time.
fn docs() -> Result<(), Failure> {
    let targets = ["--lib", "--bins", "--examples"];
    let mut command = cargo(&["doc", "--workspace", "--no-deps"]);
    command.args(targets);
    run_command(command.env("RUSTDOCFLAGS", "-D warnings"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(arguments: &[&str]) -> Result<Vec<&'static str>, Failure> {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        chosen(&arguments).map(|steps| steps.iter().map(|step| step.name).collect())
    }

    #[test]
    fn free_space_is_read_off_the_table() {
        let table = "Filesystem 1048576-blocks Used Available Capacity Mounted on\n\
                     /dev/sda 257023 30000 61234 33% /\n";
        assert_eq!(parse_free(table), Some(61_234));
        assert_eq!(parse_free("df: no such file"), None);
    }

    #[test]
    fn no_name_means_every_step() {
        assert_eq!(
            names(&[]).unwrap(),
            ["fmt", "tidy", "clippy", "docs", "test"]
        );
    }

    #[test]
    fn named_steps_run_in_their_own_order() {
        assert_eq!(names(&["test", "fmt"]).unwrap(), ["fmt", "test"]);
    }

    #[test]
    fn an_unknown_step_is_refused_with_the_list() {
        let failure = names(&["fmt", "lint"]).unwrap_err();
        assert_eq!(failure.code(), 2);
        assert!(failure.to_string().contains("`lint`"));
        assert!(failure.to_string().contains("clippy"));
    }
}

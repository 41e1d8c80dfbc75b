//! `fuzz`: hands its arguments to the driver of `airlock-fuzz`.

use crate::shell::{Failure, cargo, run as run_command};

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    run_command(&mut cargo(&command_line(arguments)))
}

/// A hunt by time is worth an optimised build; a count of runs is what the tests do, and uses
/// what they have already built.
fn command_line(arguments: &[String]) -> Vec<&str> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut line = vec!["run", "--quiet", "--package", "airlock-fuzz"];
    if words.contains(&"--seconds") {
        line.push("--release");
    }
    line.push("--");
    let names_target = words.first().is_some_and(|word| !word.starts_with("--"));
    if !names_target && words != ["--list"] {
        line.push("all");
    }
    line.extend(words);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_hunt_by_time_is_optimised() {
        for (given, want) in [
            ("", "run --quiet --package airlock-fuzz -- all"),
            ("--list", "run --quiet --package airlock-fuzz -- --list"),
            (
                "--seed 3",
                "run --quiet --package airlock-fuzz -- all --seed 3",
            ),
            (
                "units --iterations 9",
                "run --quiet --package airlock-fuzz -- units --iterations 9",
            ),
            (
                "units --seconds 9",
                "run --quiet --package airlock-fuzz --release -- units --seconds 9",
            ),
        ] {
            let given: Vec<String> = given.split_whitespace().map(str::to_owned).collect();
            assert_eq!(command_line(&given).join(" "), want);
        }
    }
}

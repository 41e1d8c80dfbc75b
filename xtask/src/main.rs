//! Project chores: everything CI runs, and what people run by hand. Standard library only, so
//! that the first `cargo xtask` builds in a second.

mod bench;
mod ci;
mod escape;
mod fuzz;
mod llvm_tools;
mod manifest;
mod mcp;
mod programs;
mod setup;
mod shell;
mod stock;
mod suggest;
mod test;
mod tidy;
mod wasm;

use shell::{Failure, complain, say};
use std::process::ExitCode;

/// One subcommand.
struct Chore {
    name: &'static str,
    usage: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<(), Failure>,
}

const CHORES: &[Chore] = &[
    Chore {
        name: "setup",
        usage: "setup [--check]",
        about: "install what the tests need; --check only reports",
        run: setup::run,
    },
    Chore {
        name: "test",
        usage: "test [ARGS...]",
        about: "setup, then all tests with the fuzz budget; ARGS go to `cargo test`",
        run: test::run,
    },
    Chore {
        name: "tidy",
        usage: "tidy",
        about: "rules no compiler checks: layers, file sizes, links, licences, ...",
        run: tidy::run,
    },
    Chore {
        name: "ci",
        usage: "ci [STEP...]",
        about: "fmt, tidy, clippy, docs, test; all of them, or those named",
        run: ci::run,
    },
    Chore {
        name: "escape",
        usage: "escape [--launcher native|bwrap] [--only NAME] [--json] | escape --table",
        about: "attack the sandbox; as root, once more as an ordinary user",
        run: escape::run,
    },
    Chore {
        name: "fuzz",
        usage: "fuzz [TARGET] [--seconds N | --iterations N] [--seed S] | fuzz --list",
        about: "run the fuzz driver; with --seconds on an optimised build",
        run: fuzz::run,
    },
    Chore {
        name: "mcp",
        usage: "mcp",
        about: "the MCP server against the public conformance suite and the Inspector, from npm",
        run: mcp::run,
    },
    Chore {
        name: "wasm",
        usage: "wasm",
        about: "build the Rust example of a Wasm plugin and call it",
        run: wasm::run,
    },
    Chore {
        name: "bench",
        usage: "bench [--only GROUP] [--quick] [--strict] | bench --list | bench --setup-peers",
        about: "measure against peers on an optimised build; bench/README.md says how",
        run: bench::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, rest) = match arguments.split_first() {
        Some((name, rest)) => (name.as_str(), rest),
        None => ("help", [].as_slice()),
    };
    if matches!(name, "help" | "--help" | "-h") {
        say(&help());
        return ExitCode::SUCCESS;
    }
    let outcome = match CHORES.iter().find(|chore| chore.name == name) {
        // Asking what it does must not do it: some of these take many minutes.
        Some(chore) if asks_for_help(rest) => {
            say(&format!(
                "usage: cargo xtask {}\n\n{}",
                chore.usage, chore.about
            ));
            Ok(())
        }
        Some(chore) => (chore.run)(rest),
        // Cargo's to call, and nobody else's.
        None if name == programs::NOTE => programs::note(rest),
        None => Err(unknown(name)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain(&failure.to_string());
            ExitCode::from(failure.code())
        }
    }
}

fn asks_for_help(arguments: &[String]) -> bool {
    let first = arguments.first().map(String::as_str);
    matches!(first, Some("--help" | "-h"))
}

fn help() -> String {
    let mut text = String::from("usage: cargo xtask COMMAND\n");
    for chore in CHORES {
        text.push_str("\n  ");
        text.push_str(chore.usage);
        text.push_str("\n      ");
        text.push_str(chore.about);
    }
    text
}

fn unknown(name: &str) -> Failure {
    let failure = Failure::usage(format!("unknown command `{name}`"));
    match suggest::closest(name, CHORES.iter().map(|chore| chore.name)) {
        Some(near) => failure.hint(format!("did you mean `cargo xtask {near}`?")),
        None => failure.hint("`cargo xtask help` lists the commands".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_command() {
        let help = help();
        for chore in CHORES {
            assert!(help.contains(chore.usage), "{}", chore.name);
            assert!(chore.usage.starts_with(chore.name), "{}", chore.name);
        }
    }

    #[test]
    fn help_is_asked_for_by_the_first_word_alone() {
        let asks = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            asks_for_help(&words)
        };
        assert!(asks(&["--help"]) && asks(&["-h", "--list"]));
        // What follows is for whoever is called.
        assert!(!asks(&[]) && !asks(&["--", "--help"]) && !asks(&["help"]));
    }

    #[test]
    fn a_misspelt_command_is_a_usage_error_with_a_suggestion() {
        let failure = unknown("tset");
        assert_eq!(failure.code(), 2);
        assert!(
            failure.to_string().contains("cargo xtask test"),
            "{failure}"
        );
        assert!(unknown("frobnicate").to_string().contains("help"));
    }
}

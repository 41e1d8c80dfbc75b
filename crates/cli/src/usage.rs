//! Mistakes on the command line, told like every other failure: what, why, fix.
//!
//! clap finds them; its own wording has no JSON form and repeats the argument as it came, control
//! sequences included.

use crate::args::Cli;
use crate::failure::{Failure, Kind};
use airlock_core::closest;
use airlock_kernel::sanitise_line;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error;
use std::ffi::OsString;

/// As much of a mistyped word as helps to recognise it.
const SHOWN: usize = 60;

/// `line` with `run` before a task that stands where a command would: no command has a space in it.
pub(crate) fn spelt_out(mut line: Vec<OsString>) -> Vec<OsString> {
    let mut value_follows = false;
    let at = line.iter().skip(1).position(|word| {
        let is_value = std::mem::take(&mut value_follows);
        value_follows = word == "--workspace" || word == "--color";
        !is_value && !word.as_encoded_bytes().starts_with(b"-")
    });
    if let Some(at) = at.map(|at| at + 1)
        && let Some(word) = line.get(at)
        && word.to_string_lossy().trim().contains(char::is_whitespace)
    {
        line.insert(at, OsString::from("run"));
    }
    line
}

/// The failure that `error` over `line` is; nothing where it is an answer, such as help.
pub(crate) fn failure(error: &clap::Error, line: &[OsString]) -> Option<Failure> {
    let value = || quoted(error, ContextKind::InvalidValue);
    let argument = || quoted(error, ContextKind::InvalidArg);
    let what = match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => return None,
        ErrorKind::InvalidSubcommand => {
            format!(
                "unknown command {}",
                quoted(error, ContextKind::InvalidSubcommand)
            )
        }
        ErrorKind::UnknownArgument if argument().starts_with("`-") => {
            format!("unknown flag {}", argument())
        }
        ErrorKind::UnknownArgument => format!("unexpected argument {}", argument()),
        ErrorKind::InvalidValue if words(error, ContextKind::InvalidValue).is_empty() => {
            format!("{} needs a value", argument())
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            format!("{} is no value for {}", value(), argument())
        }
        ErrorKind::MissingRequiredArgument => format!("{} is missing", argument()),
        ErrorKind::ArgumentConflict => {
            let prior = quoted(error, ContextKind::PriorArg);
            if prior.is_empty() || prior == argument() {
                format!("{} is given more than once", argument())
            } else {
                format!("{} does not go together with {prior}", argument())
            }
        }
        ErrorKind::InvalidUtf8 => "an argument is not UTF-8 text".to_owned(),
        ErrorKind::NoEquals
        | ErrorKind::TooManyValues
        | ErrorKind::TooFewValues
        | ErrorKind::WrongNumberOfValues
        | ErrorKind::MissingSubcommand
        | ErrorKind::Io
        | ErrorKind::Format
        | _ => first_line(error),
    };
    let mut failure = Failure::new(Kind::Usage, what);
    if let (ErrorKind::ValueValidation, Some(cause)) = (error.kind(), error.source()) {
        failure = failure.why(plain(&cause.to_string()));
    }
    Some(with_fixes(failure, error, line))
}

/// A number parser's words, as people say it.
fn plain(cause: &str) -> String {
    match cause {
        "invalid digit found in string" => "it is not a whole number".to_owned(),
        other => sanitise_line(other, 200),
    }
}

fn with_fixes(mut failure: Failure, error: &clap::Error, line: &[OsString]) -> Failure {
    let accepted = words(error, ContextKind::ValidValue);
    let near = suggestions(error, &accepted);
    if !near.is_empty() {
        let near: Vec<String> = near.iter().map(|word| format!("`{word}`")).collect();
        failure = failure.fix(format!("did you mean {}?", near.join(" or ")));
    } else if !accepted.is_empty() {
        failure = failure.fix(format!("use one of {}", accepted.join(", ")));
    }
    if error.kind() == ErrorKind::UnknownArgument && says_yes(error) {
        failure = failure.fix("leave it out: a yes is typed at the terminal, and no flag says it");
    }
    let usage = words(error, ContextKind::Usage).concat();
    let usage = usage.trim().trim_start_matches("Usage:").trim();
    if error.kind() == ErrorKind::MissingRequiredArgument && !usage.is_empty() {
        failure = failure.fix(format!("write it as: {usage}"));
    }
    failure.fix(format!("see: {} --help", command_of(line)))
}

/// Whether the flag is one by which other programs are told not to ask.
fn says_yes(error: &clap::Error) -> bool {
    let flags = words(error, ContextKind::InvalidArg);
    let mut flags = flags.iter().map(String::as_str);
    flags.any(|flag| matches!(flag, "--yes" | "-y"))
}

/// What may have been meant, likeliest first.
fn suggestions(error: &clap::Error, accepted: &[String]) -> Vec<String> {
    if let [value] = words(error, ContextKind::InvalidValue).as_slice() {
        let near = closest(value, accepted.iter().map(String::as_str));
        return near.map(str::to_owned).into_iter().collect();
    }
    let kinds = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg];
    // clap puts the likeliest last.
    let near = kinds.iter().flat_map(|kind| words(error, *kind));
    near.collect::<Vec<_>>().into_iter().rev().collect()
}

/// The command `line` gets as far as.
fn command_of(line: &[OsString]) -> String {
    let root = Cli::command();
    let mut names = vec!["airlock"];
    let mut at = &root;
    for word in line {
        if let Some(below) = word.to_str().and_then(|word| at.find_subcommand(word)) {
            names.push(below.get_name());
            at = below;
        }
    }
    names.join(" ")
}

/// What clap says of `kind`, as separate words fit for a message.
fn words(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    let clean = |text: &str| sanitise_line(text, 300);
    match error.get(kind) {
        Some(ContextValue::String(text)) if text.is_empty() => Vec::new(),
        Some(ContextValue::String(text)) => vec![clean(text)],
        Some(ContextValue::Strings(texts)) => texts.iter().map(|text| clean(text)).collect(),
        Some(ContextValue::StyledStr(text)) => vec![clean(&text.to_string())],
        _ => Vec::new(),
    }
}

fn quoted(error: &clap::Error, kind: ContextKind) -> String {
    let quoted: Vec<String> = words(error, kind)
        .iter()
        .map(|word| format!("`{}`", sanitise_line(word, SHOWN)))
        .collect();
    quoted.join(", ")
}

/// What is left of a mistake this module has no words for.
fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    sanitise_line(line.trim_start_matches("error: "), 200)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn of(words: &[&str]) -> Failure {
        let line: Vec<OsString> = words.iter().map(OsString::from).collect();
        let words = std::iter::once(&"airlock").chain(words);
        failure(&Cli::try_parse_from(words).unwrap_err(), &line).unwrap()
    }

    #[test]
    fn every_mistake_says_what_is_wrong_and_where_to_look() {
        for (line, what) in [
            (&["plicy"][..], "unknown command `plicy`"),
            (&["init", "--prnt"], "unknown flag `--prnt`"),
            (&["init", "extra"], "unexpected argument `extra`"),
            (&["tool", "show"], "`<NAME>` is missing"),
            (&["audit", "show", "x"], "`x` is no value for `<SEQ>`"),
            (
                &["init", "--json", "--json"],
                "`--json` is given more than once",
            ),
        ] {
            let failure = of(line);
            assert_eq!(failure.what(), what, "{line:?}");
            let last = failure.fixes().last().unwrap_or_default();
            assert!(last.starts_with("see: airlock"), "{line:?}: {last}");
        }
    }

    #[test]
    fn no_flag_says_yes_for_a_person() {
        for line in [
            &["approvals", "approve", "x", "--yes"][..],
            &["trust", "-y"],
        ] {
            let failure = of(line);
            let told = failure.fixes().any(|fix| fix.starts_with("leave it out"));
            assert!(told, "{line:?}: {failure:?}");
        }
        let other = of(&["trust", "--why"]);
        assert!(other.fixes().all(|fix| !fix.starts_with("leave it out")));
    }

    #[test]
    fn two_words_are_a_task_and_one_is_a_command() {
        for (line, want) in [
            (&["airlock", "fix it"][..], Some(1)),
            (&["airlock", "--json", "fix it"], Some(2)),
            (&["airlock", "--workspace", "a b", "fix it"], Some(3)),
            (&["airlock", "--workspace=a b", "fix it"], Some(2)),
            (&["airlock", "--workspace", "a b", "init"], None),
            (&["airlock", "run", "fix it"], None),
            (&["airlock", "init"], None),
            (&["airlock", " init "], None),
            (&["airlock"], None),
        ] {
            let given: Vec<OsString> = line.iter().map(OsString::from).collect();
            let mut expected = given.clone();
            if let Some(at) = want {
                expected.insert(at, OsString::from("run"));
            }
            assert_eq!(spelt_out(given), expected, "{line:?}");
        }
    }

    #[test]
    fn the_likeliest_word_comes_first() {
        for (line, fix) in [
            (&["policy", "chek"][..], "did you mean `check` or `schema`?"),
            (
                &["audit", "export", "--format", "cvs"],
                "did you mean `csv`?",
            ),
            (
                &["--color", "blue", "version"],
                "use one of auto, always, never",
            ),
        ] {
            assert_eq!(of(line).fixes().next(), Some(fix), "{line:?}");
        }
    }

    #[test]
    fn control_sequences_and_endless_words_are_not_repeated() {
        let failure = of(&["\u{1b}[31mred\u{1b}[0m"]);
        assert_eq!(failure.what(), "unknown command `red`");
        assert!(of(&[&"x".repeat(100_000)]).what().len() < 300);
    }
}

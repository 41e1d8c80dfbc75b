//! The checks of the execution contract, each with its id in the error. Pure.

use super::failure::{CheckId, ProcessFailure};
use super::wrappers::base_name;
use airlock_policy::Command;
use regex::Regex;
use std::sync::Arc;

/// Directories whose programs are the system's own, so that a name in them means that program.
const SYSTEM: &[&str] = &[
    "/bin",
    "/sbin",
    "/usr/bin",
    "/usr/sbin",
    "/usr/local/bin",
    "/usr/local/sbin",
];

/// Whether what lies in `directory` is the system's own.
pub(super) fn is_system(directory: &str) -> bool {
    SYSTEM.contains(&directory)
}

fn refused(what: String, fix: String) -> ProcessFailure {
    ProcessFailure::Check {
        id: CheckId::Command,
        what,
        fix,
    }
}

/// IV-01: `command`, wrappers taken off, is in the policy's list.
pub(super) fn listed(commands: &[Command], command: &[String]) -> Result<(), ProcessFailure> {
    let (program, arguments) = command.split_first().ok_or_else(|| {
        refused(
            "the command is empty".to_owned(),
            "name a program".to_owned(),
        )
    })?;
    let name = base_name(program);
    if let Some((directory, _)) = program.rsplit_once('/')
        && !is_system(directory)
    {
        // A file the caller wrote can be called anything.
        return Err(refused(
            format!("`{program}` is not the `{name}` a policy can list"),
            format!("name it without a directory: `{name}`"),
        ));
    }
    let mut entries = commands
        .iter()
        .filter(|entry| *entry.executable == *name)
        .peekable();
    if entries.peek().is_none() {
        return Err(refused(
            format!("`{name}` is not in the policy's `commands`"),
            format!(
                "add `- executable: {name}` under `commands:`; a person may run `airlock exec -- {name}`"
            ),
        ));
    }
    let objections: Vec<String> = entries
        .map(|entry| objection(entry, arguments))
        .collect::<Option<_>>()
        .unwrap_or_default();
    match objections.into_iter().next() {
        None => Ok(()),
        Some(what) => Err(refused(
            format!("`{name}` {what}"),
            "`airlock policy show` has the list under `commands:`".to_owned(),
        )),
    }
}

/// What `entry` has against `arguments`; none if it takes them.
fn objection(entry: &Command, arguments: &[String]) -> Option<String> {
    let further = match &entry.subcommands {
        None => arguments,
        Some(allowed) => {
            let first = arguments.first().map(String::as_str).unwrap_or_default();
            if !allowed.iter().any(|name| **name == *first) {
                return Some(format!("may not be given `{first}` first"));
            }
            arguments.get(1..).unwrap_or_default()
        }
    };
    let blocked = arguments
        .iter()
        .find(|argument| matches_one(&entry.block_arguments, argument).unwrap_or(true));
    if let Some(argument) = blocked {
        return Some(format!("may not be given `{argument}`"));
    }
    let allowed = entry.allow_arguments.as_deref()?;
    further
        .iter()
        .find(|argument| !matches_one(allowed, argument).unwrap_or(false))
        .map(|argument| format!("may not be given `{argument}`"))
}

/// Whether one of `patterns` matches all of `text`; none if one is no pattern.
fn matches_one(patterns: &[Arc<str>], text: &str) -> Option<bool> {
    for pattern in patterns {
        let whole = Regex::new(&format!("^(?:{pattern})$")).ok()?;
        if whole.is_match(text) {
            return Some(true);
        }
    }
    Some(false)
}

/// The most that is taken in (IV-05).
const ARGUMENTS: usize = 4_096;
const ARGUMENT_BYTES: usize = 128 * 1024;
const STDIN_BYTES: usize = 1024 * 1024;

/// IV-02 and IV-05 of a command and its input; says which argument is wrong and how.
pub(super) fn well_formed(
    command: &[String],
    stdin: Option<&str>,
) -> Result<(), (CheckId, &'static str, String, &'static str)> {
    let vector = "give the program and each argument as an element of its own";
    let program = command.first().map(String::as_str).unwrap_or_default();
    if program.is_empty() {
        let what = "no program is named".to_owned();
        return Err((CheckId::Arguments, "command", what, vector));
    }
    let shell = |c: char| c.is_whitespace() || "|&;<>$`\"'(){}".contains(c);
    if let Some(found) = program.chars().find(|c| shell(*c)) {
        let what = format!("the program's name contains `{}`", found.escape_default());
        return Err((CheckId::Arguments, "command", what, vector));
    }
    if command.iter().any(|word| word.contains('\0')) {
        let what = "an argument contains a NUL byte".to_owned();
        return Err((CheckId::Arguments, "command", what, "remove it"));
    }
    let bytes: usize = command.iter().map(String::len).sum();
    if command.len() > ARGUMENTS || bytes > ARGUMENT_BYTES {
        let what = format!("over {ARGUMENTS} arguments or {ARGUMENT_BYTES} bytes");
        return Err((CheckId::Sizes, "command", what, "pass it in a file"));
    }
    if stdin.is_some_and(|text| text.len() > STDIN_BYTES) {
        let what = format!("over {STDIN_BYTES} bytes");
        return Err((CheckId::Sizes, "stdin", what, "pass it in a file"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(yaml: &str) -> Vec<Command> {
        let text = format!("version: 1\ncommands:\n{yaml}");
        let loaded = airlock_policy::Policy::load("test", text.as_bytes()).unwrap();
        loaded.policy.document().commands.clone()
    }

    #[test]
    fn only_what_the_policy_lists_is_listed() {
        let list = commands(
            "  - executable: cargo\n    subcommands: [test, build]\n    block_arguments: [\"--config.*\"]\n  \
             - executable: python3\n    allow_arguments: [\"[a-z]+[.]py\", \"-v\"]\n  - executable: ls\n",
        );
        for (line, want) in [
            ("ls -l /", true),
            ("/usr/bin/ls", true),
            ("./ls", false),
            ("/tmp/ls", false),
            ("lsof", false),
            ("cargo test", true),
            ("cargo test --release", true),
            ("cargo", false),
            ("cargo publish", false),
            ("cargo test --config=x", false),
            ("cargo --config=x test", false),
            ("python3 a.py -v", true),
            ("python3 -c x", false),
            ("python3 a.pyc", false),
            ("curl", false),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let checked = listed(&list, &words);
            assert_eq!(checked.is_ok(), want, "{line}: {checked:?}");
            if let Err(failure) = checked {
                assert!(failure.to_string().starts_with("IV-01: "), "{failure}");
            }
        }
        assert!(listed(&[], &["ls".to_owned()]).is_err());
    }

    #[test]
    fn malformed_commands_are_told_apart() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert!(well_formed(&words("echo $HOME;rm |"), None).is_ok());
        for (command, stdin, want) in [
            (vec![], None, CheckId::Arguments),
            (vec!["cargo test".to_owned()], None, CheckId::Arguments),
            (vec!["a;b".to_owned()], None, CheckId::Arguments),
            (
                vec!["a".to_owned(), "\0".to_owned()],
                None,
                CheckId::Arguments,
            ),
            (vec!["a".to_owned(); 5_000], None, CheckId::Sizes),
            (vec!["a".repeat(200_000)], None, CheckId::Sizes),
            (
                words("cat"),
                Some("x".repeat(STDIN_BYTES + 1)),
                CheckId::Sizes,
            ),
        ] {
            assert_eq!(well_formed(&command, stdin.as_deref()).unwrap_err().0, want);
        }
    }
}

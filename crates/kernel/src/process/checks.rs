//! The checks of the execution contract, each with its id in the error. Pure.

use super::failure::{CheckId, ProcessFailure};
use airlock_core::programs::{self, base_name, is_system};
use airlock_policy::Command;
use regex::{Regex, RegexBuilder};
use std::sync::Arc;

fn refused(what: String, fix: String) -> ProcessFailure {
    ProcessFailure::Check {
        id: CheckId::Command,
        what,
        fix,
    }
}

/// A policy's list of commands, compiled once for all that ask.
#[derive(Debug)]
pub(crate) struct Commands(Vec<Entry>);

#[derive(Debug)]
struct Entry {
    executable: Arc<str>,
    subcommands: Option<Vec<Arc<str>>>,
    allowed: Option<Patterns>,
    blocked: Patterns,
}

impl Commands {
    pub(crate) fn of(commands: &[Command]) -> Self {
        let entry = |command: &Command| Entry {
            executable: Arc::clone(&command.executable),
            subcommands: command.subcommands.clone(),
            allowed: command
                .allow_arguments
                .as_deref()
                .map(|patterns| Patterns::compile(patterns, Dot::NoLineBreak)),
            // One more line break in an argument must not lead past what is blocked.
            blocked: Patterns::compile(&command.block_arguments, Dot::Anything),
        };
        Self(commands.iter().map(entry).collect())
    }
}

/// What `.` stands for in a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dot {
    Anything,
    NoLineBreak,
}

/// Compiled patterns; none if one of them is no pattern.
#[derive(Debug)]
struct Patterns(Option<Vec<Regex>>);

impl Patterns {
    fn compile(patterns: &[Arc<str>], dot: Dot) -> Self {
        let whole = |pattern: &Arc<str>| {
            RegexBuilder::new(&format!("^(?:{pattern})$"))
                .dot_matches_new_line(dot == Dot::Anything)
                .build()
                .ok()
        };
        Self(patterns.iter().map(whole).collect())
    }

    /// Whether one of them matches all of `text`; none if that cannot be told.
    fn matches(&self, text: &str) -> Option<bool> {
        let patterns = self.0.as_ref()?;
        Some(patterns.iter().any(|pattern| pattern.is_match(text)))
    }
}

/// IV-01 of a command line as somebody gives it.
pub(crate) fn runnable(commands: &Commands, command: &[String]) -> Result<(), ProcessFailure> {
    let inner =
        programs::inner(command).map_err(|opaque| refused(opaque.what, opaque.fix.to_owned()))?;
    listed(commands, command.get(inner..).unwrap_or_default())
}

/// IV-01: `command`, wrappers taken off, is in the policy's list.
pub(super) fn listed(commands: &Commands, command: &[String]) -> Result<(), ProcessFailure> {
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
        .0
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
fn objection(entry: &Entry, arguments: &[String]) -> Option<String> {
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
        .find(|argument| entry.blocked.matches(argument).unwrap_or(true));
    if let Some(argument) = blocked {
        return Some(format!("may not be given `{argument}`"));
    }
    let allowed = entry.allowed.as_ref()?;
    further
        .iter()
        .find(|argument| !allowed.matches(argument).unwrap_or(false))
        .map(|argument| format!("may not be given `{argument}`"))
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

    fn commands(yaml: &str) -> Commands {
        let text = format!("version: 1\ncommands:\n{yaml}");
        let loaded = airlock_policy::Policy::load("test", text.as_bytes()).unwrap();
        Commands::of(&loaded.policy.document().commands)
    }

    #[test]
    fn only_what_the_policy_lists_is_listed() {
        let list = commands(
            "  - executable: cargo\n    subcommands: [test, build]\n    block_arguments: [\"--config.*\"]\n  \
             - executable: python3\n    allow_arguments: [\"[a-z]+[.]py\", \"-v\"]\n  - executable: ls\n  \
             - executable: node\n    allow_arguments: [\"a.*\"]\n",
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
            ("cargo test --config=x\n", false),
            ("cargo test --config=x\ny", false),
            ("python3 a.py -v", true),
            ("python3 -c x", false),
            ("python3 a.pyc", false),
            ("node a.js", true),
            ("node a.js\n-e", false),
            ("curl", false),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let checked = listed(&list, &words);
            assert_eq!(checked.is_ok(), want, "{line}: {checked:?}");
            if let Err(failure) = checked {
                assert!(failure.to_string().starts_with("IV-01: "), "{failure}");
            }
        }
        assert!(listed(&Commands::of(&[]), &["ls".to_owned()]).is_err());
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

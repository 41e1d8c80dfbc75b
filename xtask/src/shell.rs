//! The one place that starts programs, reads the environment and prints.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Why a chore failed, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    what: String,
    hint: Option<String>,
    code: u8,
}

impl Failure {
    /// The chore ran and failed: exit code 1.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            hint: None,
            code: 1,
        }
    }

    /// The chore was called wrongly: exit code 2.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self {
            code: 2,
            ..Self::new(what)
        }
    }

    /// Adds how to mend it.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// The exit code to leave with.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = environment("CARGO_MANIFEST_DIR")
        .unwrap_or_else(|| OsString::from(env!("CARGO_MANIFEST_DIR")));
    let mut root = PathBuf::from(here);
    root.pop();
    root
}

/// Where cargo builds.
pub(crate) fn target_directory() -> PathBuf {
    root().join(environment("CARGO_TARGET_DIR").unwrap_or_else(|| OsString::from("target")))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the environment"
)]
pub(crate) fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Where this program was started.
#[expect(clippy::disallowed_methods, reason = "the one place that asks")]
pub(crate) fn here() -> std::io::Result<PathBuf> {
    std::env::current_dir()
}

/// Every variable there is.
pub(crate) fn whole_environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

/// `program`, to be run in the repository's root.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that starts programs"
)]
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    // `cargo run` describes this very package to us; passed on, it would make build scripts that
    // watch these variables run again, and everything after them build twice.
    for (name, _) in whole_environment() {
        if name.to_str().is_some_and(is_about_this_package) {
            command.env_remove(name);
        }
    }
    command
}

fn is_about_this_package(variable: &str) -> bool {
    [
        "CARGO_PKG_",
        "CARGO_MANIFEST_",
        "CARGO_BIN_",
        "CARGO_CRATE_",
        "CARGO_PRIMARY_",
    ]
    .iter()
    .any(|prefix| variable.starts_with(prefix))
}

/// The cargo that started this program.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = command(environment("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    cargo.args(arguments);
    cargo
}

/// Runs `command` to its end with our own input and output.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let status = command
        .status()
        .map_err(|error| unstarted(command, &error))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(format!("`{}`: {status}", shown(command))))
    }
}

/// Runs `command` and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String, Failure> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| unstarted(command, &error))?;
    if !output.status.success() {
        return Err(Failure::new(format!(
            "`{}`: {}",
            shown(command),
            output.status
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The failure of a program that could not even start.
pub(crate) fn unstarted(command: &Command, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot start `{}`: {error}", shown(command)))
}

/// The command line as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let mut text = program
        .file_name()
        .unwrap_or(command.get_program())
        .to_string_lossy()
        .into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

#[expect(clippy::print_stdout, reason = "chores report on standard output")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "chores complain on standard error")]
pub(crate) fn complain(text: &str) {
    eprintln!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_typed() {
        let mut command = command("/usr/bin/git");
        command.args(["ls-files", "-z"]);
        assert_eq!(shown(&command), "git ls-files -z");
    }

    #[test]
    fn a_failing_program_is_a_failure_that_names_it() {
        let failure = run(&mut command("false")).unwrap_err();
        assert!(failure.to_string().contains("`false`"), "{failure}");
        assert!(run(&mut command("true")).is_ok());
        let failure = output(&mut command("no-such-program-anywhere")).unwrap_err();
        assert!(failure.to_string().contains("cannot start"), "{failure}");
    }

    #[test]
    fn only_what_describes_this_package_is_withheld() {
        assert!(is_about_this_package("CARGO_PKG_NAME"));
        assert!(is_about_this_package("CARGO_MANIFEST_DIR"));
        assert!(!is_about_this_package("CARGO_TARGET_DIR"));
        assert!(!is_about_this_package("CARGO_HOME"));
        assert!(!is_about_this_package("PATH"));
    }
}

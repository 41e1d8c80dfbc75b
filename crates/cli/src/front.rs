//! `airlock`: hands a plain `airlock exec` to the running kernel, and everything else to the whole
//! program.

use crate::args::EXEC_TOLD;
use crate::commands::{INTERNAL, Small};
use crate::failure::{Failure, Kind};
use crate::output::Output;
use crate::panics;
use airlock_service::Program;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The whole program.
const WHOLE: &str = "airlock-main";

/// Does what this process's command line says.
pub fn airlock() -> ExitCode {
    panics::withhold();
    let mut line: Vec<OsString> = std::env::args_os().collect();
    let whole = match beside() {
        Ok(whole) => whole,
        Err(error) => return end(&line, &missing(&error)),
    };
    match Small::of(&line, Program::at(&whole)) {
        Small::Done(code) => return ExitCode::from(code),
        Small::Untouched => {}
        Small::Ran(handed) => {
            if let Err(error) = handed.hand_on() {
                let failure = Failure::new(Kind::Failed, "cannot say what came of the command");
                let fix = "`airlock audit log` and `airlock diff` do";
                return end(&line, &failure.why(error).fix(fix));
            }
            if let Some(command) = line.get_mut(1) {
                *command = EXEC_TOLD.into();
            }
        }
    }
    let error = become_it(&whole, &line);
    end(&line, &missing(&error))
}

/// Where the whole program is: beside this one, links to this one followed.
fn beside() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?.canonicalize()?;
    Ok(own.with_file_name(WHOLE))
}

/// Lets `program` take over this process. Returns only if it cannot.
#[expect(
    clippy::disallowed_methods,
    reason = "the program is the rest of this one, and it is what the person asked for"
)]
fn become_it(program: &Path, line: &[OsString]) -> io::Error {
    let mut command = Command::new(program);
    let mut words = line.iter();
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    command.args(words).exec()
}

fn missing(error: &io::Error) -> Failure {
    let what = format!("cannot start `{WHOLE}`, which does most of what `airlock` does");
    let fix =
        "it belongs into the directory of `airlock`: install or build both, and of one version";
    Failure::new(Kind::Failed, what).why(error).fix(fix)
}

fn end(line: &[OsString], failure: &Failure) -> ExitCode {
    let json = line.iter().any(|word| word == "--json");
    failure.show(&mut Output::new(json));
    // No command's own code looks like one of ours.
    let is_exec = |word: &OsString| word == "exec" || word == EXEC_TOLD;
    let is_exec = line.get(1).is_some_and(is_exec);
    ExitCode::from(if is_exec { INTERNAL } else { failure.code() })
}

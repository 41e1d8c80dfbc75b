//! `airlock`: hands a plain `airlock exec` to the running kernel, and everything else to the whole
//! program.

use crate::args::{EXEC_TOLD, is_exec, wants_json};
use crate::commands::{INTERNAL, Small};
use crate::failure::{Failure, Kind};
use crate::output::Output;
use crate::panics;
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
        Err(error) => {
            let what =
                "cannot tell which file this program is, and so not where the rest of it lies";
            return end(&line, &Failure::new(Kind::Failed, what).why(error));
        }
    };
    let ran = match Small::of(&line, &whole) {
        Small::Done(code) => return ExitCode::from(code),
        Small::Untouched => None,
        Small::Ran(handed) => Some(handed),
    };
    let Some(handed) = ran else {
        let error = become_it(&whole, &line);
        return end(&line, &missing(&error));
    };
    if let Some(command) = line.get_mut(1) {
        *command = EXEC_TOLD.into();
    }
    let error = match handed.hand_on() {
        Ok(()) => missing(&become_it(&whole, &line)),
        Err(error) => {
            Failure::new(Kind::Failed, "cannot hand on what came of the command").why(error)
        }
    };
    let failure = error.headed("the command ran, and nothing can be said of how");
    end(
        &line,
        &failure.fix("see what it did: `airlock audit log`, `airlock diff`"),
    )
}

/// Where the whole program is: beside this one, links to this one followed.
fn beside() -> io::Result<PathBuf> {
    // The system names the file itself.
    let own = std::env::current_exe()?;
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
    failure.show(&mut Output::new(wants_json(line)));
    // No command's own code looks like one of ours.
    ExitCode::from(if is_exec(line) {
        INTERNAL
    } else {
        failure.code()
    })
}

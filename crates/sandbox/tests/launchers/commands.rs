//! Commands in sandboxes, whatever launcher started them.

use airlock_sandbox::launch::{Command, Ended, Stdin, Streams};
use airlock_sandbox::plan::Limits;
use airlock_sandbox::{Sandbox, Template};
use std::ffi::OsString;

/// The limits of the template, changed by `change`.
pub(crate) fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Template::find("code-executor").unwrap().limits;
    change(&mut limits);
    limits
}

/// A command with the usual search path.
pub(crate) fn command(arguments: &[&str]) -> Command {
    Command {
        arguments: arguments.iter().map(OsString::from).collect(),
        environment: [("PATH".into(), "/usr/bin:/bin".into())].into(),
        directory: None,
        lasting: false,
    }
}

/// What came of a command.
pub(crate) struct Ran {
    pub(crate) ended: Ended,
    pub(crate) out: Vec<u8>,
    pub(crate) err: Vec<u8>,
}

impl Ran {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    pub(crate) fn errors(&self) -> String {
        String::from_utf8_lossy(&self.err).into_owned()
    }
}

pub(crate) fn run(sandbox: &mut Sandbox, command: &Command) -> Ran {
    run_with(sandbox, command, Stdin::Empty)
}

pub(crate) fn run_with(sandbox: &mut Sandbox, command: &Command, stdin: Stdin) -> Ran {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let streams = Streams {
        stdin,
        stdout: &mut out,
        stderr: &mut err,
        terminal: None,
    };
    let ended = sandbox.run(command, streams).unwrap();
    Ran { ended, out, err }
}

/// What a shell script prints; it must succeed.
pub(crate) fn sh(sandbox: &mut Sandbox, script: &str) -> String {
    let ran = run(sandbox, &command(&["sh", "-c", script]));
    let ended = &ran.ended.outcome;
    let fine = *ended == airlock_sandbox::lifecycle::Outcome::Exited(0);
    assert!(
        fine,
        "{script}: {ended:?}\n{}\n{}",
        ran.text(),
        ran.errors()
    );
    ran.text()
}

//! `airlock exec` by the kernel that runs for the workspace: its output comes through pipes, and
//! passes the same filters on its way as that of a command this process runs itself.

use super::super::{open, outcome};
use super::{Session, Target, arguments, report, watch};
use crate::args::{ExecArgs, Global};
use crate::failure::{Failure, Kind};
use crate::output::Output;
use crate::place::Place;
use crate::terminal::{Raw, size};
use airlock_kernel::{Front, Outcome};
use airlock_sandbox::launch::Stdin;
use airlock_service::{CallResult, Ends, Remote, Standing};
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::Value;
use std::io::{self, PipeReader, Read as _, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

/// Runs it there; none if no kernel runs that would run it as this command would, or if a person has
/// to be asked first, which needs this process.
pub(super) fn execute(
    global: &Global,
    args: &ExecArgs,
    output: &mut Output,
) -> Result<Option<u8>, Failure> {
    let place = Place::find(global.workspace.as_deref())?;
    let config = open::configuration(global, &place)?;
    let Some(mut remote) = open::running(&place, &config, Front::Cli) else {
        return Ok(None);
    };
    let (Some(person), Some(root)) = (place.person(), remote.root().map(str::to_owned)) else {
        return Ok(None);
    };
    open::apply_color(&config);
    let watch = watch()?;
    let call = arguments(args, Path::new(&root))?;
    let session = Session {
        args,
        watch: &watch,
        json: output.is_json(),
    };
    let mut target = session.streams();
    let Some(result) = session.remotely(&mut remote, &call, person, &mut target)? else {
        return Ok(None);
    };
    let CallResult {
        outcome,
        untrusted,
        broken,
    } = result;
    if let Outcome::NeedsReview(_) = outcome {
        return Ok(None);
    }
    open::told(&Standing { untrusted, broken }, output);
    let done = outcome::done(outcome)?;
    let Some(ran) = done.ran.as_deref() else {
        return Err(Failure::new(Kind::Failed, "the command left no result"));
    };
    let exit = session.exit(ran, &target);
    if output.is_json() {
        report::object(&done, ran, exit, &target, output);
    } else {
        report::notes(ran, args, output);
    }
    Ok(Some(exit))
}

impl Session<'_> {
    fn remotely(
        &self,
        remote: &mut Remote,
        arguments: &Value,
        person: airlock_service::Person,
        target: &mut Target,
    ) -> Result<Option<CallResult>, Failure> {
        let no_pipe =
            |error: io::Error| Failure::new(Kind::Failed, "cannot make a pipe").why(error);
        let (from_stdout, stdout) = io::pipe().map_err(no_pipe)?;
        let (from_stderr, stderr) = io::pipe().map_err(no_pipe)?;
        // Open until the answer is there: whoever reads the pipes knows then that all is in them.
        let (answered, pending) = io::pipe().map_err(no_pipe)?;
        let terminal = self.args.tty.then(size).flatten();
        let _raw = terminal
            .map(|_| Raw::enter())
            .transpose()
            .map_err(|error| {
                Failure::new(Kind::Failed, "cannot put the terminal into raw mode").why(error)
            })?;
        let stdin = match self.stdin()? {
            Stdin::From(descriptor) => Some(descriptor),
            Stdin::Empty => None,
        };
        let (out, err): (&mut (dyn Write + Send), &mut (dyn Write + Send)) = match target {
            Target::Captured(out, err) => (out, err),
            Target::Passed(out, err) => {
                out.cancels(self.watch);
                err.cancels(self.watch);
                (out, err)
            }
        };
        let result = std::thread::scope(|scope| {
            let answered = &answered;
            scope.spawn(move || relay(from_stdout, answered, out));
            scope.spawn(move || relay(from_stderr, answered, err));
            let ends = Ends {
                stdin: stdin.as_ref().map(AsFd::as_fd),
                stdout: stdout.as_fd(),
                stderr: stderr.as_fd(),
                terminal,
            };
            let begun = |steer| self.watch.started(Arc::new(steer));
            let result = remote.exec(arguments, Some(person), ends, begun);
            drop((stdout, stderr, pending));
            result
        });
        match result {
            Ok(result) => Ok(Some(result)),
            // It ended between two words: this process runs the command itself.
            Err(error) if error.is_untaken() => Ok(None),
            Err(error) => Err(Failure::of(Kind::Failed, &error)
                .headed("the running kernel did not answer")
                .fix("`airlock audit log` says what was done; try again")),
        }
    }
}

/// Passes on what comes, until its writers are gone or everything was written and read.
fn relay(mut from: PipeReader, answered: &PipeReader, to: &mut (dyn Write + Send)) {
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let mut waiting = [
            PollFd::new(&from, PollFlags::IN),
            PollFd::new(answered, PollFlags::IN),
        ];
        match poll(&mut waiting, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        }
        let [first, second] = &waiting;
        if first.revents().is_empty() {
            if second.revents().is_empty() {
                continue;
            }
            return;
        }
        match from.read(&mut chunk) {
            Ok(0) => return,
            Ok(count) => {
                let bytes = chunk.get(..count).unwrap_or_default();
                if to.write_all(bytes).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

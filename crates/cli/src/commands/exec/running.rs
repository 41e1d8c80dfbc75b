//! `airlock exec` by the kernel that runs for the workspace: its output comes through pipes, and
//! passes the same filters on its way as that of a command this process runs itself.

use super::super::{open, outcome};
use super::ahead::Hail;
use super::passing::Passing;
use super::{Session, Target, arguments, report};
use crate::args::{ExecArgs, Global};
use crate::config::Config;
use crate::failure::{Ending, Failure, Kind};
use crate::output::Output;
use crate::terminal::{Raw, Watch, size};
use airlock_kernel::Outcome;
use airlock_sandbox::launch::Stdin;
use airlock_service::{CallResult, ClientError, Ends, Person, Program, Remote, Standing};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

/// Runs it there; none if that is no kernel that would run it as this command would, or if a person
/// has to be asked first, which needs this process.
pub(super) fn execute(
    global: &Global,
    args: &ExecArgs,
    hail: Hail,
    output: &mut Output,
) -> Result<Option<u8>, Failure> {
    let config = open::configuration(global, &hail.place)?;
    let Some(there) = There::found(hail, &config, Program::own) else {
        return Ok(None);
    };
    open::apply_color(&config);
    let put = there.put(args, output.is_json())?;
    let Some(result) = heard(put.answer, &put.call)? else {
        return Ok(None);
    };
    tell(result, args, (&put.target, &put.passing), output).map(Some)
}

/// A kernel that runs and would do what one of this command's own would.
pub(super) struct There {
    remote: Remote,
    person: Person,
    root: String,
    pipes: io::Result<[(PipeReader, PipeWriter); 2]>,
}

impl There {
    /// The kernel that was said hello to, if it was opened by `program` with what `config` says.
    pub(super) fn found(
        hail: Hail,
        config: &Config,
        program: impl FnOnce() -> io::Result<Program>,
    ) -> Option<Self> {
        // All that needs no kernel is done while it greets.
        let settings = open::settings_of(program(), &hail.place, config).ok()?;
        let person = hail.place.person()?;
        let pipes = io::pipe().and_then(|stdout| Ok([stdout, io::pipe()?]));
        let remote = hail.found(&settings)?;
        Some(Self {
            person,
            root: remote.root()?.to_owned(),
            remote,
            pipes,
        })
    }

    /// Has it run the command. A failure is one from before it was asked.
    pub(super) fn put(self, args: &ExecArgs, json: bool) -> Result<Put, Failure> {
        let watch = Watch::from_afar().map_err(Failure::unwatched)?;
        let session = Session {
            args,
            watch: &watch,
            json,
        };
        let mut target = session.streams();
        let call = arguments(args, Path::new(&self.root))?;
        let answer = session.remotely(self, &call, &mut target)?;
        let passing = session.passing(&target);
        Ok(Put {
            call,
            answer,
            target,
            passing,
            _watch: watch,
        })
    }
}

/// A command that was put to the kernel that runs.
pub(super) struct Put {
    /// What it was asked.
    pub(super) call: Value,
    /// What it said.
    pub(super) answer: Result<Value, ClientError>,
    /// Where the command's output went, and how that went.
    target: Target,
    pub(super) passing: Passing,
    /// A signal that comes now is one that the command was over for.
    _watch: Watch,
}

/// What it said to the command; none if this process has to run it: the kernel ended between two
/// words, or a person has to be asked.
pub(super) fn heard(
    answer: Result<Value, ClientError>,
    call: &Value,
) -> Result<Option<CallResult>, Failure> {
    let result = match answer.and_then(|answer| CallResult::heard(answer, call)) {
        Ok(result) => result,
        Err(error) if error.is_untaken() => return Ok(None),
        Err(error) => {
            return Err(Failure::of(Kind::Failed, &error)
                .headed("the running kernel did not answer")
                .fix("`airlock audit log` says what was done; try again"));
        }
    };
    let asks = matches!(result.outcome, Outcome::NeedsReview(_));
    Ok(Some(result).filter(|_| !asks))
}

/// Says what came of it.
pub(super) fn tell(
    result: CallResult,
    args: &ExecArgs,
    (target, passing): (&Target, &Passing),
    output: &mut Output,
) -> Ending {
    let CallResult {
        outcome,
        untrusted,
        broken,
        question: _,
    } = result;
    open::told(&Standing { untrusted, broken }, output);
    let done = outcome::done(outcome)?;
    let Some(ran) = done.ran.as_deref() else {
        return Err(Failure::new(Kind::Failed, "the command left no result"));
    };
    let exit = passing.exit(ran)?;
    if output.is_json() {
        report::object(&done, ran, exit, target, output);
    } else {
        report::notes(ran, args, output);
    }
    Ok(exit)
}

impl Session<'_> {
    /// Gives what was answered there. A failure is one from before it was asked.
    fn remotely(
        &self,
        there: There,
        call: &Value,
        target: &mut Target,
    ) -> Result<Result<Value, ClientError>, Failure> {
        let There {
            mut remote,
            person,
            pipes,
            root: _,
        } = there;
        let [(from_stdout, stdout), (from_stderr, stderr)] =
            pipes.map_err(|error| Failure::new(Kind::Failed, "cannot make a pipe").why(error))?;
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
        let mut relay = Relay {
            streams: [(Some(from_stdout), out), (Some(from_stderr), err)],
            chunk: Vec::new(),
            watch: self.watch,
        };
        let ends = Ends {
            stdin: stdin.as_ref().map(AsFd::as_fd),
            stdout: stdout.as_fd(),
            stderr: stderr.as_fd(),
            terminal,
        };
        let begun = |steer| self.watch.started(Arc::new(steer));
        let answer = remote.exec(call, Some(person), ends, begun, |answer| {
            relay.until(Some(answer));
        });
        // The answer comes after everything that was written.
        relay.until(None);
        Ok(answer)
    }
}

/// Bytes passed on at once.
const CHUNK: usize = 64 * 1024;

/// How long a command may take until somebody attends to the person's signals. One that writes has
/// them attended to before: its reader may keep it waiting.
const QUICK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// Passes on what a command writes.
struct Relay<'a> {
    /// Where it comes from, until that is at its end, and where it goes.
    streams: [(Option<PipeReader>, &'a mut (dyn Write + Send)); 2],
    chunk: Vec<u8>,
    watch: &'a Watch,
}

impl Relay<'_> {
    /// Passes on what comes until `answer` can be read; without one, what has come by now.
    fn until(&mut self, answer: Option<BorrowedFd<'_>>) {
        const AT_ONCE: Timespec = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut patience = answer.is_none().then_some(&AT_ONCE).or(Some(&QUICK));
        loop {
            let streams = self.streams.iter().map(|(from, _)| from.as_ref());
            let streams = streams.map(|from| from.map(AsFd::as_fd));
            // What is at its end is left out.
            let all: Vec<Option<BorrowedFd<'_>>> = streams.chain([answer]).collect();
            let mut waiting: Vec<PollFd<'_>> = all
                .iter()
                .flatten()
                .map(|one| PollFd::new(one, PollFlags::IN))
                .collect();
            match poll(&mut waiting, patience) {
                Ok(0) if answer.is_none() => return,
                Ok(0) => {
                    self.attend();
                    patience = None;
                    continue;
                }
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => {
                    self.attend();
                    continue;
                }
                Err(_) => return,
            }
            let mut found = waiting.iter().map(|one| !one.revents().is_empty());
            let ready: Vec<bool> = all
                .iter()
                .map(|one| one.is_some() && found.next().unwrap_or_default())
                .collect();
            let [out, err, answered] = *ready else {
                return;
            };
            if out || err {
                self.attend();
                self.chunk.resize(CHUNK, 0);
            }
            for (stream, ready) in self.streams.iter_mut().zip([out, err]) {
                if ready {
                    pass_on(stream, &mut self.chunk);
                }
            }
            if answered {
                return;
            }
        }
    }

    fn attend(&self) {
        // Without a thread for them nobody could end it any more.
        if self.watch.attend().is_err() {
            self.watch.stopper().stop();
        }
    }
}

/// Passes on what can be read now. A stream at its end, or whose reader is gone, is closed.
fn pass_on((from, to): &mut (Option<PipeReader>, &mut (dyn Write + Send)), chunk: &mut [u8]) {
    let Some(reader) = from else {
        return;
    };
    let goes_on = match reader.read(chunk) {
        Ok(0) => false,
        Ok(count) => to.write_all(chunk.get(..count).unwrap_or_default()).is_ok(),
        Err(error) => error.kind() == io::ErrorKind::Interrupted,
    };
    if !goes_on {
        *from = None;
    }
}

//! A program of our own beside the command that runs, in the same sandbox.
//!
//! Init runs one command at a time, and what asks the kernel out of a command would have to wait for
//! its end. A short program of ours can be run beside it instead: behind the same walls, with the
//! same limits, and ended with the command at the latest.
//!
//! Not guaranteed: that what it says is its own. Whatever runs in the sandbox is its equal there, and
//! could have spoken for it.

use super::control::{Control, timespec};
use super::program::sealed;
use super::request;
use super::supervise::meaning;
use super::wire::Order;
use crate::launch::{Command, RunError};
use crate::lifecycle::Outcome;
use crate::plan::HostPath;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, SeekFrom, seek};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often whoever reads looks whether there is still something to be read.
const LOOK: Duration = Duration::from_millis(50);

/// What came of a program that ran beside a command.
#[derive(Debug)]
pub struct Beside {
    /// How it ended.
    pub outcome: Outcome,
    /// What it printed, cut where it was too much.
    pub output: Vec<u8>,
}

/// What runs beside the command of a sandbox. One at a time.
#[derive(Debug, Default)]
pub(super) struct Besides {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// A command runs, and something can be run beside it.
    open: bool,
    busy: bool,
    number: u32,
    status: Option<i32>,
}

impl Besides {
    /// A command begins.
    pub(super) fn open(&self) {
        self.lock().open = true;
    }

    /// The command has ended, and with it whatever ran beside it.
    pub(super) fn close(&self) {
        self.lock().open = false;
        self.changed.notify_all();
    }

    /// Something that ran beside it has ended.
    pub(super) fn ended(&self, number: u32, status: i32) {
        let mut state = self.lock();
        // One of an earlier command that was not waited for.
        if state.number == number {
            state.status = Some(status);
        }
        drop(state);
        self.changed.notify_all();
    }

    pub(super) fn is_open(&self) -> bool {
        self.lock().open
    }

    /// Takes the one place there is, once it is free.
    fn take(&self) -> Option<Taken<'_>> {
        let mut state = self.lock();
        while state.busy && state.open {
            state = self.wait(state);
        }
        if !state.open {
            return None;
        }
        state.busy = true;
        state.status = None;
        state.number = state.number.wrapping_add(1);
        Some(Taken {
            besides: self,
            number: state.number,
        })
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self.changed.wait(state);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The one place, until it is dropped.
struct Taken<'a> {
    besides: &'a Besides,
    number: u32,
}

impl Taken<'_> {
    /// How it ended; none as long as it did not.
    fn status(&self) -> Option<i32> {
        self.besides.lock().status
    }

    /// Waits for its end. None if it ended with the command.
    fn wait(&self) -> Option<i32> {
        let mut state = self.besides.lock();
        while state.status.is_none() && state.open {
            state = self.besides.wait(state);
        }
        state.status
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.besides.lock().busy = false;
        self.besides.changed.notify_all();
    }
}

impl Control {
    /// Whether something can be run beside the command that runs.
    pub fn can_run_beside(&self) -> bool {
        self.besides().is_open()
    }

    /// Runs a program of our own beside the command that runs, from `directory`, with `input` to be
    /// read. Of what it prints at most `most` bytes are kept.
    pub fn beside(
        &self,
        command: &Command,
        directory: &HostPath,
        input: &str,
        most: usize,
    ) -> Result<Beside, RunError> {
        let io = |what: &'static str| move |source: std::io::Error| RunError::Io { what, source };
        let request = request::write(command, directory)?;
        let input = readable(input).map_err(io("cannot hand over input"))?;
        let pipe = pipe_with(PipeFlags::CLOEXEC).map_err(std::io::Error::from);
        let (from, output) = pipe.map_err(io("cannot make a pipe"))?;
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let errors = rustix::fs::open(c"/dev/null", flags, Mode::empty());
        let errors = errors.map_err(|errno| io("cannot open /dev/null")(errno.into()))?;
        let taken = self.besides().take().ok_or(RunError::Gone)?;
        let order = Order::Beside(taken.number);
        let handed = [
            request.as_fd(),
            input.as_fd(),
            output.as_fd(),
            errors.as_fd(),
        ];
        let sent = self.channel().send(order, &handed);
        sent.map_err(|_| RunError::Gone)?;
        drop((request, input, output, errors));
        let output = read(&from, most, &taken).map_err(|errno| {
            let failed = io("cannot read what it says");
            failed(errno.into())
        })?;
        // Whoever prints more than is kept need not wait until it is read.
        drop(from);
        let status = taken.wait().ok_or(RunError::Gone)?;
        Ok(Beside {
            outcome: meaning(status),
            output,
        })
    }
}

/// A file that says `text`, from its beginning.
fn readable(text: &str) -> std::io::Result<OwnedFd> {
    let file = sealed(c"input", text.as_bytes())?;
    let _start = seek(&file, SeekFrom::Start(0))?;
    Ok(file)
}

/// What it prints until its end. Others inside may hold the pipe open: its end is what counts.
fn read(from: &OwnedFd, most: usize, taken: &Taken<'_>) -> Result<Vec<u8>, Errno> {
    let mut printed = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let over = taken.status().is_some() || !taken.besides.is_open();
        let patience = timespec(if over { Duration::ZERO } else { LOOK });
        let mut waiting = [PollFd::new(from, PollFlags::IN)];
        match poll(&mut waiting, Some(&patience)) {
            Ok(0) if over => return Ok(printed),
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(errno) => return Err(errno),
        }
        let count = rustix::io::retry_on_intr(|| rustix::io::read(from, &mut piece))?;
        let room = most.saturating_sub(printed.len());
        printed.extend(piece.get(..count.min(room)).unwrap_or_default());
        if count == 0 || room < count {
            return Ok(printed);
        }
    }
}

//! `exec`: a command the person typed, run by the kernel with the streams of their own process.
//!
//! Output goes to pipes whose other ends the client holds: what a terminal must not see is filtered
//! there, nothing of the kernel's writes a file of the client's choosing, and a client that goes away
//! or does not read holds up its own command and nothing else. Input is read only while it runs.

use crate::answers::covering;
use crate::caller::Identity;
use crate::methods::{ExecParams, Size, SteerParams};
use crate::service::{Client, Service};
use airlock_kernel::{Attached, Call, Front, Steering};
use airlock_sandbox::launch::{Stdin, TerminalSize};
use airlock_wire::{Answer, CancelToken, WireError, code};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Commands under way, by connection and the client's name for them.
#[derive(Default)]
pub(crate) struct Runs {
    clients: AtomicU64,
    under_way: Mutex<HashMap<(u64, u64), Arc<Ending>>>,
}

impl Runs {
    pub(crate) fn next_client(&self) -> u64 {
        self.clients.fetch_add(1, Ordering::Relaxed)
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<(u64, u64), Arc<Ending>>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a command, before it has begun as well.
#[derive(Default)]
struct Ending {
    ended: AtomicBool,
    program: Mutex<Option<Arc<dyn Steering>>>,
}

impl Ending {
    fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        let program = self.program().clone();
        if let Some(program) = program {
            program.cancel();
        }
    }

    fn is_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    fn begun(&self, program: &Arc<dyn Steering>) {
        *self.program() = Some(Arc::clone(program));
        // Ended before it began: there was nothing to end then.
        if self.is_ended() {
            program.cancel();
        }
    }

    fn steer(&self, asked: &SteerParams) {
        let program = self.program().clone();
        match (program, asked.signal) {
            (Some(program), signal) => {
                if let Some(number) = signal {
                    program.signal(number);
                }
                if let Some(new) = asked.size {
                    program.resize(size(new));
                }
            }
            // Whoever gives up before it begins does not want it to begin.
            (None, Some(_)) => self.end(),
            (None, None) => {}
        }
    }

    fn program(&self) -> MutexGuard<'_, Option<Arc<dyn Steering>>> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run's entry, for as long as it lasts.
struct Entered<'a>(&'a Runs, (u64, u64));

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.under_way().remove(&self.1);
    }
}

impl Service {
    pub(crate) fn exec(
        &self,
        client: &Client,
        asked: ExecParams,
        descriptors: Vec<OwnedFd>,
        token: &CancelToken,
    ) -> Result<Answer, WireError> {
        person(&client.identity)?;
        let (stdin, stdout, stderr) = streams(asked.stdin, descriptors)?;
        let ending = Arc::new(Ending::default());
        let taken_back = Arc::clone(&ending);
        token.on_cancel(move || taken_back.end());
        let (mut stdout, mut stderr) = (Pipe::new(stdout, &ending), Pipe::new(stderr, &ending));
        let origin = client
            .identity
            .whence(self.machine(&client.identity, asked.person)?);
        let key = (client.number, asked.run);
        self.runs.under_way().insert(key, Arc::clone(&ending));
        let _entered = Entered(&self.runs, key);
        let attached = Attached {
            stdin,
            stdout: &mut stdout,
            stderr: &mut stderr,
            terminal: asked.terminal.map(size),
            started: &|steering| ending.begun(&steering),
        };
        let call = Call::new("exec.own", asked.arguments);
        // While it waits for its turn there is no program yet to be ended.
        let outcome = covering(token).cover(|| {
            self.kernel
                .submit_from(Front::Cli, &origin, &call, Some(attached))
        });
        self.result(outcome)
    }

    pub(crate) fn steer(&self, client: &Client, asked: &SteerParams) -> Result<Value, WireError> {
        person(&client.identity)?;
        let key = (client.number, asked.run);
        let ending = self.runs.under_way().get(&key).cloned();
        if let Some(ending) = &ending {
            ending.steer(asked);
        }
        Ok(json!({ "steered": ending.is_some() }))
    }
}

fn person(identity: &Identity) -> Result<(), WireError> {
    let refused = || {
        let told = "only the command line runs commands a person typed";
        WireError::new(code::REFUSED, told)
    };
    identity.is_person().then_some(()).ok_or_else(refused)
}

const fn size(size: Size) -> TerminalSize {
    TerminalSize {
        rows: size.rows,
        columns: size.columns,
    }
}

/// The descriptors by their places.
fn streams(stdin: bool, descriptors: Vec<OwnedFd>) -> Result<(Stdin, OwnedFd, OwnedFd), WireError> {
    let wrong = |told: &str| WireError::new(code::INVALID_PARAMS, told);
    let count = descriptors.len();
    let mut given = descriptors.into_iter();
    let input = if stdin { given.next() } else { None };
    let (Some(stdout), Some(stderr), None) = (given.next(), given.next(), given.next()) else {
        let told = format!("{count} descriptors came along, and not one for each stream");
        return Err(wrong(&told));
    };
    for end in [&stdout, &stderr] {
        let kind = rustix::fs::fstat(end).map(|found| FileType::from_raw_mode(found.st_mode));
        if kind != Ok(FileType::Fifo) {
            return Err(wrong("standard output and standard error must be pipes"));
        }
    }
    let input = input.map_or(Stdin::Empty, Stdin::From);
    Ok((input, stdout, stderr))
}

/// Bytes written at once: a pipe with room takes that many without waiting.
const PIECE: usize = 4096;
/// How often somebody who waits for room looks whether they still should.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// The client's end of a stream. Once the other end is closed the command is ended, as a broken pipe
/// would; once the call is taken back nothing is waited for any more.
struct Pipe {
    end: OwnedFd,
    ending: Arc<Ending>,
    closed: bool,
}

impl Pipe {
    fn new(end: OwnedFd, ending: &Arc<Ending>) -> Self {
        Self {
            end,
            ending: Arc::clone(ending),
            closed: false,
        }
    }

    /// Waits for room; false if there is none to be waited for.
    fn has_room(&self) -> io::Result<bool> {
        loop {
            if self.ending.is_ended() {
                return Ok(false);
            }
            let mut ready = [PollFd::new(&self.end, PollFlags::OUT)];
            match poll(&mut ready, Some(&LOOK)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.closed || !self.has_room()? {
            return Ok(bytes.len());
        }
        let piece = bytes.get(..PIECE).unwrap_or(bytes);
        match rustix::io::write(&self.end, piece) {
            Ok(count) => Ok(count),
            Err(rustix::io::Errno::PIPE) => {
                self.closed = true;
                self.ending.end();
                Ok(bytes.len())
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                Err(io::ErrorKind::Interrupted.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

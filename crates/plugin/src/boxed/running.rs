//! A plugin's process, running in its box.

use super::disk::Watched;
use super::last_words::LastWords;
use super::outlet::Outlet;
use super::program::Program;
use airlock_sandbox::launch::{Command, NotStarted, Stdin, Streams};
use airlock_sandbox::lifecycle::Outcome;
use airlock_sandbox::{Control, Sandbox};
use rustix::fd::OwnedFd;
use rustix::pipe::{PipeFlags, pipe_with};
use serde_json::Value;
use std::fmt;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How a plugin's process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It ran and ended so.
    Ran(Outcome),
    /// Its program could not be started.
    NotStarted(NotStarted),
    /// Its data took more disk than it may.
    Disk,
    /// The sandbox was lost.
    Lost(String),
}

impl End {
    /// The limit it came to, if it was one.
    pub fn limit(&self) -> Option<&'static str> {
        match self {
            Self::Ran(Outcome::OutOfMemory) => Some("memory"),
            Self::Ran(Outcome::TooManyProcesses) => Some("processes"),
            Self::Ran(Outcome::FileTooLarge) => Some("file size"),
            Self::Ran(Outcome::TooMuchOutput) => Some("output"),
            Self::Disk => Some("disk"),
            Self::Ran(
                Outcome::Exited(_) | Outcome::Signalled(_) | Outcome::TimedOut | Outcome::Cancelled,
            )
            | Self::NotStarted(_)
            | Self::Lost(_) => None,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(limit) = self.limit() {
            return write!(f, "it came to its limit of {limit}");
        }
        match self {
            Self::Ran(Outcome::Exited(code)) => write!(f, "it exited with code {code}"),
            Self::Ran(Outcome::Signalled(signal)) => write!(f, "signal {signal} ended it"),
            Self::Ran(Outcome::Cancelled) => f.write_str("it was stopped"),
            Self::NotStarted(NotStarted::NotFound) => {
                f.write_str("its program, or what interprets it, is not there inside its sandbox")
            }
            Self::NotStarted(why) => write!(f, "its program cannot be run: {why:?}"),
            Self::Lost(why) => write!(f, "its sandbox was lost: {why}"),
            Self::Ran(_) | Self::Disk => f.write_str("it ended"),
        }
    }
}

/// What is known of the end, and who waits for it.
#[derive(Debug, Default)]
struct Ending {
    end: Mutex<Option<End>>,
    over: Condvar,
    /// It is ended for the disk it takes.
    full: AtomicBool,
}

impl Ending {
    fn locked(&self) -> MutexGuard<'_, Option<End>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, end: End) {
        let end = if self.full.load(Ordering::SeqCst) {
            End::Disk
        } else {
            end
        };
        *self.locked() = Some(end);
        self.over.notify_all();
    }

    fn wait(&self, patience: Duration) -> Option<End> {
        let waited = self
            .over
            .wait_timeout_while(self.locked(), patience, |end| end.is_none());
        let (end, _) = waited.unwrap_or_else(PoisonError::into_inner);
        end.clone()
    }
}

/// A plugin's process. Dropped, it is gone with everything it started.
#[derive(Debug)]
pub struct Running {
    id: String,
    report: Value,
    control: Control,
    ending: Arc<Ending>,
    said: LastWords,
    stdin: Mutex<Option<File>>,
    stdout: Mutex<Option<File>>,
    /// Closed, it frees whoever carries the process's output.
    stopping: Mutex<Option<OwnedFd>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    // Removed once nothing runs any more.
    _program: Program,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    pub(super) fn begin(
        sandbox: Sandbox,
        command: Command,
        program: Program,
        mut watched: Watched,
    ) -> io::Result<Self> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC);
        let ((input, stdin), (stdout, output)) = (pipe()?, pipe()?);
        let (stop, stopping) = pipe()?;
        let outlet = Outlet::new(output, stop, Arc::default())?;
        let (ending, said) = (Arc::<Ending>::default(), LastWords::default());
        let running = Self {
            id: sandbox.id().to_owned(),
            report: serde_json::to_value(sandbox.report()).unwrap_or_default(),
            control: sandbox.control(),
            ending: Arc::clone(&ending),
            said: said.clone(),
            stdin: Mutex::new(Some(File::from(stdin))),
            stdout: Mutex::new(Some(File::from(stdout))),
            stopping: Mutex::new(Some(stopping)),
            threads: Mutex::default(),
            _program: program,
        };
        let disk = {
            let (ending, control) = (Arc::clone(&ending), running.control.clone());
            let named = Builder::new().name("plugin disk".to_owned());
            named.spawn(move || watch(&mut watched, &ending, &control))?
        };
        locked(&running.threads).push(disk);
        let supervisor = Builder::new().name("plugin".to_owned());
        let supervisor = supervisor.spawn(move || {
            let streams = (input, outlet, said);
            ending.set(supervise(sandbox, &command, streams));
        });
        match supervisor {
            Ok(thread) => locked(&running.threads).push(thread),
            Err(error) => {
                running.ending.set(End::Lost(error.to_string()));
                return Err(error);
            }
        }
        Ok(running)
    }

    /// The name of its sandbox, which no other on this machine has.
    pub fn sandbox(&self) -> &str {
        &self.id
    }

    /// What confines it, as enforced.
    pub fn report(&self) -> &Value {
        &self.report
    }

    /// Its standard input, once. Dropped, it reads an end of file.
    pub fn take_stdin(&self) -> Option<File> {
        locked(&self.stdin).take()
    }

    /// Its standard output, once. What nobody reads waits: it is held up, not lost. It ends when the
    /// process does, even if that closed it before.
    pub fn take_stdout(&self) -> Option<File> {
        locked(&self.stdout).take()
    }

    /// The last it said on standard error. Untrusted text.
    pub fn said(&self) -> String {
        self.said.text()
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Option<End> {
        self.ending.locked().clone()
    }

    /// Whether it is gone.
    pub fn has_ended(&self) -> bool {
        self.ending.locked().is_some()
    }

    /// Waits until it is gone, for at most `patience`.
    pub fn wait(&self, patience: Duration) -> Option<End> {
        self.ending.wait(patience)
    }

    /// Sends a signal to all its processes.
    pub fn signal(&self, number: u8) {
        self.control.signal(number);
    }

    /// Ends it with everything it started. It is gone when this returns.
    pub fn kill(&self) {
        // First, or it might end by itself for want of whoever carries its output.
        self.control.cancel();
        drop(locked(&self.stopping).take());
        // Locked until all are gone, so that whoever else ends it waits as well.
        for thread in locked(&self.threads).drain(..) {
            // A supervisor that panicked has dropped its sandbox, and so ended it.
            let _ended = thread.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs the process to its end, and ends its sandbox.
fn supervise(
    mut sandbox: Sandbox,
    command: &Command,
    (input, mut outlet, mut said): (OwnedFd, Outlet, LastWords),
) -> End {
    let streams = Streams {
        stdin: Stdin::From(input),
        stdout: &mut outlet,
        stderr: &mut said,
        terminal: None,
    };
    let ended = sandbox.run(command, streams);
    // Whatever it left behind goes before its end is told.
    sandbox.stop();
    match ended {
        Ok(ended) => match ended.not_started {
            Some(why) => End::NotStarted(why),
            None => End::Ran(ended.outcome),
        },
        Err(error) => End::Lost(error.to_string()),
    }
}

/// Ends the process if its data takes too much.
fn watch(watched: &mut Watched, ending: &Ending, control: &Control) {
    let mut pause = Duration::ZERO;
    while ending.wait(pause).is_none() {
        let nameless = |places: &[_]| control.nameless(places).unwrap_or_default();
        let Some(next) = watched.look(nameless) else {
            ending.full.store(true, Ordering::SeqCst);
            control.cancel();
            return;
        };
        pause = next;
    }
}

//! Stands in for an init: a thread that runs each command in a bubblewrap of its own.
//!
//! To the supervisor it speaks as the native init does, by the same orders and notices, so that
//! whatever watches a command need not know which of the two it is. Two things differ: before a
//! command begins it sends [`Notice::Ready`] with the writable places in memory and waits for
//! [`Order::Go`], and a reason why a command was not started is left to be read from bubblewrap's
//! own words (an error number of 0).
//!
//! Bubblewrap ends with the thread that started it, hence a thread that lives as long as the
//! sandbox. It ends when the [`Attendant`] is dropped.

use super::super::limits::Tree;
use super::super::wire::{Notice, Order, Stage};
use super::asked::Asked;
use super::line::Line;
use super::recipe::Recipe;
use super::running::Running;
use crate::stage::Placeholders;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, pidfd_send_signal};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// The init of the command that runs, if one does.
type Current = Arc<Mutex<Option<(i32, OwnedFd)>>>;

fn locked(current: &Current) -> MutexGuard<'_, Option<(i32, OwnedFd)>> {
    current.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread that runs commands.
#[derive(Debug)]
pub(in super::super) struct Attendant {
    current: Current,
    /// Closed to end it.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    /// Dropped after the thread has ended: what is mounted on cannot be removed.
    _placeholders: Option<Placeholders>,
}

impl Attendant {
    /// Begins to take orders from `socket`.
    pub(super) fn new(
        recipe: Recipe,
        placeholders: Option<Placeholders>,
        socket: OwnedFd,
    ) -> io::Result<Self> {
        let current = Current::default();
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut service = Service {
            recipe,
            line: Line(socket),
            stopped,
            current: Arc::clone(&current),
            running: None,
        };
        let thread = thread::Builder::new()
            .name("bubblewrap".to_owned())
            .spawn(move || while service.step().is_some() {})?;
        Ok(Self {
            current,
            stop: Some(stop),
            thread: Some(thread),
            _placeholders: placeholders,
        })
    }

    /// The number of the running command's init.
    pub(in super::super) fn pid(&self) -> i32 {
        locked(&self.current).as_ref().map_or(0, |(pid, _)| *pid)
    }

    /// Ends the running command with everything it started.
    pub(in super::super) fn kill(&self) {
        if let Some((_, init)) = &*locked(&self.current) {
            // It may have ended already.
            let _killed = pidfd_send_signal(init, Signal::KILL);
        }
    }
}

impl Drop for Attendant {
    fn drop(&mut self) {
        self.kill();
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

struct Service {
    recipe: Recipe,
    line: Line,
    stopped: OwnedFd,
    current: Current,
    running: Option<Running>,
}

impl Service {
    /// Waits for one thing to happen and sees to it. None when it is time to end.
    fn step(&mut self) -> Option<()> {
        let (line, stopped) = (self.line.as_fd(), self.stopped.as_fd());
        let mut waiting = vec![
            PollFd::from_borrowed_fd(stopped, PollFlags::IN),
            PollFd::from_borrowed_fd(line, PollFlags::IN),
        ];
        let command = self.running.as_ref().map(Running::as_fd);
        waiting.extend(command.map(|command| PollFd::from_borrowed_fd(command, PollFlags::IN)));
        match poll(&mut waiting, None) {
            Ok(_) => {}
            Err(Errno::INTR) => return Some(()),
            Err(_) => return None,
        }
        let mut ready = waiting.iter().map(|one| !one.revents().is_empty());
        let (stop, order) = (ready.next()?, ready.next()?);
        let ended = ready.next().unwrap_or(false);
        drop(ready);
        if stop {
            return None;
        }
        if ended {
            self.ended();
        }
        if order {
            let (order, descriptors) = self.line.receive().ok()??;
            self.follow(order, descriptors);
        }
        Some(())
    }

    fn follow(&mut self, order: Order, descriptors: Vec<OwnedFd>) {
        match order {
            Order::Run { terminal } => {
                if let Err(error) = self.begin(descriptors, terminal) {
                    self.not_begun(&error);
                }
            }
            Order::Go => {
                if let Some(running) = &mut self.running {
                    running.release();
                }
            }
            Order::Signal(number) => self.signal(number.cast_signed()),
            Order::Kill(number) => {
                self.signal(libc::SIGKILL);
                self.line.tell(Notice::Killed { number }, &[]);
            }
            // Those are for a child of our own.
            Order::Steps | Order::Maps | Order::Beside(_) | Order::Bear { .. } => {}
        }
    }

    fn begin(&mut self, descriptors: Vec<OwnedFd>, terminal: bool) -> io::Result<()> {
        let [request, input, output, errors] = <[OwnedFd; 4]>::try_from(descriptors)
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        if self.running.is_some() {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let asked = Asked::read(request)?;
        let mut running = self
            .recipe
            .spawn(&asked, [input, output, errors], terminal)?;
        let scratch = self.recipe.stand(&mut running)?;
        if let Some((pid, init)) = running.init() {
            let init = init.try_clone_to_owned()?;
            *locked(&self.current) = Some((pid, init));
        }
        self.running = Some(running);
        let scratch: Vec<_> = scratch.iter().map(AsFd::as_fd).collect();
        self.line.tell(Notice::Ready, &scratch);
        Ok(())
    }

    fn not_begun(&self, error: &io::Error) {
        let errno = error.raw_os_error().unwrap_or(0);
        if errno == libc::E2BIG {
            let stage = Stage::Program;
            self.line.tell(Notice::NotStarted { stage, errno }, &[]);
            self.line.tell(
                Notice::Ended {
                    status: 126 << 8,
                    left: 0,
                },
                &[],
            );
        } else {
            self.line.tell(Notice::Failed { step: 0, errno }, &[]);
        }
    }

    fn signal(&self, number: i32) {
        let Some(running) = &self.running else { return };
        if number == libc::SIGKILL {
            return running.kill();
        }
        let init = running.init().and_then(|(pid, _)| u32::try_from(pid).ok());
        let tree = init.and_then(|init| Tree::of(init).ok());
        if let (Some(tree), Some(signal)) = (tree, Signal::from_named_raw(number)) {
            // Those that have ended meanwhile need no signal.
            let _signalled = tree.signal(signal);
        }
    }

    fn ended(&mut self) {
        let Some(mut running) = self.running.take() else {
            return;
        };
        let end = running.end();
        *locked(&self.current) = None;
        drop(running);
        match end {
            Ok(end) => {
                if !end.started {
                    let (stage, errno) = (Stage::Program, 0);
                    self.line.tell(Notice::NotStarted { stage, errno }, &[]);
                }
                let status = end.status;
                self.line.tell(Notice::Ended { status, left: 0 }, &[]);
            }
            Err(error) => self.not_begun(&error),
        }
    }
}

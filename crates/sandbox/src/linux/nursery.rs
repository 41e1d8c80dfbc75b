//! Where the sandboxes of a process that stays are born.
//!
//! A process that makes a copy of itself pays twice: for the copy, and afterwards for every page it
//! writes while there are two of it. One with much memory that does so for each sandbox pays with every
//! command. So it makes one copy early, which does nothing but make others of itself.
//!
//! Guarantee: a child is that of the process the nursery belongs to, as if that had made it itself, and
//! knows nothing that this one learned after the nursery was made. One that fails to answer is given up
//! for good, and ended; its maker then makes copies of itself again.

use super::control::Channel;
use super::limits::own_arguments;
use super::prepared::{Prepared, prepared};
use super::sandbox::{Init, failed, sockets};
use super::sys::{self, ClonedChild};
use super::wire::{Notice, Order};
use crate::launch::StartError;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long a birth may take until the nursery is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one that is given up may take to end by itself.
const GRACE: Duration = Duration::from_secs(1);

/// A process that makes those in which sandboxes begin. Dropped, it is gone; they are not.
#[derive(Debug)]
pub struct Nursery {
    /// None once it failed: whoever wants a child then makes it.
    line: Mutex<Option<Line>>,
    patience: Duration,
}

/// To one that has answered every order so far.
#[derive(Debug)]
struct Line {
    channel: Channel,
    process: Init,
}

/// Why there is no child.
#[derive(Debug)]
enum Unborn {
    /// It was told, and the next one may be made.
    Told(io::Error),
    /// The nursery is of no more use.
    Failed(io::Error),
}

impl From<io::Error> for Unborn {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl Nursery {
    /// Makes one that knows what the calling process knows now.
    pub fn open() -> Result<Self, StartError> {
        let (ours, theirs) = sockets()?;
        let null = null()?;
        let start = sys::Start {
            control: theirs.as_raw_fd(),
            null: null.as_raw_fd(),
            arguments: own_arguments()
                .map_err(|source| failed("find its own arguments", source))?,
        };
        let process = sys::clone_process(0, || start.nurse())
            .map_err(|source| failed("make a nursery", source))?;
        let line = Line {
            channel: Channel::new(ours),
            process: Init(process),
        };
        Ok(Self {
            line: Mutex::new(Some(line)),
            patience: PATIENCE,
        })
    }

    /// As [`prepare`](super::prepare), in a child of the nursery's making where it can make one.
    pub fn prepare(&self) -> Result<Prepared, StartError> {
        prepared(Some(self))
    }

    /// Makes a child with `namespaces` of its own that has the socket `theirs`. After a failure somebody
    /// else may have that socket, too.
    pub(super) fn bear(&self, namespaces: i32, theirs: &OwnedFd) -> io::Result<ClonedChild> {
        let mut place = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let line = place.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        match line.bear(namespaces, theirs, self.patience) {
            Ok(child) => Ok(child),
            Err(Unborn::Told(error)) => Err(error),
            Err(Unborn::Failed(error)) => {
                // An answer that comes late would be taken for that of the next order.
                if let Some(line) = place.take() {
                    line.end();
                }
                Err(error)
            }
        }
    }
}

impl Line {
    fn bear(
        &self,
        namespaces: i32,
        theirs: &OwnedFd,
        patience: Duration,
    ) -> Result<ClonedChild, Unborn> {
        let order = Order::Bear { namespaces };
        self.channel.send(order, &[theirs.as_fd()])?;
        if !self.channel.wait(patience)? {
            return Err(Unborn::Failed(io::ErrorKind::TimedOut.into()));
        }
        match self.channel.receive()? {
            Some((Notice::Born { pid }, descriptors)) => {
                born(pid, descriptors).map_err(Unborn::Told)
            }
            Some((Notice::Unborn { errno }, _)) => {
                Err(Unborn::Told(io::Error::from_raw_os_error(errno)))
            }
            _ => Err(Unborn::Failed(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Ends it, and what it bore that nobody waits for any more.
    fn end(self) {
        let Self { channel, process } = self;
        // One that can still say what it is at does so before it goes.
        let _told = shutdown(channel.as_fd(), Shutdown::Write);
        process.wait(GRACE);
        drop(process);
        while let Ok(true) = channel.wait(Duration::ZERO) {
            match channel.receive() {
                Ok(Some((Notice::Born { pid }, descriptors))) => {
                    drop(born(pid, descriptors).map(Init));
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }
}

/// The child `pid` of this process. One whose descriptor did not come along, for want of room for it on
/// either side, is ended.
fn born(pid: i32, descriptors: Vec<OwnedFd>) -> io::Result<ClonedChild> {
    if let Some(pidfd) = descriptors.into_iter().next() {
        return Ok(ClonedChild { pid, pidfd });
    }
    // Until it is waited for, its number is nobody else's.
    if let Some(pid) = Some(pid).filter(|pid| *pid > 0).and_then(Pid::from_raw) {
        let _killed = kill_process(pid, Signal::KILL);
        let _reaped = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
    }
    Err(Errno::MFILE.into())
}

/// The null device.
pub(super) fn null() -> Result<OwnedFd, StartError> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(c"/dev/null", flags, Mode::empty())
        .map_err(|errno| failed("open /dev/null", errno.into()))
}

#[cfg(test)]
mod tests;

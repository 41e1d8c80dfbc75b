//! Where the sandboxes of a process that stays are born.
//!
//! A process that makes a copy of itself pays twice: for the copy, and afterwards for every page it
//! writes while there are two of it. One with much memory that does so for each sandbox pays with every
//! command. So it makes one copy early, which does nothing but make others of itself.
//!
//! Guarantee: a child is that of the process the nursery belongs to, as if that had made it itself, and
//! knows nothing that this one learned after the nursery was made.

use super::control::Channel;
use super::limits::own_arguments;
use super::prepared::{Prepared, prepared};
use super::sandbox::{Init, failed, sockets};
use super::sys::{self, ClonedChild};
use super::wire::{Notice, Order};
use crate::launch::StartError;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long a birth may take until it is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// A process that makes those in which sandboxes begin. Dropped, it is gone; they are not.
#[derive(Debug)]
pub struct Nursery {
    line: Mutex<Line>,
    patience: Duration,
    // Dropped after the socket, and waited for.
    _process: Init,
}

#[derive(Debug)]
struct Line {
    channel: Channel,
    /// Of the last order.
    number: u32,
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
        Ok(Self {
            line: Mutex::new(Line {
                channel: Channel::new(ours),
                number: 0,
            }),
            patience: PATIENCE,
            _process: Init(process),
        })
    }

    /// As [`prepare`](super::prepare), in a child of the nursery's making where it can make one.
    pub fn prepare(&self) -> Result<Prepared, StartError> {
        prepared(Some(self))
    }

    /// Makes a child with `namespaces` of its own that has the socket `theirs`.
    pub(super) fn bear(&self, namespaces: i32, theirs: &OwnedFd) -> io::Result<ClonedChild> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.number = line.number.wrapping_add(1);
        let wanted = line.number;
        let order = Order::Bear {
            number: wanted,
            namespaces,
        };
        line.channel.send(order, &[theirs.as_fd()])?;
        loop {
            if !line.channel.wait(self.patience)? {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match line.channel.receive()? {
                Some((Notice::Born { number, pid }, descriptors)) => {
                    let pidfd = descriptors.into_iter().next();
                    let pidfd = pidfd.ok_or(io::ErrorKind::InvalidData)?;
                    let child = ClonedChild { pid, pidfd };
                    if number == wanted {
                        return Ok(child);
                    }
                    // That of an order that was given up.
                    drop(Init(child));
                }
                Some((Notice::Unborn { number, errno }, _)) if number == wanted => {
                    return Err(io::Error::from_raw_os_error(errno));
                }
                Some((Notice::Unborn { .. }, _)) => {}
                _ => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }
}

/// The null device.
pub(super) fn null() -> Result<OwnedFd, StartError> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(c"/dev/null", flags, Mode::empty())
        .map_err(|errno| failed("open /dev/null", errno.into()))
}

#[cfg(test)]
mod tests;

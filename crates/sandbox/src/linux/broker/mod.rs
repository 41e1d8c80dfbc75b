//! Deny inside allow: the supervisor opens files on behalf of guarded processes.
//!
//! Mounts grant whole trees. A denial inside one (`**/.env`, also for files that do not exist yet)
//! cannot be said with mounts without walking the tree. So every call that opens or changes a
//! file by its name waits in the kernel ([`notify_filter`]) until a thread here has made it in the
//! process's stead: it resolves the path inside the sandbox's root, judges the file found by its
//! own path, and hands a descriptor over. The kernel is never told to continue such a call: its
//! path lies in memory that another thread can change between judgement and use.
//!
//! Guaranteed: no content of a file is opened, and nothing is changed or created, whose own path a
//! denial covers, whatever links, `..`, descriptors or `/proc` lead to it, and whatever is renamed
//! meanwhile. Renames that would take a denial off a file, or put a file under one, do not happen:
//! a directory then cannot be renamed, as across file systems.
//!
//! Extended attributes are read through an open file alone. The sandbox's Landlock rules do not bind
//! what the broker opens; its mounts do.
//!
//! Not guaranteed: metadata stays visible, and denied programs can be run where their mode allows.
//! Hard links that existed before are other names of the file. A socket can be bound to a denied
//! name. A process that confines itself further with Landlock is not held to that by the broker.
//! A process that may not be looked into (after `PR_SET_DUMPABLE`) may be refused everything.
//!
//! Invariants: the answer to a call is made from one reading of the process's memory; what is opened
//! here is open in no process the supervisor starts meanwhile, wherever the system allows it.

mod attribute;
mod change;
mod common;
mod dispatch;
mod fifo;
mod filter;
mod identity;
mod judge;
mod open;
mod procfs;
mod resolve;
mod target;
#[cfg(test)]
mod tests;
mod threads;
mod turn;

pub(crate) use filter::notify_filter;

use crate::launch::Refusal;
use crate::linux::sys::files::Elsewhere;
use crate::linux::sys::notify::{structures_fit, wake_synchronously};
use crate::plan::Denial;
use common::Common;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use threads::{Parts, Shared};

/// How long stopping waits for a thread that is held up by a file system.
const STOPPING: Duration = Duration::from_millis(500);
/// How long answers to processes that have ended may take. A sandbox that waits for more is not used
/// again.
const RESTING: Duration = Duration::from_millis(100);

/// What a broker guards.
pub(crate) struct Guarded {
    /// Where the calls arrive.
    pub(crate) listener: OwnedFd,
    /// A bare descriptor of the sandbox's `/`.
    pub(crate) root: OwnedFd,
    /// What is denied, by paths inside.
    pub(crate) denials: Vec<Denial>,
    /// The user and group of the host to act as, where the supervisor is root.
    pub(crate) identity: Option<(u32, u32)>,
}

/// Answers the calls of a sandbox until it is dropped or the sandbox ends.
pub(crate) struct Broker {
    common: Arc<Common>,
    /// Wakes every thread that waits.
    stop: OwnedFd,
    /// The terminal whose number the threads have.
    terminal: Mutex<Option<OwnedFd>>,
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker").finish_non_exhaustive()
    }
}

impl Broker {
    /// Starts answering. Fails if a thread cannot become who it must act as.
    pub(crate) fn start(guarded: Guarded) -> io::Result<Self> {
        if !structures_fit()? {
            return Err(io::ErrorKind::Unsupported.into());
        }
        wake_synchronously(guarded.listener.as_fd());
        let broker = Self {
            common: Arc::default(),
            stop: eventfd(0, EventfdFlags::CLOEXEC)?,
            terminal: Mutex::new(None),
        };
        let parts = Parts {
            listener: Elsewhere::new(&guarded.listener),
            root: Elsewhere::new(&guarded.root),
            stop: Elsewhere::new(&broker.stop),
            denials: guarded.denials,
            identity: guarded.identity,
        };
        // What is open here is closed when the threads have copies, or have ended.
        Shared::start(&broker.common, parts)?;
        Ok(broker)
    }

    /// What was refused since this was last asked, each once.
    pub(crate) fn take_refusals(&self) -> Vec<Refusal> {
        self.common.refusals.take()
    }

    /// Whether what is opened here is open in no process the supervisor starts meanwhile.
    pub(crate) fn is_apart(&self) -> bool {
        self.common.is_apart()
    }

    /// Waits until nothing is held open for processes, all of which have ended: what is answered to
    /// one that goes on, or is gone, is closed here a little later. Says whether it is.
    pub(crate) fn comes_to_rest(&self) -> bool {
        let end = Instant::now() + RESTING;
        while !self.common.rests() {
            if Instant::now() >= end {
                return false;
            }
            thread::sleep(Duration::from_micros(50));
        }
        true
    }

    /// What `/dev/tty` is inside: the slave of a terminal made for the sandbox, or nothing.
    pub(crate) fn set_terminal(&self, terminal: Option<OwnedFd>) {
        let mut shown = self.common.terminal();
        *shown = terminal.as_ref().map(Elsewhere::new);
        // Closed once no thread has its number, nor is about to use it.
        let current = self.terminal.lock();
        *current.unwrap_or_else(PoisonError::into_inner) = terminal;
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.set_terminal(None);
        self.common.stop(&self.stop);
        let end = Instant::now() + STOPPING;
        let mut pause = Duration::from_micros(20);
        // Whoever starts others has noted them before it ends.
        while let Some(thread) = self.common.next_thread() {
            while !thread.is_finished() && Instant::now() < end {
                thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(1));
            }
            // One that a file system still holds up ends by itself as soon as it is let go.
            if thread.is_finished() {
                let _ended = thread.join();
            }
        }
    }
}

//! A command's output on its way out: by a thread of its own from its first byte on.
//!
//! Most commands write little and many nothing; a thread that only waits for the end of a pipe would
//! cost more than such a command itself.

use super::control::Control;
use super::pump::{self, Flow};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// One stream of output.
pub(super) struct Stream<'scope> {
    /// Where it is read.
    pub(super) from: OwnedFd,
    /// Where it goes.
    pub(super) to: &'scope mut (dyn Write + Send),
    /// The most that is passed on.
    pub(super) most: u64,
    pub(super) flow: &'scope Flow,
    /// Is woken when there is more.
    pub(super) control: &'scope Control,
    /// Becomes readable when the command has ended.
    pub(super) ended: BorrowedFd<'scope>,
}

impl Stream<'_> {
    fn drain(self) {
        let over = || self.control.wake();
        // Where it cannot be passed on, the pipe is closed, which is all there is to do.
        let _passed = pump::drain(self.from, self.to, self.most, self.flow, self.ended, over);
    }
}

/// A stream, and the thread that carries it once there is something to carry.
pub(super) struct Outlet<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    waiting: Option<Stream<'scope>>,
    carried: Option<ScopedJoinHandle<'scope, ()>>,
    flow: &'scope Flow,
}

impl<'scope, 'env> Outlet<'scope, 'env> {
    pub(super) fn new(
        scope: &'scope Scope<'scope, 'env>,
        flow: &'scope Flow,
        stream: Option<Stream<'scope>>,
    ) -> Self {
        Self {
            scope,
            waiting: stream,
            carried: None,
            flow,
        }
    }

    /// Readable when there is something to carry, until somebody does.
    pub(super) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.waiting.as_ref().map(|stream| stream.from.as_fd())
    }

    /// Whether more came than may.
    pub(super) fn is_over(&self) -> bool {
        self.flow.over.load(Ordering::SeqCst)
    }

    /// Has a thread carry it.
    pub(super) fn carry(&mut self) -> io::Result<()> {
        if let Some(stream) = self.waiting.take() {
            let thread = Builder::new().name("output".to_owned());
            self.carried = Some(thread.spawn_scoped(self.scope, move || stream.drain())?);
        }
        Ok(())
    }

    /// There was nothing to carry, and nobody is left who could write.
    pub(super) fn close(&mut self) {
        self.waiting = None;
    }

    /// Carries what is left, once the command has ended. Whoever holds its output open all the same is
    /// not waited for.
    pub(super) fn finish(self) {
        if let Some(stream) = self.waiting {
            stream.drain();
        }
        if let Some(thread) = self.carried {
            // A thread that panicked has passed on what it could.
            let _ended = thread.join();
        }
    }
}

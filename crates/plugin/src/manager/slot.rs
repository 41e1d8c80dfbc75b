//! The place where a plugin's running instance stands, and whose calls it has.
//!
//! Guarantee: a call gets exactly one instance, and that instance is not stopped before the call has
//! returned or the time for draining is over. Switching to another instance is one assignment:
//! before it every call goes to the old one, after it to the new. Nothing here calls a plugin while
//! a lock is held.

use super::restart::Restarts;
use crate::host::Instance;
use crate::lifecycle::{Lifecycle, State};
use crate::manifest::Manifest;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// One running instance.
pub(super) struct Active {
    pub(super) instance: Arc<dyn Instance>,
    pub(super) manifest: Arc<Manifest>,
    pub(super) lifecycle: Lifecycle,
    /// Tells it from the plugin's other instances.
    pub(super) number: u64,
    /// When somebody first saw that it had ended by itself.
    ended: OnceLock<Duration>,
    calls: Mutex<usize>,
    idle: Condvar,
}

impl Active {
    pub(super) fn new(
        instance: Arc<dyn Instance>,
        manifest: Arc<Manifest>,
        lifecycle: Lifecycle,
        number: u64,
    ) -> Self {
        Self {
            instance,
            manifest,
            lifecycle,
            number,
            ended: OnceLock::new(),
            calls: Mutex::new(0),
            idle: Condvar::new(),
        }
    }

    /// Waits until no call is left, for at most `timeout`.
    fn drain(&self, timeout: Duration) {
        let calls = locked(&self.calls);
        let waited = self
            .idle
            .wait_timeout_while(calls, timeout, |calls| *calls > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Lets its calls end, then ends it with all it started, in the time its manifest says and no more
    /// than `most`. Only one of many that want it does.
    pub(super) fn end(&self, most: Duration) {
        if self.lifecycle.advance(State::Draining).is_err() {
            return;
        }
        let timeout = self.manifest.lifecycle.graceful_shutdown_timeout.min(most);
        let begun = Instant::now();
        self.drain(timeout);
        let _ = self.lifecycle.advance(State::Stopping);
        self.instance.stop(timeout.saturating_sub(begun.elapsed()));
        let _ = self.lifecycle.advance(State::Stopped);
    }

    /// When it ended by itself, as far as anybody saw: whoever sees it first says `now`.
    pub(super) fn ended_at(&self, now: Duration) -> Duration {
        *self.ended.get_or_init(|| now)
    }

    /// Ends what is left of one that ended by itself.
    pub(super) fn bury(&self) {
        let _ = self.lifecycle.advance(State::Error);
        self.instance.stop(Duration::ZERO);
    }
}

/// A call's hold on its instance.
pub(super) struct Turn(pub(super) Arc<Active>);

impl Turn {
    fn of(active: &Arc<Active>) -> Self {
        *locked(&active.calls) += 1;
        Self(Arc::clone(active))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut calls = locked(&self.0.calls);
        *calls = calls.saturating_sub(1);
        if *calls == 0 {
            self.0.idle.notify_all();
        }
    }
}

/// How a plugin stands.
#[derive(Clone)]
pub(super) enum Now {
    /// It was not started yet, or was stopped.
    Off(State),
    /// It is being started or exchanged: calls wait.
    Changing,
    /// It takes calls.
    Serving(Arc<Active>),
    /// It ended by itself, and may be started again from then on.
    Waiting { until: Duration, why: String },
    /// It failed, and stays so until a person does something.
    Failed { why: String },
}

pub(super) struct Inner {
    pub(super) now: Now,
    pub(super) restarts: Restarts,
}

/// What a call finds.
pub(super) enum Entered {
    Turn(Turn),
    /// Its instance is gone.
    Ended(Arc<Active>),
    Not(Now),
}

/// The place of one plugin.
pub(super) struct Slot {
    inner: Mutex<Inner>,
    changed: Condvar,
    /// Held by whoever starts, stops or exchanges it. The number is that of the last instance.
    pub(super) operation: Mutex<u64>,
}

impl Slot {
    pub(super) fn new() -> Self {
        Self {
            inner: Mutex::new(Inner {
                now: Now::Off(State::Discovered),
                restarts: Restarts::default(),
            }),
            changed: Condvar::new(),
            operation: Mutex::new(0),
        }
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        locked(&self.inner)
    }

    pub(super) fn now(&self) -> Now {
        self.inner().now.clone()
    }

    pub(super) fn active(&self) -> Option<Arc<Active>> {
        match self.now() {
            Now::Serving(active) => Some(active),
            Now::Off(_) | Now::Changing | Now::Waiting { .. } | Now::Failed { .. } => None,
        }
    }

    pub(super) fn set(&self, now: Now) {
        self.inner().now = now;
        self.changed.notify_all();
    }

    /// A turn at the instance that serves now.
    pub(super) fn enter(&self) -> Entered {
        let inner = self.inner();
        match &inner.now {
            // Entered under the lock: whoever switches afterwards sees this call.
            Now::Serving(active) if !active.instance.has_ended() => Entered::Turn(Turn::of(active)),
            Now::Serving(active) => Entered::Ended(Arc::clone(active)),
            other @ (Now::Off(_) | Now::Changing | Now::Waiting { .. } | Now::Failed { .. }) => {
                Entered::Not(other.clone())
            }
        }
    }

    /// Waits until something changes, for at most `timeout`.
    pub(super) fn wait(&self, timeout: Duration) {
        let inner = self.inner();
        let waited = self.changed.wait_timeout(inner, timeout);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// The right to start, stop or exchange it.
    pub(super) fn operate(&self) -> MutexGuard<'_, u64> {
        locked(&self.operation)
    }

    /// The same, if nobody has it.
    pub(super) fn try_operate(&self) -> Option<MutexGuard<'_, u64>> {
        match self.operation.try_lock() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }
}

/// Whoever panicked with a lock left whole values behind: each change here is one assignment.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

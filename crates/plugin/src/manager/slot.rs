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

/// How often whoever waits looks again.
pub(super) const LOOK: Duration = Duration::from_millis(20);
/// What an instance gets to end that serves no call any more, or that keeps another from being
/// started: the time of its manifest is for calls.
const PARTING: Duration = Duration::from_secs(5);

/// One running instance.
pub(super) struct Active {
    pub(super) instance: Arc<dyn Instance>,
    pub(super) manifest: Arc<Manifest>,
    pub(super) lifecycle: Lifecycle,
    /// Tells it from the plugin's other instances.
    pub(super) number: u64,
    /// When somebody first saw that it had ended by itself.
    ended: OnceLock<Duration>,
    calls: Mutex<Calls>,
    /// No call is left, or it has less time.
    eased: Condvar,
}

/// What an instance that is to end waits for.
#[derive(Default)]
struct Calls {
    running: usize,
    /// By then it is to have ended, whatever whoever ends it gave it.
    last: Option<Instant>,
}

impl Calls {
    /// How long it still has of the time until then.
    fn left(&self, until: Instant) -> Duration {
        let until = self.last.map_or(until, |last| last.min(until));
        until.saturating_duration_since(Instant::now())
    }
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
            calls: Mutex::default(),
            eased: Condvar::new(),
        }
    }

    /// Waits until no call is left, until then at most. Returns how long is left.
    fn drain(&self, until: Instant) -> Duration {
        let mut calls = locked(&self.calls);
        loop {
            let left = calls.left(until);
            if calls.running == 0 || left.is_zero() {
                return left;
            }
            let waited = self.eased.wait_timeout(calls, left);
            calls = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// By then its calls are waited for no more, also by whoever waits for them already.
    fn hasten(&self, until: Instant) {
        let mut calls = locked(&self.calls);
        let last = calls.last.map_or(until, |last| last.min(until));
        calls.last = Some(last);
        drop(calls);
        self.eased.notify_all();
    }

    /// Lets its calls end, in the time its manifest says and no more than `most`, then ends it with all
    /// it started. Only one of many that want it does.
    pub(super) fn end(&self, most: Duration) {
        if self.lifecycle.advance(State::Draining).is_err() {
            return;
        }
        let timeout = self.manifest.lifecycle.graceful_shutdown_timeout.min(most);
        let left = self.drain(Instant::now() + timeout);
        let _ = self.lifecycle.advance(State::Stopping);
        self.instance.stop(left.min(PARTING));
        let _ = self.lifecycle.advance(State::Stopped);
    }

    /// When it ended by itself, as far as anybody saw: whoever sees it first says `now`.
    pub(super) fn ended_at(&self, now: Duration) -> Duration {
        *self.ended.get_or_init(|| now)
    }

    /// Ends what is left of one that ended by itself, or that has no more time.
    pub(super) fn bury(&self) {
        let _ = self.lifecycle.advance(State::Error);
        self.instance.stop(Duration::ZERO);
    }
}

/// A call's hold on its instance.
pub(super) struct Turn(pub(super) Arc<Active>);

impl Turn {
    fn of(active: &Arc<Active>) -> Self {
        locked(&active.calls).running += 1;
        Self(Arc::clone(active))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut calls = locked(&self.0.calls);
        calls.running = calls.running.saturating_sub(1);
        if calls.running == 0 {
            self.0.eased.notify_all();
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
    /// The instance that takes no more calls and is being ended.
    retiring: Option<Arc<Active>>,
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
                retiring: None,
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

    /// Puts `now` in the place of what serves, if something does: that is returned, and is to be
    /// ended by [`Slot::end`].
    pub(super) fn retire(&self, now: Now) -> Option<Arc<Active>> {
        let mut inner = self.inner();
        let before = std::mem::replace(&mut inner.now, now);
        let retired = match before {
            Now::Serving(active) => Some(active),
            Now::Off(_) | Now::Changing | Now::Waiting { .. } | Now::Failed { .. } => None,
        };
        inner.retiring.clone_from(&retired);
        drop(inner);
        self.changed.notify_all();
        retired
    }

    /// Ends what was retired.
    pub(super) fn end(&self, retired: &Active, most: Duration) {
        retired.end(most);
        self.inner().retiring = None;
    }

    /// Whether nothing of it runs, nor will by itself, and nobody starts or ends it, as far as can be
    /// seen from outside of an operation.
    pub(super) fn is_idle(&self) -> bool {
        let inner = self.inner();
        matches!(inner.now, Now::Off(_) | Now::Failed { .. }) && inner.retiring.is_none()
    }

    /// The instances there are: the one that serves, and the one that is being ended.
    fn instances(&self) -> Vec<Arc<Active>> {
        // Looked at together: what is retired meanwhile is one or the other.
        let inner = self.inner();
        let serving = match &inner.now {
            Now::Serving(active) => Some(Arc::clone(active)),
            Now::Off(_) | Now::Changing | Now::Waiting { .. } | Now::Failed { .. } => None,
        };
        let retiring = inner.retiring.clone();
        serving.into_iter().chain(retiring).collect()
    }

    /// Whatever runs of it has no more time than until then to end, also if somebody ends it already.
    pub(super) fn hasten(&self, until: Instant) {
        for active in self.instances() {
            active.hasten(until);
        }
    }

    /// What is being ended has no more time than until then, whatever whoever ends it gave it.
    fn hasten_retired(&self, until: Instant) {
        let retiring = self.inner().retiring.clone();
        if let Some(retiring) = retiring {
            retiring.hasten(until);
        }
    }

    /// Another instance is to be started: what is being ended is waited for a little longer only.
    pub(super) fn make_way(&self) {
        self.hasten_retired(Instant::now() + PARTING);
    }

    /// Ends whatever runs of it, at once, whoever is at it.
    pub(super) fn cut_short(&self) {
        for active in self.instances() {
            active.bury();
        }
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

    /// The same, if nobody has it by then.
    pub(super) fn operate_by(&self, until: Instant) -> Option<MutexGuard<'_, u64>> {
        loop {
            let operation = self.try_operate();
            let left = until.saturating_duration_since(Instant::now());
            if operation.is_some() || left.is_zero() {
                return operation;
            }
            self.wait(left.min(LOOK));
        }
    }

    /// The same, at the cost of what runs, for as long as `is_to_end` says so: what is being ended has
    /// until then, and after that nothing of it has any time, whoever is at it and why.
    pub(super) fn operate_past(
        &self,
        until: Instant,
        is_to_end: impl Fn() -> bool,
    ) -> MutexGuard<'_, u64> {
        loop {
            if let Some(operation) = self.operate_by(Instant::now() + LOOK) {
                return operation;
            }
            if is_to_end() {
                if Instant::now() < until {
                    self.hasten_retired(until);
                } else {
                    self.cut_short();
                }
            }
        }
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

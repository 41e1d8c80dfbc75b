//! The bounded queue between callers and the writer thread.
//!
//! Guarantee: records that were acknowledged but not yet committed never exceed the window; a
//! caller that would exceed it waits. Nothing is ever dropped.

use super::AppendError;
use airlock_core::Digest;
use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most requests that wait for the writer at once; tickets count too.
const WAITING: usize = 4_096;

/// Where a record ended up in the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Its sequence number.
    pub seq: u64,
    /// Its digest.
    pub digest: Digest,
}

pub(crate) type Reply<T> = SyncSender<Result<T, AppendError>>;

/// When acknowledged records must be committed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) records: usize,
    pub(crate) age: Duration,
}

/// One request to the writer. `J` is what the writer does; the queue only counts.
#[derive(Debug)]
pub(crate) struct Queued<J> {
    pub(crate) job: J,
    /// Records acknowledged to their caller although they are not committed.
    pub(crate) acknowledged: usize,
}

#[derive(Debug)]
struct State<J> {
    jobs: Vec<Queued<J>>,
    /// Acknowledged and not committed, those in the writer's hands included.
    unwritten: usize,
    /// Acknowledged and still in the queue.
    queued: usize,
    urgent: bool,
    oldest: Option<Instant>,
    /// When the waiting writer looks again by itself.
    wakes: Option<Instant>,
    closed: bool,
}

#[derive(Debug)]
pub(crate) struct Queue<J> {
    state: Mutex<State<J>>,
    work: Condvar,
    room: Condvar,
    window: Window,
}

impl<J> Queue<J> {
    pub(crate) fn new(window: Window) -> Self {
        Self {
            state: Mutex::new(State {
                jobs: Vec::new(),
                unwritten: 0,
                queued: 0,
                urgent: false,
                oldest: None,
                wakes: None,
                closed: false,
            }),
            work: Condvar::new(),
            room: Condvar::new(),
            window,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a request somebody waits for.
    pub(crate) fn push_urgent(&self, job: J) -> Result<(), AppendError> {
        let mut state = self.lock();
        while state.jobs.len() >= WAITING && !state.closed {
            state = self.wait(state);
        }
        if state.closed {
            return Err(AppendError::Closed);
        }
        state.urgent = true;
        state.jobs.push(Queued {
            job,
            acknowledged: 0,
        });
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    /// Queues a request that counts as done for its caller, once the window has room for it.
    pub(crate) fn push_acknowledged(&self, job: J, records: usize) -> Result<(), AppendError> {
        let mut state = self.lock();
        while state.unwritten > 0
            && state.unwritten + records > self.window.records
            && !state.closed
        {
            // Nobody is made to wait for the timer.
            state.urgent = true;
            self.work.notify_one();
            state = self.wait(state);
        }
        if state.closed {
            return Err(AppendError::Closed);
        }
        state.unwritten += records;
        let due = *state.oldest.get_or_insert_with(Instant::now) + self.window.age;
        state.jobs.push(Queued {
            job,
            acknowledged: records,
        });
        // A writer that will look in time by itself is left to sleep until a batch is full.
        let sleeps_too_long = state.wakes.is_some_and(|wakes| wakes > due);
        let before = state.queued;
        state.queued += records;
        let full = before < self.trigger() && state.queued >= self.trigger();
        drop(state);
        if sleeps_too_long || full {
            self.work.notify_one();
        }
        Ok(())
    }

    /// Half the window: the writer commits one half while callers fill the other.
    fn trigger(&self) -> usize {
        self.window.records.div_ceil(2)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<J>>) -> MutexGuard<'a, State<J>> {
        self.room
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves everything that is due into `jobs`; false once closed and empty. Returns with nothing
    /// after `patience`.
    pub(crate) fn take(&self, jobs: &mut Vec<Queued<J>>, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            let due = state.oldest.map(|oldest| oldest + self.window.age);
            let full = state.queued >= self.trigger();
            if state.urgent || state.closed || full || due.is_some_and(|due| due <= now) {
                break;
            }
            let wake = due.map_or(until, |due| due.min(until));
            if wake <= now {
                return true;
            }
            state.wakes = Some(wake);
            state = self
                .work
                .wait_timeout(state, wake - now)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            state.wakes = None;
        }
        let open = !(state.closed && state.jobs.is_empty());
        let was_full = state.jobs.len() >= WAITING;
        jobs.append(&mut state.jobs);
        state.urgent = false;
        state.oldest = None;
        state.queued = 0;
        drop(state);
        if was_full {
            self.room.notify_all();
        }
        open
    }

    /// How long an acknowledged record may wait.
    pub(crate) const fn age(&self) -> Duration {
        self.window.age
    }

    /// How many requests wait right now.
    pub(crate) fn len(&self) -> usize {
        self.lock().jobs.len()
    }

    /// `records` acknowledged ones are committed: there is room again.
    pub(crate) fn committed(&self, records: usize) {
        if records > 0 {
            let mut state = self.lock();
            state.unwritten = state.unwritten.saturating_sub(records);
            drop(state);
            self.room.notify_all();
        }
    }

    /// Nothing more is taken in; what is queued will still be handed to the writer.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.work.notify_all();
        self.room.notify_all();
    }
}

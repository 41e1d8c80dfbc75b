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
    urgent: bool,
    oldest: Option<Instant>,
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
                urgent: false,
                oldest: None,
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
            state = self.wait(state);
        }
        if state.closed {
            return Err(AppendError::Closed);
        }
        state.unwritten += records;
        let first = state.jobs.is_empty();
        state.oldest.get_or_insert_with(Instant::now);
        state.jobs.push(Queued {
            job,
            acknowledged: records,
        });
        let full = state.unwritten >= self.trigger();
        drop(state);
        if first || full {
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
            let full = state.jobs.len() >= self.trigger();
            if state.urgent || state.closed || full || due.is_some_and(|due| due <= now) {
                break;
            }
            let wake = due.map_or(until, |due| due.min(until));
            if wake <= now {
                return true;
            }
            state = self
                .work
                .wait_timeout(state, wake - now)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let open = !(state.closed && state.jobs.is_empty());
        jobs.append(&mut state.jobs);
        state.urgent = false;
        state.oldest = None;
        drop(state);
        self.room.notify_all();
        open
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

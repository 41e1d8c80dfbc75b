//! The bounded queue between callers and the writer thread.
//!
//! Guarantee: records that were acknowledged but not yet committed never exceed the window; a
//! caller that would exceed it waits. Nothing is ever dropped.

use super::AppendError;
use super::promise::{Awaited, Promise};
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
    /// The answer for everybody who waits for a record in the queue.
    promise: Promise,
    /// When the waiting writer looks again by itself.
    wakes: Option<Instant>,
    /// How many must wait before it is worth waking the writer.
    wanted: usize,
    closed: bool,
}

/// How long the writer sleeps if nothing is due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// At the longest.
    pub(crate) idle: Duration,
    /// Callers that are expected back at once...
    pub(crate) companions: usize,
    /// ...and how long the first of them is made to wait for the others.
    pub(crate) linger: Duration,
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
                promise: Promise::default(),
                wakes: None,
                wanted: 0,
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
        let mut state = self.lock_with_room()?;
        state.urgent = true;
        state.jobs.push(Queued {
            job,
            acknowledged: 0,
        });
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    /// Queues `records` that their caller waits for, perhaps together with others.
    pub(crate) fn push_promised(&self, job: J, records: usize) -> Result<Awaited, AppendError> {
        let mut state = self.lock_with_room()?;
        let awaited = state.promise.join(records);
        state.jobs.push(Queued {
            job,
            acknowledged: 0,
        });
        // Waking somebody is the dearest part: once is enough.
        let wake = state.wakes.is_some() && state.promise.callers() == state.wanted;
        drop(state);
        if wake {
            self.work.notify_one();
        }
        Ok(awaited)
    }

    fn lock_with_room(&self) -> Result<MutexGuard<'_, State<J>>, AppendError> {
        let mut state = self.lock();
        while state.jobs.len() >= WAITING && !state.closed {
            state = self.wait(state);
        }
        if state.closed {
            return Err(AppendError::Closed);
        }
        Ok(state)
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

    /// A quarter of the window: the writer commits one while callers fill the others. Nobody waits long
    /// for a processor that it has then.
    fn trigger(&self) -> usize {
        self.window.records.div_ceil(4)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<J>>) -> MutexGuard<'a, State<J>> {
        self.room
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves everything that is due into `jobs`, and the promise made to those who wait for it;
    /// none once closed and empty. Returns with nothing when `patience` is at an end.
    pub(crate) fn take(&self, jobs: &mut Vec<Queued<J>>, patience: Patience) -> Option<Promise> {
        let until = Instant::now() + patience.idle;
        let mut lingers_until = None;
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            let due = state.oldest.map(|oldest| oldest + self.window.age);
            let full = state.queued >= self.trigger();
            if state.urgent || state.closed || full || due.is_some_and(|due| due <= now) {
                break;
            }
            let mut wake = due.map_or(until, |due| due.min(until));
            state.wanted = 1;
            if state.promise.callers() > 0 {
                let lingers_until = *lingers_until.get_or_insert(now + patience.linger);
                if state.promise.callers() >= patience.companions || lingers_until <= now {
                    break;
                }
                wake = wake.min(lingers_until);
                state.wanted = patience.companions;
            }
            if until <= now {
                return Some(Promise::default());
            }
            state.wakes = Some(wake);
            state = self
                .work
                .wait_timeout(state, wake.saturating_duration_since(now))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            state.wakes = None;
        }
        let open = !(state.closed && state.jobs.is_empty());
        let was_full = state.jobs.len() >= WAITING;
        jobs.append(&mut state.jobs);
        let promise = std::mem::take(&mut state.promise);
        state.urgent = false;
        state.oldest = None;
        state.queued = 0;
        drop(state);
        if was_full {
            self.room.notify_all();
        }
        open.then_some(promise)
    }

    /// How long an acknowledged record may wait.
    pub(crate) const fn age(&self) -> Duration {
        self.window.age
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

    /// The same, and nobody is there any more who would take what is queued.
    pub(crate) fn abandon(&self) {
        let mut state = self.lock();
        state.closed = true;
        let left = (
            std::mem::take(&mut state.jobs),
            std::mem::take(&mut state.promise),
        );
        drop(state);
        // Tells those who wait.
        drop(left);
        self.room.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long enough that a test which waits for it in vain has failed.
    const LONG: Duration = Duration::from_mins(1);

    fn queue() -> Queue<u8> {
        Queue::new(Window {
            records: 100,
            age: LONG,
        })
    }

    #[test]
    fn the_writer_waits_for_companions_and_takes_them_together() {
        let queue = queue();
        let patience = Patience {
            idle: LONG,
            companions: 3,
            linger: LONG,
        };
        let mut jobs = Vec::new();
        let promise = std::thread::scope(|scope| {
            for job in 0..3 {
                let queue = &queue;
                scope.spawn(move || drop(queue.push_promised(job, 1)));
            }
            queue.take(&mut jobs, patience).unwrap()
        });
        assert_eq!((jobs.len(), promise.callers()), (3, 3));
    }

    #[test]
    fn a_caller_is_not_kept_waiting_for_companions_that_do_not_come() {
        let queue = queue();
        let patience = Patience {
            idle: LONG,
            companions: 3,
            linger: Duration::from_millis(1),
        };
        let _awaited = queue.push_promised(7, 1).unwrap();
        let mut jobs = Vec::new();
        let promise = queue.take(&mut jobs, patience).unwrap();
        assert_eq!((jobs.len(), promise.callers()), (1, 1));
    }

    #[test]
    fn nobody_waits_for_a_writer_that_is_gone() {
        let queue = queue();
        let awaited = queue.push_promised(7, 1).unwrap();
        queue.abandon();
        assert_eq!(awaited.first(), Err(AppendError::Closed));
        assert!(queue.push_promised(8, 1).is_err());
        assert!(queue.push_urgent(8).is_err());
    }
}

//! Work shared by threads: last in, first out, over when nothing is left and nobody works.
//!
//! Last in, first out keeps a walk going down before it goes wide, so that what waits stays small.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

pub(super) struct Queue<W> {
    state: Mutex<State<W>>,
    changed: Condvar,
}

struct State<W> {
    waiting: Vec<W>,
    working: usize,
}

impl<W> Queue<W> {
    pub(super) fn new(first: W) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: vec![first],
                working: 0,
            }),
            changed: Condvar::new(),
        }
    }

    /// How much is waiting.
    pub(super) fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    /// The next piece, once there is one; none when all is done.
    ///
    /// The taker counts as working until the guard of [`Queue::working`] is gone.
    pub(super) fn take(&self) -> Option<W> {
        let mut state = self.lock();
        loop {
            if let Some(work) = state.waiting.pop() {
                state.working += 1;
                return Some(work);
            }
            if state.working == 0 {
                return None;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the taker's piece of work when dropped, even by a panic.
    pub(super) fn working(&self) -> Working<'_, W> {
        Working { queue: self }
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Working<'a, W> {
    queue: &'a Queue<W>,
}

impl<W> Working<'_, W> {
    /// Ends it with more work found, which is taken out of `found`.
    pub(super) fn with(self, found: &mut Vec<W>) {
        if !found.is_empty() {
            self.queue.lock().waiting.append(found);
        }
    }
}

impl<W> Drop for Working<'_, W> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.working = state.working.saturating_sub(1);
        let over = state.waiting.is_empty() && state.working == 0;
        // A single piece is taken by the thread that found it.
        let shareable = state.waiting.len() > 1;
        drop(state);
        if over || shareable {
            self.queue.changed.notify_all();
        }
    }
}

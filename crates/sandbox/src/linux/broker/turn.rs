//! Whose turn it is to wait for the next call.
//!
//! One thread waits at a time: a second would wait for good in the kernel if the first takes the
//! call both have seen. It keeps its turn while it answers, since handing over costs more than most
//! answers. It gives it up when another call waits already, and loses it when an answer takes long
//! because a file system does.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(super) struct Turn {
    state: Mutex<State>,
    free: Condvar,
}

#[derive(Default)]
struct State {
    taken: bool,
    stopped: bool,
    /// Counts the turns, so that a thread notices the loss of its own.
    number: u64,
    /// Counts the answers begun.
    answers: u64,
    answering: bool,
    /// The answer under way when last looked.
    seen: Option<u64>,
}

/// A turn, as long as nobody took it away.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticket(u64);

impl Turn {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn; none once stopped.
    pub(super) fn take(&self) -> Option<Ticket> {
        let state = self.state();
        let waited = self
            .free
            .wait_while(state, |state| state.taken && !state.stopped);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.stopped {
            return None;
        }
        state.taken = true;
        state.number += 1;
        Some(Ticket(state.number))
    }

    /// A call is about to be answered, and others wait or not.
    pub(super) fn begin(&self, others: bool) {
        let mut state = self.state();
        state.answers += 1;
        state.answering = !others;
        if others {
            self.release(&mut state);
        }
    }

    /// The call is answered: whether it is still the same thread's turn.
    pub(super) fn end(&self, ticket: Ticket) -> bool {
        let mut state = self.state();
        let own = state.taken && state.number == ticket.0;
        if own {
            state.answering = false;
        }
        own
    }

    /// Takes the turn from a thread that has been answering since this was last called.
    pub(super) fn watch(&self) {
        let mut state = self.state();
        let current = state.answering.then_some(state.answers);
        if current.is_some() && current == state.seen {
            self.release(&mut state);
        }
        state.seen = current;
    }

    pub(super) fn stop(&self) {
        self.state().stopped = true;
        self.free.notify_all();
    }

    fn release(&self, state: &mut State) {
        state.taken = false;
        state.answering = false;
        self.free.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_kept_unless_others_wait_or_an_answer_takes_long() {
        let turn = Turn::default();
        let first = turn.take().unwrap();
        turn.begin(false);
        turn.watch();
        assert!(turn.end(first));
        turn.watch();
        turn.begin(false);
        turn.watch();
        turn.watch();
        assert!(!turn.end(first));
        let second = turn.take().unwrap();
        assert!(!turn.end(first));
        turn.begin(true);
        assert!(!turn.end(second));
        let third = turn.take().unwrap();
        assert!(!turn.end(second));
        assert!(turn.end(third));
        turn.stop();
        assert!(turn.take().is_none());
    }
}

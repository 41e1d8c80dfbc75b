//! The store of sessions and approvals, opened when something first needs it.
//!
//! Most commands have neither session nor question, and do not pay for the file.

use crate::clock::Clock;
use airlock_audit::{Durability, Entry, EventType, Log, Stage};
use airlock_core::{Mode, Phase, SessionId};
use airlock_state::{Session, State, StateBreak, StateError};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, ThreadId};

/// Opens the store once, and tells what went wrong with the one before it.
pub(crate) struct StateHold {
    directory: PathBuf,
    clock: Clock,
    opened: Mutex<Opened>,
    /// Sessions that moved, until the call that moved them is recorded. A call runs on one thread.
    moves: Mutex<Vec<(ThreadId, Move)>>,
}

/// A session that moved to another mode or phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) session: SessionId,
    /// From one to another.
    pub(crate) mode: (Mode, Mode),
    /// From one to another.
    pub(crate) phase: (Phase, Phase),
}

#[derive(Default)]
struct Opened {
    state: Option<Arc<State>>,
    /// What was lost, until it is recorded.
    unrecorded: Option<String>,
    /// What was lost, until the person is told.
    untold: Option<String>,
}

impl StateHold {
    pub(crate) fn new(directory: PathBuf, clock: Clock) -> Self {
        Self {
            directory,
            clock,
            opened: Mutex::new(Opened::default()),
            moves: Mutex::default(),
        }
    }

    /// Notes that the call on this thread took a session from `before` to `after`.
    pub(crate) fn moved(&self, before: &Session, after: &Session) {
        let moved = Move {
            session: after.id.clone(),
            mode: (before.mode, after.mode),
            phase: (before.phase, after.phase),
        };
        if moved.mode.0 != moved.mode.1 || moved.phase.0 != moved.phase.1 {
            self.moves().push((std::thread::current().id(), moved));
        }
    }

    /// The moves of the call on this thread, once.
    pub(crate) fn take_moves(&self) -> Vec<Move> {
        let mut moves = self.moves();
        if moves.is_empty() {
            return Vec::new();
        }
        let own = std::thread::current().id();
        let taken = moves.extract_if(.., |(thread, _)| *thread == own);
        taken.map(|(_, moved)| moved).collect()
    }

    fn moves(&self) -> MutexGuard<'_, Vec<(ThreadId, Move)>> {
        self.moves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store.
    pub(crate) fn get(&self) -> Result<Arc<State>, StateError> {
        let mut opened = self.lock();
        if let Some(state) = &opened.state {
            return Ok(Arc::clone(state));
        }
        let now = self.clock.now();
        let state = Arc::new(State::open(&self.directory, now)?);
        let lost = state.recovered().map(airlock_state::StateRecovery::message);
        opened.unrecorded.clone_from(&lost);
        opened.untold = lost;
        opened.state = Some(Arc::clone(&state));
        // What stays unarchived today is archived tomorrow.
        let _ = state.archive_stale(now);
        Ok(state)
    }

    /// Looks through all of the store beside whatever else is done, where opening it did not. What is
    /// found is told and recorded by the next call that needs the store, and mended by whoever opens
    /// it next; what a call takes from it is proven by itself until then.
    pub(crate) fn look_through(self: &Arc<Self>) {
        let hold = Arc::clone(self);
        let thread = Builder::new().name("state check".to_owned());
        let _looking = thread.spawn(move || {
            let found = State::check_apart(&hold.directory);
            let Some(broken) = found.err().filter(StateBreak::is_damage) else {
                return;
            };
            // Where it cannot be marked it is found again at the next start.
            let _marked = State::suspect(&hold.directory);
            let told = format!(
                "the store of sessions and approvals does not hold: {broken}; what can be rescued \
                 is, when the last process that uses it has ended"
            );
            let mut opened = hold.lock();
            opened.unrecorded = Some(told.clone());
            opened.untold = Some(told);
        });
    }

    fn lock(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records in `log` that the store was damaged, once.
    pub(crate) fn record_loss(&self, log: &Log) {
        let mut opened = self.lock();
        let mended = opened.state.as_ref().and_then(|state| state.take_mended());
        if let Some(mended) = mended {
            opened.unrecorded = Some(mended.clone());
            opened.untold = Some(mended);
        }
        let Some(lost) = opened.unrecorded.take() else {
            return;
        };
        let mut entry = Entry::new(self.clock.now(), EventType::AuditChainBreak, Stage::Note);
        entry.reason = Some(crate::sanitise::sanitise_line(&lost, 500));
        entry
            .metadata
            .insert("store".to_owned(), "state".to_owned());
        if log.append(&entry, Durability::Durable).is_err() {
            opened.unrecorded = Some(lost);
        }
    }

    /// What the person should be told, once.
    pub(crate) fn take_notice(&self) -> Option<String> {
        self.lock().untold.take()
    }
}

//! The store of sessions and approvals, opened when something first needs it.
//!
//! Most commands have neither session nor question, and do not pay for the file.

use crate::clock::Clock;
use airlock_audit::{Durability, Entry, EventType, Log, Stage};
use airlock_core::{Mode, Phase, SessionId, Timestamp};
use airlock_state::{Session, State, StateBreak, StateError};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{Builder, ThreadId};

/// Opens the store once, and tells what went wrong with the one before it.
pub(crate) struct StateHold {
    directory: PathBuf,
    clock: Clock,
    opened: Mutex<Opened>,
    /// Sessions that moved, until the call that moved them is recorded. A call runs on one thread.
    moves: Mutex<Vec<(ThreadId, Move)>>,
    /// The hour in which old sessions were last put away.
    archived: AtomicI64,
    /// Whether a session ended since the store was last copied.
    state_due: AtomicBool,
    /// The same for the log.
    log_due: AtomicBool,
    /// When a kernel that stays last made copies, in microseconds.
    copied: AtomicI64,
}

/// How often a kernel that stays puts old sessions away.
const HOUR_MICROS: i64 = 60 * 60 * 1_000_000;

/// The least time between copies of a kernel that stays: each is of all there is, and five are kept.
const PAUSE_MICROS: i64 = HOUR_MICROS / 4;

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
            archived: AtomicI64::new(i64::MIN),
            state_due: AtomicBool::new(false),
            log_due: AtomicBool::new(false),
            copied: AtomicI64::new(i64::MIN),
        }
    }

    /// Notes that a session ended: copies of what is known are due, once nobody waits for them.
    pub(crate) fn session_ended(&self) {
        self.state_due.store(true, Ordering::SeqCst);
        self.log_due.store(true, Ordering::SeqCst);
    }

    /// What a kernel that stays does now and then: puts old sessions away, and makes copies, at most
    /// every quarter of an hour.
    pub(crate) fn keep(&self, log: &Log) {
        let now = self.clock.now();
        let hour = now.as_micros().div_euclid(HOUR_MICROS);
        let opened = self.lock().state.clone();
        if let Some(state) = opened
            && self.archived.swap(hour, Ordering::SeqCst) != hour
        {
            self.archive_stale(&state, now);
        }
        let is_due = self.state_due.load(Ordering::SeqCst) || self.log_due.load(Ordering::SeqCst);
        let now = now.as_micros();
        let since = now.saturating_sub(self.copied.load(Ordering::SeqCst));
        // A clock that went back keeps nothing from being copied.
        if is_due && !(0..PAUSE_MICROS).contains(&since) {
            self.copied.store(now, Ordering::SeqCst);
            self.copy(log);
        }
    }

    /// What stays unarchived now is archived later.
    fn archive_stale(&self, state: &State, now: Timestamp) {
        if state.archive_stale(now).is_ok_and(|archived| archived > 0) {
            self.session_ended();
        }
    }

    /// Copies store and log, each if a session ended since that was last done. What cannot be copied
    /// is copied later, and the other not again for it: old copies go as new ones come.
    pub(crate) fn copy(&self, log: &Log) {
        if self.state_due.swap(false, Ordering::SeqCst) {
            let copied = self.get().map(|state| state.snapshot(self.clock.now()));
            if !matches!(copied, Ok(Ok(_))) {
                self.state_due.store(true, Ordering::SeqCst);
            }
        }
        if self.log_due.swap(false, Ordering::SeqCst) {
            // What is only gathered would be missing.
            let _written = log.flush();
            if log.snapshot().is_err() {
                self.log_due.store(true, Ordering::SeqCst);
            }
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
        // Also what an earlier process did not live to tell.
        let lost = state.untold();
        opened.unrecorded.clone_from(&lost);
        opened.untold = lost;
        opened.state = Some(Arc::clone(&state));
        let hour = now.as_micros().div_euclid(HOUR_MICROS);
        self.archived.store(hour, Ordering::SeqCst);
        self.archive_stale(&state, now);
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
        } else if let Some(state) = &opened.state {
            state.told();
        }
    }

    /// What the person should be told, once.
    pub(crate) fn take_notice(&self) -> Option<String> {
        self.lock().untold.take()
    }
}

/// Makes the copies that are due when a kernel ends, however it does.
pub(crate) struct LastCopies {
    hold: Arc<StateHold>,
    log: Weak<Log>,
}

impl LastCopies {
    pub(crate) fn new(hold: &Arc<StateHold>, log: &Arc<Log>) -> Self {
        Self {
            hold: Arc::clone(hold),
            log: Arc::downgrade(log),
        }
    }
}

impl Drop for LastCopies {
    fn drop(&mut self) {
        if let Some(log) = self.log.upgrade() {
            self.hold.copy(&log);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_audit::LogConfig;
    use airlock_state::{Budget, NewSession, Owner, SessionState};

    /// 2026-01-01, in microseconds.
    const START: i64 = 1_767_225_600_000_000;
    const DAY: i64 = 24 * HOUR_MICROS;

    struct Place {
        directory: tempfile::TempDir,
        time: Arc<AtomicI64>,
        clock: Clock,
    }

    impl Place {
        fn new() -> Self {
            let time = Arc::new(AtomicI64::new(START));
            let told = Arc::clone(&time);
            Self {
                directory: tempfile::tempdir().unwrap(),
                time,
                clock: Clock::from_fn(move || Timestamp::from_micros(told.load(Ordering::SeqCst))),
            }
        }

        fn pass(&self, micros: i64) {
            self.time.fetch_add(micros, Ordering::SeqCst);
        }

        fn log(&self) -> Log {
            let path = self.directory.path();
            Log::open(LogConfig::new(
                path,
                &path.join("keys"),
                self.clock.shared(),
            ))
            .unwrap()
        }

        fn hold(&self) -> StateHold {
            StateHold::new(self.directory.path().to_owned(), self.clock.clone())
        }

        /// Copies of the store and of the log.
        fn copies(&self) -> (usize, usize) {
            let count = |name: &str| {
                let found = std::fs::read_dir(self.directory.path().join(name));
                let found = found.into_iter().flatten().flatten();
                found
                    .filter(|entry| entry.path().extension().is_some_and(|end| end == "db"))
                    .count()
            };
            (count("backups/state"), count("backups"))
        }
    }

    fn owner() -> Owner {
        Owner {
            tenant: "local".parse().unwrap(),
            user: "ada".parse().unwrap(),
        }
    }

    fn begin(state: &State, now: Timestamp) -> SessionId {
        let new = NewSession {
            id: "s-1".parse().unwrap(),
            owner: owner(),
            workspace: "w".parse().unwrap(),
            title: None,
            agent: None,
            parent: None,
            mode: Mode::Explore,
            disciplined: false,
            stage: "default".to_owned(),
            budget: Budget::USUAL,
        };
        state.create_session(new, now).unwrap().id
    }

    #[test]
    fn a_kernel_that_stays_puts_old_sessions_away_as_time_passes() {
        let place = Place::new();
        let (log, hold) = (place.log(), place.hold());
        let state = hold.get().unwrap();
        let id = begin(&state, place.clock.now());
        let stands = || state.session(&owner(), &id).unwrap().unwrap().state;
        place.pass(29 * DAY);
        hold.keep(&log);
        assert_eq!(stands(), SessionState::Active);
        assert_eq!(place.copies(), (0, 0), "no session ended");
        place.pass(2 * DAY);
        hold.keep(&log);
        assert_eq!(stands(), SessionState::Archived);
        assert_eq!(place.copies(), (1, 1), "one did");
    }

    #[test]
    fn copies_are_made_once_for_all_sessions_that_ended_and_five_are_kept() {
        let place = Place::new();
        let (log, hold) = (place.log(), place.hold());
        begin(&hold.get().unwrap(), place.clock.now());
        for round in 1..=7 {
            place.pass(PAUSE_MICROS);
            hold.session_ended();
            hold.session_ended();
            hold.keep(&log);
            hold.keep(&log);
            let want = round.min(5);
            assert_eq!(place.copies(), (want, want), "round {round}");
        }
    }

    #[test]
    fn copies_that_fail_are_made_the_next_time() {
        let place = Place::new();
        let (log, hold) = (place.log(), place.hold());
        begin(&hold.get().unwrap(), place.clock.now());
        let backups = place.directory.path().join("backups");
        std::fs::write(&backups, "in the way").unwrap();
        hold.session_ended();
        hold.keep(&log);
        std::fs::remove_file(&backups).unwrap();
        place.pass(PAUSE_MICROS);
        hold.keep(&log);
        assert_eq!(place.copies(), (1, 1));
    }

    #[test]
    fn copies_are_a_quarter_of_an_hour_apart_and_the_end_does_not_wait_for_it() {
        let place = Place::new();
        let (log, hold) = (Arc::new(place.log()), Arc::new(place.hold()));
        begin(&hold.get().unwrap(), place.clock.now());
        for (passed, want) in [
            (0, 1),
            (PAUSE_MICROS / 2, 1),
            (PAUSE_MICROS / 2 - 1, 1),
            (1, 2),
            (PAUSE_MICROS - 1, 2),
        ] {
            place.pass(passed);
            hold.session_ended();
            hold.keep(&log);
            assert_eq!(place.copies(), (want, want), "after {passed} more");
        }
        drop(LastCopies::new(&hold, &log));
        assert_eq!(place.copies(), (3, 3));
        // Whoever sets the clock back does not put copies off.
        place.pass(-DAY);
        hold.session_ended();
        hold.keep(&log);
        assert_eq!(place.copies(), (4, 4));
    }

    #[test]
    fn what_was_copied_is_not_copied_again_because_the_other_could_not_be() {
        let place = Place::new();
        let (log, hold) = (place.log(), place.hold());
        begin(&hold.get().unwrap(), place.clock.now());
        let backups = place.directory.path().join("backups");
        std::fs::create_dir(&backups).unwrap();
        std::fs::write(backups.join("state"), "in the way").unwrap();
        hold.session_ended();
        for _ in 0..3 {
            hold.keep(&log);
            place.pass(PAUSE_MICROS);
        }
        assert_eq!(place.copies(), (0, 1), "the log, once");
        std::fs::remove_file(backups.join("state")).unwrap();
        hold.keep(&log);
        assert_eq!(place.copies(), (1, 1));
    }

    #[test]
    fn a_kernel_that_ends_makes_the_copies_that_are_due() {
        let place = Place::new();
        let (log, hold) = (Arc::new(place.log()), Arc::new(place.hold()));
        begin(&hold.get().unwrap(), place.clock.now());
        drop(LastCopies::new(&hold, &log));
        assert_eq!(place.copies(), (0, 0), "no session ended");
        hold.session_ended();
        drop(LastCopies::new(&hold, &log));
        assert_eq!(place.copies(), (1, 1));
    }
}

//! Waits for the disk on a thread of its own while the writer seals and commits what comes next.
//!
//! Worth it only where a sync takes less time than returning all callers and committing their next
//! records does: then two groups of callers take turns, one on its way while the other is synced.
//! A slower disk serves more callers if all of them share each sync, so the writer waits for it
//! itself; and so it does for a few callers, who would pay for one more thread to be woken.
//!
//! Guarantee: whoever is handed in is answered, after a sync that began later than its commit; with
//! a failure if this thread is gone.

use super::disk::Disk;
use super::{Promise, Written};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// What one caller's return, its next record and the commit of that take: measured on two
/// processors, and only to be right within a factor of two.
const EACH_CALLER: Duration = Duration::from_micros(5);

/// A transaction that waits for the disk.
#[derive(Debug)]
struct Handed {
    promise: Promise,
    written: Vec<Written>,
}

#[derive(Debug, Default)]
struct State {
    handed: Vec<Handed>,
    /// Callers handed in and not answered.
    callers: usize,
    /// Callers that the last sync answered.
    answered: usize,
    sleeps: bool,
    closed: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    disk: Arc<Disk>,
}

/// The writer's side.
#[derive(Debug)]
pub(super) struct Syncer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Syncer {
    /// Starts no thread yet: a short command never needs it.
    pub(super) fn new(disk: Arc<Disk>) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            work: Condvar::new(),
            disk,
        });
        Self {
            shared,
            thread: None,
        }
    }

    /// Whether the thread is there, started now if need be.
    fn is_started(&mut self) -> bool {
        if self.thread.is_none() {
            let shared = Arc::clone(&self.shared);
            // If the system gives no thread, the writer waits for the disk itself.
            self.thread = std::thread::Builder::new()
                .name("audit-sync".to_owned())
                .spawn(move || shared.run())
                .ok();
        }
        self.thread.is_some()
    }

    /// Whether the writer should go on instead of waiting for the disk itself, with `callers` more
    /// to be answered.
    pub(super) fn is_worthwhile(&mut self, callers: usize) -> bool {
        let waiting = self.shared.lock().callers.saturating_add(callers);
        let work = EACH_CALLER.saturating_mul(u32::try_from(waiting).unwrap_or(u32::MAX));
        // Of a disk nobody has waited for yet nothing is known.
        self.shared.disk.took().is_some_and(|took| took < work) && self.is_started()
    }

    /// Callers that are on their way back, and how long it costs nothing to wait for them: what is
    /// committed during a sync is not synced before its end in any case.
    pub(super) fn returning(&self) -> (usize, Duration) {
        let took = self.shared.disk.took().unwrap_or_default();
        (self.shared.lock().answered, took / 2)
    }

    /// Answers `promise` with `written` once the disk has what was committed before this call. Only
    /// after this was found worthwhile: without a thread nobody would answer.
    pub(super) fn hand(&self, promise: Promise, written: Vec<Written>) {
        let mut state = self.shared.lock();
        if state.closed {
            // Dropping the promise answers it.
            return;
        }
        state.callers += promise.callers();
        state.handed.push(Handed { promise, written });
        let wake = std::mem::take(&mut state.sleeps);
        drop(state);
        if wake {
            self.shared.work.notify_one();
        }
    }

    /// Returns once everybody was answered.
    pub(super) fn close(&mut self) {
        self.shared.lock().closed = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take() {
            // If it panicked, its guard answered everybody.
            let _ = thread.join();
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let _guard = AnswerOnExit(self);
        while let Some(handed) = self.take() {
            // Everything in `handed` was committed before this sync begins.
            let synced = self.disk.sync();
            let answered: usize = handed.iter().map(|handed| handed.promise.callers()).sum();
            let mut state = self.lock();
            state.callers -= answered;
            state.answered = answered;
            drop(state);
            for Handed { promise, written } in handed {
                promise.keep(synced.clone().map(|()| written));
            }
        }
    }

    /// All that was handed in, once there is something; none once closed and empty.
    fn take(&self) -> Option<Vec<Handed>> {
        let mut state = self.lock();
        while state.handed.is_empty() {
            if state.closed {
                return None;
            }
            state.sleeps = true;
            state = self
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.sleeps = false;
        Some(std::mem::take(&mut state.handed))
    }
}

/// Lets nobody wait for a thread that is gone, however it went.
struct AnswerOnExit<'a>(&'a Shared);

impl Drop for AnswerOnExit<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closed = true;
        let left = std::mem::take(&mut state.handed);
        drop(state);
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::super::disk::Barrier;
    use super::*;
    use crate::AppendError;
    use airlock_core::Digest;
    use std::io;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A disk whose syncs the test lets through one by one.
    #[derive(Debug)]
    struct Stepped {
        began: Sender<()>,
        ends: Receiver<bool>,
    }

    impl Barrier for Stepped {
        fn sync(&mut self) -> io::Result<()> {
            self.began.send(()).unwrap();
            let holds = self.ends.recv().unwrap();
            holds.then_some(()).ok_or_else(|| io::Error::other("lost"))
        }
    }

    fn stepped() -> (Syncer, Receiver<()>, Sender<bool>) {
        let (began, begins) = channel();
        let (end, ends) = channel();
        let disk = Disk::new(Box::new(Stepped { began, ends }));
        let mut syncer = Syncer::new(Arc::new(disk));
        assert!(syncer.is_started());
        (syncer, begins, end)
    }

    fn written(seq: u64) -> Vec<Written> {
        let digest = Digest::from_bytes([1; 32]);
        vec![Written { seq, digest }]
    }

    #[test]
    fn a_commit_during_a_sync_is_answered_by_the_next_one_only() {
        let (mut syncer, begins, end) = stepped();
        let mut promises = [Promise::default(), Promise::default()];
        let [one, two] = promises.each_mut().map(|promise| promise.join(1));
        let [first, second] = promises;
        syncer.hand(first, written(1));
        begins.recv().unwrap();
        syncer.hand(second, written(2));
        end.send(true).unwrap();
        assert_eq!(one.first().unwrap().seq, 1);
        // The second sync has begun by itself and nobody was answered by it yet.
        begins.recv().unwrap();
        assert!(!two.is_answered());
        end.send(true).unwrap();
        assert_eq!(two.first().unwrap().seq, 2);
        syncer.close();
    }

    #[test]
    fn a_failed_sync_fails_everybody_it_was_for_and_all_after_it() {
        let (mut syncer, begins, end) = stepped();
        let mut promises = [Promise::default(), Promise::default()];
        let [one, two] = promises.each_mut().map(|promise| promise.join(1));
        let [first, second] = promises;
        syncer.hand(first, written(1));
        begins.recv().unwrap();
        syncer.hand(second, written(2));
        end.send(false).unwrap();
        let lost = Err(AppendError::Unsynced("lost".to_owned()));
        assert_eq!([one.first(), two.first()], [lost.clone(), lost]);
        syncer.close();
    }

    #[test]
    fn nobody_waits_for_a_thread_that_is_gone() {
        let (mut syncer, begins, end) = stepped();
        let mut promises = [Promise::default(), Promise::default()];
        let [one, two] = promises.each_mut().map(|promise| promise.join(1));
        let [first, second] = promises;
        syncer.hand(first, written(1));
        begins.recv().unwrap();
        // The disk's thread panics in the middle of a sync.
        drop(end);
        assert_eq!(one.first(), Err(AppendError::Closed));
        syncer.close();
        syncer.hand(second, written(2));
        assert_eq!(two.first(), Err(AppendError::Closed));
    }

    #[test]
    fn only_a_disk_quicker_than_its_callers_is_left_to_the_thread() {
        let (mut syncer, begins, end) = stepped();
        assert!(!syncer.is_worthwhile(1_000_000), "nothing is known yet");
        let mut promise = Promise::default();
        let awaited = promise.join(1);
        syncer.hand(promise, written(1));
        begins.recv().unwrap();
        std::thread::sleep(Duration::from_millis(2));
        end.send(true).unwrap();
        awaited.first().unwrap();
        assert!(!syncer.is_worthwhile(32), "two milliseconds are long");
        assert!(syncer.is_worthwhile(1_000_000), "but not for so many");
    }
}

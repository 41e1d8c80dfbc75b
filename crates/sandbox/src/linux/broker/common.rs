//! What a broker and its threads have in common.
//!
//! Invariant: nothing here is an open file. Broker and threads have different tables of them, and
//! whoever is last would close what it does not have.

use super::judge::Refusals;
use super::turn::Turn;
use crate::linux::sys::files::Elsewhere;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

#[derive(Default)]
pub(super) struct Common {
    pub(super) refusals: Arc<Refusals>,
    pub(super) turn: Turn,
    terminal: Mutex<Option<Elsewhere>>,
    /// How many calls are being answered, and how many openings wait.
    busy: AtomicUsize,
    /// Whether the threads have open files of their own.
    apart: AtomicBool,
    stopping: AtomicBool,
    /// Whether there is something new for the thread that looks after named pipes.
    news: Mutex<bool>,
    told: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Common {
    /// The terminal of the sandbox, open in the supervisor's table as long as this is held.
    pub(super) fn terminal(&self) -> MutexGuard<'_, Option<Elsewhere>> {
        self.terminal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_apart(&self) -> bool {
        self.apart.load(Ordering::SeqCst)
    }

    pub(super) fn set_apart(&self, apart: bool) {
        self.apart.store(apart, Ordering::SeqCst);
    }

    /// Something is about to be open for a process.
    pub(super) fn begin(&self) {
        self.busy.fetch_add(1, Ordering::SeqCst);
    }

    /// It is open no longer.
    pub(super) fn end(&self) {
        self.busy.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether nothing is open for any process.
    pub(super) fn rests(&self) -> bool {
        self.busy.load(Ordering::SeqCst) == 0
    }

    /// Has every thread end. `stop` is what those wait for that wait for calls.
    pub(super) fn stop(&self, stop: &OwnedFd) {
        self.stopping.store(true, Ordering::Relaxed);
        self.turn.stop();
        self.tell();
        // Cannot fail: the count is far from its limit.
        let _written = rustix::io::write(stop, &1_u64.to_ne_bytes());
    }

    pub(super) fn stops(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Wakes the thread that looks after named pipes.
    pub(super) fn tell(&self) {
        *self.news.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.told.notify_all();
    }

    /// Waits for [`Self::tell`], and no longer than `patience`.
    pub(super) fn wait_for_news(&self, patience: Duration) {
        let news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        let news = self.told.wait_timeout_while(news, patience, |news| !*news);
        *news.unwrap_or_else(PoisonError::into_inner).0 = false;
    }

    pub(super) fn add_thread(&self, thread: JoinHandle<()>) {
        self.threads().push(thread);
    }

    pub(super) fn next_thread(&self) -> Option<JoinHandle<()>> {
        self.threads().pop()
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Keeps time for guests: while any runs, it lets the engine ask them whether they may go on.
//!
//! It sleeps when none has run for a while, so an idle worker wakes up nobody; and it is woken only
//! then, so that a busy worker's calls pay nothing for it.

use super::Runtime;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How often guests are asked. A deadline is overrun by about that.
const TICK: Duration = Duration::from_millis(5);
/// Ticks without any guest after which it sleeps.
const PATIENCE: u32 = 200;

pub(super) struct Ticker {
    runtime: Runtime,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    running: AtomicUsize,
    asleep: AtomicBool,
    ended: AtomicBool,
    lock: Mutex<()>,
    woken: Condvar,
}

/// While it lives, the clock ticks.
pub(super) struct Ticking<'a>(&'a Shared);

impl Ticker {
    pub(super) fn new(runtime: Runtime) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let (engine, watched) = (runtime.clone(), Arc::clone(&shared));
        thread::Builder::new()
            .name("ticker".to_owned())
            .stack_size(256 * 1024)
            .spawn(move || watched.tick(&engine))?;
        Ok(Self { runtime, shared })
    }

    /// A guest begins to run.
    pub(super) fn enter(&self) -> Ticking<'_> {
        // INVARIANT: counted before `asleep` is looked at, as the ticker looks at the count after it
        // has set `asleep`: one of the two sees the other.
        self.shared.running.fetch_add(1, SeqCst);
        if self.shared.asleep.load(SeqCst) {
            self.shared.wake();
        }
        Ticking(&self.shared)
    }

    /// Asks every guest now.
    pub(super) fn tick(&self) {
        self.runtime.tick();
    }
}

impl Drop for Ticking<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, SeqCst);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.ended.store(true, SeqCst);
        self.shared.wake();
    }
}

impl Shared {
    fn wake(&self) {
        let _locked = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.woken.notify_all();
    }

    fn tick(&self, runtime: &Runtime) {
        let mut idle = 0;
        while !self.ended.load(SeqCst) {
            thread::sleep(TICK);
            runtime.tick();
            if self.running.load(SeqCst) > 0 {
                idle = 0;
                continue;
            }
            idle += 1;
            if idle > PATIENCE {
                self.sleep();
                idle = 0;
            }
        }
    }

    /// Until a guest runs.
    fn sleep(&self) {
        let mut locked = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.asleep.store(true, SeqCst);
        while self.running.load(SeqCst) == 0 && !self.ended.load(SeqCst) {
            let waited = self.woken.wait(locked);
            locked = waited.unwrap_or_else(PoisonError::into_inner);
        }
        self.asleep.store(false, SeqCst);
    }
}

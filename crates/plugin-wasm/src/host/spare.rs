//! The worker of a plugin, and the next one.
//!
//! A worker that has said nearly all it may is replaced. Calls carry nothing over, so nobody notices;
//! the old one is gone after its last call. The next one is loaded on a thread of its own: a call
//! waits for it no longer than it has, and whoever asks how the plugin is does not wait at all.

use super::place::{Loaded, Source};
use super::slots::LOOK;
use airlock_plugin::{CallError, ToolDescription};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

/// What a plugin's worker is, and what the next is made from.
pub(super) struct Workers {
    pub(super) source: Source,
    pub(super) tools: Vec<ToolDescription>,
    // Held for a moment only, never while a worker is loaded.
    now: Mutex<Arc<Loaded>>,
    /// The next is being loaded.
    is_loading: AtomicBool,
    /// Why it could not be, the last time, and when that was.
    failed: Mutex<Option<(Instant, CallError)>>,
    is_stopped: AtomicBool,
}

impl Workers {
    pub(super) fn new(source: Source, loaded: Loaded) -> Arc<Self> {
        Arc::new(Self {
            tools: loaded.tools.clone(),
            source,
            now: Mutex::new(Arc::new(loaded)),
            is_loading: AtomicBool::new(false),
            failed: Mutex::new(None),
            is_stopped: AtomicBool::new(false),
        })
    }

    /// The one there is now.
    pub(super) fn now(&self) -> Arc<Loaded> {
        Arc::clone(&locked(&self.now))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.is_stopped.load(SeqCst) || self.now().link.ended().is_some()
    }

    /// The one for the next call, which has until then.
    pub(super) fn fetch(
        self: &Arc<Self>,
        until: Instant,
        cancelled: &AtomicBool,
    ) -> Result<Arc<Loaded>, CallError> {
        let begun = Instant::now();
        let first = self.now();
        loop {
            if self.is_stopped.load(SeqCst) {
                return Err(CallError::Ended("it was stopped".to_owned()));
            }
            let worker = self.now();
            if let Some(why) = worker.link.ended() {
                return Err(CallError::Ended(why.to_owned()));
            }
            if !worker.link.is_spent() || !Arc::ptr_eq(&first, &worker) {
                return Ok(worker);
            }
            // What failed before this call is no answer to it: it tries anew.
            let failed = locked(&self.failed).clone();
            if let Some((_, error)) = failed.filter(|(at, _)| *at >= begun) {
                return Err(error);
            }
            self.replace();
            if cancelled.load(SeqCst) {
                return Err(CallError::Cancelled);
            }
            if Instant::now() >= until {
                return Err(CallError::TimedOut(until.saturating_duration_since(begun)));
            }
            thread::sleep(LOOK);
        }
    }

    /// Sees to it that the next is being loaded.
    fn replace(self: &Arc<Self>) {
        if self.is_loading.swap(true, SeqCst) {
            return;
        }
        let loading = Loading(Arc::clone(self));
        let load = move || {
            let workers = &loading.0;
            match workers.load() {
                Ok(next) => {
                    let mut now = locked(&workers.now);
                    // One that was stopped meanwhile gets no other; this one ends here.
                    if !workers.is_stopped.load(SeqCst) {
                        *now = Arc::new(next);
                    }
                }
                Err(error) => workers.note_failure(error),
            }
        };
        let named = thread::Builder::new().name("wasm worker".to_owned());
        if let Err(error) = named.spawn(load) {
            let why = format!("its next worker cannot be started: {error}");
            self.note_failure(CallError::Ended(why));
        }
    }

    fn note_failure(&self, error: CallError) {
        *locked(&self.failed) = Some((Instant::now(), error));
    }

    fn load(&self) -> Result<Loaded, CallError> {
        let next = self.source.load();
        let next = next.map_err(|error| CallError::Ended(error.to_string()))?;
        if next.tools != self.tools {
            let what = "it describes other tools than before";
            return Err(CallError::Protocol(what.to_owned()));
        }
        Ok(next)
    }

    /// No call gets one any more.
    pub(super) fn close(&self) {
        self.is_stopped.store(true, SeqCst);
    }

    /// Ends the one there is, at once, for good.
    pub(super) fn kill(&self) {
        self.close();
        self.now().link.kill("it was stopped");
    }
}

/// The next worker is being loaded while this is there, however that ends.
struct Loading(Arc<Workers>);

impl Drop for Loading {
    fn drop(&mut self) {
        if thread::panicking() {
            let why = "its next worker cannot be loaded".to_owned();
            self.0.note_failure(CallError::Ended(why));
        }
        self.0.is_loading.store(false, SeqCst);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

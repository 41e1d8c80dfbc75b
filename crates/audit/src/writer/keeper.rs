//! Puts signed checkpoints into the file beside the key. A long-lived writer goes on meanwhile: that takes
//! two syncs, and nobody waits for them but who asks for a checkpoint.
//!
//! Guarantee: a checkpoint is put there only once the records it vouches for are on disk, and never
//! behind a newer one of this process. If that fails, the newest stays, to be tried again: it vouches for
//! everything that older ones did.

use super::AppendError;
use super::disk::Disk;
use crate::SignedCheckpoint;
use crate::store::{CheckpointFile, Layout};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

#[derive(Debug, Default)]
struct State {
    /// Committed and not in the file yet, in order.
    unpublished: Vec<SignedCheckpoint>,
    /// Whether the records these vouch for are known to be on disk.
    synced: bool,
    /// Whether the thread is to look.
    nudged: bool,
    closed: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    /// Locked while one is put there.
    file: Mutex<CheckpointFile>,
    disk: Arc<Disk>,
}

/// The writer's side.
#[derive(Debug)]
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    /// Whether the writer lives long enough for a thread to pay.
    lasts: bool,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// For a writer that `lasts` or ends soon. Starts no thread yet.
    pub(crate) fn new(layout: &Layout, disk: Arc<Disk>, lasts: bool) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            work: Condvar::new(),
            file: Mutex::new(CheckpointFile::new(layout)),
            disk,
        });
        Self {
            shared,
            lasts,
            thread: None,
        }
    }

    /// Takes in a committed checkpoint, whose records are known to be on disk if it is `synced`.
    pub(super) fn take(&self, checkpoint: SignedCheckpoint, synced: bool) {
        let mut state = self.shared.lock();
        // A sync covers everything before it.
        state.synced = synced;
        state.unpublished.push(checkpoint);
    }

    /// Whether there is one that is not in the file yet.
    pub(super) fn is_behind(&self) -> bool {
        !self.shared.lock().unpublished.is_empty()
    }

    /// Returns once all are in the file.
    pub(super) fn publish(&self) -> Result<(), AppendError> {
        self.shared.publish()
    }

    /// Has them put into the file soon.
    pub(super) fn nudge(&mut self) {
        if !self.is_behind() {
            return;
        }
        if self.is_started() {
            self.shared.lock().nudged = true;
            self.shared.work.notify_one();
        } else {
            // It stays to be tried again.
            let _failed = self.publish();
        }
    }

    /// Whether the thread is there, started now if need be.
    fn is_started(&mut self) -> bool {
        self.thread.take_if(|thread| thread.is_finished());
        if self.thread.is_none() && self.lasts {
            let shared = Arc::clone(&self.shared);
            // If the system gives no thread, the writer does the work.
            self.thread = std::thread::Builder::new()
                .name("audit-keeper".to_owned())
                .spawn(move || shared.run())
                .ok();
        }
        self.thread.is_some()
    }

    /// Ends the thread, once it is through with what it is at.
    pub(super) fn close(&mut self) {
        self.shared.lock().closed = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take() {
            // If it panicked, what it was at is still there, and tried again by whoever closes the writer.
            let _ = thread.join();
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        while self.is_nudged() {
            let _tried_again = self.publish();
        }
    }

    /// Waits until there is something to do; false once closed.
    fn is_nudged(&self) -> bool {
        let mut state = self.lock();
        while !state.nudged && !state.closed {
            state = self
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.nudged = false;
        !state.closed
    }

    fn publish(&self) -> Result<(), AppendError> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.lock();
        let (pending, synced) = (state.unpublished.clone(), state.synced);
        drop(state);
        let Some(newest) = pending.last() else {
            return Ok(());
        };
        if !synced {
            self.disk.sync()?;
        }
        let kept = file.append(&pending);
        let mut state = self.lock();
        let later = state.unpublished.split_off(pending.len());
        if later.is_empty() {
            state.synced = true;
        }
        // One that could not be put there is enough to be tried again: the newest.
        state.unpublished.clear();
        if kept.is_err() && later.is_empty() {
            state.unpublished.push(*newest);
        }
        state.unpublished.extend(later);
        kept.map_err(|error| AppendError::Checkpoint(error.to_string()))
    }
}

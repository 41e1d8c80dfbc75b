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
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

#[derive(Debug, Default)]
struct State {
    /// Committed and not in the file yet, in order.
    unpublished: Vec<SignedCheckpoint>,
    /// Whether the records these vouch for are known to be on disk.
    synced: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Locked while one is put there.
    file: Mutex<CheckpointFile>,
    disk: Arc<Disk>,
}

/// Publishes whenever it is nudged, until nobody can nudge it any more.
#[derive(Debug)]
struct Thread {
    nudges: SyncSender<()>,
    handle: JoinHandle<()>,
}

/// The writer's side.
#[derive(Debug)]
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    /// Whether the writer lives long enough for a thread to pay.
    lasts: bool,
    thread: Option<Thread>,
}

impl Keeper {
    /// For a writer that `lasts` or ends soon. Starts no thread yet.
    pub(crate) fn new(layout: &Layout, disk: Arc<Disk>, lasts: bool) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
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

    /// Has them put into the file: soon, or now if there is no thread to do it.
    pub(super) fn nudge(&mut self) {
        if !self.is_behind() {
            return;
        }
        // One that panicked is replaced: what it was at is still there.
        if self.thread.as_ref().is_some_and(Thread::has_ended) {
            self.close();
        }
        if self.thread.is_none() && self.lasts {
            self.thread = start(Arc::clone(&self.shared));
        }
        match self.thread.as_ref().map(Thread::nudge) {
            Some(Ok(()) | Err(TrySendError::Full(()))) => {}
            // One that failed stays to be tried again.
            Some(Err(TrySendError::Disconnected(()))) | None => drop(self.publish()),
        }
    }

    /// Ends the thread, once it is through with what it is at.
    pub(super) fn close(&mut self) {
        if let Some(Thread { nudges, handle }) = self.thread.take() {
            drop(nudges);
            // If it panicked, what it was at is still there, and tried again by whoever closes the writer.
            let _ = handle.join();
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.close();
    }
}

impl Thread {
    fn has_ended(&self) -> bool {
        self.handle.is_finished()
    }

    fn nudge(&self) -> Result<(), TrySendError<()>> {
        self.nudges.try_send(())
    }
}

/// None if the system gives no thread.
fn start(shared: Arc<Shared>) -> Option<Thread> {
    let (nudges, told) = sync_channel(1);
    let thread = std::thread::Builder::new().name("audit-keeper".to_owned());
    let handle = thread.spawn(move || {
        for () in told {
            let _tried_again = shared.publish();
        }
    });
    handle.ok().map(|handle| Thread { nudges, handle })
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

//! Sandboxes that last: a stage's sandbox is kept for the next command that is granted the same.
//!
//! Init ends everything a command started before it says that the command ended, so nothing of one
//! command meets the next but files, the temporary directory among them. A sandbox is kept only
//! after a command that ended by itself and whose changes stand; it goes when something else is
//! to be granted, when the stage is wanted without it, when nobody used it for a while, and with
//! the kernel.
//!
//! Invariant: whoever has a sandbox out of here alone uses it, with the claim on its stage.

use airlock_core::Digest;
use airlock_sandbox::Sandbox;
use airlock_sandbox::stage::{Claim, Stage};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long a sandbox waits for another command. Until then the real tree beneath it is mounted,
/// and other processes find the stage in use.
const IDLE: Duration = Duration::from_secs(10);

/// A sandbox with the stage it has.
pub(super) struct Kept {
    /// Of everything it was granted.
    pub(super) granted: Digest,
    pub(super) sandbox: Sandbox,
    pub(super) stage: Stage,
    // Dropped last: the stage is free when nothing runs in it any more.
    pub(super) claim: Claim,
}

/// The sandboxes that are kept, by stage.
#[derive(Default)]
pub(crate) struct Warm {
    kept: Mutex<HashMap<String, (Kept, Instant)>>,
}

impl Warm {
    /// The sandbox of a stage, if it was granted just that; one that was not is ended.
    pub(super) fn take(&self, stage: &str, granted: Digest) -> Option<Kept> {
        let found = self.lock().remove(stage);
        // Ended outside the lock: others need not wait for it.
        found
            .map(|(kept, _)| kept)
            .filter(|kept| kept.granted == granted)
    }

    /// Ends the sandbox of a stage, so that the stage is free.
    pub(crate) fn release(&self, stage: &str) {
        let found = self.lock().remove(stage);
        drop(found);
    }

    /// Ends every sandbox that waits for a command.
    pub(crate) fn release_all(&self) {
        let found: Vec<_> = self.lock().drain().collect();
        drop(found);
    }

    /// Keeps a sandbox for the next command.
    pub(super) fn keep(self: &Arc<Self>, stage: &str, kept: Kept) {
        let until = Instant::now() + IDLE;
        let before = self.lock().insert(stage.to_owned(), (kept, until));
        drop(before);
        let (warm, stage) = (Arc::downgrade(self), stage.to_owned());
        // Without a thread to end it, it is not kept.
        let watching = std::thread::Builder::new()
            .name("idle sandbox".to_owned())
            .spawn(move || end_when_idle(&warm, &stage, until));
        if watching.is_err() {
            self.lock().clear();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (Kept, Instant)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the sandbox kept until `until`, unless it was used since.
fn end_when_idle(warm: &Weak<Warm>, stage: &str, until: Instant) {
    std::thread::sleep(until.saturating_duration_since(Instant::now()));
    let Some(warm) = warm.upgrade() else {
        return;
    };
    let mut kept = warm.lock();
    let idle = kept.get(stage).is_some_and(|(_, since)| *since == until);
    let ended = idle.then(|| kept.remove(stage));
    drop(kept);
    drop(ended);
}

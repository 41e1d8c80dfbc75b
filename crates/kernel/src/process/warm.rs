//! Sandboxes that last: a stage's sandbox is kept for the next command that is granted the same.
//!
//! Init ends everything a command started before it says that the command ended, so nothing of one
//! command meets the next but files, the temporary directory among them. A sandbox is kept only
//! after a command that ended by itself and whose changes stand; it goes when something else is
//! to be granted, when the stage is wanted without it, when nobody used it for a while, and with
//! the kernel.
//!
//! Invariant: whoever has a sandbox out of here alone uses it, with the claim on its stage.

use super::plan::Planned;
use super::plans::Plans;
use super::surround::Around;
use airlock_core::{Caller, Digest};
use airlock_sandbox::Sandbox;
use airlock_sandbox::stage::{Claim, Stage};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long a sandbox waits for another command. Until then the real tree beneath it is mounted,
/// and other processes find the stage in use.
const IDLE: Duration = Duration::from_secs(10);

/// What a sandbox was granted, and to whom: nobody finds what another left in the temporary
/// directory.
#[derive(Clone, PartialEq)]
pub(super) struct Granted {
    plan: Digest,
    around: Arc<Around>,
    caller: Caller,
}

impl Granted {
    pub(super) fn of(planned: &Planned, caller: &Caller) -> Self {
        Self {
            plan: planned.made.digest,
            around: Arc::clone(&planned.around),
            caller: caller.clone(),
        }
    }
}

/// A sandbox with the stage it has.
pub(super) struct Kept {
    pub(super) granted: Granted,
    pub(super) sandbox: Sandbox,
    pub(super) stage: Stage,
    /// Whether the stage differed from the real tree in nothing when its last run was judged. Nobody
    /// has had it since.
    pub(super) untouched: bool,
    // Dropped last: the stage is free when nothing runs in it any more.
    pub(super) claim: Claim,
}

/// The sandboxes that are kept, by stage.
#[derive(Default)]
pub(crate) struct Warm {
    kept: Mutex<ByStage>,
    plans: Plans,
}

#[derive(Default)]
struct ByStage {
    sandboxes: HashMap<String, (Kept, Instant)>,
    /// Whether a thread ends those that nobody uses.
    watched: bool,
}

impl Warm {
    /// The sandbox of a stage, if it was granted just that; one that was not is ended.
    pub(super) fn take(&self, stage: &str, granted: &Granted) -> Option<Kept> {
        let found = self.lock().sandboxes.remove(stage);
        // Ended outside the lock: others need not wait for it.
        found
            .map(|(kept, _)| kept)
            .filter(|kept| kept.granted == *granted)
    }

    /// The last plans.
    pub(super) const fn plans(&self) -> &Plans {
        &self.plans
    }

    /// Ends the sandbox of a stage, so that the stage is free.
    pub(crate) fn release(&self, stage: &str) {
        let found = self.lock().sandboxes.remove(stage);
        drop(found);
    }

    /// Ends every sandbox that waits for a command.
    pub(crate) fn release_all(&self) {
        let found: Vec<_> = self.lock().sandboxes.drain().collect();
        drop(found);
    }

    /// Keeps a sandbox for the next command.
    pub(super) fn keep(self: &Arc<Self>, stage: &str, kept: Kept) {
        let until = Instant::now() + IDLE;
        let mut all = self.lock();
        let before = all.sandboxes.insert(stage.to_owned(), (kept, until));
        let watched = std::mem::replace(&mut all.watched, true);
        drop(all);
        drop(before);
        if watched {
            return;
        }
        let warm = Arc::downgrade(self);
        let watching = std::thread::Builder::new()
            .name("idle sandboxes".to_owned())
            .spawn(move || end_the_idle(&warm));
        // Without a thread to end them, none is kept.
        if watching.is_err() {
            let left = std::mem::take(&mut *self.lock());
            drop(left);
        }
    }

    /// Takes out what nobody used in time, and says when to look again: never, if none is left.
    fn take_idle(&self) -> (Vec<Kept>, Option<Instant>) {
        let mut all = self.lock();
        let now = Instant::now();
        let idle = all.sandboxes.extract_if(|_, (_, until)| *until <= now);
        let idle = idle.map(|(_, (kept, _))| kept).collect();
        let next = all.sandboxes.values().map(|(_, until)| *until).min();
        all.watched = next.is_some();
        (idle, next)
    }

    fn lock(&self) -> MutexGuard<'_, ByStage> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends sandboxes nobody used in time, until there are none. Those that come meanwhile wait longer
/// than the ones there are.
fn end_the_idle(warm: &Weak<Warm>) {
    let mut until = Instant::now() + IDLE;
    loop {
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        let Some(warm) = warm.upgrade() else {
            return;
        };
        let (idle, next) = warm.take_idle();
        // Ended outside the lock.
        drop(idle);
        let Some(next) = next else {
            return;
        };
        until = next;
    }
}

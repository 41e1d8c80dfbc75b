//! Sandboxes that last: a stage's sandbox is kept for the next command that is granted the same.
//!
//! Init ends everything a command started before it says that the command ended, so nothing of one
//! command meets the next but files, the temporary directory among them. What the real tree had
//! where it looked is forgotten: the next sees what is there by then. A sandbox is kept only after a
//! command that ended by itself and whose changes stand; it goes when something else is to be
//! granted, when it cannot show the real tree as it is, when the stage is wanted without it, when
//! nobody used it for a while, and with the kernel.
//!
//! Where the next command is another person's program and must not meet even that, a fresh one is
//! raised in the stage instead, and kept as a spare: nothing ever ran in it.
//!
//! Invariant: whoever has a sandbox out of here alone uses it, with the claim on its stage.

use super::noted::Noted;
use super::plan::Planned;
use super::plans::Plans;
use super::put_off::PutOff;
use super::surround::Around;
use airlock_core::{Caller, Digest};
use airlock_sandbox::stage::{Claim, Stage};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// How long a sandbox waits for another command. Until then the real tree beneath it is mounted,
/// and other processes find the stage in use.
const IDLE: Duration = Duration::from_secs(10);

/// What a sandbox was granted, and to whom: nobody finds what another left in the temporary
/// directory.
#[derive(Clone)]
pub(super) struct Granted {
    plan: Digest,
    around: Arc<Around>,
    /// None of a sandbox nothing ever ran in: it is whoever's comes first.
    caller: Option<Caller>,
}

impl Granted {
    pub(super) fn of(planned: &Planned, caller: &Caller) -> Self {
        Self {
            plan: planned.made.digest,
            around: Arc::clone(&planned.around),
            caller: Some(caller.clone()),
        }
    }

    /// The same to nobody yet.
    fn unused(self) -> Self {
        Self {
            caller: None,
            ..self
        }
    }

    /// Whether a sandbox that was granted this is what `wanted` asks for.
    fn serves(&self, wanted: &Self) -> bool {
        let anybody = self.caller.is_none();
        self.plan == wanted.plan
            && (anybody || self.caller == wanted.caller)
            && self.around == wanted.around
    }
}

/// A sandbox with the stage it has.
pub(super) struct Kept {
    pub(super) granted: Granted,
    pub(super) sandbox: Noted,
    pub(super) stage: Stage,
    /// Whether the stage differed from the real tree in nothing when its last run was judged. Nobody
    /// has had it since.
    pub(super) untouched: bool,
    // Dropped last: the stage is free when nothing runs in it any more.
    pub(super) claim: Claim,
}

impl Kept {
    /// The same as of now, if it can be: what was changed in the real tree while it waited is what it
    /// shows and, of a spare, no conflict with what is changed in it.
    pub(super) fn of_now(mut self) -> Option<Self> {
        if self.granted.caller.is_none() {
            self.stage.claim_again(&self.claim).ok()?;
        }
        self.sandbox.shows_now().then_some(self)
    }
}

/// The sandboxes that are kept, by stage.
#[derive(Default)]
pub(crate) struct Warm {
    rack: Arc<Rack>,
    plans: Plans,
    spares: PutOff,
}

#[derive(Default)]
struct Rack(Mutex<ByStage>);

#[derive(Default)]
struct ByStage {
    sandboxes: HashMap<String, (Kept, Instant)>,
    /// Whether a thread ends those that nobody uses.
    watched: bool,
}

impl Warm {
    /// The sandbox of a stage, if it was granted just that; one that was not is ended.
    pub(super) fn take(&self, stage: &str, granted: &Granted) -> Option<Kept> {
        self.spares.wait(|of| of == stage);
        let found = self.rack.lock().sandboxes.remove(stage);
        // Ended outside the lock: others need not wait for it.
        found
            .map(|(kept, _)| kept)
            .filter(|kept| kept.granted.serves(granted))
    }

    /// Has the sandbox of a stage forget what its last command looked up, while there is something
    /// else to wait for: otherwise the next command waits for it.
    pub(crate) fn forget(&self, stage: &str) {
        let all = self.rack.lock();
        let control = all
            .sandboxes
            .get(stage)
            .map(|(kept, _)| kept.sandbox.control());
        drop(all);
        if let Some(control) = control {
            control.forget();
        }
    }

    /// The last plans.
    pub(super) const fn plans(&self) -> &Plans {
        &self.plans
    }

    /// Ends the sandbox of a stage, so that the stage is free.
    pub(crate) fn release(&self, stage: &str) {
        self.spares.wait(|of| of == stage);
        let found = self.rack.lock().sandboxes.remove(stage);
        drop(found);
    }

    /// Ends every sandbox that waits for a command.
    pub(crate) fn release_all(&self) {
        self.spares.wait(|_| true);
        let found: Vec<_> = self.rack.lock().sandboxes.drain().collect();
        drop(found);
    }

    /// Keeps a sandbox for the next command.
    pub(super) fn keep(&self, stage: &str, kept: Kept) {
        self.rack.keep(stage, kept);
    }

    /// Has `raise` make another sandbox of a stage beside whatever else is done, and keeps it as a
    /// spare for whoever is granted the same. It is [put off](PutOff) for a moment:
    /// whoever was just answered has use for the processors.
    pub(super) fn renew(
        &self,
        stage: &str,
        granted: Granted,
        raise: impl FnOnce() -> Option<(Noted, Stage, Claim)> + Send + 'static,
    ) {
        let (rack, name) = (Arc::clone(&self.rack), stage.to_owned());
        self.spares.put_off(stage, move || {
            // One that cannot be raised now is raised when it is needed, and failure told then.
            if let Some((sandbox, stage, claim)) = raise() {
                // What raising its walls looked up, before there is a command that would wait for it.
                sandbox.control().forget();
                let kept = Kept {
                    granted: granted.unused(),
                    sandbox,
                    stage,
                    untouched: false,
                    claim,
                };
                rack.keep(&name, kept);
            }
        });
    }
}

impl Drop for Warm {
    fn drop(&mut self) {
        self.release_all();
    }
}

impl Rack {
    fn keep(self: &Arc<Self>, stage: &str, kept: Kept) {
        let until = Instant::now() + IDLE;
        let mut all = self.lock();
        let before = all.sandboxes.insert(stage.to_owned(), (kept, until));
        let watched = std::mem::replace(&mut all.watched, true);
        drop(all);
        drop(before);
        if watched {
            return;
        }
        let rack = Arc::downgrade(self);
        let watching = Builder::new()
            .name("idle sandboxes".to_owned())
            .spawn(move || end_the_idle(&rack));
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends sandboxes nobody used in time, until there are none. Those that come meanwhile wait longer
/// than the ones there are.
fn end_the_idle(rack: &Weak<Rack>) {
    let mut until = Instant::now() + IDLE;
    loop {
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        let Some(rack) = rack.upgrade() else {
            return;
        };
        let (idle, next) = rack.take_idle();
        // Ended outside the lock.
        drop(idle);
        let Some(next) = next else {
            return;
        };
        until = next;
    }
}

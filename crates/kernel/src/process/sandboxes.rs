//! The sandboxes of one kernel: those made ahead of their plans, and those that leave.
//!
//! A sandbox takes longer to be gone than its command's result takes to be handed over, and longer to
//! be made than a policy takes to be read: both are done beside what else there is to do.
//!
//! Guarantee: a stage is not given to the next command before the last one's sandbox is gone, and
//! none is left when the kernel is.

use super::failure::ProcessFailure;
use super::ladder::Ladder;
use super::reserve::{Reserve, Then};
use super::surround::{Around, Machine};
use crate::workspace::Workspace;
use airlock_sandbox::launch::StartError;
use airlock_sandbox::stage::Claim;
use airlock_sandbox::{Prepared, Sandbox, prepare};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How long one that was made ahead is used: mounts of the machine's that came later are not seen.
const AGE: Duration = Duration::from_mins(1);

/// How many environments are kept apart.
const PERSONS: usize = 4;

type Made = Result<Prepared, StartError>;

/// The sandboxes of one kernel. Copies are of the same ones.
#[derive(Clone, Default)]
pub struct Sandboxes(Arc<Inner>);

#[derive(Default)]
struct Inner {
    reserve: Option<Reserve<Made>>,
    /// Whether the process ends with the command.
    ends: bool,
    ladder: Option<Arc<dyn Ladder>>,
    /// What is looked up ahead, and for which state directory.
    looked: Mutex<Option<Receiver<(PathBuf, Looked)>>>,
    /// What was looked up, for the persons who asked last.
    known: Arc<Known>,
    /// The sandbox that is shown it.
    dressing: Mutex<Option<JoinHandle<Made>>>,
    leaving: Mutex<Vec<JoinHandle<()>>>,
}

type Looked = Result<Around, ProcessFailure>;

type Known = Mutex<Vec<Arc<Around>>>;

impl Sandboxes {
    /// Begins to make one at once, for a command with which this process ends.
    pub fn ahead(ladder: Option<Arc<dyn Ladder>>) -> Self {
        Self::with(Then::End, ladder)
    }

    /// Keeps one in reserve, always.
    pub fn in_reserve(ladder: Option<Arc<dyn Ladder>>) -> Self {
        Self::with(Then::Refill, ladder)
    }

    /// Makes each when it is needed.
    pub fn by(ladder: Arc<dyn Ladder>) -> Self {
        Self(Arc::new(Inner {
            reserve: None,
            ends: false,
            ladder: Some(ladder),
            looked: Mutex::default(),
            known: Arc::default(),
            dressing: Mutex::default(),
            leaving: Mutex::default(),
        }))
    }

    fn with(then: Then, ladder: Option<Arc<dyn Ladder>>) -> Self {
        let known: Arc<Known> = Arc::default();
        let shown = Arc::clone(&known);
        Self(Arc::new(Inner {
            reserve: Some(Reserve::new(move || prepared(&shown), AGE, then)),
            ends: then == Then::End,
            ladder,
            looked: Mutex::default(),
            known,
            dressing: Mutex::default(),
            leaving: Mutex::default(),
        }))
    }

    /// Looks at `machine` for `workspace` beside whatever else is done, and shows it to the sandbox
    /// that is made ahead.
    pub fn dress(&self, machine: Machine, workspace: Workspace) {
        let own = self.clone();
        let (tell, looked) = mpsc::sync_channel(1);
        let thread = Builder::new().name("dressing".to_owned());
        let thread = thread.spawn(move || {
            let around = Around::look(&machine, &workspace);
            let base = around
                .as_ref()
                .ok()
                .map(|around| around.outfit().base().clone());
            // Whoever plans waits for no more than this.
            let _told = tell.send((workspace.state().path().to_owned(), around));
            let mut prepared = own.undressed()?;
            if let Some(base) = base {
                prepared.show(&base)?;
            }
            Ok(prepared)
        });
        // Where there is no thread for it, it is looked at when it is needed.
        if let Ok(thread) = thread {
            *locked(&self.0.looked) = Some(looked);
            *locked(&self.0.dressing) = Some(thread);
        }
    }

    /// What is around the sandboxes of `workspace`.
    pub(super) fn around(
        &self,
        machine: &Machine,
        workspace: &Workspace,
    ) -> Result<Arc<Around>, ProcessFailure> {
        let looked = locked(&self.0.looked).take();
        match looked.and_then(|looked| looked.recv().ok()) {
            Some((state, around)) if state == workspace.state().path() => around.map(Arc::new),
            Some(_) | None => self.known(machine, workspace),
        }
    }

    /// What was looked up before, if that still holds.
    fn known(
        &self,
        machine: &Machine,
        workspace: &Workspace,
    ) -> Result<Arc<Around>, ProcessFailure> {
        let mut known = locked(&self.0.known).clone();
        if let Some(found) = known.iter().find(|around| around.holds(machine, workspace)) {
            return Ok(Arc::clone(found));
        }
        let around = Arc::new(Around::look(machine, workspace)?);
        known.insert(0, Arc::clone(&around));
        known.truncate(PERSONS);
        *locked(&self.0.known) = known;
        Ok(around)
    }

    /// Whether a sandbox is raised before the attempt is on disk. Only where no other call of this
    /// process can want the stage.
    pub(crate) fn starts_early(&self) -> bool {
        self.0.ends
    }

    /// Whether there is a reserve.
    pub(crate) fn has_reserve(&self) -> bool {
        self.0.reserve.is_some()
    }

    pub(crate) fn ladder(&self) -> Option<&dyn Ladder> {
        self.0.ladder.as_deref()
    }

    /// One of Airlock's own launcher.
    pub(super) fn take(&self) -> Made {
        let dressing = locked(&self.0.dressing).take();
        let dressed = dressing.and_then(|thread| thread.join().ok());
        dressed.unwrap_or_else(|| self.undressed())
    }

    fn undressed(&self) -> Made {
        match &self.0.reserve {
            Some(reserve) => reserve.take(),
            None => prepare(),
        }
    }

    /// Lets a sandbox go, and with it the stage it had.
    pub(super) fn leave(&self, sandbox: Sandbox, claim: Option<Claim>) {
        if self.0.ends {
            // No process of the command's is left, so that nothing is written to the stage any more.
            sandbox.abandon();
            return drop(claim);
        }
        let thread = Builder::new().name("leaving".to_owned());
        let thread = thread.spawn(move || {
            sandbox.stop();
            drop(claim);
        });
        // Where there is no thread, both were let go of at once.
        if let Ok(thread) = thread {
            locked(&self.0.leaving).push(thread);
        }
    }

    /// Waits until those that leave are gone.
    pub(super) fn settle(&self) {
        self.0.settle();
    }
}

/// A sandbox in the making, that sees what the last one saw. What it is to see is only known with its
/// plan; one that sees something else then is made anew.
fn prepared(known: &Known) -> Made {
    let mut prepared = prepare()?;
    let last = locked(known).first().cloned();
    match last.map(|around| prepared.show(around.outfit().base())) {
        None | Some(Ok(())) => Ok(prepared),
        // The machine may have changed since.
        Some(Err(_)) => prepare(),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    fn settle(&self) {
        // Whoever else wants to know waits as well.
        for thread in locked(&self.leaving).drain(..) {
            let _ended = thread.join();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.settle();
    }
}

impl std::fmt::Debug for Sandboxes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandboxes")
            .field("reserve", &self.has_reserve())
            .finish_non_exhaustive()
    }
}

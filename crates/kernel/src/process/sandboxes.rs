//! The sandboxes of one kernel: those made ahead of their plans, and those that leave.
//!
//! A sandbox takes longer to be gone than its command's result takes to be handed over, and longer to
//! be made than a policy takes to be read: both are done beside what else there is to do.
//!
//! Guarantee: a stage is not given to the next command before the last one's sandbox is gone, and
//! none is left when the kernel is.

use super::failure::ProcessFailure;
use super::ladder::Ladder;
use super::noted::Noted;
use super::reserve::{Reserve, Then};
use super::surround::{Around, Ground, Look, Machine};
use crate::book::Book;
use crate::workspace::Workspace;
use airlock_sandbox::launch::StartError;
use airlock_sandbox::stage::Claim;
use airlock_sandbox::{Nursery, Prepared, prepare};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
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
    /// What is still to be done to the sandbox that is made ahead.
    finish: Arc<Mutex<Finish>>,
    /// The sandbox that is shown it, where it had been made by then.
    dressing: Mutex<Option<JoinHandle<Made>>>,
    leaving: Mutex<Vec<JoinHandle<()>>>,
    /// Where it is noted what comes and goes.
    book: OnceLock<Book>,
}

/// What whoever makes a sandbox does to it in the end, so that no other thread has to.
#[derive(Default)]
enum Finish {
    /// There may be something yet.
    #[default]
    Open,
    Work(Box<dyn FnOnce(Made) -> Made + Send>),
    /// It is made.
    Closed,
}

type Looked = Result<Around, ProcessFailure>;

type Known = Mutex<Vec<Arc<Around>>>;

impl Sandboxes {
    /// Begins to make one at once, for a command with which this process ends.
    pub fn ahead(ladder: Option<Arc<dyn Ladder>>) -> Self {
        Self::with(Then::End, ladder)
    }

    /// Goes by `ladder`. Only before anything is asked of them.
    #[must_use]
    pub fn on(mut self, ladder: Option<Arc<dyn Ladder>>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.ladder = ladder;
        }
        self
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
            finish: Arc::default(),
            dressing: Mutex::default(),
            leaving: Mutex::default(),
            book: OnceLock::new(),
        }))
    }

    fn with(then: Then, ladder: Option<Arc<dyn Ladder>>) -> Self {
        let known: Arc<Known> = Arc::default();
        let finish: Arc<Mutex<Finish>> = Arc::default();
        let (shown, wanted) = (Arc::clone(&known), Arc::clone(&finish));
        let nursery = OnceLock::new();
        let make = move || {
            // Who makes many makes them in a process with less memory than this one has by then.
            let nursery = match then {
                Then::Refill => nursery.get_or_init(|| Nursery::open().ok()).as_ref(),
                Then::End => None,
            };
            finished(prepared(&shown, nursery), &wanted)
        };
        Self(Arc::new(Inner {
            reserve: Some(Reserve::new(make, AGE, then)),
            ends: then == Then::End,
            ladder,
            looked: Mutex::default(),
            known,
            finish,
            dressing: Mutex::default(),
            leaving: Mutex::default(),
            book: OnceLock::new(),
        }))
    }

    /// Looks at `machine` for `workspace` beside whatever else is done, and shows it to the sandbox
    /// that is made ahead.
    pub fn dress(&self, machine: Machine, workspace: &Workspace) {
        let ground = Ground::of(workspace);
        let (tell, looked) = mpsc::sync_channel(1);
        let work = move |made: Made| -> Made {
            let around = Around::look(&machine, &ground);
            let base = around.as_ref().ok();
            let base = base.map(|around| around.outfit().base().clone());
            // Whoever plans waits for no more than this.
            let _told = tell.send((ground.state, around));
            let mut prepared = made?;
            if let Some(base) = base {
                prepared.show(&base)?;
            }
            Ok(prepared)
        };
        let making = self.0.reserve.as_ref().is_some_and(Reserve::is_ahead);
        let mut finish = locked(&self.0.finish);
        if let (Finish::Open, true) = (&*finish, making) {
            *finish = Finish::Work(Box::new(work));
            *locked(&self.0.looked) = Some(looked);
            return;
        }
        drop(finish);
        let own = self.clone();
        let thread = Builder::new().name("dressing".to_owned());
        let thread = thread.spawn(move || work(own.undressed()));
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
        look: Look,
    ) -> Result<(Arc<Around>, Look), ProcessFailure> {
        let looked = locked(&self.0.looked).take();
        match looked.and_then(|looked| looked.recv().ok()) {
            Some((state, around)) if state == workspace.state().path() => {
                around.map(|around| (Arc::new(around), Look::First))
            }
            Some(_) | None => self.known(machine, workspace, look),
        }
    }

    /// What was looked up before, if that still holds, or is to be presumed to. Says whether it was
    /// looked at.
    fn known(
        &self,
        machine: &Machine,
        workspace: &Workspace,
        look: Look,
    ) -> Result<(Arc<Around>, Look), ProcessFailure> {
        let mut known = locked(&self.0.known).clone();
        let ground = Ground::of(workspace);
        let mut presumed = known.iter().filter(|_| look == Look::Later);
        if let Some(found) = presumed.find(|around| around.is_for(machine, &ground)) {
            return Ok((Arc::clone(found), Look::Later));
        }
        if let Some(found) = known.iter().find(|around| around.holds(machine, &ground)) {
            return Ok((Arc::clone(found), Look::First));
        }
        let around = Arc::new(Around::look(machine, &ground)?);
        known.insert(0, Arc::clone(&around));
        known.truncate(PERSONS);
        *locked(&self.0.known) = known;
        Ok((around, Look::First))
    }

    /// Whether a sandbox is raised before the attempt is on disk. Only where no other call of this
    /// process can want the stage.
    pub(crate) fn starts_early(&self) -> bool {
        self.0.ends
    }

    /// Has it noted in `book` what comes and goes.
    pub(crate) fn note_in(&self, book: &Book) {
        // They are one kernel's from the first command on.
        let _first = self.0.book.set(book.clone());
    }

    pub(super) fn book(&self) -> Option<&Book> {
        self.0.book.get()
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
    pub(super) fn leave(&self, sandbox: Noted, claim: Option<Claim>) {
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
    pub(crate) fn settle(&self) {
        self.0.settle();
    }
}

/// A sandbox in the making, that sees what the last one saw. What it is to see is only known with its
/// plan; one that sees something else then is made anew.
fn prepared(known: &Known, nursery: Option<&Nursery>) -> Made {
    let prepare = || nursery.map_or_else(prepare, Nursery::prepare);
    let mut prepared = prepare()?;
    let last = locked(known).first().cloned();
    match last.map(|around| prepared.show(around.outfit().base())) {
        None | Some(Ok(())) => Ok(prepared),
        // The machine may have changed since.
        Some(Err(_)) => prepare(),
    }
}

/// The same with what was wanted of it meanwhile.
fn finished(made: Made, wanted: &Mutex<Finish>) -> Made {
    let finish = std::mem::replace(&mut *locked(wanted), Finish::Closed);
    match finish {
        Finish::Work(work) => work(made),
        Finish::Open | Finish::Closed => made,
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

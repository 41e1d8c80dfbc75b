//! Whatever a command runs, asking the kernel that runs the command.
//!
//! A sandbox that has a socket ([`airlock_sandbox::launch::KERNEL_SOCKET`]) is listened to while its
//! command runs. What comes through it is a call like any other, on the same road, made by whoever
//! had the command run, in their session, from that sandbox: [`Outer`] knows who that is, and
//! [`Inside`] takes the calls to it.
//!
//! Guarantee: nothing from inside is allowed that whoever runs the command is not, nor anything that
//! an agent is not. A call belongs to the very command it came out of: it is taken back when that
//! ends, is over before that is, and waits for no call that waits for it. Nothing is made for all
//! this before somebody inside connects.
//!
//! Invariant: a call from inside starts no program of anybody's and steers nothing. It reads, asks a
//! plugin, or changes files: by our own file worker, beside the command, in the same sandbox. What it
//! changes is judged with what the command changes.

use crate::agents::Invoker;
use crate::cancel::Cancel;
use crate::fronts::{Front, Whence};
use crate::kernel::Kernel;
use crate::road::{Call, Outcome};
use airlock_core::{ActionId, Caller, Peer, SandboxId, WorkspaceId};
use airlock_policy::approval::ApprovalId;
use airlock_state::Share;
use std::collections::{HashMap, VecDeque};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};

#[cfg(target_os = "linux")]
use airlock_sandbox::{
    Control, Sandbox,
    launch::{Command, Ended, RunError, Streams},
};

/// Speaks with whatever runs in sandboxes. A kernel without one gives them no sockets.
pub trait Reception: Send + Sync {
    /// Gets ready for those who come out of one command's sandbox.
    fn open(&self, inside: Inside) -> Box<dyn Visitors>;
}

/// Those who came out of one command's sandbox. Dropped, their connections are closed.
pub trait Visitors: Send {
    /// Lets one in, without keeping the thread that does.
    fn admit(&self, stream: UnixStream);
}

/// Calls of one command that run at once; others wait their turn.
const AT_ONCE: usize = 4;

/// Questions to a person that one command may have waiting: far fewer than its asker may, who must
/// still be able to ask for itself, and for its other commands.
const QUESTIONS: usize = 5;

/// The command a call came out of.
#[derive(Debug)]
pub struct Within {
    action: ActionId,
    caller: Caller,
    place: u64,
    stage: String,
    sandbox: SandboxId,
    /// What was asked of a person out of it, by whomever.
    questions: Mutex<Vec<ApprovalId>>,
    #[cfg(target_os = "linux")]
    control: Control,
}

impl Within {
    /// The call that runs the command.
    pub(crate) const fn action(&self) -> &ActionId {
        &self.action
    }

    /// Who made that call.
    pub(crate) const fn caller(&self) -> &Caller {
        &self.caller
    }

    /// That call's place among others.
    pub(crate) const fn place(&self) -> u64 {
        self.place
    }

    /// The stage in which the command runs.
    pub(crate) fn stage(&self) -> &str {
        &self.stage
    }

    /// The sandbox in which it runs.
    pub(super) const fn sandbox(&self) -> &SandboxId {
        &self.sandbox
    }

    /// Asks a person something as one of the few questions of this command.
    pub(crate) fn asking<T>(&self, ask: impl FnOnce(Share<'_>) -> T) -> T {
        let asked = self.questions.lock();
        let mut asked = asked.unwrap_or_else(PoisonError::into_inner);
        ask(Share {
            asked: &mut asked,
            most: QUESTIONS,
        })
    }

    /// Whether files can be changed beside it.
    #[cfg(target_os = "linux")]
    pub(crate) fn can_change_files(&self) -> bool {
        self.control.can_run_beside()
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) const fn can_change_files(&self) -> bool {
        false
    }

    /// What runs programs of our own beside it.
    #[cfg(target_os = "linux")]
    pub(super) const fn control(&self) -> &Control {
        &self.control
    }
}

/// Calls from inside that plugins serve: what a plugin asks for on the way is part of the command too,
/// and would else wait for it.
#[derive(Default)]
pub(crate) struct Serving(Mutex<HashMap<String, Arc<Within>>>);

impl Serving {
    /// The call `action` out of a command is served by a plugin, until what is given is dropped.
    pub(crate) fn begin(&self, action: &ActionId, within: &Arc<Within>) -> Served<'_> {
        let action = action.to_string();
        self.lock().insert(action.clone(), Arc::clone(within));
        Served {
            serving: self,
            action,
        }
    }

    /// The command that `action` came out of, if it did.
    pub(crate) fn within(&self, action: &str) -> Option<Arc<Within>> {
        self.lock().get(action).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Within>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that a plugin serves.
pub(crate) struct Served<'a> {
    serving: &'a Serving,
    action: String,
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        self.serving.lock().remove(&self.action);
    }
}

/// A command that is being run: for whom, and as part of what.
pub(crate) struct Outer<'a> {
    kernel: &'a Kernel,
    invoker: &'a Invoker<'a>,
    caller: &'a Caller,
    place: u64,
    stage: &'a str,
}

impl<'a> Outer<'a> {
    /// The command that `caller` has run on `stage` in their `place` among others.
    pub(crate) fn new(
        kernel: &'a Kernel,
        invoker: &'a Invoker<'a>,
        caller: &'a Caller,
        (place, stage): (u64, &'a str),
    ) -> Self {
        Self {
            kernel,
            invoker,
            caller,
            place,
            stage,
        }
    }

    /// The kernel that runs it.
    pub(crate) const fn kernel(&self) -> &'a Kernel {
        self.kernel
    }

    /// Runs it, with whoever is inside listened to.
    #[cfg(target_os = "linux")]
    pub(super) fn run(
        &self,
        sandbox: &mut Sandbox,
        command: &Command,
        streams: Streams<'_>,
    ) -> Result<Ended, RunError> {
        let reception = self.kernel.reception();
        let reception = reception.filter(|_| sandbox.plan().has_socket());
        let (Some(reception), Ok(id)) = (reception, SandboxId::new(sandbox.id())) else {
            return sandbox.run(command, streams);
        };
        let inside = Inside::new(self, self.within(id, sandbox));
        let inside = &inside;
        std::thread::scope(|scope| {
            // Whatever happens: those who work here are told to go home before they are waited for.
            let closing = Closing(inside);
            let mut visitors = None;
            let mut visit = |stream: UnixStream| {
                let visitors = visitors.get_or_insert_with(|| {
                    let work = move || inside.work(self);
                    let begin = || std::thread::Builder::new().spawn_scoped(scope, work);
                    let working = (0..AT_ONCE).filter_map(|_| begin().ok()).count();
                    // Where there are no threads, nobody would ever be answered.
                    (working > 0).then(|| reception.open(inside.clone()))
                });
                if let Some(visitors) = visitors {
                    visitors.admit(stream);
                }
            };
            let ended = sandbox.run_visited(command, streams, &mut visit);
            drop(closing);
            drop(visitors);
            ended
        })
    }

    #[cfg(target_os = "linux")]
    fn within(&self, id: SandboxId, sandbox: &Sandbox) -> Within {
        Within {
            action: self.invoker.action.clone(),
            caller: self.caller.clone(),
            place: self.place,
            stage: self.stage.to_owned(),
            sandbox: id,
            questions: Mutex::default(),
            control: sandbox.control(),
        }
    }

    fn submit(&self, within: Arc<Within>, peer: Peer, mut call: Call) -> Outcome {
        call.session.clone_from(&self.caller.session);
        call.unattended |= self.invoker.unattended;
        let whence = Whence {
            peer: Some(peer),
            sandbox: Some(within.sandbox.clone()),
            agent: self.invoker.whence.agent.clone(),
            within: Some(within),
            user: Some(self.caller.user.clone()),
            ..Whence::default()
        };
        let front = front_inside(self.invoker.front);
        self.kernel.submit_from(front, &whence, &call, None)
    }
}

/// What somebody inside acts as: as whoever runs the command, but never as a person.
const fn front_inside(front: Front) -> Front {
    match front {
        Front::Cli | Front::Agent => Front::Agent,
        Front::Mcp => Front::Mcp,
        Front::Server => Front::Server,
        Front::Plugin => Front::Plugin,
    }
}

type Task = Box<dyn FnOnce(&Outer<'_>) + Send>;

/// The way from a command's sandbox to the kernel that runs it. Copies are one.
#[derive(Clone)]
pub struct Inside(Arc<Shared>);

struct Shared {
    within: Arc<Within>,
    workspace: WorkspaceId,
    root: String,
    front: Front,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Task>,
    under_way: Vec<Cancel>,
    ended: bool,
}

impl Inside {
    fn new(outer: &Outer<'_>, within: Within) -> Self {
        let workspace = outer.kernel.workspace();
        Self(Arc::new(Shared {
            within: Arc::new(within),
            workspace: workspace.id().clone(),
            root: workspace.root().path().to_owned(),
            front: front_inside(outer.invoker.front),
            state: Mutex::default(),
            changed: Condvar::new(),
        }))
    }

    /// The sandbox.
    pub fn sandbox(&self) -> &SandboxId {
        &self.0.within.sandbox
    }

    /// The workspace it works in.
    pub fn workspace(&self) -> &WorkspaceId {
        &self.0.workspace
    }

    /// Where that is.
    pub fn root(&self) -> &str {
        &self.0.root
    }

    /// What its calls are made as.
    pub fn front(&self) -> Front {
        self.0.front
    }

    /// Takes `call` of the process `peer` down the road, until `cancel` takes it back, and has
    /// `tell` make something of the outcome. None once the command has ended.
    pub fn submit<T: Send + 'static>(
        &self,
        peer: Peer,
        call: Call,
        cancel: &Cancel,
        tell: impl FnOnce(&Kernel, Outcome) -> T + Send + 'static,
    ) -> Option<T> {
        let within = Arc::clone(&self.0.within);
        self.ask(cancel, move |outer| {
            let outcome = outer.submit(within, peer, call);
            tell(outer.kernel(), outcome)
        })
    }

    /// Looks something up in the kernel. None once the command has ended.
    pub fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Kernel) -> T + Send + 'static,
    ) -> Option<T> {
        self.ask(&Cancel::new(), move |outer| look(outer.kernel()))
    }

    fn ask<T: Send + 'static>(
        &self,
        cancel: &Cancel,
        work: impl FnOnce(&Outer<'_>) -> T + Send + 'static,
    ) -> Option<T> {
        let (tell, told) = mpsc::sync_channel(1);
        let covering = cancel.clone();
        let task = Box::new(move |outer: &Outer<'_>| {
            // Whoever asked may be gone.
            let _told = tell.send(covering.cover(|| work(outer)));
        });
        {
            let mut state = self.lock();
            if state.ended {
                return None;
            }
            state.under_way.push(cancel.clone());
            state.waiting.push_back(task);
        }
        self.0.changed.notify_one();
        let answer = told.recv().ok();
        self.lock().under_way.retain(|one| !one.is_same(cancel));
        answer
    }

    /// Does what is asked for until the command has ended.
    fn work(&self, outer: &Outer<'_>) {
        while let Some(task) = self.next() {
            // Whoever asked hears that it failed: the answer is dropped with the task.
            let _panicked = catch_unwind(AssertUnwindSafe(|| task(outer)));
        }
    }

    fn next(&self) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if state.ended {
                return None;
            }
            if let Some(task) = state.waiting.pop_front() {
                return Some(task);
            }
            let changed = self.0.changed.wait(state);
            state = changed.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The command has ended: nothing more is begun, and what is under way is taken back.
    fn end(&self) {
        let (waiting, under_way) = {
            let mut state = self.lock();
            state.ended = true;
            (
                std::mem::take(&mut state.waiting),
                std::mem::take(&mut state.under_way),
            )
        };
        self.0.changed.notify_all();
        drop(waiting);
        under_way.iter().for_each(Cancel::cancel);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is left half done under this lock.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Closing<'a>(&'a Inside);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

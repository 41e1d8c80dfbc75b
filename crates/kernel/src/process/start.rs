//! Raises the sandbox of what was planned, beside the record of the attempt.
//!
//! A sandbox in which nothing runs yet is no effect: walls and stage are made ready while the attempt
//! is on its way to the disk. Nothing is run in it before [`Starting::wait`], which comes after that;
//! one that is never waited for is taken down again.

use super::failure::ProcessFailure;
use super::job::Staging;
use super::ladder::{Ladder, Rung};
use super::noted::Noted;
use super::plan::Planned;
use super::plans::Made;
use super::sandboxes::Sandboxes;
use super::stages;
use super::surround::Around;
use crate::workspace::Workspace;
use airlock_sandbox::launch::{Launch, StartError};
use airlock_sandbox::plan::Denial;
use airlock_sandbox::stage::{Claim, Stage, Trial};
use airlock_sandbox::{Launcher, Minimum, Plan, Sandbox};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};

/// Where in its state the sandboxes of a workspace are noted.
pub(super) const REGISTRY: &str = "sandboxes";

/// A sandbox that stands, and the stage it has.
pub(super) struct Started {
    pub(super) sandbox: Noted,
    pub(super) stage: Option<Stage>,
    /// What lies over the stage, where nothing is to stay of what is written.
    pub(super) trial: Option<Trial>,
    /// Held until the sandbox is gone: two overlays on one layer would corrupt it.
    pub(super) claim: Option<Claim>,
}

/// A sandbox on its way.
pub(super) struct Starting {
    started: mpsc::Receiver<Result<Started, ProcessFailure>>,
    thread: Option<JoinHandle<()>>,
}

impl Starting {
    /// Waits until it stands.
    pub(super) fn wait(mut self) -> Result<Started, ProcessFailure> {
        // Its result is all that is waited for.
        self.thread = None;
        let lost = |_| ProcessFailure::Sandbox("the start of the sandbox was lost".to_owned());
        self.started.recv().map_err(lost)?
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        // What stands by then, and was not waited for, goes with the channel.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

/// What a start needs, of its own.
struct Start {
    state: PathBuf,
    root: PathBuf,
    staging: Staging,
    trial: bool,
    made: Arc<Made>,
    around: Arc<Around>,
    sandboxes: Sandboxes,
}

impl Planned {
    /// Begins to raise the sandbox, if that is not begun.
    pub(crate) fn begin(&mut self, workspace: &Workspace, sandboxes: &Sandboxes) {
        if self.starting.is_some() {
            return;
        }
        let start = self.start(workspace, sandboxes);
        let (tell, started) = mpsc::sync_channel(1);
        let thread = Builder::new().name("start".to_owned());
        let thread = thread.spawn(move || {
            // Where nobody waits for it any more, it is taken down.
            let _told = tell.send(start.run());
        });
        // Where there is no thread for it, it is started when it is needed.
        self.starting = thread.ok().map(|thread| Starting {
            started,
            thread: Some(thread),
        });
    }

    /// The sandbox, standing.
    pub(super) fn standing(
        &mut self,
        workspace: &Workspace,
        sandboxes: &Sandboxes,
    ) -> Result<Started, ProcessFailure> {
        match self.starting.take() {
            Some(starting) => starting.wait(),
            None => self.start(workspace, sandboxes).run(),
        }
    }

    /// What raises another sandbox like the one there was, in its stage. It has to be gone by then.
    pub(super) fn renewal(
        &self,
        workspace: &Workspace,
        sandboxes: &Sandboxes,
    ) -> impl FnOnce() -> Option<(Noted, Stage, Claim)> + Send + 'static {
        let start = self.start(workspace, sandboxes);
        move || {
            let started = start.run().ok()?;
            let (stage, claim) = (started.stage?, started.claim?);
            // Somebody else's run that nobody judged is judged before anything is mounted.
            let settled = stage.unsettled().ok()?.is_none();
            settled.then_some((started.sandbox, stage, claim))
        }
    }

    fn start(&self, workspace: &Workspace, sandboxes: &Sandboxes) -> Start {
        Start {
            state: workspace.state().path().to_owned(),
            root: PathBuf::from(workspace.root().path()),
            staging: self.job.staging.clone(),
            trial: self.trial,
            made: Arc::clone(&self.made),
            around: Arc::clone(&self.around),
            sandboxes: sandboxes.clone(),
        }
    }
}

impl Start {
    fn plan(&self) -> &Plan {
        &self.made.plan
    }

    fn registry(&self) -> PathBuf {
        self.state.join(REGISTRY)
    }

    fn launch(&self) -> Launch {
        let outfit = self.around.outfit();
        Launch {
            minimum: Minimum::of(self.plan()),
            plan: self.plan().clone(),
            base: outfit.base().clone(),
            home: outfit.home().to_vec(),
            layers: None,
            registry: self.registry(),
        }
    }

    fn run(&self) -> Result<Started, ProcessFailure> {
        let started = self.raised();
        if let (Err(failure), Some(book)) = (&started, self.sandboxes.book())
            && is_of_sandbox(failure)
        {
            let template = self.plan().template().name;
            book.failed(&failure.to_string(), &[("template", template)]);
        }
        started
    }

    fn raised(&self) -> Result<Started, ProcessFailure> {
        let registry = self.registry();
        make_private(&registry)?;
        // What killed supervisors left goes before something new is made; what cannot go yet is
        // tried again by the next command.
        let _collected = airlock_sandbox::collect(&registry);
        self.sandboxes.settle();
        let ladder = self.sandboxes.ladder();
        match ladder.and_then(Ladder::known) {
            Some(rung) => self.on(rung),
            None => match (self.native(), ladder) {
                // Whether it is the machine's doing has to be found out, once.
                (Err(failure @ ProcessFailure::Sandbox(_)), Some(ladder)) => {
                    match ladder.find_out() {
                        Rung::Native => Err(failure),
                        rung @ (Rung::Bwrap | Rung::Nothing { .. }) => self.on(rung),
                    }
                }
                (result, _) => result,
            },
        }
    }

    fn on(&self, rung: Rung) -> Result<Started, ProcessFailure> {
        match rung {
            Rung::Native => self.native(),
            Rung::Bwrap => self.bwrap(),
            Rung::Nothing { why } => Err(ProcessFailure::NoLauncher { why }),
        }
    }

    fn native(&self) -> Result<Started, ProcessFailure> {
        // Asked for first: a machine that cannot make one need not make a stage.
        let prepared = self.sandboxes.take()?;
        self.with_stage(stages::open, |launch| prepared.start(launch))
    }

    fn bwrap(&self) -> Result<Started, ProcessFailure> {
        let mut denials: Vec<Denial> = self.plan().denials().iter().cloned().collect();
        denials.extend(airlock_sandbox::also_denied(self.plan(), None)?);
        self.with_stage(
            |state, root, name| stages::open_copy(state, root, name, &denials),
            |launch| airlock_sandbox::start_with(Launcher::Bwrap, launch),
        )
    }

    fn with_stage(
        &self,
        open: impl FnOnce(&Path, &Path, &str) -> Result<Stage, ProcessFailure>,
        raise: impl FnOnce(Launch) -> Result<Sandbox, StartError>,
    ) -> Result<Started, ProcessFailure> {
        let mut launch = self.launch();
        let (mut stage, mut trial, mut claim) = (None, None, None);
        if let Staging::Stage(name) = &self.staging {
            let opened = stage.insert(open(&self.state, &self.root, name)?);
            let claimed = claim.insert(stages::claim(opened)?);
            if self.trial {
                trial = opened.trial(claimed)?;
            }
            let own = trial.as_ref().map(Trial::layers);
            launch.layers = Some(own.unwrap_or_else(|| opened.layers()));
        }
        let name = stage.as_ref().map(|stage| stage.name().to_string());
        let sandbox = Noted::new(raise(launch)?, name.as_deref(), self.sandboxes.book());
        Ok(Started {
            sandbox,
            stage,
            trial,
            claim,
        })
    }
}

/// Whether it is the sandbox that could not be made, and not its stage that could not be had.
const fn is_of_sandbox(failure: &ProcessFailure) -> bool {
    matches!(
        failure,
        ProcessFailure::NotEnforced(_)
            | ProcessFailure::Unsupported
            | ProcessFailure::NoLauncher { .. }
            | ProcessFailure::Sandbox(_)
            | ProcessFailure::NoRoom { .. }
    )
}

/// Makes a directory that nobody else can enter.
fn make_private(directory: &Path) -> Result<(), ProcessFailure> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|source| {
            let step = "make room for notes of sandboxes".to_owned();
            StartError::Step { step, source }.into()
        })
}

//! A stage of its own with what would be merged, in which no test has run.
//!
//! The runs that something rests on lie over it, each in a layer that goes with it. So none of them
//! finds what another run of the tests wrote, be it where git ignores it: a test that keeps what the
//! code said in one run, and holds it against what it says in the next, has nothing to keep it in.
//!
//! Guarantee: all that is in it is the real tree, the changes that count, and a build of the real
//! tree as it is without them. Nothing that the task wrote has been run there: no test, and no build
//! script or macro either, which a build runs.
//!
//! Non-guarantee: only one language is built so that it stays. A command of the project's own builds
//! in each run what the real tree has not built.

use super::anew::Merged;
use super::facts::Staged;
use super::tested::Again;
use crate::kernel::Kernel;
use crate::process::{Finished, Job, ProcessFailure, StageHold};
use crate::tools::ToolFailure;
use airlock_core::Phase;
use airlock_sandbox::stage::{Passing, StageError};
use airlock_state::Session;

/// What its stage is called by.
const MERGED: &str = "merged";

/// A stage that goes with its runs. If this process is killed, it goes with it.
pub(super) struct Own<'k> {
    kernel: &'k Kernel,
    stage: Passing,
}

impl<'k> Own<'k> {
    pub(super) fn new(kernel: &'k Kernel, label: &str) -> Result<Self, StageError> {
        let stage = StageHold(kernel.workspace()).passing(label)?;
        Ok(Self { kernel, stage })
    }

    pub(super) fn name(&self) -> &str {
        self.stage.name().as_str()
    }

    /// Waits until the sandbox that was in it last has it no more.
    fn settle(&self) {
        self.kernel.sandboxes().settle();
    }
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        self.settle();
        StageHold(self.kernel.workspace()).forget(&self.stage);
    }
}

/// Why there is no such stage.
pub(super) enum Unclean {
    /// Stages are copies, over which nothing can be laid.
    Copies,
    /// It cannot be made.
    Stage(StageError),
    /// What is run for it cannot be run.
    Run(ToolFailure),
}

impl From<StageError> for Unclean {
    fn from(error: StageError) -> Self {
        Self::Stage(error)
    }
}

/// The task whose changes are laid.
#[derive(Clone, Copy)]
pub(super) struct Task<'k> {
    pub(super) kernel: &'k Kernel,
    pub(super) session: &'k Session,
    pub(super) staged: &'k Staged,
}

/// What would be merged, and nothing else.
pub(super) struct Clean<'k> {
    task: Task<'k>,
    stage: Own<'k>,
    /// The job of the runs over it.
    pub(super) job: Job,
    /// The build of the real tree, where there was one.
    build: Option<Finished>,
    /// Paths that git ignores, and which the task's stage changes.
    pub(super) ignored: Vec<String>,
    /// Whether it holds all that counts, and nothing else.
    pub(super) exact: bool,
}

impl<'k> Task<'k> {
    /// Makes the stage for runs of `job`.
    pub(super) fn clean(self, job: &Job, again: Again<'_>) -> Result<Clean<'k>, Unclean> {
        let workspace = self.kernel.workspace();
        if !StageHold(workspace).lies_over(&self.session.stage)? {
            return Err(Unclean::Copies);
        }
        let stage = Own::new(self.kernel, MERGED)?;
        // While planning one run is all there is, and builds for itself.
        let first = self.session.phase != Phase::Planning;
        let build = first.then(|| job.built_on(stage.name())).flatten();
        let build = build.map(|build| again(&build)).transpose();
        let build = build.map_err(Unclean::Run)?;
        stage.settle();
        let changes = Merged::of(self.staged);
        StageHold(workspace).lay(&stage.stage, &self.session.stage, &changes.laid)?;
        let policy = self.kernel.desk().store.current();
        let seen = Staged::look(workspace, &policy, stage.name());
        let seen = seen.map_err(|failure| Unclean::Run(failure.into()))?;
        let exact = changes.is_held_by(&Merged::of(&seen));
        Ok(Clean {
            job: job.on_stage(stage.name()),
            build,
            ignored: changes.ignored,
            exact,
            task: self,
            stage,
        })
    }
}

impl Clean<'_> {
    /// The run that decides, of the job it was made for.
    pub(super) fn decisive(&mut self, again: Again<'_>) -> Result<Finished, ToolFailure> {
        let built = self.build.take();
        // One that did not come to its end would not with the tests either.
        let built = match built {
            Some(built) if built.ran.exited().is_none() => return Ok(built),
            built => built.map_or(0, |built| built.ran.wall_ms),
        };
        let mut finished = self.run(&self.job.of_the_merge(self.stage.name()), again)?;
        // How long further runs may take goes by it, and those build, too.
        finished.ran.wall_ms = finished.ran.wall_ms.saturating_add(built);
        Ok(finished)
    }

    /// Runs `job`, where no other run finds what it writes.
    pub(super) fn run(&self, job: &Job, again: Again<'_>) -> Result<Finished, ToolFailure> {
        if !job.leaves_report() {
            return again(job);
        }
        // It leaves its report in its stage, and with it all else that it writes.
        let Task { kernel, staged, .. } = self.task;
        let own = Own::new(kernel, MERGED).map_err(ProcessFailure::from)?;
        let changes = Merged::of(staged);
        let hold = StageHold(kernel.workspace());
        // Not from the task's stage, which may hold something else by now.
        let laid = hold.lay(&own.stage, self.stage.name(), &changes.laid);
        laid.map_err(ProcessFailure::from)?;
        again(&job.on_stage(own.name()))
    }
}

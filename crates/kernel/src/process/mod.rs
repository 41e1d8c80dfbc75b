//! The process tier: programs in sandboxes, on the road every other call takes.
//!
//! A tool of this tier hands over a [`Job`], which is data. The road decides about it, has it
//! planned ([`plan`](self::plan): what policy, template and limits leave of what is asked), records
//! the attempt with that plan, and only then is a sandbox started ([`run`](self::run)). Nothing
//! else of the kernel starts anything.
//!
//! Guarantee: what policy denies a caller to read is denied in every sandbox of theirs, no limit is
//! above what template, policy and contract allow, and the real tree is never written.
//! After each run what it did to its stage is judged like calls of its own, and what may not be is
//! put back ([`check`](self::check)) before anybody else uses the stage.

mod check;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod check_tests;
mod checks;
mod contract;
mod denials;
#[cfg(test)]
mod denials_tests;
mod exec_run;
mod failure;
mod files;
mod git;
mod grants;
mod in_stage;
mod inside;
mod job;
mod ladder;
#[cfg(not(target_os = "linux"))]
mod no_sandboxes;
mod noted;
mod own;
mod plan;
mod plans;
mod put_off;
mod ran;
#[cfg(target_os = "linux")]
mod reserve;
mod run;
#[cfg(target_os = "linux")]
mod sandboxes;
mod shell_run;
mod stages;
#[cfg(target_os = "linux")]
mod start;
mod streams;
mod surround;
#[cfg(target_os = "linux")]
mod sweeper;
mod testing;
mod translate;
mod unwritable;
mod warm;

pub(crate) use check::Changes;
pub(crate) use checks::{Commands, runnable};
pub(crate) use denials::elsewhere as denied_elsewhere;
pub(crate) use exec_run::ExecRun;
pub use failure::{CheckId, ProcessFailure};
pub(crate) use files::{Delete, Move, Patch, Write, patched};
pub use files::{Refusal as FileRefusal, serve_files};
pub(crate) use git::{Commit, GitDiff, Log, Status, is_of_commit};
pub use inside::{Inside, Reception, Visitors, Within};
pub(crate) use inside::{Outer, Serving};
pub use job::Job;
pub use ladder::{Ladder, Rung};
#[cfg(not(target_os = "linux"))]
pub use no_sandboxes::Sandboxes;
pub(crate) use own::needs_of as granted_needs;
pub use plan::required_classes;
pub(crate) use plan::{Grounds, Planned};
pub use ran::{LimitHit, PutBack, Ran};
pub(crate) use run::Finished;
#[cfg(target_os = "linux")]
pub use sandboxes::Sandboxes;
pub(crate) use shell_run::ShellRun;
pub use stages::StageHold;
pub(crate) use stages::{judged_view, view};
pub use streams::{Attached, Steering};
pub(crate) use surround::Look;
pub use surround::Machine;
#[cfg(target_os = "linux")]
pub(crate) use sweeper::{EVERY, Sweeper};
pub(crate) use testing::{Measured, SaidBy, TestJob, TestRun, Variation};
pub(crate) use unwritable::is_unwritable;
pub(crate) use warm::Warm;

/// Where the sandboxes of a workspace are noted, those of its extensions' workers too.
#[cfg(target_os = "linux")]
pub(crate) fn registries(workspace: &crate::workspace::Workspace) -> [std::path::PathBuf; 2] {
    let state = workspace.state().path();
    [start::REGISTRY, crate::extensions::REGISTRY].map(|name| state.join(name))
}

/// What the machine keeps clear of, and what it gives every sandbox in this workspace.
#[cfg(target_os = "linux")]
pub(crate) fn outfitted(
    machine: &Machine,
    workspace: &crate::workspace::Workspace,
) -> Result<(airlock_sandbox::Surroundings, airlock_sandbox::Outfit), ProcessFailure> {
    let around = surround::Around::look(machine, &surround::Ground::of(workspace))?;
    Ok((around.surroundings().clone(), around.outfit().clone()))
}

use crate::policy_store::PolicyStore;
use crate::tools::Registry;
use std::sync::Arc;

/// Adds what only a whole kernel has to its tools: the person's own commands, and their stages.
pub(crate) fn register(registry: &mut Registry, store: &Arc<PolicyStore>, warm: &Arc<Warm>) {
    registry.replace(Box::new(TestRun::under(store)));
    registry.add(Box::new(own::Own));
    registry.add(Box::new(stages::Read::new(store)));
    registry.add(Box::new(stages::Drop::new(store, warm)));
}

//! Workflows: several calls, one after another or at once, as one job that survives a crash.
//!
//! Every step is an ordinary call on the road, with its own decision and its own record; a workflow
//! can do nothing that its caller could not do by hand. What began and what came of it is on disk
//! before and after each step, so a run can be taken up where it stopped.
//!
//! Guarantee: a step with effects whose end is unknown is not repeated unless a person says so, and
//! a run goes on only with the very definition it began with. Non-guarantee: steps that were done
//! are not undone when a later one fails; what they wrote is in the stage.

mod record;
mod report;
mod run;
mod steps;
mod store;
mod tools;

pub use report::{Resume, RunError, RunReport, RunState};
pub use run::Workflows;
pub use store::{MemoryRuns, RunEvent, RunRecord, RunStore, RunStoreError, StateRuns};
pub(crate) use tools::register;

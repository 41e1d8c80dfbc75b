//! The kernel: reading and searching on the whole road, the sanitiser, the start.

mod corpus;
mod exec;
mod read;
mod sanitise;
mod search;
mod start;
mod wire;

pub(super) use exec::run as exec;
pub(super) use read::run as read;
pub(super) use sanitise::run as sanitise;
pub(super) use search::run as search;
pub(super) use start::run as start;
pub(super) use wire::{Place, Served, run as wire};

use crate::failure::Failure;
use airlock_kernel::{Call, Clock, Done, Front, Kernel, KernelConfig, Lifetime, Outcome};
use std::path::Path;

/// More text than any result here holds: both sides of a search shall return everything.
const WHOLE: usize = 64 * 1024 * 1024;

/// How a long-lived process opens a kernel on `workspace`.
fn config(workspace: &Path, state: &Path, output_bytes: usize) -> KernelConfig {
    KernelConfig {
        workspace: workspace.to_owned(),
        state_home: state.to_owned(),
        clock: Clock::system(),
        lifetime: Lifetime::Long,
        output_bytes,
        search_threads: crate::machine::cores(),
        worker: None,
    }
}

/// Takes `call` down the road, as the agent would.
fn submit(kernel: &Kernel, call: &Call) -> Result<Done, Failure> {
    match kernel.submit(Front::Agent, call) {
        Outcome::Done(done) => Ok(done),
        Outcome::Failed(failed) => Err(Failure::new(failed.what)),
        Outcome::Denied(_) | Outcome::NeedsReview(_) => {
            Err(Failure::new(format!("`{}` was not allowed", call.name)))
        }
    }
}

//! `airlock script-worker`: this program as the worker of one policy script. Only the kernel starts
//! it, in a sandbox.

use crate::failure::{Ending, Failure, Kind};
use airlock_kernel::WorkerProgram;
use std::io;

/// The hidden command.
const COMMAND: &str = "script-worker";

/// This very program as a worker, if it can still be found where it was started from.
pub(super) fn program() -> Option<WorkerProgram> {
    let path = std::env::current_exe().and_then(|path| path.canonicalize());
    Some(WorkerProgram {
        path: path.ok()?,
        arguments: vec![COMMAND.into()],
    })
}

pub(super) fn run() -> Ending {
    airlock_kernel::serve_worker(io::stdin().lock(), io::stdout().lock())
        .map(|()| 0)
        .map_err(|error| Failure::new(Kind::Failed, "the worker cannot go on").why(error))
}

//! `airlock file-worker`: this program as the worker that changes files of a stage. Only the kernel
//! starts it, in a sandbox, where the working directory is the workspace.

use crate::failure::{Ending, Failure, Kind};
use std::io;
use std::path::Path;

pub(super) fn run() -> Ending {
    airlock_kernel::serve_files(Path::new("."), io::stdin().lock(), io::stdout().lock())
        .map(|()| 0)
        .map_err(|error| Failure::new(Kind::Failed, "the worker cannot go on").why(error))
}

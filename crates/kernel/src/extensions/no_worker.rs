//! Where there is no sandbox there is no worker: scripts are refused, never run unconfined.

use super::WorkerProgram;
use airlock_script::{Pipes, Spawn};
use std::io;
use std::path::Path;

/// Starts nothing.
#[derive(Debug, Clone)]
pub(crate) struct Launcher;

impl Launcher {
    pub(super) fn new(_: &WorkerProgram, _: &Path) -> Self {
        Self
    }

    pub(super) fn is_spent(&self) -> bool {
        false
    }
}

impl Spawn for Launcher {
    fn spawn(&self) -> io::Result<Pipes> {
        Err(io::Error::other(
            airlock_sandbox::launch::StartError::Unsupported,
        ))
    }
}

//! `airlock wasm-worker`: this program as the worker of one Wasm plugin. Only the kernel starts it,
//! in a sandbox.

use crate::failure::{Ending, Failure, Kind};
use std::io;

pub(super) fn run() -> Ending {
    airlock_plugin_wasm::serve(io::stdin().lock(), io::stdout(), confine)
        .map(|()| 0)
        .map_err(|error| Failure::new(Kind::Failed, "the worker cannot go on").why(error))
}

#[cfg(target_os = "linux")]
fn confine() -> io::Result<()> {
    airlock_sandbox::confine(airlock_sandbox::seccomp::Profile::Strict)
}

#[cfg(not(target_os = "linux"))]
fn confine() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

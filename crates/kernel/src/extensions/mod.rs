//! The extensions a policy lists: scripts that take part in decisions, each in a worker of its own.
//!
//! A policy that lists an extension wants it asked. Passing it over would allow what its author
//! meant to forbid, so whatever keeps an extension from answering is a denial that says what.
//!
//! Guarantees: only a file with the digest a person approved is ever run, from the bytes that were
//! judged; it runs in a sandbox without files, network or environment, never in this process; its
//! worker starts when it is first asked and is gone when the policy that lists it is.
//!
//! Not guaranteed: that a worker already running notices a change to its file. It goes on with what
//! was approved, as the policy itself does, until the policy is loaded again.

mod listed;
mod unusable;
#[cfg_attr(not(target_os = "linux"), path = "no_worker.rs")]
mod worker;

pub(crate) use listed::{Listed, SCRIPT_BYTES};
pub use unusable::ExtensionProblem;
pub(crate) use worker::Launcher;
#[cfg(target_os = "linux")]
pub(crate) use worker::REGISTRY;

use crate::workspace::Workspace;
use airlock_core::{Digest, Request};
use airlock_policy::{Answer, Extension, ExtensionFailure, ExtensionHost, Policy};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// The program that serves scripts: it must call [`serve_worker`] and nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerProgram {
    /// The executable, by its real absolute path.
    pub path: PathBuf,
    /// What it is given.
    pub arguments: Vec<OsString>,
}

impl WorkerProgram {
    /// The program people call, which lies beside it and hands most of its work to it.
    pub(crate) fn called(&self) -> PathBuf {
        self.path.with_file_name("airlock")
    }

    /// The same program as a worker that changes files: it must call
    /// [`serve_files`](crate::serve_files) then.
    pub(crate) fn for_files(&self) -> Self {
        Self {
            path: self.path.clone(),
            arguments: vec!["file-worker".into()],
        }
    }

    /// The same program as a worker that makes one request: it must call [`serve_request`] then.
    pub(crate) fn for_requests(&self) -> Self {
        Self {
            path: self.path.clone(),
            arguments: vec!["request-worker".into()],
        }
    }
}

/// What a worker program does that makes one request: takes its order over `input`, confines the
/// process, and talks to whoever it is connected with through the same pipes.
pub fn serve_request(input: impl Read, output: impl Write) -> io::Result<()> {
    airlock_request::serve(input, output, confine).map_err(io::Error::other)
}

#[cfg(target_os = "linux")]
fn confine() -> io::Result<()> {
    airlock_sandbox::confine(airlock_sandbox::seccomp::Profile::Strict)
}

#[cfg(not(target_os = "linux"))]
fn confine() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// What a worker program does: takes one script over `input`, confines the process, and answers
/// over `output` until `input` ends.
pub fn serve_worker(input: impl Read, output: impl Write) -> io::Result<()> {
    match airlock_script::serve(input, output, confine) {
        Ok(_served) => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Digests a person approved, by file.
pub(crate) type Approved = BTreeMap<String, Digest>;

/// Every extension `policy` lists. Nothing is read or started yet.
pub(crate) fn listed(
    policy: &Policy,
    approved: &Approved,
    workspace: &Workspace,
    worker: Option<&WorkerProgram>,
) -> Vec<Arc<Listed>> {
    let sources = policy.document().extensions.iter();
    sources
        .map(|source| Arc::new(Listed::new(source, approved, workspace, worker)))
        .collect()
}

/// The host of these extensions.
pub(crate) fn host(listed: &[Arc<Listed>]) -> ExtensionHost {
    ExtensionHost::new(listed.iter().map(|one| {
        let one: Box<dyn Extension> = Box::new(Shared(Arc::clone(one)));
        one
    }))
}

/// An extension that is also looked at from elsewhere.
struct Shared(Arc<Listed>);

impl Extension for Shared {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn evaluate(&self, request: &Request) -> Result<Answer, ExtensionFailure> {
        self.0.evaluate(request)
    }

    fn restart(&self) -> Result<(), ExtensionFailure> {
        self.0.restart()
    }
}

//! What is asked of a launcher and what it answers: the same words on every platform.
//!
//! `start` raises the walls and gives a `Sandbox` only if all of them stand. A sandbox runs one
//! command at a time, as many as wanted, until it is stopped or dropped. Its `Control` works from
//! other threads while a command runs.

use crate::generate::{Mask, SystemEntry};
use crate::lifecycle::{self, Outcome};
use crate::plan::{HostPath, Plan, PlanError};
use crate::presets::HomeEntry;
use crate::report::{Minimum, NotEnforced};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

/// Where a sandbox whose plan has one finds the kernel's socket, and with it its own identity.
pub const KERNEL_SOCKET: &str = "/run/airlock/kernel.sock";

/// A sandbox to be started.
#[derive(Debug, Clone)]
pub struct Launch {
    /// What it is granted.
    pub plan: Plan,
    /// The least that must be enforced.
    pub minimum: Minimum,
    /// What every sandbox on this machine sees.
    pub base: Base,
    /// What is found in the home inside, besides nothing.
    pub home: Vec<HomeEntry>,
    /// Where writes to the workspace go, if the plan stages it.
    pub layers: Option<Layers>,
    /// A directory of Airlock's own in which live sandboxes are noted, for the collector.
    pub registry: PathBuf,
}

/// What every sandbox on this machine sees, whatever its plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// System directories and links, a directory before what lies in it.
    pub system: Vec<SystemEntry>,
    /// What of them is hidden.
    pub masks: Vec<Mask>,
    /// The home inside, empty at first.
    pub home: HostPath,
}

/// How the layers of a stage make one tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LayersKind {
    /// The upper one lies over the real tree and holds what changed.
    #[default]
    Overlay,
    /// The upper one is a whole copy of the tree.
    Copy,
    /// The upper one lies over the changes of the stage it is in, and those over the real tree: for
    /// what is only tried.
    Trial,
}

/// The writable layer of a stage, on one file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layers {
    /// What it is.
    pub kind: LayersKind,
    /// Holds what changed, or everything.
    pub upper: PathBuf,
    /// Scratch space overlayfs needs.
    pub work: PathBuf,
    /// Denials, in words that no other has, of which nothing is in a copy because it was left out.
    pub without: Vec<String>,
}

/// One command to run in a sandbox.
#[derive(Debug, Clone, Default)]
pub struct Command {
    /// The program and its arguments. A program without `/` is looked for in `PATH`, inside.
    pub arguments: Vec<OsString>,
    /// Its whole environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// Where it starts; the plan's directory if absent.
    pub directory: Option<HostPath>,
    /// It is a worker that lasts: its time and output are limited for each call, by whoever calls it.
    pub lasting: bool,
}

/// Where a command reads from.
#[derive(Debug)]
pub enum Stdin {
    /// Nothing: end of file at once.
    Empty,
    /// Everything that can be read from a descriptor. It is copied; the command never holds it.
    From(OwnedFd),
}

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Lines.
    pub rows: u16,
    /// Characters of a line.
    pub columns: u16,
}

/// What a command reads and writes.
pub struct Streams<'a> {
    /// What it reads.
    pub stdin: Stdin,
    /// Takes what it writes to standard output, and everything it writes to its terminal.
    pub stdout: &'a mut (dyn Write + Send),
    /// Takes what it writes to standard error.
    pub stderr: &'a mut (dyn Write + Send),
    /// Gives it a terminal of its own in place of pipes.
    pub terminal: Option<TerminalSize>,
}

/// Something a command wanted to open and a denial kept from it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Refusal {
    /// What it wanted, as seen inside.
    pub path: PathBuf,
    /// The denial that covers it, as it was written.
    pub denial: String,
}

/// Why a program was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotStarted {
    /// There is no such program: exit code 127.
    NotFound,
    /// It is there and cannot be run: exit code 126.
    NotExecutable,
    /// Arguments and environment are more than the system takes: exit code 126.
    TooLong,
    /// The working directory is not there inside: exit code 125.
    NoDirectory,
    /// Anything else, with the system's error number: exit code 126.
    Other(i32),
}

/// How a command ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// How.
    pub outcome: Outcome,
    /// Why the program was not even started; the outcome then is its exit code.
    pub not_started: Option<NotStarted>,
    /// From its start to its end.
    pub wall: Duration,
    /// Bytes of standard output.
    pub stdout: u64,
    /// Bytes of standard error.
    pub stderr: u64,
    /// The most memory the sandbox has used, where that is known.
    pub peak_memory: Option<u64>,
    /// What it was kept from, each once, at most [`REFUSALS`].
    pub refusals: Vec<Refusal>,
}

/// The most refusals that are remembered of one command.
pub const REFUSALS: usize = 64;

/// Why a sandbox did not start. Nothing foreign has run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Not every wall stands.
    #[error(transparent)]
    NotEnforced(#[from] NotEnforced),
    /// The plan is not one.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A step of raising the walls failed.
    #[error("cannot start a sandbox: {step}: {source}")]
    Step {
        /// What was being done.
        step: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// There is no launcher for this platform.
    #[error("there is no sandbox for this platform")]
    Unsupported,
}

impl StartError {
    /// How to mend it.
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotEnforced(_) | Self::Step { .. } => {
                Some("`airlock doctor` says what this machine lacks and how to get it")
            }
            Self::Plan(_) => None,
            Self::Unsupported => Some("Airlock runs programs on Linux only, for now"),
        }
    }
}

/// Why a command could not be run, or not be watched to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No program is named.
    #[error("the command is empty")]
    Empty,
    /// A NUL byte would end an argument early.
    #[error("an argument or a variable contains a NUL byte")]
    Nul,
    /// The sandbox is not in a state to run anything.
    #[error(transparent)]
    State(#[from] lifecycle::Refused),
    /// The sandbox ended before the command did.
    #[error("the sandbox ended unexpectedly")]
    Gone,
    /// A pipe, a terminal or a thread could not be had, or output not be passed on.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

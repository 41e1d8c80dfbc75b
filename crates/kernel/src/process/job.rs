//! What a tool asks of the process tier, as data.

use airlock_core::{ByteSize, Span};
use airlock_sandbox::Template;
use std::collections::BTreeMap;

/// Where what a program writes to the workspace goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Staging {
    /// Into the stage of this name.
    Stage(String),
    /// Nowhere: the workspace is read-only.
    None,
}

/// The limits a caller asked for; what is absent is the template's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) duration: Option<Span>,
    pub(super) memory: Option<ByteSize>,
    /// In thousandths.
    pub(super) cpus: Option<u32>,
    pub(super) pids: Option<u32>,
}

/// Whose word is needed for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listing {
    /// The policy's `commands`.
    Policy,
    /// The person's, who typed it.
    Person,
}

/// A program to be run in a sandbox.
#[derive(Debug, Clone)]
pub struct Job {
    pub(super) template: &'static Template,
    pub(super) command: Vec<String>,
    /// Where in `command` the program begins that wrappers such as `env` lead to.
    pub(super) inner: usize,
    /// Beneath the workspace root.
    pub(super) directory: Option<String>,
    pub(super) reads: Vec<String>,
    pub(super) writes: Vec<String>,
    pub(super) denials: Vec<String>,
    pub(super) inherited: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) limits: Asked,
    pub(super) staging: Staging,
    pub(super) stdin: Option<String>,
    pub(super) listing: Listing,
}

impl Job {
    /// The stage it would run on.
    pub(crate) fn stage(&self) -> Option<&str> {
        match &self.staging {
            Staging::Stage(name) => Some(name),
            Staging::None => None,
        }
    }

    /// The program wrappers lead to, with its arguments.
    pub(super) fn program(&self) -> &[String] {
        self.command.get(self.inner..).unwrap_or(&self.command)
    }
}

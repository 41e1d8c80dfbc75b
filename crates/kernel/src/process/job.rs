//! What a tool asks of the process tier, as data.

use super::contract::Terms;
use super::exec_run::{Bounds, TEMPLATE, template};
use super::files::Refusal;
use super::{git, grants, testing};
use crate::tools::InvalidArguments;
use airlock_core::{ByteSize, Span, WorkspacePath};
use airlock_sandbox::Template;
use std::collections::{BTreeMap, BTreeSet};

/// Where what a program writes to the workspace goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Staging {
    /// Into the stage of the call's session.
    Session,
    /// Into the stage of this name.
    Stage(String),
    /// Nowhere: the workspace is read-only.
    None,
}

/// The limits a caller asked for; what is absent is the template's, or the contract's.
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
    /// Nobody's: it is a program of Airlock's own, or one whose arguments are.
    Own,
}

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Work {
    /// The job's command.
    Command,
    /// The file worker, with its order; or why there is none to give.
    Files(Result<String, Refusal>),
    /// The job's command, whose output counts tests.
    Tests(testing::Reading),
    /// The job's command, which is git's, and what is made of its output.
    Git(git::Reading),
    /// Nothing: the state things are in does not allow it.
    Unavailable(Unavailable),
}

/// Why a tool cannot be used now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unavailable {
    pub(super) state: &'static str,
    pub(super) reason: &'static str,
    pub(super) available: &'static str,
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
    /// The capabilities that reading and writing these takes.
    pub(super) needs: BTreeSet<String>,
    pub(super) denials: Vec<String>,
    pub(super) inherited: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) limits: Asked,
    pub(super) staging: Staging,
    pub(super) stdin: Option<String>,
    pub(super) listing: Listing,
    pub(super) work: Work,
    pub(super) terms: Terms,
    /// The path that the result tells of, whether or not there is one: only to whoever may read it.
    pub(super) about: Option<WorkspacePath>,
    /// Whether what it leaves in its stage stays for the runs over it: a build, never a run of tests.
    pub(super) stays: bool,
}

impl Job {
    /// The stage it would run on; `own` is that of the call's session.
    pub(crate) fn stage<'a>(&'a self, own: &'a str) -> Option<&'a str> {
        match &self.staging {
            Staging::Stage(name) => Some(name),
            Staging::Session => Some(own),
            Staging::None => None,
        }
    }

    /// The files and the purpose of the contract.
    pub(crate) const fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The path that the result tells of.
    pub(crate) const fn about(&self) -> Option<&WorkspacePath> {
        self.about.as_ref()
    }

    /// A job for the file worker.
    pub(super) fn for_files(order: Result<String, Refusal>) -> Result<Self, InvalidArguments> {
        Ok(Self {
            // The same as a program's, so that one sandbox can serve both.
            limits: Bounds::default().limits()?,
            listing: Listing::Own,
            work: Work::Files(order),
            ..Self::of(Vec::new())?
        })
    }

    /// A job with the limits of the usual template and nothing but the workspace, on a stage.
    pub(super) fn of(command: Vec<String>) -> Result<Self, InvalidArguments> {
        Ok(Self {
            template: template(TEMPLATE)?,
            command,
            inner: 0,
            directory: None,
            reads: Vec::new(),
            writes: Vec::new(),
            needs: BTreeSet::new(),
            denials: Vec::new(),
            inherited: Vec::new(),
            environment: BTreeMap::new(),
            limits: Asked::default(),
            staging: Staging::Session,
            stdin: None,
            listing: Listing::Policy,
            work: Work::Command,
            terms: Terms::default(),
            about: None,
            stays: false,
        })
    }

    /// The same, which may read `reads` and write `writes` besides.
    #[must_use]
    pub(super) fn granted(mut self, reads: Vec<String>, writes: Vec<String>) -> Self {
        self.needs = grants::needs(&reads, &writes);
        (self.reads, self.writes) = (reads, writes);
        self
    }

    /// The capabilities that what it is granted besides takes.
    pub(crate) const fn needs(&self) -> &BTreeSet<String> {
        &self.needs
    }

    /// Whether it changes the paths its call names, and nothing else.
    pub(crate) fn changes_named_paths_only(&self) -> bool {
        matches!(self.work, Work::Files(_))
    }

    /// The stage it asks for by name.
    pub(crate) fn named_stage(&self) -> Option<&str> {
        match &self.staging {
            Staging::Stage(name) => Some(name),
            Staging::Session | Staging::None => None,
        }
    }

    /// The program wrappers lead to, with its arguments.
    pub(super) fn program(&self) -> &[String] {
        self.command.get(self.inner..).unwrap_or(&self.command)
    }
}

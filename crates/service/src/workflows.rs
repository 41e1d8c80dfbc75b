//! Runs of workflows, asked for over the wire or of a kernel in this process, with the same results.
//!
//! Guarantee: a run that is asked for over the wire is the command line's, with the person's home and
//! environment for its programs. When its request is taken back, so is the step under way, and the run
//! can be taken up like one whose process was killed.

use crate::answers::{self, covering};
use crate::caller::Identity;
use crate::methods::{Method, Person};
use crate::service::Service;
use airlock_kernel::{Front, Resume, RunError, RunReport, RunState, Workflows};
use airlock_wire::{Answer, CancelToken, WireError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

/// Parameters of `workflows.run`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BeginRun {
    /// The workflow.
    pub name: String,
    /// What it is begun with.
    pub inputs: Value,
    /// Home and environment of the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<Person>,
}

/// Parameters of `workflows.resume`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResumeRun {
    /// The run's id, or its beginning.
    pub run: String,
    /// Steps to do again, though they may have happened.
    #[serde(default)]
    pub repeat: BTreeSet<String>,
    /// Steps to count as failed.
    #[serde(default)]
    pub skip: BTreeSet<String>,
    /// Home and environment of the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<Person>,
}

/// Parameters of `workflows.cancel`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelRun {
    /// The run's id, or its beginning.
    pub run: String,
}

/// What is asked about a run. Serialised it is the parameters of its method.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum RunAsk {
    /// To begin one.
    Begin(BeginRun),
    /// To take one up.
    Resume(ResumeRun),
    /// To stop one.
    Cancel(CancelRun),
}

impl RunAsk {
    /// Asks `flows`, as the command line.
    pub fn put(&self, flows: &Workflows<'_>) -> Result<RunReport, RunError> {
        match self {
            Self::Begin(asked) => flows.run(Front::Cli, &asked.name, &asked.inputs),
            Self::Resume(asked) => {
                let id = flows.beginning(&asked.run)?.id;
                let resume = Resume {
                    repeat: asked.repeat.clone(),
                    skip: asked.skip.clone(),
                };
                flows.resume(Front::Cli, &id, &resume)
            }
            Self::Cancel(asked) => {
                let id = flows.beginning(&asked.run)?.id;
                flows.cancel(Front::Cli, &id)?;
                let state = RunState::Cancelled;
                Ok(RunReport { id, state })
            }
        }
    }

    /// The same, with the home and the environment of `new`, where a program may need them.
    #[must_use]
    pub fn by(mut self, new: Option<Person>) -> Self {
        match &mut self {
            Self::Begin(BeginRun { person, .. }) | Self::Resume(ResumeRun { person, .. }) => {
                *person = new;
            }
            Self::Cancel(CancelRun { .. }) => {}
        }
        self
    }

    /// What asks for it over the wire.
    pub(crate) const fn method(&self) -> Method {
        match self {
            Self::Begin(_) => Method::WorkflowsRun,
            Self::Resume(_) => Method::WorkflowsResume,
            Self::Cancel(_) => Method::WorkflowsCancel,
        }
    }

    fn person(&self) -> Option<Person> {
        match self {
            Self::Begin(BeginRun { person, .. }) | Self::Resume(ResumeRun { person, .. }) => {
                person.clone()
            }
            Self::Cancel(CancelRun { .. }) => None,
        }
    }
}

/// The result of the methods about runs.
#[derive(Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// What came of it.
    pub came: RunCame,
    /// Whether the workspace's files are not approved, so that built-in defaults hold.
    pub untrusted: bool,
    /// What is wrong with the log, if something is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

/// What came of asking about a run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunCame {
    /// How it stands.
    Report(RunReport),
    /// Why there is none, or nothing was done to it.
    Refused(RunError),
}

impl RunCame {
    /// The same where it did not have to cross.
    pub(crate) fn into_result(self) -> Result<RunReport, RunError> {
        match self {
            Self::Report(report) => Ok(report),
            Self::Refused(error) => Err(error),
        }
    }
}

impl Service {
    /// Puts what `identity`, who is the person, asks about a run.
    pub(crate) fn ask_run(
        &self,
        identity: &Identity,
        asked: &RunAsk,
        token: &CancelToken,
    ) -> Result<Answer, WireError> {
        let whence = identity.whence(self.machine(identity, asked.person())?);
        let put = || asked.put(&self.kernel.workflows()?.asked_from(whence));
        let came = match covering(token).cover(put) {
            Ok(report) => RunCame::Report(report),
            Err(error) => RunCame::Refused(error),
        };
        self.count();
        answers::told(&RunResult {
            came,
            untrusted: answers::untrusted(&self.kernel),
            broken: answers::broken(&self.kernel),
        })
    }
}

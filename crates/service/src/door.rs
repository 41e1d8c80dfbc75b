//! The door through which a command reaches a kernel.

use crate::answers;
use crate::methods::{CallResult, Person};
use crate::remote::Remote;
use crate::workflows::{RunAsk, RunResult};
use airlock_audit::Health;
use airlock_kernel::{Call, Front, Kernel, Outcome, RunError, RunReport};
use airlock_wire::ClientError;
use std::time::Duration;

/// A kernel: this process's own, or the one that runs for the workspace.
pub enum Door {
    /// Opened for this command.
    Embedded(Box<Kernel>),
    /// Reached over its socket, as one front.
    Running(Box<Remote>),
}

/// Why a running kernel gave no outcome. Whether the call had an effect is in the log.
#[derive(Debug, thiserror::Error)]
#[error("the running kernel did not answer: {source}")]
pub struct DoorError {
    #[source]
    source: ClientError,
}

impl DoorError {
    /// Whether the call was certainly not begun: the kernel was ending, or takes none that long.
    pub fn is_untaken(&self) -> bool {
        self.source.is_untaken()
    }

    /// How to go on.
    pub fn hint(&self) -> &'static str {
        "`airlock audit log` says what was done; try again"
    }
}

/// What a person should know about a kernel whose results they read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    /// The workspace's files are not approved, so built-in defaults hold.
    pub untrusted: bool,
    /// What is wrong with the log.
    pub broken: Option<String>,
}

impl Door {
    /// Takes `call` down the road, as `front`. The log's health is waited for up to `patience`.
    pub fn submit(
        &mut self,
        front: Front,
        call: &Call,
        person: Option<Person>,
        patience: Duration,
    ) -> Result<(Outcome, Standing), DoorError> {
        match self {
            Self::Embedded(kernel) => {
                let outcome = kernel.submit(front, call);
                Ok((outcome, standing(kernel, patience)))
            }
            Self::Running(remote) => {
                let result = remote
                    .call(call, person)
                    .map_err(|source| DoorError { source })?;
                let CallResult {
                    outcome,
                    untrusted,
                    broken,
                    question: _,
                } = result;
                Ok((outcome, Standing { untrusted, broken }))
            }
        }
    }

    /// Asks the kernel that runs about a run of a workflow. None behind any other door: steps may call
    /// plugins, which ask only a kernel that has company ([`crate::Accompanied`]).
    pub fn ask_run(&mut self, asked: &RunAsk) -> Option<Result<Asked, DoorError>> {
        let Self::Running(remote) = self else {
            return None;
        };
        let heard = remote.ask_run(asked).map(|result| {
            let RunResult {
                came,
                untrusted,
                broken,
            } = result;
            (came.into_result(), Standing { untrusted, broken })
        });
        Some(heard.map_err(|source| DoorError { source }))
    }
}

/// What came of asking about a run, and how the kernel stands.
type Asked = (Result<RunReport, RunError>, Standing);

/// How an embedded kernel stands.
fn standing(kernel: &Kernel, patience: Duration) -> Standing {
    let broken = match kernel.log().wait_for_health(patience) {
        Health::Broken { detail, .. } => Some(detail),
        Health::Verified { .. } | Health::Verifying | Health::Unknown { .. } => None,
    };
    Standing {
        untrusted: answers::untrusted(kernel),
        broken,
    }
}

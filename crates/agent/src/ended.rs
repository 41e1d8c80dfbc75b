//! How a run of the loop ends.

use crate::hands::NoLeave;
use airlock_model::ModelError;
use serde::Serialize;

/// Why the loop stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Ended {
    /// The model is done.
    Done,
    /// The model will not do it.
    Refused,
    /// The provider cut the answer off for its content.
    Filtered,
    /// The answer took all the room there was, and is cut.
    Truncated,
    /// As many questions were put as one session may put.
    TurnLimit {
        /// How many.
        turns: u64,
    },
    /// The same call failed again and again.
    Repeated {
        /// The tool.
        tool: String,
        /// How often.
        times: u32,
        /// What it said the last time.
        why: String,
    },
    /// The person took it back.
    Cancelled,
}

/// A run of the loop that ended in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Why it stopped.
    pub ended: Ended,
    /// What the model said last.
    pub text: String,
}

/// Why the loop could not go on.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The model does not answer.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// It may not be asked.
    #[error("the model may not be asked: {0}")]
    NoLeave(NoLeave),
    /// What every question holds leaves no room for a conversation.
    #[error(
        "the model's window of {window} tokens is too small: {needed} are needed before anything is said"
    )]
    NoRoom {
        /// The window.
        window: u32,
        /// What is needed.
        needed: u64,
    },
}

impl AgentError {
    /// What would help.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Model(error) => error.hint(),
            Self::NoLeave(leave) => leave.fix.first().cloned(),
            Self::NoRoom { .. } => Some(
                "set `window` of the model to what it really takes, or use a larger one".to_owned(),
            ),
        }
    }
}

//! What comes of a run, and why there is none.

use super::store::RunStoreError;
use crate::road::{Outcome, Review};
use airlock_state::RunStatus;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

/// How a run stands when it is not going on.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Every step is done; its outputs.
    Done(Value),
    /// A step failed, or the outputs are not what they should be.
    Failed {
        /// The step; none if it is the workflow itself.
        step: Option<String>,
        /// A word for it.
        code: String,
        /// What failed.
        what: String,
    },
    /// A step needs a person's yes first.
    Waiting {
        /// The step.
        step: String,
        /// The question.
        #[serde(with = "whole")]
        review: Box<Review>,
    },
    /// These steps began and have no end, and may have had effects: somebody has to look.
    Unsettled(Vec<String>),
    /// Somebody stopped it.
    Cancelled,
}

/// A run and how it stands.
#[derive(Debug, Serialize, Deserialize)]
pub struct RunReport {
    /// Its id.
    pub id: String,
    /// How it stands.
    pub state: RunState,
}

/// What to do about steps whose end is unknown.
#[derive(Debug, Clone, Default)]
pub struct Resume {
    /// Do them again.
    pub repeat: BTreeSet<String>,
    /// Count them as failed and go on, where the workflow says that they may fail.
    pub skip: BTreeSet<String>,
}

/// Why a run cannot be begun, taken up or stopped. Serialised it is all but the arguments of the request
/// that got no leave, as an [`Outcome`] is.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunError {
    /// There is no such workflow.
    #[error("there is no workflow `{name}`")]
    NoWorkflow {
        /// The name asked for, shortened.
        name: String,
        /// The name probably meant.
        suggestion: Option<String>,
    },
    /// The inputs do not fit.
    #[error("the inputs do not fit: {0}")]
    Inputs(String),
    /// There is no such run of this owner.
    #[error("there is no run `{0}`")]
    NoRun(String),
    /// The ids of several begin so.
    #[error("several runs begin with `{0}`")]
    Several(String),
    /// It is over.
    #[error("the run `{id}` is {}", .status.as_str())]
    Over {
        /// The run.
        id: String,
        /// How it ended.
        status: RunStatus,
    },
    /// Somebody is at it.
    #[error("the run `{0}` is going on elsewhere")]
    Busy(String),
    /// Whoever asked for it no longer wants an answer. What was under way was ended, and is a step without
    /// an end, as after a crash.
    #[error("the run `{0}` was interrupted")]
    TakenBack(String),
    /// The definition is no longer the one it began with.
    #[error("the workflow `{0}` is no longer what the run began with")]
    Changed(String),
    /// The road did not give leave to it: it is denied, needs a person's yes, or could not be
    /// recorded. Nothing was done.
    #[error("there is no leave for it")]
    NoLeave(Box<Outcome>),
    /// The store does not take it, so nothing is done.
    #[error(transparent)]
    Store(#[from] RunStoreError),
}

impl RunError {
    /// How to mend it.
    pub fn hint(&self) -> Option<String> {
        let fix = match self {
            Self::NoWorkflow {
                suggestion: Some(name),
                ..
            } => return Some(format!("did you mean `{name}`?")),
            Self::NoWorkflow { .. } => "`airlock workflow list` shows what there is",
            Self::Inputs(_) => "`airlock workflow show NAME` shows what it takes",
            Self::NoRun(_) => "`airlock workflow list` shows the runs there are",
            Self::Several(_) => "give more of the id",
            Self::Over { .. } => "begin a new one with `airlock workflow run`",
            Self::Busy(_) => "wait for it, or cancel it",
            Self::TakenBack(id) => {
                return Some(format!("take it up: airlock workflow resume {id}"));
            }
            Self::Changed(_) => "restore the definition, or cancel the run and begin a new one",
            Self::NoLeave(_) => return None,
            Self::Store(error) => return error.hint(),
        };
        Some(fix.to_owned())
    }
}

/// A question with the arguments of its request, which a review leaves out because whoever asked has
/// them: whoever asked for a run has not, and answers about them.
mod whole {
    use super::{Deserialize, Review, Serialize, Value};
    use serde::{Deserializer, Serializer};

    #[derive(Serialize)]
    struct Told<'a> {
        review: &'a Review,
        arguments: &'a Value,
    }

    #[derive(Deserialize)]
    struct Heard {
        review: Box<Review>,
        arguments: Value,
    }

    pub(super) fn serialize<S: Serializer>(
        review: &Review,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let arguments = &review.request.arguments;
        Told { review, arguments }.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Box<Review>, D::Error> {
        let Heard {
            mut review,
            arguments,
        } = Heard::deserialize(deserializer)?;
        review.request.arguments = arguments;
        Ok(review)
    }
}

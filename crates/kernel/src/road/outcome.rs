//! What comes back from the road.

use crate::process::Ran;
use crate::sanitise::{Flag, Origin};
use crate::tools::{InvalidArguments, ToolFailure};
use airlock_core::{ActionId, Request};
use airlock_policy::approval::ApprovalRequest;
use airlock_policy::{Decision, Explanation};

/// The end of the road for one call.
#[derive(Debug)]
pub enum Outcome {
    /// It happened.
    Done(Done),
    /// It may not happen.
    Denied(Box<Denied>),
    /// It may happen once a person says so.
    NeedsReview(Box<Review>),
    /// It could not be tried, or was tried and failed.
    Failed(Failed),
}

/// A result.
#[derive(Debug)]
pub struct Done {
    /// Joins this answer with the log.
    pub action: ActionId,
    /// The result, sanitised.
    pub value: serde_json::Value,
    /// Files withheld by policy.
    pub hidden: u64,
    /// Whether the result was cut for length.
    pub cut: bool,
    /// Secrets replaced by placeholders.
    pub secrets: usize,
    /// Places that may hold instructions; the strings they stand in are wrapped as data.
    pub flags: Vec<Flag>,
    /// Where the result comes from.
    pub origin: Box<Origin>,
    /// How the command ended, if it ran one.
    pub ran: Option<Box<Ran>>,
}

/// A denial that explains itself.
#[derive(Debug)]
pub struct Denied {
    /// Joins this answer with the log.
    pub action: ActionId,
    /// What was asked.
    pub request: Request,
    /// The decision with every contribution.
    pub decision: Decision,
    /// What would make it pass.
    pub explanation: Explanation,
}

/// A question for a person.
#[derive(Debug)]
pub struct Review {
    /// Joins this answer with the log.
    pub action: ActionId,
    /// What was asked.
    pub request: Request,
    /// The decision with every contribution.
    pub decision: Decision,
    /// The question.
    pub approval: ApprovalRequest,
}

/// A failure, told without Rust words.
#[derive(Debug)]
pub struct Failed {
    /// Joins this answer with the log.
    pub action: ActionId,
    /// A stable word for the kind of failure.
    pub code: &'static str,
    /// What failed and why.
    pub what: String,
    /// How to mend it.
    pub fix: Option<String>,
    /// Whether the same call may succeed later.
    pub retryable: bool,
}

/// Why a call never became a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Invalid {
    /// There is no such tool.
    #[error("unknown tool `{name}`")]
    UnknownTool {
        /// The name asked for, shortened.
        name: String,
        /// The nearest tool that exists.
        suggestion: Option<&'static str>,
    },
    /// The arguments do not fit.
    #[error("invalid arguments for `{tool}`: {source}")]
    Arguments {
        /// The tool.
        tool: &'static str,
        /// What is wrong.
        #[source]
        source: InvalidArguments,
    },
}

impl Invalid {
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::UnknownTool { .. } => "unknown_tool",
            Self::Arguments { .. } => "invalid_arguments",
        }
    }

    pub(crate) fn hint(&self) -> String {
        match self {
            Self::UnknownTool {
                suggestion: Some(name),
                ..
            } => format!("did you mean `{name}`?"),
            Self::UnknownTool {
                suggestion: None, ..
            } => "`airlock tool list` shows what there is".to_owned(),
            Self::Arguments { tool, source } => source.hint().map_or_else(
                || format!("`airlock tool show {tool}` shows its arguments"),
                str::to_owned,
            ),
        }
    }
}

impl Failed {
    /// A tool that ran and failed.
    pub(crate) fn tool(action: ActionId, failure: &ToolFailure) -> Self {
        Self {
            action,
            code: failure.code(),
            what: crate::sanitise::sanitise_line(&failure.to_string(), 500),
            fix: failure
                .hint()
                .map(|fix| crate::sanitise::sanitise_line(&fix, 500)),
            retryable: failure.retryable(),
        }
    }
}

//! What comes back from the road.

use super::turns::NoTurn;
use crate::plugins::Unheld;
use crate::process::{ProcessFailure, Ran};
use crate::sanitise::{Flag, Origin, Told};
use crate::sessions::SessionProblem;
use crate::tools::{Absent, InvalidArguments, ToolFailure};
use airlock_core::{ActionId, Request};
use airlock_policy::approval::ApprovalRequest;
use airlock_policy::{Decision, Explanation};
use serde::{Deserialize, Serialize};

/// The end of the road for one call.
///
/// Serialised it is everything but the arguments of a request, which may hold contents and secrets
/// and which whoever asked has: [`Outcome::asked`] puts them back. Where a question is about more than
/// that, [`Outcome::question`] says about what.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

impl Outcome {
    /// With the arguments of the call it is the outcome of, after it was serialised without them.
    #[must_use]
    pub fn asked(mut self, arguments: &serde_json::Value) -> Self {
        match &mut self {
            Self::Denied(denied) => denied.request.arguments = arguments.clone(),
            Self::NeedsReview(review) => review.request.arguments = arguments.clone(),
            Self::Done(_) | Self::Failed(_) => {}
        }
        self
    }

    /// The arguments that a person is asked about, where they are not `arguments`, those of the call:
    /// what was looked at for the person is among them.
    pub fn question(&self, arguments: &serde_json::Value) -> Option<&serde_json::Value> {
        match self {
            Self::NeedsReview(review) => {
                Some(&review.request.arguments).filter(|asked| *asked != arguments)
            }
            Self::Done(_) | Self::Denied(_) | Self::Failed(_) => None,
        }
    }
}

/// A result.
#[derive(Debug, Serialize, Deserialize)]
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
#[derive(Debug, Serialize, Deserialize)]
pub struct Denied {
    /// Joins this answer with the log.
    pub action: ActionId,
    /// What was asked.
    pub request: Request,
    /// The decision with every contribution.
    pub decision: Decision,
    /// What would make it pass.
    #[serde(with = "super::crossing::explanation")]
    pub explanation: Explanation,
}

/// A question for a person.
#[derive(Debug, Serialize, Deserialize)]
pub struct Review {
    /// Joins this answer with the log.
    pub action: ActionId,
    /// What was asked.
    pub request: Request,
    /// The decision with every contribution.
    pub decision: Decision,
    /// The question, as it is stored: cleaned for showing.
    pub approval: ApprovalRequest,
}

impl Review {
    /// How a person answers it, as a command.
    pub fn how_to_answer(&self) -> String {
        format!("airlock approvals approve {}", self.approval.id)
    }
}
/// A name for the type, so that serde does not take it for text it could borrow.
type Word = &'static str;

/// A failure, told without Rust words.
#[derive(Debug, Serialize, Deserialize)]
pub struct Failed {
    /// Joins this answer with the log.
    pub action: ActionId,
    /// A stable word for the kind of failure.
    #[serde(with = "super::crossing::code")]
    pub code: Word,
    /// What failed and why.
    pub what: String,
    /// How to mend it.
    pub fix: Option<String>,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// Whose words it is told in, where they may be others' than Airlock's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Box<Origin>>,
    /// Places in it that may be instructions; what they stand in is wrapped as data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<Flag>,
}

/// Why a call never became a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Invalid {
    /// There is no such tool.
    #[error("unknown tool `{name}`")]
    UnknownTool {
        /// The name asked for, shortened.
        name: String,
        /// The nearest tool that whoever asks could use.
        suggestion: Option<&'static str>,
    },
    /// There is one, which cannot be called as things are.
    #[error("`{name}` cannot be called: {}", .absent.why)]
    Absent {
        /// The name asked for, shortened.
        name: String,
        /// Why, and how to change that.
        absent: Absent,
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
    /// The log is broken, and policy says that this stops everything else.
    #[error(
        "`{name}` is refused: the audit log is broken, and the policy says `audit.stop_on_break`"
    )]
    Stopped {
        /// The name asked for, shortened.
        name: String,
    },
    /// Which secrets plugins were given cannot be told, so nothing is kept or shown.
    #[error(transparent)]
    Unheld(#[from] Unheld),
    /// Only a person may use it.
    #[error("`{tool}` is for a person at a terminal")]
    NeedsPerson {
        /// The tool.
        tool: &'static str,
    },
    /// The agent that asks was not given it.
    #[error("agent `{agent}` may not use `{tool}`")]
    NotTheAgents {
        /// The tool.
        tool: &'static str,
        /// The agent.
        agent: String,
    },
    /// It cannot act in the session it names.
    #[error(transparent)]
    Session(#[from] SessionProblem),
    /// The stage it would work in cannot be looked at.
    #[error(transparent)]
    Stage(ProcessFailure),
    /// It did not get its turn.
    #[error(transparent)]
    NoTurn(#[from] NoTurn),
}

impl Invalid {
    pub(crate) fn code(&self) -> &'static str {
        match self {
            // Whoever calls it does the same about both.
            Self::UnknownTool { .. } | Self::Absent { .. } => "unknown_tool",
            Self::Arguments { .. } => "invalid_arguments",
            Self::Stopped { .. } => "audit_broken",
            Self::Unheld(_) => "settings_unreadable",
            Self::NeedsPerson { .. } => "needs_person",
            Self::NotTheAgents { .. } => "tool_not_given",
            Self::Session(problem) => problem.code(),
            Self::Stage(failure) => failure.code(),
            Self::NoTurn(why) => ToolFailure::from(*why).code(),
        }
    }

    pub(crate) fn retryable(&self) -> bool {
        match self {
            Self::UnknownTool { .. }
            | Self::Absent { .. }
            | Self::Arguments { .. }
            | Self::Stopped { .. }
            | Self::Unheld(_)
            | Self::NeedsPerson { .. }
            | Self::NotTheAgents { .. } => false,
            Self::Session(problem) => problem.retryable(),
            Self::Stage(failure) => failure.retryable(),
            Self::NoTurn(why) => ToolFailure::from(*why).retryable(),
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
            Self::Absent { absent, .. } => absent.fix.clone(),
            Self::Stopped { .. } => {
                "approve a policy without that setting: `airlock policy update FILE`".to_owned()
            }
            Self::Unheld(_) => Unheld::FIX.to_owned(),
            Self::NeedsPerson { .. } => {
                "answer in a terminal with `airlock approvals approve` or `deny`".to_owned()
            }
            Self::NotTheAgents { .. } => {
                "add it to `tools` of the agent, if whoever invokes it may use it".to_owned()
            }
            Self::Session(problem) => problem.hint(),
            Self::Arguments { tool, source } => source.hint().map_or_else(
                || format!("`airlock tool show {tool}` shows its arguments"),
                str::to_owned,
            ),
            Self::Stage(failure) => failure.hint().unwrap_or_default(),
            Self::NoTurn(why) => ToolFailure::from(*why).hint().unwrap_or_default(),
        }
    }
}

impl Failed {
    /// A failure in Airlock's own words.
    pub(super) const fn own(
        action: ActionId,
        code: &'static str,
        what: String,
        fix: Option<String>,
        retryable: bool,
    ) -> Self {
        Self {
            action,
            code,
            what,
            fix,
            retryable,
            origin: None,
            flags: Vec::new(),
        }
    }

    /// A failure that may be told in the words of others.
    pub(super) fn told(action: ActionId, code: &'static str, told: Told, retryable: bool) -> Self {
        let failed = Self::own(action, code, told.what, told.fix, retryable);
        if told.withheld {
            return failed;
        }
        Self {
            origin: Some(Box::new(told.origin)),
            flags: told.flags,
            ..failed
        }
    }
}

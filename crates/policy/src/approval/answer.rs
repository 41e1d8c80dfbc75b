//! Who may answer through which channel, and what an answer does.

use super::action::Binding;
use super::gate::{Gate, MayAnswer};
use super::grant::Grant;
use super::request::ApprovalRequest;
use crate::decision::{Contribution, Layer};
use crate::document::{Approvals, Headless};
use airlock_core::{RequestPath, Syscall, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Longest rationale, in characters.
const RATIONALE: usize = 2_000;
/// Most conditions of one answer.
const CONDITIONS: usize = 16;

/// What was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Yes.
    Approve,
    /// No.
    Deny,
    /// Not now: the question stays open.
    Defer,
}

/// A bound on an approval; all of them hold together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// One use.
    Once,
    /// So many uses.
    Uses(u32),
    /// Uses before this time.
    Until(Timestamp),
    /// The same syscall on any paths in this directory of the workspace.
    Directory(RequestPath),
    /// The same syscall, whatever its paths, host or command.
    Verb(Syscall),
    /// The same syscall to this host.
    Host(Arc<str>),
}

/// Who answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answerer {
    /// A person.
    Person(UserId),
    /// The policy, by the rule of this name.
    Policy(Arc<str>),
}

/// The way an answer came.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// A terminal of the person.
    Terminal,
    /// The dashboard.
    Dashboard,
    /// A channel policy may name.
    Named(Arc<str>),
    /// A question put through the MCP client.
    McpElicitation,
    /// No person: the policy itself.
    Policy,
    /// The channel the agent itself writes to.
    AgentOwn,
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terminal => f.write_str("terminal"),
            Self::Dashboard => f.write_str("dashboard"),
            Self::Named(name) => f.write_str(name),
            Self::McpElicitation => f.write_str("mcp elicitation"),
            Self::Policy => f.write_str("policy"),
            Self::AgentOwn => f.write_str("the agent's own channel"),
        }
    }
}

/// What policy says about answering. The default opens nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerRules {
    /// Gates policy answers by itself; AG-04 among them is the delegation it needs.
    #[serde(default)]
    pub by_policy: BTreeSet<Gate>,
    /// Gates opened to MCP elicitation.
    #[serde(default)]
    pub by_elicitation: BTreeSet<Gate>,
    /// Named channels that are a person's.
    #[serde(default)]
    pub channels: BTreeSet<Arc<str>>,
    /// What happens with no person present.
    #[serde(default)]
    pub headless: Headless,
}

impl AnswerRules {
    /// What the `approvals` section of a policy says.
    pub fn of(approvals: &Approvals) -> Self {
        Self {
            by_policy: approvals.automatic.iter().copied().collect(),
            by_elicitation: approvals.mcp_gates.iter().copied().collect(),
            channels: approvals.channels.iter().cloned().collect(),
            headless: approvals.headless,
        }
    }
}

/// An answer to an approval request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Yes, no, not now.
    pub reply: Reply,
    /// Bounds of a yes. None: this very action, once.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Why.
    #[serde(default)]
    pub rationale: Option<Arc<str>>,
    /// Who.
    pub answered_by: Answerer,
    /// Which way.
    pub channel: Channel,
}

/// An answer that was accepted, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// The answer.
    pub answer: Answer,
    /// When.
    pub at: Timestamp,
}

impl Answered {
    /// Whether the question is closed by it.
    pub fn settles(&self) -> bool {
        match self.answer.reply {
            Reply::Approve | Reply::Deny => true,
            Reply::Defer => false,
        }
    }
}

/// Why an answer does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The agent would answer itself.
    #[error("nobody answers through the agent's own channel")]
    AgentOwn,
    /// Not a way to answer for this gate.
    #[error("{gate} cannot be answered through {channel}")]
    Never {
        /// The gate.
        gate: Gate,
        /// The channel.
        channel: Channel,
    },
    /// A way policy could open but did not.
    #[error("policy has not opened {gate} to {channel}")]
    NotOpened {
        /// The gate.
        gate: Gate,
        /// The channel.
        channel: Channel,
    },
    /// A person's answer through policy's channel, or the other way round.
    #[error("the answer's author does not belong to {0}")]
    Author(Channel),
    /// It has its answer.
    #[error("the request was answered before")]
    Settled,
    /// It waited too long.
    #[error("the question is out of date: nobody answered it in time")]
    Expired,
    /// What was shown is not what would happen now.
    #[error("the question is out of date: {0} changed since it was asked")]
    Stale(&'static str),
    /// A condition that does not fit the action or the gate.
    #[error("{0}")]
    Condition(&'static str),
    /// Too much text.
    #[error("a rationale holds at most {RATIONALE} characters")]
    Rationale,
}

impl AnswerError {
    /// What would help, where something would.
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::AgentOwn | Self::Never { .. } => {
                Some("answer in a terminal with `airlock approvals`, or in the dashboard")
            }
            Self::NotOpened { .. } => Some("see `approvals` in the policy file"),
            Self::Expired | Self::Stale(_) => {
                Some("let the action be asked for again, and answer the new question")
            }
            Self::Settled => Some("`airlock approvals show` says what was answered"),
            Self::Author(_) | Self::Condition(_) | Self::Rationale => None,
        }
    }
}

/// Whether an answer for `gate` may come through `channel`.
pub fn may_answer(gate: Gate, channel: &Channel, rules: &AnswerRules) -> Result<(), AnswerError> {
    let (possible, opened) = match channel {
        Channel::AgentOwn => return Err(AnswerError::AgentOwn),
        Channel::Terminal | Channel::Dashboard => (true, true),
        Channel::Named(name) => (true, rules.channels.contains(name)),
        Channel::McpElicitation => match gate.may_answer() {
            MayAnswer::PolicyOrPerson => (true, rules.by_elicitation.contains(&gate)),
            MayAnswer::Person | MayAnswer::PersonUnlessDelegated | MayAnswer::PersonOnly => {
                (false, false)
            }
        },
        Channel::Policy => match gate.may_answer() {
            MayAnswer::PolicyOrPerson | MayAnswer::PersonUnlessDelegated => {
                (true, rules.by_policy.contains(&gate))
            }
            MayAnswer::Person | MayAnswer::PersonOnly => (false, false),
        },
    };
    let channel = channel.clone();
    match (possible, opened) {
        (true, true) => Ok(()),
        (true, false) => Err(AnswerError::NotOpened { gate, channel }),
        (false, _) => Err(AnswerError::Never { gate, channel }),
    }
}

impl ApprovalRequest {
    /// Takes `answer`, given the binding of the action as it stands `now`. An approval leaves a
    /// grant, if that is still the one asked about; a denial closes the question; a deferral leaves it
    /// open.
    ///
    /// On an error nothing changes.
    pub fn answer(
        &mut self,
        answer: Answer,
        rules: &AnswerRules,
        current: &Binding,
        now: Timestamp,
    ) -> Result<Option<Grant>, AnswerError> {
        may_answer(self.gate, &answer.channel, rules)?;
        // What Airlock itself wants a person for, no policy can answer in their place.
        let built_in = |why: &Contribution| why.layer == Layer::BuiltIn;
        if answer.channel == Channel::Policy && self.why.iter().any(built_in) {
            return Err(AnswerError::Never {
                gate: self.gate,
                channel: Channel::Policy,
            });
        }
        check_author(&answer)?;
        if self.answered.as_ref().is_some_and(Answered::settles) {
            return Err(AnswerError::Settled);
        }
        if now >= self.expires {
            return Err(AnswerError::Expired);
        }
        // A denial is right whatever has changed: else nobody could close a question out of date.
        if answer.reply == Reply::Approve {
            check_binding(&self.binding, current)?;
        }
        let long = |text: &Arc<str>| text.chars().count() > RATIONALE;
        if answer.rationale.as_ref().is_some_and(long) {
            return Err(AnswerError::Rationale);
        }
        if answer.conditions.len() > CONDITIONS {
            return Err(AnswerError::Condition("an answer has too many conditions"));
        }
        let grant = match answer.reply {
            Reply::Approve => Some(Grant::new(self, &answer, now)?),
            Reply::Deny | Reply::Defer => None,
        };
        self.answered = Some(Answered { answer, at: now });
        Ok(grant)
    }
}

fn check_author(answer: &Answer) -> Result<(), AnswerError> {
    let policy = matches!(answer.channel, Channel::Policy);
    let by_policy = matches!(answer.answered_by, Answerer::Policy(_));
    if policy == by_policy {
        Ok(())
    } else {
        Err(AnswerError::Author(answer.channel.clone()))
    }
}

fn check_binding(asked: &Binding, current: &Binding) -> Result<(), AnswerError> {
    for (same, what) in [
        (asked.action == current.action, "the action"),
        (asked.generation == current.generation, "the policy"),
        (asked.stage == current.stage, "the stage"),
    ] {
        if !same {
            return Err(AnswerError::Stale(what));
        }
    }
    Ok(())
}

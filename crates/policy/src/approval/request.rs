//! A question to whoever may answer it.

use super::action::{Action, Binding, Diff};
use super::answer::Answered;
use super::gate::{Gate, GateFacts, gate_for};
use super::risk::Risk;
use crate::decision::{Contribution, Decision, Layer, Opinion};
use crate::rules::SENSITIVE_RULE;
use airlock_core::{ActionId, Digest, IdError, Request, Span, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Names an approval request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ApprovalId(ActionId);

impl ApprovalId {
    /// Checks `text` and wraps it.
    pub fn new(text: &str) -> Result<Self, IdError> {
        ActionId::new(text).map(Self)
    }
}

impl From<ActionId> for ApprovalId {
    /// The approval of the action that asked for it.
    fn from(action: ActionId) -> Self {
        Self(action)
    }
}

impl fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What is left of the session's budget; none: not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetLeft {
    /// Tool calls.
    pub calls: Option<u64>,
    /// Turns.
    pub turns: Option<u64>,
    /// Model tokens.
    pub tokens: Option<u64>,
    /// Cost, in millionths of the currency the budget is kept in.
    pub cost_micros: Option<u64>,
    /// Wall time.
    pub time: Option<Span>,
}

/// A request for approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// Its name.
    pub id: ApprovalId,
    /// The gate that raised it.
    pub gate: Gate,
    /// What would be done.
    pub action: Action,
    /// Why it is asked: every rule that wanted review.
    pub why: Vec<Contribution>,
    /// How risky it is.
    pub risk: Risk,
    /// What is left of the session's budget.
    pub budget_left: BudgetLeft,
    /// Earlier approvals of the like.
    pub related: Vec<ApprovalId>,
    /// What an answer is bound to.
    pub binding: Binding,
    /// When it was asked.
    pub created: Timestamp,
    /// Until when it can be answered, and an exact approval used.
    pub expires: Timestamp,
    /// The answer that closed it, or the last that put it off.
    pub answered: Option<Answered>,
}

impl ApprovalRequest {
    /// Asks about `request`, which `decision` wants reviewed. Open for `lifetime`.
    #[expect(
        clippy::too_many_arguments,
        reason = "each is a separate fact of the question; a second struct would repeat this one"
    )]
    pub fn new(
        id: ApprovalId,
        request: &Request,
        facts: &GateFacts,
        decision: &Decision,
        diff: Option<Diff>,
        stage: Option<Digest>,
        now: Timestamp,
        lifetime: Span,
    ) -> Self {
        let shown = diff.as_ref().map(|diff| &diff.digest);
        Self {
            id,
            gate: gate_for(request, facts),
            binding: Binding::of(request, shown, decision.generation, stage),
            action: Action::of(request, diff),
            why: decision
                .contributions
                .iter()
                .filter(|contribution| contribution.opinion == Opinion::RequireReview)
                .cloned()
                .collect(),
            risk: Risk::of(request, facts),
            budget_left: BudgetLeft::default(),
            related: Vec::new(),
            created: now,
            expires: now.plus(lifetime),
            answered: None,
        }
    }

    /// Whether a rule asked for it: one of the policy's, of an extension or of Airlock's own. That is
    /// for a person, whatever gate the action stands at besides: what a gate is opened to is no
    /// answer to a rule. `approvals.sensitive_paths` is no rule, but what AG-04 is about.
    pub fn is_of_a_rule(&self) -> bool {
        self.why.iter().any(|why| match why.layer {
            Layer::Rules => &*why.rule != SENSITIVE_RULE,
            Layer::BuiltIn | Layer::Extension => true,
            Layer::Capability | Layer::Token | Layer::Grant | Layer::Gate | Layer::Default => false,
        })
    }

    /// Whether it still waits for an answer at `now`.
    pub fn is_open(&self, now: Timestamp) -> bool {
        let settled = self.answered.as_ref().is_some_and(Answered::settles);
        !settled && now < self.expires
    }
}

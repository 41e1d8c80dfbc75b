//! Questions for a person, and the grants their answers leave.
//!
//! A grant never replaces a decision: the same call is submitted again, decided again, and only a
//! review that the grant covers turns into an allow. Each use is counted before it is granted.

use crate::kernel::Kernel;
use crate::policy_store::PolicyInForce;
use crate::road::Review;
use airlock_audit::{AppendError, Durability, Entry, EventType, Stage};
use airlock_core::{ActionId, Request, Timestamp};
use airlock_policy::Decision;
use airlock_policy::approval::{
    Answer, AnswerError, Answerer, ApprovalId, ApprovalRequest, Channel, Condition, GateFacts,
    Query, Reply, gate_for,
};
use std::sync::PoisonError;

/// Why an answer was not taken.
#[derive(Debug, thiserror::Error)]
pub enum AnswerFailure {
    /// It may not be given, or no longer fits.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// Policy asks for a passphrase, and nothing here can take one.
    #[error("the policy asks for a passphrase, which this version cannot check")]
    Passphrase,
    /// It could not be recorded, so it does not count.
    #[error("the answer could not be recorded, so it does not count")]
    Audit(#[from] AppendError),
}

impl Kernel {
    /// The question that `decision` raises about `request`.
    pub(crate) fn question(
        policy: &PolicyInForce,
        action: &ActionId,
        request: &Request,
        decision: &Decision,
        now: Timestamp,
    ) -> ApprovalRequest {
        let lifetime = policy.policy().document().approvals.expires_after;
        let facts = facts(policy, request);
        let id = ApprovalId::from(action.clone());
        ApprovalRequest::new(id, request, &facts, decision, None, None, now, lifetime)
    }

    /// Takes a yes or no of the person at the terminal. A yes holds for this very action, once.
    pub fn answer(&self, review: &mut Review, approved: bool) -> Result<(), AnswerFailure> {
        self.answer_through(review, approved, &Channel::Terminal)
    }

    /// The same for an answer that came through `channel`, where policy opened the gate to it.
    pub fn answer_through(
        &self,
        review: &mut Review,
        approved: bool,
        channel: &Channel,
    ) -> Result<(), AnswerFailure> {
        let now = self.clock().now();
        let policy = self.policy();
        if approved && policy.policy().document().approvals.require_passphrase {
            return Err(AnswerFailure::Passphrase);
        }
        let answer = Answer {
            reply: if approved {
                Reply::Approve
            } else {
                Reply::Deny
            },
            conditions: vec![Condition::Once],
            rationale: None,
            answered_by: Answerer::Person(self.user().clone()),
            channel: channel.clone(),
        };
        let current =
            airlock_policy::approval::Binding::of(&review.request, None, policy.generation(), None);
        let grant = review
            .approval
            .answer(answer, &policy.answer_rules(), &current, now)?;
        let mut entry = Entry::new(now, EventType::ApprovalDecided, Stage::Note);
        entry.action = Some(review.action.clone());
        entry.syscall = Some(review.request.syscall.to_string());
        entry.caller = Some(review.request.caller.clone());
        let reply = if approved { "approve" } else { "deny" };
        let notes = [
            ("approval", review.approval.id.to_string()),
            ("gate", review.approval.gate.to_string()),
            ("answer", reply.to_owned()),
            ("channel", channel.to_string()),
            ("answered_by", self.user().to_string()),
        ];
        entry
            .metadata
            .extend(notes.map(|(name, value)| (name.to_owned(), value)));
        self.log().append(&entry, Durability::Durable)?;
        if let Some(grant) = grant {
            let mut grants = self.grants().lock().unwrap_or_else(PoisonError::into_inner);
            // The id is that of this action, so there cannot be an older grant of that name.
            let _fresh = grants.insert(grant);
        }
        Ok(())
    }

    /// The grant that covers `request`, its use already counted.
    pub(crate) fn granted(
        &self,
        policy: &PolicyInForce,
        request: &Request,
        now: Timestamp,
    ) -> Option<String> {
        let query = Query {
            request,
            gate: gate_for(request, &facts(policy, request)),
            diff: None,
            generation: policy.generation(),
            stage: None,
            now,
        };
        let mut grants = self.grants().lock().unwrap_or_else(PoisonError::into_inner);
        let id = grants.matching(&query)?.clone();
        grants.use_up(&id, now).then(|| id.to_string())
    }
}

/// What the gate of a request depends on besides the request.
fn facts(policy: &PolicyInForce, request: &Request) -> GateFacts {
    GateFacts {
        host_granted: false,
        sensitive_path: policy.policy().touches_sensitive(request),
        over_budget: false,
        first_use: false,
    }
}

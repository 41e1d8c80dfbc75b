//! Answers of a person: given at a terminal or through an MCP client, on the road, to a stored
//! question.
//!
//! An answer is a syscall like any other: decided, recorded, carried out. A grant never replaces a
//! decision: the same call is submitted again, decided again, and only a review that the grant
//! covers turns into an allow.

use crate::control::Through;
use crate::fronts::Front;
use crate::kernel::Kernel;
use crate::person::Person;
use crate::road::{Call, Outcome, Review, is_merge};
use airlock_audit::{AppendError, Durability, Entry, EventType, Stage};
use airlock_core::Digest;
use airlock_policy::approval::{ApprovalId, ApprovalRequest, Binding, Channel, Condition, Reply};
use serde_json::json;

/// What a person says to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answering {
    /// Yes, no, not now.
    pub reply: Reply,
    /// Bounds of a yes. None: this very action, once.
    pub conditions: Vec<Condition>,
    /// Why.
    pub because: Option<String>,
    /// The digest of the action they were shown; another is not what they answered.
    pub shown: Option<Digest>,
}

impl Answering {
    /// A plain yes, for once, or no.
    pub fn plain(approved: bool) -> Self {
        Self {
            reply: if approved {
                Reply::Approve
            } else {
                Reply::Deny
            },
            conditions: Vec::new(),
            because: None,
            shown: None,
        }
    }
}

/// Why an answer was not taken.
#[derive(Debug, thiserror::Error)]
pub enum AnswerFailure {
    /// Every yes needs the passphrase here.
    #[error("every approval needs the passphrase here")]
    Passphrase,
    /// The road did not take it.
    #[error("{what}")]
    Refused {
        /// What failed and why.
        what: String,
        /// How to mend it.
        fix: Option<String>,
    },
    /// It could not be recorded in full.
    #[error("the answer was taken, but the audit log cannot record it")]
    Audit(#[from] AppendError),
}

impl AnswerFailure {
    /// What would help.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Passphrase => Some("answer in a terminal, where it can be typed"),
            Self::Refused { fix, .. } => fix.as_deref(),
            Self::Audit(error) => error.hint(),
        }
    }
}

impl Kernel {
    /// Takes a yes or no of `person` to `review`. A yes holds for this very action, once.
    pub fn answer(
        &self,
        person: Person,
        review: &mut Review,
        approved: bool,
    ) -> Result<(), AnswerFailure> {
        let answering = Answering {
            shown: Some(shown_action(self, review)),
            ..Answering::plain(approved)
        };
        review.approval = self.answer_request(person, &review.approval.id, &answering)?;
        Ok(())
    }

    /// Takes the answer of `person` to the stored question `id`; gives back the question as it is
    /// now.
    pub fn answer_request(
        &self,
        person: Person,
        id: &ApprovalId,
        answering: &Answering,
    ) -> Result<ApprovalRequest, AnswerFailure> {
        let approves = answering.reply == Reply::Approve;
        if approves && self.asks_passphrase() && !person.said_passphrase() {
            return Err(AnswerFailure::Passphrase);
        }
        self.decide_request(id, answering, Through::Terminal)
    }

    /// Withdraws the yes to `review`, unless something used it. It was given for one call: where that
    /// did not come to use it, no other is to find it.
    pub fn withdraw_unused(&self, review: &Review) -> Result<(), AnswerFailure> {
        let (id, now) = (&review.approval.id, self.clock().now());
        let stored = self.hold().get();
        let stored = stored.and_then(|state| state.approval(&self.owner(), id));
        let is_left = stored.map(|approval| {
            let grant = approval.and_then(|approval| approval.grant);
            grant.is_some_and(|grant| grant.is_live(now))
        });
        // What cannot be looked at may be left.
        if let Ok(false) = is_left {
            return Ok(());
        }
        let call = Call::new("approval.revoke", json!({ "approval": id }));
        match self.submit(Front::Cli, &call) {
            Outcome::Done(_) => Ok(()),
            other @ (Outcome::Denied(_) | Outcome::NeedsReview(_) | Outcome::Failed(_)) => {
                Err(refused(other))
            }
        }
    }

    /// Takes what the person behind an MCP client said to `review`; see [`Self::answer_elicited`].
    pub fn answer_client(&self, review: &mut Review, approved: bool) -> Result<(), AnswerFailure> {
        let shown = shown_action(self, review);
        review.approval = self.answer_elicited(&review.approval.id, shown, approved)?;
        Ok(())
    }

    /// Takes a yes, for once, or no to the stored question `id`, put through an MCP client to the
    /// person there, who was shown the action with the digest `shown`.
    ///
    /// Only for gates that the policy opened to this, and none that a person has to answer
    /// themselves can be opened. A client cannot be trusted with a passphrase, so where the policy
    /// asks for one there is no yes this way.
    pub fn answer_elicited(
        &self,
        id: &ApprovalId,
        shown: Digest,
        approved: bool,
    ) -> Result<ApprovalRequest, AnswerFailure> {
        if approved && self.asks_passphrase() {
            return Err(AnswerFailure::Passphrase);
        }
        let answering = Answering {
            shown: Some(shown),
            ..Answering::plain(approved)
        };
        self.decide_request(id, &answering, Through::McpElicitation)
    }

    /// Takes an answer down the road to the stored question. The check of the channel is there,
    /// beside the question and the policy it was asked under.
    fn decide_request(
        &self,
        id: &ApprovalId,
        answering: &Answering,
        through: Through,
    ) -> Result<ApprovalRequest, AnswerFailure> {
        let mut call = Call::new(
            "approval.decide",
            json!({
                "approval": id,
                "answer": answering.reply,
                "conditions": answering.conditions,
                "because": answering.because,
                "shown": answering.shown,
                "through": through,
            }),
        );
        call.person = true;
        match self.submit(Front::Cli, &call) {
            Outcome::Done(_) => {}
            other @ (Outcome::Denied(_) | Outcome::NeedsReview(_) | Outcome::Failed(_)) => {
                return Err(refused(other));
            }
        }
        let answered = self
            .hold()
            .get()
            .and_then(|state| state.approval(&self.owner(), id))
            .ok()
            .flatten();
        let approval = answered.ok_or_else(|| AnswerFailure::Refused {
            what: format!("there is no approval request `{id}`"),
            fix: None,
        })?;
        self.record_answer(&approval.request, answering, through)?;
        Ok(approval.request)
    }

    /// One record that says who answered what; the attempt and the outcome of the syscall say how. A
    /// no to a merge is one more, under the name of that.
    fn record_answer(
        &self,
        request: &ApprovalRequest,
        answering: &Answering,
        through: Through,
    ) -> Result<(), AppendError> {
        let now = self.clock().now();
        let mut entry = Entry::new(now, EventType::ApprovalDecided, Stage::Note);
        entry.action = airlock_core::ActionId::new(&request.id.to_string()).ok();
        entry.syscall = Some(request.action.syscall.to_string());
        let reply = match answering.reply {
            Reply::Approve => "approve",
            Reply::Deny => "deny",
            Reply::Defer => "defer",
        };
        let notes = [
            ("approval", request.id.to_string()),
            ("gate", request.gate.to_string()),
            ("answer", reply.to_owned()),
            ("channel", Channel::from(through).to_string()),
            ("answered_by", self.user().to_string()),
        ];
        entry
            .metadata
            .extend(notes.map(|(name, value)| (name.to_owned(), value)));
        let rejects = answering.reply == Reply::Deny && is_merge(request.action.syscall.name());
        let rejected = rejects.then(|| Entry {
            event: EventType::MergeRejected,
            ..entry.clone()
        });
        let entries: Vec<Entry> = [Some(entry), rejected].into_iter().flatten().collect();
        self.log()
            .append_batch(&entries, Durability::Durable)
            .map(drop)
    }
}

/// What whoever holds `review` was shown, whatever is stored.
fn shown_action(kernel: &Kernel, review: &Review) -> Digest {
    let generation = kernel.policy().generation();
    Binding::of(&review.request, None, generation, None).action
}

/// An outcome that is no answer taken, in words.
fn refused(outcome: Outcome) -> AnswerFailure {
    let (what, fix) = match outcome {
        Outcome::Failed(failed) => (failed.what, failed.fix),
        Outcome::Denied(denied) => {
            let fix = denied.explanation.fixes().next();
            (denied.explanation.headline().to_owned(), fix)
        }
        Outcome::Done(_) | Outcome::NeedsReview(_) => {
            let what = "the policy asks for review of every answer, which nobody could give";
            let fix = "take `approval.decide` out of the rules that require review";
            (what.to_owned(), Some(fix.to_owned()))
        }
    };
    AnswerFailure::Refused { what, fix }
}

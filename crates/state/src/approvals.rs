//! Questions to people, their answers, and the grants that remain: asked once, counted exactly.
//!
//! Guarantees: the same question asked again while it is open is the same question; an asker has a
//! bounded number of them, and so have all sessions of a front together; a grant's use is counted in
//! the transaction that finds it, and only if its events prove it.

use crate::change::Change;
use crate::error::StateError;
use crate::fact::{Fact, Kind};
use crate::journal::Reader;
use crate::sessions::Owner;
use crate::store::{Durable, State};
use airlock_core::{Digest, Timestamp};
use airlock_policy::Generation;
use airlock_policy::approval::{
    AnswerError, Answered, ApprovalId, ApprovalRequest, Asker, Grant, Query, Reply,
};
use serde::{Deserialize, Serialize};

/// Questions one asker may have open: more than anybody reads would only hide the one that matters.
const OPEN: usize = 20;
/// Questions that one front may have open for one user, whatever number of sessions asked them: a
/// session costs a client nothing.
const OPEN_TOGETHER: usize = 100;

const STATUS_OPEN: &str = "open";
const STATUS_GRANTED: &str = "granted";
const STATUS_DENIED: &str = "denied";
const STATUS_OVER: &str = "over";

/// A question, its answer, and the grant it left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The question, with its answer. Its texts are for showing: they were cleaned before.
    pub request: ApprovalRequest,
    /// The stage the action would run on.
    pub stage: Option<String>,
    /// What a yes left.
    pub grant: Option<Grant>,
    /// Whether the session that asked ended for good: nobody can use an answer any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
}

/// How a question stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    /// It waits for an answer.
    Open,
    /// It was approved, and the grant can be used.
    Granted,
    /// It was approved, and the grant is used up, over or withdrawn.
    Spent,
    /// It was denied.
    Denied,
    /// Nobody answered in time.
    Expired,
    /// It was open or granted when the session that asked ended for good.
    SessionEnded,
    /// It was asked or approved under another policy than the one in force: it takes no yes any more,
    /// and what it granted does not hold.
    PolicyChanged,
}

impl ApprovalStatus {
    /// The word used in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Granted => "granted",
            Self::Spent => "spent",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::SessionEnded => "session_ended",
            Self::PolicyChanged => "policy_changed",
        }
    }
}

impl Approval {
    /// How it stands at `now`, under the policy it was asked under.
    pub fn status(&self, now: Timestamp) -> ApprovalStatus {
        if let Some(grant) = &self.grant {
            return match (grant.is_live(now), self.ended) {
                (true, false) => ApprovalStatus::Granted,
                (true, true) => ApprovalStatus::SessionEnded,
                (false, _) => ApprovalStatus::Spent,
            };
        }
        match self.reply() {
            Some(Reply::Deny) => ApprovalStatus::Denied,
            Some(Reply::Approve) => ApprovalStatus::Spent,
            Some(Reply::Defer) | None if self.ended => ApprovalStatus::SessionEnded,
            Some(Reply::Defer) | None if self.request.is_open(now) => ApprovalStatus::Open,
            Some(Reply::Defer) | None => ApprovalStatus::Expired,
        }
    }

    /// How it stands at `now` while `policy` is in force.
    pub fn status_under(&self, policy: Generation, now: Timestamp) -> ApprovalStatus {
        let asked = self.request.binding.generation;
        let granted = self.grant.as_ref().map(|grant| grant.binding.generation);
        match self.status(now) {
            ApprovalStatus::Open if asked != policy => ApprovalStatus::PolicyChanged,
            ApprovalStatus::Granted if granted != Some(policy) => ApprovalStatus::PolicyChanged,
            status @ (ApprovalStatus::Open
            | ApprovalStatus::Granted
            | ApprovalStatus::Spent
            | ApprovalStatus::Denied
            | ApprovalStatus::Expired
            | ApprovalStatus::SessionEnded
            | ApprovalStatus::PolicyChanged) => status,
        }
    }

    fn reply(&self) -> Option<Reply> {
        self.request
            .answered
            .as_ref()
            .map(|answered| answered.answer.reply)
    }

    /// Whose action it is about.
    pub fn owner(&self) -> Owner {
        let Asker { tenant, user, .. } = &self.request.action.asker;
        Owner {
            tenant: tenant.clone(),
            user: user.clone(),
        }
    }

    /// Who asks, as one word.
    pub(crate) fn asker(&self) -> String {
        asker_word(&self.request.action.asker)
    }

    /// What makes it the same question: who asks, for what, at which gate, bound to what.
    pub(crate) fn mark(&self) -> String {
        let binding = &self.request.binding;
        let stage = binding.stage.map(|stage| stage.to_string());
        let whole = format!(
            "{}\n{}\n{}\n{}\n{}",
            self.asker(),
            self.request.gate,
            binding.action,
            binding.generation.digest(),
            stage.unwrap_or_default(),
        );
        Digest::of(whole.as_bytes()).to_string()
    }

    /// The part of the status that time does not change.
    pub(crate) fn stored_status(&self) -> &'static str {
        if let Some(grant) = &self.grant {
            let usable = !self.ended && !grant.revoked && grant.uses_left != Some(0);
            return if usable { STATUS_GRANTED } else { STATUS_OVER };
        }
        match self.reply() {
            Some(Reply::Deny) => STATUS_DENIED,
            Some(Reply::Approve) => STATUS_OVER,
            Some(Reply::Defer) | None if self.ended => STATUS_OVER,
            Some(Reply::Defer) | None => STATUS_OPEN,
        }
    }

    /// When it ends by itself.
    pub(crate) fn due(&self) -> Timestamp {
        self.grant
            .as_ref()
            .map_or(self.request.expires, |grant| grant.expires)
    }
}

/// What became of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// It is asked from now on.
    New(Box<Approval>),
    /// It was asked before and is still open.
    Again(Box<Approval>),
    /// A person said no to it, and that holds for as long as the question would have.
    Denied(Box<Approval>),
    /// The asker has too many open questions already, or its front has for all of its sessions.
    TooMany {
        /// How many.
        open: usize,
    },
    /// The command it comes out of has too many, whoever asked them.
    TooManyOfOne {
        /// How many.
        open: usize,
    },
}

/// The questions of one command that asks: no more of them wait than that.
#[derive(Debug)]
pub struct Share<'a> {
    /// What it asked so far. What no longer waits is taken out.
    pub asked: &'a mut Vec<ApprovalId>,
    /// How many may wait.
    pub most: usize,
}

/// A grant whose use was counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// Its name.
    pub id: ApprovalId,
    /// The grant after this use.
    pub grant: Grant,
}

/// Why an answer was not taken.
#[derive(Debug, thiserror::Error)]
pub enum AnswerStateError {
    /// It may not be given, or no longer fits.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// There is no such question.
    #[error("there is no approval request `{0}`")]
    Unknown(ApprovalId),
    /// What is stored of the question is not what its events say.
    #[error("the approval request `{0}` was changed outside Airlock and is not honoured")]
    Unproven(ApprovalId),
    /// The session that asked ended for good.
    #[error("the session that asked `{0}` has ended: nobody can use an answer")]
    Ended(ApprovalId),
    /// The store did not take it.
    #[error(transparent)]
    State(#[from] StateError),
}

/// Whether a denial is brought up when the same is asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denials {
    Hold,
    Forgotten,
}

impl State {
    /// Asks `approval`, unless it is asked already. `insist` asks anew what was denied, and whatever
    /// other sessions have open: for a person, who may change their mind.
    pub fn ask(
        &self,
        approval: Approval,
        insist: bool,
        now: Timestamp,
    ) -> Result<Asked, StateError> {
        let (mut asked, most) = (Vec::new(), usize::MAX);
        let unbounded = Share {
            asked: &mut asked,
            most,
        };
        self.ask_in(unbounded, approval, insist, now)
    }

    /// The same as one of the questions of `share`.
    pub fn ask_in(
        &self,
        share: Share<'_>,
        mut approval: Approval,
        insist: bool,
        now: Timestamp,
    ) -> Result<Asked, StateError> {
        let denials = if insist {
            Denials::Forgotten
        } else {
            Denials::Hold
        };
        let Share { asked, most } = share;
        let outcome = self.write(Durable::Disk, |writer| {
            let asker = approval.asker();
            let same = approvals(writer.marked(Kind::Approval, &asker, &approval.mark())?)
                .into_iter()
                .find(|other| matters(other, denials, now));
            if let Some(same) = same {
                let same = Box::new(same);
                return Ok(match same.status(now) {
                    ApprovalStatus::Denied => Asked::Denied(same),
                    ApprovalStatus::Open
                    | ApprovalStatus::Granted
                    | ApprovalStatus::Spent
                    | ApprovalStatus::Expired
                    | ApprovalStatus::SessionEnded
                    | ApprovalStatus::PolicyChanged => Asked::Again(same),
                });
            }
            // What was asked under another policy waits for nobody: to answer it would make no room.
            let policy = approval.request.binding.generation;
            let open = approvals(writer.standing(Kind::Approval, &asker, STATUS_OPEN, now)?)
                .iter()
                .filter(|other| other.request.binding.generation == policy)
                .count();
            if open >= OPEN {
                return Ok(Asked::TooMany { open });
            }
            if !insist {
                let owner = approval.owner().to_string();
                let front = &approval.request.action.asker.plugin;
                let open = writer.count_open(&owner, front, policy, now)?;
                if open >= OPEN_TOGETHER {
                    return Ok(Asked::TooMany { open });
                }
            }
            *asked = waiting(writer, asked, policy, now)?;
            if asked.len() >= most {
                return Ok(Asked::TooManyOfOne { open: asked.len() });
            }
            let earlier = approvals(writer.newest(Kind::Approval, &asker)?);
            approval.request.related = related(&earlier, &approval);
            let approval = Box::new(approval);
            writer.append(
                &Change::Asked {
                    approval: approval.clone(),
                },
                now,
            )?;
            Ok(Asked::New(approval))
        })?;
        if let Asked::New(approval) = &outcome {
            asked.push(approval.request.id.clone());
        }
        Ok(outcome)
    }

    /// One question of `owner`, if its events prove it.
    pub fn approval(&self, owner: &Owner, id: &ApprovalId) -> Result<Option<Approval>, StateError> {
        self.read(|reader| {
            let proven = reader.prove(Kind::Approval, &id.to_string())?;
            Ok(proven
                .and_then(Fact::approval)
                .filter(|approval| approval.owner() == *owner))
        })
    }

    /// Lets `answer` answer the question `id` of `owner`, and keeps what came of it.
    pub fn answer(
        &self,
        owner: &Owner,
        id: &ApprovalId,
        now: Timestamp,
        answer: impl FnOnce(&mut ApprovalRequest) -> Result<Option<Grant>, AnswerError>,
    ) -> Result<Approval, AnswerStateError> {
        let name = id.to_string();
        let mut refused = None;
        let answered = self.write(Durable::Disk, |writer| {
            let found = writer.find(Kind::Approval, &name)?;
            let mine = |approval: &Approval| approval.owner() == *owner;
            if !found.and_then(Fact::approval).is_some_and(|it| mine(&it)) {
                refused = Some(AnswerStateError::Unknown(id.clone()));
                return Ok(None);
            }
            let Some(mut approval) = writer
                .prove(Kind::Approval, &name)?
                .and_then(Fact::approval)
            else {
                refused = Some(AnswerStateError::Unproven(id.clone()));
                return Ok(None);
            };
            if approval.status(now) == ApprovalStatus::SessionEnded {
                refused = Some(AnswerStateError::Ended(id.clone()));
                return Ok(None);
            }
            let grant = match answer(&mut approval.request) {
                Ok(grant) => grant,
                Err(error) => {
                    refused = Some(error.into());
                    return Ok(None);
                }
            };
            let Some(answered) = approval.request.answered.clone() else {
                return Err(StateError::Unfit("the answer says nothing"));
            };
            approval.grant.clone_from(&grant);
            writer.append(
                &Change::Answered {
                    id: id.clone(),
                    answered: Box::new(answered),
                    grant: grant.map(Box::new),
                },
                now,
            )?;
            Ok(Some(approval))
        })?;
        match (answered, refused) {
            (Some(approval), None) => Ok(approval),
            (_, Some(refused)) => Err(refused),
            (None, None) => Err(AnswerStateError::Unknown(id.clone())),
        }
    }

    /// Finds a grant that covers `query` and counts its use, both or neither.
    pub fn use_grant(&self, query: &Query<'_>) -> Result<Option<Granted>, StateError> {
        let candidates = self.read(|reader| {
            let asker = asker_word(&Asker::of(&query.request.caller));
            let facts = reader.standing(Kind::Approval, &asker, STATUS_GRANTED, query.now)?;
            Ok(covering(facts, query))
        })?;
        // Most calls have no grant: they do not wait for the write lock.
        if candidates.is_empty() {
            return Ok(None);
        }
        self.write(Durable::Disk, |writer| {
            for id in candidates {
                // Proven and looked at anew: another process may have used it up meanwhile.
                let proven = writer.prove(Kind::Approval, &id.to_string())?;
                let proven = proven.and_then(Fact::approval);
                let Some(approval) = proven.filter(|approval| !approval.ended) else {
                    continue;
                };
                let Some(mut grant) = approval.grant.filter(|grant| grant.covers(query)) else {
                    continue;
                };
                writer.append(&Change::GrantUsed { id: id.clone() }, query.now)?;
                grant.uses_left = grant.uses_left.map(|left| left.saturating_sub(1));
                return Ok(Some(Granted { id, grant }));
            }
            Ok(None)
        })
    }

    /// Withdraws the grant `id` of `owner`. False if there is none, or it was withdrawn before.
    pub fn revoke(
        &self,
        owner: &Owner,
        id: &ApprovalId,
        now: Timestamp,
    ) -> Result<bool, StateError> {
        self.write(Durable::Disk, |writer| {
            let found = writer
                .find(Kind::Approval, &id.to_string())?
                .and_then(Fact::approval)
                .filter(|approval| approval.owner() == *owner);
            let standing = found
                .and_then(|approval| approval.grant)
                .is_some_and(|grant| !grant.revoked);
            if standing {
                writer.append(&Change::GrantRevoked { id: id.clone() }, now)?;
            }
            Ok(standing)
        })
    }
}

/// Everything that makes an asker, as one word: none of its parts can hold a slash.
fn asker_word(asker: &Asker) -> String {
    let session = asker.session.as_ref().map_or("", |id| id.as_str());
    format!(
        "{}/{}/{}/{session}/{}",
        asker.tenant, asker.user, asker.workspace, asker.plugin
    )
}

pub(crate) fn approvals(facts: Vec<Fact>) -> Vec<Approval> {
    facts.into_iter().filter_map(Fact::approval).collect()
}

fn covering(facts: Vec<Fact>, query: &Query<'_>) -> Vec<ApprovalId> {
    facts
        .into_iter()
        .filter_map(Fact::approval)
        .filter(|approval| {
            let grant = approval.grant.as_ref();
            grant.is_some_and(|grant| grant.covers(query))
        })
        .map(|approval| approval.request.id)
        .collect()
}

/// Whether an earlier question stands in for one of the same mark.
fn matters(earlier: &Approval, denials: Denials, now: Timestamp) -> bool {
    match earlier.status(now) {
        ApprovalStatus::Open => true,
        ApprovalStatus::Denied => denials == Denials::Hold && now < earlier.request.expires,
        ApprovalStatus::Granted
        | ApprovalStatus::Spent
        | ApprovalStatus::Expired
        | ApprovalStatus::SessionEnded
        | ApprovalStatus::PolicyChanged => false,
    }
}

/// Those of `asked` that wait for an answer while `policy` is in force.
fn waiting(
    reader: &Reader<'_>,
    asked: &[ApprovalId],
    policy: Generation,
    now: Timestamp,
) -> Result<Vec<ApprovalId>, StateError> {
    let mut waiting = Vec::new();
    for id in asked {
        let found = reader.find(Kind::Approval, &id.to_string())?;
        let found = found.and_then(Fact::approval);
        if found.is_some_and(|one| one.status_under(policy, now) == ApprovalStatus::Open) {
            waiting.push(id.clone());
        }
    }
    Ok(waiting)
}

/// The last few approvals of the same syscall that were answered.
fn related(mine: &[Approval], asked: &Approval) -> Vec<ApprovalId> {
    const FEW: usize = 5;
    mine.iter()
        .filter(|other| other.request.action.syscall == asked.request.action.syscall)
        .filter(|other| {
            other
                .request
                .answered
                .as_ref()
                .is_some_and(Answered::settles)
        })
        .take(FEW)
        .map(|other| other.request.id.clone())
        .collect()
}

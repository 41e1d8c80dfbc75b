//! What can happen to what is stored: one event each, and what it makes of what was there. Pure.

use crate::approvals::Approval;
use crate::fact::{Fact, Kept, Kind};
use crate::observations::Observation;
use crate::runs::{Run, RunStatus, Step};
use crate::sessions::{Session, SessionState, Spent};
use airlock_audit::{Entry, EventType, Stage};
use airlock_core::{Mode, Phase, SessionId, Timestamp, WorkspaceId};
use airlock_phases::{Ledger, Progress};
use airlock_policy::approval::{Answered, ApprovalId, Grant};
use serde::{Deserialize, Serialize};

/// Names in the metadata of a sealed event.
const CHANGE: &str = "change";
const PREVIOUS: &str = "previous";

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Change {
    /// The store was rescued from a damaged one, which may have held more.
    Recovered { message: String },
    /// A session began.
    SessionCreated { session: Box<Session> },
    /// It was cancelled, archived or resumed.
    SessionState { id: SessionId, state: SessionState },
    /// It moved to another mode or phase.
    SessionMode {
        id: SessionId,
        mode: Mode,
        phase: Phase,
    },
    /// It took a step in the test-first discipline.
    SessionStep {
        id: SessionId,
        mode: Mode,
        phase: Phase,
        progress: Box<Progress>,
    },
    /// The coverage budget of a workspace was spent or regained.
    LedgerKept {
        workspace: WorkspaceId,
        ledger: Ledger,
    },
    /// It spent something.
    SessionCharged {
        id: SessionId,
        spent: Spent,
        tool: Option<String>,
    },
    /// A person is asked.
    Asked { approval: Box<Approval> },
    /// They answered.
    Answered {
        id: ApprovalId,
        answered: Box<Answered>,
        grant: Option<Box<Grant>>,
    },
    /// A use of a grant was counted.
    GrantUsed { id: ApprovalId },
    /// A grant was withdrawn.
    GrantRevoked { id: ApprovalId },
    /// The session that asked ended for good.
    ApprovalEnded { id: ApprovalId },
    /// Something is to be remembered.
    Observed { observation: Box<Observation> },
    /// A workflow began.
    RunCreated { run: Box<Run> },
    /// A step of it ended.
    RunStepped { id: String, step: Box<Step> },
    /// It ended.
    RunFinished {
        id: String,
        status: RunStatus,
        output: Option<serde_json::Value>,
    },
}

/// Why an event makes nothing of what is there: it was not written by this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event does not fit the one before it")]
pub(crate) struct Inapplicable;

impl Change {
    /// The fact it is about.
    pub(crate) fn subject(&self) -> (Kind, String) {
        match self {
            Self::Recovered { .. } => (Kind::Store, String::new()),
            Self::SessionCreated { session } => (Kind::Session, session.id.to_string()),
            Self::SessionState { id, .. }
            | Self::SessionMode { id, .. }
            | Self::SessionStep { id, .. }
            | Self::SessionCharged { id, .. } => (Kind::Session, id.to_string()),
            Self::LedgerKept { workspace, .. } => (Kind::Ledger, workspace.to_string()),
            Self::Asked { approval } => (Kind::Approval, approval.request.id.to_string()),
            Self::Answered { id, .. }
            | Self::GrantUsed { id }
            | Self::GrantRevoked { id }
            | Self::ApprovalEnded { id } => (Kind::Approval, id.to_string()),
            Self::Observed { observation } => (Kind::Observation, observation.id.clone()),
            Self::RunCreated { run } => (Kind::Run, run.id.clone()),
            Self::RunStepped { id, .. } | Self::RunFinished { id, .. } => (Kind::Run, id.clone()),
        }
    }

    /// What there is after it, given the fact it is about as it was.
    pub(crate) fn apply(self, old: Option<Fact>, at: Timestamp) -> Result<Vec<Fact>, Inapplicable> {
        let one = |fact| Ok(vec![fact]);
        match (self, old) {
            (Self::Recovered { .. }, None) => Ok(Vec::new()),
            (Self::SessionCreated { session }, None) => one(Fact::Session(session)),
            (Self::SessionState { state, .. }, Some(Fact::Session(mut session))) => {
                session.state = state;
                session.updated = at;
                one(Fact::Session(session))
            }
            (Self::SessionMode { mode, phase, .. }, Some(Fact::Session(mut session))) => {
                session.mode = mode;
                session.phase = phase;
                session.updated = at;
                one(Fact::Session(session))
            }
            (
                Self::SessionStep {
                    mode,
                    phase,
                    progress,
                    ..
                },
                Some(Fact::Session(mut session)),
            ) => {
                session.mode = mode;
                session.phase = phase;
                session.progress = Some(progress);
                session.updated = at;
                one(Fact::Session(session))
            }
            (Self::LedgerKept { workspace, ledger }, None | Some(Fact::Ledger(_))) => {
                one(Fact::Ledger(Box::new(Kept { workspace, ledger })))
            }
            (Self::SessionCharged { spent, tool, .. }, Some(Fact::Session(mut session))) => {
                session.spend(spent, tool.as_deref(), at);
                session.updated = at;
                one(Fact::Session(session))
            }
            (Self::Asked { approval }, None) => one(Fact::Approval(approval)),
            (
                Self::Answered {
                    answered, grant, ..
                },
                Some(Fact::Approval(mut approval)),
            ) => {
                approval.request.answered = Some(*answered);
                approval.grant = grant.map(|grant| *grant);
                one(Fact::Approval(approval))
            }
            (Self::GrantUsed { .. }, Some(Fact::Approval(mut approval))) => {
                let grant = approval.grant.as_mut().ok_or(Inapplicable)?;
                if let Some(left) = &mut grant.uses_left {
                    *left = left.checked_sub(1).ok_or(Inapplicable)?;
                }
                one(Fact::Approval(approval))
            }
            (Self::GrantRevoked { .. }, Some(Fact::Approval(mut approval))) => {
                approval.grant.as_mut().ok_or(Inapplicable)?.revoked = true;
                one(Fact::Approval(approval))
            }
            (Self::ApprovalEnded { .. }, Some(Fact::Approval(mut approval))) => {
                approval.ended = true;
                one(Fact::Approval(approval))
            }
            (Self::Observed { observation }, None) => one(Fact::Observation(observation)),
            (Self::RunCreated { run }, None) => one(Fact::Run(run)),
            (Self::RunStepped { step, .. }, Some(Fact::Run(mut run))) => {
                run.steps = run.steps.checked_add(1).ok_or(Inapplicable)?;
                run.updated = at;
                if step.number != run.steps || step.run != run.id {
                    return Err(Inapplicable);
                }
                Ok(vec![Fact::Run(run), Fact::Step(step)])
            }
            (Self::RunFinished { status, output, .. }, Some(Fact::Run(mut run))) => {
                run.status = status;
                run.output = output;
                run.updated = at;
                one(Fact::Run(run))
            }
            // An event that begins something there is, or changes something there is not.
            (
                Self::Recovered { .. }
                | Self::SessionCreated { .. }
                | Self::SessionState { .. }
                | Self::SessionMode { .. }
                | Self::SessionStep { .. }
                | Self::LedgerKept { .. }
                | Self::SessionCharged { .. }
                | Self::Asked { .. }
                | Self::Answered { .. }
                | Self::GrantUsed { .. }
                | Self::GrantRevoked { .. }
                | Self::ApprovalEnded { .. }
                | Self::Observed { .. }
                | Self::RunCreated { .. }
                | Self::RunStepped { .. }
                | Self::RunFinished { .. },
                _,
            ) => Err(Inapplicable),
        }
    }

    /// Whether it still counts after a rescue: what was asked and granted does not, since the
    /// events that used a grant up may be among those lost.
    pub(crate) fn survives(&self) -> bool {
        match self {
            Self::Recovered { .. }
            | Self::Asked { .. }
            | Self::Answered { .. }
            | Self::GrantUsed { .. }
            | Self::GrantRevoked { .. }
            | Self::ApprovalEnded { .. } => false,
            Self::SessionCreated { .. }
            | Self::SessionState { .. }
            | Self::SessionMode { .. }
            | Self::SessionStep { .. }
            | Self::LedgerKept { .. }
            | Self::SessionCharged { .. }
            | Self::Observed { .. }
            | Self::RunCreated { .. }
            | Self::RunStepped { .. }
            | Self::RunFinished { .. } => true,
        }
    }
}

/// An event as it is sealed: the change, and the event before it about the same thing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) change: Change,
    pub(crate) previous: Option<u64>,
    pub(crate) at: Timestamp,
}

impl Event {
    /// The entry the chain seals.
    pub(crate) fn entry(&self) -> Result<Entry, serde_json::Error> {
        let mut entry = Entry::new(self.at, EventType::StateTransition, Stage::Note);
        let change = serde_json::to_string(&self.change)?;
        entry.metadata.insert(CHANGE.to_owned(), change);
        if let Some(previous) = self.previous {
            let previous = previous.to_string();
            entry.metadata.insert(PREVIOUS.to_owned(), previous);
        }
        Ok(entry)
    }

    /// The event in a sealed entry.
    pub(crate) fn read(entry: &Entry) -> Option<Self> {
        let change = serde_json::from_str(entry.metadata.get(CHANGE)?).ok()?;
        let previous = match entry.metadata.get(PREVIOUS) {
            None => None,
            Some(text) => Some(text.parse().ok()?),
        };
        Some(Self {
            change,
            previous,
            at: entry.time,
        })
    }
}

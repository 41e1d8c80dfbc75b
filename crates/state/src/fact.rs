//! What the events add up to, as rows of the one table that is looked things up in.

use crate::approvals::Approval;
use crate::observations::Observation;
use crate::runs::{Run, Step};
use crate::sessions::{ARCHIVED_AFTER, Session, SessionState};
use airlock_core::WorkspaceId;
use airlock_phases::Ledger;
use serde::{Deserialize, Serialize};

/// What a fact is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    Store,
    Session,
    Approval,
    Observation,
    Run,
    Step,
    Ledger,
}

impl Kind {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Session => "session",
            Self::Approval => "approval",
            Self::Observation => "observation",
            Self::Run => "run",
            Self::Step => "step",
            Self::Ledger => "ledger",
        }
    }
}

/// The subject column of an event.
pub(crate) fn subject(kind: Kind, id: &str) -> String {
    format!("{}:{id}", kind.as_str())
}

/// One thing that is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fact {
    Session(Box<Session>),
    Approval(Box<Approval>),
    Observation(Box<Observation>),
    Run(Box<Run>),
    Step(Box<Step>),
    Ledger(Box<Kept>),
}

/// A workspace's coverage budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) workspace: WorkspaceId,
    pub(crate) ledger: Ledger,
}

/// A fact with what it is found by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) kind: Kind,
    pub(crate) id: String,
    pub(crate) owner: String,
    /// What it belongs to: the session of an approval or observation, the run of a step.
    pub(crate) parent: String,
    pub(crate) status: &'static str,
    /// When it ends or goes stale, in microseconds.
    pub(crate) due: i64,
    /// What makes a question the same question.
    pub(crate) mark: String,
    pub(crate) body: String,
}

impl Fact {
    /// The row of this fact.
    pub(crate) fn row(&self) -> Result<Row, serde_json::Error> {
        let (kind, id) = self.name();
        let mut row = Row {
            kind,
            id,
            owner: String::new(),
            parent: String::new(),
            status: "",
            due: i64::MAX,
            mark: String::new(),
            body: serde_json::to_string(self)?,
        };
        match self {
            Self::Session(session) => {
                row.owner = session.owner.to_string();
                row.status = session.state.as_str();
                row.due = match session.state {
                    SessionState::Archived => i64::MAX,
                    SessionState::Active | SessionState::Cancelled => {
                        session.updated.plus(ARCHIVED_AFTER).as_micros()
                    }
                };
            }
            Self::Approval(approval) => {
                row.owner = approval.owner().to_string();
                row.parent = approval.asker();
                row.status = approval.stored_status();
                row.due = approval.due().as_micros();
                row.mark = approval.mark();
            }
            Self::Observation(observation) => {
                row.owner = observation.owner.to_string();
                row.parent = observation.session.to_string();
            }
            Self::Run(run) => {
                row.owner = run.owner.to_string();
                row.status = run.status.as_str();
            }
            Self::Step(step) => row.parent.clone_from(&step.run),
            Self::Ledger(_) => {}
        }
        Ok(row)
    }

    pub(crate) fn name(&self) -> (Kind, String) {
        match self {
            Self::Session(session) => (Kind::Session, session.id.to_string()),
            Self::Approval(approval) => (Kind::Approval, approval.request.id.to_string()),
            Self::Observation(observation) => (Kind::Observation, observation.id.clone()),
            Self::Run(run) => (Kind::Run, run.id.clone()),
            Self::Step(step) => (Kind::Step, step.id()),
            Self::Ledger(kept) => (Kind::Ledger, kept.workspace.to_string()),
        }
    }

    pub(crate) fn session(self) -> Option<Session> {
        match self {
            Self::Session(session) => Some(*session),
            Self::Approval(_)
            | Self::Observation(_)
            | Self::Run(_)
            | Self::Step(_)
            | Self::Ledger(_) => None,
        }
    }

    pub(crate) fn approval(self) -> Option<Approval> {
        match self {
            Self::Approval(approval) => Some(*approval),
            Self::Session(_)
            | Self::Observation(_)
            | Self::Run(_)
            | Self::Step(_)
            | Self::Ledger(_) => None,
        }
    }

    pub(crate) fn observation(self) -> Option<Observation> {
        match self {
            Self::Observation(observation) => Some(*observation),
            Self::Session(_)
            | Self::Approval(_)
            | Self::Run(_)
            | Self::Step(_)
            | Self::Ledger(_) => None,
        }
    }

    pub(crate) fn run(self) -> Option<Run> {
        match self {
            Self::Run(run) => Some(*run),
            Self::Session(_)
            | Self::Approval(_)
            | Self::Observation(_)
            | Self::Step(_)
            | Self::Ledger(_) => None,
        }
    }

    pub(crate) fn step(self) -> Option<Step> {
        match self {
            Self::Step(step) => Some(*step),
            Self::Session(_)
            | Self::Approval(_)
            | Self::Observation(_)
            | Self::Run(_)
            | Self::Ledger(_) => None,
        }
    }

    pub(crate) fn ledger(self) -> Option<Ledger> {
        match self {
            Self::Ledger(kept) => Some(kept.ledger),
            Self::Session(_)
            | Self::Approval(_)
            | Self::Observation(_)
            | Self::Run(_)
            | Self::Step(_) => None,
        }
    }
}

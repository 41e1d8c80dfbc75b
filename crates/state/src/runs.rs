//! Runs of workflows: what ran, how far it came, what each step gave. Durable, so that a run can be
//! taken up after a crash where it stopped.

use crate::change::Change;
use crate::error::StateError;
use crate::fact::{Fact, Kind};
use crate::sessions::Owner;
use crate::store::{Durable, State};
use airlock_core::{Digest, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Steps of one run.
const STEPS: usize = 10_000;
/// Longest record of a step, input or output, in bytes of JSON.
const RECORD: usize = 256 * 1024;
/// Longest name, in bytes.
const NAME: usize = 128;

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It goes on, or was interrupted and can.
    Running,
    /// It waits for a person.
    Waiting,
    /// Every step is done.
    Done,
    /// A step failed.
    Failed,
    /// Somebody stopped it.
    Cancelled,
}

impl RunStatus {
    /// The word used in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing can follow.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Running | Self::Waiting => false,
            Self::Done | Self::Failed | Self::Cancelled => true,
        }
    }
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its name.
    pub id: String,
    /// Whose it is.
    pub owner: Owner,
    /// The session it belongs to.
    pub session: Option<SessionId>,
    /// The workflow's name.
    pub name: String,
    /// The digest of the definition it runs by.
    pub definition: Digest,
    /// What it was started with.
    pub input: Value,
    /// How it stands.
    pub status: RunStatus,
    /// Steps recorded so far.
    pub steps: u64,
    /// What it gave.
    pub output: Option<Value>,
    /// When it began.
    pub created: Timestamp,
    /// When it last changed.
    pub updated: Timestamp,
}

/// A run to be begun.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRun {
    /// Its name, which no other has.
    pub id: String,
    /// Whose it is.
    pub owner: Owner,
    /// The session it belongs to.
    pub session: Option<SessionId>,
    /// The workflow's name.
    pub name: String,
    /// The digest of the definition it runs by.
    pub definition: Digest,
    /// What it is started with.
    pub input: Value,
}

/// The record of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The run.
    pub run: String,
    /// From 1, without gaps.
    pub number: u64,
    /// Whatever the runner needs to know of it.
    pub record: Value,
    /// When.
    pub at: Timestamp,
}

impl Step {
    pub(crate) fn id(&self) -> String {
        format!("{}/{:08}", self.run, self.number)
    }
}

fn bounded(value: &Value) -> Result<(), StateError> {
    if value.to_string().len() > RECORD {
        return Err(StateError::Limit {
            what: "the record is too long, in bytes of JSON",
            most: RECORD,
        });
    }
    Ok(())
}

impl State {
    /// Begins a run.
    pub fn create_run(&self, new: NewRun, now: Timestamp) -> Result<Run, StateError> {
        bounded(&new.input)?;
        if new.name.len() > NAME {
            return Err(StateError::Limit {
                what: "the workflow's name is too long, in bytes",
                most: NAME,
            });
        }
        if new.id.is_empty() || new.id.len() > NAME {
            return Err(StateError::Unfit("that cannot be the name of a run"));
        }
        let run = Run {
            id: new.id,
            owner: new.owner,
            session: new.session,
            name: new.name,
            definition: new.definition,
            input: new.input,
            status: RunStatus::Running,
            steps: 0,
            output: None,
            created: now,
            updated: now,
        };
        self.write(Durable::Disk, |writer| {
            if writer.find(Kind::Run, &run.id)?.is_some() {
                return Err(StateError::Unfit("there is a run of that name"));
            }
            let run = Box::new(run.clone());
            writer.append(&Change::RunCreated { run }, now)
        })?;
        Ok(run)
    }

    /// Records the next step of the run `id` of `owner`; none if there is none. The step is on disk
    /// when this returns.
    pub fn append_step(
        &self,
        owner: &Owner,
        id: &str,
        record: Value,
        now: Timestamp,
    ) -> Result<Option<Step>, StateError> {
        bounded(&record)?;
        self.write(Durable::Disk, |writer| {
            let found = writer.find(Kind::Run, id)?;
            let Some(run) = found.and_then(Fact::run).filter(|it| it.owner == *owner) else {
                return Ok(None);
            };
            if run.status.is_final() {
                return Err(StateError::Unfit("the run has ended"));
            }
            if run.steps >= STEPS as u64 {
                return Err(StateError::Limit {
                    what: "the run has too many steps",
                    most: STEPS,
                });
            }
            let step = Step {
                run: run.id.clone(),
                number: run.steps + 1,
                record,
                at: now,
            };
            let change = Change::RunStepped {
                id: run.id,
                step: Box::new(step.clone()),
            };
            writer.append(&change, now)?;
            Ok(Some(step))
        })
    }

    /// Puts the run `id` of `owner` into `status`, with what it gave; none if there is none. What
    /// has ended stays ended.
    pub fn finish_run(
        &self,
        owner: &Owner,
        id: &str,
        status: RunStatus,
        output: Option<Value>,
        now: Timestamp,
    ) -> Result<Option<Run>, StateError> {
        output.as_ref().map_or(Ok(()), bounded)?;
        self.write(Durable::Disk, |writer| {
            let mine =
                |found: Option<Fact>| found.and_then(Fact::run).filter(|run| run.owner == *owner);
            let Some(run) = mine(writer.find(Kind::Run, id)?) else {
                return Ok(None);
            };
            if run.status.is_final() {
                return Err(StateError::Unfit("the run has ended"));
            }
            let change = Change::RunFinished {
                id: run.id,
                status,
                output,
            };
            writer.append(&change, now)?;
            Ok(mine(writer.find(Kind::Run, id)?))
        })
    }

    /// Every run of `owner`, newest first.
    pub fn runs(&self, owner: &Owner) -> Result<Vec<Run>, StateError> {
        self.read(|reader| {
            let facts = reader.owned(Kind::Run, &owner.to_string())?;
            let mut runs: Vec<Run> = facts.into_iter().filter_map(Fact::run).collect();
            runs.sort_by(|a, b| b.created.cmp(&a.created).then(b.id.cmp(&a.id)));
            Ok(runs)
        })
    }

    /// The run `id` of `owner`, with its steps in order.
    pub fn run(&self, owner: &Owner, id: &str) -> Result<Option<(Run, Vec<Step>)>, StateError> {
        self.read(|reader| {
            let found = reader.find(Kind::Run, id)?;
            let Some(run) = found.and_then(Fact::run).filter(|it| it.owner == *owner) else {
                return Ok(None);
            };
            let steps = reader.below(Kind::Step, id)?;
            let steps = steps.into_iter().filter_map(Fact::step).collect();
            Ok(Some((run, steps)))
        })
    }
}

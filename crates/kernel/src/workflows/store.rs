//! Where runs are kept: what began, what came of it, how the run stands.
//!
//! Guarantee wanted of every store: what a method returned for is there after a crash, another
//! owner's runs do not exist, and a run that ended takes nothing more.

use crate::clock::Clock;
use airlock_core::Digest;
use airlock_state::{NewRun, Owner, RunStatus, State, StateError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};

/// Why a store does not take something.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStoreError {
    /// The run ended, or was never there.
    #[error("the run has ended")]
    Over,
    /// The store cannot be used.
    #[error("the run cannot be recorded: {0}")]
    Unusable(String),
}

impl RunStoreError {
    /// How to mend it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Over => None,
            Self::Unusable(_) => {
                Some("make the state directory writable, or free some space".to_owned())
            }
        }
    }
}

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RunEvent {
    /// A step began.
    Started {
        /// The step.
        step: String,
        /// Whether it may have effects.
        effects: bool,
    },
    /// A step came to its end.
    Done {
        /// The step.
        step: String,
        /// What came of it: `ok`, `value`, `code`, `flagged`.
        record: Value,
        /// Milliseconds that the run took until then, waiting not counted.
        #[serde(default)]
        spent: u64,
    },
    /// A step did not happen: a person is asked first.
    Waiting {
        /// The step.
        step: String,
        /// The question's id.
        approval: String,
        /// Milliseconds that the run took until then, waiting not counted.
        #[serde(default)]
        spent: u64,
    },
    /// Whoever asked for the run no longer wanted to hear of it; it can be taken up.
    Interrupted {
        /// Milliseconds that the run took until then, waiting not counted.
        spent: u64,
    },
}

/// A run as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRecord {
    /// Its id.
    pub id: String,
    /// The workflow.
    pub name: String,
    /// The digest of the definition it began with.
    pub definition: Digest,
    /// Its inputs.
    pub input: Value,
    /// How it stands.
    pub status: RunStatus,
    /// What happened, in order. Empty in listings.
    pub events: Vec<RunEvent>,
    /// What it gave.
    pub output: Option<Value>,
}

/// Keeps runs.
pub trait RunStore: Send + Sync {
    /// Begins the run `id`.
    fn create(
        &self,
        owner: &Owner,
        id: &str,
        name: &str,
        definition: Digest,
        input: &Value,
    ) -> Result<(), RunStoreError>;
    /// A step is about to begin.
    fn step_started(
        &self,
        owner: &Owner,
        run: &str,
        step: &str,
        effects: bool,
    ) -> Result<(), RunStoreError>;
    /// A step ended, or waits, or the run was interrupted.
    fn step_done(&self, owner: &Owner, run: &str, event: &RunEvent) -> Result<(), RunStoreError>;
    /// The run stands so now.
    fn finish(
        &self,
        owner: &Owner,
        run: &str,
        status: RunStatus,
        output: Option<Value>,
    ) -> Result<(), RunStoreError>;
    /// A run with what happened in it.
    fn load(&self, owner: &Owner, run: &str) -> Result<Option<RunRecord>, RunStoreError>;
    /// The owner's runs, newest first.
    fn list(&self, owner: &Owner) -> Result<Vec<RunRecord>, RunStoreError>;
}

/// Runs in the workspace's state.
pub struct StateRuns {
    state: Arc<State>,
    clock: Clock,
}

impl StateRuns {
    pub(crate) fn new(state: Arc<State>, clock: Clock) -> Self {
        Self { state, clock }
    }

    fn append(&self, owner: &Owner, run: &str, event: &RunEvent) -> Result<(), RunStoreError> {
        let record = serde_json::to_value(event)
            .map_err(|error| RunStoreError::Unusable(error.to_string()))?;
        let step = self
            .state
            .append_step(owner, run, record, self.clock.now())?;
        step.map(drop).ok_or(RunStoreError::Over)
    }
}

impl From<StateError> for RunStoreError {
    fn from(error: StateError) -> Self {
        if matches!(error, StateError::Unfit(_)) {
            return Self::Over;
        }
        Self::Unusable(error.to_string())
    }
}

fn record(run: airlock_state::Run, events: Vec<RunEvent>) -> RunRecord {
    RunRecord {
        id: run.id,
        name: run.name,
        definition: run.definition,
        input: run.input,
        status: run.status,
        events,
        output: run.output,
    }
}

impl RunStore for StateRuns {
    fn create(
        &self,
        owner: &Owner,
        id: &str,
        name: &str,
        definition: Digest,
        input: &Value,
    ) -> Result<(), RunStoreError> {
        let new = NewRun {
            id: id.to_owned(),
            owner: owner.clone(),
            session: None,
            name: name.to_owned(),
            definition,
            input: input.clone(),
        };
        self.state.create_run(new, self.clock.now())?;
        Ok(())
    }

    fn step_started(
        &self,
        owner: &Owner,
        run: &str,
        step: &str,
        effects: bool,
    ) -> Result<(), RunStoreError> {
        let step = step.to_owned();
        self.append(owner, run, &RunEvent::Started { step, effects })
    }

    fn step_done(&self, owner: &Owner, run: &str, event: &RunEvent) -> Result<(), RunStoreError> {
        self.append(owner, run, event)
    }

    fn finish(
        &self,
        owner: &Owner,
        run: &str,
        status: RunStatus,
        output: Option<Value>,
    ) -> Result<(), RunStoreError> {
        let finished = self
            .state
            .finish_run(owner, run, status, output, self.clock.now())?;
        finished.map(drop).ok_or(RunStoreError::Over)
    }

    fn load(&self, owner: &Owner, run: &str) -> Result<Option<RunRecord>, RunStoreError> {
        let Some((found, steps)) = self.state.run(owner, run)? else {
            return Ok(None);
        };
        let events: Result<Vec<RunEvent>, _> = steps
            .into_iter()
            .map(|step| serde_json::from_value(step.record))
            .collect();
        // What cannot be understood might be a step with effects; it is not passed over.
        let events = events.map_err(|error| RunStoreError::Unusable(error.to_string()))?;
        Ok(Some(record(found, events)))
    }

    fn list(&self, owner: &Owner) -> Result<Vec<RunRecord>, RunStoreError> {
        let runs = self.state.runs(owner)?;
        Ok(runs
            .into_iter()
            .map(|run| record(run, Vec::new()))
            .collect())
    }
}

/// Runs in memory, for as long as the process lives.
#[derive(Debug, Default)]
pub struct MemoryRuns {
    runs: Mutex<Vec<(Owner, RunRecord)>>,
}

impl MemoryRuns {
    fn with<T>(
        &self,
        owner: &Owner,
        run: &str,
        act: impl FnOnce(&mut RunRecord) -> T,
    ) -> Result<T, RunStoreError> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut mine = runs
            .iter_mut()
            .filter(|(of, found)| of == owner && found.id == run);
        let found = mine.next().filter(|(_, found)| !found.status.is_final());
        found
            .map(|(_, found)| act(found))
            .ok_or(RunStoreError::Over)
    }
}

impl RunStore for MemoryRuns {
    fn create(
        &self,
        owner: &Owner,
        id: &str,
        name: &str,
        definition: Digest,
        input: &Value,
    ) -> Result<(), RunStoreError> {
        let record = RunRecord {
            id: id.to_owned(),
            name: name.to_owned(),
            definition,
            input: input.clone(),
            status: RunStatus::Running,
            events: Vec::new(),
            output: None,
        };
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.push((owner.clone(), record));
        Ok(())
    }

    fn step_started(
        &self,
        owner: &Owner,
        run: &str,
        step: &str,
        effects: bool,
    ) -> Result<(), RunStoreError> {
        let step = step.to_owned();
        self.with(owner, run, |found| {
            found.events.push(RunEvent::Started { step, effects });
        })
    }

    fn step_done(&self, owner: &Owner, run: &str, event: &RunEvent) -> Result<(), RunStoreError> {
        self.with(owner, run, |found| found.events.push(event.clone()))
    }

    fn finish(
        &self,
        owner: &Owner,
        run: &str,
        status: RunStatus,
        output: Option<Value>,
    ) -> Result<(), RunStoreError> {
        self.with(owner, run, |found| {
            found.status = status;
            found.output = output;
        })
    }

    fn load(&self, owner: &Owner, run: &str) -> Result<Option<RunRecord>, RunStoreError> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut mine = runs
            .iter()
            .filter(|(of, found)| of == owner && found.id == run);
        Ok(mine.next().map(|(_, found)| found.clone()))
    }

    fn list(&self, owner: &Owner) -> Result<Vec<RunRecord>, RunStoreError> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = runs.iter().rev().filter(|(of, _)| of == owner);
        Ok(mine
            .map(|(_, found)| RunRecord {
                events: Vec::new(),
                ..found.clone()
            })
            .collect())
    }
}

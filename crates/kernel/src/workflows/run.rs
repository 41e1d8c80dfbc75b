//! Begins runs, takes them up again, stops them.

use super::record::failed;
use super::report::{Resume, RunError, RunReport, RunState};
use super::steps::{Halt, Walk};
use super::store::{RunEvent, RunRecord, RunStore, RunStoreError, StateRuns};
use super::tools::{CancelArguments, ResumeArguments, RunArguments};
use crate::definitions::WorkflowEntry;
use crate::fronts::{Front, Whence};
use crate::kernel::Kernel;
use crate::road::{Call, Outcome};
use crate::sanitise::sanitise_line;
use airlock_core::{ActionId, closest};
use airlock_definitions::Scope;
use airlock_state::{Owner, RunStatus};
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;
use std::time::Duration;

/// Most bytes of JSON that a run may give: as much as is kept of it.
const OUTPUT_BYTES: usize = 256 * 1024;

/// The workflows of a kernel, for one owner.
pub struct Workflows<'k> {
    kernel: &'k Kernel,
    store: Arc<dyn RunStore>,
    owner: Owner,
    /// Where what is done comes from.
    whence: Whence,
}

impl Kernel {
    /// The workflows, with runs kept in the workspace's state.
    pub fn workflows(&self) -> Result<Workflows<'_>, RunError> {
        let state = self.state().map_err(RunStoreError::from)?;
        let store = Arc::new(StateRuns::new(state, self.clock().clone()));
        Ok(self.workflows_in(store))
    }

    /// The workflows, with runs kept in `store`.
    pub fn workflows_in(&self, store: Arc<dyn RunStore>) -> Workflows<'_> {
        Workflows {
            kernel: self,
            store,
            owner: self.owner(),
            whence: Whence::default(),
        }
    }
}

impl Workflows<'_> {
    /// The same for what another process asks for.
    #[must_use]
    pub fn asked_from(self, whence: Whence) -> Self {
        Self { whence, ..self }
    }

    /// Runs the workflow `name` until it ends or waits.
    pub fn run(&self, front: Front, name: &str, inputs: &Value) -> Result<RunReport, RunError> {
        let entry = self.entry(name)?;
        if let Some(mismatch) = entry.workflow.inputs.check(inputs).into_iter().next() {
            return Err(RunError::Inputs(mismatch.to_string()));
        }
        let asked = RunArguments {
            workflow: name.to_owned(),
            inputs: inputs.clone(),
        };
        // The run has the name of the action that the log has of it.
        let id = self.leave(front, "workflow.run", &asked)?.to_string();
        let _held = self.claim(&id)?;
        self.store
            .create(&self.owner, &id, name, entry.digest, inputs)?;
        self.proceed(front, &entry, &id, inputs, Before::default())
    }

    /// Takes up the run `id` where it stopped.
    pub fn resume(&self, front: Front, id: &str, resume: &Resume) -> Result<RunReport, RunError> {
        self.open_run(id)?;
        let _held = self.claim(id)?;
        // Read anew: whoever held it before may have gone on.
        let found = self.open_run(id)?;
        let entry = self.entry(&found.name)?;
        let asked = ResumeArguments {
            run: id.to_owned(),
            workflow: found.name.clone(),
            repeat: resume.repeat.clone(),
            skip: resume.skip.clone(),
        };
        self.leave(front, "workflow.resume", &asked)?;
        if entry.digest != found.definition {
            return Err(RunError::Changed(found.name));
        }
        let (mut before, unsettled) = settle(&found);
        let mut open = Vec::new();
        for step in unsettled {
            if resume.repeat.contains(&step) {
                continue;
            }
            if resume.skip.contains(&step) {
                let record = failed("interrupted", "nobody knows whether it happened");
                let event = RunEvent::Done {
                    step: step.clone(),
                    record: record.clone(),
                    spent: before.spent,
                };
                self.store.step_done(&self.owner, id, &event)?;
                before.done.insert(step, record);
                continue;
            }
            open.push(step);
        }
        if !open.is_empty() {
            return Ok(RunReport {
                id: id.to_owned(),
                state: RunState::Unsettled(open),
            });
        }
        self.store
            .finish(&self.owner, id, RunStatus::Running, None)?;
        self.proceed(front, &entry, id, &found.input, before)
    }

    /// The run is this process's until what is returned is dropped: two at once would take each
    /// step twice. A process that dies lets go of it.
    fn claim(&self, id: &str) -> Result<Claim, RunError> {
        let failed = |error: io::Error| RunStoreError::Unusable(error.to_string());
        let directory = self.kernel.workspace().state().path().join("runs");
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(&directory).map_err(failed)?;
        let file = File::create(directory.join(format!("{id}.lock"))).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Claim(file)),
            Err(_) => Err(RunError::Busy(id.to_owned())),
        }
    }

    /// Stops the run `id`: no further step begins.
    pub fn cancel(&self, front: Front, id: &str) -> Result<(), RunError> {
        let found = self.open_run(id)?;
        let asked = CancelArguments {
            run: found.id.clone(),
            workflow: found.name.clone(),
        };
        self.leave(front, "workflow.cancel", &asked)?;
        self.store
            .finish(&self.owner, &found.id, RunStatus::Cancelled, None)?;
        Ok(())
    }

    /// Has it decided and recorded what is done to a run as a whole, before it is. Its steps are calls,
    /// with decisions and records of their own.
    fn leave(
        &self,
        front: Front,
        what: &str,
        asked: &impl Serialize,
    ) -> Result<ActionId, RunError> {
        let asked = serde_json::to_value(asked)
            .map_err(|error| RunStoreError::Unusable(error.to_string()))?;
        let call = Call::new(what, asked);
        match self.kernel.submit_from(front, &self.whence, &call, None) {
            Outcome::Done(done) => Ok(done.action),
            refused @ (Outcome::Denied(_) | Outcome::NeedsReview(_) | Outcome::Failed(_)) => {
                Err(RunError::NoLeave(Box::new(refused)))
            }
        }
    }

    /// The runs there are, newest first.
    pub fn runs(&self) -> Result<Vec<RunRecord>, RunError> {
        Ok(self.store.list(&self.owner)?)
    }

    /// A run with what happened in it.
    pub fn find(&self, id: &str) -> Result<RunRecord, RunError> {
        let found = self.store.load(&self.owner, id)?;
        found.ok_or_else(|| RunError::NoRun(id.chars().take(60).collect()))
    }

    /// The same of the one whose id begins with `start`; several that do are none.
    pub fn beginning(&self, start: &str) -> Result<RunRecord, RunError> {
        let begins = |run: &RunRecord| !start.is_empty() && run.id.starts_with(start);
        let mut found = self.runs()?.into_iter().filter(begins);
        match (found.next(), found.next()) {
            (Some(run), None) => self.find(&run.id),
            (Some(_), Some(_)) => Err(RunError::Several(sanitise_line(start, 60))),
            (None, _) => Err(RunError::NoRun(sanitise_line(start, 60))),
        }
    }

    /// A run that is not over.
    fn open_run(&self, id: &str) -> Result<RunRecord, RunError> {
        let found = self.find(id)?;
        if found.status.is_final() {
            return Err(RunError::Over {
                id: found.id,
                status: found.status,
            });
        }
        Ok(found)
    }

    fn entry(&self, name: &str) -> Result<WorkflowEntry, RunError> {
        let definitions = self.kernel.definitions();
        let found = definitions
            .workflow_named(name)
            .filter(|entry| self.kernel.is_approved(entry));
        found.cloned().ok_or_else(|| {
            let names = definitions
                .workflows()
                .iter()
                .map(|entry| entry.workflow.name.as_str());
            RunError::NoWorkflow {
                name: name.chars().take(60).collect(),
                suggestion: closest(name, names).map(str::to_owned),
            }
        })
    }

    fn proceed(
        &self,
        front: Front,
        entry: &WorkflowEntry,
        id: &str,
        inputs: &Value,
        before: Before,
    ) -> Result<RunReport, RunError> {
        let walk = Walk::new(
            self.kernel,
            (front, &self.whence),
            &*self.store,
            &self.owner,
            id,
            inputs,
            &entry.workflow,
        );
        let walk = walk.after(Duration::from_millis(before.spent), &before.done);
        let mut records = before.done;
        let halt = walk.steps(&entry.workflow.steps, &mut records);
        let state = match halt {
            Ok(()) => {
                let scope = Scope {
                    inputs,
                    steps: &records,
                };
                match entry.workflow.outputs(scope) {
                    Ok(outputs) if outputs.to_string().len() > OUTPUT_BYTES => RunState::Failed {
                        step: None,
                        code: "output_too_large".to_owned(),
                        what: format!("a run may give {OUTPUT_BYTES} bytes"),
                    },
                    Ok(outputs) => RunState::Done(outputs),
                    Err(what) => RunState::Failed {
                        step: None,
                        code: "output_invalid".to_owned(),
                        what,
                    },
                }
            }
            Err(Halt::Failed { step, code, what }) => RunState::Failed {
                step: Some(step),
                code,
                what,
            },
            Err(Halt::Waiting { step, review }) => RunState::Waiting { step, review },
            // It stands as it did: whoever takes it up finds what began and has no end.
            Err(Halt::TakenBack) => {
                let spent = walk.spent();
                let event = RunEvent::Interrupted { spent };
                // Where it cannot be noted, what the step under way took does not count.
                let _noted = self.store.step_done(&self.owner, id, &event);
                return Err(RunError::TakenBack(id.to_owned()));
            }
            Err(Halt::Store(RunStoreError::Over)) => RunState::Cancelled,
            Err(Halt::Store(error)) => return Err(error.into()),
        };
        self.close(id, &state)?;
        Ok(RunReport {
            id: id.to_owned(),
            state,
        })
    }

    /// Records how the run stands.
    fn close(&self, id: &str, state: &RunState) -> Result<(), RunError> {
        let (status, output) = match state {
            RunState::Done(outputs) => (RunStatus::Done, Some(outputs.clone())),
            RunState::Failed { step, code, what } => {
                let output = json!({ "step": step, "code": code, "what": what });
                (RunStatus::Failed, Some(output))
            }
            RunState::Waiting { .. } => (RunStatus::Waiting, None),
            RunState::Unsettled(_) | RunState::Cancelled => return Ok(()),
        };
        match self.store.finish(&self.owner, id, status, output) {
            // Somebody cancelled it as its last step ended.
            Ok(()) | Err(RunStoreError::Over) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// A run that is this process's.
struct Claim(File);

impl Drop for Claim {
    fn drop(&mut self) {
        // Closing is not enough: a sandbox that is just being started has a copy of every file.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// What a run brought about before it is taken up.
#[derive(Debug, Default)]
struct Before {
    /// What came of the steps that are done.
    done: BTreeMap<String, Value>,
    /// Milliseconds it took. What a step took whose process was killed is not known.
    spent: u64,
}

/// What a run brought about, and which steps with effects have no end.
fn settle(found: &RunRecord) -> (Before, BTreeSet<String>) {
    let mut before = Before::default();
    let mut unsettled = BTreeSet::new();
    for event in &found.events {
        match event {
            RunEvent::Started { step, effects } => {
                if *effects {
                    unsettled.insert(step.clone());
                }
            }
            RunEvent::Done {
                step,
                record,
                spent,
            } => {
                unsettled.remove(step);
                before.done.insert(step.clone(), record.clone());
                before.spent = before.spent.max(*spent);
            }
            RunEvent::Waiting { step, spent, .. } => {
                unsettled.remove(step);
                before.spent = before.spent.max(*spent);
            }
            RunEvent::Interrupted { spent } => before.spent = before.spent.max(*spent),
        }
    }
    (before, unsettled)
}

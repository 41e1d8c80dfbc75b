//! Walks through the steps of one run.

use super::record::{self, RECORD_BYTES, failed};
use super::store::{RunEvent, RunStore, RunStoreError};
use crate::cancel::{self, Cancel};
use crate::fronts::{Front, Whence};
use crate::kernel::Kernel;
use crate::road::{Call, Outcome, Review};
use crate::sanitise::sanitise_line;
use airlock_core::Digest;
use airlock_definitions::{LookupError, Scope, Step, StepKind, Workflow};
use airlock_state::Owner;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How often a stage that another step uses is waited for, and how long each time.
const BUSY_TRIES: u32 = 600;
const BUSY_WAIT: Duration = Duration::from_millis(50);
/// How often it is looked whether somebody cancelled the run of a step that takes long, or its time is
/// over.
const RUN_LOOK: Duration = Duration::from_millis(200);
/// Digits of the name of an agent's session.
const SESSION_DIGITS: usize = 32;

/// Why a walk does not go on.
pub(super) enum Halt {
    /// A step failed that must not.
    Failed {
        step: String,
        code: String,
        what: String,
    },
    /// A step waits for a person.
    Waiting { step: String, review: Box<Review> },
    /// Nobody wants it any more, for now.
    TakenBack,
    /// What happens cannot be recorded, so nothing does.
    Store(RunStoreError),
}

/// What came of one call.
enum Came {
    Record(Value),
    Review(Box<Review>),
}

/// One walk through a workflow.
pub(super) struct Walk<'a> {
    kernel: &'a Kernel,
    /// As whom it makes its calls, and from where.
    asks: (Front, &'a Whence),
    store: &'a dyn RunStore,
    owner: &'a Owner,
    run: &'a str,
    inputs: &'a Value,
    workflow: &'a Workflow,
    taken: AtomicU32,
    /// Time that the run took before.
    before: Duration,
    begun: Instant,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        kernel: &'a Kernel,
        asks: (Front, &'a Whence),
        store: &'a dyn RunStore,
        owner: &'a Owner,
        run: &'a str,
        inputs: &'a Value,
        workflow: &'a Workflow,
    ) -> Self {
        Self {
            kernel,
            asks,
            store,
            owner,
            run,
            inputs,
            workflow,
            taken: AtomicU32::new(0),
            before: Duration::ZERO,
            begun: Instant::now(),
        }
    }

    /// The same where the run took `before` already, and `done` is done: both count.
    #[must_use]
    pub(super) fn after(self, before: Duration, done: &BTreeMap<String, Value>) -> Self {
        let steps = self.workflow.all_steps().into_iter();
        let taken = steps.filter(|step| is_call(step) && done.contains_key(&step.id));
        let taken = u32::try_from(taken.count()).unwrap_or(u32::MAX);
        Self {
            taken: AtomicU32::new(taken),
            before,
            ..self
        }
    }

    /// Milliseconds that the run took so far, waiting not counted.
    pub(super) fn spent(&self) -> u64 {
        let spent = self.before.saturating_add(self.begun.elapsed());
        u64::try_from(spent.as_millis()).unwrap_or(u64::MAX)
    }

    /// What is left of the time the run may take.
    fn left(&self) -> Duration {
        let whole = self.workflow.limits.timeout.as_millis();
        Duration::from_millis(whole.saturating_sub(self.spent()))
    }

    fn timed_out(&self) -> Value {
        let most = self.workflow.limits.timeout;
        failed("timed_out", format!("the workflow may take {most}"))
    }

    /// Takes `steps` in order; what is in `records` already was done before.
    pub(super) fn steps(
        &self,
        steps: &[Step],
        records: &mut BTreeMap<String, Value>,
    ) -> Result<(), Halt> {
        for step in steps {
            self.step(step, records)?;
        }
        Ok(())
    }

    fn step(&self, step: &Step, records: &mut BTreeMap<String, Value>) -> Result<(), Halt> {
        match &step.kind {
            StepKind::Parallel(steps) => {
                self.parallel(steps, records)?;
                records.insert(step.id.clone(), json!({ "ok": true, "value": null }));
                Ok(())
            }
            StepKind::If {
                condition,
                then,
                otherwise,
            } => {
                let scope = Scope {
                    inputs: self.inputs,
                    steps: records,
                };
                match condition.holds(scope) {
                    Ok(holds) => {
                        self.steps(if holds { then } else { otherwise }, records)?;
                        records.insert(step.id.clone(), json!({ "ok": true, "value": holds }));
                        Ok(())
                    }
                    Err(error) => {
                        self.settle(step, failed("reference", error.to_string()), records)
                    }
                }
            }
            StepKind::Tool { .. }
            | StepKind::Code { .. }
            | StepKind::Agent { .. }
            | StepKind::Approval { .. } => {
                if let Some(known) = records.get(&step.id).cloned() {
                    return self.judge(step, &known);
                }
                let record = self.leaf(step, records)?;
                self.settle(step, record, records)
            }
        }
    }

    /// Runs `steps` at once, so many at a time as the workflow says.
    fn parallel(&self, steps: &[Step], records: &mut BTreeMap<String, Value>) -> Result<(), Halt> {
        let most = usize::try_from(self.workflow.limits.parallel).unwrap_or(1);
        // Other threads are taken back, and step aside, with this one.
        let covering = &cancel::covering();
        let mut halt = None;
        for group in steps.chunks(most.max(1)) {
            let before = &*records;
            let ends: Vec<(BTreeMap<String, Value>, Result<(), Halt>)> =
                std::thread::scope(|scope| {
                    let running: Vec<_> = group
                        .iter()
                        .map(|step| {
                            scope.spawn(move || {
                                let mut own = before.clone();
                                let end = covering.cover(|| self.step(step, &mut own));
                                (own, end)
                            })
                        })
                        .collect();
                    let joined = running.into_iter().map(|one| {
                        one.join().unwrap_or_else(|_| {
                            let halt =
                                Halt::Store(RunStoreError::Unusable("a step broke off".to_owned()));
                            (BTreeMap::new(), Err(halt))
                        })
                    });
                    joined.collect()
                });
            for (own, end) in ends {
                records.extend(own);
                // Those beside it are done; the first that halts is told.
                halt = halt.or(end.err());
            }
            if let Some(halt) = halt.take() {
                return Err(halt);
            }
        }
        Ok(())
    }

    /// Records what came of a step, and goes on if it may.
    fn settle(
        &self,
        step: &Step,
        record: Value,
        records: &mut BTreeMap<String, Value>,
    ) -> Result<(), Halt> {
        let event = RunEvent::Done {
            step: step.id.clone(),
            record: record.clone(),
            spent: self.spent(),
        };
        self.store
            .step_done(self.owner, self.run, &event)
            .map_err(Halt::Store)?;
        let judged = self.judge(step, &record);
        records.insert(step.id.clone(), record);
        judged
    }

    fn judge(&self, step: &Step, record: &Value) -> Result<(), Halt> {
        let _ = self;
        if step.may_fail || record.get("ok") == Some(&Value::Bool(true)) {
            return Ok(());
        }
        let text = |name: &str| {
            record
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        Err(Halt::Failed {
            step: step.id.clone(),
            code: text("code"),
            what: text("what"),
        })
    }

    /// Makes the one call a step is. Whatever is wrong with it before that is what came of it.
    fn leaf(&self, step: &Step, records: &BTreeMap<String, Value>) -> Result<Value, Halt> {
        if cancel::is_set() {
            return Err(Halt::TakenBack);
        }
        let limits = self.workflow.limits;
        if self.taken.fetch_add(1, Ordering::Relaxed) >= limits.steps {
            return Ok(failed(
                "too_many_steps",
                format!("the workflow may take {} steps", limits.steps),
            ));
        }
        if self.left().is_zero() {
            return Ok(self.timed_out());
        }
        let scope = Scope {
            inputs: self.inputs,
            steps: records,
        };
        let call = match self.call(step, scope) {
            Ok(Ok(call)) => call,
            Ok(Err(record)) => return Ok(record),
            Err(error) => return Ok(failed("reference", error.to_string())),
        };
        let effects = self.has_effects(step, &call);
        self.store
            .step_started(self.owner, self.run, &step.id, effects)
            .map_err(Halt::Store)?;
        match self.submit_step(step, &call) {
            // Ended on the way, or as it was taken back: nobody knows, as after a crash.
            Came::Record(_) if cancel::is_set() => Err(Halt::TakenBack),
            Came::Record(record) => Ok(record::bounded(record)),
            Came::Review(review) => {
                let event = RunEvent::Waiting {
                    step: step.id.clone(),
                    approval: review.approval.id.to_string(),
                    spent: self.spent(),
                };
                self.store
                    .step_done(self.owner, self.run, &event)
                    .map_err(Halt::Store)?;
                Err(Halt::Waiting {
                    step: step.id.clone(),
                    review,
                })
            }
        }
    }

    /// The call a step is, or what is wrong with its arguments.
    fn call(&self, step: &Step, scope: Scope<'_>) -> Result<Result<Call, Value>, LookupError> {
        let mut call = match &step.kind {
            StepKind::Tool { tool, with } => Call::new(tool, with.resolve(scope)?),
            StepKind::Code { with } => {
                let mut arguments = with.resolve(scope)?;
                words(&mut arguments);
                if let Some(value) = step.kind.option_in(&arguments) {
                    let value = sanitise_line(&value, 60);
                    let what = format!("`{value}` would be read as an option; put `--` before it");
                    return Ok(Err(failed("unsafe_argument", what)));
                }
                Call::new("exec.run", arguments)
            }
            StepKind::Agent { agent, task } => Call::new(
                "agent.invoke",
                json!({
                    "agent": agent,
                    "task": task.resolve(scope)?,
                    "session": self.session_of(step),
                }),
            ),
            StepKind::Approval { question } => Call::new(
                "workflow.confirm",
                json!({
                    "run": self.run,
                    "workflow": self.workflow.name,
                    "step": step.id,
                    "question": question.resolve(scope)?,
                }),
            ),
            StepKind::Parallel(_) | StepKind::If { .. } => {
                return Ok(Err(failed("internal", "a step of steps is no call")));
            }
        };
        // Agents and people know the marks; to a tool or a program they are text like any other.
        let takes_text = matches!(step.kind, StepKind::Tool { .. } | StepKind::Code { .. });
        if takes_text && let Some(of) = record::marked(&call.arguments, scope.steps) {
            return Ok(Err(flagged_input(of)));
        }
        // What comes of it is not a model's to read: the steps after it get it whole.
        call.room = Some(RECORD_BYTES);
        Ok(Ok(call))
    }

    /// The session of the agent of a step: the same each time, so that what a person approved while
    /// the run waited holds when the step is taken up again.
    fn session_of(&self, step: &Step) -> String {
        let whole = Digest::of(format!("{}/{}", self.run, step.id).as_bytes());
        whole.to_string().chars().take(SESSION_DIGITS).collect()
    }

    /// Whether doing it twice could matter. What is not known to be harmless could.
    fn has_effects(&self, step: &Step, call: &Call) -> bool {
        match &step.kind {
            StepKind::Approval { .. } => false,
            StepKind::Tool { .. }
            | StepKind::Code { .. }
            | StepKind::Agent { .. }
            | StepKind::Parallel(_)
            | StepKind::If { .. } => {
                let tool = self.kernel.registry().get(&call.name);
                !tool.is_ok_and(|tool| tool.spec().read_only)
            }
        }
    }

    fn submit_step(&self, step: &Step, call: &Call) -> Came {
        match &step.kind {
            StepKind::Agent { .. } | StepKind::Tool { .. } | StepKind::Code { .. } => {
                self.while_wanted(|| self.submit(call))
            }
            // Over at once: there is nothing to take back.
            StepKind::Approval { .. } | StepKind::Parallel(_) | StepKind::If { .. } => {
                self.submit(call)
            }
        }
    }

    /// Makes a call that may take long, and takes it back when somebody cancels the run, nobody wants
    /// to hear of it any more, or the time of the run is over. Then whatever came of it came too late.
    fn while_wanted(&self, make: impl FnOnce() -> Came) -> Came {
        let outer = cancel::covering();
        let cancel = Cancel::part_of(&outer);
        let (done, ended) = mpsc::channel::<()>();
        let is_late = &AtomicBool::new(false);
        let came = std::thread::scope(|scope| {
            let taken = cancel.clone();
            scope.spawn(move || {
                let look = || ended.recv_timeout(RUN_LOOK.min(self.left()));
                while look() == Err(mpsc::RecvTimeoutError::Timeout) {
                    let over = || {
                        let found = self.store.load(self.owner, self.run);
                        found.is_ok_and(|run| run.is_some_and(|run| run.status.is_final()))
                    };
                    let late = self.left().is_zero();
                    is_late.store(late, Ordering::SeqCst);
                    if late || outer.is_cancelled() || over() {
                        taken.cancel();
                        return;
                    }
                }
            });
            let came = cancel.cover(make);
            drop(done);
            came
        });
        match came {
            Came::Record(_) if is_late.load(Ordering::SeqCst) => Came::Record(self.timed_out()),
            Came::Record(_) | Came::Review(_) => came,
        }
    }

    fn submit(&self, call: &Call) -> Came {
        let (front, whence) = self.asks;
        for _ in 0..BUSY_TRIES {
            match self.kernel.submit_from(front, whence, call, None) {
                Outcome::Done(done) => {
                    // An agent whose calls wait for a person is not done.
                    if let Some(review) = self.kernel.agents().take_question(&done.action) {
                        return Came::Review(review);
                    }
                    return Came::Record(record::done(call, &done));
                }
                Outcome::Denied(denied) => {
                    let what = denied.explanation.headline().to_owned();
                    return Came::Record(failed("denied", what));
                }
                Outcome::NeedsReview(review) => return Came::Review(review),
                // Nothing ran: another step has the stage.
                Outcome::Failed(end)
                    if end.retryable && end.code == "stage_busy" && cancel::sleep(BUSY_WAIT) => {}
                Outcome::Failed(end) => {
                    return match self.kernel.agents().take_question(&end.action) {
                        Some(review) => Came::Review(review),
                        None => Came::Record(failed(end.code, end.what)),
                    };
                }
            }
        }
        Came::Record(failed("stage_busy", "another command keeps the stage"))
    }
}

/// A command's words as text: a number is one word as well.
fn words(arguments: &mut Value) {
    let command = arguments.get_mut("command").and_then(Value::as_array_mut);
    for word in command.into_iter().flatten() {
        if word.is_number() || word.is_boolean() {
            *word = Value::String(word.to_string());
        }
    }
}

/// Whether it is one call, and not steps.
fn is_call(step: &Step) -> bool {
    match &step.kind {
        StepKind::Tool { .. }
        | StepKind::Code { .. }
        | StepKind::Agent { .. }
        | StepKind::Approval { .. } => true,
        StepKind::Parallel(_) | StepKind::If { .. } => false,
    }
}

/// What comes of a step that would make something of marked text of the step `of`.
fn flagged_input(of: &str) -> Value {
    let what = format!(
        "what step `{of}` gave may hold instructions: agents and people may read it between its marks, and \
         nothing is made of it"
    );
    failed("flagged_input", what)
}

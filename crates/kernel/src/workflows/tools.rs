//! What workflows need besides the tools there are: leave to begin, take up and stop a run, and a
//! person's yes within one.
//!
//! They are for the command line alone; to agents they do not exist. What the steps of a run do is
//! decided step by step.

use crate::beneath::Root;
use crate::control::spec;
use crate::fronts::Front;
use crate::tools::{
    InvalidArguments, Keep, Prepared, Registry, RunContext, Tool, ToolFailure, ToolOutput,
    ToolSchema, ToolSpec,
};
use airlock_core::{RequestPath, Tier};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::marker::PhantomData;

/// A question of a workflow to a person.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read by policy and by the person who answers")]
struct ConfirmArguments {
    /// The run.
    run: String,
    /// The workflow.
    workflow: String,
    /// The step.
    step: String,
    /// The question.
    question: String,
}

static CONFIRM: ToolSpec = ToolSpec {
    name: "workflow.confirm",
    summary: "Ask a person whether a workflow may go on",
    syscall: "workflow.confirm",
    tier: Tier::Kernel,
    read_only: false,
    keep: Keep::Head,
    schema: ToolSchema::of::<ConfirmArguments>(),
    examples: &[r#"{"run": "1", "workflow": "release", "step": "ask", "question": "Go on?"}"#],
};

/// Adds them.
pub(crate) fn register(registry: &mut Registry) {
    registry.add(Box::new(Confirm));
    registry.add(Box::new(Leave::<RunArguments>::of(&RUN)));
    registry.add(Box::new(Leave::<ResumeArguments>::of(&RESUME)));
    registry.add(Box::new(Leave::<CancelArguments>::of(&CANCEL)));
}

/// A run that is to begin. Its id is the one of this action.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunArguments {
    /// The workflow.
    pub(super) workflow: String,
    /// What it is begun with.
    pub(super) inputs: Value,
}

/// A run that is to be taken up.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResumeArguments {
    /// The run.
    pub(super) run: String,
    /// The workflow.
    pub(super) workflow: String,
    /// Steps to do again, though they may have happened.
    #[serde(default)]
    pub(super) repeat: BTreeSet<String>,
    /// Steps to count as failed.
    #[serde(default)]
    pub(super) skip: BTreeSet<String>,
}

/// A run that is to be stopped.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CancelArguments {
    /// The run.
    pub(super) run: String,
    /// The workflow.
    pub(super) workflow: String,
}

static RUN: ToolSpec = spec(
    "workflow.run",
    "Leave to begin a run of a workflow",
    ToolSchema::of::<RunArguments>(),
);
static RESUME: ToolSpec = spec(
    "workflow.resume",
    "Leave to take up a run of a workflow",
    ToolSchema::of::<ResumeArguments>(),
);
static CANCEL: ToolSpec = spec(
    "workflow.cancel",
    "Leave to stop a run of a workflow",
    ToolSchema::of::<CancelArguments>(),
);

/// Leave to do something to a run as a whole, with arguments `A`. Whoever has it does it:
/// [`super::Workflows`].
struct Leave<A> {
    spec: &'static ToolSpec,
    arguments: PhantomData<fn() -> A>,
}

impl<A> Leave<A> {
    const fn of(spec: &'static ToolSpec) -> Self {
        Self {
            spec,
            arguments: PhantomData,
        }
    }
}

impl<A: DeserializeOwned> Tool for Leave<A> {
    fn spec(&self) -> &'static ToolSpec {
        self.spec
    }

    fn open_to(&self, front: Front) -> bool {
        at_the_command_line(front)
    }

    fn prepare(&self, value: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        read::<A>(value)?;
        Ok(Box::new(Given(json!({}))))
    }
}

fn at_the_command_line(front: Front) -> bool {
    match front {
        Front::Cli => true,
        Front::Agent | Front::Mcp | Front::Server | Front::Plugin => false,
    }
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, InvalidArguments> {
    serde_path_to_error::deserialize(value).map_err(|error| InvalidArguments {
        at: error.path().to_string().trim_start_matches('.').to_owned(),
        what: error.inner().to_string(),
        fix: None,
    })
}

struct Confirm;

impl Tool for Confirm {
    fn spec(&self) -> &'static ToolSpec {
        &CONFIRM
    }

    fn open_to(&self, front: Front) -> bool {
        at_the_command_line(front)
    }

    fn prepare(&self, value: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        read::<ConfirmArguments>(value)?;
        // Allowed means that a person said yes: nothing else allows it.
        Ok(Box::new(Given(json!({ "approved": true }))))
    }
}

/// That it was allowed is all there is to say.
struct Given(Value);

impl Prepared for Given {
    fn paths(&self) -> &[RequestPath] {
        &[]
    }

    fn run(self: Box<Self>, _: &RunContext<'_>) -> Result<ToolOutput, ToolFailure> {
        Ok(ToolOutput {
            value: self.0,
            hidden: 0,
        })
    }
}

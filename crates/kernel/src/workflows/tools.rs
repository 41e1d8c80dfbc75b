//! What workflows need besides the tools there are: a person's yes.
//!
//! It is for runs at the command line alone; to agents it does not exist.

use crate::beneath::Root;
use crate::fronts::Front;
use crate::tools::{
    InvalidArguments, Keep, Prepared, Registry, RunContext, Tool, ToolFailure, ToolOutput, ToolSpec,
};
use airlock_core::{RequestPath, Tier};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

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
    schema: || schemars::schema_for!(ConfirmArguments).to_value(),
    examples: &[r#"{"run": "1", "workflow": "release", "step": "ask", "question": "Go on?"}"#],
};

/// Adds it.
pub(crate) fn register(registry: &mut Registry) {
    registry.add(Box::new(Confirm));
}

fn at_the_command_line(front: Front) -> bool {
    match front {
        Front::Cli => true,
        Front::Agent | Front::Mcp | Front::Server | Front::Plugin => false,
    }
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, InvalidArguments> {
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
        Ok(Box::new(Confirmed))
    }
}

/// Allowed means that a person said yes: nothing else allows it.
struct Confirmed;

impl Prepared for Confirmed {
    fn paths(&self) -> &[RequestPath] {
        &[]
    }

    fn run(self: Box<Self>, _: &RunContext<'_>) -> Result<ToolOutput, ToolFailure> {
        Ok(ToolOutput {
            value: json!({ "approved": true }),
            hidden: 0,
        })
    }
}

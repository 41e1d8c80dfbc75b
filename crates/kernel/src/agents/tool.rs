//! `agent.invoke`, as a tool.

use super::Agents;
use crate::beneath::Root;
use crate::control::arguments;
use crate::fronts::Front;
use crate::tools::{
    InvalidArguments, Keep, Prepared, Registry, RunContext, Tool, ToolFailure, ToolOutput,
    ToolSchema, ToolSpec,
};
use airlock_core::{RequestPath, SessionId, Tier};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// The longest task.
const TASK_CHARS: usize = 32_000;

/// A task for an agent.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Invocation {
    /// The agent, by the name it is defined under.
    pub(crate) agent: String,
    /// The task.
    pub(crate) task: String,
    /// The session of an earlier invocation to go on in, so that what a person approved there
    /// holds. Absent: a new one.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub(crate) session: Option<SessionId>,
}

static INVOKE: ToolSpec = ToolSpec {
    name: "agent.invoke",
    summary: "Hand a task to an agent",
    syscall: "model.chat",
    tier: Tier::Kernel,
    read_only: false,
    keep: Keep::Middle,
    schema: ToolSchema::of::<Invocation>(),
    examples: &[r#"{"agent": "reviewer", "task": "look at src"}"#],
};

/// Adds it.
pub(crate) fn register(registry: &mut Registry, agents: &Arc<Agents>) {
    registry.add(Box::new(Invoke(Arc::clone(agents))));
}

struct Invoke(Arc<Agents>);

impl Tool for Invoke {
    fn spec(&self) -> &'static ToolSpec {
        &INVOKE
    }

    fn open_to(&self, front: Front) -> bool {
        match front {
            Front::Cli => true,
            Front::Agent | Front::Mcp | Front::Server => self.0.are_defined(),
            // A plugin that is called acts in its own name; it has no work to hand on.
            Front::Plugin => false,
        }
    }

    /// Names the agents there are: whoever hands on a task has to know to whom it can.
    fn schema(&self) -> Cow<'_, Value> {
        let mut schema = INVOKE.schema.get().clone();
        let known = self.0.known();
        let field = schema.pointer_mut("/properties/agent");
        if let Some(field) = field
            .and_then(Value::as_object_mut)
            .filter(|_| !known.is_empty())
        {
            let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
            let each = known.iter().map(|(name, what)| format!("{name}: {what}"));
            let told = each.collect::<Vec<_>>().join("; ");
            field.insert("enum".to_owned(), json!(names));
            field.insert("description".to_owned(), json!(told));
        }
        Cow::Owned(schema)
    }

    fn prepare(&self, value: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: Invocation = arguments(value)?;
        if asked.task.trim().is_empty() || asked.task.chars().count() > TASK_CHARS {
            return Err(InvalidArguments {
                at: "task".to_owned(),
                what: format!("a task has 1 to {TASK_CHARS} characters"),
                fix: None,
            });
        }
        Ok(Box::new(Asked(asked)))
    }
}

/// The road itself runs the agent: it needs the kernel, which no tool has.
struct Asked(Invocation);

impl Prepared for Asked {
    fn paths(&self) -> &[RequestPath] {
        &[]
    }

    fn invocation(&self) -> Option<&Invocation> {
        Some(&self.0)
    }

    fn run(self: Box<Self>, _: &RunContext<'_>) -> Result<ToolOutput, ToolFailure> {
        Err(ToolFailure::Unavailable {
            tool: INVOKE.name.to_owned(),
            why: "nothing here runs agents".to_owned(),
            fix: "report this: the road runs them",
        })
    }
}

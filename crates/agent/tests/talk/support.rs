//! Hands that do what a test says, and a model that says what a test wants.

use airlock_agent::{
    Agent, AgentError, Asking, Handed, Hands, Leave, Limits, NoLeave, Outcome, Setup, Spent, Step,
    Tool, With,
};
use airlock_model::{Cancel, Model, Script, Scripted, Status};
use airlock_sanitise::Origin;
use serde_json::{Map, Value, json};
use std::sync::Mutex;

type Doing = dyn Fn(&str, &Map<String, Value>, &Cancel) -> Handed + Sync + Send;

/// Hands for a test.
pub(crate) struct Fake {
    pub(crate) doing: Box<Doing>,
    pub(crate) called: Mutex<Vec<String>>,
    pub(crate) spent: Mutex<Spent>,
    pub(crate) leave: Option<NoLeave>,
    pub(crate) phase: Option<String>,
}

impl Fake {
    pub(crate) fn new(
        doing: impl Fn(&str, &Map<String, Value>, &Cancel) -> Handed + Sync + Send + 'static,
    ) -> Self {
        Self {
            doing: Box::new(doing),
            called: Mutex::default(),
            spent: Mutex::default(),
            leave: None,
            phase: None,
        }
    }

    /// Every call is answered with `text`.
    pub(crate) fn saying(text: &str) -> Self {
        let text = text.to_owned();
        Self::new(move |_, _, _| handed(Status::Ok, &text))
    }
}

pub(crate) fn handed(status: Status, text: &str) -> Handed {
    Handed {
        status,
        text: text.to_owned(),
        origin: Origin::File("a.txt".to_owned()),
        flags: 0,
    }
}

impl Hands for Fake {
    fn tools(&self) -> Vec<Tool> {
        let tool = |name: &str, read_only| Tool {
            name: name.to_owned(),
            summary: format!("does {name}"),
            schema: json!({ "type": "object", "properties": { "path": { "type": "string" } } }),
            read_only,
        };
        vec![
            tool("fs.read", true),
            tool("fs.list", true),
            tool("fs.write", false),
            tool("test.run", false),
        ]
    }

    fn call(&self, name: &str, arguments: &Map<String, Value>, cancel: &Cancel) -> Handed {
        self.called.lock().unwrap().push(name.to_owned());
        (self.doing)(name, arguments, cancel)
    }

    fn phase(&self) -> Option<String> {
        self.phase.clone()
    }

    fn leave(&self, _: Asking<'_>) -> Result<Leave, NoLeave> {
        self.leave.clone().map_or(Ok(Leave::default()), Err)
    }

    fn spend(&self, spent: Spent) -> Result<(), NoLeave> {
        let mut all = self.spent.lock().unwrap();
        all.turns += spent.turns;
        all.tokens += spent.tokens;
        all.cost_micros += spent.cost_micros;
        Ok(())
    }
}

pub(crate) fn scripted(text: &str) -> Scripted {
    Scripted::new("script", Script::parse(text).unwrap())
}

pub(crate) fn agent(model: &dyn Model) -> Agent {
    let setup = Setup {
        workspace: "ws".to_owned(),
        limits: Limits {
            calls: 8,
            turns: 20,
        },
        role: None,
    };
    Agent::new(&setup, model)
}

/// Runs one message, and keeps what happened.
pub(crate) fn run(
    agent: &mut Agent,
    model: &dyn Model,
    hands: &Fake,
    message: &str,
) -> (Result<Outcome, AgentError>, Vec<Step>) {
    run_until(agent, model, hands, message, &Cancel::new())
}

pub(crate) fn run_until(
    agent: &mut Agent,
    model: &dyn Model,
    hands: &Fake,
    message: &str,
    cancel: &Cancel,
) -> (Result<Outcome, AgentError>, Vec<Step>) {
    let mut steps = Vec::new();
    let outcome = agent.run(
        message,
        With {
            model,
            hands,
            watch: &mut |step| steps.push(step),
            cancel,
        },
    );
    (outcome, steps)
}

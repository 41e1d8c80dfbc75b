//! MCP servers as plugins.

use crate::describe::ToolList;
use crate::message;
use crate::server::Server;
use airlock_plugin::boxed::{BoxRequest, Boxes};
use airlock_plugin::{
    CallError, Host, Instance, Pins, Sink, Start, StartError, ToolCall, ToolDescription,
    plain_settings,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How long a server has until it is ready, from its first line to its last tool.
const READY: Duration = Duration::from_secs(20);
/// How long it has to say that it is well.
const HEALTH: Duration = Duration::from_secs(5);
/// What the variable of a setting begins with.
const VARIABLE: &str = "PLUGIN_SETTING_";
/// The signal that asks a process to end.
const TERMINATE: u8 = 15;

/// Runs MCP servers in boxes.
#[derive(Debug)]
pub struct McpHost {
    boxes: Arc<Boxes>,
    ready: Duration,
}

impl McpHost {
    /// A host that runs servers in `boxes`.
    pub fn new(boxes: Arc<Boxes>) -> Self {
        Self {
            boxes,
            ready: READY,
        }
    }

    /// The same with another patience for a server that starts.
    #[must_use]
    pub const fn with_patience(mut self, ready: Duration) -> Self {
        self.ready = ready;
        self
    }
}

impl Host for McpHost {
    fn start(&self, start: Start) -> Result<Arc<dyn Instance>, StartError> {
        let running = self.boxes.start(&request(&start))?;
        let server = Server::new(running);
        let server = server.map_err(|error| StartError::Confinement(error.to_string()))?;
        let until = Instant::now() + self.ready;
        let tools = greet(&server, &start.configuration, until);
        let tools = tools.map_err(|error| self.unready(error, &server))?;
        check(&start.manifest.tools, &tools)?;
        Ok(Arc::new(McpInstance { server, tools }))
    }
}

impl McpHost {
    /// Why a server did not come to be ready.
    fn unready(&self, error: CallError, server: &Server) -> StartError {
        server.running().kill();
        match error {
            CallError::TimedOut(_) | CallError::Cancelled => StartError::TimedOut(self.ready),
            CallError::Ended(why) => StartError::Ended(why),
            CallError::Limit(limit) => {
                StartError::Ended(format!("it came to its limit of {limit}"))
            }
            CallError::TooMuch(most) => {
                StartError::Protocol(format!("it says a line of more than {most} bytes"))
            }
            CallError::Protocol(why) | CallError::Tool(why) => StartError::Protocol(why),
        }
    }
}

/// What is started, with the settings that are no secrets among its variables: a server that knows
/// nothing of Airlock can be told by those. A secret goes by the greeting only, because whatever
/// the server starts has its variables as well.
fn request(start: &Start) -> BoxRequest<'_> {
    let settings = plain_settings(&start.manifest, &start.configuration);
    let named = settings.into_iter().filter_map(|(name, value)| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '.';
        let is_plain = !name.is_empty() && name.chars().all(plain) && !value.contains('\0');
        let name = name.to_ascii_uppercase().replace(['-', '.'], "_");
        is_plain.then(|| (format!("{VARIABLE}{name}"), value))
    });
    named.fold(BoxRequest::of(start), |request, (name, value)| {
        request.with(&name, value)
    })
}

/// Says hello and asks for the tools.
fn greet(
    server: &Server,
    configuration: &Value,
    until: Instant,
) -> Result<Vec<ToolDescription>, CallError> {
    let never = AtomicBool::new(false);
    let ask = |question: &dyn Fn(u64) -> String| {
        let patience = until.saturating_duration_since(Instant::now());
        result(server.ask(patience, &never, question)?)
    };
    let has_settings = configuration.as_object().is_some_and(|all| !all.is_empty());
    let hello = if has_settings {
        ask(&|id| message::initialize_with(id, configuration))?
    } else {
        ask(&message::initialize)?
    };
    if !hello.get("protocolVersion").is_some_and(Value::is_string) {
        let why = "it answers the greeting without a version of the protocol";
        return Err(CallError::Protocol(why.to_owned()));
    }
    server.tell(message::initialized());
    if hello
        .get("capabilities")
        .and_then(|all| all.get("tools"))
        .is_none()
    {
        return Err(CallError::Protocol(
            "it says that it has no tools".to_owned(),
        ));
    }
    let mut list = ToolList::default();
    let mut params = json!({});
    loop {
        let page = ask(&|id| message::request(id, "tools/list", &params))?;
        match list.page(&page).map_err(CallError::Protocol)? {
            Some(next) => params = next,
            None => return Ok(list.finish()),
        }
    }
}

/// The result of an answer, if it is one.
fn result(mut answer: Value) -> Result<Value, CallError> {
    if let Some(why) = message::error_text(&answer) {
        return Err(CallError::Protocol(format!("it refused: {why}")));
    }
    let result = answer.get_mut("result").map(Value::take);
    result
        .ok_or_else(|| CallError::Protocol("its answer holds neither result nor error".to_owned()))
}

/// A plugin whose manifest describes tools must have those and no others.
fn check(described: &[ToolDescription], tools: &[ToolDescription]) -> Result<(), StartError> {
    if described.is_empty() {
        return Ok(());
    }
    let changes = Pins::of(described).compare(tools);
    match changes.into_iter().next() {
        None => Ok(()),
        Some((name, _)) => Err(StartError::Protocol(format!(
            "its tool `{name}` is not what its manifest says"
        ))),
    }
}

/// A running server.
#[derive(Debug)]
struct McpInstance {
    server: Server,
    tools: Vec<ToolDescription>,
}

impl Instance for McpInstance {
    fn tools(&self) -> &[ToolDescription] {
        &self.tools
    }

    fn call(
        &self,
        call: &ToolCall,
        _sink: &mut dyn Sink,
        cancelled: &AtomicBool,
    ) -> Result<Value, CallError> {
        let question = |id| message::call_within(id, call);
        let answer = self.server.ask(call.deadline, cancelled, question)?;
        if let Some(why) = message::error_text(&answer) {
            return Err(CallError::Tool(why));
        }
        let result = result(answer)?;
        if !result.is_object() {
            let why = "its result is no object".to_owned();
            return Err(CallError::Protocol(why));
        }
        let value = message::value(&result).map_err(CallError::Tool)?;
        let length = value
            .as_str()
            .map_or_else(|| value.to_string().len(), str::len);
        if length > call.max_output {
            return Err(CallError::TooMuch(call.max_output));
        }
        Ok(value)
    }

    fn health(&self) -> Result<(), CallError> {
        let question = |id| message::request(id, "ping", &json!({}));
        // An error is an answer: it hears and speaks.
        let answer = self.server.ask(HEALTH, &AtomicBool::new(false), question);
        answer.map(drop)
    }

    fn has_ended(&self) -> bool {
        self.server.running().has_ended()
    }

    fn report(&self) -> Value {
        let running = self.server.running();
        json!({
            "sandbox": running.sandbox(),
            "enforced": running.report(),
            "said": running.said(),
        })
    }

    fn stop(&self, grace: Duration) {
        self.server.hang_up();
        let running = self.server.running();
        if running.wait(grace / 2).is_none() {
            running.signal(TERMINATE);
            running.wait(grace / 2);
        }
        running.kill();
    }
}

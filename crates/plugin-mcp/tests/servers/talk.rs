//! A server in Python, and how it is talked to.

use crate::support::Fixture;
use airlock_plugin::{
    CallError, Callback, CallbackError, Grants, Host as _, Instance, Reach, Start, StartError,
    ToolCall,
};
use airlock_plugin_mcp::McpHost;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A server: answers in threads of their own, so that slow ones hold up nobody.
pub(crate) const SERVER: &str = include_str!("server.py");

/// Nothing here calls back.
struct Nobody;

impl Callback for Nobody {
    fn submit(&self, name: &str, _: &Value, _: Option<&str>) -> Result<Value, CallbackError> {
        panic!("`{name}` was asked for")
    }
}

/// A fixture whose server does `mode` besides.
pub(crate) fn server(mode: &str) -> Fixture {
    let mut fixture = Fixture::new(SERVER);
    fixture.manifest.execution.arguments = vec![mode.to_owned()];
    fixture
}

pub(crate) fn start(fixture: &Fixture) -> Result<Arc<dyn Instance>, StartError> {
    start_within(fixture, Duration::from_secs(20))
}

pub(crate) fn start_within(
    fixture: &Fixture,
    patience: Duration,
) -> Result<Arc<dyn Instance>, StartError> {
    let start = Start {
        manifest: Arc::new(fixture.manifest.clone()),
        directory: fixture.path("plugin"),
        entry: fixture.digest(),
        data: fixture.path("own/data"),
        grants: Grants::default(),
        configuration: Value::Null,
        reach: Reach {
            directory: fixture.path("own/reach"),
            callback: Arc::new(Nobody),
        },
    };
    McpHost::new(Arc::new(fixture.boxes()))
        .with_patience(patience)
        .start(start)
}

pub(crate) fn question(tool: &str, arguments: Value) -> ToolCall {
    ToolCall {
        action: "a".to_owned(),
        tool: tool.to_owned(),
        arguments,
        session: None,
        mode: None,
        deadline: Duration::from_secs(20),
        max_output: 1 << 20,
    }
}

pub(crate) fn call(
    instance: &dyn Instance,
    tool: &str,
    arguments: Value,
) -> Result<Value, CallError> {
    ask(instance, &question(tool, arguments))
}

pub(crate) fn ask(instance: &dyn Instance, call: &ToolCall) -> Result<Value, CallError> {
    instance.call(call, &mut Vec::new(), &AtomicBool::new(false))
}

/// A server that works as it should, whatever became of others.
pub(crate) fn all_is_well() {
    let fixture = server("plain");
    let instance = start(&fixture).unwrap();
    assert_eq!(
        call(&*instance, "echo", json!({ "text": "well" })),
        Ok(json!("well"))
    );
}

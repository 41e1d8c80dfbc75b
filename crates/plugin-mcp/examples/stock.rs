//! Runs a stock MCP server as a plugin, in a box, and calls one of its tools.
//!
//! `stock DIRECTORY TOOL ARGUMENTS` prints what the tool gave, as one JSON object with the names of
//! all tools. What does not go well is an error and a code other than 0.

#![cfg(target_os = "linux")]

use airlock_core::Digest;
use airlock_plugin::boxed::{Boxes, DISK, Ground};
use airlock_plugin::{
    Callback, CallbackError, Grants, Host as _, MANIFEST, Manifest, Reach, Start, ToolCall,
};
use airlock_plugin_mcp::McpHost;
use airlock_sandbox::presets::Facts;
use airlock_sandbox::{HostPath, Launcher, Outfit, Reach as Network, Surroundings};
use serde_json::{Value, json};
use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// There is no kernel here to be asked.
struct Nobody;

impl Callback for Nobody {
    fn submit(&self, _: &str, _: &Value, _: Option<&str>) -> Result<Value, CallbackError> {
        Err(CallbackError {
            code: "unavailable".to_owned(),
            message: "nobody is there".to_owned(),
            retryable: false,
        })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "stock DIRECTORY TOOL ARGUMENTS";
    let directory = PathBuf::from(arguments.next().ok_or(usage)?).canonicalize()?;
    let tool = arguments.next().ok_or(usage)?;
    let given: Value = serde_json::from_str(&arguments.next().ok_or(usage)?)?;
    let told = run(&directory, &tool, given)?;
    writeln!(std::io::stdout(), "{told}")?;
    Ok(())
}

fn run(directory: &Path, tool: &str, arguments: Value) -> Result<Value, Box<dyn Error>> {
    let own = tempfile::tempdir()?;
    let place = |name: &str| {
        let path = own.path().join(name);
        std::fs::create_dir(&path).map(|()| path)
    };
    let manifest = Manifest::parse(&std::fs::read(directory.join(MANIFEST))?)?;
    let entry = std::fs::read(directory.join(&manifest.execution.entry))?;
    let start = Start {
        entry: Digest::of(&entry),
        grants: Grants::find(&manifest.execution.sandbox, None)?,
        manifest: Arc::new(manifest),
        directory: directory.to_owned(),
        data: place("data")?,
        configuration: json!({}),
        reach: Reach {
            directory: place("reach")?,
            callback: Arc::new(Nobody),
        },
    };
    let boxes = Boxes::new(ground(own.path())?)?;
    let instance = McpHost::new(Arc::new(boxes)).start(start)?;
    let call = ToolCall {
        action: "stock".to_owned(),
        tool: tool.to_owned(),
        arguments,
        session: None,
        mode: None,
        deadline: Duration::from_secs(30),
        max_output: 1 << 20,
    };
    let value = instance.call(&call, &mut Vec::new(), &AtomicBool::new(false))?;
    let tools: Vec<&str> = instance.tools().iter().map(|tool| &*tool.name).collect();
    let told = json!({ "value": value, "tools": tools });
    instance.stop(Duration::from_secs(2));
    Ok(told)
}

#[expect(
    clippy::disallowed_methods,
    reason = "it is a program of its own, and toolchains are found by the environment"
)]
fn ground(own: &Path) -> Result<Ground, Box<dyn Error>> {
    let home = HostPath::new(own.join("home"))?;
    let surroundings = Surroundings {
        own: vec![HostPath::new(own)?],
        home: Some(home.clone()),
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let facts = Facts {
        surroundings: &surroundings,
        environment: &std::iter::once(("PATH".into(), path)).collect(),
        workspace: &HostPath::new(own.join("workspace"))?,
        network: Network::None,
    };
    Ok(Ground {
        outfit: Outfit::look(&facts, &home),
        surroundings,
        launcher: Launcher::Native,
        place: own.join("place"),
        disk: DISK,
    })
}

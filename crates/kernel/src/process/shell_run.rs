//! `shell.run`: a shell command line, with a capability of its own.
//!
//! What a line will run cannot be told from it, so the policy's `commands` say nothing about it:
//! a rule allows shells or it does not, and none does by default. The sandbox is the same.

use super::exec_run::{Bounds, Boxed, check_environment, directory, invalid};
use super::failure::CheckId;
use super::job::{Job, Listing};
use crate::beneath::Root;
use crate::tools::{
    Arguments, InvalidArguments, Keep, Prepared, Tool, ToolSchema, ToolSpec, parse_arguments,
};
use airlock_core::Tier;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Longest line, in bytes (IV-05).
const LINE_BYTES: usize = 64 * 1024;

/// Arguments of `shell.run`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ShellArguments {
    /// The command line, as `sh` reads it.
    command: String,
    /// Where to start, beneath the workspace. Absent: its root.
    #[serde(default)]
    directory: Option<String>,
    /// Variables to set, besides the usual ones.
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// Longest run, such as `30s`: 1 s to 10 min. Absent: 30 s.
    #[serde(default)]
    timeout: Option<String>,
    /// Most memory, such as `512MiB`: 64 MiB to 4 GiB. Absent: 512 MiB.
    #[serde(default)]
    memory: Option<String>,
}

impl Arguments for ShellArguments {
    const FIELDS: &'static [&'static str] =
        &["command", "directory", "environment", "timeout", "memory"];
}

static SPEC: ToolSpec = ToolSpec {
    name: "shell.run",
    summary: "Run a shell command line in a sandbox, against a stage; off unless policy allows it",
    syscall: "shell.run",
    tier: Tier::Process,
    read_only: false,
    keep: Keep::Middle,
    schema: ToolSchema::of::<ShellArguments>(),
    examples: &[r#"{"command": "ls -l | wc -l"}"#],
};

/// The tool.
pub(crate) struct ShellRun;

impl Tool for ShellRun {
    fn spec(&self) -> &'static ToolSpec {
        &SPEC
    }

    fn prepare(&self, value: &Value, root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: ShellArguments = parse_arguments(value)?;
        let line = asked.command;
        let wrong = if line.trim().is_empty() {
            Some((CheckId::Arguments, "the command line is empty".to_owned()))
        } else if line.contains('\0') {
            Some((CheckId::Arguments, "it contains a NUL byte".to_owned()))
        } else if line.len() > LINE_BYTES {
            Some((CheckId::Sizes, format!("over {LINE_BYTES} bytes")))
        } else {
            None
        };
        if let Some((id, what)) = wrong {
            return Err(invalid(id, "command", &what, "write a script and run that"));
        }
        check_environment(&asked.environment)?;
        let bounds = Bounds {
            timeout: asked.timeout.as_deref(),
            memory: asked.memory.as_deref(),
            ..Bounds::default()
        };
        Ok(Box::new(Boxed(Job {
            directory: directory(asked.directory.as_deref(), root)?,
            environment: asked.environment,
            limits: bounds.limits()?,
            listing: Listing::Own,
            ..Job::of(["sh", "-c", &line].map(str::to_owned).to_vec())?
        })))
    }
}

//! `exec.own`: a command the person typed, which `airlock exec` asks for.
//!
//! It needs no entry in the policy's `commands`, since the person's typing it is the word for it,
//! and may be granted more of the machine. So no other front can call it.

use super::contract::Terms;
use super::exec_run::{Boxed, check_environment, directory, invalid, template, unit};
use super::failure::CheckId;
use super::job::{Asked, Job, Listing, Staging, Work};
use super::wrappers;
use crate::beneath::Root;
use crate::fronts::Front;
use crate::tools::{InvalidArguments, Keep, Prepared, Tool, ToolSpec};
use airlock_core::{ByteSize, RequestPath, Span, Tier};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The program and its arguments.
    command: Vec<String>,
    /// The sandbox template. Absent: `code-executor`.
    #[serde(default)]
    template: Option<String>,
    /// Where to start, beneath the workspace.
    #[serde(default)]
    directory: Option<String>,
    /// Paths it may read besides the workspace.
    #[serde(default)]
    allow_read: Vec<String>,
    /// Paths it may read and write besides the workspace.
    #[serde(default)]
    allow_write: Vec<String>,
    /// Patterns of what it may not read or write.
    #[serde(default)]
    deny: Vec<String>,
    /// Variables to set.
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// Variables to pass on.
    #[serde(default)]
    inherit: Vec<String>,
    /// Longest run. Absent: the template's.
    #[serde(default)]
    timeout: Option<String>,
    /// Most memory. Absent: the template's.
    #[serde(default)]
    memory: Option<String>,
    /// Most processes and threads. Absent: the template's.
    #[serde(default)]
    pids: Option<u32>,
    /// The stage. Absent: `default`.
    #[serde(default)]
    stage: Option<String>,
    /// Whether to show the workspace read-only instead of a stage.
    #[serde(default)]
    no_stage: bool,
}

static SPEC: ToolSpec = ToolSpec {
    name: "exec.own",
    summary: "Run a command the person typed, in a sandbox",
    syscall: "exec.run",
    tier: Tier::Process,
    read_only: false,
    keep: Keep::Middle,
    schema: || schemars::schema_for!(Arguments).to_value(),
    examples: &[r#"{"command": ["make", "test"]}"#],
};

pub(super) struct Own;

impl Tool for Own {
    fn spec(&self) -> &'static ToolSpec {
        &SPEC
    }

    fn open_to(&self, front: Front) -> bool {
        match front {
            Front::Cli => true,
            Front::Agent | Front::Mcp | Front::Server | Front::Plugin => false,
        }
    }

    fn prepare(&self, value: &Value, root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: Arguments =
            serde_path_to_error::deserialize(value).map_err(|error| InvalidArguments {
                at: error.path().to_string().trim_start_matches('.').to_owned(),
                what: error.inner().to_string(),
                fix: None,
            })?;
        if asked.command.first().is_none_or(String::is_empty) {
            let fix = "name a program after `--`";
            return Err(invalid(
                CheckId::Arguments,
                "command",
                "no program is named",
                fix,
            ));
        }
        let template = template(asked.template.as_deref().unwrap_or("code-executor"))?;
        check_environment(&asked.environment)?;
        let limits = limits(&asked, template)?;
        let grants = |paths: Vec<String>| -> Result<Vec<String>, InvalidArguments> {
            paths.iter().map(|path| absolute(path, root)).collect()
        };
        // A command that cannot be looked through is the person's own business.
        let inner = wrappers::inner(&asked.command).unwrap_or(0);
        Ok(Box::new(Boxed(Job {
            template,
            inner,
            directory: directory(asked.directory.as_deref(), root)?,
            reads: grants(asked.allow_read)?,
            writes: grants(asked.allow_write)?,
            denials: asked.deny.iter().map(|glob| denial(glob, root)).collect(),
            inherited: asked.inherit,
            environment: asked.environment,
            limits,
            staging: match (asked.no_stage, asked.stage) {
                (true, _) => Staging::None,
                (false, None) => Staging::Session,
                (false, Some(name)) => Staging::Stage(name),
            },
            stdin: None,
            listing: Listing::Person,
            work: Work::Command,
            terms: Terms::default(),
            command: asked.command,
        })))
    }
}

fn limits(
    asked: &Arguments,
    template: &'static airlock_sandbox::Template,
) -> Result<Asked, InvalidArguments> {
    let most = template.limits;
    let above = |at: &'static str, most: String| {
        let what = format!("it is above the {most} of the template `{}`", template.name);
        invalid(CheckId::Sizes, at, &what, &format!("give at most {most}"))
    };
    let duration: Option<Span> = unit("timeout", asked.timeout.as_deref())?;
    let memory: Option<ByteSize> = unit("memory", asked.memory.as_deref())?;
    if duration > Some(most.duration) {
        return Err(above("timeout", most.duration.to_string()));
    }
    if memory > Some(most.memory) {
        return Err(above("memory", most.memory.to_string()));
    }
    if asked.pids > Some(most.pids) {
        return Err(above("pids", most.pids.to_string()));
    }
    Ok(Asked {
        duration,
        memory,
        cpus: None,
        pids: asked.pids,
    })
}

fn absolute(path: &str, root: &Root) -> Result<String, InvalidArguments> {
    RequestPath::parse(path, root.path())
        .map(|parsed| parsed.absolute(root.path()))
        .map_err(|error| {
            let fix = "name an existing file or directory";
            invalid(CheckId::Paths, "allow_read", &error.to_string(), fix)
        })
}

/// A pattern as the plan reads it: what begins nowhere in particular is beneath the workspace.
fn denial(glob: &str, root: &Root) -> String {
    if glob.starts_with('/') || glob.starts_with("~/") || glob.starts_with("**/") {
        return glob.to_owned();
    }
    let special = |c: char| if "*?[]{}\\!".contains(c) { '?' } else { c };
    let root: String = root.path().chars().map(special).collect();
    format!("{root}/{glob}")
}

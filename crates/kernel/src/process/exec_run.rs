//! `exec.run`: a program and its arguments, under the execution contract.

use super::checks;
use super::failure::CheckId;
use super::job::{Asked, Job};
use super::plan::bounded;
use super::wrappers;
use crate::beneath::Root;
use crate::tools::{
    InvalidArguments, Keep, Prepared, RunContext, Tool, ToolFailure, ToolOutput, ToolSpec,
};
use airlock_core::{ByteSize, Request, RequestPath, Span, Tier};
use airlock_sandbox::Template;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::str::FromStr;

/// A program to be run in a sandbox, against a stage of the workspace.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// The program and its arguments, one element each; never a shell command line.
    command: Vec<String>,
    /// Where to start, beneath the workspace. Absent: its root.
    #[serde(default)]
    directory: Option<String>,
    /// Variables to set, besides the usual ones.
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// What it reads on standard input. Absent: nothing.
    #[serde(default)]
    stdin: Option<String>,
    /// Longest run, such as `30s`: 1 s to 10 min, and no longer than the template's 5 min.
    #[serde(default)]
    timeout: Option<String>,
    /// Most memory, such as `512MiB`: 64 MiB to 4 GiB, and no more than the template's 1 GiB.
    #[serde(default)]
    memory: Option<String>,
    /// Most processors, 1 to 4, and no more than the template's 1.
    #[serde(default)]
    cpus: Option<u32>,
    /// Most processes and threads it may have besides itself: 0 to 100.
    #[serde(default)]
    child_processes: Option<u32>,
}

pub(super) const TEMPLATE: &str = "code-executor";
const TIMEOUT: Span = Span::from_secs(30);
const MEMORY: ByteSize = ByteSize::from_bytes(512 << 20);
const CHILDREN: u32 = 10;
const GIB: u64 = 1 << 30;

static SPEC: ToolSpec = ToolSpec {
    name: "exec.run",
    summary: "Run a program in a sandbox, against a stage of the workspace",
    syscall: "exec.run",
    tier: Tier::Process,
    read_only: false,
    keep: Keep::Middle,
    schema: || schemars::schema_for!(Arguments).to_value(),
    examples: &[
        r#"{"command": ["cargo", "test"]}"#,
        r#"{"command": ["python3", "-m", "pytest", "-q"], "timeout": "2m"}"#,
    ],
};

/// A finding of a check, as the argument that is wrong.
pub(super) fn invalid(id: CheckId, at: &str, what: &str, fix: &str) -> InvalidArguments {
    InvalidArguments {
        at: at.to_owned(),
        what: format!("{id}: {what}"),
        fix: Some(fix.to_owned()),
    }
}

/// Reads a size or a time.
pub(super) fn unit<T>(at: &str, text: Option<&str>) -> Result<Option<T>, InvalidArguments>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    text.map(str::parse).transpose().map_err(|error: T::Err| {
        invalid(
            CheckId::Sizes,
            at,
            &error.to_string(),
            "write it as 30s or 512MiB",
        )
    })
}

/// A template by its name.
pub(super) fn template(name: &str) -> Result<&'static Template, InvalidArguments> {
    Template::find(name).ok_or_else(|| {
        let names: Vec<&str> = airlock_sandbox::TEMPLATES.iter().map(|t| t.name).collect();
        let shown: String = name.chars().take(60).collect();
        InvalidArguments {
            at: "template".to_owned(),
            what: format!("there is no template `{shown}`"),
            fix: Some(format!("the templates are {}", names.join(", "))),
        }
    })
}

/// A directory beneath the workspace (IV-03).
pub(super) fn directory(
    text: Option<&str>,
    root: &Root,
) -> Result<Option<String>, InvalidArguments> {
    let Some(text) = text else {
        return Ok(None);
    };
    let parsed = RequestPath::parse(text, root.path());
    let inside = parsed.ok().and_then(|path| {
        let inside = path.inside()?;
        Some(if inside.is_root() {
            String::new()
        } else {
            inside.as_str().to_owned()
        })
    });
    inside.map(Some).ok_or_else(|| {
        let fix = "name a directory beneath the workspace";
        invalid(
            CheckId::Paths,
            "directory",
            "it is not beneath the workspace",
            fix,
        )
    })
}

/// A job that is well formed.
pub(super) struct Boxed(pub(super) Job);

impl Prepared for Boxed {
    fn paths(&self) -> &[RequestPath] {
        &[]
    }

    fn describe(&self, request: &mut Request) {
        // Rules on commands mean what is really run, not the `env` before it.
        request.command = self
            .0
            .program()
            .iter()
            .map(|word| word.as_str().into())
            .collect();
        request.template = Some(self.0.template.name.into());
    }

    fn job(&self) -> Option<&Job> {
        Some(&self.0)
    }

    fn run(self: Box<Self>, _: &RunContext<'_>) -> Result<ToolOutput, ToolFailure> {
        // The road runs a job itself; there is nothing to do in the kernel's own process.
        Err(ToolFailure::TierUnavailable {
            tier: Tier::Process,
        })
    }
}

/// The tool.
pub(crate) struct ExecRun;

impl Tool for ExecRun {
    fn spec(&self) -> &'static ToolSpec {
        &SPEC
    }

    fn prepare(&self, value: &Value, root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: Arguments =
            serde_path_to_error::deserialize(value).map_err(|error| InvalidArguments {
                at: error.path().to_string().trim_start_matches('.').to_owned(),
                what: error.inner().to_string(),
                fix: None,
            })?;
        checks::well_formed(&asked.command, asked.stdin.as_deref())
            .map_err(|(id, at, what, fix)| invalid(id, at, &what, fix))?;
        let inner = wrappers::inner(&asked.command)
            .map_err(|opaque| invalid(CheckId::Command, "command", &opaque.what, opaque.fix))?;
        let bounds = Bounds {
            timeout: asked.timeout.as_deref(),
            memory: asked.memory.as_deref(),
            cpus: asked.cpus,
            child_processes: asked.child_processes,
        };
        let limits = bounds.limits()?;
        check_environment(&asked.environment)?;
        Ok(Box::new(Boxed(Job {
            inner,
            directory: directory(asked.directory.as_deref(), root)?,
            environment: asked.environment,
            limits,
            stdin: asked.stdin,
            ..Job::of(asked.command)?
        })))
    }
}

/// The limits a caller asks for, as written.
#[derive(Debug, Default)]
pub(super) struct Bounds<'a> {
    pub(super) timeout: Option<&'a str>,
    pub(super) memory: Option<&'a str>,
    pub(super) cpus: Option<u32>,
    pub(super) child_processes: Option<u32>,
}

impl Bounds<'_> {
    /// The limits, each in its range.
    pub(super) fn limits(&self) -> Result<Asked, InvalidArguments> {
        let template = template(TEMPLATE)?;
        let most = template.limits;
        let refused =
            |(id, at, what, fix): (CheckId, &str, String, String)| invalid(id, at, &what, &fix);
        let timeout: Option<Span> = unit("timeout", self.timeout)?;
        let memory: Option<ByteSize> = unit("memory", self.memory)?;
        let named = template.name;
        let (least, longest) = (Span::from_secs(1), Span::from_secs(600));
        let duration = bounded("timeout", timeout, least, longest, (named, most.duration));
        let (smallest, largest) = (
            ByteSize::from_bytes(GIB / 16),
            ByteSize::from_bytes(4 * GIB),
        );
        let memory = bounded("memory", memory, smallest, largest, (named, most.memory));
        let cpus = bounded("cpus", self.cpus, 1, 4, (named, most.cpus / 1000));
        let children = bounded(
            "child_processes",
            self.child_processes,
            0,
            100,
            (named, 100),
        );
        // The template counts the program itself, the contract only what it starts.
        let children = children.map_err(refused)?.unwrap_or(CHILDREN);
        Ok(Asked {
            duration: duration.map_err(refused)?.or(Some(TIMEOUT)),
            memory: memory.map_err(refused)?.or(Some(MEMORY)),
            cpus: cpus.map_err(refused)?.or(Some(1)).map(|cpus| cpus * 1000),
            pids: Some(children + 1),
        })
    }
}

/// Most variables, and most bytes of one (IV-05).
const VARIABLES: usize = 64;
const VARIABLE_BYTES: usize = 32 * 1024;

/// IV-04: no variable that makes a program load or trust something else.
pub(super) fn check_environment(
    variables: &BTreeMap<String, String>,
) -> Result<(), InvalidArguments> {
    if variables.is_empty() {
        return Ok(());
    }
    let large = |(name, value): (&String, &String)| name.len() + value.len() > VARIABLE_BYTES;
    if variables.len() > VARIABLES || variables.iter().any(large) {
        let what = format!("over {VARIABLES} variables, or one over {VARIABLE_BYTES} bytes");
        return Err(invalid(
            CheckId::Sizes,
            "environment",
            &what,
            "pass it in a file",
        ));
    }
    let template = template(TEMPLATE)?;
    let around = airlock_sandbox::Surroundings::default();
    let plan = airlock_sandbox::Plan::builder(template, &around);
    let plan = variables
        .iter()
        .fold(plan, |plan, (name, value)| plan.set(name, value));
    plan.build().map(drop).map_err(|error| {
        let first = error.problems().first();
        let what = first.map(ToString::to_string).unwrap_or_default();
        let fix = first
            .map(airlock_sandbox::Problem::hint)
            .unwrap_or_default();
        invalid(CheckId::Environment, "environment", &what, fix)
    })
}

//! `exec.run`: a program and its arguments, under the execution contract.

use super::checks;
use super::contract::Terms;
use super::failure::CheckId;
use super::job::{Asked, Job};
use crate::beneath::Root;
use crate::tools::{
    InvalidArguments, Keep, Prepared, RunContext, Tool, ToolFailure, ToolOutput, ToolSchema,
    ToolSpec,
};
use airlock_core::{ByteSize, Request, RequestPath, Span, Tier, programs};
use airlock_sandbox::Template;
use airlock_sandbox::plan::{Limits, OwnVariable};
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
    /// Longest run, such as `2m`: 1 s to 10 min. Absent: 30 s.
    #[serde(default)]
    timeout: Option<String>,
    /// Most memory, such as `1GiB`: 64 MiB to 4 GiB. Absent: 512 MiB.
    #[serde(default)]
    memory: Option<String>,
    /// Most processors, 1 to 4. Absent: 1.
    #[serde(default)]
    cpus: Option<u32>,
    /// Most processes and threads it may have besides itself: 0 to 100. Absent: 10.
    #[serde(default)]
    child_processes: Option<u32>,
    /// Files it needs, relative to the workspace root: without them it is not run.
    #[serde(default)]
    inputs: Vec<String>,
    /// Files it is to leave, relative to the workspace root: the result has what is in them, 10 MiB
    /// of all together.
    #[serde(default)]
    outputs: Vec<String>,
    /// What it is run for, in a few words; whoever is asked about it and the log are told.
    #[serde(default)]
    purpose: Option<String>,
}

pub(super) const TEMPLATE: &str = "code-executor";
const TIMEOUT: Span = Span::from_secs(30);
const MEMORY: ByteSize = ByteSize::from_bytes(512 << 20);
const CHILDREN: u32 = 10;
/// The contract's least; its most is [`Limits::CONTRACT`].
const LEAST_TIMEOUT: Span = Span::from_secs(1);
pub(super) const LEAST_MEMORY: ByteSize = ByteSize::from_bytes(64 << 20);

static SPEC: ToolSpec = ToolSpec {
    name: "exec.run",
    summary: "Run a program in a sandbox, against a stage of the workspace",
    syscall: "exec.run",
    tier: Tier::Process,
    read_only: false,
    keep: Keep::Middle,
    schema: ToolSchema::of::<Arguments>(),
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
        let inner = programs::inner(&asked.command)
            .map_err(|opaque| invalid(CheckId::Command, "command", &opaque.what, opaque.fix))?;
        let bounds = Bounds {
            timeout: asked.timeout.as_deref(),
            memory: asked.memory.as_deref(),
            cpus: asked.cpus,
            child_processes: asked.child_processes,
        };
        let limits = bounds.limits()?;
        check_environment(&asked.environment)?;
        let terms = Terms::of(&asked.inputs, &asked.outputs, asked.purpose, root)?;
        Ok(Box::new(Boxed(Job {
            inner,
            terms,
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
    /// The limits, each in the contract's range.
    pub(super) fn limits(&self) -> Result<Asked, InvalidArguments> {
        let most = Limits::CONTRACT;
        let timeout: Option<Span> = unit("timeout", self.timeout)?;
        let memory: Option<ByteSize> = unit("memory", self.memory)?;
        let duration = bounded("timeout", timeout, LEAST_TIMEOUT, most.duration)?;
        let memory = bounded("memory", memory, LEAST_MEMORY, most.memory)?;
        let cpus = bounded("cpus", self.cpus, 1, most.cpus / 1000)?;
        // A sandbox counts the program itself, the contract only what it starts.
        let children = bounded("child_processes", self.child_processes, 0, most.pids - 1)?;
        Ok(Asked {
            duration: duration.or(Some(TIMEOUT)),
            memory: memory.or(Some(MEMORY)),
            cpus: cpus.or(Some(1)).map(|cpus| cpus * 1000),
            pids: children.or(Some(CHILDREN)).map(|children| children + 1),
        })
    }
}

/// A limit out of its range is refused with the range, not moved behind the caller's back (IV-05).
fn bounded<T: PartialOrd + Copy + std::fmt::Display>(
    name: &'static str,
    asked: Option<T>,
    least: T,
    most: T,
) -> Result<Option<T>, InvalidArguments> {
    match asked {
        Some(asked) if asked < least || asked > most => {
            let what = format!("`{asked}` is out of range");
            let fix = format!("give {least} to {most}");
            Err(invalid(CheckId::Sizes, name, &what, &fix))
        }
        asked => Ok(asked),
    }
}

/// Most variables, and most bytes of one (IV-05).
const VARIABLES: usize = 64;
const VARIABLE_BYTES: usize = 32 * 1024;

/// No variable that every sandbox sets to a place of its own: what is asked for would not be there.
pub(super) fn check_own<'a>(
    at: &str,
    names: impl IntoIterator<Item = &'a String>,
) -> Result<(), InvalidArguments> {
    let own = |name: &&String| {
        let mut own = OwnVariable::ALWAYS.iter().flat_map(|own| own.names());
        own.any(|own| own == name)
    };
    let Some(name) = names.into_iter().find(own) else {
        return Ok(());
    };
    let what = format!("a sandbox sets `{name}` itself");
    let fix = format!("set it inside: `env {name}=VALUE PROGRAM`");
    Err(invalid(CheckId::Environment, at, &what, &fix))
}

/// IV-04: no variable that makes a program load or trust something else.
pub(super) fn check_environment(
    variables: &BTreeMap<String, String>,
) -> Result<(), InvalidArguments> {
    if variables.is_empty() {
        return Ok(());
    }
    check_own("environment", variables.keys())?;
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

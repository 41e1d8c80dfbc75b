//! `test.run`: the project's own tests, found by what the project looks like, and counted.
//!
//! Guarantee: the command is one of Airlock's own, or the configured one; a caller chooses a
//! framework and a filter, never further arguments. It runs in a sandbox, against the stage.
//! Non-guarantee: counts are read from what the framework printed, which the tests themselves can
//! imitate. Whether the run as a whole succeeded is the exit code's to say.

mod count;
mod detect;
mod lcov;

pub(super) use count::counted;
pub(super) use lcov::coverage;

use super::exec_run::{Bounds, Boxed, invalid};
use super::failure::CheckId;
use super::job::{Job, Listing, Work};
use crate::beneath::Root;
use crate::tools::{
    Arguments, InvalidArguments, Keep, Prepared, Tool, ToolSpec, parse_arguments, schema_of,
};
use airlock_core::Tier;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A way to run tests that is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Framework {
    /// `cargo test`.
    Cargo,
    /// `go test`.
    Go,
    /// `pytest`.
    Pytest,
    /// `npm test`, or `node --test`.
    Node,
}

/// What is to be made of a test run's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) framework: Framework,
    pub(super) coverage: bool,
}

/// Arguments of `test.run`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TestArguments {
    /// The framework. Absent: the one the project's files give away.
    #[serde(default)]
    framework: Option<Framework>,
    /// Only tests whose name contains, or with go and pytest matches, this.
    #[serde(default)]
    filter: Option<String>,
    /// Also read the coverage the run leaves as lcov.
    #[serde(default)]
    coverage: bool,
    /// Longest run: 1 s to 10 min, and no longer than the template's 5 min, which is the default.
    #[serde(default)]
    timeout: Option<String>,
    /// Most memory: 64 MiB to 4 GiB, and no more than the template's 1 GiB, which is the default.
    #[serde(default)]
    memory: Option<String>,
}

impl Arguments for TestArguments {
    const FIELDS: &'static [&'static str] =
        &["framework", "filter", "coverage", "timeout", "memory"];
}

static SPEC: ToolSpec = ToolSpec {
    name: "test.run",
    summary: "Run the project's tests (cargo, go, pytest, node) in a sandbox, and count them",
    syscall: "test.run",
    tier: Tier::Process,
    read_only: false,
    keep: Keep::Tail,
    schema: schema_of::<TestArguments>,
    examples: &["{}", r#"{"framework": "pytest", "filter": "parse"}"#],
};

/// The tool.
pub(crate) struct TestRun;

/// Processes and threads a test run may have: compilers and test runners start many.
const PIDS: u32 = 100;

impl Tool for TestRun {
    fn spec(&self) -> &'static ToolSpec {
        &SPEC
    }

    fn prepare(&self, value: &Value, root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: TestArguments = parse_arguments(value)?;
        let framework = asked.framework.or_else(|| detect::framework(root));
        let framework = framework.ok_or_else(|| InvalidArguments {
            at: "framework".to_owned(),
            what: "nothing here gives away how this project is tested".to_owned(),
            fix: Some("name cargo, go, pytest or node, or use `exec.run`".to_owned()),
        })?;
        let filter = asked.filter.as_deref().map(filter).transpose()?;
        let bounds = Bounds {
            timeout: Some(asked.timeout.as_deref().unwrap_or("5m")),
            memory: Some(asked.memory.as_deref().unwrap_or("1GiB")),
            ..Bounds::default()
        };
        let mut limits = bounds.limits()?;
        limits.pids = Some(PIDS);
        Ok(Box::new(Boxed(Job {
            limits,
            listing: Listing::Own,
            work: Work::Tests(Reading {
                framework,
                coverage: asked.coverage,
            }),
            ..Job::of(detect::command(framework, filter, root))?
        })))
    }
}

/// A filter is a name or a pattern, never an option.
fn filter(text: &str) -> Result<&str, InvalidArguments> {
    let wrong = text.is_empty() || text.starts_with('-') || text.contains('\0') || text.len() > 500;
    if wrong {
        let what = "it is empty, begins with `-`, or is longer than 500 bytes";
        let fix = "give a part of the tests' names";
        return Err(invalid(CheckId::Arguments, "filter", what, fix));
    }
    Ok(text)
}

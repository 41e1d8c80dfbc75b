//! `test.run`: the project's own tests, found by what the project looks like, and counted.
//!
//! Guarantee: the command is one of Airlock's own, or the configured one; a caller chooses a
//! framework and a filter, never further arguments. It runs in a sandbox, against the stage.
//! Non-guarantee: counts are read from what the framework printed, which the tests themselves can
//! imitate. Whether the run as a whole succeeded is the exit code's to say.

mod count;
mod detect;
mod measure;
mod python;
mod report;

pub(super) use count::counted;
pub(super) use measure::{BESIDE, parted};
pub(crate) use measure::{Missing, Variation};
pub(crate) use report::Measured;
pub(super) use report::{Seen, told as told_coverage};

use super::exec_run::{Bounds, Boxed, invalid};
use super::failure::CheckId;
use super::job::{Asked, Job, Listing, Staging, Work};
use crate::beneath::Root;
use crate::policy_store::PolicyStore;
use crate::tools::{
    Arguments, InvalidArguments, Keep, Prepared, Tool, ToolSchema, ToolSpec, parse_arguments,
};
use airlock_core::{ByteSize, Span, Tier};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

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

impl Framework {
    /// The same, as the discipline knows it.
    const fn known(self) -> airlock_phases::Framework {
        match self {
            Self::Cargo => airlock_phases::Framework::Cargo,
            Self::Go => airlock_phases::Framework::Go,
            Self::Pytest => airlock_phases::Framework::Pytest,
            Self::Node => airlock_phases::Framework::Node,
        }
    }
}

/// What is to be made of a test run's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) framework: Framework,
    pub(super) coverage: bool,
    /// Whether all tests are run.
    pub(super) whole: bool,
    /// Who says that these are the project's tests.
    pub(super) said_by: SaidBy,
    /// Further frameworks that the project gives away, each with its command.
    pub(super) others: Vec<(Framework, Vec<String>)>,
    /// The command that runs them and nothing else.
    pub(super) plain: Vec<String>,
    /// Whether that is the policy's.
    pub(super) configured: bool,
    /// What stands before and behind the report in the output, where there is one.
    pub(super) mark: Option<String>,
}

/// Who says which tests are those of the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SaidBy {
    /// The policy, by its command.
    Policy,
    /// The files of the real tree.
    Tree,
    /// The caller, or what the stage adds: nothing in the real tree says it.
    Caller,
    /// The caller, though the real tree says otherwise.
    CallerAlone,
}

/// A run of the tests, for whoever judges it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TestJob {
    pub(crate) framework: airlock_phases::Framework,
    /// Whether all tests are run.
    pub(crate) whole: bool,
    pub(crate) said_by: SaidBy,
}

impl Job {
    /// What it tests, if it does.
    pub(crate) fn tests(&self) -> Option<TestJob> {
        match &self.work {
            Work::Tests(reading) => Some(TestJob {
                framework: reading.framework.known(),
                whole: reading.whole,
                said_by: reading.said_by,
            }),
            Work::Command | Work::Files(_) | Work::Git(_) | Work::Unavailable(_) => None,
        }
    }

    /// The same with the tests of each further framework that the project gives away.
    pub(crate) fn other_tests(&self) -> Vec<Self> {
        let Work::Tests(reading) = &self.work else {
            return Vec::new();
        };
        let others = reading.others.iter().map(|(framework, command)| Self {
            command: command.clone(),
            stdin: None,
            work: Work::Tests(Reading {
                framework: *framework,
                coverage: false,
                others: Vec::new(),
                plain: command.clone(),
                mark: None,
                ..reading.clone()
            }),
            ..self.clone()
        });
        others.collect()
    }

    /// The same on a stage of its own called `name`, where nothing is changed; within the usual
    /// limits or wider ones, so that a caller cannot keep it from coming to its end.
    pub(crate) fn of_the_tree(&self, name: &str) -> Self {
        let mut limits = self.limits;
        limits.duration = limits.duration.map(|own| own.max(DURATION));
        limits.memory = limits.memory.map(|own| own.max(MEMORY));
        Self {
            staging: Staging::Stage(name.to_owned()),
            limits,
            ..self.varied(&Variation::default())
        }
    }
}

impl Job {
    /// The same on the stage `name`.
    pub(crate) fn on_stage(&self, name: &str) -> Self {
        Self {
            staging: Staging::Stage(name.to_owned()),
            ..self.clone()
        }
    }

    /// What the tests of the stage `name` are built by, which runs none of them. It stays for the runs
    /// over it, and may have to build everything. None where nothing is built that could stay, or only
    /// the project knows how.
    pub(crate) fn built_on(&self, name: &str) -> Option<Self> {
        let Work::Tests(reading) = &self.work else {
            return None;
        };
        let built = Reading {
            coverage: false,
            plain: reading.built()?,
            ..reading.clone()
        };
        let job = Self {
            work: Work::Tests(built),
            ..self.clone()
        };
        Some(Self {
            stays: true,
            ..job.of_the_merge(name)
        })
    }

    /// The run on the stage `name`, which holds what would be merged. It may have to build everything,
    /// for which it has longer than `test.run`.
    pub(crate) fn of_the_merge(&self, name: &str) -> Self {
        let Self { limits, .. } = self.of_the_tree(name);
        let longer = |own: Span| Span::from_millis(own.as_millis().saturating_mul(LONGER));
        Self {
            limits: Asked {
                duration: limits.duration.map(longer),
                ..limits
            },
            ..self.on_stage(name).varied(&Variation {
                measured: self.is_measured(),
                ..Variation::default()
            })
        }
    }

    /// The words its sandbox is started with.
    pub(super) fn started(&self) -> Cow<'_, [String]> {
        match &self.work {
            Work::Tests(reading) if reading.framework == Framework::Pytest => {
                Cow::Owned(python::started(&self.command))
            }
            Work::Tests(_)
            | Work::Command
            | Work::Files(_)
            | Work::Git(_)
            | Work::Unavailable(_) => Cow::Borrowed(&self.command),
        }
    }

    /// Whether it is to tell which lines the tests run.
    pub(crate) fn is_measured(&self) -> bool {
        matches!(&self.work, Work::Tests(reading) if reading.coverage)
    }

    /// Whether what it covers is told by a file that it leaves.
    pub(crate) fn leaves_report(&self) -> bool {
        matches!(&self.work, Work::Tests(reading) if reading.configured && reading.coverage)
    }
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
    /// Also measure which lines of the source the tests run.
    #[serde(default)]
    coverage: bool,
    /// Longest run: 1 s to 10 min. Absent: 5 min.
    #[serde(default)]
    timeout: Option<String>,
    /// Most memory: 64 MiB to 4 GiB. Absent: 1 GiB.
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
    schema: ToolSchema::of::<TestArguments>(),
    examples: &["{}", r#"{"framework": "pytest", "filter": "parse"}"#],
};

/// The tool; the command is the policy's, where there is a policy that names one.
#[derive(Default)]
pub(crate) struct TestRun(Option<Arc<PolicyStore>>);

impl TestRun {
    pub(crate) fn under(store: &Arc<PolicyStore>) -> Self {
        Self(Some(Arc::clone(store)))
    }

    /// The words of the configured command; none if there is none.
    fn configured(&self) -> Option<Vec<String>> {
        let policy = self.0.as_ref()?.current().policy();
        let words = &policy.document().phases.test_command;
        let words: Vec<String> = words.iter().map(|word| word.as_ref().to_owned()).collect();
        (!words.is_empty()).then_some(words)
    }
}

/// What a test run may take where its caller does not say.
const DURATION: Span = Span::from_secs(5 * 60);
const MEMORY: ByteSize = ByteSize::from_bytes(1 << 30);

/// How many times as long a run may take that has to build everything. Nothing may take longer than
/// the execution contract says.
const LONGER: u64 = 3;

/// Processes and threads a test run may have: compilers and test runners start many.
const PIDS: u32 = 100;

impl Tool for TestRun {
    fn spec(&self) -> &'static ToolSpec {
        &SPEC
    }

    fn prepare(&self, value: &Value, root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: TestArguments = parse_arguments(value)?;
        let configured = self.configured();
        // The real tree says which tests there are: what a stage adds is the work of whoever is tested.
        let real = self.0.as_ref().map(|store| store.workspace().root());
        let marked = real.map(detect::frameworks).unwrap_or_default();
        let usual = marked.first().copied();
        let usual = usual.or_else(|| detect::frameworks(root).first().copied());
        let given = asked.framework.or(usual);
        // What a command of the project's own prints is read as most runners print it.
        let framework = given.or(configured.as_ref().map(|_| Framework::Node));
        let framework = framework.ok_or_else(|| InvalidArguments {
            at: "framework".to_owned(),
            what: "nothing here gives away how this project is tested".to_owned(),
            fix: Some("name cargo, go, pytest or node, or use `exec.run`".to_owned()),
        })?;
        let filter = asked.filter.as_deref().map(filter).transpose()?;
        let whole = filter.is_none();
        if configured.is_some() && !whole {
            let (what, fix) = ("the configured command takes no filter", "leave it out");
            return Err(invalid(CheckId::Arguments, "filter", what, fix));
        }
        let is_configured = configured.is_some();
        let said_by = match (is_configured, marked.contains(&framework)) {
            (true, known) if known || asked.framework.is_none() => SaidBy::Policy,
            (_, true) => SaidBy::Tree,
            (_, false) if marked.is_empty() => SaidBy::Caller,
            (_, false) => SaidBy::CallerAlone,
        };
        let others = marked.iter().filter(|_| !is_configured);
        let others = others.filter(|other| **other != framework);
        let others = others.map(|other| (*other, detect::command(*other, None, root)));
        let others = others.collect();
        let command = configured.unwrap_or_else(|| detect::command(framework, filter, root));
        let bounds = Bounds {
            timeout: asked.timeout.as_deref(),
            memory: asked.memory.as_deref(),
            ..Bounds::default()
        };
        let mut limits = bounds.limits()?;
        if asked.timeout.is_none() {
            limits.duration = Some(DURATION);
        }
        if asked.memory.is_none() {
            limits.memory = Some(MEMORY);
        }
        limits.pids = Some(PIDS);
        let job = Job {
            limits,
            listing: Listing::Own,
            work: Work::Tests(Reading {
                framework,
                coverage: asked.coverage,
                whole,
                said_by,
                others,
                plain: command.clone(),
                configured: is_configured,
                mark: None,
            }),
            ..Job::of(command)?
        };
        Ok(Box::new(Boxed(job.varied(&Variation {
            measured: asked.coverage,
            ..Variation::default()
        }))))
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

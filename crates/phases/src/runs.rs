//! What a run of the tests proves, by how it ended and what it printed.
//!
//! RED is a test that ran and failed, or could not be compiled because what it calls is not there.
//! Nothing that ran, a missing runner, a syntax error or a failure of old tests alone is no RED.
//! GREEN is a run that succeeded and counted at least one test and no failure.

use regex::Regex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// A way to run tests that is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Framework {
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
    /// The word for it in calls and results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cargo => "cargo",
            Self::Go => "go",
            Self::Pytest => "pytest",
            Self::Node => "node",
        }
    }
}

/// What a run proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// A test fails for what is missing.
    Red,
    /// Every test passes.
    Green,
    /// There are no tests.
    NoTests,
    /// Nothing at all.
    Nothing,
}

impl Proof {
    /// The word used in results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Red => "red",
            Self::Green => "green",
            Self::NoTests => "no_tests",
            Self::Nothing => "nothing",
        }
    }
}

/// One run.
#[derive(Debug, Clone, Copy)]
pub struct Reading<'a> {
    /// What ran it.
    pub framework: Framework,
    /// Its exit code; none if it was ended by force.
    pub exit: Option<i32>,
    /// What it printed, on both streams.
    pub output: &'a str,
    /// Tests that passed, failed and were left out, if it told.
    pub counts: Option<(u64, u64, u64)>,
    /// Test files that the stage changes.
    pub changed: &'a [String],
    /// The names of tests in them that are new.
    pub new_tests: &'a [String],
}

/// Tests by how they ended, as far as the run told their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Passed.
    pub passed: BTreeSet<String>,
    /// Failed.
    pub failed: BTreeSet<String>,
}

/// What the run proves, and why.
pub fn judge(run: &Reading<'_>) -> (Proof, String) {
    let Some(exit) = run.exit else {
        return nothing("it did not come to an end by itself");
    };
    match (exit, run.counts) {
        (0, Some((0, 0, _))) => (Proof::NoTests, "there are no tests".to_owned()),
        (0, Some((passed, 0, _))) => (Proof::Green, format!("{passed} passed")),
        (0, Some((_, failed, _))) => nothing(&format!(
            "it says that {failed} failed, and that all is well"
        )),
        (0, None) if said_no_tests(run) => (Proof::NoTests, "there are no tests".to_owned()),
        (0, None) => nothing("it counted no tests"),
        (_, Some((_, failed, _))) if failed > 0 => failing(run, failed),
        (_, _) if said_no_tests(run) => (Proof::NoTests, "there are no tests".to_owned()),
        (_, _) => match missing(run) {
            Some(what) => (Proof::Red, what),
            None => nothing("no test ran to its end, and not for what is missing"),
        },
    }
}

fn nothing(why: &str) -> (Proof, String) {
    (Proof::Nothing, why.to_owned())
}

fn said_no_tests(run: &Reading<'_>) -> bool {
    match run.framework {
        Framework::Pytest => run.exit == Some(5) && run.output.contains("no tests ran"),
        Framework::Go => {
            run.output.contains("[no test files]") && !run.output.contains("[build failed]")
        }
        Framework::Cargo | Framework::Node => false,
    }
}

/// Tests ran and failed: a new one has to be among them.
fn failing(run: &Reading<'_>, failed: u64) -> (Proof, String) {
    let observed = names(run.framework, run.output);
    if run.framework == Framework::Node && only_files_failed(run, &observed) {
        return match missing(run) {
            Some(what) => (Proof::Red, what),
            None => nothing("a file of tests could not be loaded, and not for what is missing"),
        };
    }
    if run.framework == Framework::Pytest && observed.failed.is_empty() {
        return match missing(run) {
            Some(what) => (Proof::Red, what),
            None => nothing("a file of tests could not be loaded, and not for what is missing"),
        };
    }
    let is_new = |name: &String| run.new_tests.iter().any(|new| is_test(name, new));
    match observed.failed.iter().find(|name| is_new(name)) {
        Some(name) => (Proof::Red, format!("`{name}` fails")),
        // A runner that tells no names cannot be asked which ones.
        None if observed.failed.is_empty() && !run.new_tests.is_empty() => {
            (Proof::Red, format!("{failed} fail"))
        }
        None => match missing(run) {
            Some(what) => (Proof::Red, what),
            None => nothing("the tests that fail are not new"),
        },
    }
}

/// Whether the run did not come to tests that are there, because they could not be compiled or
/// loaded. Whatever a test prints may make it look so.
pub fn stopped(run: &Reading<'_>) -> bool {
    let said = |words: &[&str]| words.iter().any(|words| run.output.contains(words));
    match run.framework {
        Framework::Cargo => said(&["error: could not compile"]),
        Framework::Go => said(&["[build failed]", "[setup failed]"]),
        Framework::Pytest => said(&["error during collection", "errors during collection"]),
        Framework::Node => only_files_failed(run, &names(run.framework, run.output)),
    }
}

/// Whether every failure is that of a whole file.
fn only_files_failed(run: &Reading<'_>, observed: &Observed) -> bool {
    let is_file = |name: &String| {
        let mut changed = run.changed.iter();
        changed.any(|path| name.ends_with(path.as_str()) || path.ends_with(name.as_str()))
    };
    !observed.failed.is_empty() && observed.failed.iter().all(is_file)
}

/// Whether the test a runner calls `observed` is the one called `name` in its file.
pub(crate) fn is_test(observed: &str, name: &str) -> bool {
    names_of(observed).any(|one| one == name)
}

/// Everything that the test a runner calls `observed` may be called in its file.
pub(crate) fn names_of(observed: &str) -> impl Iterator<Item = &str> {
    let plain = observed.split('[').next().unwrap_or(observed).trim_end();
    let last = plain.rsplit("::").next().unwrap_or(plain);
    let top = plain.split('/').next().unwrap_or(plain);
    let leaf = plain.rsplit(" > ").next().unwrap_or(plain);
    let leaf = leaf.rsplit(" › ").next().unwrap_or(leaf);
    // A case of a test that a macro makes several of.
    let case = plain.rsplit("::").nth(1);
    let case = case.filter(|_| last.starts_with("case_"));
    [observed, plain, last, top, leaf].into_iter().chain(case)
}

/// What a new test could not find, if that is why it did not run.
fn missing(run: &Reading<'_>) -> Option<String> {
    match run.framework {
        Framework::Cargo => missing_in_rust(run),
        Framework::Go => missing_in_go(run),
        Framework::Pytest => missing_in_python(run),
        Framework::Node => missing_in_node(run),
    }
}

/// Errors of rustc that say: what is used here is not there, or not of that shape.
const RUST_CODES: &[&str] = &[
    "E0026", "E0027", "E0040", "E0050", "E0053", "E0061", "E0063", "E0107", "E0164", "E0220",
    "E0277", "E0282", "E0283", "E0308", "E0369", "E0405", "E0407", "E0412", "E0422", "E0423",
    "E0424", "E0425", "E0432", "E0433", "E0434", "E0437", "E0438", "E0531", "E0532", "E0533",
    "E0559", "E0560", "E0574", "E0576", "E0599", "E0600", "E0603", "E0604", "E0605", "E0608",
    "E0609", "E0610", "E0614", "E0616", "E0618", "E0624",
];

fn is_changed(run: &Reading<'_>, path: &str) -> bool {
    let path = path.trim_start_matches("./");
    let mut changed = run.changed.iter();
    changed.any(|own| {
        own == path || own.ends_with(&format!("/{path}")) || path.ends_with(&format!("/{own}"))
    })
}

/// Every error has to be of such a kind, and in a file of tests that was changed.
fn missing_in_rust(run: &Reading<'_>) -> Option<String> {
    let mut lines = run.output.lines();
    let mut told = None;
    while let Some(line) = lines.next() {
        let Some(rest) = line.strip_prefix("error") else {
            continue;
        };
        let summary = [
            ": could not compile",
            ": aborting due to",
            ": test failed",
            ": doctest failed",
        ];
        if summary.iter().any(|end| rest.starts_with(end))
            || rest.starts_with(": 1 target failed")
            || rest.contains("targets failed")
        {
            continue;
        }
        let code = rest.strip_prefix('[')?.split(']').next()?;
        if !RUST_CODES.contains(&code) {
            return None;
        }
        let place = lines.next()?.trim_start().strip_prefix("--> ")?;
        let path = place.split(':').next()?;
        if !is_changed(run, path) {
            return None;
        }
        let what = rest.split_once("]: ").map_or(rest, |(_, what)| what);
        told.get_or_insert_with(|| format!("`{path}` does not compile: {what}"));
    }
    told
}

static GO_ERROR: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(?:vet: )?(\S+\.go):\d+(?::\d+)?: (.*)$").ok());
const GO_MISSING: &[&str] = &[
    "undefined",
    "has no field or method",
    "not enough arguments",
    "too many arguments",
    "cannot use",
    "unknown field",
    "assignment mismatch",
    "not exported",
    "is not a type",
    "mismatched types",
];

fn missing_in_go(run: &Reading<'_>) -> Option<String> {
    if !run.output.contains("[build failed]") {
        return None;
    }
    let mut told = None;
    for line in run.output.lines() {
        let Some(found) = GO_ERROR.as_ref()?.captures(line) else {
            continue;
        };
        let (path, what) = (found.get(1)?.as_str(), found.get(2)?.as_str());
        let fits = GO_MISSING.iter().any(|words| what.contains(words));
        if !fits || !is_changed(run, path) {
            return None;
        }
        told.get_or_insert_with(|| format!("`{path}` does not compile: {what}"));
    }
    told
}

static PYTEST_ERROR: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^ERROR (\S+\.py)(?:::\S+)?(?: - (.*))?$").ok());
const PYTHON_MISSING: &[&str] = &[
    "ImportError",
    "ModuleNotFoundError",
    "AttributeError",
    "NameError",
    "TypeError",
];

fn missing_in_python(run: &Reading<'_>) -> Option<String> {
    let mut told = None;
    for line in run.output.lines() {
        let Some(found) = PYTEST_ERROR.as_ref()?.captures(line) else {
            continue;
        };
        let path = found.get(1)?.as_str();
        let what = found.get(2).map_or("", |what| what.as_str());
        if !is_changed(run, path) {
            return None;
        }
        // Summaries are cut to the width of the terminal; the report above them is not.
        let named = PYTHON_MISSING.iter().any(|word| what.contains(word));
        let reported = PYTHON_MISSING
            .iter()
            .any(|word| run.output.contains(&format!("E   {word}")));
        if !named && !reported
            || run.output.contains("E   SyntaxError")
            || run.output.contains("E     SyntaxError")
        {
            return None;
        }
        told.get_or_insert_with(|| format!("`{path}` cannot be loaded: {what}"));
    }
    told
}

const NODE_MISSING: &[&str] = &[
    "ERR_MODULE_NOT_FOUND",
    "MODULE_NOT_FOUND",
    "does not provide an export named",
    "is not a function",
    "is not a constructor",
    "is not defined",
    "Cannot find module",
    "Cannot read properties of undefined",
];

fn missing_in_node(run: &Reading<'_>) -> Option<String> {
    if run.new_tests.is_empty() {
        return None;
    }
    let line = run
        .output
        .lines()
        .find(|line| NODE_MISSING.iter().any(|words| line.contains(words)))?;
    let told: String = line.trim().chars().take(200).collect();
    Some(format!("a file of tests cannot be loaded: {told}"))
}

static CARGO_TEST: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?m)^test (\S.*?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)").ok()
});
static GO_TEST: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?m)^\s*--- (PASS|FAIL): (\S+)").ok());
static PYTEST_TEST: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?m)^(\S+::.*?) (PASSED|FAILED)\b|^FAILED (\S+::\S+)").ok());
static NODE_TEST: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?m)^\s*(?:(ok|not ok) \d+ - (.*?)(?: # (?P<why>.*))?|([✓✔√✕✖×]) (.*?)(?: \(\d[\w. ]*\))?)\s*$",
    )
    .ok()
});

/// The tests the run told of.
pub fn names(framework: Framework, output: &str) -> Observed {
    let mut observed = Observed::default();
    let mut put = |name: &str, passed: bool| {
        let set = if passed {
            &mut observed.passed
        } else {
            &mut observed.failed
        };
        set.insert(name.trim().to_owned());
    };
    let pattern = match framework {
        Framework::Cargo => &CARGO_TEST,
        Framework::Go => &GO_TEST,
        Framework::Pytest => &PYTEST_TEST,
        Framework::Node => &NODE_TEST,
    };
    for found in pattern
        .as_ref()
        .iter()
        .flat_map(|pattern| pattern.captures_iter(output))
    {
        let group = |number: usize| found.get(number).map(|group| group.as_str());
        match framework {
            Framework::Cargo => match (group(1), group(2)) {
                (Some(name), Some("ok")) => put(name, true),
                (Some(name), Some("FAILED")) => put(name, false),
                (_, _) => {}
            },
            Framework::Go => {
                if let (Some(word), Some(name)) = (group(1), group(2)) {
                    put(name, word == "PASS");
                }
            }
            Framework::Pytest => match (group(1), group(2), group(3)) {
                (Some(name), Some(word), _) => put(name, word == "PASSED"),
                (_, _, Some(name)) => put(name, false),
                (_, _, _) => {}
            },
            // What is left out has neither passed nor failed.
            Framework::Node
                if found
                    .name("why")
                    .is_some_and(|why| why.as_str().starts_with("SKIP")) => {}
            Framework::Node => match (group(1), group(2), group(4), group(5)) {
                (Some(word), Some(name), _, _) => put(name, word == "ok"),
                (_, _, Some(sign), Some(name)) => put(name, "✓✔√".contains(sign)),
                (_, _, _, _) => {}
            },
        }
    }
    observed
}

//! Adapters for `airlock tool`: listed level by level, shown, and checked with their samples.

use super::{open, tool};
use crate::args::Global;
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, Tone, count, shown, styled};
use crate::reading;
use airlock_definitions::{
    Adapter, AdapterFile, DefinitionError, FIXTURES_AT_ONCE, Level, check_samples,
};
use airlock_kernel::{AdapterEntry, DefinitionProblem, Definitions, Kernel, sanitise_line};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Lists the adapters there are; nothing beyond `level` is read.
pub(super) fn list(kernel: &Kernel, level: u8, output: &mut Output) {
    let level = Level::of(level).unwrap_or(Level::L1);
    for entry in kernel.definitions().adapters() {
        let described = describe(entry, level);
        if output.is_json() {
            output.json(&described);
        } else {
            let text = |name: &str| text(&described, name);
            let width = tool::NAME;
            let name = styled(Tone::Heading, &format!("{:<width$}", entry.header.tool));
            let about = if level == Level::L0 {
                text("name")
            } else {
                text("summary")
            };
            output.line(format!(
                "{name}  {:<7}  {about} (adapter {})",
                text("type"),
                entry.header.id
            ));
        }
    }
    warn(kernel.definitions().problems(), output);
}

/// Says which definitions are not used.
pub(super) fn warn(problems: &[DefinitionProblem], output: &mut Output) {
    for problem in problems {
        let file = sanitise_line(&problem.file, 200);
        output.warning(&format!(
            "{file} is not used: {}",
            sanitise_line(&problem.what, 300)
        ));
    }
}

/// A field as it may be shown.
fn text(described: &Value, name: &str) -> String {
    let text = described.get(name).and_then(Value::as_str);
    sanitise_line(text.unwrap_or_default(), 200)
}

fn describe(entry: &AdapterEntry, level: Level) -> Value {
    let mut value = json!(entry.header);
    let mut put = |name: &str, part: Value| {
        if let Some(fields) = value.as_object_mut() {
            fields.insert(name.to_owned(), part);
        }
    };
    put("origin", json!(entry.origin.as_str()));
    if level >= Level::L1 {
        match entry.text.summary() {
            Ok(summary) => {
                put("summary", json!(summary.summary));
                put("version", json!(summary.version));
                put("status", json!(summary.status));
            }
            Err(error) => put("problem", json!(error.to_string())),
        }
    }
    if level >= Level::L2 {
        match entry.text.adapter() {
            Ok(adapter) => put("interface", interface(&adapter)),
            Err(error) => put("problem", json!(error.to_string())),
        }
    }
    if level >= Level::L3 {
        match entry.text.samples() {
            Ok(samples) => put("samples", json!(samples)),
            Err(error) => put("problem", json!(error.to_string())),
        }
    }
    value
}

fn interface(adapter: &Adapter) -> Value {
    let errors: Vec<Value> = adapter
        .errors
        .iter()
        .map(|case| json!({ "end": case.end, "code": case.code, "summary": case.summary, "ok": case.ok }))
        .collect();
    json!({
        "input": adapter.interface.input.to_json(),
        "read_only": adapter.interface.read_only,
        "idempotent": adapter.interface.idempotent,
        "errors": errors,
        "sandbox": {
            "timeout": adapter.sandbox.timeout,
            "memory": adapter.sandbox.memory,
            "cpus": adapter.sandbox.cpus,
            "child_processes": adapter.sandbox.child_processes,
        },
        "fallback": adapter.fallback,
    })
}

/// Shows the adapters of the tool `name`; none if it has none.
pub(super) fn show(kernel: &Kernel, name: &str, output: &mut Output) -> Option<Ending> {
    let definitions = kernel.definitions();
    let mut entries = definitions
        .adapters()
        .iter()
        .filter(|entry| entry.header.tool == name)
        .peekable();
    entries.peek()?;
    for entry in entries {
        let described = describe(entry, Level::L3);
        if output.is_json() {
            output.json(&described);
            continue;
        }
        let text = |name: &str| text(&described, name);
        output.line(format!(
            "{} - {}",
            styled(Tone::Heading, name),
            text("summary")
        ));
        output.line(format!(
            "  adapter {} {} ({}, {}), from {}",
            entry.header.id,
            text("version"),
            text("type"),
            text("status"),
            sanitise_line(&entry.file, 200)
        ));
        if let Some(problem) = described.get("problem").and_then(Value::as_str) {
            output.warning(&sanitise_line(problem, 300));
            continue;
        }
        output.line(styled(Tone::Heading, "arguments"));
        for line in tool::arguments(
            described
                .pointer("/interface/input")
                .unwrap_or(&Value::Null),
        ) {
            output.line(format!("  {line}"));
        }
    }
    Some(Ok(0))
}

/// What there is to check: the person's own, and the workspace's as they stand, since they are checked
/// before anybody trusts them. Also how many of its files cannot even be judged.
pub(super) fn to_check(
    kernel: &Kernel,
    output: &mut Output,
) -> Result<(Definitions, u64), Failure> {
    let trust = kernel
        .workspace()
        .trust()
        .map_err(|error| Failure::of(Kind::Failed, &error).fix(error.hint()))?;
    let mut failures = 0;
    for problem in trust.problems() {
        failures += 1;
        let told = format!("{problem}; {}", problem.hint());
        output.note(sanitise_line(&told, 300));
    }
    if !trust.holds() && !trust.untrusted_definitions().is_empty() {
        output.warning(UNTRUSTED);
    }
    Ok((kernel.definitions_if_approved(&trust), failures))
}

const UNTRUSTED: &str = "this workspace's definitions are checked as they stand, and do not count \
                         until `airlock trust`";

/// Checks files, or every adapter there is here.
pub(super) fn check(global: &Global, files: &[PathBuf], output: &mut Output) -> Ending {
    let mut failures = 0;
    let mut checked = 0;
    let mut room = FIXTURES_AT_ONCE;
    if files.is_empty() {
        let (definitions, unjudged) = to_check(&open::opened(global)?, output)?;
        failures += unjudged;
        for problem in definitions.problems() {
            failures += 1;
            told(&problem.file, problem, output);
        }
        for entry in definitions.adapters() {
            checked += 1;
            failures += one(&entry.file, &entry.text, &mut room, output);
        }
    }
    for path in files {
        checked += 1;
        let name = shown(path);
        match AdapterFile::new(&read(path)?) {
            Ok(file) => failures += one(&name, &file, &mut room, output),
            Err(error) => failures += broken(&name, &error, "", output),
        }
    }
    if failures > 0 {
        let what = format!(
            "{} in {}",
            count(failures, "problem"),
            count(checked, "adapter")
        );
        return Err(Failure::new(Kind::Failed, what).fix("mend them and check again"));
    }
    if output.is_json() {
        output.json(&json!({ "adapters": checked, "problems": 0 }));
    } else {
        output.line(format!(
            "{}: every level, example and fixture holds",
            count(checked, "adapter")
        ));
    }
    Ok(0)
}

/// Most that is read of a definition: far more than one may have, so that one that is a little too
/// long is told as any other problem of it.
const BYTES: u64 = 8 * 1024 * 1024;

/// Reads a definition the person named.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    reading::bytes(path, BYTES).map_err(|error| {
        Failure::new(Kind::Failed, format!("cannot read {}", shown(path)))
            .why(error)
            .fix("name a readable file")
    })
}

fn told(file: &str, problem: &DefinitionProblem, output: &mut Output) {
    match &problem.load {
        Some((error, text)) => {
            broken(file, error, text, output);
        }
        None => output.note(format!(
            "{}: {}",
            sanitise_line(file, 200),
            sanitise_line(&problem.what, 300)
        )),
    }
}

/// Tells what is wrong with a file; how many problems that is.
pub(super) fn broken(name: &str, error: &DefinitionError, text: &str, output: &mut Output) -> u64 {
    output.verbatim(error.render(text, &sanitise_line(name, 200)).trim_end());
    error.problems().len() as u64
}

/// Checks one adapter, if `room` is left for its fixtures; how many problems it has.
fn one(name: &str, file: &AdapterFile, room: &mut usize, output: &mut Output) -> u64 {
    let adapter = match file.adapter() {
        Ok(adapter) => adapter,
        Err(error) => return broken(name, &error, file.text(), output),
    };
    let samples = match file.samples() {
        Ok(samples) => samples,
        Err(error) => return broken(name, &error, file.text(), output),
    };
    let Some(left) = room.checked_sub(samples.fixture_bytes()) else {
        output.note(format!(
            "{}: not tried: all fixtures together have more than {FIXTURES_AT_ONCE} bytes of output; \
             check it by itself",
            sanitise_line(name, 200)
        ));
        return 1;
    };
    *room = left;
    let failures = check_samples(&adapter, &samples);
    for failure in &failures {
        output.note(format!(
            "{}: {}",
            sanitise_line(name, 200),
            sanitise_line(&failure.to_string(), 400)
        ));
    }
    failures.len() as u64
}

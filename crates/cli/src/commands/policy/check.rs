//! `airlock policy check`: every problem of a policy file, with its place.

use super::super::open;
use super::diff::tried;
use super::read;
use crate::args::Global;
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, Tone, count, shown, styled};
use crate::place::Place;
use airlock_kernel::{PolicyOrigin, strip_control};
use airlock_policy::{Diagnostic, LoadError, Loaded, Policy, Severity, render};
use serde_json::{Value, json};
use std::path::Path;

pub(super) fn run(global: &Global, file: Option<&Path>, output: &mut Output) -> Ending {
    let (bytes, name) = match file {
        Some(path) => (read(path, "policy")?, shown(path)),
        None => workspace_policy(global)?,
    };
    let text = String::from_utf8_lossy(&bytes);
    let loaded = Policy::load(&name, &bytes).map_err(|error| load_failure(&error, &text))?;
    scripts(global, &bytes, &name, output)?;
    report(&loaded, &name, &text, output);
    Ok(0)
}

/// Starts every script the policy lists, if a person trusts this workspace: until then nothing of
/// it runs, be it boxed.
fn scripts(global: &Global, bytes: &[u8], name: &str, output: &mut Output) -> Result<(), Failure> {
    let Some(loaded) = Policy::load(name, bytes)
        .ok()
        .filter(|loaded| !loaded.policy.document().extensions.is_empty())
    else {
        return Ok(());
    };
    let kernel = open::unannounced(global, output)?;
    if kernel.policy().origin() != PolicyOrigin::Workspace {
        output.note("extensions are not checked until this workspace is trusted: airlock trust");
        return Ok(());
    }
    let problems = tried(&kernel, loaded.policy)?.extension_problems();
    if problems.is_empty() {
        return Ok(());
    }
    let found = count(problems.len() as u64, "extension");
    let lines: Vec<&str> = problems.iter().map(|one| &*one.explanation).collect();
    Err(Failure::new(
        Kind::Usage,
        format!("{name} loads, but {found} cannot be asked"),
    )
    .details(lines.join("\n"))
    .fix("mend each, then: airlock policy check FILE"))
}

/// The workspace's own policy, trusted or not: checking obeys nothing.
fn workspace_policy(global: &Global) -> Result<(Vec<u8>, String), Failure> {
    let place = Place::find(global.workspace.as_deref())?;
    let path = place.workspace.join(airlock_kernel::POLICY_FILE);
    // Of one that cannot be looked at it is said below why.
    if path.try_exists().is_ok_and(|there| !there) {
        return Err(
            Failure::new(Kind::Failed, "this workspace has no policy to check")
                .why(format!("there is no {}", path.display()))
                .fix("name a file, or write a starter policy: airlock init"),
        );
    }
    Ok((
        read(&path, "policy")?,
        airlock_kernel::POLICY_FILE.to_owned(),
    ))
}

fn report(loaded: &Loaded, name: &str, text: &str, output: &mut Output) {
    let rules = loaded.policy.rule_count();
    if output.is_json() {
        output.json(&json!({
            "ok": true,
            "rules": rules,
            "generation": loaded.policy.generation(),
            "problems": problems(&loaded.warnings),
        }));
        return;
    }
    if !loaded.warnings.is_empty() {
        output.verbatim(render(text, name, &loaded.warnings).trim_end());
    }
    let warnings = match loaded.warnings.len() {
        0 => "no warnings".to_owned(),
        some => count(some as u64, "warning"),
    };
    let rules = count(rules as u64, "rule");
    output.line(format!(
        "{}: {name} loads: {rules}, {warnings}",
        styled(Tone::Good, "ok")
    ));
}

fn problems(all: &[Diagnostic]) -> Value {
    all.iter().map(|problem| json!(problem)).collect()
}

/// How many problems keep a file from loading, and how many warnings there are besides.
pub(super) fn counted(found: &[Diagnostic]) -> String {
    let is_error = |one: &&Diagnostic| one.severity == Severity::Error;
    let errors = found.iter().filter(is_error).count();
    let problems = count(errors as u64, "problem");
    match found.len() - errors {
        0 => problems,
        warnings => format!("{problems}, and {}", count(warnings as u64, "warning")),
    }
}

/// A policy that does not load, with every problem shown.
pub(crate) fn load_failure(error: &LoadError, text: &str) -> Failure {
    let found = counted(&error.diagnostics);
    Failure::new(
        Kind::Usage,
        format!("{} does not load: {found}", error.name),
    )
    .details(render(text, &error.name, &error.diagnostics))
    .fix("mend each problem, then: airlock policy check FILE")
    .json("problems", problems(&error.diagnostics))
}

/// A policy as a person should see it before trusting it: what it allows, in its own words, and
/// whatever else it sets.
pub(crate) fn summarise(bytes: &[u8], name: &str, output: &mut Output) -> Result<(), Failure> {
    let text = String::from_utf8_lossy(bytes);
    let loaded = Policy::load(name, bytes).map_err(|error| load_failure(&error, &text))?;
    output.note(styled(Tone::Heading, &format!("{name} says")));
    for rule in loaded.policy.summary() {
        let tone = match rule.action {
            "allow" => Tone::Good,
            "deny" => Tone::Bad,
            _ => Tone::Warn,
        };
        let action = styled(tone, &format!("{:<14}", rule.action));
        let asks = rule.constraints.map(|asks| format!("; asks {asks}"));
        let when = format!("{}{}", rule.when, asks.unwrap_or_default());
        let line = format!(
            "  {action} {}  {}",
            strip_control(&rule.name),
            styled(Tone::Faint, &when)
        );
        output.note(line);
    }
    for setting in loaded.policy.settings() {
        let line = format!("{}: {}", setting.key, setting.value);
        output.note(if setting.can_widen {
            format!("  {}", styled(Tone::Warn, &line))
        } else {
            format!("  {line}")
        });
    }
    if !loaded.warnings.is_empty() {
        output.verbatim(render(&text, name, &loaded.warnings).trim_end());
    }
    Ok(())
}

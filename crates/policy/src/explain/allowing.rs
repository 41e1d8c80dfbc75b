//! The smallest change that would allow a request no rule speaks for.
//!
//! Invariant: nothing is suggested that was not tried. An edited rule is compiled and asked, a new
//! rule is loaded as it would be from the file and asked; what then does not allow the request is
//! not said.

use super::fix::{Fix, Remedy};
use super::nearest::{Nearest, failing_paths};
use super::place::file;
use super::text::{glob, quoted, yaml, yaml_list};
use super::unsaid::unsaid_for_a_rule;
use crate::decision::{Contributions, Generation, Imposed, Opinion};
use crate::document::{Conditions, Document, Place, Rule};
use crate::load::DEFAULT_POLICY;
use crate::rules::conditions::{Asked, Field, command_name};
use crate::rules::constraint::{TokenUse, unmet};
use crate::rules::{CompiledRule, Policy, generation};
use airlock_core::{Request, RequestPath, WorkspacePath};
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

/// More paths than this are covered by the directory they share.
const FEW_PATHS: usize = 8;

/// Whether `policy` is the one Airlock brings along, which nobody edits.
pub(super) fn is_default(policy: &Policy) -> bool {
    static DEFAULT: LazyLock<Generation> = LazyLock::new(|| generation(DEFAULT_POLICY.as_bytes()));
    policy.generation() == *DEFAULT
}

/// "rule `x` (.airlock/policy.yaml line 9)".
pub(super) fn whereabouts(policy: &Policy, rule: &str, place: Option<Place>) -> String {
    let rule = quoted(rule);
    if is_default(policy) {
        return format!(
            "rule {rule} of the default policy (`airlock init` writes one of your own)"
        );
    }
    match place.filter(|place| place.line > 0) {
        Some(place) => format!("rule {rule} ({} line {})", file(policy), place.line),
        None => format!("rule {rule}"),
    }
}

/// How to have an allow for `request`.
pub(super) fn allow(policy: &Policy, request: &Request, nearest: Option<&Nearest>) -> Fix {
    nearest
        .and_then(|nearest| extend(policy, request, nearest))
        .unwrap_or_else(|| add_rule(policy, request))
}

/// Adds to the one field that keeps the nearest rule from applying.
///
/// Only what a request is about is ever added. To open a rule to another caller, mode or effect
/// would allow much more than was asked for; a rule of its own is the smaller change.
fn extend(policy: &Policy, request: &Request, nearest: &Nearest) -> Option<Fix> {
    let [mismatch] = nearest.mismatches.as_slice() else {
        return None;
    };
    if is_default(policy) {
        return None;
    }
    let field = mismatch.kind;
    let values = missing_values(policy.rules.get(nearest.id)?, request, field)?;
    let mut rule = policy.document().rules.get(nearest.id)?.clone();
    add_values(&mut rule.when, field, &values)?;
    let edited = alone(rule)?;
    let compiled = edited.rules.first()?;
    let allows = compiled.opinion(Asked::new(request)) == Some(Opinion::Allow)
        && unmet(&compiled.constraints, request, TokenUse::None).is_none();
    if !allows || !loads(field, &values) {
        return None;
    }
    let text = format!(
        "add {} to `{}` of {}",
        as_written(field, &values),
        field.as_str(),
        whereabouts(policy, &nearest.rule, nearest.place),
    );
    let remedy = Remedy::AddValues {
        rule: Arc::clone(&nearest.rule),
        field: field.as_str().into(),
        values,
    };
    Some(Fix::new(remedy, text))
}

/// A policy of this rule alone, unless it would not load: an edit must not contradict the rule's
/// own examples.
pub(super) fn alone(rule: Rule) -> Option<Policy> {
    let document = Document {
        rules: vec![rule],
        ..Document::default()
    };
    let loaded = Policy::compile(document, generation(&[])).ok()?;
    Some(loaded.policy)
}

/// What `request` has in `field` that `rule` does not list.
fn missing_values(rule: &CompiledRule, request: &Request, field: Field) -> Option<Vec<String>> {
    if field != Field::PathGlob {
        return value(request, field).map(|value| vec![value]);
    }
    let paths: Vec<&RequestPath> = failing_paths(rule, request).take(FEW_PATHS + 1).collect();
    if paths.len() > FEW_PATHS {
        return None;
    }
    let exact = |path: &&RequestPath| path.inside().filter(|path| !path.is_root()).map(glob);
    paths.iter().map(exact).collect()
}

/// What a request is about, in one field other than its paths.
fn value(request: &Request, field: Field) -> Option<String> {
    match field {
        Field::Host => airlock_core::canonical_host(request.host.as_deref()?),
        Field::Port => request.port.map(|port| port.to_string()),
        Field::Command => command_name(request).map(str::to_owned),
        Field::Tool => request.tool.as_deref().map(str::to_owned),
        Field::Syscall
        | Field::Effect
        | Field::Mode
        | Field::State
        | Field::Tier
        | Field::Plugin
        | Field::Template
        | Field::User
        | Field::Workspace
        | Field::CallerTag
        | Field::Arg
        | Field::PathGlob => None,
    }
}

/// Adds `values` to a list of `when`; `None` if that field cannot take them.
pub(super) fn add_values(when: &mut Conditions, field: Field, values: &[String]) -> Option<()> {
    if field == Field::Port {
        let ports: Result<Vec<u16>, _> = values.iter().map(|value| value.parse()).collect();
        when.port.get_or_insert_default().extend(ports.ok()?);
        return Some(());
    }
    let list = words(when, field)?.get_or_insert_default();
    list.extend(values.iter().map(|value| Arc::from(value.as_str())));
    Some(())
}

/// The list of words a field is, for those that name what a request is about.
pub(super) fn words(when: &mut Conditions, field: Field) -> Option<&mut Option<Vec<Arc<str>>>> {
    match field {
        Field::PathGlob => Some(&mut when.path_glob),
        Field::Host => Some(&mut when.host),
        Field::Command => Some(&mut when.command),
        Field::Tool => Some(&mut when.tool),
        Field::Syscall
        | Field::Effect
        | Field::Mode
        | Field::State
        | Field::Tier
        | Field::Plugin
        | Field::Template
        | Field::User
        | Field::Workspace
        | Field::CallerTag
        | Field::Port
        | Field::Arg => None,
    }
}

/// Whether the loader takes `values` in `field`.
pub(super) fn loads(field: Field, values: &[String]) -> bool {
    let values = written(field, values);
    let probe = format!(
        "version: 1\nrules:\n  - name: probe\n    match: {{ {}: {values} }}\n    action: deny\n",
        field.as_str()
    );
    crate::load::read_document(probe.as_bytes()).is_ok()
}

/// Each of `values` as it has to stand in the file: bare, a glob that begins with `!` would be a tag
/// of YAML.
pub(super) fn as_written(field: Field, values: &[String]) -> String {
    let each = values
        .iter()
        .map(|value| format!("`{}`", written(field, std::slice::from_ref(value))));
    each.collect::<Vec<_>>().join(", ")
}

fn written(field: Field, values: &[String]) -> String {
    match (field, values) {
        // Numbers stand bare.
        (Field::Port, [port]) => port.clone(),
        (Field::Port, ports) => format!("[{}]", ports.join(", ")),
        (_, values) => yaml_list(values),
    }
}

/// A rule of its own, for this caller and what it asks for, and nothing else.
fn add_rule(policy: &Policy, request: &Request) -> Fix {
    if let Some(unsaid) = unsaid_for_a_rule(request) {
        return Fix::otherwise(format!("{unsaid}: only then can a rule be suggested"));
    }
    if request.paths.iter().any(|path| path.inside().is_none()) {
        return Fix::otherwise(
            "bring the file into the workspace: `path_glob` never allows a path outside of it",
        );
    }
    let (yaml, note) = rule_text(policy, request);
    if !tried(&yaml, request) {
        return Fix::otherwise(
            "ask for something else: no rule can name this, because the policy file does not take \
             such a value",
        );
    }
    let target = if is_default(policy) {
        "`.airlock/policy.yaml` (`airlock init` writes a first one)".to_owned()
    } else {
        file(policy)
    };
    let text = format!("add this rule under `rules` in {target}{note}:\n{yaml}");
    Fix::new(Remedy::AddRule { yaml }, text)
}

fn rule_text(policy: &Policy, request: &Request) -> (String, String) {
    let mut when = vec![
        format!("syscall: {}", request.syscall),
        format!("plugin: {}", yaml(request.caller.plugin.as_str())),
    ];
    let mut note = String::new();
    if !request.paths.is_empty() {
        let (globs, wider) = globs(&request.paths);
        if let Some(wider) = wider {
            note = format!(" (it covers {wider})");
        }
        when.push(format!("path_glob: {}", yaml_list(&globs)));
    }
    for field in [Field::Host, Field::Port, Field::Command, Field::Tool] {
        if let Some(value) = value(request, field) {
            let value = written(field, &[value]);
            when.push(format!("{}: {value}", field.as_str()));
        }
    }
    if request.secret.is_some() {
        " (it covers every secret the caller's capabilities name)".clone_into(&mut note);
    }
    let indent = " ".repeat(indentation(policy));
    let name = unused_name(policy, request);
    let when = when.join(", ");
    let yaml =
        format!("{indent}- name: {name}\n{indent}  match: {{ {when} }}\n{indent}  action: allow\n");
    (yaml, note)
}

/// Globs for exactly these paths, or the directory they share and a word on what that covers.
fn globs(paths: &[RequestPath]) -> (Vec<String>, Option<String>) {
    let inside: Vec<&WorkspacePath> = paths.iter().filter_map(RequestPath::inside).collect();
    let root = inside.iter().any(|path| path.is_root());
    if !root && inside.len() <= FEW_PATHS {
        return (inside.into_iter().map(glob).collect(), None);
    }
    let mut shared: Option<Vec<&str>> = None;
    for path in &inside {
        let mut names: Vec<&str> = path.components().collect();
        names.pop();
        if let Some(shared) = &shared {
            let same = shared
                .iter()
                .zip(&names)
                .take_while(|(a, b)| a == b)
                .count();
            names.truncate(same);
        }
        shared = Some(names);
    }
    let directory = shared.unwrap_or_default().join("/");
    match WorkspacePath::new(&directory) {
        Ok(path) if !path.is_root() => (
            vec![glob(&path)],
            Some(format!("everything below {}", quoted(&directory))),
        ),
        Ok(_) | Err(_) => (
            vec!["**".to_owned()],
            Some("the whole workspace".to_owned()),
        ),
    }
}

/// How far the rules of the file are indented.
fn indentation(policy: &Policy) -> usize {
    let usual = 2;
    let (Some(source), Some(rule)) = (policy.source(), policy.rules.last()) else {
        return usual;
    };
    let line = (rule.place.line as usize)
        .checked_sub(1)
        .and_then(|line| source.text.lines().nth(line));
    let before = line
        .and_then(|line| line.split_once("- "))
        .map(|(before, _)| before);
    before
        .filter(|before| before.bytes().all(|byte| byte == b' '))
        .map_or(usual, str::len)
}

fn unused_name(policy: &Policy, request: &Request) -> String {
    let base = format!("allow-{}", request.syscall.name().replace('.', "-"));
    let taken: HashSet<&str> = policy.rules.iter().map(|rule| &*rule.name).collect();
    if !taken.contains(base.as_str()) {
        return base;
    }
    // One more number than there are names: one of them is free.
    (2..=taken.len() + 2)
        .map(|number| format!("{base}-{number}"))
        .find(|name| !taken.contains(name.as_str()))
        .unwrap_or(base)
}

/// Whether a file with this rule alone loads and allows `request`.
fn tried(yaml: &str, request: &Request) -> bool {
    let file = format!("version: 1\nrules:\n{yaml}");
    let Ok(loaded) = Policy::load("suggestion", file.as_bytes()) else {
        return false;
    };
    let mut contributions = Contributions::new();
    loaded.policy.evaluate(
        Asked::new(request),
        &mut contributions,
        &mut Imposed::default(),
    );
    contributions
        .iter()
        .any(|one| one.opinion == Opinion::Allow)
}

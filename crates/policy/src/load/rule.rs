//! Rules: each decoded on its own, then held against what a rule as a whole must be.
//!
//! The checks read the tree, not the decoded rule, so a rule with one mistake still gets them all.

use super::code;
use super::problems::{Problems, Spot, shown};
use super::shape::{sequence, table};
use super::tree::{Entry, Node, Value};
use crate::document::{Action, Conditions, Example, Rule, RuleFields};
use std::collections::HashMap;

/// The list of rules; broken ones are left out.
pub(crate) fn rules(node: &Node, problems: &mut Problems) -> Option<Vec<Rule>> {
    let nodes = sequence(node, problems)?;
    unique_names(nodes, problems);
    Some(
        nodes
            .iter()
            .filter_map(|node| rule(node, problems))
            .collect(),
    )
}

fn rule(node: &Node, problems: &mut Problems) -> Option<Rule> {
    let before = problems.errors();
    let fields: Option<RuleFields> = table(node, problems);
    shape(node, problems);
    if let Some(fields) = &fields {
        meaning(node, fields, problems);
    }
    let fields = fields.filter(|_| problems.errors() == before)?;
    let example = |should_match| {
        move |(place, fields)| Example {
            place,
            should_match,
            fields,
        }
    };
    let matching = fields.examples.matching.into_iter().map(example(true));
    let not_match = fields.examples.not_match.into_iter().map(example(false));
    Some(Rule {
        name: fields.name,
        place: node.spot.place,
        when: fields.when,
        action: fields.action,
        reason: fields.reason,
        except: fields.except,
        constraints: fields.constraints.unwrap_or_default(),
        examples: matching.chain(not_match).collect(),
    })
}

/// Which fields may stand together.
fn shape(node: &Node, problems: &mut Problems) {
    let action = entry(node, "action")
        .and_then(|entry| scalar(&entry.value))
        .unwrap_or_default();
    if action == Action::Deny.as_str()
        && let Some(except) = entry(node, "except")
    {
        problems.error(
            code::EXCEPT_ON_DENY,
            except.spot,
            "a denial cannot have exceptions",
            "write a narrower denial: put the exception into `match`, for instance as a `!` glob",
        );
    }
    let other = [Action::Deny, Action::RequireReview]
        .iter()
        .any(|other| other.as_str() == action);
    if other && let Some(constraints) = entry(node, "constraints") {
        problems.error(
            code::CONSTRAINTS_WITHOUT_ALLOW,
            constraints.spot,
            format!("`constraints` on a rule whose action is `{action}`"),
            "move them to the rule that allows, or make this one `action: allow`",
        );
    }
    if let Some(Value::Sequence(exceptions)) = entry(node, "except").map(|entry| &entry.value.value)
    {
        for exception in exceptions {
            if matches!(&exception.value, Value::Mapping(entries) if entries.is_empty()) {
                problems.error(
                    code::EMPTY_EXCEPT,
                    exception.spot,
                    "an exception without conditions: the rule would never apply",
                    "give it a condition, or remove it",
                );
            }
        }
    }
}

/// What is allowed but probably not meant.
fn meaning(node: &Node, fields: &RuleFields, problems: &mut Problems) {
    let spot = |key: &str| entry(node, key).map_or(node.spot, |entry| entry.spot);
    if fields.when != Conditions::default() && fields.except.contains(&fields.when) {
        problems.warning(
            code::EXCEPT_EQUALS_MATCH,
            spot("except"),
            format!(
                "an exception of `{}` equals its `match`, so it never applies",
                fields.name
            ),
            "narrow the exception, or remove the rule",
        );
    }
    if fields.when == Conditions::default() && fields.action == Action::Allow {
        problems.warning(
            code::ALLOWS_EVERYTHING,
            spot("match"),
            format!(
                "`{}` has no conditions, so it allows every syscall there is",
                fields.name
            ),
            "name the syscalls, effects or paths it is meant for",
        );
    }
}

/// Reports every name that an earlier item of the list has.
pub(super) fn unique_names(nodes: &[Node], problems: &mut Problems) {
    let mut lines: HashMap<&str, u32> = HashMap::new();
    for node in nodes {
        let Some((name, spot)) = named(node) else {
            continue;
        };
        if let Some(line) = lines.get(name) {
            problems.error(
                code::DUPLICATE_NAME,
                spot,
                format!(
                    "the name `{}` is taken; the first is on line {line}",
                    shown(name)
                ),
                "give one of them another name",
            );
        } else {
            lines.insert(name, spot.place.line);
        }
    }
}

fn named(node: &Node) -> Option<(&str, Spot)> {
    let entry = entry(node, "name")?;
    scalar(&entry.value).map(|name| (name, entry.value.spot))
}

/// The entry of a mapping with that key.
pub(super) fn entry<'a>(node: &'a Node, key: &str) -> Option<&'a Entry> {
    match &node.value {
        Value::Mapping(entries) => entries.iter().find(|entry| entry.key == key),
        Value::Scalar { .. } | Value::Sequence(_) | Value::Broken => None,
    }
}

/// The text of a scalar.
pub(super) fn scalar(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar { text, .. } => Some(text),
        Value::Sequence(_) | Value::Mapping(_) | Value::Broken => None,
    }
}

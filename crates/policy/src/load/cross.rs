//! Checks between sections: every name that is used must be defined, nothing may be widened.

use super::code;
use super::fields::Decode;
use super::problems::{Problems, shown};
use super::rule::{entry, scalar, unique_names};
use super::tree::{Node, Value};
use crate::document::{Narrowing, Template};
use std::collections::HashSet;

/// Roles that exist without being written.
const BUILT_IN_ROLES: &[&str] = &["owner"];

/// Checks a whole file.
pub(super) fn check(root: &Node, problems: &mut Problems) {
    roles(root, problems);
    templates(root, problems);
    for (section, list) in [("extensions", None), ("secrets", Some("patterns"))] {
        let node = entry(root, section).map(|entry| &entry.value);
        let node = match list {
            Some(key) => node
                .and_then(|node| entry(node, key))
                .map(|entry| &entry.value),
            None => node,
        };
        if let Some(Value::Sequence(items)) = node.map(|node| &node.value) {
            unique_names(items, problems);
        }
    }
}

fn roles(root: &Node, problems: &mut Problems) {
    let mut known = keys(root, &["roles"]);
    known.extend(BUILT_IN_ROLES);
    let defined: HashSet<&str> = known.iter().copied().collect();
    let Some(Value::Mapping(users)) = entry(root, "users").map(|entry| &entry.value.value) else {
        return;
    };
    for user in users {
        for role in items(&user.value) {
            if let Some(text) = scalar(role)
                && !defined.contains(text)
            {
                problems.unknown(code::UNKNOWN_ROLE, role.spot, ("role", text), &known);
            }
        }
    }
}

fn templates(root: &Node, problems: &mut Problems) {
    let groups = keys(root, &["network", "whitelist"]);
    let defined: HashSet<&str> = groups.iter().copied().collect();
    let Some(Value::Mapping(entries)) = entry(root, "templates").map(|entry| &entry.value.value)
    else {
        return;
    };
    for found in entries {
        narrower(&found.key, &found.value, problems);
        let Some(list) = entry(&found.value, "whitelist") else {
            continue;
        };
        for group in items(&list.value) {
            if let Some(text) = scalar(group)
                && !defined.contains(text)
            {
                problems.unknown(
                    code::UNKNOWN_GROUP,
                    group.spot,
                    ("host group", text),
                    &groups,
                );
            }
        }
    }
}

fn narrower(name: &str, node: &Node, problems: &mut Problems) {
    let Some(template) = Template::find(name) else {
        return;
    };
    // Its own mistakes were reported when the section was decoded.
    let Some(narrowing) = Narrowing::decode_partly(node, &mut Problems::default()) else {
        return;
    };
    for field in narrowing.wider_than(template) {
        let spot = entry(node, field).map_or(node.spot, |entry| entry.value.spot);
        problems.error(
            code::NOT_NARROWER,
            spot,
            format!("`{field}` lies above what `{}` gives", shown(name)),
            "lower it, or remove it: a policy can narrow a template, never widen it",
        );
    }
}

fn keys<'a>(root: &'a Node, path: &[&str]) -> Vec<&'a str> {
    let node = path
        .iter()
        .try_fold(root, |node, key| entry(node, key).map(|entry| &entry.value));
    match node.map(|node| &node.value) {
        Some(Value::Mapping(entries)) => entries.iter().map(|entry| entry.key.as_str()).collect(),
        Some(Value::Scalar { .. } | Value::Sequence(_) | Value::Broken) | None => Vec::new(),
    }
}

/// The items of a list, or the one value that stands for a list.
fn items(node: &Node) -> &[Node] {
    match &node.value {
        Value::Sequence(items) => items,
        Value::Scalar { .. } | Value::Mapping(_) | Value::Broken => std::slice::from_ref(node),
    }
}

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
    without_effect(root, problems);
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

/// What is understood, and nothing goes by yet. Whoever wrote it believes in it.
fn without_effect(root: &Node, problems: &mut Problems) {
    const WORDS: &[(&str, &str, &str)] = &[
        (
            "approvals",
            "channels",
            "no channel but the terminal and MCP clients is served yet",
        ),
        (
            "network",
            "whitelist",
            "programs have no network yet; requests of adapters go by rules on `net.connect`",
        ),
        (
            "network",
            "allow_addresses",
            "programs have no network yet; requests of adapters go by rules on `net.connect`",
        ),
        ("scheduler", "", "nothing is scheduled yet"),
    ];
    for (section, key, why) in WORDS {
        let found = entry(root, section);
        let found = match *key {
            "" => found,
            key => found.and_then(|found| entry(&found.value, key)),
        };
        let Some(found) = found.filter(|found| !is_nothing(&found.value)) else {
            continue;
        };
        let name = match *key {
            "" => (*section).to_owned(),
            key => format!("{section}.{key}"),
        };
        problems.warning(
            code::NO_EFFECT,
            found.value.spot,
            format!("`{name}` has no effect: {why}"),
            "keep it for later, or remove it; do not rely on it",
        );
    }
    let default = entry(root, "network").and_then(|network| entry(&network.value, "default"));
    if let Some(found) = default.filter(|found| scalar(&found.value) != Some("none")) {
        problems.warning(
            code::NO_EFFECT,
            found.value.spot,
            "`network.default` has no effect: programs have no network yet".to_owned(),
            "write `none`, which is how it is",
        );
    }
}

/// Whether a list or mapping is empty.
fn is_nothing(node: &Node) -> bool {
    match &node.value {
        Value::Sequence(items) => items.is_empty(),
        Value::Mapping(entries) => entries.is_empty(),
        Value::Scalar { .. } | Value::Broken => false,
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

//! Decoders for shapes: lists, one-or-many, mappings with free keys. Items decode themselves.

use super::code;
use super::fields::Decode;
use super::problems::{Problems, shown};
use super::tree::{Entry, Node, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a node holds, in words.
pub(crate) fn kind(node: &Node) -> String {
    match &node.value {
        Value::Scalar { text, plain: true } if is_null(text) => "nothing".to_owned(),
        Value::Scalar { text, .. } => format!("`{}`", shown(text)),
        Value::Sequence(_) => "a list".to_owned(),
        Value::Mapping(_) => "a mapping".to_owned(),
        Value::Broken => "something unreadable".to_owned(),
    }
}

/// Whether bare text means that nothing was given.
pub(crate) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// Reports a value of the wrong shape, unless it was reported already.
pub(crate) fn wrong_type(node: &Node, wanted: &str, fix: &str, problems: &mut Problems) {
    if !matches!(node.value, Value::Broken) {
        let what = format!("expected {wanted}, found {}", kind(node));
        problems.error(code::WRONG_TYPE, node.spot, what, fix);
    }
}

/// The entries of a mapping.
pub(crate) fn mapping<'a>(
    node: &'a Node,
    context: &str,
    problems: &mut Problems,
) -> Option<&'a [Entry]> {
    if let Value::Mapping(entries) = &node.value {
        return Some(entries);
    }
    let fix = "write `key: value` lines below it, or remove it";
    wrong_type(node, &format!("a mapping for {context}"), fix, problems);
    None
}

/// The items of a list.
pub(crate) fn sequence<'a>(node: &'a Node, problems: &mut Problems) -> Option<&'a [Node]> {
    if let Value::Sequence(items) = &node.value {
        return Some(items);
    }
    wrong_type(
        node,
        "a list",
        "write a list, such as `[a, b]`; an empty one is `[]`",
        problems,
    );
    None
}

/// A list of items.
pub(crate) fn many<T>(
    item: impl Fn(&Node, &mut Problems) -> Option<T>,
) -> impl Fn(&Node, &mut Problems) -> Option<Vec<T>> {
    move |node, problems| {
        let items = sequence(node, problems)?;
        Some(
            items
                .iter()
                .filter_map(|node| item(node, problems))
                .collect(),
        )
    }
}

/// One item, or a list of them.
pub(crate) fn one_or_many<T>(
    item: impl Fn(&Node, &mut Problems) -> Option<T>,
) -> impl Fn(&Node, &mut Problems) -> Option<Vec<T>> {
    move |node, problems| match &node.value {
        Value::Sequence(items) => Some(
            items
                .iter()
                .filter_map(|node| item(node, problems))
                .collect(),
        ),
        Value::Scalar { .. } | Value::Mapping(_) | Value::Broken => {
            item(node, problems).map(|value| vec![value])
        }
    }
}

/// A mapping from names the author chooses.
pub(crate) fn named<T>(
    context: &'static str,
    key: impl Fn(&Node, &mut Problems) -> Option<Arc<str>>,
    item: impl Fn(&Node, &mut Problems) -> Option<T>,
) -> impl Fn(&Node, &mut Problems) -> Option<BTreeMap<Arc<str>, T>> {
    move |node, problems| {
        let mut found = BTreeMap::new();
        for entry in mapping(node, context, problems)? {
            // A key is checked like any scalar, at its own place.
            let name = key(&key_node(entry), problems);
            let value = item(&entry.value, problems);
            if let (Some(name), Some(value)) = (name, value) {
                found.insert(name, value);
            }
        }
        Some(found)
    }
}

fn key_node(entry: &Entry) -> Node {
    let value = Value::Scalar {
        text: entry.key.clone(),
        plain: false,
    };
    Node {
        spot: entry.spot,
        value,
        sound: true,
    }
}

/// A mapping with a table of its own.
pub(crate) fn table<T: Decode>(node: &Node, problems: &mut Problems) -> Option<T> {
    T::decode(node, problems)
}

/// The same decoder, for a field that may be absent.
pub(crate) fn some<T>(
    item: impl Fn(&Node, &mut Problems) -> Option<T>,
) -> impl Fn(&Node, &mut Problems) -> Option<Option<T>> {
    move |node, problems| item(node, problems).map(Some)
}

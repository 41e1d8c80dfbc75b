//! Decoders for the values of `match`, `except` and examples.

use super::code;
use super::fields::unknown_field;
use super::pattern::regex;
use super::problems::{Problems, shown};
use super::scalar::{line, word};
use super::shape::{is_null, mapping, sequence, wrong_type};
use super::tree::{Node, Value};
use crate::document::{ArgCondition, ArgTest, TEMPLATES, Template};
use airlock_core::{Effect, EffectSet, Syscall};
use serde_json::Value as Json;
use std::sync::Arc;

/// Every syscall, every `area.*`, and `*`.
pub(crate) fn syscall_words() -> Vec<String> {
    let mut words = vec!["*".to_owned()];
    for syscall in Syscall::all() {
        let area = format!("{}.*", syscall.area());
        if !words.contains(&area) {
            words.push(area);
        }
        words.push(syscall.name().to_owned());
    }
    words
}

/// A syscall that exists, `area.*` of an area that exists, or `*`.
pub(crate) fn syscall_pattern(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = line(node, "a syscall", problems)?;
    let known = text == "*"
        || Syscall::parse(text).is_ok()
        || text
            .strip_suffix(".*")
            .is_some_and(|area| Syscall::all().any(|syscall| syscall.area() == area));
    if known {
        return Some(Arc::from(text));
    }
    unknown_syscall(node, text, true, problems);
    None
}

/// A syscall that exists.
pub(crate) fn syscall(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = line(node, "a syscall", problems)?;
    if Syscall::parse(text).is_ok() {
        return Some(Arc::from(text));
    }
    unknown_syscall(node, text, false, problems);
    None
}

fn unknown_syscall(node: &Node, text: &str, patterns: bool, problems: &mut Problems) {
    let words = syscall_words();
    let known: Vec<&str> = words
        .iter()
        .map(String::as_str)
        .filter(|word| patterns || !word.ends_with('*'))
        .collect();
    problems.unknown(code::UNKNOWN_SYSCALL, node.spot, ("syscall", text), &known);
}

/// A set of effects.
pub(crate) fn effects(node: &Node, problems: &mut Problems) -> Option<EffectSet> {
    super::shape::one_or_many(word::<Effect>)(node, problems).map(|found| EffectSet::of(&found))
}

/// A sandbox template that exists.
pub(crate) fn template(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = line(node, "a sandbox template", problems)?;
    if Template::find(text).is_some() {
        return Some(Arc::from(text));
    }
    let known: Vec<&str> = TEMPLATES.iter().map(|template| template.name).collect();
    problems.unknown(
        code::UNKNOWN_TEMPLATE,
        node.spot,
        ("sandbox template", text),
        &known,
    );
    None
}

/// A path as a request would carry it: on one line, checked when the request is made.
pub(crate) fn request_path(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = line(node, "a path", problems)?;
    match airlock_core::RequestPath::parse(text, "/workspace") {
        Ok(_) => Some(Arc::from(text)),
        Err(error) => {
            problems.error(
                code::PATH,
                node.spot,
                error.to_string(),
                "write a shorter, plain path",
            );
            None
        }
    }
}

/// One word of a command: any text, even empty.
pub(crate) fn command_word(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    super::scalar::scalar(node, "a command word", problems).map(|(text, _)| Arc::from(text))
}

/// Any text on one line.
pub(crate) fn any_line(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    line(node, "a name", problems).map(Arc::from)
}

/// Conditions on arguments: a mapping from dotted path to value or test.
pub(crate) fn arguments(node: &Node, problems: &mut Problems) -> Option<Vec<ArgCondition>> {
    let mut found = Vec::new();
    for entry in mapping(node, "`arg`", problems)? {
        if entry.key.is_empty() || entry.key.split('.').any(str::is_empty) {
            problems.error(
                code::TEXT,
                entry.spot,
                format!(
                    "`{}` is not a dotted path into the arguments",
                    shown(&entry.key)
                ),
                "write names with single dots between them, such as `options.depth`",
            );
        } else if let Some(test) = argument_test(&entry.value, problems) {
            found.push(ArgCondition {
                path: Arc::from(entry.key.as_str()),
                test,
            });
        }
    }
    Some(found)
}

const TESTS: &[&str] = &["equals", "one_of", "matches"];

fn argument_test(node: &Node, problems: &mut Problems) -> Option<ArgTest> {
    let Value::Mapping(entries) = &node.value else {
        if matches!(node.value, Value::Sequence(_)) {
            let fix = "write `{ one_of: [...] }`, or `{ equals: [...] }` for the list itself";
            wrong_type(node, "a value or a test", fix, problems);
            return None;
        }
        return json(node, problems).map(ArgTest::Equals);
    };
    let [entry] = entries.as_slice() else {
        let fix = "give one of `equals`, `one_of` and `matches`";
        wrong_type(node, "exactly one test", fix, problems);
        return None;
    };
    match entry.key.as_str() {
        "equals" => json(&entry.value, problems).map(ArgTest::Equals),
        "one_of" => {
            let items = sequence(&entry.value, problems)?;
            let values = items
                .iter()
                .filter_map(|item| json(item, problems))
                .collect();
            Some(ArgTest::OneOf(values))
        }
        "matches" => regex(&entry.value, problems).map(ArgTest::Matches),
        _ => {
            unknown_field(entry, "a test of an argument", TESTS, problems);
            None
        }
    }
}

/// A node as a JSON value, by the YAML 1.2 core rules; values other YAML versions read
/// differently must be quoted.
pub(crate) fn json(node: &Node, problems: &mut Problems) -> Option<Json> {
    match &node.value {
        Value::Scalar { text, plain: false } => Some(Json::String(text.clone())),
        Value::Scalar { text, .. } => bare(node, text, problems),
        Value::Sequence(items) => {
            let values: Vec<Json> = items
                .iter()
                .filter_map(|item| json(item, problems))
                .collect();
            (values.len() == items.len()).then_some(Json::Array(values))
        }
        Value::Mapping(entries) => {
            let pairs: serde_json::Map<String, Json> = entries
                .iter()
                .filter_map(|entry| Some((entry.key.clone(), json(&entry.value, problems)?)))
                .collect();
            (pairs.len() == entries.len()).then_some(Json::Object(pairs))
        }
        Value::Broken => None,
    }
}

fn bare(node: &Node, text: &str, problems: &mut Problems) -> Option<Json> {
    match text {
        "true" => return Some(Json::Bool(true)),
        "false" => return Some(Json::Bool(false)),
        _ if is_null(text) => return Some(Json::Null),
        _ => {}
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let numeric = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && digits.contains(|c: char| c.is_ascii_digit());
    let word = text.to_ascii_lowercase();
    let number = serde_json::from_str::<serde_json::Number>(text).ok();
    if let Some(number) = number {
        return Some(Json::Number(number));
    }
    let odd_word = matches!(
        word.as_str(),
        "true" | "false" | "yes" | "no" | "on" | "off"
    ) || matches!(word.trim_start_matches(['-', '+']), ".inf" | ".nan");
    let odd_number = numeric
        && text
            .bytes()
            .all(|b| b.is_ascii_hexdigit() || b"+-._xo:".contains(&b));
    if odd_word || odd_number {
        problems.error(
            code::AMBIGUOUS,
            node.spot,
            format!(
                "`{}` means different things in different YAML versions",
                shown(text)
            ),
            "quote it if it is text; write `true`, `false` or a plain decimal number otherwise",
        );
        return None;
    }
    Some(Json::String(text.to_owned()))
}

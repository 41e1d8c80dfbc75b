//! Reads a tool's arguments, and says where and how they are wrong.

use super::contract::InvalidArguments;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The arguments of one tool.
pub(crate) trait Arguments: DeserializeOwned + JsonSchema {
    /// The names of its fields, as the schema has them.
    const FIELDS: &'static [&'static str];
}

/// Reads `value`; unknown names, wrong types and missing fields are refused.
pub(crate) fn parse<A: Arguments>(value: &Value) -> Result<A, InvalidArguments> {
    if let Some(object) = value.as_object()
        && let Some(unknown) = object.keys().find(|key| !A::FIELDS.contains(&key.as_str()))
    {
        return Err(unknown_field(unknown, A::FIELDS));
    }
    serde_path_to_error::deserialize(value).map_err(|error| InvalidArguments {
        at: location(error.path()),
        what: in_plain_words(&error.inner().to_string()),
        fix: Some(format!("the arguments are {}", listed(A::FIELDS))),
    })
}

/// Checks that the number at `at`, if given, is within bounds; `default` otherwise.
pub(super) fn bounded(
    at: &str,
    given: Option<u64>,
    default: u64,
    range: std::ops::RangeInclusive<u64>,
) -> Result<u64, InvalidArguments> {
    match given {
        None => Ok(default),
        Some(number) if range.contains(&number) => Ok(number),
        Some(number) => Err(InvalidArguments {
            at: at.to_owned(),
            what: format!("`{number}` is out of range"),
            fix: Some(format!("give {} to {}", range.start(), range.end())),
        }),
    }
}

fn unknown_field(name: &str, fields: &'static [&'static str]) -> InvalidArguments {
    let shown: String = name.chars().take(60).collect();
    let fix = match airlock_core::closest(name, fields.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("the arguments are {}", listed(fields)),
    };
    InvalidArguments {
        what: format!("there is no argument `{shown}`"),
        at: shown,
        fix: Some(fix),
    }
}

fn location(path: &serde_path_to_error::Path) -> String {
    let text = path.to_string();
    if text == "." { String::new() } else { text }
}

fn listed(fields: &[&str]) -> String {
    let quoted: Vec<String> = fields.iter().map(|field| format!("`{field}`")).collect();
    quoted.join(", ")
}

/// Serde speaks of Rust types; callers do not.
fn in_plain_words(message: &str) -> String {
    let message: String = message.chars().take(300).collect();
    match message.split_once(", expected struct ") {
        Some((before, _)) => format!("{before}, expected an object"),
        None => message.replace("expected u64", "expected a whole number"),
    }
}

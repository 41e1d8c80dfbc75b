//! What a person approved of a plugin's tools: each tool's name, description and schema, as a digest.
//!
//! A plugin says at every start what its tools are, and a model believes the words. So the words are
//! pinned when they are first approved, and a tool whose words changed is withheld until somebody
//! looked at it again. Pure.

use crate::tool::ToolDescription;
use airlock_core::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The approved tools of one plugin, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pins(BTreeMap<String, Digest>);

/// How a tool compares with what was approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PinChange {
    /// As approved.
    Same,
    /// Not there when it was approved.
    New,
    /// Described in other words, or with another schema.
    Changed,
    /// Approved, and no longer there.
    Missing,
}

impl Pins {
    /// Approves `tools` as they are.
    pub fn of(tools: &[ToolDescription]) -> Self {
        let pin = |tool: &ToolDescription| (tool.name.clone(), digest(tool));
        Self(tools.iter().map(pin).collect())
    }

    /// How `tool` compares.
    pub fn judge(&self, tool: &ToolDescription) -> PinChange {
        match self.0.get(&tool.name) {
            Some(pinned) if *pinned == digest(tool) => PinChange::Same,
            Some(_) => PinChange::Changed,
            None => PinChange::New,
        }
    }

    /// Each tool that differs, by name, those that are gone as well.
    pub fn compare(&self, tools: &[ToolDescription]) -> BTreeMap<String, PinChange> {
        let there = |name: &String| tools.iter().any(|tool| tool.name == *name);
        let gone = self.0.keys().filter(|name| !there(name));
        let gone = gone.map(|name| (name.clone(), PinChange::Missing));
        let judged = tools
            .iter()
            .map(|tool| (tool.name.clone(), self.judge(tool)));
        let changed = judged.filter(|(_, change)| *change != PinChange::Same);
        changed.chain(gone).collect()
    }

    /// One digest over all of them: what an approval is bound to.
    pub fn digest(&self) -> Digest {
        let mut text = String::new();
        for (name, digest) in &self.0 {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}:{name}:{digest}", name.len());
        }
        Digest::of(text.as_bytes())
    }
}

/// The digest of everything a model is told of a tool.
fn digest(tool: &ToolDescription) -> Digest {
    let mut text = String::new();
    for part in [&tool.name, &tool.summary] {
        let _ = write!(text, "{}:{part};", part.len());
    }
    canonical(&tool.schema, &mut text);
    text.push(if tool.read_only { 'r' } else { 'w' });
    Digest::of(text.as_bytes())
}

/// JSON with the names of each object in order, whatever order they came in.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
            text.push('{');
            for (name, value) in sorted {
                let _ = write!(text, "{}:{name}=", name.len());
                canonical(value, text);
            }
            text.push('}');
        }
        Value::Array(values) => {
            text.push('[');
            for value in values {
                canonical(value, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let _ = write!(text, "{value}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn tool(name: &str, summary: &str, schema: Value) -> ToolDescription {
        ToolDescription {
            name: name.to_owned(),
            summary: summary.to_owned(),
            schema,
            read_only: false,
        }
    }

    #[test]
    fn any_change_of_words_is_seen_and_order_is_none() {
        let schema = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
        let pins = Pins::of(&[tool("read", "Read it", schema.clone())]);
        for (case, changed, want) in [
            (
                "same",
                tool("read", "Read it", schema.clone()),
                PinChange::Same,
            ),
            (
                "other order",
                tool(
                    "read",
                    "Read it",
                    serde_json::from_str(
                        r#"{"properties":{"a":{"type":"string"}},"type":"object"}"#,
                    )
                    .unwrap(),
                ),
                PinChange::Same,
            ),
            (
                "words",
                tool("read", "Read it.", schema.clone()),
                PinChange::Changed,
            ),
            (
                "schema",
                tool("read", "Read it", json!({ "type": "object" })),
                PinChange::Changed,
            ),
            (
                "name",
                tool("Read", "Read it", schema.clone()),
                PinChange::New,
            ),
            (
                "claims to only read",
                ToolDescription {
                    read_only: true,
                    ..tool("read", "Read it", schema.clone())
                },
                PinChange::Changed,
            ),
        ] {
            assert_eq!(pins.judge(&changed), want, "{case}");
        }
        let now = [tool("write", "Write", schema)];
        let want = [("read", PinChange::Missing), ("write", PinChange::New)];
        let want = want.map(|(name, change)| (name.to_owned(), change));
        assert_eq!(pins.compare(&now), want.into());
        assert_eq!(Pins::of(&now).compare(&now), BTreeMap::new());
    }

    proptest! {
        #[test]
        fn different_descriptions_never_share_a_digest(
            one in ("[a:;=]{0,4}", "[a:;={}]{0,6}"), two in ("[a:;=]{0,4}", "[a:;={}]{0,6}"),
        ) {
            let make = |(name, text): &(String, String)| tool(name, text, json!({ text: name }));
            prop_assert_eq!(one == two, digest(&make(&one)) == digest(&make(&two)));
            let sets = [&one, &two].map(|one| Pins::of(&[make(one)]).digest());
            prop_assert_eq!(one == two, sets[0] == sets[1]);
        }
    }
}

//! Tools as MCP describes them.
//!
//! Names: MCP allows dots, but several clients and the models behind them do not, so `fs.read` is
//! offered as `fs_read`. Both names are understood. Two tools may come to one name that way; the names
//! see to it that one of them has it.

use crate::road::ToolInfo;
use crate::schemas;
use airlock_core::Effect;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::Value;
use std::sync::Arc;

/// Tools that only add: nothing that was there is lost by them.
const ADDING: &[&str] = &[
    "session.create",
    "session.observe",
    "session.resume",
    "session.archive",
    "git.commit",
];

/// Tools that change nothing more when called again: the same bytes, or what is so already.
const REPEATABLE: &[&str] = &[
    "fs.write",
    "fs.delete",
    "session.resume",
    "session.cancel",
    "session.archive",
];

/// The name a client sees.
pub(crate) fn offered_name(name: &str) -> String {
    name.replace('.', "_")
}

pub(crate) fn tool(info: &ToolInfo) -> Tool {
    let mut description = info.summary.clone();
    if let Some(example) = info.examples.first().filter(|example| *example != "{}") {
        description = format!("{description}. Arguments, for example: {example}");
    }
    let tool = Tool::new(offered_name(&info.name), description, object(&info.schema))
        .with_title(info.name.clone())
        .with_annotations(annotations(info));
    match schemas::output(&info.name) {
        Some(schema) => tool.with_raw_output_schema(object(&schema)),
        None => tool,
    }
}

fn object(schema: &Value) -> Arc<JsonObject> {
    let mut schema = schema.clone();
    narrow(&mut schema);
    let mut object = schema.as_object().cloned().unwrap_or_default();
    // The names of our types mean nothing to a client.
    object.remove("title");
    object
        .entry("type")
        .or_insert_with(|| Value::from("object"));
    Arc::new(object)
}

/// Leaves `null` out where it only means absent: several models take one type a value and no more.
fn narrow(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::Array(types)) = fields.get_mut("type") {
                types.retain(|one| one != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    fields.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(choices)) = fields.get_mut("anyOf") {
                choices.retain(|one| one.get("type").is_none_or(|kind| kind != "null"));
            }
            if fields.get("default").is_some_and(Value::is_null) {
                fields.remove("default");
            }
            fields.values_mut().for_each(narrow);
        }
        Value::Array(items) => items.iter_mut().for_each(narrow),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Hints, as the protocol calls them: a client may show them, policy never reads them.
fn annotations(info: &ToolInfo) -> ToolAnnotations {
    let name = info.name.as_str();
    ToolAnnotations::with_title(info.name.clone())
        .read_only(info.read_only)
        .destructive(!info.read_only && !ADDING.contains(&name))
        .idempotent(info.read_only || REPEATABLE.contains(&name))
        .open_world(info.effects.contains(Effect::Network))
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::EffectSet;
    use serde_json::json;

    fn info(name: &str, read_only: bool, effects: &[Effect]) -> ToolInfo {
        ToolInfo {
            name: name.to_owned(),
            summary: "Do it".to_owned(),
            schema: json!({ "title": "Arguments", "properties": {} }),
            examples: vec![r#"{"path":"a"}"#.to_owned()],
            read_only,
            effects: EffectSet::of(effects),
        }
    }

    #[test]
    fn hints_follow_from_what_the_syscall_does() {
        for (info, hints) in [
            (
                info("fs.read", true, &[Effect::Read]),
                [true, false, true, false],
            ),
            (
                info("fs.write", false, &[Effect::Write]),
                [false, true, true, false],
            ),
            (
                info("exec.run", false, &[Effect::Execute]),
                [false, true, false, false],
            ),
            (
                info("merge.apply", false, &[Effect::Write]),
                [false, true, false, false],
            ),
            (
                info("session.create", false, &[Effect::Control]),
                [false, false, false, false],
            ),
            (
                info("session.cancel", false, &[Effect::Control]),
                [false, true, true, false],
            ),
            (
                info("session.resume", false, &[Effect::Control]),
                [false, false, true, false],
            ),
            (
                info("net.connect", false, &[Effect::Network]),
                [false, true, false, true],
            ),
        ] {
            let tool = tool(&info);
            let found = tool.annotations.unwrap();
            let found = [
                found.read_only_hint,
                found.destructive_hint,
                found.idempotent_hint,
                found.open_world_hint,
            ];
            assert_eq!(found, hints.map(Some), "{}", info.name);
        }
    }

    #[test]
    fn absent_is_said_by_leaving_out_and_not_by_null() {
        let mut schema = json!({ "properties": {
            "a": { "type": ["string", "null"], "default": null },
            "b": { "type": "array", "items": { "type": ["integer", "null"] } },
            "c": { "anyOf": [{ "$ref": "#/$defs/x" }, { "type": "null" }] },
            "default": { "type": "string", "default": "x" },
        } });
        narrow(&mut schema);
        let want = json!({ "properties": {
            "a": { "type": "string" },
            "b": { "type": "array", "items": { "type": "integer" } },
            "c": { "anyOf": [{ "$ref": "#/$defs/x" }] },
            "default": { "type": "string", "default": "x" },
        } });
        assert_eq!(schema, want);
    }

    #[test]
    fn a_schema_is_an_object_without_names_of_ours() {
        let tool = tool(&info("fs.read", true, &[]));
        assert_eq!(tool.input_schema.get("type"), Some(&json!("object")));
        assert_eq!(tool.input_schema.get("title"), None);
        let description = tool.description.unwrap();
        assert!(description.contains(r#"{"path":"a"}"#), "{description}");
    }
}

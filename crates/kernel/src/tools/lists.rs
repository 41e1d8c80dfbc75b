//! Lists among arguments that stand where the schema has something else.
//!
//! Whoever reads arguments into a struct takes a list for an object with its fields in order. A rule that
//! looks at an argument by its name would not see it there, so it is refused before anything is decided.

use serde_json::{Map, Value};
use std::borrow::Cow;

/// How often one part of a schema refers to another.
const DEEPEST: usize = 16;

/// Where in `arguments` the first list is that `schema` has no list for; it is made only if there is any.
pub(crate) fn misplaced<'s>(
    schema: impl FnOnce() -> Cow<'s, Value>,
    arguments: &Value,
) -> Option<String> {
    if !has_list(arguments) {
        return None;
    }
    let root = schema();
    find(&root, &root, arguments, String::new())
}

fn has_list(value: &Value) -> bool {
    match value {
        Value::Array(_) => true,
        Value::Object(fields) => fields.values().any(has_list),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn find(root: &Value, schema: &Value, value: &Value, at: String) -> Option<String> {
    match value {
        Value::Array(items) => {
            if !takes_lists(root, schema, DEEPEST) {
                return Some(at);
            }
            let within = part(root, schema, DEEPEST, |schema| schema.get("items"))?;
            let mut items = items.iter().enumerate();
            items.find_map(|(number, item)| find(root, within, item, format!("{at}[{number}]")))
        }
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            let within = part(root, schema, DEEPEST, |schema| {
                schema.get("properties")?.get(name)
            })?;
            let dot = if at.is_empty() { "" } else { "." };
            find(root, within, value, format!("{at}{dot}{name}"))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// What `schema` refers to, and the ways it may be met.
fn further<'a>(root: &'a Value, schema: &'a Map<String, Value>) -> impl Iterator<Item = &'a Value> {
    let referred = schema.get("$ref").and_then(Value::as_str);
    let referred = referred.and_then(|place| root.pointer(place.strip_prefix('#')?));
    let ways = ["anyOf", "oneOf"].map(|word| schema.get(word).and_then(Value::as_array));
    referred
        .into_iter()
        .chain(ways.into_iter().flatten().flatten())
}

/// Whether a list may stand here. What a schema does not say may be anything.
fn takes_lists(root: &Value, schema: &Value, deepest: usize) -> bool {
    let (Some(schema), Some(deepest)) = (schema.as_object(), deepest.checked_sub(1)) else {
        return true;
    };
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "array",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "array"),
        _ => {
            let mut ways = further(root, schema).peekable();
            ways.peek().is_none() || ways.any(|way| takes_lists(root, way, deepest))
        }
    }
}

/// The first that `of` gives of `schema`, or of what it stands for.
fn part<'a>(
    root: &'a Value,
    schema: &'a Value,
    deepest: usize,
    of: impl Fn(&'a Map<String, Value>) -> Option<&'a Value> + Copy,
) -> Option<&'a Value> {
    let (schema, deepest) = (schema.as_object()?, deepest.checked_sub(1)?);
    of(schema).or_else(|| further(root, schema).find_map(|way| part(root, way, deepest, of)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemars::JsonSchema;
    use serde_json::json;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is wanted")]
    struct Inner {
        minutes: Option<u32>,
        words: Vec<String>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is wanted")]
    struct Outer {
        name: String,
        anything: Value,
        words: Option<Vec<String>>,
        inner: Option<Inner>,
        all: Vec<Inner>,
    }

    #[test]
    fn a_list_in_place_of_an_object_is_found_wherever_it_is() {
        let at = |arguments: Value| {
            let schema = || Cow::Owned(schemars::schema_for!(Outer).to_value());
            misplaced(schema, &arguments)
        };
        for fine in [
            json!({ "name": "a", "words": ["b"], "anything": [[1]] }),
            json!({ "inner": { "minutes": 1, "words": ["a"] }, "all": [{ "words": [] }] }),
            json!({ "inner": null, "unknown": [1] }),
        ] {
            assert_eq!(at(fine.clone()), None, "{fine}");
        }
        for (wrong, place) in [
            (json!({ "name": ["a"] }), "name"),
            (json!({ "inner": [1, ["a"]] }), "inner"),
            (json!({ "inner": { "minutes": [1] } }), "inner.minutes"),
            (json!({ "all": [{ "words": ["a"] }, [1, []]] }), "all[1]"),
            (json!([1]), ""),
        ] {
            assert_eq!(at(wrong.clone()).as_deref(), Some(place), "{wrong}");
        }
    }

    #[test]
    fn a_schema_that_refers_to_itself_comes_to_an_end() {
        let schema = json!({ "$ref": "#", "type": null });
        assert_eq!(misplaced(|| Cow::Owned(schema), &json!({ "a": [1] })), None);
    }
}

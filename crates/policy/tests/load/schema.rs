//! Schema and decoder agree.

use crate::{FULL, problems};
use airlock_policy::json_schema;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Paths of keys a schema lists: `merge.max_lines`, `rules.match.user`.
fn schema_keys(
    root: &serde_json::Value,
    node: &serde_json::Value,
    at: &str,
    out: &mut BTreeSet<String>,
) {
    if let Some(name) = node["$ref"].as_str() {
        let target = root
            .pointer(name.trim_start_matches('#'))
            .expect("a definition");
        schema_keys(root, target, at, out);
    }
    for key in ["anyOf", "allOf", "oneOf"] {
        for one in node[key].as_array().into_iter().flatten() {
            schema_keys(root, one, at, out);
        }
    }
    for (key, value) in node["properties"].as_object().into_iter().flatten() {
        let path = format!("{at}.{key}");
        out.insert(path.clone());
        schema_keys(root, value, &path, out);
    }
    if node["items"].is_object() {
        schema_keys(root, &node["items"], at, out);
    }
    if node["additionalProperties"].is_object() {
        schema_keys(root, &node["additionalProperties"], &format!("{at}.*"), out);
    }
}

/// Whether an object schema stands at every key that takes a mapping of fixed keys.
fn closed(node: &serde_json::Value, out: &mut usize) {
    match node {
        serde_json::Value::Object(map) => {
            if map.contains_key("properties") {
                assert_eq!(node["additionalProperties"], false, "{node}");
                *out += 1;
            }
            map.values().for_each(|value| closed(value, out));
        }
        serde_json::Value::Array(items) => items.iter().for_each(|value| closed(value, out)),
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_) => {}
    }
}

#[test]
fn schema_and_decoder_know_the_same_keys() {
    let schema = json_schema();
    let mut listed = BTreeSet::new();
    schema_keys(&schema, &schema, "", &mut listed);
    // What the decoder accepts is what it does not call unknown: try every key the schema lists at
    // every place, and a key that exists nowhere.
    let accepted: BTreeSet<String> = decoder_keys(&listed);
    assert_eq!(accepted, listed);
    let mut objects = 0;
    closed(&schema, &mut objects);
    assert!(objects > 20, "{objects}");
}

/// Of the places in `listed`, those at which the full file's decoder accepts a key.
fn decoder_keys(listed: &BTreeSet<String>) -> BTreeSet<String> {
    let keys: BTreeSet<&str> = listed
        .iter()
        .filter_map(|path| path.rsplit('.').next())
        .collect();
    let parents: BTreeSet<&str> = listed
        .iter()
        .filter_map(|path| path.rsplit_once('.'))
        .map(|(parent, _)| parent)
        .collect();
    let mut accepted = BTreeSet::new();
    for parent in parents {
        for key in &keys {
            let text = nested(parent, key);
            let unknown = problems(text.as_bytes()).into_iter().any(|problem| {
                problem.code == "policy/unknown-field"
                    && problem.what.starts_with(&format!("unknown field `{key}`"))
            });
            if !unknown {
                accepted.insert(format!("{parent}.{key}"));
            }
        }
    }
    accepted
}

const LISTS: &[&str] = &[
    "commands",
    "extensions",
    "rules",
    "except",
    "patterns",
    "match",
    "not_match",
    "whitelist.*",
];

/// A file that has `key` in the mapping at `path`, and nothing else.
fn nested(path: &str, key: &str) -> String {
    let mut text = format!("{{ {key}: ~ }}");
    let parts: Vec<&str> = path.split('.').skip(1).collect();
    for (depth, part) in parts.iter().enumerate().rev() {
        let name = match *part {
            "*" if parts[depth - 1] == "templates" => "code-executor",
            "*" => "some-name",
            name => name,
        };
        let in_list = LISTS.contains(part) && !(depth == 1 && *part == "match")
            || (*part == "*" && parts[depth - 1] == "whitelist");
        text = if in_list {
            format!("{{ {name}: [{text}] }}")
        } else {
            format!("{{ {name}: {text} }}")
        };
    }
    text
}

#[test]
fn every_key_of_the_schema_is_described_and_in_the_full_file() {
    let schema = json_schema();
    let mut listed = BTreeSet::new();
    schema_keys(&schema, &schema, "", &mut listed);
    for path in &listed {
        let key = path.rsplit('.').next().unwrap();
        assert!(
            FULL.contains(&format!("{key}:")),
            "{path} is not in the full file"
        );
    }
    insta::assert_json_snapshot!(schema);
}

/// Calls `visit` for every object in the schema.
fn objects<'a>(node: &'a Value, visit: &mut impl FnMut(&'a Map<String, Value>)) {
    match node {
        Value::Object(map) => {
            visit(map);
            map.values().for_each(|value| objects(value, visit));
        }
        Value::Array(items) => items.iter().for_each(|value| objects(value, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn the_schema_takes_null_only_where_the_decoder_does() {
    let mut nulls = 0;
    objects(&json_schema(), &mut |map| {
        let holds = |key: &str, word: &Value| {
            map.get(key).is_some_and(|value| {
                value == word || value.as_array().is_some_and(|all| all.contains(word))
            })
        };
        nulls += usize::from(holds("type", &"null".into()));
        assert!(!holds("enum", &Value::Null), "{:?}", map.get("enum"));
        assert_ne!(map.get("default"), Some(&Value::Null));
    });
    // The value an argument is compared with.
    assert_eq!(nulls, 1);
}

#[test]
fn what_must_be_given_has_no_default_and_the_rest_is_described() {
    objects(&json_schema(), &mut |map| {
        let required = map.get("required").cloned().unwrap_or_default();
        let required: Vec<&str> = required
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for (key, property) in map
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            assert!(
                property["description"].is_string(),
                "{key} has no description"
            );
            assert!(
                !required.contains(&key.as_str()) || property.get("default").is_none(),
                "{key}"
            );
        }
    });
}

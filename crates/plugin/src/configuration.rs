//! A plugin's settings, as its person gave them: held to its schema, secrets apart from the rest.
//!
//! Guarantee: what is shown of settings has no value that the schema marks `secret`, nor one that it
//! does not know; a problem names the place of a value, never the value. Non-guarantee: what the
//! plugin itself does with a secret it was given.

use crate::manifest::Manifest;
use airlock_yaml::{Mismatch, Problems, Schema, document};
use serde_json::{Map, Value, json};

/// Every way in which `given` is not what the plugin's schema wants.
pub fn check_configuration(manifest: &Manifest, given: &Value) -> Vec<Mismatch> {
    let wrong = |what: &str| {
        vec![Mismatch {
            at: String::new(),
            what: what.to_owned(),
        }]
    };
    let Some(schema) = &manifest.config_schema else {
        let is_nothing = given.as_object().is_some_and(Map::is_empty);
        return if is_nothing {
            Vec::new()
        } else {
            wrong("this plugin has no settings")
        };
    };
    // It was read as a schema once; as JSON it is the same YAML.
    let mut problems = Problems::default();
    let text = schema.to_string();
    let schema = document(text.as_bytes(), "a schema", &mut problems)
        .and_then(|node| Schema::parse_settings(&node, &mut problems));
    match schema {
        Some(schema) => schema.check(given),
        None => wrong("the plugin's schema cannot be read"),
    }
}

/// What may be shown of the settings: each that the schema knows with its value, of a secret only
/// whether it is set; and the names of those that it does not know.
pub fn shown_configuration(manifest: &Manifest, given: &Value) -> Value {
    let whole = manifest_schema(manifest);
    let known = properties(whole);
    let mut shown = Map::new();
    for (name, schema) in known.into_iter().flatten() {
        let value = given.get(name);
        let line = if is_secret(schema) || is_secret(whole) {
            json!({ "secret": true, "set": value.is_some() })
        } else {
            let value = value.map(|value| masked(schema, value));
            json!({ "set": value.is_some(), "value": value })
        };
        shown.insert(name.clone(), line);
    }
    for name in given.as_object().into_iter().flat_map(Map::keys) {
        if !known.is_some_and(|known| known.contains_key(name)) {
            let line = json!({ "set": true, "unknown": true });
            shown.insert(name.clone(), line);
        }
    }
    Value::Object(shown)
}

/// Every text that the schema marks secret, with the name of its setting.
pub fn secrets_of(manifest: &Manifest, given: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect(manifest_schema(manifest), given, "", &mut found);
    found
}

/// Every text of the settings, with the name of its setting: for where no schema says what is secret.
pub fn texts_of(given: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (name, value) in given.as_object().into_iter().flatten() {
        texts(value, name, &mut found);
    }
    found
}

/// The settings that are single values and no secrets, as text.
pub fn plain_settings(manifest: &Manifest, given: &Value) -> Vec<(String, String)> {
    let schema = manifest_schema(manifest);
    if is_secret(schema) {
        return Vec::new();
    }
    let known = properties(schema).into_iter().flatten();
    let plain = known.filter(|(_, schema)| !is_secret(schema));
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    plain
        .filter_map(|(name, _)| Some((name.clone(), text(given.get(name)?)?)))
        .collect()
}

fn manifest_schema(manifest: &Manifest) -> &Value {
    manifest.config_schema.as_ref().unwrap_or(&Value::Null)
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

fn is_secret(schema: &Value) -> bool {
    schema.get("secret").and_then(Value::as_bool) == Some(true)
}

/// `value` with what is secret, or unknown, taken out.
fn masked(schema: &Value, value: &Value) -> Value {
    if is_secret(schema) {
        return json!("(secret)");
    }
    match value {
        Value::Object(fields) => {
            let known = properties(schema);
            let field = |(name, value): (&String, &Value)| {
                let shown = match known.and_then(|known| known.get(name)) {
                    Some(schema) => masked(schema, value),
                    None => json!("(unknown)"),
                };
                (name.clone(), shown)
            };
            Value::Object(fields.iter().map(field).collect())
        }
        Value::Array(items) => {
            let schema = schema.get("items").unwrap_or(&Value::Null);
            Value::Array(items.iter().map(|item| masked(schema, item)).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// The texts below a place that is secret, whatever lies in between.
fn collect(schema: &Value, value: &Value, name: &str, found: &mut Vec<(String, String)>) {
    if is_secret(schema) {
        texts(value, name, found);
        return;
    }
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let schema = properties(schema).and_then(|known| known.get(field));
                collect(schema.unwrap_or(&Value::Null), value, field, found);
            }
        }
        Value::Array(items) => {
            let schema = schema.get("items").unwrap_or(&Value::Null);
            for item in items {
                collect(schema, item, name, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn texts(value: &Value, name: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) => found.push((name.to_owned(), text.clone())),
        Value::Number(_) | Value::Bool(_) => found.push((name.to_owned(), value.to_string())),
        Value::Array(items) => items.iter().for_each(|item| texts(item, name, found)),
        Value::Object(fields) => fields.values().for_each(|field| texts(field, name, found)),
        Value::Null => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(schema: &str) -> Manifest {
        let text = format!("name: t\nversion: 1.0.0\ntype: tool\n{schema}");
        Manifest::parse(text.as_bytes()).unwrap()
    }

    const SCHEMA: &str = "config_schema:\n  type: object\n  required: [url]\n  additionalProperties: false\n  properties:\n    url: { type: string, minLength: 4 }\n    limit: { type: integer, maximum: 9 }\n    api_key: { type: string, secret: true, minLength: 10 }\n    deep: { type: object, properties: { inner: { type: string, secret: true }, open: { type: string } } }\n    many: { type: array, items: { type: string, secret: true } }\n";

    #[test]
    fn every_problem_is_named_by_its_place_and_no_value_is_said() {
        let manifest = manifest(SCHEMA);
        let given = json!({ "limit": 10, "api_key": "hunter2", "ulr": "x" });
        let problems = check_configuration(&manifest, &given);
        let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let text = texts.join("; ");
        for place in ["limit", "api_key", "ulr", "url"] {
            assert!(text.contains(place), "{place}: {text}");
        }
        assert!(!text.contains("hunter2"), "{text}");
        let good = json!({ "url": "http", "limit": 3, "api_key": "0123456789" });
        assert!(check_configuration(&manifest, &good).is_empty());
    }

    #[test]
    fn one_without_a_schema_takes_nothing() {
        let manifest = manifest("");
        assert!(check_configuration(&manifest, &json!({})).is_empty());
        assert_eq!(check_configuration(&manifest, &json!({ "a": 1 })).len(), 1);
    }

    #[test]
    fn secrets_are_found_wherever_they_are_and_shown_nowhere() {
        let manifest = manifest(SCHEMA);
        let given = json!({
            "url": "http://x", "api_key": "S-key", "many": ["S-one", "S-two"], "ulr": "S-slip",
            "deep": { "inner": "S-inner", "open": "plain", "other": "S-other" },
        });
        let shown = shown_configuration(&manifest, &given).to_string();
        assert!(!shown.contains("S-"), "{shown}");
        assert!(
            shown.contains("http://x") && shown.contains("plain"),
            "{shown}"
        );
        let shown = shown_configuration(&manifest, &given);
        assert_eq!(shown["api_key"], json!({ "secret": true, "set": true }));
        assert_eq!(shown["limit"], json!({ "set": false, "value": null }));
        let mut secrets: Vec<String> = secrets_of(&manifest, &given)
            .into_iter()
            .map(|(_, text)| text)
            .collect();
        secrets.sort();
        assert_eq!(secrets, ["S-inner", "S-key", "S-one", "S-two"]);
        let plain = plain_settings(&manifest, &given);
        assert_eq!(plain, [("url".to_owned(), "http://x".to_owned())]);
    }
}

//! What the manifests of the built-in plugins say is what the kernel's own tools are.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use airlock_core::Tier;
use airlock_kernel::tools::{Registry, ToolSpec};
use airlock_plugin::{Manifest, ToolDescription, check_arguments};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The tools of the kernel that are no plugin's: they run what they are given.
const OWN: [&str; 2] = ["exec.run", "shell.run"];

fn manifests() -> Vec<(&'static str, Manifest)> {
    airlock_plugin::built_in().unwrap_or_else(|error| panic!("{error}"))
}

/// Every tool of a manifest, by the name it is called by.
fn described() -> BTreeMap<String, ToolDescription> {
    let mut all = BTreeMap::new();
    for (area, manifest) in manifests() {
        for tool in manifest.tools {
            all.insert(format!("{area}.{}", tool.name), tool);
        }
    }
    all
}

/// A schema in the words that manifests have: what is only for readers is left out, and what is
/// defined elsewhere stands where it is used.
fn plain(schema: &Value, definitions: &Map<String, Value>) -> Value {
    let Value::Object(fields) = schema else {
        return schema.clone();
    };
    if let Some(name) = fields.get("$ref").and_then(Value::as_str) {
        let name = name.rsplit('/').next().unwrap();
        return plain(&definitions[name], definitions);
    }
    if let Some(either) = fields.get("anyOf").and_then(Value::as_array) {
        let [one, Value::Object(none)] = either.as_slice() else {
            panic!("no manifest can say {schema}");
        };
        assert_eq!(none["type"], "null", "no manifest can say {schema}");
        let mut one = plain(one, definitions);
        let kind = one["type"].clone();
        one["type"] = json!([kind, "null"]);
        if let Some(choices) = one.get_mut("enum").and_then(Value::as_array_mut) {
            choices.push(Value::Null);
        }
        one["description"] = fields["description"].clone();
        return one;
    }
    if let Some(choices) = fields.get("oneOf").and_then(Value::as_array) {
        let choices: Vec<&Value> = choices.iter().map(|one| &one["const"]).collect();
        return json!({ "type": "string", "enum": choices });
    }
    let mut made = Map::new();
    for (name, value) in fields {
        let value = match (name.as_str(), value) {
            ("$schema" | "$defs" | "title" | "format" | "default", _) => continue,
            ("properties", Value::Object(properties)) => properties
                .iter()
                .map(|(name, property)| (name.clone(), plain(property, definitions)))
                .collect(),
            ("items", item) => plain(item, definitions),
            (_, value) => value.clone(),
        };
        made.insert(name.clone(), value);
    }
    Value::Object(made)
}

fn schema_of(spec: &ToolSpec) -> Value {
    let whole = spec.schema.get();
    let definitions = whole.get("$defs").and_then(Value::as_object).cloned();
    let mut schema = plain(whole, &definitions.unwrap_or_default());
    // Names the tool once more.
    schema.as_object_mut().unwrap().remove("description");
    schema
}

#[test]
fn every_built_in_tool_is_described_by_a_manifest_and_nothing_else_is() {
    let registry = Registry::built_in();
    let tools: BTreeSet<String> = registry
        .list()
        .map(|tool| tool.spec().name.to_owned())
        .filter(|name| !OWN.contains(&name.as_str()))
        .collect();
    let described: BTreeSet<String> = described().into_keys().collect();
    assert_eq!(tools, described);
}

#[test]
fn a_manifest_says_of_a_tool_what_the_kernel_does() {
    let registry = Registry::built_in();
    for (name, tool) in described() {
        let found = registry.get(&name).unwrap();
        let spec = found.spec();
        assert_eq!(spec.syscall, name);
        assert_eq!(tool.summary, spec.summary, "{name}");
        assert_eq!(tool.read_only, spec.read_only, "{name}");
        assert_eq!(tool.schema, schema_of(spec), "{name}");
        // What runs in the kernel itself changes nothing.
        assert!(spec.tier == Tier::Process || tool.read_only, "{name}");
        assert!([Tier::Kernel, Tier::Process].contains(&spec.tier), "{name}");
    }
}

#[test]
fn what_a_tool_takes_is_what_its_manifest_takes() {
    let registry = Registry::built_in();
    for (name, tool) in described() {
        let found = registry.get(&name).unwrap();
        for example in found.spec().examples {
            let arguments: Value = serde_json::from_str(example).unwrap();
            let misfits = check_arguments(&tool.schema, &arguments);
            assert!(misfits.is_ok(), "{name}: {misfits:?}");
        }
        let unknown = json!({ "there is no such argument": 1 });
        assert!(check_arguments(&tool.schema, &unknown).is_err(), "{name}");
    }
}

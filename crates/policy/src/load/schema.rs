//! JSON Schema of values whose Rust type does not say how they are written.
//!
//! These types carry no data: they stand in `#[schemars(with = "...")]`.

use super::words::Word;
use crate::document::Document;
use airlock_core::Syscall;
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::marker::PhantomData;

/// The JSON Schema of the policy file: every section, field, description and default.
pub fn json_schema() -> serde_json::Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<Document>();
    schema.insert("title".to_owned(), "Airlock policy".into());
    let mut schema = schema.to_value();
    without_null(&mut schema);
    schema
}

/// Takes out what the Rust types bring along but the file does not take: `null` for an absent
/// field, and defaults of fields that must be given.
fn without_null(node: &mut Value) {
    match node {
        Value::Array(items) => items.iter_mut().for_each(without_null),
        Value::Object(map) => {
            map.values_mut().for_each(without_null);
            required_have_no_default(map);
            optional_is_absent(map);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn required_have_no_default(map: &mut Map<String, Value>) {
    let required = map
        .get("required")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let Some(properties) = map.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for name in required.iter().filter_map(Value::as_str) {
        if let Some(property) = properties.get_mut(name).and_then(Value::as_object_mut) {
            property.remove("default");
        }
    }
}

fn optional_is_absent(map: &mut Map<String, Value>) {
    if map.get("default").is_some_and(Value::is_null) {
        map.remove("default");
    }
    if let Some(words) = map.get_mut("enum").and_then(Value::as_array_mut) {
        words.retain(|word| !word.is_null());
    }
    // Only the pair that stands for an optional value; a list of several types means them all.
    if let Some([one, null]) = map.get("type").and_then(Value::as_array).map(Vec::as_slice)
        && null == "null"
    {
        let one = one.clone();
        map.insert("type".to_owned(), one);
    }
    let Some(choices) = map.get_mut("anyOf").and_then(Value::as_array_mut) else {
        return;
    };
    choices.retain(|choice| *choice != json!({ "type": "null" }));
    if let [Value::Object(only)] = choices.as_slice() {
        let only = only.clone();
        map.remove("anyOf");
        for (key, value) in only {
            map.entry(key).or_insert(value);
        }
    }
}

/// One value, or a list of them.
pub(crate) struct OneOrMany<T>(PhantomData<T>);

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMany_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one }] })
    }
}

/// A bare host, or a mapping that says more about it.
pub(crate) struct HostOr<T>(PhantomData<T>);

impl<T: JsonSchema> JsonSchema for HostOr<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("HostOr_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let bare = generator.subschema_for::<Host>();
        let full = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [bare, full] })
    }
}

/// One word of a closed list.
pub(crate) struct OneOf<T>(PhantomData<T>);

impl<T: Word> JsonSchema for OneOf<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::KIND.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": T::WORDS })
    }
}

macro_rules! texts {
    ($($name:ident { $($body:tt)+ })+) => {
        $(
            pub(crate) struct $name;

            impl JsonSchema for $name {
                fn schema_name() -> Cow<'static, str> {
                    stringify!($name).into()
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    json_schema!({ $($body)+ })
                }
            }
        )+
    };
}

texts! {
    Version { "const": 1 }
    Size {
        "type": ["string", "integer"],
        "pattern": "^(0|[1-9][0-9]*)(KiB|MiB|GiB|KB|MB|GB)?$",
        "minimum": 0,
        "description": "A size: `KiB MiB GiB` are binary, `KB MB GB` decimal, a bare number is bytes."
    }
    Time {
        "type": "string",
        "pattern": "^(0|[1-9][0-9]*)(ms|s|m|h)$",
        "description": "A length of time, such as `250ms`, `30s`, `5m` or `2h`."
    }
    Glob {
        "type": "string",
        "minLength": 1,
        "description": "A path glob with gitignore meaning, relative to the workspace root; `!` excludes."
    }
    CapabilityPattern {
        "type": "string",
        "minLength": 1,
        "description": "A capability pattern: dotted segments, `*` for one or more; a path scope begins with `/`."
    }
    Regex {
        "type": "string",
        "minLength": 1,
        "description": "A regular expression that must match the whole text."
    }
    Host {
        "type": "string",
        "minLength": 1,
        "not": { "const": "*" },
        "description": "A host name, `*.` and a host name for every name below it, or an address."
    }
    Address { "type": "string", "description": "An address, or a block such as `10.1.0.0/16`." }
    Port { "type": "integer", "minimum": 1, "maximum": 65535 }
    Name {
        "type": "string",
        "pattern": "^[a-z0-9][a-z0-9_./-]{0,79}$"
    }
    TagName { "type": "string", "pattern": "^[a-z0-9_-]{1,64}$" }
    Digest { "type": "string", "pattern": "^[0-9a-f]{64}$" }
    Cpus {
        "type": "number",
        "exclusiveMinimum": 0,
        "description": "A number of processors, with at most three decimals."
    }
    AnyValue { "description": "Any value." }
    Arguments {
        "type": "object",
        "description": "From a dotted path into the arguments to the value wanted there, or to a test of it.",
        "additionalProperties": {
            "anyOf": [
                { "type": ["string", "number", "boolean", "null"] },
                { "type": "object", "additionalProperties": false, "required": ["equals"],
                  "properties": { "equals": { "description": "Exactly this value." } } },
                { "type": "object", "additionalProperties": false, "required": ["one_of"],
                  "properties": { "one_of": { "type": "array", "description": "One of these values." } } },
                { "type": "object", "additionalProperties": false, "required": ["matches"],
                  "properties": { "matches": { "type": "string",
                    "description": "Text that this regular expression matches in full." } } }
            ]
        }
    }
}

/// A syscall, `area.*` or `*`.
pub(crate) struct SyscallPattern;

impl JsonSchema for SyscallPattern {
    fn schema_name() -> Cow<'static, str> {
        "SyscallPattern".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "enum": super::conditions::syscall_words(),
            "description": "A syscall, `area.*` for every one of an area, or `*`."
        })
    }
}

/// A syscall.
pub(crate) struct SyscallName;

impl JsonSchema for SyscallName {
    fn schema_name() -> Cow<'static, str> {
        "SyscallName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Syscall::all().map(Syscall::name).collect();
        json_schema!({ "type": "string", "enum": names })
    }
}

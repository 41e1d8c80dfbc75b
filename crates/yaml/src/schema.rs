//! A stated subset of JSON Schema: `type`, `required`, `properties`, `additionalProperties`, `enum`,
//! `items`, `minimum`, `maximum`, `minLength`, `maxLength`, `minItems`, `maxItems`, `pattern`,
//! `description`.
//!
//! Schemas of settings may also mark a property `secret`: its value is kept out of what is shown.
//! A schema with any other keyword is refused, so nothing that is written is ignored. Patterns are
//! matched in linear time.

use crate::{Mapping, Node, Problems, Tree, code, shown};
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Most entries of one list or mapping of a schema.
const ENTRIES: usize = 200;
/// Most mismatches that are told.
const TOLD: usize = 10;
/// Largest compiled pattern.
const PATTERN_BYTES: usize = 256 * 1024;

/// The kinds of JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

const TYPES: &[(&str, Type)] = &[
    ("null", Type::Null),
    ("boolean", Type::Boolean),
    ("integer", Type::Integer),
    ("number", Type::Number),
    ("string", Type::String),
    ("array", Type::Array),
    ("object", Type::Object),
];

impl Type {
    fn takes(self, value: &Value) -> bool {
        match self {
            Self::Null => value.is_null(),
            Self::Boolean => value.is_boolean(),
            Self::Integer => {
                let whole = |number: f64| number.fract() == 0.0;
                value.is_i64() || value.is_u64() || value.as_f64().is_some_and(whole)
            }
            Self::Number => value.is_number(),
            Self::String => value.is_string(),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
        }
    }

    fn name(self) -> &'static str {
        let found = TYPES.iter().find(|(_, known)| *known == self);
        found.map_or("", |(name, _)| name)
    }
}

/// What a value has to look like.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    types: Vec<Type>,
    required: Vec<String>,
    properties: BTreeMap<String, Self>,
    open: Option<bool>,
    choices: Option<Vec<Value>>,
    items: Option<Box<Self>>,
    minimum: Option<f64>,
    maximum: Option<f64>,
    min_length: Option<usize>,
    max_length: Option<usize>,
    min_items: Option<usize>,
    max_items: Option<usize>,
    pattern: Option<Regex>,
    description: Option<String>,
    secret: bool,
}

/// What a schema describes, which decides the keywords it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Values,
    Settings,
}

/// A value that does not fit, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}", place(.at))]
pub struct Mismatch {
    /// Dotted path to the value at fault; empty for the whole.
    pub at: String,
    /// What is wrong with it.
    pub what: String,
}

fn place(at: &str) -> String {
    if at.is_empty() {
        String::new()
    } else {
        format!("`{at}`: ")
    }
}

impl Schema {
    /// A schema that only takes objects without any field.
    pub fn nothing() -> Self {
        Self {
            types: vec![Type::Object],
            open: Some(false),
            ..Self::default()
        }
    }

    /// Reads a schema.
    pub fn parse(node: &Node, problems: &mut Problems) -> Option<Self> {
        Self::parse_for(Purpose::Values, node, problems)
    }

    /// Reads a schema of settings: an object, whose properties may be marked `secret`.
    pub fn parse_settings(node: &Node, problems: &mut Problems) -> Option<Self> {
        let schema = Self::parse_for(Purpose::Settings, node, problems)?;
        if schema.types != [Type::Object] {
            problems.error(
                code::SCHEMA,
                node.spot,
                "settings are named",
                "write `type: object` and `properties:`",
            );
            return None;
        }
        Some(schema)
    }

    fn parse_for(purpose: Purpose, node: &Node, problems: &mut Problems) -> Option<Self> {
        let mut fields = Mapping::of(node, "a schema", problems)?;
        let mut schema = Self::default();
        if let Some(node) = fields.get("type") {
            let nodes = match &node.tree {
                Tree::List(nodes) => nodes.iter().collect(),
                Tree::Scalar { .. } | Tree::Map(_) => vec![node],
            };
            let types = nodes
                .iter()
                .filter_map(|node| node.word("type", TYPES, problems));
            schema.types = types.collect();
        }
        let properties = fields.get("properties");
        for (name, node) in properties
            .and_then(|node| named(node, problems))
            .unwrap_or_default()
        {
            if let Some(property) = Self::parse_for(purpose, node, problems) {
                schema.properties.insert(name.to_owned(), property);
            }
        }
        if let Some(nodes) = fields
            .get("required")
            .and_then(|node| node.list(ENTRIES, problems))
        {
            for node in nodes {
                let Some(name) = node.text(problems) else {
                    continue;
                };
                if schema.properties.contains_key(name) {
                    schema.required.push(name.to_owned());
                } else {
                    let known: Vec<&str> = schema.properties.keys().map(String::as_str).collect();
                    problems.unknown(code::SCHEMA, node.spot, ("property", name), &known);
                }
            }
        }
        schema.open = fields
            .get("additionalProperties")
            .and_then(|node| node.truth(problems));
        let choices = fields
            .get("enum")
            .and_then(|node| node.list(ENTRIES, problems));
        schema.choices = choices.map(|nodes| nodes.iter().map(Node::json).collect());
        if let Some(node) = fields.get("items") {
            schema.items = Self::parse_for(purpose, node, problems).map(Box::new);
        }
        schema.minimum = fields
            .get("minimum")
            .and_then(|node| amount(node, problems));
        schema.maximum = fields
            .get("maximum")
            .and_then(|node| amount(node, problems));
        schema.min_length = fields
            .get("minLength")
            .and_then(|node| size(node, problems));
        schema.max_length = fields
            .get("maxLength")
            .and_then(|node| size(node, problems));
        schema.min_items = fields.get("minItems").and_then(|node| size(node, problems));
        schema.max_items = fields.get("maxItems").and_then(|node| size(node, problems));
        schema.pattern = fields
            .get("pattern")
            .and_then(|node| pattern(node, problems));
        schema.description = fields
            .get("description")
            .and_then(|node| node.line(problems));
        if purpose == Purpose::Settings {
            let secret = fields.get("secret");
            schema.secret = secret.and_then(|node| node.truth(problems)) == Some(true);
        }
        fields.close(problems);
        Some(schema)
    }

    /// A schema for named inputs: an object that is closed unless it says otherwise, which it may
    /// not.
    pub fn parse_inputs(node: &Node, problems: &mut Problems) -> Option<Self> {
        let mut schema = Self::parse(node, problems)?;
        if schema.types != [Type::Object] || schema.open == Some(true) {
            problems.error(
                code::SCHEMA,
                node.spot,
                "inputs are named, and only those that are named are taken",
                "write `type: object`, `properties:` and no `additionalProperties: true`",
            );
            return None;
        }
        schema.open = Some(false);
        Some(schema)
    }

    /// The schema of property `name`.
    pub fn property(&self, name: &str) -> Option<&Self> {
        self.properties.get(name)
    }

    /// The names of the properties.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.properties.keys().map(String::as_str)
    }

    /// Whether its values are to be kept out of what is shown.
    pub fn is_secret(&self) -> bool {
        self.secret
    }

    /// Whether a value of type `name` fits, as far as types go.
    pub fn may_be(&self, name: &str) -> bool {
        self.types.is_empty() || self.types.iter().any(|known| known.name() == name)
    }

    /// Whether only values of type `name` fit.
    pub fn is_only(&self, name: &str) -> bool {
        self.types.len() == 1 && self.may_be(name)
    }

    /// The schema of each element, if it says.
    pub fn element(&self) -> Option<&Self> {
        self.items.as_deref()
    }

    /// Checks `value`; empty if it fits.
    pub fn check(&self, value: &Value) -> Vec<Mismatch> {
        let mut found = Vec::new();
        self.check_at(value, &mut String::new(), &mut found);
        found
    }

    fn check_at(&self, value: &Value, at: &mut String, found: &mut Vec<Mismatch>) {
        let mut wrong = |what: String| {
            if found.len() < TOLD {
                found.push(Mismatch {
                    at: at.clone(),
                    what,
                });
            }
        };
        if !self.types.is_empty() && !self.types.iter().any(|known| known.takes(value)) {
            let names: Vec<&str> = self.types.iter().map(|known| known.name()).collect();
            wrong(format!("this is not of type {}", names.join(" or ")));
            return;
        }
        if let Some(choices) = &self.choices
            && !choices.contains(value)
        {
            let choices: Vec<String> = choices.iter().take(10).map(Value::to_string).collect();
            wrong(format!("this is not one of {}", choices.join(", ")));
        }
        match value {
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or(f64::NAN);
                if let Some(least) = self.minimum.filter(|least| number < *least) {
                    wrong(format!("this is less than {least}"));
                }
                if let Some(most) = self.maximum.filter(|most| number > *most) {
                    wrong(format!("this is more than {most}"));
                }
            }
            Value::String(text) => {
                let length = text.chars().count();
                if let Some(least) = self.min_length.filter(|least| length < *least) {
                    wrong(format!("this is shorter than {least} characters"));
                }
                if let Some(most) = self.max_length.filter(|most| length > *most) {
                    wrong(format!("this is longer than {most} characters"));
                }
                if let Some(pattern) = self.pattern.as_ref().filter(|one| !one.is_match(text)) {
                    wrong(format!("this does not match `{}`", shown(pattern.as_str())));
                }
            }
            Value::Array(items) => {
                if let Some(least) = self.min_items.filter(|least| items.len() < *least) {
                    wrong(format!("there are fewer than {least} elements"));
                }
                if let Some(most) = self.max_items.filter(|most| items.len() > *most) {
                    wrong(format!("there are more than {most} elements"));
                }
                if let Some(schema) = &self.items {
                    for (index, item) in items.iter().enumerate() {
                        within(at, &index.to_string(), |at| {
                            schema.check_at(item, at, found);
                        });
                    }
                }
            }
            Value::Object(fields) => self.check_fields(fields, at, found),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn check_fields(
        &self,
        fields: &Map<String, Value>,
        at: &mut String,
        found: &mut Vec<Mismatch>,
    ) {
        let mut wrong = |name: &str, what: &str| {
            if found.len() < TOLD {
                let mut at = at.clone();
                within(&mut at, &shown(name), |at| {
                    found.push(Mismatch {
                        at: at.clone(),
                        what: what.to_owned(),
                    });
                });
            }
        };
        for name in &self.required {
            if !fields.contains_key(name) {
                wrong(name, "this is missing");
            }
        }
        if self.open == Some(false) {
            for name in fields
                .keys()
                .filter(|name| !self.properties.contains_key(*name))
            {
                let near = airlock_core::closest(name, self.properties.keys().map(String::as_str));
                let near = near.map(|near| format!("; did you mean `{near}`?"));
                wrong(
                    name,
                    &format!("there is no such field{}", near.unwrap_or_default()),
                );
            }
        }
        for (name, schema) in &self.properties {
            if let Some(value) = fields.get(name) {
                within(at, name, |at| schema.check_at(value, at, found));
            }
        }
    }

    /// The schema as JSON Schema.
    pub fn to_json(&self) -> Value {
        let mut out = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                out.insert(name.to_owned(), value);
            }
        };
        let types: Vec<&str> = self.types.iter().map(|known| known.name()).collect();
        put(
            "type",
            match types.as_slice() {
                [] => None,
                [one] => Some(json!(one)),
                many => Some(json!(many)),
            },
        );
        put(
            "description",
            self.description.as_ref().map(|text| json!(text)),
        );
        let properties = self
            .properties
            .iter()
            .map(|(name, one)| (name.clone(), one.to_json()));
        let properties: Map<String, Value> = properties.collect();
        put(
            "properties",
            (!properties.is_empty()).then_some(Value::Object(properties)),
        );
        put(
            "required",
            (!self.required.is_empty()).then(|| json!(self.required)),
        );
        put("additionalProperties", self.open.map(Value::Bool));
        put("enum", self.choices.as_ref().map(|choices| json!(choices)));
        put("items", self.items.as_ref().map(|items| items.to_json()));
        put("minimum", self.minimum.map(number));
        put("maximum", self.maximum.map(number));
        put("minLength", self.min_length.map(|length| json!(length)));
        put("maxLength", self.max_length.map(|length| json!(length)));
        put("minItems", self.min_items.map(|length| json!(length)));
        put("maxItems", self.max_items.map(|length| json!(length)));
        put(
            "pattern",
            self.pattern.as_ref().map(|pattern| json!(pattern.as_str())),
        );
        put("secret", self.secret.then_some(Value::Bool(true)));
        Value::Object(out)
    }
}

/// Whole numbers without a point, as they were written.
fn number(number: f64) -> Value {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "only numbers that are whole and small"
    )]
    if number.fract() == 0.0 && number.abs() < 1e15 {
        return json!(number as i64);
    }
    json!(number)
}

fn within(at: &mut String, name: &str, check: impl FnOnce(&mut String)) {
    let length = at.len();
    if !at.is_empty() {
        at.push('.');
    }
    at.push_str(name);
    check(at);
    at.truncate(length);
}

/// The properties of a schema, whose names may be any text.
fn named<'a>(node: &'a Node, problems: &mut Problems) -> Option<Vec<(&'a str, &'a Node)>> {
    let Tree::Map(entries) = &node.tree else {
        problems.error(
            code::SCHEMA,
            node.spot,
            "`properties` is no mapping",
            "write `name: schema` lines",
        );
        return None;
    };
    if entries.len() > ENTRIES {
        problems.error(
            code::SCHEMA,
            node.spot,
            "there are too many properties",
            "split the definition",
        );
        return None;
    }
    Some(
        entries
            .iter()
            .map(|entry| (entry.key.as_str(), &entry.value))
            .collect(),
    )
}

fn amount(node: &Node, problems: &mut Problems) -> Option<f64> {
    let number = node.json().as_f64();
    if number.is_none() {
        problems.error(
            code::SCHEMA,
            node.spot,
            "this is no number",
            "write a number",
        );
    }
    number
}

fn size(node: &Node, problems: &mut Problems) -> Option<usize> {
    let number = node.number(0..=i64::from(u32::MAX), problems)?;
    usize::try_from(number).ok()
}

/// Reads a pattern whose cost is bounded.
pub fn pattern(node: &Node, problems: &mut Problems) -> Option<Regex> {
    let text = node.text(problems)?;
    let built = RegexBuilder::new(text)
        .size_limit(PATTERN_BYTES)
        .nest_limit(50)
        .build();
    match built {
        Ok(pattern) => Some(pattern),
        Err(error) => {
            let last = error.to_string();
            let last = last
                .lines()
                .last()
                .unwrap_or_default()
                .trim_start_matches("error: ");
            let what = format!("this is no pattern: {}", shown(last));
            problems.error(
                code::SCHEMA,
                node.spot,
                what,
                "escape special characters with a backslash",
            );
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;
    use proptest::prelude::*;

    fn schema(text: &str) -> Schema {
        let mut problems = Problems::default();
        let root = read(text, 0, &mut problems).unwrap();
        let schema = Schema::parse(&root, &mut problems);
        problems.settle(schema).unwrap()
    }

    const ALL: &str = "\
type: object
required: [name]
additionalProperties: false
properties:
  name: { type: string, minLength: 2, maxLength: 5, pattern: '^[a-z]+$', description: a name }
  count: { type: integer, minimum: 1, maximum: 10 }
  mode: { enum: [fast, slow, 3] }
  tags: { type: array, items: { type: string }, minItems: 1, maxItems: 2 }
  any: { type: [string, 'null'] }
";

    #[test]
    fn every_keyword_is_kept() {
        let schema = schema(ALL);
        for (value, at, what) in [
            (json!({"name": "abc"}), "", ""),
            (
                json!({"name": "abc", "count": 10, "mode": 3, "tags": ["x"], "any": null}),
                "",
                "",
            ),
            (json!([]), "", "this is not of type object"),
            (json!({}), "name", "this is missing"),
            (
                json!({"name": "a"}),
                "name",
                "this is shorter than 2 characters",
            ),
            (
                json!({"name": "abcdef"}),
                "name",
                "this is longer than 5 characters",
            ),
            (
                json!({"name": "ABC"}),
                "name",
                "this does not match `^[a-z]+$`",
            ),
            (json!({"name": 7}), "name", "this is not of type string"),
            (
                json!({"name": "abc", "count": 0}),
                "count",
                "this is less than 1",
            ),
            (
                json!({"name": "abc", "count": 11}),
                "count",
                "this is more than 10",
            ),
            (
                json!({"name": "abc", "count": 1.5}),
                "count",
                "this is not of type integer",
            ),
            (
                json!({"name": "abc", "mode": "3"}),
                "mode",
                "this is not one of \"fast\", \"slow\", 3",
            ),
            (
                json!({"name": "abc", "tags": []}),
                "tags",
                "there are fewer than 1 elements",
            ),
            (
                json!({"name": "abc", "tags": ["a", "b", "c"]}),
                "tags",
                "there are more than 2 elements",
            ),
            (
                json!({"name": "abc", "tags": ["a", 1]}),
                "tags.1",
                "this is not of type string",
            ),
            (
                json!({"name": "abc", "nam": 1}),
                "nam",
                "there is no such field; did you mean `name`?",
            ),
        ] {
            let found = schema.check(&value);
            let told = found
                .first()
                .map(|one| (one.at.as_str(), one.what.as_str()));
            assert_eq!(told, (!what.is_empty()).then_some((at, what)), "{value}");
        }
    }

    #[test]
    fn what_is_not_in_the_subset_is_refused() {
        for keyword in [
            "$ref: '#/x'",
            "oneOf: []",
            "anyOf: []",
            "allOf: []",
            "not: {}",
            "if: {}",
            "const: 1",
            "format: date",
            "patternProperties: {}",
            "multipleOf: 2",
            "$defs: {}",
            "uniqueItems: true",
        ] {
            let mut problems = Problems::default();
            let root = read(keyword, 0, &mut problems).unwrap();
            let parsed = Schema::parse(&root, &mut problems);
            let error = problems.settle(parsed).unwrap_err();
            assert_eq!(error.problems()[0].code, code::UNKNOWN, "{keyword}");
        }
    }

    #[test]
    fn only_settings_have_secrets_and_settings_are_objects() {
        let text = "{type: object, properties: {key: {type: string, secret: true}, b: {}}}";
        let read_as = |text: &str, parse: fn(&Node, &mut Problems) -> Option<Schema>| {
            let mut problems = Problems::default();
            let root = read(text, 0, &mut problems).unwrap();
            let schema = parse(&root, &mut problems);
            problems.settle(schema)
        };
        let schema = read_as(text, Schema::parse_settings).unwrap();
        assert!(schema.property("key").unwrap().is_secret());
        assert!(!schema.property("b").unwrap().is_secret());
        assert_eq!(schema.to_json()["properties"]["key"]["secret"], true);
        assert!(read_as(text, Schema::parse).is_err());
        for bad in ["{type: string}", "{}", "{type: [object, string]}"] {
            assert!(read_as(bad, Schema::parse_settings).is_err(), "{bad}");
        }
    }

    #[test]
    fn patterns_that_would_cost_too_much_are_refused() {
        for text in [
            "pattern: '(a'",
            "pattern: '((((a{1000}){1000}){1000}){1000})'",
            "required: [nowhere]",
        ] {
            let mut problems = Problems::default();
            let root = read(text, 0, &mut problems).unwrap();
            let parsed = Schema::parse(&root, &mut problems);
            assert!(problems.settle(parsed).is_err(), "{text}");
        }
    }

    #[test]
    fn mismatches_are_bounded() {
        let schema = schema("{type: array, items: {type: string}}");
        let value = Value::Array(vec![json!(1); 100_000]);
        assert_eq!(schema.check(&value).len(), TOLD);
    }

    proptest! {
        /// What a schema writes of itself reads back as a schema with the same answers.
        #[test]
        fn a_schema_survives_its_own_json(count in -5i64..15, name in "[a-zA-Z]{0,7}") {
            let first = schema(ALL);
            let second = schema(&first.to_json().to_string());
            let value = json!({"name": name, "count": count});
            prop_assert_eq!(first.check(&value), second.check(&value));
            prop_assert_eq!(first.to_json(), second.to_json());
        }
    }
}

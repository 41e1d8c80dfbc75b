//! What callers give: names put right, defaults filled in, everything checked.

use airlock_yaml::{Mapping, Names, Node, Problems, Schema, code};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Arguments that do not fit, or would not mean what they say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct ArgumentError {
    /// The argument at fault.
    pub at: String,
    /// What is wrong with it.
    pub what: String,
    /// How to put it right, where that is known.
    pub fix: Option<String>,
}

impl ArgumentError {
    pub(crate) fn new(at: &str, what: impl Into<String>, fix: &str) -> Self {
        Self {
            at: at.to_owned(),
            what: what.into(),
            fix: Some(fix.to_owned()),
        }
    }
}

/// What a caller may give, and what is assumed.
#[derive(Debug, Clone)]
pub struct Interface {
    /// What the arguments look like, other names and defaults aside.
    pub input: Schema,
    rename: BTreeMap<String, String>,
    defaults: Map<String, Value>,
    /// Whether running it changes nothing.
    pub read_only: bool,
    /// Whether running it twice is the same as running it once.
    pub idempotent: bool,
}

impl Interface {
    pub(super) fn parse(node: &Node, problems: &mut Problems) -> Option<Self> {
        let mut fields = Mapping::of(node, "`interface`", problems)?;
        let input = fields.get("input").map_or_else(
            || Some(Schema::nothing()),
            |node| Schema::parse_inputs(node, problems),
        );
        let mut flag = |key, problems: &mut Problems| {
            fields
                .get(key)
                .map_or(Some(false), |node| node.truth(problems))
        };
        let read_only = flag("read_only", problems);
        let idempotent = flag("idempotent", problems);
        let rename = fields.get("rename");
        let defaults = fields.get("defaults");
        fields.close(problems);
        let input = input?;
        let read_only = read_only?;
        Some(Self {
            rename: renames(rename, &input, problems),
            defaults: filled(defaults, &input, problems),
            input,
            read_only,
            // What changes nothing changes nothing twice.
            idempotent: idempotent? || read_only,
        })
    }

    /// What inputs are where a caller does not give them.
    pub fn defaults(&self) -> &Map<String, Value> {
        &self.defaults
    }

    /// The arguments as the mapping uses them: other names put right, defaults filled in, checked.
    pub fn arguments(&self, given: &Value) -> Result<Map<String, Value>, ArgumentError> {
        let Some(given) = given.as_object() else {
            return Err(ArgumentError::new(
                "",
                "the arguments are not an object",
                "give an object",
            ));
        };
        let mut arguments = Map::new();
        for (name, value) in given {
            let meant = self.rename.get(name).unwrap_or(name);
            if arguments.insert(meant.clone(), value.clone()).is_some() {
                let what = format!("`{meant}` is given twice, once by another name");
                return Err(ArgumentError::new(meant, what, "give it once"));
            }
        }
        for (name, value) in &self.defaults {
            arguments
                .entry(name.clone())
                .or_insert_with(|| value.clone());
        }
        let whole = Value::Object(arguments.clone());
        if let Some(mismatch) = self.input.check(&whole).into_iter().next() {
            return Err(ArgumentError {
                at: mismatch.at,
                what: mismatch.what,
                fix: None,
            });
        }
        Ok(arguments)
    }
}

/// Other names, each of which leads to an input.
fn renames(
    node: Option<&Node>,
    input: &Schema,
    problems: &mut Problems,
) -> BTreeMap<String, String> {
    let pairs = node
        .and_then(|node| node.pairs(Names::Field, 50, problems))
        .unwrap_or_default();
    let mut renames = BTreeMap::new();
    for (other, node) in pairs {
        let Some(name) = node.text(problems) else {
            continue;
        };
        if input.property(name).is_none() {
            let known: Vec<&str> = input.names().collect();
            problems.unknown(code::REFERENCE, node.spot, ("input", name), &known);
        } else if input.property(other).is_some() {
            let what = format!("`{other}` is an input itself");
            problems.error(code::VALUE, node.spot, what, "rename only what is no input");
        } else {
            renames.insert(other.to_owned(), name.to_owned());
        }
    }
    renames
}

/// Defaults, each of which fits its input.
fn filled(node: Option<&Node>, input: &Schema, problems: &mut Problems) -> Map<String, Value> {
    let pairs = node
        .and_then(|node| node.pairs(Names::Field, 50, problems))
        .unwrap_or_default();
    let mut defaults = Map::new();
    for (name, node) in pairs {
        let Some(schema) = input.property(name) else {
            let known: Vec<&str> = input.names().collect();
            problems.unknown(code::REFERENCE, node.spot, ("input", name), &known);
            continue;
        };
        let value = node.json();
        if let Some(mismatch) = schema.check(&value).into_iter().next() {
            let what = format!("the default of `{name}` does not fit: {mismatch}");
            problems.error(
                code::SCHEMA,
                node.spot,
                what,
                "give one that fits the schema",
            );
        }
        defaults.insert(name.to_owned(), value);
    }
    defaults
}

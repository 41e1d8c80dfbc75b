//! References: how values reach the arguments of steps.
//!
//! `${inputs.x}` and `${steps.a.value.y}` stand for values; a text that is nothing but a reference
//! is that value, whatever its type; within other text it has to be a single value. There is no
//! arithmetic, no function and no loop. `$${` stands for `${`.

use airlock_core::programs::Word;
use airlock_yaml::{Node, Problems, Tree, code, shown};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Most bytes that one resolved value may have.
const RESOLVED_BYTES: usize = 1024 * 1024;
/// Most parts of a reference.
const PARTS: usize = 16;

/// What references are looked up in.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The run's inputs.
    pub inputs: &'a Value,
    /// What came of each step so far: `ok`, `value`, `code` and `flagged`.
    pub steps: &'a BTreeMap<String, Value>,
}

/// A reference that leads nowhere, or to what cannot stand there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`${{{reference}}}` {why}")]
pub struct LookupError {
    /// The reference.
    pub reference: String,
    /// What is the matter.
    pub why: &'static str,
}

/// What names can be referred to where something is written.
pub(super) struct Known<'a> {
    pub(super) inputs: BTreeSet<&'a str>,
    pub(super) steps: &'a BTreeSet<String>,
}

/// `inputs.x` or `steps.a.value.y`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    text: String,
    parts: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
enum Form {
    Literal(Value),
    Reference(Reference),
    Text(Vec<Piece>),
    List(Vec<Expression>),
    Object(BTreeMap<String, Expression>),
}

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(String),
    Reference(Reference),
}

/// A value with references in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression(Form);

impl Reference {
    pub(super) fn parse(
        text: &str,
        node: &Node,
        known: &Known<'_>,
        problems: &mut Problems,
    ) -> Option<Self> {
        let parts: Vec<String> = text.split('.').map(str::to_owned).collect();
        let plain = |part: &String| {
            !part.is_empty()
                && part
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        };
        let spot = node.spot;
        let written = shown(text);
        if parts.len() > PARTS || !parts.iter().all(plain) {
            let what = format!("`${{{written}}}` is no reference");
            let fix = "write `${inputs.name}` or `${steps.id.value.field}`; there is no code in a workflow";
            problems.error(code::REFERENCE, spot, what, fix);
            return None;
        }
        let mut words = parts.iter().map(String::as_str);
        match (words.next(), words.next(), words.next()) {
            (Some("inputs"), Some(name), _) => {
                if !known.inputs.contains(name) {
                    let names: Vec<&str> = known.inputs.iter().copied().collect();
                    problems.unknown(code::REFERENCE, spot, ("input", name), &names);
                    return None;
                }
            }
            (Some("steps"), Some(id), Some("value" | "ok" | "code" | "flagged")) => {
                if !known.steps.contains(id) {
                    let names: Vec<&str> = known.steps.iter().map(String::as_str).collect();
                    problems.unknown(code::REFERENCE, spot, ("earlier step", id), &names);
                    return None;
                }
            }
            (Some("steps"), ..) => {
                let what = format!("`${{{written}}}` does not say what of the step");
                problems.error(
                    code::REFERENCE,
                    spot,
                    what,
                    "add `.value`, `.ok`, `.code` or `.flagged`",
                );
                return None;
            }
            (Some("secrets" | "secret" | "env" | "environment"), ..) => {
                let what = format!("`${{{written}}}`: secrets and variables cannot be referred to");
                problems.error(
                    code::REFERENCE,
                    spot,
                    what,
                    "tools get secrets from the broker, never from a workflow",
                );
                return None;
            }
            _ => {
                let what = format!("`${{{written}}}` leads nowhere");
                problems.error(
                    code::REFERENCE,
                    spot,
                    what,
                    "begin with `inputs.` or `steps.`",
                );
                return None;
            }
        }
        Some(Self {
            text: text.to_owned(),
            parts,
        })
    }

    fn find<'a>(&self, scope: Scope<'a>) -> Result<&'a Value, LookupError> {
        let mut parts = self.parts.iter();
        let first = parts.next().map(String::as_str);
        let mut at = if first == Some("inputs") {
            scope.inputs
        } else {
            let id = parts.next().map(String::as_str).unwrap_or_default();
            let step = scope.steps.get(id);
            step.ok_or_else(|| self.error("did not run"))?
        };
        for part in parts {
            let next = match at {
                Value::Object(fields) => fields.get(part),
                Value::Array(items) => part
                    .parse::<usize>()
                    .ok()
                    .and_then(|index| items.get(index)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
            };
            at = next.ok_or_else(|| self.error("is not there"))?;
        }
        Ok(at)
    }

    fn error(&self, why: &'static str) -> LookupError {
        LookupError {
            reference: self.text.clone(),
            why,
        }
    }
}

impl fmt::Display for Expression {
    /// As JSON, with references as they are written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.written())
    }
}

impl Expression {
    fn written(&self) -> Value {
        let referring = |reference: &Reference| format!("${{{}}}", reference.text);
        match &self.0 {
            Form::Literal(value) => value.clone(),
            Form::Reference(reference) => referring(reference).into(),
            Form::Text(pieces) => {
                let pieces = pieces.iter().map(|piece| match piece {
                    Piece::Text(text) => text.clone(),
                    Piece::Reference(reference) => referring(reference),
                });
                pieces.collect::<String>().into()
            }
            Form::List(items) => items.iter().map(Self::written).collect(),
            Form::Object(pairs) => {
                let pairs = pairs.iter();
                let pairs = pairs.map(|(name, value)| (name.clone(), value.written()));
                Value::Object(pairs.collect())
            }
        }
    }

    /// Reads any value; texts in it may hold references.
    pub(super) fn parse(node: &Node, known: &Known<'_>, problems: &mut Problems) -> Option<Self> {
        let form = match &node.tree {
            Tree::Scalar { text, .. } if text.contains("${") => {
                pieces(text, node, known, problems)?
            }
            Tree::Scalar { .. } => Form::Literal(node.json()),
            Tree::List(items) => {
                let items = items.iter().map(|node| Self::parse(node, known, problems));
                // Every problem is told, not only the first.
                let items: Vec<Option<Self>> = items.collect();
                Form::List(items.into_iter().collect::<Option<_>>()?)
            }
            Tree::Map(entries) => {
                let pairs = entries.iter().map(|entry| {
                    Some((
                        entry.key.clone(),
                        Self::parse(&entry.value, known, problems)?,
                    ))
                });
                let pairs: Vec<Option<(String, Self)>> = pairs.collect();
                Form::Object(pairs.into_iter().collect::<Option<_>>()?)
            }
        };
        Some(Self(form))
    }

    /// What `reference` leads to.
    pub(super) fn reference(reference: Reference) -> Self {
        Self(Form::Reference(reference))
    }

    /// A fixed value.
    pub(super) fn literal(value: Value) -> Self {
        Self(Form::Literal(value))
    }

    /// An object of expressions.
    pub(super) fn object(pairs: impl IntoIterator<Item = (String, Self)>) -> Self {
        Self(Form::Object(pairs.into_iter().collect()))
    }

    /// Whether any reference is in it.
    pub(super) fn refers(&self) -> bool {
        match &self.0 {
            Form::Literal(_) => false,
            Form::Reference(_) | Form::Text(_) => true,
            Form::List(items) => items.iter().any(Self::refers),
            Form::Object(pairs) => pairs.values().any(Self::refers),
        }
    }

    /// The elements, if it is a list.
    pub(super) fn elements(&self) -> Option<&[Self]> {
        match &self.0 {
            Form::List(items) => Some(items),
            Form::Literal(_) | Form::Reference(_) | Form::Text(_) | Form::Object(_) => None,
        }
    }

    /// The text, if it is one without references.
    pub(super) fn fixed(&self) -> Option<&str> {
        match &self.0 {
            Form::Literal(value) => value.as_str(),
            Form::Reference(_) | Form::Text(_) | Form::List(_) | Form::Object(_) => None,
        }
    }

    /// The field `name`, if it is an object.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        match &self.0 {
            Form::Object(pairs) => pairs.get(name),
            Form::Literal(_) | Form::Reference(_) | Form::Text(_) | Form::List(_) => None,
        }
    }

    /// Whether it begins with a reference, so that its first character is not the author's.
    pub(super) fn begins_open(&self) -> bool {
        match &self.0 {
            Form::Reference(_) => true,
            Form::Text(pieces) => matches!(pieces.first(), Some(Piece::Reference(_))),
            Form::Literal(_) | Form::List(_) | Form::Object(_) => false,
        }
    }

    /// It as a word of a command.
    pub(super) fn word(&self) -> Word<'_> {
        match &self.0 {
            // What is no text is refused as a word, whatever it is.
            Form::Literal(value) => Word::Fixed(value.as_str().unwrap_or_default()),
            Form::Text(pieces) => match pieces.first() {
                Some(Piece::Text(begins)) => Word::Open { begins },
                Some(Piece::Reference(_)) | None => Word::Open { begins: "" },
            },
            Form::Reference(_) | Form::List(_) | Form::Object(_) => Word::Open { begins: "" },
        }
    }

    /// The value in `scope`.
    pub fn resolve(&self, scope: Scope<'_>) -> Result<Value, LookupError> {
        let mut room = RESOLVED_BYTES;
        self.resolve_within(scope, &mut room)
    }

    fn resolve_within(&self, scope: Scope<'_>, room: &mut usize) -> Result<Value, LookupError> {
        match &self.0 {
            Form::Literal(value) => Ok(value.clone()),
            Form::Reference(reference) => {
                let value = reference.find(scope)?;
                take(room, size(value), reference)?;
                Ok(value.clone())
            }
            Form::Text(pieces) => {
                let mut out = String::new();
                for piece in pieces {
                    match piece {
                        Piece::Text(text) => out.push_str(text),
                        Piece::Reference(reference) => {
                            let value = reference.find(scope)?;
                            take(room, size(value), reference)?;
                            match value {
                                Value::String(text) => out.push_str(text),
                                Value::Number(number) => out.push_str(&number.to_string()),
                                Value::Bool(truth) => out.push_str(&truth.to_string()),
                                Value::Null | Value::Array(_) | Value::Object(_) => {
                                    return Err(reference
                                        .error("is no single value, and stands within text"));
                                }
                            }
                        }
                    }
                }
                Ok(Value::String(out))
            }
            Form::List(items) => items
                .iter()
                .map(|item| item.resolve_within(scope, room))
                .collect(),
            Form::Object(pairs) => {
                let mut fields = Map::new();
                for (name, value) in pairs {
                    fields.insert(name.clone(), value.resolve_within(scope, room)?);
                }
                Ok(Value::Object(fields))
            }
        }
    }
}

fn take(room: &mut usize, bytes: usize, reference: &Reference) -> Result<(), LookupError> {
    *room = room
        .checked_sub(bytes)
        .ok_or_else(|| reference.error("is too large to be passed on"))?;
    Ok(())
}

/// About how many bytes a value takes.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 8,
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 8,
        Value::Object(fields) => {
            fields
                .iter()
                .map(|(name, value)| name.len() + size(value) + 8)
                .sum::<usize>()
                + 8
        }
    }
}

fn pieces(text: &str, node: &Node, known: &Known<'_>, problems: &mut Problems) -> Option<Form> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(escaped) = before.strip_suffix('$') {
            plain.push_str(escaped);
            plain.push_str("${");
            rest = after;
            continue;
        }
        plain.push_str(before);
        let Some((inside, after)) = after.split_once('}') else {
            problems.error(
                code::REFERENCE,
                node.spot,
                "a `${` is not closed",
                "add `}`, or write `$${` for the characters themselves",
            );
            return None;
        };
        let reference = Reference::parse(inside, node, known, problems)?;
        if !plain.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut plain)));
        }
        pieces.push(Piece::Reference(reference));
        rest = after;
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    Some(match pieces.as_slice() {
        [Piece::Reference(reference)] => Form::Reference(reference.clone()),
        [Piece::Text(text)] => Form::Literal(Value::String(text.clone())),
        _ => Form::Text(pieces),
    })
}

//! What came back, as a value: taken from a stream, parsed, picked, renamed, checked.

use airlock_yaml::{Mapping, Names, Node, Problems, Schema, code, pattern, shown};
use regex::Regex;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Most elements of a list of lines or matches.
const ELEMENTS: usize = 10_000;

/// Output that is not what the definition says it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutputError {
    /// It does not parse.
    #[error("the output is not JSON: {0}")]
    NotJson(String),
    /// What should be picked is not there.
    #[error("the output has nothing at `{0}`")]
    Nothing(String),
    /// It does not fit the schema.
    #[error("the output does not fit its schema: {0}")]
    Mismatch(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Stdout,
    Stderr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parse {
    Text,
    Lines,
    Json,
}

#[derive(Debug, Clone)]
enum Pick {
    Pointer(String),
    Match {
        pattern: Regex,
        group: usize,
        all: bool,
    },
}

/// How output becomes a value.
#[derive(Debug, Clone)]
pub struct Output {
    stream: Stream,
    parse: Parse,
    pick: Option<Pick>,
    rename: BTreeMap<String, String>,
    schema: Option<Schema>,
}

impl Default for Output {
    fn default() -> Self {
        Self {
            stream: Stream::Stdout,
            parse: Parse::Text,
            pick: None,
            rename: BTreeMap::new(),
            schema: None,
        }
    }
}

impl Output {
    pub(super) fn parse(node: &Node, problems: &mut Problems) -> Option<Self> {
        let mut fields = Mapping::of(node, "`output`", problems)?;
        let streams = [("stdout", Stream::Stdout), ("stderr", Stream::Stderr)];
        let stream = fields.get("from").map_or(Some(Stream::Stdout), |node| {
            node.word("stream", &streams, problems)
        });
        let forms = [
            ("text", Parse::Text),
            ("lines", Parse::Lines),
            ("json", Parse::Json),
        ];
        let parse = fields.get("parse").map_or(Some(Parse::Text), |node| {
            node.word("form", &forms, problems)
        });
        let pick = fields
            .get("extract")
            .and_then(|node| Pick::parse(node, parse, problems));
        let renames = fields.get("rename");
        let renames = renames.and_then(|node| node.pairs(Names::Field, 50, problems));
        let mut rename = BTreeMap::new();
        for (old, node) in renames.unwrap_or_default() {
            if let Some(new) = node.name(Names::Field, problems) {
                rename.insert(old.to_owned(), new);
            }
        }
        let schema = fields
            .get("schema")
            .and_then(|node| Schema::parse(node, problems));
        fields.close(problems);
        Some(Self {
            stream: stream?,
            parse: parse?,
            pick,
            rename,
            schema,
        })
    }

    /// The value for what a program wrote.
    pub fn shape(&self, stdout: &str, stderr: &str) -> Result<Value, OutputError> {
        let text = match self.stream {
            Stream::Stdout => stdout,
            Stream::Stderr => stderr,
        };
        let value = match self.parse {
            Parse::Text => Value::String(text.to_owned()),
            Parse::Lines => text.lines().take(ELEMENTS).map(Value::from).collect(),
            Parse::Json => serde_json::from_str(text)
                .map_err(|error| OutputError::NotJson(shown(&error.to_string())))?,
        };
        self.finish(value)
    }

    /// The value for one that came as such.
    pub fn finish(&self, value: Value) -> Result<Value, OutputError> {
        let mut value = match &self.pick {
            None => value,
            Some(pick) => pick.from(&value)?,
        };
        self.renamed(&mut value);
        if let Some(schema) = &self.schema
            && let Some(mismatch) = schema.check(&value).into_iter().next()
        {
            return Err(OutputError::Mismatch(mismatch.to_string()));
        }
        Ok(value)
    }

    /// Renames fields of an object, or of each object of a list.
    fn renamed(&self, value: &mut Value) {
        match value {
            Value::Object(fields) if !self.rename.is_empty() => {
                let renamed: Map<String, Value> = std::mem::take(fields)
                    .into_iter()
                    .map(|(name, value)| (self.rename.get(&name).cloned().unwrap_or(name), value))
                    .collect();
                *fields = renamed;
            }
            Value::Array(items) => {
                for item in items.iter_mut().filter(|item| item.is_object()) {
                    self.renamed(item);
                }
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_) => {}
        }
    }
}

impl Pick {
    fn parse(node: &Node, form: Option<Parse>, problems: &mut Problems) -> Option<Self> {
        let mut fields = Mapping::of(node, "`extract`", problems)?;
        let pointer = fields.get("pointer");
        let regex = fields.get("regex");
        let group = fields.get("group");
        let all = fields.get("all");
        fields.close(problems);
        let mut wrong = |what: &str, fix: &str| problems.error(code::VALUE, node.spot, what, fix);
        match (pointer, regex) {
            (Some(pointer), None) => {
                if form != Some(Parse::Json) {
                    wrong("a pointer needs `parse: json`", "add it, or use `regex`");
                }
                if group.is_some() || all.is_some() {
                    wrong("a pointer has no `group` and no `all`", "remove them");
                }
                let text = pointer.text(problems)?;
                if !text.starts_with('/') {
                    let what = format!("`{}` is no JSON pointer", shown(text));
                    problems.error(code::VALUE, pointer.spot, what, "begin it with `/`");
                    return None;
                }
                Some(Self::Pointer(text.to_owned()))
            }
            (None, Some(regex)) => {
                if form != Some(Parse::Text) {
                    wrong(
                        "a regular expression needs `parse: text`",
                        "add it, or use `pointer`",
                    );
                }
                let built = pattern(regex, problems)?;
                let most = i64::try_from(built.captures_len()).unwrap_or(i64::MAX) - 1;
                let group = group.map_or(Some(0), |node| node.number(0..=most, problems))?;
                let all = all.map_or(Some(false), |node| node.truth(problems))?;
                Some(Self::Match {
                    pattern: built,
                    group: usize::try_from(group).unwrap_or(0),
                    all,
                })
            }
            _ => {
                wrong(
                    "`extract` has either `pointer` or `regex`",
                    "keep one of them",
                );
                None
            }
        }
    }

    fn from(&self, value: &Value) -> Result<Value, OutputError> {
        match self {
            Self::Pointer(pointer) => value
                .pointer(pointer)
                .cloned()
                .ok_or_else(|| OutputError::Nothing(shown(pointer))),
            Self::Match {
                pattern,
                group,
                all,
            } => {
                let text = value.as_str().unwrap_or_default();
                let mut found = pattern
                    .captures_iter(text)
                    .filter_map(|captures| captures.get(*group).map(|one| json!(one.as_str())));
                if *all {
                    return Ok(found.take(ELEMENTS).collect());
                }
                found
                    .next()
                    .ok_or_else(|| OutputError::Nothing(shown(pattern.as_str())))
            }
        }
    }
}

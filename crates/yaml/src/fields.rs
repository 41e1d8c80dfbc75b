//! Reads mappings key by key: what is not asked for does not exist.

use crate::problems::{Problems, code, shown};
use crate::tree::{Entry, Node, Tree};
use regex::Regex;
use serde_json::{Map, Number, Value};
use std::str::FromStr;
use std::sync::LazyLock;

/// A mapping of which every key has to be asked for.
#[derive(Debug)]
pub struct Mapping<'a> {
    node: &'a Node,
    context: &'static str,
    entries: &'a [Entry],
    known: Vec<&'static str>,
}

impl<'a> Mapping<'a> {
    /// The mapping at `node`, which messages call `context`.
    pub fn of(node: &'a Node, context: &'static str, problems: &mut Problems) -> Option<Self> {
        let Tree::Map(entries) = &node.tree else {
            let what = format!("{context} is no mapping");
            problems.error(code::VALUE, node.spot, what, "write `key: value` lines");
            return None;
        };
        Some(Self {
            node,
            context,
            entries,
            known: Vec::new(),
        })
    }

    /// What stands at `key`.
    pub fn get(&mut self, key: &'static str) -> Option<&'a Node> {
        self.known.push(key);
        self.entries
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| &entry.value)
    }

    /// What must stand at `key`.
    pub fn need(&mut self, key: &'static str, problems: &mut Problems) -> Option<&'a Node> {
        let found = self.get(key);
        if found.is_none() {
            let what = format!("`{key}` is missing in {}", self.context);
            problems.error(code::MISSING, self.node.spot, what, format!("add `{key}:`"));
        }
        found
    }

    /// Reports every key nobody asked for. `hint` may say more about one.
    pub fn close_with(
        self,
        problems: &mut Problems,
        hint: impl Fn(&str) -> Option<(&'static str, &'static str)>,
    ) {
        for entry in self.entries {
            if self.known.contains(&entry.key.as_str()) {
                continue;
            }
            if let Some((what, fix)) = hint(&entry.key) {
                problems.error(code::WIDENS, entry.spot, what, fix);
                continue;
            }
            let kind = format!("field in {},", self.context);
            let word = (kind.as_str(), entry.key.as_str());
            problems.unknown(code::UNKNOWN, entry.spot, word, &self.known);
        }
    }

    /// Reports every key nobody asked for.
    pub fn close(self, problems: &mut Problems) {
        self.close_with(problems, |_| None);
    }
}

/// What a name may look like.
#[derive(Debug, Clone, Copy)]
pub enum Names {
    /// `ripgrep-cli`
    Id,
    /// `text.search`
    Tool,
    /// `max_count`
    Field,
    /// `1.2.0`
    Version,
    /// `RUST_LOG`
    Variable,
    /// A program without a directory.
    Program,
    /// A word that stands for itself in messages.
    Code,
    /// A model's name.
    Model,
}

static FORMS: LazyLock<Vec<Option<Regex>>> = LazyLock::new(|| {
    [
        r"^[a-z][a-z0-9-]{0,63}$",
        r"^[a-z][a-z0-9_]{0,31}(\.[a-z][a-z0-9_]{0,31}){1,3}$",
        r"^[a-z_][a-z0-9_]{0,63}$",
        r"^[0-9]{1,6}\.[0-9]{1,6}\.[0-9]{1,6}$",
        r"^[A-Z_][A-Z0-9_]{0,63}$",
        r"^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}$",
        r"^[a-z][a-z0-9_]{0,63}$",
        r"^[A-Za-z0-9][A-Za-z0-9_.:/@+-]{0,127}$",
    ]
    .map(|form| Regex::new(form).ok())
    .into()
});

impl Names {
    fn example(self) -> &'static str {
        match self {
            Self::Id => "a name such as `ripgrep-cli`: small letters, digits and dashes",
            Self::Tool => "a name such as `text.search`: two to four words with dots",
            Self::Field => "a name such as `max_count`: small letters, digits and underscores",
            Self::Version => "three numbers such as `1.2.0`",
            Self::Variable => "a name such as `RUST_LOG`",
            Self::Program => "a program's name without a directory, such as `rg`",
            Self::Code => "a word such as `not_found`",
            Self::Model => "a model's name",
        }
    }

    /// Whether `text` is such a name.
    pub fn fit(self, text: &str) -> bool {
        let form = FORMS.get(self as usize).and_then(Option::as_ref);
        form.is_some_and(|form| form.is_match(text))
    }
}

impl Node {
    /// Text, whatever it looks like.
    pub fn text(&self, problems: &mut Problems) -> Option<&str> {
        match &self.tree {
            Tree::Scalar { text, .. } => Some(text),
            Tree::List(_) | Tree::Map(_) => {
                problems.error(code::VALUE, self.spot, "this is no text", "write one value");
                None
            }
        }
    }

    /// A line for people: not empty and not long.
    pub fn line(&self, problems: &mut Problems) -> Option<String> {
        let text = self.text(problems)?;
        if text.trim().is_empty() || text.contains('\n') || text.chars().count() > 200 {
            let what = "this has to be one line of at most 200 characters";
            problems.error(code::VALUE, self.spot, what, "shorten it");
            return None;
        }
        Some(text.to_owned())
    }

    /// A name of the form `names`.
    pub fn name(&self, names: Names, problems: &mut Problems) -> Option<String> {
        let text = self.text(problems)?;
        if !names.fit(text) {
            let what = format!("`{}` cannot be a name here", shown(text));
            problems.error(
                code::VALUE,
                self.spot,
                what,
                format!("give {}", names.example()),
            );
            return None;
        }
        Some(text.to_owned())
    }

    /// `true` or `false`.
    pub fn truth(&self, problems: &mut Problems) -> Option<bool> {
        match &self.tree {
            Tree::Scalar { text, plain: true } if text == "true" => Some(true),
            Tree::Scalar { text, plain: true } if text == "false" => Some(false),
            Tree::Scalar { .. } | Tree::List(_) | Tree::Map(_) => {
                problems.error(
                    code::VALUE,
                    self.spot,
                    "this is neither true nor false",
                    "write `true` or `false`",
                );
                None
            }
        }
    }

    /// A whole number within `range`.
    pub fn number(
        &self,
        range: std::ops::RangeInclusive<i64>,
        problems: &mut Problems,
    ) -> Option<i64> {
        let text = self.text(problems)?;
        let number = text.parse().ok().filter(|number| range.contains(number));
        if number.is_none() {
            let what = format!("`{}` is no number that can stand here", shown(text));
            let fix = format!("give {} to {}", range.start(), range.end());
            problems.error(code::VALUE, self.spot, what, fix);
        }
        number
    }

    /// A size or a time, within bounds.
    pub fn unit<T>(&self, least: &T, most: &T, problems: &mut Problems) -> Option<T>
    where
        T: FromStr + PartialOrd + std::fmt::Display,
        T::Err: std::fmt::Display,
    {
        let text = self.text(problems)?;
        match text.parse::<T>() {
            Ok(value) if value >= *least && value <= *most => Some(value),
            Ok(value) => {
                let what = format!("`{value}` is out of range");
                problems.error(
                    code::VALUE,
                    self.spot,
                    what,
                    format!("give {least} to {most}"),
                );
                None
            }
            Err(error) => {
                problems.error(
                    code::VALUE,
                    self.spot,
                    error.to_string(),
                    "write it as 30s or 512MiB",
                );
                None
            }
        }
    }

    /// One of a few words.
    pub fn word<T: Copy>(
        &self,
        kind: &str,
        words: &[(&str, T)],
        problems: &mut Problems,
    ) -> Option<T> {
        let text = self.text(problems)?;
        let found = words
            .iter()
            .find(|(word, _)| *word == text)
            .map(|(_, value)| *value);
        if found.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            problems.unknown(code::VALUE, self.spot, (kind, text), &known);
        }
        found
    }

    /// A list of at most `most` entries.
    pub fn list(&self, most: usize, problems: &mut Problems) -> Option<&[Node]> {
        match &self.tree {
            Tree::List(items) if items.len() <= most => Some(items),
            Tree::List(items) => {
                let what = format!("{} entries; the limit is {most}", items.len());
                problems.error(code::VALUE, self.spot, what, "shorten the list");
                None
            }
            Tree::Scalar { .. } | Tree::Map(_) => {
                problems.error(
                    code::VALUE,
                    self.spot,
                    "this is no list",
                    "write `- entry` lines, or `[a, b]`",
                );
                None
            }
        }
    }

    /// Pairs of a mapping whose keys the author chose.
    pub fn pairs(
        &self,
        names: Names,
        most: usize,
        problems: &mut Problems,
    ) -> Option<Vec<(&str, &Node)>> {
        let Tree::Map(entries) = &self.tree else {
            problems.error(
                code::VALUE,
                self.spot,
                "this is no mapping",
                "write `key: value` lines",
            );
            return None;
        };
        if entries.len() > most {
            let what = format!("{} entries; the limit is {most}", entries.len());
            problems.error(code::VALUE, self.spot, what, "shorten it");
            return None;
        }
        for entry in entries {
            if !names.fit(&entry.key) {
                let what = format!("`{}` cannot be a name here", shown(&entry.key));
                let fix = format!("give {}", names.example());
                problems.error(code::VALUE, entry.spot, what, fix);
            }
        }
        let pairs = entries
            .iter()
            .map(|entry| (entry.key.as_str(), &entry.value));
        Some(pairs.collect())
    }

    /// The value as JSON: plain scalars are what they look like, quoted ones are text.
    pub fn json(&self) -> Value {
        match &self.tree {
            Tree::Scalar { text, plain: false } => Value::String(text.clone()),
            Tree::Scalar { text, plain: true } => plain(text),
            Tree::List(items) => items.iter().map(Self::json).collect(),
            Tree::Map(entries) => {
                let pairs = entries
                    .iter()
                    .map(|entry| (entry.key.clone(), entry.value.json()));
                Value::Object(pairs.collect::<Map<_, _>>())
            }
        }
    }
}

/// A scalar without quotes. Words that other YAML readers take for truth values are text.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" => return Value::Null,
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        _ => {}
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let numeric = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits
            .chars()
            .all(|c| c.is_ascii_digit() || ".eE+-".contains(c));
    // A leading zero is no number in JSON, and means octal to some.
    let padded = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
    if numeric && !padded {
        if let Ok(number) = text.parse::<i64>() {
            return number.into();
        }
        if let Some(number) = text.parse().ok().and_then(Number::from_f64) {
            return Value::Number(number);
        }
    }
    Value::String(text.to_owned())
}

//! Programs: from checked arguments to an argument vector.
//!
//! Guarantee: an argument is one word or none, and never an option, unless the mapping says so: a
//! value that begins with a dash is refused where it could be read as an option. No shell is
//! involved anywhere, so every other character is data. No argument is the program of a wrapper that
//! is known, or code of an interpreter that is.

use super::arguments::{ArgumentError, Interface};
use super::how::{Place, SCALARS, WORDS, command, input, one, place, word};
use airlock_core::programs::{Input, Word, exposed};
use airlock_yaml::{Mapping, Names, Node, Problems, Spot, code, shown};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A program and its arguments, made of what a caller gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// The program and each of its arguments.
    pub command: Vec<String>,
    /// What it reads.
    pub stdin: Option<String>,
    /// Where it starts, beneath the workspace.
    pub directory: Option<String>,
    /// Variables it gets.
    pub environment: BTreeMap<String, String>,
}

/// A program in a sandbox.
#[derive(Debug, Clone)]
pub struct Cli {
    command: Vec<String>,
    arguments: Vec<Part>,
    stdin: Option<String>,
    directory: Option<Place>,
    environment: BTreeMap<String, Place>,
}

/// What becomes words.
#[derive(Debug, Clone)]
enum Part {
    /// A word as it is.
    Word(String),
    /// A word if an input is true.
    Flag { word: String, from: String },
    /// An option with the value of an input; nothing if that is absent.
    Option {
        word: String,
        from: String,
        joined: bool,
        dash: bool,
    },
    /// The value of an input as one word; nothing if it is absent.
    Value { from: String, dash: bool },
    /// Each element of an input as a word.
    Each { from: String, dash: bool },
}

impl Cli {
    pub(super) fn parse(
        node: &Node,
        interface: &Interface,
        problems: &mut Problems,
    ) -> Option<Self> {
        let mut fields = Mapping::of(node, "`cli`", problems)?;
        let place_of_command = fields.need("command", problems);
        let command = place_of_command.and_then(|node| command(node, problems));
        let nodes = fields
            .get("arguments")
            .and_then(|node| node.list(WORDS, problems));
        let mut arguments = Vec::new();
        let mut spots = Vec::new();
        for node in nodes.unwrap_or_default() {
            if let Some(part) = Part::parse(node, interface, problems) {
                arguments.push(part);
                spots.push(node.spot);
            }
        }
        let stdin = fields
            .get("stdin")
            .and_then(|node| input(node, interface, &["string"], problems));
        let directory = fields
            .get("directory")
            .and_then(|node| place(node, interface, problems));
        let variables = fields.get("environment");
        let variables = variables.and_then(|node| node.pairs(Names::Variable, 32, problems));
        let mut environment = BTreeMap::new();
        for (name, node) in variables.unwrap_or_default() {
            if let Some(value) = place(node, interface, problems) {
                environment.insert(name.to_owned(), value);
            }
        }
        fields.close(problems);
        let cli = Self {
            command: command?,
            arguments,
            stdin,
            directory,
            environment,
        };
        let spot = place_of_command.map_or(node.spot, |node| node.spot);
        cli.check(spot, &spots, problems);
        Some(cli)
    }

    /// Refuses a value that would be a program or code, whatever wrapper or interpreter it is handed
    /// to. The command stands at `command`, each argument at one of `arguments`.
    fn check(&self, command: Spot, arguments: &[Spot], problems: &mut Problems) {
        let fixed = self.command.iter();
        let fixed = fixed.map(|word| (Word::Fixed(word), command));
        let parts = self.arguments.iter().zip(arguments);
        let parts = parts.flat_map(|(part, spot)| part.words().map(move |word| (word, *spot)));
        let (words, spots): (Vec<Word<'_>>, Vec<Spot>) = fixed.chain(parts).unzip();
        let input = match self.stdin {
            Some(_) => Input::Open,
            None => Input::Fixed,
        };
        if let Some(found) = exposed(&words, input) {
            let spot = spots.get(found.at).copied().unwrap_or(command);
            problems.error(code::UNSAFE_ARGUMENT, spot, found.what, found.fix);
        }
    }

    /// The program it runs.
    pub fn program(&self) -> &str {
        self.command.first().map(String::as_str).unwrap_or_default()
    }

    /// The command with the names of inputs where their values will be: `git log -n <count>`.
    pub fn pattern(&self) -> Vec<String> {
        let parts = self.arguments.iter().flat_map(Part::pattern);
        self.command.iter().cloned().chain(parts).collect()
    }

    /// The variables it sets, as `NAME=value`, with the names of inputs where their values will be.
    pub fn variables(&self) -> impl Iterator<Item = String> {
        let set = self.environment.iter();
        set.map(|(name, place)| format!("{name}={}", place.pattern()))
    }

    /// Where it starts, if the definition says so: a directory, or an input as `<name>`.
    pub fn directory(&self) -> Option<String> {
        self.directory.as_ref().map(Place::pattern)
    }

    /// The input that it reads on its standard input.
    pub fn stdin(&self) -> Option<&str> {
        self.stdin.as_deref()
    }

    /// What to run for checked `arguments`.
    pub fn invocation(&self, arguments: &Map<String, Value>) -> Result<Invocation, ArgumentError> {
        let mut command = self.command.clone();
        // After a word `--` of the definition's own, programs take everything for a value.
        let mut closed = command.iter().any(|word| word == "--");
        for part in &self.arguments {
            closed |= matches!(part, Part::Word(word) if word == "--");
            part.put(arguments, closed, &mut command)?;
        }
        let resolved = |place: &Place| -> Result<Option<String>, ArgumentError> {
            match place {
                Place::Fixed(text) => Ok(Some(text.clone())),
                Place::From(name) => arguments
                    .get(name)
                    .map(|value| one(name, value))
                    .transpose(),
            }
        };
        let mut environment = BTreeMap::new();
        for (name, place) in &self.environment {
            if let Some(value) = resolved(place)? {
                environment.insert(name.clone(), value);
            }
        }
        let stdin = self.stdin.as_ref().and_then(|name| arguments.get(name));
        Ok(Invocation {
            command,
            stdin: stdin.and_then(Value::as_str).map(str::to_owned),
            directory: self.directory.as_ref().map(resolved).transpose()?.flatten(),
            environment,
        })
    }
}

impl Part {
    fn parse(node: &Node, interface: &Interface, problems: &mut Problems) -> Option<Self> {
        let mut fields = Mapping::of(node, "an argument", problems)?;
        let forms = ["word", "flag", "option", "value", "each"];
        let found: Vec<(&str, &Node)> = forms
            .into_iter()
            .filter_map(|form| fields.get(form).map(|node| (form, node)))
            .collect();
        let [(form, first)] = found.as_slice() else {
            let what = "an argument is one of `word`, `flag`, `option`, `value` and `each`";
            problems.error(code::VALUE, node.spot, what, "keep one of them");
            return None;
        };
        let dash = match *form {
            "word" | "flag" => false,
            _ => fields
                .get("leading_dash")
                .is_some_and(|node| node.truth(problems) == Some(true)),
        };
        let part = match *form {
            "word" => word(first, problems).map(Self::Word),
            "value" => {
                input(first, interface, SCALARS, problems).map(|from| Self::Value { from, dash })
            }
            "each" => each(first, interface, problems).map(|from| Self::Each { from, dash }),
            "flag" => {
                let from = fields.need("from", problems);
                let from = from.and_then(|node| input(node, interface, &["boolean"], problems));
                dashed(first, problems)
                    .zip(from)
                    .map(|(word, from)| Self::Flag { word, from })
            }
            _ => {
                let from = fields.need("from", problems);
                let from = from.and_then(|node| input(node, interface, SCALARS, problems));
                let joined = fields
                    .get("joined")
                    .is_some_and(|node| node.truth(problems) == Some(true));
                dashed(first, problems)
                    .zip(from)
                    .map(|(word, from)| Self::Option {
                        word,
                        from,
                        joined,
                        dash,
                    })
            }
        };
        fields.close(problems);
        part
    }

    /// The words it becomes, where it becomes any.
    fn words(&self) -> impl Iterator<Item = Word<'_>> {
        let open = |dash: bool| Word::Open {
            begins: if dash { "-" } else { "" },
        };
        let (first, second) = match self {
            Self::Word(word) | Self::Flag { word, .. } => (Word::Fixed(word), None),
            Self::Option {
                word, joined: true, ..
            } => (Word::Open { begins: word }, None),
            Self::Option { word, dash, .. } => (Word::Fixed(word), Some(open(*dash))),
            Self::Value { dash, .. } | Self::Each { dash, .. } => (open(*dash), None),
        };
        std::iter::once(first).chain(second)
    }

    fn pattern(&self) -> Vec<String> {
        match self {
            Self::Word(word) => vec![word.clone()],
            Self::Flag { word, from } => vec![format!("[{word} if <{from}>]")],
            Self::Option { word, from, .. } => vec![format!("[{word} <{from}>]")],
            Self::Value { from, .. } => vec![format!("<{from}>")],
            Self::Each { from, .. } => vec![format!("<{from}>...")],
        }
    }

    fn put(
        &self,
        arguments: &Map<String, Value>,
        closed: bool,
        words: &mut Vec<String>,
    ) -> Result<(), ArgumentError> {
        match self {
            Self::Word(word) => words.push(word.clone()),
            Self::Flag { word, from } => {
                if arguments.get(from) == Some(&Value::Bool(true)) {
                    words.push(word.clone());
                }
            }
            Self::Option {
                word,
                from,
                joined,
                dash,
            } => {
                let Some(value) = arguments.get(from) else {
                    return Ok(());
                };
                let value = one(from, value)?;
                if *joined {
                    words.push(format!("{word}={value}"));
                } else {
                    harmless(from, &value, *dash)?;
                    words.extend([word.clone(), value]);
                }
            }
            Self::Value { from, dash } => {
                if let Some(value) = arguments.get(from) {
                    let value = one(from, value)?;
                    harmless(from, &value, *dash || closed)?;
                    words.push(value);
                }
            }
            Self::Each { from, dash } => {
                let values = arguments.get(from).and_then(Value::as_array);
                for value in values.into_iter().flatten() {
                    let value = one(from, value)?;
                    harmless(from, &value, *dash || closed)?;
                    words.push(value);
                }
            }
        }
        Ok(())
    }
}

/// An option of the definition's own.
fn dashed(node: &Node, problems: &mut Problems) -> Option<String> {
    let text = word(node, problems)?;
    if !text.starts_with('-') || text.contains(char::is_whitespace) || text.contains('=') {
        let what = format!("`{}` is no option", shown(&text));
        problems.error(
            code::UNSAFE_ARGUMENT,
            node.spot,
            what,
            "write it as `--name` or `-n`",
        );
        return None;
    }
    Some(text)
}

/// An input that is a list of single values.
fn each(node: &Node, interface: &Interface, problems: &mut Problems) -> Option<String> {
    let name = input(node, interface, &["array"], problems)?;
    let element = interface
        .input
        .property(&name)
        .and_then(|schema| schema.element());
    let single = |schema: &airlock_yaml::Schema| SCALARS.iter().any(|one| schema.is_only(one));
    if !element.is_some_and(single) {
        let what = format!("the elements of `{name}` may be something else than single values");
        problems.error(
            code::SCHEMA,
            node.spot,
            what,
            "give it `items: { type: string }`",
        );
        return None;
    }
    Some(name)
}

fn harmless(name: &str, value: &str, dash: bool) -> Result<(), ArgumentError> {
    if value.starts_with('-') && !dash {
        let what = format!("`{}` would be read as an option", shown(value));
        return Err(ArgumentError::new(
            name,
            what,
            "give a value that does not begin with a dash, such as `./-x`",
        ));
    }
    Ok(())
}

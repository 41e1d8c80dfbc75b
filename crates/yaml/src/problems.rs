//! Gathers every problem of one file, up to a bound, each with its place.

use airlock_core::closest;
use airlock_policy::{Diagnostic, Place, Severity, render};
use std::fmt;

/// Most problems that are kept: more than anybody reads in one go.
const KEPT: usize = 50;
/// Most characters of the author's text repeated in a message.
const SHOWN: usize = 60;

/// The kinds of problem there are.
pub mod code {
    /// The file, or a part of it, is too large.
    pub const TOO_LARGE: &str = "definition/too-large";
    /// A character that does not show as itself.
    pub const CHARACTER: &str = "definition/character";
    /// The text is not YAML.
    pub const SYNTAX: &str = "definition/syntax";
    /// YAML that is not taken here.
    pub const UNSUPPORTED: &str = "definition/unsupported-yaml";
    /// Something is given twice.
    pub const DUPLICATE: &str = "definition/duplicate-key";
    /// A field that does not exist.
    pub const UNKNOWN: &str = "definition/unknown-field";
    /// A field that has to be there.
    pub const MISSING: &str = "definition/missing-field";
    /// A value that cannot stand where it stands.
    pub const VALUE: &str = "definition/bad-value";
    /// A schema that is none.
    pub const SCHEMA: &str = "definition/schema";
    /// A name that leads nowhere.
    pub const REFERENCE: &str = "definition/reference";
    /// Something that would grant more than may be granted.
    pub const WIDENS: &str = "definition/widens";
    /// A value that could become an option or a second word.
    pub const UNSAFE_ARGUMENT: &str = "definition/unsafe-argument";
}

/// Every code a problem can have, for the documentation.
pub const CODES: &[&str] = &[
    code::TOO_LARGE,
    code::CHARACTER,
    code::SYNTAX,
    code::UNSUPPORTED,
    code::DUPLICATE,
    code::UNKNOWN,
    code::MISSING,
    code::VALUE,
    code::SCHEMA,
    code::REFERENCE,
    code::WIDENS,
    code::UNSAFE_ARGUMENT,
];

/// A stretch of one line.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spot {
    /// Where it begins.
    pub place: Place,
    /// How many characters it has.
    pub length: u32,
}

/// A definition that does not load, with everything that is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionError {
    problems: Vec<Diagnostic>,
}

impl DefinitionError {
    /// Every problem, in the order of the file.
    pub fn problems(&self) -> &[Diagnostic] {
        &self.problems
    }

    /// The problems of the file `name` whose text is `source`, for people.
    pub fn render(&self, source: &str, name: &str) -> String {
        render(source, name, &self.problems)
    }

    /// How to mend the first.
    pub fn hint(&self) -> Option<&str> {
        self.problems.first().map(|problem| problem.fix.as_str())
    }
}

impl fmt::Display for DefinitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.problems.first() else {
            return f.write_str("the definition does not load");
        };
        let (line, column) = (first.place.line, first.place.column);
        write!(f, "line {line}, column {column}: {}", first.what)?;
        match self.problems.len() {
            1 => Ok(()),
            many => write!(f, " (and {} more)", many - 1),
        }
    }
}

impl std::error::Error for DefinitionError {}

/// Every problem found so far.
#[derive(Debug, Default)]
pub struct Problems {
    kept: Vec<Diagnostic>,
    errors: usize,
}

impl Problems {
    /// Notes a problem: of which kind, where, what is wrong and how to mend it.
    pub fn error(
        &mut self,
        code: &'static str,
        spot: Spot,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.errors += 1;
        if self.kept.len() < KEPT {
            self.kept.push(Diagnostic {
                severity: Severity::Error,
                code,
                place: spot.place,
                length: spot.length.max(1),
                what: what.into(),
                fix: fix.into(),
            });
        }
    }

    /// An error about `word`, which should be one of `known`.
    pub fn unknown(
        &mut self,
        code: &'static str,
        spot: Spot,
        (kind, word): (&str, &str),
        known: &[&str],
    ) {
        let fix = match closest(word, known.iter().copied().take(256)) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => {
                format!("there is no {kind} here: make one first, or leave it out")
            }
            None => format!("use one of {}", list(known)),
        };
        self.error(code, spot, format!("unknown {kind} `{}`", shown(word)), fix);
    }

    /// How many errors there are, listed or not.
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// `value`, if nothing was wrong.
    pub fn settle<T>(mut self, value: Option<T>) -> Result<T, DefinitionError> {
        match value {
            Some(value) if self.errors == 0 => Ok(value),
            _ => {
                self.kept.sort_by_key(|problem| problem.place);
                Err(DefinitionError {
                    problems: self.kept,
                })
            }
        }
    }
}

/// The author's text as it may appear in a message: short, on one line, without odd characters.
pub fn shown(text: &str) -> String {
    let mut out: String = text
        .chars()
        .take(SHOWN)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if text.chars().nth(SHOWN).is_some() {
        out.push_str("...");
    }
    out
}

fn list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    quoted.join(", ")
}

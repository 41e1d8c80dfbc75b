//! Gathers every problem of one file, up to a bound, each with its place.

use airlock_core::closest;
use airlock_policy::{Diagnostic, Place, Severity, render};
use std::fmt;

/// Most problems that are kept: more than anybody reads in one go.
const KEPT: usize = 50;
/// Most characters of the author's text repeated in a message.
const SHOWN: usize = 60;

/// The kinds of problem there are.
pub(crate) mod code {
    pub(crate) const TOO_LARGE: &str = "definition/too-large";
    pub(crate) const CHARACTER: &str = "definition/character";
    pub(crate) const SYNTAX: &str = "definition/syntax";
    pub(crate) const UNSUPPORTED: &str = "definition/unsupported-yaml";
    pub(crate) const DUPLICATE: &str = "definition/duplicate-key";
    pub(crate) const UNKNOWN: &str = "definition/unknown-field";
    pub(crate) const MISSING: &str = "definition/missing-field";
    pub(crate) const VALUE: &str = "definition/bad-value";
    pub(crate) const SCHEMA: &str = "definition/schema";
    pub(crate) const REFERENCE: &str = "definition/reference";
    pub(crate) const WIDENS: &str = "definition/widens";
    pub(crate) const UNSAFE_ARGUMENT: &str = "definition/unsafe-argument";
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
pub(crate) struct Spot {
    pub(crate) place: Place,
    pub(crate) length: u32,
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
pub(crate) struct Problems {
    kept: Vec<Diagnostic>,
    errors: usize,
}

impl Problems {
    pub(crate) fn error(
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
    pub(crate) fn unknown(
        &mut self,
        code: &'static str,
        spot: Spot,
        (kind, word): (&str, &str),
        known: &[&str],
    ) {
        let fix = match closest(word, known.iter().copied().take(256)) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "nothing can stand here".to_owned(),
            None => format!("use one of {}", list(known)),
        };
        self.error(code, spot, format!("unknown {kind} `{}`", shown(word)), fix);
    }

    /// How many errors there are, listed or not.
    pub(crate) fn errors(&self) -> usize {
        self.errors
    }

    /// `value`, if nothing was wrong.
    pub(crate) fn settle<T>(mut self, value: Option<T>) -> Result<T, DefinitionError> {
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
pub(crate) fn shown(text: &str) -> String {
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

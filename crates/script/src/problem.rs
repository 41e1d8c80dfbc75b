//! Why a script cannot be used, with its place and the fix.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Longest source line shown, in characters.
const LINE_CHARS: usize = 160;

/// What is wrong with a script, where, and how to mend it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// The line, from one; zero where no line is to blame.
    pub line: usize,
    /// The column in characters, from one.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// The line itself.
    pub text: String,
    /// How to mend it.
    pub hint: String,
}

impl Problem {
    /// A problem at byte `offset` of `source`.
    pub(crate) fn at(
        file: &str,
        source: &str,
        offset: usize,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let before = source.get(..offset).unwrap_or(source);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let text = source.get(line_start..).unwrap_or_default();
        Self {
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
            text: text
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(LINE_CHARS)
                .collect(),
            ..Self::whole(file, message, hint)
        }
    }

    /// A problem of the script as a whole.
    pub(crate) fn whole(file: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: 0,
            column: 0,
            message: message.into(),
            text: String::new(),
            hint: hint.into(),
        }
    }

    /// How to mend it.
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            return write!(f, "{}: {}", self.file, self.message);
        }
        let Self {
            file,
            line,
            column,
            message,
            text,
            ..
        } = self;
        write!(f, "{file}:{line}:{column}: {message}")?;
        if text.trim().is_empty() {
            return Ok(());
        }
        write!(f, " in `{}`", text.trim())
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_line_and_a_column_in_characters() {
        let source = "let a\nlet ü = 1 +;\n";
        let problem = Problem::at("a.js", source, source.find(';').unwrap(), "no", "fix");
        assert_eq!((problem.line, problem.column), (2, 12));
        assert_eq!(problem.to_string(), "a.js:2:12: no in `let ü = 1 +;`");
        let end = Problem::at("a.js", source, source.len(), "ends", "fix");
        assert_eq!(end.to_string(), "a.js:3:1: ends");
        let beyond = Problem::at("a.js", source, 10_000, "ends", "fix");
        assert_eq!(beyond.line, 3);
    }
}

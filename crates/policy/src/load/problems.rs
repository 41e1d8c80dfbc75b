//! Gathers every problem of one file, up to a bound.
//!
//! Past the bound problems are only counted, so a hostile file with a million mistakes costs
//! neither memory nor the search for a million suggestions.

use super::code;
use super::{Diagnostic, Severity};
use crate::document::Place;
use airlock_core::{closest, is_hidden, is_joiner};

/// Most problems that are kept: more than anybody reads in one go.
const KEPT: usize = 100;
/// Most bytes that the compiled regular expressions of one file may take together.
const PATTERN_BYTES: usize = 1_000 * 64 * 1024;
/// Most known words that are searched for the one that was meant.
const SUGGESTED: usize = 256;
/// Most characters of the author's text repeated in a message.
const SHOWN: usize = 60;

/// A stretch of one line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spot {
    /// Where it begins.
    pub(crate) place: Place,
    /// How many characters it covers.
    pub(crate) length: u32,
}

/// Every problem found so far.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    kept: Vec<Diagnostic>,
    errors: usize,
    unlisted: usize,
    last: Place,
    pattern_bytes: usize,
}

impl Problems {
    /// Adds an error.
    pub(crate) fn error(
        &mut self,
        code: &'static str,
        spot: Spot,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.errors += 1;
        self.add(Severity::Error, code, spot, what.into(), fix.into());
    }

    /// Adds a warning.
    pub(crate) fn warning(
        &mut self,
        code: &'static str,
        spot: Spot,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.add(Severity::Warning, code, spot, what.into(), fix.into());
    }

    /// Adds an error about `word`, which should be one of `known`.
    pub(crate) fn unknown(
        &mut self,
        code: &'static str,
        spot: Spot,
        word: (&str, &str),
        known: &[&str],
    ) {
        self.unknown_in(code, spot, word, "", known);
    }

    /// As [`Problems::unknown`], saying in what the word stands.
    pub(crate) fn unknown_in(
        &mut self,
        code: &'static str,
        spot: Spot,
        (kind, word): (&str, &str),
        context: &str,
        known: &[&str],
    ) {
        if self.is_full() {
            self.errors += 1;
            self.unlisted += 1;
            return;
        }
        // Names the author chose may be many; nobody reads a list of thousands.
        let known = known.get(..SUGGESTED).unwrap_or(known);
        let fix = match closest(word, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "nothing is defined that could stand here".to_owned(),
            None => format!("use one of {}", list(known)),
        };
        let place = if context.is_empty() { "" } else { " in " };
        let what = format!("unknown {kind} `{}`{place}{context}", shown(word));
        self.error(code, spot, what, fix);
    }

    /// How many errors there are, listed or not.
    pub(crate) fn errors(&self) -> usize {
        self.errors
    }

    /// Takes room for a compiled regular expression; false once there is none left.
    pub(crate) fn room_for_pattern(&mut self, bytes: usize) -> bool {
        self.pattern_bytes = self.pattern_bytes.saturating_add(bytes);
        self.pattern_bytes <= PATTERN_BYTES
    }

    /// Every problem, in the order of the file.
    pub(crate) fn into_sorted(mut self) -> Vec<Diagnostic> {
        if self.unlisted > 0 {
            self.kept.push(Diagnostic {
                severity: Severity::Error,
                code: code::TOO_MANY_PROBLEMS,
                place: self.last,
                length: 1,
                what: format!("{} more problems are not listed", self.unlisted),
                fix: "mend the ones above and check again".to_owned(),
            });
        }
        self.kept
            .sort_by_key(|problem| (problem.place, problem.severity));
        self.kept
    }

    fn is_full(&self) -> bool {
        self.kept.len() >= KEPT
    }

    fn add(
        &mut self,
        severity: Severity,
        code: &'static str,
        spot: Spot,
        what: String,
        fix: String,
    ) {
        if self.is_full() {
            self.unlisted += 1;
            return;
        }
        self.last = self.last.max(spot.place);
        self.kept.push(Diagnostic {
            severity,
            code,
            place: spot.place,
            length: spot.length.max(1),
            what,
            fix,
        });
    }
}

/// The author's text as it may appear in a message: short, on one line, without control characters.
pub(crate) fn shown(text: &str) -> String {
    cut(text, SHOWN)
}

/// Another module's message about the author's text, which may repeat all of it.
pub(crate) fn brief(message: &str) -> String {
    cut(message, 4 * SHOWN)
}

fn cut(text: &str, most: usize) -> String {
    let mut out: String = text
        .chars()
        .take(most)
        .map(|c| if is_harmless(c) { c } else { '\u{fffd}' })
        .collect();
    if text.chars().nth(most).is_some() {
        out.push_str("...");
    }
    out
}

/// Whether a character shows as itself and changes nothing around it.
pub(crate) fn is_harmless(c: char) -> bool {
    !c.is_control() && !is_hidden(c)
}

/// Whether a character is fine where people read, but in a name or a pattern looks like nothing or
/// like a space: joiners, variants of the character before, blanks of other widths.
pub(crate) fn is_blurred(c: char) -> bool {
    is_joiner(c) || c == '\u{2800}' || (c.is_whitespace() && !c.is_ascii())
}

/// `` `a`, `b` or `c` ``.
pub(crate) fn list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

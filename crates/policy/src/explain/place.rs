//! Where rules and their fields stand in the policy's text, and that text with a caret under it.
//!
//! The loader keeps the place of rules only. A field is found by reading the rule's lines again, as
//! far as telling keys from quoted text and comments needs; where that fails, the rule's own place
//! serves. A wrong guess would move a caret, never a decision.

use super::text;
use crate::document::Place;
use crate::load::excerpt;
use crate::rules::Policy;

/// Lines of one rule that are read.
const MOST_LINES: usize = 400;

/// A stretch of one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) place: Place,
    pub(super) length: u32,
}

/// The lines of one rule.
pub(super) struct Spots<'a> {
    rule: Option<Place>,
    lines: Vec<(u32, &'a str)>,
}

impl<'a> Spots<'a> {
    /// The lines of the rule at position `id`.
    pub(super) fn of(policy: &'a Policy, id: usize) -> Self {
        let place = |id: usize| policy.rules.get(id).map(|rule| rule.place);
        let rule = place(id).filter(|place| place.line > 0);
        let text = policy.source().map_or("", |source| &*source.text);
        let lines = rule.map_or_else(Vec::new, |begin| {
            let end = place(id + 1).map_or(u32::MAX, |next| next.line.max(begin.line + 1));
            (1..)
                .zip(text.lines())
                .skip_while(|(number, _)| *number < begin.line)
                .take_while(|(number, _)| *number < end)
                .take(MOST_LINES)
                .collect()
        });
        Self { rule, lines }
    }

    /// Where the rule stands, if it was read from a file.
    pub(super) const fn rule(&self) -> Option<Place> {
        self.rule
    }

    /// Where the field `key` of `match` stands.
    pub(super) fn field(&self, key: &str) -> Option<Spot> {
        let mut keys = Keys::default();
        let mut inside = false;
        for (line, text) in &self.lines {
            for (column, found) in keys.of(text) {
                if inside && found == key {
                    let place = Place {
                        line: *line,
                        column,
                    };
                    let length = u32::try_from(found.chars().count()).unwrap_or(1);
                    return Some(Spot { place, length });
                }
                inside |= found == "match";
            }
        }
        None
    }
}

/// Finds the keys of mappings, line by line.
#[derive(Debug, Default)]
struct Keys {
    /// The quotation mark of a text that has not ended yet.
    quote: Option<char>,
}

impl Keys {
    /// The bare keys on `line`, each with its column.
    fn of<'a>(&mut self, line: &'a str) -> Vec<(u32, &'a str)> {
        let mut found = Vec::new();
        // The last character that was not a space; at the beginning of a line anything may begin.
        let mut last = '-';
        let mut escaped = false;
        let mut spaced = true;
        let mut chars = (1..).zip(line.char_indices()).peekable();
        while let Some((column, (at, char))) = chars.next() {
            if let Some(quote) = self.quote {
                if char == quote && !escaped {
                    self.quote = None;
                }
                escaped = quote == '"' && char == '\\' && !escaped;
                last = char;
                continue;
            }
            let begins = "-{[,:".contains(last);
            match char {
                '#' if spaced => break,
                '"' | '\'' if begins => self.quote = Some(char),
                char if begins && char.is_ascii_alphabetic() => {
                    let rest = line.get(at..).unwrap_or_default();
                    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
                    let word = end.and_then(|end| rest.get(..end)).unwrap_or(rest);
                    let after = rest.get(word.len()..).unwrap_or_default().trim_start();
                    if after.starts_with(':') {
                        found.push((column, word));
                    }
                    while chars
                        .next_if(|(_, (next, _))| *next < at + word.len())
                        .is_some()
                    {}
                }
                _ => {}
            }
            spaced = char.is_whitespace();
            if !spaced {
                last = char;
            }
        }
        found
    }
}

/// The file's name, as far as it is known.
pub(super) fn file(policy: &Policy) -> String {
    let name = policy.source().map(|source| text::plain(&source.name));
    name.unwrap_or_else(|| ".airlock/policy.yaml".to_owned())
}

/// The line at `spot` with carets under it and `note` behind them, like a compiler's.
pub(super) fn pointed(policy: &Policy, spot: Spot, note: &str) -> Vec<String> {
    let Place { line, column } = spot.place;
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    let mut out = vec![format!("{margin}--> {}:{line}:{column}", file(policy))];
    let text = policy
        .source()
        .and_then(|source| source.text.lines().nth((line as usize).checked_sub(1)?));
    match text {
        Some(text) => {
            let (shown, carets) = excerpt(text, column, spot.length);
            out.push(format!("{margin} |"));
            out.push(format!("{number} | {shown}").trim_end().to_owned());
            out.push(format!("{margin} | {carets} {note}"));
        }
        None => out.push(format!("{margin} = {note}")),
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_from_values_quotes_and_comments() {
        for (line, want) in [
            ("  - name: write", vec![(5, "name")]),
            (
                "    match: { syscall: fs.write, path_glob: [a, \"b: c\"] }",
                vec![(5, "match"), (14, "syscall"), (33, "path_glob")],
            ),
            ("    reason: don't say match: now", vec![(5, "reason")]),
            ("    # match: no", vec![]),
            ("    tool: x # plugin: y", vec![(5, "tool")]),
            (
                "    reason: \"a, tool: \\\" plugin: x\"",
                vec![(5, "reason")],
            ),
        ] {
            assert_eq!(Keys::default().of(line), want, "{line}");
        }
        let mut keys = Keys::default();
        assert_eq!(keys.of("  reason: 'it begins,"), [(3, "reason")]);
        assert_eq!(keys.of("  tool: ends' "), []);
        assert_eq!(keys.of("  tool: x"), [(3, "tool")]);
    }
}

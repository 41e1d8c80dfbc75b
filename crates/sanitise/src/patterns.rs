//! The project's own patterns for secrets: regular expressions, looked for line by line.
//!
//! A very long line is looked at in overlapping windows, so a match longer than half a window may
//! be found in part only.

use regex::{Regex, RegexBuilder};
use std::ops::Range;

/// The most patterns.
pub const MOST_PATTERNS: usize = 1_024;
/// Longest pattern as written.
const PATTERN_BYTES: usize = 2_000;
/// Largest compiled pattern.
const COMPILED_BYTES: usize = 512 * 1024;
/// Lines longer than two of these are looked at in windows of two.
const HALF: usize = 4 * 1024;

/// Why a pattern is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedPattern {
    /// The name cannot stand in a placeholder.
    #[error("`{name}` cannot name a kind of secret")]
    BadName {
        /// The name.
        name: String,
    },
    /// It is not a regular expression, or too large a one.
    #[error("the pattern `{name}` is not usable: {reason}")]
    BadPattern {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It would replace every place of every text.
    #[error("the pattern `{name}` matches nothing, everywhere")]
    MatchesEmpty {
        /// The name.
        name: String,
    },
    /// The set is full.
    #[error("there are more than {MOST_PATTERNS} patterns")]
    TooMany,
}

impl RefusedPattern {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::BadName { .. } => "use up to 64 letters, digits, `-`, `_` and `.`",
            Self::BadPattern { .. } => {
                "mend or shorten it; look-around and back-references do not exist here"
            }
            Self::MatchesEmpty { .. } => "use `+` where it has `*`, or a minimum such as `{16,}`",
            Self::TooMany => "join some of them with `|`",
        }
    }
}

/// Patterns of a project.
#[derive(Debug, Default)]
pub struct Patterns {
    list: Vec<(String, Regex)>,
}

impl Patterns {
    /// A set without patterns.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds a pattern for the secret itself; `name` stands in its placeholders.
    pub fn add(&mut self, name: &str, pattern: &str) -> Result<(), RefusedPattern> {
        let shown: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > 64 || !name.bytes().all(plain) {
            return Err(RefusedPattern::BadName { name: shown });
        }
        if self.list.len() >= MOST_PATTERNS {
            return Err(RefusedPattern::TooMany);
        }
        let bad = |reason: String| RefusedPattern::BadPattern {
            name: shown.clone(),
            reason,
        };
        if pattern.len() > PATTERN_BYTES {
            return Err(bad(format!("it is longer than {PATTERN_BYTES} bytes")));
        }
        let built = RegexBuilder::new(pattern)
            .size_limit(COMPILED_BYTES)
            .dfa_size_limit(2 * COMPILED_BYTES)
            .build();
        let regex = built.map_err(|error| {
            if matches!(error, regex::Error::CompiledTooBig(_)) {
                return bad("it compiles to too large a program".to_owned());
            }
            // The last line of the parser's drawing is the reason itself.
            let text = error.to_string();
            let last = text.lines().last().unwrap_or("it does not parse");
            bad(last.trim_start_matches("error: ").to_owned())
        })?;
        if regex.is_match("") {
            return Err(RefusedPattern::MatchesEmpty { name: shown });
        }
        self.list.push((name.to_owned(), regex));
        Ok(())
    }

    pub(crate) fn name(&self, pattern: usize) -> &str {
        self.list.get(pattern).map_or("pattern", |(name, _)| name)
    }

    /// Calls `hit` with every pattern that matches a part of `text` on both sides of `border`, and
    /// where that ends.
    pub(crate) fn across(&self, text: &str, border: usize, mut hit: impl FnMut(usize, usize)) {
        for (number, (_, regex)) in self.list.iter().enumerate() {
            crate::work::spend(text.len());
            let mut at = 0;
            while let Some(found) = regex.find_at(text, at) {
                if found.start() >= border {
                    break;
                }
                if found.end() > border {
                    hit(number, found.end());
                    break;
                }
                // Behind what matches nothing, too.
                at = text.ceil_char_boundary(found.end().max(found.start() + 1));
            }
        }
    }
}

/// Where in a text the patterns were looked for.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// What the line or window began with that is looked at next.
    context: usize,
    begin: usize,
}

impl Lines {
    /// Looks at all that is complete; tells where what is not begins.
    pub(crate) fn advance(
        &mut self,
        patterns: &Patterns,
        text: &str,
        last: bool,
        mut hit: impl FnMut(usize, Range<usize>),
    ) -> usize {
        if patterns.is_empty() {
            return text.len();
        }
        while self.begin < text.len() {
            let rest = text.as_bytes().get(self.begin..).unwrap_or_default();
            let near = rest.get(..2 * HALF).unwrap_or(rest);
            let (end, accept, next) = if let Some(line) = memchr::memchr(b'\n', near) {
                let end = self.begin + line;
                (end, end, end + 1)
            } else if rest.len() >= 2 * HALF {
                let accept = text.floor_char_boundary(self.begin + HALF);
                (
                    text.floor_char_boundary(self.begin + 2 * HALF),
                    accept,
                    accept,
                )
            } else if last {
                (text.len(), text.len(), text.len())
            } else {
                break;
            };
            self.window(patterns, text, end, accept, &mut hit);
            self.context = if next > end { next } else { self.begin };
            self.begin = next;
        }
        self.begin
    }

    fn window(
        &self,
        patterns: &Patterns,
        text: &str,
        end: usize,
        accept: usize,
        hit: &mut impl FnMut(usize, Range<usize>),
    ) {
        let window = text.get(self.context..end).unwrap_or_default();
        crate::work::spend(window.len());
        for (number, (_, regex)) in patterns.list.iter().enumerate() {
            let mut at = self.begin - self.context;
            while let Some(found) = regex.find_at(window, at) {
                if self.context + found.start() >= accept {
                    break;
                }
                if found.is_empty() {
                    at = window.ceil_char_boundary(found.end() + 1);
                    if at > window.len() || found.end() == window.len() {
                        break;
                    }
                    continue;
                }
                hit(
                    number,
                    self.context + found.start()..self.context + found.end(),
                );
                at = found.end();
            }
        }
    }

    pub(crate) fn forget(&mut self, count: usize) {
        self.context = self.context.saturating_sub(count);
        self.begin = self.begin.saturating_sub(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_patterns_are_refused_with_a_reason() {
        let mut patterns = Patterns::new();
        for (name, pattern, want) in [
            ("a b", "x+", "cannot name"),
            ("a", "x(", "unclosed group"),
            ("a", "x*", "matches nothing"),
            ("a", r"\w{1000}{1000}", "large"),
            ("a", &"x".repeat(3_000), "longer"),
        ] {
            let refused = patterns.add(name, pattern).unwrap_err();
            assert!(refused.to_string().contains(want), "{refused}");
            assert!(!refused.hint().is_empty());
        }
        for number in 0..MOST_PATTERNS {
            patterns.add(&format!("p{number}"), "ACME-[0-9]+").unwrap();
        }
        assert_eq!(patterns.add("one-more", "x+"), Err(RefusedPattern::TooMany));
    }
}

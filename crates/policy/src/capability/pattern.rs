//! One pattern: parsed, matched against a capability, compared with another pattern.

use super::error::shown;
use super::text::Anchor;
use super::token::{Glob, Row, Token, aligns};
use super::{Capability, CapabilityError};
use std::fmt;
use std::str::FromStr;

/// A well-formed capability pattern.
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern {
    text: Box<str>,
    segments: Box<[Token]>,
    path: Option<PathPattern>,
}

/// The path scope of a pattern.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct PathPattern {
    pub(super) anchor: Anchor,
    pub(super) components: Box<[Token]>,
}

/// A segment of a capability as the dotted part of a pattern sees it.
#[derive(Clone, Copy)]
enum Unit<'a> {
    Segment(&'a str),
    /// A path scope as a whole: only a `*` that is a whole segment takes it.
    Path,
}

/// A segment of one pattern as the dotted part of another sees it.
#[derive(Clone, Copy)]
enum PatternUnit<'a> {
    Token(&'a Token),
    Path,
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// Stricter than what a capability may hold, because a pattern that can never match is a grant
    /// or, worse, a denial that silently does nothing.
    pub fn parse(text: &str) -> Result<Self, CapabilityError> {
        let shape = Capability::parse(text)?;
        let mut segments = Row::default();
        for segment in shape.segments() {
            if segment == "*" {
                segments.push(Token::One);
                segments.push(Token::Deep);
                continue;
            }
            check_characters(segment, text)?;
            segments.push(literal_or_glob(segment, text)?);
        }
        let path = shape.path().map(|path| {
            let components = path_tokens(path.components(), text)?;
            Ok(PathPattern {
                anchor: path.anchor,
                components,
            })
        });
        Ok(Self {
            text: text.into(),
            segments: segments.into_tokens(),
            path: path.transpose()?,
        })
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether its path scope begins with `~`. Whoever asks names absolute paths, so such a pattern
    /// matches nothing before it is [put in a home](Self::in_home).
    pub fn is_of_home(&self) -> bool {
        let path = self.path.as_ref();
        path.is_some_and(|path| path.anchor == Anchor::Home)
    }

    /// This pattern with the absolute path `home` for `~`; as it is, if it has none. A `*` in `home`
    /// is the wildcard it is in any pattern.
    pub fn in_home(&self, home: &str) -> Result<Self, CapabilityError> {
        if !self.is_of_home() {
            return Ok(self.clone());
        }
        // A segment that begins with `~` begins the path scope, so the first one does.
        let (before, below) = match self.text.strip_prefix('~') {
            Some(below) => (String::new(), below),
            None => match self.text.split_once(".~") {
                Some((dotted, below)) => (format!("{dotted}."), below),
                None => return Ok(self.clone()),
            },
        };
        let path = format!("{}{below}", home.trim_end_matches('/'));
        let path = if path.is_empty() { "/" } else { path.as_str() };
        Self::parse(&format!("{before}{path}"))
    }

    /// Whether `capability` is well formed and matches.
    pub fn matches(&self, capability: &str) -> bool {
        Capability::parse(capability).is_ok_and(|capability| self.matches_parsed(&capability))
    }

    /// Whether `capability` matches.
    pub fn matches_parsed(&self, capability: &Capability<'_>) -> bool {
        let segments = capability.segments().map(Unit::Segment);
        match (&self.path, capability.path()) {
            (Some(_), None) => false,
            (Some(pattern), Some(path)) => {
                pattern.anchor == path.anchor
                    && aligns(&self.segments, segments, accepts_unit)
                    && aligns(&pattern.components, path.components(), |token, text| {
                        accepts_text(token, text)
                    })
            }
            (None, path) => aligns(
                &self.segments,
                segments.chain(path.map(|_| Unit::Path)),
                accepts_unit,
            ),
        }
    }

    /// Whether this pattern surely matches every capability that `other` matches.
    ///
    /// Never wrongly true. It may be false for an `other` whose wildcards only taken together are
    /// covered; whoever narrows a grant by this ends up with less, never with more.
    pub fn covers(&self, other: &Self) -> bool {
        let segments = other.segments.iter().map(PatternUnit::Token);
        match (&self.path, &other.path) {
            (Some(_), None) => false,
            (Some(ours), Some(theirs)) => {
                ours.anchor == theirs.anchor
                    && aligns(&self.segments, segments, covers_unit)
                    && aligns(&ours.components, theirs.components.iter(), covers_token)
            }
            (None, path) => {
                let path = path.as_ref().map(|_| PatternUnit::Path);
                aligns(&self.segments, segments.chain(path), covers_unit)
            }
        }
    }

    /// The dotted part.
    pub(super) fn segments(&self) -> &[Token] {
        &self.segments
    }

    /// The path scope.
    pub(super) const fn path(&self) -> Option<&PathPattern> {
        self.path.as_ref()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.text)
    }
}

impl FromStr for Pattern {
    type Err = CapabilityError;

    fn from_str(text: &str) -> Result<Self, CapabilityError> {
        Self::parse(text)
    }
}

fn path_tokens<'a>(
    components: impl Iterator<Item = &'a str>,
    text: &str,
) -> Result<Box<[Token]>, CapabilityError> {
    let mut row = Row::default();
    let mut components = components.peekable();
    while let Some(component) = components.next() {
        match component {
            "**" => row.push(Token::Deep),
            "*" => {
                row.push(Token::One);
                if components.peek().is_none() {
                    row.push(Token::Deep);
                }
            }
            name => row.push(literal_or_glob(name, text)?),
        }
    }
    Ok(row.into_tokens())
}

fn literal_or_glob(part: &str, text: &str) -> Result<Token, CapabilityError> {
    if part.contains("**") {
        return Err(CapabilityError::StrayDoubleStar { text: shown(text) });
    }
    Ok(Glob::new(part).map_or_else(|| Token::Literal(part.into()), Token::Glob))
}

/// Refuses what other languages would read as alternatives, single wildcards or negation, and the
/// blanks that YAML editing leaves behind. Path components are free: files have such names.
fn check_characters(segment: &str, text: &str) -> Result<(), CapabilityError> {
    let unsupported =
        |c: &char| matches!(c, '?' | '{' | '}' | '!') || c.is_whitespace() || c.is_control();
    segment
        .chars()
        .find(unsupported)
        .map_or(Ok(()), |character| {
            Err(CapabilityError::UnsupportedCharacter {
                text: shown(text),
                character,
            })
        })
}

fn accepts_text(token: &Token, text: &str) -> bool {
    match token {
        Token::Literal(literal) => **literal == *text,
        Token::Glob(glob) => glob.matches(text),
        Token::One => true,
        Token::Deep => false,
    }
}

fn accepts_unit(token: &Token, unit: Unit<'_>) -> bool {
    match unit {
        Unit::Segment(text) => accepts_text(token, text),
        Unit::Path => *token == Token::One,
    }
}

/// Whether `token` takes everything that `other` takes. Only a `Deep` could cover a `Deep`, and
/// [`aligns`] sees to those itself.
fn covers_token(token: &Token, other: &Token) -> bool {
    match (token, other) {
        (Token::One, Token::Literal(_) | Token::Glob(_) | Token::One) => true,
        (Token::Literal(ours), Token::Literal(theirs)) => ours == theirs,
        (Token::Glob(ours), Token::Literal(theirs)) => ours.matches(theirs),
        // No literal piece holds a `*`, so each `*` of theirs falls under one of ours, and with it
        // whatever it stands for.
        (Token::Glob(ours), Token::Glob(theirs)) => ours.matches(theirs.text()),
        (Token::Literal(_), Token::Glob(_))
        | (Token::Literal(_) | Token::Glob(_), Token::One)
        | (Token::Deep, _)
        | (_, Token::Deep) => false,
    }
}

fn covers_unit(token: &Token, unit: PatternUnit<'_>) -> bool {
    match unit {
        PatternUnit::Token(other) => covers_token(token, other),
        PatternUnit::Path => *token == Token::One,
    }
}

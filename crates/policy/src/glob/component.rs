//! One component of a glob, matched against one name: `*`, `?` and `[...]` can never cross `/`
//! because no `/` ever reaches them.

use super::error::GlobError;
use std::iter::Peekable;
use std::str::Chars;

/// What a name must look like. The common shapes are told apart so that they cost one comparison.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Component {
    /// Exactly this name.
    Literal(Box<str>),
    /// Any name.
    Any,
    /// Any name that ends so.
    Suffix(Box<str>),
    /// Any name that begins so.
    Prefix(Box<str>),
    /// Any name that has this in it.
    Inner(Box<str>),
    /// Anything else.
    Wild(Box<[Piece]>),
}

/// One step of a wildcard.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Piece {
    /// This character.
    Char(char),
    /// Any one character.
    One,
    /// Any run of characters.
    Run,
    /// One character in (or, negated, outside) these ranges.
    Class {
        negated: bool,
        ranges: Box<[(char, char)]>,
    },
}

impl Component {
    /// Reads one component; `whole` is the glob it belongs to, for messages.
    pub(super) fn parse(text: &str, whole: &str) -> Result<Self, GlobError> {
        let mut pieces = Vec::new();
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            pieces.push(match char {
                '*' => Piece::Run,
                '?' => Piece::One,
                '[' => class(&mut chars, whole)?,
                '{' | '}' => return Err(GlobError::Braces(shown(whole))),
                '\\' => Piece::Char(escaped(&mut chars, whole)?),
                other => Piece::Char(other),
            });
        }
        pieces.dedup_by(|a, b| matches!((a, b), (Piece::Run, Piece::Run)));
        Ok(Self::simplest(pieces))
    }

    fn simplest(pieces: Vec<Piece>) -> Self {
        if let Some(name) = literal(&pieces) {
            return Self::Literal(name);
        }
        match pieces.as_slice() {
            [Piece::Run] => return Self::Any,
            [Piece::Run, inner @ .., Piece::Run] if literal(inner).is_some() => {
                return Self::Inner(literal(inner).unwrap_or_default());
            }
            [Piece::Run, rest @ ..] => {
                if let Some(end) = literal(rest) {
                    return Self::Suffix(end);
                }
            }
            [rest @ .., Piece::Run] => {
                if let Some(start) = literal(rest) {
                    return Self::Prefix(start);
                }
            }
            _ => {}
        }
        Self::Wild(pieces.into())
    }

    /// Whether `name` looks like this.
    #[inline]
    pub(super) fn matches(&self, name: &str) -> bool {
        match self {
            Self::Literal(literal) => &**literal == name,
            Self::Any => true,
            Self::Suffix(end) => name.ends_with(&**end),
            Self::Prefix(start) => name.starts_with(&**start),
            Self::Inner(inner) => holds(name.as_bytes(), inner.as_bytes()),
            Self::Wild(pieces) => wild(pieces, name),
        }
    }
}

/// Whether `inner` is somewhere in `text`. Paths are short: preparing a search for more than a byte
/// would take longer.
pub(super) fn holds(mut text: &[u8], inner: &[u8]) -> bool {
    let Some((first, rest)) = inner.split_first() else {
        return true;
    };
    while let Some(at) = memchr::memchr(*first, text) {
        text = text.get(at + 1..).unwrap_or_default();
        if text.starts_with(rest) {
            return true;
        }
    }
    false
}

fn literal(pieces: &[Piece]) -> Option<Box<str>> {
    let mut name = String::new();
    for piece in pieces {
        match piece {
            Piece::Char(char) => name.push(*char),
            Piece::One | Piece::Run | Piece::Class { .. } => return None,
        }
    }
    Some(name.into())
}

/// Steps back only to the last `*`, so the cost is at most name times pattern.
fn wild(pieces: &[Piece], name: &str) -> bool {
    let (mut pieces, mut name) = (pieces, name.chars());
    let mut retry: Option<(&[Piece], Chars<'_>)> = None;
    loop {
        let step = match pieces.split_first() {
            Some((Piece::Run, rest)) => {
                retry = Some((rest, name.clone()));
                pieces = rest;
                continue;
            }
            Some((piece, rest)) => name.next().filter(|char| one(piece, *char)).map(|_| rest),
            None if name.as_str().is_empty() => return true,
            None => None,
        };
        if let Some(rest) = step {
            pieces = rest;
            continue;
        }
        let Some((after_run, from)) = retry.as_mut() else {
            return false;
        };
        if from.next().is_none() {
            return false;
        }
        pieces = after_run;
        name = from.clone();
    }
}

fn one(piece: &Piece, char: char) -> bool {
    match piece {
        Piece::Char(wanted) => *wanted == char,
        Piece::One | Piece::Run => true,
        Piece::Class { negated, ranges } => {
            let inside = ranges
                .iter()
                .any(|(low, high)| (*low..=*high).contains(&char));
            inside != *negated
        }
    }
}

fn escaped(chars: &mut Peekable<Chars<'_>>, whole: &str) -> Result<char, GlobError> {
    match chars.next() {
        None => Err(GlobError::TrailingEscape(shown(whole))),
        Some(char) if char.is_alphanumeric() => Err(GlobError::NeedlessEscape(shown(whole))),
        Some(char) => Ok(char),
    }
}

fn class(chars: &mut Peekable<Chars<'_>>, whole: &str) -> Result<Piece, GlobError> {
    let broken = || GlobError::Class(shown(whole));
    let negated = chars.next_if(|char| matches!(char, '!' | '^')).is_some();
    let mut ranges = Vec::new();
    loop {
        let low = match chars.next().ok_or_else(broken)? {
            ']' if !ranges.is_empty() => break,
            '[' if matches!(chars.peek(), Some(':' | '.' | '=')) => {
                return Err(GlobError::NamedClass(shown(whole)));
            }
            '\\' => escaped(chars, whole)?,
            char => char,
        };
        let mut ahead = chars.clone();
        let is_range = ahead.next() == Some('-') && ahead.peek().is_some_and(|char| *char != ']');
        let high = if is_range {
            chars.next();
            match chars.next().ok_or_else(broken)? {
                '\\' => escaped(chars, whole)?,
                char => char,
            }
        } else {
            low
        };
        if low > high {
            return Err(broken());
        }
        ranges.push((low, high));
    }
    Ok(Piece::Class {
        negated,
        ranges: ranges.into(),
    })
}

/// Enough of a glob to recognise it in a message.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

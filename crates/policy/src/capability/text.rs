//! The shape that capabilities and patterns share: dotted segments, then maybe a path scope.

use super::CapabilityError;
use super::error::shown;
use airlock_core::limits;

/// A well-formed capability, borrowed from its text. Making one allocates nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability<'a> {
    text: &'a str,
    /// The segments before the path scope, without the dot that joins the two.
    dotted: &'a str,
    path: Option<Path<'a>>,
}

/// A path scope: where it starts and what follows, normalised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Path<'a> {
    pub(super) anchor: Anchor,
    /// Components joined by `/`; empty for the anchor itself.
    below: &'a str,
}

/// What a path scope starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    /// `/`
    Root,
    /// `~`
    Home,
}

impl<'a> Capability<'a> {
    /// Checks `text` and finds its parts.
    pub fn parse(text: &'a str) -> Result<Self, CapabilityError> {
        if text.is_empty() {
            return Err(CapabilityError::Empty);
        }
        if text.len() > limits::CAPABILITY_BYTES {
            return Err(CapabilityError::TooLong { bytes: text.len() });
        }
        let is_nul = |byte: u8| byte == 0;
        // All at once, which is quicker than to stop at the first: there hardly ever is one.
        if text.bytes().fold(false, |found, byte| found | is_nul(byte)) {
            return Err(CapabilityError::Nul { text: shown(text) });
        }
        let (dotted, path) = divide(text)?;
        let path = match path {
            Some(path) => Some(Path::parse(path, text)?),
            None => None,
        };
        Ok(Self { text, dotted, path })
    }

    /// The capability as text.
    pub const fn as_str(&self) -> &'a str {
        self.text
    }

    /// The segments before the path scope.
    pub(super) fn segments(&self) -> Parts<'a> {
        Parts {
            rest: self.dotted,
            separator: b'.',
        }
    }

    /// The path scope.
    pub(super) const fn path(&self) -> Option<Path<'a>> {
        self.path
    }
}

impl<'a> Path<'a> {
    /// Reads `path`, which begins with `/` or `~`; `text` is the whole, for messages.
    fn parse(path: &'a str, text: &str) -> Result<Self, CapabilityError> {
        let (anchor, below) = match path.strip_prefix('~') {
            None => (
                Anchor::Root,
                path.strip_prefix('/').filter(|below| !below.is_empty()),
            ),
            Some("") => (Anchor::Home, None),
            Some(below) => match below.strip_prefix('/') {
                Some(below) => (Anchor::Home, Some(below)),
                None => return Err(CapabilityError::ForeignHome { text: shown(text) }),
            },
        };
        if let Some(below) = below {
            check_components(below, text)?;
        }
        Ok(Self {
            anchor,
            below: below.unwrap_or_default(),
        })
    }

    /// The components below the anchor.
    pub(super) fn components(&self) -> Parts<'a> {
        Parts {
            rest: self.below,
            separator: b'/',
        }
    }
}

/// The parts of text between separators, without an empty one at the end. Smaller and quicker to
/// copy than what `str::split` returns, and matching copies it often.
#[derive(Clone)]
pub(super) struct Parts<'a> {
    rest: &'a str,
    /// An ASCII character.
    separator: u8,
}

impl Parts<'_> {
    /// Moves past `run`, which is whole parts and the separators between them, if that comes next.
    pub(super) fn pass(&mut self, run: &str) -> bool {
        let next = self.rest.as_bytes().get(..run.len());
        if !next.is_some_and(|next| same(next, run.as_bytes())) {
            return false;
        }
        let after = self.rest.get(run.len()..).unwrap_or_default();
        match after.as_bytes().first() {
            None => self.rest = after,
            Some(next) if *next == self.separator => self.rest = after.get(1..).unwrap_or_default(),
            Some(_) => return false,
        }
        true
    }
}

/// Whether texts of one length are the same. Most runs are a word or two of memory, which are compared
/// in less time than it takes to call for it.
fn same(one: &[u8], other: &[u8]) -> bool {
    let ends = |bytes: &[u8]| {
        let (first, last) = (*bytes.first_chunk()?, *bytes.last_chunk()?);
        let words = (u64::from_ne_bytes(first), u64::from_ne_bytes(last));
        (bytes.len() <= 16).then_some(words)
    };
    match (ends(one), ends(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.bytes().position(|byte| byte == self.separator);
        let (part, after) = self.rest.split_at_checked(end.unwrap_or(self.rest.len()))?;
        self.rest = after.get(1..).unwrap_or_default();
        Some(part)
    }
}

/// Refuses `.`, `..` and nothing at all as a component of what follows an anchor and a slash.
fn check_components(below: &str, text: &str) -> Result<(), CapabilityError> {
    if is_plain(below) {
        return Ok(());
    }
    let components = Parts {
        rest: below,
        separator: b'/',
    };
    for component in components {
        let component = match component {
            "" => return Err(CapabilityError::EmptyComponent { text: shown(text) }),
            "." => ".",
            ".." => "..",
            _ => continue,
        };
        return Err(CapabilityError::DotComponent {
            text: shown(text),
            component,
        });
    }
    // The parts end at the last separator, so this is the one empty component they leave out.
    if below.is_empty() || below.ends_with('/') {
        return Err(CapabilityError::EmptyComponent { text: shown(text) });
    }
    Ok(())
}

/// Whether no component begins with a dot or is empty: one quick pass for what nearly all paths
/// are. Of the others, each component is looked at.
fn is_plain(below: &str) -> bool {
    let odd = |byte: u8| byte == b'/' || byte == b'.';
    let bytes = below.as_bytes();
    let Some((first, behind)) = bytes.split_first() else {
        return false;
    };
    // All at once, which is quicker than to stop at the first: there hardly ever is one.
    let has_odd = bytes
        .iter()
        .zip(behind)
        .fold(false, |found, (before, byte)| {
            found | ((*before == b'/') & odd(*byte))
        });
    !odd(*first) && !has_odd && !below.ends_with('/')
}

/// Parts dotted segments from the path scope and checks the dots and the number of segments.
fn divide(text: &str) -> Result<(&str, Option<&str>), CapabilityError> {
    let mut dots = 0;
    let mut after_dot = false;
    let mut path_at = None;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'.' if at == 0 => return Err(CapabilityError::LeadingDot { text: shown(text) }),
            b'.' if after_dot => return Err(CapabilityError::DoubleDot { text: shown(text) }),
            b'.' => dots += 1,
            b'/' | b'~' if after_dot || at == 0 => {
                path_at = Some(at);
                break;
            }
            _ => {}
        }
        after_dot = byte == b'.';
    }
    if path_at.is_none() && after_dot {
        return Err(CapabilityError::TrailingDot { text: shown(text) });
    }
    // Each dot has a segment on either side; the path scope is one of them.
    let segments = dots + 1;
    if segments > limits::CAPABILITY_SEGMENTS {
        return Err(CapabilityError::TooManySegments {
            text: shown(text),
            segments,
        });
    }
    Ok(match path_at.and_then(|at| text.split_at_checked(at)) {
        Some((dotted, path)) => (dotted.strip_suffix('.').unwrap_or(dotted), Some(path)),
        None => (text, None),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_same_only_if_every_byte_is() {
        for length in 0..40 {
            let text: Vec<u8> = (0..length).map(|at| b'a' + at % 26).collect();
            assert!(same(&text, &text.clone()), "{length}");
            for at in 0..text.len() {
                let mut other = text.clone();
                other.get_mut(at).into_iter().for_each(|byte| *byte ^= 1);
                assert!(!same(&text, &other), "{length}, {at}");
            }
        }
    }
}

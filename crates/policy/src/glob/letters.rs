//! The letters of a text as one number, to tell at a glance that a glob cannot match a path: it
//! needs a letter the path does not have.
//!
//! Guarantee: no false "cannot". Bytes share places, so a path may seem to have what it has not, and
//! is then matched in full.

use super::component::{Component, Piece};

/// Which bytes occur, four to a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Letters(u64);

impl Letters {
    #[inline]
    pub(super) fn of(text: &[u8]) -> Self {
        Self(text.iter().fold(0, |set, byte| set | 1 << (byte & 0x3F)))
    }

    /// What every name has that fits `component`.
    pub(super) fn needed_by(component: &Component) -> Self {
        match component {
            Component::Any => Self::default(),
            Component::Literal(text)
            | Component::Suffix(text)
            | Component::Prefix(text)
            | Component::Inner(text) => Self::of(text.as_bytes()),
            Component::Wild(pieces) => pieces.iter().fold(Self::default(), |all, piece| {
                let Piece::Char(char) = piece else { return all };
                all.and(Self::of(char.encode_utf8(&mut [0; 4]).as_bytes()))
            }),
        }
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of these are among `other`.
    #[inline]
    pub(super) const fn are_in(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }
}

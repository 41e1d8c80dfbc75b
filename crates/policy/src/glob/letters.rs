//! The letters of a text as two numbers, to tell at a glance that a glob cannot match a path: it needs
//! a letter the path does not have, or two beside each other that do not stand so there.
//!
//! Guarantee: no false "cannot". Letters share places, so a path may seem to have what it has not, and
//! is then matched in full.

use super::component::{Component, Piece};

/// Which bytes occur, four to a place, and which two follow each other, 1,024 to a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Letters {
    bytes: u64,
    pairs: u64,
}

impl Letters {
    #[inline]
    pub(super) fn of(text: &[u8]) -> Self {
        let behind = text.get(1..).unwrap_or_default();
        Self {
            bytes: text.iter().fold(0, |set, byte| set | 1 << (byte & 0x3F)),
            pairs: text.iter().zip(behind).fold(0, |set, (byte, next)| {
                set | 1 << ((byte.wrapping_mul(11) ^ next) & 0x3F)
            }),
        }
    }

    /// What every name has that fits `component`.
    pub(super) fn needed_by(component: &Component) -> Self {
        match component {
            Component::Any => Self::default(),
            Component::Literal(text)
            | Component::Suffix(text)
            | Component::Prefix(text)
            | Component::Inner(text) => Self::of(text.as_bytes()),
            Component::Wild(pieces) => {
                let char = |piece: &Piece| match piece {
                    Piece::Char(char) => Some(*char),
                    Piece::One | Piece::Run | Piece::Class { .. } => None,
                };
                // Only what stands between two wildcards follows each other in the name, too.
                let runs = pieces.split(|piece| char(piece).is_none());
                runs.map(|run| Self::of(run.iter().filter_map(char).collect::<String>().as_bytes()))
                    .fold(Self::default(), Self::and)
            }
        }
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes | other.bytes,
            pairs: self.pairs | other.pairs,
        }
    }

    /// Whether all of these are among `other`.
    #[inline]
    pub(super) const fn are_in(self, other: Self) -> bool {
        (self.bytes & !other.bytes) | (self.pairs & !other.pairs) == 0
    }
}

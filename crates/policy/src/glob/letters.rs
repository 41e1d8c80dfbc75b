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

/// Each place as a bit.
#[expect(
    clippy::indexing_slicing,
    reason = "while compiling, and within bounds"
)]
static PLACES: [u64; 64] = {
    let mut places = [0; 64];
    let mut at = 0;
    while at < places.len() {
        places[at] = 1 << at;
        at += 1;
    }
    places
};

/// The place of a number, by its last six bits. Looked up: what a compiler makes of many shifts at once
/// takes longer.
#[inline]
fn place(number: u8) -> u64 {
    let place = PLACES.get(usize::from(number & 0x3F));
    place.copied().unwrap_or_default()
}

impl Letters {
    #[inline]
    pub(super) fn of(text: &[u8]) -> Self {
        let mut letters = Self::default();
        for byte in text {
            letters.bytes |= place(*byte);
        }
        let behind = text.get(1..).unwrap_or_default();
        for (byte, next) in text.iter().zip(behind) {
            letters.pairs |= place(byte.wrapping_mul(11) ^ next);
        }
        letters
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

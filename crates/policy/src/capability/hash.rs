//! Hashing for the index: tokens are a few bytes long, where the standard hasher is mostly set-up.
//!
//! Multiplies to 128 bits and folds, eight bytes at a time, from a seed drawn once a process: who
//! writes patterns cannot tell which of them will collide. If they did, only lookups in that set
//! would slow down, to comparing the colliding patterns one by one.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());

/// An odd number with bits well spread: the fraction of the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes a [`TokenHasher`] with the seed of this process.
#[derive(Clone)]
pub(super) struct Seeded(u64);

impl Default for Seeded {
    fn default() -> Self {
        Self(*SEED)
    }
}

impl BuildHasher for Seeded {
    type Hasher = TokenHasher;

    fn build_hasher(&self) -> TokenHasher {
        TokenHasher(self.0)
    }
}

/// Hashes one token.
pub(super) struct TokenHasher(u64);

impl TokenHasher {
    fn mix(&mut self, word: u64) {
        let (low, high) = (self.0 ^ word).carrying_mul(SPREAD, 0);
        self.0 = low ^ high;
    }
}

impl Hasher for TokenHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        let last = rest.iter().rev();
        self.mix(last.fold(0, |word, byte| (word << 8) | u64::from(*byte)));
    }

    /// The mark `str` puts at its end. No token holds a NUL, so padding tells lengths apart.
    fn write_u8(&mut self, _: u8) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

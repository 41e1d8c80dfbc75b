//! Hashing for indexes: words are a few bytes long, where the standard hasher is mostly set-up.
//!
//! Multiplies to 128 bits and folds, eight bytes at a time, from a seed drawn once a process: who
//! writes patterns cannot tell which of them will collide. If they did, only lookups in that index
//! would slow down, to comparing the colliding words one by one.
//!
//! Only for maps that are filled from policy, manifests or our own numbers. A request is looked up
//! in them and never adds to them.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());

/// An odd number with bits well spread: the fraction of the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes a [`WordHasher`] with the seed of this process.
#[derive(Debug, Clone)]
pub(crate) struct Seeded(u64);

impl Default for Seeded {
    fn default() -> Self {
        Self(*SEED)
    }
}

impl BuildHasher for Seeded {
    type Hasher = WordHasher;

    fn build_hasher(&self) -> WordHasher {
        WordHasher(self.0)
    }
}

/// Hashes one word.
pub(crate) struct WordHasher(u64);

impl WordHasher {
    fn mix(&mut self, word: u64) {
        let (low, high) = (self.0 ^ word).carrying_mul(SPREAD, 0);
        self.0 = low ^ high;
    }
}

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        // What is read below may overlap, so that `aaaa` and `aaaaa` differ by this alone.
        self.0 = self
            .0
            .wrapping_add((bytes.len() as u64).wrapping_mul(SPREAD));
        if let Some(end) = bytes.last_chunk() {
            let (words, rest) = bytes.as_chunks();
            for word in words {
                self.mix(u64::from_le_bytes(*word));
            }
            if !rest.is_empty() {
                self.mix(u64::from_le_bytes(*end));
            }
        } else if let (Some(start), Some(end)) = (bytes.first_chunk(), bytes.last_chunk()) {
            let (start, end) = (u32::from_le_bytes(*start), u32::from_le_bytes(*end));
            self.mix(u64::from(start) << 32 | u64::from(end));
        } else {
            self.mix(
                bytes
                    .iter()
                    .fold(0, |word, byte| word << 8 | u64::from(*byte)),
            );
        }
    }

    /// The mark `str` puts at its end; the length was mixed in.
    fn write_u8(&mut self, _: u8) {}

    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    /// The length a slice puts in front; it is mixed in anyway.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn words_that_differ_in_a_byte_or_in_length_hash_apart() {
        let seeded = Seeded::default();
        let mut words: Vec<String> = (0..=40).map(|length| "a".repeat(length)).collect();
        for length in 1..=40 {
            for at in 0..length {
                let mut word = vec![b'a'; length];
                word[at] = b'b';
                words.push(String::from_utf8(word).unwrap());
            }
        }
        let hashes: HashSet<u64> = words.iter().map(|word| seeded.hash_one(word)).collect();
        assert_eq!(hashes.len(), words.len());
        let numbers: HashSet<u64> = (0..1_000_u64).map(|n| seeded.hash_one(n)).collect();
        assert_eq!(numbers.len(), 1_000);
    }
}

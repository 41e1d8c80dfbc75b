//! Numbers that keep the identity of secrets without telling anything about them.
//!
//! A number says only which of the different secrets of a kind, in the order they first came up,
//! stands there. The secrets themselves are not kept, only hashes under a key that no one knows.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

/// So many secrets are remembered; after that a secret that comes up again may get a new number.
const MOST: usize = 65_536;

#[derive(Default)]
pub(crate) struct Numbers {
    key: RandomState,
    seen: HashMap<u64, u32, BuildHasherDefault<Hashed>>,
    next: HashMap<Box<str>, u32>,
}

/// Takes what is a hash already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes
            .iter()
            .fold(self.0, |sum, byte| (sum << 8) | u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl std::fmt::Debug for Numbers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Numbers")
            .field("seen", &self.seen.len())
            .finish_non_exhaustive()
    }
}

impl Numbers {
    /// Numbers that begin after the highest of each kind that was given before.
    pub(crate) fn after(highest: &BTreeMap<String, u32>) -> Self {
        let next = highest.iter();
        Self {
            next: next
                .map(|(kind, number)| (kind.as_str().into(), *number))
                .collect(),
            ..Self::default()
        }
    }

    /// The highest of each kind so far.
    pub(crate) fn highest(&self) -> BTreeMap<String, u32> {
        let next = self.next.iter();
        next.map(|(kind, number)| (kind.to_string(), *number))
            .collect()
    }

    /// The number of a secret of a kind.
    pub(crate) fn number(&mut self, kind: &str, secret: &[u8]) -> u32 {
        // In few pieces: each costs more than the bytes in it.
        let mut key = self.key.build_hasher();
        key.write_usize(secret.len());
        key.write(secret);
        key.write(kind.as_bytes());
        let key = key.finish();
        if let Some(number) = self.seen.get(&key) {
            return *number;
        }
        let number = if let Some(number) = self.next.get_mut(kind) {
            *number = number.saturating_add(1);
            *number
        } else {
            self.next.insert(kind.into(), 1);
            1
        };
        if self.seen.len() < MOST {
            self.seen.insert(key, number);
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_begin_after_others_never_repeat_one() {
        let mut before = Numbers::default();
        assert_eq!([before.number("a", b"x"), before.number("a", b"y")], [1, 2]);
        let mut after = Numbers::after(&before.highest());
        assert_eq!(
            [
                after.number("a", b"z"),
                after.number("b", b"x"),
                after.number("a", b"x")
            ],
            [3, 1, 4]
        );
        let full = Numbers::after(&BTreeMap::from([("a".to_owned(), u32::MAX)]));
        assert_eq!(full.highest()["a"], u32::MAX);
    }

    #[test]
    fn numbers_go_by_first_appearance_within_a_kind() {
        let mut numbers = Numbers::default();
        let mut number = |kind, secret: &str| numbers.number(kind, secret.as_bytes());
        assert_eq!(
            [
                number("a", "x"),
                number("a", "y"),
                number("b", "x"),
                number("a", "x")
            ],
            [1, 2, 1, 1]
        );
        assert!(!format!("{numbers:?}").contains('x'));
    }
}

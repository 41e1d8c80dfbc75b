//! A small seeded generator (xorshift64*): the same seed gives the same run on every machine.

pub(crate) struct Rng(u64);

impl Rng {
    /// A generator for `seed`, told apart by `salt` so that two targets do not share a sequence.
    pub(crate) fn new(seed: u64, salt: &str) -> Self {
        let mixed = fnv(salt.as_bytes()) ^ seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        // Zero is the one state xorshift never leaves.
        Self(mixed.max(1))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number in `0..bound`; 0 when `bound` is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from((self.next() >> 16) % bound).unwrap_or(0)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.next().to_be_bytes()[0]
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }
}

/// FNV-1a: names artifacts and salts seeds. Not for anything an attacker may choose.
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_salt_give_the_same_sequence() {
        let sequence = |seed, salt| {
            let mut rng = Rng::new(seed, salt);
            (0..8).map(|_| rng.next()).collect::<Vec<_>>()
        };
        assert_eq!(sequence(1, "units"), sequence(1, "units"));
        assert_ne!(sequence(1, "units"), sequence(2, "units"));
        assert_ne!(sequence(1, "units"), sequence(1, "token"));
    }

    #[test]
    fn below_stays_below() {
        let mut rng = Rng::new(7, "");
        assert!((0..1_000).all(|_| rng.below(3) < 3));
        assert_eq!(rng.below(0), 0);
    }
}

//! Small, quick and always the same.

pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        // Small seeds lie close together; a few rounds take them apart.
        let mut made = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            made.next();
        }
        made
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    pub(crate) fn pick<'t, T: ?Sized>(&mut self, list: &[&'t T]) -> &'t T {
        list[self.below(list.len())]
    }

    pub(crate) fn text(&mut self, alphabet: &str, length: usize) -> String {
        let letters = alphabet.as_bytes();
        (0..length)
            .map(|_| letters[self.below(letters.len())] as char)
            .collect()
    }

    pub(crate) fn hex(&mut self, length: usize) -> String {
        self.text("0123456789abcdef", length)
    }

    pub(crate) fn uuid(&mut self) -> String {
        let parts: Vec<String> = [8, 4, 4, 4, 12].iter().map(|n| self.hex(*n)).collect();
        parts.join("-")
    }

    pub(crate) fn base64(&mut self, length: usize) -> String {
        self.text(BASE64, length)
    }
}

pub(crate) const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

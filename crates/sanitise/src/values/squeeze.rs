//! Text without what may stand between the characters of a value.

use zeroize::Zeroizing;

/// What is left out of text before it is compared. Case always is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// All but letters and digits of ASCII.
    Ascii,
    /// The same, but whatever is not ASCII is kept: for what has such letters itself.
    Wide,
    /// Only blanks, quotes, commas, `+` and `\`.
    Narrow,
}

/// What each byte is compared as; zero for what is left out.
const fn table(view: View) -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0_u8;
    loop {
        let kept = match view {
            View::Ascii => byte.is_ascii_alphanumeric(),
            View::Wide => byte.is_ascii_alphanumeric() || byte >= 0x80,
            View::Narrow => {
                byte > b' '
                    && byte != 0x7f
                    && !matches!(byte, b'"' | b'\'' | b'`' | b',' | b'+' | b'\\')
            }
        };
        if kept {
            set(&mut table, byte);
        }
        if byte == 255 {
            return table;
        }
        byte += 1;
    }
}

#[expect(
    clippy::indexing_slicing,
    reason = "a byte is always an index of a table of 256"
)]
const fn set(table: &mut [u8; 256], byte: u8) {
    table[byte as usize] = byte.to_ascii_lowercase();
}

static ASCII: [u8; 256] = table(View::Ascii);
static WIDE: [u8; 256] = table(View::Wide);
static NARROW: [u8; 256] = table(View::Narrow);

/// Words of the set of bits that keys are looked up in.
pub(super) const WORDS: usize = 1 << 10;

/// Characters of a key: one fewer than the shortest value has, so that every value has two of
/// them, one character apart, and is met by whoever looks at every second place.
pub(super) const KEY: usize = 7;

/// The most keys that are kept of a value, each a character after the one before: who looks at as few
/// places as one of so many meets every value that has them all.
pub(super) const MOST_KEYS: usize = 4;

/// The key that begins eight characters, as they are read from memory.
#[inline]
pub(super) const fn key(eight: [u8; 8]) -> u64 {
    u64::from_le_bytes(eight) & (u64::MAX >> 8)
}

/// Calls `hit` with every place of `squeezed` that is a multiple of `STRIDE` and whose key `may` be one
/// that is looked for.
pub(super) fn look<const STRIDE: usize>(
    squeezed: &mut Vec<u8>,
    may: impl Fn(u64) -> u64,
    mut hit: impl FnMut(usize, u64),
) {
    const TOGETHER: usize = 4;
    let length = squeezed.len();
    // No key has a zero: with these, the last places can be read like all others.
    squeezed.resize(length + TOGETHER * STRIDE + size_of::<u64>(), 0);
    let mut at = 0;
    while let Some(window) = squeezed.get(at..at + TOGETHER * STRIDE + size_of::<u64>()) {
        let key_at = |number: usize| {
            let here = window.get(number * STRIDE..).and_then(<[u8]>::first_chunk);
            here.map_or(0, |eight| key(*eight))
        };
        let keys = [key_at(0), key_at(1), key_at(2), key_at(3)];
        let [a, b, c, d] = keys.map(&may);
        let mut hits = a | b << 1 | c << 2 | d << 3;
        while hits != 0 {
            let number = hits.trailing_zeros() as usize;
            hit(
                at + number * STRIDE,
                keys.get(number).copied().unwrap_or_default(),
            );
            hits &= hits - 1;
        }
        at += TOGETHER * STRIDE;
    }
    squeezed.truncate(length);
}

/// The keys that begin with each of the first characters.
pub(super) fn keys(squeezed: &[u8]) -> impl Iterator<Item = u64> {
    let of = |seven: &[u8]| {
        let mut eight = [0; 8];
        for (place, byte) in eight.iter_mut().zip(seven) {
            *place = *byte;
        }
        key(eight)
    };
    squeezed.windows(KEY).take(MOST_KEYS).map(of)
}

/// The word that a key has its bits in, and the places of the two; shifts take no more than the six
/// lowest bits of each.
#[inline]
pub(super) fn bits_of(key: u64) -> (usize, [u32; 2]) {
    let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let high = (mixed >> 32) as u32;
    let word = (high >> (32 - WORDS.trailing_zeros())) as usize;
    (word, [high >> 16, high >> 10])
}

/// The first `count` of up to sixteen bytes, told from others of another length.
pub(super) fn beginning(bytes: &[u8], count: usize) -> (usize, u128) {
    let sum = bytes
        .iter()
        .take(count)
        .fold(0, |sum, byte| (sum << 8) | u128::from(*byte));
    (count, sum)
}

/// Bytes squeezed at a time.
const STEP: usize = 8;

/// Puts what is kept of `step` to the front of `free`; how many bytes that are.
#[inline]
fn keep(table: &[u8; 256], step: &[u8], free: &mut [u8; STEP]) -> usize {
    let mut count = 0;
    for byte in step {
        let kept = table.get(usize::from(*byte)).copied().unwrap_or(0);
        // Never beyond the end: no step is longer.
        if let Some(slot) = free.get_mut(count % STEP) {
            *slot = kept;
        }
        count += usize::from(kept != 0);
    }
    count
}

impl View {
    #[inline]
    fn table(self) -> &'static [u8; 256] {
        match self {
            Self::Ascii => &ASCII,
            Self::Wide => &WIDE,
            Self::Narrow => &NARROW,
        }
    }

    /// What `byte` is compared as; zero if it is left out.
    #[inline]
    pub(super) fn of(self, byte: u8) -> u8 {
        self.table().get(usize::from(byte)).copied().unwrap_or(0)
    }

    pub(super) fn squeeze(self, text: &[u8]) -> Zeroizing<Vec<u8>> {
        let kept = text
            .iter()
            .map(|byte| self.of(*byte))
            .filter(|byte| *byte != 0);
        Zeroizing::new(kept.collect())
    }

    /// Appends what is compared of `text`, without branches: where text alternates between kept
    /// and left out, a processor guesses wrongly every few bytes.
    pub(super) fn append(self, text: &[u8], out: &mut Vec<u8>) {
        let table = self.table();
        let begin = out.len();
        // A step writes all of its places, also those that the next one writes again.
        out.resize(begin + text.len() + STEP, 0);
        let mut end = begin;
        let (steps, rest) = text.as_chunks::<STEP>();
        for step in steps {
            let free = out.get_mut(end..).and_then(<[u8]>::first_chunk_mut);
            end += free.map_or(0, |free| keep(table, step, free));
        }
        let free = out.get_mut(end..).and_then(<[u8]>::first_chunk_mut);
        end += free.map_or(0, |free| keep(table, rest, free));
        out.truncate(end);
    }

    /// The most bytes left out in a row, between two that are kept.
    pub(super) fn longest_gap(self, text: &[u8]) -> usize {
        let mut gaps = text.split(|byte| self.of(*byte) != 0).map(<[u8]>::len);
        // What stands before the first and after the last is between nothing.
        let (_first, _last) = (gaps.next(), gaps.next_back());
        gaps.max().unwrap_or(0)
    }

    /// What stands after the last byte that is kept.
    pub(super) fn tail(self, text: &[u8]) -> Zeroizing<Vec<u8>> {
        let end = text
            .iter()
            .rposition(|byte| self.of(*byte) != 0)
            .map_or(0, |at| at + 1);
        Zeroizing::new(text.get(end..).unwrap_or_default().to_vec())
    }
}

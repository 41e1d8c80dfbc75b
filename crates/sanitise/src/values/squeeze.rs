//! Text without what may stand between the characters of a value.

use zeroize::Zeroizing;

/// What is left out of text before it is compared. Case always is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// All but letters and digits.
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

static WIDE: [u8; 256] = table(View::Wide);
static NARROW: [u8; 256] = table(View::Narrow);

pub(super) const BITS: u32 = 16;

/// Characters of a key: one fewer than the shortest value has, so that every value has two of
/// them, one character apart, and is met by whoever looks at every second place.
pub(super) const KEY: usize = 7;

/// The key that begins eight characters, as they are read from memory.
#[inline]
pub(super) const fn key(eight: [u8; 8]) -> u64 {
    u64::from_le_bytes(eight) & (u64::MAX >> 8)
}

/// Calls `hit` with every second place of `squeezed` whose key `may` be one that is looked for.
pub(super) fn every_second(
    squeezed: &mut Vec<u8>,
    may: impl Fn(u64) -> bool,
    mut hit: impl FnMut(usize, u64),
) {
    let length = squeezed.len();
    // No key has a zero: with these, the last places can be read like all others.
    squeezed.resize(length + 2 * size_of::<u64>(), 0);
    let eights = |from: usize| {
        let (eights, _) = squeezed.get(from..).unwrap_or_default().as_chunks::<8>();
        eights.iter().map(|eight| key(*eight))
    };
    let both = eights(0).zip(eights(2)).zip(eights(4).zip(eights(6)));
    for (number, ((a, b), (c, d))) in both.enumerate() {
        let keys = [a, b, c, d];
        let hits = keys.map(&may);
        if hits.iter().fold(false, |any, hit| any | hit) {
            let places = [0, 2, 4, 6].map(|place| 8 * number + place);
            for (place, (key, is_hit)) in places.into_iter().zip(keys.into_iter().zip(hits)) {
                if is_hit {
                    hit(place, key);
                }
            }
        }
    }
    squeezed.truncate(length);
}

/// The key that begins eight characters, and the one that begins after the first of them.
pub(super) const fn keys(eight: [u8; 8]) -> [u64; 2] {
    [key(eight), u64::from_le_bytes(eight) >> 8]
}

#[inline]
pub(super) fn hash(key: u64) -> usize {
    let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS);
    usize::try_from(mixed).unwrap_or(0)
}

/// The first `count` of up to eight bytes, told from others of another length.
pub(super) fn beginning(bytes: &[u8], count: usize) -> (usize, u64) {
    let sum = bytes
        .iter()
        .take(count)
        .fold(0, |sum, byte| (sum << 8) | u64::from(*byte));
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

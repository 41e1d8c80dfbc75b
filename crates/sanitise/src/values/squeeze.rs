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

#[inline]
pub(super) fn hash(eight: u64) -> usize {
    let mixed = eight.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS);
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
        out.resize(begin + text.len(), 0);
        let mut count = 0;
        let free = out.get_mut(begin..).unwrap_or_default();
        for byte in text {
            let kept = table.get(usize::from(*byte)).copied().unwrap_or(0);
            if let Some(slot) = free.get_mut(count) {
                *slot = kept;
            }
            count += usize::from(kept != 0);
        }
        out.truncate(begin + count);
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

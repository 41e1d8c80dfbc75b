//! Finds the fixed texts of all rules in one pass.
//!
//! Of each text four bytes are picked, letters without their case, and hashed into a set of bits.
//! The pass hashes every four bytes and looks the bit up; each step is independent of the one
//! before, so a processor does several at once. What the set lets through is compared in full.

use std::collections::HashSet;

/// What the fixed text of a rule leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A kind of secret, by its place in the table.
    Kind(usize),
    /// A rule on instructions, by its place in the table.
    Flag(usize),
    /// Text that reads like a placeholder of ours.
    Forged,
}

/// A fixed text and what it leads to.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) text: Vec<u8>,
    /// Whether the case of letters does not matter.
    pub(crate) fold: bool,
    pub(crate) target: Target,
}

#[derive(Debug)]
pub(crate) struct Prefilter {
    entries: Vec<Entry>,
    /// Where in the text of each entry its four bytes are.
    offsets: Vec<usize>,
    bits: Box<[u64; WORDS]>,
    /// By hash, the entries with it.
    lists: Vec<Vec<u16>>,
    slots: Vec<u16>,
    /// Beginnings of the texts, without case.
    beginnings: HashSet<Vec<u8>>,
    longest: usize,
}

const BITS: u32 = 16;
const WORDS: usize = 1 << (BITS - 6);
const CASE: u32 = 0x2020_2020;

#[inline]
fn hash(bytes: u32) -> usize {
    let mixed = (bytes | CASE).wrapping_mul(0x9e37_79b1) >> (32 - BITS);
    mixed as usize
}

fn fold(bytes: &[u8]) -> Vec<u8> {
    bytes.to_ascii_lowercase()
}

impl Prefilter {
    /// Texts have at least three bytes.
    pub(crate) fn new(entries: Vec<Entry>) -> Self {
        let mut made = Self {
            offsets: entries.iter().map(|entry| rarest(&entry.text)).collect(),
            bits: Box::new([0; WORDS]),
            lists: vec![Vec::new()],
            slots: vec![0; 1 << BITS],
            beginnings: HashSet::new(),
            longest: entries
                .iter()
                .map(|entry| entry.text.len())
                .max()
                .unwrap_or(0),
            entries,
        };
        for number in 0..made.entries.len() {
            made.add(number);
        }
        made
    }

    fn add(&mut self, number: usize) {
        let (Some(entry), Some(&offset)) = (self.entries.get(number), self.offsets.get(number))
        else {
            return;
        };
        let whole = fold(&entry.text);
        let picked = entry.text.get(offset..).unwrap_or_default();
        let hashes: Vec<usize> = match *picked {
            [a, b, c, d, ..] => vec![hash(u32::from_le_bytes([a, b, c, d]))],
            // Three bytes, and any fourth.
            [a, b, c] => (0..=255_u8)
                .map(|d| hash(u32::from_le_bytes([a, b, c, d])))
                .collect(),
            _ => Vec::new(),
        };
        // Three bytes alone are not seen yet: the fourth picked one is missing.
        let seen = whole.len().max(4);
        for count in 1..seen {
            self.beginnings
                .insert(whole.get(..count).unwrap_or_default().to_vec());
        }
        let number = u16::try_from(number).unwrap_or(u16::MAX);
        for hash in hashes {
            self.list(hash, number);
        }
    }

    fn list(&mut self, hash: usize, number: u16) {
        if let Some(word) = self.bits.get_mut(hash >> 6) {
            *word |= 1 << (hash & 63);
        }
        let Some(slot) = self.slots.get_mut(hash) else {
            return;
        };
        if *slot == 0 {
            *slot = u16::try_from(self.lists.len()).unwrap_or(0);
            self.lists.push(Vec::new());
        }
        if let Some(list) = self.lists.get_mut(usize::from(*slot))
            && !list.contains(&number)
        {
            list.push(number);
        }
    }

    /// Calls `found` with every fixed text that begins in `text` at `from` or later, in the order
    /// of their picked bytes.
    pub(crate) fn scan(&self, text: &[u8], from: usize, mut found: impl FnMut(usize, Target)) {
        let rest = text.get(from..).unwrap_or_default();
        for (at, four) in rest.array_windows::<4>().enumerate() {
            let hash = hash(u32::from_le_bytes(*four));
            let word = self.bits.get(hash >> 6).copied().unwrap_or(0);
            if word & (1 << (hash & 63)) != 0 {
                self.compare(text, from, from + at, hash, &mut found);
            }
        }
    }

    #[inline(never)]
    fn compare(
        &self,
        text: &[u8],
        from: usize,
        at: usize,
        hash: usize,
        found: &mut impl FnMut(usize, Target),
    ) {
        crate::work::spend(1);
        let slot = self.slots.get(hash).copied().unwrap_or(0);
        let Some(list) = self.lists.get(usize::from(slot)) else {
            return;
        };
        for &number in list {
            let number = usize::from(number);
            let (Some(entry), Some(offset)) = (self.entries.get(number), self.offsets.get(number))
            else {
                continue;
            };
            let Some(begin) = at.checked_sub(*offset).filter(|begin| *begin >= from) else {
                continue;
            };
            let here = text
                .get(begin..begin + entry.text.len())
                .unwrap_or_default();
            let same = if entry.fold {
                here.eq_ignore_ascii_case(&entry.text)
            } else {
                here == entry.text
            };
            if same {
                found(begin, entry.target);
            }
        }
    }

    /// Where the fixed text begins, at `from` or later, of which `text` may end with a part;
    /// its length if there is none.
    pub(crate) fn unfinished(&self, text: &[u8], from: usize) -> usize {
        let first = from.max((text.len() + 1).saturating_sub(self.longest));
        let tail = fold(text.get(first..).unwrap_or_default());
        (0..tail.len())
            .find(|at| {
                self.beginnings
                    .contains(tail.get(*at..).unwrap_or_default())
            })
            .map_or(text.len(), |at| first + at)
    }
}

/// Where the four bytes of `text` stand that ordinary text has least.
fn rarest(text: &[u8]) -> usize {
    let common = |byte: &u8| match byte.to_ascii_lowercase() {
        b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' | b' ' => 5,
        b'h' | b'l' | b'd' | b'c' | b'u' | b'm' | b'p' | b'f' => 4,
        b'a'..=b'z' => 3,
        b'0'..=b'9' | b'_' | b'-' | b'.' => 2,
        _ => 1,
    };
    let windows = text.windows(4).enumerate();
    windows
        .min_by_key(|(_, four)| four.iter().map(common).sum::<u32>())
        .map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filter(texts: &[(&str, bool)]) -> Prefilter {
        let entry = |(number, (text, fold)): (usize, &(&str, bool))| Entry {
            text: text.as_bytes().to_vec(),
            fold: *fold,
            target: Target::Kind(number),
        };
        Prefilter::new(texts.iter().enumerate().map(entry).collect())
    }

    fn found(filter: &Prefilter, text: &str, from: usize) -> Vec<(usize, Target)> {
        let mut found = Vec::new();
        filter.scan(text.as_bytes(), from, |at, target| found.push((at, target)));
        found.sort_by_key(|(at, _)| *at);
        found
    }

    #[test]
    fn every_text_is_found_where_it_stands_also_within_another() {
        let filter = filter(&[
            ("sk-ant-", false),
            ("sk-", false),
            ("ignore", true),
            ("://", false),
        ]);
        let kind = Target::Kind;
        for (text, want) in [
            ("a sk-ant-x", vec![(2, kind(0)), (2, kind(1))]),
            ("SK-ANT-x IGNORE it", vec![(9, kind(2))]),
            ("http://x", vec![(4, kind(3))]),
            ("nothing at all", vec![]),
        ] {
            let mut out = found(&filter, text, 0);
            out.sort_by_key(|(at, target)| (*at, format!("{target:?}")));
            assert_eq!(out, want, "{text}");
        }
    }

    proptest! {
        #[test]
        fn scanning_on_from_an_unfinished_text_misses_nothing(
            text in "(sk-|ant|ghp_|gh|ig|nore|NORE| |x){0,30}", cut in 0usize..120,
        ) {
            let filter = filter(&[("sk-ant-", false), ("ghp_", false), ("ignore", true)]);
            let whole = found(&filter, &text, 0);
            let cut = cut.min(text.len());
            let part = &text[..cut];
            let stop = filter.unfinished(part.as_bytes(), 0);
            let mut parts = found(&filter, part, 0);
            parts.retain(|(at, _)| *at < stop);
            parts.extend(found(&filter, &text, stop));
            prop_assert_eq!(parts, whole);
        }
    }
}

//! Finds the fixed texts of all rules in one pass.
//!
//! Of each text four bytes are picked, letters without their case, and hashed into a set of bits.
//! The pass hashes every four bytes and looks the bit up; each step is independent of the one
//! before, so a processor does several at once. What the set lets through is compared in full.

use crate::class::Class;
use std::collections::{BTreeMap, HashSet};

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
    /// What may follow the text; needed where it has only three bytes.
    pub(crate) next: Option<Class>,
    pub(crate) target: Target,
}

#[derive(Debug)]
pub(crate) struct Prefilter {
    entries: Vec<Entry>,
    /// Where in the text of each entry its four bytes are.
    offsets: Vec<usize>,
    bits: Box<[u64; WORDS]>,
    /// The four bytes themselves, without case, where their hash says or soon after.
    keys: Vec<(u32, u16)>,
    /// The entries of each key.
    lists: Vec<Vec<u16>>,
    /// Beginnings of the texts, without case.
    beginnings: HashSet<Vec<u8>>,
    longest: usize,
}

const BITS: u32 = 17;
const WORDS: usize = 1 << (BITS - 6);
const CASE: u32 = 0x2020_2020;

#[inline]
fn hash(folded: u32) -> usize {
    (folded.wrapping_mul(0x9e37_79b1) >> (32 - BITS)) as usize
}

#[inline]
fn folded(four: [u8; 4]) -> u32 {
    u32::from_le_bytes(four) | CASE
}

impl Prefilter {
    /// Texts have at least three bytes.
    pub(crate) fn new(entries: Vec<Entry>) -> Self {
        let mut lists: BTreeMap<u32, Vec<u16>> = BTreeMap::new();
        let mut offsets = Vec::with_capacity(entries.len());
        let mut beginnings = HashSet::new();
        for (number, entry) in entries.iter().enumerate() {
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            let offset = rarest(&entry.text);
            offsets.push(offset);
            for key in keys(entry, offset) {
                let list = lists.entry(key).or_default();
                if !list.contains(&number) {
                    list.push(number);
                }
            }
            let whole = entry.text.to_ascii_lowercase();
            // Three bytes alone are not seen yet: the fourth picked one is missing.
            for count in 1..whole.len().max(4) {
                beginnings.insert(whole.get(..count).unwrap_or_default().to_vec());
            }
        }
        let longest = entries
            .iter()
            .map(|entry| entry.text.len())
            .max()
            .unwrap_or(0);
        let mut made = Self {
            entries,
            offsets,
            bits: Box::new([0; WORDS]),
            keys: vec![(0, EMPTY); (4 * lists.len()).next_power_of_two()],
            lists: Vec::with_capacity(lists.len()),
            beginnings,
            longest,
        };
        for (key, list) in lists {
            made.add(key, list);
        }
        made
    }

    fn add(&mut self, key: u32, list: Vec<u16>) {
        let hash = hash(key);
        if let Some(word) = self.bits.get_mut(hash >> 6) {
            *word |= 1 << (hash & 63);
        }
        let number = u16::try_from(self.lists.len()).unwrap_or(EMPTY);
        self.lists.push(list);
        let mask = self.keys.len() - 1;
        let free = (hash..=hash + mask).find(|slot| {
            self.keys
                .get(slot & mask)
                .is_none_or(|(_, list)| *list == EMPTY)
        });
        if let Some(slot) = free.and_then(|slot| self.keys.get_mut(slot & mask)) {
            *slot = (key, number);
        }
    }

    /// The entries whose picked bytes these are.
    fn list(&self, key: u32, hash: usize) -> &[u16] {
        let mask = self.keys.len() - 1;
        for slot in hash..=hash + mask {
            match self.keys.get(slot & mask) {
                Some((_, EMPTY)) | None => return &[],
                Some((other, list)) if *other == key => {
                    return self
                        .lists
                        .get(usize::from(*list))
                        .map_or(&[], Vec::as_slice);
                }
                Some(_) => {}
            }
        }
        &[]
    }

    /// Calls `found` with every fixed text that begins in `text` at `from` or later, in the order
    /// of their picked bytes.
    pub(crate) fn scan(&self, text: &[u8], from: usize, mut found: impl FnMut(usize, Target)) {
        let rest = text.get(from..).unwrap_or_default();
        for (at, four) in rest.array_windows::<4>().enumerate() {
            let key = folded(*four);
            let hash = hash(key);
            let word = self.bits.get(hash >> 6).copied().unwrap_or(0);
            if word & (1 << (hash & 63)) != 0 {
                let list = self.list(key, hash);
                if !list.is_empty() {
                    self.compare(text, from, from + at, list, &mut found);
                }
            }
        }
    }

    #[inline(never)]
    fn compare(
        &self,
        text: &[u8],
        from: usize,
        at: usize,
        list: &[u16],
        found: &mut impl FnMut(usize, Target),
    ) {
        crate::work::spend(list.len());
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
        let tail = text.get(first..).unwrap_or_default().to_ascii_lowercase();
        (0..tail.len())
            .find(|at| {
                self.beginnings
                    .contains(tail.get(*at..).unwrap_or_default())
            })
            .map_or(text.len(), |at| first + at)
    }
}

/// A slot without a key.
const EMPTY: u16 = u16::MAX;

/// The picked bytes of an entry: of three bytes, with every fourth that may follow.
fn keys(entry: &Entry, offset: usize) -> Vec<u32> {
    match *entry.text.get(offset..).unwrap_or_default() {
        [a, b, c, d, ..] => vec![folded([a, b, c, d])],
        [a, b, c] => (0..=255_u8)
            .filter(|d| entry.next.is_none_or(|class| class.has(*d)))
            .map(|d| folded([a, b, c, d]))
            .collect(),
        _ => Vec::new(),
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
            next: None,
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
            let part = text.get(..cut).unwrap();
            let stop = filter.unfinished(part.as_bytes(), 0);
            let mut parts = found(&filter, part, 0);
            parts.retain(|(at, _)| *at < stop);
            parts.extend(found(&filter, &text, stop));
            prop_assert_eq!(parts, whole);
        }
    }
}

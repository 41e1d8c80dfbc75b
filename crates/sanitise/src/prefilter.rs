//! Finds the fixed texts of all rules in one pass.
//!
//! Of each text two overlapping groups of four bytes are picked, letters without their case, and
//! hashed into a set of bits, two in one word for each. The pass hashes the four bytes at every
//! second place, so it meets one group or the other of a text wherever that stands, and looks the bits
//! up; each step is independent of the one before, so a processor does several at once. What the set
//! lets through is compared in full.

use crate::class::Class;
use std::collections::HashSet;
use std::sync::OnceLock;

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
    pub(crate) text: &'static [u8],
    /// Whether the case of letters does not matter.
    pub(crate) fold: bool,
    /// What may follow the text; needed where it has only three bytes.
    pub(crate) next: Option<Class>,
    pub(crate) target: Target,
}

/// `WORDS` are a power of two: as many as let few wrong groups through, and no more, for they have to
/// stay in fast memory.
#[derive(Debug)]
pub(crate) struct Prefilter<const WORDS: usize> {
    entries: Vec<Entry>,
    bits: Box<[u64; WORDS]>,
    /// The groups themselves, where their hash says or soon after.
    slots: Vec<Slot>,
    /// What each group is of, group by group.
    picks: Vec<Pick>,
    /// Beginnings of the texts, without case; only text that comes in pieces needs them.
    beginnings: OnceLock<HashSet<Vec<u8>>>,
    longest: usize,
}

/// One group of one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pick {
    entry: u16,
    /// Where the group begins in the entry's text.
    offset: i8,
    /// Whether it is the second of the two, one byte further on.
    second: bool,
}

/// A group without case, and which of the picks are its own; none in a free slot.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    key: u32,
    first: u16,
    count: u16,
}

/// Which groups count at a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Groups {
    Both,
    First,
}

const CASE: u32 = 0x2020_2020;
/// The same in one byte.
const CASE_BIT: u8 = 0x20;
/// Bytes of a group.
const GROUP: usize = 4;

#[inline]
const fn hash(folded: u32) -> u32 {
    folded.wrapping_mul(0x9e37_79b1)
}

/// The places of a hash's two bits in their word, from those of its bits that tell neither the word nor
/// each other's place; shifts take no more than the six lowest of each.
#[inline]
const fn bits_of(hash: u32) -> [u32; 2] {
    [hash >> 14, hash >> 8]
}

#[inline]
fn folded(four: [u8; GROUP]) -> u32 {
    u32::from_le_bytes(four) | CASE
}

impl<const WORDS: usize> Prefilter<WORDS> {
    /// The word that a hash has its bits in.
    #[inline]
    const fn word_of(hash: u32) -> usize {
        (hash >> (u32::BITS - WORDS.trailing_zeros())) as usize
    }

    /// Where the search for a hash begins among the slots.
    #[inline]
    const fn slot_of(hash: u32) -> usize {
        (hash >> 14) as usize
    }

    /// Texts have at least three bytes.
    pub(crate) fn new(entries: Vec<Entry>) -> Self {
        // One list, sorted: it is made at the start of every command.
        let mut picked: Vec<(u32, Pick)> = Vec::new();
        for (number, entry) in entries.iter().enumerate() {
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            let numbered = |(key, offset, second)| {
                let pick = Pick {
                    entry: number,
                    offset,
                    second,
                };
                (key, pick)
            };
            picked.extend(pick(entry).into_iter().map(numbered));
        }
        picked.sort_unstable_by_key(|(key, pick)| (*key, pick.entry, pick.second, pick.offset));
        picked.dedup();
        let groups = picked.chunk_by(|(one, _), (other, _)| one == other);
        let longest = entries
            .iter()
            .map(|entry| entry.text.len())
            .max()
            .unwrap_or(0);
        let mut made = Self {
            entries,
            bits: Box::new([0; WORDS]),
            slots: vec![Slot::default(); (2 * groups.clone().count()).next_power_of_two()],
            picks: Vec::with_capacity(picked.len()),
            beginnings: OnceLock::new(),
            longest,
        };
        for group in groups {
            made.add(group);
        }
        made
    }

    /// Adds what has one key.
    fn add(&mut self, group: &[(u32, Pick)]) {
        let Some((key, _)) = group.first().copied() else {
            return;
        };
        let hash = hash(key);
        if let Some(word) = self.bits.get_mut(Self::word_of(hash)) {
            for bit in bits_of(hash) {
                *word |= 1_u64.wrapping_shl(bit);
            }
        }
        // Some thousand groups in all, each of a few entries.
        let first = u16::try_from(self.picks.len()).unwrap_or(u16::MAX);
        let count = u16::try_from(group.len()).unwrap_or(u16::MAX);
        self.picks.extend(group.iter().map(|(_, pick)| *pick));
        let mask = self.slots.len() - 1;
        let is_free = |slot: &usize| {
            let slot = self.slots.get(slot & mask);
            slot.is_none_or(|slot| slot.count == 0)
        };
        let begin = Self::slot_of(hash);
        let free = (begin..=begin + mask).find(is_free);
        if let Some(slot) = free.and_then(|slot| self.slots.get_mut(slot & mask)) {
            *slot = Slot { key, first, count };
        }
    }

    /// What the group with this key is of.
    #[inline]
    fn list(&self, key: u32) -> &[Pick] {
        let mask = self.slots.len() - 1;
        let begin = Self::slot_of(hash(key));
        for place in begin..begin + self.slots.len() {
            match self.slots.get(place & mask) {
                Some(slot) if slot.count > 0 && slot.key != key => {}
                Some(slot) => {
                    let first = usize::from(slot.first);
                    let end = first + usize::from(slot.count);
                    return self.picks.get(first..end).unwrap_or_default();
                }
                None => return &[],
            }
        }
        &[]
    }

    /// 1 if the group with this key may be one that was picked, else 0.
    #[inline]
    fn may_hold(&self, key: u32) -> u64 {
        let hash = hash(key);
        let word = self.bits.get(Self::word_of(hash)).copied().unwrap_or(0);
        let [one, other] = bits_of(hash);
        word.wrapping_shr(one) & word.wrapping_shr(other) & 1
    }

    /// Calls `found` with every fixed text that begins in `text` at `from` or later, each once, in
    /// the order of the groups they are found by.
    pub(crate) fn scan(&self, text: &[u8], from: usize, mut found: impl FnMut(usize, Target)) {
        let rest = text.get(from..).unwrap_or_default();
        let (eights, _) = rest.as_chunks::<8>();
        let (behind, _) = rest.get(GROUP..).unwrap_or_default().as_chunks::<8>();
        let mut at = 0;
        for (eight, behind) in eights.iter().zip(behind) {
            let [one, two] = [eight, behind].map(|eight| u64::from_le_bytes(*eight));
            let keys = [one, one >> 16, two, two >> 16].map(|word| low(word) | CASE);
            let [a, b, c, d] = keys.map(|key| self.may_hold(key));
            let mut hits = a | b << 1 | c << 2 | d << 3;
            while hits != 0 {
                let number = hits.trailing_zeros() as usize;
                let key = keys.get(number).copied().unwrap_or_default();
                let at = at + 2 * number;
                self.compare(text, from, at, (key, Groups::Both), &mut found);
                hits &= hits - 1;
            }
            at += 8;
        }
        while let Some(four) = rest.get(at..).and_then(<[u8]>::first_chunk) {
            let key = folded(*four);
            if self.may_hold(key) != 0 {
                self.compare(text, from, at, (key, Groups::Both), &mut found);
            }
            at += 2;
        }
        // Of a text whose second group would lie beyond the end, the first was passed over.
        if let Some(four) = rest.last_chunk()
            && !rest.len().is_multiple_of(2)
        {
            let at = rest.len() - GROUP;
            self.compare(text, from, at, (folded(*four), Groups::First), &mut found);
        }
    }

    /// Compares what has the group with this key at `at` after `from`.
    fn compare(
        &self,
        text: &[u8],
        from: usize,
        at: usize,
        (key, groups): (u32, Groups),
        found: &mut impl FnMut(usize, Target),
    ) {
        let list = self.list(key);
        crate::work::spend(list.len());
        for pick in list {
            if pick.second && groups == Groups::First {
                continue;
            }
            let begin = at.checked_add_signed(-isize::from(pick.offset));
            let entry = self.entries.get(usize::from(pick.entry));
            let (Some(begin), Some(entry)) = (begin, entry) else {
                continue;
            };
            let rest = text.get(from + begin..).unwrap_or_default();
            if rest.len() < GROUP {
                continue;
            }
            let here = rest.get(..entry.text.len()).unwrap_or_default();
            let same = if entry.fold {
                here.eq_ignore_ascii_case(entry.text)
            } else {
                here == entry.text
            };
            if same {
                found(from + begin, entry.target);
            }
        }
    }

    /// Where the fixed text begins, at `from` or later, of which `text` may end with a part;
    /// its length if there is none.
    pub(crate) fn unfinished(&self, text: &[u8], from: usize) -> usize {
        let first = from.max((text.len() + 1).saturating_sub(self.longest));
        let tail = text.get(first..).unwrap_or_default().to_ascii_lowercase();
        let beginnings = self.beginnings.get_or_init(|| beginnings(&self.entries));
        (0..tail.len())
            .find(|at| beginnings.contains(tail.get(*at..).unwrap_or_default()))
            .map_or(text.len(), |at| first + at)
    }
}

/// The same as [`Prefilter::scan`] for one short text, without making a filter first. Texts that
/// begin at one place are found in the order of `entries`.
pub(crate) fn scan_brief(
    entries: impl Iterator<Item = Entry>,
    text: &[u8],
    mut found: impl FnMut(usize, Target),
) {
    // Which two bytes stand side by side, without case: few of the entries' are among them.
    let mut pairs = [0_u64; 1 << 10];
    let place = |one: u8, two: u8| {
        let pair = usize::from(u16::from_le_bytes([one | CASE_BIT, two | CASE_BIT]));
        (pair >> 6, 1 << (pair & 63))
    };
    for (one, two) in text.iter().zip(text.iter().skip(1)) {
        let (word, bit) = place(*one, *two);
        if let Some(word) = pairs.get_mut(word) {
            *word |= bit;
        }
    }
    let stands = |one: u8, two: u8| {
        let (word, bit) = place(one, two);
        pairs.get(word).is_some_and(|word| word & bit != 0)
    };
    for entry in entries {
        let (&[first, second, ..], &[.., before, last]) = (entry.text, entry.text) else {
            continue;
        };
        if !stands(first, second) || !stands(before, last) {
            continue;
        }
        // Three bytes count once a fourth follows.
        let length = entry.text.len();
        let rest = text.len().saturating_sub(length.max(GROUP) - length);
        for (at, here) in text
            .get(..rest)
            .unwrap_or_default()
            .windows(length)
            .enumerate()
        {
            let same = if entry.fold {
                here.eq_ignore_ascii_case(entry.text)
            } else {
                here == entry.text
            };
            if same {
                found(at, entry.target);
            }
        }
    }
}

/// What each text can begin with, without case.
fn beginnings(entries: &[Entry]) -> HashSet<Vec<u8>> {
    let of = |entry: &Entry| {
        let whole = entry.text.to_ascii_lowercase();
        // Three bytes alone are not seen yet: a fourth is missing.
        let counts = 1..whole.len().max(GROUP);
        counts.map(move |count| whole.get(..count).unwrap_or_default().to_vec())
    };
    entries.iter().flat_map(of).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the lower half is what is wanted"
)]
#[inline]
const fn low(word: u64) -> u32 {
    word as u32
}

/// Every byte as it is in a key, once.
fn caseless() -> impl Iterator<Item = u8> {
    (0..=u8::MAX).filter(|byte| byte & CASE_BIT != 0)
}

/// The two groups of an entry, one byte apart: the key of each, where it begins, and whether it is
/// the second. What a group reaches beyond a text of three or four bytes may be anything that can
/// stand there.
fn pick(entry: &Entry) -> Vec<(u32, i8, bool)> {
    let follows = |byte: u8| entry.next.is_none_or(|class| class.has(byte));
    let after = || caseless().filter(|byte| follows(*byte) || follows(*byte & !CASE_BIT));
    match *entry.text {
        [a, b, c] => {
            let first = caseless().map(|x| (folded([x, a, b, c]), -1, false));
            let second = after().map(|x| (folded([a, b, c, x]), 0, true));
            first.chain(second).collect()
        }
        [a, b, c, d] => {
            let first = (folded([a, b, c, d]), 0, false);
            let second = after().map(|x| (folded([b, c, d, x]), 1, true));
            std::iter::once(first).chain(second).collect()
        }
        ref long => {
            let begin = rarest(long);
            let five = long.get(usize::from(begin.unsigned_abs())..);
            let groups = five.and_then(<[u8]>::first_chunk).map(|&[a, b, c, d, e]| {
                let first = (folded([a, b, c, d]), begin, false);
                vec![first, (folded([b, c, d, e]), begin + 1, true)]
            });
            groups.unwrap_or_default()
        }
    }
}

/// What text of all sorts is full of.
const COMMON: &[&[u8]] = &[b"api", b"com", b"http", b"key", b"sec", b"tok"];

/// Where the five bytes of `text` stand that ordinary text has least.
fn rarest(text: &[u8]) -> i8 {
    let common = |byte: &u8| match byte {
        b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' | b' ' => 5,
        b'h' | b'l' | b'd' | b'c' | b'u' | b'm' | b'p' | b'f' => 4,
        b'a'..=b'z' => 3,
        b'0'..=b'9' | b'_' | b'-' | b'.' => 2,
        _ => 1,
    };
    let score = |five: &[u8]| {
        let holds = |word: &&&[u8]| five.windows(word.len()).any(|part| part == **word);
        five.iter().map(common).sum::<usize>() + 10 * COMMON.iter().filter(holds).count()
    };
    let lower = text.to_ascii_lowercase();
    // No text is so long that it does not fit.
    let places = (0..i8::MAX - 1).zip(lower.windows(GROUP + 1));
    places
        .min_by_key(|(_, five)| score(five))
        .map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entries(texts: &[(&'static str, bool)]) -> Vec<Entry> {
        let entry = |(number, (text, fold)): (usize, &(&'static str, bool))| Entry {
            text: text.as_bytes(),
            fold: *fold,
            next: None,
            target: Target::Kind(number),
        };
        texts.iter().enumerate().map(entry).collect()
    }

    fn filter(texts: &[(&'static str, bool)]) -> Prefilter<64> {
        Prefilter::new(entries(texts))
    }

    fn found(filter: &Prefilter<64>, text: &str, from: usize) -> Vec<(usize, Target)> {
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

    /// Every place of every text, looked for one by one.
    fn by_hand(texts: &[(&str, bool)], text: &str, from: usize) -> Vec<(usize, Target)> {
        let stands = |at: usize, (wanted, fold): &(&str, bool)| {
            let here = text.as_bytes().get(at..at + wanted.len());
            here.is_some_and(|here| {
                here == wanted.as_bytes() || *fold && here.eq_ignore_ascii_case(wanted.as_bytes())
            })
        };
        let mut places = Vec::new();
        for at in from..text.len() {
            for (number, wanted) in texts.iter().enumerate() {
                // Three bytes count once a fourth follows.
                if stands(at, wanted) && at + GROUP <= text.len() {
                    places.push((at, Target::Kind(number)));
                }
            }
        }
        places
    }

    proptest! {
        #[test]
        fn every_text_is_found_once_at_either_parity_and_up_to_the_end(
            text in "(sk-|sk|ant|-|ghp_|gh|ig|nore|NORE|xxxx|x|:/|/| ){0,30}", from in 0usize..40,
        ) {
            let texts = [
                ("sk-ant-", false),
                ("sk-", false),
                ("ghp_", false),
                ("ignore", true),
                ("xxxx", true),
                ("://", false),
            ];
            let from = from.min(text.len());
            let mut out = found(&filter(&texts), &text, from);
            out.sort_by_key(|(at, target)| (*at, format!("{target:?}")));
            prop_assert_eq!(out, by_hand(&texts, &text, from));
            let mut brief = Vec::new();
            scan_brief(entries(&texts).into_iter(), text.as_bytes(), |at, target| {
                brief.push((at, target));
            });
            brief.sort_by_key(|(at, target)| (*at, format!("{target:?}")));
            prop_assert_eq!(brief, by_hand(&texts, &text, 0));
        }

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

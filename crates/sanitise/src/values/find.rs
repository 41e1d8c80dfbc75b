//! Finding values in text that comes in pieces.
//!
//! The squeezed text is hashed seven characters at a time, at every second place, or every fourth where
//! no value is too short for that, and looked up in a set of bits, as the fixed texts of rules are. Where
//! an escape stands, its neighbourhood is squeezed once more with the escape undone. What the set lets
//! through is followed character by character in the text itself.

use super::squeeze::{KEY, MOST_KEYS, beginning, look};
use super::{BEFORE, GAP, Pattern, Set, Values, escape};
use crate::kinds::LONGEST;
use crate::work;
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes squeezed at a time: what is squeezed stays in the fastest memory.
const BLOCK: usize = 16 * 1024;

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) value: usize,
    pub(crate) range: Range<usize>,
}

/// A place where a value may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate {
    pattern: usize,
    begin: usize,
    /// It is not worth looking again before so much text is known.
    retry: usize,
}

/// Looks for values in one text.
#[derive(Debug, Default)]
pub(crate) struct Finder {
    ascii: Pass,
    wide: Pass,
    narrow: Pass,
}

/// One way of comparing.
#[derive(Debug, Default)]
struct Pass {
    /// Text before this was squeezed.
    squeezed_to: usize,
    /// The last compared characters and where they stand, for what spans two pieces.
    tail: VecDeque<(u8, usize)>,
    /// Escapes before this were looked at.
    escapes_to: usize,
    undone: Undone,
    waiting: Vec<Candidate>,
    /// Patterns found last, and where they ended.
    taken: Vec<(usize, usize)>,
    scratch: Vec<u8>,
}

impl Finder {
    /// Looks at `text` on from where the last look ended; tells how far nothing can begin any more.
    pub(crate) fn advance(
        &mut self,
        values: &Values,
        text: &[u8],
        last: bool,
        hits: &mut Vec<Hit>,
    ) -> usize {
        let mut hold = text.len();
        for (pass, set) in [
            (&mut self.ascii, &values.ascii),
            (&mut self.wide, &values.wide),
            (&mut self.narrow, &values.narrow),
        ] {
            if !set.patterns.is_empty() {
                hold = hold.min(pass.advance(set, text, last, hits));
            }
        }
        hold
    }

    /// The first `count` bytes of the text are gone.
    pub(crate) fn forget(&mut self, count: usize) {
        for pass in [&mut self.ascii, &mut self.wide, &mut self.narrow] {
            pass.squeezed_to = pass.squeezed_to.saturating_sub(count);
            pass.escapes_to = pass.escapes_to.saturating_sub(count);
            pass.undone.forget(count);
            pass.tail.retain(|(_, at)| *at >= count);
            pass.tail.iter_mut().for_each(|(_, at)| *at -= count);
            pass.taken
                .iter_mut()
                .for_each(|(_, end)| *end = end.saturating_sub(count));
            for candidate in &mut pass.waiting {
                candidate.begin = candidate.begin.saturating_sub(count);
                candidate.retry = candidate.retry.saturating_sub(count);
            }
        }
    }
}

impl Pass {
    fn advance(&mut self, set: &Set, text: &[u8], last: bool, hits: &mut Vec<Hit>) -> usize {
        let mut found = std::mem::take(&mut self.waiting);
        while self.squeezed_to < text.len() {
            self.block(set, text, &mut found);
        }
        let escapes = self.escapes(set, text, last, &mut found);
        found.sort_by_key(|candidate| (candidate.begin, candidate.pattern));
        found.dedup_by_key(|candidate| (candidate.begin, candidate.pattern));
        for mut candidate in found {
            let Some(pattern) = set.patterns.get(candidate.pattern) else {
                continue;
            };
            // One at a time for each pattern: what the first takes the next need not follow.
            let waits = |other: &Candidate| other.pattern == candidate.pattern;
            let blocked = self.waiting.iter().any(waits);
            if blocked || (candidate.retry > text.len() && !last) {
                self.waiting.push(candidate);
                continue;
            }
            let taken = |(other, end): &(usize, usize)| {
                *other == candidate.pattern && candidate.begin < *end
            };
            if self.taken.iter().any(taken) {
                continue;
            }
            match Self::follow(set, pattern, text, candidate.begin, last) {
                Followed::No => {}
                Followed::Found(end) => {
                    self.taken.retain(|(_, end)| *end > candidate.begin);
                    self.taken.push((candidate.pattern, end));
                    hits.push(Hit {
                        value: pattern.value,
                        range: candidate.begin..end,
                    });
                }
                Followed::More => {
                    candidate.retry = text.len() + 1 + (text.len() - candidate.begin) / 4;
                    self.waiting.push(candidate);
                }
            }
        }
        let waiting = self.waiting.first().map_or(text.len(), |first| first.begin);
        let open = if last {
            text.len()
        } else {
            self.open(set, text)
        };
        escapes.min(waiting).min(open)
    }

    /// Squeezes the next block and looks at its keys.
    fn block(&mut self, set: &Set, text: &[u8], found: &mut Vec<Candidate>) {
        let begin = self.squeezed_to;
        let end = text.len().min(begin + BLOCK);
        let block = text.get(begin..end).unwrap_or_default();
        let mut squeezed = std::mem::take(&mut self.scratch);
        squeezed.clear();
        squeezed.extend(self.tail.iter().map(|(byte, _)| *byte));
        set.view.append(block, &mut squeezed);
        let mut places: Option<Vec<usize>> = None;
        let may = |key: u64| set.may_begin(key);
        let hit = |at: usize, key: u64| {
            for &(pattern, before) in set.by_start.get(&key).into_iter().flatten() {
                // What begins before the kept tail was found with the block before.
                let Some(at) = at.checked_sub(before) else {
                    continue;
                };
                let places = places.get_or_insert_with(|| self.places(set, block, begin));
                let begin = places.get(at).copied().unwrap_or(begin);
                found.push(Candidate {
                    pattern,
                    begin,
                    retry: 0,
                });
            }
        };
        if set.fewest_keys == MOST_KEYS {
            look::<MOST_KEYS>(&mut squeezed, may, hit);
        } else {
            look::<2>(&mut squeezed, may, hit);
        }
        self.scratch = squeezed;
        self.keep_tail(set, text, begin, end);
        self.squeezed_to = end;
    }

    /// Where each squeezed byte stands in the text: only needed where something was found.
    fn places(&self, set: &Set, block: &[u8], begin: usize) -> Vec<usize> {
        let kept = block
            .iter()
            .enumerate()
            .filter(|(_, byte)| set.view.of(**byte) != 0);
        let before = self.tail.iter().map(|(_, at)| *at);
        before.chain(kept.map(|(at, _)| begin + at)).collect()
    }

    fn keep_tail(&mut self, set: &Set, text: &[u8], begin: usize, end: usize) {
        let block = text.get(begin..end).unwrap_or_default();
        let mut last: Vec<(u8, usize)> = Vec::with_capacity(BEFORE);
        for (at, byte) in block.iter().enumerate().rev() {
            let byte = set.view.of(*byte);
            if byte != 0 {
                last.push((byte, begin + at));
            }
            if last.len() == BEFORE {
                self.tail.clear();
                break;
            }
        }
        self.tail.extend(last.into_iter().rev());
        while self.tail.len() > BEFORE {
            self.tail.pop_front();
        }
    }

    /// Looks at the neighbourhoods of escapes, with the escapes undone; tells where what may still
    /// begin a value there begins.
    fn escapes(&mut self, set: &Set, text: &[u8], last: bool, found: &mut Vec<Candidate>) -> usize {
        while self.next_escape(set, text, found) {
            let rest = text.get(self.escapes_to..).unwrap_or_default();
            let Some(&byte) = rest.first() else {
                break;
            };
            let escape = escape::begins(byte);
            if escape && rest.len() < escape::LONGEST && !last {
                break;
            }
            work::spend(1);
            let unit = if escape { escape::decode(rest) } else { None };
            self.undone.since = if unit.is_some() { 0 } else { self.undone.since };
            let unit = unit.unwrap_or_else(|| escape::plain(byte));
            for byte in unit.bytes.iter().take(unit.count) {
                let kept = set.view.of(*byte);
                if kept != 0 {
                    self.undone.take(set, kept, self.escapes_to, found);
                }
            }
            self.undone.gap += unit.length;
            self.escapes_to += unit.length;
        }
        if last {
            text.len()
        } else {
            self.undone.open(set, text.len())
        }
    }

    /// Whether there is an escape near by: if not, goes on to the next.
    fn next_escape(&mut self, set: &Set, text: &[u8], found: &mut Vec<Candidate>) -> bool {
        if self.undone.since <= BEFORE && self.undone.gap <= GAP && self.undone.active {
            return true;
        }
        self.undone = Undone::default();
        loop {
            let rest = text.get(self.escapes_to..).unwrap_or_default();
            let Some(next) = memchr::memchr3(b'%', b'\\', b'&', rest) else {
                self.escapes_to = text.len();
                return false;
            };
            self.escapes_to += next;
            let here = text.get(self.escapes_to..).unwrap_or_default();
            if here.len() < escape::LONGEST || escape::decode(here).is_some() {
                break;
            }
            self.escapes_to += 1;
        }
        self.undone.active = true;
        for at in before(set, text, self.escapes_to)..self.escapes_to {
            let kept = text.get(at).map_or(0, |byte| set.view.of(*byte));
            if kept != 0 {
                // The pass over some of the places may have met only a key that the escape is part of.
                self.undone.keep(kept, at);
                self.undone.look(set, found);
            }
        }
        true
    }

    fn follow(set: &Set, pattern: &Pattern, text: &[u8], begin: usize, last: bool) -> Followed {
        let mut walk = Walk {
            set,
            pattern,
            text,
            last,
            prefer_escapes: true,
        };
        let mut followed = walk.from(begin);
        if let Followed::No = followed {
            walk.prefer_escapes = false;
            followed = walk.from(begin);
        }
        followed
    }

    /// Where the characters begin that may be the beginning of a value; the end if there are none.
    fn open(&self, set: &Set, text: &[u8]) -> usize {
        let near = self
            .tail
            .back()
            .is_some_and(|(_, at)| text.len() - at <= GAP + 1);
        if !near {
            return text.len();
        }
        let bytes: Vec<u8> = self.tail.iter().map(|(byte, _)| *byte).collect();
        (0..bytes.len())
            .find(|from| {
                let tail = bytes.get(*from..).unwrap_or_default();
                set.beginnings.contains(&beginning(tail, tail.len()))
            })
            .and_then(|from| self.tail.get(from))
            .map_or(text.len(), |(_, at)| *at)
    }
}

/// The last compared characters with escapes undone.
#[derive(Debug, Default)]
struct Undone {
    /// Whether an escape is near.
    active: bool,
    /// The last eight, as they would be read from memory.
    key: u64,
    places: [usize; 8],
    count: usize,
    /// Compared characters since the last escape.
    since: usize,
    /// Bytes since the last compared character.
    gap: usize,
}

impl Undone {
    fn keep(&mut self, byte: u8, at: usize) {
        self.key = (self.key >> 8) | (u64::from(byte) << 56);
        self.places.rotate_left(1);
        if let Some(place) = self.places.last_mut() {
            *place = at;
        }
        self.count = (self.count + 1).min(8);
        self.gap = 0;
    }

    fn take(&mut self, set: &Set, byte: u8, at: usize, found: &mut Vec<Candidate>) {
        self.keep(byte, at);
        self.since += 1;
        self.look(set, found);
    }

    /// Looks at the key of the last characters: here every place is looked at.
    fn look(&self, set: &Set, found: &mut Vec<Candidate>) {
        // The last seven, of eight.
        let key = self.key >> 8;
        let [_, begin, ..] = self.places;
        if self.count < KEY || set.may_begin(key) == 0 {
            return;
        }
        let patterns = set.by_start.get(&key).into_iter().flatten();
        for &(pattern, _) in patterns.filter(|(_, before)| *before == 0) {
            found.push(Candidate {
                pattern,
                begin,
                retry: 0,
            });
        }
    }

    /// Where the characters begin that may be the beginning of a value.
    fn open(&self, set: &Set, end: usize) -> usize {
        if !self.active {
            return end;
        }
        let bytes = self.key.to_le_bytes();
        let kept = self.count.min(KEY);
        (8 - kept..8)
            .find(|from| {
                let tail = bytes.get(*from..).unwrap_or_default();
                set.beginnings.contains(&beginning(tail, tail.len()))
            })
            .and_then(|from| self.places.get(from).copied())
            .unwrap_or(end)
    }

    fn forget(&mut self, count: usize) {
        self.places
            .iter_mut()
            .for_each(|at| *at = at.saturating_sub(count));
    }
}

/// Where the first of the compared characters before `at` stands that may begin a value.
fn before(set: &Set, text: &[u8], at: usize) -> usize {
    let (mut count, mut first) = (0, at);
    let near = at.saturating_sub(BEFORE * (GAP + 1));
    let left = text.get(near..at).unwrap_or_default();
    for (here, byte) in left.iter().enumerate().rev() {
        if count == BEFORE || first - (near + here) > GAP + 1 {
            break;
        }
        if set.view.of(*byte) != 0 {
            count += 1;
            first = near + here;
        }
    }
    first
}

enum Followed {
    No,
    More,
    Found(usize),
}

/// Follows one pattern through the text.
struct Walk<'a> {
    set: &'a Set,
    pattern: &'a Pattern,
    text: &'a [u8],
    last: bool,
    /// What `\n` is where the pattern goes on with an `n`.
    prefer_escapes: bool,
}

impl Walk<'_> {
    fn from(&self, begin: usize) -> Followed {
        let (mut at, mut gap, mut matched) = (begin, 0, 0);
        while let Some(&wanted) = self.pattern.squeezed.get(matched) {
            let rest = self.text.get(at..).unwrap_or_default();
            let Some(&byte) = rest.first() else {
                return if self.last {
                    Followed::No
                } else {
                    Followed::More
                };
            };
            if !self.last && escape::begins(byte) && rest.len() < escape::LONGEST {
                return Followed::More;
            }
            work::spend(1);
            let taken = self.escaped(rest, matched).or_else(|| {
                let kept = self.set.view.of(byte);
                (kept == 0 || kept == wanted).then(|| (1, usize::from(kept != 0)))
            });
            let Some((length, count)) = taken else {
                return Followed::No;
            };
            gap = if count > 0 { 0 } else { gap + length };
            // An escape is no gap of the text's own making.
            let allowed = if length > 1 {
                self.pattern.gap.max(GAP)
            } else {
                self.pattern.gap
            };
            if gap > allowed || at - begin > LONGEST {
                return Followed::No;
            }
            at += length;
            matched += count;
        }
        self.tail(at)
    }

    /// How long the escape here is and how many wanted characters it stands for, if it fits.
    fn escaped(&self, rest: &[u8], matched: usize) -> Option<(usize, usize)> {
        let unit = escape::decode(rest)?;
        let stands = unit.bytes.get(..unit.count)?;
        let kept: Vec<u8> = stands
            .iter()
            .map(|byte| self.set.view.of(*byte))
            .filter(|byte| *byte != 0)
            .collect();
        let wanted = self.pattern.squeezed.get(matched..matched + kept.len())?;
        let fits = wanted == kept;
        // Whose own text goes on with what is wanted may be no escape.
        let own = rest.get(..unit.length).unwrap_or_default();
        let mut literal = own.iter().map(|byte| self.set.view.of(*byte));
        let literal = literal.find(|byte| *byte != 0);
        let next = self.pattern.squeezed.get(matched).copied();
        let ambiguous = literal.is_some() && literal == next;
        (fits && (self.prefer_escapes || !ambiguous)).then_some((unit.length, kept.len()))
    }

    /// What the value ends with after its last compared character goes with it.
    fn tail(&self, at: usize) -> Followed {
        let rest = self.text.get(at..).unwrap_or_default();
        let tail = &*self.pattern.tail;
        if rest.starts_with(tail) {
            Followed::Found(at + tail.len())
        } else if !self.last && rest.len() < tail.len() && tail.starts_with(rest) {
            Followed::More
        } else {
            Followed::Found(at)
        }
    }
}

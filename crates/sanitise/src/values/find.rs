//! Finding values in text that comes in pieces.
//!
//! The squeezed text is hashed eight bytes at a time and looked up in a set of bits, as the fixed
//! texts of rules are. Where an escape stands, its neighbourhood is squeezed once more with the
//! escape undone. What the set lets through is followed character by character in the text itself.

use super::squeeze::{beginning, hash};
use super::{GAP, Pattern, Set, Values, escape};
use crate::kinds::LONGEST;
use crate::work;
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes squeezed at a time: what is squeezed stays in the fastest memory.
const BLOCK: usize = 16 * 1024;
/// Compared characters before an escape that may begin a value.
const BEFORE: usize = 7;

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
        for pass in [&mut self.wide, &mut self.narrow] {
            pass.squeezed_to = pass.squeezed_to.saturating_sub(count);
            pass.escapes_to = pass.escapes_to.saturating_sub(count);
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

    /// Squeezes the next block and looks at every eight bytes of it.
    fn block(&mut self, set: &Set, text: &[u8], found: &mut Vec<Candidate>) {
        let begin = self.squeezed_to;
        let end = text.len().min(begin + BLOCK);
        let block = text.get(begin..end).unwrap_or_default();
        let mut squeezed = std::mem::take(&mut self.scratch);
        squeezed.clear();
        squeezed.extend(self.tail.iter().map(|(byte, _)| *byte));
        set.view.append(block, &mut squeezed);
        let mut places: Option<Vec<usize>> = None;
        for (at, eight) in squeezed.array_windows::<8>().enumerate() {
            let key = u64::from_le_bytes(*eight);
            let hash = hash(key);
            let word = set.bits.get(hash >> 6).copied().unwrap_or(0);
            if word & (1 << (hash & 63)) == 0 {
                continue;
            }
            for &pattern in set.by_start.get(&key).into_iter().flatten() {
                let places = places.get_or_insert_with(|| self.places(set, block, begin));
                let begin = places.get(at).copied().unwrap_or(begin);
                found.push(Candidate {
                    pattern,
                    begin,
                    retry: 0,
                });
            }
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

    /// Looks at the neighbourhoods of escapes; tells where the first stands that is not complete.
    fn escapes(&mut self, set: &Set, text: &[u8], last: bool, found: &mut Vec<Candidate>) -> usize {
        loop {
            let rest = text.get(self.escapes_to..).unwrap_or_default();
            let Some(at) = memchr::memchr3(b'%', b'\\', b'&', rest) else {
                self.escapes_to = text.len();
                return text.len();
            };
            let at = self.escapes_to + at;
            let here = text.get(at..).unwrap_or_default();
            if here.len() < escape::LONGEST && !last {
                return before(set, text, at);
            }
            if escape::decode(here).is_some() && !Self::around(set, text, at, last, found) {
                return before(set, text, at);
            }
            self.escapes_to = at + 1;
        }
    }

    /// Looks for values whose first eight characters include the escape at `at`; false if the text
    /// ends before they can be told.
    fn around(set: &Set, text: &[u8], at: usize, last: bool, found: &mut Vec<Candidate>) -> bool {
        let begin = before(set, text, at);
        let mut near: Vec<(u8, usize)> = Vec::with_capacity(2 * BEFORE + 4);
        let (mut here, mut after, mut gap) = (begin, 0, 0);
        while after <= BEFORE && gap <= GAP {
            let rest = text.get(here..).unwrap_or_default();
            let Some(&byte) = rest.first() else {
                if last {
                    break;
                }
                return false;
            };
            if !last && escape::begins(byte) && rest.len() < escape::LONGEST {
                return false;
            }
            let unit = (here >= at).then(|| escape::decode(rest)).flatten();
            let unit = unit.unwrap_or(escape::Escaped {
                bytes: [byte, 0, 0, 0],
                count: 1,
                length: 1,
            });
            gap += unit.length;
            for byte in unit.bytes.iter().take(unit.count) {
                let kept = set.view.of(*byte);
                if kept != 0 {
                    near.push((kept, here));
                    after += usize::from(here > at);
                    gap = 0;
                }
            }
            here += unit.length;
            work::spend(1);
        }
        for eight in near.windows(8) {
            let key = eight
                .iter()
                .rev()
                .fold(0, |key, (byte, _)| (key << 8) | u64::from(*byte));
            let begin = eight.first().map_or(at, |(_, at)| *at);
            for &pattern in set.by_start.get(&key).into_iter().flatten() {
                found.push(Candidate {
                    pattern,
                    begin,
                    retry: 0,
                });
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

/// Where the seventh compared character before `at` stands.
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
        // A short escape whose letter is wanted may be no escape.
        let letter = rest.get(1).map(|byte| self.set.view.of(*byte));
        let ambiguous = kept.is_empty()
            && letter.is_some()
            && letter == self.pattern.squeezed.get(matched).copied();
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

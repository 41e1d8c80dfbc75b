//! Phrases: words in a row, with alternatives, optional words and gaps.
//!
//! `ignore|forget *3 previous|prior ?system instructions` is one of the first words, up to three of
//! any, one of the next, perhaps `system`, and the last. `~` before the first word asks that it
//! begins a sentence. What stands between words - blanks, punctuation, markup - does not matter,
//! but a blank line ends a phrase.

use crate::kinds::Step;
use std::ops::Range;

/// One place of a phrase.
#[derive(Debug)]
enum Slot {
    One(Vec<&'static str>),
    Maybe(Vec<&'static str>),
    Gap(usize),
}

#[derive(Debug)]
pub(super) struct Phrase {
    slots: Vec<Slot>,
    /// So many of the first are words that must be there.
    fixed: usize,
    /// Whether it begins a sentence.
    sentence: bool,
}

/// The most bytes between two words, and in one.
const BETWEEN: usize = 12;
const WORD: usize = 32;

/// The words a phrase begins with: its fixed texts.
pub(super) fn first_words(phrase: &'static str) -> Vec<&'static str> {
    let first = phrase.trim_start_matches('~').split(' ').next();
    first.unwrap_or_default().split('|').collect()
}

impl Phrase {
    pub(super) fn new(phrase: &'static str) -> Self {
        let sentence = phrase.starts_with('~');
        let words = |text: &'static str| text.split('|').collect();
        let slot = |text: &'static str| {
            if let Some(count) = text.strip_prefix('*') {
                Slot::Gap(count.parse().unwrap_or(0))
            } else if let Some(text) = text.strip_prefix('?') {
                Slot::Maybe(words(text))
            } else {
                Slot::One(words(text))
            }
        };
        let slots: Vec<Slot> = phrase
            .trim_start_matches('~')
            .split(' ')
            .map(slot)
            .collect();
        let fixed = slots
            .iter()
            .take_while(|slot| matches!(slot, Slot::One(_)))
            .count();
        Self {
            slots,
            fixed,
            sentence,
        }
    }

    /// The most words it takes up.
    fn words(&self) -> usize {
        let words = |slot: &Slot| match slot {
            Slot::One(_) | Slot::Maybe(_) => 1,
            Slot::Gap(count) => *count,
        };
        self.slots.iter().map(words).sum()
    }

    /// Whether the phrase stands at `at`, where one of its first words does.
    pub(super) fn look(&self, text: &[u8], at: usize, last: bool) -> Step {
        let left = text.get(..at).unwrap_or_default();
        let follows = |byte: &u8| is_word(*byte) || matches!(byte, b'.' | b'/' | b'-');
        if left.last().is_some_and(follows) && blank_before(left) == 0 {
            return Step::No;
        }
        if self.sentence && !begins_sentence(left) {
            return Step::No;
        }
        let mut words: Vec<Range<usize>> = Vec::new();
        let mut here = at;
        while words.len() < self.words() {
            match next_word(text, here, last) {
                Next::Word(range) => {
                    here = range.end;
                    // Most places are given up here, at the second word.
                    if let Some(Slot::One(wanted)) = self.slots.get(words.len())
                        && words.len() < self.fixed
                        && !is_one(text, &range, wanted)
                    {
                        return Step::No;
                    }
                    words.push(range);
                }
                Next::More => return Step::More,
                Next::End => break,
            }
        }
        let end = fit(text, &self.slots, &words);
        end.map_or(Step::No, |end| Step::Found(at..end))
    }
}

/// Where the phrase ends, if `words` fit `slots`.
fn fit(text: &[u8], slots: &[Slot], words: &[Range<usize>]) -> Option<usize> {
    let Some((slot, later)) = slots.split_first() else {
        return Some(0);
    };
    let ends = |used: usize| {
        let rest = words.get(used..)?;
        let end = fit(text, later, rest)?;
        let here = used.checked_sub(1).and_then(|last| words.get(last));
        Some(end.max(here.map_or(0, |word| word.end)))
    };
    let first = words.first();
    match slot {
        Slot::One(wanted) => first
            .filter(|word| is_one(text, word, wanted))
            .and_then(|_| ends(1)),
        Slot::Maybe(wanted) => {
            let with = first
                .filter(|word| is_one(text, word, wanted))
                .and_then(|_| ends(1));
            with.or_else(|| ends(0))
        }
        Slot::Gap(most) => (0..=*most).find_map(ends),
    }
}

fn is_one(text: &[u8], word: &Range<usize>, wanted: &[&str]) -> bool {
    let word = text.get(word.clone()).unwrap_or_default();
    wanted
        .iter()
        .any(|want| word.eq_ignore_ascii_case(want.as_bytes()))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'\'' || byte >= 0x80
}

/// The length of the blank that `text` begins with, if it is one of those that are not ASCII.
fn blank(text: &[u8]) -> usize {
    match text {
        [0xc2, 0xa0, ..] => 2,
        [0xe1, 0x9a, 0x80, ..]
        | [0xe2, 0x80, 0x80..=0x8a | 0xaf, ..]
        | [0xe2, 0x81, 0x9f, ..]
        | [0xe2, 0xa0, 0x80, ..]
        | [0xe3, 0x80, 0x80, ..] => 3,
        _ => 0,
    }
}

/// The length of such a blank that `text` ends with.
fn blank_before(text: &[u8]) -> usize {
    let ends = |length: &usize| {
        let last = text.len().checked_sub(*length);
        let last = last.and_then(|from| text.get(from..));
        last.is_some_and(|last| blank(last) == *length)
    };
    [2, 3].into_iter().find(ends).unwrap_or(0)
}

fn begins_sentence(mut left: &[u8]) -> bool {
    while let length @ 1.. = blank_before(left) {
        left = left.get(..left.len() - length).unwrap_or_default();
    }
    let before = left
        .iter()
        .rev()
        .take(8)
        .find(|byte| !matches!(byte, b' ' | b'\t' | b'*' | b'"' | b'#' | b'>' | b'-'));
    before.is_none_or(|byte| matches!(byte, b'.' | b'!' | b'?' | b'\n' | b':' | b';'))
}

enum Next {
    Word(Range<usize>),
    More,
    End,
}

fn next_word(text: &[u8], at: usize, last: bool) -> Next {
    let rest = text.get(at..).unwrap_or_default();
    let before = at.checked_sub(1).and_then(|last| text.get(last));
    let mut lines = 0;
    let mut gap = 0;
    while let Some(byte) = rest.get(gap).filter(|_| gap <= BETWEEN) {
        let wide = blank(rest.get(gap..).unwrap_or_default());
        if wide > 0 {
            gap += wide;
            continue;
        }
        if is_word(*byte) {
            break;
        }
        // Code is full of these and prose is not, or a sentence ends there.
        if b"({=;[/\\<.!?".contains(byte) {
            return Next::End;
        }
        lines += usize::from(*byte == b'\n');
        gap += 1;
    }
    if lines > 1 || gap > BETWEEN {
        return Next::End;
    }
    let word = rest.get(gap..).unwrap_or_default();
    let goes_on = |at: &usize| {
        let here = word.get(*at..).unwrap_or_default();
        here.first().is_some_and(|byte| is_word(*byte)) && blank(here) == 0
    };
    let count = (0..=WORD).take_while(goes_on).count();
    crate::work::spend(gap + count);
    // A capital in a new line begins something new, unless all are capitals.
    let capital = word.first().is_some_and(u8::is_ascii_uppercase);
    if lines == 1 && capital && before.is_some_and(u8::is_ascii_lowercase) {
        return Next::End;
    }
    if count == word.len() && count <= WORD && !last {
        return Next::More;
    }
    if count == 0 || count > WORD {
        return Next::End;
    }
    Next::Word(at + gap..at + gap + count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_fit_their_slots() {
        let phrase = Phrase::new("ignore|forget *2 previous ?system instructions");
        for (text, want) in [
            ("ignore previous instructions", Some(28)),
            ("ignore\u{a0}previous\u{2003}\u{3000}instructions", Some(34)),
            ("Ignore, all of previous\nsystem INSTRUCTIONS!", Some(43)),
            ("ignore a b c previous instructions", None),
            ("ignore previous\n\ninstructions", None),
            ("ignore(previous instructions)", None),
            ("ignore previous", None),
        ] {
            let want = want.map_or(Step::No, |end| Step::Found(0..end));
            assert_eq!(phrase.look(text.as_bytes(), 0, true), want, "{text}");
        }
        assert_eq!(phrase.look(b"ignore prev", 0, false), Step::More);
        assert_eq!(
            phrase.look(b"signore previous instructions ", 1, false),
            Step::No
        );
    }
}

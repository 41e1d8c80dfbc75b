//! Exact values: the secrets somebody holds, known to the byte.
//!
//! A value is found as it is, reversed, in base64 (also within a longer text), in hexadecimal, with or
//! without `0x` before each byte, with characters escaped for addresses, JSON, shells or HTML, in other
//! case, split over lines and spaced out. Text and values are compared without case and without anything
//! but letters and digits, so few of these need a search of their own.
//!
//! Non-guarantee: a value encrypted, compressed, encoded twice or told in other words passes, and so
//! does one with other letters or digits between, as the offsets in the lines of a dump are.
//!
//! Invariant: a value never shows: not in [`Debug`], not in an error; its memory is wiped.

mod escape;
mod find;
mod squeeze;

pub(crate) use find::{Finder, Hit};

use crate::base64;
use squeeze::View;
use std::collections::{HashMap, HashSet};
use std::fmt;
use zeroize::Zeroizing;

/// The fewest letters and digits that are compared: less stands in ordinary text by chance.
pub const SHORTEST_VALUE: usize = 8;
/// The longest value, in bytes.
pub const LONGEST_VALUE: usize = 8 * 1024;
/// The most values in one set.
pub const MOST_VALUES: usize = 1_024;
/// Values shorter than this are not looked for spaced out: `1, 2, 3` is a list.
const SPACED_OUT: usize = 12;
/// The most bytes between two characters of a value that is spaced out or split over lines.
const GAP: usize = 64;
/// The most characters of a value of which no key that is looked at may be complete.
const BEFORE: usize = squeeze::KEY + squeeze::MOST_KEYS - 2;

/// Why a value is not looked for. None shows the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedValue {
    /// It would be found in ordinary text.
    #[error("the value of `{name}` is too short to be told from ordinary text")]
    TooShort {
        /// Its name.
        name: String,
    },
    /// It would be found in ordinary text.
    #[error("the value of `{name}` repeats one or two characters, as ordinary text does")]
    TooPlain {
        /// Its name.
        name: String,
    },
    /// It is no secret one types or sends.
    #[error("the value of `{name}` is longer than {LONGEST_VALUE} bytes")]
    TooLong {
        /// Its name.
        name: String,
    },
    /// The name cannot stand in a placeholder.
    #[error("`{name}` cannot name a secret")]
    BadName {
        /// The name.
        name: String,
    },
    /// The set is full.
    #[error("there are more than {MOST_VALUES} values")]
    TooMany,
}

impl RefusedValue {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::TooShort { .. } => {
                "use a secret of at least 8 characters; shorter ones are not taken out of results"
            }
            Self::TooPlain { .. } => "use a random secret",
            Self::TooLong { .. } => "keep files of that size out of reach by policy instead",
            Self::BadName { .. } => "use up to 64 letters, digits, `-`, `_` and `.`",
            Self::TooMany => "hold fewer secrets at once",
        }
    }
}

/// One form of one value, as it is compared.
struct Pattern {
    /// Which value it is of.
    value: usize,
    squeezed: Zeroizing<Vec<u8>>,
    /// What stands after the last compared character.
    tail: Zeroizing<Vec<u8>>,
    /// The most bytes between two compared characters.
    gap: usize,
}

/// All patterns that are compared in one way.
struct Set {
    view: View,
    patterns: Vec<Pattern>,
    /// By the keys of their first characters: the pattern, and how many characters of it come before
    /// the key.
    by_start: HashMap<u64, Vec<(usize, usize)>>,
    bits: Vec<u64>,
    /// The fewest keys that one of the patterns has.
    fewest_keys: usize,
    /// Their beginnings, up to as many bytes as may be there before a place that is looked at.
    beginnings: HashSet<(usize, u128)>,
}

impl Set {
    fn new(view: View) -> Self {
        Self {
            view,
            patterns: Vec::new(),
            by_start: HashMap::new(),
            bits: vec![0; squeeze::WORDS],
            fewest_keys: squeeze::MOST_KEYS,
            beginnings: HashSet::new(),
        }
    }

    /// 1 if this may be one of the keys of a pattern, else 0.
    #[inline]
    fn may_begin(&self, key: u64) -> u64 {
        let (word, [one, other]) = squeeze::bits_of(key);
        let word = self.bits.get(word).copied().unwrap_or(0);
        word.wrapping_shr(one) & word.wrapping_shr(other) & 1
    }

    fn add(&mut self, pattern: Pattern) {
        let mut count = 0;
        for (before, key) in squeeze::keys(&pattern.squeezed).enumerate() {
            let (word, bits) = squeeze::bits_of(key);
            if let Some(word) = self.bits.get_mut(word) {
                for bit in bits {
                    *word |= 1_u64.wrapping_shl(bit);
                }
            }
            let list = self.by_start.entry(key).or_default();
            list.push((self.patterns.len(), before));
            count += 1;
        }
        self.fewest_keys = self.fewest_keys.min(count);
        for count in 1..=BEFORE.min(pattern.squeezed.len() - 1) {
            let beginning = squeeze::beginning(&pattern.squeezed, count);
            self.beginnings.insert(beginning);
        }
        self.patterns.push(pattern);
    }
}

/// A set of values to take out.
pub struct Values {
    names: Vec<String>,
    /// Letters and digits of ASCII only: for what is ASCII.
    ascii: Set,
    /// Letters and digits, and what is not ASCII: for what is not.
    wide: Set,
    /// For what has too few of them: everything but blanks and quotes.
    narrow: Set,
}

impl Default for Values {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            ascii: Set::new(View::Ascii),
            wide: Set::new(View::Wide),
            narrow: Set::new(View::Narrow),
        }
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Values")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl Values {
    /// A set without values.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many values are in the set.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Adds a value; `name` stands in its placeholders. One that is refused is not looked for, and
    /// whoever adds it should say so.
    pub fn add(&mut self, name: &str, value: &[u8]) -> Result<(), RefusedValue> {
        let shown: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > 64 || !name.bytes().all(plain) {
            return Err(RefusedValue::BadName { name: shown });
        }
        if self.names.len() >= MOST_VALUES {
            return Err(RefusedValue::TooMany);
        }
        if value.len() > LONGEST_VALUE {
            return Err(RefusedValue::TooLong { name: shown });
        }
        let narrow = View::Narrow.squeeze(value);
        if narrow.len() < SHORTEST_VALUE {
            return Err(RefusedValue::TooShort { name: shown });
        }
        let different: HashSet<&u8> = narrow.iter().collect();
        if different.len() < 3 {
            return Err(RefusedValue::TooPlain { name: shown });
        }
        let number = self.names.len();
        self.names.push(name.to_owned());
        for form in forms(value) {
            self.add_form(number, &form);
        }
        Ok(())
    }

    fn add_form(&mut self, value: usize, form: &[u8]) {
        let letters = if form.is_ascii() {
            &mut self.ascii
        } else {
            &mut self.wide
        };
        for set in [letters, &mut self.narrow] {
            let squeezed = set.view.squeeze(form);
            if squeezed.len() >= SHORTEST_VALUE {
                let own = set.view.longest_gap(form);
                let gap = if squeezed.len() >= SPACED_OUT {
                    GAP
                } else {
                    2 * own
                };
                let tail = set.view.tail(form);
                set.add(Pattern {
                    value,
                    squeezed,
                    tail,
                    gap,
                });
                return;
            }
        }
    }

    /// What tells a value from others: the form it is compared in.
    pub(crate) fn identity(&self, value: usize) -> &[u8] {
        let sets = [&self.ascii, &self.wide, &self.narrow];
        let mut patterns = sets.into_iter().flat_map(|set| &set.patterns);
        let of_it = patterns.find(|pattern| pattern.value == value);
        of_it.map_or(&[], |pattern| pattern.squeezed.as_slice())
    }

    pub(crate) fn name(&self, value: usize) -> &str {
        self.names.get(value).map_or("value", String::as_str)
    }
}

/// The texts as which a value may stand somewhere. Escapes are undone where they are met.
fn forms(value: &[u8]) -> Vec<Zeroizing<Vec<u8>>> {
    let reversed: Vec<u8> = value.iter().rev().copied().collect();
    let digits = |byte: &u8| {
        [byte >> 4, byte & 15].map(|digit| {
            let digit = b"0123456789abcdef".get(usize::from(digit));
            digit.copied().unwrap_or(b'0')
        })
    };
    let hex: Vec<u8> = value.iter().flat_map(digits).collect();
    let marked = |byte: &u8| b"0x".iter().copied().chain(digits(byte));
    let listed: Vec<u8> = value.iter().flat_map(marked).collect();
    let mut forms = vec![value.to_vec(), reversed, hex, listed];
    let encoded = forms.len();
    forms.extend((0..3).map(|offset| base64::encode_within(value, offset)));
    // The other alphabet differs only in characters that letters and digits leave out; where
    // those are too few it is a form of its own.
    let url = forms.iter().skip(encoded).map(|form| {
        let swap = |byte: &u8| match byte {
            b'+' => b'-',
            b'/' => b'_',
            other => *other,
        };
        form.iter().map(swap).collect::<Vec<u8>>()
    });
    let url: Vec<Vec<u8>> = url.collect();
    let text = std::str::from_utf8(value).unwrap_or_default();
    let by_character: String = text.chars().rev().collect();
    for form in url.into_iter().chain([by_character.into_bytes()]) {
        if !form.is_empty() && !forms.contains(&form) {
            forms.push(form);
        }
    }
    forms.into_iter().map(Zeroizing::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_stand_in_ordinary_text_are_refused_and_none_is_shown() {
        let mut values = Values::new();
        for (name, value, want) in [
            ("a", &b"hunter2"[..], "too short"),
            ("a", b"        x        ", "too short"),
            ("a", b"aaaaaaaaaaaaaaaa", "repeats"),
            ("a", &[b'x'; 9_000], "longer"),
            ("a b", b"correct horse battery", "cannot name"),
            ("", b"correct horse battery", "cannot name"),
        ] {
            let refused = values.add(name, value).unwrap_err();
            assert!(refused.to_string().contains(want), "{refused}");
            assert!(!refused.hint().is_empty());
        }
        assert!(values.is_empty());
        values.add("DB_PASSWORD", b"p@$$w()rd!").unwrap();
        values.add("other", b"hunter2hunter3").unwrap();
        let shown = format!("{values:?}");
        assert!(
            shown.contains("DB_PASSWORD") && !shown.contains("hunter"),
            "{shown}"
        );
    }
}

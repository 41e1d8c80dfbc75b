//! Where secrets stand in bytes of which only parts are shown.
//!
//! A part has lost what its secrets are known by: the end of a token, the `@` after a password, the
//! first line of a key. Whoever shows one finds the secrets in what stands around it first, and
//! shows [`Sanitiser::part`] of it.
//!
//! Guarantee: a part holds nothing of a secret that was found, unless it holds all of it and
//! sanitising the part finds it again.

use crate::kinds::LONGEST;
use crate::sanitiser::{BLOCK, Sanitiser};
use crate::scan::{Flagged, Scan};
use crate::terminal::{Strip, strip};
use std::borrow::Cow;
use std::ops::Range;

/// So many bytes before and after a part tell all that stands in it.
pub const LONGEST_SECRET: usize = LONGEST;

/// A secret and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// Its bytes.
    pub range: Range<usize>,
    /// What kind of secret it is.
    pub name: Cow<'static, str>,
}

impl Secret {
    /// What stands in the place of a secret that is not there as a whole.
    pub fn placeholder(&self) -> String {
        format!("[secret:{}]", self.name)
    }
}

impl Sanitiser {
    /// Where secrets stand in `bytes`, in order, none within another.
    pub fn find(&self, bytes: &[u8]) -> Vec<Secret> {
        let text = text_of(bytes);
        let stripped = strip(&text, |_, _| {});
        let (mut found, _) = self.find_in(&stripped);
        let ranges = found.iter_mut().map(|secret| &mut secret.range);
        put_back(ranges, &stripped, bytes);
        found
    }

    /// The same in a text, with the suspicious places in it.
    pub(crate) fn find_all(&self, text: &str) -> (Vec<Secret>, Vec<Flagged>) {
        let stripped = strip(text, |_, _| {});
        let (mut found, mut flags) = self.find_in(&stripped);
        let ranges = found.iter_mut().map(|secret| &mut secret.range);
        let ranges = ranges.chain(flags.iter_mut().map(|flag| &mut flag.range));
        put_back(ranges, &stripped, text.as_bytes());
        (found, flags)
    }

    fn find_in(&self, text: &str) -> (Vec<Secret>, Vec<Flagged>) {
        let mut scan = Scan::default();
        let (mut found, mut flags) = (Vec::new(), Vec::new());
        let mut known = 0;
        loop {
            known = text.ceil_char_boundary(known + BLOCK);
            let last = known == text.len();
            let part = text.get(..known).unwrap_or(text);
            let ready = scan.advance(self.wanted(), part, last);
            found.extend(ready.edits.into_iter().filter_map(|edit| {
                let name = edit.label.name(self.wanted())?;
                Some(Secret {
                    range: edit.range,
                    name: name.to_owned().into(),
                })
            }));
            flags.extend(ready.flags);
            if last {
                return (found, flags);
            }
        }
    }

    /// A part of `bytes` as it may be shown, given the secrets `found` in all of them, in order.
    ///
    /// Secrets that sanitising the part takes out all the same are left to that, which numbers
    /// them. If there is any other, all have placeholders without numbers: a number would tell
    /// which parts are the same.
    pub fn part<'t>(&self, bytes: &'t [u8], found: &[Secret], part: Range<usize>) -> Cow<'t, [u8]> {
        let shown = bytes.get(part.clone()).unwrap_or_default();
        let Some(Torn {
            alone,
            rest: mut torn,
            ..
        }) = self.torn(shown, found, &part)
        else {
            return Cow::Borrowed(shown);
        };
        torn.extend(alone);
        Cow::Owned(without(shown, torn))
    }

    /// The same for a whole text of several that were joined, and how many secrets that begin in it
    /// were taken out; none where it stays. What sanitising it takes out all the same is left to that,
    /// whatever else is taken out.
    pub(crate) fn share(
        &self,
        bytes: &[u8],
        found: &[Secret],
        part: &Range<usize>,
    ) -> Option<(Vec<u8>, usize)> {
        let shown = bytes.get(part.clone())?;
        let Torn {
            alone,
            rest: mut torn,
            begun,
        } = self.torn(shown, found, part)?;
        let overlaps = |secret: &Secret| {
            let next = torn.partition_point(|one| one.range.end <= secret.range.start);
            let next = torn.get(next);
            next.is_some_and(|one| one.range.start < secret.range.end)
        };
        let (along, apart): (Vec<Secret>, Vec<Secret>) = alone.into_iter().partition(overlaps);
        torn.extend(along);
        let left = without(shown, torn.clone());
        if self.find(&left).len() >= apart.len() {
            return Some((left, begun));
        }
        // What told the others stood in what was taken out.
        let secrets = begun + apart.len();
        torn.extend(apart);
        Some((without(shown, torn), secrets))
    }

    /// What reaches `shown`, which is `part` of what the secrets were `found` in, and sanitising it
    /// would not take out as a whole; none if there is no such.
    fn torn(&self, shown: &[u8], found: &[Secret], part: &Range<usize>) -> Option<Torn> {
        let reaches =
            |secret: &&Secret| secret.range.start < part.end && secret.range.end > part.start;
        let mut within = found.iter().filter(reaches).peekable();
        if shown.is_empty() || within.peek().is_none() {
            return None;
        }
        let alone = self.find(shown);
        let shifted = |at: usize| at.saturating_sub(part.start);
        let is_whole = |secret: &Secret| {
            let here = shifted(secret.range.start)..shifted(secret.range.end);
            let same = alone.binary_search_by_key(&here.start, |one| one.range.start);
            let same = same.ok().and_then(|at| alone.get(at));
            secret.range.start >= part.start && same.is_some_and(|one| one.range == here)
        };
        let (mut torn, mut begun) = (Vec::new(), 0);
        for secret in within {
            if is_whole(secret) {
                continue;
            }
            // The line end before a text belongs to it.
            begun += usize::from(secret.range.start + 1 >= part.start);
            torn.push(Secret {
                range: shifted(secret.range.start)..shifted(secret.range.end).min(shown.len()),
                name: secret.name.clone(),
            });
        }
        (!torn.is_empty()).then_some(Torn {
            alone,
            rest: torn,
            begun,
        })
    }
}

/// `bytes` as text. What is text already, as nearly everything is, is told so many times quicker.
fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// What stands in a part, with places in it, in order.
struct Torn {
    /// What sanitising the part finds.
    alone: Vec<Secret>,
    /// What it does not find, or not as a whole.
    rest: Vec<Secret>,
    /// How many of these begin in the part.
    begun: usize,
}

/// Makes places in `stripped` places in the bytes it was taken from.
fn put_back<'r>(ranges: impl Iterator<Item = &'r mut Range<usize>>, stripped: &str, bytes: &[u8]) {
    let mut ranges = ranges.peekable();
    if ranges.peek().is_none() || stripped.as_bytes() == bytes {
        return;
    }
    let places = Places::new(bytes);
    for range in ranges {
        *range = places.of(range);
    }
}

/// `bytes` with a placeholder for each of `gone`; those that overlap have one.
fn without(bytes: &[u8], mut gone: Vec<Secret>) -> Vec<u8> {
    gone.sort_by_key(|secret| (secret.range.start, secret.range.end));
    let mut out = Vec::with_capacity(bytes.len() + 64);
    let mut at = 0;
    for secret in gone {
        if secret.range.start >= at {
            out.extend_from_slice(bytes.get(at..secret.range.start).unwrap_or_default());
            out.extend_from_slice(secret.placeholder().as_bytes());
        }
        at = at.max(secret.range.end);
    }
    out.extend_from_slice(bytes.get(at..).unwrap_or_default());
    out
}

/// Where text stood before control characters were taken out of it.
struct Places {
    /// Where each stretch begins in the text, and where in the bytes it stood.
    stretches: Vec<(usize, usize)>,
    length: usize,
}

impl Places {
    fn new(bytes: &[u8]) -> Self {
        let mut strip = Strip::default();
        let mut text = String::with_capacity(bytes.len());
        let mut stretches: Vec<(usize, usize)> = Vec::new();
        let mut take = |piece: &str, at: usize| {
            let begin = text.len();
            strip.push(piece, &mut text, |_, _| {});
            let last = stretches.last();
            let follows = last.is_some_and(|(text, byte)| byte + (begin - text) == at);
            if text.len() > begin && !follows {
                stretches.push((begin, at));
            }
        };
        let mut at = 0;
        for chunk in bytes.utf8_chunks() {
            for (offset, c) in chunk.valid().char_indices() {
                take(c.encode_utf8(&mut [0; 4]), at + offset);
            }
            at += chunk.valid().len();
            if !chunk.invalid().is_empty() {
                take("\u{fffd}", at);
                at += chunk.invalid().len();
            }
        }
        let length = bytes.len();
        Self { stretches, length }
    }

    /// The bytes of a range of the text, with whatever was taken out between.
    fn of(&self, range: &Range<usize>) -> Range<usize> {
        let last = range.end.saturating_sub(1);
        let after = self.stretches.partition_point(|(text, _)| *text <= last);
        // A character that stands for bytes that are no UTF-8 may be longer than they.
        let most = self.stretches.get(after).map_or(self.length, |next| next.1);
        self.place(range.start)..(self.place(last) + 1).min(most)
    }

    fn place(&self, at: usize) -> usize {
        let after = self.stretches.partition_point(|(text, _)| *text <= at);
        let stretch = after.checked_sub(1).and_then(|at| self.stretches.get(at));
        stretch.map_or(at, |(text, byte)| byte + (at - text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Patterns;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn token() -> String {
        format!("ghp_{}", "a1B2".repeat(9))
    }

    fn shown(whole: &str, part: Range<usize>) -> String {
        let sanitiser = Sanitiser::new();
        let found = sanitiser.find(whole.as_bytes());
        let part = sanitiser.part(whole.as_bytes(), &found, part);
        String::from_utf8(part.into_owned()).unwrap()
    }

    #[test]
    fn secrets_are_found_where_they_stand_among_control_characters() {
        let sanitiser = Sanitiser::new();
        let secret = token();
        let (begin, end) = secret.split_at(9);
        for (before, inside, after) in [
            (&b"key="[..], &b""[..], &b"\n"[..]),
            (b"\x1b[31mkey=", b"", b"\x1b[0m;"),
            (b"key=", b"\x1b[1m", b"\r\n"),
            (
                "é\u{200b}=".as_bytes(),
                "\u{200b}".as_bytes(),
                "é".as_bytes(),
            ),
            (b"\xff\xfe\xff", b"", b"\xff"),
            (b"\xe2\x82 \x07", b"\x07\x07", b"\xe2\x82"),
        ] {
            let bytes = [before, begin.as_bytes(), inside, end.as_bytes(), after].concat();
            let range = before.len()..bytes.len() - after.len();
            let found = sanitiser.find(&bytes);
            let ranges: Vec<Range<usize>> = found.into_iter().map(|one| one.range).collect();
            assert_eq!(ranges, [range], "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_part_holds_a_secret_whole_or_not_at_all() {
        for secret in [token(), "postgres://me:hunter2horse@host/x".to_owned()] {
            let whole = format!("aaa {secret} bbb");
            for from in 0..=whole.len() {
                for to in from..=whole.len() {
                    let part = shown(&whole, from..to);
                    let clean = Sanitiser::new().text(&part).text.into_owned();
                    let told =
                        clean.contains("a1B") || clean.contains("nter") || clean.contains("2ho");
                    assert!(!told, "{from}..{to}: {part:?} gives {clean:?}");
                }
            }
        }
    }

    #[test]
    fn a_secret_over_lines_is_known_in_each_of_them() {
        let whole = "machine a\nlogin b\npassword\nhunter2horse\nmore\n";
        assert_eq!(
            shown(whole, 27..whole.len()),
            "[secret:netrc-password]\nmore\n"
        );
        assert_eq!(shown(whole, 0..whole.len()), whole);
    }

    #[test]
    fn patterns_count_as_well() {
        let mut patterns = Patterns::new();
        patterns.add("badge", "ACME [0-9]{6}").unwrap();
        let sanitiser = Sanitiser::with(Arc::default(), Arc::new(patterns));
        let whole = b"a ACME 123456 b";
        let found = sanitiser.find(whole);
        assert_eq!(&*sanitiser.part(whole, &found, 0..10), b"a [secret:badge]");
        assert_eq!(&*sanitiser.part(whole, &found, 8..15), b"[secret:badge] b");
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_sanitising_takes_out(
            text in "([ -~]|\\n|\\x1b\\[|\\x07|\\u{200b}|é|ghp_a1B2a1B2a1B2a1B2a1B2a1B2a1B2a1B2a1B2|https://a:hunter2xyz@b){0,30}",
        ) {
            let sanitiser = Sanitiser::new();
            let found = sanitiser.find(text.as_bytes());
            prop_assert_eq!(found.len(), sanitiser.text(&text).secrets);
            let apart = found.windows(2).all(|two| two[0].range.end <= two[1].range.start);
            prop_assert!(apart, "{:?}", found);
            prop_assert!(String::from_utf8(without(text.as_bytes(), found)).is_ok());
        }
    }
}

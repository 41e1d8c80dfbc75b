//! Changes to an input, from one flipped bit to a repeated structure.
//!
//! Invariant: an input never grows past [`MAX_BYTES`], so a run stays cheap and memory bounded.

use crate::Target;
use crate::rng::Rng;

/// Larger than any bound of `airlock_core::limits` on a single name or path, so that the refusal
/// beyond the bound is reached as well.
pub(crate) const MAX_BYTES: usize = 16 * 1024;

/// Values where number parsers slip: sign, width and leading-zero edges.
const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "-1",
    "00",
    "1e9",
    "0x7f",
    "127",
    "255",
    "256",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
];

/// Bytes with a meaning in paths, YAML, JSON, terminals or UTF-8.
const BYTES: &[u8] = b"\0\t\n\r\x1b\x7f !\"#&'*-./:<>?@[\\]`{|}~\x80\xc3\xff";

/// Longest run of repeats one mutation adds.
const REPEATS: usize = 64;

/// A new input: one of the target's seeds after a few stacked mutations.
pub(crate) fn input(rng: &mut Rng, target: &Target) -> Vec<u8> {
    let mut bytes = rng
        .pick(target.seeds)
        .map_or_else(Vec::new, |seed| seed.to_vec());
    for _ in 0..=rng.below(6) {
        mutate(rng, target, &mut bytes);
        bytes.truncate(MAX_BYTES);
    }
    bytes
}

fn mutate(rng: &mut Rng, target: &Target, bytes: &mut Vec<u8>) {
    match rng.below(11) {
        0 => flip_bit(rng, bytes),
        1 => replace_byte(rng, bytes),
        2 => {
            let byte = special(rng);
            insert(rng, bytes, &[byte]);
        }
        3 => {
            let (start, end) = range(rng, bytes.len());
            bytes.drain(start..end);
        }
        4 => repeat(rng, bytes, 1),
        5 => {
            let times = 2 + rng.below(REPEATS);
            repeat(rng, bytes, times);
        }
        6 => splice(rng, target, bytes),
        7 | 8 => {
            let word = rng.pick(target.dictionary).copied().unwrap_or_default();
            insert(rng, bytes, word.as_bytes());
        }
        9 => {
            let length = rng.below(bytes.len() + 1);
            bytes.truncate(length);
        }
        _ => number(rng, bytes),
    }
}

fn special(rng: &mut Rng) -> u8 {
    if rng.below(2) == 0 {
        rng.pick(BYTES).copied().unwrap_or_default()
    } else {
        rng.byte()
    }
}

fn flip_bit(rng: &mut Rng, bytes: &mut [u8]) {
    let bit = rng.below(8);
    let at = rng.below(bytes.len());
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1 << bit;
    }
}

fn replace_byte(rng: &mut Rng, bytes: &mut [u8]) {
    let with = special(rng);
    let at = rng.below(bytes.len());
    if let Some(byte) = bytes.get_mut(at) {
        *byte = with;
    }
}

fn insert(rng: &mut Rng, bytes: &mut Vec<u8>, new: &[u8]) {
    let at = rng.below(bytes.len() + 1);
    bytes.splice(at..at, new.iter().copied());
}

/// A range of at most 64 bytes, valid for a buffer of `length`.
fn range(rng: &mut Rng, length: usize) -> (usize, usize) {
    let start = rng.below(length);
    let end = (start + 1 + rng.below(64)).min(length);
    (start.min(end), end)
}

fn repeat(rng: &mut Rng, bytes: &mut Vec<u8>, times: usize) {
    let (start, end) = range(rng, bytes.len());
    let copied = bytes.get(start..end).unwrap_or_default().repeat(times);
    bytes.splice(end..end, copied);
}

/// Keeps the front of `bytes` and goes on with the back of another seed.
fn splice(rng: &mut Rng, target: &Target, bytes: &mut Vec<u8>) {
    let Some(other) = rng.pick(target.seeds) else {
        return;
    };
    let keep = rng.below(bytes.len() + 1);
    let from = rng.below(other.len() + 1);
    bytes.truncate(keep);
    bytes.extend_from_slice(other.get(from..).unwrap_or_default());
}

/// Puts an edge value in place of the first digits after a random point, or inserts one.
fn number(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let value = rng.pick(NUMBERS).copied().unwrap_or_default();
    let from = rng.below(bytes.len());
    let digits = bytes
        .iter()
        .enumerate()
        .skip(from)
        .skip_while(|(_, byte)| !byte.is_ascii_digit())
        .take_while(|(_, byte)| byte.is_ascii_digit())
        .map(|(at, _)| at);
    let places: Vec<usize> = digits.collect();
    match (places.first(), places.last()) {
        (Some(first), Some(last)) => {
            bytes.splice(*first..=*last, value.bytes());
        }
        _ => insert(rng, bytes, value.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(seeds: &'static [&'static [u8]]) -> Target {
        Target {
            name: "test",
            run: |_| {},
            seeds,
            dictionary: &["WORD"],
            iterations: 1,
        }
    }

    #[test]
    fn inputs_stay_bounded_and_vary() {
        let target = target(&[b"a 12 b", b"", b"other"]);
        let mut rng = Rng::new(3, "mutate");
        let inputs: std::collections::BTreeSet<_> =
            (0..2_000).map(|_| input(&mut rng, &target)).collect();
        assert!(inputs.len() > 1_000, "only {} different", inputs.len());
        assert!(inputs.iter().all(|bytes| bytes.len() <= MAX_BYTES));
    }

    #[test]
    fn a_target_without_seeds_still_gets_inputs() {
        let target = target(&[]);
        let mut rng = Rng::new(3, "mutate");
        assert!((0..200).any(|_| !input(&mut rng, &target).is_empty()));
    }

    #[test]
    fn a_number_ends_in_an_edge_value() {
        let mut rng = Rng::new(1, "number");
        for _ in 0..50 {
            let mut bytes = b"12345".to_vec();
            number(&mut rng, &mut bytes);
            let text = String::from_utf8(bytes).unwrap();
            let replaced = NUMBERS.iter().any(|value| {
                text.strip_suffix(value)
                    .is_some_and(|kept| kept.len() < 5 && "12345".starts_with(kept))
            });
            assert!(replaced, "{text}");
        }
    }
}

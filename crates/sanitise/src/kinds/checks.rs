//! Second conditions: what a secret of the right form must also be.

use crate::prefilter::{Entry, Prefilter, Target};
use std::sync::LazyLock;

/// Anything of the form.
pub(super) fn any(_: &[u8]) -> bool {
    true
}

/// Not plainly made up for an example or a test.
pub(super) fn real(secret: &[u8]) -> bool {
    !made_up(secret)
}

/// Real, and with letters and digits as random text has them.
pub(super) fn mixed(secret: &[u8]) -> bool {
    let letters = secret.iter().any(u8::is_ascii_alphabetic);
    let digits = secret.iter().any(u8::is_ascii_digit);
    letters && (digits || jumps(secret)) && distinct(secret) >= 6 && real(secret)
}

/// Mixed, with letters of both cases.
pub(super) fn both_cases(secret: &[u8]) -> bool {
    let upper = secret.iter().any(u8::is_ascii_uppercase);
    let lower = secret.iter().any(u8::is_ascii_lowercase);
    upper && lower && mixed(secret)
}

/// Whether the case of letters changes more often than in words joined by capitals: now and then
/// random text has no digit.
fn jumps(secret: &[u8]) -> bool {
    let change =
        |pair: &&[u8]| matches!(pair, [a, b] if a.is_ascii_lowercase() != b.is_ascii_lowercase());
    let changes = secret.windows(2).filter(change).count();
    changes * 20 >= secret.len() * 7
}

/// With the checksum of GitHub's and npm's tokens in its last six characters, or, cut off or
/// mistyped, at least real.
pub(super) fn checksummed(secret: &[u8]) -> bool {
    real(secret) || has_checksum(secret)
}

/// Whether the last six characters are the checksum of the thirty before them.
fn has_checksum(secret: &[u8]) -> bool {
    let body = secret.iter().position(|byte| *byte == b'_');
    let body = body.and_then(|at| secret.get(at + 1..)).unwrap_or_default();
    let Some((random, sum)) = body.split_at_checked(30) else {
        return false;
    };
    sum.len() == 6 && base62(sum) == Some(u64::from(crc32(random)))
}

fn base62(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |sum, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'A'..=b'Z' => digit - b'A' + 10,
            b'a'..=b'z' => digit - b'a' + 36,
            _ => return None,
        };
        Some(sum * 62 + u64::from(value))
    })
}

/// The checksum of Ethernet and zip. Bit by bit: tokens are short and rare.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32| (sum >> 1) ^ (0xedb8_8320 & 0_u32.wrapping_sub(sum & 1));
    let sum = bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| step(sum))
    });
    !sum
}

/// What people write in place of a secret.
static STAND_INS: LazyLock<Prefilter<256>> = LazyLock::new(|| {
    let words = [
        "example",
        "xxxx",
        "your",
        "****",
        "....",
        "redacted",
        "placeholder",
        "changeme",
        "dummy",
        "fake",
    ];
    let entry = |word: &'static str| Entry {
        text: word.as_bytes(),
        fold: true,
        next: None,
        target: Target::Forged,
    };
    Prefilter::new(words.into_iter().map(entry).collect())
});

/// Whether it is plainly no secret: named as one, hardly a different character, or counting up.
pub(super) fn made_up(secret: &[u8]) -> bool {
    // What follows the fixed part is judged: a prefix has few characters of its own.
    let body = secret.get(secret.len().min(4)..).unwrap_or_default();
    is_plain(body) || counts_up(body) || stands_in(secret)
}

fn stands_in(secret: &[u8]) -> bool {
    // In long random text these four letters come up by chance.
    if secret.len() > 200 {
        return false;
    }
    let mut found = false;
    STAND_INS.scan(secret, 0, |_, _| found = true);
    found
}

/// Whether there are at most two different bytes.
fn is_plain(bytes: &[u8]) -> bool {
    let first = bytes.first();
    let second = bytes.iter().find(|byte| Some(*byte) != first);
    bytes
        .iter()
        .all(|byte| Some(byte) == first || Some(byte) == second)
}

fn distinct(bytes: &[u8]) -> u32 {
    let seen = bytes.iter().fold([0_u128; 2], |[low, high], byte| {
        let bit = 1_u128 << (byte & 127);
        if *byte < 128 {
            [low | bit, high]
        } else {
            [low, high | bit]
        }
    });
    seen.iter().map(|half| half.count_ones()).sum()
}

/// `12345678` or `abcdefgh`, eight in a row.
fn counts_up(bytes: &[u8]) -> bool {
    const STEPS: usize = 7;
    let is_step = |pair: &[u8]| matches!(pair, [a, b] if a.wrapping_add(1) == *b);
    // Of seven steps in a row one is the last of some seven.
    let mut lasts = (STEPS - 1..).step_by(STEPS);
    let lasts = std::iter::from_fn(|| lasts.next().filter(|last| last + 1 < bytes.len()));
    lasts
        .filter(|last| bytes.get(*last..last + 2).is_some_and(is_step))
        .any(|last| {
            let near = bytes.get(last + 1 - STEPS..bytes.len().min(last + 1 + STEPS));
            let mut row = 0;
            near.unwrap_or_default().windows(2).any(|pair| {
                row = if is_step(pair) { row + 1 } else { 0 };
                row >= STEPS
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_checksum_is_that_of_zip() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(base62(b"10"), Some(62));
    }

    #[test]
    fn a_checksum_saves_what_looks_made_up() {
        let body = "a".repeat(30);
        let mut sum = crc32(body.as_bytes());
        let mut digits = Vec::new();
        for _ in 0..6 {
            let alphabet = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
            digits.insert(0, alphabet[sum as usize % 62]);
            sum /= 62;
        }
        let sum = String::from_utf8(digits).unwrap();
        assert!(checksummed(format!("ghp_{body}{sum}").as_bytes()));
        assert!(!checksummed(format!("ghp_{}", "a".repeat(36)).as_bytes()));
    }

    #[test]
    fn stand_ins_are_told_from_secrets() {
        for (text, made) in [
            ("AKIAIOSFODNN7EXAMPLE", true),
            ("ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", true),
            (
                concat!("gh", "p_1234567890abcdefghijklmnopqrstuvwxyz"),
                true,
            ),
            ("glpat-your-token-goes-here", true),
            (
                concat!("gh", "p_aB1aB1aB1aB1aB1aB1aB1aB1aB1aB1aB1aB1"),
                false,
            ),
            (
                concat!("gh", "p_R8k2mQz0VtY4sLw9XcB7nJh3Gf6Dp1Ae5Uio"),
                false,
            ),
        ] {
            assert_eq!(made_up(text.as_bytes()), made, "{text}");
        }
    }

    /// The same, looked for step by step.
    fn counts_by_hand(bytes: &[u8]) -> bool {
        let is_row = |row: &[u8]| {
            row.windows(2)
                .all(|pair| pair[0].wrapping_add(1) == pair[1])
        };
        bytes.windows(8).any(is_row)
    }

    proptest! {
        #[test]
        fn eight_that_count_up_are_found_wherever_they_stand(
            before in "[a-z0-9]{0,16}", first in b'0'..b'p', count in 0_u8..10, after in "[a-z0-9]{0,16}",
        ) {
            let row: Vec<u8> = (first..first + count).collect();
            let text = [before.as_bytes(), &row, after.as_bytes()].concat();
            prop_assert_eq!(counts_up(&text), counts_by_hand(&text), "{}", text.escape_ascii());
        }
    }
}

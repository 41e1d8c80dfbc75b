//! Signed checkpoints and the names in them: one spelling each, and nobody signs for another.

use super::{Target, text};
use airlock_audit::{Head, LogId, PublicKey, SignedCheckpoint, SigningKey};
use airlock_core::{Digest, Timestamp};
use std::fmt::{Debug, Display};
use std::str::FromStr;

const PIN: &str = include_str!("../../../crates/audit/tests/vectors/pin-10.jsonl");
const LATER: &str = concat!(
    r#"{"type":"checkpoint","version":1,"log":"73616d706c65206c6f672c2076312e2e","seq":12,"#,
    r#""head":"79ee90f627a890c3f48a12dc0c7ee1da04f584d77c8de6ef5a5d2f720c0218ab","#,
    r#""time":"2026-01-31T12:00:12.000036Z","#,
    r#""key":"ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c","#,
    r#""signature":"88e63ec28aa80dc840fb9e09b208cffb7ea8199355b90683b3623cbaaaf2422e"#,
    r#"656206075dfde58ffaf5bc492366af259aa4094f2b24973cf71163f92494a506"}"#,
);

pub(super) const TARGET: Target = Target {
    name: "checkpoint",
    run,
    seeds: &[
        PIN.as_bytes(),
        LATER.as_bytes(),
        b"{\"type\":\"checkpoint\",\"version\":2}",
        b"ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c",
        b"73616d706c65206c6f672c2076312e2e",
        b"0000000000000000000000000000000000000000000000000000000000000000",
        b"0100000000000000000000000000000000000000000000000000000000000000",
        b"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        b"EA4A6C63E29C520ABEF5507B132EC5F9954776AEBEBE7B92421EEA691446D22C",
    ],
    dictionary: &[
        "\"type\":\"checkpoint\",",
        "\"version\":1,",
        "\"seq\":",
        "\"key\":\"",
        "\"signature\":\"",
        "\"time\":\"",
        "2026-01-31T12:00:10.000030Z",
        "+00:00",
        "1.0",
        "\\u0031",
        "ed",
        "7f",
        "00",
        "AB",
        "{",
        "}",
        ",",
        " ",
        "\n",
    ],
    iterations: 6_000,
};

fn run(input: &[u8]) {
    let input_text = text(input);
    for candidate in [&*input_text, input_text.trim_end_matches('\n')] {
        one_spelling::<SignedCheckpoint>(candidate);
        one_spelling::<PublicKey>(candidate);
        one_spelling::<LogId>(candidate);
        one_spelling::<Digest>(candidate);
        genuine(candidate);
    }
    signed(input);
}

/// What is accepted is shown as exactly the text that was read.
fn one_spelling<T: FromStr + Display + Debug>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        assert_eq!(value.to_string(), text, "{value:?} has a second spelling");
    }
}

/// Nothing but what the holder of the key signed passes for theirs.
fn genuine(text: &str) {
    let key = SigningKey::from_secret(&[7; 32]).public();
    if let Ok(checkpoint) = text.parse::<SignedCheckpoint>()
        && checkpoint.check_signer(&[key]).is_ok()
    {
        assert!(
            text == PIN.trim_end() || text == LATER,
            "forged: {checkpoint:?}"
        );
    }
}

/// A statement over the input's bytes reads back; with one byte changed it does not.
fn signed(input: &[u8]) {
    let Some((numbers, rest)) = input.split_first_chunk::<32>() else {
        return;
    };
    let (seq, time) = (number(numbers.iter()), number(numbers.iter().rev()));
    let head = Head {
        seq,
        digest: Digest::of(input),
    };
    let key = SigningKey::from_secret(numbers);
    let log = LogId::from_bytes(*b"fuzzed log, v1..");
    let Ok(made) = key.sign(log, head, Timestamp::from_micros(time.cast_signed())) else {
        return;
    };
    let text = made.to_string();
    assert_eq!(
        text.parse().as_ref(),
        Ok(&made),
        "{text} does not read back"
    );
    assert_eq!(made.head(), head);
    let mut bytes = text.into_bytes();
    let at = usize::from(rest.first().copied().unwrap_or_default()) % bytes.len();
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1;
    }
    let changed = String::from_utf8(bytes).map(|text| text.parse::<SignedCheckpoint>());
    assert!(!matches!(changed, Ok(Ok(_))), "changed at {at}: {made:?}");
}

fn number<'a>(bytes: impl Iterator<Item = &'a u8>) -> u64 {
    bytes
        .take(8)
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_genuine_checkpoints_are_accepted() {
        for text in [PIN.trim_end(), LATER] {
            text.parse::<SignedCheckpoint>().unwrap();
        }
    }
}

//! Sizes and times of policy files: what is accepted is exact and reads back.

use super::{Target, text};
use airlock_core::{ByteSize, Span};

pub(super) const TARGET: Target = Target {
    name: "units",
    run,
    seeds: &[
        b"0",
        b"17",
        b"100KiB",
        b"2MB",
        b"3GiB",
        b"250ms",
        b"30s",
        b"5m",
        b"2h",
        b"18446744073709551615",
        b"1 KiB",
        b"010",
        b"-1",
        b"1h30m",
    ],
    dictionary: &[
        "KiB", "MiB", "GiB", "KB", "MB", "GB", "ms", "s", "m", "h", "0", ".", "e", "+",
    ],
    iterations: 60_000,
};

fn run(input: &[u8]) {
    let text = text(input);
    if let Ok(size) = text.parse::<ByteSize>() {
        whole_number(&text);
        let shown = size.to_string();
        assert_eq!(shown.parse(), Ok(size), "{shown} does not read back");
    }
    if let Ok(span) = text.parse::<Span>() {
        whole_number(&text);
        assert!(
            text.ends_with(|c: char| c.is_ascii_alphabetic()),
            "a time without a unit: {text:?}"
        );
        let shown = span.to_string();
        assert_eq!(shown.parse(), Ok(span), "{shown} does not read back");
    }
}

/// Accepted text is digits, then letters: nothing signed, fractional, padded or non-ASCII.
fn whole_number(text: &str) {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    assert!(unit.len() < text.len(), "no number in {text:?}");
    assert!(
        unit.bytes().all(|byte| byte.is_ascii_alphabetic()),
        "odd unit in {text:?}"
    );
    assert!(
        text == "0" || !text.starts_with('0') || unit.len() + 1 == text.len(),
        "{text:?}"
    );
}

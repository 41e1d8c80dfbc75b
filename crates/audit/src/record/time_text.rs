//! Time as text: RFC 3339, UTC, always six decimals, so that one instant has one spelling.
//!
//! Only the years 1970 to 9998 have a spelling; a record of any other time cannot be sealed.

use airlock_core::Timestamp;
use serde::{Deserialize, Deserializer, Serializer};

/// The first microsecond of the year 9999.
const END: i64 = 253_370_764_800_000_000;

/// Whether `time` can be sealed and exported.
pub(crate) fn is_representable(time: Timestamp) -> bool {
    (0..END).contains(&time.as_micros())
}

/// The text of `time`, if it has one.
pub(crate) fn format(time: Timestamp) -> Option<String> {
    if !is_representable(time) {
        return None;
    }
    let instant = jiff::Timestamp::from_microsecond(time.as_micros()).ok()?;
    Some(format!("{instant:.6}"))
}

/// The time `text` spells, if it is the one spelling of that time.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let instant: jiff::Timestamp = text.parse().ok()?;
    let time = Timestamp::from_micros(instant.as_microsecond());
    (format(time)? == text).then_some(time)
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's to choose"
)]
pub(crate) fn serialize<S: Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    match format(*time) {
        Some(text) => to.serialize_str(&text),
        None => Err(serde::ser::Error::custom(
            "the time is outside the years 1970 to 9998",
        )),
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text)
        .ok_or_else(|| serde::de::Error::custom("a time is written as 2026-01-31T12:00:00.000000Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_instant_has_one_spelling() {
        let time = Timestamp::from_micros(1_769_860_800_000_001);
        assert_eq!(format(time).unwrap(), "2026-01-31T12:00:00.000001Z");
        assert_eq!(parse("2026-01-31T12:00:00.000001Z"), Some(time));
        for other in [
            "2026-01-31T12:00:00.0000010Z",
            "2026-01-31T12:00:00.000001z",
            "2026-01-31 12:00:00.000001Z",
            "2026-01-31T13:00:00.000001+01:00",
            "2026-01-31T12:00:00Z",
            "2026-02-31T12:00:00.000001Z",
            "1969-12-31T23:59:59.999999Z",
            "",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn both_ends_of_representable_time_are_exact() {
        for (micros, text) in [
            (-1, None),
            (0, Some("1970-01-01T00:00:00.000000Z")),
            (END - 1, Some("9998-12-31T23:59:59.999999Z")),
            (END, None),
            (i64::MIN, None),
            (i64::MAX, None),
        ] {
            assert_eq!(format(Timestamp::from_micros(micros)).as_deref(), text);
        }
    }
}

//! Sizes and times as people write them in policy: case-sensitive, whole numbers, nothing guessed.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Why a size or a time could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// No digits at the front.
    #[error("`{0}` does not begin with a whole number")]
    NoNumber(String),
    /// The unit is missing or not in the list.
    #[error("`{value}` has an unknown unit; use one of {known}")]
    UnknownUnit {
        /// What was written.
        value: String,
        /// The units that exist.
        known: &'static str,
    },
    /// The value does not fit 64 bits.
    #[error("`{0}` is too large")]
    TooLarge(String),
}

fn split(text: &str) -> Result<(u64, &str), UnitError> {
    let shown = || text.chars().take(40).collect::<String>();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).unwrap_or((text, ""));
    // A leading zero hints at octal, or at a slip; `0` itself is fine.
    if number.is_empty() || (number.len() > 1 && number.starts_with('0')) {
        return Err(UnitError::NoNumber(shown()));
    }
    let value = number.parse().map_err(|_| UnitError::TooLarge(shown()))?;
    Ok((value, unit))
}

fn scaled(text: &str, units: &[(&str, u64)], known: &'static str) -> Result<u64, UnitError> {
    let shown = || text.chars().take(40).collect::<String>();
    let (value, unit) = split(text)?;
    let (_, factor) = units
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(|| UnitError::UnknownUnit {
            value: shown(),
            known,
        })?;
    value
        .checked_mul(*factor)
        .ok_or_else(|| UnitError::TooLarge(shown()))
}

/// Shows `value` in the largest unit that divides it.
fn show(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let fits = units
        .iter()
        .rev()
        .find(|(_, factor)| value != 0 && value.is_multiple_of(*factor));
    match fits {
        Some((name, factor)) => write!(f, "{}{name}", value / factor),
        None => write!(f, "{value}{}", units.first().map_or("", |(name, _)| name)),
    }
}

macro_rules! unit {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

/// A number of bytes: `100KiB`, `2MB`, or a bare number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ByteSize(u64);

impl ByteSize {
    const UNITS: &'static [(&'static str, u64)] = &[
        ("", 1),
        ("KB", 1_000),
        ("KiB", 1 << 10),
        ("MB", 1_000_000),
        ("MiB", 1 << 20),
        ("GB", 1_000_000_000),
        ("GiB", 1 << 30),
    ];

    /// Wraps a number of bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    pub const fn as_bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        scaled(
            text,
            Self::UNITS,
            "KiB, MiB, GiB, KB, MB, GB, or none for bytes",
        )
        .map(Self)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, self.0, Self::UNITS)
    }
}

unit!(ByteSize);

/// A length of time: `250ms`, `30s`, `5m`, `2h`. A bare number is refused: of what?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span(u64);

impl Span {
    const UNITS: &'static [(&'static str, u64)] =
        &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

    /// A span of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// A span of `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000))
    }

    /// The span in milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0
    }
}

impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        scaled(text, Self::UNITS, "ms, s, m, h").map(Self)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, self.0, Self::UNITS)
    }
}

unit!(Span);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_binary_or_decimal_by_their_name() {
        for (text, want) in [
            ("0", Some(0)),
            ("17", Some(17)),
            ("100KiB", Some(102_400)),
            ("100KB", Some(100_000)),
            ("1MiB", Some(1 << 20)),
            ("3GiB", Some(3 << 30)),
            ("2GB", Some(2_000_000_000)),
            ("1kb", None),
            ("1K", None),
            ("1 KiB", None),
            ("1.5MiB", None),
            ("-1", None),
            ("+1", None),
            ("", None),
            ("KiB", None),
            ("010", None),
            ("18446744073709551616", None),
            ("99999999999GiB", None),
        ] {
            assert_eq!(
                text.parse::<ByteSize>().ok().map(ByteSize::as_bytes),
                want,
                "{text}"
            );
        }
    }

    #[test]
    fn times_need_a_unit() {
        for (text, want) in [
            ("250ms", Some(250)),
            ("30s", Some(30_000)),
            ("5m", Some(300_000)),
            ("2h", Some(7_200_000)),
            ("30", None),
            ("1d", None),
            ("1S", None),
            ("1h30m", None),
        ] {
            assert_eq!(
                text.parse::<Span>().ok().map(Span::as_millis),
                want,
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(bytes: u64, millis: u64) {
            prop_assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
            prop_assert_eq!(Span(millis).to_string().parse(), Ok(Span(millis)));
        }
    }
}

//! Points in time as people write and read them.

use crate::failure::{Failure, Kind};
use airlock_core::{Span, Timestamp};

/// `90s`, `30m`, `2h` ago, or an absolute date or time.
pub(super) fn parse(text: &str, now: Timestamp) -> Result<Timestamp, Failure> {
    if let Ok(span) = text.parse::<Span>() {
        let micros = i64::try_from(span.as_millis().saturating_mul(1_000)).unwrap_or(i64::MAX);
        return Ok(Timestamp::from_micros(
            now.as_micros().saturating_sub(micros),
        ));
    }
    absolute(text).ok_or_else(|| {
        let text = airlock_kernel::sanitise_line(text, 60);
        Failure::new(Kind::Usage, format!("`{text}` is no point in time"))
            .fix("use a span such as 30m or 2h, a date such as 2026-11-15, or 2026-11-15T09:30:00Z")
    })
}

fn absolute(text: &str) -> Option<Timestamp> {
    let zone = jiff::tz::TimeZone::system();
    let stamp = text.parse::<jiff::Timestamp>().ok().or_else(|| {
        let local: jiff::civil::DateTime = text.parse().ok()?;
        local.to_zoned(zone).ok().map(|zoned| zoned.timestamp())
    })?;
    Some(Timestamp::from_micros(stamp.as_microsecond()))
}

/// RFC 3339 in UTC, to the millisecond.
pub(super) fn show(time: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(time.as_micros()).map_or_else(
        |_| time.as_micros().to_string(),
        |stamp| format!("{stamp:.3}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_count_back_and_dates_stand_still() {
        let now = Timestamp::from_micros(10_000_000_000);
        assert_eq!(parse("1h", now).unwrap().as_micros(), 6_400_000_000);
        let fixed = parse("2026-11-15T09:30:00Z", now).unwrap();
        assert_eq!(show(fixed), "2026-11-15T09:30:00.000Z");
        assert!(parse("2026-11-15", now).is_ok());
        for bad in ["", "yesterday", "2h30", "12:00 tomorrow"] {
            assert!(parse(bad, now).is_err(), "{bad}");
        }
    }
}

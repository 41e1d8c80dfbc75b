//! When to try again, and when not.

use super::settings::Backoff;
use crate::error::ModelError;
use airlock_core::Timestamp;
use std::time::Duration;

/// How long to wait before the attempt after `attempt`, counted from 0; none: give up.
pub(crate) fn wait(backoff: &Backoff, attempt: u32, error: &ModelError) -> Option<Duration> {
    if !error.is_passing() || attempt >= backoff.retries {
        return None;
    }
    let asked = if let ModelError::Busy { after, .. } = error {
        *after
    } else {
        None
    };
    let grown = backoff
        .first
        .saturating_mul(1 << attempt.min(16))
        .min(backoff.most);
    // Some of it at random, so that those who were turned away together do not come back together.
    let own = grown.mul_f64(rand::random_range(0.5..=1.0));
    match asked {
        // Nobody waits at a terminal for longer than that; the error says when to come back.
        Some(asked) if asked > backoff.most => None,
        Some(asked) => Some(asked.max(own)),
        None => Some(own),
    }
}

/// A `Retry-After`: seconds, or a date.
pub(crate) fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        // Too much, negative or not a number counts as not said.
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::parse(value).ok()?;
    let left = date
        .timestamp()
        .as_microsecond()
        .saturating_sub(now.as_micros());
    Some(Duration::from_micros(u64::try_from(left).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(after: Option<u64>) -> ModelError {
        ModelError::Busy {
            host: "h".to_owned(),
            status: 429,
            message: String::new(),
            after: after.map(Duration::from_secs),
        }
    }

    #[test]
    fn seconds_and_dates_are_understood() {
        // Sun, 06 Nov 1994 08:49:37 GMT
        let now = Timestamp::from_micros(784_111_777 * 1_000_000);
        for (value, want) in [
            ("5", Some(5)),
            (" 0 ", Some(0)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("-5", None),
            ("soon", None),
            ("nan", None),
            ("1e400", None),
            ("", None),
        ] {
            let want = want.map(Duration::from_secs);
            assert_eq!(retry_after(value, now), want, "{value}");
        }
    }

    #[test]
    fn waits_grow_within_bounds_and_end() {
        let backoff = Backoff {
            retries: 8,
            first: Duration::from_millis(100),
            most: Duration::from_secs(2),
        };
        for (attempt, most) in [(0, 100), (1, 200), (2, 400), (6, 2_000), (7, 2_000)] {
            for _ in 0..50 {
                let waited = wait(&backoff, attempt, &busy(None)).unwrap();
                let most = Duration::from_millis(most);
                assert!(
                    waited <= most && waited >= most / 2,
                    "{attempt}: {waited:?}"
                );
            }
        }
        assert_eq!(wait(&backoff, 8, &busy(None)), None);
        assert_eq!(wait(&backoff, 0, &ModelError::Cancelled), None);
    }

    #[test]
    fn a_server_is_not_asked_before_it_wants_nor_waited_for_without_end() {
        let backoff = Backoff::default();
        assert_eq!(
            wait(&backoff, 0, &busy(Some(20))),
            Some(Duration::from_secs(20))
        );
        assert_eq!(wait(&backoff, 0, &busy(Some(3_600))), None);
    }
}

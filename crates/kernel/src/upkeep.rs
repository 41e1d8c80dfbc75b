//! The daily upkeep of the log: archive past days, keep within limits, take a snapshot.
//!
//! Done by whichever kernel opens the log first on a day. Upkeep that fails is told, tried again at
//! the next start, and keeps nobody from working: the log itself is not at stake.

use crate::workspace::{StateDir, write_atomic};
use airlock_audit::Log;
use airlock_core::Timestamp;

const DAY_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

/// Does today's upkeep if it is not done yet; gives back what the person should know.
pub(crate) fn daily(log: &Log, state: &StateDir, now: Timestamp) -> Option<String> {
    let today = now.as_micros().div_euclid(DAY_MICROS).to_string();
    let marker = state.path().join("upkeep");
    if std::fs::read_to_string(&marker).is_ok_and(|done| done == today) {
        return None;
    }
    let result = log
        .maintain(now)
        .map_err(|error| error.to_string())
        .and_then(|_| {
            // There is nothing to keep of a log that is only now beginning.
            if log.open_report().head > 0 {
                log.snapshot().map_err(|error| error.to_string())?;
            }
            write_atomic(&marker, today.as_bytes(), 0o600).map_err(|error| error.to_string())
        });
    result.err().map(|error| {
        format!("the audit log's daily upkeep failed and will be tried again: {error}")
    })
}

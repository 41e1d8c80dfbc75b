//! A point in time as plain data. Whoever makes one has the clock; this crate has none.

use crate::Span;
use serde::{Deserialize, Serialize};

/// Microseconds since the Unix epoch, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// A time from microseconds since the Unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This time plus `span`, stopping at the end of representable time.
    #[must_use]
    pub fn plus(self, span: Span) -> Self {
        let micros = i64::try_from(span.as_millis().saturating_mul(1_000)).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros))
    }
}

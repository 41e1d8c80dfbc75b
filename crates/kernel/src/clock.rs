//! The kernel's clock, handed in so that tests and replays own time.

use airlock_core::Timestamp;
use std::sync::Arc;

/// Tells the time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self::from_fn(|| Timestamp::from_micros(jiff::Timestamp::now().as_microsecond()))
    }

    /// A clock that asks `now`.
    pub fn from_fn(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }

    /// The clock as a plain function, for the log.
    pub fn shared(&self) -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
        Arc::clone(&self.0)
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

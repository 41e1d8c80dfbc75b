//! Taking up changed settings: a kernel that stays is closed and opened again by the process that
//! serves it, under the same lock.
//!
//! Guarantee: nothing is broken off for it. It happens only while no request is under way, and from
//! then on requests are refused as not taken, so that whoever asks can ask again.
//! Non-guarantee: it is the process's own reading of its settings that counts, not what whoever asks
//! would have read in its place.

use crate::service::Settings;
use airlock_wire::{WireError, code};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a kernel would be opened with if it were now, or why it would not be.
pub type Afresh = Arc<dyn Fn() -> Result<Settings, String> + Send + Sync>;

/// What came of asking a kernel to take up its settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Renewal {
    /// It does so now: whoever waits for it finds it soon.
    Begun,
    /// It would, and this many requests are under way.
    Busy(usize),
    /// What it runs with is what it would be opened with.
    Current,
    /// It cannot be opened with what there is now, and goes on as it is.
    Unusable(String),
}

/// Requests under way, until no more are taken.
#[derive(Debug, Default)]
pub(crate) struct UnderWay(Mutex<Count>);

#[derive(Debug, Default)]
struct Count {
    requests: usize,
    closed: bool,
}

/// One request, until it is dropped.
#[derive(Debug)]
pub(crate) struct Request<'a>(&'a UnderWay);

impl Drop for Request<'_> {
    fn drop(&mut self) {
        self.0.count().requests -= 1;
    }
}

impl UnderWay {
    /// Begins a request, unless no more are taken.
    pub(crate) fn begin(&self) -> Result<Request<'_>, WireError> {
        let mut count = self.count();
        if count.closed {
            let told = "the kernel takes up other settings";
            return Err(WireError::new(code::SHUTTING_DOWN, told).retryable());
        }
        count.requests += 1;
        Ok(Request(self))
    }

    /// Takes no more, if none is under way. Says how many are.
    pub(crate) fn close(&self) -> Result<(), usize> {
        let mut count = self.count();
        if count.requests > 0 {
            return Err(count.requests);
        }
        count.closed = true;
        Ok(())
    }

    /// Whether no more are taken.
    pub(crate) fn is_closed(&self) -> bool {
        self.count().closed
    }

    /// Takes them again.
    pub(crate) fn open(&self) {
        self.count().closed = false;
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_keeps_it_open_and_nothing_begins_once_it_is_closed() {
        let under_way = UnderWay::default();
        let (first, second) = (under_way.begin().unwrap(), under_way.begin().unwrap());
        assert_eq!(under_way.close(), Err(2));
        drop(first);
        assert_eq!(under_way.close(), Err(1));
        assert!(under_way.begin().is_ok(), "it went on meanwhile");
        drop(second);
        assert_eq!(under_way.close(), Ok(()));
        let refused = under_way.begin().unwrap_err();
        assert_eq!(
            (&*refused.code, refused.retryable),
            (code::SHUTTING_DOWN, true)
        );
        under_way.open();
        assert!(under_way.begin().is_ok());
    }
}

//! One answer for everybody whose records share a transaction: waking them all is a single call to
//! the operating system, and none of them waits for a lock afterwards.
//!
//! Guarantee: whoever waits is answered. A promise that is dropped, because the writer is gone,
//! says that nothing was written.

use super::{AppendError, Written};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

type Answer = Result<Vec<Written>, AppendError>;

/// The writer's side: to be kept once the transaction is over.
#[derive(Debug, Default)]
pub(crate) struct Promise {
    answer: Arc<OnceLock<Answer>>,
    records: usize,
    callers: usize,
}

impl Promise {
    /// Takes in `records` of one more caller, after those that were promised before.
    pub(crate) fn join(&mut self, records: usize) -> Awaited {
        let first = self.records;
        self.records += records;
        self.callers += 1;
        Awaited {
            answer: Arc::clone(&self.answer),
            places: first..self.records,
        }
    }

    /// How many wait.
    pub(crate) const fn callers(&self) -> usize {
        self.callers
    }

    /// Answers everybody: where the promised records are, in the order they were promised.
    pub(crate) fn keep(self, answer: Answer) {
        // Set nowhere else but when this is dropped.
        let _ = self.answer.set(answer);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if self.callers > 0 {
            let _ = self.answer.set(Err(AppendError::Closed));
        }
    }
}

/// The caller's side.
#[derive(Debug)]
#[must_use = "nothing is known before the answer"]
pub(crate) struct Awaited {
    answer: Arc<OnceLock<Answer>>,
    places: Range<usize>,
}

impl Awaited {
    /// Where the records are, once they are there.
    pub(crate) fn all(self) -> Answer {
        self.written().map(<[Written]>::to_vec)
    }

    /// Where the first record is.
    pub(crate) fn first(self) -> Result<Written, AppendError> {
        self.written()?.first().copied().ok_or(AppendError::Closed)
    }

    #[cfg(test)]
    pub(crate) fn is_answered(&self) -> bool {
        self.answer.get().is_some()
    }

    fn written(&self) -> Result<&[Written], AppendError> {
        let written = self.answer.wait().as_ref().map_err(Clone::clone)?;
        written.get(self.places.clone()).ok_or(AppendError::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::Digest;

    fn written(seq: u64) -> Written {
        Written {
            seq,
            digest: Digest::from_bytes([1; 32]),
        }
    }

    #[test]
    fn each_caller_gets_its_own_places() {
        let mut promise = Promise::default();
        let (one, two) = (promise.join(1), promise.join(2));
        let waiting = std::thread::spawn(move || two.all());
        promise.keep(Ok(vec![written(4), written(5), written(6)]));
        assert_eq!(one.first(), Ok(written(4)));
        assert_eq!(waiting.join().unwrap(), Ok(vec![written(5), written(6)]));
    }

    #[test]
    fn a_promise_nobody_can_keep_is_answered_all_the_same() {
        let mut promise = Promise::default();
        let waiting = promise.join(1);
        let waiting = std::thread::spawn(move || waiting.first());
        drop(promise);
        assert_eq!(waiting.join().unwrap(), Err(AppendError::Closed));
    }

    #[test]
    fn an_answer_that_is_too_short_names_no_record() {
        let mut promise = Promise::default();
        let (one, two) = (promise.join(1), promise.join(1));
        promise.keep(Ok(vec![written(1)]));
        assert_eq!(one.first(), Ok(written(1)));
        assert_eq!(two.first(), Err(AppendError::Closed));
    }
}

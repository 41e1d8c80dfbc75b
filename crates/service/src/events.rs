//! Events: the records of the log, as they are written.
//!
//! Their ids are the records' own numbers, so they grow for as long as the log exists, whoever
//! serves it, and a client that comes back after a restart misses nothing. Reading the log is a
//! syscall, so subscribing is one, and so is going on under another policy.

use crate::answers;
use crate::caller::Identity;
use airlock_audit::{Filter, Log, ReadError, Record};
use airlock_kernel::{Call, Kernel};
use airlock_policy::Generation;
use airlock_wire::{Event, WireError, code};
use serde_json::{Value, json};
use std::sync::{Mutex, PoisonError};

/// The method of every event.
const RECORD: &str = "audit.record";

/// Under which policy a client was let follow the log.
#[derive(Debug, Default)]
pub(crate) struct Following(Mutex<Option<Generation>>);

impl Following {
    /// Asks the road whether `identity` may follow the log, unless it was under the policy in force.
    fn allowed(&self, kernel: &Kernel, identity: &Identity) -> Result<(), WireError> {
        // Before it is decided: a policy that comes in between is another one.
        let policy = kernel.policy().generation();
        let mut under = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *under == Some(policy) {
            return Ok(());
        }
        *under = None;
        ask(kernel, identity)?;
        *under = Some(policy);
        Ok(())
    }

    /// Asks the road anew, and says after which record it begins.
    pub(crate) fn begin(
        &self,
        kernel: &Kernel,
        identity: &Identity,
        after: Option<u64>,
    ) -> Result<u64, WireError> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.allowed(kernel, identity)?;
        let newest = newest(kernel.log())?;
        match after {
            // A client would wait for it, and miss what comes until then.
            Some(after) if after > newest => {
                let told = format!("there is no event {after} yet: the newest is {newest}");
                Err(WireError::new(code::INVALID_PARAMS, told))
            }
            Some(after) => Ok(after),
            None => Ok(newest),
        }
    }

    /// At most `most` records after `after`, for as long as policy lets `identity` have them.
    pub(crate) fn go_on(
        &self,
        kernel: &Kernel,
        identity: &Identity,
        after: u64,
        most: usize,
    ) -> Result<Vec<Event>, WireError> {
        self.allowed(kernel, identity)?;
        // Buffered records count as soon as somebody looks.
        let _ = kernel.log().flush();
        records(kernel.log(), after, most)
    }
}

/// Asks the road whether `identity` may follow the log.
fn ask(kernel: &Kernel, identity: &Identity) -> Result<(), WireError> {
    let Some(front) = identity.front() else {
        let told = "a supervisor follows nothing";
        return Err(WireError::new(code::REFUSED, told));
    };
    let call = Call::new("audit.read", json!({ "purpose": "events" }));
    let leave = kernel.submit_from(front, &identity.whence(None), &call, None);
    answers::leave(leave, "the log may not be followed")
}

fn newest(log: &Log) -> Result<u64, WireError> {
    log.flush()
        .map_err(|error| WireError::new(code::INTERNAL, error.to_string()))?;
    let filter = Filter {
        limit: Some(1),
        newest_first: true,
        ..Filter::default()
    };
    let mut records = log.read(filter).map_err(|error| unreadable(&error))?;
    match records.next() {
        None => Ok(0),
        Some(Ok(record)) => Ok(record.sealed.seq()),
        Some(Err(ReadError::Record { seq, .. })) => Ok(seq),
        Some(Err(error)) => Err(unreadable(&error)),
    }
}

/// At most `most` records after `after`. One that is damaged keeps nobody from the others.
fn records(log: &Log, after: u64, most: usize) -> Result<Vec<Event>, WireError> {
    let filter = Filter {
        limit: Some(most as u64),
        ..Filter::default()
    };
    let records = log
        .follow(after, filter)
        .map_err(|error| unreadable(&error))?;
    records
        .filter(|record| !matches!(record, Err(ReadError::Record { .. })))
        .map(|record| record.map(|record| event(&record)))
        .collect::<Result<_, _>>()
        .map_err(|error| unreadable(&error))
}

fn unreadable(error: &ReadError) -> WireError {
    WireError::new(code::INTERNAL, format!("the log cannot be read: {error}")).retryable()
}

/// A record with its place in the chain.
fn event(record: &Record) -> Event {
    let mut params = json!({
        "seq": record.sealed.seq(),
        "digest": record.sealed.digest(),
    });
    if let (Some(object), Ok(Value::Object(entry))) =
        (params.as_object_mut(), serde_json::to_value(&record.entry))
    {
        object.extend(entry);
    }
    Event {
        id: record.sealed.seq(),
        method: RECORD.to_owned(),
        params,
    }
}

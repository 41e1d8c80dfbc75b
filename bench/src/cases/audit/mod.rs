//! The audit log: appending and verifying.

mod append;
mod durable;
mod limited;
mod shared;
mod verify;

pub(super) use append::run as append;
pub(super) use durable::run as durable;
pub(super) use limited::{TASK as LIMITED, worker as limited_worker};
pub(super) use verify::run as verify;
pub(crate) use verify::verify_in_child;

use super::{caller, decision};
use crate::failure::Failure;
use airlock_audit::{
    Buffering, DecisionSummary, Entry, EventType, Head, Log, LogConfig, LogId, Stage, seal,
};
use airlock_core::Timestamp;
use std::path::Path;
use std::sync::Arc;

/// A record as the kernel writes it on an attempt: who, what, the decision and its input.
fn entry(number: u64) -> Result<Entry, Failure> {
    let path = format!("src/module_{}/file.rs", number % 100);
    let request = decision::request("fs.write", &path, &[])?;
    let mut entry = Entry::new(time(number), EventType::Syscall, Stage::Attempt);
    entry.action = Some(format!("act-{number}").parse()?);
    entry.syscall = Some("fs.write".to_owned());
    entry.caller = Some(caller(&[])?);
    entry.decision = Some(DecisionSummary {
        verdict: "allow".to_owned(),
        rules: vec!["policy/rule-17".to_owned()],
        generation: "9f".repeat(32),
    });
    entry.reason = Some("because the policy says so".to_owned());
    entry.request = Some(Box::new(request));
    Ok(entry)
}

fn entries(count: u64) -> Result<Vec<Entry>, Failure> {
    (0..count).map(entry).collect()
}

/// What the log keeps of `entries`: the bytes a raw database is given to store.
fn stored(entries: &[Entry]) -> Result<Vec<Vec<u8>>, Failure> {
    let mut head = Head::genesis(&LogId::from_bytes(*b"the bench's log."));
    let mut all = Vec::with_capacity(entries.len());
    for entry in entries {
        let sealed = seal(&head, entry)?;
        head = sealed.head();
        all.push(sealed.into_stored());
    }
    Ok(all)
}

fn time(number: u64) -> Timestamp {
    let micros = i64::try_from(number).unwrap_or(0).saturating_mul(1_000);
    Timestamp::from_micros(decision::NOW.as_micros().saturating_add(micros))
}

/// A log in `directory` with the window of a long-lived kernel.
fn open(directory: &Path) -> Result<Log, Failure> {
    let clock = Arc::new(|| decision::NOW);
    let mut config = LogConfig::new(directory, &directory.join("keys"), clock);
    config.buffering = Buffering::WINDOW;
    Ok(Log::open(config)?)
}

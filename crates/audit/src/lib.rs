//! The audit log: every attempt and outcome, sealed into a hash chain.
//!
//! The chain, its encoding and its verification are pure; the store keeps sealed records in SQLite.
//! Nothing here decides anything: a writer that cannot write says so, and the kernel refuses.

mod chain;
mod checkpoint;
mod encoding;
mod export;
mod open;
mod query;
mod record;
mod recovery;
mod segment;
mod store;
mod verify;
mod writer;

pub use record::{DecisionSummary, Entry, EventType, Stage};

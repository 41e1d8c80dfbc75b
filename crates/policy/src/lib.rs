//! The decision: capabilities, enforcer, rules, tokens, approvals.
//!
//! Pure and synchronous. In: a request, a snapshot of rules, the time. Out: a [`Decision`] that
//! lists every contribution. No clock, no files, no async, no randomness: whoever calls brings
//! them. An error while deciding is a denial.

pub mod approval;
pub mod capability;
mod decision;
mod document;
mod enforcer;
mod engine;
mod explain;
mod extension;
mod glob;
mod load;
mod replay;
mod rules;
pub mod token;

pub use decision::{Contribution, Decision, Generation, Imposed, Layer, Opinion, Verdict, combine};
pub use enforcer::{
    AlreadyRegistered, CapabilityCheck, CheckQuery, CheckResult, CheckSink, Enforcer, Gate, Grants,
    NotRegistered, Snapshot,
};

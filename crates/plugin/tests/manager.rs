//! The manager, with hosts that are scripted: what is found, what may run, what happens to calls.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

#[path = "manager/discovery.rs"]
mod discovery;
#[path = "manager/fake.rs"]
mod fake;
#[path = "manager/installing.rs"]
mod installing;
#[path = "manager/leaving.rs"]
mod leaving;
#[path = "manager/running.rs"]
mod running;

//! Merges and undoes real trees: what comes of it, whoever interferes and wherever it stops.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod branches;
mod committed;
mod crash;
mod git;
mod interference;
mod project;
mod round_trip;
mod selection;
mod unread;

//! The read-only tools: what they return, what they refuse, what they withhold.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod paths;
mod reading;
mod searching;
mod secrets;
mod support;

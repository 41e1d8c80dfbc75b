//! Plugins on the road: called like any tool, and asking like any caller.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod asking;
mod called;
mod kept;
mod managed;
mod paths;
mod secrets;
mod server;
#[path = "../support/mod.rs"]
mod support;
mod taken_back;

//! MCP servers in boxes: good ones, and those that would rather not be.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod calls;
mod hostile;
#[path = "../../../plugin/tests/boxed/support.rs"]
mod support;
mod talk;

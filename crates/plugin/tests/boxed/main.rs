//! Plugins in their boxes: what they see, what they are kept from, and that they go.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod contained;
mod entry;
mod hidden;
mod sees;
mod support;
mod watch;

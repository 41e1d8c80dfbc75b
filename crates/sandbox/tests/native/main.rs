//! The native launcher, for real: as whoever runs the tests.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and starts itself anew to be killed"
)]

mod ahead;
#[path = "../launchers/asks.rs"]
mod asks;
mod beside;
mod cpu;
mod denials;
mod ends;
#[path = "../launchers/grants.rs"]
mod grants;
mod init;
#[path = "../launchers/lifetime.rs"]
mod lifetime;
mod odd;
#[path = "../launchers/streams.rs"]
mod streams;
mod support;
mod trial;
mod view;

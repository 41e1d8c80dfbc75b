//! The launcher that uses bubblewrap, for real: as whoever runs the tests.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::panic,
    reason = "a test fails by panicking, and starts itself anew to be killed"
)]

#[path = "../launchers/asks.rs"]
mod asks;
mod ends;
#[path = "../launchers/grants.rs"]
mod grants;
#[path = "../launchers/lifetime.rs"]
mod lifetime;
mod refused;
#[path = "../launchers/streams.rs"]
mod streams;
mod support;
mod view;

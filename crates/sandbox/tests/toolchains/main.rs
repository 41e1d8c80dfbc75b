//! Real work with real toolchains, offline: what passes or fails outside does so inside, with
//! nothing granted but what the presets find and under the template's own limits.
//!
//! Runs as whoever runs the tests, with the toolchains that user has on `PATH`. One that is missing
//! is a failure that says how to get it.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and runs the same tools outside"
)]

mod go;
mod java;
mod node;
mod project;
mod python;
mod rust;

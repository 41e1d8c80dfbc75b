//! Plugins in real worker processes, under the real `strict` filter.
//!
//! The worker is this very program: [`worker`] serves when it is started for that.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod babble;
mod boxes;
mod calls;
mod code;
mod components;
mod examples;
mod generated;
mod hostile;
mod loading;
mod support;

/// Not a test of its own: the worker's side, when a test starts this program as a worker.
#[test]
fn worker() {
    support::serve_if_started_for_it();
}

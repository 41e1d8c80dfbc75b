//! The loop, with hands and models that do what a test says.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod conversation;
mod cut_off;
mod long;
mod support;

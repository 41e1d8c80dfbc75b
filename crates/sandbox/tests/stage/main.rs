//! Stages on real overlays, mounted in namespaces of their own the way the launcher does: with
//! attributes of the user, and, when the tests run as root, with trusted ones too.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and starts programs"
)]

mod changes;
mod closed;
mod conflicts;
mod copied;
mod hostile;
mod laid;
mod passing;
mod patches;
mod put_back;
mod random;
mod store;
mod support;
mod undone;

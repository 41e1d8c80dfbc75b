//! Plugins of every host on the whole road: the real command, a real kernel, real boxes.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod attacks;
mod embedded;
mod gates;
mod made;
mod managed;
mod reload;
mod running;
mod settings;
#[expect(
    dead_code,
    unused_imports,
    reason = "it serves tests of every command; these need a part of it"
)]
#[path = "../support/mod.rs"]
mod support;
mod words;

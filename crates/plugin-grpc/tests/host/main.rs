//! The host against plugins others could have written: in Go on HashiCorp's library, in Python, and
//! hostile ones. All of them run in their boxes.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod go;
mod handshakes;
mod hostile;
mod python;
mod services;
mod support;

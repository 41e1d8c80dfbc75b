//! The launcher that uses bubblewrap, for real: as whoever runs the tests.
#![cfg(target_os = "linux")]

mod ends;
mod lifetime;
mod refused;
mod streams;
mod support;
mod view;

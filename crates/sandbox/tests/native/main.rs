//! The native launcher, for real: as whoever runs the tests.
#![cfg(target_os = "linux")]

mod ends;
mod lifetime;
mod streams;
mod support;
mod view;

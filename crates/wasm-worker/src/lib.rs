//! The worker of one Wasm plugin: confines itself, compiles the plugin, and runs its calls, each in an
//! instance of its own (`docs/wasm-plugins.md`).
//!
//! A crate and a program (`airlock-wasm`) of their own because of what they bring along: the compiler of
//! Wasm takes its time to build, and whoever starts `airlock` for something else would load it each time. What host and worker say to each other is in `airlock-plugin-wasm`.
//!
//! Guarantee: [`serve`] reads no byte of a plugin before it is confined. Not guaranteed here: what a
//! worker that was taken over may do, which is for its box.

mod engine;
mod worker;

pub use worker::{ServeError, Warm, serve};

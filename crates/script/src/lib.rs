//! User scripts, in TypeScript or JavaScript, that judge requests.
//!
//! Two halves that share a wire format. [`serve`] is the worker: it confines itself, takes one
//! script, and answers about requests, each in an interpreter made for it and thrown away after.
//! [`ScriptExtension`] is the host: it keeps a worker warm, asks it, and holds it to its time.
//!
//! Guarantees: a script sees the request and nothing else - no file, network, clock, randomness or
//! earlier request. Whatever it does, the answer is one of four opinions or a denial. The host
//! believes nothing a worker says beyond that.
//!
//! Not guaranteed here: that the worker is confined. Whoever starts it puts it in a sandbox and
//! hands [`serve`] the filter; this crate only insists that the filter took before it reads code.

mod answer;
mod engine;
mod erase;
mod host;
mod link;
mod problem;
mod view;
mod wire;
mod worker;

pub use host::{Limits, Script, ScriptExtension, StartError};
pub use link::{Pipes, Spawn};
pub use problem::Problem;
pub use wire::Language;
pub use worker::{ServeError, Served, serve};

/// Types for editors: what a script is given and may return.
pub const TYPES: &str = include_str!("airlock.d.ts");

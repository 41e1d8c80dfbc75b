//! The `airlock` command: the only crate that prints or exits.
//!
//! It is two programs. [`airlock`] is the one people call: it hands a plain `airlock exec` to the
//! kernel that runs for the workspace, and everything else to [`airlock_main`], which lies beside it
//! and takes its process over. A program of that size takes longer to be loaded than a kernel takes to
//! run a short command.
//!
//! Invariant: what the small one does, the other would do just so. It decides nothing, and whatever there
//! is to be said of a command, the other says.

mod args;
mod columns;
mod commands;
mod config;
mod failure;
mod front;
mod models;
mod output;
mod panics;
mod place;
mod plugin_settings;
mod reading;
mod review;
mod terminal;
mod usage;
mod visible;
mod whole;
mod writing;

pub use front::airlock;
pub use whole::airlock_main;

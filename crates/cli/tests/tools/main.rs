//! The tools that change files and run programs, on a kernel whose worker is the real binary.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod anew;
mod approved;
mod automatic;
mod challenge;
mod changes;
mod coverage;
mod directories;
mod files;
mod git;
mod golden;
mod interrupted;
mod kept;
mod lasting;
mod loading;
mod named;
mod phases;
mod programs;
mod projects;
mod reads;
mod requests;
mod support;
mod work;

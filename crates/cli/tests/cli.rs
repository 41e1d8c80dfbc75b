//! The `airlock` command as people and programs meet it: every command, every way it fails.
//!
//! Snapshots are transcripts; read them as documentation of what the command says. After a wanted
//! change, `INSTA_UPDATE=always cargo test -p airlock-cli --test cli` writes them anew.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

#[path = "../../../tests/tools/every.rs"]
mod every;
mod cases {
    mod agent;
    mod approvals;
    mod audit;
    mod bootstrap;
    mod both_ways;
    mod certificate;
    mod choosing;
    mod color;
    mod config;
    mod cut_off;
    mod definitions;
    mod demo;
    mod doctor;
    mod exec;
    mod extensions;
    mod forged;
    mod help;
    mod hidden;
    mod hostile;
    mod init;
    mod inside;
    mod interrupts;
    mod kernel;
    mod kernel_load;
    #[cfg(target_os = "linux")]
    mod large;
    #[cfg(target_os = "linux")]
    mod linked;
    mod long;
    mod machine;
    mod mcp;
    mod merge;
    mod narrow;
    mod openai_server;
    mod plugin;
    mod plugin_new;
    mod policy;
    mod programs;
    mod renewal;
    mod review;
    mod session;
    mod slash;
    mod stock;
    mod streams;
    mod tool;
    mod trust;
    mod typing;
    mod usage;
    mod verify;
}

//! The cases of the `airlock` command once more, each with a kernel that runs for its workspace: with
//! the same snapshots, because nothing that anybody sees may differ.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[expect(
    dead_code,
    unused_imports,
    reason = "it serves every case; some are not run here"
)]
mod support;

#[path = "../../../tests/tools/every.rs"]
mod every;
// What is not here has no use for a kernel that runs. It reaches none (`config`, `demo`, `doctor`,
// `help`, `linked`), starts and ends kernels itself (`bootstrap`, `both_ways`, `cut_off`, `kernel`,
// `kernel_load`, `plugin_new`, `programs`, `stock`), counts every record of a log, among which a kernel that stays
// has its own (`audit`, `verify`), measures the memory of one process (`long`), or is about what only the
// command itself does (`hidden`, `large`).
mod cases {
    mod agent;
    mod approvals;
    mod certificate;
    mod choosing;
    mod color;
    mod definitions;
    mod exec;
    mod extensions;
    mod forged;
    mod hostile;
    mod init;
    mod inside;
    mod interrupts;
    mod machine;
    mod mcp;
    mod merge;
    mod narrow;
    mod openai_server;
    mod plugin;
    mod policy;
    mod review;
    mod session;
    mod slash;
    mod streams;
    mod tool;
    mod trust;
    mod typing;
    mod usage;
}

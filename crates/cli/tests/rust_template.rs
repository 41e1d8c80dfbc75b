//! The Rust templates of `airlock plugin new` compile, and their own tests hold.
#![expect(
    unreachable_pub,
    reason = "the template is a plugin's code, not Airlock's"
)]

#[path = "../src/commands/plugin/templates/rust-mcp/src/server.rs.txt"]
mod server;
#[path = "../src/commands/plugin/templates/rust-mcp/src/tools.rs.txt"]
mod tools;
#[path = "../src/commands/plugin/templates/rust-wasm/src/lib.rs.txt"]
mod wasm;

//! Makes a plugin written with `airlock-sdk` a program of its own.
//!
//! ```no_run
//! # struct Greeter;
//! # impl airlock_sdk::Plugin for Greeter {
//! #     fn tools(&self) -> Vec<airlock_sdk::Tool> { Vec::new() }
//! #     fn call(&self, _: &airlock_sdk::Context<'_>, tool: &str, _: &serde_json::Value)
//! #         -> Result<serde_json::Value, airlock_sdk::ToolError> {
//! #         Err(airlock_sdk::ToolError::unknown(tool))
//! #     }
//! # }
//! fn main() -> std::process::ExitCode {
//!     airlock_sdk_process::run(Greeter)
//! }
//! ```
//!
//! The program speaks go-plugin's protocol as a plugin does: a cookie in the environment, one line on
//! standard output that says where it listens, mutual TLS with certificates made for this one
//! connection, gRPC services on it. What a tool asks of the kernel goes over the kernel's own socket.
//! Calls run at the same time, each in a thread, so a plugin has to be `Sync`.
//!
//! Guarantee: nobody but the host whose certificate came with the environment is served; a tool that
//! panics is a call that failed; what nobody wants any more is told to the tool and taken back from
//! the kernel. Non-guarantee: nothing here confines the program, its sandbox does; a call that never
//! looks whether it is wanted goes on until it is done.

mod accept;
mod asked;
mod call;
mod execute;
mod handshake;
mod kernel;
mod output;
mod serve;
mod services;

pub use asked::{Asked, AskedError};
pub use serve::{ServeError, run, serve};

//! The host of plugins that are MCP servers.
//!
//! [`McpHost`] runs a server over its standard streams, in the box its manifest asks for, for as long
//! as the plugin runs. [`Conversation`] is the same protocol for one question and one answer, with
//! nothing around it: pure, for adapters.
//!
//! Guarantee: whatever a server says is bounded and is data. It can ask nothing of the client:
//! sampling, roots and elicitation are refused. Non-guarantee: a server that says at some later
//! moment that its tools changed is not asked again; the tools are those of its start.

mod describe;
#[cfg(target_os = "linux")]
mod host;
#[cfg(target_os = "linux")]
mod line;
mod message;
mod once;
pub mod probe;
#[cfg(target_os = "linux")]
mod server;

#[cfg(target_os = "linux")]
pub use host::McpHost;
pub use once::{Asked, Conversation, meaning};

//! The host of plugins that speak go-plugin's gRPC protocol.
//!
//! Airlock is what go-plugin calls the client: it starts the plugin's program, reads one line that
//! says where the plugin listens, connects to that socket with mutual TLS, and calls services on it.
//! So a program written with any go-plugin library runs unchanged, if it serves Airlock's services.
//!
//! Guarantee: whatever a plugin says or leaves unsaid, a start and a call end within their deadlines
//! with a typed error, hold bounded memory, and connect to nothing but sockets in the directory that
//! plugin shares with Airlock. Non-guarantee: what confines the process is the box's business,
//! and whether what it asks of the kernel may happen is the kernel's.
//!
//! Invariant: one plugin, one connection. It is never made again; a plugin whose connection is lost
//! has ended. So nothing reattaches, neither to a plugin of an earlier Airlock nor to whoever took
//! over its socket.

mod address;
mod broker;
mod channel;
mod connect;
mod execute;
mod fault;
mod handshake;
mod host;
mod kernel;
mod line;
mod output;
mod plugin;
#[doc(hidden)]
pub mod probe;
mod provider;
mod ready;
mod rpc;
mod settings;

/// What the definitions in `proto/` compile to.
pub use airlock_plugin_protocol::messages as proto;
pub use host::GrpcHost;
pub use plugin::GrpcPlugin;
pub use provider::Piece;
pub use settings::{COOKIE, PROTOCOL_VERSIONS, Settings};

//! Governed tools for any MCP client, over stdio and streamable HTTP.
//!
//! A client's tool call becomes a [`Call`](airlock_kernel::Call) on the [`Road`], by the front
//! `mcp`; what comes back becomes a tool result. Nothing here decides, reads a file or runs a
//! program, so there is nothing a client could reach around policy.
//!
//! Guarantees: memory is bounded whatever a client sends or refuses to read, a request that is
//! cancelled ends the program it started, and over HTTP nobody is served who does not know the
//! token or comes by another name than the server's own.
//! Non-guarantee: whoever holds the token, or the other end of stdio, is the client.

mod admit;
mod answer;
mod calls;
mod describe;
mod elicit;
mod handler;
mod http;
mod in_flight;
mod lines;
mod names;
mod resources;
mod road;
mod schemas;
mod stdio;
mod stop;
#[cfg(test)]
mod tests;
mod token;

pub use http::{BindError, Bound};
pub use names::{LeftOut, left_out};
pub use road::{Road, ToolInfo, Unanswered, begin, begun, end};
pub use stdio::serve_stdio;
pub use stop::{ServeError, Stop};
pub use token::{Token, TokenError};

//! How a running kernel and its clients talk: frames, messages, handshake, connections.
//!
//! A local stream socket carries frames of JSON. The operating system says who is at the other end
//! before a byte of theirs is read. Requests on one connection run side by side and can be taken
//! back; whoever does not read is waited for, never buffered for.
//!
//! Guarantee: a peer can use up its own connection and the share its socket has of the server,
//! nothing else. Non-guarantee: what a request may do is not decided here; that is the
//! [`Handler`]'s.

mod awake;
mod cancel;
mod client;
mod error;
mod frame;
mod handshake;
mod limits;
mod message;
mod peer;
mod server;
mod socket;

pub use cancel::CancelToken;
pub use client::{Arrived, Canceller, Client, ClientError, Hailed};
pub use error::{WireError, code};
pub use frame::{Decoder, FrameError, encode};
pub use handshake::{API_NEWEST, API_OLDEST, Hello, Supported, negotiate};
pub use limits::{DEFAULT_FRAME_BYTES, FRAME_BYTES, Limits};
pub use message::{Answer, Event, Message, MessageError, Reply, Request, parse, text};
pub use peer::{PeerError, Via, Visitor};
pub use server::{
    Handler, Incoming, SandboxSocket, SandboxVisits, Server, ServerConfig, ServerError,
};
pub use socket::{Socket, SocketError, connect};

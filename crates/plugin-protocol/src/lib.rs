//! What a plugin process and its host say to each other, and how they know each other.
//!
//! go-plugin's protocol has two ends, and here is what is the same at both: the messages and methods
//! of `proto/`, answering them, and connections that only the one expected peer gets. The host uses
//! it, and so does every plugin written with the SDK.
//!
//! Guarantee: with TLS, a connection is one to the holder of the certificate that was told, or none;
//! whoever is slow to prove that, or one too many, holds up nobody. Non-guarantee: nothing in a message
//! is checked.
//!
//! The messages are kept as they compile, so that no build needs a compiler of definitions: a test
//! compiles them anew and compares.

mod accept;
pub mod messages;
mod method;
pub mod server;
pub mod tls;

pub use accept::{Accepted, Carrier, Door, incoming};
pub use method::{Duplex, Method, Streaming, Unary};

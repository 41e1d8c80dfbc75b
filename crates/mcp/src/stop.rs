//! The beginning and the end of a server: its runtime, and what stops it.

use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

/// Threads that carry messages; the work itself is done on threads of its own.
const CARRIERS: usize = 2;
/// Room for the calls that run at once, and for the standard streams.
const BLOCKING: usize = crate::calls::AT_ONCE + 4;

/// Stops a server, from any thread.
#[derive(Debug, Clone, Default)]
pub struct Stop(CancellationToken);

impl Stop {
    /// For a server that is to go on, as yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the server: running programs are ended, and what they left is recorded.
    pub fn stop(&self) {
        self.0.cancel();
    }

    pub(crate) fn token(&self) -> &CancellationToken {
        &self.0
    }
}

/// Why a server ended other than by its client or by [`Stop`].
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// No threads could be had.
    #[error("cannot start the server's threads")]
    Threads(#[source] std::io::Error),
    /// The socket is of no use.
    #[error("cannot accept connections")]
    Listen(#[source] std::io::Error),
    /// The client did not begin as the protocol says.
    #[error("the client did not begin an MCP session: {0}")]
    Greeting(String),
}

impl ServeError {
    /// What would help, where something would.
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Threads(_) => Some("the system refuses threads: see its limits"),
            Self::Listen(_) => None,
            Self::Greeting(_) => Some("this command is for MCP clients: see docs/mcp.md"),
        }
    }
}

pub(crate) fn runtime() -> Result<Runtime, ServeError> {
    Builder::new_multi_thread()
        .worker_threads(CARRIERS)
        .max_blocking_threads(BLOCKING)
        .thread_name("mcp")
        .enable_all()
        .build()
        .map_err(ServeError::Threads)
}

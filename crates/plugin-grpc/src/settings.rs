//! Limits and names of the protocol.

use std::time::Duration;

/// The variable, and its value, by which a plugin knows that Airlock started it. No secret: it keeps
/// people from running a plugin by hand and wondering.
pub const COOKIE: (&str, &str) = ("AIRLOCK_PLUGIN", "4e0c1d0f6f5b4d1fa9b35a8d1c7e2b90");

/// Versions of Airlock's services that are spoken, the newest first.
pub const PROTOCOL_VERSIONS: &[u32] = &[1];

/// What is waited for and kept of a plugin.
#[derive(Debug, Clone)]
pub struct Settings {
    /// From the start of its program until it is ready.
    pub start: Duration,
    /// For an answer to a question about its health.
    pub health: Duration,
    /// Bytes of one message.
    pub message_bytes: usize,
    /// Bytes that are kept of what it prints.
    pub output_bytes: usize,
    /// Tools, or models, it may describe.
    pub descriptions: usize,
    /// Calls to the kernel it may have under way; more wait.
    pub callbacks: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(30),
            health: Duration::from_secs(5),
            message_bytes: 4 * 1024 * 1024,
            output_bytes: 64 * 1024,
            descriptions: 256,
            callbacks: 16,
        }
    }
}

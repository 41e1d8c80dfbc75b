//! How much one connection, and all of them, may use.

use std::time::Duration;

/// Longest frame unless configured otherwise: 16 MiB.
pub const DEFAULT_FRAME_BYTES: usize = 16 * 1024 * 1024;

/// The limits of one socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest frame, in bytes after its length.
    pub frame_bytes: usize,
    /// Most connections at once.
    pub connections: usize,
    /// Most requests under way on one connection.
    pub in_flight: usize,
    /// Most bytes of requests under way on one connection.
    pub in_flight_bytes: usize,
    /// Most requests of one connection that run at once; the others wait their turn.
    pub running: usize,
    /// Most requests of all connections of the socket that run at once.
    pub workers: usize,
    /// Most requests of all connections of the socket that wait for others beside those that run:
    /// see [`crate::CancelToken::leave`].
    pub waiting: usize,
    /// Most bytes that all connections of the socket together may have under way in long frames.
    pub long_bytes: usize,
    /// Time for the handshake.
    pub handshake: Duration,
    /// Time for a frame to arrive once it has begun, and for one to be taken by the other end.
    pub frame: Duration,
    /// Longest silence on a connection without a request under way.
    pub idle: Duration,
    /// Most descriptors that wait to be claimed by a request.
    pub descriptors: usize,
}

impl Limits {
    /// For the socket of the kernel's own user.
    pub const MAIN: Self = Self {
        frame_bytes: DEFAULT_FRAME_BYTES,
        connections: 256,
        in_flight: 128,
        in_flight_bytes: 2 * DEFAULT_FRAME_BYTES,
        running: 16,
        workers: 64,
        waiting: 128,
        long_bytes: 16 * DEFAULT_FRAME_BYTES,
        handshake: Duration::from_secs(5),
        frame: Duration::from_secs(30),
        idle: Duration::from_mins(30),
        descriptors: 8,
    };

    /// For a sandbox's own: what is inside is hostile, and wants little.
    pub const SANDBOX: Self = Self {
        frame_bytes: 1024 * 1024,
        connections: 8,
        in_flight: 16,
        in_flight_bytes: 2 * 1024 * 1024,
        running: 4,
        workers: 8,
        waiting: 4,
        long_bytes: 4 * 1024 * 1024,
        handshake: Duration::from_secs(5),
        frame: Duration::from_secs(30),
        idle: Duration::from_mins(10),
        descriptors: 0,
    };

    /// Frames up to this size count as short: every connection may have one, whatever the others
    /// have under way.
    pub(crate) const SHORT: usize = 64 * 1024;
}

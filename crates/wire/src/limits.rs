//! How much one connection, and all of them, may use.

use std::time::Duration;

/// Longest frame unless configured otherwise: 16 MiB.
pub const DEFAULT_FRAME_BYTES: usize = 16 * 1024 * 1024;

/// Least and most that may be configured: what a kernel says of itself fits into the first, and the
/// second does not take the machine. A request with content or a long environment may not fit into the
/// first: that is [`crate::ClientError::TooLong`], and a command then has a kernel of its own.
pub const FRAME_BYTES: std::ops::RangeInclusive<usize> = 64 * 1024..=64 * 1024 * 1024;

/// The limits of one socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest frame, in bytes after its length.
    pub frame_bytes: usize,
    /// Most connections at once.
    pub connections: usize,
    /// Most of them that one process of the server's own user has.
    pub process_connections: usize,
    /// Most of them that another user has, all processes together.
    pub user_connections: usize,
    /// The last so many of them are for whoever has fewer than [`Limits::FEW`].
    pub spare_connections: usize,
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
    /// Most descriptors of one connection that wait to be claimed by a request, and most that its
    /// requests under way have.
    pub descriptors: usize,
}

impl Limits {
    /// For the socket of the kernel's own user.
    pub const MAIN: Self = Self {
        frame_bytes: DEFAULT_FRAME_BYTES,
        connections: 512,
        process_connections: 256,
        user_connections: 32,
        spare_connections: 64,
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
        process_connections: 8,
        user_connections: 8,
        spare_connections: 0,
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

    /// The same for frames of up to `bytes`, kept within [`FRAME_BYTES`]: what is under way may be as
    /// many frames as before.
    #[must_use]
    pub fn with_frames_of(self, bytes: usize) -> Self {
        let bytes = bytes.clamp(*FRAME_BYTES.start(), *FRAME_BYTES.end());
        let scaled = |limit: usize| (limit / self.frame_bytes).saturating_mul(bytes);
        Self {
            frame_bytes: bytes,
            in_flight_bytes: scaled(self.in_flight_bytes),
            long_bytes: scaled(self.long_bytes),
            ..self
        }
    }

    /// Frames up to this size count as short: every connection may have one, whatever the others
    /// have under way.
    pub(crate) const SHORT: usize = 64 * 1024;

    /// Whoever has fewer connections has few. A command has one at a time, and that the last has ended
    /// may not be noticed yet when the next begins.
    pub const FEW: usize = 4;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_another_length_stay_in_range_and_keep_their_number() {
        for (asked, got) in [
            (0, 64 * 1024),
            (1024 * 1024, 1024 * 1024),
            (usize::MAX, 64 * 1024 * 1024),
        ] {
            let limits = Limits::MAIN.with_frames_of(asked);
            assert_eq!(limits.frame_bytes, got);
            assert_eq!(limits.in_flight_bytes, 2 * got);
            assert_eq!(limits.long_bytes, 16 * got);
        }
        let same = Limits::MAIN.with_frames_of(DEFAULT_FRAME_BYTES);
        assert_eq!(same, Limits::MAIN);
    }
}

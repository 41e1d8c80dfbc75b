//! Bounds on what Airlock reads before it trusts anything, in one place.

/// Longest capability, in bytes.
pub const CAPABILITY_BYTES: usize = 1_024;
/// Most segments of a capability.
pub const CAPABILITY_SEGMENTS: usize = 32;
/// Largest policy file, in bytes: 10,000 rules of a generous size fit.
pub const POLICY_BYTES: usize = 8 * 1024 * 1024;
/// Deepest nesting of a policy file.
pub const POLICY_DEPTH: usize = 64;
/// Most nodes (scalars, sequences, mappings) of a policy file.
pub const POLICY_NODES: usize = 1_000_000;
/// Longest path in a request, in bytes; Linux's own PATH_MAX.
pub const PATH_BYTES: usize = 4_096;
/// Most paths one request may name.
pub const REQUEST_PATHS: usize = 100_000;
/// Most values (texts, numbers, lists, objects) in one message to a kernel: as many paths as a request
/// may name fit, and as much again.
pub const MESSAGE_VALUES: usize = 200_000;
/// Longest input or output summary in an audit record, in characters.
pub const SUMMARY_CHARS: usize = 500;

//! What a plugin written in Rust needs.

//! What a path holds, as far as a merge keeps it.

use airlock_core::Digest;
use airlock_sandbox::stage::TreePath;
use serde::{Deserialize, Serialize};

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Node {
    /// Nothing.
    Absent,
    /// A file.
    File {
        /// Permission bits.
        mode: u32,
        /// Bytes.
        size: u64,
        /// Digest of its content.
        sha256: Digest,
    },
    /// A symbolic link.
    Symlink {
        /// Where it points.
        target: TreePath,
    },
    /// A directory.
    Directory {
        /// Permission bits.
        mode: u32,
    },
    /// Something that is never merged: a pipe, a socket, a device.
    Other,
}

impl Node {
    /// Whether it is a directory, whatever its mode.
    pub const fn is_directory(&self) -> bool {
        matches!(self, Self::Directory { .. })
    }

    /// Whether it is a file.
    pub const fn is_file(&self) -> bool {
        matches!(self, Self::File { .. })
    }
}

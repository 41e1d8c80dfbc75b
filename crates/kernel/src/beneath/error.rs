//! Why opening beneath the root failed.

use std::io;

/// Why a directory cannot be a workspace root.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// It is not there, is no directory, or may not be opened.
    #[error("cannot open the workspace root `{path}`: {source}")]
    Io {
        /// The path given, unreadable bytes replaced.
        path: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Rules, capabilities and the audit log speak UTF-8.
    #[error("the workspace root `{path}` is not valid UTF-8")]
    NotUtf8 {
        /// The path with unreadable bytes replaced.
        path: String,
    },
    /// Safe opening needs a Linux system call.
    #[error("opening files beneath a workspace root is not supported on this platform")]
    Unsupported,
}

impl RootError {
    /// How to put it right, where that is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Io { .. } => None,
            Self::NotUtf8 { .. } => Some("rename the directory, or use a UTF-8 path to it"),
            Self::Unsupported => Some("run Airlock on Linux 5.6 or newer"),
        }
    }
}

/// Why a path beneath the root could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Nothing is there (any more).
    #[error("not found")]
    NotFound,
    /// A symlink on the way leads out of the workspace, or in circles.
    #[error("a symlink on the way leads out of the workspace or in circles")]
    Escapes,
    /// The operating system refuses.
    #[error("permission denied by the operating system")]
    PermissionDenied,
    /// A directory, FIFO, socket or device where a regular file is wanted.
    #[error("not a regular file")]
    NotAFile,
    /// Something else where a directory is wanted.
    #[error("not a directory")]
    NotADirectory,
    /// What was reached has a name that is not UTF-8, so no rule can judge it.
    #[error("its real name is not valid UTF-8")]
    UnreadableName,
    /// `openat2` is missing.
    #[error("the operating system kernel is too old (needs Linux 5.6)")]
    TooOld,
    /// Safe opening needs a Linux system call.
    #[error("opening files beneath a workspace root is not supported on this platform")]
    Unsupported,
    /// Anything else the operating system reports.
    #[error("{0}")]
    Io(#[source] io::Error),
}

impl OpenError {
    /// A stable word for the kind of failure.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Escapes => "escapes",
            Self::PermissionDenied => "permission_denied",
            Self::NotAFile => "not_a_file",
            Self::NotADirectory => "not_a_directory",
            Self::UnreadableName => "unreadable_name",
            Self::TooOld => "kernel_too_old",
            Self::Unsupported => "unsupported_platform",
            Self::Io(_) => "io",
        }
    }

    /// Whether a directory entry was removed, or replaced by something else, since it was seen.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Self::NotFound | Self::Escapes | Self::NotADirectory => true,
            Self::PermissionDenied
            | Self::NotAFile
            | Self::UnreadableName
            | Self::TooOld
            | Self::Unsupported
            | Self::Io(_) => false,
        }
    }

    /// Whether the same call may succeed a moment later.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Io(_) => true,
            Self::NotFound
            | Self::Escapes
            | Self::PermissionDenied
            | Self::NotAFile
            | Self::NotADirectory
            | Self::UnreadableName
            | Self::TooOld
            | Self::Unsupported => false,
        }
    }

    /// How to put it right, where that is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotAFile => Some("`fs.list` shows directories; special files cannot be read"),
            Self::NotADirectory => Some("`fs.read` reads files"),
            Self::Escapes => Some("name the file by its path inside the workspace"),
            Self::TooOld | Self::Unsupported => Some("run Airlock on Linux 5.6 or newer"),
            Self::NotFound | Self::PermissionDenied | Self::UnreadableName | Self::Io(_) => None,
        }
    }
}

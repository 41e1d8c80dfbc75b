//! What the file worker is told to do, and what it answers: JSON on its standard streams.
//!
//! Paths are those the decision judged, relative to the workspace, with every symlink already
//! followed: the worker follows none, so what changed on the way since then is refused.

use airlock_core::Digest;
use serde::{Deserialize, Serialize};

/// Longest text `fs.write` takes, in bytes.
pub(super) const TEXT_BYTES: usize = 4 * 1024 * 1024;
/// Longest patch.
pub(super) const PATCH_BYTES: usize = 1024 * 1024;
/// Longest file that is patched, or compared with a digest.
pub(super) const FILE_BYTES: u64 = 32 * 1024 * 1024;
/// Longest answer of a worker that is read.
pub(super) const ANSWER_BYTES: usize = 512 * 1024;

/// What must be true of a file before it is replaced or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Expected {
    /// Anything, or nothing.
    Whatever,
    /// It is not there.
    Absent,
    /// It has this content.
    Content(Digest),
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Operation {
    Write {
        path: String,
        text: String,
        expected: Expected,
    },
    Patch {
        text: String,
        /// For each file of the patch, where it is and where it goes.
        places: Vec<Place>,
    },
    Move {
        from: String,
        to: String,
        replace: bool,
    },
    Delete {
        path: String,
        recursive: bool,
        expected: Expected,
    },
}

/// Where a file of a patch really is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Place {
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
}

/// What was done to one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Changed {
    pub(super) path: String,
    /// `created`, `replaced`, `moved` or `deleted`.
    pub(super) change: Change,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<u64>,
    /// Of the new content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) digest: Option<Digest>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Change {
    Created,
    Replaced,
    Moved,
    Deleted,
}

/// The one answer of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Answer {
    Done { files: Vec<Changed> },
    Refused(Refusal),
}

/// Why files were not changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(deny_unknown_fields)]
#[error("{what}")]
pub struct Refusal {
    pub(super) code: Code,
    pub(super) what: String,
    pub(super) fix: Option<String>,
}

impl Refusal {
    pub(super) fn new(code: Code, what: impl Into<String>) -> Self {
        Self {
            code,
            what: what.into(),
            fix: code.hint().map(str::to_owned),
        }
    }

    pub(crate) const fn code(&self) -> &'static str {
        self.code.as_str()
    }

    pub(crate) fn hint(&self) -> Option<&str> {
        self.fix.as_deref()
    }
}

/// A stable word for why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Code {
    NotFound,
    AlreadyThere,
    NotAFile,
    NotADirectory,
    NotEmpty,
    Escapes,
    Outside,
    DigestDiffers,
    DoesNotApply,
    Binary,
    TooLarge,
    PermissionDenied,
    Io,
}

impl Code {
    const fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::AlreadyThere => "already_there",
            Self::NotAFile => "not_a_file",
            Self::NotADirectory => "not_a_directory",
            Self::NotEmpty => "not_empty",
            Self::Escapes => "escapes",
            Self::Outside => "outside_workspace",
            Self::DigestDiffers => "digest_differs",
            Self::DoesNotApply => "does_not_apply",
            Self::Binary => "binary",
            Self::TooLarge => "too_large",
            Self::PermissionDenied => "permission_denied",
            Self::Io => "io",
        }
    }

    const fn hint(self) -> Option<&'static str> {
        match self {
            Self::AlreadyThere => Some(
                "to replace it, give the digest of what is there, or where something is moved `replace`",
            ),
            Self::NotAFile => Some("only regular files are written"),
            Self::NotEmpty => Some("set `recursive` to delete a directory with what is in it"),
            Self::Escapes => Some("name the file by its path inside the workspace"),
            Self::Outside => Some("name a path beneath the workspace root"),
            Self::DigestDiffers | Self::DoesNotApply => {
                Some("read the file again: it is not what the change was made for")
            }
            Self::Binary => Some("`fs.write` replaces a file as a whole"),
            Self::TooLarge => Some("write less at a time, or let a program do it"),
            Self::NotFound | Self::NotADirectory | Self::PermissionDenied | Self::Io => None,
        }
    }
}

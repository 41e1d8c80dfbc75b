//! What a diff says: plain data, ordered by path.

use super::beneath::NodeKind;
use super::content::Hunk;
use super::path::TreePath;
use super::record::StageKind;
use super::render::Piece;
use airlock_core::Digest;
use serde::Serialize;
use std::time::Duration;

/// A person reads no more of one file than this.
const SHOWN_TEXT: u64 = 1 << 20;
/// All that is shown is held in memory.
const SHOWN_TOGETHER: u64 = 64 << 20;
/// Each of these takes no time: what a person reads is among them.
const ALWAYS_READ: u64 = 64 << 10;
/// A second or two on a slow disk.
const LONGEST_READ: u64 = 256 << 20;
/// Half a minute on a slow disk.
const READ_TOGETHER: u64 = 4 << 30;

/// How far a diff goes. Whatever a stage holds, a diff ends, and fits in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiffOptions {
    /// The longest file that is shown as text.
    pub max_text_bytes: u64,
    /// The most text of all files together.
    pub max_total_text_bytes: u64,
    /// The longest file that is read at all. What is not read has no digest, and is not merged.
    pub max_file_bytes: u64,
    /// The longest file that is read whatever the others come to.
    pub always_read_bytes: u64,
    /// The most bytes that are read of all longer files together.
    pub max_total_bytes: u64,
    /// The most files and directories that are looked at.
    pub max_entries: u64,
    /// Unchanged lines around a change.
    pub context: usize,
    /// The longest search for the smallest diff of one file; after it a larger one is given.
    pub effort: Duration,
    /// The same for all files together.
    pub total_effort: Duration,
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self {
            max_text_bytes: SHOWN_TEXT,
            max_total_text_bytes: SHOWN_TOGETHER,
            max_file_bytes: LONGEST_READ,
            always_read_bytes: ALWAYS_READ,
            max_total_bytes: READ_TOGETHER,
            max_entries: 500_000,
            context: 3,
            effort: Duration::from_millis(500),
            total_effort: Duration::from_secs(10),
        }
    }
}

/// What a stage changed, by path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diff {
    /// How the stage holds changes.
    pub kind: StageKind,
    /// What could be merged.
    pub changes: Vec<Change>,
    /// What never leaves a stage.
    pub refused: Vec<Refused>,
    /// Changed here and, since the stage began, in the real tree too.
    pub conflicts: Vec<Conflict>,
    /// What had set-id or sticky bits, which the change is without.
    pub stripped: Vec<TreePath>,
    /// Whether the machine was started anew since something of this was written. Unless it was shut
    /// down in order, files may be empty, torn or missing.
    pub suspect: bool,
    /// Whether a run was cut off in the stage, and judged, and none has ended there since. What it was
    /// writing may be half written.
    pub cut_off: bool,
    /// Files and directories that were looked at, in both trees.
    pub visited: u64,
}

impl Diff {
    /// Whether the stage changed nothing.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.refused.is_empty()
    }

    /// The diff as JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// The diff as a patch that `git apply` and `patch -p1` take.
    ///
    /// What that format has no words for is in lines that those skip: empty directories that came or
    /// went, and permission bits other than the one to execute where they changed. Not in it are the
    /// content of binary and large files, and the modes of directories that came with something in
    /// them.
    pub fn render_unified(&self) -> String {
        super::render::render(&self.changes)
    }

    /// The same in its parts, in their order.
    pub fn pieces(&self, take: impl FnMut(Piece<'_>)) {
        super::render::pieces(&self.changes, take);
    }
}

/// One changed path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Where, relative to the workspace.
    pub path: TreePath,
    /// How.
    #[serde(flatten)]
    pub kind: ChangeKind,
    /// What is in the real tree: at `from` for a rename.
    pub old: Option<Facts>,
    /// What is in the stage.
    pub new: Option<Facts>,
    /// What of the content changed.
    pub content: Content,
    /// Whether the file has another name in the stage. Merged, it becomes a file of its own.
    pub hard_linked: bool,
}

/// How a path changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum ChangeKind {
    /// It was not there.
    Added,
    /// Content, or where a link points, and perhaps the mode.
    Modified,
    /// It is not there any more. What was in a directory is listed too.
    Deleted,
    /// It was elsewhere, with the same content.
    Renamed {
        /// Where. It is not listed as deleted.
        from: TreePath,
    },
    /// Only the permission bits.
    ModeChanged,
    /// It was something else: a file is now a link, a directory a file and so on.
    TypeChanged,
}

/// What is known of one side of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// What it is.
    pub kind: NodeKind,
    /// Permission bits; on the old side with the special ones.
    pub mode: u32,
    /// Bytes of a file.
    pub size: u64,
    /// The digest of a file, if it was read, or of where a link points.
    pub sha256: Option<Digest>,
    /// Where a link points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<TreePath>,
}

/// What of the content changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "form", rename_all = "snake_case")]
pub enum Content {
    /// Nothing, or there is none.
    None,
    /// Lines.
    Text {
        /// The changed stretches.
        hunks: Vec<Hunk>,
    },
    /// Not text: sizes and digests are in the facts.
    Binary,
    /// More than the options allow to show: sizes are in the facts, and digests unless it was more
    /// than they allow to read.
    TooLarge,
    /// It turned from one kind to another: all of the old went, all of the new came.
    Replaced {
        /// What went.
        old: Box<Content>,
        /// What came.
        new: Box<Content>,
    },
}

/// Something that never leaves a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Where.
    pub path: TreePath,
    /// Why.
    pub reason: RefusedReason,
}

/// Why something never leaves a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusedReason {
    /// It is a named pipe.
    Fifo,
    /// It is a socket.
    Socket,
    /// It is a device.
    Device,
    /// It runs with another's rights.
    SetId,
    /// We may not read it, so that what it holds is not known.
    Unreadable,
    /// Its path is longer than the system takes.
    PathTooLong,
    /// Something is mounted there in the real tree.
    Mounted,
}

/// A path that was changed in the real tree too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conflict {
    /// Where.
    pub path: TreePath,
    /// What happened in the real tree.
    pub reason: ConflictReason,
}

/// What happened in the real tree after the stage began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConflictReason {
    /// It was written to, or its attributes changed.
    Changed,
    /// It came to be.
    Appeared,
    /// It went away.
    Vanished,
    /// The clock is behind the stage's beginning, or was: whether anything happened cannot be said.
    ClockWentBack,
}

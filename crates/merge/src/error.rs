//! Why a merge did not begin.

use airlock_sandbox::stage::{StageError, TreePath};
use std::io;
use std::path::PathBuf;

/// Why a merge did not begin. The real tree is as it was.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// The stage cannot be used.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// A file of ours, of the stage or of the tree cannot be used.
    #[error("cannot {what} `{}`", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It was begun and could not be brought to an end; the next command carries it on.
    #[error("merge `{id}` was begun and is not complete: {source}")]
    Unfinished {
        /// The merge.
        id: String,
        /// What stopped it.
        #[source]
        source: Box<MergeError>,
    },
    /// It is done, and whoever has to know of it could not be told; the next command tells them.
    #[error("merge `{id}` is done, but its session does not know: {why}")]
    Untold {
        /// The merge.
        id: String,
        /// What stopped it.
        why: String,
    },
    /// The journal cannot be made sense of.
    #[error("the journal of merge `{id}` cannot be read: {why}")]
    Damaged {
        /// The merge.
        id: String,
        /// What is wrong with it.
        why: String,
    },
    /// It was written by a later version.
    #[error("merge `{id}` has format {format}; this version knows formats up to {known}")]
    NewerFormat {
        /// The merge.
        id: String,
        /// Its format.
        format: u32,
        /// The latest known.
        known: u32,
    },
    /// Another merge is under way.
    #[error("another merge of this workspace is under way")]
    Busy,
    /// A path that was chosen is not among the changes.
    #[error("`{}` is not changed in this stage", .0.as_path().display())]
    NotChanged(TreePath),
    /// Hunks were chosen of something that has none, or that there are not.
    #[error("`{}` has no hunk {hunk}", path.as_path().display())]
    NoHunk {
        /// The path.
        path: TreePath,
        /// The number asked for, from one.
        hunk: usize,
    },
    /// A path that was chosen is longer than what is read, alone or with the others.
    #[error(
        "`{}` was not read, and is not merged: files over 256 MiB are not read, nor those over \
         64 KiB beyond 4 GiB together",
        path.as_path().display()
    )]
    Unread {
        /// The path.
        path: TreePath,
    },
    /// The stage is not what was looked at.
    #[error("the stage changed since it was reviewed")]
    ChangedSinceReview,
    /// What would be undone, or what is in its place, is not what was looked at.
    #[error("the tree changed since it was looked at")]
    ChangedSinceLook,
    /// What was cut off in the stage was never looked at.
    #[error("a command in stage `{0}` was cut off, and what it did there was not judged")]
    Unjudged(String),
    /// There is no such merge.
    #[error("there is no merge `{0}`")]
    Missing(String),
    /// There is nothing to undo.
    #[error("there is no merge to undo")]
    NothingToUndo,
    /// What is in the way cannot be merged over.
    #[error("`{}` cannot be merged: {why}", path.as_path().display())]
    Unmergeable {
        /// The path.
        path: TreePath,
        /// Why.
        why: &'static str,
    },
}

impl MergeError {
    /// How to mend it.
    pub fn hint(&self) -> Option<String> {
        let fix = match self {
            Self::Stage(error) => return error.hint().map(ToString::to_string),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free some space and merge again; nothing was changed"
            }
            Self::Io { .. } => "nothing was changed; merge again once it can be used",
            Self::Unfinished { .. } => {
                "each file is old or new; any `airlock` command completes it once it can"
            }
            Self::Untold { .. } => "any `airlock` command tells it once it can",
            Self::Damaged { .. } => "keep the directory; nothing more is done with that merge",
            Self::NewerFormat { .. } => "use the version that made it, or a later one",
            Self::Busy => "wait until it is done",
            Self::NotChanged(_) => "`airlock diff --stat` lists what is",
            Self::NoHunk { .. } => "`airlock diff` shows the hunks, counted from one in each file",
            Self::Unread { .. } => "leave it out with --files or --interactive, or make it smaller",
            Self::ChangedSinceReview => "look at `airlock diff` again, then merge",
            Self::ChangedSinceLook => {
                "nothing was undone; look again at what the undo would do: `airlock undo`"
            }
            Self::Unjudged(stage) => {
                return Some(format!(
                    "`airlock exec --stage {stage} -- true` judges it; then look at it again"
                ));
            }
            Self::Missing(_) | Self::NothingToUndo => "`airlock undo --list` lists what there is",
            Self::Unmergeable { .. } => "move it away, or leave that path out with --files",
        };
        Some(fix.to_owned())
    }
}

pub(crate) fn failed(
    what: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> MergeError {
    let path = path.into();
    move |source| MergeError::Io { what, path, source }
}

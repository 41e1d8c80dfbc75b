//! Why something could not be done with a stage.

use super::name::{InvalidName, StageName};
use super::path::TreePath;
use std::io;
use std::path::PathBuf;

/// Why something could not be done with a stage.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// The name is none.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// There is no such stage.
    #[error("there is no stage `{0}`")]
    Missing(StageName),
    /// The stage belongs to another workspace.
    #[error("stage `{name}` belongs to the workspace `{}`", workspace.display())]
    OtherWorkspace {
        /// The stage.
        name: StageName,
        /// Its workspace.
        workspace: PathBuf,
    },
    /// A sandbox uses it.
    #[error("stage `{name}` is in use{}", holder(*pid))]
    InUse {
        /// The stage.
        name: StageName,
        /// The process that claimed it, where that is known.
        pid: Option<u32>,
    },
    /// It was dropped after it had been opened.
    #[error("stage `{0}` was dropped meanwhile")]
    Dropped(StageName),
    /// A later version of Airlock made it.
    #[error("stage `{name}` has format {format}; this version knows {known} and earlier")]
    NewerFormat {
        /// The stage.
        name: StageName,
        /// The format found.
        format: u32,
        /// The latest format known here.
        known: u32,
    },
    /// Its own files cannot be made sense of.
    #[error("stage `{name}` is damaged: {why}")]
    Damaged {
        /// The stage.
        name: StageName,
        /// What is wrong.
        why: String,
    },
    /// The directory of stages is not ours alone.
    #[error("`{}` is not a directory of our own", .0.display())]
    NotOurs(PathBuf),
    /// The workspace and the directory of stages lie in one another.
    #[error("`{}` and the stages in `{}` lie in one another", workspace.display(), stages.display())]
    Overlap {
        /// The directory of stages.
        stages: PathBuf,
        /// The workspace.
        workspace: PathBuf,
    },
    /// The workspace is more than may be copied.
    #[error(
        "the workspace is more than a copied stage may hold: over {files} files or {bytes} bytes \
         (at most {most_files} files and {most_bytes} bytes)"
    )]
    TooLargeToCopy {
        /// Files counted when it was given up.
        files: u64,
        /// Bytes counted when it was given up.
        bytes: u64,
        /// The most files.
        most_files: u64,
        /// The most bytes.
        most_bytes: u64,
    },
    /// The workspace holds something that cannot be copied.
    #[error("cannot copy `{}` to a stage: {why}", path.as_path().display())]
    NotCopied {
        /// What.
        path: TreePath,
        /// Why not.
        why: &'static str,
    },
    /// The stage carries a mark that no mount of ours makes.
    #[error("`{}` carries the overlay mark `{mark}`, which stages do not use", path.as_path().display())]
    ForeignMark {
        /// Where.
        path: TreePath,
        /// The attribute.
        mark: &'static str,
    },
    /// More would have to be kept while something runs than is kept.
    #[error("what must be kept as it is while a command runs is over 1 GiB or 20,000 files")]
    TooMuchKept,
    /// The changes are more than may be listed.
    #[error("the stage changed more than {most} files and directories")]
    TooManyChanges {
        /// The most entries that are looked at.
        most: u64,
    },
    /// The system refused.
    #[error("cannot {what} `{}`: {source}", path.display())]
    Io {
        /// What was being done.
        what: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl StageError {
    /// How to mend it.
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Name(error) => Some(error.hint()),
            Self::Missing(_) => Some("`airlock stage list` names the stages there are"),
            Self::OtherWorkspace { .. } => Some("choose another name with `--stage NAME`"),
            Self::InUse { .. } => {
                Some("wait for its sandbox to end, or use another `--stage NAME`")
            }
            Self::Dropped(_) => Some("try again: a new stage is made"),
            Self::NewerFormat { .. } => Some("use the version of Airlock that made it"),
            Self::Damaged { .. } | Self::ForeignMark { .. } => {
                Some("`airlock stage drop NAME` removes it with all its changes")
            }
            Self::Overlap { .. } => {
                Some("choose a workspace that does not hold Airlock's own state directory")
            }
            Self::TooMuchKept => {
                Some("merge or drop the stage, or let policy allow this caller what it holds")
            }
            Self::NotOurs(_) => Some("it must be a directory that you own, not a link to one"),
            Self::TooLargeToCopy { .. } => {
                Some("use a smaller workspace, or a kernel that allows overlay mounts")
            }
            Self::TooManyChanges { .. } => {
                Some("remove part of it from inside a sandbox, or `airlock stage drop NAME`")
            }
            Self::NotCopied { .. } | Self::Io { .. } => None,
        }
    }
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" by process {pid}"))
}

/// Adds to a system error what was being done, and to what.
pub(super) fn failed(
    what: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(rustix::io::Errno) -> StageError {
    let path = path.into();
    move |errno| StageError::Io {
        what,
        path,
        source: errno.into(),
    }
}

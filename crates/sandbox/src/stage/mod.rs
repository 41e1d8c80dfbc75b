//! Stages: where what a sandbox writes to the workspace waits until someone decides about it.
//!
//! A stage is a directory of Airlock's own. As an overlay it holds only what changed, the real tree
//! being the lower layer; as a copy it holds the whole tree. [`Stages`] creates, finds, lists and
//! drops them; a [`Claim`] is one sandbox's hold on a stage; [`Stage::diff`] says what changed.
//!
//! Guarantees: creating an overlay stage does not look into the workspace, and its diff looks at
//! what changed only; nothing here follows a symbolic link, leaves its tree or crosses a mount; a
//! real file that changed after the stage began is reported as a conflict whenever the stage
//! changes it too; sockets, pipes, devices and setuid files are never among the changes.
//!
//! Not guaranteed: a diff taken while a sandbox still writes is of no single moment; a clock set back
//! and forward again since the stage began, or one that was set back before the machine was started
//! anew more than once, hides a change of the real tree in between; what was written last before the
//! machine crashed may be empty, torn or missing, and is only called suspect; a real file removed by
//! someone else while the sandbox replaced it by a new one (rather than writing to it) looks like a
//! file that was added; and a real directory that was moved into another's place and had entries
//! added or removed since is not told from the one it replaced, if that was before [`Stage::touched`]
//! first found it touched.
//!
//! Invariant: which extended attributes count as overlay's own is fixed when the stage is created.
//! A process inside an overlay cannot set those of its mount's kind; it can set the other kind.

mod aside;
mod beneath;
mod classify;
mod clock;
mod content;
mod copy;
mod diff;
mod error;
mod footing;
mod latest;
mod lay;
mod mark;
mod name;
mod path;
mod placeholders;
mod record;
mod remove;
mod rename;
mod render;
mod renew;
mod restore;
mod reveal;
mod staged;
mod store;
mod summary;
mod touched;
mod trial;
mod undo;
mod walk;

pub use aside::Aside;
pub use beneath::{NodeKind, Stamp};
pub use content::{Hunk, Line};
pub use copy::CopyLimits;
pub use diff::{
    Change, ChangeKind, Conflict, ConflictReason, Content, Diff, DiffOptions, Facts, Refused,
    RefusedReason,
};
pub use error::StageError;
pub use lay::Laid;
pub use name::{InvalidName, StageName};
pub use path::TreePath;
pub(crate) use placeholders::Placeholders;
pub use record::{Marks, StageKind};
pub use render::Piece;
#[cfg(target_os = "linux")]
pub(crate) use staged::UPPER;
pub use staged::{Claim, Stage};
pub use store::{Owner, Passing, Setup, Stages};
pub use summary::StageSummary;
pub use touched::{Touch, Touched};
pub use trial::Trial;

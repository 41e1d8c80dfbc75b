//! Merging: what a stage changed goes into the real tree, and can be taken out again.
//!
//! A merge is a list of [`Entry`]s, each a path with what was there and what is to be. Before the
//! tree is touched, what is needed for both directions is on disk: the journal, the new contents
//! and the old ones. Carrying it out then depends on nothing but that journal, so that a merge which was
//! interrupted is carried on by whoever comes next, and an undo is a merge with both sides
//! exchanged.
//!
//! Guarantees: no content reaches the real tree that was not read whole, digested and held against
//! what was reviewed; nothing is undone in a tree that is not as it was looked at; a file of the real
//! tree has its old content or its new one at every moment; a path that somebody else changed
//! meanwhile keeps what they wrote, and is reported; nothing outside the workspace is written, whatever
//! links are put in the way; what was merged is undone to the byte, the mode, the link and the empty
//! directory.
//!
//! Non-guarantees: nothing here decides whether a merge may happen. A process that keeps a file
//! open and writes to it after it was replaced writes to what is no longer there. Where the file
//! system cannot exchange two names, what is written between the last look and the replacement is
//! lost. Extended attributes, access lists and hard links of replaced files are not kept; times are
//! those of the merge.

mod apply;
mod entry;
mod error;
mod git;
mod hunks;
mod journal;
mod lineage;
mod node;
mod outcome;
mod prepare;
mod select;
mod store;
mod telling;
mod tree;
mod undo;

pub use entry::{Entry, Owner};
pub use error::MergeError;
pub use hunks::pick_hunks;
pub use journal::{Journal, Task};
pub use node::Node;
pub use outcome::{EntryResult, MergeOutcome, Result as EntryOutcome, Since};
pub use select::{Selection, named_path, review_digest};
pub use store::{Merges, Recovered, Summary};
pub use undo::Undoing;

/// Called at each moment a crash could come between; tests die there.
#[doc(hidden)]
pub type Moment<'a> = &'a dyn Fn(&'static str);

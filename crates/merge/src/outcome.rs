//! What came of a merge, path by path.

use airlock_core::Digest;
use airlock_sandbox::stage::TreePath;
use serde::{Deserialize, Serialize};

/// What came of one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Result {
    /// It holds what it was to hold.
    Merged,
    /// Somebody else changed it meanwhile; theirs stays.
    Conflict {
        /// What was found.
        why: String,
    },
    /// It could not be done.
    Failed {
        /// Why.
        why: String,
    },
}

/// A path and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryResult {
    /// Where.
    pub path: TreePath,
    /// What.
    #[serde(flatten)]
    pub result: Result,
}

/// What came of a merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeOutcome {
    /// The merge.
    pub id: String,
    /// The merge it undid, if it is an undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo_of: Option<String>,
    /// Of what the merged paths held before, all of them together; each by itself is in the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Digest>,
    /// Of what they hold since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Digest>,
    /// Each path of it.
    pub entries: Vec<EntryResult>,
}

/// What is done with a path that was changed since it was merged, when the merge is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// It stays.
    Stays,
    /// It goes, like what was merged; undoing the undo brings it back.
    Goes,
}

impl MergeOutcome {
    /// Whether everything was merged.
    pub fn is_complete(&self) -> bool {
        self.entries
            .iter()
            .all(|entry| entry.result == Result::Merged)
    }

    /// How many paths were merged.
    pub fn merged(&self) -> usize {
        let merged = |entry: &&EntryResult| entry.result == Result::Merged;
        self.entries.iter().filter(merged).count()
    }

    /// What was not merged.
    pub fn left(&self) -> impl Iterator<Item = &EntryResult> {
        self.entries
            .iter()
            .filter(|entry| entry.result != Result::Merged)
    }
}

//! One path of a merge.

use crate::node::Node;
use airlock_sandbox::stage::TreePath;
use serde::{Deserialize, Serialize};

/// Whose a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// A path, what was there, and what is to be there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Where, relative to the workspace.
    pub path: TreePath,
    /// What the tree held when the merge began.
    pub before: Node,
    /// What it is to hold.
    pub after: Node,
    /// Whose it was; none if it was not there, and then its directory's owner gets it.
    #[serde(default)]
    pub owner: Option<Owner>,
}

impl Entry {
    /// Whether what is there has to go before anything else can come.
    pub(crate) fn clears(&self) -> bool {
        let turns = self.before.is_directory() != self.after.is_directory();
        self.before != Node::Absent && (self.after == Node::Absent || turns)
    }

    /// Whether what is there by `now` is still what has to go. A directory that goes as a whole is,
    /// whatever its mode.
    pub(crate) fn is_untouched(&self, now: &Node) -> bool {
        let goes = now.is_directory() && self.before.is_directory() && !self.after.is_directory();
        *now == self.before || goes
    }

    /// The way back.
    pub(crate) fn reversed(&self) -> Self {
        Self {
            path: self.path.clone(),
            before: self.after.clone(),
            after: self.before.clone(),
            owner: self.owner,
        }
    }
}

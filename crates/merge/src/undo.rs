//! What undoing a merge would do, as somebody looks at it before, and what stands for that.
//!
//! Every path is read to its end, whether to show it or to undo it: the digest is bound to content, kinds,
//! modes and where links point. Not to what else is in a directory that goes: what somebody put there
//! keeps it.

use crate::entry::Entry;
use crate::node::Node;
use crate::outcome::Since;
use airlock_core::Digest;
use airlock_sandbox::stage::TreePath;

/// What undoing a merge would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undoing {
    /// The merge.
    pub merge: String,
    /// Each path it would touch, with whether it is still as merged.
    pub paths: Vec<(TreePath, bool)>,
    /// What stands for that and for what is at each path now: where either is another, nothing is undone.
    pub digest: Digest,
}

/// An undo as it is looked at, path by path.
#[derive(Debug)]
pub(crate) struct Looked {
    text: String,
}

impl Looked {
    /// At undoing `of`, where what was changed `since` stays or goes.
    pub(crate) fn new(of: &str, since: Since) -> Self {
        let goes = match since {
            Since::Stays => false,
            Since::Goes => true,
        };
        let text = format!("{}\n", serde_json::json!([of, goes]));
        Self { text }
    }

    /// At a path that was merged, which holds `now`.
    pub(crate) fn add(&mut self, entry: &Entry, now: &Node) {
        let line = serde_json::json!([entry.path, entry.before, entry.after, now]);
        self.text.push_str(&line.to_string());
        self.text.push('\n');
    }

    pub(crate) fn digest(&self) -> Digest {
        Digest::of(self.text.as_bytes())
    }
}

//! Everything a merge needs, put on disk before the tree is touched.

use crate::entry::{Entry, Owner};
use crate::error::{MergeError, failed};
use crate::hunks::pick_hunks;
use crate::journal::{new_content, old_content};
use crate::node::Node;
use crate::outcome::{EntryResult, Result as EntryOutcome, Since};
use crate::select::{Source, Target};
use crate::tree::{HANDS_GROUP_ON, Tree, create, keep, keep_bytes};
use airlock_core::Digest;
use airlock_sandbox::stage::{Facts, NodeKind, Stage, TreePath};
use std::io;
use std::path::Path;

/// The entries of a merge in the making, in its directory.
pub(crate) struct Preparation<'a> {
    place: &'a Path,
    tree: &'a Tree,
    pub(crate) entries: Vec<Entry>,
    /// What was changed by somebody else, and stays out.
    pub(crate) left: Vec<EntryResult>,
}

impl<'a> Preparation<'a> {
    pub(crate) const fn new(place: &'a Path, tree: &'a Tree) -> Self {
        Self {
            place,
            tree,
            entries: Vec::new(),
            left: Vec::new(),
        }
    }

    /// Adds one path of a stage.
    pub(crate) fn add(&mut self, target: &Target, stage: &Stage) -> Result<(), MergeError> {
        let index = self.entries.len();
        let (before, owner) = self.keep_old(&target.path, index)?;
        if !as_seen(&before, target.seen.as_ref()) {
            self.forget(index);
            self.leave(&target.path, "it was changed while the merge began");
            return Ok(());
        }
        if before == Node::Other {
            return Err(MergeError::Unmergeable {
                path: target.path.clone(),
                why: "a pipe, socket or device is in its place",
            });
        }
        let mut after = self.keep_new(target, index, stage)?;
        if let Node::Directory { mode } = &mut after
            && !before.is_directory()
        {
            *mode |= self.handed_on(&target.path)?;
        }
        if after == before {
            self.forget(index);
            return Ok(());
        }
        self.entries.push(Entry {
            path: target.path.clone(),
            before,
            after,
            owner,
        });
        Ok(())
    }

    /// The bit that a directory to be made at `path` has from the one it is in. The journal knows
    /// it: only so are an undo, and an undo of that, exact.
    fn handed_on(&self, path: &TreePath) -> Result<u32, MergeError> {
        let path = path.as_path();
        let spot = self.tree.spot(path).map_err(failed("open", path))?;
        if let Some(spot) = spot {
            return spot.handed_on().map_err(failed("read", path));
        }
        // That one is made by this merge, and comes before what is in it.
        let parent = path.parent().unwrap_or(Path::new(""));
        let made = self
            .entries
            .binary_search_by(|entry| entry.path.as_path().cmp(parent));
        let made = made.ok().and_then(|index| self.entries.get(index));
        let Some(Node::Directory { mode }) = made.map(|entry| &entry.after) else {
            return Ok(0);
        };
        Ok(mode & HANDS_GROUP_ON)
    }

    /// Adds the way back of an entry that was merged, whose old content is in `from`. Returns
    /// what the tree holds there now.
    pub(crate) fn add_reversed(
        &mut self,
        entry: &Entry,
        from: &Path,
        since: Since,
    ) -> Result<Node, MergeError> {
        let mut reversed = entry.reversed();
        let index = self.entries.len();
        let (now, owner) = self.keep_old(&reversed.path, index)?;
        if !reversed.is_untouched(&now) {
            if since == Since::Stays || !may_go(&now, &reversed) {
                self.forget(index);
                self.leave(&reversed.path, "it was changed after the merge");
                return Ok(now);
            }
            if now == reversed.after {
                self.forget(index);
                return Ok(now);
            }
            (reversed.before, reversed.owner) = (now.clone(), owner.or(reversed.owner));
        }
        if let Node::File { sha256, .. } = &reversed.after {
            let place = new_content(self.place, index);
            let open = std::fs::File::open(from).map_err(failed("read", from))?;
            let (_, kept) = keep(open, &place).map_err(failed("write", &place))?;
            if kept != *sha256 {
                return Err(MergeError::Io {
                    what: "trust the content kept in",
                    path: from.to_owned(),
                    source: io::ErrorKind::InvalidData.into(),
                });
            }
        }
        self.entries.push(reversed);
        Ok(now)
    }

    /// Leaves `path` out.
    pub(crate) fn leave(&mut self, path: &TreePath, why: &str) {
        self.left.push(EntryResult {
            path: path.clone(),
            result: EntryOutcome::Conflict {
                why: why.to_owned(),
            },
        });
    }

    /// Removes the contents kept for an entry that is none.
    fn forget(&self, index: usize) {
        // What is left of it is never looked at, and goes with the directory.
        let _ = std::fs::remove_file(old_content(self.place, index));
        let _ = std::fs::remove_file(new_content(self.place, index));
    }

    fn keep_old(&self, path: &TreePath, index: usize) -> Result<(Node, Option<Owner>), MergeError> {
        let spot = self.tree.spot(path.as_path());
        let Some(spot) = spot.map_err(failed("open", path.as_path()))? else {
            return Ok((Node::Absent, None));
        };
        let place = old_content(self.place, index);
        let mut copy = create(&place).map_err(failed("write", &place))?;
        let (node, owner) = spot
            .copy_to(&mut copy)
            .map_err(failed("keep", path.as_path()))?;
        if node.is_file() {
            copy.sync_all().map_err(failed("write", &place))?;
        } else {
            std::fs::remove_file(&place).map_err(failed("remove", &place))?;
        }
        Ok((node, owner))
    }

    fn keep_new(&self, target: &Target, index: usize, stage: &Stage) -> Result<Node, MergeError> {
        let place = new_content(self.place, index);
        match &target.source {
            Source::Absent => Ok(Node::Absent),
            Source::Symlink(to) => Ok(Node::Symlink { target: to.clone() }),
            Source::Directory(mode) => Ok(Node::Directory { mode: *mode }),
            Source::Staged { mode, sha256 } => {
                let file = stage.open_changed(target.path.as_path())?;
                let (size, kept) = keep(file, &place).map_err(failed("write", &place))?;
                if *sha256 != kept {
                    return Err(MergeError::ChangedSinceReview);
                }
                Ok(Node::File {
                    mode: *mode,
                    size,
                    sha256: kept,
                })
            }
            Source::Hunks {
                mode,
                hunks,
                chosen,
            } => {
                let old = old_content(self.place, index);
                let text = std::fs::read_to_string(&old).map_err(failed("read", &old))?;
                let text =
                    pick_hunks(&text, hunks, chosen).ok_or(MergeError::ChangedSinceReview)?;
                keep_bytes(text.as_bytes(), &place).map_err(failed("write", &place))?;
                Ok(Node::File {
                    mode: *mode,
                    size: text.len() as u64,
                    sha256: Digest::of(text.as_bytes()),
                })
            }
        }
    }
}

/// Whether what is there by `now` can make way for what was there before the merge: a file or a link
/// for another, and nothing of git's, which git moved on with.
fn may_go(now: &Node, back: &Entry) -> bool {
    let plain = |node: &Node| match node {
        Node::Absent | Node::File { .. } | Node::Symlink { .. } => true,
        Node::Directory { .. } | Node::Other => false,
    };
    plain(now) && plain(&back.after) && !back.path.as_path().starts_with(".git")
}

/// Whether a path still holds what was looked at.
fn as_seen(now: &Node, seen: Option<&Facts>) -> bool {
    let Some(seen) = seen else {
        return *now == Node::Absent;
    };
    match now {
        Node::Absent => false,
        Node::File { mode, size, sha256 } => {
            seen.kind == NodeKind::File
                && *mode == seen.mode & 0o7777
                && *size == seen.size
                && seen.sha256.is_none_or(|digest| digest == *sha256)
        }
        Node::Symlink { target } => seen.target.as_ref() == Some(target),
        Node::Directory { mode } => seen.kind == NodeKind::Directory && *mode == seen.mode & 0o7777,
        Node::Other => true,
    }
}

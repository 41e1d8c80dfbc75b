//! What of a tree is git's: objects, which only ever come, and refs, which move under git's own
//! lock.
//!
//! Guarantee: no ref names an object that did not come with it or was there, a ref that somebody
//! else moved stays where they put it, a branch does not move while another is checked out by then,
//! and git itself waits while one is moved. Objects are never taken away: another ref may name them
//! by then.

use crate::entry::Entry;
use crate::error::{MergeError, failed};
use crate::lineage::stands_on;
use crate::node::Node;
use crate::select::{Source, Target};
use crate::tree::{Spot, Tree};
use airlock_core::Digest;
use airlock_sandbox::stage::{Diff, Stage, TreePath};
use std::io::{self, Read as _};
use std::path::Path;

const HEAD: &str = ".git/HEAD";
const PACKED_REFS: &str = ".git/packed-refs";
/// The longest text of a ref that is read.
const REF: u64 = 4 * 1024;

/// Why a ref stays where it is.
pub(crate) const MOVED: &str = "it was moved since the commit was made";
pub(crate) const ELSEWHERE: &str = "another branch is checked out by now";

/// Whether `path` is, or holds, git's objects.
pub(crate) fn is_object(path: &Path) -> bool {
    path.starts_with(".git/objects")
}

/// Whether `entry` moves a ref.
pub(crate) fn is_ref(entry: &Entry) -> bool {
    let directory = entry.before.is_directory() || entry.after.is_directory();
    !directory && entry.path.as_path().starts_with(".git/refs")
}

/// What a repository keeps of its refs besides a file for each: the values of those that have no
/// file of their own, and which branch is checked out.
#[derive(Debug, Default)]
pub(crate) struct Refs {
    packed: Vec<u8>,
    head: Vec<u8>,
}

impl Refs {
    pub(crate) fn read(tree: &Tree) -> io::Result<Self> {
        let read = |path: &str| match tree.spot(Path::new(path))? {
            Some(spot) => spot.beginning(u64::MAX),
            None => Ok(Vec::new()),
        };
        Ok(Self {
            packed: read(PACKED_REFS)?,
            head: read(HEAD)?,
        })
    }

    /// The same for a merge of `paths`. Where none of them is git's, a repository that cannot be
    /// read, such as one on a mount of its own, is none.
    pub(crate) fn read_for<'p>(
        tree: &Tree,
        paths: impl Iterator<Item = &'p Path>,
    ) -> Result<Self, MergeError> {
        Self::needed(Self::read(tree), paths)
    }

    fn needed<'p>(
        read: io::Result<Self>,
        mut paths: impl Iterator<Item = &'p Path>,
    ) -> Result<Self, MergeError> {
        match read {
            Err(error) if paths.any(|path| path.starts_with(".git")) => {
                Err(failed("read", ".git")(error))
            }
            read => Ok(read.unwrap_or_default()),
        }
    }

    /// The digest of the packed refs, if there are any.
    pub(crate) fn packed_digest(&self) -> Option<Digest> {
        (!self.packed.is_empty()).then(|| Digest::of(&self.packed))
    }

    /// The digest of what says which branch is checked out.
    pub(crate) fn head_digest(&self) -> Option<Digest> {
        (!self.head.is_empty()).then(|| Digest::of(&self.head))
    }

    /// Where the ref at `path` is, if it has no file of its own.
    fn packed(&self, path: &Path) -> Option<&str> {
        let name = path.strip_prefix(".git").ok()?.to_str()?;
        let lines = self.packed.split(|byte| *byte == b'\n');
        let mut lines = lines.filter_map(|line| std::str::from_utf8(line).ok());
        lines.find_map(|line| {
            let (value, named) = line.split_once(' ')?;
            (named.trim_end() == name).then_some(value)
        })
    }

    /// Whether `path` is a branch that is not the one checked out.
    pub(crate) fn is_other_branch(&self, path: &Path) -> bool {
        let checked_out = String::from_utf8_lossy(&self.head);
        let checked_out = checked_out.trim_end().strip_prefix("ref: ");
        let checked_out = checked_out.map(|name| Path::new(".git").join(name.trim_start()));
        path.starts_with(".git/refs/heads") && checked_out.as_deref() != Some(path)
    }
}

/// Whether `path` says which branch is checked out.
pub(crate) fn is_head(path: &Path) -> bool {
    path == Path::new(HEAD)
}

/// A repository when a stage is merged into it.
pub(crate) struct Standing<'a> {
    stage: &'a Stage,
    pub(crate) refs: Refs,
    /// Whether the stage itself checks another branch out.
    brings_head: bool,
}

impl<'a> Standing<'a> {
    /// INVARIANT: the refs are read before anything else is looked at. Whatever moves later is
    /// found under the lock.
    pub(crate) fn look(
        tree: &Tree,
        stage: &'a Stage,
        diff: &Diff,
        targets: &[Target],
    ) -> Result<Self, MergeError> {
        let refs = Refs::read_for(tree, targets.iter().map(|target| target.path.as_path()))?;
        let mut changes = diff.changes.iter();
        Ok(Self {
            stage,
            refs,
            brings_head: changes.any(|change| is_head(change.path.as_path())),
        })
    }

    /// Whether `path` is newer than the stage; what cannot be told may be.
    fn is_newer(&self, path: &str) -> bool {
        self.stage.is_newer(Path::new(path)).unwrap_or(true)
    }

    /// Why the ref that `target` brings is not to be moved, if it is not.
    pub(crate) fn refuses(&self, target: &Target) -> Option<&'static str> {
        let path = target.path.as_path();
        let fills = matches!(
            target.source,
            Source::Staged { .. } | Source::Hunks { .. } | Source::Symlink(_)
        );
        if !fills || !path.starts_with(".git/refs") {
            return None;
        }
        if !self.brings_head && self.refs.is_other_branch(path) && self.is_newer(HEAD) {
            return Some(ELSEWHERE);
        }
        // With a file of its own, that file's stamps tell.
        let packed = self.refs.packed(path).filter(|_| target.seen.is_none())?;
        if !self.is_newer(PACKED_REFS) {
            return None;
        }
        let new = self.value(path);
        let stands = new.is_some_and(|new| stands_on(self.stage, &new, packed));
        (!stands).then_some(MOVED)
    }

    /// Where the stage has the ref at `path`.
    fn value(&self, path: &Path) -> Option<String> {
        let file = self.stage.open_changed(path).ok()?;
        let mut text = String::new();
        file.take(REF).read_to_string(&mut text).ok()?;
        Some(text.trim_end().to_owned())
    }
}

/// Git's lock on one ref. A link that leads nowhere is one to git, and names whose it is.
pub(crate) struct Lock(Spot);

impl Lock {
    /// Takes the lock on the ref at `spot` for the merge `id`; none while somebody else has it.
    pub(crate) fn take(spot: &Spot, path: &TreePath, id: &str) -> io::Result<Option<Self>> {
        let lock = lock_of(spot, path)?;
        match lock.write_link(Path::new(&own(id)), None) {
            Ok(()) => Ok(Some(Self(lock))),
            // Ours, from a try that was interrupted.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::kept(lock, id),
            Err(error) => Err(error),
        }
    }

    /// The lock on the ref at `spot` that an interrupted try of the merge `id` has kept, if it has.
    pub(crate) fn left(spot: &Spot, path: &TreePath, id: &str) -> io::Result<Option<Self>> {
        Self::kept(lock_of(spot, path)?, id)
    }

    fn kept(lock: Spot, id: &str) -> io::Result<Option<Self>> {
        let target = TreePath::from(Path::new(&own(id)));
        let ours = lock.node()?.0 == Node::Symlink { target };
        Ok(ours.then_some(Self(lock)))
    }

    /// Gives it up.
    pub(crate) fn release(self) -> io::Result<()> {
        self.0.unlink()
    }
}

fn lock_of(spot: &Spot, path: &TreePath) -> io::Result<Spot> {
    let name = path.as_path().file_name().unwrap_or_default();
    spot.beside(&format!("{}.lock", name.to_string_lossy()))
}

fn own(id: &str) -> String {
    format!("airlock-{id}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn a_repository_that_cannot_be_read_keeps_nothing_but_its_own_from_being_merged() {
        let cannot = || Err::<Refs, io::Error>(Errno::XDEV.into());
        for (paths, merges) in [
            (&["src/a.rs", ".gitignore"][..], true),
            (&[], true),
            (&["src/a.rs", ".git/refs/heads/main"], false),
            (&[".git"], false),
        ] {
            let needed = Refs::needed(cannot(), paths.iter().map(Path::new));
            assert_eq!(needed.is_ok(), merges, "{paths:?}");
        }
        let head = b"ref: refs/heads/main\n".to_vec();
        let read = Refs {
            head: head.clone(),
            ..Refs::default()
        };
        let needed = Refs::needed(Ok(read), std::iter::empty()).unwrap();
        assert_eq!(needed.head, head, "one that can be read is read");
    }
}

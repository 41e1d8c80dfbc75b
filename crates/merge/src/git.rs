//! What of a tree is git's: objects, which only ever come, and refs, which move under git's own
//! lock.
//!
//! Guarantee: no ref names an object that did not come with it or was there, a ref that somebody
//! else moved stays where they put it, and git itself waits while one is moved. Objects are never
//! taken away: another ref may name them by then.

use crate::entry::Entry;
use crate::node::Node;
use crate::tree::Spot;
use airlock_core::Digest;
use airlock_sandbox::stage::TreePath;
use std::io;
use std::path::Path;

/// Whether `path` is, or holds, git's objects.
pub(crate) fn is_object(path: &Path) -> bool {
    path.starts_with(".git/objects")
}

/// Whether `entry` moves a ref.
pub(crate) fn is_ref(entry: &Entry) -> bool {
    let directory = entry.before.is_directory() || entry.after.is_directory();
    !directory && entry.path.as_path().starts_with(".git/refs")
}

/// The digest of what `root`'s packed refs say: a ref that has no file of its own has its value
/// there.
pub(crate) fn packed_refs(root: &Path) -> Option<Digest> {
    let bytes = std::fs::read(root.join(".git/packed-refs")).ok()?;
    Some(Digest::of(&bytes))
}

/// Git's lock on one ref. A link that leads nowhere is one to git, and names whose it is.
pub(crate) struct Lock(Spot);

impl Lock {
    /// Takes the lock on the ref at `spot` for the merge `id`; none while somebody else has it.
    pub(crate) fn take(spot: &Spot, path: &TreePath, id: &str) -> io::Result<Option<Self>> {
        let name = path.as_path().file_name().unwrap_or_default();
        let lock = spot.beside(&format!("{}.lock", name.to_string_lossy()))?;
        let own = format!("airlock-{id}");
        match lock.write_link(Path::new(&own), None) {
            Ok(()) => Ok(Some(Self(lock))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let target = TreePath::from(Path::new(&own));
                // Ours, from a try that was interrupted.
                let ours = lock.node()?.0 == Node::Symlink { target };
                Ok(ours.then_some(Self(lock)))
            }
            Err(error) => Err(error),
        }
    }

    /// Gives it up.
    pub(crate) fn release(self) -> io::Result<()> {
        self.0.unlink()
    }
}

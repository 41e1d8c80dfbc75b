//! Entries that stand in a copy only so that something can be mounted on them.
//!
//! A launcher that cannot deny a path that is not there makes one and covers it. What it makes is
//! written down first, beside the copy where no sandbox sees it, so that it is never taken for a
//! change and goes also when the launcher was killed: with the next claim on the stage.
//!
//! Invariant: only what is still exactly as it was made counts as a placeholder.

use super::beneath::{NodeKind, Tree};
use super::path::TreePath;
use super::record::write_whole;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

const LIST: &str = "placeholders.json";
/// Far more than any list is long.
const MOST: u64 = 1 << 20;

/// One entry that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Placeholder {
    /// Where in the copy.
    path: TreePath,
    /// What it says, if it is a file; else it is an empty directory.
    text: Option<String>,
}

impl Placeholder {
    /// Whether it is as it was made, where those in it that are have been found before.
    fn stands(&self, upper: &Tree, inner: &BTreeSet<TreePath>) -> bool {
        let path = self.path.as_path();
        let Ok(Some(node)) = upper.node(path) else {
            return false;
        };
        match &self.text {
            None => {
                let own = |name: &OsStr| inner.contains(&self.path.join(name));
                let names = upper.names(path);
                node.kind == NodeKind::Directory
                    && names.is_ok_and(|names| names.iter().all(|name| own(name)))
            }
            Some(text) => {
                let mut found = Vec::new();
                let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
                node.kind == NodeKind::File
                    && node.size == length
                    && upper.file(path).is_ok_and(|file| {
                        let read = file.take(length).read_to_end(&mut found);
                        read.is_ok() && found == text.as_bytes()
                    })
            }
        }
    }
}

/// The placeholders of one sandbox, gone when dropped.
#[derive(Debug)]
pub(crate) struct Placeholders {
    upper: PathBuf,
    work: PathBuf,
    made: Vec<Placeholder>,
}

impl Placeholders {
    /// None yet, in the copy `upper` with `work` beside it.
    pub(crate) const fn new(upper: PathBuf, work: PathBuf) -> Self {
        Self {
            upper,
            work,
            made: Vec::new(),
        }
    }

    /// Makes one at `path` of the copy, for `owner`: a file that says `text`, or a directory.
    pub(crate) fn make(
        &mut self,
        path: &Path,
        text: Option<&str>,
        owner: Option<(u32, u32)>,
    ) -> io::Result<()> {
        let upper = Tree::open(&self.upper)?;
        self.made.push(Placeholder {
            path: path.into(),
            text: text.map(str::to_owned),
        });
        let list = serde_json::to_vec(&self.made)?;
        write_whole(Tree::open(&self.work)?, LIST, &list, false)?;
        let (parent, name) = upper.holder(path)?;
        match text {
            None => rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755))?,
            Some(text) => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let mode = Mode::from_raw_mode(0o644);
                let file = rustix::fs::openat(&parent, name, flags, mode)?;
                File::from(file).write_all(text.as_bytes())?;
            }
        }
        if let Some((user, group)) = owner {
            let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::chownat(&parent, name, Some(user), Some(group), flags)?;
        }
        Ok(())
    }
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        if !self.made.is_empty() {
            // What cannot go now goes with the next claim.
            let trees =
                Tree::open(&self.upper).and_then(|upper| Ok((upper, Tree::open(&self.work)?)));
            let _removed = trees
                .map_err(Into::into)
                .and_then(|(upper, work)| remove(&upper, &work));
        }
    }
}

/// The placeholders that stand in a copy.
pub(super) fn standing(upper: &Tree, work: &Tree) -> io::Result<BTreeSet<TreePath>> {
    let mut standing = BTreeSet::new();
    // Those in a directory were made after it.
    for one in listed(work)?.iter().rev() {
        if one.stands(upper, &standing) {
            standing.insert(one.path.clone());
        }
    }
    Ok(standing)
}

/// Removes the placeholders that stand in a copy, of a sandbox that is gone.
pub(super) fn remove(upper: &Tree, work: &Tree) -> io::Result<()> {
    // What is in a directory comes after it.
    for path in standing(upper, work)?.iter().rev() {
        let (parent, name) = upper.holder(path.as_path())?;
        match rustix::fs::unlinkat(&parent, name, AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) => {
                rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)?;
            }
            done => done?,
        }
    }
    match rustix::fs::unlinkat(work, LIST, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn listed(work: &Tree) -> io::Result<Vec<Placeholder>> {
    let file = match work.file(Path::new(LIST)) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(Vec::new()),
        Err(errno) => return Err(errno.into()),
    };
    let mut text = Vec::new();
    file.take(MOST).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

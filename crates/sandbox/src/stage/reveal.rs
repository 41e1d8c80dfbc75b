//! Showing the real tree again at one path of an overlay stage, and leaving the rest as it is.
//!
//! The real tree is hidden by what the upper layer has at the path itself, or by a whiteout, a
//! replacement or an opaque mark above it. Those above are turned into directories that merge,
//! with a whiteout of its own for everything else they hid.
//!
//! Invariant: nothing is written through a name. An entry is removed or replaced, so a second name
//! of the same file keeps what it has.

use super::beneath::{Node, NodeKind, Tree, node_of};
use super::copy::COPIED_BITS;
use super::error::{StageError, failed};
use super::path::TreePath;
use super::remove::remove_tree;
use super::touched::OPENED;
use super::walk::MarkNames;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid, XattrFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// The two layers of an overlay that nobody has mounted, or at least nobody uses.
pub(super) struct Layered<'a> {
    pub(super) lower: &'a Tree,
    pub(super) upper: &'a Tree,
    pub(super) marks: &'static MarkNames,
    /// Whom new entries belong to.
    pub(super) owner: (u32, u32),
    /// Whether the upper one is a whole copy, which hides nothing of the lower and has no marks.
    pub(super) copied: bool,
    /// The stage's own directory, where entries wait that go or come.
    pub(super) home: &'a OwnedFd,
    pub(super) shown: &'a Path,
}

/// Where in the stage's own directory what goes is removed.
pub(super) const GRAVE: &str = ".put-back";

/// What became of the directories above a path.
#[derive(Default)]
pub(super) struct Cleared {
    /// Entries that stood in the place of a directory, and went.
    pub(super) gone: Vec<TreePath>,
    /// Whether all of the real tree at the path was hidden by something above it.
    hidden: bool,
}

impl Layered<'_> {
    /// Makes the directories above `path` show the real tree at `path`. Those down to `done` do: a
    /// path in the order of paths was put back before, and what it left hidden is hidden entry by
    /// entry.
    pub(super) fn clear_above(
        &self,
        path: &Path,
        done: Option<&Path>,
    ) -> Result<Cleared, StageError> {
        let mut cleared = Cleared::default();
        let mut above = PathBuf::new();
        for component in path {
            let next = component;
            if done.is_some_and(|done| done.starts_with(&above)) {
                above.push(component);
                continue;
            }
            match self.kind(&above)? {
                Upper::Absent if cleared.hidden && self.is_directory_below(&above)? => {
                    self.replace_by_merged(&above, Some(next))?;
                }
                Upper::Absent => return Ok(cleared),
                Upper::Directory => cleared.hidden = self.merge(&above, next, cleared.hidden)?,
                found @ (Upper::Whiteout | Upper::Other) => {
                    if found == Upper::Other {
                        cleared.gone.push(above.as_path().into());
                    }
                    if !self.is_directory_below(&above)? {
                        return Ok(cleared);
                    }
                    self.replace_by_merged(&above, Some(next))?;
                    cleared.hidden = true;
                }
            }
            above.push(component);
        }
        Ok(cleared)
    }

    /// Shows the real tree at `path`, whose directories above are clear. A real directory comes
    /// back without what is in it, which is shown path by path.
    pub(super) fn show(&self, path: &Path, cleared: &Cleared) -> Result<(), StageError> {
        let below = self.below(path)?;
        let directory_below = below.filter(|node| node.kind == NodeKind::Directory);
        match (self.kind(path)?, directory_below) {
            (Upper::Absent, Some(_)) if cleared.hidden => self.replace_by_merged(path, None),
            (Upper::Absent, _) => Ok(()),
            (Upper::Directory, Some(below)) => {
                if cleared.hidden {
                    self.set_opaque(path)?;
                }
                // What is in it comes after it.
                self.upper
                    .set_mode(path, below.mode | OPENED)
                    .map_err(self.fail("restore", path))
            }
            (Upper::Directory, None) if below.is_some() => self.remove(path),
            (Upper::Directory, None) => self.remove_empty(path),
            (Upper::Whiteout | Upper::Other, Some(_)) => self.replace_by_merged(path, None),
            (Upper::Whiteout | Upper::Other, None) => self.remove(path),
        }
    }

    /// Removes whatever the upper layer has at `path`.
    pub(super) fn remove(&self, path: &Path) -> Result<(), StageError> {
        let removed = self.within(path, |parent, name| {
            match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
                Err(Errno::ISDIR | Errno::PERM) => self.bury(path, parent, name),
                removed => removed,
            }
        });
        match removed {
            Ok(()) => remove_tree(self.home, GRAVE, self.shown),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(errno) => Err(self.fail("remove", path)(errno)),
        }
    }

    fn bury(&self, path: &Path, parent: &OwnedFd, name: &OsStr) -> rustix::io::Result<()> {
        // Its `..` changes, for which an ordinary user must be allowed to write to it.
        self.upper.set_mode(path, 0o700)?;
        rustix::fs::renameat(parent, name, self.home, GRAVE)
    }

    /// Removes a directory that has nothing in it; one that has stays.
    pub(super) fn remove_empty(&self, path: &Path) -> Result<(), StageError> {
        let removed = self.within(path, |parent, name| {
            rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
        });
        match removed {
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
            Err(errno) => Err(self.fail("remove", path)(errno)),
        }
    }

    /// Hides what the real tree has at `path`, in whose place the upper layer has nothing.
    pub(super) fn hide(&self, path: &Path) -> Result<(), StageError> {
        if self.copied {
            return Ok(());
        }
        let made = self.within(path, |parent, name| {
            let (kind, device) = (FileType::CharacterDevice, rustix::fs::makedev(0, 0));
            rustix::fs::mknodat(parent, name, kind, Mode::empty(), device)
        });
        made.map_err(self.fail("hide", path))
    }

    /// Makes a directory that merges with the real one, unless there is one.
    pub(super) fn make_directory(&self, path: &Path, mode: u32) -> Result<(), StageError> {
        let done = self.within(path, |parent, name| {
            rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o700))
        });
        match done {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok(()),
            Err(errno) => return Err(self.fail("create", path)(errno)),
        }
        self.within(path, |parent, name| self.own(parent, name))
            .and_then(|()| self.upper.set_mode(path, mode))
            .map_err(self.fail("create", path))
    }

    /// Gives a new entry to whom the stage belongs. Only root can, and only root must.
    pub(super) fn own(&self, parent: impl AsFd, name: &OsStr) -> rustix::io::Result<()> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let (user, group) = (Uid::from_raw(self.owner.0), Gid::from_raw(self.owner.1));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(parent, name, Some(user), Some(group), flags)
    }

    /// Does something to the entry `path` in the directory that holds it, which is opened to its
    /// owner for as long as it takes.
    pub(super) fn within(
        &self,
        path: &Path,
        act: impl Fn(&OwnedFd, &OsStr) -> rustix::io::Result<()>,
    ) -> rustix::io::Result<()> {
        let (parent, name) = self.upper.holder(path)?;
        match act(&parent, name) {
            Err(Errno::ACCESS) => {}
            done => return done,
        }
        let above = path.parent().unwrap_or(Path::new(""));
        let mode = node_of(&parent)?.mode;
        self.upper.set_mode(above, mode | 0o700)?;
        let done = act(&parent, name);
        self.upper.set_mode(above, mode)?;
        done
    }

    pub(super) fn kind(&self, path: &Path) -> Result<Upper, StageError> {
        let node = self.upper.node(path).map_err(self.fail("look at", path))?;
        Ok(match node {
            None => Upper::Absent,
            Some(node) if node.whiteout => Upper::Whiteout,
            Some(node) if node.kind == NodeKind::Directory => Upper::Directory,
            Some(_) => Upper::Other,
        })
    }

    /// The mode that an entry of the real tree has in the stage.
    pub(super) const fn mode_of(&self, node: Node) -> u32 {
        if self.copied {
            node.mode & COPIED_BITS
        } else {
            node.mode
        }
    }

    fn is_directory_below(&self, path: &Path) -> Result<bool, StageError> {
        let node = self.below(path)?;
        Ok(node.is_some_and(|node| node.kind == NodeKind::Directory))
    }

    /// What the real tree has at `path`. What may not be looked at there can neither be shown nor
    /// hidden entry by entry, and counts as nothing: whoever made it so must not keep everything
    /// else from being put back.
    pub(super) fn below(&self, path: &Path) -> Result<Option<Node>, StageError> {
        match self.lower.node(path) {
            Err(Errno::ACCESS | Errno::PERM | Errno::XDEV | Errno::NAMETOOLONG) => Ok(None),
            node => node.map_err(self.fail("look at", path)),
        }
    }

    /// Puts a directory that merges in the place of what hides a real one, with a whiteout for
    /// everything in it but `next`.
    fn replace_by_merged(&self, path: &Path, next: Option<&OsStr>) -> Result<(), StageError> {
        let mode = self.below(path)?.map_or(0o755, |below| below.mode);
        let names = self.names(self.lower, path)?;
        self.remove(path)?;
        self.make_directory(path, mode | 0o700)?;
        for name in names.iter().filter(|name| Some(name.as_os_str()) != next) {
            self.hide(&path.join(name))?;
        }
        self.upper
            .set_mode(path, mode | OPENED)
            .map_err(self.fail("create", path))
    }

    /// Lets a directory of the upper layer merge, if it is opaque or was hidden by one above. What
    /// it hid stays hidden but for `next`. Says whether what is at `next` is hidden still.
    fn merge(&self, path: &Path, next: &OsStr, hidden: bool) -> Result<bool, StageError> {
        let mark = self.upper.attribute(path, self.marks.opaque);
        let mark = mark.map_err(self.fail("look at", path))?;
        if !hidden && mark.as_deref() != Some(b"y") {
            return Ok(false);
        }
        if !self.is_directory_below(path)? {
            return Ok(hidden);
        }
        let above: BTreeSet<OsString> = self.names(self.upper, path)?.into_iter().collect();
        for name in self.names(self.lower, path)? {
            if name == next {
                continue;
            }
            let inner = path.join(&name);
            if !above.contains(&name) {
                self.hide(&inner)?;
            } else if self.kind(&inner)? == Upper::Directory && self.is_directory_below(&inner)? {
                self.set_opaque(&inner)?;
            }
        }
        if mark.is_some() {
            self.marked(path, |place| {
                rustix::fs::removexattr(place, self.marks.opaque)
            })?;
        }
        Ok(true)
    }

    /// Lets a directory of the upper layer that is still there merge with the real one, hiding
    /// nothing of it.
    pub(super) fn forget_opaque(&self, path: &Path) -> Result<(), StageError> {
        if self.copied || self.kind(path)? != Upper::Directory {
            return Ok(());
        }
        self.marked(path, |place| {
            match rustix::fs::removexattr(place, self.marks.opaque) {
                Err(Errno::NODATA | Errno::NOTSUP) => Ok(()),
                done => done,
            }
        })
    }

    fn set_opaque(&self, path: &Path) -> Result<(), StageError> {
        self.marked(path, |place| {
            rustix::fs::setxattr(place, self.marks.opaque, b"y", XattrFlags::empty())
        })
    }

    /// Forgets where a file was copied from. An overlay takes a file for another name of what it
    /// was copied from, and would show it in the place of a real file that is seen again.
    pub(super) fn forget_origin(&self, path: &Path) -> Result<(), StageError> {
        let node = self.upper.node(path).map_err(self.fail("look at", path))?;
        if node.is_none_or(|node| node.kind != NodeKind::File || node.whiteout) {
            return Ok(());
        }
        self.marked(path, |place| {
            match rustix::fs::removexattr(place, self.marks.origin) {
                Err(Errno::NODATA | Errno::NOTSUP) => Ok(()),
                done => done,
            }
        })
    }

    /// Changes a mark of what is at `path`, which is opened to its owner for as long as it takes.
    fn marked(
        &self,
        path: &Path,
        change: impl Fn(&str) -> rustix::io::Result<()>,
    ) -> Result<(), StageError> {
        let fail = || self.fail("restore", path);
        let fd = self.upper.open_at(path, OFlags::PATH).map_err(fail())?;
        let mode = node_of(&fd).map_err(fail())?.mode;
        // The very file that was opened, whatever its name leads to.
        let place = format!("/proc/self/fd/{}", fd.as_raw_fd());
        match change(&place) {
            Err(Errno::ACCESS) => {}
            done => return done.map_err(fail()),
        }
        self.upper.set_mode(path, mode | 0o200).map_err(fail())?;
        let done = change(&place);
        self.upper.set_mode(path, mode).map_err(fail())?;
        done.map_err(fail())
    }

    pub(super) fn names(&self, tree: &Tree, path: &Path) -> Result<Vec<OsString>, StageError> {
        match tree.names(path) {
            Err(
                Errno::NOENT
                | Errno::NOTDIR
                | Errno::LOOP
                // A real directory that may not be read comes back whole.
                | Errno::ACCESS
                | Errno::PERM
                | Errno::XDEV
                | Errno::NAMETOOLONG,
            ) => Ok(Vec::new()),
            names => names.map_err(self.fail("read", path)),
        }
    }

    pub(super) fn fail(
        &self,
        what: &'static str,
        path: &Path,
    ) -> impl FnOnce(Errno) -> StageError + use<> {
        failed(what, self.shown.join(path))
    }
}

/// What the upper layer has at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Upper {
    Absent,
    Whiteout,
    Directory,
    /// A file, a link or something special.
    Other,
}

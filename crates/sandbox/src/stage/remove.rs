//! Removing a tree of any depth that others filled.
//!
//! Each directory met is moved up to the root of the tree before it is emptied, so that neither the
//! length of a path nor the number of descriptors matters, and a removal that was interrupted is
//! simply begun again. Links are unlinked, never followed; a mount is refused, never entered.

use super::beneath::{NodeKind, Tree, names_of, node_of};
use super::error::{StageError, failed};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::Path;

/// Removes the directory `name` in `parent` with all that is in it. Nothing there is no error.
pub(super) fn remove_tree(parent: impl AsFd, name: &str, shown: &Path) -> Result<(), StageError> {
    let fail = |errno| failed("remove", shown.join(name))(errno);
    let root = match enter(&parent, OsStr::new(name)) {
        Ok(root) => root,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(fail(errno)),
    };
    empty(&root).map_err(fail)?;
    drop(root);
    match rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(fail(errno)),
    }
}

fn empty(root: &OwnedFd) -> rustix::io::Result<()> {
    let mut moved = Moved::default();
    // Another process may be removing the same tree; an end is still reached, each pass empties.
    loop {
        let names = list(root)?;
        if names.is_empty() {
            return Ok(());
        }
        for name in names {
            if unlink(root, &name)? == Unlinked::Directory {
                empty_one(root, &name, &mut moved)?;
            }
        }
    }
}

/// Names for directories on their way up.
#[derive(Default)]
struct Moved(u64);

impl Moved {
    fn next(&mut self) -> String {
        self.0 += 1;
        format!(".airlock-removed-{}-{}", std::process::id(), self.0)
    }
}

/// Removes one directory of `root`, having moved the directories in it to `root`.
fn empty_one(root: &OwnedFd, name: &OsStr, moved: &mut Moved) -> rustix::io::Result<()> {
    let directory = match enter(root, name) {
        Ok(directory) => directory,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(errno),
    };
    for inner in list(&directory)? {
        if unlink(&directory, &inner)? == Unlinked::Directory {
            move_up(&directory, &inner, root, moved)?;
        }
    }
    drop(directory);
    match rustix::fs::unlinkat(root, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

fn move_up(
    directory: &OwnedFd,
    name: &OsStr,
    root: &OwnedFd,
    moved: &mut Moved,
) -> rustix::io::Result<()> {
    // Its `..` changes, for which an ordinary user must be allowed to write to it.
    match enter(directory, name) {
        Ok(_) => {}
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(errno),
    }
    loop {
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        let target = moved.next();
        match rustix::fs::renameat_with(directory, name, root, &*target, flags) {
            Err(Errno::EXIST) => {}
            Err(Errno::NOENT) => return Ok(()),
            done => return done,
        }
    }
}

#[derive(PartialEq, Eq)]
enum Unlinked {
    Gone,
    Directory,
}

fn unlink(directory: &OwnedFd, name: &OsStr) -> rustix::io::Result<Unlinked> {
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(Unlinked::Gone),
        // Linux says EISDIR, other file systems may say EPERM as POSIX does.
        Err(Errno::ISDIR) => Ok(Unlinked::Directory),
        Err(Errno::PERM) if is_directory(directory, name) => Ok(Unlinked::Directory),
        Err(errno) => Err(errno),
    }
}

fn is_directory(directory: &OwnedFd, name: &OsStr) -> bool {
    open(directory, name, OFlags::PATH)
        .and_then(node_of)
        .is_ok_and(|node| node.kind == NodeKind::Directory)
}

fn list(directory: &OwnedFd) -> rustix::io::Result<Vec<std::ffi::OsString>> {
    names_of(open(
        directory,
        OsStr::new("."),
        OFlags::RDONLY | OFlags::DIRECTORY,
    )?)
}

/// Opens a directory, having given its owner every right to it.
fn enter(parent: impl AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let fd = open(parent, name, OFlags::PATH | OFlags::DIRECTORY)?;
    let node = node_of(&fd)?;
    if node.mode & 0o700 != 0o700 {
        // Through the descriptor: a name could have become a link since it was opened.
        let place = format!("/proc/self/fd/{}", fd.as_raw_fd());
        rustix::fs::chmod(place, Mode::from_raw_mode(0o700))?;
    }
    Ok(fd)
}

fn open(parent: impl AsFd, name: &OsStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(parent, name, flags, Mode::empty(), resolve)
}

/// Whether a tree has nothing in it.
pub(super) fn is_empty(tree: &Tree) -> rustix::io::Result<bool> {
    tree.names(Path::new("")).map(|names| names.is_empty())
}

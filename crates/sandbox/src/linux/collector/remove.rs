//! Removes a directory and all in it, whatever a sandbox has made of it.
//!
//! No link is followed, no other file system entered, and depth costs nothing: a directory that is
//! not empty is moved up beside the first and emptied in its turn, so one descriptor is open at a
//! time. What was moved and not yet removed when the remover died is known by its name.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the name of every directory that is being removed begins with.
pub(super) const DOOMED: &str = ".doomed-";

/// Never out of `top`, never through a link, never into another file system.
const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_XDEV);

/// Removes what is at `path` beneath `top`. Nothing there is fine.
pub(super) fn remove(top: impl AsFd, path: &Path) -> io::Result<()> {
    let top = top.as_fd();
    let doomed = match doom(top, path) {
        Err(Errno::NOENT) => return Ok(()),
        // Neither a directory nor a way through one.
        Err(Errno::NOTDIR) => return unlink(top, path).map_err(Into::into),
        other => other?,
    };
    let mut queue = vec![doomed];
    while let Some(name) = queue.pop() {
        match empty(top, &name, &mut queue) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        match rustix::fs::unlinkat(top, &name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Moves a directory beneath `top` to a name directly in it.
fn doom(top: impl AsFd, path: &Path) -> rustix::io::Result<CString> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::INVAL);
    };
    let parent = if parent.as_os_str().is_empty() {
        Path::new(".")
    } else {
        parent
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = rustix::fs::openat2(&top, parent, flags, Mode::empty(), RESOLVE)?;
    let flags = flags | OFlags::NOFOLLOW;
    let directory = rustix::fs::openat2(&parent, name, flags, Mode::empty(), RESOLVE)?;
    move_up(&top, &parent, name, &directory)
}

fn move_up(
    top: impl AsFd,
    parent: impl AsFd,
    name: impl rustix::path::Arg + Copy,
    directory: &OwnedFd,
) -> rustix::io::Result<CString> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let doomed = format!("{DOOMED}{}-{number}", std::process::id());
    let doomed = CString::new(doomed).map_err(|_| Errno::INVAL)?;
    // Overlay keeps directories nobody may enter, and moving one changes it.
    let own = format!("/proc/self/fd/{}", directory.as_raw_fd());
    let _ = rustix::fs::chmod(own, Mode::RWXU);
    rustix::fs::renameat(parent, name, top, &doomed)?;
    Ok(doomed)
}

/// Unlinks everything in a directory; what is a directory and not empty joins the queue.
fn empty(top: impl AsFd, name: &CStr, queue: &mut Vec<CString>) -> rustix::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat2(&top, name, flags, Mode::empty(), RESOLVE)?;
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let inner = entry.file_name();
        if matches!(inner.to_bytes(), b"." | b"..") {
            continue;
        }
        if entry.file_type() == FileType::Directory {
            match rustix::fs::unlinkat(&directory, inner, AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY | Errno::EXIST) => queue.push(lift(&top, &directory, inner)?),
                Err(Errno::NOENT) => {}
                done => done?,
            }
        } else {
            unlink(&directory, inner)?;
        }
    }
    Ok(())
}

fn lift(top: impl AsFd, parent: &OwnedFd, name: &CStr) -> rustix::io::Result<CString> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat2(parent, name, flags, Mode::empty(), RESOLVE)?;
    move_up(top, parent, name, &directory)
}

/// Unlinks what is not a directory.
pub(super) fn unlink(parent: impl AsFd, name: impl rustix::path::Arg) -> rustix::io::Result<()> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        done => done,
    }
}

//! The Linux system calls behind [`super::Root`].

use super::{Kind, Listing, OpenError, RootError};
use airlock_core::WorkspacePath;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// What holds something open.
pub(super) type Handle = OwnedFd;

/// `openat2` gives EAGAIN when a rename raced a `..` in a symlink; this many in a row means that
/// somebody keeps renaming on purpose.
const RENAME_RETRIES: usize = 128;

/// Room for a few hundred entries a system call.
const LISTING_BUFFER: usize = 32 * 1024;

pub(super) fn open_root(path: &Path) -> Result<(OwnedFd, String), RootError> {
    let failed = |source: std::io::Error| RootError::Io {
        path: path.display().to_string(),
        source,
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| failed(e.into()))?;
    let real = link_text(&directory).map_err(|e| failed(e.into()))?;
    let real = String::from_utf8(real).map_err(|error| RootError::NotUtf8 {
        path: String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })?;
    if !real.starts_with('/') {
        return Err(failed(std::io::ErrorKind::NotFound.into()));
    }
    Ok((directory, real))
}

/// Reaches `path` without opening it for reading: a FIFO does not block, a device does not notice.
pub(super) fn reach(root: &OwnedFd, path: &str) -> Result<OwnedFd, OpenError> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    open(root, path, OFlags::PATH | OFlags::CLOEXEC, resolve)
}

/// The same for a path of which no part is a symlink.
pub(super) fn reach_exactly(root: &OwnedFd, path: &str) -> Result<OwnedFd, OpenError> {
    open(root, path, OFlags::PATH | OFlags::CLOEXEC, no_symlinks())
}

pub(super) fn open_file(root: &OwnedFd, path: &str) -> Result<File, OpenError> {
    // Non-blocking, so that a FIFO swapped in between listing and opening cannot hang a search.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    regular(open(root, path, flags, no_symlinks())?)
}

pub(super) fn is_in_place(directory: &OwnedFd, path: &str) -> bool {
    let same = |held: rustix::fs::Stat, there: rustix::fs::Stat| {
        (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino)
    };
    let both = rustix::fs::fstat(directory).and_then(|held| Ok((held, rustix::fs::stat(path)?)));
    both.is_ok_and(|(held, there)| same(held, there))
}

pub(super) fn open_directory(root: &OwnedFd, path: &str) -> Result<OwnedFd, OpenError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    open(root, path, flags, no_symlinks())
}

fn no_symlinks() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS
}

fn open(
    root: &OwnedFd,
    path: &str,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, OpenError> {
    for _ in 0..RENAME_RETRIES {
        match rustix::fs::openat2(root, path, flags, Mode::empty(), resolve) {
            Ok(descriptor) => return Ok(descriptor),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(failure(error)),
        }
    }
    Err(OpenError::Io(Errno::AGAIN.into()))
}

pub(super) fn failure(error: Errno) -> OpenError {
    match error {
        Errno::NOENT => OpenError::NotFound,
        Errno::NOTDIR => OpenError::NotADirectory,
        Errno::LOOP | Errno::XDEV => OpenError::Escapes,
        Errno::ACCESS | Errno::PERM => OpenError::PermissionDenied,
        Errno::ISDIR | Errno::NXIO | Errno::NODEV => OpenError::NotAFile,
        Errno::NOSYS => OpenError::TooOld,
        other => OpenError::Io(other.into()),
    }
}

/// Where the symlink `path` points, none if it is something else.
pub(super) fn link_target(root: &OwnedFd, path: &str) -> Result<Option<Vec<u8>>, OpenError> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let there = open(root, path, flags, no_symlinks())?;
    match kind_of(&there)? {
        Kind::Symlink => rustix::fs::readlinkat(&there, "", Vec::with_capacity(256))
            .map(|target| Some(target.into_bytes()))
            .map_err(failure),
        Kind::File | Kind::Directory | Kind::Other => Ok(None),
    }
}

pub(super) fn kind_of(descriptor: &OwnedFd) -> Result<Kind, OpenError> {
    let stat = rustix::fs::fstat(descriptor).map_err(failure)?;
    Ok(kind(FileType::from_raw_mode(stat.st_mode)))
}

pub(super) fn kind(file_type: FileType) -> Kind {
    if file_type == FileType::RegularFile {
        Kind::File
    } else if file_type == FileType::Directory {
        Kind::Directory
    } else if file_type == FileType::Symlink {
        Kind::Symlink
    } else {
        Kind::Other
    }
}

pub(super) fn regular(descriptor: OwnedFd) -> Result<File, OpenError> {
    match kind_of(&descriptor)? {
        Kind::File => Ok(File::from(descriptor)),
        Kind::Directory | Kind::Symlink | Kind::Other => Err(OpenError::NotAFile),
    }
}

/// Opens the file a path-only descriptor stands for. The link in `/proc` leads to that very file,
/// whatever its name means by now.
pub(super) fn reopen(descriptor: &OwnedFd) -> Result<File, OpenError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(proc_link(descriptor), flags, Mode::empty()).map_err(failure)?;
    regular(file)
}

fn proc_link(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

fn link_text(descriptor: &OwnedFd) -> Result<Vec<u8>, Errno> {
    rustix::fs::readlink(proc_link(descriptor), Vec::with_capacity(256))
        .map(std::ffi::CString::into_bytes)
}

pub(super) fn real_path(
    root: &OwnedFd,
    root_path: &str,
    descriptor: &OwnedFd,
) -> Result<WorkspacePath, OpenError> {
    let text = link_text(descriptor).map_err(failure)?;
    let text = String::from_utf8(text).map_err(|_| OpenError::UnreadableName)?;
    // Renamed out of the root since it was opened: it is no longer there.
    let below = below(&text, root_path).ok_or(OpenError::NotFound)?;
    let real = if below.is_empty() {
        WorkspacePath::root()
    } else {
        WorkspacePath::new(below).map_err(|_| OpenError::NotFound)?
    };
    if text.ends_with(" (deleted)") && !is_at(root, &real, descriptor)? {
        return Err(OpenError::NotFound);
    }
    Ok(real)
}

fn below<'a>(text: &'a str, root_path: &str) -> Option<&'a str> {
    let rest = text.strip_prefix(root_path.trim_end_matches('/'))?;
    if rest.is_empty() {
        return Some(rest);
    }
    rest.strip_prefix('/')
}

/// Whether `path` still leads to what `descriptor` holds: the kernel marks a deleted file with
/// words that a living file's name may end in, too.
fn is_at(root: &OwnedFd, path: &WorkspacePath, descriptor: &OwnedFd) -> Result<bool, OpenError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let there = match open(root, path.as_str(), flags, no_symlinks()) {
        Ok(there) => rustix::fs::fstat(there).map_err(failure)?,
        Err(_) => return Ok(false),
    };
    let held = rustix::fs::fstat(descriptor).map_err(failure)?;
    Ok((there.st_dev, there.st_ino) == (held.st_dev, held.st_ino))
}

pub(super) fn list(directory: &OwnedFd, into: &mut Listing) -> Result<(), OpenError> {
    let mut buffer: Vec<u8> = Vec::with_capacity(LISTING_BUFFER);
    let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(failure)?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let found = if entry.file_type() == FileType::Unknown {
            // Some file systems do not say; gone meanwhile is simply not listed.
            match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(_) => continue,
            }
        } else {
            entry.file_type()
        };
        into.push(name.to_bytes(), kind(found));
    }
    Ok(())
}

/// The directory behind `handle` as the process file system shows it.
pub(super) fn directory_path(handle: &Handle) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()))
}

pub(super) fn size(directory: &OwnedFd, name: &[u8]) -> Option<u64> {
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    u64::try_from(stat.st_size).ok()
}

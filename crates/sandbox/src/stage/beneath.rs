//! Looking into a tree from a descriptor of its root, never out of it.
//!
//! Every path is resolved by the kernel beneath the root, through no symbolic link, magic link or
//! mount. A path that leads elsewhere by the time it is opened fails; there is no check apart from
//! the opening that could be raced.

use super::path::TreePath;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, StatxFlags, StatxTimestamp};
use rustix::io::{Errno, Result};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The longest path the kernel takes, less the NUL that ends it.
const LONGEST_PATH: usize = 4095;

/// Whether `path` is longer than any the kernel takes. Its last name may still be looked at, from
/// the directory that holds it; nothing beneath it can.
pub(super) fn is_too_long(path: &Path) -> bool {
    path.as_os_str().len() > LONGEST_PATH
}

/// A moment by the clock of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// Seconds since the Unix epoch.
    pub seconds: i64,
    /// Nanoseconds after that.
    pub nanoseconds: u32,
}

impl From<StatxTimestamp> for Stamp {
    fn from(time: StatxTimestamp) -> Self {
        Self {
            seconds: time.tv_sec,
            nanoseconds: time.tv_nsec,
        }
    }
}

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A Unix socket.
    Socket,
    /// A character or block device, or anything unheard of.
    Device,
}

/// What is known of one entry without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) kind: NodeKind,
    /// Permission and special bits.
    pub(super) mode: u32,
    pub(super) size: u64,
    pub(super) inode: u64,
    pub(super) links: u32,
    pub(super) changed: Stamp,
    pub(super) modified: Stamp,
    pub(super) born: Option<Stamp>,
    /// A character device numbered 0:0: overlay's mark for something deleted.
    pub(super) whiteout: bool,
}

/// A directory that is looked into.
#[derive(Debug)]
pub(super) struct Tree {
    root: OwnedFd,
}

impl Tree {
    /// Opens a root. Links on the way to it are the caller's own words and followed.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { root })
    }

    /// Opens the root `name` in the directory `parent`, which must not be a link.
    pub(super) fn open_in(parent: impl AsFd, name: &str) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::openat(parent, name, flags, Mode::empty())?;
        Ok(Self { root })
    }

    pub(super) fn open_at(&self, path: &Path, flags: OFlags) -> Result<OwnedFd> {
        if path.as_os_str().is_empty() {
            return open_beneath(&self.root, Path::new("."), flags);
        }
        if is_too_long(path) {
            let (parent, name) = self.holder(path)?;
            return open_beneath(parent, Path::new(name), flags);
        }
        open_beneath(&self.root, path, flags)
    }

    /// What `path` names: nothing if it is not there, or only through a link.
    pub(super) fn node(&self, path: &Path) -> Result<Option<Node>> {
        match self.open_at(path, OFlags::PATH) {
            Ok(fd) => node_of(fd).map(Some),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// The names in a directory, sorted by their bytes.
    pub(super) fn names(&self, path: &Path) -> Result<Vec<OsString>> {
        names_of(self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY)?)
    }

    /// A regular file, open for reading. Nothing else is opened, so that no pipe can block.
    pub(super) fn file(&self, path: &Path) -> Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = self.open_at(path, flags)?;
        match node_of(&fd)?.kind {
            NodeKind::File => Ok(File::from(fd)),
            NodeKind::Directory
            | NodeKind::Symlink
            | NodeKind::Fifo
            | NodeKind::Socket
            | NodeKind::Device => Err(Errno::INVAL),
        }
    }

    /// The same of a file that is ours and closed even to us: it is opened for as long as that takes.
    /// Nobody else is at work in the tree.
    pub(super) fn own_file(&self, path: &Path) -> Result<File> {
        match self.file(path) {
            Err(Errno::ACCESS) => {}
            file => return file,
        }
        let named = self.open_at(path, OFlags::PATH)?;
        let node = node_of(&named)?;
        if node.kind != NodeKind::File {
            return Err(Errno::INVAL);
        }
        // What the descriptor names, whatever is at the path by now.
        let place = format!("/proc/self/fd/{}", named.as_raw_fd());
        let set = |mode| rustix::fs::chmod(&*place, Mode::from_raw_mode(mode));
        // Of somebody else's file nobody but they can say who reads it.
        set(node.mode | 0o400).map_err(|_| Errno::ACCESS)?;
        let file = rustix::fs::open(&*place, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        set(node.mode)?;
        file.map(File::from)
    }

    /// Where a symbolic link points.
    pub(super) fn target(&self, path: &Path) -> Result<TreePath> {
        let fd = self.open_at(path, OFlags::PATH)?;
        let target = rustix::fs::readlinkat(fd, "", Vec::new())?;
        Ok(Path::new(OsStr::from_bytes(target.as_bytes())).into())
    }

    /// An extended attribute, if it is set and no longer than any of overlay's that matter.
    pub(super) fn attribute(&self, path: &Path, name: &str) -> Result<Option<Vec<u8>>> {
        let fd = self.open_at(path, OFlags::PATH)?;
        // A descriptor that only names a file cannot be asked itself, what it names can.
        let place = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let mut value = [0_u8; 256];
        match rustix::fs::getxattr(place, name, &mut value) {
            Ok(length) => Ok(Some(value.iter().take(length).copied().collect())),
            Err(Errno::RANGE) => Ok(Some(value.to_vec())),
            Err(Errno::NODATA | Errno::NOTSUP) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

impl Tree {
    /// Sets permission bits, through a descriptor: a name could become a link meanwhile.
    pub(super) fn set_mode(&self, path: &Path, mode: u32) -> Result<()> {
        let fd = self.open_at(path, OFlags::PATH)?;
        let place = format!("/proc/self/fd/{}", fd.as_raw_fd());
        rustix::fs::chmod(place, Mode::from_raw_mode(mode))
    }

    /// Sets the permission bits of the root itself, which may keep even its owner from looking in.
    pub(super) fn set_root_mode(&self, mode: u32) -> Result<()> {
        let place = format!("/proc/self/fd/{}", self.root.as_raw_fd());
        rustix::fs::chmod(place, Mode::from_raw_mode(mode))
    }

    /// The directory that holds `path`, and the last name of it.
    pub(super) fn holder<'p>(&self, path: &'p Path) -> Result<(OwnedFd, &'p OsStr)> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        let parent = path.parent().unwrap_or(Path::new(""));
        if is_too_long(parent) {
            return Err(Errno::NAMETOOLONG);
        }
        let parent = self.open_at(parent, OFlags::PATH | OFlags::DIRECTORY)?;
        Ok((parent, name))
    }
}

impl AsFd for Tree {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.root.as_fd()
    }
}

fn open_beneath(directory: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(directory, path, flags, Mode::empty(), resolve)
}

/// What a descriptor stands for.
pub(super) fn node_of(fd: impl AsFd) -> Result<Node> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let stat = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, wanted)?;
    let kind = match FileType::from_raw_mode(stat.stx_mode.into()) {
        FileType::RegularFile => NodeKind::File,
        FileType::Directory => NodeKind::Directory,
        FileType::Symlink => NodeKind::Symlink,
        FileType::Fifo => NodeKind::Fifo,
        FileType::Socket => NodeKind::Socket,
        FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => NodeKind::Device,
    };
    let born = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    Ok(Node {
        kind,
        mode: u32::from(stat.stx_mode) & 0o7777,
        size: stat.stx_size,
        inode: stat.stx_ino,
        links: stat.stx_nlink,
        changed: stat.stx_ctime.into(),
        modified: stat.stx_mtime.into(),
        born: born.then(|| stat.stx_btime.into()),
        whiteout: FileType::from_raw_mode(stat.stx_mode.into()) == FileType::CharacterDevice
            && (stat.stx_rdev_major, stat.stx_rdev_minor) == (0, 0),
    })
}

/// The names in an open directory, sorted by their bytes.
pub(super) fn names_of(fd: OwnedFd) -> Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::new(fd)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

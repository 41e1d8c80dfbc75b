//! Changing a tree from a descriptor of its root, never outside it.
//!
//! A path's directory is opened beneath the root through no link and no mount, and what is done is
//! done to a name in that open directory. So a directory that is exchanged for a link meanwhile
//! changes nothing outside.

use crate::entry::Owner;
use crate::node::Node;
use airlock_core::{Digest, Hashing};
use airlock_sandbox::stage::TreePath;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Permission and special bits: an undo gives both back.
const PERMISSIONS: u32 = 0o7777;

/// The bit of a directory that hands its group on: one that is made in it has the bit, too.
pub(crate) const HANDS_GROUP_ON: u32 = 0o2000;

/// A tree that is changed.
#[derive(Debug)]
pub(crate) struct Tree {
    root: OwnedFd,
}

/// A name in an open directory.
#[derive(Debug)]
pub(crate) struct Spot {
    directory: OwnedFd,
    name: OsString,
}

impl Tree {
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, flags, Mode::empty())?;
        Ok(Self { root })
    }

    /// The name `path` ends with, in its directory. None if that directory is not there.
    pub(crate) fn spot(&self, path: &Path) -> io::Result<Option<Spot>> {
        let Some(name) = path.file_name() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV;
        match rustix::fs::openat2(&self.root, parent, flags, Mode::empty(), resolve) {
            Ok(directory) => Ok(Some(Spot {
                directory,
                name: name.to_owned(),
            })),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// What `path` holds.
    pub(crate) fn node(&self, path: &Path) -> io::Result<(Node, Option<Owner>)> {
        match self.spot(path)? {
            Some(spot) => spot.node(),
            None => Ok((Node::Absent, None)),
        }
    }
}

impl Spot {
    /// Another name in the same directory.
    pub(crate) fn beside(&self, name: &str) -> io::Result<Self> {
        Ok(Self {
            directory: self.directory.try_clone()?,
            name: name.into(),
        })
    }

    /// What it holds, read to the end, and whose it is.
    pub(crate) fn node(&self) -> io::Result<(Node, Option<Owner>)> {
        self.examine(None)
    }

    /// The same, with a file's content written to `copy` on the way.
    pub(crate) fn copy_to(&self, copy: &mut File) -> io::Result<(Node, Option<Owner>)> {
        self.examine(Some(copy))
    }

    fn examine(&self, copy: Option<&mut File>) -> io::Result<(Node, Option<Owner>)> {
        let stat = match rustix::fs::statat(&self.directory, &*self.name, AtFlags::SYMLINK_NOFOLLOW)
        {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok((Node::Absent, None)),
            Err(errno) => return Err(errno.into()),
        };
        let owner = Some(Owner {
            uid: stat.st_uid,
            gid: stat.st_gid,
        });
        let mode = stat.st_mode & PERMISSIONS;
        let node = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => return Ok((self.file(copy)?, owner)),
            FileType::Directory => Node::Directory { mode },
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(&self.directory, &*self.name, Vec::new())?;
                let target = Path::new(OsStr::from_bytes(target.as_bytes()));
                Node::Symlink {
                    target: TreePath::from(target),
                }
            }
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Node::Other,
        };
        Ok((node, owner))
    }

    /// Opens what is there for reading, whatever it is: no link is followed, no pipe waited for.
    fn look(&self) -> rustix::io::Result<OwnedFd> {
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.directory, &*self.name, flags, Mode::empty())
    }

    /// The first bytes of a file; none of anything else.
    pub(crate) fn beginning(&self, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let Ok(fd) = self.look() else {
            return Ok(bytes);
        };
        let stat = rustix::fs::fstat(&fd)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            File::from(fd).take(most).read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    }

    fn file(&self, copy: Option<&mut File>) -> io::Result<Node> {
        let fd = match self.look() {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(Node::Absent),
            // It turned into a link since: whatever that is, it is not what was there.
            Err(Errno::LOOP | Errno::NXIO) => return Ok(Node::Other),
            Err(errno) => return Err(errno.into()),
        };
        let stat = rustix::fs::fstat(&fd)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(Node::Other);
        }
        let (size, sha256) = read_through(File::from(fd), copy)?;
        Ok(Node::File {
            mode: stat.st_mode & PERMISSIONS,
            size,
            sha256,
        })
    }

    /// Makes a file of this name with the content of `from`, synced. The name must be free.
    pub(crate) fn write(
        &self,
        mut from: File,
        mode: u32,
        owner: Option<Owner>,
    ) -> io::Result<Digest> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let private = Mode::from_raw_mode(0o600);
        let fd = rustix::fs::openat(&self.directory, &*self.name, flags, private)?;
        let mut file = File::from(fd);
        let (_, sha256) = read_through_into(&mut from, &mut file)?;
        let owner = self.owner_for(owner)?;
        if let Some(owner) = owner {
            let uid = rustix::fs::Uid::from_raw(owner.uid);
            let gid = rustix::fs::Gid::from_raw(owner.gid);
            rustix::fs::fchown(&file, Some(uid), Some(gid))?;
        }
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
        file.sync_all()?;
        Ok(sha256)
    }

    pub(crate) fn write_link(&self, target: &Path, owner: Option<Owner>) -> io::Result<()> {
        rustix::fs::symlinkat(target, &self.directory, &*self.name)?;
        if let Some(owner) = self.owner_for(owner)? {
            let uid = rustix::fs::Uid::from_raw(owner.uid);
            let gid = rustix::fs::Gid::from_raw(owner.gid);
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::chownat(&self.directory, &*self.name, Some(uid), Some(gid), flags)?;
        }
        Ok(())
    }

    /// Root leaves files with whoever owns the tree; for anybody else they are their own anyway.
    fn owner_for(&self, owner: Option<Owner>) -> io::Result<Option<Owner>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        if owner.is_some() {
            return Ok(owner);
        }
        let parent = rustix::fs::fstat(&self.directory)?;
        Ok(Some(Owner {
            uid: parent.st_uid,
            gid: parent.st_gid,
        }))
    }

    /// Makes a directory that only its owner can enter until its mode is set.
    pub(crate) fn make_directory(&self, owner: Option<Owner>) -> io::Result<()> {
        rustix::fs::mkdirat(&self.directory, &*self.name, Mode::from_raw_mode(0o700))?;
        if let Some(owner) = self.owner_for(owner)? {
            let uid = rustix::fs::Uid::from_raw(owner.uid);
            let gid = rustix::fs::Gid::from_raw(owner.gid);
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::chownat(&self.directory, &*self.name, Some(uid), Some(gid), flags)?;
        }
        Ok(())
    }

    /// The bit that a directory made here has from the one it is in.
    pub(crate) fn handed_on(&self) -> io::Result<u32> {
        let parent = rustix::fs::fstat(&self.directory)?;
        Ok(parent.st_mode & HANDS_GROUP_ON)
    }

    pub(crate) fn set_directory_mode(&self, mode: u32) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(&self.directory, &*self.name, flags, Mode::empty())?;
        Ok(rustix::fs::fchmod(directory, Mode::from_raw_mode(mode))?)
    }

    pub(crate) fn remove_directory(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(
            &self.directory,
            &*self.name,
            AtFlags::REMOVEDIR,
        )?)
    }

    pub(crate) fn unlink(&self) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.directory, &*self.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Moves it to `to`, which must be free.
    pub(crate) fn move_to(&self, to: &Self) -> io::Result<()> {
        match self.rename(to, RenameFlags::NOREPLACE) {
            Err(error) if unsupported(&error) => {
                // Without the flag, a moment lies between looking and moving.
                if to.node()?.0 != Node::Absent {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                self.rename(to, RenameFlags::empty())
            }
            other => other,
        }
    }

    /// Puts each in the other's place.
    pub(crate) fn exchange(&self, other: &Self) -> io::Result<()> {
        self.rename(other, RenameFlags::EXCHANGE)
    }

    /// Puts it in the place of `other`, which is lost.
    pub(crate) fn replace(&self, other: &Self) -> io::Result<()> {
        self.rename(other, RenameFlags::empty())
    }

    fn rename(&self, to: &Self, flags: RenameFlags) -> io::Result<()> {
        let (from, into) = (self.directory.as_fd(), to.directory.as_fd());
        Ok(rustix::fs::renameat_with(
            from,
            &*self.name,
            into,
            &*to.name,
            flags,
        )?)
    }

    /// Makes what was done to names in this directory last.
    pub(crate) fn sync_directory(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.directory)?)
    }
}

/// Whether the file system does not know this way of renaming.
pub(crate) fn unsupported(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP))
}

fn read_through(mut from: File, copy: Option<&mut File>) -> io::Result<(u64, Digest)> {
    match copy {
        Some(copy) => read_through_into(&mut from, copy),
        None => read_through_into(&mut from, &mut io::sink()),
    }
}

fn read_through_into(from: &mut File, into: &mut impl io::Write) -> io::Result<(u64, Digest)> {
    let mut hasher = Hashing::new();
    let mut buffer = vec![0_u8; 64 * 1024];
    let mut size = 0;
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let bytes = buffer.get(..count).unwrap_or_default();
        hasher.update(bytes);
        into.write_all(bytes)?;
        size += bytes.len() as u64;
    }
    Ok((size, hasher.finish()))
}

/// Copies `from` into a new file of ours, synced.
pub(crate) fn keep(mut from: File, place: &Path) -> io::Result<(u64, Digest)> {
    let mut copy = create(place)?;
    let read = read_through_into(&mut from, &mut copy)?;
    copy.sync_all()?;
    Ok(read)
}

/// Writes `bytes` to a new file of ours, synced.
pub(crate) fn keep_bytes(bytes: &[u8], place: &Path) -> io::Result<()> {
    let mut file = create(place)?;
    file.write_all(bytes)?;
    file.sync_all()
}

pub(crate) fn create(place: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::open(place, flags, Mode::from_raw_mode(0o600))?;
    Ok(File::from(fd))
}

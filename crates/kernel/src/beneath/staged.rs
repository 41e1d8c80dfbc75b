//! A workspace as a stage shows it: the upper layer of an overlay over the real tree.
//!
//! The upper layer is written by programs while it is read here. Each component of a path is
//! opened by its single name, never through a symlink, in a directory that is held open: whatever
//! is swapped or renamed meanwhile, a descriptor of the upper layer stays within it.
//!
//! Guarantee: what is read under a path was at that path in the staged view when it was opened.
//! Non-guarantee: a listing taken while a program writes is of no single moment.

use super::linux::{self, failure, kind_of};
use super::{Directory, Kind, Listing, OpenError, Opened, Root, RootError};
use airlock_core::WorkspacePath;
use airlock_sandbox::stage::Marks;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashSet;
use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

/// The upper layer, held open.
#[derive(Debug)]
pub(super) struct Layer {
    upper: OwnedFd,
    names: Names,
}

/// What overlay calls its marks here. Those of the other kind are a program's own and mean nothing.
#[derive(Debug, Clone, Copy)]
struct Names {
    opaque: &'static str,
    whiteout: &'static str,
}

/// A directory of the upper layer, open for listing.
#[derive(Debug)]
pub(super) struct Upper {
    directory: OwnedFd,
    names: Names,
    /// Whiteouts here may be attributes of empty files.
    attribute_whiteouts: bool,
}

/// Where a path is found.
enum Found {
    /// In the upper layer; and whether the real tree is seen beneath, if it is a directory.
    Upper(OwnedFd, Merge),
    /// In the real tree alone, if there.
    Real,
}

/// How a directory of the upper layer and the real one go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Merge {
    hides: bool,
    attribute_whiteouts: bool,
}

impl Layer {
    pub(super) fn open(upper: &Path, marks: Marks) -> Result<Self, RootError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(upper, flags, Mode::empty());
        let upper = opened.map_err(|errno| RootError::Io {
            path: upper.display().to_string(),
            source: errno.into(),
        })?;
        let names = match marks {
            Marks::Trusted => Names {
                opaque: "trusted.overlay.opaque",
                whiteout: "trusted.overlay.whiteout",
            },
            Marks::User => Names {
                opaque: "user.overlay.opaque",
                whiteout: "user.overlay.whiteout",
            },
        };
        Ok(Self { upper, names })
    }

    /// Looks `path` up, none of whose parts may be a symlink but the last.
    fn find(&self, path: &str) -> Result<Found, OpenError> {
        let mut here = name_only(&self.upper, c".").map_err(failure)?;
        let mut merge = self.merge(&here, false);
        let mut left = path.split('/').filter(|part| !matches!(*part, "" | "."));
        let mut next = left.next();
        while let Some(part) = next {
            if part == ".." {
                return Err(OpenError::Escapes);
            }
            let inner = match name_only(&here, part) {
                Ok(inner) => inner,
                Err(Errno::NOENT) if merge.hides => return Err(OpenError::NotFound),
                Err(Errno::NOENT) => return Ok(Found::Real),
                Err(errno) => return Err(failure(errno)),
            };
            if self.names.is_whiteout(&inner, merge.attribute_whiteouts)? {
                return Err(OpenError::NotFound);
            }
            next = left.next();
            let kind = kind_of(&inner)?;
            match (kind, next) {
                (Kind::Directory, _) => {
                    merge = self.merge(&inner, merge.hides);
                    here = inner;
                }
                (_, None) => return Ok(Found::Upper(inner, merge)),
                (Kind::Symlink, Some(_)) => return Err(OpenError::Escapes),
                (Kind::File | Kind::Other, Some(_)) => return Err(OpenError::NotADirectory),
            }
        }
        Ok(Found::Upper(here, merge))
    }

    /// What a directory of the upper layer, in one that hides the real tree or not, hides itself.
    fn merge(&self, directory: &OwnedFd, hidden: bool) -> Merge {
        let mark = attribute(directory, self.names.opaque);
        Merge {
            hides: hidden || mark.as_deref() == Some(b"y"),
            attribute_whiteouts: mark.as_deref() == Some(b"x"),
        }
    }
}

impl Names {
    fn is_whiteout(self, fd: &OwnedFd, by_attribute: bool) -> Result<bool, OpenError> {
        let stat = rustix::fs::fstat(fd).map_err(failure)?;
        let device = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
        if device && stat.st_rdev == 0 {
            return Ok(true);
        }
        let empty =
            FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_size == 0;
        Ok(by_attribute && empty && attribute(fd, self.whiteout).is_some())
    }
}

/// A descriptor that only names what is called `name` in `directory`; a symlink itself.
fn name_only<P: rustix::path::Arg>(directory: &OwnedFd, name: P) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty())
}

/// A short extended attribute, if it is set and may be read.
fn attribute(fd: &OwnedFd, name: &str) -> Option<Vec<u8>> {
    // A descriptor that only names a file cannot be asked itself, what it names can.
    let place = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let mut value = [0_u8; 16];
    let length = rustix::fs::getxattr(place, name, &mut value).ok()?;
    value.get(..length).map(<[u8]>::to_vec)
}

pub(super) fn open_beneath(
    root: &Root,
    layer: &Layer,
    path: &WorkspacePath,
) -> Result<Opened, OpenError> {
    let real = root.intended(path).ok_or(OpenError::Escapes)?;
    let descriptor = match layer.find(real.as_str())? {
        Found::Upper(descriptor, _) => descriptor,
        Found::Real => {
            let found = linux::reach_exactly(&root.directory, real.as_str())?;
            // Moved since, it is no longer what the path names.
            if linux::real_path(&root.directory, &root.base, &found)? != real {
                return Err(OpenError::NotFound);
            }
            found
        }
    };
    match kind_of(&descriptor)? {
        // Swapped in since the links were followed.
        Kind::Symlink => Err(OpenError::Escapes),
        kind @ (Kind::File | Kind::Directory | Kind::Other) => Ok(Opened {
            descriptor,
            real,
            kind,
        }),
    }
}

pub(super) fn open_file(root: &Root, layer: &Layer, path: &str) -> Result<File, OpenError> {
    match layer.find(path)? {
        Found::Real => linux::open_file(&root.directory, path),
        Found::Upper(descriptor, _) => match kind_of(&descriptor)? {
            Kind::File => linux::reopen(&descriptor),
            Kind::Symlink => Err(OpenError::Escapes),
            Kind::Directory | Kind::Other => Err(OpenError::NotAFile),
        },
    }
}

pub(super) fn open_directory(
    root: &Root,
    layer: &Layer,
    path: &str,
) -> Result<Directory, OpenError> {
    let (upper, merge) = match layer.find(path)? {
        Found::Real => {
            let real = Some(linux::open_directory(&root.directory, path)?);
            return Ok(Directory { real, over: None });
        }
        Found::Upper(upper, merge) => (upper, merge),
    };
    match kind_of(&upper)? {
        Kind::Directory => {}
        Kind::Symlink => return Err(OpenError::Escapes),
        Kind::File | Kind::Other => return Err(OpenError::NotADirectory),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(&upper, c".", flags, Mode::empty()).map_err(failure)?;
    let real = if merge.hides {
        None
    } else {
        // None there, or something else, shows nothing beneath.
        linux::open_directory(&root.directory, path).ok()
    };
    let over = Some(Upper {
        directory,
        names: layer.names,
        attribute_whiteouts: merge.attribute_whiteouts,
    });
    Ok(Directory { real, over })
}

pub(super) fn link_target(
    root: &Root,
    layer: &Layer,
    path: &str,
) -> Result<Option<Vec<u8>>, OpenError> {
    match layer.find(path)? {
        Found::Real => linux::link_target(&root.directory, path),
        Found::Upper(descriptor, _) => match kind_of(&descriptor)? {
            Kind::Symlink => rustix::fs::readlinkat(&descriptor, "", Vec::with_capacity(256))
                .map(|target| Some(target.into_bytes()))
                .map_err(failure),
            Kind::File | Kind::Directory | Kind::Other => Ok(None),
        },
    }
}

impl Upper {
    /// The entries of this directory, and of the real one where they are seen.
    pub(super) fn list(&self, real: Option<&OwnedFd>, into: &mut Listing) -> Result<(), OpenError> {
        let mut own = Listing::default();
        linux::list(&self.directory, &mut own)?;
        let mut names: HashSet<&[u8]> = HashSet::new();
        for (name, kind) in own.iter() {
            names.insert(name);
            let suspect = kind == Kind::Other || (self.attribute_whiteouts && kind == Kind::File);
            if suspect && self.hides(name) {
                continue;
            }
            into.push(name, kind);
        }
        let Some(real) = real else {
            return Ok(());
        };
        let mut below = Listing::default();
        linux::list(real, &mut below)?;
        for (name, kind) in below.iter().filter(|(name, _)| !names.contains(name)) {
            into.push(name, kind);
        }
        Ok(())
    }

    fn hides(&self, name: &[u8]) -> bool {
        let found = name_only(&self.directory, name);
        found.is_ok_and(|fd| {
            let whiteout = self.names.is_whiteout(&fd, self.attribute_whiteouts);
            whiteout.unwrap_or(false)
        })
    }

    pub(super) fn size(&self, name: &[u8]) -> Option<u64> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let stat = rustix::fs::statat(&self.directory, name, flags).ok()?;
        u64::try_from(stat.st_size).ok()
    }
}

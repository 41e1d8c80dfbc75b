//! Files beneath the workspace, as the worker reaches them inside its sandbox.
//!
//! Guarantee: every component of a path is opened in the directory before it, without following
//! any symlink, so nothing swapped meanwhile leads elsewhere. `openat2`, which does that in one
//! call, is not to be had in a sandbox.

use super::operation::{Code, Refusal};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;

/// The workspace.
pub(super) struct Root(OwnedFd);

/// A directory, and a name in it.
pub(super) struct Spot<'p> {
    directory: OwnedFd,
    name: &'p str,
    path: &'p str,
}

/// What is to be done about directories that are not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Make,
    Refuse,
}

impl Root {
    pub(super) fn open(path: &std::path::Path) -> Result<Self, Refusal> {
        let opened = rustix::fs::open(path, directory_flags(), Mode::empty());
        opened.map(Self).map_err(|errno| refused(".", errno))
    }

    /// Reaches the directory of `path`.
    pub(super) fn spot<'p>(&self, path: &'p str, missing: Missing) -> Result<Spot<'p>, Refusal> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        if matches!(name, "" | "." | "..") {
            let what = format!("`{path}` names no file");
            return Err(Refusal::new(Code::NotAFile, what));
        }
        let mut directory = self.0.try_clone().map_err(|error| io(path, &error))?;
        for component in above.split('/').filter(|component| !component.is_empty()) {
            directory =
                step(&directory, component, missing).map_err(|errno| refused(path, errno))?;
        }
        Ok(Spot {
            directory,
            name,
            path,
        })
    }
}

fn step(directory: &OwnedFd, component: &str, missing: Missing) -> Result<OwnedFd, Errno> {
    if matches!(component, "." | "..") {
        return Err(Errno::XDEV);
    }
    let open = || rustix::fs::openat(directory, component, directory_flags(), Mode::empty());
    match open() {
        Err(Errno::NOENT) if missing == Missing::Make => {
            match rustix::fs::mkdirat(directory, component, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => open(),
                Err(errno) => Err(errno),
            }
        }
        opened => opened,
    }
}

const fn directory_flags() -> OFlags {
    OFlags::RDONLY
        .union(OFlags::DIRECTORY)
        .union(OFlags::NOFOLLOW)
        .union(OFlags::CLOEXEC)
}

impl Spot<'_> {
    pub(super) const fn path(&self) -> &str {
        self.path
    }

    /// What is there; a symlink is not followed.
    pub(super) fn stat(&self) -> Result<Option<Stat>, Refusal> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        match rustix::fs::statat(&self.directory, self.name, flags) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(refused(self.path, errno)),
        }
    }

    /// The mode of the regular file that is there, none if nothing is.
    pub(super) fn mode(&self) -> Result<Option<u32>, Refusal> {
        match self.stat()? {
            None => Ok(None),
            Some(stat) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => Ok(Some(stat.st_mode & 0o777)),
                FileType::Symlink => Err(refused(self.path, Errno::LOOP)),
                FileType::Directory
                | FileType::Fifo
                | FileType::Socket
                | FileType::CharacterDevice
                | FileType::BlockDevice
                | FileType::Unknown => {
                    let what = format!("`{}` is not a regular file", self.path);
                    Err(Refusal::new(Code::NotAFile, what))
                }
            },
        }
    }

    /// The content of the regular file that is there.
    pub(super) fn read(&self, most: u64) -> Result<Vec<u8>, Refusal> {
        self.mode()?
            .ok_or_else(|| refused(self.path, Errno::NOENT))?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, self.name, flags, Mode::empty());
        let file = File::from(file.map_err(|errno| refused(self.path, errno))?);
        let mut bytes = Vec::new();
        let read = file.take(most + 1).read_to_end(&mut bytes);
        read.map_err(|error| io(self.path, &error))?;
        if bytes.len() as u64 > most {
            let what = format!("`{}` is larger than {most} bytes", self.path);
            return Err(Refusal::new(Code::TooLarge, what));
        }
        Ok(bytes)
    }

    /// Writes `bytes` beside the file, to take its place later.
    pub(super) fn draft(&self, bytes: &[u8], mode: Option<u32>) -> Result<Draft<'_>, Refusal> {
        let name = format!("{DRAFT}{}-{}", std::process::id(), next());
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let new = Mode::from_raw_mode(0o644);
        let file = rustix::fs::openat(&self.directory, &*name, flags, new);
        let mut file = File::from(file.map_err(|errno| refused(self.path, errno))?);
        let draft = Draft {
            spot: self,
            name: Some(name),
        };
        file.write_all(bytes)
            .map_err(|error| io(self.path, &error))?;
        if let Some(mode) = mode {
            rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))
                .map_err(|errno| refused(self.path, errno))?;
        }
        Ok(draft)
    }

    pub(super) fn unlink(&self) -> Result<(), Refusal> {
        rustix::fs::unlinkat(&self.directory, self.name, AtFlags::empty())
            .map_err(|errno| refused(self.path, errno))
    }

    pub(super) fn remove_directory(&self) -> Result<(), Errno> {
        rustix::fs::unlinkat(&self.directory, self.name, AtFlags::REMOVEDIR)
    }

    pub(super) fn make_directory(&self, mode: u32) -> Result<(), Refusal> {
        rustix::fs::mkdirat(
            &self.directory,
            self.name,
            Mode::from_raw_mode(0o700 | mode),
        )
        .map_err(|errno| refused(self.path, errno))
    }

    pub(super) fn link_target(&self) -> Result<std::ffi::CString, Refusal> {
        rustix::fs::readlinkat(&self.directory, self.name, Vec::new())
            .map_err(|errno| refused(self.path, errno))
    }

    pub(super) fn make_link(&self, target: &std::ffi::CStr) -> Result<(), Refusal> {
        rustix::fs::symlinkat(target, &self.directory, self.name)
            .map_err(|errno| refused(self.path, errno))
    }

    /// Moves what is here to `to`.
    pub(super) fn rename(&self, to: &Spot<'_>, replace: bool) -> Result<(), Errno> {
        let (from, into) = (&self.directory, &to.directory);
        if replace {
            return rustix::fs::renameat(from, self.name, into, to.name);
        }
        rustix::fs::renameat_with(from, self.name, into, to.name, RenameFlags::NOREPLACE)
    }

    /// The names in the directory that is here.
    pub(super) fn names(&self) -> Result<Vec<String>, Refusal> {
        let fail = |errno| refused(self.path, errno);
        let opened =
            rustix::fs::openat(&self.directory, self.name, directory_flags(), Mode::empty());
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::new(opened.map_err(fail)?).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Ok(text) = name.to_str() else {
                let what = format!("`{}` holds a name that is not UTF-8", self.path);
                return Err(Refusal::new(Code::Io, what));
            };
            names.push(text.to_owned());
        }
        names.sort_unstable();
        Ok(names)
    }
}

/// What the name of a draft begins with. The worker's number and a count follow.
const DRAFT: &str = ".airlock-";

/// Whether what is at `path` has the name of a draft. A worker that was ended could not remove its
/// own, and nobody means them.
pub(in super::super) fn is_draft(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let numbers = name.strip_prefix(DRAFT);
    let numbers = numbers.and_then(|numbers| numbers.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|(worker, count)| is_number(worker) && is_number(count))
}

/// New content that waits to take a file's place; gone if it never does.
pub(super) struct Draft<'s> {
    spot: &'s Spot<'s>,
    name: Option<String>,
}

impl Draft<'_> {
    /// Takes the place of the file, at once and as a whole.
    pub(super) fn publish(mut self, replace: bool) -> Result<(), Refusal> {
        let spot = self.spot;
        let Some(name) = self.name.take() else {
            return Ok(());
        };
        let directory = &spot.directory;
        let flags = if replace {
            RenameFlags::empty()
        } else {
            RenameFlags::NOREPLACE
        };
        rustix::fs::renameat_with(directory, &*name, directory, spot.name, flags).map_err(|errno| {
            self.name = Some(name);
            refused(spot.path, errno)
        })
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // If it stays, the check of the stage removes it.
            let _ = rustix::fs::unlinkat(&self.spot.directory, &**name, AtFlags::empty());
        }
    }
}

fn next() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

pub(super) fn io(path: &str, error: &std::io::Error) -> Refusal {
    match error.raw_os_error() {
        Some(number) => refused(path, Errno::from_raw_os_error(number)),
        None => Refusal::new(Code::Io, format!("`{path}`: {error}")),
    }
}

pub(super) fn refused(path: &str, errno: Errno) -> Refusal {
    let (code, what) = match errno {
        Errno::NOENT => (Code::NotFound, "is not there"),
        Errno::EXIST => (Code::AlreadyThere, "is there already"),
        Errno::NOTDIR => (Code::NotADirectory, "needs a directory where there is none"),
        Errno::ISDIR => (Code::NotAFile, "is a directory"),
        Errno::NOTEMPTY => (Code::NotEmpty, "is not empty"),
        Errno::LOOP | Errno::XDEV => (
            Code::Escapes,
            "leads through a symlink that was not there when it was judged",
        ),
        Errno::ACCESS | Errno::PERM | Errno::ROFS => {
            (Code::PermissionDenied, "may not be written in the sandbox")
        }
        Errno::FBIG | Errno::NOSPC | Errno::DQUOT => (Code::TooLarge, "does not fit"),
        Errno::NAMETOOLONG => (Code::TooLarge, "is too long a name"),
        other => return Refusal::new(Code::Io, format!("`{path}`: {other}")),
    };
    Refusal::new(code, format!("`{path}` {what}"))
}

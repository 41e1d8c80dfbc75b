//! Which sandboxes live, in a directory; and the removal of those whose supervisor died.
//!
//! A supervisor notes a sandbox before it makes anything of it, and holds a lock on the note for as
//! long as it lives: a note whose lock is free is a dead supervisor's, however it died. No process
//! number is trusted for that.
//!
//! Guarantees: a note is whole or not there. What collecting does is bounded by more than the note's
//! word: directories only beneath the registry's own, cgroups only those named after the sandbox
//! and on a cgroup file system, a process only if it started when noted, in this run of the machine,
//! and is the init of a pid namespace below ours. Each step is done whatever became of the others,
//! and may be done twice or by two at once.
//!
//! Does not guarantee removal of what was never noted, save for empty cgroups: see [`strays`].

mod collect;
mod entry;
mod remove;
mod strays;

pub use collect::{Collected, Trouble};
pub(crate) use entry::Entry;
pub(crate) use strays::remove_strays;

use super::limits::is_id;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the name of a note ends with.
const NOTE: &str = ".sandbox";
/// What the name of a note begins with that is not one yet.
const DRAFT: &str = ".draft-";

/// Why live sandboxes cannot be noted.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The directory is not to be had.
    #[error("cannot use `{path}` to note sandboxes in: {source}")]
    Directory {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Others could write what is obeyed here.
    #[error("`{path}` belongs to someone else")]
    Foreign {
        /// Which.
        path: PathBuf,
    },
    /// Not a name for a sandbox.
    #[error("`{id}` is no name for a sandbox")]
    Id {
        /// What was given.
        id: String,
    },
    /// There is such a sandbox.
    #[error("there is a sandbox `{id}` already")]
    Taken {
        /// Which.
        id: String,
    },
    /// A directory outside the registry's own.
    #[error("`{path}` is not in the directory of the registry")]
    Outside {
        /// Which.
        path: PathBuf,
    },
    /// A note could not be written.
    #[error("cannot note the sandbox `{id}`: {source}")]
    Note {
        /// Which.
        id: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl RegistryError {
    /// How to mend it.
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Directory { .. } => Some("make it a directory of your own with room on its disk"),
            Self::Foreign { .. } => Some("remove it, or name another directory"),
            Self::Id { .. } => Some("use letters, digits, `-` and `_`, at most 64"),
            Self::Taken { .. } | Self::Outside { .. } | Self::Note { .. } => None,
        }
    }
}

/// A directory in which live sandboxes are noted.
#[derive(Debug, Clone)]
pub(crate) struct Registry {
    path: PathBuf,
    directory: Arc<OwnedFd>,
    boot: Arc<str>,
}

impl Registry {
    /// Opens it, making it if need be, for this user alone.
    pub(crate) fn open(path: &Path) -> Result<Self, RegistryError> {
        let failed = |source: io::Error| RegistryError::Directory {
            path: path.to_owned(),
            source,
        };
        match rustix::fs::mkdir(path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(error.into())),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || -> rustix::io::Result<_> {
            let directory = rustix::fs::open(path, flags, Mode::empty())?;
            let stat = rustix::fs::fstat(&directory)?;
            Ok((directory, stat))
        };
        let (directory, stat) = open().map_err(|error| failed(error.into()))?;
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(RegistryError::Foreign {
                path: path.to_owned(),
            });
        }
        if stat.st_mode & 0o777 != 0o700 {
            let narrowed = rustix::fs::fchmod(&directory, Mode::RWXU);
            narrowed.map_err(|error| failed(error.into()))?;
        }
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            directory: Arc::new(directory),
            boot: boot.trim().into(),
        })
    }

    /// Notes a sandbox of which nothing exists yet. Directories are absolute, or relative to the
    /// registry's own; they must be beneath it.
    pub(crate) fn note(&self, entry: &Entry) -> Result<Noted, RegistryError> {
        if !is_id(&entry.id) {
            return Err(RegistryError::Id {
                id: entry.id.clone(),
            });
        }
        let name = format!("{}{NOTE}", entry.id);
        let taken = rustix::fs::statat(
            &*self.directory,
            &name,
            rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
        );
        if taken.is_ok() {
            return Err(RegistryError::Taken {
                id: entry.id.clone(),
            });
        }
        let file = self.write(entry, &name)?;
        Ok(Noted {
            registry: self.clone(),
            id: entry.id.clone(),
            name,
            file: Some(file),
        })
    }

    /// Puts a note in place, whole and locked.
    fn write(&self, entry: &Entry, name: &str) -> Result<File, RegistryError> {
        let failed = |source: io::Error| RegistryError::Note {
            id: entry.id.clone(),
            source,
        };
        let text = self.checked(entry)?.to_text(&self.boot);
        let text = text.map_err(|error| failed(error.into()))?;
        if text.len() as u64 > entry::MOST {
            return Err(failed(io::ErrorKind::FileTooLarge.into()));
        }
        // A collector may take a draft that is not locked yet for a dead one's, once.
        let mut last = None;
        for _ in 0..8 {
            match self.draft(&text, name) {
                Ok(Some(file)) => return Ok(file),
                Ok(None) => {}
                Err(error) => last = Some(error),
            }
        }
        Err(failed(
            last.unwrap_or_else(|| io::ErrorKind::ResourceBusy.into()),
        ))
    }

    /// One try; nothing if someone came between.
    fn draft(&self, text: &[u8], name: &str) -> io::Result<Option<File>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let draft = format!("{DRAFT}{}-{number}", std::process::id());
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let mut file = File::from(rustix::fs::openat(&*self.directory, &draft, flags, mode)?);
        let placed = (|| -> io::Result<()> {
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            file.write_all(text)?;
            // INVARIANT: it is locked before it has its name, so no living note is ever unlocked.
            rustix::fs::renameat(&*self.directory, &draft, &*self.directory, name)?;
            Ok(())
        })();
        match placed {
            Ok(()) if collect::is_at(&self.directory, name, &file)? => Ok(Some(file)),
            Ok(()) => Ok(None),
            Err(error) => {
                let _ = remove::unlink(&*self.directory, &draft);
                Err(error)
            }
        }
    }

    /// The entry with its directories relative to the registry's, if they are beneath it.
    fn checked(&self, entry: &Entry) -> Result<Entry, RegistryError> {
        let relative = |path: &PathBuf| {
            let inner = path.strip_prefix(&self.path).unwrap_or(path);
            if collect::is_beneath(inner) {
                Ok(inner.to_owned())
            } else {
                Err(RegistryError::Outside { path: path.clone() })
            }
        };
        let directories = entry.directories.iter().map(relative);
        Ok(Entry {
            directories: directories.collect::<Result<_, _>>()?,
            ..entry.clone()
        })
    }
}

/// A noted sandbox. Dropped without [`Noted::clear`], what is noted is left to the collector.
#[derive(Debug)]
#[must_use = "dropped, the sandbox is taken for a dead one's and collected"]
pub(crate) struct Noted {
    registry: Registry,
    id: String,
    name: String,
    file: Option<File>,
}

impl Noted {
    /// Notes more, or other things, of the same sandbox.
    pub(crate) fn update(&mut self, entry: &Entry) -> Result<(), RegistryError> {
        if entry.id != self.id {
            return Err(RegistryError::Id {
                id: entry.id.clone(),
            });
        }
        // The old lock is let go only after the new note is in place.
        let file = self.registry.write(entry, &self.name)?;
        self.file = Some(file);
        Ok(())
    }

    /// Forgets the sandbox, of which nothing is left.
    pub(crate) fn clear(self) -> io::Result<()> {
        Ok(remove::unlink(&*self.registry.directory, &self.name)?)
    }
}

#[cfg(test)]
mod tests;

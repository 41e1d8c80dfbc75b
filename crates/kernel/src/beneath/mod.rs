//! Opens what lies beneath a workspace root, and nothing else.
//!
//! Guarantee: every descriptor handed out was reached by the operating system kernel without
//! leaving the root (`openat2` with `RESOLVE_BENEATH`), so symlink swaps and renames racing the
//! call cannot lead outside. [`Opened`] names the real path of what was reached, and reading uses
//! that very descriptor: what was judged is what is read. Only regular files are ever read.
//!
//! Non-guarantee: a hard link is a file of its own here; its other names are not looked for.
//! A bind mount inside the root counts as inside.
//!
//! A root may be seen through a stage: what programs changed lies over the real tree, and each
//! component is then looked up in both layers, following no symlink but by its text, so that what a
//! program swaps meanwhile leads nowhere else either.
//!
//! Invariant: no function of this module opens a path by name outside `openat2`, but for a root
//! itself, single names that are no symlinks, and `/proc/self/fd`.

mod error;
mod intended;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(target_os = "linux")]
mod staged;

pub use error::{OpenError, RootError};
#[cfg(target_os = "linux")]
use linux as platform;
#[cfg(not(target_os = "linux"))]
use other as platform;
use platform::Handle;

use airlock_core::WorkspacePath;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "nothing is ever opened there")
)]
pub(crate) enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symlink. Only listings show one: opening follows it.
    Symlink,
    /// A FIFO, socket or device.
    Other,
}

impl Kind {
    /// The word results use.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink => "symlink",
            Self::Other => "other",
        }
    }
}

/// A workspace root, held open.
#[derive(Debug, Clone)]
pub struct Root {
    directory: Arc<Handle>,
    /// Where it is, as everybody but the operating system knows it.
    path: Arc<str>,
    /// Where the files are: another place for a stage that is a copy.
    base: Arc<str>,
    /// What lies over it.
    #[cfg(target_os = "linux")]
    stage: Option<Arc<staged::Layer>>,
}

/// How a stage is seen.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone)]
pub enum Staged {
    /// This directory lies over the real tree, marked so.
    Over(PathBuf, airlock_sandbox::stage::Marks),
    /// This directory takes its place.
    Instead(PathBuf),
}

impl Root {
    /// Opens `path`, which must be a directory whose real path is UTF-8.
    pub fn open(path: &Path) -> Result<Self, RootError> {
        let (directory, path) = platform::open_root(path)?;
        let path: Arc<str> = path.into();
        Ok(Self {
            directory: Arc::new(directory),
            base: Arc::clone(&path),
            path,
            #[cfg(target_os = "linux")]
            stage: None,
        })
    }

    /// The same root as a stage shows it.
    #[cfg(target_os = "linux")]
    pub fn through(&self, stage: &Staged) -> Result<Self, RootError> {
        match stage {
            Staged::Over(upper, marks) => Ok(Self {
                stage: Some(Arc::new(staged::Layer::open(upper, *marks)?)),
                ..self.clone()
            }),
            Staged::Instead(copy) => {
                let (directory, base) = platform::open_root(copy)?;
                Ok(Self {
                    directory: Arc::new(directory),
                    base: base.into(),
                    ..self.clone()
                })
            }
        }
    }

    /// The absolute real path of the root.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether its path still leads to it: somebody may have put another directory there.
    pub fn is_in_place(&self) -> bool {
        platform::is_in_place(&self.directory, &self.path)
    }

    /// Reaches `path` without reading it, following symlinks that stay inside.
    pub(crate) fn open_beneath(&self, path: &WorkspacePath) -> Result<Opened, OpenError> {
        #[cfg(target_os = "linux")]
        if let Some(layer) = &self.stage {
            return staged::open_beneath(self, layer, path);
        }
        let descriptor = platform::reach(&self.directory, path.as_str())?;
        let kind = platform::kind_of(&descriptor)?;
        let real = platform::real_path(&self.directory, &self.base, &descriptor)?;
        Ok(Opened {
            descriptor,
            real,
            kind,
        })
    }

    /// Where `path`, which could not be reached, would have led: see [`intended`].
    pub(crate) fn intended(&self, path: &WorkspacePath) -> Option<WorkspacePath> {
        intended::intended(self, path)
    }

    /// Bytes of the regular file at `path`, whose symlinks are followed already.
    pub(crate) fn file_size(&self, path: &WorkspacePath) -> Option<u64> {
        let file = self.open_file(path.as_str()).ok()?;
        file.metadata().ok().map(|found| found.len())
    }

    /// Opens the regular file `path` for reading, following no symlink at all.
    pub(crate) fn open_file(&self, path: &str) -> Result<File, OpenError> {
        #[cfg(target_os = "linux")]
        if let Some(layer) = &self.stage {
            return staged::open_file(self, layer, path);
        }
        platform::open_file(&self.directory, path)
    }

    /// Opens the directory `path` for listing, following no symlink at all.
    pub(crate) fn open_directory(&self, path: &str) -> Result<Directory, OpenError> {
        #[cfg(target_os = "linux")]
        if let Some(layer) = &self.stage {
            return staged::open_directory(self, layer, path);
        }
        platform::open_directory(&self.directory, path).map(|real| Directory {
            real: Some(real),
            #[cfg(target_os = "linux")]
            over: None,
        })
    }

    /// Where the symlink `path` points, none if it is something else.
    fn link_target(&self, path: &str) -> Result<Option<Vec<u8>>, OpenError> {
        #[cfg(target_os = "linux")]
        if let Some(layer) = &self.stage {
            return staged::link_target(self, layer, path);
        }
        platform::link_target(&self.directory, path)
    }
}

/// Something beneath the root, reached but not yet read.
#[derive(Debug)]
pub(crate) struct Opened {
    descriptor: Handle,
    /// Its real path, every symlink resolved.
    pub(crate) real: WorkspacePath,
    /// What it is.
    pub(crate) kind: Kind,
}

impl Opened {
    /// Opens this very file for reading, if it is a regular file.
    pub(crate) fn read(&self) -> Result<File, OpenError> {
        match self.kind {
            Kind::File => platform::reopen(&self.descriptor),
            Kind::Directory | Kind::Symlink | Kind::Other => Err(OpenError::NotAFile),
        }
    }
}

/// A directory open for listing.
#[derive(Debug)]
pub(crate) struct Directory {
    /// That of the real tree, where it is seen.
    real: Option<Handle>,
    /// What a stage has over it.
    #[cfg(target_os = "linux")]
    over: Option<staged::Upper>,
}

impl Directory {
    /// Reads every entry but `.` and `..`, in no order.
    pub(crate) fn list(&self, into: &mut Listing) -> Result<(), OpenError> {
        into.clear();
        #[cfg(target_os = "linux")]
        if let Some(over) = &self.over {
            return over.list(self.real.as_ref(), into);
        }
        match &self.real {
            Some(real) => platform::list(real, into),
            None => Ok(()),
        }
    }

    /// A path to `name` in this very directory of the real tree, whatever its own path leads to
    /// meanwhile; none if the real tree has no such directory.
    pub(crate) fn path_of(&self, name: &str) -> Option<PathBuf> {
        let real = self.real.as_ref()?;
        Some(platform::directory_path(real).join(name))
    }

    /// The size of the entry `name`, if it is still there; a symlink is not followed.
    pub(crate) fn size(&self, name: &[u8]) -> Option<u64> {
        #[cfg(target_os = "linux")]
        if let Some(size) = self.over.as_ref().and_then(|over| over.size(name)) {
            return Some(size);
        }
        platform::size(self.real.as_ref()?, name)
    }
}

/// The names in a directory, kept in one buffer: a walk reads thousands of directories.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    names: Vec<u8>,
    entries: Vec<(usize, Kind)>,
}

impl Listing {
    fn clear(&mut self) {
        self.names.clear();
        self.entries.clear();
    }

    #[cfg(target_os = "linux")]
    fn push(&mut self, name: &[u8], kind: Kind) {
        self.names.extend_from_slice(name);
        self.entries.push((self.names.len(), kind));
    }

    /// The entries with their kinds.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Kind)> {
        let mut start = 0;
        self.entries.iter().map(move |&(end, kind)| {
            let name = self.names.get(start..end).unwrap_or_default();
            start = end;
            (name, kind)
        })
    }
}

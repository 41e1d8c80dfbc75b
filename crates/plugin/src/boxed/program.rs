//! The program a box runs: the bytes that were approved, and no others.
//!
//! The entry is opened once, beneath the plugin's directory, and copied from that descriptor while
//! its digest is taken; the copy is what runs, from a place the plugin cannot write. So nothing that
//! happens to the file afterwards matters. Scripts look for their neighbours: the copy stands at the
//! same place of a small tree of links in which every other name leads into the plugin's directory.

use super::BoxRequest;
use crate::held::HeldDirectory;
use crate::host::StartError;
use crate::manager::remove_plugin_directory;
use airlock_core::{Digest, Hashing};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest program that is run.
const PROGRAM_BYTES: u64 = 1 << 30;
/// The most names in one directory that are linked; a script that needs the rest finds the whole
/// directory at its own path.
const NAMES: usize = 4_096;
/// The most directories above an entry.
const DEPTH: usize = 32;
/// In the directory of a program: stands for the plugin's.
const TREE: &str = "tree";

/// A program kept for one box. Dropped, it is removed.
#[derive(Debug)]
pub(super) struct Program {
    /// The plugin's directory, without links.
    directory: PathBuf,
    /// Where it is kept. Held, so that nobody sweeps it away.
    kept: HeldDirectory,
    path: PathBuf,
}

impl Program {
    /// Copies the entry into `programs`, if it is what was approved.
    pub(super) fn keep(request: &BoxRequest<'_>, programs: &Path) -> Result<Self, StartError> {
        let entry = &request.manifest.execution.entry;
        let unusable = |why: String| StartError::Entry {
            entry: entry.clone(),
            why,
        };
        let failed = |error: io::Error| unusable(error.to_string());
        let (file, directory, within) = open(request.directory, entry).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(unusable("it is no file".to_owned()));
        }
        let kept = make(programs, request.manifest.name.as_str()).map_err(failed)?;
        let path = kept.path().join(TREE).join(&within);
        let program = Self {
            directory,
            kept,
            path,
        };
        program.link_neighbours(&within).map_err(failed)?;
        let found = copy(file, &program.path).map_err(failed)?;
        if found != request.entry {
            return Err(unusable(format!(
                "its digest is {}, and {} was approved",
                found.short(),
                request.entry.short()
            )));
        }
        Ok(program)
    }

    /// The program, as it is seen inside and outside.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What has to be seen for it to run.
    pub(super) fn tree(&self) -> PathBuf {
        self.kept.path().join(TREE)
    }

    /// The plugin's directory, without links.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes the directories above the entry, and links to everything else in them.
    fn link_neighbours(&self, within: &Path) -> io::Result<()> {
        let names: Vec<&OsStr> = within.iter().collect();
        if names.len() > DEPTH {
            return Err(io::Error::other("it lies too deep"));
        }
        let (mut theirs, mut ours) = (self.directory.clone(), self.tree());
        for next in names {
            make_directory(&ours)?;
            for neighbour in fs::read_dir(&theirs)?.take(NAMES) {
                let name = neighbour?.file_name();
                if name != next {
                    symlink(theirs.join(&name), ours.join(&name))?;
                }
            }
            theirs.push(next);
            ours.push(next);
        }
        Ok(())
    }
}

/// Opens the entry beneath the plugin's directory. Gives that directory without links, and where in
/// it the entry really is.
fn open(directory: &Path, entry: &str) -> io::Result<(File, PathBuf, PathBuf)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(directory, flags, Mode::empty())?;
    // A FIFO nobody writes to would otherwise be waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let file = openat2(&root, entry, flags, Mode::empty(), beneath)?;
    let (real, place) = (real_path(&root)?, real_path(&file)?);
    let within = place.strip_prefix(&real);
    let within = within.map_err(|_| io::Error::other("it is not in the plugin's directory"))?;
    if within.as_os_str().is_empty() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok((File::from(file), real.clone(), within.to_owned()))
}

fn real_path(descriptor: &OwnedFd) -> io::Result<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd()))
}

/// A directory of its own for one program, locked.
fn make(programs: &Path, name: &str) -> io::Result<HeldDirectory> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    // A sandbox is granted what has no link on its way.
    let programs = programs.canonicalize()?;
    let name = format!("{name}-{}-{number}", std::process::id());
    // One that a process of the same number left.
    remove_plugin_directory(&programs.join(&name))?;
    HeldDirectory::make(&programs, &name)
}

/// Removes the programs of processes that are gone.
pub(super) fn sweep(programs: &Path) {
    HeldDirectory::sweep(programs, "");
}

/// The sandbox may be another user than we are.
fn make_directory(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    DirBuilder::new().mode(0o755).create(path)?;
    // Whatever the umask.
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// Copies `from` to a new program at `to`, and gives the digest of what was copied.
fn copy(from: File, to: &Path) -> io::Result<Digest> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o700);
    let mut target = options.open(to)?;
    let mut from = from.take(PROGRAM_BYTES + 1);
    let (mut hasher, mut length) = (Hashing::new(), 0_u64);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut buffer)?;
        let piece = buffer.get(..read).unwrap_or_default();
        if piece.is_empty() {
            break;
        }
        length += read as u64;
        if length > PROGRAM_BYTES {
            return Err(io::Error::other("it is too large for a program"));
        }
        hasher.update(piece);
        target.write_all(piece)?;
    }
    target.set_permissions(fs::Permissions::from_mode(0o555))?;
    Ok(hasher.finish())
}

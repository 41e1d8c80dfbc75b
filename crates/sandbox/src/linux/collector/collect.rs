//! Removing what dead supervisors left.

use super::super::limits::{Group, Process, is_of};
use super::{DRAFT, Entry, NOTE, Registry, entry, remove};
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, ResolveFlags, flock};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// What was collected.
#[derive(Debug, Default)]
pub struct Collected {
    /// The sandboxes whose supervisor died, of which nothing is left.
    pub removed: Vec<String>,
    /// Sandboxes that live.
    pub alive: usize,
    /// What went wrong; what could be removed was.
    pub troubles: Vec<Trouble>,
}

/// One thing that could not be collected, or was refused.
#[derive(Debug, thiserror::Error)]
#[error("collecting `{note}`: {what}")]
pub struct Trouble {
    /// The name of the note.
    pub note: String,
    /// What, and why.
    pub what: String,
}

impl Registry {
    /// Removes what dead supervisors left. One look at the directory if there is nothing.
    pub(crate) fn collect(&self) -> Collected {
        let mut collected = Collected::default();
        match self.names() {
            Ok(names) => {
                for name in names {
                    self.collect_name(&name, &mut collected);
                }
            }
            Err(error) => collected.trouble(&self.path.to_string_lossy(), &error),
        }
        collected
    }

    fn names(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&*self.directory)? {
            names.push(entry?.file_name().to_bytes().to_owned());
        }
        Ok(names)
    }

    fn collect_name(&self, name: &[u8], collected: &mut Collected) {
        let shown = String::from_utf8_lossy(name).into_owned();
        let done = if name.starts_with(remove::DOOMED.as_bytes()) {
            remove::remove(&*self.directory, Path::new(OsStr::from_bytes(name)))
        } else if name.starts_with(DRAFT.as_bytes()) {
            self.take(name).and_then(|taken| match taken {
                Taken::Note(_) | Taken::Strange(_) => self.unlink(name),
                Taken::Alive | Taken::Gone => Ok(()),
            })
        } else if let Some(id) = name.strip_suffix(NOTE.as_bytes()) {
            self.collect_note(name, id, collected)
        } else {
            // Directories of sandboxes are named by their notes.
            Ok(())
        };
        if let Err(error) = done {
            collected.trouble(&shown, &error);
        }
    }

    fn unlink(&self, name: &[u8]) -> io::Result<()> {
        Ok(remove::unlink(&*self.directory, name)?)
    }

    /// Opens a note and takes its lock, if whoever held it is dead.
    fn take(&self, name: &[u8]) -> io::Result<Taken> {
        // Not blocked by a pipe, nor led away by a link.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&*self.directory, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(Taken::Gone),
            Err(Errno::LOOP | Errno::NXIO) => return Ok(Taken::Strange("it is no file")),
            Err(error) => return Err(error.into()),
        };
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(Taken::Strange("it is no file"));
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(Taken::Alive),
            Err(error) => return Err(error.into()),
        }
        // What was opened may have been replaced before it was locked: then it is no note any more.
        if is_at(&self.directory, name, &file)? {
            Ok(Taken::Note(file))
        } else {
            Ok(Taken::Gone)
        }
    }

    fn collect_note(&self, name: &[u8], id: &[u8], collected: &mut Collected) -> io::Result<()> {
        let shown = String::from_utf8_lossy(name).into_owned();
        let file = match self.take(name)? {
            Taken::Note(file) => file,
            Taken::Alive => {
                collected.alive += 1;
                return Ok(());
            }
            Taken::Gone => return Ok(()),
            Taken::Strange(what) => {
                collected.trouble(&shown, &what);
                return self.unlink(name);
            }
        };
        let (entry, boot) = match read(&file, id) {
            Ok(read) => read,
            Err(what) => {
                collected.trouble(&shown, &what);
                return self.unlink(name);
            }
        };
        let before = collected.troubles.len();
        let refused = self.clean(&entry, &boot, &shown, collected);
        if collected.troubles.len() == before {
            collected.removed.push(entry.id);
        } else if !refused {
            // Something is left that may go next time: the note stays.
            return Ok(());
        }
        self.unlink(name)
    }

    /// Does every step; true if all that went wrong is what will never be done.
    fn clean(&self, entry: &Entry, boot: &str, note: &str, collected: &mut Collected) -> bool {
        let mut only_refused = true;
        let mut step = |done: Result<(), Failed>| match done {
            Ok(()) => {}
            Err(Failed::Refused(what)) => collected.trouble(note, &what),
            Err(Failed::Error(what, error)) => {
                only_refused = false;
                collected.trouble(note, &format!("{what}: {error}"));
            }
        };
        if let Some(init) = entry.init.filter(|_| boot == &*self.boot) {
            step(kill(init));
        }
        for cgroup in &entry.cgroups {
            step(remove_cgroup(cgroup, &entry.id));
        }
        for directory in &entry.directories {
            step(self.remove_directory(directory));
        }
        only_refused
    }

    fn remove_directory(&self, path: &Path) -> Result<(), Failed> {
        if !is_beneath(path) {
            return Err(Failed::Refused(format!(
                "`{}` is not in the registry's directory",
                path.display()
            )));
        }
        remove::remove(&*self.directory, path)
            .map_err(|error| Failed::Error(format!("removing `{}`", path.display()), error))
    }
}

/// What became of an attempt to take a note.
enum Taken {
    Note(File),
    Alive,
    Gone,
    Strange(&'static str),
}

enum Failed {
    /// It is not done, and will not be.
    Refused(String),
    Error(String, io::Error),
}

impl Collected {
    fn trouble(&mut self, note: &str, what: &dyn std::fmt::Display) {
        self.troubles.push(Trouble {
            note: note.to_owned(),
            what: what.to_string(),
        });
    }
}

/// Whether a name still is that of an open file.
pub(super) fn is_at(
    directory: &OwnedFd,
    name: impl rustix::path::Arg,
    file: &File,
) -> io::Result<bool> {
    let open = rustix::fs::fstat(file)?;
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(named) => Ok((named.st_dev, named.st_ino) == (open.st_dev, open.st_ino)),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether a relative path leads to something beneath where it starts, and is not one of the
/// registry's own files.
pub(super) fn is_beneath(path: &Path) -> bool {
    let mut components = path.components();
    let own = |name: &OsStr| name.as_bytes().ends_with(NOTE.as_bytes());
    let first = match components.next() {
        Some(Component::Normal(name)) => !own(name),
        _ => false,
    };
    first && components.all(|part| matches!(part, Component::Normal(_)))
}

fn read(file: &File, id: &[u8]) -> Result<(Entry, String), String> {
    let mut text = Vec::new();
    let read = file.take(entry::MOST + 1).read_to_end(&mut text);
    read.map_err(|error| error.to_string())?;
    if text.len() as u64 > entry::MOST {
        return Err("it is too long for a note".to_owned());
    }
    let (entry, boot) = Entry::from_text(&text)?;
    if entry.id.as_bytes() != id {
        return Err(format!("it is about `{}`", entry.id.escape_default()));
    }
    Ok((entry, boot))
}

/// Kills a sandbox's init, and with it everything in its pid namespace.
fn kill(init: Process) -> Result<(), Failed> {
    let pid = i32::try_from(init.pid).ok().and_then(Pid::from_raw);
    let Some(pid) = pid.filter(|_| init.pid != std::process::id()) else {
        return Err(Failed::Refused(format!("{} is no init", init.pid)));
    };
    let failed = |error: Errno| Failed::Error(format!("killing {}", init.pid), error.into());
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(Errno::SRCH) => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    // After it was opened: if this number had passed on meanwhile, it started at another time.
    if Process::of(init.pid).ok() != Some(init) {
        return Ok(());
    }
    if !is_inner_init(init.pid) {
        return Err(Failed::Refused(format!(
            "{} is no init of a sandbox",
            init.pid
        )));
    }
    match pidfd_send_signal(&process, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

/// Whether a process is the first of a pid namespace below ours, so that no ordinary process can
/// come to harm by a wrong note.
fn is_inner_init(pid: u32) -> bool {
    // The name in it is on one line, its newlines escaped.
    let status = fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut lines = status.split(|byte| *byte == b'\n');
    let numbers = lines.find_map(|line| line.strip_prefix(b"NSpid:"));
    let numbers: Vec<&[u8]> = numbers
        .unwrap_or_default()
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .collect();
    numbers.len() > 1 && numbers.last() == Some(&b"1".as_slice())
}

/// Kills what is in a cgroup, and removes it.
fn remove_cgroup(path: &PathBuf, id: &str) -> Result<(), Failed> {
    let refused = |why: &str| Err(Failed::Refused(format!("`{}` {why}", path.display())));
    let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if !is_of(path, id) || !path.is_absolute() || !path.components().all(plain) {
        return refused("is not a cgroup of this sandbox");
    }
    let failed = |error: io::Error| Failed::Error(format!("removing `{}`", path.display()), error);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat2(
        rustix::fs::CWD,
        path,
        flags,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS,
    );
    let directory = match directory {
        Ok(directory) => directory,
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::LOOP | Errno::NOTDIR) => return refused("is not a directory"),
        Err(error) => return Err(failed(error.into())),
    };
    let kind = rustix::fs::fstatfs(&directory).map_err(|error| failed(error.into()))?;
    if !CGROUP_FILE_SYSTEMS.contains(&i128::from(kind.f_type)) {
        return refused("is not on a cgroup file system");
    }
    let group = Group::left(std::slice::from_ref(path));
    let killed = group.kill();
    group.remove().and(killed).map_err(failed)
}

/// The magic numbers of cgroup file systems, version 1 and 2, from the kernel's `magic.h`.
const CGROUP_FILE_SYSTEMS: [i128; 2] = [0x0027_e0eb, 0x6367_7270];

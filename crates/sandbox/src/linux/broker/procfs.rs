//! `/proc` inside the sandbox: whose it is, and what of it the broker opens.
//!
//! The broker is no process of the sandbox, so `self` is replaced by the asking process's number,
//! and a link to an open file (`fd/3`, `cwd`, `exe`) is followed only for a process the asker could
//! look into itself. Nothing of process 1, the sandbox's init, is opened: the supervisor has powers
//! over it that no process inside has. Files whose content depends on who opens them (names and
//! network settings of the host) are refused.
//!
//! Writing is for a few files of the own process: everything else there changes more than a file.

use super::judge::OwnPath;
use super::target::Request;
use crate::plan::HostPath;
use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The inode of the top of a `/proc`.
pub(super) const TOP: u64 = 1;

/// Files of the own process that may be opened for writing.
const WRITABLE: &[&str] = &[
    "comm",
    "oom_score_adj",
    "oom_adj",
    "coredump_filter",
    "clear_refs",
    "timerslack_ns",
    "mem",
];

/// Links of a process that lead to a file and not to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Root,
    File,
}

/// Where in `/proc` something is.
#[derive(Debug, PartialEq, Eq)]
enum Place<'a> {
    Process { number: u32, below: Vec<&'a OsStr> },
    Elsewhere(Vec<&'a OsStr>),
}

impl Request<'_> {
    /// Whether a file or directory of `/proc` may be opened.
    pub(super) fn permit_process_file(&self, path: &HostPath, write: bool) -> Result<(), Errno> {
        match place(path)? {
            Place::Process { number, below } => {
                let own = self.may_look_into(number)?;
                let last = below.last().and_then(|name| name.to_str());
                let writable = last.is_some_and(|name| WRITABLE.contains(&name));
                if (write && !(own && writable)) || (!own && last == Some("mem")) {
                    return Err(Errno::ACCESS);
                }
                Ok(())
            }
            Place::Elsewhere(below) => {
                if write || depends_on_the_opener(&below) {
                    return Err(Errno::ACCESS);
                }
                Ok(())
            }
        }
    }

    /// Follows a link of `/proc` that leads to a file; none for one that has a path as any other.
    pub(super) fn follow_process_link(
        &self,
        directory: BorrowedFd<'_>,
        name: &[u8],
        link: BorrowedFd<'_>,
    ) -> Result<Option<OwnedFd>, Errno> {
        let OwnPath::At(path) = self.shared.rules.own_path(link)? else {
            return Err(Errno::ACCESS);
        };
        let Place::Process { number, below } = place(&path)? else {
            return Ok(None);
        };
        self.may_look_into(number)?;
        match kind(&below) {
            Some(Link::Root) => Ok(Some(
                self.shared.root.try_clone().map_err(|_| Errno::MFILE)?,
            )),
            Some(Link::File) => {
                let _raised = self.powers.raise()?;
                let flags = OFlags::PATH | OFlags::CLOEXEC;
                openat(directory, name, flags, Mode::empty()).map(Some)
            }
            None => Err(Errno::ACCESS),
        }
    }

    /// Whether a process is the asker itself; fails for one the asker could not look into.
    fn may_look_into(&self, number: u32) -> Result<bool, Errno> {
        let status = self.status()?;
        if number == 1 {
            return Err(Errno::ACCESS);
        }
        if number == status.process || number == status.thread {
            return Ok(true);
        }
        let owner = |path: String| {
            statat(&self.shared.root, path, AtFlags::SYMLINK_NOFOLLOW).map(|stat| stat.st_uid)
        };
        let asker = owner(format!("proc/{}", status.process))?;
        // The directory stays its user's; what is in it the kernel gives to root once the process may
        // not be looked into.
        let is_theirs = owner(format!("proc/{number}"))? == asker;
        if is_theirs && owner(format!("proc/{number}/maps"))? == asker {
            Ok(false)
        } else {
            Err(Errno::ACCESS)
        }
    }
}

/// The device of the sandbox's `/proc`, if it has one.
pub(super) fn device(root: BorrowedFd<'_>) -> Result<Option<u64>, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match openat(root, "proc", flags, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error),
    };
    let kind = rustix::fs::fstatfs(&directory)?.f_type;
    if kind != rustix::fs::PROC_SUPER_MAGIC {
        return Ok(None);
    }
    Ok(Some(fstat(directory.as_fd())?.st_dev))
}

fn place(path: &HostPath) -> Result<Place<'_>, Errno> {
    let mut names = path.names();
    if names.next() != Some(OsStr::new("proc")) {
        return Err(Errno::ACCESS);
    }
    let below: Vec<&OsStr> = names.collect();
    let number = below
        .first()
        .and_then(|name| name.to_str()?.parse::<u32>().ok());
    Ok(match number {
        Some(number) => Place::Process {
            number,
            below: below.into_iter().skip(1).collect(),
        },
        None => Place::Elsewhere(below),
    })
}

fn kind(below: &[&OsStr]) -> Option<Link> {
    let names: Vec<&str> = below.iter().filter_map(|name| name.to_str()).collect();
    let names = match names.as_slice() {
        ["task", _, rest @ ..] => rest,
        all => all,
    };
    match names {
        ["root"] => Some(Link::Root),
        ["cwd" | "exe"] | ["fd", _] => Some(Link::File),
        _ => None,
    }
}

/// Whether the kernel would show the host's value, since the host's process opens it.
fn depends_on_the_opener(below: &[&OsStr]) -> bool {
    let names: Vec<&str> = below.iter().filter_map(|name| name.to_str()).collect();
    matches!(
        names.as_slice(),
        ["sys", "net", _, ..]
            | ["sys", "kernel", "hostname" | "domainname"]
            | ["sysvipc", ..]
            | ["sys", "fs", "mqueue", ..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_to_files_of_a_process_are_followed() {
        for (path, want) in [
            ("/proc/7/fd/3", Some(Link::File)),
            ("/proc/7/task/8/fd/3", Some(Link::File)),
            ("/proc/7/cwd", Some(Link::File)),
            ("/proc/7/exe", Some(Link::File)),
            ("/proc/7/root", Some(Link::Root)),
            ("/proc/7/task/8/root", Some(Link::Root)),
            ("/proc/7/ns/mnt", None),
            ("/proc/7/map_files/1-2", None),
        ] {
            let path = HostPath::new(path).unwrap();
            let Ok(Place::Process { number, below }) = place(&path) else {
                panic!("{path}");
            };
            assert_eq!((number, kind(&below)), (7, want), "{path}");
        }
        let outside = HostPath::new("/mnt/7/fd/3").unwrap();
        assert_eq!(place(&outside), Err(Errno::ACCESS));
    }

    #[test]
    fn what_the_kernel_would_show_of_the_host_is_known() {
        for (path, want) in [
            ("/proc/sysvipc/shm", true),
            ("/proc/sys/fs/mqueue/msg_max", true),
            ("/proc/sys/net/ipv4/ip_forward", true),
            ("/proc/sys/kernel/hostname", true),
            ("/proc/sys/kernel/osrelease", false),
            ("/proc/meminfo", false),
        ] {
            let path = HostPath::new(path).unwrap();
            let Ok(Place::Elsewhere(below)) = place(&path) else {
                panic!("{path}");
            };
            assert_eq!(depends_on_the_opener(&below), want, "{path}");
        }
    }
}

//! Whose processes a sandbox's are, on the host.
//!
//! An ordinary user's sandbox has that user's uid on the host and 1000 inside. Root's has a uid of
//! its own that nobody else has, so that even without any namespace it would not be root; files it
//! is granted appear as its own through mounts that map their owner to it.

use super::program::INSIDE;
use super::sys;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, WaitIdOptions, getegid, geteuid, pidfd_send_signal, waitid};
use std::collections::BTreeMap;
use std::fs;
use std::io;

/// The host uid and gid of sandboxes that root starts: far above what systems hand out, and below
/// what some file systems cannot store.
pub(super) const HOST_USER: u32 = 1_879_048_192;

/// Whom a sandbox belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Identity {
    /// Started by an ordinary user.
    User { user: u32, group: u32 },
    /// Started by root.
    Root { user: u32, group: u32 },
}

impl Identity {
    /// That of this process.
    pub(super) fn own() -> Self {
        let (user, group) = (geteuid().as_raw(), getegid().as_raw());
        if user == 0 {
            Self::Root {
                user: HOST_USER,
                group: HOST_USER,
            }
        } else {
            Self::User { user, group }
        }
    }

    /// The host user and group to become, where that is another than ours.
    pub(super) const fn other(self) -> Option<(u32, u32)> {
        match self {
            Self::User { .. } => None,
            Self::Root { user, group } => Some((user, group)),
        }
    }

    /// Gives the process `pid`, in a new user namespace, its user.
    pub(super) fn map(self, pid: i32) -> io::Result<()> {
        let (user, group) = match self {
            Self::User { user, group } => {
                // Otherwise an ordinary user may not map a group.
                fs::write(format!("/proc/{pid}/setgroups"), "deny")?;
                (user, group)
            }
            Self::Root { user, group } => (user, group),
        };
        fs::write(
            format!("/proc/{pid}/gid_map"),
            format!("{INSIDE} {group} 1\n"),
        )?;
        fs::write(
            format!("/proc/{pid}/uid_map"),
            format!("{INSIDE} {user} 1\n"),
        )
    }
}

/// User namespaces that make the owner of a tree the sandbox's user, one for each owner.
#[derive(Debug, Default)]
pub(super) struct Maps {
    numbers: BTreeMap<(u32, u32), u32>,
    namespaces: Vec<OwnedFd>,
}

/// The most of them that one sandbox can have.
pub(super) const MOST_MAPS: usize = 64;

impl Maps {
    /// The number of the namespace for trees of this owner.
    pub(super) fn of(&mut self, user: u32, group: u32) -> io::Result<u32> {
        if let Some(number) = self.numbers.get(&(user, group)) {
            return Ok(*number);
        }
        let number = self.namespaces.len();
        if number >= MOST_MAPS {
            let why = format!("what is granted has more than {MOST_MAPS} owners");
            return Err(io::Error::other(why));
        }
        let number = u32::try_from(number).map_err(io::Error::other)?;
        self.namespaces.push(namespace(user, group)?);
        self.numbers.insert((user, group), number);
        Ok(number)
    }

    /// All of them, by their numbers.
    pub(super) fn namespaces(&self) -> &[OwnedFd] {
        &self.namespaces
    }
}

/// A user namespace in which `user` and `group` of a file system are those of the sandbox.
fn namespace(user: u32, group: u32) -> io::Result<OwnedFd> {
    let sleeper = sys::sleeper_in_user_namespace()?;
    let made = (|| {
        let pid = sleeper.pid;
        fs::write(
            format!("/proc/{pid}/gid_map"),
            format!("{group} {HOST_USER} 1\n"),
        )?;
        fs::write(
            format!("/proc/{pid}/uid_map"),
            format!("{user} {HOST_USER} 1\n"),
        )?;
        let path = format!("/proc/{pid}/ns/user");
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(rustix::fs::open(path, flags, Mode::empty())?)
    })();
    let _killed = pidfd_send_signal(&sleeper.pidfd, Signal::KILL);
    let pid = Pid::from_raw(sleeper.pid);
    if pid.is_some() {
        let _reaped = waitid(
            rustix::process::WaitId::PidFd(rustix::fd::AsFd::as_fd(&sleeper.pidfd)),
            WaitIdOptions::EXITED,
        );
    }
    made
}

//! The process whose call is being answered: its memory, its directories, its numbers.
//!
//! All of it can change while it is read, and the thread's number can come to mean another thread.
//! What was read is therefore good only after [`Request::check`], and is read once.

use super::identity::Powers;
use super::threads::Shared;
use crate::linux::sys::notify::{Notification, file_size_limit, is_valid, read_memory};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::cell::OnceCell;
use std::os::fd::{AsFd, OwnedFd};

/// The longest path the kernel takes, its NUL included.
const PATH_BYTES: usize = 4_096;
/// How much is read at a time. Memory is mapped in multiples of it, so that no read meets an
/// unmapped page halfway; most paths are shorter.
const CHUNK: u64 = 256;

/// `AT_FDCWD`: the working directory in place of a descriptor.
const WORKING_DIRECTORY: i32 = -100;

/// Numbers of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status {
    /// Its umask.
    pub(super) umask: u32,
    /// Its process number in its own pid namespace.
    pub(super) process: u32,
    /// Its thread number there.
    pub(super) thread: u32,
}

/// One call to answer.
pub(super) struct Request<'a> {
    pub(super) shared: &'a Shared,
    pub(super) powers: &'a Powers,
    notification: Notification,
    status: OnceCell<Status>,
}

impl<'a> Request<'a> {
    pub(super) fn new(shared: &'a Shared, powers: &'a Powers, notification: Notification) -> Self {
        Self {
            shared,
            powers,
            notification,
            status: OnceCell::new(),
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.notification.id
    }

    /// An argument, all of it: an address or a size.
    pub(super) fn wide(&self, place: usize) -> u64 {
        self.notification
            .arguments
            .get(place)
            .copied()
            .unwrap_or_default()
    }

    /// An argument the kernel takes as 32 bits.
    pub(super) fn narrow(&self, place: usize) -> u32 {
        u32::try_from(self.wide(place) & u64::from(u32::MAX)).unwrap_or_default()
    }

    /// An argument that is a descriptor.
    pub(super) fn descriptor(&self, place: usize) -> i32 {
        self.narrow(place).cast_signed()
    }

    /// Fails once the call no longer waits, since the thread's number may then mean another.
    pub(super) fn check(&self) -> Result<(), Errno> {
        if is_valid(self.shared.listener.as_fd(), self.id()) {
            Ok(())
        } else {
            Err(Errno::SRCH)
        }
    }

    fn thread(&self) -> u32 {
        self.notification.thread
    }

    /// Exactly these bytes of its memory.
    pub(super) fn memory(&self, address: u64, into: &mut [u8]) -> Result<(), Errno> {
        let _raised = self.powers.raise()?;
        let length = read_memory(self.thread(), address, into).map_err(unreadable)?;
        self.check()?;
        if length == into.len() {
            Ok(())
        } else {
            Err(Errno::FAULT)
        }
    }

    /// The text at `address`, which ends within `most` bytes.
    pub(super) fn text(&self, address: u64, most: usize) -> Result<Vec<u8>, Errno> {
        let _raised = self.powers.raise()?;
        let mut text = Vec::new();
        let mut address = address;
        while text.len() < most {
            let chunk = usize::try_from(CHUNK - address % CHUNK).unwrap_or_default();
            let start = text.len();
            text.resize((start + chunk).min(most), 0);
            let into = text.get_mut(start..).unwrap_or_default();
            let length = read_memory(self.thread(), address, into).map_err(unreadable)?;
            let end = start + length;
            let read = text.get(start..end).unwrap_or_default();
            if let Some(end) = read.iter().position(|byte| *byte == 0) {
                text.truncate(start + end);
                self.check()?;
                return Ok(text);
            }
            if end < text.len() {
                return Err(Errno::FAULT);
            }
            address = address.checked_add(length as u64).ok_or(Errno::FAULT)?;
        }
        Err(Errno::NAMETOOLONG)
    }

    /// The path at `address`; may be empty.
    pub(super) fn path_or_empty(&self, address: u64) -> Result<Vec<u8>, Errno> {
        self.text(address, PATH_BYTES)
    }

    /// The path at `address`.
    pub(super) fn path(&self, address: u64) -> Result<Vec<u8>, Errno> {
        let path = self.path_or_empty(address)?;
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        Ok(path)
    }

    /// What one of its descriptors, or its working directory, is open on.
    pub(super) fn base(&self, descriptor: i32) -> Result<OwnedFd, Errno> {
        let thread = self.thread();
        let path = match descriptor {
            WORKING_DIRECTORY => format!("/proc/{thread}/cwd"),
            0.. => format!("/proc/{thread}/fd/{descriptor}"),
            _ => return Err(Errno::BADF),
        };
        let _raised = self.powers.raise()?;
        let file = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        self.check()?;
        file.map_err(|error| match error {
            Errno::NOENT if descriptor >= 0 => Errno::BADF,
            error => unreadable(error),
        })
    }

    /// Its numbers.
    pub(super) fn status(&self) -> Result<Status, Errno> {
        if let Some(status) = self.status.get() {
            return Ok(*status);
        }
        let text = self.described("status")?;
        let status = read_status(&text).ok_or(Errno::ACCESS)?;
        Ok(*self.status.get_or_init(|| status))
    }

    /// How large a file it may make.
    pub(super) fn file_size_limit(&self) -> Result<u64, Errno> {
        let _raised = self.powers.raise()?;
        let limit = file_size_limit(self.thread()).map_err(unreadable)?;
        self.check()?;
        Ok(limit)
    }

    /// The host's number for a user or group it names; none for the number that means no change.
    pub(super) fn host_number(&self, map: &str, inside: u32) -> Result<Option<u32>, Errno> {
        if inside == u32::MAX {
            return Ok(None);
        }
        let text = self.described(map)?;
        mapped(&text, inside).map(Some).ok_or(Errno::INVAL)
    }

    fn described(&self, file: &str) -> Result<String, Errno> {
        let path = format!("/proc/{}/{file}", self.thread());
        let text = std::fs::read_to_string(path);
        self.check()?;
        text.map_err(|_| Errno::ACCESS)
    }
}

/// A process that forbids looking into it gets a refusal and not the supervisor's own error.
fn unreadable(error: Errno) -> Errno {
    match error {
        Errno::PERM => Errno::ACCESS,
        error => error,
    }
}

fn read_status(text: &str) -> Option<Status> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().last()
    };
    Some(Status {
        umask: u32::from_str_radix(field("Umask:")?, 8).ok()?,
        process: field("NStgid:")?.parse().ok()?,
        thread: field("NSpid:")?.parse().ok()?,
    })
}

/// Looks a number up in the lines of a `uid_map`: first inside, first outside, how many.
fn mapped(map: &str, inside: u32) -> Option<u32> {
    map.lines().find_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u32>);
        let (first, outside, count) = (
            numbers.next()?.ok()?,
            numbers.next()?.ok()?,
            numbers.next()?.ok()?,
        );
        let offset = inside.checked_sub(first).filter(|offset| *offset < count)?;
        outside.checked_add(offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_innermost_namespace() {
        let text = "Name:\tx\nUmask:\t0027\nTgid:\t90\nNStgid:\t90\t7\nNSpid:\t91\t8\n";
        let want = Status {
            umask: 0o27,
            process: 7,
            thread: 8,
        };
        assert_eq!(read_status(text), Some(want));
        assert_eq!(read_status("Umask:\t0022\n"), None);
    }

    #[test]
    fn only_mapped_numbers_have_a_number_outside() {
        let map = "      1000       5000          1\n 2000 0 10\n";
        for (inside, want) in [
            (1000, Some(5000)),
            (1001, None),
            (0, None),
            (2009, Some(9)),
            (2010, None),
        ] {
            assert_eq!(mapped(map, inside), want, "{inside}");
        }
    }
}

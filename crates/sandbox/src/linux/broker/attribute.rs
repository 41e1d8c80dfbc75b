//! Calls that change a file and not its name: size, mode, owner, times, extended attributes.
//!
//! Each is made through a descriptor of the file that was judged.

use super::change::Name;
use super::judge::{Access, OwnPath, among_descriptors, name_of};
use super::open::reopen;
use super::resolve::{Found, Last, Route};
use super::target::Request;
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, chmodat, chownat,
    ftruncate, removexattr, setxattr, utimensat,
};
use rustix::io::Errno;
use std::os::fd::AsFd;

const NAME_BYTES: usize = 256;
const VALUE_BYTES: usize = 65_536;
/// The attributes every user has. Others name users by numbers, or are for the system.
const USER: &[u8] = b"user.";
const OBJECT_FLAGS: AtFlags = AtFlags::SYMLINK_NOFOLLOW.union(AtFlags::EMPTY_PATH);

/// How times are written in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    Seconds,
    Microseconds,
    Nanoseconds,
}

impl Request<'_> {
    /// The file a path leads to, if nothing forbids changing it.
    pub(super) fn object(&self, name: &Name, flags: u32) -> Result<Found, Errno> {
        let flags = AtFlags::from_bits_retain(flags);
        if !OBJECT_FLAGS.contains(flags) {
            return Err(Errno::INVAL);
        }
        let found = if !name.path.is_empty() {
            let last = if flags.contains(AtFlags::SYMLINK_NOFOLLOW) {
                Last::Keep
            } else {
                Last::Follow
            };
            self.find(&Route::new(name.descriptor, &name.path, last))?
        } else if flags.contains(AtFlags::EMPTY_PATH) {
            Found::new(self.base(name.descriptor)?)?
        } else {
            return Err(Errno::NOENT);
        };
        self.unguarded(found)
    }

    /// The file a descriptor is open on, if nothing forbids changing it.
    pub(super) fn object_of(&self, descriptor: i32) -> Result<Found, Errno> {
        if descriptor < 0 {
            return Err(Errno::BADF);
        }
        self.unguarded(Found::new(self.base(descriptor)?)?)
    }

    fn unguarded(&self, found: Found) -> Result<Found, Errno> {
        if let OwnPath::At(path) = self.shared.rules.own_path(found.file.as_fd())? {
            self.shared.rules.judge(&path, Access::Write)?;
        }
        if Some(found.stat.st_dev) == self.shared.process_device {
            return Err(Errno::PERM);
        }
        Ok(found)
    }

    pub(super) fn truncate(&self, name: &Name, length: u64) -> Result<(), Errno> {
        if length.cast_signed() < 0 {
            return Err(Errno::INVAL);
        }
        let found = self.object(name, 0)?;
        if found.kind() == FileType::Directory {
            return Err(Errno::ISDIR);
        }
        if found.kind() != FileType::RegularFile {
            return Err(Errno::INVAL);
        }
        if length > self.file_size_limit()? {
            return Err(Errno::FBIG);
        }
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
        ftruncate(reopen(found.file.as_fd(), flags)?, length)
    }

    pub(super) fn change_owner(&self, found: &Found, user: u32, group: u32) -> Result<(), Errno> {
        let user = self.host_number("uid_map", user)?.map(Uid::from_raw);
        let group = self.host_number("gid_map", group)?.map(Gid::from_raw);
        chownat(&found.file, "", user, group, AtFlags::EMPTY_PATH)
    }

    /// Two times in the process's memory; now, if there are none.
    pub(super) fn times(&self, address: u64, clock: Clock) -> Result<Timestamps, Errno> {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_NOW,
        };
        if address == 0 {
            return Ok(Timestamps {
                last_access: now,
                last_modification: now,
            });
        }
        let mut bytes = [0; 32];
        let length = if clock == Clock::Seconds { 16 } else { 32 };
        self.memory(address, bytes.get_mut(..length).unwrap_or_default())?;
        let mut words = bytes.chunks_exact(8).map(|word| {
            let word = word.try_into().map(i64::from_ne_bytes);
            word.unwrap_or_default()
        });
        let mut next = || words.next().unwrap_or_default();
        let mut time = || -> Result<Timespec, Errno> {
            let seconds = next();
            let nanoseconds = match clock {
                Clock::Seconds => 0,
                Clock::Nanoseconds => next(),
                Clock::Microseconds => match next() {
                    microseconds @ 0..1_000_000 => microseconds * 1_000,
                    _ => return Err(Errno::INVAL),
                },
            };
            Ok(Timespec {
                tv_sec: seconds,
                tv_nsec: nanoseconds,
            })
        };
        Ok(Timestamps {
            last_access: time()?,
            last_modification: time()?,
        })
    }

    /// The name of an attribute that may be changed.
    fn attribute(&self, address: u64) -> Result<Vec<u8>, Errno> {
        let name = self
            .text(address, NAME_BYTES)
            .map_err(|error| match error {
                Errno::NAMETOOLONG => Errno::RANGE,
                error => error,
            })?;
        if name.is_empty() {
            return Err(Errno::RANGE);
        }
        if !name.starts_with(USER) {
            return Err(Errno::OPNOTSUPP);
        }
        Ok(name)
    }

    /// The call's arguments from `first` on: name, value, size, flags.
    pub(super) fn set_attribute(&self, found: &Found, first: usize) -> Result<(), Errno> {
        let flags = XattrFlags::from_bits(self.narrow(first + 3)).ok_or(Errno::INVAL)?;
        let name = self.attribute(self.wide(first))?;
        let size = usize::try_from(self.wide(first + 2)).unwrap_or(usize::MAX);
        if size > VALUE_BYTES {
            return Err(Errno::TOOBIG);
        }
        let mut value = vec![0; size];
        if size > 0 {
            self.memory(self.wide(first + 1), &mut value)?;
        }
        if found.kind() == FileType::Symlink {
            return Err(Errno::PERM);
        }
        setxattr(path_of(found), name.as_slice(), &value, flags)
    }

    pub(super) fn remove_attribute(&self, found: &Found, address: u64) -> Result<(), Errno> {
        let name = self.attribute(address)?;
        if found.kind() == FileType::Symlink {
            return Err(Errno::PERM);
        }
        removexattr(path_of(found), name.as_slice())
    }
}

pub(super) fn change_mode(found: &Found, mode: u32) -> Result<(), Errno> {
    if found.kind() == FileType::Symlink {
        return Err(Errno::OPNOTSUPP);
    }
    let name = name_of(found.file.as_fd());
    let mode = Mode::from_raw_mode(mode & 0o7777);
    among_descriptors(|directory| chmodat(directory, name, mode, AtFlags::empty()))
}

pub(super) fn change_times(found: &Found, times: &Timestamps) -> Result<(), Errno> {
    utimensat(&found.file, "", times, AtFlags::EMPTY_PATH)
}

fn path_of(found: &Found) -> String {
    format!("/proc/thread-self/fd/{}", name_of(found.file.as_fd()))
}

//! Opening files: found first, judged by its own path, then opened as asked.
//!
//! A file is found as a bare descriptor, which has no effect on it. If no denial covers its own
//! path it is opened through that descriptor, so that it is the judged file and no other, and the
//! path of what was opened is judged once more. A missing file is created with `O_EXCL` in a
//! directory held open, and looked for again if somebody else was faster.

use super::fifo::Waiting;
use super::judge::{Access, OwnPath, among_descriptors, name_of};
use super::resolve::{End, Entry, Found, Last, Route};
use super::target::Request;
use super::threads::Answer;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, major, minor, openat};
use rustix::io::Errno;
use rustix::process::umask;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How often a name may appear and vanish again before an answer is given up.
const RACES: usize = 64;
/// The size of `struct open_how` as it is known here, and the most the kernel takes.
const HOW_BYTES: u64 = 24;
const HOW_MOST: u64 = 4_096;

/// `__O_TMPFILE` without the `O_DIRECTORY` that belongs to it.
const UNNAMED: OFlags = OFlags::TMPFILE.difference(OFlags::DIRECTORY);
const ACCESS_MODE: OFlags = OFlags::RDONLY.union(OFlags::WRONLY).union(OFlags::RDWR);
/// What the kernel knows; `open` ignores the rest, `openat2` refuses it.
const KNOWN: OFlags = ACCESS_MODE
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOCTTY)
    .union(OFlags::TRUNC)
    .union(OFlags::APPEND)
    .union(OFlags::NONBLOCK)
    .union(OFlags::SYNC)
    .union(OFlags::DSYNC)
    .union(OFlags::from_bits_retain(libc::O_ASYNC.cast_unsigned()))
    .union(OFlags::DIRECT)
    .union(OFlags::from_bits_retain(LARGE_FILE))
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NOATIME)
    .union(OFlags::CLOEXEC)
    .union(OFlags::PATH)
    .union(OFlags::TMPFILE);

/// `O_LARGEFILE` as the kernel has it; libc says 0 on 64-bit machines.
#[cfg(target_arch = "aarch64")]
const LARGE_FILE: u32 = 0o400_000;
#[cfg(not(target_arch = "aarch64"))]
const LARGE_FILE: u32 = 0o100_000;

/// What a process asks for.
pub(super) struct Opening {
    pub(super) flags: OFlags,
    pub(super) mode: u32,
    pub(super) limits: ResolveFlags,
}

impl Opening {
    /// As `open` reads its arguments: lenient.
    pub(super) fn lenient(flags: u32, mode: u32) -> Self {
        Self {
            flags: OFlags::from_bits_retain(flags) & KNOWN,
            mode: mode & 0o7777,
            limits: ResolveFlags::empty(),
        }
    }

    fn has(&self, flags: OFlags) -> bool {
        self.flags.contains(flags)
    }

    fn makes(&self) -> bool {
        self.flags.intersects(OFlags::CREATE | UNNAMED)
    }

    fn access(&self) -> Access {
        if self.flags & ACCESS_MODE == OFlags::RDONLY && !self.has(OFlags::TRUNC) {
            Access::Read
        } else {
            Access::Write
        }
    }

    fn check(&self) -> Result<(), Errno> {
        let tmpfile = self.flags.intersects(UNNAMED);
        let read_only = self.flags & ACCESS_MODE == OFlags::RDONLY;
        let created = self.has(OFlags::CREATE);
        let directory = self.has(OFlags::DIRECTORY);
        if (tmpfile && (!directory || created || read_only)) || (created && directory) {
            return Err(Errno::INVAL);
        }
        // The kernel hands no such descriptor over; callers of `openat2` know how to do without.
        if self.has(OFlags::PATH) {
            return Err(Errno::NOSYS);
        }
        Ok(())
    }

    /// What to open a file with that is there already and found.
    fn again(&self) -> OFlags {
        self.flags
            .difference(OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW)
            | OFlags::CLOEXEC
            | OFlags::NOCTTY
    }
}

impl Request<'_> {
    /// Reads the structure of `openat2`, as strict as the kernel.
    pub(super) fn opening(&self, address: u64, size: u64) -> Result<Opening, Errno> {
        if size < HOW_BYTES {
            return Err(Errno::INVAL);
        }
        if size > HOW_MOST {
            return Err(Errno::TOOBIG);
        }
        let mut how = vec![0; usize::try_from(size).map_err(|_| Errno::TOOBIG)?];
        self.memory(address, &mut how)?;
        let mut words = how.chunks(8).map(|word| {
            let mut bytes = [0; 8];
            for (to, from) in bytes.iter_mut().zip(word) {
                *to = *from;
            }
            u64::from_ne_bytes(bytes)
        });
        let mut next = || words.next().unwrap_or_default();
        let (flags, mode, limits) = (next(), next(), next());
        if words.any(|word| word != 0) {
            return Err(Errno::TOOBIG);
        }
        let flags = u32::try_from(flags).map_err(|_| Errno::INVAL)?;
        let flags = OFlags::from_bits_retain(flags);
        let limits = ResolveFlags::from_bits(limits).ok_or(Errno::INVAL)?;
        let mode = u32::try_from(mode).map_err(|_| Errno::INVAL)?;
        let opening = Opening {
            flags,
            mode,
            limits,
        };
        let both = ResolveFlags::BENEATH | ResolveFlags::IN_ROOT;
        if !KNOWN.contains(flags)
            || mode & !0o7777 != 0
            || (mode != 0 && !opening.makes())
            || limits.contains(both)
        {
            return Err(Errno::INVAL);
        }
        if limits.contains(ResolveFlags::CACHED) {
            return Err(Errno::AGAIN);
        }
        Ok(opening)
    }

    /// Opens what a process asks for.
    pub(super) fn open(
        &self,
        descriptor: i32,
        path: &[u8],
        opening: &Opening,
    ) -> Result<Answer, Errno> {
        opening.check()?;
        let created = opening.has(OFlags::CREATE);
        if created && path.last() == Some(&b'/') {
            return Err(Errno::ISDIR);
        }
        let exclusive = created && opening.has(OFlags::EXCL);
        let route = Route {
            descriptor,
            path,
            last: if exclusive || opening.has(OFlags::NOFOLLOW) {
                Last::Keep
            } else {
                Last::Follow
            },
            limits: opening.limits,
        };
        for _ in 0..RACES {
            match self.resolve(&route)? {
                End::Found(_) if exclusive => return Err(Errno::EXIST),
                End::Found(found) => return self.open_found(&found, opening),
                End::Missing(entry) if created => match self.create(&entry, opening) {
                    Err(Errno::EXIST) => {}
                    answer => return answer,
                },
                End::Missing(_) => return Err(Errno::NOENT),
            }
        }
        Err(Errno::AGAIN)
    }

    fn create(&self, entry: &Entry, opening: &Opening) -> Result<Answer, Errno> {
        let rules = &self.shared.rules;
        let path = rules.entry(entry.directory.as_fd(), &entry.name)?;
        rules.judge(&path, Access::Write)?;
        self.take_umask()?;
        let flags =
            opening.flags | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
        let mode = Mode::from_raw_mode(opening.mode);
        let file = openat(&entry.directory, &*entry.name, flags, mode)?;
        self.hand_over(file, opening, Access::Write)
    }

    fn open_found(&self, found: &Found, opening: &Opening) -> Result<Answer, Errno> {
        let kind = found.kind();
        if kind == FileType::Symlink {
            return Err(if opening.has(OFlags::DIRECTORY) {
                Errno::NOTDIR
            } else {
                Errno::LOOP
            });
        }
        if opening.has(OFlags::DIRECTORY) && kind != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        if opening.has(OFlags::CREATE) && kind == FileType::Directory {
            return Err(Errno::ISDIR);
        }
        let access = opening.access();
        let file = found.file.as_fd();
        let path = self.shared.rules.own_path(file)?;
        if let OwnPath::At(path) = &path {
            self.shared.rules.judge(path, access)?;
        }
        if Some(found.stat.st_dev) == self.shared.process_device {
            let OwnPath::At(path) = &path else {
                return Err(Errno::ACCESS);
            };
            self.permit_process_file(path, access == Access::Write)?;
            let _raised = self.powers.raise()?;
            return self.hand_over(reopen(file, opening.again())?, opening, access);
        }
        match kind {
            FileType::RegularFile | FileType::Directory => {
                if opening.flags.intersects(UNNAMED) {
                    return self.open_unnamed(file, opening);
                }
                self.hand_over(reopen(file, opening.again())?, opening, access)
            }
            FileType::Fifo => self.open_fifo(found, opening),
            FileType::CharacterDevice => {
                let file = self.open_device(found, opening)?;
                self.hand_over(file, opening, access)
            }
            FileType::Socket => Err(Errno::NXIO),
            FileType::Symlink | FileType::BlockDevice | FileType::Unknown => Err(Errno::ACCESS),
        }
    }

    fn open_unnamed(&self, file: BorrowedFd<'_>, opening: &Opening) -> Result<Answer, Errno> {
        self.take_umask()?;
        let flags = opening.flags.difference(OFlags::NOFOLLOW) | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(opening.mode);
        let file = among_descriptors(|directory| openat(directory, name_of(file), flags, mode))?;
        self.hand_over(file, opening, Access::Write)
    }

    /// What is about to be handed over is judged by what it is now.
    ///
    /// Only what is opened for reading, and not as a lock file is, may stay open here for a moment
    /// longer: that is quicker, and nothing but a lock or a lease could show it.
    fn hand_over(&self, file: OwnedFd, opening: &Opening, access: Access) -> Result<Answer, Errno> {
        self.shared.rules.judge_file(file.as_fd(), access)?;
        Ok(Answer::Descriptor {
            file,
            close_on_exec: opening.has(OFlags::CLOEXEC),
            alone: access == Access::Write || opening.has(OFlags::CREATE),
        })
    }

    fn open_fifo(&self, found: &Found, opening: &Opening) -> Result<Answer, Errno> {
        let asked = opening.flags & ACCESS_MODE;
        let one_end = asked == OFlags::RDONLY || asked == OFlags::WRONLY;
        let file = found.file.as_fd();
        if !one_end || opening.has(OFlags::NONBLOCK) {
            let opened = reopen(file, opening.again() | OFlags::NONBLOCK)?;
            if !opening.has(OFlags::NONBLOCK) {
                super::fifo::make_blocking(&opened)?;
            }
            return Ok(self.hand_over(opened, opening, opening.access())?.alone());
        }
        let bare = found.file.try_clone().map_err(|_| Errno::MFILE)?;
        let mut waiting = Waiting::new(
            self.id(),
            bare,
            opening.again(),
            opening.has(OFlags::CLOEXEC),
        );
        if let Some(opened) = waiting.attempt()? {
            return Ok(self.hand_over(opened, opening, opening.access())?.alone());
        }
        self.shared.fifos.add(waiting, &self.shared.common)?;
        Ok(Answer::Later)
    }

    fn open_device(&self, found: &Found, opening: &Opening) -> Result<OwnedFd, Errno> {
        let device = found.stat.st_rdev;
        match (major(device), minor(device)) {
            // Null, zero, full, random, urandom; the makers of terminals, and terminals so made.
            (1, 3 | 5 | 7 | 8 | 9) | (5, 2) | (136..=143, _) => {
                reopen(found.file.as_fd(), opening.again())
            }
            // The opener's terminal: the supervisor's, if it were opened here.
            (5, 0) => {
                let shown = self.shared.common.terminal();
                let terminal = self.shared.files.bring(shown.ok_or(Errno::NXIO)?)?;
                drop(shown);
                reopen(terminal.as_fd(), opening.again())
            }
            _ => Err(Errno::ACCESS),
        }
    }

    /// Makes what this thread creates next have the modes the process would give it.
    pub(super) fn take_umask(&self) -> Result<(), Errno> {
        umask(Mode::from_raw_mode(self.status()?.umask));
        Ok(())
    }
}

/// Opens the file of a bare descriptor.
pub(super) fn reopen(file: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
    among_descriptors(|directory| openat(directory, name_of(file), flags, Mode::empty()))
}

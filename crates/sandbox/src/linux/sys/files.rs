//! A table of open files of a few threads' own.
//!
//! Whatever a process has open when it starts another, that other one has open, too, until it runs
//! its program: a lock seems to be held, a pipe to be read, a program to be written. What threads
//! open only to hand it over they therefore open in a table that no process is started from.
//!
//! Non-guarantee: to part takes a copy of much of the table for some microseconds, as starting a
//! process does.
//!
//! Invariants: a thread that parted uses and drops nothing that was open before: to it the number
//! means another file, or none. It brings copies of what it needs. It takes no signals either: what
//! handles one tells the process by writing to a number.
#![expect(
    unsafe_code,
    reason = "numbers of open files are given between threads"
)]

use super::calls::close_range_apart;
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Where the calling thread's open files are.
pub(crate) enum Files {
    /// In a table of their own, with a way to those of the process.
    Apart { process: OwnedFd },
    /// Among those of the process, since the system grants no way to them.
    Among,
}

/// The number of a file that the process, not the calling thread, has open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elsewhere(RawFd);

impl Elsewhere {
    /// To be brought only while `file` is open.
    pub(crate) fn new(file: &impl AsRawFd) -> Self {
        Self(file.as_raw_fd())
    }
}

impl Files {
    /// Parts the calling thread, and those it starts from now on, from all that is open but the
    /// standard streams. `known` is open until this returns.
    pub(crate) fn part(known: Elsewhere) -> Result<Self, Errno> {
        // In some containers the way back is closed. That is to be known first.
        let reached = own_process().and_then(|process| reach(&process, known));
        match reached {
            Ok(file) => drop(file),
            // Nor is there one to a process whose first thread has ended.
            Err(Errno::PERM | Errno::ACCESS | Errno::NOSYS | Errno::BADF | Errno::SRCH) => {
                return Ok(Self::Among);
            }
            Err(error) => return Err(error),
        }
        block_signals()?;
        match close_range_apart(3, u32::MAX) {
            Ok(()) => Ok(Self::Apart {
                process: own_process()?,
            }),
            Err(Errno::PERM | Errno::NOSYS | Errno::INVAL) => Ok(Self::Among),
            Err(error) => Err(error),
        }
    }

    /// A copy, for the calling thread, of what the process has open until this returns.
    pub(crate) fn bring(&self, file: Elsewhere) -> Result<OwnedFd, Errno> {
        match self {
            Self::Apart { process } => reach(process, file),
            Self::Among => {
                // SAFETY: it is open while it is copied, in the table that this thread uses, too.
                let file = unsafe { BorrowedFd::borrow_raw(file.0) };
                fcntl_dupfd_cloexec(file, 3)
            }
        }
    }
}

/// Leaves the signals of the process to its other threads, also for threads started from this one.
fn block_signals() -> Result<(), Errno> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is filled before it is read, and the old one is not asked for.
    let answer = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut())
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(Errno::from_raw_os_error(answer))
    }
}

fn own_process() -> Result<OwnedFd, Errno> {
    pidfd_open(getpid(), PidfdFlags::empty())
}

fn reach(process: &OwnedFd, file: Elsewhere) -> Result<OwnedFd, Errno> {
    pidfd_getfd(process, file.0, PidfdGetfdFlags::empty())
}

#![expect(
    unsafe_code,
    reason = "memory by system calls, since init does not allocate; each is explained where it is made"
)]
//! Memory of init's own, and processes that share it until they become a program.
//!
//! Init is a copy of a process that may be large: a copy of init for each command would cost more
//! than the command. So a command that is about to become a program borrows init's memory, on a stack
//! of its own, while init waits for it. Whoever can send it a signal can make that wait last, so only
//! what has the sandbox to itself is started so; anything else gets a copy.

use super::calls::{checked, exit_now};
use rustix::fd::{AsRawFd, BorrowedFd, RawFd};
use rustix::io::Errno;
use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::ops::Range;

type Result<T> = std::result::Result<T, Errno>;

/// Memory that is given back when this is dropped.
pub(super) struct Mapped {
    address: *mut c_void,
    bytes: usize,
}

impl Mapped {
    fn new(bytes: usize, protection: c_int, flags: c_int, file: RawFd) -> Result<Self> {
        // SAFETY: a new mapping at an address the kernel chooses disturbs none.
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, file, 0) };
        if address == libc::MAP_FAILED {
            // SAFETY: points at this thread's own error number.
            return Err(Errno::from_raw_os_error(unsafe {
                *libc::__errno_location()
            }));
        }
        Ok(Self { address, bytes })
    }

    /// What is in a file that nobody changes any more, read-only.
    pub(super) fn file(file: BorrowedFd<'_>) -> Result<Self> {
        let bytes = rustix::fs::fstat(file)?.st_size;
        let bytes = usize::try_from(bytes).map_err(|_| Errno::FBIG)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_POPULATE;
        Self::new(bytes, libc::PROT_READ, flags, file.as_raw_fd())
    }

    fn zeroes(bytes: usize) -> Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        Self::new(bytes, protection, flags, -1)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is that long for as long as this is there, and nobody writes to it.
        unsafe { std::slice::from_raw_parts(self.address.cast(), self.bytes) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: nobody else has this mapping, and every use of it borrows `self`.
        unsafe { libc::munmap(self.address, self.bytes) };
    }
}

/// A list of pointers at texts, which ends with a null pointer.
pub(super) struct Pointers {
    memory: Mapped,
    count: usize,
}

impl Pointers {
    /// A list for so many of `texts`.
    pub(super) fn of<'t>(count: usize, texts: impl Iterator<Item = &'t CStr>) -> Result<Self> {
        let count = count.checked_add(1).ok_or(Errno::NOMEM)?;
        let bytes = count.checked_mul(size_of::<usize>()).ok_or(Errno::NOMEM)?;
        let memory = Mapped::zeroes(bytes)?;
        // SAFETY: the mapping is that long, zeroed, aligned to a page and nobody else's.
        let list: &mut [*const c_char] =
            unsafe { std::slice::from_raw_parts_mut(memory.address.cast(), count) };
        // The last one stays null.
        let (_, slots) = list.split_last_mut().ok_or(Errno::NOMEM)?;
        for (slot, text) in slots.iter_mut().zip(texts) {
            *slot = text.as_ptr();
        }
        Ok(Self { memory, count })
    }

    pub(super) fn list(&self) -> &[*const c_char] {
        // SAFETY: the mapping is that long for as long as this is there, and written no more.
        unsafe { std::slice::from_raw_parts(self.memory.address.cast(), self.count) }
    }
}

/// Overwrites the arguments this process was started with, which are at `place`. For a child, whose
/// copy of them nobody needs.
pub(super) fn forget_arguments(place: &Range<usize>) {
    let start = std::ptr::with_exposed_provenance_mut::<u8>(place.start);
    // SAFETY: the kernel says that they are there, and put them on the stack, which can be written;
    // the memory is this process's own, and nothing in it reads them any more.
    unsafe { start.write_bytes(0, place.len()) };
}

/// Where what borrows this process's memory puts its own.
pub(super) struct Stack(Mapped);

impl Stack {
    /// Pages that are never used cost nothing.
    const BYTES: usize = 256 * 1024;

    pub(super) fn new() -> Result<Self> {
        Mapped::zeroes(Self::BYTES).map(Self)
    }

    /// Starts a process that runs `body` in this process's memory, and ends with the code it gives
    /// unless it became a program before. This one waits for either.
    ///
    /// `body` must not unwind, nor leave anything behind in memory that is used afterwards.
    pub(super) fn spawn<F: Fn() -> i32>(&mut self, body: F) -> Result<i32> {
        extern "C" fn enter<F: Fn() -> i32>(body: *mut c_void) -> c_int {
            // SAFETY: it points at the `body` below, which is there until this process is gone or
            // has become a program: the caller waits for that.
            let body: &F = unsafe { &*body.cast() };
            exit_now(body())
        }
        // SAFETY: one past the end of the mapping, where a stack begins, which grows down.
        let top = unsafe { self.0.address.byte_add(self.0.bytes) };
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let body = (&raw const body).cast_mut().cast();
        // SAFETY: the stack is nobody else's, since this is borrowed alone and the call returns only
        // once the new process uses this memory no more; `enter` never returns.
        let pid = unsafe { libc::clone(enter::<F>, top, flags, body) };
        let pid = checked(c_long::from(pid))?;
        i32::try_from(pid).map_err(|_| Errno::OVERFLOW)
    }
}

/// Starts a process that runs `body` in a copy of this process's memory, and ends with the code it
/// gives unless it became a program before. This one goes on.
///
/// `body` must not allocate, lock or unwind.
pub(super) fn spawn_copied(body: impl FnOnce() -> i32) -> Result<i32> {
    // SAFETY: without CLONE_VM the new process has its own copy of memory and, with no stack given,
    // of this stack: it continues here as after `fork`.
    let pid = checked(unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) })?;
    if pid == 0 {
        exit_now(body());
    }
    i32::try_from(pid).map_err(|_| Errno::OVERFLOW)
}

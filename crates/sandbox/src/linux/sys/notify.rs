//! Seccomp user notification, and the few calls a broker needs that rustix lacks.
//!
//! Each function is one system call and returns what the system says. Nothing here allocates but
//! [`filter`], so that [`install`] can be called between `fork` and `exec`.
#![expect(
    unsafe_code,
    reason = "the kernel's interface for notifications is raw ioctls"
)]

use rustix::io::Errno;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Waiting for an answer, a thread can only be killed: without it, a signal each few milliseconds,
/// as Go's scheduler sends, restarts a call before it is ever answered. Linux 5.19.
pub(crate) const WAIT_KILLABLE_RECV: libc::c_ulong = 1 << 5;

const GET_NOTIFICATION_SIZES: libc::c_ulong = 3;

const KIND: u32 = 0x21;
const RECEIVE: libc::Ioctl = libc::_IOWR::<Notification>(KIND, 0);
const SEND: libc::Ioctl = libc::_IOWR::<Response>(KIND, 1);
const IS_VALID: libc::Ioctl = libc::_IOW::<u64>(KIND, 2);
const ADD_DESCRIPTOR: libc::Ioctl = libc::_IOW::<AddDescriptor>(KIND, 3);
const SET_FLAGS: libc::Ioctl = libc::_IOW::<u64>(KIND, 4);

/// Adding a descriptor also answers the call with its number.
const ADD_AND_SEND: u32 = 1 << 1;
/// The waiting thread runs next on the processor of who answers it. Linux 6.6.
const WAKE_SYNCHRONOUSLY: u64 = 1;

/// A call that waits for an answer: `struct seccomp_notif`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Notification {
    /// Names it in the answer.
    pub(crate) id: u64,
    /// The thread, in the reader's pid namespace.
    pub(crate) thread: u32,
    flags: u32,
    /// The call's number.
    pub(crate) number: u32,
    architecture: u32,
    instruction: u64,
    /// Its arguments.
    pub(crate) arguments: [u64; 6],
}

#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

#[repr(C)]
struct AddDescriptor {
    id: u64,
    flags: u32,
    source: u32,
    number: u32,
    number_flags: u32,
}

/// Whether the kernel's structures are the ones known here.
pub(crate) fn structures_fit() -> io::Result<bool> {
    let mut sizes = [0_u16; 3];
    // SAFETY: the kernel writes three 16-bit sizes to the address, which has room for them.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            GET_NOTIFICATION_SIZES,
            0_u64,
            sizes.as_mut_ptr(),
        )
    };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    let [notification, response, _] = sizes.map(usize::from);
    Ok(notification == size_of::<Notification>() && response == size_of::<Response>())
}

/// Takes one notification. Call it when the listener is readable: it waits otherwise.
pub(crate) fn receive(listener: BorrowedFd<'_>) -> Result<Notification, Errno> {
    let mut notification = Notification::default();
    // SAFETY: the structure is zeroed, as the kernel asks, and has the size the number encodes.
    unsafe { control(listener, RECEIVE, &raw mut notification) }?;
    Ok(notification)
}

/// Whether the call still waits: its thread's number then still means this thread.
pub(crate) fn is_valid(listener: BorrowedFd<'_>, id: u64) -> bool {
    let mut id = id;
    // SAFETY: the kernel reads 64 bits at the address.
    unsafe { control(listener, IS_VALID, &raw mut id) }.is_ok()
}

/// Answers a call with success or an error.
pub(crate) fn answer(
    listener: BorrowedFd<'_>,
    id: u64,
    result: Result<(), Errno>,
) -> Result<(), Errno> {
    let error = result.err().map_or(0, Errno::raw_os_error);
    respond(listener, id, 0, error.wrapping_neg())
}

fn respond(listener: BorrowedFd<'_>, id: u64, value: i64, error: i32) -> Result<(), Errno> {
    let mut response = Response {
        id,
        value,
        error,
        flags: 0,
    };
    // SAFETY: the structure has the size the number encodes, and is only read.
    unsafe { control(listener, SEND, &raw mut response) }.map(drop)
}

/// Answers a call with a descriptor for what `file` is, made in the waiting process.
///
/// The process goes on before `file` is closed here.
pub(crate) fn answer_with(
    listener: BorrowedFd<'_>,
    id: u64,
    file: BorrowedFd<'_>,
    close_on_exec: bool,
) -> Result<(), Errno> {
    add(listener, id, file, close_on_exec, ADD_AND_SEND).map(drop)
}

/// As [`answer_with`], and `file` is closed here before the process goes on: it could otherwise
/// find a lock still held, a pipe still read, or a program it has just written still being written.
pub(crate) fn answer_with_only(
    listener: BorrowedFd<'_>,
    id: u64,
    file: OwnedFd,
    close_on_exec: bool,
) -> Result<(), Errno> {
    let number = add(listener, id, file.as_fd(), close_on_exec, 0)?;
    drop(file);
    respond(listener, id, i64::from(number), 0)
}

/// Makes a descriptor in the waiting process; gives its number there.
fn add(
    listener: BorrowedFd<'_>,
    id: u64,
    file: BorrowedFd<'_>,
    close_on_exec: bool,
    flags: u32,
) -> Result<i32, Errno> {
    let mut request = AddDescriptor {
        id,
        flags,
        source: file.as_raw_fd().cast_unsigned(),
        number: 0,
        number_flags: if close_on_exec {
            libc::O_CLOEXEC.cast_unsigned()
        } else {
            0
        },
    };
    // SAFETY: the structure has the size the number encodes, and is only read; `file` is open.
    unsafe { control(listener, ADD_DESCRIPTOR, &raw mut request) }
}

/// Asks for quicker hand-over between asker and answerer; older kernels have none.
pub(crate) fn wake_synchronously(listener: BorrowedFd<'_>) -> bool {
    // SAFETY: this number takes its flags in place of an address.
    let answer = unsafe { libc::ioctl(listener.as_raw_fd(), SET_FLAGS, WAKE_SYNCHRONOUSLY) };
    answer == 0
}

/// # Safety
/// `argument` must point to what the kernel reads and writes for `number`.
unsafe fn control<T>(
    listener: BorrowedFd<'_>,
    number: libc::Ioctl,
    argument: *mut T,
) -> Result<i32, Errno> {
    // SAFETY: the descriptor is open, and the caller vouches for the argument.
    let answer = unsafe { libc::ioctl(listener.as_raw_fd(), number, argument) };
    if answer < 0 { Err(last()) } else { Ok(answer) }
}

/// Reads another thread's memory; fewer bytes than asked for where it ends.
pub(crate) fn read_memory(thread: u32, address: u64, into: &mut [u8]) -> Result<usize, Errno> {
    let thread = libc::pid_t::try_from(thread).map_err(|_| Errno::SRCH)?;
    let address = usize::try_from(address).map_err(|_| Errno::FAULT)?;
    let here = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let there = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(address),
        iov_len: into.len(),
    };
    // SAFETY: the kernel writes at most `iov_len` bytes to the slice; the other address belongs to
    // the other process, and the kernel checks it.
    let length =
        unsafe { libc::process_vm_readv(thread, &raw const here, 1, &raw const there, 1, 0) };
    usize::try_from(length).map_err(|_| last())
}

/// How large a file another thread may make.
pub(crate) fn file_size_limit(thread: u32) -> Result<u64, Errno> {
    let thread = libc::pid_t::try_from(thread).map_err(|_| Errno::SRCH)?;
    let mut limit = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: no new limit is given, and the old one is written to a structure of its type.
    let answer =
        unsafe { libc::prlimit64(thread, libc::RLIMIT_FSIZE, std::ptr::null(), &raw mut limit) };
    if answer < 0 {
        return Err(last());
    }
    Ok(limit.rlim_cur)
}

/// Gives the calling thread a umask of its own.
pub(crate) fn own_umask() -> Result<(), Errno> {
    // SAFETY: only working directory, root and umask are parted from the other threads, and the
    // broker's threads rely on none of them being shared.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::FS) }
}

fn last() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Opens the file whose path other threads may be writing meanwhile.
#[cfg(test)]
pub(crate) fn open_shared(path: &[std::sync::atomic::AtomicU8]) -> Result<OwnedFd, Errno> {
    open_address(path.as_ptr().expose_provenance())
}

/// Opens the file whose path is at an address, where anything or nothing may be.
#[cfg(test)]
pub(crate) fn open_address(address: usize) -> Result<OwnedFd, Errno> {
    let path = std::ptr::with_exposed_provenance(address);
    // SAFETY: libc hands the address on as it is, and the kernel checks it.
    let answer = unsafe { libc::open(path, libc::O_RDONLY | libc::O_CLOEXEC) };
    if answer < 0 {
        return Err(last());
    }
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { std::os::fd::FromRawFd::from_raw_fd(answer) })
}

/// Sets a file's size by its path.
#[cfg(test)]
pub(crate) fn truncate_path(path: &std::path::Path, length: i64) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path ends with a NUL and lives until the call returns.
    let answer = unsafe { libc::truncate(path.as_ptr(), length) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#![expect(
    unsafe_code,
    reason = "system calls that no safe crate offers; each is explained where it is made"
)]
//! System calls that no safe crate offers, each as a small function that cannot be misused.

use super::super::program::Ruleset;
use crate::seccomp::Instruction;
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use rustix::io::Errno;
use std::ffi::{CStr, c_long};
use std::io;

type Result<T> = std::result::Result<T, Errno>;

/// The result of a raw call, with the error number it left.
pub(super) fn checked(result: c_long) -> Result<c_long> {
    if result == -1 {
        // SAFETY: points at this thread's own error number, always readable.
        let number = unsafe { *libc::__errno_location() };
        return Err(Errno::from_raw_os_error(number));
    }
    Ok(result)
}

fn to_descriptor(result: c_long) -> Result<OwnedFd> {
    let number = RawFd::try_from(result).map_err(|_| Errno::OVERFLOW)?;
    // SAFETY: a system call just returned this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// A child made by [`clone_process`], as its parent sees it.
#[derive(Debug)]
pub(crate) struct ClonedChild {
    /// Its number.
    pub(crate) pid: i32,
    /// A descriptor that means it and nobody else.
    pub(crate) pidfd: OwnedFd,
}

/// Arguments of `clone3`, first published version with what is needed here.
#[repr(C, align(8))]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
}

/// Handlers of the parent mean nothing in the child.
const CLEAR_SIGHAND: u64 = 1 << 32;

/// Makes a copy of the calling thread with namespaces of its own. The copy runs `body`
/// and ends with the code it gives.
///
/// `body` must not allocate, lock or unwind: other threads of the process are not copied, nor
/// are the locks they held released.
pub(crate) fn clone_process(
    namespaces: i32,
    body: impl FnOnce() -> i32,
) -> io::Result<ClonedChild> {
    Ok(clone_with(namespaces, libc::SIGCHLD, body)?)
}

/// The same, but the copy is a child of whoever has the calling process as one.
pub(super) fn clone_sibling(namespaces: i32, body: impl FnOnce() -> i32) -> Result<ClonedChild> {
    // Its end is told as that of the calling process would be, which none may say otherwise.
    clone_with(namespaces | libc::CLONE_PARENT, 0, body)
}

fn clone_with(flags: i32, exit_signal: i32, body: impl FnOnce() -> i32) -> Result<ClonedChild> {
    let mut pidfd: RawFd = -1;
    let arguments = CloneArguments {
        flags: u64::from((flags | libc::CLONE_PIDFD).cast_unsigned()) | CLEAR_SIGHAND,
        pidfd: (&raw mut pidfd) as u64,
        exit_signal: u64::from(exit_signal.cast_unsigned()),
        ..CloneArguments::default()
    };
    // SAFETY: without CLONE_VM the child has its own copy of memory and, with no stack given, of
    // this stack: it continues here as after `fork`. The arguments outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw const arguments,
            size_of::<CloneArguments>(),
        )
    };
    let pid = checked(result)?;
    if pid == 0 {
        exit_now(body());
    }
    // SAFETY: `clone3` succeeded with CLONE_PIDFD, so this is a descriptor of ours.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    let pid = i32::try_from(pid).map_err(|_| Errno::OVERFLOW)?;
    Ok(ClonedChild { pid, pidfd })
}

/// Ends the process without running anything of the parent's that was copied with it.
pub(super) fn exit_now(code: i32) -> ! {
    loop {
        // SAFETY: ends the process; nothing runs afterwards.
        unsafe { libc::syscall(libc::SYS_exit_group, code) };
    }
}

/// A child that only sleeps, in a user namespace of its own.
pub(crate) fn sleeper_in_user_namespace() -> io::Result<ClonedChild> {
    clone_process(libc::CLONE_NEWUSER, || {
        loop {
            // SAFETY: dies with its parent, and sleeps until it is killed; touches no memory.
            unsafe {
                libc::syscall(
                    libc::SYS_prctl,
                    libc::PR_SET_PDEATHSIG,
                    libc::SIGKILL,
                    0,
                    0,
                    0,
                );
                libc::syscall(libc::SYS_ppoll, 0, 0, 0, 0, 0);
            }
        }
    })
}

/// Becomes a program. Returns only if that failed.
pub(super) fn execute(
    program: &CStr,
    arguments: &[*const libc::c_char],
    environment: &[*const libc::c_char],
) -> Errno {
    // SAFETY: the caller ends both lists with a null pointer; each other entry points at text
    // that ends with a NUL and stays mapped.
    unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    // SAFETY: points at this thread's own error number.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

const ATTRIBUTE_IDMAP: u64 = 0x0010_0000;

/// Sets attributes of a mount, and of those beneath it if `recursive`.
pub(crate) fn set_mount_attributes(
    tree: BorrowedFd<'_>,
    attributes: u64,
    map: Option<BorrowedFd<'_>>,
    recursive: bool,
) -> Result<()> {
    let attributes = MountAttributes {
        set: attributes | map.map_or(0, |_| ATTRIBUTE_IDMAP),
        clear: 0,
        propagation: 0,
        user_namespace: map.map_or(0, |map| u64::from(map.as_raw_fd().cast_unsigned())),
    };
    let recursive = if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: an empty path means the descriptor itself; the structure outlives the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | recursive,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    checked(result).map(drop)
}

/// Sets a resource limit, and how far it may be raised again.
pub(super) fn set_limit(resource: u32, soft: u64, hard: u64) -> Result<()> {
    let limit = [soft, hard];
    // SAFETY: a limit is two 64-bit numbers, which outlive the call; nothing is written back.
    let result = unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            0,
            resource,
            limit.as_ptr(),
            std::ptr::null_mut::<u64>(),
        )
    };
    checked(result).map(drop)
}

/// A resource limit as it is, and how far it may be raised.
pub(super) fn limit_of(resource: u32) -> Result<[u64; 2]> {
    let mut limit = [0_u64; 2];
    // SAFETY: no new limit is given, and there is room for the old one: two 64-bit numbers.
    let result = unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            0,
            resource,
            std::ptr::null::<u64>(),
            limit.as_mut_ptr(),
        )
    };
    checked(result).map(|_| limit)
}

/// The version of Landlock this kernel has; 0 for none.
pub(crate) fn landlock_version() -> u32 {
    const VERSION: u32 = 1;
    // SAFETY: asks for a number only; no memory is named.
    let result = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<Ruleset>(),
            0,
            VERSION,
        )
    };
    checked(result)
        .ok()
        .and_then(|version| u32::try_from(version).ok())
        .unwrap_or(0)
}

/// Makes a Landlock ruleset. `bytes` is how much of it this kernel knows.
pub(crate) fn landlock_ruleset(ruleset: &Ruleset, bytes: u32) -> Result<OwnedFd> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    // SAFETY: the structure outlives the call and is at least `bytes` long.
    let result = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::from_ref(ruleset),
            bytes.min(size_of::<Ruleset>()),
            0,
        )
    };
    to_descriptor(checked(result)?)
}

#[repr(C, packed)]
struct PathRule {
    access: u64,
    parent: i32,
}

/// Allows `access` beneath `path`.
pub(super) fn landlock_allow(
    ruleset: BorrowedFd<'_>,
    path: BorrowedFd<'_>,
    access: u64,
) -> Result<()> {
    const BENEATH: u32 = 1;
    let rule = PathRule {
        access,
        parent: path.as_raw_fd(),
    };
    // SAFETY: the structure outlives the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_raw_fd(),
            BENEATH,
            &raw const rule,
            0,
        )
    };
    checked(result).map(drop)
}

/// Holds this thread and its children to a ruleset.
pub(crate) fn landlock_restrict(ruleset: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: names no memory.
    let result = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
    checked(result).map(drop)
}

const _: () = {
    // What is handed to the kernel as `sock_filter` is laid out like it.
    assert!(size_of::<Instruction>() == size_of::<libc::sock_filter>());
    assert!(align_of::<Instruction>() == align_of::<libc::sock_filter>());
};

fn install(program: &[Instruction], flags: u32) -> Result<c_long> {
    // SAFETY: what is handed over has that many instructions.
    unsafe { install_raw(program.as_ptr().cast(), program.len(), flags) }
}

/// As [`install`], of a filter that is bytes; the kernel copies it, so that they need no alignment.
fn install_bytes(program: &[u8], flags: u32) -> Result<c_long> {
    let (instructions, rest) = program.as_chunks::<{ size_of::<Instruction>() }>();
    if !rest.is_empty() {
        return Err(Errno::INVAL);
    }
    // SAFETY: what is handed over has that many instructions.
    unsafe { install_raw(program.as_ptr(), instructions.len(), flags) }
}

/// # Safety
/// `program` must point at `count` instructions.
unsafe fn install_raw(program: *const u8, count: usize, flags: u32) -> Result<c_long> {
    let length = libc::c_ushort::try_from(count).map_err(|_| Errno::INVAL)?;
    let program = libc::sock_fprog {
        len: length,
        filter: program.cast_mut().cast(),
    };
    // SAFETY: the program outlives the call, is only read, and has the layout the kernel expects.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    };
    checked(result)
}

/// Holds this thread and its children to a filter.
pub(super) fn install_filter(program: &[u8]) -> Result<()> {
    install_bytes(program, 0).map(drop)
}

/// Holds this thread and its children to a filter that asks whoever has the descriptor.
pub(crate) fn install_listener(program: &[Instruction], flags: u32) -> Result<OwnedFd> {
    to_descriptor(install(program, flags | NEW_LISTENER)?)
}

/// The same of a filter that is bytes.
pub(super) fn install_listener_bytes(program: &[u8], flags: u32) -> Result<OwnedFd> {
    to_descriptor(install_bytes(program, flags | NEW_LISTENER)?)
}

const NEW_LISTENER: u32 = 1 << 3;

/// Confines the whole process, every thread of it, for good: for workers of our own that do so once
/// they are loaded.
pub(crate) fn confine_process(program: &[Instruction]) -> io::Result<()> {
    const ALL_THREADS: u32 = 1;
    rustix::thread::set_no_new_privs(true)?;
    install(program, ALL_THREADS)?;
    Ok(())
}

/// Blocks all signals, and gives each its usual meaning again: Rust programs ignore one, and who
/// starts a program in the background of a script makes it ignore others.
///
/// Asked of the system itself: the C library locks for one of them, and keeps two for itself.
pub(super) fn forget_signals() {
    // The usual action, which is 0, without flags, a way back or a set of signals to block.
    let usual = [0_u64; 4];
    for number in 1..=LAST_SIGNAL {
        // SAFETY: an action is four words, or less, which outlive the call; nothing is written back. The
        // usual action calls nothing of ours. Signals that have no other are refused.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                number,
                usual.as_ptr(),
                std::ptr::null_mut::<u64>(),
                size_of::<u64>(),
            )
        };
    }
    mask(libc::SIG_BLOCK);
}

/// There are as many as a set of them has bits.
const LAST_SIGNAL: libc::c_int = 64;

/// Lets every signal through.
pub(super) fn unblock_signals() {
    mask(libc::SIG_UNBLOCK);
}

fn mask(how: libc::c_int) {
    let all: u64 = u64::MAX;
    // SAFETY: a set of 64 signals is 8 bytes, which outlive the call; nothing is written back.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            how,
            &raw const all,
            std::ptr::null_mut::<u64>(),
            size_of::<u64>(),
        )
    };
}

/// A descriptor that becomes readable when a child ends.
pub(super) fn child_signals() -> Result<OwnedFd> {
    let set: u64 = 1 << (libc::SIGCHLD - 1);
    // SAFETY: a set of 64 signals is 8 bytes, which outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_signalfd4,
            -1,
            &raw const set,
            size_of::<u64>(),
            libc::SFD_CLOEXEC | libc::SFD_NONBLOCK,
        )
    };
    to_descriptor(checked(result)?)
}

/// Sends a signal to every process of the pid namespace but the caller, which is its init.
pub(super) fn signal_everyone(number: i32) -> Result<()> {
    // SAFETY: names no memory.
    checked(unsafe { libc::syscall(libc::SYS_kill, -1, number) }).map(drop)
}

/// Makes an open terminal the controlling one of this session.
pub(super) fn control_terminal(terminal: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: the request takes a number, not memory.
    checked(unsafe { libc::syscall(libc::SYS_ioctl, terminal.as_raw_fd(), libc::TIOCSCTTY, 0) })
        .map(drop)
}

/// Closes every descriptor from `first` to `last`.
pub(super) fn close_range(first: u32, last: u32) -> Result<()> {
    // SAFETY: only the child calls this, and uses afterwards only descriptors outside the range.
    checked(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) }).map(drop)
}

/// Gives the calling thread a table of open files of its own, without those from `first` to `last`.
pub(super) fn close_range_apart(first: u32, last: u32) -> Result<()> {
    const APART: u32 = 2;
    // SAFETY: closes nothing for other threads, and the caller uses nothing of the range any more.
    checked(unsafe { libc::syscall(libc::SYS_close_range, first, last, APART) }).map(drop)
}

/// Lets every descriptor from `first` to `last` be closed when a program is started.
pub(super) fn close_range_at_exec(first: u32, last: u32) -> Result<()> {
    const CLOSE_ON_EXEC: u32 = 4;
    // SAFETY: closes nothing now, and names no memory.
    checked(unsafe { libc::syscall(libc::SYS_close_range, first, last, CLOSE_ON_EXEC) }).map(drop)
}

/// The same for every descriptor from `first` on.
pub(in crate::linux) fn close_at_exec(first: u32) -> std::io::Result<()> {
    Ok(close_range_at_exec(first, u32::MAX)?)
}

/// Becomes another user, with no group but one, for good. For a process of one thread.
pub(super) fn become_user(user: u32, group: u32) -> Result<()> {
    let none = std::ptr::null::<libc::gid_t>();
    // SAFETY: a list of no groups names no memory; the others take numbers alone.
    unsafe {
        checked(libc::syscall(libc::SYS_setgroups, 0, none))?;
        checked(libc::syscall(libc::SYS_setresgid, group, group, group))?;
        checked(libc::syscall(libc::SYS_setresuid, user, user, user))?;
    }
    Ok(())
}

/// Makes `number` mean what `descriptor` means, past an exec.
pub(super) fn place(descriptor: RawFd, number: RawFd) -> Result<()> {
    if descriptor == number {
        return Ok(());
    }
    // SAFETY: only the child calls this, for the three standard streams.
    checked(unsafe { libc::syscall(libc::SYS_dup3, descriptor, number, 0) }).map(drop)
}

/// A descriptor the child was told to keep.
pub(super) fn kept<'fd>(number: RawFd) -> BorrowedFd<'fd> {
    // SAFETY: the child keeps these open until it ends.
    unsafe { BorrowedFd::borrow_raw(number) }
}

/// Enters namespaces of its own.
pub(super) fn unshare_user() -> Result<()> {
    // SAFETY: names no memory, and descriptors stay as they are.
    checked(unsafe { libc::syscall(libc::SYS_unshare, libc::CLONE_NEWUSER) }).map(drop)
}

/// Enters a mount namespace of its own.
pub(super) fn unshare_mounts() -> Result<()> {
    // SAFETY: names no memory, and descriptors stay as they are.
    checked(unsafe { libc::syscall(libc::SYS_unshare, libc::CLONE_NEWNS) }).map(drop)
}

/// Makes a capability one that no program started from here can ever have.
pub(super) fn drop_bounding(capability: u32) -> Result<()> {
    // SAFETY: names no memory.
    checked(unsafe { libc::syscall(libc::SYS_prctl, libc::PR_CAPBSET_DROP, capability, 0, 0, 0) })
        .map(drop)
}

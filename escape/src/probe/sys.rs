//! Raw system calls, and the few shapes attacks share.
//!
//! The probe exists to make calls that nobody should make, so [`call`] takes any number and any
//! arguments. A wrong pointer ends the probe, which the suite reports as a broken probe.

use std::ffi::CString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Why a route did not lead anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The system said no.
    Errno(i32),
    /// It said yes, and there was nothing to be had.
    Nothing(String),
}

pub(crate) type Try<T = String> = Result<T, Fault>;

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(number) => Self::Errno(number),
            None => Self::Nothing(format!("{:?}", error.kind())),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Errno(number) => f.write_str(&name(*number)),
            Self::Nothing(word) => f.write_str(word),
        }
    }
}

pub(crate) fn nothing<T>(word: &str) -> Try<T> {
    Err(Fault::Nothing(word.to_owned()))
}

const NAMES: &[(i32, &str)] = &[
    (libc::EPERM, "EPERM"),
    (libc::ENOENT, "ENOENT"),
    (libc::ESRCH, "ESRCH"),
    (libc::EIO, "EIO"),
    (libc::ENXIO, "ENXIO"),
    (libc::EBADF, "EBADF"),
    (libc::ECHILD, "ECHILD"),
    (libc::EAGAIN, "EAGAIN"),
    (libc::ENOMEM, "ENOMEM"),
    (libc::EACCES, "EACCES"),
    (libc::EFAULT, "EFAULT"),
    (libc::EBUSY, "EBUSY"),
    (libc::EEXIST, "EEXIST"),
    (libc::EXDEV, "EXDEV"),
    (libc::ENODEV, "ENODEV"),
    (libc::ENOTDIR, "ENOTDIR"),
    (libc::EISDIR, "EISDIR"),
    (libc::EINVAL, "EINVAL"),
    (libc::EMFILE, "EMFILE"),
    (libc::ENFILE, "ENFILE"),
    (libc::ENOTTY, "ENOTTY"),
    (libc::ETXTBSY, "ETXTBSY"),
    (libc::EFBIG, "EFBIG"),
    (libc::ENOSPC, "ENOSPC"),
    (libc::EROFS, "EROFS"),
    (libc::EPIPE, "EPIPE"),
    (libc::ENOSYS, "ENOSYS"),
    (libc::ENOTEMPTY, "ENOTEMPTY"),
    (libc::ELOOP, "ELOOP"),
    (libc::ENODATA, "ENODATA"),
    (libc::EOVERFLOW, "EOVERFLOW"),
    (libc::EOPNOTSUPP, "EOPNOTSUPP"),
    (libc::EAFNOSUPPORT, "EAFNOSUPPORT"),
    (libc::EPROTONOSUPPORT, "EPROTONOSUPPORT"),
    (libc::ENETUNREACH, "ENETUNREACH"),
    (libc::ECONNREFUSED, "ECONNREFUSED"),
    (libc::ETIMEDOUT, "ETIMEDOUT"),
    (libc::EDQUOT, "EDQUOT"),
    (libc::EUSERS, "EUSERS"),
    (libc::ENOKEY, "ENOKEY"),
    (libc::ENOEXEC, "ENOEXEC"),
    (libc::ECONNRESET, "ECONNRESET"),
];

/// The name of an error number.
pub(crate) fn name(number: i32) -> String {
    NAMES
        .iter()
        .find(|(known, _)| *known == number)
        .map_or_else(|| format!("E{number}"), |(_, name)| (*name).to_owned())
}

/// Calls that only x86-64 has. Elsewhere they have a number that no call has, and the kernel says so.
#[cfg(target_arch = "x86_64")]
pub(crate) mod old {
    pub(crate) const ARCH_PRCTL: i64 = libc::SYS_arch_prctl;
    pub(crate) const CHMOD: i64 = libc::SYS_chmod;
    pub(crate) const CREAT: i64 = libc::SYS_creat;
    pub(crate) const MKNOD: i64 = libc::SYS_mknod;
    pub(crate) const MODIFY_LDT: i64 = libc::SYS_modify_ldt;
    pub(crate) const OPEN: i64 = libc::SYS_open;
}

/// The same elsewhere.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) mod old {
    const NONE: i64 = 0xffff;
    pub(crate) const ARCH_PRCTL: i64 = NONE;
    pub(crate) const CHMOD: i64 = NONE;
    pub(crate) const CREAT: i64 = NONE;
    pub(crate) const MKNOD: i64 = NONE;
    pub(crate) const MODIFY_LDT: i64 = NONE;
    pub(crate) const OPEN: i64 = NONE;
}

/// Any system call.
pub(crate) fn call(number: i64, arguments: &[usize]) -> Try<usize> {
    let at = |index: usize| arguments.get(index).copied().unwrap_or(0);
    // SAFETY: the kernel checks every argument; callers keep what their pointers point at alive
    // until the call returns.
    let result = unsafe { libc::syscall(number, at(0), at(1), at(2), at(3), at(4), at(5)) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error().into())
}

/// A system call that gives a descriptor.
pub(crate) fn open_call(number: i64, arguments: &[usize]) -> Try<OwnedFd> {
    let descriptor = call(number, arguments)? as RawFd;
    // SAFETY: the kernel just made it for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// A pointer as an argument.
pub(crate) fn at<T: ?Sized>(value: &T) -> usize {
    std::ptr::from_ref(value).cast::<u8>() as usize
}

/// `AT_FDCWD` as an argument.
pub(crate) const HERE: usize = libc::AT_FDCWD as isize as usize;
/// -1 as an argument.
pub(crate) const MINUS_ONE: usize = usize::MAX;

pub(crate) fn c_path(path: &Path) -> Try<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Fault::Nothing("NUL".to_owned()))
}

pub(crate) fn text(value: &str) -> CString {
    CString::new(value).unwrap_or_default()
}

/// `openat`.
pub(crate) fn open(path: &Path, flags: i32) -> Try<OwnedFd> {
    let path = c_path(path)?;
    open_call(
        libc::SYS_openat,
        &[
            HERE,
            at(path.as_c_str().to_bytes_with_nul()),
            flags as usize,
            0o600,
        ],
    )
}

/// Everything a descriptor gives, up to a mebibyte.
pub(crate) fn drain(descriptor: OwnedFd) -> Try<Vec<u8>> {
    let mut bytes = Vec::new();
    File::from(descriptor)
        .take(1 << 20)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Runs `act` in a child, so that what it does to itself ends with it.
pub(crate) fn in_child(act: impl FnOnce() -> Try) -> Try {
    let (mut reader, mut writer) = io::pipe()?;
    // SAFETY: the probe has one thread here, so the child may do anything.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(io::Error::last_os_error().into());
    }
    if child == 0 {
        drop(reader);
        let line = match act() {
            Ok(evidence) => format!("+{evidence}"),
            Err(Fault::Errno(number)) => format!("!{number}"),
            Err(Fault::Nothing(word)) => format!("-{word}"),
        };
        let _ = writer.write_all(line.as_bytes());
        leave(0);
    }
    drop(writer);
    let mut answer = String::new();
    reader.read_to_string(&mut answer)?;
    let status = wait_for(child);
    match answer.split_at_checked(1) {
        Some(("+", evidence)) => Ok(evidence.to_owned()),
        Some(("!", number)) => Err(Fault::Errno(number.parse().unwrap_or(0))),
        Some((_, word)) => nothing(word),
        None => nothing(&ending(status)),
    }
}

/// The wait status of a child.
pub(crate) fn wait_for(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    while unsafe { libc::waitpid(child, &raw mut status, libc::__WALL) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
    status
}

/// How a child ended that said nothing.
pub(crate) fn ending(status: i32) -> String {
    if !libc::WIFSIGNALED(status) {
        return format!("EXIT-{}", libc::WEXITSTATUS(status));
    }
    match libc::WTERMSIG(status) {
        libc::SIGSYS => "SIGSYS".to_owned(),
        libc::SIGSEGV => "SIGSEGV".to_owned(),
        libc::SIGKILL => "SIGKILL".to_owned(),
        libc::SIGXFSZ => "SIGXFSZ".to_owned(),
        other => format!("SIGNAL-{other}"),
    }
}

/// Forks: the child's number, or 0 in the child.
pub(crate) fn fork() -> Try<i32> {
    // SAFETY: callers have one thread, so the child may do anything.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(io::Error::last_os_error().into());
    }
    Ok(child)
}

/// Ends the process at once, without the runtime's own end.
pub(crate) fn leave(code: i32) -> ! {
    // SAFETY: takes no pointer and never returns.
    unsafe { libc::_exit(code) }
}

/// Becomes root of a new user namespace with `more` new namespaces: what an unprivileged attacker
/// does first.
pub(crate) fn own_namespaces(more: i32) -> Try<()> {
    // SAFETY: take no pointers.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    call(libc::SYS_unshare, &[(libc::CLONE_NEWUSER | more) as usize])?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("0 {group} 1"))?;
    Ok(())
}

/// `mount`.
pub(crate) fn mount(source: &str, target: &str, kind: &str, flags: u64, data: &str) -> Try<usize> {
    let (source, target, kind, data) = (text(source), text(target), text(kind), text(data));
    call(
        libc::SYS_mount,
        &[
            at(source.as_bytes_with_nul()),
            at(target.as_bytes_with_nul()),
            at(kind.as_bytes_with_nul()),
            flags as usize,
            at(data.as_bytes_with_nul()),
        ],
    )
}

/// A mount namespace of its own: as root without a user namespace, else with one.
pub(crate) fn private_mounts() -> Try<()> {
    if is_root() {
        call(libc::SYS_unshare, &[libc::CLONE_NEWNS as usize])?;
        mount("none", "/", "", libc::MS_REC | libc::MS_PRIVATE, "")?;
        return Ok(());
    }
    own_namespaces(libc::CLONE_NEWNS | libc::CLONE_NEWCGROUP)
}

/// Whether the process is uid 0.
pub(crate) fn is_root() -> bool {
    // SAFETY: takes no pointer.
    unsafe { libc::geteuid() == 0 }
}

/// The value of a `Key:` line of a status file.
pub(crate) fn status_of(file: &str, key: &str) -> Try {
    let text = std::fs::read_to_string(file)?;
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.map(|value| value.trim_start_matches(':').trim().to_owned())
        .ok_or_else(|| Fault::Nothing("NO-LINE".to_owned()))
}

/// The number of an owned descriptor as an argument.
pub(crate) fn fd(descriptor: &impl AsRawFd) -> usize {
    descriptor.as_raw_fd() as usize
}

//! The socket by which whatever runs in a sandbox asks the kernel.
//!
//! Each sandbox that has one has its own, so that whoever comes through it is of that sandbox. The
//! native launcher makes it inside, where nothing of the host's is shown for it; bubblewrap is given
//! one of the host's, in a directory of its own.
//!
//! Guarantee: connections are accepted only while a command runs, by the thread that runs it, and
//! none that was waiting when a command ended is there when the next begins. Whoever connects too
//! often waits. What a supervisor that was killed left on the host goes when the next socket is made
//! there.

use super::identity::Identity;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Dir, FlockOperation, Gid, Mode, OFlags, Uid, chownat, flock, fstat, openat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How many may wait to be accepted: whoever comes then waits in `connect`.
pub(super) const WAITING: i32 = 64;

/// What of the host's bubblewrap can show to any user.
const EVERYBODYS: &str = "/tmp";
/// What the names of directories with a socket begin with there; so many digits follow.
const PREFIX: &str = "airlock-";
const DIGITS: usize = 24;
const SOCKET: &str = "kernel.sock";
/// A directory younger than this may be in the making, and not locked yet.
const YOUNG: Duration = Duration::from_mins(1);

/// What listens for a sandbox.
#[derive(Debug)]
pub(super) struct KernelSocket {
    listener: OwnedFd,
    place: Option<Place>,
}

/// A directory of the host with nothing but the socket in it, locked for as long as it is of use.
#[derive(Debug)]
struct Place {
    directory: PathBuf,
    socket: PathBuf,
    _lock: OwnedFd,
}

impl Drop for Place {
    fn drop(&mut self) {
        let _removed = fs::remove_file(&self.socket);
        let _removed = fs::remove_dir(&self.directory);
    }
}

impl KernelSocket {
    /// One that lies in the sandbox itself.
    pub(super) const fn inside(listener: OwnedFd) -> Self {
        Self {
            listener,
            place: None,
        }
    }

    /// One on the host, for a sandbox that is shown it.
    pub(super) fn beside() -> io::Result<Self> {
        let place = Place::new()?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        bind(&listener, &SocketAddrUnix::new(place.socket.as_path())?)?;
        fs::set_permissions(&place.socket, fs::Permissions::from_mode(0o600))?;
        if let Some((user, group)) = Identity::own().other() {
            let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            chownat(CWD, place.socket.as_path(), Some(user), Some(group), flags)?;
        }
        listen(&listener, WAITING)?;
        Ok(Self {
            listener,
            place: Some(place),
        })
    }

    /// Where it is on the host, if it is there.
    pub(super) fn path(&self) -> Option<&Path> {
        self.place.as_ref().map(|place| place.socket.as_path())
    }

    /// The next who waits, if somebody does.
    fn accept(&self) -> Result<Option<UnixStream>, Errno> {
        loop {
            match accept_with(&self.listener, SocketFlags::CLOEXEC) {
                Ok(stream) => return Ok(Some(UnixStream::from(stream))),
                Err(Errno::AGAIN) => return Ok(None),
                // Those who went away while they waited.
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Turns away whoever waits. Only when nothing runs any more that could come again.
    pub(super) fn clear(&self) {
        while let Ok(Some(_)) = self.accept() {}
    }
}

impl Place {
    fn new() -> io::Result<Self> {
        let mut random = [0; DIGITS / 2];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let mut name = PREFIX.to_owned();
        for byte in random {
            // Writing to a string cannot fail.
            let _written = write!(name, "{byte:02x}");
        }
        let directory = Path::new(EVERYBODYS).join(name);
        sweep(Path::new(EVERYBODYS), YOUNG);
        // Another user than ours has to find the socket in it, and nothing else.
        let mode = if Identity::own().other().is_some() {
            Mode::RWXU | Mode::XGRP | Mode::XOTH
        } else {
            Mode::RWXU
        };
        DirBuilder::new().mode(0o700).create(&directory)?;
        let lock = open_directory(CWD, &directory)?;
        flock(&lock, FlockOperation::NonBlockingLockShared)?;
        let place = Self {
            socket: directory.join(SOCKET),
            directory,
            _lock: lock,
        };
        // Whatever the mask for new files is.
        let permissions = fs::Permissions::from_mode(mode.as_raw_mode());
        fs::set_permissions(&place.directory, permissions)?;
        Ok(place)
    }
}

fn open_directory(at: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, path, flags, Mode::empty())
}

/// Removes what supervisors that were killed left in `directory`: of this user, by its name such a
/// place, not `young`, and locked by nobody. What cannot be removed is left for the next time.
fn sweep(directory: &Path, young: Duration) {
    let Ok(all) = open_directory(CWD, directory) else {
        return;
    };
    let Ok(entries) = Dir::read_from(&all) else {
        return;
    };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().to_str() else {
            continue;
        };
        let digits = name.strip_prefix(PREFIX).unwrap_or_default();
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if digits.len() == DIGITS && digits.bytes().all(is_hex) {
            let _left = remove_dead(&all, name, young);
        }
    }
}

fn remove_dead(all: &OwnedFd, name: &str, young: Duration) -> Result<(), Errno> {
    let place = open_directory(all, Path::new(name))?;
    let stat = fstat(&place)?;
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
    let age = u64::try_from(now.saturating_sub(stat.st_mtime)).unwrap_or(0);
    if stat.st_uid != rustix::process::geteuid().as_raw() || age < young.as_secs() {
        return Ok(());
    }
    flock(&place, FlockOperation::NonBlockingLockExclusive)?;
    match unlinkat(&place, SOCKET, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => unlinkat(all, name, AtFlags::REMOVEDIR),
        Err(errno) => Err(errno),
    }
}

/// Takes whoever wants to ask the kernel while a command runs.
pub type Visits<'a> = &'a mut dyn FnMut(UnixStream);

/// How many are let in within a [`SPELL`].
const AT_ONCE: u32 = 64;
const SPELL: Duration = Duration::from_millis(100);

/// Lets visitors in, for as long as one command runs.
pub(super) struct Reception<'a> {
    socket: &'a KernelSocket,
    visits: Visits<'a>,
    let_in: u32,
    since: Instant,
    /// Whoever comes earlier waits.
    shut_until: Option<Instant>,
}

impl<'a> Reception<'a> {
    pub(super) fn new(socket: &'a KernelSocket, visits: Visits<'a>) -> Self {
        Self {
            socket,
            visits,
            let_in: 0,
            since: Instant::now(),
            shut_until: None,
        }
    }

    /// What to wait for, unless nobody is let in now.
    pub(super) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.shut_until
            .is_none()
            .then(|| self.socket.listener.as_fd())
    }

    /// When to look again.
    pub(super) const fn next(&self) -> Option<Instant> {
        self.shut_until
    }

    /// Opens again, once it is time.
    pub(super) fn look(&mut self, now: Instant) {
        self.shut_until = self.shut_until.filter(|until| *until > now);
    }

    /// Lets in whoever waits, as many as may at once.
    pub(super) fn admit(&mut self) {
        let now = Instant::now();
        if now.saturating_duration_since(self.since) > SPELL {
            (self.since, self.let_in) = (now, 0);
        }
        loop {
            if self.let_in >= AT_ONCE {
                self.shut_until = Some(self.since + SPELL);
                return;
            }
            match self.socket.accept() {
                Ok(Some(stream)) => {
                    self.let_in += 1;
                    (self.visits)(stream);
                }
                Ok(None) => return,
                // There is no descriptor left for it; there may be in a moment.
                Err(_) => {
                    self.shut_until = Some(now + SPELL);
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_is_let_in_and_the_file_goes_with_the_socket() {
        let socket = KernelSocket::beside().unwrap();
        let path = socket.path().unwrap().to_owned();
        let _client = UnixStream::connect(&path).unwrap();
        let mut visits = 0;
        let mut visit = |_| visits += 1;
        Reception::new(&socket, &mut visit).admit();
        assert_eq!(visits, 1);
        drop(socket);
        assert!(!path.exists() && !path.parent().unwrap().exists());
    }

    #[test]
    fn what_a_killed_supervisor_left_is_swept_and_nothing_else() {
        let all = tempfile::tempdir().unwrap();
        let place = |name: &str| {
            let path = all.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join(SOCKET), "").unwrap();
            path
        };
        let digits = "0123456789abcdef0123456";
        let dead = place(&format!("{PREFIX}0{digits}"));
        let alive = place(&format!("{PREFIX}a{digits}"));
        let lock = open_directory(CWD, &alive).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockShared).unwrap();
        let full = place(&format!("{PREFIX}b{digits}"));
        fs::write(full.join("somebody's"), "").unwrap();
        let others = [
            place(&format!("{PREFIX}{digits}")),
            place(&format!("{PREFIX}G{digits}")),
            place(digits),
        ];
        let link = all.path().join(format!("{PREFIX}c{digits}"));
        std::os::unix::fs::symlink(&others[0], &link).unwrap();
        sweep(all.path(), YOUNG);
        assert!(dead.exists(), "it may be in the making");
        sweep(all.path(), Duration::ZERO);
        assert!(!dead.exists());
        assert!(alive.join(SOCKET).exists() && full.join("somebody's").exists());
        assert!(others.iter().all(|other| other.join(SOCKET).exists()));
    }

    #[test]
    fn a_flood_is_made_to_wait_and_what_waits_at_the_end_is_turned_away() {
        let socket = KernelSocket::beside().unwrap();
        let path = socket.path().unwrap().to_owned();
        let mut visit = drop::<UnixStream>;
        let mut reception = Reception::new(&socket, &mut visit);
        let mut clients = Vec::new();
        // However slow this machine is: at some time so many come within a spell.
        while reception.as_fd().is_some() && clients.len() < 100_000 {
            clients.push(UnixStream::connect(&path).unwrap());
            reception.admit();
        }
        assert!(reception.as_fd().is_none());
        clients.push(UnixStream::connect(&path).unwrap());
        let until = reception.next().unwrap();
        reception.look(until);
        assert!(reception.as_fd().is_some());
        socket.clear();
        let mut byte = [0];
        assert_eq!(clients.pop().unwrap().read(&mut byte).unwrap(), 0);
    }
}

//! One bubblewrap with a command in it, from its birth to its end.
//!
//! Bubblewrap is two processes: a monitor outside, our child, and the init of the sandbox, which
//! ends everything in it when it ends. Until [`Running::release`] the command is not started.
//! Invariant: when a [`Running`] is dropped, both are gone and with them everything inside.

use super::super::control::timespec;
use super::super::limits::{Rlimit, Stat};
use super::super::sys;
use crate::plan::HostPath;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::Deserialize;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// How long raising the walls may take before it is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long something that was killed may take to be gone.
const GRACE: Duration = Duration::from_secs(2);
/// How long bubblewrap may take from its init's end to its own.
const GIVING_UP: Duration = Duration::from_millis(500);
/// How often it is asked whether the root stands.
const LOOK: Duration = Duration::from_micros(500);

/// A piece of news from bubblewrap.
#[derive(Deserialize)]
struct News {
    #[serde(rename = "child-pid")]
    init: Option<i32>,
    /// Only told of a command that was started.
    #[serde(rename = "exit-code")]
    code: Option<i32>,
}

/// How a command ended.
#[derive(Debug)]
pub(super) struct End {
    /// As `wait` gives it.
    pub(super) status: i32,
    /// Whether the command had been started at all.
    pub(super) started: bool,
}

/// A bubblewrap.
#[derive(Debug)]
pub(super) struct Running {
    monitor: Child,
    monitor_descriptor: OwnedFd,
    /// Where it tells what becomes of the command.
    news: OwnedFd,
    heard: Vec<u8>,
    /// What it waits for.
    block: Option<OwnedFd>,
    init: Option<(i32, OwnedFd)>,
}

impl Running {
    pub(super) fn new(mut monitor: Child, news: OwnedFd, block: OwnedFd) -> io::Result<Self> {
        let pid = i32::try_from(monitor.id()).ok().and_then(Pid::from_raw);
        let opened = pid.ok_or(Errno::SRCH);
        let opened = opened.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
        match opened {
            Ok(monitor_descriptor) => Ok(Self {
                monitor,
                monitor_descriptor,
                news,
                heard: Vec::new(),
                block: Some(block),
                init: None,
            }),
            Err(errno) => {
                let _killed = monitor.kill();
                let _reaped = monitor.wait();
                Err(errno.into())
            }
        }
    }

    /// Readable when the command has ended.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.monitor_descriptor.as_fd()
    }

    /// Init's number and what means it alone, once it is known.
    pub(super) fn init(&self) -> Option<(i32, BorrowedFd<'_>)> {
        let (pid, descriptor) = self.init.as_ref()?;
        Some((*pid, descriptor.as_fd()))
    }

    /// Waits until the walls stand and sets the limits, as `owner` if that is another. Gives the
    /// writable places in memory. A broken pipe if bubblewrap gave up: then it says why itself.
    pub(super) fn stand(
        &mut self,
        home: &HostPath,
        limits: &[Rlimit],
        owner: Option<(u32, u32)>,
    ) -> io::Result<Vec<OwnedFd>> {
        self.try_to_stand(home, limits, owner).map_err(|error| {
            match wait(self.as_fd(), Instant::now() + GIVING_UP) {
                Ok(true) => io::ErrorKind::BrokenPipe.into(),
                Ok(false) | Err(_) => error,
            }
        })
    }

    fn try_to_stand(
        &mut self,
        home: &HostPath,
        limits: &[Rlimit],
        owner: Option<(u32, u32)>,
    ) -> io::Result<Vec<OwnedFd>> {
        let until = Instant::now() + PATIENCE;
        let number = self.wait_for_init(until)?;
        let pid = Pid::from_raw(number).ok_or(io::ErrorKind::InvalidData)?;
        let descriptor = pidfd_open(pid, PidfdFlags::empty())?;
        // Asked after it was opened: the number has not passed on to another.
        let found = Stat::read(Path::new("/proc"), number.unsigned_abs())?;
        if found.parent != self.monitor.id() {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.init = Some((number, descriptor));
        sys::limit(pid, limits, owner)?;
        let root = self.wait_for_root(number, home, until)?;
        let scratch = ["/tmp", "/dev/shm"].map(Path::new);
        let scratch = scratch.into_iter().chain([home.as_path()]);
        scratch.map(|path| Ok(inside(&root, path)?)).collect()
    }

    /// Bubblewrap tells its init's number before anything else.
    fn wait_for_init(&mut self, until: Instant) -> io::Result<i32> {
        loop {
            if self.heard.contains(&b'\n') {
                let init = self.news().find_map(|news| news.init);
                return init.ok_or_else(|| io::ErrorKind::InvalidData.into());
            }
            if !wait(self.news.as_fd(), until)? {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if !self.listen()? {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
    }

    /// Reads some news. False at its end.
    fn listen(&mut self) -> io::Result<bool> {
        const MOST: usize = 64 * 1024;
        let mut bytes = [0; 1024];
        let read = rustix::io::retry_on_intr(|| rustix::io::read(&self.news, &mut bytes))?;
        self.heard.extend(bytes.get(..read).unwrap_or_default());
        Ok(read > 0 && self.heard.len() < MOST)
    }

    fn news(&self) -> impl Iterator<Item = News> {
        let pieces = serde_json::Deserializer::from_slice(&self.heard).into_iter();
        pieces.map_while(Result::ok)
    }

    /// Bubblewrap does not say when its root stands: it is entered last, and by then the home is
    /// there.
    fn wait_for_root(&self, init: i32, home: &HostPath, until: Instant) -> io::Result<OwnedFd> {
        let ours = rustix::fs::stat("/")?;
        let path = format!("/proc/{init}/root");
        loop {
            let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
            let root = rustix::fs::open(path.as_str(), flags, Mode::empty())?;
            let found = fstat(&root)?;
            let other = (found.st_dev, found.st_ino) != (ours.st_dev, ours.st_ino);
            if other && inside(&root, home.as_path()).is_ok() {
                return Ok(root);
            }
            if wait(self.as_fd(), Instant::now() + LOOK)? {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if Instant::now() >= until {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    /// Lets the command begin.
    pub(super) fn release(&mut self) {
        if let Some(block) = self.block.take() {
            // If nobody reads any more, it has ended, and that is heard elsewhere.
            let _written = rustix::io::write(block, b"1");
        }
    }

    /// Ends everything inside.
    pub(super) fn kill(&self) {
        if let Some((_, init)) = &self.init {
            // It may have ended already.
            let _killed = pidfd_send_signal(init, Signal::KILL);
        }
    }

    /// How the command ended, after everything it left behind is gone.
    pub(super) fn end(&mut self) -> io::Result<End> {
        let exit = self.monitor.wait()?;
        self.kill();
        if let Some((_, init)) = &self.init {
            let _gone = wait(init.as_fd(), Instant::now() + GRACE)?;
        }
        while self.listen()? {}
        let told = self.news().find_map(|news| news.code);
        let status = match told {
            Some(code) => as_status(code),
            None => exit.into_raw(),
        };
        let started = told.is_some() || exit.code() != Some(1);
        Ok(End { status, started })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        // Its monitor ends with it, and reaps it.
        let ended = || wait(self.as_fd(), Instant::now() + GRACE);
        if self.init.is_none() || !matches!(ended(), Ok(true)) {
            let _killed = self.monitor.kill();
        }
        let _reaped = self.monitor.wait();
        if let Some((_, init)) = &self.init {
            let _gone = wait(init.as_fd(), Instant::now() + GRACE);
        }
    }
}

/// Bubblewrap says 128 and the number for a command that a signal ended, as shells do. One that
/// exits with such a code by itself cannot be told from it.
fn as_status(code: i32) -> i32 {
    match code - 128 {
        signal @ 1..=64 => signal,
        _ => code << 8,
    }
}

/// Something inside, by its path there.
fn inside(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
    openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)
}

/// Whether `descriptor` became readable in time.
fn wait(descriptor: BorrowedFd<'_>, until: Instant) -> io::Result<bool> {
    loop {
        let left = timespec(until.saturating_duration_since(Instant::now()));
        let mut waiting = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
        match poll(&mut waiting, Some(&left)) {
            Err(Errno::INTR) => {}
            ready => return Ok(ready? > 0),
        }
    }
}

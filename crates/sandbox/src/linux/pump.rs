//! Carries a command's output to where it belongs, and its input to it.
//!
//! Bounded: a stream that goes over its limit is cut there and its sandbox told; memory use does not
//! grow with what is written.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// One stream of output on its way.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// Bytes passed on.
    pub(super) bytes: AtomicU64,
    /// Whether more came than may.
    pub(super) over: AtomicBool,
}

/// As much as a pipe holds.
const BUFFER: usize = 64 * 1024;

/// How long a stream is waited for whose command has `ended`: what it wrote is there by then, and
/// whoever else holds the stream open has nothing to say.
const PATIENCE: Duration = Duration::from_secs(2);

/// Passes everything on from `from` to `to`, until its end or `limit`, and no longer than a moment
/// after `ended` became readable. `over` is called once if there was more. When nothing can be
/// written any more, the pipe is closed: the command learns of it as any program does whose reader
/// is gone.
#[expect(
    clippy::needless_pass_by_value,
    reason = "its end is the command's to see"
)]
pub(super) fn drain(
    from: OwnedFd,
    to: &mut (dyn Write + Send),
    limit: u64,
    flow: &Flow,
    ended: BorrowedFd<'_>,
    over: impl Fn(),
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        if !ready(from.as_fd(), PollFlags::IN, ended) && !comes(from.as_fd())? {
            return Ok(());
        }
        let read = match rustix::io::read(&from, &mut buffer) {
            // A terminal whose other end is closed reports an error instead of an end.
            Ok(0) | Err(Errno::IO) => return Ok(()),
            Ok(read) => read,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        };
        let before = flow.bytes.load(Ordering::Relaxed);
        let room = usize::try_from(limit.saturating_sub(before)).unwrap_or(usize::MAX);
        let passed = buffer.get(..read.min(room)).unwrap_or_default();
        flow.bytes.fetch_add(passed.len() as u64, Ordering::Relaxed);
        if read > room && !flow.over.swap(true, Ordering::SeqCst) {
            over();
        }
        to.write_all(passed)?;
        to.flush()?;
    }
}

/// Whether something comes from `from` in time, its end included.
fn comes(from: BorrowedFd<'_>) -> io::Result<bool> {
    let until = Instant::now() + PATIENCE;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(count) => return Ok(count > 0),
        }
    }
}

/// Copies from `from` to `to` until either ends or `stop` becomes readable.
pub(super) fn feed(from: BorrowedFd<'_>, to: BorrowedFd<'_>, stop: BorrowedFd<'_>) {
    let mut buffer = vec![0; BUFFER];
    while ready(from, PollFlags::IN, stop) {
        let read = match rustix::io::read(from, &mut buffer) {
            Ok(0) => return,
            Ok(read) => read,
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Err(_) => return,
        };
        let mut left = buffer.get(..read).unwrap_or_default();
        while !left.is_empty() {
            if !ready(to, PollFlags::OUT, stop) {
                return;
            }
            match rustix::io::write(to, left) {
                Ok(written) => left = left.get(written..).unwrap_or_default(),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return,
            }
        }
    }
}

/// Waits until `descriptor` can be used. False if it is time to stop.
fn ready(descriptor: BorrowedFd<'_>, flags: PollFlags, stop: BorrowedFd<'_>) -> bool {
    let (descriptor, stop) = (descriptor.as_fd(), stop.as_fd());
    let mut waiting = [
        PollFd::new(&descriptor, flags),
        PollFd::new(&stop, PollFlags::IN),
    ];
    loop {
        match poll(&mut waiting, None) {
            Err(Errno::INTR) => {}
            Err(_) => return false,
            Ok(_) => break,
        }
    }
    let [_, stop] = waiting;
    stop.revents().is_empty()
}

//! Where a plugin's or a worker's answers go: a pipe that never holds up the end of its process.
//!
//! A process that was taken over can write while nobody reads. Whoever carries its output must then
//! not wait for room, or ending the process would wait as well, and whoever ends it.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The writing end of a pipe. Writing fails once the other end of `stop` is closed.
#[derive(Debug)]
pub struct Outlet {
    pipe: OwnedFd,
    stop: OwnedFd,
    passed: Arc<AtomicU64>,
}

impl Outlet {
    /// Writes to `pipe` until `stop` reports something, and counts what passed.
    pub fn new(pipe: OwnedFd, stop: OwnedFd, passed: Arc<AtomicU64>) -> io::Result<Self> {
        fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
        Ok(Self { pipe, stop, passed })
    }

    /// Waits for room. An error once it is time to stop.
    fn wait(&self) -> io::Result<()> {
        let mut waiting = [
            PollFd::new(&self.pipe, PollFlags::OUT),
            PollFd::new(&self.stop, PollFlags::IN),
        ];
        match poll(&mut waiting, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let [_, stop] = waiting;
        if stop.revents().is_empty() {
            Ok(())
        } else {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }
}

impl Write for Outlet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.wait()?;
            match rustix::io::write(&self.pipe, bytes) {
                Ok(written) => {
                    self.passed.fetch_add(written as u64, Ordering::Relaxed);
                    return Ok(written);
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{PipeFlags, pipe_with};

    #[test]
    fn a_pipe_nobody_reads_holds_nobody_up_once_it_is_time_to_stop() {
        let (unread, pipe) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let (stop, stopping) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let passed = Arc::<AtomicU64>::default();
        let mut outlet = Outlet::new(pipe, stop, Arc::clone(&passed)).unwrap();
        let writer = std::thread::spawn(move || {
            loop {
                if let Err(error) = outlet.write_all(&[7; 4096]) {
                    return error.kind();
                }
            }
        });
        while passed.load(Ordering::Relaxed) < 60 * 1024 {
            std::thread::yield_now();
        }
        drop(stopping);
        assert_eq!(writer.join().unwrap(), io::ErrorKind::BrokenPipe);
        drop(unread);
    }
}

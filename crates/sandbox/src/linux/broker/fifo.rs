//! Named pipes, whose opening waits for the other end.
//!
//! No thread waits in the kernel: an end is opened without blocking and tried again until its
//! partner is there, so that a process that dies meanwhile leaves nothing behind, and no number of
//! waiting processes uses up the broker's threads. They are bounded all the same.

use super::common::Common;
use super::judge::{among_descriptors, name_of};
use super::threads::Shared;
use crate::linux::sys::notify::{answer, answer_with_only, is_valid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl, openat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, tee};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most openings that wait at a time.
const MOST: usize = 64;
/// How long until they are tried again.
const PAUSE: Duration = Duration::from_millis(2);
/// How often the thread looks whether it is to stop, or another holds its turn for too long.
const IDLE: Duration = Duration::from_millis(20);

/// An opening that waits for the other end.
pub(super) struct Waiting {
    id: u64,
    bare: OwnedFd,
    /// The reading end, open before there is a writer.
    reader: Option<OwnedFd>,
    flags: OFlags,
    close_on_exec: bool,
}

impl Waiting {
    pub(super) fn new(id: u64, bare: OwnedFd, flags: OFlags, close_on_exec: bool) -> Self {
        Self {
            id,
            bare,
            reader: None,
            flags,
            close_on_exec,
        }
    }

    /// The open end, if the other end is there.
    pub(super) fn attempt(&mut self) -> Result<Option<OwnedFd>, Errno> {
        let open = || {
            let flags = self.flags | OFlags::NONBLOCK;
            let name = name_of(self.bare.as_fd());
            among_descriptors(|directory| openat(directory, name, flags, Mode::empty()))
        };
        let opened = if self.flags.contains(OFlags::WRONLY) {
            match open() {
                Ok(writer) => writer,
                Err(Errno::NXIO) => return Ok(None),
                Err(error) => return Err(error),
            }
        } else {
            let reader = match self.reader.take() {
                Some(reader) => reader,
                None => open()?,
            };
            if !has_writer(&reader)? {
                self.reader = Some(reader);
                return Ok(None);
            }
            reader
        };
        make_blocking(&opened)?;
        Ok(Some(opened))
    }
}

/// Takes `O_NONBLOCK` off again.
pub(super) fn make_blocking(file: &OwnedFd) -> Result<(), Errno> {
    let flags = fcntl_getfl(file)?.difference(OFlags::NONBLOCK);
    fcntl_setfl(file, flags)
}

/// Whether somebody writes to a pipe, or has: told apart without taking anything from it.
fn has_writer(reader: &OwnedFd) -> Result<bool, Errno> {
    let mut descriptors = [PollFd::new(reader, PollFlags::IN)];
    if poll(&mut descriptors, Some(&Timespec::default()))? > 0 {
        return Ok(true);
    }
    let (_end, spare) = pipe_with(PipeFlags::CLOEXEC)?;
    match tee(reader, &spare, 1, SpliceFlags::NONBLOCK) {
        Ok(0) => Ok(false),
        Ok(_) | Err(Errno::AGAIN) => Ok(true),
        Err(error) => Err(error),
    }
}

/// The openings that wait. Each counts as something held open, beside the call itself.
#[derive(Default)]
pub(super) struct Fifos(Mutex<Vec<Waiting>>);

impl Fifos {
    pub(super) fn add(&self, one: Waiting, common: &Common) -> Result<(), Errno> {
        let mut waiting = self.waiting();
        if waiting.len() >= MOST {
            return Err(Errno::AGAIN);
        }
        common.begin();
        waiting.push(one);
        drop(waiting);
        common.tell();
        Ok(())
    }

    /// Tries what waits until `shared` stops.
    pub(super) fn serve(shared: &Shared) {
        while !shared.common.stops() {
            if shared.fifos.round(shared) {
                std::thread::sleep(PAUSE);
            } else {
                shared.common.wait_for_news(IDLE);
            }
            shared.common.turn.watch();
        }
    }

    /// Tries each; says whether any has to wait on.
    fn round(&self, shared: &Shared) -> bool {
        let mut waiting = self.waiting();
        let before = waiting.len();
        waiting.retain_mut(|one| still_waits(shared, one));
        for _ in waiting.len()..before {
            shared.common.end();
        }
        !waiting.is_empty()
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn still_waits(shared: &Shared, one: &mut Waiting) -> bool {
    let listener = shared.listener.as_fd();
    if !is_valid(listener, one.id) {
        return false;
    }
    let sent = match one.attempt() {
        Ok(None) => return true,
        Ok(Some(file)) => answer_with_only(listener, one.id, file, one.close_on_exec),
        Err(error) => Err(error),
    };
    if let Err(error) = sent {
        // Fails only if the process is gone.
        let _gone = answer(listener, one.id, Err(error));
    }
    false
}

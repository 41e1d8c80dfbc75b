//! The threads that answer calls, with open files of their own.

use super::common::Common;
use super::fifo::Fifos;
use super::filter::{self, Call};
use super::identity::Powers;
use super::judge::Rules;
use super::procfs;
use super::target::Request;
use crate::linux::sys::files::{Elsewhere, Files};
use crate::linux::sys::notify::{Notification, answer, answer_with, answer_with_only, receive};
use crate::plan::Denial;
use crate::seccomp::Architecture;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Stat;
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

/// Threads that answer calls.
const THREADS: usize = 4;
/// How long one of them is alone at first: most short commands need no more, and more of them would
/// only be in their way. A call that keeps it waiting has others after that.
const ALONE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 4_000_000,
};

/// What the threads begin with.
pub(super) struct Parts {
    pub(super) listener: Elsewhere,
    pub(super) root: Elsewhere,
    pub(super) stop: Elsewhere,
    pub(super) denials: Vec<Denial>,
    pub(super) identity: Option<(u32, u32)>,
}

/// How a call is answered.
pub(super) enum Answer {
    Done,
    Descriptor {
        file: OwnedFd,
        close_on_exec: bool,
        /// Whether the file is closed here before the process goes on.
        alone: bool,
    },
    /// By another thread, when the time has come.
    Later,
}

impl Answer {
    /// The same, with the file closed here before the process goes on.
    pub(super) fn alone(self) -> Self {
        match self {
            Self::Descriptor {
                file,
                close_on_exec,
                alone: _,
            } => Self::Descriptor {
                file,
                close_on_exec,
                alone: true,
            },
            Self::Done | Self::Later => self,
        }
    }
}

/// What the threads have and nobody else: all that is open here is open for them alone.
pub(super) struct Shared {
    pub(super) common: Arc<Common>,
    pub(super) files: Files,
    pub(super) listener: OwnedFd,
    pub(super) root: OwnedFd,
    pub(super) root_stat: Stat,
    /// The device of `/proc` inside.
    pub(super) process_device: Option<u64>,
    pub(super) rules: Rules,
    calls: HashMap<u32, Call>,
    /// Held while a name may become a directory.
    pub(super) shape: Mutex<()>,
    pub(super) fifos: Fifos,
    stop: OwnedFd,
    identity: Option<(u32, u32)>,
}

impl Shared {
    /// Starts the threads. When this returns, they need nothing of `parts` any more.
    pub(super) fn start(common: &Arc<Common>, parts: Parts) -> io::Result<()> {
        let own = Arc::clone(common);
        let (ready, is_ready) = mpsc::sync_channel(1);
        let first = move || {
            // The broker waits to hear it.
            let tell = |begun| drop(ready.send(begun));
            match Self::begin(own, parts) {
                Ok((shared, powers)) => {
                    tell(Ok(()));
                    serve(&shared, &powers);
                }
                Err(error) => tell(Err(error)),
            }
        };
        common.add_thread(named().spawn(first)?);
        is_ready.recv().map_err(io::Error::other)?
    }

    /// What the first thread does before it answers.
    fn begin(common: Arc<Common>, parts: Parts) -> io::Result<(Arc<Self>, Powers)> {
        let files = Files::part(parts.listener)?;
        common.set_apart(matches!(files, Files::Apart { .. }));
        let architecture =
            Architecture::find(std::env::consts::ARCH).ok_or(io::ErrorKind::Unsupported)?;
        let root = files.bring(parts.root)?;
        let refusals = Arc::clone(&common.refusals);
        let shared = Arc::new(Self {
            root_stat: rustix::fs::fstat(&root)?,
            process_device: procfs::device(root.as_fd())?,
            rules: Rules::new(parts.denials, root.as_fd(), refusals)?,
            calls: filter::numbers(architecture).into_iter().collect(),
            listener: files.bring(parts.listener)?,
            root,
            shape: Mutex::new(()),
            fifos: Fifos::default(),
            stop: files.bring(parts.stop)?,
            identity: parts.identity,
            common,
            files,
        });
        // The others come while the first already answers, if it has to for long.
        Self::spawn(&shared, |shared| {
            if shared.stops_within(&ALONE) {
                return Ok(());
            }
            for _ in 2..THREADS {
                Self::spawn(shared, |shared| shared.answer_calls())?;
            }
            Self::spawn(shared, |shared| {
                let _powers = Powers::take(shared.identity)?;
                Fifos::serve(shared);
                Ok(())
            })?;
            shared.answer_calls()
        })?;
        match Powers::take(shared.identity) {
            Ok(powers) => Ok((shared, powers)),
            Err(error) => {
                shared.stop();
                Err(error.into())
            }
        }
    }

    /// Starts another thread, with the rights of the one that starts it.
    fn spawn(
        shared: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let own = Arc::clone(shared);
        let body = move || {
            if work(&own).is_err() {
                // With too few of them a process could wait for good. Then nobody answers, and the
                // system refuses.
                own.stop();
            }
        };
        shared.common.add_thread(named().spawn(body)?);
        Ok(())
    }

    fn answer_calls(&self) -> io::Result<()> {
        let powers = Powers::take(self.identity)?;
        serve(self, &powers);
        Ok(())
    }

    fn stop(&self) {
        self.common.stop(&self.stop);
    }

    /// Waits whether the broker is to stop this soon.
    fn stops_within(&self, patience: &Timespec) -> bool {
        let mut stop = [PollFd::new(&self.stop, PollFlags::IN)];
        // Interrupted: whoever waits for the others does so no longer.
        matches!(poll(&mut stop, Some(patience)), Ok(1..)) || self.common.stops()
    }

    /// The next call; none when the sandbox has ended or the broker is to stop.
    fn next(&self) -> Option<Notification> {
        loop {
            let (listener, stop) = self.poll(None)?;
            if stop || self.common.stops() {
                return None;
            }
            if listener.contains(PollFlags::IN) {
                // Counted first: once it is received, its process may be gone at any time.
                self.common.begin();
                let received = receive(self.listener.as_fd());
                if received.is_err() {
                    self.common.end();
                }
                match received {
                    Ok(notification) => return Some(notification),
                    // The process died, or was interrupted, before it was heard.
                    Err(Errno::NOENT | Errno::INTR) => {}
                    Err(_) => return None,
                }
            } else if !listener.is_empty() {
                return None;
            }
        }
    }

    /// Whether another call waits already.
    fn has_more(&self) -> bool {
        let ready = self.poll(Some(&Timespec::default()));
        ready.is_some_and(|(listener, _)| listener.contains(PollFlags::IN))
    }

    /// What there is to do on the listener, and whether the broker is to stop.
    fn poll(&self, timeout: Option<&Timespec>) -> Option<(PollFlags, bool)> {
        let mut descriptors = [
            PollFd::new(&self.listener, PollFlags::IN),
            PollFd::new(&self.stop, PollFlags::IN),
        ];
        match poll(&mut descriptors, timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
        let [listener, stop] = &descriptors;
        Some((listener.revents(), !stop.revents().is_empty()))
    }
}

fn named() -> thread::Builder {
    thread::Builder::new().name("broker".to_owned())
}

fn serve(shared: &Shared, powers: &Powers) {
    let turn = &shared.common.turn;
    while let Some(ticket) = turn.take() {
        loop {
            let Some(notification) = shared.next() else {
                turn.stop();
                return;
            };
            turn.begin(shared.has_more());
            respond(shared, powers, notification);
            shared.common.end();
            if !turn.end(ticket) {
                break;
            }
        }
    }
}

fn respond(shared: &Shared, powers: &Powers, notification: Notification) {
    let call = shared.calls.get(&notification.number);
    let request = Request::new(shared, powers, notification);
    let answered = match call {
        Some(call) => request.perform(*call),
        None => Err(Errno::NOSYS),
    };
    let listener = shared.listener.as_fd();
    let sent = match answered {
        Ok(Answer::Later) => return,
        Ok(Answer::Done) => answer(listener, request.id(), Ok(())),
        Ok(Answer::Descriptor {
            file,
            close_on_exec,
            alone: true,
        }) => answer_with_only(listener, request.id(), file, close_on_exec),
        Ok(Answer::Descriptor {
            file,
            close_on_exec,
            alone: false,
        }) => answer_with(listener, request.id(), file.as_fd(), close_on_exec),
        Err(error) => Err(error),
    };
    if let Err(error) = sent {
        // Fails only if the process is gone: then nobody waits.
        let _gone = answer(listener, request.id(), Err(error));
    }
}

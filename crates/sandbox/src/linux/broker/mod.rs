//! Deny inside allow: the supervisor opens files on behalf of guarded processes.
//!
//! Mounts grant whole trees. A denial inside one (`**/.env`, also for files that do not exist yet)
//! cannot be said with mounts without walking the tree. So every call that opens or changes a
//! file by its name waits in the kernel ([`notify_filter`]) until a thread here has made it in the
//! process's stead: it resolves the path inside the sandbox's root, judges the file found by its
//! own path, and hands a descriptor over. The kernel is never told to continue such a call: its
//! path lies in memory that another thread can change between judgement and use.
//!
//! Guaranteed: no content of a file is opened, and nothing is changed or created, whose own path a
//! denial covers, whatever links, `..`, descriptors or `/proc` lead to it, and whatever is renamed
//! meanwhile. Renames that would take a denial off a file, or put a file under one, do not happen:
//! a directory then cannot be renamed, as across file systems.
//!
//! Extended attributes are read through an open file alone. The sandbox's Landlock rules do not bind
//! what the broker opens; its mounts do.
//!
//! Not guaranteed: metadata stays visible, and denied programs can be run where their mode allows.
//! Hard links that existed before are other names of the file. A socket can be bound to a denied
//! name. A process that confines itself further with Landlock is not held to that by the broker.
//! A process that may not be looked into (after `PR_SET_DUMPABLE`) may be refused everything.
//!
//! Invariant: the answer to a call is made from one reading of the process's memory.

mod attribute;
mod change;
mod dispatch;
mod fifo;
mod filter;
mod identity;
mod judge;
mod open;
mod procfs;
mod resolve;
mod target;
#[cfg(test)]
mod tests;
mod turn;

pub(crate) use filter::notify_filter;

use crate::launch::Refusal;
use crate::linux::sys::notify::{
    Notification, answer, answer_with, answer_with_only, receive, structures_fit,
    wake_synchronously,
};
use crate::plan::Denial;
use crate::seccomp::Architecture;
use fifo::Fifos;
use filter::Call;
use identity::Powers;
use judge::Rules;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::Stat;
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use target::Request;
use turn::Turn;

/// Threads that answer calls.
const THREADS: usize = 4;
/// How long one of them is alone at first: most short commands need no more, and more of them would
/// only be in their way. A call that keeps it waiting has others after that.
const ALONE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 4_000_000,
};
/// How long stopping waits for a thread that is held up by a file system.
const STOPPING: Duration = Duration::from_millis(500);
/// How long answers to processes that have ended may take. A sandbox that waits for more is not used
/// again.
const RESTING: Duration = Duration::from_millis(100);

/// What a broker guards.
pub(crate) struct Guarded {
    /// Where the calls arrive.
    pub(crate) listener: OwnedFd,
    /// A bare descriptor of the sandbox's `/`.
    pub(crate) root: OwnedFd,
    /// What is denied, by paths inside.
    pub(crate) denials: Vec<Denial>,
    /// The user and group of the host to act as, where the supervisor is root.
    pub(crate) identity: Option<(u32, u32)>,
}

/// Answers the calls of a sandbox until it is dropped or the sandbox ends.
pub(crate) struct Broker {
    shared: Arc<Shared>,
}

/// How a call is answered.
enum Answer {
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
    fn alone(self) -> Self {
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

/// What the threads have in common.
struct Shared {
    listener: OwnedFd,
    root: OwnedFd,
    root_stat: Stat,
    /// The device of `/proc` inside.
    process_device: Option<u64>,
    rules: Rules,
    calls: HashMap<u32, Call>,
    terminal: Mutex<Option<OwnedFd>>,
    /// Held while a name may become a directory.
    shape: Mutex<()>,
    fifos: Fifos,
    turn: Turn,
    /// How many calls are being answered.
    busy: AtomicUsize,
    stopping: AtomicBool,
    stop: OwnedFd,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker").finish_non_exhaustive()
    }
}

impl Broker {
    /// Starts answering. Fails if a thread cannot become who it must act as.
    pub(crate) fn start(guarded: Guarded) -> io::Result<Self> {
        if !structures_fit()? {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let architecture =
            Architecture::find(std::env::consts::ARCH).ok_or(io::ErrorKind::Unsupported)?;
        wake_synchronously(guarded.listener.as_fd());
        let shared = Arc::new(Shared {
            root_stat: rustix::fs::fstat(&guarded.root)?,
            process_device: procfs::device(guarded.root.as_fd())?,
            rules: Rules::new(guarded.denials, guarded.root.as_fd())?,
            calls: filter::numbers(architecture).into_iter().collect(),
            listener: guarded.listener,
            root: guarded.root,
            terminal: Mutex::new(None),
            shape: Mutex::new(()),
            fifos: Fifos::default(),
            turn: Turn::default(),
            busy: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            stop: eventfd(0, EventfdFlags::CLOEXEC)?,
            threads: Mutex::default(),
        });
        let broker = Self { shared };
        let identity = guarded.identity;
        let first = Shared::spawn(&broker.shared, identity, serve)?;
        // The others come while the first already answers, if it has to for long.
        Shared::spawn_with(&broker.shared, identity, serve, move |shared| {
            if shared.stops_within(&ALONE) {
                return Ok(());
            }
            for _ in 2..THREADS {
                Shared::spawn(shared, identity, serve)?;
            }
            Shared::spawn(shared, identity, |shared, _| Fifos::serve(shared)).map(drop)
        })?;
        // What one of them may become the others may.
        first.recv().map_err(io::Error::other)??;
        Ok(broker)
    }

    /// What was refused since this was last asked, each once.
    pub(crate) fn take_refusals(&self) -> Vec<Refusal> {
        self.shared.rules.take_refusals()
    }

    /// Waits until nothing is held open for processes, all of which have ended: what is answered to
    /// one that goes on, or is gone, is closed here a little later. Says whether it is.
    pub(crate) fn comes_to_rest(&self) -> bool {
        let end = Instant::now() + RESTING;
        loop {
            let busy = self.shared.busy.load(Ordering::SeqCst);
            if busy == 0 && self.shared.fifos.is_empty() {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            thread::sleep(Duration::from_micros(50));
        }
    }

    /// What `/dev/tty` is inside: the slave of a terminal made for the sandbox, or nothing.
    pub(crate) fn set_terminal(&self, terminal: Option<OwnedFd>) {
        let current = self.shared.terminal.lock();
        *current.unwrap_or_else(PoisonError::into_inner) = terminal;
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.shared.stop();
        let end = Instant::now() + STOPPING;
        let mut pause = Duration::from_micros(20);
        // Whoever starts others has noted them before it ends.
        while let Some(thread) = self.shared.next_thread() {
            while !thread.is_finished() && Instant::now() < end {
                thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(1));
            }
            // One that a file system still holds up ends by itself as soon as it is let go.
            if thread.is_finished() {
                let _ended = thread.join();
            }
        }
    }
}

type Began = mpsc::Receiver<Result<(), Errno>>;
type Work = fn(&Shared, &Powers);

impl Shared {
    fn spawn(shared: &Arc<Self>, identity: Option<(u32, u32)>, work: Work) -> io::Result<Began> {
        Self::spawn_with(shared, identity, work, |_| Ok(()))
    }

    /// Starts a thread that does `first` with the supervisor's own rights, and then `work`.
    fn spawn_with(
        shared: &Arc<Self>,
        identity: Option<(u32, u32)>,
        work: Work,
        first: impl FnOnce(&Arc<Self>) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Began> {
        let own = Arc::clone(shared);
        let (ready, is_ready) = mpsc::sync_channel(1);
        let body = move || {
            if first(&own).is_err() {
                // With too few of them a process could wait for good. Then nobody answers.
                own.stop();
                return;
            }
            let powers = Powers::take(identity);
            // Nobody may wait to hear it.
            let _told = ready.send(powers.as_ref().map(drop).map_err(|errno| *errno));
            drop(ready);
            if let Ok(powers) = powers {
                work(&own, &powers);
            }
        };
        let thread = thread::Builder::new()
            .name("broker".to_owned())
            .spawn(body)?;
        shared.threads().push(thread);
        Ok(is_ready)
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_thread(&self) -> Option<JoinHandle<()>> {
        self.threads().pop()
    }

    /// Has every thread end.
    fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.turn.stop();
        self.fifos.stop();
        // Cannot fail: the count is far from its limit.
        let _written = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
    }

    fn stops(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Waits whether the broker is to stop this soon.
    fn stops_within(&self, patience: &Timespec) -> bool {
        let mut stop = [PollFd::new(&self.stop, PollFlags::IN)];
        // Interrupted: whoever waits for the others does so no longer.
        matches!(poll(&mut stop, Some(patience)), Ok(1..)) || self.stops()
    }

    /// The next call; none when the sandbox has ended or the broker is to stop.
    fn next(&self) -> Option<Notification> {
        loop {
            let (listener, stop) = self.poll(None)?;
            if stop || self.stops() {
                return None;
            }
            if listener.contains(PollFlags::IN) {
                // Counted first: once it is received, its process may be gone at any time.
                self.busy.fetch_add(1, Ordering::SeqCst);
                let received = receive(self.listener.as_fd());
                if received.is_err() {
                    self.busy.fetch_sub(1, Ordering::SeqCst);
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

fn serve(shared: &Shared, powers: &Powers) {
    while let Some(ticket) = shared.turn.take() {
        loop {
            let Some(notification) = shared.next() else {
                shared.turn.stop();
                return;
            };
            shared.turn.begin(shared.has_more());
            respond(shared, powers, notification);
            shared.busy.fetch_sub(1, Ordering::SeqCst);
            if !shared.turn.end(ticket) {
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

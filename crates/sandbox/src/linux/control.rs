//! Steering a sandbox from other threads, and the socket to its init.

use super::beside::Besides;
use super::limits::{Nameless, Tree};
use super::underlay::Overlays;
use super::wire::{BYTES, Notice, Order};
use crate::launch::TerminalSize;
use crate::lifecycle::{Event, Refused, State};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::termios::{Winsize, tcsetwinsize};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The supervisor's end of the socket to init.
#[derive(Debug)]
pub(super) struct Channel(OwnedFd);

impl Channel {
    pub(super) const fn new(socket: OwnedFd) -> Self {
        Self(socket)
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    pub(super) fn send(&self, order: Order, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = order.encode();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let slices = [IoSlice::new(&bytes)];
        sendmsg(&self.0, &slices, &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The next notice, with the descriptors that came with it. None when init is gone.
    pub(super) fn receive(&self) -> io::Result<Option<(Notice, Vec<OwnedFd>)>> {
        let mut bytes = [0; BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut slices = [IoSliceMut::new(&mut bytes)];
            match recvmsg(
                &self.0,
                &mut slices,
                &mut ancillary,
                RecvFlags::CMSG_CLOEXEC,
            ) {
                // Told once of an end that left an order unread; what it said before comes after.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                received => break received?.bytes,
            }
        };
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        if received == 0 {
            return Ok(None);
        }
        let notice = Notice::decode(bytes).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Some((notice, descriptors)))
    }

    /// Whether something can be received before `patience` is over.
    pub(super) fn wait(&self, patience: Duration) -> io::Result<bool> {
        is_ready(self.as_fd(), patience)
    }
}

/// Whether there is something to be read from `descriptor` before `patience` is over.
pub(super) fn is_ready(descriptor: BorrowedFd<'_>, patience: Duration) -> io::Result<bool> {
    let mut waiting = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    let until = Instant::now() + patience;
    loop {
        let left = timespec(until.saturating_duration_since(Instant::now()));
        match poll(&mut waiting, Some(&left)) {
            Err(Errno::INTR) => {}
            ready => return Ok(ready? > 0),
        }
    }
}

pub(super) fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

/// Steers a sandbox while a command of it runs. Copies steer the same one.
#[derive(Debug, Clone)]
pub struct Control(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    channel: Channel,
    state: Mutex<State>,
    cancelled: AtomicBool,
    /// Wakes the supervisor of a running command.
    wake: OwnedFd,
    terminal: Mutex<Option<OwnedFd>>,
    rest: Mutex<Rest>,
    besides: Besides,
    overlays: Overlays,
    /// The number of its init, 0 while there is none.
    init: AtomicU32,
    /// How often it was ordered to kill what runs.
    kills: AtomicU32,
}

/// Time that does not count, because everything stood still.
#[derive(Debug, Default)]
struct Rest {
    since: Option<Instant>,
    before: Duration,
    /// How often it was told to.
    count: u64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Control {
    pub(super) fn new(channel: Channel) -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(Arc::new(Shared {
            channel,
            state: Mutex::new(State::Creating),
            cancelled: AtomicBool::new(false),
            wake: eventfd(0, flags)?,
            terminal: Mutex::new(None),
            rest: Mutex::new(Rest::default()),
            besides: Besides::default(),
            overlays: Overlays::default(),
            init: AtomicU32::new(0),
            kills: AtomicU32::new(0),
        })))
    }

    /// Ends the running command with everything it started. Without one, the next ends at once.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Takes back what [`Control::cancel`] did, where nothing ended by it: for whoever knows that the
    /// command it was meant for is over.
    pub fn pardon(&self) {
        self.0.cancelled.store(false, Ordering::SeqCst);
    }

    /// Sends a signal to every process of the running command.
    pub fn signal(&self, number: u8) {
        // Init may be gone; then there is nobody left to be told.
        let _sent = self.0.channel.send(Order::Signal(number.into()), &[]);
    }

    /// Has init kill every process of the running command. Gives the number by which it says that it
    /// did: what it says of an earlier order may still be on its way.
    pub(super) fn kill(&self) -> u32 {
        let number = self.0.kills.fetch_add(1, Ordering::Relaxed);
        // Init may be gone; then there is nobody left to be killed.
        let _sent = self.0.channel.send(Order::Kill(number), &[]);
        number
    }

    /// Lets everything in it stand still. Its time stands still as well.
    pub fn pause(&self) -> Result<(), Refused> {
        self.event(Event::Pause)?;
        self.signal(STOP);
        let mut rest = locked(&self.0.rest);
        rest.since = Some(Instant::now());
        rest.count += 1;
        drop(rest);
        // Whoever supervises sees to it that it does.
        self.wake();
        Ok(())
    }

    /// Lets it go on.
    pub fn resume(&self) -> Result<(), Refused> {
        self.event(Event::Resume)?;
        let mut rest = locked(&self.0.rest);
        if let Some(since) = rest.since.take() {
            rest.before += since.elapsed();
        }
        drop(rest);
        self.signal(CONTINUE);
        self.wake();
        Ok(())
    }

    /// Tells the command that its terminal has another size.
    pub fn resize(&self, size: TerminalSize) {
        if let Some(terminal) = &*locked(&self.0.terminal) {
            // A terminal that is gone has no size.
            let _set = tcsetwinsize(terminal, winsize(size));
        }
    }

    /// What the running command holds on disk without a name; of what it only mapped, what lay in
    /// `places`. None while nothing runs.
    pub fn nameless(&self, places: &[PathBuf]) -> Option<Nameless> {
        let init = self.0.init.load(Ordering::SeqCst);
        let tree = Tree::of(init).ok().filter(|_| init != 0)?;
        tree.nameless(places).ok()
    }

    /// Has it forget what was looked up in the trees it is granted, ahead of its next command, which
    /// sees them as they are by then. That needs it done, and finds it done: see
    /// [`Sandbox::shows_now`](super::Sandbox::shows_now).
    pub fn forget(&self) {
        // What cannot be forgotten is noticed then.
        let _forgotten = self.0.overlays.forget();
    }

    /// Where the sandbox stands.
    pub fn state(&self) -> State {
        *locked(&self.0.state)
    }

    pub(super) fn set_init(&self, init: i32) {
        let init = u32::try_from(init).unwrap_or(0);
        self.0.init.store(init, Ordering::SeqCst);
    }

    pub(super) fn event(&self, event: Event) -> Result<State, Refused> {
        let mut state = locked(&self.0.state);
        *state = state.after(event)?;
        Ok(*state)
    }

    /// What runs beside the command.
    pub(super) fn besides(&self) -> &Besides {
        &self.0.besides
    }

    /// What it sees trees through.
    pub(super) fn overlays(&self) -> &Overlays {
        &self.0.overlays
    }

    pub(super) fn channel(&self) -> &Channel {
        &self.0.channel
    }

    pub(super) fn wake(&self) {
        // A counter that is full has woken enough.
        let _woken = rustix::io::write(&self.0.wake, &1_u64.to_ne_bytes());
    }

    pub(super) fn wake_descriptor(&self) -> BorrowedFd<'_> {
        self.0.wake.as_fd()
    }

    pub(super) fn take_wake(&self) {
        let _read = rustix::io::read(&self.0.wake, &mut [0_u8; 8]);
    }

    /// Whether it was cancelled, once.
    pub(super) fn take_cancelled(&self) -> bool {
        self.0.cancelled.swap(false, Ordering::SeqCst)
    }

    pub(super) fn set_terminal(&self, terminal: Option<OwnedFd>) {
        *locked(&self.0.terminal) = terminal;
    }

    /// How often it was told to stand still.
    pub(super) fn pauses(&self) -> u64 {
        locked(&self.0.rest).count
    }

    /// How long it has stood still so far.
    pub(super) fn rested(&self) -> Duration {
        let rest = locked(&self.0.rest);
        rest.before + rest.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

const STOP: u8 = 19;
const CONTINUE: u8 = 18;

pub(super) fn winsize(size: TerminalSize) -> Winsize {
    Winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

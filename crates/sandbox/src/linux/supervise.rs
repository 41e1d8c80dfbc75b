//! Runs one command in a sandbox and watches it to its end.

use super::broker::Broker;
use super::bwrap::{self, Screen};
use super::control::{Control, timespec, winsize};
use super::hold::Lookout;
use super::identity::Identity;
use super::outlet::{Outlet, Stream};
use super::pump::{self, Flow};
use super::request;
use super::sandbox::Sandbox;
use super::socket::{Reception, Visits};
use super::wire::{Notice, Order, Stage};
use crate::launch::{Command, Ended, NotStarted, RunError, Stdin, Streams, TerminalSize};
use crate::lifecycle::{Event, Outcome, Refused, State};
use airlock_core::ByteSize;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Gid, Mode, OFlags, ResolveFlags, Uid, fchown, fcntl_setfl, openat2};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// Long enough to be no limit, short enough to be added to a time.
const ENDLESS: Duration = Duration::from_hours(100 * 365 * 24);
/// More than can be written. What lasts is held up by whoever reads it, and never adds up to an end.
const UNMETERED: ByteSize = ByteSize::from_bytes(u64::MAX);
/// How long a command that was killed may take to be gone.
const GRACE: Duration = Duration::from_secs(10);
/// How long init may take to say that it killed everything, before it is killed itself. Among hundreds
/// of processes that want the processors it does not get them at once.
const OBEYED_WITHIN: Duration = Duration::from_secs(2);

impl Sandbox {
    /// Runs `command` to its end. Whatever it started ends with it. Nobody inside is let in who
    /// wants to ask the kernel.
    pub fn run(&mut self, command: &Command, streams: Streams<'_>) -> Result<Ended, RunError> {
        self.run_visited(command, streams, &mut drop::<UnixStream>)
    }

    /// The same, with whoever wants to ask the kernel while it runs given to `visits`, on this
    /// thread, which must not be kept. What they hold of the sandbox's is gone with the command.
    pub fn run_visited(
        &mut self,
        command: &Command,
        streams: Streams<'_>,
        visits: Visits<'_>,
    ) -> Result<Ended, RunError> {
        let state = self.state();
        if !matches!(state, State::Running | State::Paused) {
            let event = Event::Enforced;
            return Err(RunError::State(Refused { state, event }));
        }
        let request = request::write(command, self.plan().directory())?;
        let wires = Wires::new(&streams, self.root())?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(io("cannot watch the command"))?;
        let (out, err) = (Flow::default(), Flow::default());
        let limits = *self.plan().limits();
        let control = self.steering();
        self.show_terminal(&wires);
        let Streams {
            stdin,
            stdout,
            stderr,
            terminal,
        } = streams;
        let allowed = Duration::from_millis(limits.duration.as_millis());
        let allowed = (!command.lasting).then_some(allowed);
        let most = |most| if command.lasting { UNMETERED } else { most };
        let begun = Instant::now();
        let mut lookout = self.look_after(self.root().and_then(scratch).into_iter().collect());
        let socket = self.socket();
        let mut reception = socket.map(|socket| Reception::new(socket, visits));
        let open = self.root().is_some();
        let (mut stdout, mut stderr) = (Screen::new(stdout, open), Screen::new(stderr, open));
        let (to_stdout, to_stderr) = (&mut stdout, &mut stderr);
        let result = thread::scope(|scope| {
            let stream = |from, to, most: ByteSize, flow| Stream {
                from,
                to,
                most: most.as_bytes(),
                flow,
                control,
                ended: stop.as_fd(),
            };
            let output = wires.output;
            let output = output.map(|from| stream(from, to_stdout, most(limits.stdout), &out));
            let errors = wires.errors;
            let errors = errors.map(|from| stream(from, to_stderr, most(limits.stderr), &err));
            let mut outlets = [
                Outlet::new(scope, &out, output),
                Outlet::new(scope, &err, errors),
            ];
            if let (Stdin::From(from), Some(to)) = (stdin, wires.input) {
                let stop = stop.as_fd();
                scope.spawn(move || {
                    pump::feed(from.as_fd(), to.as_fd(), stop);
                    end_of_input(&to, terminal.is_some());
                });
            }
            let [input, output, errors] = wires.inside;
            let handed = [
                request.as_fd(),
                input.as_fd(),
                output.as_fd(),
                errors.as_fd(),
            ];
            let order = Order::Run {
                terminal: terminal.is_some(),
            };
            let sent = control.channel().send(order, &handed);
            drop((input, output, errors, request));
            // A bubblewrap has the sandbox of each command to itself.
            if open {
                control.besides().open();
            }
            let mut watch = Watch::new(control);
            let watched = sent.map_err(|_| RunError::Gone).and_then(|()| {
                let reception = reception.as_mut();
                self.watch(&mut watch, allowed, &mut outlets, &mut lookout, reception)
            });
            let watched = watched.or_else(|error| self.lost(error, &watch, &mut lookout));
            control.besides().close();
            let _told = rustix::io::write(&stop, &1_u64.to_ne_bytes());
            // Output from a terminal ends when nobody holds it open any more.
            if let Some(broker) = self.broker() {
                broker.set_terminal(None);
            }
            // Nothing of the command is left that could come again. Whoever still waits may hold what
            // it sent along, its own output as well.
            if let Some(socket) = socket {
                socket.clear();
            }
            outlets.into_iter().for_each(Outlet::finish);
            watched
        });
        self.rest();
        let refusals = self.broker().map(Broker::take_refusals);
        let (outcome, not_started) = settle(result, [stdout, stderr])?;
        let over = [&out, &err].map(|flow| flow.over.load(Ordering::SeqCst));
        let outcome = cut_short(outcome, over.contains(&true));
        Ok(Ended {
            outcome,
            not_started,
            wall: begun.elapsed(),
            stdout: out.bytes.load(Ordering::Relaxed),
            stderr: err.bytes.load(Ordering::Relaxed),
            peak_memory: lookout.peak_memory(self.hold()),
            refusals: refusals.unwrap_or_default(),
        })
    }

    /// A command that could not be watched to its end has none of its own, unless it was being ended.
    fn lost(
        &self,
        error: RunError,
        watch: &Watch<'_>,
        lookout: &mut Lookout,
    ) -> Result<End, RunError> {
        self.kill();
        // Its socket is closed before the rest is gone, and whoever hears of an end relies on that.
        self.wait_until_gone(watch.grace_left());
        let _broke = self.steering().event(Event::Broke);
        if let (RunError::Gone, Some(verdict)) = (&error, watch.verdict) {
            return Ok((verdict, watch.not_started));
        }
        // Where memory ran out, init may have been ended for it, and all with it.
        let why = lookout.explain(self.hold(), Outcome::Signalled(KILL), 0);
        if why == Outcome::OutOfMemory {
            return Ok((why, None));
        }
        Err(error)
    }

    /// Lets go of what was the command's.
    fn rest(&self) {
        let control = self.steering();
        control.set_terminal(None);
        if self.broker().is_none_or(Broker::comes_to_rest) {
            control.overlays().used();
        } else {
            control.overlays().let_go();
        }
    }

    /// What watches over a command that is about to begin.
    fn look_after(&self, scratch: Vec<OwnedFd>) -> Lookout {
        if self.broker().is_some_and(|broker| !broker.is_apart()) {
            self.steering().overlays().opened_here();
        }
        self.steering().set_init(self.init_pid());
        self.hold()
            .look_after(self.plan(), self.init_pid(), scratch)
    }

    /// Holds a command that is about to begin to its limits, and lets it.
    fn let_begin(&self, scratch: Vec<OwnedFd>) -> Result<Lookout, RunError> {
        let limited = self.hold().take_in(self.init_pid());
        limited.map_err(|error| RunError::Io {
            what: "cannot limit the command",
            source: std::io::Error::other(error),
        })?;
        let lookout = self.look_after(scratch);
        let sent = self.steering().channel().send(Order::Go, &[]);
        sent.map_err(|_| RunError::Gone)?;
        Ok(lookout)
    }

    /// Lets the terminal be resized, and be opened under the name every terminal has.
    fn show_terminal(&self, wires: &Wires) {
        let copy = |terminal: &OwnedFd| terminal.try_clone().ok();
        let [input, ..] = &wires.inside;
        let ends = wires
            .terminal
            .as_ref()
            .map(|master| (copy(master), copy(input)));
        let (master, slave) = ends.unwrap_or_default();
        self.steering().set_terminal(master);
        if let Some(broker) = self.broker() {
            broker.set_terminal(slave);
        }
    }

    /// Waits for the end of the command, and brings it about where a limit says so.
    fn watch(
        &self,
        watch: &mut Watch<'_>,
        allowed: Option<Duration>,
        outlets: &mut [Outlet<'_, '_>; 2],
        lookout: &mut Lookout,
        mut reception: Option<&mut Reception<'_>>,
    ) -> Result<(Outcome, Option<NotStarted>), RunError> {
        let control = self.steering();
        let rested = control.rested();
        let begun = Instant::now();
        loop {
            let now = Instant::now();
            let stood = control.rested().saturating_sub(rested);
            let deadline = begun + allowed.unwrap_or(ENDLESS) + stood;
            if let Some(kill) = watch.kill.as_mut().filter(|kill| now >= kill.until()) {
                if kill.obeyed {
                    return Err(RunError::Gone);
                }
                // Whatever keeps init from it: what it was to kill ends with it.
                kill.obeyed = true;
                self.kill();
            }
            if now >= deadline {
                watch.end(Outcome::TimedOut);
            }
            let broken = match control.state() {
                State::Running => lookout.look(now),
                State::Paused => lookout.look_paused(now, control.pauses()),
                State::Creating
                | State::Stopping
                | State::Failed
                | State::Cleanup
                | State::Destroyed => None,
            };
            if let Some(broken) = broken {
                watch.end(broken);
            }
            let until = watch.kill.as_ref().map_or(deadline, Kill::until);
            let until = lookout.next().map_or(until, |next| until.min(next));
            if let Some(reception) = reception.as_deref_mut() {
                reception.look(now);
            }
            let opens = reception.as_deref().and_then(Reception::next);
            let until = opens.map_or(until, |next| until.min(next));
            let patience = until.saturating_duration_since(now);
            let (ended, woken) = wait(control, outlets, reception.as_deref_mut(), patience)?;
            if woken {
                control.take_wake();
                if control.take_cancelled() {
                    watch.end(Outcome::Cancelled);
                } else if outlets.iter().any(Outlet::is_over) {
                    watch.end(Outcome::TooMuchOutput);
                }
            }
            if ended && let Some((status, left)) = watch.hear()? {
                let outcome = watch.verdict;
                let own = || lookout.explain(self.hold(), meaning(status), left);
                return Ok((outcome.unwrap_or_else(own), watch.not_started));
            }
            // One that was ended before it began is not begun.
            if let Some(scratch) = watch.beginning.take()
                && watch.verdict.is_none()
            {
                *lookout = self.let_begin(scratch)?;
            }
        }
    }
}

struct Watch<'a> {
    control: &'a Control,
    /// Why it is being ended, if it is.
    verdict: Option<Outcome>,
    kill: Option<Kill>,
    not_started: Option<NotStarted>,
    /// Where a command that waits to begin can fill memory.
    beginning: Option<Vec<OwnedFd>>,
}

/// An order to kill everything.
struct Kill {
    number: u32,
    since: Instant,
    /// Whether init did, or was killed itself.
    obeyed: bool,
}

impl Kill {
    /// How long to wait for what it leads to next.
    fn until(&self) -> Instant {
        self.since + if self.obeyed { GRACE } else { OBEYED_WITHIN }
    }
}

impl<'a> Watch<'a> {
    const fn new(control: &'a Control) -> Self {
        Self {
            control,
            verdict: None,
            kill: None,
            not_started: None,
            beginning: None,
        }
    }

    /// Ends the command. The first reason counts.
    fn end(&mut self, why: Outcome) {
        if self.verdict.is_none() {
            self.verdict = Some(why);
            self.kill = Some(Kill {
                number: self.control.kill(),
                since: Instant::now(),
                obeyed: false,
            });
        }
    }

    /// What is left of the time that whatever was killed may take to be gone.
    fn grace_left(&self) -> Duration {
        let kill = self.kill.as_ref();
        kill.map_or(GRACE, |kill| GRACE.saturating_sub(kill.since.elapsed()))
    }

    /// Takes one notice. Gives the status of the command if it ended, and how many it left behind.
    fn hear(&mut self) -> Result<Option<(i32, u32)>, RunError> {
        let notice = self.control.channel().receive();
        match notice.map_err(|source| RunError::Io {
            what: "lost the sandbox",
            source,
        })? {
            Some((Notice::Ended { status, left }, _)) => Ok(Some((status, left))),
            Some((Notice::NotStarted { stage, errno }, _)) => {
                self.not_started = Some(reason(stage, errno));
                Ok(None)
            }
            Some((Notice::Ready, scratch)) => {
                self.beginning = Some(scratch);
                Ok(None)
            }
            Some((Notice::BesideEnded { number, status }, _)) => {
                self.control.besides().ended(number, status);
                Ok(None)
            }
            Some((Notice::Killed { number }, _)) => {
                if let Some(kill) = self.kill.as_mut().filter(|kill| kill.number == number) {
                    kill.obeyed = true;
                }
                Ok(None)
            }
            Some((
                Notice::Failed { .. }
                | Notice::Unmapped
                | Notice::Picked { .. }
                | Notice::Born { .. }
                | Notice::Unborn { .. },
                _,
            ))
            | None => Err(RunError::Gone),
        }
    }
}

/// How a command ended, and why it was not even started.
type End = (Outcome, Option<NotStarted>);

const KILL: u8 = 9;

/// A command that ended by itself before its output could end it: what is cut is over its limit.
const fn cut_short(outcome: Outcome, over: bool) -> Outcome {
    if over && matches!(outcome, Outcome::Exited(_) | Outcome::Signalled(_)) {
        return Outcome::TooMuchOutput;
    }
    outcome
}

/// All writable places of a native sandbox are one.
fn scratch(root: &OwnedFd) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    openat2(root, c"tmp", flags, Mode::empty(), ResolveFlags::IN_ROOT).ok()
}

/// How a command ended, by bubblewrap's words where only they say why it was not started.
fn settle(ended: Result<End, RunError>, streams: [Screen<'_>; 2]) -> Result<End, RunError> {
    let unexplained = matches!(ended, Ok((Outcome::Exited(_), Some(NotStarted::Other(0)))));
    // Whoever reads the output may be gone, as while it was passed on.
    let said = streams.map(|held| held.finish(unexplained).unwrap_or_default());
    if !unexplained {
        return ended;
    }
    let said = said.concat();
    let why = bwrap::reason(&said).ok_or_else(|| RunError::Io {
        what: "bubblewrap failed",
        source: std::io::Error::other(String::from_utf8_lossy(said.trim_ascii()).into_owned()),
    })?;
    Ok((Outcome::Exited(bwrap::exit_code(why)), Some(why)))
}

/// Waits for news of init, a wake-up call or the first output, no longer than `patience`.
fn wait(
    control: &Control,
    outlets: &mut [Outlet<'_, '_>; 2],
    reception: Option<&mut Reception<'_>>,
    patience: Duration,
) -> Result<(bool, bool), RunError> {
    let (channel, wake) = (control.channel().as_fd(), control.wake_descriptor());
    let [output, errors] = outlets.each_ref().map(Outlet::as_fd);
    // What nobody waits for any more is asked of the channel a second time.
    let door = reception.as_deref().and_then(Reception::as_fd);
    let (all, is_open) = (
        [
            channel,
            wake,
            output.unwrap_or(channel),
            errors.unwrap_or(channel),
            door.unwrap_or(channel),
        ],
        door.is_some(),
    );
    let mut waiting = all
        .each_ref()
        .map(|descriptor| PollFd::new(descriptor, PollFlags::IN));
    match poll(&mut waiting, Some(&timespec(patience))) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(errno) => return Err(io("cannot watch the command")(errno)),
    }
    let [channel, wake, output, errors, door] = waiting.map(|one| one.revents());
    let news = !channel.is_empty();
    if let Some(reception) = reception
        && is_open
        && !news
        && !door.is_empty()
    {
        reception.admit();
    }
    for (outlet, ready) in outlets.iter_mut().zip([output, errors]) {
        if news || ready.is_empty() {
            continue;
        }
        if ready.contains(PollFlags::IN) {
            outlet.carry().map_err(|source| RunError::Io {
                what: "cannot pass on output",
                source,
            })?;
        } else {
            outlet.close();
        }
    }
    Ok((news, !wake.is_empty()))
}

fn io(what: &'static str) -> impl Fn(Errno) -> RunError {
    move |errno| RunError::Io {
        what,
        source: errno.into(),
    }
}

const fn reason(stage: Stage, errno: i32) -> NotStarted {
    match (stage, errno) {
        (Stage::Directory, _) => NotStarted::NoDirectory,
        (Stage::Program, libc::ENOENT | libc::ENOTDIR) => NotStarted::NotFound,
        (Stage::Program, libc::EACCES | libc::ENOEXEC | libc::EISDIR | libc::EPERM) => {
            NotStarted::NotExecutable
        }
        (Stage::Program, libc::E2BIG) => NotStarted::TooLong,
        (Stage::Program | Stage::Process, errno) => NotStarted::Other(errno),
    }
}

/// What a status of `wait` says.
pub(super) fn meaning(status: i32) -> Outcome {
    let low = status & 0x7f;
    if low == 0 {
        return Outcome::Exited(u8::try_from((status >> 8) & 0xff).unwrap_or(u8::MAX));
    }
    if low == libc::SIGXFSZ {
        return Outcome::FileTooLarge;
    }
    Outcome::Signalled(u8::try_from(low).unwrap_or(u8::MAX))
}

/// Closing a pipe ends its input; a terminal needs to be told.
fn end_of_input(to: &OwnedFd, terminal: bool) {
    const END_OF_TRANSMISSION: u8 = 4;
    if terminal {
        let _written = rustix::io::write(to, &[END_OF_TRANSMISSION]);
    }
}

/// Pipes, or a terminal, between the supervisor and a command.
struct Wires {
    /// Ours: where input is written.
    input: Option<OwnedFd>,
    /// Ours: where output is read.
    output: Option<OwnedFd>,
    errors: Option<OwnedFd>,
    terminal: Option<OwnedFd>,
    /// The command's streams.
    inside: [OwnedFd; 3],
}

impl Wires {
    fn new(streams: &Streams<'_>, root: Option<&OwnedFd>) -> Result<Self, RunError> {
        match streams.terminal {
            Some(size) => Self::terminal(size, root),
            None => Self::pipes(&streams.stdin),
        }
    }

    /// Makes the command's end of a pipe or a terminal its own, so that it can be opened again by
    /// the names it has in `/dev` and `/proc`.
    fn give(end: &OwnedFd) -> Result<(), RunError> {
        let Some((user, group)) = Identity::own().other() else {
            return Ok(());
        };
        let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
        fchown(end, Some(user), Some(group)).map_err(io("cannot hand over a pipe"))
    }

    fn pipes(stdin: &Stdin) -> Result<Self, RunError> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(io("cannot make a pipe"));
        let ((output, their_output), (errors, their_errors)) = (pipe()?, pipe()?);
        Self::give(&their_output)?;
        Self::give(&their_errors)?;
        let (their_input, input) = match stdin {
            Stdin::Empty => (null()?, None),
            Stdin::From(_) => {
                let (theirs, ours) = pipe()?;
                Self::give(&theirs)?;
                // Whoever feeds it must be able to stop while it is full.
                fcntl_setfl(&ours, OFlags::NONBLOCK).map_err(io("cannot make a pipe"))?;
                (theirs, Some(ours))
            }
        };
        Ok(Self {
            input,
            output: Some(output),
            errors: Some(errors),
            terminal: None,
            inside: [their_input, their_output, their_errors],
        })
    }

    /// A terminal of the sandbox's own, which can be found in its `/dev/pts`; without a `root` that
    /// lasts, one of the host's that nobody else has.
    fn terminal(size: TerminalSize, root: Option<&OwnedFd>) -> Result<Self, RunError> {
        let made = io("cannot make a terminal");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let master = match root {
            Some(root) => openat2(root, c"dev/pts/ptmx", flags, Mode::empty(), resolve),
            None => rustix::fs::open(c"/dev/ptmx", flags, Mode::empty()),
        };
        let master = master.map_err(&made)?;
        rustix::pty::unlockpt(&master).map_err(&made)?;
        rustix::termios::tcsetwinsize(&master, winsize(size)).map_err(&made)?;
        let open = rustix::pty::OpenptFlags::RDWR
            | rustix::pty::OpenptFlags::NOCTTY
            | rustix::pty::OpenptFlags::CLOEXEC;
        let slave = rustix::pty::ioctl_tiocgptpeer(&master, open).map_err(&made)?;
        Self::give(&slave)?;
        let copy = |descriptor: BorrowedFd<'_>| {
            rustix::io::fcntl_dupfd_cloexec(descriptor, 3).map_err(&made)
        };
        Ok(Self {
            input: Some(copy(master.as_fd())?),
            output: Some(copy(master.as_fd())?),
            errors: None,
            inside: [copy(slave.as_fd())?, copy(slave.as_fd())?, slave],
            terminal: Some(master),
        })
    }
}

fn null() -> Result<OwnedFd, RunError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open(c"/dev/null", flags, Mode::empty()).map_err(io("cannot open /dev/null"))
}

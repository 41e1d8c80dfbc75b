//! Init of a sandbox: runs what the supervisor orders, reaps, and ends with it.
//!
//! Guarantee: when it ends, the kernel ends every process of the sandbox. It ends when the
//! supervisor does, because then the socket between them closes.
//! Nothing that runs inside can hold it up: it waits for another process only while there is no
//! other, or once all are killed. What a command inherits from it is what it was given, whatever
//! an earlier one did to it.
//! Invariant: nothing here allocates, locks, panics or returns. It holds no capability, is not
//! dumpable, and lives under the same filter and Landlock rules as what it runs.

use super::super::socket::WAITING;
use super::super::wire::{DESCRIPTORS, Notice, Order, Stage};
use super::calls;
use super::child::{Descriptors, next_order, tell, tell_with};
use super::inherited::Inherited;
use super::memory::{Mapped, Pointers, Stack, spawn_copied};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::net::listen;
use rustix::process::{Pid, WaitOptions, WaitStatus, chdir, setsid, wait};
use std::ffi::{CStr, c_char};

/// What is the supervisor's of what raising the walls left.
pub(super) struct Left {
    pub(super) listener: Option<OwnedFd>,
    pub(super) socket: Option<OwnedFd>,
    pub(super) segments: Option<OwnedFd>,
}

/// Says that all walls stand, hands over what is the supervisor's, then serves.
pub(super) fn serve(control: BorrowedFd<'_>, left: Left) -> i32 {
    let opened = openat(CWD, c"/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let (Ok(root), Ok(children), Ok(stack)) = (opened, calls::child_signals(), Stack::new()) else {
        return 1;
    };
    let Ok(inherited) = Inherited::now() else {
        return 1;
    };
    // By the sandbox's own user, whom clients find at the other end.
    if let Some(socket) = &left.socket
        && listen(socket, WAITING).is_err()
    {
        return 1;
    }
    let mut all = [root.as_fd(); DESCRIPTORS];
    let given = [&left.listener, &left.socket, &left.segments];
    let mut count = 1;
    for (slot, one) in all.iter_mut().skip(1).zip(given.into_iter().flatten()) {
        *slot = one.as_fd();
        count += 1;
    }
    tell_with(control, Notice::Ready, all.get(..count).unwrap_or_default());
    let Left {
        listener,
        socket,
        segments,
    } = left;
    drop((root, socket, segments));
    // Held for as long as anything runs: without anybody to ask, what is asked about would be told
    // that there is no such call.
    let _listener = listener;
    let mut init = Init {
        control,
        children,
        stack,
        inherited,
        main: None,
        beside: None,
    };
    while init.step().is_some() {}
    0
}

struct Init<'fd> {
    control: BorrowedFd<'fd>,
    children: OwnedFd,
    /// Of a command that is about to become a program.
    stack: Stack,
    inherited: Inherited,
    /// The command that runs.
    main: Option<Pid>,
    /// A program of our own beside it, and its number.
    beside: Option<(Pid, u32)>,
}

impl Init<'_> {
    /// Waits for one thing to happen and sees to it. None when the supervisor is gone.
    fn step(&mut self) -> Option<()> {
        let mut waiting = [
            PollFd::new(&self.control, PollFlags::IN),
            PollFd::new(&self.children, PollFlags::IN),
        ];
        match poll(&mut waiting, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
        let [orders, ends] = waiting.map(|one| one.revents());
        if !ends.is_empty() {
            let mut signal = [0_u8; 128];
            let _read = rustix::io::read(&self.children, &mut signal);
            self.reap();
        }
        if !orders.is_empty() {
            // Before anything comes with the order, too: it would be lost for want of descriptors.
            let as_given = self.inherited.set_anew();
            let mut descriptors = Descriptors::default();
            match next_order(self.control, &mut descriptors)? {
                Order::Run { terminal } => self.run(descriptors, terminal, as_given),
                Order::Signal(number) => {
                    let _sent = calls::signal_everyone(number.cast_signed());
                }
                Order::Kill(number) => {
                    let _sent = calls::signal_everyone(libc::SIGKILL);
                    tell(self.control, Notice::Killed { number });
                }
                Order::Beside(number) => self.run_beside(descriptors, number, as_given),
                Order::Go | Order::Steps | Order::Maps | Order::Bear { .. } => {}
            }
        }
        Some(())
    }

    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if self.main == Some(pid) {
                self.ended(status);
            } else if let Some((_, number)) = self.beside.filter(|(beside, _)| *beside == pid) {
                self.beside = None;
                let status = status.as_raw();
                tell(self.control, Notice::BesideEnded { number, status });
            }
        }
    }

    /// Ends what the command left behind before saying that it ended.
    fn ended(&mut self, status: WaitStatus) {
        self.main = None;
        let _killed = calls::signal_everyone(libc::SIGKILL);
        let mut left = 0;
        while wait(WaitOptions::empty()).is_ok() {
            left += 1;
        }
        // Gone with the rest; whoever waits for it hears of the command's end.
        self.beside = None;
        let status = status.as_raw();
        tell(self.control, Notice::Ended { status, left });
    }

    fn run(&mut self, descriptors: Descriptors, terminal: bool, as_given: Result<(), Errno>) {
        let not_started = |errno: Errno| {
            let errno = errno.raw_os_error();
            let stage = Stage::Process;
            tell(self.control, Notice::NotStarted { stage, errno });
            let (status, left) = (125 << 8, 0);
            tell(self.control, Notice::Ended { status, left });
        };
        let [Some(request), Some(input), Some(output), Some(errors)] = descriptors else {
            return not_started(Errno::BADF);
        };
        if self.main.is_some() {
            return not_started(Errno::BUSY);
        }
        if let Err(errno) = as_given {
            return not_started(errno);
        }
        let control = self.control;
        let failed = |stage: Stage, errno: i32| {
            tell(control, Notice::NotStarted { stage, errno });
        };
        let streams = [input.as_fd(), output.as_fd(), errors.as_fd()];
        let order = Started { streams, terminal };
        // It is alone: whatever an earlier one left was killed, and waited for.
        let memory = Memory::Borrowed(&mut self.stack);
        match order.begin(memory, request.as_fd(), failed) {
            Err(errno) => not_started(errno),
            Ok(pid) => self.main = Pid::from_raw(pid),
        }
    }
}

impl Init<'_> {
    /// Runs a program of our own beside the command, if there is one and nothing else is beside it.
    fn run_beside(&mut self, descriptors: Descriptors, number: u32, as_given: Result<(), Errno>) {
        let not_started = || {
            let status = 125 << 8;
            tell(self.control, Notice::BesideEnded { number, status });
        };
        let [Some(request), Some(input), Some(output), Some(errors)] = descriptors else {
            return not_started();
        };
        if self.main.is_none() || self.beside.is_some() || as_given.is_err() {
            return not_started();
        }
        let streams = [input.as_fd(), output.as_fd(), errors.as_fd()];
        let order = Started {
            streams,
            terminal: false,
        };
        // The command could stop it before it is a program, and with it whoever waits for that.
        match order.begin(Memory::Copied, request.as_fd(), |_, _| {}) {
            Err(_) => not_started(),
            Ok(pid) => self.beside = Pid::from_raw(pid).map(|pid| (pid, number)),
        }
    }
}

/// The code a shell would give for a program that did not start.
const fn exit_code(stage: Stage, errno: i32) -> i32 {
    match stage {
        Stage::Process | Stage::Directory => 125,
        Stage::Program if errno == libc::ENOENT || errno == libc::ENOTDIR => 127,
        Stage::Program => 126,
    }
}

/// Whose memory a process has until it becomes a program.
enum Memory<'s> {
    /// Init's own, which waits meanwhile.
    Borrowed(&'s mut Stack),
    /// A copy of it. Init goes on.
    Copied,
}

/// How a command is started.
struct Started<'fd> {
    streams: [BorrowedFd<'fd>; 3],
    terminal: bool,
}

impl Started<'_> {
    /// Starts what `request` says, in a process of its own. That one tells by `failed` what kept it
    /// from becoming the command.
    fn begin(
        &self,
        memory: Memory<'_>,
        request: BorrowedFd<'_>,
        failed: impl Fn(Stage, i32),
    ) -> Result<i32, Errno> {
        let file = Mapped::file(request)?;
        let request = Request::read(file.bytes()).ok_or(Errno::INVAL)?;
        let arguments = request.arguments.clone().pointers()?;
        let environment = request.environment.clone().pointers()?;
        let body = || {
            let lists = (arguments.list(), environment.list());
            let (stage, errno) = self.become_command(&request, lists);
            let errno = errno.raw_os_error();
            failed(stage, errno);
            exit_code(stage, errno)
        };
        match memory {
            Memory::Borrowed(stack) => stack.spawn(body),
            Memory::Copied => spawn_copied(body),
        }
    }

    /// Becomes the command. Returns only what kept it from that.
    fn become_command(
        &self,
        request: &Request<'_>,
        (arguments, environment): (&[*const c_char], &[*const c_char]),
    ) -> (Stage, Errno) {
        if let Err(errno) = self.enter_session() {
            return (Stage::Process, errno);
        }
        if let Err(errno) = chdir(request.directory) {
            return (Stage::Directory, errno);
        }
        calls::unblock_signals();
        let errno = first_that_starts(request.programs.clone(), arguments, environment);
        (Stage::Program, errno)
    }

    /// A session of its own, and its streams.
    fn enter_session(&self) -> Result<(), Errno> {
        let _session = setsid()?;
        for (stream, number) in self.streams.into_iter().zip(0..) {
            calls::place(stream.as_raw_fd(), number)?;
        }
        if self.terminal {
            let [input, ..] = self.streams;
            calls::control_terminal(input)?;
        }
        Ok(())
    }
}

/// Tries each candidate in turn, as a shell does along `PATH`.
fn first_that_starts(
    programs: Texts<'_>,
    arguments: &[*const c_char],
    environment: &[*const c_char],
) -> Errno {
    let mut verdict = Errno::NOENT;
    for program in programs {
        match calls::execute(program, arguments, environment) {
            // Not here; a later one may be. What was found and may not be run is remembered.
            Errno::NOENT | Errno::NOTDIR => {}
            Errno::ACCESS => verdict = Errno::ACCESS,
            other => return other,
        }
    }
    verdict
}

/// A command as the supervisor wrote it: three counts, then texts that each end with a NUL.
struct Request<'m> {
    directory: &'m CStr,
    programs: Texts<'m>,
    arguments: Texts<'m>,
    environment: Texts<'m>,
}

impl<'m> Request<'m> {
    fn read(bytes: &'m [u8]) -> Option<Self> {
        let (programs, rest) = number(bytes)?;
        let (arguments, rest) = number(rest)?;
        let (environment, rest) = number(rest)?;
        let mut texts = Texts {
            left: 1,
            bytes: rest,
        };
        let directory = texts.next()?;
        let mut take = |count: usize| {
            let mine = Texts {
                left: count,
                bytes: texts.bytes,
            };
            texts.left = count;
            while texts.left > 0 {
                texts.next()?;
            }
            Some(mine)
        };
        Some(Self {
            directory,
            programs: take(programs)?,
            arguments: take(arguments)?,
            environment: take(environment)?,
        })
    }
}

fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((usize::try_from(u32::from_le_bytes(*number)).ok()?, rest))
}

/// Texts one after the other, each ending with a NUL.
#[derive(Clone)]
struct Texts<'m> {
    left: usize,
    bytes: &'m [u8],
}

impl<'m> Iterator for Texts<'m> {
    type Item = &'m CStr;

    fn next(&mut self) -> Option<&'m CStr> {
        self.left = self.left.checked_sub(1)?;
        let text = CStr::from_bytes_until_nul(self.bytes).ok()?;
        self.bytes = self.bytes.get(text.count_bytes() + 1..)?;
        Some(text)
    }
}

impl Texts<'_> {
    fn pointers(self) -> Result<Pointers, Errno> {
        Pointers::of(self.left, self)
    }
}

//! Init of a sandbox: runs what the supervisor orders, reaps, and ends with it.
//!
//! Guarantee: when it ends, the kernel ends every process of the sandbox. It ends when the
//! supervisor does, because then the socket between them closes.
//! Invariant: nothing here allocates, locks, panics or returns. It holds no capability, is not
//! dumpable, and lives under the same filter and Landlock rules as what it runs.

use super::super::socket::WAITING;
use super::super::wire::{DESCRIPTORS, Notice, Order, Stage};
use super::calls::{self, exit_now};
use super::child::{Descriptors, next_order, tell, tell_with};
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
    let (Ok(root), Ok(children)) = (opened, calls::child_signals()) else {
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
        main: None,
        beside: None,
    };
    while init.step().is_some() {}
    0
}

struct Init<'fd> {
    control: BorrowedFd<'fd>,
    children: OwnedFd,
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
            let mut descriptors = Descriptors::default();
            match next_order(self.control, &mut descriptors)? {
                Order::Run { terminal } => self.run(descriptors, terminal),
                Order::Signal(number) => {
                    let _sent = calls::signal_everyone(number.cast_signed());
                }
                Order::Beside(number) => self.run_beside(descriptors, number),
                Order::Go | Order::Steps | Order::Maps => {}
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

    fn run(&mut self, descriptors: Descriptors, terminal: bool) {
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
        match calls::fork() {
            Err(errno) => not_started(errno),
            Ok(0) => {
                let streams = [input.as_fd(), output.as_fd(), errors.as_fd()];
                let (stage, errno) = start(request.as_fd(), streams, terminal);
                let errno = errno.raw_os_error();
                tell(self.control, Notice::NotStarted { stage, errno });
                exit_now(exit_code(stage, errno))
            }
            Ok(pid) => self.main = Pid::from_raw(pid),
        }
    }
}

impl Init<'_> {
    /// Runs a program of our own beside the command, if there is one and nothing else is beside it.
    fn run_beside(&mut self, descriptors: Descriptors, number: u32) {
        let not_started = || {
            let status = 125 << 8;
            tell(self.control, Notice::BesideEnded { number, status });
        };
        let [Some(request), Some(input), Some(output), Some(errors)] = descriptors else {
            return not_started();
        };
        if self.main.is_none() || self.beside.is_some() {
            return not_started();
        }
        match calls::fork() {
            Err(_) => not_started(),
            Ok(0) => {
                let streams = [input.as_fd(), output.as_fd(), errors.as_fd()];
                let (stage, errno) = start(request.as_fd(), streams, false);
                exit_now(exit_code(stage, errno.raw_os_error()))
            }
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

/// Becomes the command. Returns only what kept it from that.
fn start(request: BorrowedFd<'_>, streams: [BorrowedFd<'_>; 3], terminal: bool) -> (Stage, Errno) {
    let mut request = match prepare(request, streams, terminal) {
        Ok(request) => request,
        Err(errno) => return (Stage::Process, errno),
    };
    if let Err(errno) = chdir(request.directory) {
        return (Stage::Directory, errno);
    }
    let lists = (request.arguments.pointers(), request.environment.pointers());
    let (Ok(arguments), Ok(environment)) = lists else {
        return (Stage::Process, Errno::NOMEM);
    };
    calls::unblock_signals();
    let errno = first_that_starts(&mut request.programs, arguments, environment);
    (Stage::Program, errno)
}

/// A session of its own, its streams, and what is to be run.
fn prepare(
    request: BorrowedFd<'_>,
    streams: [BorrowedFd<'_>; 3],
    terminal: bool,
) -> Result<Request, Errno> {
    let _session = setsid()?;
    for (stream, number) in streams.into_iter().zip(0..) {
        calls::place(stream.as_raw_fd(), number)?;
    }
    if terminal {
        let [input, ..] = streams;
        calls::control_terminal(input)?;
    }
    let bytes = rustix::fs::fstat(request)?.st_size;
    let bytes = usize::try_from(bytes).map_err(|_| Errno::INVAL)?;
    Request::read(calls::map_file(request, bytes)?).ok_or(Errno::INVAL)
}

/// Tries each candidate in turn, as a shell does along `PATH`.
fn first_that_starts(
    programs: &mut Texts,
    arguments: &[*const c_char],
    environment: &[*const c_char],
) -> Errno {
    let mut verdict = Errno::NOENT;
    while let Some(program) = programs.next() {
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
struct Request {
    directory: &'static CStr,
    programs: Texts,
    arguments: Texts,
    environment: Texts,
}

impl Request {
    fn read(bytes: &'static [u8]) -> Option<Self> {
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
struct Texts {
    left: usize,
    bytes: &'static [u8],
}

impl Texts {
    fn next(&mut self) -> Option<&'static CStr> {
        self.left = self.left.checked_sub(1)?;
        let text = CStr::from_bytes_until_nul(self.bytes).ok()?;
        self.bytes = self.bytes.get(text.count_bytes() + 1..)?;
        Some(text)
    }

    /// A list of pointers at them that ends with a null pointer.
    fn pointers(&mut self) -> Result<&'static [*const c_char], Errno> {
        let list = calls::pointers(self.left + 1)?;
        for slot in list.iter_mut() {
            if let Some(text) = self.next() {
                *slot = text.as_ptr();
            }
        }
        Ok(list)
    }
}

//! What a probe does from inside a sandbox: the same program, started again in there.
//!
//! A task comes as text in the variable [`TASK`] and answers in lines. Nothing is attempted unless
//! the machine is called what only a sandbox is called, and what succeeds against expectation is
//! undone.

use super::machine::Forbidden;
use super::trial;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// The variable a task is handed over in.
pub const TASK: &str = "AIRLOCK_PROBE_TASK";
/// What every line of an answer begins with: others may write to the same stream.
const MARK: &str = "airlock-probe ";
/// What a machine is called inside, and nowhere else.
const NAME: &str = "airlock";

/// What is laid out outside to be reached from inside.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Bait {
    /// A file nobody granted; bytes, since a path need not be text.
    pub(super) canary: Vec<u8>,
    /// A listening socket nobody granted.
    pub(super) socket: Vec<u8>,
    /// The name of a listening abstract socket.
    pub(super) name: String,
    /// A listening port of the loopback address.
    pub(super) port: u16,
    /// A process that only waits.
    pub(super) process: i32,
}

/// Something to do inside.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Task {
    /// Attempt what is forbidden.
    Attempt(Bait),
    /// Use so many bytes of memory.
    Memory(u64),
    /// Have so many threads.
    Threads(u32),
    /// Be busy for so many milliseconds, and say for how many it ran.
    Burn(u64),
    /// Sleep for so many milliseconds.
    Sleep(u64),
    /// Write so many bytes to the output.
    Output(u64),
    /// Write so many bytes to a file.
    File(u64),
    /// Go on writing to the file `beat`.
    Beat,
    /// Leave a process behind that does so, in a group of its own.
    Linger,
    /// Outside: start a sandbox at this place, with something in it that goes on.
    Supervise {
        /// The place.
        root: Vec<u8>,
        /// Where the sandbox is noted.
        registry: Vec<u8>,
    },
}

/// Does the task in `text` and answers to `out`. The exit code says whether it could.
pub fn act(text: &str, out: &mut dyn Write) -> u8 {
    let Ok(task) = serde_json::from_str::<Task>(text) else {
        return 2;
    };
    let inside = rustix::system::uname().nodename().to_bytes() == NAME.as_bytes();
    if !inside && !matches!(task, Task::Supervise { .. }) {
        return 2;
    }
    match perform(&task, out) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn perform(task: &Task, out: &mut dyn Write) -> io::Result<()> {
    match task {
        Task::Attempt(bait) => {
            for forbidden in Forbidden::ALL {
                if let Some(result) = attempt(*forbidden, bait) {
                    say(out, &(*forbidden, result))?;
                }
            }
            Ok(())
        }
        Task::Memory(bytes) => {
            let bytes = usize::try_from(*bytes).unwrap_or(usize::MAX);
            let used = std::hint::black_box(vec![1_u8; bytes]);
            // Long enough for a supervisor that only looks from time to time.
            std::thread::sleep(Duration::from_secs(2));
            drop(used);
            Ok(())
        }
        Task::Threads(count) => {
            let idle = || std::thread::sleep(Duration::from_secs(1));
            let made: io::Result<Vec<_>> = (0..*count)
                .map(|_| std::thread::Builder::new().spawn(idle))
                .collect();
            made.map(drop)
        }
        Task::Burn(millis) => say(out, &burn(Duration::from_millis(*millis))),
        Task::Sleep(millis) => {
            std::thread::sleep(Duration::from_millis(*millis));
            Ok(())
        }
        Task::Output(bytes) => fill(out, *bytes),
        Task::File(bytes) => fill(&mut fs::File::create("large")?, *bytes),
        Task::Beat => beat(),
        Task::Linger => linger(),
        Task::Supervise { root, registry } => trial::supervise(path(root), path(registry), out),
    }
}

/// Writes a line of an answer.
pub(super) fn say(out: &mut dyn Write, answer: &impl Serialize) -> io::Result<()> {
    writeln!(out, "{MARK}{}", serde_json::to_string(answer)?)?;
    out.flush()
}

/// The answers among the lines of `text`.
pub(super) fn answers<T: for<'de> Deserialize<'de>>(text: &str) -> Vec<T> {
    let lines = text.lines().filter_map(|line| line.split_once(MARK));
    lines
        .filter_map(|(_, answer)| serde_json::from_str(answer).ok())
        .collect()
}

/// How `result` was refused; what it did instead if it was not.
fn refused<T>(result: io::Result<T>, done: &str) -> Result<String, String> {
    match result {
        Ok(_) => Err(done.to_owned()),
        Err(error) => Ok(error.to_string()),
    }
}

fn read(path: &Path) -> Result<String, String> {
    match fs::read(path) {
        Ok(bytes) if bytes.is_empty() => Ok("it is empty there".to_owned()),
        result => refused(result, "it was read"),
    }
}

/// What came of it; none where it is not for one process to attempt.
fn attempt(forbidden: Forbidden, bait: &Bait) -> Option<Result<String, String>> {
    Some(match forbidden {
        Forbidden::ReadCanary => read(path(&bait.canary)),
        Forbidden::ReadShadow => read(Path::new("/etc/shadow")),
        Forbidden::ReadDenied => read(Path::new("denied")),
        Forbidden::ReadPattern => read(Path::new(".env")),
        Forbidden::WriteSystem => {
            let file = "/usr/airlock-probe";
            let made = fs::File::create_new(file);
            if made.is_ok() {
                fs::remove_file(file).ok()?;
            }
            refused(made, "a file was made")
        }
        Forbidden::WriteSettings => {
            let opened = fs::File::options()
                .write(true)
                .open("/proc/sys/kernel/core_pattern");
            refused(opened, "a setting could be written")
        }
        // Succeeds; where it landed is seen from outside.
        Forbidden::WriteTree => match fs::write("file", "changed") {
            Ok(()) => return None,
            Err(error) => Err(format!("nothing can be written at all: {error}")),
        },
        Forbidden::Mount => {
            let flags = rustix::mount::MountFlags::empty();
            let mounted = rustix::mount::mount(c"none", c"/tmp", c"tmpfs", flags, None);
            refused(mounted.map_err(io::Error::from), "something was mounted")
        }
        Forbidden::Unshare => unshare(),
        Forbidden::AbstractSocket => {
            let address = SocketAddr::from_abstract_name(&bait.name);
            let connected = address.and_then(|address| UnixStream::connect_addr(&address));
            refused(connected, "it was connected to")
        }
        Forbidden::PathSocket => refused(
            UnixStream::connect(path(&bait.socket)),
            "it was connected to",
        ),
        Forbidden::Port => {
            let address = ([127, 0, 0, 1], bait.port).into();
            let patience = Duration::from_secs(1);
            let connected = std::net::TcpStream::connect_timeout(&address, patience);
            refused(connected, "it was connected to")
        }
        Forbidden::Kill => {
            let process = Pid::from_raw(bait.process)?;
            let killed = kill_process(process, Signal::KILL).map_err(io::Error::from);
            refused(killed, "a signal was sent")
        }
        Forbidden::Memory => {
            let memory = fs::File::open(format!("/proc/{}/mem", bait.process));
            refused(memory, "it was opened")
        }
        Forbidden::OutliveCommand | Forbidden::OutliveSupervisor => return None,
    })
}

fn unshare() -> Result<String, String> {
    #[expect(
        deprecated,
        reason = "a new user namespace disturbs neither memory nor descriptors"
    )]
    let made = rustix::thread::unshare(rustix::thread::UnshareFlags::NEWUSER);
    match made {
        // What the kernel says to a process of several threads, whoever may make namespaces.
        Err(rustix::io::Errno::INVAL) => Err("it could not be attempted".to_owned()),
        made => refused(made.map_err(io::Error::from), "one was made"),
    }
}

/// Milliseconds of processor time used while being busy for `time`.
fn burn(time: Duration) -> u64 {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let used = used.tv_sec * 1_000 + used.tv_nsec / 1_000_000;
    u64::try_from(used).unwrap_or(0)
}

fn fill(to: &mut dyn Write, bytes: u64) -> io::Result<()> {
    let piece = [b'.'; 4_096];
    let mut left = bytes;
    while left > 0 {
        to.write_all(&piece)?;
        left = left.saturating_sub(4_096);
    }
    to.flush()
}

/// How often a process says that it lives.
pub(super) const BEAT: Duration = Duration::from_millis(10);

fn beat() -> io::Result<()> {
    let mut file = fs::File::options().append(true).create(true).open("beat")?;
    // Not for ever, should everything that is to end it fail.
    for _ in 0..3_000 {
        file.write_all(b".")?;
        std::thread::sleep(BEAT);
    }
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "starts itself, inside a sandbox, to see whether that ends"
)]
fn linger() -> io::Result<()> {
    use std::os::unix::process::CommandExt;
    let task = serde_json::to_string(&Task::Beat)?;
    let mut again = std::process::Command::new(std::env::current_exe()?);
    again
        .args(std::env::args_os().skip(1))
        .env(TASK, task)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .process_group(0);
    let _left_behind = again.spawn()?;
    // Until it has shown that it lives: what never did cannot be seen to end.
    let silent = || fs::metadata("beat").map_or(0, |metadata| metadata.len()) == 0;
    let begun = Instant::now();
    while silent() && begun.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(BEAT);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_attempted_outside_a_sandbox() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("canary");
        fs::write(&file, "secret").unwrap();
        let bait = Bait {
            canary: file.as_os_str().as_bytes().to_vec(),
            socket: Vec::new(),
            name: String::new(),
            port: 1,
            process: i32::MAX,
        };
        let mut out = Vec::new();
        let task = serde_json::to_string(&Task::Attempt(bait)).unwrap();
        assert_eq!(act(&task, &mut out), 2);
        assert_eq!(act("{}", &mut out), 2);
        assert!(out.is_empty());
    }

    #[test]
    fn an_answer_is_found_among_other_lines() {
        let mut out = b"running 1 test\ntest probe ... ".to_vec();
        let said = (Forbidden::Mount, Ok::<_, String>("no".to_owned()));
        say(&mut out, &said).unwrap();
        out.extend(b"airlock-probe nonsense\nok\n");
        let text = String::from_utf8(out).unwrap();
        let found: Vec<(Forbidden, Result<String, String>)> = answers(&text);
        assert_eq!(found, [said]);
    }
}

//! Keeps one kernel running: start, ask, start again, give up.
//!
//! A kernel that ends by itself without an error ends this program, too, as does one whose workspace
//! another serves. One that crashes, does not come up or stops answering is started again, at most
//! [`RESTARTS`] times in [`WINDOW`].

use crate::config::Config;
use crate::engine::{self, Line};
use crate::health;
use crate::problem::{Problem, object, tell};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

const RESTARTS: usize = 3;
const WINDOW: Duration = Duration::from_mins(5);
/// How often a process is looked at.
const TICK: Duration = Duration::from_millis(20);
/// Questions in a row without an answer after which a kernel counts as hung.
const MISSES: u32 = 3;
/// How long a kernel has to end once its input is closed.
const GRACE: Duration = Duration::from_secs(5);
/// How a kernel ends whose workspace another one serves.
const TAKEN: u8 = 75;
/// Longest line that names a socket.
const LINE_BYTES: u64 = 8 * 1024;

/// Runs kernels until one ends by itself, or they crash too often.
pub(crate) fn supervise(config: &Config) -> Result<(), Problem> {
    let mut crashes: Vec<Instant> = Vec::new();
    for number in 1.. {
        let line = engine::line(config, number)?;
        let mut kernel = Kernel::start(&line)?;
        tell(&object(&[("event", "started"), ("pid", &kernel.child.id().to_string())]));
        let why = match kernel.watch(config) {
            Ok(status) if status.success() => break,
            // What it was started with is refused; trying again changes nothing.
            Ok(status) if status.code() == Some(2) => return Err(refused(&line)),
            Ok(status) if status.code() == Some(TAKEN.into()) => return Err(taken(config)),
            Ok(status) => format!("it ended with {status}"),
            Err(why) => {
                kernel.stop(&line);
                why
            }
        };
        crashes.retain(|crash| crash.elapsed() <= WINDOW);
        crashes.push(Instant::now());
        if crashes.len() > RESTARTS {
            return Err(Problem {
                code: "crash_loop",
                exit: 1,
                what: format!("the kernel ended {} times in 5 minutes", crashes.len()),
                why: format!("the last time: {why}"),
                fix: "`airlock kernel --foreground` says more; `airlock doctor` checks the machine",
            });
        }
        tell(&object(&[("event", "restarting"), ("why", &why)]));
        std::thread::sleep(5 * TICK);
    }
    Ok(())
}

fn refused(line: &Line) -> Problem {
    let what = format!("`{}` refused what it was started with", line.program.display());
    Problem { code: "refused", ..Problem::config(what, "what it said stands above") }
}

fn taken(config: &Config) -> Problem {
    Problem {
        code: "taken",
        exit: TAKEN,
        what: format!("another kernel serves `{}`", config.workspace.display()),
        why: "there is one a workspace; what was said of it stands above".to_owned(),
        fix: "use that one, or end it first: `airlock kernel stop`",
    }
}

/// A process that is, or leads to, the kernel. Dropped, its input closes.
struct Kernel {
    child: Child,
    /// The socket it names on its first line.
    named: Receiver<PathBuf>,
}

#[expect(clippy::disallowed_methods, reason = "starts the kernel, and no shell")]
impl Kernel {
    fn start(line: &Line) -> Result<Self, Problem> {
        let mut command = Command::new(&line.program);
        command.args(&line.arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| Problem {
            code: "not_started",
            exit: 1,
            what: format!("cannot start `{}`", line.program.display()),
            why: error.to_string(),
            fix: "name the `airlock` program in the setting `kernel`",
        })?;
        let (name, named) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || listen(stdout, &name));
        }
        Ok(Self { child, named })
    }

    /// Waits until it ends; an error if it lives but does not answer.
    fn watch(&mut self, config: &Config) -> Result<ExitStatus, String> {
        let mut socket = config.socket.clone();
        let (begun, mut next, mut misses, mut ready) = (Instant::now(), Instant::now(), 0, false);
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Ok(status);
            }
            socket = socket.or_else(|| self.named.try_recv().ok());
            if Instant::now() < next {
                std::thread::sleep(TICK);
                continue;
            }
            let answer = socket.as_deref().map(|path| health::ping(path, config.ping_timeout));
            match answer {
                Some(Ok(())) => {
                    if !ready {
                        tell(&object(&[("event", "ready")]));
                    }
                    (ready, misses) = (true, 0);
                }
                Some(Err(error)) if ready && misses + 1 >= MISSES => {
                    return Err(format!("it stopped answering: {error}"));
                }
                _ if ready => misses += 1,
                answer if begun.elapsed() > config.start_timeout => {
                    let why = answer.and_then(Result::err).map(|error| error.to_string());
                    let why = why.unwrap_or_else(|| "it did not name its socket".to_owned());
                    return Err(format!("it did not come up: {why}"));
                }
                _ => {}
            }
            next = Instant::now() + if ready { config.ping_every } else { TICK };
        }
    }

    /// Ends it: by closing its input, and if that is not enough, by force.
    fn stop(&mut self, line: &Line) {
        drop(self.child.stdin.take());
        let begun = Instant::now();
        while begun.elapsed() < GRACE && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(TICK);
        }
        if let (Some(kill), Ok(None)) = (&line.kill, self.child.try_wait()) {
            // What cannot be removed is in nobody's way: the next start takes another name.
            let _ = Command::new(&line.program).args(kill).stdin(Stdio::null()).status();
        }
        // It may have ended meanwhile.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Takes the socket from the first line; the rest is read and dropped, so that no pipe fills.
fn listen(stdout: ChildStdout, name: &mpsc::Sender<PathBuf>) {
    let mut reader = BufReader::new(stdout);
    let mut line = String::new();
    let _ = reader.by_ref().take(LINE_BYTES).read_line(&mut line);
    // `kernel ready: process 7, /run/user/1000/airlock/x/kernel.sock`
    if let Some((_, path)) = line.trim_end_matches('\n').split_once(", /") {
        // Nobody listens any more once the process has ended.
        let _ = name.send(Path::new("/").join(path));
    }
    let _ = std::io::copy(&mut reader, &mut std::io::sink());
}

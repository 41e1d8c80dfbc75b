//! Keeps one kernel running: start, ask, start again, give up.
//!
//! A kernel that ends well, refuses its settings or finds its workspace taken ends this program too.
//! One that crashes or does not answer is started again, at most [`RESTARTS`] times in [`WINDOW`].

use crate::config::Config;
use crate::{Problem, engine, health, tell};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

const RESTARTS: usize = 3;
const WINDOW: Duration = Duration::from_mins(5);
const TICK: Duration = Duration::from_millis(20); // How often a process is looked at.
const MISSES: u32 = 3; // Questions in a row without an answer after which a kernel counts as hung.
const GRACE: Duration = Duration::from_secs(5); // To end, once its input is closed.

/// Runs kernels until one ends by itself, or they crash too often.
pub(crate) fn supervise(config: &Config) -> Result<(), Problem> {
    let mut crashes: Vec<Instant> = Vec::new();
    for number in 1.. {
        let name = format!("airlock-kernel-{}-{number}", std::process::id());
        let mut command = engine::line(config, &name)?;
        let mut child = start(&mut command)?;
        tell(&[("event", "started"), ("pid", &child.id().to_string())]);
        let ended = watch(&mut child, config);
        stop(&mut child, config, &name);
        let why = match ended {
            Ok(status) if status.success() => break,
            // Trying again would change nothing.
            Ok(status) if status.code() == Some(2) => return Err(refused(&command)),
            Ok(status) if status.code() == Some(75) => return Err(taken(config)),
            Ok(status) => format!("it ended with {status}"),
            Err(why) => why,
        };
        crashes.retain(|crash| crash.elapsed() <= WINDOW);
        crashes.push(Instant::now());
        if crashes.len() > RESTARTS {
            let what = format!("the kernel ended {} times in 5 minutes", crashes.len());
            let why = format!("the last time: {why}");
            let fix = "see whether an engine answers; `airlock kernel --foreground` and `airlock doctor` say more";
            return Err(Problem { code: "crash_loop", exit: 1, what, why, fix });
        }
        tell(&[("event", "restarting"), ("why", &why)]);
        sleep(5 * TICK);
    }
    Ok(())
}

fn refused(command: &Command) -> Problem {
    let what = format!("`{}` refused what it was started with", command.get_program().display());
    Problem { code: "refused", ..Problem::config(what, "what it said stands above") }
}

fn taken(config: &Config) -> Problem {
    let what = format!("another kernel serves `{}`", config.workspace.display());
    let why = "there is one a workspace; what was said of it stands above".to_owned();
    let fix = "use that one, or end it first: `airlock kernel stop`";
    Problem { code: "taken", exit: 75, what, why, fix }
}

/// Starts what is, or leads to, the kernel. Dropped, its input closes.
fn start(command: &mut Command) -> Result<Child, Problem> {
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    started.map_err(|error| {
        let what = format!("cannot start `{}`", command.get_program().display());
        let fix = "name the `airlock` program in the setting `kernel`";
        Problem { code: "not_started", exit: 1, what, why: error.to_string(), fix }
    })
}

/// Waits until the kernel ends; an error if it lives but does not answer.
fn watch(child: &mut Child, config: &Config) -> Result<ExitStatus, String> {
    let (name, named) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        thread::spawn(move || listen(stdout, &name));
    }
    let mut socket = config.socket.clone();
    let (begun, mut next, mut misses, mut ready) = (Instant::now(), Instant::now(), 0, false);
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() < next {
            sleep(TICK);
            continue;
        }
        socket = socket.or_else(|| named.try_recv().ok());
        let answer = health::ping(socket.as_deref(), config.ping_timeout);
        misses = if answer.is_ok() { 0 } else { misses + 1 };
        if answer.is_ok() && !ready {
            tell(&[("event", "ready")]);
            ready = true;
        }
        let over = if ready { misses >= MISSES } else { begun.elapsed() > config.start_timeout };
        match answer {
            Err(why) if over && ready => return Err(format!("it stopped answering: {why}")),
            Err(why) if over => return Err(format!("it did not come up: {why}")),
            _ => next = Instant::now() + if ready { config.ping_every } else { TICK },
        }
    }
    child.wait().map_err(|error| error.to_string())
}

/// Takes the socket from the first line; the rest is read and dropped, so that no pipe fills.
fn listen(stdout: ChildStdout, name: &Sender<PathBuf>) {
    let mut reader = BufReader::new(stdout);
    let mut line = String::new();
    let _ = reader.by_ref().take(8 * 1024).read_line(&mut line);
    // `kernel ready: process 7, /run/user/1000/airlock/x/kernel.sock`
    if let Some((_, path)) = line.trim_end_matches('\n').split_once(", /") {
        // Nobody listens any more once the process has ended.
        let _ = name.send(Path::new("/").join(path));
    }
    let _ = std::io::copy(&mut reader, &mut std::io::sink());
}

/// Ends the kernel if it lives: by closing its input, and if that is not enough, by force.
#[expect(clippy::disallowed_methods, reason = "starts the engine, and no shell")]
fn stop(child: &mut Child, config: &Config, name: &str) {
    drop(child.stdin.take());
    let begun = Instant::now();
    while begun.elapsed() < GRACE && matches!(child.try_wait(), Ok(None)) {
        sleep(TICK);
    }
    if let (Some(engine), Ok(None)) = (&config.engine, child.try_wait()) {
        // What cannot be removed is in nobody's way: the next start takes another name.
        let _ = Command::new(engine).args(["kill", name]).stdin(Stdio::null()).status();
    }
    // It may have ended meanwhile.
    let _ = child.kill();
    let _ = child.wait();
}

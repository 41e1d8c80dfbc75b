//! Workers for tests, requests to ask about, and short ways to ask.

use airlock_core::{
    Caller, PluginName, Request, RequestPath, Syscall, TenantId, Tier, UserId, WorkspaceId,
};
use airlock_policy::{Answer, Extension, ExtensionFailure, Opinion};
use airlock_sandbox::seccomp::Profile;
use airlock_script::{Language, Limits, Pipes, Script, ScriptExtension};
use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How the worker confines itself; set only for workers.
const CONFINE: &str = "AIRLOCK_TEST_WORKER";

/// Serves and ends the process, if it was started as a worker. Answers go to the standard error:
/// the test harness writes its own words to the standard output.
#[expect(
    clippy::disallowed_methods,
    clippy::exit,
    reason = "a worker is told by its environment, and must not go on as a test"
)]
pub(crate) fn serve_if_started_for_it() {
    let Ok(how) = std::env::var(CONFINE) else {
        return;
    };
    let confine = || match how.as_str() {
        "strict" => strict(),
        "fails" => Err(io::Error::other("no filter\u{1b}[2J here")),
        other => panic!("{other}"),
    };
    let served = airlock_script::serve(io::stdin().lock(), io::stderr().lock(), confine);
    std::process::exit(i32::from(served.is_err()));
}

fn strict() -> io::Result<()> {
    airlock_sandbox::confine(Profile::Strict)
}

/// Every worker a test started, to count and to kill.
#[derive(Default)]
pub(crate) struct Workers {
    started: AtomicU32,
    killed: AtomicU32,
    running: Mutex<Vec<Arc<Mutex<Child>>>>,
}

impl Workers {
    /// Kills every worker from outside, as the system would for lack of memory.
    pub(crate) fn murder(&self) {
        for child in self.running.lock().unwrap().iter() {
            let mut child = child.lock().unwrap();
            let _ = child.kill();
            child.wait().unwrap();
        }
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        let running = self.running.lock().unwrap();
        running
            .iter()
            .map(|child| child.lock().unwrap().id())
            .collect()
    }

    /// What the system says about the last worker, under `key`.
    pub(crate) fn status(&self, key: &str) -> String {
        let pid = self.pids().pop().expect("a worker");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let mut lines = status.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(name, _)| *name == key).expect(key);
        found.1.trim().to_owned()
    }

    pub(crate) fn started(&self) -> u32 {
        self.started.load(SeqCst)
    }

    pub(crate) fn killed(&self) -> u32 {
        self.killed.load(SeqCst)
    }
}

#[expect(clippy::disallowed_methods, reason = "the worker is this program")]
fn spawn(workers: &Arc<Workers>, confine: &str) -> io::Result<Pipes> {
    workers.started.fetch_add(1, SeqCst);
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--exact", "worker", "--nocapture", "--test-threads=1"])
        .env(CONFINE, confine)
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdin = child.stdin.take().expect("piped");
    let stdout = child.stderr.take().expect("piped");
    let child = Arc::new(Mutex::new(child));
    workers.running.lock().unwrap().push(Arc::clone(&child));
    let workers = Arc::clone(workers);
    let kill = move || {
        workers.killed.fetch_add(1, SeqCst);
        let mut child = child.lock().unwrap();
        let _ = child.kill();
        child.wait().expect("reaped");
    };
    Ok(Pipes {
        stdin: Box::new(stdin),
        stdout: Box::new(stdout),
        kill: Box::new(kill),
    })
}

/// Limits that a loaded machine does not reach by itself.
pub(crate) const PATIENT: Limits = Limits {
    evaluation: Duration::from_mins(1),
    margin: Duration::from_mins(1),
    start: Duration::from_mins(1),
};

/// Short evaluations, and a host that waits long enough not to be the one that ends them.
pub(crate) const HASTY: Limits = Limits {
    evaluation: Duration::from_millis(250),
    margin: Duration::from_secs(20),
    start: Duration::from_mins(1),
};

pub(crate) fn script(file: &str, source: &str) -> Script {
    Script {
        name: "guard".into(),
        file: file.into(),
        source: source.into(),
        language: Language::of_file(file).unwrap(),
    }
}

pub(crate) fn confined(script: Script, confine: &'static str) -> (ScriptExtension, Arc<Workers>) {
    let workers = Arc::<Workers>::default();
    let counted = Arc::clone(&workers);
    let extension = ScriptExtension::new(script, move || spawn(&counted, confine));
    (extension.with_limits(PATIENT), workers)
}

pub(crate) fn extension(file: &str, source: &str) -> (ScriptExtension, Arc<Workers>) {
    confined(script(file, source), "strict")
}

/// A JavaScript extension with `limits`.
pub(crate) fn javascript(source: &str, limits: Limits) -> ScriptExtension {
    extension("guard.js", source).0.with_limits(limits)
}

pub(crate) fn request(syscall: &str, paths: &[&str]) -> Request {
    let caller = Caller {
        tenant: TenantId::new("local").unwrap(),
        user: UserId::new("ada").unwrap(),
        workspace: WorkspaceId::new("home").unwrap(),
        session: None,
        plugin: PluginName::new("agent").unwrap(),
        tags: Vec::new(),
        peer: None,
        sandbox: None,
        mode: None,
        phase: None,
    };
    let mut request = Request::new(Syscall::parse(syscall).unwrap(), Tier::Process, caller);
    let parse = |path: &&str| RequestPath::parse(path, "/w").unwrap();
    request.paths = paths.iter().map(parse).collect();
    request
}

pub(crate) fn read(path: &str) -> Request {
    request("fs.read", &[path])
}

pub(crate) fn ask(extension: &ScriptExtension) -> Result<Answer, ExtensionFailure> {
    extension.evaluate(&read("a"))
}

/// The opinion and reason, of a script that must answer.
pub(crate) fn said(extension: &ScriptExtension) -> (Opinion, String) {
    let answer = ask(extension).expect("an answer");
    (answer.opinion, answer.reason.to_string())
}

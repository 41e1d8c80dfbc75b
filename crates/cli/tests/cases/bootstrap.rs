//! The bootstrap with a real kernel: built from its sources, as its own tests only have a stand-in.

use crate::support::{PATIENCE, World, binary};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../bootstrap/src/main.rs");

/// It uses nothing but the standard library, so one call of the compiler makes it.
#[expect(
    clippy::disallowed_methods,
    reason = "the compiler is the one that built this test"
)]
fn built(world: &World) -> PathBuf {
    let out = world.path("bootstrap");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let made = Command::new(compiler)
        .args(["--edition", "2024", "-o"])
        .arg(&out)
        .arg(SOURCE)
        .env("CARGO_PKG_VERSION", env!("CARGO_PKG_VERSION"))
        .stderr(Stdio::inherit())
        .status()
        .unwrap();
    assert!(made.success());
    out
}

struct Bootstrap {
    child: Child,
    events: std::io::Lines<BufReader<std::process::ChildStderr>>,
}

impl Drop for Bootstrap {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Bootstrap {
    /// The next event of this name.
    fn next(&mut self, name: &str) -> Value {
        let found = self.events.by_ref().find_map(|line| {
            let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
            assert!(event.get("error").is_none(), "{event}");
            (event["event"] == name).then_some(event)
        });
        found.unwrap()
    }
}

fn pid_of_kernel(world: &World) -> Pid {
    let status = world.quiet(&["kernel", "status", "--json"]).json();
    Pid::from_raw(i32::try_from(status["pid"].as_i64().unwrap()).unwrap()).unwrap()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what} did not come about");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// The bootstrap, which starts the kernel of `world` as `settings` say.
#[expect(
    clippy::disallowed_methods,
    reason = "the program under test is started as a person would"
)]
fn started(program: &Path, world: &World, settings: &[(&str, &Path)]) -> Bootstrap {
    let mut command = Command::new(program);
    world.prepare(&mut command);
    command
        .env("AIRLOCK_KERNEL", binary())
        .env("AIRLOCK_WORKSPACE", world.workspace())
        .env("AIRLOCK_PING_EVERY", "1")
        .envs(settings.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let events = BufReader::new(child.stderr.take().unwrap()).lines();
    Bootstrap { child, events }
}

#[test]
fn it_brings_a_killed_kernel_back_and_takes_it_along_when_it_ends() {
    let world = World::project();
    let mut bootstrap = started(&built(&world), &world, &[]);
    bootstrap.next("ready");
    let first = pid_of_kernel(&world);
    kill_process(first, Signal::KILL).unwrap();
    bootstrap.next("restarting");
    bootstrap.next("ready");
    let second = pid_of_kernel(&world);
    assert_ne!(first, second);
    let read = world.quiet(&["audit", "verify"]);
    assert_eq!(read.code, Some(0), "{read:?}");
    // However the bootstrap ends, the kernel ends with it.
    bootstrap.child.kill().unwrap();
    until("the kernel's end", || test_kill_process(second).is_err());
    assert_eq!(world.quiet(&["kernel", "status"]).code, Some(1));
}

#[test]
fn it_leaves_a_workspace_to_the_kernel_that_serves_it() {
    let world = World::project();
    let served = world.serve();
    let mut bootstrap = started(&built(&world), &world, &[]);
    // Among them what the kernel says, in its own words.
    let lines: Vec<String> = bootstrap.events.by_ref().map(Result::unwrap).collect();
    let ended = bootstrap.child.wait().unwrap();
    assert_eq!(ended.code(), Some(75), "{lines:?}");
    let count = |wanted: &str| lines.iter().filter(|line| line.contains(wanted)).count();
    assert_eq!(count("\"event\":\"started\""), 1, "{lines:?}");
    assert_eq!(count(&format!("process {}", served.pid)), 1, "{lines:?}");
    let last: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
    assert_eq!(last["error"], "taken", "{lines:?}");
    assert!(served.is_alive());
}

/// An engine that gives what it runs a user namespace, and a process namespace: always, or unless it is
/// told that it shall not.
fn engine(world: &World, obeys: bool) -> PathBuf {
    let path = world.path(if obeys { "engine" } else { "deaf-engine" });
    let host = if obeys { "own=" } else { ":" };
    let script = format!(
        "#!/bin/sh\n\
         [ \"$1\" = run ] || exit 0\n\
         own='--pid --mount-proc'\n\
         while [ \"$1\" != airlock ]; do\n\
           case \"$1\" in --pid=host) {host} ;; --env=*) export \"${{1#--env=}}\" ;; esac\n\
           shift\n\
         done\n\
         shift\n\
         exec unshare --user --map-current-user $own --fork --kill-child '{}' \"$@\"\n",
        binary()
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_kernel_in_a_container_answers_because_it_shares_the_process_namespace() {
    let world = World::project();
    let state = world.path("state");
    let settings = |engine| [("AIRLOCK_ENGINE", engine), ("AIRLOCK_STATE", &*state)];
    let (program, obeying) = (built(&world), engine(&world, true));
    let mut bootstrap = started(&program, &world, &settings(&*obeying));
    bootstrap.next("ready");
    // Who asks it is named, and what it calls itself is what it is called here.
    let pid = pid_of_kernel(&world);
    let ran = world.quiet(&["tool", "call", "fs.exists", "path=README.md"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    bootstrap.child.kill().unwrap();
    until("the kernel's end", || test_kill_process(pid).is_err());
    // The same in a process namespace of its own: nobody is let in, the bootstrap least of all.
    let deaf = engine(&world, false);
    let mut settings = settings(&*deaf).to_vec();
    settings.push(("AIRLOCK_START_TIMEOUT", Path::new("3")));
    let mut bootstrap = started(&program, &world, &settings);
    let why = bootstrap.next("restarting")["why"].clone();
    assert!(why.as_str().unwrap().contains("did not come up"), "{why}");
}

//! The bootstrap with a real kernel: built from its sources, as its own tests only have a stand-in.

use crate::support::{PATIENCE, World, binary};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
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

#[expect(
    clippy::disallowed_methods,
    reason = "the program under test is started as a person would"
)]
#[test]
fn it_brings_a_killed_kernel_back_and_takes_it_along_when_it_ends() {
    let world = World::project();
    let mut command = Command::new(built(&world));
    world.prepare(&mut command);
    command
        .env("AIRLOCK_KERNEL", binary())
        .env("AIRLOCK_WORKSPACE", world.workspace())
        .env("AIRLOCK_PING_EVERY", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let events = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut bootstrap = Bootstrap { child, events };
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

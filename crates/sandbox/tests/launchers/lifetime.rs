//! How long things live, and what is left when they do not.

use crate::support::{Place, WRITTEN, command, run, sh};
use airlock_sandbox::lifecycle::{Outcome, State};
use std::time::{Duration, Instant};

/// Processes of the host whose command line has `mark` in it.
fn alive(mark: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains(mark))
    })
    .filter(|pid| *pid != std::process::id())
    .collect()
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_a_command_leaves_behind_ends_with_it() {
    let place = Place::new();
    let mut sandbox = place.start();
    let script = "(setsid sh -c 'trap \"\" TERM HUP; sleep 4731' >/dev/null 2>&1 &) ; \
                  nohup sleep 4731 >/dev/null 2>&1 & echo started";
    assert_eq!(sh(&mut sandbox, script), "started\n");
    assert_eq!(alive("sleep\u{0}4731"), Vec::<u32>::new());
    // Init and the shell itself.
    assert_eq!(sh(&mut sandbox, "set -- /proc/[0-9]*; echo $#"), "2\n");
}

#[test]
fn a_background_process_that_holds_the_pipes_does_not_hold_the_end() {
    let place = Place::new();
    let begun = Instant::now();
    let ran = run(
        &mut place.start(),
        &command(&["sh", "-c", "sleep 4732 & echo done"]),
    );
    assert_eq!(
        (ran.text().as_str(), ran.ended.outcome),
        ("done\n", Outcome::Exited(0))
    );
    assert!(begun.elapsed() < Duration::from_mins(1));
}

#[test]
fn a_paused_sandbox_stands_still_and_its_time_with_it() {
    let place = Place::new();
    let mut sandbox = place.start();
    let control = sandbox.control();
    assert_eq!(sandbox.state(), State::Running);
    let script = "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo $i > counter; done; echo done";
    let counter = place.path(WRITTEN).join("counter");
    let count = || std::fs::read_to_string(&counter).unwrap_or_default();
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            eventually("it counts", || !count().is_empty());
            control.pause().unwrap();
            assert_eq!(control.state(), State::Paused);
            assert!(control.pause().is_err());
            // A signal that is under way may still arrive.
            std::thread::sleep(Duration::from_millis(50));
            let stood = count();
            std::thread::sleep(Duration::from_millis(100));
            assert_eq!(count(), stood);
            control.resume().unwrap();
        });
        run(&mut sandbox, &command(&["sh", "-c", script]))
    });
    assert_eq!(
        (ran.text().as_str(), ran.ended.outcome),
        ("done\n", Outcome::Exited(0))
    );
}

/// A program that is stopped has timers of the kernel's continue it.
#[test]
fn what_has_itself_woken_while_it_is_paused_stands_still_or_is_ended() {
    const SCRIPT: &str = "
import ctypes, signal, time
class Event(ctypes.Structure):
    _fields_ = [('value', ctypes.c_void_p), ('signal', ctypes.c_int), ('notify', ctypes.c_int),
                ('rest', ctypes.c_char * 48)]
signal.signal(signal.SIGCONT, lambda *_: None)
library = ctypes.CDLL(None)
for number in range(16):
    timer, event = ctypes.c_void_p(), Event(None, signal.SIGCONT, 0)
    assert library.timer_create(1, ctypes.byref(event), ctypes.byref(timer)) == 0
    often = (ctypes.c_long * 4)(0, 500000 + 70000 * number, 0, 500000 + 90000 * number)
    assert library.timer_settime(timer, 0, often, None) == 0
before, begun = time.process_time(), time.monotonic()
open('ready', 'w').close()
while time.monotonic() - begun < 4: pass
print(time.process_time() - before)
";
    let place = Place::new();
    let mut sandbox = place.start();
    let control = sandbox.control();
    let ready = place.path(WRITTEN).join("ready");
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            eventually("it begins", || ready.exists());
            control.pause().unwrap();
            std::thread::sleep(Duration::from_secs(5));
            // One that was ended is not there to go on.
            let _resumed = control.resume();
        });
        run(&mut sandbox, &command(&["/usr/bin/python3", "-c", SCRIPT]))
    });
    if ran.ended.outcome != Outcome::TimedOut {
        assert_eq!(ran.ended.outcome, Outcome::Exited(0), "{}", ran.errors());
        let used: f64 = ran.text().trim().parse().unwrap();
        assert!(used < 2.0, "it used {used} s");
    }
}

#[test]
fn what_stands_still_is_let_go_on_as_often_as_it_was_paused() {
    let place = Place::new();
    let mut sandbox = place.start();
    let control = sandbox.control();
    let script = "
import time
open('ready', 'w').close()
while time.process_time() < 1.5: pass
";
    let ready = place.path(WRITTEN).join("ready");
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            eventually("it begins", || ready.exists());
            for pause in [0, 1, 30, 700, 0, 300] {
                control.pause().unwrap();
                std::thread::sleep(Duration::from_millis(pause));
                control.resume().unwrap();
                std::thread::sleep(Duration::from_millis(pause / 10));
            }
        });
        run(&mut sandbox, &command(&["/usr/bin/python3", "-c", script]))
    });
    assert_eq!(ran.ended.outcome, Outcome::Exited(0), "{}", ran.errors());
}

#[test]
fn a_sandbox_that_is_dropped_takes_everything_with_it() {
    let place = Place::new();
    let mut sandbox = place.start();
    let control = sandbox.control();
    sh(&mut sandbox, "true");
    drop(sandbox);
    assert_eq!(control.state(), State::Destroyed);
    assert!(control.pause().is_err());
}

const SUPERVISOR: &str = "AIRLOCK_TEST_SUPERVISOR";

/// The supervisor of the test below: starts a sandbox that never ends, and is killed.
#[test]
fn supervisor_to_be_killed() {
    let Some(place) = std::env::var_os(SUPERVISOR) else {
        return;
    };
    let mut sandbox = Place::of_another(place.as_ref()).start();
    let script = "setsid sleep 4733 & sleep 4733";
    run(&mut sandbox, &command(&["sh", "-c", script]));
}

#[test]
fn nothing_outlives_a_supervisor_that_is_killed() {
    let place = Place::new();
    let mut supervisor = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lifetime::supervisor_to_be_killed"])
        .env(SUPERVISOR, place.path(""))
        .spawn()
        .unwrap();
    eventually("it started", || alive("sleep\u{0}4733").len() >= 2);
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    eventually("everything ended", || alive("sleep\u{0}4733").is_empty());
    // Only a sandbox with a cgroup leaves something, and says where.
    let registry = place.path("run");
    let left = || std::fs::read_dir(&registry).unwrap().count();
    let noted = left();
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(noted, usize::from(is_root));
    let collected = airlock_sandbox::collect(&registry).unwrap();
    assert!(collected.troubles.is_empty(), "{collected:?}");
    assert_eq!((left(), collected.removed.len()), (0, noted));
}

#[test]
fn many_in_a_row_and_many_at_once_leave_nothing() {
    let place = Place::new();
    sh(&mut place.start(), "true");
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mounts = || {
        std::fs::read_to_string("/proc/self/mounts")
            .unwrap()
            .lines()
            .count()
    };
    let before = mounts();
    for _ in 0..50 {
        sh(&mut place.start(), "true");
    }
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let place = Place::new();
                assert_eq!(sh(&mut place.start(), "echo here"), "here\n");
            });
        }
    });
    assert_eq!(mounts(), before);
    // Other tests of this process come and go, but not a thousand descriptors.
    assert!(descriptors() < 300, "{}", descriptors());
}

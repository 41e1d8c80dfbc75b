//! The share of the processor a sandbox gets.
//!
//! A busy machine gives less than the share, so only the upper bound is firm.

use crate::support::{Place, command, limits, run};
use airlock_sandbox::lifecycle::Outcome;
use airlock_sandbox::start;
use std::time::Duration;

/// What a script that measures itself says: the part of one processor it had.
fn share(cpus: u32, script: &str) -> f64 {
    let place = Place::new();
    let limits = limits(|limits| limits.cpus = cpus);
    let mut sandbox = start(place.launch(|plan| plan.limits(limits))).unwrap();
    let ran = run(&mut sandbox, &command(&["/usr/bin/python3", "-c", script]));
    assert_eq!(ran.ended.outcome, Outcome::Exited(0), "{}", ran.errors());
    ran.text().trim().parse().unwrap()
}

const ALONE: &str = "
import time
begun = time.monotonic()
while time.monotonic() - begun < 1.5: pass
print(time.process_time() / (time.monotonic() - begun))
";

/// Children that are waited for, each too short to be seen at work more than once.
const CHILDREN: &str = "
import os, time
begun = time.monotonic()
while time.monotonic() - begun < 1.5:
    if os.fork() == 0:
        until = time.process_time() + 0.02
        while time.process_time() < until: pass
        os._exit(0)
    os.wait()
used = os.times()
print((used.user + used.system + used.children_user + used.children_system) / (time.monotonic() - begun))
";

/// Several at once, each of which would have its own share if it were counted alone.
const TOGETHER: &str = "
import os, time
begun = time.monotonic()
children = []
for _ in range(4):
    child = os.fork()
    if child == 0:
        while time.monotonic() - begun < 1.5: pass
        os._exit(0)
    children.append(child)
for child in children: os.waitpid(child, 0)
used = os.times()
print((used.children_user + used.children_system) / (time.monotonic() - begun))
";

/// Orphans, whom nobody but init waits for: each writes down what it used.
const ORPHANS: &str = "
import os, time
begun = time.monotonic()
count = 0
while time.monotonic() - begun < 1.5:
    read, write = os.pipe()
    if os.fork() == 0:
        if os.fork() == 0:
            until = time.process_time() + 0.02
            while time.process_time() < until: pass
            os.write(write, b'x')
        os._exit(0)
    os.wait()
    os.close(write)
    count += len(os.read(read, 1))
    os.close(read)
print(count * 0.02 / (time.monotonic() - begun))
";

/// Children whose ends are ignored, so that what they used passes on to nobody.
const UNWAITED: &str = "
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
begun = time.monotonic()
count = 0
while time.monotonic() - begun < 3:
    read, write = os.pipe()
    if os.fork() == 0:
        until = time.process_time() + 0.2
        while time.process_time() < until: pass
        os.write(write, b'x')
        os._exit(0)
    os.close(write)
    count += len(os.read(read, 1))
    os.close(read)
print(count * 0.2 / (time.monotonic() - begun))
";

/// Timers of the kernel's that continue whoever was stopped: a stop takes back the signals that are
/// under way, so one is easily lost.
const WOKEN: &str = "
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
begun = time.monotonic()
while time.monotonic() - begun < 4: pass
print(time.process_time() / (time.monotonic() - begun))
";

/// Where no cgroup holds the share, what is stopped and goes on all the same is ended.
#[test]
fn whoever_has_itself_woken_gets_no_more_than_the_share_or_is_ended() {
    let place = Place::new();
    let limits = limits(|limits| limits.cpus = 200);
    let mut sandbox = start(place.launch(|plan| plan.limits(limits))).unwrap();
    let ran = run(&mut sandbox, &command(&["/usr/bin/python3", "-c", WOKEN]));
    if ran.ended.outcome != Outcome::TimedOut {
        assert_eq!(ran.ended.outcome, Outcome::Exited(0), "{}", ran.errors());
        let share: f64 = ran.text().trim().parse().unwrap();
        assert!(share <= 0.4, "{share}");
    }
}

#[test]
fn what_a_command_used_is_not_held_against_the_next() {
    let place = Place::new();
    let mut sandbox = place.start();
    let script = "import time\nwhile time.process_time() < 3: pass";
    let ran = run(&mut sandbox, &command(&["/usr/bin/python3", "-c", script]));
    assert_eq!(ran.ended.outcome, Outcome::Exited(0), "{}", ran.errors());
    let ran = run(&mut sandbox, &command(&["sleep", "0.2"]));
    assert_eq!(ran.ended.outcome, Outcome::Exited(0), "{}", ran.errors());
    assert!(
        ran.ended.wall < Duration::from_secs(2),
        "{:?}",
        ran.ended.wall
    );
}

#[test]
fn no_more_of_a_processor_is_had_than_the_share_however_it_is_used() {
    std::thread::scope(|scope| {
        for (name, script, cpus, most) in [
            ("alone", ALONE, 500, 0.75),
            ("children", CHILDREN, 500, 0.75),
            ("together", TOGETHER, 500, 0.75),
            ("orphans", ORPHANS, 500, 0.75),
            ("unwaited", UNWAITED, 500, 0.8),
            ("a fifth", ALONE, 200, 0.4),
        ] {
            scope.spawn(move || {
                let share = share(cpus, script);
                assert!((0.01..=most).contains(&share), "{name}: {share}");
            });
        }
    });
}

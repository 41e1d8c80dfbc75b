//! The share of the processor a sandbox gets.
//!
//! A busy machine gives less than the share, so only the upper bound is firm.

use crate::support::{Place, command, limits, run};
use airlock_sandbox::lifecycle::Outcome;
use airlock_sandbox::start;

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

#[test]
fn no_more_of_a_processor_is_had_than_the_share_however_it_is_used() {
    std::thread::scope(|scope| {
        for (name, script, cpus, most) in [
            ("alone", ALONE, 500, 0.75),
            ("children", CHILDREN, 500, 0.75),
            ("together", TOGETHER, 500, 0.75),
            ("orphans", ORPHANS, 500, 0.75),
            ("a fifth", ALONE, 200, 0.4),
        ] {
            scope.spawn(move || {
                let share = share(cpus, script);
                assert!((0.01..=most).contains(&share), "{name}: {share}");
            });
        }
    });
}

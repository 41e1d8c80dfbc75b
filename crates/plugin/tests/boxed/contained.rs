//! Hostile programs in a box: each comes to an end of its own, and nothing of it is left.

use crate::support::{Fixture, PATIENCE};
use crate::watch::runs;
use airlock_core::ByteSize;
use airlock_plugin::boxed::End;
use airlock_sandbox::lifecycle::Outcome;
use std::time::{Duration, Instant};

/// A number of seconds that nobody else sleeps.
fn mark(test: u32) -> String {
    format!("{}{test}.5", 100_000 + std::process::id())
}

#[test]
fn what_forks_and_outlives_its_parent_is_gone_with_the_box() {
    let mark = mark(1);
    let fixture = Fixture::new(&format!(
        "#!/bin/sh\nsetsid nohup sleep {mark} >/dev/null 2>&1 &\nsleep {mark} & \necho ready\nexec sleep {mark}\n"
    ));
    let running = fixture.start().unwrap();
    let mut ready = [0; 5];
    std::io::Read::read_exact(&mut running.take_stdout().unwrap(), &mut ready).unwrap();
    let begun = Instant::now();
    while !runs(&mark) && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(runs(&mark));
    drop(running);
    assert!(!runs(&mark));
}

#[test]
fn what_is_left_when_the_program_itself_ends_goes_too() {
    let mark = mark(2);
    let fixture = Fixture::new(&format!(
        "#!/bin/sh\nsetsid nohup sleep {mark} >/dev/null 2>&1 &\nexit 3\n"
    ));
    let running = fixture.start().unwrap();
    assert_eq!(running.wait(PATIENCE), Some(End::Ran(Outcome::Exited(3))));
    assert!(!runs(&mark));
}

#[test]
fn a_flood_nobody_reads_holds_up_neither_its_box_nor_its_end() {
    let fixture = Fixture::new("#!/bin/sh\nexec cat /dev/zero\n");
    let running = fixture.start().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(!running.has_ended());
    let begun = Instant::now();
    running.kill();
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(running.end(), Some(End::Ran(Outcome::Cancelled)));
}

#[test]
fn more_output_than_a_command_may_write_is_no_end_of_what_lasts() {
    let fixture = Fixture::new("#!/bin/sh\nhead -c 70000000 /dev/zero\nexit 5\n");
    let running = fixture.start().unwrap();
    let mut stdout = running.take_stdout().unwrap();
    let read = std::io::copy(&mut stdout, &mut std::io::sink()).unwrap();
    assert_eq!(read, 70_000_000);
    assert_eq!(running.wait(PATIENCE), Some(End::Ran(Outcome::Exited(5))));
}

#[test]
fn limits_end_it_and_are_named() {
    let memory = "#!/usr/bin/env python3\nkept = []\nwhile True: kept.append(bytearray(4 << 20))\n";
    let disk = "#!/bin/sh\ni=0; while :; do head -c 1000000 /dev/zero > f$i; i=$((i+1)); done\n";
    let names = "#!/bin/sh\ni=0; while :; do : > f$i; i=$((i+1)); done\n";
    let pids = "#!/usr/bin/env python3\nimport os, time\nn = 0\ntry:\n  while n < 5000:\n    if os.fork() == 0: time.sleep(60)\n    n += 1\nexcept OSError: pass\nopen('count', 'w').write(str(n))\n";
    for (case, script, want) in [
        ("memory", memory, "memory"),
        ("disk", disk, "disk"),
        ("names", names, "disk"),
    ] {
        let mut fixture = Fixture::new(script);
        fixture.manifest.execution.sandbox.memory_limit = Some(ByteSize::from_bytes(64 << 20));
        let running = fixture.start().unwrap();
        let end = running
            .wait(Duration::from_mins(1))
            .unwrap_or_else(|| panic!("{case} goes on"));
        assert_eq!(
            end.limit(),
            Some(want),
            "{case}: {end:?} {}",
            running.said()
        );
    }
    let fixture = Fixture::new(pids);
    let running = fixture.start().unwrap();
    let end = running.wait(PATIENCE).unwrap();
    let count = std::fs::read_to_string(fixture.path("own/data/count"));
    let few = count
        .as_ref()
        .is_ok_and(|count| count.parse::<u32>().unwrap() <= 100);
    assert!(few || end.limit() == Some("processes"), "{end:?} {count:?}");
}

#[test]
fn a_program_that_is_none_says_so() {
    let fixture = Fixture::new("#!/no/such/interpreter\n");
    let running = fixture.start().unwrap();
    let end = running.wait(PATIENCE).unwrap();
    assert!(matches!(end, End::NotStarted(_)), "{end:?}");
    assert!(end.to_string().contains("interprets"), "{end}");
}

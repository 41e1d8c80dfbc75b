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

fn until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
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
    until(|| runs(&mark));
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
fn scratch_and_the_size_of_a_file_are_walls_and_data_goes_over_by_little() {
    // Whatever is written besides its data is memory of a fixed size.
    let scratch = "#!/usr/bin/env python3\nimport errno, os\nfor place in ['/tmp', '/dev/shm', os.environ['HOME'], '/']:\n  written = 0\n  why = ''\n  try:\n    for number in range(400):\n      with open(f'{place}/f{number}', 'wb') as file: written += file.write(bytes(1 << 20))\n  except OSError as error: why = errno.errorcode[error.errno]\n  print(place, written >> 20, why)\n  for number in range(400):\n    try: os.unlink(f'{place}/f{number}')\n    except OSError: pass\n";
    let mut fixture = Fixture::new(scratch);
    fixture.manifest.execution.sandbox.memory_limit = Some(ByteSize::from_bytes(256 << 20));
    let said = fixture.says();
    assert_eq!(
        said.lines().filter(|line| line.starts_with('/')).count(),
        4,
        "{said}"
    );
    for line in said.lines().filter(|line| line.starts_with('/')) {
        let words: Vec<&str> = line.split(' ').collect();
        let is_wall =
            ["ENOSPC", "EACCES", "EROFS", "EPERM", "ENOENT", "EDQUOT"].contains(&words[2]);
        assert!(is_wall, "{line}: {said}");
        assert!(words[1].parse::<u64>().unwrap() <= 256, "{line}");
    }
    // One file is no larger than all of it may be.
    let file = "#!/usr/bin/env python3\nwith open('big', 'wb') as big:\n  for _ in range(64): big.write(bytes(1 << 20))\n";
    let fixture = Fixture::new(file);
    let running = fixture.start().unwrap();
    let end = running.wait(PATIENCE).unwrap();
    assert_ne!(end, End::Ran(Outcome::Exited(0)), "{}", running.said());
    let size = std::fs::metadata(fixture.path("own/data/big"))
        .unwrap()
        .len();
    assert!(size <= 8 << 20, "{size}");
    // Many files: it is ended, and what it got over its limit is little.
    let many = "#!/usr/bin/env python3\nn = 0\nwhile True:\n  open(f'f{n}', 'wb').write(bytes(1 << 20))\n  n += 1\n";
    let mut fixture = Fixture::new(many);
    fixture.disk = ByteSize::from_bytes(64 << 20);
    let running = fixture.start().unwrap();
    let end = running.wait(PATIENCE).unwrap();
    assert_eq!(end, End::Disk, "{}", running.said());
    let files = std::fs::read_dir(fixture.path("own/data")).unwrap().count();
    assert!(files < 64 * 12, "{files} MiB of 64");
}

#[test]
fn a_box_of_bubblewrap_holds_as_well_and_is_refused_to_root() {
    assert!(
        std::path::Path::new("/usr/bin/bwrap").exists(),
        "this test needs `bwrap`: apt-get install bubblewrap"
    );
    let mut fixture = Fixture::new("");
    let outside = fixture.path("outside/secret");
    std::fs::write(&outside, "s").unwrap();
    fixture.write(
        "plugin/bin/run",
        &format!(
            "#!/bin/sh\nread line; echo \"heard $line\"\ncat {} 2>/dev/null && echo LEAK\necho kept > kept && echo stored\ngrep -c : /proc/net/dev\n",
            outside.display()
        ),
    );
    fixture.launcher = airlock_sandbox::Launcher::Bwrap;
    let started = fixture.start();
    if rustix::process::geteuid().is_root() {
        let refused = started.unwrap_err().to_string();
        assert!(refused.contains("as an ordinary user"), "{refused}");
        again_as_an_ordinary_user(
            "contained::a_box_of_bubblewrap_holds_as_well_and_is_refused_to_root",
        );
        return;
    }
    let running = started.unwrap();
    std::io::Write::write_all(&mut running.take_stdin().unwrap(), b"hello\n").unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut running.take_stdout().unwrap(), &mut said).unwrap();
    let end = running.wait(PATIENCE).unwrap();
    assert_eq!(said, "heard hello\nstored\n1\n", "{end} {}", running.said());
    assert_eq!(end, End::Ran(Outcome::Exited(0)), "{}", running.said());
    assert_eq!(
        running.report()["launcher"],
        "bwrap",
        "{}",
        running.report()
    );
}

/// The user that ordinary ones are tried as; nobody has it.
const ORDINARY: u32 = 65_432;

/// Runs one test of this program once more, as a user who may do nothing in particular.
#[expect(clippy::disallowed_methods, reason = "it runs this very test")]
pub(crate) fn again_as_an_ordinary_user(test: &str) {
    let place = tempfile::tempdir().unwrap();
    // Where this program lies may be out of another user's reach.
    let program = place.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::os::unix::fs::chown(place.path(), Some(ORDINARY), Some(ORDINARY)).unwrap();
    let ran = std::process::Command::new("setpriv")
        .args([format!("--reuid={ORDINARY}"), format!("--regid={ORDINARY}")])
        .arg("--clear-groups")
        .arg(&program)
        .args(["--exact", test, "--nocapture"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("TMPDIR", place.path())
        .current_dir(place.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    let error = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}{error}");
    assert!(said.contains("1 passed"), "{said}");
}

#[test]
fn a_box_of_bubblewrap_ends_with_all_that_runs_in_it_and_keeps_to_its_limits() {
    if rustix::process::geteuid().is_root() {
        again_as_an_ordinary_user(
            "contained::a_box_of_bubblewrap_ends_with_all_that_runs_in_it_and_keeps_to_its_limits",
        );
        return;
    }
    let mark = mark(3);
    let mut fixture = Fixture::new("");
    fixture.launcher = airlock_sandbox::Launcher::Bwrap;
    // It outlives its own end, and that of whoever started it.
    fixture.write(
        "plugin/bin/run",
        &format!("#!/bin/sh\nsetsid sleep {mark} &\n(sleep {mark} &)\nread line\n"),
    );
    let running = fixture.start().unwrap();
    until(|| runs(&mark));
    running.kill();
    assert!(running.has_ended());
    until(|| !runs(&mark));
    // Its disk is bounded by the same hand.
    let many = "#!/usr/bin/env python3\nn = 0\nwhile True:\n  open(f'f{n}', 'wb').write(bytes(1 << 20))\n  n += 1\n";
    fixture.write("plugin/bin/run", many);
    fixture.disk = ByteSize::from_bytes(32 << 20);
    let running = fixture.start().unwrap();
    assert_eq!(
        running.wait(PATIENCE).unwrap(),
        End::Disk,
        "{}",
        running.said()
    );
}

#[test]
fn a_program_that_is_none_says_so() {
    let fixture = Fixture::new("#!/no/such/interpreter\n");
    let running = fixture.start().unwrap();
    let end = running.wait(PATIENCE).unwrap();
    assert!(matches!(end, End::NotStarted(_)), "{end:?}");
    assert!(end.to_string().contains("interprets"), "{end}");
}

//! `airlock audit`: reading the log and taking it elsewhere.

use crate::support::World;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A log with an allowed read, a denied one and a refused call.
pub(super) fn logged() -> World {
    let world = World::governed();
    for line in [
        "tool call fs.read path=README.md --as agent",
        "tool call fs.read path=.env --as agent",
        "tool call fs.raed path=README.md",
    ] {
        let args: Vec<&str> = line.split_whitespace().collect();
        world.quiet(&args);
    }
    world
}

#[test]
fn records_are_listed_filtered_and_shown() {
    let mut world = logged();
    world.run_all(&[
        "audit log",
        "audit log --decision deny",
        "audit log --decision deny --json",
        "audit log --path README.md",
        "audit log --plugin agent -n 1",
        "audit log --since 2h --until 1h",
        "audit log --text nothing-says-this --json",
        "audit show 5",
        "audit show 5 --json",
        "audit show 999",
        "audit stats",
        "audit stats --json",
    ]);
    world.compare("audit_log");
}

#[test]
fn exports_in_every_format() {
    let mut world = logged();
    world.run_all(&[
        "audit export",
        "audit export --format ocsf",
        "audit export --format csv",
        "audit export --output log.jsonl",
        "audit export --output log.csv --format csv --json",
    ]);
    assert!(world.workspace().join("log.jsonl").exists());
    world.compare("audit_export");
}

#[test]
fn an_export_that_cannot_be_written_leaves_nothing_behind() {
    let mut world = logged();
    std::fs::create_dir(world.workspace().join("taken")).unwrap();
    world.run_all(&[
        "audit export --output missing/log.jsonl",
        "audit export --output /sys/log.jsonl",
        "audit export --output README.md/log.jsonl",
        "audit export --output taken",
        "audit export --output missing/log.jsonl --json",
    ]);
    let mut left: Vec<_> = std::fs::read_dir(world.workspace()).unwrap().collect();
    left.retain(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with(".tmp")
    });
    assert!(left.is_empty(), "{left:?}");
    world.compare("audit_export_unwritable");
}

#[test]
fn an_export_replaces_nothing_of_airlocks_own() {
    let world = logged();
    std::os::unix::fs::symlink(world.state(), world.workspace().join("elsewhere")).unwrap();
    for path in [
        world.state().join("audit.db"),
        world.state().join("keys/new.jsonl"),
        world.workspace().join(".airlock/policy.yaml"),
        world.workspace().join("elsewhere/audit.db"),
    ] {
        let was_there = path.exists();
        let ran = world.quiet(&["audit", "export", "--output", path.to_str().unwrap()]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(
            ran.stderr.contains("in a directory of Airlock's own"),
            "{ran:?}"
        );
        assert_eq!(path.exists(), was_there, "{}", path.display());
    }
    assert_eq!(world.quiet(&["audit", "verify"]).code, Some(0));
}

#[test]
fn an_export_takes_the_place_of_no_pipe_link_or_device() {
    let world = logged();
    let at = |name: &str| world.workspace().join(name);
    rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), 0o600.into()).unwrap();
    std::os::unix::fs::symlink("/dev/null", at("null")).unwrap();
    world.write("kept.jsonl", "");
    std::os::unix::fs::symlink("kept.jsonl", at("link.jsonl")).unwrap();
    for name in ["pipe", "null", "/dev/stdout"] {
        let ran = world.quiet(&["audit", "export", "--output", name]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains("it is no regular file"), "{ran:?}");
    }
    let kind = at("pipe").symlink_metadata().unwrap().file_type();
    assert!(std::os::unix::fs::FileTypeExt::is_fifo(&kind));
    assert!(at("null").is_symlink());
    let ran = world.quiet(&["audit", "export", "--output", "link.jsonl"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(at("link.jsonl").is_symlink());
    assert!(at("kept.jsonl").metadata().unwrap().len() > 0);
    let ran = world.quiet(&["audit", "export", "--output", "-"]);
    assert!(ran.stdout.starts_with('{'), "{ran:?}");
    assert!(!at("-").exists());
}

#[test]
fn an_interrupt_ends_following_as_it_should() {
    let world = logged();
    world.alone();
    let mut follower = world
        .command(&["audit", "log", "--follow", "--json", "-n", "1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut lines = BufReader::new(follower.stdout.take().unwrap());
    lines.read_line(&mut first).unwrap();
    let process = rustix::process::Pid::from_child(&follower);
    let status = loop {
        rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        if let Some(status) = follower.try_wait().unwrap() {
            break status;
        }
    };
    assert_eq!(status.code(), Some(0));
    let ran = world.quiet(&["audit", "stats"]);
    assert!(!ran.stderr.contains("died"), "{ran:?}");
}

#[test]
fn a_checkpoint_can_be_pinned_and_verified_against() {
    let mut world = logged();
    let line = world.run(&["audit", "checkpoint"]).stdout;
    world.write("pinned.jsonl", line);
    world.run_all(&[
        "audit verify",
        "audit verify --json",
        "audit verify --checkpoint pinned.jsonl",
    ]);
    world.compare("audit_checkpoint");
}

#[test]
fn following_shows_what_another_process_appends_and_ends_with_its_reader() {
    let world = logged();
    let mut follower = world
        .command(&["audit", "log", "--follow", "--json", "-n", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (send, lines) = mpsc::channel();
    let stdout = follower.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines() {
            let line = line.unwrap();
            let wanted = line.contains("appended-later");
            send.send(line).unwrap();
            // Dropping the pipe here is what the follower must notice.
            if wanted {
                return;
            }
        }
    });
    let patience = Duration::from_secs(20);
    let first = lines.recv_timeout(patience).expect("the newest record");
    assert!(first.contains("\"seq\""), "{first}");
    world.quiet(&["tool", "call", "fs.exists", "path=appended-later"]);
    let later = lines.iter().any(|line| line.contains("appended-later"));
    assert!(later, "the new record was not shown");
    reader.join().unwrap();
    let started = Instant::now();
    let status = loop {
        if let Some(status) = follower.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > patience {
            follower.kill().unwrap();
            panic!("the follower goes on without a reader");
        }
        // It can notice only when it has something to say.
        world.quiet(&["tool", "call", "fs.exists", "path=README.md"]);
    };
    assert_eq!(status.code(), Some(0));
    let stderr = std::io::read_to_string(follower.stderr.take().unwrap()).unwrap();
    assert_eq!(stderr, "");
}

#[test]
fn a_follower_that_wants_no_history_gets_none() {
    let world = logged();
    let before = world.quiet(&["audit", "stats", "--json"]).json();
    let before = before["records"].as_u64().unwrap();
    let mut follower = world
        .command(&["audit", "log", "--follow", "--json", "-n", "0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (send, lines) = mpsc::channel();
    let stdout = follower.stdout.take().unwrap();
    std::thread::spawn(move || {
        let first = BufReader::new(stdout).lines().next();
        // Nobody may be listening any more.
        let _ = send.send(first.unwrap().unwrap());
    });
    // Until it follows, it has nothing to say about what is done.
    let first = (0..100).find_map(|_| {
        world.quiet(&["tool", "call", "fs.exists", "path=README.md"]);
        lines.recv_timeout(Duration::from_millis(300)).ok()
    });
    follower.kill().unwrap();
    follower.wait().unwrap();
    let first: serde_json::Value = serde_json::from_str(&first.unwrap()).unwrap();
    assert!(first["seq"].as_u64().unwrap() > before, "{first}");
}

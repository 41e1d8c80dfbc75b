//! Many open a log that is only just being made; each must find it whole.

#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and this one starts itself as a child process"
)]

mod support;

use airlock_audit::{Durability, Log, LogConfig, VerifyOptions, read_log, verify_database};
use airlock_core::Timestamp;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier};
use support::{Place, START, note};

const PLACE: &str = "AIRLOCK_OPENERS_PLACE";
const ROUNDS: usize = 20;
const OPENERS: usize = 8;

fn open_and_sign(directory: &Path, keys: &Path) {
    let clock = Arc::new(|| Timestamp::from_micros(START));
    let log = Log::open(LogConfig::new(directory, keys, clock)).expect("the log opens");
    log.append(&note("here"), Durability::Durable)
        .expect("appended");
    log.checkpoint().expect("signed");
    log.close().expect("closes");
}

fn assert_whole(directory: &Path, keys: &Path) {
    let report = verify_database(directory, keys, &VerifyOptions::default()).expect("verifiable");
    assert!(report.is_intact(), "{report:?}");
    let records = report.chain.map_or(0, |verified| verified.records);
    assert!(records >= 2 * OPENERS as u64, "{records} records");
    let left: Vec<_> = std::fs::read_dir(directory)
        .expect("listed")
        .map(|entry| entry.expect("listed").file_name())
        .filter(|name| name.to_string_lossy().contains(".new-"))
        .collect();
    assert!(left.is_empty(), "{left:?} stays behind");
}

#[test]
fn threads_that_open_a_fresh_log_at_once_all_succeed() {
    for _ in 0..ROUNDS {
        let place = Place::new();
        let together = Barrier::new(OPENERS);
        std::thread::scope(|scope| {
            for _ in 0..OPENERS {
                scope.spawn(|| {
                    together.wait();
                    open_and_sign(&place.directory, &place.keys);
                });
            }
        });
        assert_whole(&place.directory, &place.keys);
    }
}

/// Not a test of its own: what the next one starts as a process.
#[test]
fn child_opener() {
    let Ok(place) = std::env::var(PLACE) else {
        return;
    };
    let place = Path::new(&place);
    while !place.join("go").exists() {
        std::thread::yield_now();
    }
    open_and_sign(&place.join("state"), &place.join("keys"));
}

fn start(place: &Path) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["child_opener", "--exact", "--nocapture"])
        .env(PLACE, place)
        .stdout(Stdio::null())
        .spawn()
        .expect("started")
}

#[test]
fn processes_that_open_a_fresh_log_at_once_all_succeed() {
    for round in 0..ROUNDS / 2 {
        let place = tempfile::tempdir().expect("a temporary directory");
        let (directory, keys) = (place.path().join("state"), place.path().join("keys"));
        let children: Vec<_> = (0..OPENERS).map(|_| start(place.path())).collect();
        std::fs::write(place.path().join("go"), "").expect("written");
        for child in children {
            let output = child.wait_with_output().expect("ended");
            assert!(output.status.success(), "round {round}");
        }
        assert_whole(&directory, &keys);
    }
}

#[test]
fn a_reader_sees_no_log_or_a_whole_one_never_half() {
    for _ in 0..ROUNDS {
        let place = Place::new();
        std::fs::create_dir(&place.directory).expect("made");
        let database = place.database();
        std::thread::scope(|scope| {
            let maker = scope.spawn(|| open_and_sign(&place.directory, &place.keys));
            while !maker.is_finished() {
                let length = std::fs::metadata(&database).map_or(u64::MAX, |file| file.len());
                assert_ne!(length, 0, "an empty file was seen");
            }
        });
        let records = read_log(&place.directory, airlock_audit::Filter::default());
        assert_eq!(records.expect("readable").count(), 2);
    }
}

#[test]
fn a_write_ahead_log_without_its_database_is_no_part_of_a_new_log() {
    let place = Place::new();
    let log = place.open();
    log.append(&note("old"), Durability::Durable)
        .expect("appended");
    let old = log.id();
    log.close().expect("closes");
    let ahead = place.directory.join("audit.db-wal");
    let length = std::fs::metadata(&ahead).map_or(0, |file| file.len());
    assert_ne!(length, 0, "the records are still in the write-ahead log");
    std::fs::remove_file(place.database()).expect("removed");
    let log = place.open();
    assert_ne!(log.id(), old);
    assert_eq!(support::all(&log).len(), 0);
    log.close().expect("closes");
    assert!(place.verify().is_intact());
}

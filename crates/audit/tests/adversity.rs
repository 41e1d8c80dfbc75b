//! A directory that cannot be written, a file that may not grow, a checkpoint that cannot be kept.

#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and these start themselves as child processes"
)]

mod support;

use airlock_audit::{
    AppendError, Durability, Filter, Log, OpenError, SignedCheckpoint, VerifyOptions, read_log,
    verify_database,
};
use rusqlite::Connection;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use support::{Place, all, attempt, note};

const PLACE: &str = "AIRLOCK_ADVERSITY_PLACE";
/// An account that may do nothing, for tests that run as root: root may write everywhere.
const NOBODY: u32 = 65_534;
const RECORDS: usize = 30;

/// Runs `command`, one of the tests of this file as a child, on the log in `place`.
fn run(mut command: Command, place: &Place) -> Output {
    let root = place.directory.parent().expect("a parent");
    command.env(PLACE, root).output().expect("the child starts")
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

fn fill(place: &Place) {
    let mut config = place.config();
    config.checkpoint_every = 10;
    let log = Log::open(config).expect("opens");
    for n in 0..RECORDS {
        log.append(&note(&format!("record {n}")), Durability::Buffered)
            .expect("appended");
    }
    log.close().expect("closes");
}

/// Everything in one file, none of SQLite's companions beside it.
fn settle(place: &Place) {
    let db = Connection::open(place.database()).expect("opens");
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .expect("one file");
    drop(db);
    for companion in ["audit.db-wal", "audit.db-shm"] {
        let _ = fs::remove_file(place.directory.join(companion));
    }
}

/// Takes away every permission to write below `path`, or gives it back to the owner.
fn set_writable(path: &Path, writable: bool, owner: Option<u32>) {
    let metadata = fs::symlink_metadata(path).expect("exists");
    if let Some(owner) = owner {
        chown(path, Some(owner), Some(owner)).expect("given away");
    }
    if metadata.is_dir() {
        fs::set_permissions(path, Permissions::from_mode(0o700)).expect("changed");
        for entry in fs::read_dir(path).expect("listed") {
            set_writable(&entry.expect("listed").path(), writable, owner);
        }
    }
    let mode = match (metadata.is_dir(), writable) {
        (true, true) => 0o700,
        (true, false) => 0o500,
        (false, true) => 0o600,
        (false, false) => 0o400,
    };
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("changed");
}

/// Not a test of its own: what the next one starts as somebody who may only read.
#[test]
fn child_reader() {
    let Some(place) = std::env::var_os(PLACE) else {
        return;
    };
    let (state, keys) = (
        Path::new(&place).join("state"),
        Path::new(&place).join("keys"),
    );
    let control = fs::write(state.join("control"), "");
    assert!(control.is_err(), "the directory can be written after all");
    let read = read_log(&state, Filter::default()).expect("readable");
    let read = read.filter(|record| record.as_ref().is_ok_and(|r| r.entry.input.is_some()));
    assert_eq!(read.count(), RECORDS);
    let report = verify_database(&state, &keys, &VerifyOptions::default()).expect("verifiable");
    assert!(report.is_intact(), "{report:?}");
    let stand_in = Place::new();
    let mut config = stand_in.config();
    (config.directory, config.keys) = (state, keys);
    let error = Log::open(config).expect_err("nothing can be appended here");
    assert!(
        matches!(error, OpenError::Io { .. } | OpenError::Database { .. }),
        "{error}"
    );
    assert!(error.hint().is_some());
}

#[test]
fn a_log_that_cannot_be_written_can_still_be_read_and_verified() {
    for settled in [true, false] {
        let place = Place::new();
        fill(&place);
        if settled {
            settle(&place);
        }
        let root = place.directory.parent().expect("a parent").to_owned();
        let is_root = fs::metadata(&root).expect("exists").uid() == 0;
        let owner = is_root.then_some(NOBODY);
        set_writable(&root, false, owner);
        // The program itself may lie where that account cannot look.
        let program = root.join("program");
        fs::set_permissions(&root, Permissions::from_mode(0o700)).expect("changed");
        fs::copy(std::env::current_exe().expect("this program"), &program).expect("copied");
        fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("changed");
        fs::set_permissions(&root, Permissions::from_mode(0o500)).expect("changed");
        let mut command = Command::new(&program);
        command.args(["--exact", "child_reader", "--nocapture"]);
        if let Some(owner) = owner {
            command.uid(owner).gid(owner);
        }
        command.current_dir("/").env("TMPDIR", "/tmp");
        let output = run(command, &place);
        set_writable(&root, true, None);
        assert!(
            output.status.success(),
            "settled {settled}: {}",
            said(&output)
        );
    }
}

/// Not a test of its own: what the next one starts with a limit on the size of files.
#[test]
fn child_that_fills_its_disk() {
    let Some(place) = std::env::var_os(PLACE) else {
        return;
    };
    let root = Path::new(&place);
    let stand_in = Place::new();
    let mut config = stand_in.config();
    (config.directory, config.keys) = (root.join("state"), root.join("keys"));
    let log = Log::open(config).expect("opens");
    let large = "x".repeat(2_000);
    let mut taken = Vec::new();
    let error = loop {
        match log.append(&note(&large), Durability::Durable) {
            Ok(receipt) => taken.extend(receipt.written()),
            Err(error) => break error,
        }
        assert!(taken.len() < 10_000, "the limit was never reached");
    };
    assert!(
        matches!(error, AppendError::DiskFull | AppendError::Failed(_)),
        "{error}"
    );
    assert!(error.hint().is_some());
    assert_eq!(log.failure(), Some(error), "whoever asks is told");
    let mut effect = attempt("effect");
    effect.output = Some(large);
    let effect = log.append(&effect, Durability::Durable);
    assert!(effect.is_err(), "nothing is announced that is not on disk");
    assert_eq!(all(&log).len(), taken.len(), "what was taken is there");
    let digests: Vec<_> = taken.iter().map(|w| w.digest.to_string()).collect();
    fs::write(root.join("taken"), digests.join("\n")).expect("said");
}

#[test]
fn a_file_that_may_not_grow_refuses_and_loses_nothing_that_was_taken() {
    let place = Place::new();
    let mut command = Command::new("sh");
    // Ignored, the signal leaves the system call to fail, as it does on a full disk.
    command.args(["-c", "trap '' XFSZ; ulimit -f 400; exec \"$0\" \"$@\""]);
    command.arg(std::env::current_exe().expect("this program"));
    command.args(["--exact", "child_that_fills_its_disk", "--nocapture"]);
    let output = run(command, &place);
    assert!(output.status.success(), "{}", said(&output));
    let root = place.directory.parent().expect("a parent");
    let taken = fs::read_to_string(root.join("taken")).expect("the child wrote it");
    let taken: Vec<&str> = taken.lines().collect();
    assert!(taken.len() > 10, "{} records fit", taken.len());
    // Without the limit everything goes on where it stopped.
    let log = place.open();
    assert!(log.open_report().recovery.is_none());
    let found: Vec<_> = all(&log)
        .iter()
        .map(|record| record.sealed.digest().to_string())
        .collect();
    assert_eq!(found, taken);
    log.append(&note("next"), Durability::Durable)
        .expect("there is room again");
    log.close().expect("closes");
    assert!(place.verify().is_intact());
}

#[test]
fn a_periodic_checkpoint_that_could_not_be_kept_is_kept_later() {
    let place = Place::new();
    let mut config = place.config();
    config.checkpoint_every = 10;
    let log = Log::open(config).expect("opens");
    fs::create_dir_all(&place.keys).expect("made");
    fs::set_permissions(&place.keys, Permissions::from_mode(0o700)).expect("changed");
    let file = place.keys.join("checkpoints.jsonl");
    fs::create_dir(&file).expect("in the way");
    for n in 0..15 {
        log.append(&note(&format!("record {n}")), Durability::Buffered)
            .expect("a record does not wait for its checkpoint");
    }
    let asked = log.checkpoint();
    assert!(
        matches!(asked, Err(AppendError::Checkpoint(_))),
        "who asks for one is told: {asked:?}"
    );
    fs::remove_dir(&file).expect("out of the way");
    log.append(&note("next"), Durability::Buffered)
        .expect("appended");
    let text = fs::read_to_string(&file).expect("kept");
    let kept: SignedCheckpoint = text.trim_end().parse().expect("valid");
    assert!(kept.head().seq > 15, "the newest: {kept:?}");
    log.close().expect("closes");
    let verified = place.verify();
    assert!(verified.is_intact(), "{verified:?}");
}

#[test]
fn a_checkpoint_that_could_not_be_kept_is_tried_again_at_the_end() {
    let place = Place::new();
    let mut config = place.config();
    config.checkpoint_every = 10;
    let log = Log::open(config).expect("opens");
    fs::create_dir_all(&place.keys).expect("made");
    fs::set_permissions(&place.keys, Permissions::from_mode(0o700)).expect("changed");
    let file = place.keys.join("checkpoints.jsonl");
    fs::create_dir(&file).expect("in the way");
    for n in 0..10 {
        log.append(&note(&format!("record {n}")), Durability::Buffered)
            .expect("appended");
    }
    fs::remove_dir(&file).expect("out of the way");
    log.close().expect("closes");
    let text = fs::read_to_string(&file).expect("kept");
    assert_eq!(text.lines().count(), 1);
    assert!(place.verify().is_intact());
}

//! Archives and how long they are kept.

#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::panic,
    reason = "a test fails by panicking, and these tamper with files behind the log's back"
)]

mod support;

use airlock_audit::{
    Break, Durability, EventType, Filter, Log, MaintenanceReport, PublicKey, ReadError, Retention,
    SignedCheckpoint, SigningKey, VerifyOptions, VerifyReport, read_log, verify_database,
};
use airlock_core::Timestamp;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rusqlite::Connection;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::PathBuf;
use support::{DAY, Place, START, all, note_at};

const PER_DAY: i64 = 30;

/// A log with `days` days of records, the last of which is today.
fn days(place: &Place, retention: Retention, days: i64) -> Log {
    let mut config = place.config();
    config.retention = retention;
    config.checkpoint_every = 25;
    let log = Log::open(config).expect("opens");
    for day in 0..days {
        place
            .clock
            .store(START + day * DAY, std::sync::atomic::Ordering::Relaxed);
        let entries: Vec<_> = (0..PER_DAY)
            .map(|n| note_at(START + day * DAY + n, &format!("day {day} record {n}")))
            .collect();
        for chunk in entries.chunks(6) {
            log.append_batch(chunk, Durability::Buffered)
                .expect("appended");
        }
    }
    log
}

fn maintain(log: &Log, day: i64) -> MaintenanceReport {
    log.maintain(Timestamp::from_micros(START + day * DAY + DAY / 2))
        .expect("maintained")
}

fn archives(place: &Place) -> Vec<PathBuf> {
    let mut found: Vec<_> = std::fs::read_dir(place.directory.join("segments"))
        .expect("listed")
        .map(|entry| entry.expect("listed").path())
        .collect();
    found.sort();
    found
}

fn rows(place: &Place) -> i64 {
    Connection::open(place.database())
        .and_then(|db| db.query_row("SELECT count(*) FROM records", [], |row| row.get(0)))
        .expect("counted")
}

#[test]
fn past_days_move_into_archives_and_read_back_the_same() {
    let place = Place::new();
    let log = days(&place, Retention::default(), 4);
    let before: Vec<_> = all(&log).into_iter().map(|record| record.sealed).collect();
    let report = maintain(&log, 3);
    assert_eq!(report.archived.len(), 3, "today stays");
    assert_eq!(archives(&place).len(), 3);
    assert!(rows(&place) < 40, "{} rows stay", rows(&place));
    let after: Vec<_> = all(&log).into_iter().map(|record| record.sealed).collect();
    assert_eq!(before, after);
    let backwards = log.read(Filter {
        newest_first: true,
        ..Filter::default()
    });
    let mut backwards: Vec<_> = backwards
        .expect("readable")
        .map(|record| record.expect("intact").sealed)
        .collect();
    backwards.reverse();
    assert_eq!(before, backwards);
    let middle = log.read(Filter {
        first: Some(20),
        last: Some(50),
        ..Filter::default()
    });
    assert_eq!(middle.expect("readable").count(), 31);
    let again = maintain(&log, 3);
    assert_eq!(again.archived, [], "a second round has nothing to do");
    log.append(&note_at(START + 3 * DAY, "next"), Durability::Durable)
        .expect("the chain goes on");
    log.close().expect("closes");
    let verified = place.verify();
    assert!(verified.is_intact(), "{verified:?}");
    assert_eq!(verified.archives, 3);
}

#[test]
fn the_chain_goes_on_when_every_row_is_archived() {
    let place = Place::new();
    let log = days(&place, Retention::default(), 2);
    maintain(&log, 10);
    assert_eq!(rows(&place), 0);
    let last = all(&log).last().expect("archived").sealed.seq();
    let receipt = log
        .append(&note_at(START + 10 * DAY, "next"), Durability::Durable)
        .expect("appended");
    assert_eq!(receipt.written().expect("durable").seq, last + 1);
    log.close().expect("closes");
    assert!(place.verify().is_intact());
}

#[test]
fn a_crash_between_archive_and_deletion_leaves_harmless_copies() {
    let place = Place::new();
    let log = days(&place, Retention::default(), 2);
    let before: Vec<_> = all(&log).into_iter().map(|record| record.sealed).collect();
    maintain(&log, 1);
    log.close().expect("closes");
    // As if the rows had not been deleted yet, and another archive had only been begun.
    let db = Connection::open(place.database()).expect("opens");
    for sealed in &before {
        db.execute(
            "INSERT OR IGNORE INTO records VALUES (?1, ?2)",
            (sealed.seq().cast_signed(), sealed.stored()),
        )
        .expect("put back");
    }
    std::fs::write(place.directory.join("segments/x.draft"), "half").expect("written");
    assert!(place.verify().is_intact(), "copies are tolerated");
    let log = place.open();
    let after: Vec<_> = all(&log).into_iter().map(|record| record.sealed).collect();
    assert_eq!(before, after, "nothing is seen twice");
    maintain(&log, 1);
    assert!(rows(&place) < 40, "the copies are gone");
    assert_eq!(archives(&place).len(), 1, "and so is the draft");
    log.close().expect("closes");
    // A copy that differs is no copy.
    db.execute("INSERT INTO records VALUES (3, x'00')", [])
        .expect("forged");
    let report = place.verify();
    assert_eq!(report.first_bad(), Some(3), "{report:?}");
}

#[test]
fn old_archives_are_deleted_with_a_record_that_verification_can_start_from() {
    let place = Place::new();
    let retention = Retention {
        days: 3,
        ..Retention::default()
    };
    let log = days(&place, retention, 6);
    // Nothing is known of the clock in the first round.
    assert_eq!(maintain(&log, 4).deleted, []);
    let report = maintain(&log, 5);
    assert_eq!(report.deleted.len(), 2, "{report:?}");
    let filter = Filter {
        event: Some(EventType::AuditArchiveDeleted),
        ..Filter::default()
    };
    let said: Vec<_> = log.read(filter).expect("readable").flatten().collect();
    let last = said.last().expect("said so");
    assert_eq!(last.entry.metadata["last"], report.deleted[1].1.to_string());
    log.close().expect("closes");
    let verified = place.verify();
    assert!(verified.is_intact(), "{verified:?}");
    // A pin over what was deleted is reported, one over what is kept is met.
    let (old, kept) = pins_around(&place, verified.chain.expect("whole").start.seq);
    let report = verify_pinned(&place, &[kept, old]);
    assert_eq!((report.is_intact(), report.deleted_pins), (true, 1));
    assert_eq!(verify_pinned(&place, &[kept]).deleted_pins, 0);
    // Deleting one more by hand is not covered by any record.
    std::fs::remove_file(&archives(&place)[0]).expect("deleted");
    let report = place.verify();
    assert!(report.unexplained_start.is_some() && !report.is_intact());
    let start = report.chain.expect("whole").start.seq;
    let report = verify_pinned(&place, &[old]);
    let checkpoint = old.head().seq;
    assert_eq!(report.chain, Err(Break::Unmet { start, checkpoint }));
    assert_eq!(
        (report.first_bad(), report.deleted_pins),
        (Some(checkpoint), 0)
    );
}

/// The log's own first and last checkpoint: before and after `start`.
fn pins_around(place: &Place, start: u64) -> (SignedCheckpoint, SignedCheckpoint) {
    let kept = std::fs::read_to_string(place.keys.join("checkpoints.jsonl")).expect("readable");
    let pins: Vec<SignedCheckpoint> = kept
        .lines()
        .map(|line| line.parse().expect("valid"))
        .collect();
    let first = *pins.first().expect("signed");
    let last = *pins.last().expect("signed");
    assert!(first.head().seq < start && start < last.head().seq);
    (first, last)
}

fn verify_pinned(place: &Place, pins: &[SignedCheckpoint]) -> VerifyReport {
    let options = VerifyOptions {
        pins: pins.to_vec(),
        ..VerifyOptions::default()
    };
    verify_database(&place.directory, &place.keys, &options).expect("verifiable")
}

#[test]
fn a_checkpoint_by_neither_the_logs_key_nor_a_pins_is_a_break() {
    let place = Place::new();
    let log = days(&place, Retention::default(), 1);
    log.close().expect("closes");
    let chain = place.verify().chain.expect("whole");
    let own = chain.attested.expect("signed").key;
    let kept = std::fs::read_to_string(place.keys.join("checkpoints.jsonl")).expect("readable");
    let pin = kept.lines().next().expect("signed").parse().expect("valid");
    // Somebody puts another key in place of the log's, and takes its checkpoints away.
    let stranger = SigningKey::from_secret(&[9; 32]);
    std::fs::write(place.keys.join("audit.key"), [9; 32]).expect("replaced");
    std::fs::remove_file(place.keys.join("checkpoints.jsonl")).expect("removed");
    let report = place.verify();
    let broken = report.chain.expect_err("signed by another");
    assert_eq!(broken.kind(), "bad_checkpoint");
    // Whoever knows the right key, or has a pin by it, sees the log as it is.
    let options = |keys: &[PublicKey]| VerifyOptions {
        keys: keys.to_vec(),
        ..VerifyOptions::default()
    };
    let verify = |keys: &[PublicKey]| {
        verify_database(&place.directory, &place.keys, &options(keys)).expect("verifiable")
    };
    assert!(verify(&[own]).is_intact());
    assert!(verify_pinned(&place, &[pin]).is_intact());
    assert!(!verify(&[stranger.public()]).is_intact());
}

#[test]
fn a_missing_archive_in_the_middle_is_a_gap() {
    let place = Place::new();
    let log = days(&place, Retention::default(), 4);
    let report = maintain(&log, 3);
    log.close().expect("closes");
    std::fs::remove_file(&archives(&place)[1]).expect("deleted");
    assert_eq!(place.verify().first_bad(), Some(report.archived[1].0));
}

#[test]
fn a_full_log_warns_once_a_level_and_makes_room_at_the_limit() {
    let place = Place::new();
    let log = place.open();
    // Noise, so that most of the log is in its archives.
    let mut random = StdRng::seed_from_u64(5);
    for day in 0..5 {
        for n in 0..60 {
            let noise: Vec<String> = (0..60)
                .map(|_| format!("{:016x}", random.random::<u64>()))
                .collect();
            add(&log, START + day * DAY + n, &noise.concat());
        }
    }
    let used = maintain(&log, 4).bytes;
    log.close().expect("closes");
    let count = |log: &Log, event| {
        let filter = Filter {
            event: Some(event),
            ..Filter::default()
        };
        log.read(filter).expect("readable").count()
    };
    for (percent, warnings, critical, deletes) in [
        (50, 0, 0, false),
        (85, 1, 0, false),
        (85, 1, 0, false),
        (97, 1, 1, false),
        (120, 1, 1, true),
    ] {
        let mut config = place.config();
        config.retention.bytes = used * 100 / percent;
        let log = Log::open(config).expect("opens");
        let report = maintain(&log, 4);
        assert_eq!(
            !report.deleted.is_empty(),
            deletes,
            "at {percent} %: {report:?}"
        );
        let found = (
            count(&log, EventType::AuditStorageWarning),
            count(&log, EventType::AuditStorageCritical),
        );
        if !deletes {
            assert_eq!(found, (warnings, critical), "at {percent} %");
        }
        log.close().expect("closes");
    }
    let verified = place.verify();
    assert!(verified.is_intact(), "{verified:?}");
}

#[test]
fn a_damaged_archive_is_found() {
    let place = Place::new();
    let log = days(&place, Retention::default(), 3);
    let report = maintain(&log, 2);
    log.close().expect("closes");
    let path = &archives(&place)[1];
    let whole = std::fs::read(path).expect("readable");
    for offset in (0..whole.len()).step_by(7) {
        let mut damaged = whole.clone();
        damaged[offset] ^= 0x10;
        std::fs::write(path, &damaged).expect("written");
        let found = place.verify();
        assert!(!found.is_intact(), "offset {offset} of {}", whole.len());
        let first = found.first_bad().unwrap_or(u64::MAX);
        assert!(first >= report.archived[1].0, "offset {offset}: {found:?}");
    }
    std::fs::write(path, &whole).expect("written");
    assert!(place.verify().is_intact());
}

/// Numbers that were read, and numbers that were told to be unreadable.
fn walk(log: &Log, newest_first: bool) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let filter = Filter {
        newest_first,
        ..Filter::default()
    };
    let (mut read, mut told) = (BTreeSet::new(), BTreeSet::new());
    for record in log.read(filter).expect("the log can be read") {
        let (kind, seq) = match record {
            Ok(record) => (&mut read, record.sealed.head().seq),
            Err(ReadError::Record { seq, .. }) => (&mut told, seq),
            Err(error) => panic!("it ends at {error}"),
        };
        assert!(kind.insert(seq), "{seq} comes twice");
    }
    (read, told)
}

#[test]
fn a_damaged_archive_keeps_nobody_from_the_records_around_it() {
    let place = Place::new();
    let log = days(&place, Retention::default(), 4);
    let report = maintain(&log, 3);
    let (whole, none) = walk(&log, false);
    assert!(none.is_empty());
    let path = &archives(&place)[1];
    let (first, last) = report.archived[1];
    let content = std::fs::read(path).expect("readable");
    let mut met = 0;
    for offset in (0..content.len()).step_by(11) {
        let mut damaged = content.clone();
        damaged[offset] ^= 0x10;
        std::fs::write(path, &damaged).expect("written");
        let (read, told) = walk(&log, false);
        assert_eq!((&read, &told), (&walk(&log, true).0, &walk(&log, true).1));
        let all: BTreeSet<_> = read.union(&told).copied().collect();
        assert_eq!(all, whole, "offset {offset}");
        assert!(
            told.iter().all(|seq| (first..=last).contains(seq)),
            "{told:?}"
        );
        met += usize::from(!told.is_empty());
    }
    assert!(met > 20, "{met} of the damages are met");
    for cut in [0, 1, 70, content.len() / 2, content.len() - 1] {
        std::fs::write(path, &content[..cut]).expect("written");
        for newest_first in [false, true] {
            let (read, told) = walk(&log, newest_first);
            assert_eq!(told, (first..=last).collect(), "{cut} bytes are left");
            assert_eq!(read.len() + told.len(), whole.len());
        }
    }
}

#[test]
fn damage_in_one_block_of_an_archive_costs_the_records_of_that_block_alone() {
    let place = Place::new();
    let log = days(&place, Retention::default(), 1);
    // What packs badly, so that the blocks take up the file.
    let mut random = StdRng::seed_from_u64(7);
    for n in 0..600 {
        let text: String = (0..3_000).map(|_| random.random_range('a'..='z')).collect();
        add(&log, START + n, &text);
    }
    place
        .clock
        .store(START + DAY, std::sync::atomic::Ordering::Relaxed);
    add(&log, START + DAY, "the next day");
    let report = maintain(&log, 1);
    let (first, last) = report.archived[0];
    let (whole, none) = walk(&log, false);
    assert!(none.is_empty());
    let path = &archives(&place)[0];
    let content = std::fs::read(path).expect("readable");
    let mut kinds = BTreeSet::new();
    for part in 1..8 {
        let mut damaged = content.clone();
        let at = content.len() * part / 8;
        damaged[at..at + 64].fill(0xff);
        std::fs::write(path, &damaged).expect("written");
        let (read, told) = walk(&log, false);
        assert_eq!((&read, &told), (&walk(&log, true).0, &walk(&log, true).1));
        assert_eq!(read.union(&told).copied().collect::<BTreeSet<_>>(), whole);
        assert!(
            !told.is_empty() && told.len() as u64 <= last - first,
            "{told:?}"
        );
        kinds.insert(told.first().copied());
    }
    assert!(kinds.len() > 1, "several blocks are met: {kinds:?}");
}

#[test]
fn an_archive_that_says_it_holds_everything_hides_nothing() {
    let place = Place::new();
    let log = days(&place, Retention::default(), 4);
    maintain(&log, 3);
    let (whole, none) = walk(&log, false);
    assert!(none.is_empty());
    let segments = place.directory.join("segments");
    let extension = archives(&place)[0].extension().map(OsStr::to_owned);
    let extension = extension.expect("there is one");
    let named = |name: &str| segments.join(name).with_extension(&extension);
    for name in [
        "1-18446744073709551615",
        "0-18446744073709551615",
        "32-33",
        "90-300",
        "500-600",
        "0-0",
    ] {
        let path = named(name);
        for content in [&b""[..], b"ALSEG\0\0\x01"] {
            std::fs::write(&path, content).expect("written");
            for newest_first in [false, true] {
                let (read, told) = walk(&log, newest_first);
                assert_eq!((&read, &told), (&whole, &none), "{name}, {newest_first}");
            }
        }
        std::fs::remove_file(&path).expect("removed");
        let pipe = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(pipe.expect("started").success());
        assert_eq!(walk(&log, false), (whole.clone(), none.clone()), "a pipe");
        std::fs::remove_file(&path).expect("removed");
    }
}

#[test]
fn a_damaged_archive_beside_a_damaged_database_hides_nothing_readable() {
    let place = Place::new();
    let log = days(&place, Retention::default(), 4);
    let report = maintain(&log, 3);
    for n in 0..400 {
        add(&log, START + 3 * DAY, &format!("{n} {}", "x".repeat(200)));
    }
    log.close().expect("closes");
    let (whole, _) = walk(&place.open(), false);
    let (first, last) = report.archived[2];
    let path = &archives(&place)[2];
    std::fs::write(path, b"").expect("written");
    // The first leaf of the rows: whatever page that is, it begins with what SQLite says of leaves.
    let database = std::fs::read(place.database()).expect("read");
    let rows = place.database();
    let mut met = 0;
    for page in 2..database.len() / 8_192 {
        let mut damaged = database.clone();
        if damaged[page * 8_192] != 0x0d {
            continue;
        }
        damaged[page * 8_192] = 0xff;
        std::fs::write(&rows, &damaged).expect("written");
        for newest_first in [false, true] {
            let filter = Filter {
                newest_first,
                ..Filter::default()
            };
            let (mut read, mut told) = (BTreeSet::new(), BTreeSet::new());
            let records = read_log(&place.directory, filter).expect("the log can be read");
            for record in records {
                match record {
                    Ok(record) => assert!(read.insert(record.sealed.head().seq)),
                    Err(ReadError::Record { seq, .. }) => assert!(told.insert(seq)),
                    Err(error) => panic!("it ends at {error}"),
                }
            }
            assert!((first..=last).all(|seq| told.contains(&seq)), "{told:?}");
            let all: BTreeSet<_> = read.union(&told).copied().collect();
            // What a damaged end held is not known.
            let missing: Vec<_> = whole.difference(&all).collect();
            assert!(missing.iter().all(|seq| **seq > last), "{missing:?}");
            assert!((1..first).all(|seq| read.contains(&seq)), "{read:?}");
            met += usize::from(told.len() as u64 > last - first + 1);
        }
    }
    assert!(met > 4, "{met}");
}

fn add(log: &Log, micros: i64, text: &str) {
    log.append(&note_at(micros, text), Durability::Durable)
        .expect("appended");
}

#[test]
fn a_clock_that_was_wrong_for_a_moment_neither_stops_archiving_nor_costs_archives() {
    let place = Place::new();
    let log = days(&place, Retention::default(), 1);
    add(&log, 0, "the clock says 1970");
    let report = maintain(&log, 1);
    assert_eq!((report.archived.len(), report.deleted.len()), (1, 0));
    add(&log, START + 30_000 * DAY, "the clock says 2108");
    // While it is ahead nothing is known to be over.
    assert_eq!(maintain(&log, 2).archived, []);
    add(&log, START + 2 * DAY, "and is right again");
    let report = maintain(&log, 3);
    assert_eq!((report.archived.len(), report.deleted.len()), (1, 0));
    assert_eq!(rows(&place), 0);
    // Rounds of a clock that is ahead judge nothing by its age, and leave those after them alone.
    for day in [30_000, 30_000, 4, 5] {
        let report = maintain(&log, day);
        assert_eq!(report.deleted, [], "day {day}");
        assert_eq!(report.clock_jumped, day == 30_000);
    }
    // What it dated does not keep archives for ever either; a machine that was off deletes a day later.
    assert_eq!(maintain(&log, 100).deleted, []);
    let report = maintain(&log, 101);
    assert_eq!(report.deleted.len(), 2);
    drop(log);
    assert!(place.verify().is_intact());
}

#[test]
fn no_archive_is_deleted_where_that_makes_no_room() {
    let place = Place::new();
    let retention = Retention {
        bytes: 512 * 1024,
        ..Retention::default()
    };
    let log = days(&place, retention, 2);
    // A single day that is larger than all of the log may be.
    for n in 0..250 {
        let text = format!("{n} ").repeat(1_000);
        add(&log, START + DAY + 100 + n, &text);
    }
    let report = maintain(&log, 1);
    assert_eq!((report.archived.len(), report.deleted.len()), (1, 0));
    assert!(report.bytes > retention.bytes);
    let critical =
        |record: &airlock_audit::Record| record.entry.event == EventType::AuditStorageCritical;
    assert!(all(&log).iter().any(critical), "a person is told");
}

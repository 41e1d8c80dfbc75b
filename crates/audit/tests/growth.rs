//! The write-ahead log stays short, whoever appends: opening the log reads all of it.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use airlock_audit::{Buffering, Durability, Log};
use std::fs;
use support::{Place, all, attempt, note};

/// One page in the write-ahead log, with its header.
const FRAME: u64 = 8_192 + 24;

fn pages_ahead(place: &Place) -> u64 {
    let ahead = place.directory.join("audit.db-wal");
    fs::metadata(ahead).expect("there is one").len() / FRAME
}

#[test]
fn many_short_commands_leave_a_short_write_ahead_log() {
    let place = Place::new();
    let mut longest = 0;
    for n in 0..60 {
        let log = place.open();
        log.append(&attempt(&format!("command-{n}")), Durability::Durable)
            .expect("appended");
        log.append(&note("done"), Durability::Buffered)
            .expect("appended");
        log.close().expect("closes");
        longest = longest.max(pages_ahead(&place));
    }
    assert!(longest > 8, "a few commands share one move: {longest}");
    assert!(longest < 64, "{longest} pages to read at the next start");
    assert!(place.verify().is_intact());
}

#[test]
fn a_long_lived_writer_lets_it_grow_and_then_begins_anew() {
    let place = Place::new();
    let mut config = place.config();
    config.buffering = Buffering::WINDOW;
    let log = Log::open(config).expect("opens");
    let large = "x".repeat(4_000);
    for _ in 0..2_000 {
        log.append(&note(&large), Durability::Buffered)
            .expect("appended");
    }
    log.flush().expect("flushed");
    let ahead = pages_ahead(&place);
    assert!((500..1_500).contains(&ahead), "{ahead} pages");
    log.close().expect("closes");
    assert!(place.verify().is_intact());
}

/// What a killed machine leaves: the files as they are, with nobody who tidies them.
#[test]
fn room_made_ahead_is_no_record_and_hides_none() {
    let place = Place::new();
    let log = place.open_windowed();
    for n in 0..60 {
        log.append(&note(&format!("record {n}")), Durability::Durable)
            .expect("appended");
    }
    let left = Place::new();
    fs::create_dir_all(&left.directory).expect("made");
    for name in ["audit.db", "audit.db-wal"] {
        fs::copy(place.directory.join(name), left.directory.join(name)).expect("copied");
    }
    let ahead = fs::read(left.directory.join("audit.db-wal")).expect("read");
    let used = ahead.iter().rposition(|byte| *byte != 0);
    let free = ahead.len() as u64 - used.expect("there are frames") as u64;
    assert!(free > 32 * FRAME, "room for {free} bytes");

    let records = |found: &[airlock_audit::Record]| -> Vec<_> {
        let digests = found.iter().map(|record| *record.sealed.digest());
        digests.collect()
    };
    let written = records(&all(&log));
    let found = left.open();
    assert_eq!(records(&all(&found)), written, "as many, and the same");
    found
        .append(&note("next"), Durability::Durable)
        .expect("appended");
    found.close().expect("closes");
    let report = left.verify();
    assert_eq!(report.chain.map(|verified| verified.records), Ok(61));
}

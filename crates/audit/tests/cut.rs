//! Logs that end before what was signed, or hold another record in its place: seen at the next start,
//! and no number that was signed for is given to another record.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and these tamper with databases behind the log's back"
)]

mod support;

use airlock_audit::{
    AppendError, Durability, EventType, Filter, Health, Log, LogConfig, Retention,
    SignedCheckpoint, seal,
};
use airlock_core::Timestamp;
use rusqlite::Connection;
use std::time::Duration;
use support::{DAY, Place, START, all, note};

const PATIENCE: Duration = Duration::from_secs(10);

fn tamper(place: &Place, sql: &str) {
    let db = Connection::open(place.database()).expect("opens");
    db.busy_timeout(PATIENCE).expect("set");
    db.execute_batch(sql).expect("tampered with");
}

/// A log of some fifty records, signed every ten.
fn filled() -> Place {
    let place = Place::new();
    let mut config = place.config();
    config.checkpoint_every = 10;
    let log = Log::open(config).expect("opens");
    for n in 0..50 {
        log.append(&note(&format!("record {n}")), Durability::Buffered)
            .expect("appended");
    }
    log.close().expect("closes");
    place
}

/// The checkpoints beside the key, as they were written.
fn kept(place: &Place) -> Vec<SignedCheckpoint> {
    let text = std::fs::read_to_string(place.keys.join("checkpoints.jsonl")).expect("kept");
    text.lines()
        .map(|line| line.parse().expect("valid"))
        .collect()
}

fn newest(place: &Place) -> SignedCheckpoint {
    let kept = kept(place).into_iter();
    kept.max_by_key(|signed| signed.head().seq).expect("signed")
}

/// The numbers of the records of breaks.
fn breaks(log: &Log) -> Vec<u64> {
    let filter = Filter {
        event: Some(EventType::AuditChainBreak),
        ..Filter::default()
    };
    let found = log.read(filter).expect("readable");
    found
        .map(|record| record.expect("intact").sealed.seq())
        .collect()
}

fn append(log: &Log) -> u64 {
    let receipt = log.append(&note("next"), Durability::Durable);
    let written = receipt.expect("appended").written();
    written.expect("durable").seq
}

#[track_caller]
fn assert_broken(log: &Log, first_bad: u64, said: &str) {
    let health = log.wait_for_health(PATIENCE);
    let Health::Broken { seq, detail } = &health else {
        panic!("{health:?}");
    };
    assert_eq!(*seq, Some(first_bad), "{detail}");
    assert!(detail.contains(said), "{detail}");
}

#[test]
fn a_log_cut_below_what_was_signed_is_broken_at_every_start_and_goes_on_after_it() {
    for cut in [0, 5, 40] {
        let place = filled();
        let signed = newest(&place).head().seq;
        assert!(signed > 41);
        tamper(&place, &format!("DELETE FROM records WHERE seq > {cut}"));
        for start in 0..3 {
            let log = place.open();
            assert_broken(&log, cut + 1, &format!("vouches for record {signed}"));
            assert_eq!(breaks(&log), [signed + 1], "start {start} after {cut}");
            assert_eq!(append(&log), signed + 2 + start, "after {cut}");
            log.close().expect("closes");
        }
        let report = place.verify();
        assert_eq!(report.first_bad(), Some(cut + 1), "the gap stays");
        let broken = report.chain.expect_err("broken");
        assert_eq!(broken.kind(), "gap");
    }
}

#[test]
fn rows_that_are_gone_cannot_be_passed_off_as_archived() {
    let place = filled();
    let head = newest(&place).head();
    let mut archived = head.seq.to_be_bytes().to_vec();
    archived.extend_from_slice(head.digest.as_bytes());
    let db = Connection::open(place.database()).expect("opens");
    db.execute("INSERT INTO meta VALUES ('archived', ?1)", [archived])
        .expect("forged");
    drop(db);
    tamper(&place, "DELETE FROM records");
    assert_broken(&place.open(), 1, "the chain ends at record 0");
}

#[test]
fn another_record_in_the_place_of_a_signed_one_is_broken_at_start() {
    let place = filled();
    let head = newest(&place).head();
    let records = all(&place.open());
    let index = usize::try_from(head.seq).expect("small") - 1;
    let forged = seal(&records[index - 1].sealed.head(), &note("forged")).expect("sealed");
    assert_eq!(forged.seq(), head.seq);
    tamper(
        &place,
        &format!("DELETE FROM records WHERE seq >= {}", head.seq),
    );
    let db = Connection::open(place.database()).expect("opens");
    db.execute(
        "INSERT INTO records VALUES (?1, ?2)",
        (forged.seq().cast_signed(), forged.stored()),
    )
    .expect("forged");
    drop(db);
    assert_broken(&place.open(), head.seq, "the chain was rewritten");
}

#[test]
fn the_highest_checkpoint_counts_wherever_it_stands_in_the_file() {
    let place = filled();
    let (signed, first) = (newest(&place).head().seq, kept(&place)[0]);
    let file = place.keys.join("checkpoints.jsonl");
    let mut text = std::fs::read_to_string(&file).expect("kept");
    text.push_str(&format!("{first}\n").repeat(100));
    // A line that only claims a higher number counts for nothing.
    let claim = newest(&place)
        .to_string()
        .replace(&format!("\"seq\":{signed}"), "\"seq\":1000");
    text.push_str(&claim);
    text.push('\n');
    std::fs::write(&file, text).expect("written");
    let log = place.open();
    assert!(matches!(
        log.wait_for_health(PATIENCE),
        Health::Verified { .. }
    ));
    let next = append(&log);
    log.close().expect("closes");
    tamper(&place, "DELETE FROM records WHERE seq > 40");
    let log = place.open();
    assert_broken(&log, 41, &format!("vouches for record {signed}"));
    assert!(next < 1_000 && append(&log) < 1_000);
}

#[test]
fn a_log_cut_while_it_is_open_is_not_signed_below_and_goes_on_after_what_was_signed() {
    let place = Place::new();
    let (own, other) = (place.open(), place.open());
    for log in [&own, &other] {
        log.wait_for_health(PATIENCE);
    }
    for _ in 0..10 {
        append(&own);
    }
    let signed = own.checkpoint().expect("signed").head().seq;
    tamper(&place, "DELETE FROM records WHERE seq > 3");
    // This one knows only what it signed itself.
    let refused = other.checkpoint();
    assert!(
        matches!(refused, Err(AppendError::Unsigned(_))),
        "{refused:?}"
    );
    assert_eq!(newest(&place).head().seq, signed);
    assert_eq!(append(&other), signed + 2, "after the record of the break");
    let again = other.checkpoint().expect("above it");
    assert!(again.head().seq > signed);
    tamper(&place, "DELETE FROM records WHERE seq > 3");
    assert!(append(&own) > signed, "it signed that itself");
    for log in [own, other] {
        log.close().expect("closes");
    }
}

#[test]
fn archived_and_deleted_records_are_no_break() {
    let place = Place::new();
    let log = place.open();
    for _ in 0..20 {
        append(&log);
    }
    let signed = log.checkpoint().expect("signed").head().seq;
    let later = Timestamp::from_micros(START + 10 * DAY);
    let archived = log.maintain(later).expect("maintained").archived;
    assert_eq!(archived, [(1, signed + 1)], "no row is left");
    log.close().expect("closes");
    let sound = |log: &Log| {
        let health = log.wait_for_health(PATIENCE);
        assert!(matches!(health, Health::Verified { .. }), "{health:?}");
        assert!(breaks(log).is_empty());
    };
    let log = place.open();
    sound(&log);
    let nothing = Retention {
        bytes: 1,
        ..Retention::default()
    };
    let report = log.maintain_within(nothing, later).expect("maintained");
    assert_eq!(report.deleted, [(1, signed + 1)]);
    log.close().expect("closes");
    let log = place.open();
    sound(&log);
    assert!(append(&log) > signed + 1);
}

#[test]
fn checkpoints_that_others_sign_meanwhile_are_no_break() {
    let place = Place::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..15 {
                    let log = place.open();
                    append(&log);
                    log.checkpoint().expect("signed");
                    let health = log.wait_for_health(PATIENCE);
                    assert!(matches!(health, Health::Verified { .. }), "{health:?}");
                    log.close().expect("closes");
                }
            });
        }
    });
    assert!(place.verify().is_intact());
    assert!(breaks(&place.open()).is_empty());
}

fn stopping(place: &Place) -> LogConfig {
    let mut config = place.config().long_lived();
    config.stop_on_break = true;
    config.checkpoint_every = 1;
    config
}

#[test]
fn who_stops_at_a_break_does_not_sign_over_it() {
    let place = filled();
    let log = Log::open(stopping(&place)).expect("opens");
    log.wait_for_health(PATIENCE);
    log.checkpoint().expect("a chain that holds is signed");
    log.close().expect("closes");
    let signed = newest(&place).head().seq;
    tamper(&place, "DELETE FROM records WHERE seq > 30");
    for _ in 0..3 {
        let log = Log::open(stopping(&place)).expect("opens");
        assert_broken(&log, 31, &format!("vouches for record {signed}"));
        append(&log);
        let refused = log.checkpoint();
        assert!(
            matches!(refused, Err(AppendError::Unsigned(_))),
            "{refused:?}"
        );
        log.close().expect("closes");
    }
    assert_eq!(newest(&place).head().seq, signed);
}

#[test]
fn a_new_key_beside_what_another_signed_is_told_from_damage() {
    for everything in [false, true] {
        let place = filled();
        let old = newest(&place).checkpoint().key;
        if everything {
            std::fs::remove_dir_all(&place.keys).expect("gone");
        } else {
            std::fs::remove_file(place.keys.join("audit.key")).expect("gone");
        }
        let log = place.open();
        let signed = log.checkpoint().expect("signed");
        assert_ne!(signed.checkpoint().key, old);
        assert_eq!(log.earlier_key(&signed).expect("readable"), Some(old));
        log.close().expect("closes");
        let report = place.verify();
        assert!(!report.is_intact() && report.is_by_another_key());
        assert_eq!(report.other_keys, [old], "{report:?}");
        assert_eq!(report.expected_keys, [signed.checkpoint().key]);
        tamper(&place, "UPDATE records SET stored = x'00' WHERE seq = 3");
        assert!(!place.verify().is_by_another_key());
    }
    let place = filled();
    let log = place.open();
    let signed = log.checkpoint().expect("signed");
    assert_eq!(log.earlier_key(&signed).expect("readable"), None);
}

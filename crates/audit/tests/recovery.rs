//! Damage: every flipped byte is found or harmless, and what can be read is rescued.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and these damage databases behind the log's back"
)]

mod support;

use airlock_audit::{
    Durability, EventType, ExportFormat, Filter, Log, OpenError, ReadError, StartupCheck,
    VerifyOptions, log_stats, read_log, recover, verify_database,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rusqlite::Connection;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use support::{Place, all, note};

/// The page size of the log's database.
const PAGE: usize = 8_192;

/// A log of `records` records in one file, without a write-ahead log beside it.
fn settled(records: usize, every: u64) -> Place {
    let place = Place::new();
    let mut config = place.config();
    config.checkpoint_every = every;
    let log = Log::open(config).expect("opens");
    for n in 0..records {
        // Some records are larger than a page.
        let text = format!("record {n} ").repeat(1 + 60 * (n % 11));
        let durability = if n % 50 == 49 {
            Durability::Durable
        } else {
            Durability::Buffered
        };
        log.append(&note(&text), durability).expect("appended");
    }
    log.close().expect("closes");
    settle(&place);
    place
}

fn settle(place: &Place) {
    let db = Connection::open(place.database()).expect("opens");
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .expect("one file");
    drop(db);
    for companion in ["audit.db-wal", "audit.db-shm"] {
        let _ = std::fs::remove_file(place.directory.join(companion));
    }
}

fn stored(directory: &Path) -> Option<Vec<Vec<u8>>> {
    let records = read_log(directory, Filter::default()).ok()?;
    records
        .map(|record| record.ok().map(|record| record.sealed.into_stored()))
        .collect()
}

/// Finds each record's bytes in the file, where they are in one piece. SQLite leaves old copies in
/// pages it has split: a record found twice is left out, because only one of the two is live.
fn places(file: &[u8], records: &[Vec<u8>]) -> Vec<(usize, usize, u64)> {
    let mut found = Vec::new();
    for (index, record) in records.iter().enumerate() {
        let copies = file.windows(record.len()).enumerate();
        let mut copies = copies.filter(|(_, window)| window == record);
        if let (Some((at, _)), None) = (copies.next(), copies.next()) {
            found.push((at, at + record.len(), index as u64 + 1));
        }
    }
    found
}

#[test]
fn every_flipped_byte_is_found_or_changes_nothing() {
    let place = settled(40, 16);
    let whole = std::fs::read(place.database()).expect("readable");
    let records = stored(&place.directory).expect("intact");
    assert!(place.verify().is_intact());
    let places = places(&whole, &records);
    assert!(
        places.len() > 12,
        "{} records are in one piece",
        places.len()
    );
    let mut random = StdRng::seed_from_u64(42);
    let mut offsets: Vec<usize> = (0..whole.len().min(300)).collect();
    offsets.extend((0..3_000).map(|_| random.random_range(0..whole.len())));
    let (mut found, mut harmless) = (0, 0);
    for offset in offsets {
        let mut damaged = whole.clone();
        damaged[offset] ^= 1 << random.random_range(0..8);
        std::fs::write(place.database(), &damaged).expect("written");
        let hit = places
            .iter()
            .find(|(start, end, _)| (*start..*end).contains(&offset))
            .map(|(_, _, seq)| *seq);
        let report = verify_database(&place.directory, &place.keys, &VerifyOptions::default());
        match report {
            Ok(report) if report.is_intact() => {
                assert_eq!(hit, None, "offset {offset} is in a record");
                let read = stored(&place.directory);
                assert!(
                    read.as_ref() == Some(&records),
                    "offset {offset} went unnoticed"
                );
                harmless += 1;
            }
            Ok(report) => {
                if let Some(seq) = hit {
                    assert_eq!(report.first_bad(), Some(seq), "offset {offset}");
                }
                found += 1;
            }
            Err(error) => {
                assert_eq!(hit, None, "offset {offset}: {error} names no record");
                found += 1;
            }
        }
        // A reader may have left these beside the changed file.
        for companion in ["audit.db-wal", "audit.db-shm"] {
            let _ = std::fs::remove_file(place.directory.join(companion));
        }
    }
    assert!(
        found > 1_000 && harmless > 50,
        "{found} found, {harmless} harmless"
    );
}

type Damage = fn(&mut Vec<u8>);

fn garbage(file: &mut Vec<u8>) {
    *file = b"this is no database at all ".repeat(500);
}

fn half(file: &mut Vec<u8>) {
    file.truncate(file.len() / 2 / PAGE * PAGE + 100);
}

fn header(file: &mut [u8]) {
    file[..PAGE].fill(0);
}

fn random_pages(file: &mut [u8]) {
    let mut random = StdRng::seed_from_u64(7);
    let pages = file.len() / PAGE;
    for _ in 0..pages / 5 {
        let page = random.random_range(1..pages);
        file[page * PAGE..(page + 1) * PAGE].fill(0xa5);
    }
}

#[test]
fn a_damaged_database_is_set_aside_and_what_can_be_read_goes_on() {
    let cases: [(&str, Damage, std::ops::RangeInclusive<u64>); 5] = [
        ("garbage", garbage, 0..=0),
        ("empty", Vec::clear, 0..=0),
        ("half", half, 50..=150),
        ("header", |file| header(file), 150..=206),
        ("random pages", |file| random_pages(file), 20..=200),
    ];
    for (case, damage, rescued) in cases {
        let place = settled(200, 50);
        let before = stored(&place.directory).expect("intact");
        let mut file = std::fs::read(place.database()).expect("readable");
        damage(&mut file);
        std::fs::write(place.database(), &file).expect("written");
        let mut config = place.config();
        config.startup = StartupCheck::Pages;
        let log = Log::open(config).expect(case);
        let report = log.open_report().recovery.clone().expect(case);
        assert!(rescued.contains(&report.rescued), "{case}: {report:?}");
        let aside = report.set_aside.as_ref().expect("kept");
        let kept = std::fs::read(aside).expect("kept");
        assert!(
            kept == file || file.is_empty(),
            "{case}: nothing is deleted"
        );
        // Lost and rescued together are everything that was signed for.
        let lost: u64 = report
            .lost
            .iter()
            .map(|(first, last)| last - first + 1)
            .sum();
        assert!(
            report.rescued + lost >= before.len() as u64 - 2,
            "{case}: {report:?}"
        );
        assert!(report.message().contains("audit log was damaged"), "{case}");
        let records = all(&log);
        let broken = records.last().expect("there is a record of the break");
        assert_eq!(broken.entry.event, EventType::AuditChainBreak, "{case}");
        assert_eq!(broken.sealed.seq(), report.recorded, "{case}");
        for record in &records[..records.len() - 1] {
            let index = usize::try_from(record.sealed.seq()).expect("small") - 1;
            assert_eq!(
                before[index],
                record.sealed.stored(),
                "{case}: rescued unchanged"
            );
        }
        let next = log.append(&note("next"), Durability::Durable).expect(case);
        assert_eq!(
            next.written().expect("durable").seq,
            report.recorded + 1,
            "{case}"
        );
        log.close().expect(case);
        // The break stays visible; the next start does not recover again.
        let verified = place.verify();
        assert!(!verified.is_intact() || lost == 0, "{case}: {verified:?}");
        assert!(place.open().open_report().recovery.is_none(), "{case}");
    }
}

#[test]
fn a_deleted_database_is_noticed_and_its_numbers_are_not_used_again() {
    let place = settled(100, 20);
    let head = place
        .verify()
        .chain
        .expect("intact")
        .attested
        .expect("signed")
        .seq;
    std::fs::remove_file(place.database()).expect("deleted");
    let log = place.open();
    let report = log.open_report().recovery.as_ref().expect("noticed");
    assert_eq!(report.lost, [(1, head)]);
    assert!(report.recorded > head);
}

#[test]
fn a_backup_fills_in_what_the_damaged_file_lost() {
    let place = settled(120, 1_000);
    let log = place.open();
    let backup = log.snapshot().expect("copied");
    assert!(backup.exists());
    log.append(&note("after the backup"), Durability::Durable)
        .expect("appended");
    log.close().expect("closes");
    settle(&place);
    std::fs::write(place.database(), b"rubbish ".repeat(1_000)).expect("written");
    let report = recover(&place.directory, &place.keys, place.now()).expect("recovered");
    let report = report.expect("it was damaged");
    assert_eq!((report.rescued, report.from_backup), (0, 120));
    let log = place.open();
    assert_eq!(
        all(&log).len(),
        121,
        "the backup's records and that of the break"
    );
    assert!(log.open_report().recovery.is_none());
}

#[test]
fn the_last_five_backups_are_kept() {
    let place = settled(10, 1_000);
    let log = place.open();
    let made: Vec<_> = (0..8).map(|_| log.snapshot().expect("copied")).collect();
    let kept: Vec<_> = made.iter().filter(|path| path.exists()).collect();
    assert_eq!(kept, made[3..].iter().collect::<Vec<_>>());
}

#[test]
fn a_whole_database_is_not_recovered_and_one_in_use_is_left_alone() {
    let place = settled(10, 1_000);
    let nothing = recover(&place.directory, &place.keys, place.now()).expect("looked at");
    assert_eq!(nothing, None);
    let log = place.open();
    let refused = recover(&place.directory, &place.keys, place.now());
    assert!(matches!(refused, Err(OpenError::InUse(_))), "{refused:?}");
    log.close().expect("closes");
}

#[test]
fn a_backup_ends_however_much_is_written_meanwhile() {
    let place = Place::new();
    let log = place.open();
    // Far more pages than are copied between two commits.
    let large: Vec<_> = (0..500).map(|_| note(&"x".repeat(6_000))).collect();
    for _ in 0..8 {
        log.append_batch(&large, Durability::Durable)
            .expect("appended");
    }
    let copied = AtomicBool::new(false);
    let (told, heard) = mpsc::channel();
    std::thread::scope(|scope| {
        let (log, copied) = (&log, &copied);
        scope.spawn(move || {
            while !copied.load(Ordering::Relaxed) {
                log.append(&note("meanwhile"), Durability::Durable)
                    .expect("appended");
            }
        });
        scope.spawn(move || told.send(log.snapshot()));
        let copy = heard.recv_timeout(Duration::from_mins(1));
        copied.store(true, Ordering::Relaxed);
        let copy = copy.expect("it ends").expect("it is made");
        assert!(copy.exists());
    });
}

/// A log of `records` records as killed commands leave it: some of it in the database, the rest in the
/// write-ahead log beside it.
fn unsettled(records: usize) -> Place {
    let place = settled(records, 1_000);
    let log = place.open();
    log.append(&note("in the write-ahead log"), Durability::Durable)
        .expect("appended");
    log.close().expect("closes");
    let ahead = std::fs::metadata(place.directory.join("audit.db-wal")).expect("it is there");
    assert!(ahead.len() > PAGE as u64, "{} bytes", ahead.len());
    place
}

#[test]
fn a_file_that_was_cut_short_is_set_aside_though_its_write_ahead_log_is_whole() {
    let place = unsettled(200);
    let whole = std::fs::metadata(place.database()).expect("exists").len();
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(place.database())
        .expect("opens");
    file.set_len(whole / 2 + 100).expect("cut");
    drop(file);
    // Without a check of every page.
    let log = place.open();
    let report = log.open_report().recovery.clone().expect("noticed");
    assert!(
        report.cause.contains("its file ends before page"),
        "{report:?}"
    );
    assert!((50..=150).contains(&report.rescued), "{report:?}");
    assert!(!report.lost.is_empty(), "{report:?}");
    let texts = support::texts(&all(&log));
    assert!(texts.iter().any(|text| text == "in the write-ahead log"));
    log.close().expect("closes");
    assert!(!place.verify().is_intact());
    assert!(place.open().open_report().recovery.is_none());
}

#[test]
fn a_file_that_is_shorter_than_the_log_because_pages_wait_beside_it_is_not_damaged() {
    let place = settled(5, 1_000);
    let log = place.open();
    let large: Vec<_> = (0..20).map(|_| note(&"x".repeat(6_000))).collect();
    let second = place.open();
    log.append_batch(&large, Durability::Durable)
        .expect("appended");
    let length = std::fs::metadata(place.database()).expect("exists").len();
    assert!(length < 20 * PAGE as u64, "{length} bytes: nothing waits");
    assert!(place.open().open_report().recovery.is_none());
    drop((log, second));
    assert!(place.open().open_report().recovery.is_none());
    assert!(place.verify().is_intact());
}

/// Overwrites the leaf page that the record `seq` lies in with `byte`.
fn destroy_leaf_of(place: &Place, seq: u64, byte: u8) {
    let records = stored(&place.directory).expect("intact");
    let mut file = std::fs::read(place.database()).expect("readable");
    let places = places(&file, &records);
    let (at, _, _) = places
        .iter()
        .find(|(_, _, found)| *found >= seq)
        .expect("in one piece");
    let page = at / PAGE * PAGE;
    file[page..page + PAGE].fill(byte);
    std::fs::write(place.database(), file).expect("written");
    for companion in ["audit.db-wal", "audit.db-shm"] {
        let _ = std::fs::remove_file(place.directory.join(companion));
    }
}

/// The numbers of the records that can be read and of those that cannot, in the order of the walk.
fn walked(place: &Place, filter: Filter) -> (Vec<u64>, Vec<u64>) {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for record in read_log(&place.directory, filter).expect("readable") {
        match record {
            Err(ReadError::Record { seq, .. }) => bad.push(seq),
            record => good.push(record.expect("the walk goes on").sealed.seq()),
        }
    }
    (good, bad)
}

#[test]
fn a_damaged_page_keeps_no_reader_from_the_records_on_the_others() {
    for byte in [0, 0xa5] {
        let place = settled(200, 1_000);
        let records = stored(&place.directory).expect("intact").len() as u64;
        destroy_leaf_of(&place, 100, byte);
        let (good, bad) = walked(&place, Filter::default());
        assert!((1..100).contains(&bad.len()), "{byte}: {bad:?}");
        assert!(bad.iter().any(|seq| (80..=140).contains(seq)), "{bad:?}");
        // Every number is told, one way or the other.
        let mut told = [good.clone(), bad.clone()].concat();
        told.sort_unstable();
        assert_eq!(told, (1..=records).collect::<Vec<_>>(), "{byte}");
        let newest_first = Filter {
            newest_first: true,
            ..Filter::default()
        };
        let (mut down, mut lost) = walked(&place, newest_first);
        down.reverse();
        lost.reverse();
        assert_eq!((down, lost), (good.clone(), bad.clone()), "{byte}");
        let before = Filter {
            last: bad.first().copied(),
            ..Filter::default()
        };
        assert_eq!(walked(&place, before).1, bad[..1], "{byte}");
        let stats = log_stats(&place.directory, &place.keys).expect("counted");
        assert_eq!(stats.records, good.len() as u64, "{byte}");
        assert_eq!(stats.unreadable, bad.len() as u64, "{byte}");
    }
}

#[test]
fn a_reader_that_comes_upon_a_damaged_page_has_the_next_opener_set_the_database_aside() {
    let place = settled(200, 50);
    destroy_leaf_of(&place, 100, 0);
    let log = place.open();
    assert!(
        log.open_report().recovery.is_none(),
        "it is far from the ends"
    );
    log.append(&note("after it"), Durability::Buffered)
        .expect("appended");
    let mut bytes = Vec::new();
    let exported = log
        .export(&mut bytes, ExportFormat::Jsonl)
        .expect("exported");
    assert!(
        exported.left_out > 0 && exported.records > 100,
        "{exported:?}"
    );
    assert!(exported.first_left_out.is_some());
    // Who has it open keeps it; so does whoever comes meanwhile.
    let other = place.open();
    assert!(other.open_report().recovery.is_none());
    for log in [log, other] {
        log.close().expect("closes");
    }
    let log = place.open();
    let report = log.open_report().recovery.clone().expect("set aside");
    assert!(report.set_aside.as_ref().is_some_and(|path| path.exists()));
    let lost: u64 = report
        .lost
        .iter()
        .map(|(first, last)| last - first + 1)
        .sum();
    assert!((1..=exported.left_out).contains(&lost), "{report:?}");
    assert!(!all(&log).is_empty());
    log.close().expect("closes");
    assert!(place.open().open_report().recovery.is_none(), "once");
}

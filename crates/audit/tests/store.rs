//! Writing, reading, verifying and refusing, on one log in one process.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and these tamper with databases behind the log's back"
)]

mod support;

use airlock_audit::{
    AppendError, Break, DecisionSummary, Durability, Entry, EventType, ExportFormat, Filter,
    Health, Log, OpenError, ReadError, Receipt, Record, SignedCheckpoint, Stage, Trust,
    VerifyOptions, log_stats, read_log, verify_database, verify_export,
};
use airlock_core::{ActionId, Timestamp};
use rusqlite::Connection;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, Instant};
use support::{Place, all, attempt, note, texts};

fn tamper(place: &Place, sql: &str) {
    let db = Connection::open(place.database()).expect("opens");
    db.execute_batch(sql).expect("tampered with");
}

fn filled(records: usize, every: u64) -> Place {
    let place = Place::new();
    let mut config = place.config();
    config.checkpoint_every = every;
    let log = Log::open(config).expect("opens");
    let entries: Vec<_> = (0..records).map(|n| note(&format!("record {n}"))).collect();
    for chunk in entries.chunks(10) {
        log.append_batch(chunk, Durability::Buffered)
            .expect("appended");
    }
    log.close().expect("closes");
    place
}

#[test]
fn what_was_appended_reads_back_in_order() {
    let place = Place::new();
    let log = place.open();
    let receipt = log
        .append(&note("one"), Durability::Durable)
        .expect("appended");
    let written = receipt.written().expect("durable");
    assert_eq!(written.seq, 1);
    log.append(&note("two"), Durability::Buffered)
        .expect("appended");
    let ticket = log.begin(&attempt("three")).expect("begun");
    assert_eq!(ticket.wait().expect("written").seq, 3);
    let records = all(&log);
    assert_eq!(texts(&records), ["one", "two", "three"]);
    assert_eq!(*records[0].sealed.digest(), written.digest);
    log.close().expect("closes");
    assert!(place.verify().is_intact());
}

#[test]
fn a_windowed_append_is_acknowledged_at_once_and_committed_within_the_window() {
    let place = Place::new();
    let log = place.open_windowed();
    let receipt = log
        .append(&note("queued"), Durability::Buffered)
        .expect("appended");
    assert_eq!(receipt, Receipt::Queued);
    let until = Instant::now() + Duration::from_secs(5);
    while all(&log).is_empty() {
        assert!(Instant::now() < until, "not committed after the window");
        std::thread::sleep(Duration::from_millis(20));
    }
    // A durable record takes everything before it along, at once.
    log.append(&note("queued too"), Durability::Buffered)
        .expect("appended");
    log.append(&attempt("durable"), Durability::Durable)
        .expect("appended");
    assert_eq!(texts(&all(&log)), ["queued", "queued too", "durable"]);
    // Some events never wait in a buffer, whatever the caller says.
    let mut entry = note("policy");
    entry.event = EventType::PolicyUpdate;
    let receipt = log.append(&entry, Durability::Buffered).expect("appended");
    assert!(receipt.written().is_some());
    log.append(&note("last"), Durability::Buffered)
        .expect("appended");
    drop(log);
    assert_eq!(
        texts(&all(&place.open())).last().map(String::as_str),
        Some("last")
    );
}

#[test]
fn a_batch_that_fills_the_window_is_committed_without_waiting_for_the_timer() {
    let place = Place::new();
    let mut config = place.config();
    config.buffering = airlock_audit::Buffering::Windowed {
        records: 10,
        millis: 60_000,
    };
    let log = Log::open(config).expect("opens");
    let entries: Vec<_> = (0..25).map(|n| note(&format!("record {n}"))).collect();
    let began = Instant::now();
    for _ in 0..4 {
        log.append_batch(&entries, Durability::Buffered)
            .expect("appended");
        log.append(&note("alone"), Durability::Buffered)
            .expect("appended");
    }
    log.flush().expect("flushed");
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "nobody waited for the timer"
    );
    assert_eq!(all(&log).len(), 4 * 26);
}

#[test]
fn a_full_disk_refuses_and_writing_goes_on_by_itself_once_there_is_room() {
    let place = Place::new();
    let mut config = place.config();
    config.buffering = airlock_audit::Buffering::WINDOW;
    config.max_pages = Some(20);
    let log = Log::open(config).expect("opens");
    let large = "x".repeat(3_000);
    let mut taken = 0;
    let error = loop {
        match log.append(&note(&large), Durability::Durable) {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
        assert!(taken < 100, "the disk never filled up");
    };
    assert_eq!(error, AppendError::DiskFull);
    assert!(error.hint().is_some());
    assert_eq!(log.failure(), Some(AppendError::DiskFull));
    // While it fails nothing is acknowledged that might never be written.
    let buffered = log.append(&note(&large), Durability::Buffered);
    assert_eq!(buffered, Err(AppendError::DiskFull));
    assert_eq!(all(&log).len(), taken, "what was taken is still there");
    tamper(&place, "DELETE FROM records WHERE seq < 10");
    log.append(&note("again"), Durability::Durable)
        .expect("there is room again");
    assert_eq!(log.failure(), None);
}

#[test]
fn buffered_records_that_meet_a_full_disk_wait_for_room() {
    let place = Place::new();
    let mut config = place.config();
    // Far from its end: nobody looks at the disk before the flush.
    config.buffering = airlock_audit::Buffering::Windowed {
        records: 1_000,
        millis: 60_000,
    };
    config.max_pages = Some(10);
    let log = Log::open(config).expect("opens");
    // Acknowledged before anybody knows that the disk is full.
    let large = "x".repeat(3_000);
    let receipts: Vec<_> = (0..40)
        .map(|_| log.append(&note(&large), Durability::Buffered))
        .collect();
    assert!(
        receipts
            .iter()
            .all(|receipt| *receipt == Ok(Receipt::Queued))
    );
    assert_eq!(log.flush(), Err(AppendError::DiskFull));
    let lost = log.close().expect_err("they could not be written");
    assert!(
        matches!(lost, AppendError::Lost { records: 40, .. }),
        "{lost}"
    );
    // The writer did not end in good order, and the next one is told.
    assert_eq!(place.open().open_report().unclean.len(), 1);
}

#[test]
fn databases_that_are_not_this_logs_are_refused() {
    type Change = fn(&Place);
    type Want = fn(&OpenError) -> bool;
    let cases: [(&str, Change, Want); 5] = [
        (
            "newer",
            |place| tamper(place, "PRAGMA user_version = 2"),
            |error| {
                matches!(
                    error,
                    OpenError::Newer {
                        found: 2,
                        supported: 1,
                        ..
                    }
                )
            },
        ),
        (
            "somebody else's",
            |place| tamper(place, "PRAGMA application_id = 1"),
            |error| matches!(error, OpenError::Foreign { .. }),
        ),
        (
            "a link",
            |place| {
                let real = place.directory.join("elsewhere.db");
                std::fs::rename(place.database(), &real).expect("renamed");
                symlink(real, place.database()).expect("linked");
            },
            |error| matches!(error, OpenError::NotRegular(_)),
        ),
        (
            "a directory",
            |place| {
                std::fs::remove_file(place.database()).expect("removed");
                std::fs::create_dir(place.database()).expect("made");
            },
            |error| matches!(error, OpenError::NotRegular(_)),
        ),
        (
            "writable by others",
            |place| {
                let open = std::fs::Permissions::from_mode(0o777);
                std::fs::set_permissions(&place.directory, open).expect("changed");
            },
            |error| matches!(error, OpenError::LooseDirectory { .. }),
        ),
    ];
    for (case, change, want) in cases {
        let place = filled(3, 1_000);
        change(&place);
        let error = Log::open(place.config()).expect_err(case);
        assert!(want(&error), "{case}: {error}");
        assert!(error.hint().is_some(), "{case}");
    }
}

#[test]
fn a_state_directory_that_is_a_file_is_an_error_and_not_a_panic() {
    let place = Place::new();
    std::fs::write(&place.directory, "in the way").expect("written");
    let error = Log::open(place.config()).expect_err("refused");
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
}

#[test]
fn code_that_arrives_with_the_database_does_not_run() {
    let place = filled(5, 1_000);
    tamper(
        &place,
        "CREATE TRIGGER hide AFTER INSERT ON records BEGIN DELETE FROM records WHERE seq = 1; END",
    );
    let error = verify_database(&place.directory, &place.keys, &VerifyOptions::default());
    assert!(error.is_err(), "a changed schema is no log");
    // Opened for writing, the records move to a clean file; the trigger stays behind.
    let log = place.open();
    let recovery = log.open_report().recovery.as_ref().expect("recovered");
    assert_eq!((recovery.rescued, &recovery.lost), (5, &vec![]));
    log.append(&note("next"), Durability::Durable)
        .expect("appended");
    assert_eq!(all(&log).len(), 7);
}

#[test]
fn files_and_directories_are_the_owners_alone() {
    let place = filled(10, 5);
    for (path, mode) in [
        (place.directory.clone(), 0o700),
        (place.keys.clone(), 0o700),
        (place.database(), 0o600),
        (place.keys.join("audit.key"), 0o600),
        (place.keys.join("checkpoints.jsonl"), 0o600),
    ] {
        let found = std::fs::metadata(&path)
            .expect("exists")
            .permissions()
            .mode()
            & 0o777;
        assert_eq!(found, mode, "{}", path.display());
    }
}

#[test]
fn checkpoints_are_signed_every_so_many_records_and_kept_beside_the_key() {
    let place = filled(100, 10);
    let text = std::fs::read_to_string(place.keys.join("checkpoints.jsonl")).expect("exists");
    let kept: Vec<SignedCheckpoint> = text
        .lines()
        .map(|line| line.parse().expect("valid"))
        .collect();
    assert!((8..=10).contains(&kept.len()), "{}", kept.len());
    let verified = place.verify().chain.expect("intact");
    assert_eq!(
        verified.checkpoints,
        2 * kept.len() as u64,
        "in the file and in the chain"
    );
    let log = place.open();
    let signed = log.checkpoint().expect("signed");
    assert_eq!(signed.head().seq, verified.head.seq);
}

#[test]
fn a_checkpoint_cut_by_a_kill_is_taken_off_by_the_next_and_never_a_break() {
    let place = filled(100, 10);
    let file = place.keys.join("checkpoints.jsonl");
    let whole = std::fs::read(&file).expect("exists");
    let last = whole[..whole.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |newline| newline + 1);
    for (cut, kept) in [(last + 1, 0), (last + 329, 0), (whole.len() - 1, 1)] {
        std::fs::write(&file, &whole[..cut]).expect("cut");
        assert!(place.verify().is_intact(), "cut at {cut}");
        place.open().checkpoint().expect("signed");
        assert!(place.verify().is_intact(), "cut at {cut}, and one after it");
        let now = std::fs::read_to_string(&file).expect("exists");
        let before = String::from_utf8_lossy(&whole[..last]).lines().count();
        assert_eq!(now.lines().count(), before + kept + 1, "cut at {cut}");
        assert!(
            now.lines()
                .all(|line| line.parse::<SignedCheckpoint>().is_ok()),
            "cut at {cut}"
        );
    }
}

#[test]
fn what_no_writer_leaves_in_the_checkpoints_stays_to_be_seen() {
    let place = filled(100, 10);
    let file = place.keys.join("checkpoints.jsonl");
    std::fs::write(&file, "x".repeat(5_000)).expect("written over");
    place.open().checkpoint().expect("signed");
    assert!(!place.verify().is_intact());
    assert!(
        std::fs::read_to_string(&file)
            .expect("exists")
            .starts_with("xxx")
    );
}

#[test]
fn tampering_with_rows_is_found_and_the_first_bad_record_named() {
    let swap =
        "UPDATE records SET seq = 1000 WHERE seq = 5; UPDATE records SET seq = 5 WHERE seq = 6;
                UPDATE records SET seq = 6 WHERE seq = 1000";
    for (case, sql, first_bad, kind) in [
        (
            "tail cut",
            "DELETE FROM records WHERE seq > 40",
            41,
            "truncated",
        ),
        ("all gone", "DELETE FROM records", 1, "truncated"),
        (
            "middle cut",
            "DELETE FROM records WHERE seq BETWEEN 10 AND 12",
            10,
            "gap",
        ),
        ("swapped", swap, 5, "gap"),
        (
            "edited",
            "UPDATE records SET stored = CAST(substr(stored, 1, 80) || x'ff' || substr(stored, 82) AS BLOB) WHERE seq = 7",
            7,
            "edited",
        ),
        (
            "emptied",
            "UPDATE records SET stored = x'' WHERE seq = 3",
            3,
            "unreadable",
        ),
        ("start cut", "DELETE FROM records WHERE seq < 4", 1, "gap"),
        (
            "another log's id",
            "DELETE FROM meta WHERE key = 'log'; INSERT INTO meta VALUES ('log', zeroblob(16))",
            10,
            "other_log",
        ),
    ] {
        let place = filled(50, 10);
        tamper(&place, sql);
        let report = place.verify();
        let broken = report.chain.as_ref().expect_err(case);
        assert_eq!(
            (broken.kind(), report.first_bad()),
            (kind, Some(first_bad)),
            "{case}"
        );
    }
}

#[test]
fn a_row_before_the_first_record_is_found() {
    for seq in [0, -5] {
        let place = filled(50, 10);
        let sql = format!("INSERT INTO records SELECT {seq}, stored FROM records WHERE seq = 5");
        tamper(&place, &sql);
        let report = place.verify();
        assert!(!report.is_intact(), "{seq}");
        let told = format!("row {seq} is none of the log's");
        assert!(
            report.structure.iter().any(|line| line.starts_with(&told)),
            "{report:?}"
        );
    }
}

#[test]
fn a_damaged_record_keeps_nobody_from_the_others() {
    let edited = "UPDATE records SET stored = \
        CAST(substr(stored, 1, 80) || x'ff' || substr(stored, 82) AS BLOB) WHERE seq = 7";
    let emptied = "UPDATE records SET stored = x'00' WHERE seq IN (7, 20)";
    for (sql, unreadable, left_out) in [(edited, 1, None), (emptied, 2, Some(7))] {
        let place = filled(50, 1_000);
        let whole = log_stats(&place.directory, &place.keys)
            .expect("counted")
            .records;
        tamper(&place, sql);
        let read = read_log(&place.directory, Filter::default()).expect("readable");
        let (good, bad): (Vec<_>, Vec<_>) = read.partition(Result::is_ok);
        let stats = log_stats(&place.directory, &place.keys).expect("counted");
        assert_eq!(
            (stats.records, stats.unreadable),
            (whole - unreadable, unreadable),
            "{sql}"
        );
        let seen = (good.len() as u64, bad.len() as u64);
        assert_eq!(seen, (stats.records, stats.unreadable), "{sql}");
        let mut bytes = Vec::new();
        let log = place.open();
        log.append(&note("later"), Durability::Durable)
            .expect("appended");
        let exported = log
            .export(&mut bytes, ExportFormat::Jsonl)
            .expect("exported");
        assert_eq!(exported.first_left_out, left_out, "{sql}");
        assert_eq!(exported.left_out, if left_out.is_some() { 2 } else { 0 });
        // It goes out as it is, and whoever verifies it sees that.
        let broken = verify_export(&*bytes, Trust::default()).expect_err("damaged");
        assert_eq!(broken.seq(), Some(7), "{sql}: {broken}");
    }
}

#[test]
fn a_last_row_that_holds_another_record_stops_nothing_and_is_a_break() {
    let replaced =
        "UPDATE records SET stored = (SELECT stored FROM records WHERE seq = 5) WHERE seq = 50";
    let strayed = "INSERT INTO records SELECT 100000, stored FROM records WHERE seq = 5";
    for (sql, last, first_bad) in [(replaced, 50, 50), (strayed, 100_000, 51)] {
        let place = filled(50, 1_000);
        tamper(&place, sql);
        let newest = Filter {
            newest_first: true,
            limit: Some(1),
            ..Filter::default()
        };
        let mut read = read_log(&place.directory, newest).expect("readable");
        let told = read.next().expect("there is one").expect_err(sql);
        assert!(
            matches!(told, ReadError::Record { seq, .. } if seq == last),
            "{told}"
        );
        let log = place.open();
        assert!(log.open_report().recovery.is_none(), "{sql}");
        let health = log.wait_for_health(Duration::from_secs(10));
        assert!(
            matches!(health, Health::Broken { seq: Some(seq), .. } if seq == first_bad),
            "{sql}: {health:?}"
        );
        let receipt = log.append(&note("behind it"), Durability::Durable);
        let written = receipt.expect("appended").written().expect("durable");
        assert!(written.seq > last, "{sql}: {}", written.seq);
        let mut bytes = Vec::new();
        let exported = log
            .export(&mut bytes, ExportFormat::Jsonl)
            .expect("exported");
        assert_eq!(exported.left_out, 0, "{sql}");
        let broken = verify_export(&*bytes, Trust::default()).expect_err("it shows");
        assert_eq!(broken.seq(), Some(first_bad), "{sql}: {broken}");
        log.checkpoint().expect("signed");
        log.close().expect("closes");
        let report = place.verify();
        let kind = report.chain.as_ref().map_err(Break::kind);
        assert_eq!(kind.expect_err(sql), "reordered", "{report:?}");
        assert_eq!(report.first_bad(), Some(first_bad), "{sql}");
    }
}

#[test]
fn a_stray_row_behind_which_there_are_no_numbers_is_set_aside() {
    let place = filled(50, 1_000);
    tamper(
        &place,
        "INSERT INTO records SELECT 9223372036854775807, stored FROM records WHERE seq = 5",
    );
    let log = place.open();
    let recovery = log.open_report().recovery.clone().expect("recovered");
    assert_eq!((recovery.rescued, recovery.recorded), (50, 51));
    let receipt = log.append(&note("next"), Durability::Durable);
    let written = receipt.expect("appended").written().expect("durable");
    assert_eq!(written.seq, 52);
}

#[test]
fn rows_cut_from_the_front_cannot_be_passed_off_as_archived() {
    let place = filled(20, 1_000);
    let records = all(&place.open());
    let head = records[4].sealed.head();
    let db = Connection::open(place.database()).expect("opens");
    let mut bytes = head.seq.to_be_bytes().to_vec();
    bytes.extend_from_slice(head.digest.as_bytes());
    db.execute(
        "INSERT OR REPLACE INTO meta VALUES ('archived', ?1)",
        [bytes],
    )
    .expect("forged");
    db.execute("DELETE FROM records WHERE seq <= 5", [])
        .expect("deleted");
    drop(db);
    let report = place.verify();
    assert_eq!(report.unexplained_start, Some(head));
    assert!(!report.is_intact());
}

#[test]
fn a_chain_written_anew_is_caught_against_the_checkpoints() {
    let place = filled(30, 10);
    let other = filled(30, 1_000);
    // The forger keeps the log's id but not its checkpoints.
    let forged = Connection::open(other.database()).expect("opens");
    forged
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .expect("one file");
    drop(forged);
    std::fs::copy(other.database(), place.database()).expect("replaced");
    for companion in ["audit.db-wal", "audit.db-shm"] {
        let _ = std::fs::remove_file(place.directory.join(companion));
    }
    let report = place.verify();
    assert!(
        matches!(report.chain, Err(Break::OtherLog { .. })),
        "{:?}",
        report.chain
    );
}

#[test]
fn a_break_is_recorded_once_and_shown() {
    let place = filled(30, 1_000);
    tamper(&place, "DELETE FROM records WHERE seq = 7");
    for start in 0..3 {
        let log = place.open();
        let health = log.wait_for_health(Duration::from_secs(10));
        assert!(
            matches!(health, Health::Broken { seq: Some(7), .. }),
            "{start}: {health:?}"
        );
        let filter = Filter {
            event: Some(EventType::AuditChainBreak),
            ..Filter::default()
        };
        assert_eq!(
            log.read(filter).expect("readable").count(),
            1,
            "start {start}"
        );
        // The log goes on; whether that is acceptable is the caller's policy.
        log.append(&note("next"), Durability::Durable)
            .expect("appended");
    }
}

/// Six records, each with something of its own.
fn six(log: &Log) {
    let mut entries: Vec<Entry> = (0..6).map(|n| note(&format!("text {n}"))).collect();
    for (n, entry) in entries.iter_mut().enumerate() {
        entry.time = Timestamp::from_micros(support::START + i64::try_from(n).expect("small"));
    }
    entries[1].event = EventType::NetworkConnect;
    entries[2].action = Some(ActionId::new("act-1").expect("an id"));
    entries[3].decision = Some(airlock_audit::DecisionSummary {
        verdict: "deny".to_owned(),
        rules: vec!["rules/no-network".to_owned()],
        generation: "g".to_owned(),
    });
    entries[4].stage = Stage::Outcome;
    entries[5].reason = Some("because Of That".to_owned());
    log.append_batch(&entries, Durability::Durable)
        .expect("appended");
}

#[expect(clippy::too_many_lines, reason = "one table, one row a filter")]
#[test]
fn filters_find_exactly_what_they_name() {
    let place = Place::new();
    let log = place.open();
    six(&log);
    let at = |n: i64| Some(Timestamp::from_micros(support::START + n));
    let none = Filter::default;
    let text = |text: &str| Some(text.to_owned());
    for (case, filter, want) in [
        ("everything", none(), vec![1, 2, 3, 4, 5, 6]),
        (
            "event",
            Filter {
                event: Some(EventType::NetworkConnect),
                ..none()
            },
            vec![2],
        ),
        (
            "action",
            Filter {
                action: text("act-1"),
                ..none()
            },
            vec![3],
        ),
        (
            "verdict",
            Filter {
                verdict: text("deny"),
                ..none()
            },
            vec![4],
        ),
        (
            "since",
            Filter {
                since: at(4),
                ..none()
            },
            vec![5, 6],
        ),
        (
            "until",
            Filter {
                until: at(1),
                ..none()
            },
            vec![1, 2],
        ),
        (
            "text",
            Filter {
                text: text("BECAUSE of"),
                ..none()
            },
            vec![6],
        ),
        (
            "rule",
            Filter {
                text: text("no-network"),
                ..none()
            },
            vec![4],
        ),
        (
            "range",
            Filter {
                first: Some(2),
                last: Some(3),
                ..none()
            },
            vec![2, 3],
        ),
        (
            "an empty range",
            Filter {
                first: Some(4),
                last: Some(3),
                ..none()
            },
            vec![],
        ),
        (
            "newest",
            Filter {
                newest_first: true,
                limit: Some(2),
                ..none()
            },
            vec![6, 5],
        ),
        (
            "nobody's session",
            Filter {
                session: text("s"),
                ..none()
            },
            vec![],
        ),
    ] {
        let found = read_log(&place.directory, filter).expect("readable");
        let found: Vec<u64> = found
            .map(|record| record.expect("intact").sealed.seq())
            .collect();
        assert_eq!(found, want, "{case}");
    }
}

#[test]
fn a_follower_sees_what_came_after_and_statistics_count_everything() {
    let place = Place::new();
    let log = place.open();
    six(&log);
    let followed = log.follow(4, Filter::default()).expect("readable").count();
    assert_eq!(followed, 2);
    let stats = log.stats().expect("counted");
    assert_eq!(
        (
            stats.records,
            stats.events["network_connect"],
            stats.verdicts["deny"]
        ),
        (6, 1, 1)
    );
}

#[test]
fn after_a_crash_only_what_may_have_happened_is_named() {
    let decided = |action: &str, verdict: &str| {
        let mut entry = attempt(action);
        entry.decision = Some(DecisionSummary {
            verdict: verdict.to_owned(),
            rules: Vec::new(),
            generation: String::new(),
        });
        entry
    };
    let mut outcome = attempt("done");
    outcome.stage = Stage::Outcome;
    let place = Place::new();
    let log = place.open();
    let mut written = vec![decided("real", "allow")];
    // More of them than are named: none may take the place of the one that counts.
    written.extend((0..10_050).map(|n| decided(&format!("denied-{n}"), "deny")));
    written.extend([
        decided("asked", "require_review"),
        decided("done", "allow"),
        outcome,
        decided("again", "allow"),
        decided("again", "allow"),
    ]);
    for chunk in written.chunks(1_000) {
        log.append_batch(chunk, Durability::Durable)
            .expect("appended");
    }
    // As it would lie there if its writer were killed now.
    let killed = Place::new();
    for (from, to) in [
        (place.directory.clone(), killed.directory.clone()),
        (
            place.directory.join("writers"),
            killed.directory.join("writers"),
        ),
    ] {
        std::fs::create_dir(&to).expect("made");
        for entry in std::fs::read_dir(from).expect("listed") {
            let path = entry.expect("listed").path();
            if path.is_file() {
                let name = path.file_name().expect("named");
                std::fs::copy(&path, to.join(name)).expect("copied");
            }
        }
    }
    let after = killed.open();
    let report = after.open_report();
    assert_eq!(report.unclean.len(), 1);
    let named = report.unfinished.iter();
    let named: Vec<_> = named.map(|one| (one.action.to_string(), one.seq)).collect();
    // Checkpoints stand between them.
    let of_again = |record: &&Record| {
        let action = record.entry.action.as_ref();
        action.is_some_and(|action| action.to_string() == "again")
    };
    let records = all(&after);
    let last = records.iter().rfind(of_again).expect("there").sealed.seq();
    assert_eq!(named, [("real".to_owned(), 1), ("again".to_owned(), last)]);
}

//! Buffered appends against SQLite inserts of the same bytes.
//!
//! The raw side does the least a log in SQLite can do: the same table and pragmas, a whole window of
//! rows a transaction where the log commits from a quarter of one on, the WAL moved into the database
//! after as many rows, one last durable commit. It seals nothing, signs nothing and hands nothing
//! over to another thread.

use super::{entries, open, stored};
use crate::failure::Failure;
use crate::measure::{self, Samples};
use crate::options::Options;
use crate::table::Row;
use airlock_audit::{Durability, Entry};
use rusqlite::Connection;
use std::path::Path;
use std::time::{Duration, Instant};

/// Rows a transaction: the log's window.
const WINDOW: usize = 100;
/// Rows between two WAL checkpoints: the log's upkeep.
const UPKEEP: usize = 1_000;
const WANTED: f64 = 0.7;

pub(in super::super) fn run(options: &Options) -> Result<Vec<Row>, Failure> {
    let entries = entries(options.pick(20_000, 5_000))?;
    let stored = stored(&entries)?;
    let bytes: usize = stored.iter().map(Vec::len).sum();
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for _ in 0..options.pick(7, 3) {
        ours.push(per_record(in_log(&entries)?, entries.len()));
        raw.push(per_record(in_sqlite(&stored)?, stored.len()));
    }
    let ratio = measure::median_ratio(&raw, &ours);
    let (ours, raw) = (Samples::new(ours).median(), Samples::new(raw).median());
    Ok(vec![
        Row::new(format!(
            "buffered append of {} records, {} bytes each",
            entries.len(),
            bytes / stored.len().max(1)
        ))
        .measured(format!("{} a record", measure::time_text(ours)))
        .against(format!(
            "{} a raw SQLite insert of the same bytes",
            measure::time_text(raw)
        ))
        .ratio(ratio)
        .wanted("at least 0.7 x its rate", ratio >= WANTED),
    ])
}

fn per_record(time: Duration, records: usize) -> f64 {
    let records = u32::try_from(records).unwrap_or(u32::MAX).max(1);
    measure::nanos(time) / f64::from(records)
}

fn in_log(entries: &[Entry]) -> Result<Duration, Failure> {
    let directory = tempfile::tempdir()?;
    let log = open(&directory.path().join("state"))?;
    let start = Instant::now();
    for entry in entries {
        log.append(entry, Durability::Buffered)?;
    }
    log.flush()?;
    let time = start.elapsed();
    log.close()?;
    Ok(time)
}

fn in_sqlite(stored: &[Vec<u8>]) -> Result<Duration, Failure> {
    let directory = tempfile::tempdir()?;
    let db = database(&directory.path().join("raw.db"))?;
    let start = Instant::now();
    let mut insert = db.prepare("INSERT INTO records(seq, stored) VALUES (?1, ?2)")?;
    let (mut seq, mut since) = (0_i64, 0);
    for window in stored.chunks(WINDOW) {
        db.execute_batch("BEGIN IMMEDIATE")?;
        for bytes in window {
            seq += 1;
            insert.execute((seq, bytes))?;
        }
        db.execute_batch("COMMIT")?;
        since += window.len();
        if since >= UPKEEP {
            since = 0;
            db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
        }
    }
    db.pragma_update(None, "synchronous", "FULL")?;
    db.execute_batch("BEGIN IMMEDIATE; PRAGMA user_version = 1; COMMIT")?;
    Ok(start.elapsed())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the peer is SQLite as such, without the audit crate around it"
)]
fn database(path: &Path) -> Result<Connection, Failure> {
    let db = Connection::open(path)?;
    db.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    db.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
    db.pragma_update(None, "synchronous", "NORMAL")?;
    db.pragma_update(None, "cell_size_check", true)?;
    db.execute_batch("CREATE TABLE records(seq INTEGER PRIMARY KEY, stored BLOB NOT NULL) STRICT")?;
    Ok(db)
}

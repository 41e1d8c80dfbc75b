//! Moves past segments of time into archives and deletes the oldest ones when the log grows too large.
//!
//! Guarantee: a clock that is ahead for a moment deletes nothing by age. Non-guarantee: one that is ahead
//! for more than a day is believed.

use super::file::SegmentWriter;
use super::{Segment, SegmentError, SegmentName, list_segments, segment_path};
use crate::chain::{Head, LogId, Stored};
use crate::encoding;
use crate::open::{Access, OpenError, open_database, private_directory};
use crate::store::Layout;
use crate::writer::{AppendError, Meta, encode_head, read_meta, write_meta};
use crate::{Entry, EventType, Stage};
use airlock_core::{Span, Timestamp};
use rusqlite::{Connection, OptionalExtension as _};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const DAY_MICROS: i64 = 24 * 60 * 60 * 1_000_000;
/// No segment is shorter: whatever is set, an archive is no single record.
const LEAST_SEGMENT_MICROS: i64 = 60 * 1_000_000;
/// A clock that goes on by more days than this from one round to the next is not believed on that day:
/// it may be wrong, and what is deleted is gone. A machine that was off for longer deletes a day later.
const LONGEST_PAUSE_DAYS: i64 = 7;
/// Rows looked at in one go.
const CHUNK: i64 = 256;
/// Over this share of the limit the log warns.
const WARN_PERCENT: u64 = 80;
/// Over this share it is critical.
const CRITICAL_PERCENT: u64 = 95;

/// How much of the log is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Archives whose last record is older than this many days are deleted.
    pub days: u32,
    /// Database and archives together stay below this many bytes.
    pub bytes: u64,
    /// How much time an archive covers. Segments are counted from 1970, so that 24 hours are a day in
    /// UTC.
    pub segment: Span,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            days: 90,
            bytes: 1024 * 1024 * 1024,
            segment: Span::from_secs(24 * 60 * 60),
        }
    }
}

impl Retention {
    /// The number of the segment that `time` belongs to.
    pub fn segment_of(&self, time: Timestamp) -> i64 {
        let millis = i64::try_from(self.segment.as_millis()).unwrap_or(i64::MAX);
        let micros = millis.saturating_mul(1_000).max(LEAST_SEGMENT_MICROS);
        time.as_micros().div_euclid(micros)
    }
}

/// What one round of maintenance did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MaintenanceReport {
    /// Another process was at it; nothing was done.
    pub skipped: bool,
    /// First and last record of each new archive.
    pub archived: Vec<(u64, u64)>,
    /// First and last record of each deleted archive.
    pub deleted: Vec<(u64, u64)>,
    /// Bytes used afterwards.
    pub bytes: u64,
    /// The clock went on by more than a week since the round before, or nobody knows of one: nothing is
    /// too old today.
    pub clock_jumped: bool,
}

/// Why maintenance stopped. What it had done stays done; the next round goes on.
#[derive(Debug, thiserror::Error)]
pub enum MaintainError {
    /// The log cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// An archive cannot be written or read back.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The database failed.
    #[error("the audit log cannot be maintained: {0}")]
    Database(#[from] rusqlite::Error),
    /// A record about it could not be written.
    #[error(transparent)]
    Append(#[from] AppendError),
}

/// What maintenance needs of the log.
pub(crate) struct Task<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) log: LogId,
    pub(crate) retention: Retention,
    pub(crate) now: Timestamp,
    pub(crate) record: &'a dyn Fn(Entry) -> Result<(), AppendError>,
}

/// One round: archive what is complete, delete what is too old or too much, warn.
pub(crate) fn maintain(task: &Task<'_>) -> Result<MaintenanceReport, MaintainError> {
    let mut report = MaintenanceReport::default();
    let Some(_lock) = exclusive(&task.layout.maintenance())? else {
        report.skipped = true;
        return Ok(report);
    };
    let segments = task.layout.segments();
    private_directory(&segments)?;
    remove_drafts(&segments);
    let db = open_database(&task.layout.database(), Access::Write)?;
    remove_copies(&db, &segments)?;
    let current = task.retention.segment_of(task.now);
    while let Some(range) = archive_oldest(task, &db, current)? {
        report.archived.push(range);
    }
    task.enforce(&db, &mut report)?;
    Ok(report)
}

fn exclusive(path: &Path) -> Result<Option<File>, OpenError> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|source| OpenError::io(path, source))?;
    Ok(file.try_lock().is_ok().then_some(file))
}

/// Archives that were never finished hold nothing that is not in the database.
fn remove_drafts(segments: &Path) {
    for entry in fs::read_dir(segments).into_iter().flatten().flatten() {
        if entry.path().extension().is_some_and(|ext| ext == "draft") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Rows that an archive holds too, byte for byte, were left by a crash: the archive has them.
fn remove_copies(db: &Connection, segments: &Path) -> Result<(), MaintainError> {
    let Some(name) = list_segments(segments)?.pop() else {
        return Ok(());
    };
    let oldest: Option<i64> = db.query_row("SELECT min(seq) FROM records", [], |row| row.get(0))?;
    if oldest.is_none_or(|oldest| oldest.cast_unsigned() > name.last) {
        return Ok(());
    }
    let mut segment = Segment::open(&name.path)?;
    // Before the rows go: without any, this is where the chain ends.
    remember_archived(db, &segment.last)?;
    for index in 0..segment.blocks() {
        for stored in segment.block(index)? {
            let Ok(record) = Stored::parse(&stored) else {
                continue;
            };
            db.prepare_cached("DELETE FROM records WHERE seq = ?1 AND stored = ?2")?
                .execute((record.seq.cast_signed(), &stored))?;
        }
    }
    Ok(())
}

fn remember_archived(db: &Connection, head: &Head) -> rusqlite::Result<()> {
    let known = read_meta(db, Meta::Archived)?.and_then(|bytes| crate::writer::decode_head(&bytes));
    if known.is_none_or(|known| known.seq < head.seq) {
        write_meta(db, Meta::Archived, &encode_head(head))?;
    }
    Ok(())
}

/// Archives the oldest run of rows that belong to one past segment.
fn archive_oldest(
    task: &Task<'_>,
    db: &Connection,
    current: i64,
) -> Result<Option<(u64, u64)>, MaintainError> {
    let segments = task.layout.segments();
    let draft = segments.join(format!("{}.draft", uuid::Uuid::new_v4().simple()));
    let io = |source| SegmentError::Io {
        path: draft.clone(),
        source,
    };
    let mut run = Run {
        // A clock that was ahead and is right again left rows of days to come. They would keep all that
        // follows from being archived until then.
        was_ahead: newest_time(db)?.is_some_and(|newest| newest <= task.now),
        ..Run::default()
    };
    let mut writer = None;
    'rows: loop {
        let rows = next_rows(db, run.last.map_or(0, |head| head.seq))?;
        if rows.is_empty() {
            break;
        }
        for (seq, stored) in rows {
            // What cannot be read as a record stays where it is, and so does all after it.
            let Ok(record) = Stored::parse(&stored) else {
                break 'rows;
            };
            if record.seq != seq || !run.takes(&record, &task.retention, current) {
                break 'rows;
            }
            let writer = match &mut writer {
                Some(writer) => writer,
                none => {
                    let previous = Head {
                        seq: seq.saturating_sub(1),
                        digest: record.previous,
                    };
                    let made = SegmentWriter::create(&draft, &task.log, previous).map_err(io)?;
                    none.insert(made)
                }
            };
            writer.push(&stored, record.head()).map_err(io)?;
        }
    }
    let (Some(writer), Some(first), Some(last)) = (writer, run.first, run.last) else {
        return Ok(None);
    };
    writer.finish().map_err(io)?;
    let path = segment_path(&segments, first, last.seq);
    fs::rename(&draft, &path).map_err(io)?;
    File::open(&segments)
        .and_then(|directory| directory.sync_all())
        .map_err(io)?;
    // Read back before the rows go: the archive is now the only copy.
    Segment::open(&path)?.check()?;
    delete_rows(db, first, &last)?;
    Ok(Some((first, last.seq)))
}

fn next_rows(db: &Connection, after: u64) -> rusqlite::Result<Vec<super::source::Row>> {
    db.prepare_cached("SELECT seq, stored FROM records WHERE seq > ?1 ORDER BY seq LIMIT ?2")?
        .query_map((after.cast_signed(), CHUNK), |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?))
        })?
        .collect()
}

/// The time of the newest row.
fn newest_time(db: &Connection) -> rusqlite::Result<Option<Timestamp>> {
    let stored: Option<Vec<u8>> = db
        .query_row(
            "SELECT stored FROM records ORDER BY seq DESC LIMIT 1",
            [],
            |row| row.get(0),
        )
        .optional()?;
    Ok(stored.as_deref().and_then(time_of))
}

fn time_of(stored: &[u8]) -> Option<Timestamp> {
    let record = Stored::parse(stored).ok()?;
    let entry = encoding::decode(record.body).ok()?;
    Some(entry.time)
}

fn delete_rows(db: &Connection, first: u64, last: &Head) -> rusqlite::Result<()> {
    let transaction =
        rusqlite::Transaction::new_unchecked(db, rusqlite::TransactionBehavior::Immediate)?;
    transaction.execute(
        "DELETE FROM records WHERE seq BETWEEN ?1 AND ?2",
        (first.cast_signed(), last.seq.cast_signed()),
    )?;
    remember_archived(&transaction, last)?;
    transaction.commit()
}

/// The rows taken into one archive so far.
#[derive(Default)]
struct Run {
    first: Option<u64>,
    last: Option<Head>,
    segment: i64,
    /// Whether rows of segments to come are of one that is over, because newer rows are not.
    was_ahead: bool,
}

impl Run {
    /// Takes the record if it continues the run: same segment (a clock set back does not end one),
    /// a past one, linked to the record before.
    fn takes(&mut self, record: &Stored<'_>, retention: &Retention, current: i64) -> bool {
        let mut segment = encoding::decode(record.body)
            .map_or(self.segment, |entry| retention.segment_of(entry.time));
        if self.was_ahead && segment > current {
            segment = current.saturating_sub(1);
        }
        match self.last {
            None => self.segment = segment,
            Some(last) if last.seq + 1 != record.seq || last.digest != record.previous => {
                return false;
            }
            Some(_) => {}
        }
        if segment > self.segment || self.segment >= current {
            return false;
        }
        self.first.get_or_insert(record.seq);
        self.last = Some(record.head());
        true
    }
}

impl Task<'_> {
    fn enforce(
        &self,
        db: &Connection,
        report: &mut MaintenanceReport,
    ) -> Result<(), MaintainError> {
        let today = self.now.as_micros().div_euclid(DAY_MICROS);
        report.clock_jumped = has_jumped(db, today)?;
        let mut names = list_segments(&self.layout.segments())?;
        names.reverse();
        let limit = self.retention.bytes;
        let database = database_bytes(db)?;
        loop {
            let archives = archive_bytes(&names);
            report.bytes = database.saturating_add(archives);
            let Some(oldest) = names.last() else { break };
            let mut segment = Segment::open(&oldest.path)?;
            let too_old = !report.clock_jumped
                && last_day(&mut segment, today)?
                    .is_some_and(|day| today - day > i64::from(self.retention.days));
            // Where the database alone is too large, archives that are not are no help: the warning is.
            let too_much = report.bytes > limit && (database <= limit || archives > limit);
            if !too_old && !too_much {
                break;
            }
            self.delete(oldest, &segment, too_old)?;
            report.deleted.push((oldest.first, oldest.last));
            names.pop();
        }
        self.warn(db, report.bytes)
    }

    /// Says so, durably, and then deletes: verification starts from the head it states.
    fn delete(
        &self,
        name: &SegmentName,
        segment: &Segment,
        too_old: bool,
    ) -> Result<(), MaintainError> {
        let reason = if too_old {
            format!("older than {} days", self.retention.days)
        } else {
            format!("the log exceeds {} bytes", self.retention.bytes)
        };
        let mut entry = Entry::new(self.now, EventType::AuditArchiveDeleted, Stage::Note);
        entry.reason = Some(reason);
        entry.metadata = BTreeMap::from([
            ("first".to_owned(), name.first.to_string()),
            ("last".to_owned(), segment.last.seq.to_string()),
            ("head".to_owned(), segment.last.digest.to_string()),
        ]);
        (self.record)(entry)?;
        fs::remove_file(&name.path).map_err(|source| SegmentError::Io {
            path: name.path.clone(),
            source,
        })?;
        Ok(())
    }

    /// Records a threshold once, when it is crossed.
    fn warn(&self, db: &Connection, bytes: u64) -> Result<(), MaintainError> {
        let percent = bytes.saturating_mul(100) / self.retention.bytes.max(1);
        let level = match percent {
            percent if percent > CRITICAL_PERCENT => 2u8,
            percent if percent > WARN_PERCENT => 1,
            _ => 0,
        };
        let known = read_meta(db, Meta::Fullness)?
            .and_then(|bytes| bytes.first().copied())
            .unwrap_or(0);
        if level == known {
            return Ok(());
        }
        let event = match level {
            0 => None,
            1 => Some(EventType::AuditStorageWarning),
            _ => Some(EventType::AuditStorageCritical),
        };
        if let Some(event) = event.filter(|_| level > known) {
            let mut entry = Entry::new(self.now, event, Stage::Note);
            entry.reason = Some(format!("the log uses {percent} % of its limit"));
            entry.metadata = BTreeMap::from([
                ("bytes".to_owned(), bytes.to_string()),
                ("limit".to_owned(), self.retention.bytes.to_string()),
            ]);
            (self.record)(entry)?;
        }
        write_meta(db, Meta::Fullness, &[level])?;
        Ok(())
    }
}

/// Whether the clock jumped ahead today; remembers the round.
fn has_jumped(db: &Connection, today: i64) -> rusqlite::Result<bool> {
    let known = read_meta(db, Meta::Rounds)?.and_then(|bytes| decode_days(&bytes));
    let jumped = match known {
        Some((last, jumped)) if today.saturating_sub(last) <= LONGEST_PAUSE_DAYS => jumped,
        Some(_) | None => today,
    };
    if known != Some((today, jumped)) {
        let days = [today.to_be_bytes(), jumped.to_be_bytes()].concat();
        write_meta(db, Meta::Rounds, &days)?;
    }
    Ok(jumped == today)
}

fn decode_days(bytes: &[u8]) -> Option<(i64, i64)> {
    let (last, jumped) = bytes.split_first_chunk::<8>()?;
    let jumped = <[u8; 8]>::try_from(jumped).ok()?;
    Some((i64::from_be_bytes(*last), i64::from_be_bytes(jumped)))
}

fn database_bytes(db: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name: &str| {
        db.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0))
            .map(i64::cast_unsigned)
    };
    let pages = pragma("page_count")?.saturating_sub(pragma("freelist_count")?);
    Ok(pages * pragma("page_size")?)
}

fn archive_bytes(names: &[SegmentName]) -> u64 {
    let found = names
        .iter()
        .filter_map(|name| fs::metadata(&name.path).ok());
    found.map(|metadata| metadata.len()).sum()
}

/// The newest day of an archive's last records. One that a clock dated wrongly, far back or in days to
/// come, does not decide what becomes of the others.
fn last_day(segment: &mut Segment, today: i64) -> Result<Option<i64>, SegmentError> {
    let Some(index) = segment.blocks().checked_sub(1) else {
        return Ok(None);
    };
    let records = segment.block(index)?;
    let times = records.iter().filter_map(|stored| time_of(stored));
    let days = times.map(|time| time.as_micros().div_euclid(DAY_MICROS));
    Ok(days.filter(|day| *day <= today).max())
}

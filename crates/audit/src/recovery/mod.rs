//! Rescues what can be read of a damaged database into a new one.
//!
//! Guarantee: nothing is deleted (the damaged file is set aside beside the new one), nothing that
//! fails its digest is taken over, and the new chain says where it broke and what is missing.
//!
//! Non-guarantee: lost records stay lost, and verification names the gap for ever. Rows are found
//! by their pages, not through the tree above them, so a page that is itself destroyed takes only
//! its own rows along; a backup fills in what it has.

mod carve;
mod extent;
mod snapshot;
mod suspicion;
mod swap;

pub(crate) use extent::check_extent;
pub(crate) use snapshot::snapshot;
pub(crate) use suspicion::{examine_suspect, is_suspect, suspect};
pub(crate) use swap::{finish, is_unfinished};

use crate::chain::{Head, LogId, Stored};
use crate::open::{Access, OpenError, open_database, open_for_rescue};
use crate::segment::{Segment, list_segments};
use crate::store::{Layout, log_id, read_checkpoints, unreached};
use crate::writer::{Meta, encode_head, newest_head, write_meta};
use crate::{Entry, EventType, SignedCheckpoint, Stage, seal};
use airlock_core::Timestamp;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use swap::Swap;

/// Most ranges of lost records that are named one by one.
const RANGES: usize = 100;

/// What recovery did and what was lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryReport {
    /// What was wrong.
    pub cause: String,
    /// Where the damaged database is kept; none if there was no file.
    pub set_aside: Option<PathBuf>,
    /// Records rescued from the damaged file.
    pub rescued: u64,
    /// Records that came from a backup.
    pub from_backup: u64,
    /// First and last number of each run of records that are lost, as far as it is known that they
    /// existed.
    pub lost: Vec<(u64, u64)>,
    /// The `audit_chain_break` record that says so.
    pub recorded: u64,
}

impl RecoveryReport {
    /// What happened, for people.
    pub fn message(&self) -> String {
        let lost: u64 = self.lost.iter().map(|(first, last)| last - first + 1).sum();
        let ranges: Vec<_> = self
            .lost
            .iter()
            .take(5)
            .map(|(first, last)| format!("{first}-{last}"))
            .collect();
        let lost = match lost {
            0 => "no record is known to be lost".to_owned(),
            lost => format!("{lost} records are lost ({})", ranges.join(", ")),
        };
        let aside = self.set_aside.as_ref().map_or_else(String::new, |path| {
            format!("; the damaged file is kept as `{}`", path.display())
        });
        format!(
            "the audit log was damaged ({}): {} records rescued, {} from a backup, {lost}{aside}",
            self.cause, self.rescued, self.from_backup
        )
    }
}

/// Hands every blob that may be a stored record, in the SQLite file at `path` and in its write-ahead
/// log, to `sink`: also out of a file SQLite cannot open any more. For other stores of sealed records
/// whose first columns are those of this log. What is handed over proves itself by its digest.
pub fn carve_records(path: &Path, sink: &mut dyn FnMut(&[u8])) {
    // The sink cannot fail, and files that cannot be read hold nothing.
    let _ = carve::carve(path, &mut |stored| {
        sink(stored);
        Ok(())
    });
}

/// Recovers the log in `directory`, if it is damaged. Nobody may have it open.
pub fn recover(
    directory: &Path,
    keys: &Path,
    now: Timestamp,
) -> Result<Option<RecoveryReport>, OpenError> {
    let layout = Layout::new(directory, keys);
    let path = layout.lock();
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(crate::open::nofollow())
        .open(&path)
        .map_err(|source| OpenError::io(&path, source))?;
    if lock.try_lock().is_err() {
        return Err(OpenError::InUse(layout.database()));
    }
    if let Some(finished) = finish(&layout)? {
        return Ok(Some(finished));
    }
    match inspect(&layout) {
        Ok(()) => Ok(None),
        Err(error) if error.is_damage() => recover_layout(&layout, now, &error).map(Some),
        Err(error) => Err(error),
    }
}

fn inspect(layout: &Layout) -> Result<(), OpenError> {
    let path = layout.database();
    let fail = |source| OpenError::sqlite(&path, source);
    let db = open_database(&path, Access::Read)?;
    newest_head(&db, &log_id(&db).map_err(fail)?).map_err(fail)?;
    let answer: String = db
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(fail)?;
    if answer == "ok" {
        return Ok(());
    }
    Err(OpenError::Damaged {
        path,
        detail: answer,
    })
}

/// The recovery itself; the caller holds the log's lock alone.
pub(crate) fn recover_layout(
    layout: &Layout,
    now: Timestamp,
    cause: &OpenError,
) -> Result<RecoveryReport, OpenError> {
    prepare(layout, now, cause)?.run(layout)
}

/// Makes the new database beside the damaged one, ready to take its place.
fn prepare(layout: &Layout, now: Timestamp, cause: &OpenError) -> Result<Swap, OpenError> {
    swap::remove_drafts(layout);
    let name = swap::draft_name();
    let draft = layout.directory.join(&name);
    let known = Known::gather(layout);
    let result = Rescue::build(layout, &draft, &known).and_then(|mut rescue| {
        let recorded = rescue.conclude(now, cause, &known)?;
        let report = RecoveryReport {
            cause: cause.to_string(),
            set_aside: aside(&layout.database(), now)?,
            rescued: rescue.rescued,
            from_backup: rescue.from_backup,
            lost: rescue.lost,
            recorded,
        };
        Ok(Swap::new(name, report))
    });
    if result.is_err() {
        // A rescue that failed left the damaged file where it was; its draft is of no use.
        let _ = fs::remove_file(&draft);
    }
    result
}

/// What is known of the log from outside its database.
struct Known {
    log: Option<LogId>,
    /// The newest checkpoint.
    signed: Option<SignedCheckpoint>,
    /// The highest head somebody signed or archived.
    head: Option<Head>,
    archived: Option<Head>,
}

impl Known {
    fn gather(layout: &Layout) -> Self {
        let signed = read_checkpoints(&layout.checkpoints())
            .ok()
            .and_then(|kept| kept.valid.last().copied());
        let archive = list_segments(&layout.segments())
            .ok()
            .and_then(|names| names.last().cloned())
            .and_then(|name| Segment::open(&name.path).ok());
        let archived = archive.as_ref().map(|segment| segment.last);
        let own = open_for_rescue(&layout.database())
            .ok()
            .and_then(|db| log_id(&db).ok());
        let log = own
            .or(signed.map(|signed| signed.checkpoint().log))
            .or(archive.map(|segment| segment.log));
        let heads = signed
            .map(|signed| signed.head())
            .into_iter()
            .chain(archived);
        Self {
            log,
            signed,
            head: heads.max_by_key(|head| head.seq),
            archived,
        }
    }
}

/// The new database while it is being filled.
struct Rescue {
    db: Connection,
    log: LogId,
    rescued: u64,
    from_backup: u64,
    lost: Vec<(u64, u64)>,
}

impl Rescue {
    fn build(layout: &Layout, draft: &Path, known: &Known) -> Result<Self, OpenError> {
        let fail = |source| OpenError::sqlite(draft, source);
        let db = open_database(draft, Access::Write)?;
        // One file to rename: no write-ahead log beside it.
        db.pragma_update_and_check(None, "journal_mode", "delete", |_| Ok(()))
            .map_err(fail)?;
        db.execute_batch("BEGIN IMMEDIATE").map_err(fail)?;
        let after = known.archived.map_or(0, |head| head.seq);
        let mut rescued = 0;
        carve::carve(&layout.database(), &mut |stored| {
            rescued += insert(&db, stored, after)?;
            Ok(())
        })
        .map_err(fail)?;
        let mut from_backup = 0;
        let mut backup_log = None;
        if let Some(backup) = snapshot::newest_good(layout) {
            backup_log = log_id(&backup).ok();
            from_backup = copy_rows(&backup, &db, after).map_err(fail)?;
        }
        let log = known
            .log
            .or(backup_log)
            .unwrap_or_else(|| LogId::from_bytes(rand::random()));
        write_meta(&db, Meta::Log, log.as_bytes()).map_err(fail)?;
        if let Some(archived) = known.archived {
            write_meta(&db, Meta::Archived, &encode_head(&archived)).map_err(fail)?;
        }
        let mut rescue = Self {
            db,
            log,
            rescued,
            from_backup,
            lost: Vec::new(),
        };
        rescue.lost = rescue.missing(after, known).map_err(fail)?;
        Ok(rescue)
    }

    /// The gaps between what there is, up to what is known to have existed.
    fn missing(&self, after: u64, known: &Known) -> rusqlite::Result<Vec<(u64, u64)>> {
        let mut lost = Vec::new();
        let mut next = after + 1;
        let mut statement = self.db.prepare("SELECT seq FROM records ORDER BY seq")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let seq = row.get::<_, i64>(0)?.cast_unsigned();
            if seq > next && lost.len() < RANGES {
                lost.push((next, seq - 1));
            }
            next = seq + 1;
        }
        let head = known.head.map_or(0, |head| head.seq);
        if head >= next {
            lost.push((next, head));
        }
        Ok(lost)
    }

    /// Appends the record of the break and makes the new file durable.
    fn conclude(
        &mut self,
        now: Timestamp,
        cause: &OpenError,
        known: &Known,
    ) -> Result<u64, OpenError> {
        let path = self.db.path().unwrap_or_default().to_owned();
        let fail = |source| OpenError::sqlite(Path::new(&path), source);
        let newest = newest_head(&self.db, &self.log).map_err(fail)?;
        // A number that was once signed for is never given to another record.
        let head = known
            .head
            .filter(|head| head.seq > newest.seq)
            .unwrap_or(newest);
        let mut entry = Entry::new(now, EventType::AuditChainBreak, Stage::Note);
        entry.reason = Some(cause.to_string());
        let ranges: Vec<_> = self
            .lost
            .iter()
            .map(|(first, last)| format!("{first}-{last}"))
            .collect();
        entry.metadata = BTreeMap::from([
            ("rescued".to_owned(), self.rescued.to_string()),
            ("from_backup".to_owned(), self.from_backup.to_string()),
            ("lost".to_owned(), ranges.join(" ")),
        ]);
        let sealed = seal(&head, &entry).map_err(|error| OpenError::Damaged {
            path: PathBuf::from(&path),
            detail: error.to_string(),
        })?;
        self.db
            .execute(
                "INSERT INTO records(seq, stored) VALUES (?1, ?2)",
                (sealed.seq().cast_signed(), sealed.stored()),
            )
            .and_then(|_| self.remember_break(known))
            .and_then(|()| self.db.execute_batch("COMMIT"))
            .map_err(fail)?;
        Ok(sealed.seq())
    }

    /// The next verification finds that signed records are lost: it is recorded here already.
    fn remember_break(&self, known: &Known) -> rusqlite::Result<()> {
        let signed = known
            .signed
            .filter(|signed| signed.checkpoint().log == self.log);
        let in_archives = known.archived.map_or(0, |head| head.seq);
        let found = match signed {
            Some(signed) => unreached(&self.db, &signed.head(), in_archives)?,
            None => None,
        };
        match found {
            Some(found) => write_meta(&self.db, Meta::Break, found.to_string().as_bytes()),
            None => Ok(()),
        }
    }
}

/// Takes over a record if it is intact and not archived; says how many were new.
fn insert(db: &Connection, stored: &[u8], after: u64) -> rusqlite::Result<u64> {
    let Ok(record) = Stored::parse(stored) else {
        return Ok(0);
    };
    if record.seq <= after || !record.is_intact() {
        return Ok(0);
    }
    db.prepare_cached("INSERT OR IGNORE INTO records(seq, stored) VALUES (?1, ?2)")?
        .execute((record.seq.cast_signed(), stored))
        .map(|rows| rows as u64)
}

fn copy_rows(from: &Connection, to: &Connection, after: u64) -> rusqlite::Result<u64> {
    let mut statement = from.prepare("SELECT stored FROM records ORDER BY seq")?;
    let mut rows = statement.query([])?;
    let mut copied = 0;
    while let Some(row) = rows.next()? {
        copied += insert(to, row.get_ref(0)?.as_blob()?, after)?;
    }
    Ok(copied)
}

/// The name under which the damaged database will be kept; none if there is no file.
fn aside(path: &Path, now: Timestamp) -> Result<Option<PathBuf>, OpenError> {
    if !path.exists() {
        return Ok(None);
    }
    let stamp = now.as_micros().max(0) / 1_000_000;
    let aside = (0..1_000)
        .map(|attempt| suffixed(path, &format!(".damaged-{stamp}-{attempt}")))
        .find(|candidate| !candidate.exists())
        .ok_or_else(|| OpenError::io(path, std::io::ErrorKind::AlreadyExists.into()))?;
    Ok(Some(aside))
}

pub(crate) fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn sync_directory(path: &Path) -> Result<(), OpenError> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(|source| OpenError::io(path, source))
}

//! The log as the rest of Airlock sees it: open, append, read, verify, keep, close.
//!
//! Guarantee: a durable append is on disk when it returns; several processes may append to one
//! directory and get one gapless chain; what a crash interrupted is named at the next open.
//!
//! What each sync guards:
//! - the write-ahead log after a commit ([`writer`]): the durable records in it and all before them;
//! - the write-ahead log before its pages move, and the database after (SQLite): a page is given up
//!   in one place only once it is safe in the other;
//! - the header of a write-ahead log that begins anew (SQLite): what stood there before is not
//!   taken for newer pages;
//! - a new database and its directory, before anything is appended: the log itself;
//! - the checkpoints file, after a sync of the records: no checkpoint vouches for what may be lost;
//! - an archive and its directory, before the rows it holds are deleted: those records.
//!
//! Outcomes and other buffered records wait for none of these: a power failure loses those since the
//! last sync. Nor do locks and markers, which tell of processes; a marker becomes durable with the
//! first sync of its writer's records, where the file system keeps metadata in order.
//!
//! Non-guarantee: a break in the chain is recorded and shown, never repaired, and does not stop
//! the log: whether to go on is the caller's policy.

mod checkpoints;
mod examine;
mod export;
mod health;
mod judges;
mod layout;
mod marker;
mod reach;
mod report;
mod signers;

pub(crate) use checkpoints::{CheckpointFile, read_checkpoints};
pub use examine::{VerifyError, VerifyOptions, VerifyReport, verify_database};
pub use export::{ExportLogError, Exported};
pub use health::Health;
pub(crate) use layout::Layout;
pub use marker::UncleanWriter;
pub(crate) use reach::unreached;
pub use report::{OpenReport, UnfinishedAttempt};

use crate::chain::{Head, LogId};
use crate::open::{Access, OpenError, is_damage, open_database, private_directory};
use crate::query::{Filter, Records, Stats};
use crate::recovery::{self, RecoveryReport};
use crate::segment::{self, MaintainError, MaintenanceReport, ReadError, Retention, Source};
use crate::writer::{
    self, Ahead, Append, AppendError, Awaited, CommitState, Committer, Disk, Draft, Drafts, Job,
    Keeper, Late, Meta, PutOff, Signing, WalFile, Window, Writer, Written, newest_head,
    newest_number, read_meta, write_meta,
};
use crate::{Entry, SignedCheckpoint};
use airlock_core::Timestamp;
use checkpoints::Claims;
use health::{Checker, Subject};
use marker::{Beginning, Marker};
use rusqlite::Connection;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Pages the writer keeps in memory: all that one transaction changes, mostly.
const WRITER_PAGES: i32 = 64;

/// When a buffered record is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffering {
    /// When it is committed, without waiting for the disk. For short commands.
    Immediate,
    /// When it is queued; committed with others soon after. For long-lived kernels.
    Windowed {
        /// Most records a crash may lose.
        records: usize,
        /// Longest time a record stays uncommitted, in milliseconds.
        millis: u64,
    },
}

impl Buffering {
    /// The window of a long-lived kernel: 100 records or 500 ms.
    pub const WINDOW: Self = Self::Windowed {
        records: 100,
        millis: 500,
    };

    /// Whether it is that of a writer which lives long.
    const fn lasts(self) -> bool {
        matches!(self, Self::Windowed { .. })
    }

    /// Pages the write-ahead log may have before they are moved into the database.
    const fn pages_ahead(self) -> u64 {
        match self {
            Self::Immediate => writer::SHORT,
            Self::Windowed { .. } => writer::LONG_LIVED,
        }
    }

    const fn window(self) -> Window {
        match self {
            Self::Immediate => Window {
                records: 1,
                age: Duration::from_millis(1),
            },
            Self::Windowed { records, millis } => Window {
                records: if records == 0 { 1 } else { records },
                age: Duration::from_millis(millis),
            },
        }
    }
}

/// Whether an append waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// On disk when the append returns.
    Durable,
    /// As [`Buffering`] says; some events are durable all the same.
    Buffered,
}

/// How much of the database is looked at before the log is used. Once a reader came upon damage, the next
/// to open the log alone looks at every page in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartupCheck {
    /// Header, extent, schema and head: the cost does not grow with the log. For short commands.
    Head,
    /// Every page, too. For long-lived kernels.
    Pages,
}

/// Tells the time; injected, so that tests own it.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// How to open a log.
#[derive(Clone)]
pub struct LogConfig {
    /// The state directory: database, archives, backups.
    pub directory: PathBuf,
    /// Where the signing key and the checkpoints are.
    pub keys: PathBuf,
    /// When buffered records are acknowledged.
    pub buffering: Buffering,
    /// Records between two signed checkpoints.
    pub checkpoint_every: u64,
    /// Whether closing signs a checkpoint and tidies the database; a short command leaves that to
    /// the next one whose turn it is.
    pub checkpoint_on_close: bool,
    /// What is looked at before the log is used.
    pub startup: StartupCheck,
    /// Whether the caller stops at a break. Nothing is signed then before the chain is known to hold:
    /// the next start must find the same break.
    pub stop_on_break: bool,
    /// How much is kept.
    pub retention: Retention,
    /// The database never grows beyond this many pages of 4 KiB; appends then fail as on a full
    /// disk.
    pub max_pages: Option<u32>,
    /// Tells the time.
    pub clock: Clock,
}

impl LogConfig {
    /// The settings of a short command.
    pub fn new(directory: &Path, keys: &Path, clock: Clock) -> Self {
        Self {
            directory: directory.to_owned(),
            keys: keys.to_owned(),
            buffering: Buffering::Immediate,
            checkpoint_every: 1_000,
            checkpoint_on_close: false,
            startup: StartupCheck::Head,
            stop_on_break: false,
            retention: Retention::default(),
            max_pages: None,
            clock,
        }
    }

    /// The settings of a long-lived kernel.
    #[must_use]
    pub fn long_lived(mut self) -> Self {
        self.buffering = Buffering::WINDOW;
        self.checkpoint_on_close = true;
        self.startup = StartupCheck::Pages;
        self
    }
}

/// What an append achieved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receipt {
    /// Committed (and on disk, if it was durable): this is its place in the chain.
    Written(Written),
    /// Acknowledged; its place is not known yet.
    Queued,
}

impl Receipt {
    /// The place in the chain, if it is known.
    pub const fn written(&self) -> Option<Written> {
        match self {
            Self::Written(written) => Some(*written),
            Self::Queued => None,
        }
    }
}

/// A durable append under way. The action it announces must wait for it.
#[must_use = "the record is not on disk before `wait` returns"]
#[derive(Debug)]
pub struct Ticket(Awaited);

impl Ticket {
    /// Waits until the record is on disk.
    pub fn wait(self) -> Result<Written, AppendError> {
        self.0.first()
    }
}

/// An open log.
pub struct Log {
    config: LogConfig,
    layout: Layout,
    id: LogId,
    report: OpenReport,
    put_off: PutOff,
    // Dropped in this order: the checker may still record a break, the marker outlives the writer.
    checker: Checker,
    writer: Writer,
    marker: Option<Marker>,
    _lock: File,
}

impl Log {
    /// Opens the log in `config.directory`, making it if there is none and recovering what can be
    /// read if it is damaged.
    pub fn open(config: LogConfig) -> Result<Self, OpenError> {
        let layout = Layout::new(&config.directory, &config.keys);
        private_directory(&layout.directory)?;
        let lock = share_lock(&layout)?;
        let (mut db, id, recovered) = open_or_recover(&config, &layout, &lock)?;
        let fail = |source| OpenError::sqlite(&layout.database(), source);
        let head = newest_head(&db, &id).map_err(fail)?;
        if let Some(pages) = config.max_pages {
            db.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
                .map_err(fail)?;
        }
        let dead = marker::dead_writers(&layout.writers())?;
        let marker = leave_marker(&layout, &config, head)?;
        let report = OpenReport::build(&layout, head, &dead, recovered)?;
        // From here on the writer itself waits for the disk.
        db.pragma_update(None, "synchronous", "NORMAL")
            .map_err(fail)?;
        // Whoever only appends needs the last page and those above it.
        db.pragma_update(None, "cache_size", WRITER_PAGES)
            .map_err(fail)?;
        let wal = WalFile::open(&layout.database())
            .map_err(|source| OpenError::io(&layout.database(), source))?;
        // It serves nothing but speed, and pays for nobody who ends soon.
        let room = if config.buffering.lasts() {
            wal.room(&db, config.buffering.pages_ahead()).ok()
        } else {
            None
        };
        let mut ahead = Ahead::watch(&mut db, config.buffering.pages_ahead()).map_err(fail)?;
        if !dead.is_empty() {
            // One of them may have ended because the disk lost pages of the write-ahead log. What
            // can still be read goes to the database, with a sync of its own, before anything is
            // added behind it.
            ahead.shorten(&db);
        }
        let claims = Claims::read(&layout.checkpoints(), id)
            .map_err(|source| OpenError::io(&layout.checkpoints(), source));
        let signing = if config.stop_on_break {
            Signing::once_verified()
        } else {
            Signing::default()
        };
        let disk = Arc::new(Disk::new(Box::new(wal)));
        let mut committer = Committer {
            db,
            ahead,
            room,
            keeper: Keeper::new(&layout, Arc::clone(&disk), config.buffering.lasts()),
            disk,
            log: id,
            checkpoints: CheckpointFile::new(&layout),
            every: config.checkpoint_every.max(1),
            on_close: config.checkpoint_on_close,
            clock: Arc::clone(&config.clock),
            // A file that cannot be read names nothing; the verification below says so.
            state: CommitState::new(claims.as_ref().map_or(0, Claims::highest), signing.clone()),
        };
        committer.note_cut(&head);
        let thread = |source| OpenError::io(&layout.directory, source);
        let writer = Writer::start(committer, config.buffering.window()).map_err(thread)?;
        let subject = Subject {
            layout: layout.clone(),
            log: id,
            claims,
            writer: Arc::clone(&writer.shared),
            signing,
            clock: Arc::clone(&config.clock),
        };
        let checker = Checker::start(subject, dead).map_err(thread)?;
        Ok(Self {
            config,
            layout,
            id,
            report,
            checker,
            put_off: PutOff::default(),
            writer,
            marker: marker.begun(),
            _lock: lock,
        })
    }

    /// Which log this is.
    pub const fn id(&self) -> LogId {
        self.id
    }

    /// What opening found: dead writers, attempts without outcome, a recovery.
    pub const fn open_report(&self) -> &OpenReport {
        &self.report
    }

    /// Whether the chain holds, as far as it was looked at.
    pub fn health(&self) -> Health {
        self.checker.health()
    }

    /// The failure that keeps records from being written right now, if there is one.
    pub fn failure(&self) -> Option<AppendError> {
        self.writer.shared.last_error()
    }

    /// Waits for the verification that opening began.
    pub fn wait_for_health(&self, patience: Duration) -> Health {
        self.checker.wait(patience)
    }

    /// Appends one record.
    pub fn append(&self, entry: &Entry, durability: Durability) -> Result<Receipt, AppendError> {
        let durable = durability == Durability::Durable || entry.event.is_durable();
        let draft = Drafts::One(Draft::new(entry)?);
        match self.send(draft, durable)? {
            None => Ok(Receipt::Queued),
            Some(awaited) => awaited.first().map(Receipt::Written),
        }
    }

    /// Appends records one after another, all of them or none.
    pub fn append_batch(
        &self,
        entries: &[Entry],
        durability: Durability,
    ) -> Result<Vec<Receipt>, AppendError> {
        self.append_batch_with(entries, None, durability)
    }

    /// The same, where the last of them says what is `late`.
    pub fn append_batch_with(
        &self,
        entries: &[Entry],
        late: Option<Late>,
        durability: Durability,
    ) -> Result<Vec<Receipt>, AppendError> {
        let durable = durability == Durability::Durable
            || entries.iter().any(|entry| entry.event.is_durable());
        let drafts: Result<Vec<_>, _> = entries.iter().map(Draft::new).collect();
        let mut drafts = drafts?;
        if let (Some(late), Some(draft), Some(entry)) = (late, drafts.last_mut(), entries.last()) {
            self.put_off.note(&late);
            draft.says_later(entry, late);
        }
        match self.send(Drafts::Many(drafts), durable)? {
            None => Ok(vec![Receipt::Queued; entries.len()]),
            Some(awaited) => {
                let written = awaited.all()?;
                Ok(written.into_iter().map(Receipt::Written).collect())
            }
        }
    }

    /// Computes what the last record still lacks: for a moment in which nobody waits. What is left is
    /// computed when a record is sealed.
    pub fn catch_up(&self) {
        self.put_off.catch_up();
    }

    /// Begins a durable append; the caller prepares other things and then waits.
    pub fn begin(&self, entry: &Entry) -> Result<Ticket, AppendError> {
        let draft = Drafts::One(Draft::new(entry)?);
        self.writer.shared.append(draft, true).map(Ticket)
    }

    /// Begins a durable append of records one after another, all of them or none.
    pub fn begin_batch(&self, entries: &[Entry]) -> Result<Ticket, AppendError> {
        let drafts: Result<Vec<_>, _> = entries.iter().map(Draft::new).collect();
        let drafts = Drafts::Many(drafts?);
        self.writer.shared.append(drafts, true).map(Ticket)
    }

    /// Hands records to the writer; there is nothing to wait for if they are merely acknowledged.
    fn send(&self, drafts: Drafts, durable: bool) -> Result<Option<Awaited>, AppendError> {
        let shared = &self.writer.shared;
        let windowed = matches!(self.config.buffering, Buffering::Windowed { .. });
        if !windowed || durable || shared.is_failing() {
            return shared.append(drafts, durable).map(Some);
        }
        shared.check_disk()?;
        let records = drafts.len();
        let append = Append {
            drafts,
            durable,
            promised: false,
        };
        shared
            .queue
            .push_acknowledged(Job::Append(append), records)?;
        Ok(None)
    }

    /// Returns once everything appended so far is on disk.
    pub fn flush(&self) -> Result<(), AppendError> {
        writer::answer(&self.writer.shared.ask(Job::Flush)?)
    }

    /// Signs the head now: not one below what was signed before, nor, where the caller stops at a
    /// break, one of a chain that is not known to hold.
    pub fn checkpoint(&self) -> Result<SignedCheckpoint, AppendError> {
        writer::answer(&self.writer.shared.ask(Job::Checkpoint)?)
    }

    /// The records `filter` lets through, committed ones only: [`Log::flush`] first for the rest.
    pub fn read(&self, filter: Filter) -> Result<Records, ReadError> {
        let records = read_layout(&self.layout, filter)?;
        Ok(records.noting_damage(&self.layout))
    }

    /// The records after `seq`; call again with the last number seen to follow the log.
    pub fn follow(&self, after: u64, filter: Filter) -> Result<Records, ReadError> {
        let first = Some(filter.first.unwrap_or(0).max(after.saturating_add(1)));
        self.read(Filter {
            first,
            newest_first: false,
            ..filter
        })
    }

    /// Counts everything.
    pub fn stats(&self) -> Result<Stats, ReadError> {
        count(&self.layout, self.read(Filter::default())?)
    }

    /// Archives past segments, deletes what is too old or too much, warns.
    pub fn maintain(&self, now: Timestamp) -> Result<MaintenanceReport, MaintainError> {
        self.maintain_within(self.config.retention, now)
    }

    /// The same with other limits than those it was opened with.
    pub fn maintain_within(
        &self,
        retention: Retention,
        now: Timestamp,
    ) -> Result<MaintenanceReport, MaintainError> {
        let done = segment::maintain(&segment::Task {
            layout: &self.layout,
            log: self.id,
            retention,
            now,
            record: &|entry| self.append(&entry, Durability::Durable).map(drop),
        });
        if let Err(MaintainError::Database(error)) = &done
            && is_damage(error)
        {
            recovery::suspect(&self.layout);
        }
        done
    }

    /// Copies the database into `backups/`, keeping the last five copies.
    pub fn snapshot(&self) -> Result<PathBuf, OpenError> {
        recovery::snapshot(&self.layout, (self.config.clock)())
    }

    /// Flushes, signs if so configured, and leaves in good order.
    pub fn close(mut self) -> Result<(), AppendError> {
        self.shut()
    }

    fn shut(&mut self) -> Result<(), AppendError> {
        let settled = self.checker.stop();
        let closed = self.writer.close();
        // Taken in any case: a second call, from `drop`, must not find it and call this clean.
        let own = self.marker.take();
        if closed.is_ok() {
            settled.into_iter().for_each(marker::DeadMarker::settle);
            own.into_iter().for_each(Marker::remove);
        }
        closed
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`.
        let _ = self.shut();
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Log({} in {})", self.id, self.layout.directory.display())
    }
}

/// Reads the log in `directory` without being able to change it.
pub fn read_log(directory: &Path, filter: Filter) -> Result<Records, ReadError> {
    read_layout(&Layout::new(directory, directory), filter)
}

/// Counts the log in `directory` without being able to change it.
pub fn log_stats(directory: &Path, keys: &Path) -> Result<Stats, ReadError> {
    let layout = Layout::new(directory, keys);
    count(&layout, read_layout(&layout, Filter::default())?)
}

fn read_layout(layout: &Layout, filter: Filter) -> Result<Records, ReadError> {
    let db = open_database(&layout.database(), Access::Read)?;
    let low = filter.first.unwrap_or(1).max(1);
    let high = filter.last.unwrap_or(i64::MAX.cast_unsigned());
    let (first, last) = if filter.newest_first {
        // Downwards from what there is, not from the end of all numbers.
        let newest = newest_number(&db)?;
        (high.min(newest), low)
    } else {
        (low, high)
    };
    let is_empty = if filter.newest_first {
        first < last
    } else {
        first > last
    };
    let mut source = Source::new(db, &layout.segments(), first, last);
    if is_empty {
        source.exhaust();
    }
    Ok(Records::new(source, filter))
}

fn count(layout: &Layout, records: Records) -> Result<Stats, ReadError> {
    let mut stats = Stats::default();
    for record in records {
        match record {
            Ok(record) => stats.count(&record),
            Err(ReadError::Record { .. }) => stats.unreadable += 1,
            Err(error) => return Err(error),
        }
    }
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let archives = segment::list_segments(&layout.segments())?;
    stats.archives = archives.len();
    let log = layout.database();
    let mut ahead = log.clone().into_os_string();
    ahead.push("-wal");
    stats.disk_bytes = size(&log)
        + size(Path::new(&ahead))
        + archives.iter().map(|name| size(&name.path)).sum::<u64>();
    stats.checkpoints = read_checkpoints(&layout.checkpoints()).map_or(0, |kept| kept.valid.len());
    Ok(stats)
}

fn share_lock(layout: &Layout) -> Result<File, OpenError> {
    let path = layout.lock();
    let io = |source| OpenError::Io {
        path: path.clone(),
        source,
    };
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(crate::open::nofollow())
        .open(&path)
        .map_err(io)?;
    file.lock_shared().map_err(io)?;
    Ok(file)
}

fn leave_marker(layout: &Layout, config: &LogConfig, head: Head) -> Result<Beginning, OpenError> {
    let writer = UncleanWriter {
        pid: std::process::id(),
        opened: (config.clock)(),
        head: head.seq,
    };
    Marker::leave(&layout.writers(), &writer)
}

fn open_or_recover(
    config: &LogConfig,
    layout: &Layout,
    lock: &File,
) -> Result<(Connection, LogId, Option<RecoveryReport>), OpenError> {
    let mut report = None;
    if recovery::is_unfinished(layout) {
        lock_alone(layout, lock)?;
        report = recovery::finish(layout)?;
        lock_again(layout, lock)?;
    }
    if recovery::is_suspect(layout) {
        // Where others have it open they go on as they are, and whoever is alone next looks.
        if lock_alone(layout, lock).is_ok() {
            match recovery::examine_suspect(layout, (config.clock)()) {
                Ok(found) => report = found.or(report),
                // Where only reading suffers nothing is lost by going on; whoever comes next tries again.
                Err(_) if !recovery::is_unfinished(layout) => {}
                Err(error) => return Err(error),
            }
        }
        lock_again(layout, lock)?;
    }
    match open_checked(config, layout) {
        Ok((db, id)) => return Ok((db, id, report)),
        Err(error) if error.is_damage() => {}
        Err(error) => return Err(error),
    }
    lock_alone(layout, lock)?;
    // Whoever was first may have recovered it already.
    match open_checked(config, layout) {
        Ok(_) => {}
        Err(error) if error.is_damage() => {
            report = Some(recovery::recover_layout(layout, (config.clock)(), &error)?);
        }
        Err(error) => return Err(error),
    }
    lock_again(layout, lock)?;
    let (db, id) = open_checked(config, layout)?;
    Ok((db, id, report))
}

/// Others would go on writing into the file that is set aside.
fn lock_alone(layout: &Layout, lock: &File) -> Result<(), OpenError> {
    lock.try_lock()
        .map_err(|_| OpenError::InUse(layout.database()))
}

fn lock_again(layout: &Layout, lock: &File) -> Result<(), OpenError> {
    lock.lock_shared()
        .map_err(|source| OpenError::io(&layout.lock(), source))
}

fn open_checked(config: &LogConfig, layout: &Layout) -> Result<(Connection, LogId), OpenError> {
    let path = layout.database();
    let fail = |source| OpenError::sqlite(&path, source);
    let db = open_database(&path, Access::Write)?;
    recovery::check_extent(&db, &path)?;
    let id = match read_meta(&db, Meta::Log).map_err(fail)? {
        Some(_) => log_id(&db).map_err(fail)?,
        None => begin_log(&db, layout)?,
    };
    newest_head(&db, &id).map_err(fail)?;
    if config.startup == StartupCheck::Pages {
        let answer: String = db
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(fail)?;
        if answer != "ok" {
            return Err(OpenError::Damaged {
                path,
                detail: answer,
            });
        }
    }
    Ok((db, id))
}

pub(crate) fn log_id(db: &Connection) -> rusqlite::Result<LogId> {
    let bytes = read_meta(db, Meta::Log)?.unwrap_or_default();
    <[u8; 16]>::try_from(bytes)
        .map(LogId::from_bytes)
        .map_err(|_| {
            rusqlite::Error::FromSqlConversionFailure(
                0,
                rusqlite::types::Type::Blob,
                "the log id is not 16 bytes".into(),
            )
        })
}

/// Gives a new database its id, unless there are signs that it had one: then it was lost.
fn begin_log(db: &Connection, layout: &Layout) -> Result<LogId, OpenError> {
    let path = layout.database();
    let fail = |source| OpenError::sqlite(&path, source);
    // Under the lock, because another process may be first, and have signed something already.
    let transaction =
        rusqlite::Transaction::new_unchecked(db, rusqlite::TransactionBehavior::Immediate)
            .map_err(fail)?;
    if read_meta(&transaction, Meta::Log).map_err(fail)?.is_some() {
        return log_id(&transaction).map_err(fail);
    }
    let kept = read_checkpoints(&layout.checkpoints())
        .map_err(|source| OpenError::io(&layout.checkpoints(), source))?;
    let records: i64 = transaction
        .query_row(
            "SELECT count(*) FROM (SELECT 1 FROM records LIMIT 1)",
            [],
            |row| row.get(0),
        )
        .map_err(fail)?;
    let archives = segment::list_segments(&layout.segments()).unwrap_or_default();
    if records > 0 || !kept.valid.is_empty() || !archives.is_empty() {
        return Err(OpenError::Damaged {
            path,
            detail: "it is empty, but checkpoints or archives of it exist".to_owned(),
        });
    }
    let id: [u8; 16] = rand::random();
    write_meta(&transaction, Meta::Log, &id).map_err(fail)?;
    let id = log_id(&transaction).map_err(fail)?;
    transaction.commit().map_err(fail)?;
    Ok(id)
}

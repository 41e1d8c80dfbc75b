//! One transaction: takes the write lock, reads the head, seals, inserts, commits.
//!
//! Invariant: the head is read inside the transaction that extends it, so any number of processes
//! build one gapless chain. A number that was once signed for is never given to another record.

use super::ahead::Ahead;
use super::disk::Disk;
use super::keeper::Keeper;
use super::room::Room;
use super::signing::Signing;
use super::{AppendError, Draft, Job, Queued, Written};
use crate::chain::{Head, LogId, Stored};
use crate::checkpoint::CHECKPOINT_METADATA;
use crate::store::CheckpointFile;
use crate::{Break, Entry, EventType, SignedCheckpoint, Stage};
use airlock_core::Timestamp;
use rusqlite::{Connection, OptionalExtension, Statement};
use std::sync::Arc;

/// The names of the rows of `meta`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Meta {
    /// The log's id.
    Log,
    /// Number of the last record a checkpoint covers.
    Checkpointed,
    /// Number and digest of the last archived record.
    Archived,
    /// The break that was recorded last.
    Break,
    /// How full the log was when that was last recorded, in percent steps.
    Fullness,
    /// The day of the last round of maintenance, and that of the last one whose clock had jumped.
    Rounds,
}

impl Meta {
    const fn key(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Checkpointed => "checkpointed",
            Self::Archived => "archived",
            Self::Break => "break",
            Self::Fullness => "fullness",
            Self::Rounds => "rounds",
        }
    }
}

pub(crate) fn read_meta(db: &Connection, meta: Meta) -> rusqlite::Result<Option<Vec<u8>>> {
    db.prepare_cached("SELECT value FROM meta WHERE key = ?1")?
        .query_row([meta.key()], |row| row.get(0))
        .optional()
}

pub(crate) fn write_meta(db: &Connection, meta: Meta, value: &[u8]) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR REPLACE INTO meta(key, value) VALUES (?1, ?2)")?
        .execute((meta.key(), value))
        .map(drop)
}

/// No chain comes near this number: a row beyond it that holds another record would leave no numbers to
/// go on with.
const FARTHEST: u64 = 1 << 62;

/// The chain's head: the last row, else the last archived record, else the genesis.
///
/// The number is the row's own. Where the row holds another record than that, its number is taken all the
/// same: the chain goes on behind it, and verification finds it where it stands.
pub(crate) fn newest_head(db: &Connection, log: &LogId) -> rusqlite::Result<Head> {
    let last = db
        .prepare_cached("SELECT seq, stored FROM records WHERE seq > 0 ORDER BY seq DESC LIMIT 1")?
        .query_row([], head_of_row)
        .optional()?;
    if let Some(head) = last {
        return Ok(head);
    }
    Ok(last_archived(db)?.unwrap_or_else(|| Head::genesis(log)))
}

fn head_of_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Head> {
    let no_record =
        |error| rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Blob, error);
    let seq = row.get::<_, i64>(0)?.cast_unsigned();
    let bytes = row.get_ref(1)?.as_blob()?;
    let stored = Stored::parse(bytes).map_err(|error| no_record(error.into()))?;
    if stored.seq != seq && seq > FARTHEST {
        let found = format!("row {seq} holds record {}", stored.seq);
        return Err(no_record(found.into()));
    }
    Ok(Head {
        seq,
        digest: stored.digest,
    })
}

/// The number of the last row, whatever it holds, else that of the last archived record; 0 before the
/// first.
pub(crate) fn newest_number(db: &Connection) -> rusqlite::Result<u64> {
    let last: Option<i64> =
        db.query_row("SELECT max(seq) FROM records WHERE seq > 0", [], |row| {
            row.get(0)
        })?;
    match last {
        Some(last) => Ok(last.cast_unsigned()),
        None => Ok(last_archived(db)?.map_or(0, |head| head.seq)),
    }
}

/// The last archived record, as the database remembers it.
pub(crate) fn last_archived(db: &Connection) -> rusqlite::Result<Option<Head>> {
    let archived = read_meta(db, Meta::Archived)?;
    Ok(archived.and_then(|bytes| decode_head(&bytes)))
}

pub(crate) fn encode_head(head: &Head) -> Vec<u8> {
    let mut bytes = head.seq.to_be_bytes().to_vec();
    bytes.extend_from_slice(head.digest.as_bytes());
    bytes
}

pub(crate) fn decode_head(bytes: &[u8]) -> Option<Head> {
    let (seq, rest) = bytes.split_first_chunk::<8>()?;
    let digest = <[u8; 32]>::try_from(rest).ok()?;
    Some(Head {
        seq: u64::from_be_bytes(*seq),
        digest: airlock_core::Digest::from_bytes(digest),
    })
}

/// Rows that one statement inserts, where there are as many: it finds the end of the table once
/// for all of them.
const ROWS: usize = 16;
const INSERT_ROWS: &str = "INSERT INTO records(seq, stored) VALUES \
    (?,?),(?,?),(?,?),(?,?),(?,?),(?,?),(?,?),(?,?),(?,?),(?,?),(?,?),(?,?),(?,?),(?,?),(?,?),(?,?)";
const INSERT_ROW: &str = "INSERT INTO records(seq, stored) VALUES (?,?)";

/// Rows longer than this are inserted alone: SQLite copies all that one statement inserts.
const SMALL_ROW: usize = 64 * 1024;

fn insert(db: &Connection, rows: &[(i64, &[u8])]) -> rusqlite::Result<()> {
    let small = rows.iter().all(|(_, stored)| stored.len() <= SMALL_ROW);
    let (many, rest) = if small {
        rows.as_chunks::<ROWS>()
    } else {
        ([].as_slice(), rows)
    };
    if !many.is_empty() {
        let mut statement = db.prepare_cached(INSERT_ROWS)?;
        for rows in many {
            insert_with(&mut statement, rows)?;
        }
    }
    if !rest.is_empty() {
        let mut statement = db.prepare_cached(INSERT_ROW)?;
        for row in rest {
            insert_with(&mut statement, std::slice::from_ref(row))?;
        }
    }
    Ok(())
}

fn insert_with(statement: &mut Statement<'_>, rows: &[(i64, &[u8])]) -> rusqlite::Result<()> {
    let mut place = 1;
    for (seq, stored) in rows {
        statement.raw_bind_parameter(place, seq)?;
        statement.raw_bind_parameter(place + 1, stored)?;
        place += 2;
    }
    statement.raw_execute().map(drop)
}

/// What the writer thread works with.
pub(crate) struct Committer {
    pub(crate) db: Connection,
    pub(crate) disk: Arc<Disk>,
    pub(crate) ahead: Ahead,
    /// For a writer that lives long.
    pub(crate) room: Option<Room>,
    pub(crate) log: LogId,
    pub(crate) checkpoints: CheckpointFile,
    pub(crate) keeper: Keeper,
    pub(crate) every: u64,
    pub(crate) on_close: bool,
    pub(crate) clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    pub(crate) state: CommitState,
}

/// What changes from one transaction to the next.
#[derive(Debug, Default)]
pub(crate) struct CommitState {
    /// The last checkpoint this process knows of; others may have signed later ones.
    checkpointed: u64,
    /// The highest number that the checkpoints file names, as far as is known here. A chain that ends
    /// below it may have been cut.
    claimed: u64,
    signing: Signing,
    appended: bool,
}

impl CommitState {
    /// Where the checkpoints file names numbers up to `claimed`.
    pub(crate) fn new(claimed: u64, signing: Signing) -> Self {
        Self {
            claimed,
            signing,
            ..Self::default()
        }
    }
}

/// The record of a break: `detail` says what is wrong, from record `seq` on.
pub(crate) fn break_entry(time: Timestamp, log: LogId, seq: Option<u64>, detail: &str) -> Entry {
    let mut entry = Entry::new(time, EventType::AuditChainBreak, Stage::Note);
    entry.reason = Some(detail.to_owned());
    let mut note = |name: &str, value: String| entry.metadata.insert(name.to_owned(), value);
    note("log", log.to_string());
    if let Some(seq) = seq {
        note("first_bad", seq.to_string());
    }
    entry
}

/// What a transaction wrote.
pub(crate) struct Committed {
    /// Whether somebody waits for it to be on disk.
    pub(crate) durable: bool,
    /// How many records it wrote.
    records: usize,
    /// Where those are that were promised, in order.
    promised: Vec<Written>,
    checkpoint: Option<SignedCheckpoint>,
    checkpoint_error: Option<AppendError>,
    /// Whether somebody waits for checkpoints, too.
    awaited: bool,
}

impl Committed {
    /// Where the promised records are, in order.
    pub(crate) fn take_promised(&mut self) -> Vec<Written> {
        std::mem::take(&mut self.promised)
    }

    /// Whether a sync is all that is left to do, and nobody but those who were promised an answer
    /// waits for it.
    pub(crate) fn waits_for_disk_alone(&self, jobs: &[Queued<Job>]) -> bool {
        let appends = |queued: &Queued<Job>| matches!(queued.job, Job::Append(_));
        self.durable && self.checkpoint.is_none() && jobs.iter().all(appends)
    }

    /// Tells every caller that asked for something else than records.
    pub(crate) fn answer(self, jobs: impl Iterator<Item = Queued<Job>>) {
        for queued in jobs {
            // A caller that gave up waiting is no reason to stop.
            match queued.job {
                Job::Append(_) => {}
                Job::Flush(reply) => drop(reply.send(Ok(()))),
                Job::Checkpoint(reply) => {
                    let answer = match (&self.checkpoint_error, self.checkpoint) {
                        (Some(error), _) => Err(error.clone()),
                        (None, Some(checkpoint)) => Ok(checkpoint),
                        (None, None) => Err(AppendError::Closed),
                    };
                    let _ = reply.send(answer);
                }
            }
        }
    }
}

impl Committer {
    /// Writes all of `jobs` in one transaction.
    pub(crate) fn commit(&mut self, jobs: &mut [Queued<Job>]) -> Result<Committed, AppendError> {
        let durable = jobs.iter().any(|queued| queued.job.is_durable());
        let wanted = jobs
            .iter()
            .any(|queued| matches!(queued.job, Job::Checkpoint(_)));
        self.execute("BEGIN IMMEDIATE")?;
        // What nobody waits for is synced with what comes next, however long that takes.
        if durable && let Some(room) = &mut self.room {
            room.make(self.ahead.pages());
        }
        let result = self.fill(jobs, durable, wanted).and_then(|filled| {
            self.execute("COMMIT")?;
            Ok(filled)
        });
        match result {
            Ok(committed) => {
                self.state.appended |= committed.records > 0;
                if let Some(checkpoint) = &committed.checkpoint {
                    self.state.claimed = self.state.claimed.max(checkpoint.head().seq);
                }
                Ok(committed)
            }
            Err(error) => {
                // The failure that led here is the one to report; a transaction that SQLite ended
                // by itself cannot be rolled back again.
                if !self.db.is_autocommit() {
                    let _ = self.execute("ROLLBACK");
                }
                Err(error)
            }
        }
    }

    fn fill(
        &mut self,
        jobs: &mut [Queued<Job>],
        durable: bool,
        wanted: bool,
    ) -> Result<Committed, AppendError> {
        let sqlite = |error: rusqlite::Error| AppendError::sqlite(&error);
        let mut head = self.chain_end()?;
        let mut committed = Committed {
            durable,
            records: 0,
            promised: Vec::with_capacity(jobs.len()),
            checkpoint: None,
            checkpoint_error: None,
            awaited: jobs
                .iter()
                .any(|queued| !matches!(queued.job, Job::Append(_))),
        };
        let mut rows = Vec::with_capacity(jobs.len());
        for queued in jobs {
            let Job::Append(append) = &mut queued.job else {
                continue;
            };
            let promised = append.promised;
            for draft in append.drafts.as_mut_slice() {
                head = draft.seal(&head)?;
                rows.push((head.seq.cast_signed(), draft.stored()));
                if promised {
                    committed.promised.push(Written {
                        seq: head.seq,
                        digest: head.digest,
                    });
                }
            }
        }
        committed.records = rows.len();
        insert(&self.db, &rows).map_err(sqlite)?;
        let due = committed.records > 0 && self.is_due(&head).map_err(sqlite)?;
        if wanted || due {
            match self.sign(head) {
                Ok(checkpoint) => {
                    self.insert_checkpoint(head, &checkpoint)?;
                    committed.checkpoint = Some(checkpoint);
                }
                // A key that cannot be read must not stop the records themselves.
                Err(error) => committed.checkpoint_error = Some(error),
            }
        }
        Ok(committed)
    }

    /// Where the chain goes on: after its last record, or after the newest number that was signed for
    /// if it was cut short of that. Then a record says so first.
    fn chain_end(&mut self) -> Result<Head, AppendError> {
        let head = newest_head(&self.db, &self.log).map_err(|error| AppendError::sqlite(&error))?;
        if head.seq >= self.state.claimed {
            return Ok(head);
        }
        let beyond = head.seq.saturating_add(1);
        let signed = self
            .checkpoints
            .newest_from(self.log, beyond)
            .map_err(|error| AppendError::Checkpoint(error.to_string()))?;
        if let Some(signed) = signed {
            return self.go_on_after(signed.head(), head);
        }
        // The line that named a higher number is no checkpoint.
        self.state.claimed = head.seq;
        Ok(head)
    }

    /// Puts the record of the break after `signed`, in a chain that ends at `last`.
    fn go_on_after(&mut self, signed: Head, last: Head) -> Result<Head, AppendError> {
        self.state.signing.withhold();
        let found = Break::Truncated {
            last: last.seq,
            checkpoint: signed.seq,
        };
        let detail = found.to_string();
        let mut entry = break_entry((self.clock)(), self.log, Some(found.seq()), &detail);
        let missing = format!("{}-{}", found.seq(), signed.seq);
        entry.metadata.insert("lost".to_owned(), missing);
        let mut draft = Draft::new(&entry)?;
        let head = draft.seal(&signed)?;
        insert(&self.db, &[(head.seq.cast_signed(), draft.stored())])
            .and_then(|()| write_meta(&self.db, Meta::Break, detail.as_bytes()))
            .map_err(|error| AppendError::sqlite(&error))?;
        Ok(head)
    }

    /// Records before anything else that the chain was cut short of what was signed for, if it was.
    /// `head` is where it ended a moment ago.
    pub(crate) fn note_cut(&mut self, head: &Head) {
        if head.seq >= self.state.claimed {
            return;
        }
        // What fails here is done by the first commit that succeeds.
        if let Ok(mut committed) = self.commit(&mut []) {
            committed.durable = true;
            let _later = self.settle(&mut committed);
        }
    }

    fn is_due(&mut self, head: &Head) -> rusqlite::Result<bool> {
        if head.seq.saturating_sub(self.state.checkpointed) < self.every {
            return Ok(false);
        }
        // Another process may have signed since.
        let known = read_meta(&self.db, Meta::Checkpointed)?
            .and_then(|bytes| <[u8; 8]>::try_from(bytes).ok())
            .map_or(0, u64::from_be_bytes);
        self.state.checkpointed = known;
        Ok(head.seq.saturating_sub(known) >= self.every)
    }

    fn sign(&mut self, head: Head) -> Result<SignedCheckpoint, AppendError> {
        if !self.state.signing.is_allowed() {
            let why = "the chain is not known to hold".to_owned();
            return Err(AppendError::Unsigned(why));
        }
        // Others sign, too. A file that cannot be read now says later what is wrong with the chain.
        if let Ok(Some(kept)) = self.checkpoints.newest_from(self.log, head.seq) {
            let (kept, last) = (kept.head().seq, head.seq);
            // The next transaction goes on after it.
            self.state.claimed = kept;
            return Err(AppendError::Unsigned(format!(
                "record {kept} was signed for before, and the log ends at record {last}"
            )));
        }
        self.checkpoints
            .sign(self.log, head, (self.clock)())
            .map_err(|error| AppendError::Checkpoint(error.to_string()))
    }

    fn insert_checkpoint(
        &mut self,
        head: Head,
        checkpoint: &SignedCheckpoint,
    ) -> Result<(), AppendError> {
        let mut entry = Entry::new((self.clock)(), EventType::Checkpoint, Stage::Note);
        entry
            .metadata
            .insert(CHECKPOINT_METADATA.to_owned(), checkpoint.to_string());
        let mut draft = Draft::new(&entry)?;
        let head = draft.seal(&head)?;
        let row = (head.seq.cast_signed(), draft.stored());
        insert(&self.db, &[row])
            .and_then(|()| write_meta(&self.db, Meta::Checkpointed, &head.seq.to_be_bytes()))
            .map_err(|error| AppendError::sqlite(&error))?;
        self.state.checkpointed = head.seq;
        Ok(())
    }

    /// Waits for the disk if somebody wants that of the transaction, and sees to it that its checkpoint
    /// comes into the file beside the key: before this returns if somebody waits for that. One that could
    /// not be put there is tried again with every commit: the file is what shows a chain that was cut short.
    /// Fails only if the records are not durable that should be.
    pub(crate) fn settle(&mut self, committed: &mut Committed) -> Result<(), AppendError> {
        let synced = if committed.durable {
            self.disk.sync()
        } else {
            Ok(())
        };
        if let Some(checkpoint) = committed.checkpoint {
            let synced = committed.durable && synced.is_ok();
            self.keeper.take(checkpoint, synced);
        }
        if committed.awaited {
            if let Err(error) = self.keeper.publish() {
                committed.checkpoint_error.get_or_insert(error);
            }
        } else {
            self.keeper.nudge();
        }
        synced
    }

    fn execute(&self, sql: &str) -> Result<(), AppendError> {
        self.db
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute([]))
            .map(drop)
            .map_err(|error| AppendError::sqlite(&error))
    }

    pub(crate) fn wants_upkeep(&self) -> bool {
        self.ahead.is_long()
    }

    /// Moves the WAL into the database, as far as readers allow.
    pub(crate) fn upkeep(&mut self) {
        self.ahead.shorten(&self.db);
    }

    /// The end of the writer: a last checkpoint if that is wanted, and a tidy WAL.
    pub(crate) fn finish(&mut self) -> Result<(), AppendError> {
        if !self.state.appended {
            return Ok(());
        }
        self.keeper.close();
        let published = self.keeper.publish();
        if self.on_close && self.state.signing.is_allowed() {
            let (reply, _) = std::sync::mpsc::sync_channel(1);
            let job = Queued {
                job: Job::Checkpoint(reply),
                acknowledged: 0,
            };
            let mut committed = self.commit(&mut [job])?;
            self.settle(&mut committed)?;
            if let Some(error) = committed.checkpoint_error {
                return Err(error);
            }
        }
        if self.on_close {
            self.upkeep();
        }
        if self.keeper.is_behind() {
            published
        } else {
            Ok(())
        }
    }
}

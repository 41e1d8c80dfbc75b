//! One transaction: takes the write lock, reads the head, seals, inserts, commits.
//!
//! Invariant: the head is read inside the transaction that extends it, so any number of processes
//! build one gapless chain.

use super::ahead::Ahead;
use super::disk::Disk;
use super::{AppendError, Draft, Job, Queued, Written};
use crate::chain::{Head, LogId, Stored};
use crate::checkpoint::CHECKPOINT_METADATA;
use crate::store::CheckpointFile;
use crate::{Entry, EventType, SignedCheckpoint, Stage};
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

/// The chain's head: the last row, else the last archived record, else the genesis.
pub(crate) fn newest_head(db: &Connection, log: &LogId) -> rusqlite::Result<Head> {
    let last = db
        .prepare_cached("SELECT stored FROM records ORDER BY seq DESC LIMIT 1")?
        .query_row([], |row| {
            let bytes = row.get_ref(0)?.as_blob()?;
            let stored = Stored::parse(bytes).map_err(|error| {
                rusqlite::Error::FromSqlConversionFailure(
                    0,
                    rusqlite::types::Type::Blob,
                    Box::new(error),
                )
            })?;
            Ok(stored.head())
        })
        .optional()?;
    if let Some(head) = last {
        return Ok(head);
    }
    let archived = read_meta(db, Meta::Archived)?;
    Ok(archived
        .and_then(|bytes| decode_head(&bytes))
        .unwrap_or_else(|| Head::genesis(log)))
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
    pub(crate) log: LogId,
    pub(crate) checkpoints: CheckpointFile,
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
    appended: bool,
    unpublished: Option<Unpublished>,
}

/// A committed checkpoint that is not in the file beside the key yet.
#[derive(Debug)]
struct Unpublished {
    checkpoint: SignedCheckpoint,
    /// Whether the records it vouches for are known to be on disk.
    synced: bool,
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
        let result = self.fill(jobs, durable, wanted).and_then(|filled| {
            self.execute("COMMIT")?;
            Ok(filled)
        });
        match result {
            Ok(committed) => {
                self.state.appended |= committed.records > 0;
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
        let mut head = newest_head(&self.db, &self.log).map_err(sqlite)?;
        let mut committed = Committed {
            durable,
            records: 0,
            promised: Vec::with_capacity(jobs.len()),
            checkpoint: None,
            checkpoint_error: None,
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
        if wanted || self.is_due(&head).map_err(sqlite)? {
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

    /// Waits for the disk if somebody wants that of the transaction, and puts its checkpoint into
    /// the file beside the key. Fails only if the records are not durable that should be.
    pub(crate) fn settle(&mut self, committed: &mut Committed) -> Result<(), AppendError> {
        let synced = if committed.durable {
            self.disk.sync()
        } else {
            Ok(())
        };
        if let Some(checkpoint) = committed.checkpoint {
            // The newest vouches for everything an older one did.
            self.state.unpublished = Some(Unpublished {
                checkpoint,
                synced: committed.durable && synced.is_ok(),
            });
        }
        committed.checkpoint_error = self.publish_pending().err();
        synced
    }

    /// Puts a committed checkpoint into the file beside the key, once its records are on disk. One
    /// that could not be put there is tried again with every commit: the file is what shows a
    /// chain that was cut short.
    fn publish_pending(&mut self) -> Result<(), AppendError> {
        let Some(mut pending) = self.state.unpublished.take() else {
            return Ok(());
        };
        let kept = self.keep(&mut pending);
        if kept.is_err() {
            self.state.unpublished = Some(pending);
        }
        kept
    }

    fn keep(&mut self, pending: &mut Unpublished) -> Result<(), AppendError> {
        if !pending.synced {
            self.disk.sync()?;
        }
        pending.synced = true;
        self.checkpoints
            .append(&pending.checkpoint)
            .map_err(|error| AppendError::Checkpoint(error.to_string()))
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
        let published = self.publish_pending();
        if self.on_close {
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
        if self.state.unpublished.is_none() {
            return Ok(());
        }
        published
    }
}

//! The writer: one thread that appends to the chain for everybody in this process. Where it pays, a
//! second one waits for the disk: see [`sync`]; a third keeps checkpoints: see [`keeper`].
//!
//! Guarantee: a durable append returns only after its record, and every record before it, was
//! synced; all durable appends that arrive while one sync runs share the next. Acknowledged
//! buffered records are never dropped while the process lives: a failing disk makes callers wait
//! or fail, and writing goes on by itself once it works again. Only a failed sync is final: see
//! [`disk`].
//!
//! Non-guarantee: a crash loses buffered records that were not committed, at most the window.

mod ahead;
mod commit;
mod disk;
mod draft;
mod keeper;
mod late;
mod promise;
mod queue;
mod room;
mod signing;
mod sync;

pub(crate) use ahead::{Ahead, LONG_LIVED, SHORT};
pub(crate) use commit::{
    CommitState, Committer, Meta, break_entry, decode_head, encode_head, last_archived,
    newest_head, newest_number, read_meta, write_meta,
};
pub(crate) use disk::{Disk, WalFile};
pub(crate) use draft::{Draft, Drafts};
pub(crate) use keeper::Keeper;
pub use late::Late;
pub(crate) use late::PutOff;
pub(crate) use promise::{Awaited, Promise};
pub use queue::Written;
pub(crate) use queue::{Patience, Queue, Queued, Reply, Window};
pub(crate) use room::Room;
pub(crate) use signing::Signing;

use crate::encoding::SealError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use sync::Syncer;

/// WAL upkeep at the latest after this long.
const UPKEEP: Duration = Duration::from_mins(1);
/// How often a failed write is tried again while records wait for it.
const RETRY: Duration = Duration::from_millis(200);
/// Longest wait for companions before a shared sync: no more than a slow one costs.
const LINGER: Duration = Duration::from_micros(500);

/// Why a record could not be written. Whoever gets one must not go on with the action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// No room.
    #[error("the audit log cannot be written: the disk is full")]
    DiskFull,
    /// The file or its directory became read-only.
    #[error("the audit log cannot be written: {0}")]
    ReadOnly(String),
    /// Another process held the log for too long.
    #[error("the audit log stayed locked by another process")]
    Busy,
    /// The database's content is wrong.
    #[error("the audit log is damaged: {0}")]
    Damaged(String),
    /// The record itself cannot be sealed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// Already closed, or its writer ended.
    #[error("the audit log is closed")]
    Closed,
    /// Signing or keeping a checkpoint failed.
    #[error("the checkpoint could not be kept: {0}")]
    Checkpoint(String),
    /// The head is not one to sign.
    #[error("the audit log is not signed: {0}")]
    Unsigned(String),
    /// At close, acknowledged records could still not be written.
    #[error("{records} buffered records are lost: {cause}")]
    Lost {
        /// How many.
        records: usize,
        /// Why the last try failed.
        cause: Box<AppendError>,
    },
    /// The system could not bring to disk what was written. Final: from then on this log takes
    /// nothing, because what is lost cannot be known.
    #[error("the audit log cannot be brought to disk: {0}")]
    Unsynced(String),
    /// Anything else the disk or the database said.
    #[error("the audit log cannot be written: {0}")]
    Failed(String),
}

impl AppendError {
    /// What would make it work.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::DiskFull => Some("free some space; writing goes on by itself"),
            Self::ReadOnly(_) => {
                Some("make the state directory writable; writing goes on by itself")
            }
            Self::Busy => Some("look for a stopped Airlock process that holds the log"),
            Self::Damaged(_) => Some("restart Airlock: it recovers what can be read"),
            Self::Seal(error) => Some(error.hint()),
            Self::Checkpoint(_) => Some("check the permissions of the key directory"),
            Self::Unsigned(_) => Some("`airlock audit verify` shows what is wrong with the log"),
            Self::Closed => None,
            Self::Lost { cause, .. } => cause.hint(),
            Self::Unsynced(_) => {
                Some("check the disk, then restart Airlock: it verifies what is there")
            }
            Self::Failed(_) => Some("check the disk and the permissions of the state directory"),
        }
    }

    pub(crate) fn sqlite(error: &rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        if crate::open::is_damage(error) {
            return Self::Damaged(error.to_string());
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::DiskFull,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            // Rows are only ever added behind the last one.
            Some(ErrorCode::ConstraintViolation) => {
                Self::Damaged("the place behind its last record is taken".to_owned())
            }
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                Self::ReadOnly(error.to_string())
            }
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// One or more records of one caller, written together or not at all.
#[derive(Debug)]
pub(crate) struct Append {
    pub(crate) drafts: Drafts,
    pub(crate) durable: bool,
    /// Whether the caller waits for an answer.
    pub(crate) promised: bool,
}

#[derive(Debug)]
pub(crate) enum Job {
    Append(Append),
    /// Everything before this is on disk.
    Flush(Reply<()>),
    /// Sign the head.
    Checkpoint(Reply<crate::SignedCheckpoint>),
}

/// What callers and the writer thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) queue: Queue<Job>,
    disk: Arc<Disk>,
    /// While set, nobody's record is acknowledged before it is committed.
    failing: AtomicBool,
    lost: AtomicUsize,
    last_error: Mutex<Option<AppendError>>,
}

/// The caller's side of the writer thread.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread.
    pub(crate) fn start(committer: Committer, window: Window) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: Queue::new(window),
            disk: Arc::clone(&committer.disk),
            failing: AtomicBool::new(false),
            lost: AtomicUsize::new(0),
            last_error: Mutex::new(None),
        });
        let loop_ = Loop {
            shared: Arc::clone(&shared),
            syncer: Syncer::new(Arc::clone(&committer.disk)),
            committer,
            companions: 0,
            linger: LINGER,
            last_upkeep: Instant::now(),
        };
        let thread = std::thread::Builder::new()
            .name("audit-writer".to_owned())
            .spawn(move || loop_.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Flushes, ends the thread, and says what could not be written.
    pub(crate) fn close(&mut self) -> Result<(), AppendError> {
        self.shared.queue.close();
        if let Some(thread) = self.thread.take() {
            thread.join().map_err(|_| AppendError::Closed)?;
        }
        match self.shared.lost.swap(0, Ordering::Relaxed) {
            0 => self.shared.disk.failure().map_or(Ok(()), Err),
            records => Err(AppendError::Lost {
                records,
                cause: Box::new(self.shared.last_error().unwrap_or(AppendError::Closed)),
            }),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`.
        let _ = self.close();
    }
}

impl Shared {
    pub(crate) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    pub(crate) fn last_error(&self) -> Option<AppendError> {
        if let Some(error) = self.disk.failure() {
            return Some(error);
        }
        self.last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Refuses everybody once nothing can be made durable any more.
    pub(crate) fn check_disk(&self) -> Result<(), AppendError> {
        self.disk.failure().map_or(Ok(()), Err)
    }

    fn set_error(&self, error: Option<AppendError>) {
        self.failing.store(error.is_some(), Ordering::Relaxed);
        *self
            .last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = error;
    }

    /// Queues records and hands back where the answer will arrive.
    pub(crate) fn append(&self, drafts: Drafts, durable: bool) -> Result<Awaited, AppendError> {
        self.check_disk()?;
        let records = drafts.len();
        let append = Append {
            drafts,
            durable,
            promised: true,
        };
        self.queue.push_promised(Job::Append(append), records)
    }

    /// Queues a job and hands back where its answer will arrive.
    pub(crate) fn ask<T>(
        &self,
        job: impl FnOnce(Reply<T>) -> Job,
    ) -> Result<mpsc::Receiver<Result<T, AppendError>>, AppendError> {
        self.check_disk()?;
        let (reply, answer) = mpsc::sync_channel(1);
        self.queue.push_urgent(job(reply))?;
        Ok(answer)
    }
}

/// Waits for the writer's answer; a writer that is gone wrote nothing.
pub(crate) fn answer<T>(answer: &mpsc::Receiver<Result<T, AppendError>>) -> Result<T, AppendError> {
    answer.recv().unwrap_or(Err(AppendError::Closed))
}

struct Loop {
    shared: Arc<Shared>,
    committer: Committer,
    syncer: Syncer,
    /// How many callers shared the last sync, if they are worth waiting for.
    companions: usize,
    /// How long the first of them is made to wait for the others.
    linger: Duration,
    last_upkeep: Instant,
}

impl Loop {
    fn run(mut self) {
        let _guard = CloseOnExit(Arc::clone(&self.shared));
        let mut jobs = Vec::new();
        let mut busy = false;
        loop {
            let idle = match (jobs.is_empty(), busy) {
                (false, _) => RETRY,
                // More will follow soon: a short sleep spares callers the waking.
                (true, true) => self.shared.queue.age(),
                (true, false) => UPKEEP,
            };
            let patience = Patience {
                idle,
                // Those that were just answered may be back in a moment: without waiting for them
                // every second sync would serve only the quickest.
                companions: self.companions,
                linger: self.linger,
            };
            let promise = self.shared.queue.take(&mut jobs, patience);
            let open = promise.is_some();
            busy = !jobs.is_empty();
            if busy {
                self.process(&mut jobs, promise.unwrap_or_default());
            }
            self.upkeep();
            if !open {
                break;
            }
        }
        self.syncer.close();
        let lost: usize = jobs.iter().map(|queued| queued.acknowledged).sum();
        self.shared.lost.store(lost, Ordering::Relaxed);
        if let Err(error) = self.committer.finish() {
            self.shared.set_error(Some(error));
        }
    }

    /// Commits `jobs`; those that were acknowledged and could not be written stay in it.
    fn process(&mut self, jobs: &mut Vec<Queued<Job>>, promise: Promise) {
        let callers = promise.callers();
        match self.committer.commit(jobs) {
            Ok(mut committed) => {
                let acknowledged = jobs.iter().map(|queued| queued.acknowledged).sum();
                self.shared.set_error(None);
                self.shared.queue.committed(acknowledged);
                if committed.waits_for_disk_alone(jobs) && self.syncer.is_worthwhile(callers) {
                    jobs.clear();
                    (self.companions, self.linger) = self.syncer.returning();
                    self.syncer.hand(promise, committed.take_promised());
                    return;
                }
                self.companions = if committed.durable { callers } else { 0 };
                self.linger = LINGER;
                // Committed they are in any case, so nothing is left to be tried again.
                let jobs = jobs.drain(..);
                match self.committer.settle(&mut committed) {
                    Ok(()) => {
                        promise.keep(Ok(committed.take_promised()));
                        committed.answer(jobs);
                    }
                    Err(error) => {
                        promise.keep(Err(error.clone()));
                        for queued in jobs {
                            queued.job.refuse(&error);
                        }
                    }
                }
            }
            Err(error) => {
                self.companions = 0;
                self.shared.set_error(Some(error.clone()));
                jobs.retain(|queued| !queued.job.refuse(&error));
                promise.keep(Err(error));
            }
        }
    }

    fn upkeep(&mut self) {
        if self.committer.wants_upkeep() || self.last_upkeep.elapsed() >= UPKEEP {
            self.last_upkeep = Instant::now();
            self.committer.upkeep();
        }
    }
}

impl Job {
    pub(crate) fn is_durable(&self) -> bool {
        match self {
            Self::Append(append) => append.durable,
            Self::Flush(_) | Self::Checkpoint(_) => true,
        }
    }

    /// Tells a waiting caller; false if nobody waits, because the record was acknowledged.
    fn refuse(&self, error: &AppendError) -> bool {
        // A caller that gave up waiting is no reason to stop.
        match self {
            // Whoever was promised an answer gets it together with all others.
            Self::Append(append) => return append.promised,
            Self::Flush(reply) => drop(reply.send(Err(error.clone()))),
            Self::Checkpoint(reply) => drop(reply.send(Err(error.clone()))),
        }
        true
    }
}

/// Lets nobody wait for a writer that is gone, however it went.
struct CloseOnExit(Arc<Shared>);

impl Drop for CloseOnExit {
    fn drop(&mut self) {
        self.0.queue.abandon();
    }
}

#[cfg(test)]
mod tests;

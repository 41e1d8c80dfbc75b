//! One opened store: its connection, its lock, and the transactions everything else runs in.

use crate::error::StateError;
use crate::journal::{Reader, Writer};
use crate::open::open_or_make;
use crate::recovery::{self, StateRecovery};
use crate::verify;
use airlock_core::Timestamp;
use rusqlite::Connection;
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Stores up to this many events are verified whole when they are opened; it takes milliseconds.
const VERIFIED_AT_OPEN: u64 = 2_000;

/// When a change must be on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durable {
    /// Before anything goes on.
    Disk,
    /// A power failure may take it back; the end of this process does not.
    Soon,
}

/// The files of a store.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) directory: PathBuf,
}

impl Layout {
    pub(crate) fn database(&self) -> PathBuf {
        self.directory.join("state.db")
    }

    /// Held shared by everybody who has the database open, alone by recovery.
    pub(crate) fn lock(&self) -> PathBuf {
        self.directory.join("state.lock")
    }

    pub(crate) fn backups(&self) -> PathBuf {
        self.directory.join("backups/state")
    }
}

/// An opened store.
pub struct State {
    db: Mutex<Connection>,
    layout: Layout,
    recovered: Option<StateRecovery>,
    _lock: File,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "State({})", self.layout.directory.display())
    }
}

impl State {
    /// Opens the store in `directory`, a state directory that is private and exists already; makes
    /// it if there is none, and recovers it if it is damaged.
    pub fn open(directory: &Path, now: Timestamp) -> Result<Self, StateError> {
        let layout = Layout {
            directory: directory.to_owned(),
        };
        match Self::try_open(&layout) {
            Err(StateError::Damaged { detail, .. }) => {
                let mut report = recovery::recover(&layout, now, &detail)?;
                // Another process may have been first: then this is whole, and there is no report.
                let mut state = Self::try_open(&layout)?;
                state.recovered = report.take();
                Ok(state)
            }
            other => other,
        }
    }

    fn try_open(layout: &Layout) -> Result<Self, StateError> {
        let lock = shared_lock(layout)?;
        let path = layout.database();
        let db = open_or_make(&path)?;
        let state = Self {
            db: Mutex::new(db),
            layout: layout.clone(),
            recovered: None,
            _lock: lock,
        };
        state.check()?;
        Ok(state)
    }

    /// What a damaged store this one was rescued from.
    pub fn recovered(&self) -> Option<&StateRecovery> {
        self.recovered.as_ref()
    }

    /// Looks whether the file is whole; facts that differ from the events are made anew.
    fn check(&self) -> Result<(), StateError> {
        let events = self.read(|reader| {
            let answer: String = reader
                .db
                .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
                .map_err(|source| reader.fail(source))?;
            if answer != "ok" {
                return Err(reader.damaged(answer));
            }
            Ok(reader.head()?.seq)
        })?;
        if events > VERIFIED_AT_OPEN {
            return Ok(());
        }
        match self.verify() {
            Ok(_) => Ok(()),
            Err(verify::StateBreak::Facts { .. }) => self.rebuild(),
            Err(verify::StateBreak::Chain(broken)) => {
                let detail = format!("{broken}");
                Err(StateError::damaged(&self.layout.database(), detail))
            }
            Err(verify::StateBreak::Event { seq }) => Err(StateError::damaged(
                &self.layout.database(),
                format!("event {seq} does not fit those before it"),
            )),
            Err(verify::StateBreak::Store(error)) => Err(error),
        }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // A panic inside a transaction leaves it open; the next one rolls it back.
        self.db.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `look` on one consistent state of the store.
    pub(crate) fn read<T>(
        &self,
        look: impl FnOnce(&Reader<'_>) -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        let path = self.layout.database();
        let db = self.connection();
        let fail = |source| StateError::sqlite(&path, source);
        let moment = db.unchecked_transaction().map_err(fail)?;
        look(&Reader {
            db: &moment,
            path: &path,
        })
    }

    /// Runs `work` in the one write transaction there can be: all of it happens, or nothing.
    pub(crate) fn write<T>(
        &self,
        durable: Durable,
        work: impl FnOnce(&mut Writer<'_>) -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        let path = self.layout.database();
        let db = self.connection();
        let fail = |source| StateError::sqlite(&path, source);
        let level = match durable {
            Durable::Disk => "FULL",
            Durable::Soon => "NORMAL",
        };
        db.pragma_update(None, "synchronous", level).map_err(fail)?;
        let transaction =
            rusqlite::Transaction::new_unchecked(&db, rusqlite::TransactionBehavior::Immediate)
                .map_err(fail)?;
        // Dropped without a commit it is rolled back.
        let mut writer = Writer::begin(Reader {
            db: &transaction,
            path: &path,
        })?;
        let done = work(&mut writer)?;
        transaction.commit().map_err(fail)?;
        Ok(done)
    }
}

pub(crate) fn lock_file(layout: &Layout) -> Result<File, StateError> {
    let path = layout.lock();
    let nofollow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(nofollow)
        .open(&path)
        .map_err(StateError::io(&path))
}

/// Waits while somebody recovers the store: that takes moments.
fn shared_lock(layout: &Layout) -> Result<File, StateError> {
    let lock = lock_file(layout)?;
    lock.lock_shared().map_err(StateError::io(&layout.lock()))?;
    Ok(lock)
}

/// The lock for recovery; none while others have the store open.
pub(crate) fn sole_lock(layout: &Layout) -> Result<Option<File>, StateError> {
    let lock = lock_file(layout)?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(StateError::io(&layout.lock())(error)),
    }
}

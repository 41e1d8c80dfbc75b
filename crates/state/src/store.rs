//! One opened store: its connection, its lock, and the transactions everything else runs in.

use crate::error::StateError;
use crate::fact::{Fact, Kind};
use crate::journal::{Proof, Proven, Reader, Writer};
use crate::open::open_or_make;
use crate::recovery::{self, StateRecovery};
use crate::verify;
use airlock_core::Timestamp;
use rusqlite::Connection;
use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Stores up to this many events are verified whole when they are opened; it takes milliseconds.
const VERIFIED_AT_OPEN: u64 = 2_000;
/// Things whose proofs are remembered; each is a session that is worked in.
const REMEMBERED: usize = 256;

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

    /// There while something was found wrong that has to be mended by whoever opens it next.
    pub(crate) fn suspect(&self) -> PathBuf {
        self.directory.join("state.suspect")
    }

    /// A finished rescue that has yet to take the place of the database.
    pub(crate) fn rescue(&self) -> PathBuf {
        self.directory.join("state.db.rescue")
    }

    /// What was lost, until somebody kept that it was.
    pub(crate) fn untold(&self) -> PathBuf {
        self.directory.join("state.untold")
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
    /// Whether every event and fact was looked at when it was opened.
    verified: bool,
    /// What was proven last: a proof goes on where the one before it ended.
    proven: Mutex<HashMap<(Kind, String), Proven>>,
    /// What was put right, until somebody asks.
    mended: Mutex<Option<String>>,
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
                let report = recovery::recover(&layout, now, &detail)?;
                let mut state = Self::try_open(&layout)?;
                state.recovered = Some(report);
                Ok(state)
            }
            other => other,
        }
    }

    fn try_open(layout: &Layout) -> Result<Self, StateError> {
        let lock = shared_lock(layout)?;
        let path = layout.database();
        // Whatever stands in its place until then is not to be used, whole as it may look.
        if recovery::is_cut_off(layout) {
            let detail = "a rescue of it was cut off";
            return Err(StateError::damaged(&path, detail));
        }
        let db = open_or_make(&path)?;
        let mut state = Self {
            db: Mutex::new(db),
            layout: layout.clone(),
            recovered: None,
            verified: false,
            proven: Mutex::default(),
            mended: Mutex::default(),
            _lock: lock,
        };
        state.verified = state.check()?;
        Ok(state)
    }

    /// Whether every event and fact was looked at when it was opened: of a large store, only that
    /// its file is whole. [`State::check_apart`] looks at the rest.
    pub const fn is_verified(&self) -> bool {
        self.verified
    }

    /// What was found to differ from the events and put right, once.
    pub fn take_mended(&self) -> Option<String> {
        held(&self.mended).take()
    }

    /// Has whoever opens the store in `directory` next look at all of it, and mend it.
    pub fn suspect(directory: &Path) -> Result<(), StateError> {
        let layout = Layout {
            directory: directory.to_owned(),
        };
        let path = layout.suspect();
        std::fs::write(&path, []).map_err(StateError::io(&path))
    }

    /// What a damaged store this one was rescued from.
    pub fn recovered(&self) -> Option<&StateRecovery> {
        self.recovered.as_ref()
    }

    /// What was lost of this store and of those before it, until [`State::told`].
    pub fn untold(&self) -> Option<String> {
        let told = std::fs::read_to_string(self.layout.untold()).ok()?;
        Some(told).filter(|told| !told.is_empty())
    }

    /// Somebody kept what was lost: it need not be told again.
    pub fn told(&self) {
        // Told twice rather than not at all.
        let _gone = std::fs::remove_file(self.layout.untold());
    }

    /// Looks whether the file is whole; facts that differ from the events are made anew.
    /// Gives back whether all of it was looked at.
    fn check(&self) -> Result<bool, StateError> {
        let suspect = self.layout.suspect().exists();
        let check = if suspect {
            verify::INTEGRITY
        } else {
            "PRAGMA quick_check(1)"
        };
        let events = self.read(|reader| {
            verify::whole_file(reader, check)?;
            Ok(reader.head()?.seq)
        })?;
        if events > VERIFIED_AT_OPEN && !suspect {
            return Ok(false);
        }
        match self.verify() {
            Ok(_) => {}
            Err(verify::StateBreak::Facts { kind, id }) => self.mend(kind, &id)?,
            Err(verify::StateBreak::Chain(broken)) => {
                let detail = format!("{broken}");
                return Err(StateError::damaged(&self.layout.database(), detail));
            }
            Err(verify::StateBreak::Event { seq }) => {
                let detail = format!("event {seq} does not fit those before it");
                return Err(StateError::damaged(&self.layout.database(), detail));
            }
            Err(verify::StateBreak::Store(error)) => return Err(error),
        }
        if suspect {
            // Left behind, it only has the next to open it look at all of it once more.
            let _gone = std::fs::remove_file(self.layout.suspect());
        }
        Ok(true)
    }

    /// Makes every row anew from the events, and keeps in mind that one differed.
    fn mend(&self, kind: &str, id: &str) -> Result<(), StateError> {
        self.rebuild()?;
        let told = format!(
            "the store of sessions and approvals had a row that no event made ({kind} `{id}`); \
             every row was made anew from the events"
        );
        *held(&self.mended) = Some(told);
        Ok(())
    }

    /// The fact of that name as its events prove it; a row that says something else is put right
    /// first.
    pub(crate) fn proven(&self, kind: Kind, id: &str) -> Result<Option<Fact>, StateError> {
        let key = (kind, id.to_owned());
        let before = held(&self.proven).get(&key).cloned();
        let mut proof = self.read(|reader| reader.prove_from(kind, id, before))?;
        if matches!(proof, Proof::Differs) {
            self.mend(kind.as_str(), id).inspect_err(|_| {
                // Whether it is written or not, nothing is taken from the row.
                let _marked = Self::suspect(&self.layout.directory);
            })?;
            proof = self.read(|reader| reader.prove_from(kind, id, None))?;
        }
        match proof {
            Proof::Holds(proven) => {
                let fact = proven.fact.clone();
                let mut known = held(&self.proven);
                if known.len() >= REMEMBERED && !known.contains_key(&key) {
                    known.clear();
                }
                known.insert(key, *proven);
                Ok(Some(fact))
            }
            Proof::Absent => Ok(None),
            Proof::Differs => {
                let detail = format!("the events of {} `{id}` do not hold", kind.as_str());
                Err(StateError::damaged(&self.layout.database(), detail))
            }
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

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these is replaced whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

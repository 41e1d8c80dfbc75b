//! Waits for the disk, apart from SQLite: what is committed to the write-ahead log becomes durable
//! by a sync of that file which began after the commit.
//!
//! SQLite itself runs with `synchronous=NORMAL` here: it syncs the write-ahead log before it moves
//! pages into the database, the database before it forgets them, and the header of a log it begins
//! anew. What it leaves out is the sync after each commit, and that is [`Disk::sync`]: done here, a
//! transaction nobody waits for costs none, one sync serves a checkpoint and the records before it,
//! and a failure is never taken for one that may pass. SQLite keeps its locks on the database and
//! on the shared-memory file, never on this one, so closing our descriptor releases none of them.
//!
//! Guarantee: a sync that succeeds covers every commit made before it began, by whichever process:
//! the file system syncs the file, not the descriptor. Where SQLite has begun the file anew since,
//! those commits are in the database, synced.
//!
//! Invariant: once a sync failed, none succeeds. The system forgets pages it could not write, so a
//! second try would report success for what was lost; and nothing behind a lost page can be read
//! back after a power failure.

use super::{AppendError, Room};
use rusqlite::Connection;
use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Returns once everything that was written before the call is on disk.
pub(crate) trait Barrier: Send + Debug {
    fn sync(&mut self) -> io::Result<()>;
}

/// The write-ahead log beside an open database.
#[derive(Debug)]
pub(crate) struct WalFile(File);

impl WalFile {
    /// Opens the write-ahead log of `database`, which SQLite has open and so has made.
    pub(crate) fn open(database: &Path) -> io::Result<Self> {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        // Write access, because not every system syncs a file that is open for reading only.
        OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(crate::open::nofollow())
            .open(path)
            .map(Self)
    }

    /// Room at its end, for a writer that leaves up to `pages` in it.
    pub(crate) fn room(&self, db: &Connection, pages: u64) -> io::Result<Room> {
        let page = db.pragma_query_value(None, "page_size", |row| row.get::<_, u32>(0));
        let page = page.map_err(io::Error::other)?;
        Ok(Room::new(self.0.try_clone()?, page.into(), pages))
    }
}

impl Barrier for WalFile {
    fn sync(&mut self) -> io::Result<()> {
        // Not the data alone: that would leave out the journal of a file system where nothing but
        // a time changed, and with it the marker of this writer, which tells of its end.
        self.0.sync_all()?;
        let metadata = self.0.metadata()?;
        // Whoever removed or replaced the file left the commits in one that no next start finds.
        if metadata.nlink() == 0 || metadata.len() == 0 {
            return Err(io::Error::other("the write-ahead log was removed"));
        }
        Ok(())
    }
}

/// The disk below the log.
#[derive(Debug)]
pub(crate) struct Disk {
    /// Locked during a sync: the system reports a failure to one call only.
    barrier: Mutex<Box<dyn Barrier>>,
    failure: OnceLock<AppendError>,
    /// Nanoseconds the last sync took; 0 before the first.
    took: AtomicU64,
}

impl Disk {
    pub(crate) fn new(barrier: Box<dyn Barrier>) -> Self {
        Self {
            barrier: Mutex::new(barrier),
            failure: OnceLock::new(),
            took: AtomicU64::new(0),
        }
    }

    /// Returns once every commit made before the call is on disk.
    pub(crate) fn sync(&self) -> Result<(), AppendError> {
        let mut barrier = self.barrier.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = self.failure() {
            return Err(error);
        }
        let start = Instant::now();
        let synced = barrier.sync().map_err(|error| {
            let error = AppendError::Unsynced(error.to_string());
            // Set nowhere else, and never without the lock.
            let _ = self.failure.set(error.clone());
            error
        });
        let took = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.took.store(took.max(1), Ordering::Relaxed);
        synced
    }

    /// How long the last sync took.
    pub(crate) fn took(&self) -> Option<Duration> {
        match self.took.load(Ordering::Relaxed) {
            0 => None,
            took => Some(Duration::from_nanos(took)),
        }
    }

    /// Why nothing can be made durable any more.
    pub(crate) fn failure(&self) -> Option<AppendError> {
        self.failure.get().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails the first time and never again, as a file system does that dropped the pages.
    #[derive(Debug, Default)]
    struct Forgetful(bool);

    impl Barrier for Forgetful {
        fn sync(&mut self) -> io::Result<()> {
            if std::mem::replace(&mut self.0, true) {
                return Ok(());
            }
            Err(io::Error::other("lost"))
        }
    }

    #[test]
    fn a_failed_sync_is_never_tried_again_as_a_success() {
        let disk = Disk::new(Box::new(Forgetful::default()));
        assert_eq!(disk.failure(), None);
        let lost = Err(AppendError::Unsynced("lost".to_owned()));
        assert_eq!([disk.sync(), disk.sync()], [lost.clone(), lost.clone()]);
        assert_eq!(disk.failure(), lost.err());
    }

    #[test]
    fn a_write_ahead_log_that_is_gone_is_not_durable() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("audit.db");
        let path = directory.path().join("audit.db-wal");
        std::fs::write(&path, "frames").unwrap();
        let mut wal = WalFile::open(&database).unwrap();
        wal.sync().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(wal.sync().is_err(), "removed");
        std::fs::write(&path, "").unwrap();
        assert!(wal.sync().is_err(), "replaced");
        let mut empty = WalFile::open(&database).unwrap();
        assert!(empty.sync().is_err(), "not the file that was written to");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(WalFile::open(&database).is_err(), "a link");
    }
}

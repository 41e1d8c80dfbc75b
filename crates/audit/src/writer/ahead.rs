//! How far the write-ahead log has grown, and when its pages move into the database.
//!
//! Moving them costs two syncs. Leaving them costs whoever opens the log next with nobody else
//! there: SQLite then reads all of them once. A long-lived writer moves them seldom, a short command
//! leaves few behind, and does it while its action runs instead of making anybody wait at the end.
//!
//! The file's length says nothing: SQLite begins anew at its start and does not shorten it.

use rusqlite::Connection;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages a long-lived writer lets grow.
pub(crate) const LONG_LIVED: u64 = 1_000;
/// Pages a short command leaves at most, besides its own last ones: reading them takes a fraction
/// of a millisecond, and about ten commands share the syncs.
pub(crate) const SHORT: u64 = 32;

/// Watches one connection's commits.
#[derive(Debug)]
pub(crate) struct Ahead {
    /// Pages in the log after the last commit, as SQLite counts them.
    pages: Arc<AtomicU64>,
    /// How many of these were in the database already when that was last looked at.
    moved: u64,
    limit: u64,
}

impl Ahead {
    /// Watches the commits of `db`; beyond `limit` pages, [`Ahead::is_long`] says so.
    pub(crate) fn watch(db: &mut Connection, limit: u64) -> rusqlite::Result<Self> {
        let pages = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&pages);
        db.wal_hook(Some(
            move |_: &mut rusqlite::hooks::Wal, pages: std::ffi::c_int| {
                counter.store(u64::try_from(pages).unwrap_or(0), Ordering::Relaxed);
                Ok(())
            },
        ))?;
        Ok(Self {
            pages,
            moved: 0,
            limit,
        })
    }

    /// Pages in the log after the last commit.
    pub(crate) fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    pub(crate) fn is_long(&self) -> bool {
        let pages = self.pages();
        // Fewer than were moved: it has begun anew since.
        let moved = if pages < self.moved { 0 } else { self.moved };
        pages - moved >= self.limit
    }

    /// Moves the pages into the database, as far as readers allow.
    pub(crate) fn shorten(&mut self, db: &Connection) {
        // Readers or a full disk may be in the way; the log grows until the next try.
        let moved = db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
            row.get::<_, i64>(2)
        });
        let moved = moved.ok().and_then(|moved| u64::try_from(moved).ok());
        // Not tried again with each commit: only once as many pages more are there.
        let tried = self.pages();
        self.moved = moved.map_or(tried, |moved| moved.max(tried));
    }
}

//! Backups of the database, made while it is in use.

use crate::open::{Access, OpenError, open_database, private_directory};
use crate::store::Layout;
use airlock_core::Timestamp;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Backups kept.
const KEPT: usize = 5;
/// All pages in one step. With several, SQLite begins anew whenever somebody wrote between two of
/// them: under a steady stream of records it would never end. Writers need not wait for it.
const ALL: i32 = -1;

/// Copies the database into `backups/` and removes all but the newest five copies.
pub(crate) fn snapshot(layout: &Layout, now: Timestamp) -> Result<PathBuf, OpenError> {
    let directory = layout.backups();
    private_directory(&directory)?;
    let io = |source| OpenError::Io {
        path: directory.clone(),
        source,
    };
    let micros = now.as_micros().max(0);
    let path = (0..1_000)
        .map(|attempt| directory.join(format!("audit-{micros:020}-{attempt:03}.db")))
        .find(|candidate| !candidate.exists())
        .ok_or_else(|| io(std::io::ErrorKind::AlreadyExists.into()))?;
    let draft = path.with_extension("draft");
    let copied = copy(&layout.database(), &draft);
    if copied.is_err() {
        // Half a backup is none.
        let _ = fs::remove_file(&draft);
    }
    copied?;
    fs::rename(&draft, &path).map_err(io)?;
    fs::File::open(&directory)
        .and_then(|directory| directory.sync_all())
        .map_err(io)?;
    for old in list(&directory).into_iter().rev().skip(KEPT) {
        fs::remove_file(old).map_err(io)?;
    }
    Ok(path)
}

fn copy(from: &Path, to: &Path) -> Result<(), OpenError> {
    let source = open_database(from, Access::Read)?;
    let fail = |error| OpenError::sqlite(to, error);
    let mut target = open_database(to, Access::Write)?;
    let backup = Backup::new(&source, &mut target).map_err(fail)?;
    loop {
        match backup.step(ALL).map_err(fail)? {
            StepResult::Done => break,
            StepResult::More => {}
            // Somebody is writing; and whatever else SQLite may come to say, waiting is right.
            StepResult::Busy | StepResult::Locked | _ => {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
    drop(backup);
    // The copy says WAL like its source; one file is easier to keep.
    target
        .pragma_update_and_check(None, "journal_mode", "delete", |_| Ok(()))
        .map_err(fail)
}

fn list(directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "db"))
        .collect();
    found.sort();
    found
}

/// The newest backup that is whole.
pub(super) fn newest_good(layout: &Layout) -> Option<Connection> {
    list(&layout.backups()).into_iter().rev().find_map(|path| {
        let db = open_database(&path, Access::Read).ok()?;
        let answer: String = db
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .ok()?;
        (answer == "ok").then_some(db)
    })
}

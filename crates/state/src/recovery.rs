//! Rescues what can be read of a damaged store, and keeps copies against the day nothing can.
//!
//! Guarantee: nothing is deleted (the damaged file is set aside), nothing that fails its digest is
//! taken over, and no grant outlives a rescue: the event that used it up may be among those lost.

use crate::change::{Change, Event};
use crate::error::StateError;
use crate::journal::{Reader, Writer};
use crate::open::{self, beside, sync_directory};
use crate::store::{Layout, State, sole_lock};
use crate::verify::{INTEGRITY, whole, whole_file};
use airlock_audit::{Sealed, carve_records};
use airlock_core::{Digest, Timestamp};
use rusqlite::backup::Backup;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Copies kept.
const KEPT: usize = 5;

/// What a rescue did and what was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRecovery {
    /// What was wrong.
    pub cause: String,
    /// Where the damaged file is kept.
    pub set_aside: Option<PathBuf>,
    /// Events taken over from the damaged file.
    pub rescued: usize,
    /// Events taken over from a copy.
    pub from_copy: usize,
    /// Events that are known to have existed and are gone.
    pub lost: u64,
    /// Whether questions or grants were dropped: they have to be asked again.
    pub dropped: usize,
}

impl StateRecovery {
    /// What happened, for people.
    pub fn message(&self) -> String {
        let aside = self.set_aside.as_ref().map_or_else(String::new, |path| {
            format!("; the damaged file is kept as `{}`", path.display())
        });
        format!(
            "the store of sessions and approvals was damaged ({}): {} events rescued, {} from a \
             copy, {} lost; every approval has to be asked for again{aside}",
            self.cause, self.rescued, self.from_copy, self.lost
        )
    }
}

type Events = BTreeMap<u64, (Digest, Event)>;

/// Recovers the store; none if another process was first.
pub(crate) fn recover(
    layout: &Layout,
    now: Timestamp,
    cause: &str,
) -> Result<Option<StateRecovery>, StateError> {
    let path = layout.database();
    let Some(_lock) = sole_lock(layout)? else {
        return Err(StateError::InUse(path));
    };
    let mut events = carved(&path);
    let rescued = events.len();
    let highest = events.keys().next_back().copied().unwrap_or(0);
    if let Some(copy) = newest_good(layout) {
        for (seq, event) in copy {
            events.entry(seq).or_insert(event);
        }
    }
    let from_copy = events.len() - rescued;
    let highest = highest.max(events.keys().next_back().copied().unwrap_or(0));
    let mut report = StateRecovery {
        cause: cause.to_owned(),
        set_aside: None,
        rescued,
        from_copy,
        lost: highest.saturating_sub(events.len() as u64),
        dropped: 0,
    };
    let draft = layout
        .directory
        .join(format!("state.db.rescue-{}", uuid::Uuid::new_v4().simple()));
    let filled = fill(&draft, events, &mut report, now);
    if let Err(error) = filled {
        // A rescue that failed left the damaged file where it was; its draft is of no use.
        let _ = fs::remove_file(&draft);
        return Err(error);
    }
    report.set_aside = set_aside(&path, now)?;
    fs::rename(&draft, &path).map_err(StateError::io(&path))?;
    sync_directory(&layout.directory)?;
    Ok(Some(report))
}

/// Every intact event in the pages of the file and of its write-ahead log.
fn carved(path: &Path) -> Events {
    let mut events = Events::new();
    carve_records(path, &mut |stored| {
        if let Some((seq, event)) = event_of(stored.to_vec()) {
            events.insert(seq, event);
        }
    });
    events
}

fn event_of(stored: Vec<u8>) -> Option<(u64, (Digest, Event))> {
    let sealed = Sealed::from_stored(stored).ok()?;
    let event = Event::read(&sealed.entry().ok()?)?;
    Some((sealed.seq(), (*sealed.digest(), event)))
}

/// A new store with what survives of `events`, sealed anew.
fn fill(
    draft: &Path,
    events: Events,
    report: &mut StateRecovery,
    now: Timestamp,
) -> Result<(), StateError> {
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(draft)
        .and_then(|file| file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600)))
        .map_err(StateError::io(draft))?;
    open::write_schema(draft)?;
    let db = open::open(draft)?;
    let fail = |source| StateError::sqlite(draft, source);
    db.execute_batch("BEGIN IMMEDIATE").map_err(fail)?;
    let mut writer = Writer::begin(Reader {
        db: &db,
        path: draft,
    })?;
    for (_, event) in events.into_values() {
        if !event.change.survives() {
            report.dropped += 1;
            continue;
        }
        // An event whose beginning is lost says too little to be taken over.
        match writer.append(&event.change, event.at) {
            Ok(()) => {}
            Err(StateError::Unfit(_)) => report.lost += 1,
            Err(error) => return Err(error),
        }
    }
    let message = report.message();
    writer.append(&Change::Recovered { message }, now)?;
    db.execute_batch("COMMIT").map_err(fail)?;
    db.close().map_err(|(_, source)| fail(source))
}

/// Moves the damaged file, and what SQLite left beside it, out of the way.
fn set_aside(path: &Path, now: Timestamp) -> Result<Option<PathBuf>, StateError> {
    let micros = now.as_micros().max(0);
    let kept = (0..1_000)
        .map(|attempt| path.with_file_name(format!("state.db.damaged-{micros}-{attempt}")))
        .find(|kept| !kept.exists() && !beside(kept, "-wal").exists())
        .ok_or_else(|| StateError::io(path)(std::io::ErrorKind::AlreadyExists.into()))?;
    let mut moved = false;
    // Left behind, the others would be taken for the new file's.
    for end in ["", "-wal", "-shm"] {
        match fs::rename(beside(path, end), beside(&kept, end)) {
            Ok(()) => moved = true,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(StateError::io(path)(error)),
        }
    }
    Ok(moved.then_some(kept))
}

/// The events of the newest copy whose file is whole and whose chain and facts hold.
fn newest_good(layout: &Layout) -> Option<Events> {
    list(&layout.backups()).into_iter().rev().find_map(|path| {
        let db = open::open(&path).ok()?;
        let reader = Reader {
            db: &db,
            path: &path,
        };
        whole_file(&reader, INTEGRITY).ok()?;
        whole(&reader).ok()?;
        let mut statement = db.prepare("SELECT stored FROM events ORDER BY seq").ok()?;
        let stored: Vec<Vec<u8>> = statement
            .query_map([], |row| row.get(0))
            .ok()?
            .collect::<rusqlite::Result<_>>()
            .ok()?;
        let events: Events = stored.into_iter().filter_map(event_of).collect();
        (!events.is_empty()).then_some(events)
    })
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

impl State {
    /// Copies the store while it is in use, and keeps the newest five copies.
    pub fn snapshot(&self, now: Timestamp) -> Result<PathBuf, StateError> {
        let directory = self.layout().backups();
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(StateError::io(&directory))?;
        let micros = now.as_micros().max(0);
        let draft = tempfile::Builder::new()
            .prefix(".draft-")
            .tempfile_in(&directory)
            .map_err(StateError::io(&directory))?;
        let path = directory.join(format!("state-{micros:020}.db"));
        self.copy_to(draft.path())?;
        draft
            .persist(&path)
            .map_err(|error| StateError::io(&path)(error.error))?;
        for old in list(&directory).into_iter().rev().skip(KEPT) {
            fs::remove_file(&old).map_err(StateError::io(&old))?;
        }
        sync_directory(&directory)?;
        Ok(path)
    }

    fn copy_to(&self, draft: &Path) -> Result<(), StateError> {
        let fail = |source| StateError::sqlite(draft, source);
        open::write_schema(draft)?;
        let mut target = open::open(draft)?;
        // A reader of its own: copying must not keep this process from writing.
        let source = open::open(&self.layout().database())?;
        Backup::new(&source, &mut target)
            .and_then(|backup| backup.run_to_completion(1_000, Duration::from_millis(1), None))
            .map_err(fail)?;
        target
            .pragma_update_and_check(None, "journal_mode", "delete", |_| Ok(()))
            .map_err(fail)
    }
}

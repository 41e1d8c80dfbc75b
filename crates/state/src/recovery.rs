//! Rescues what can be read of a damaged store, and keeps copies against the day nothing can.
//!
//! Guarantee: nothing is deleted (the damaged file is set aside), nothing that fails its digest is
//! taken over, and no grant outlives a rescue: the event that used it up may be among those lost. A
//! rescue that is cut off is finished by whoever opens the store next, and what was lost is told.

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
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Copies kept.
const KEPT: usize = 5;
/// How the names of files begin that are not whole yet.
const DRAFT: &str = "state.db.rescue-";
/// How the names of damaged files begin.
const DAMAGED: &str = "state.db.damaged-";

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

/// Where a rescue can be cut off: each is after something that is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    /// The new file is whole, under a name nobody looks for.
    Filled,
    /// What was lost is written down.
    Noted,
    /// The new file has the name that whoever opens the store looks for first.
    Ready,
    /// One of the damaged files is out of the way.
    Aside,
    /// The new file is in its place.
    Placed,
}

/// Told when a point is reached; what it fails with cuts the rescue off.
pub(crate) type Reached<'a> = &'a mut dyn FnMut(Point) -> Result<(), StateError>;

/// Whether a rescue was cut off when its new file was whole.
pub(crate) fn is_cut_off(layout: &Layout) -> bool {
    fs::symlink_metadata(layout.rescue()).is_ok()
}

/// Recovers the store.
///
/// Cut off at any point, it is gone on with by whoever opens the store next: before there is a whole
/// new file from the beginning, and from then on with that file.
pub(crate) fn recover(
    layout: &Layout,
    now: Timestamp,
    cause: &str,
) -> Result<StateRecovery, StateError> {
    recover_with(layout, now, cause, &mut |_| Ok(()))
}

fn recover_with(
    layout: &Layout,
    now: Timestamp,
    cause: &str,
    reached: Reached<'_>,
) -> Result<StateRecovery, StateError> {
    let Some(_lock) = sole_lock(layout)? else {
        return Err(StateError::InUse(layout.database()));
    };
    forget_drafts(layout);
    let rescue = layout.rescue();
    let mut report = if is_cut_off(layout) && is_good(&rescue) {
        StateRecovery {
            cause: cause.to_owned(),
            set_aside: None,
            rescued: events_in(&rescue).map_or(0, |events| events.len()),
            from_copy: 0,
            lost: 0,
            dropped: 0,
        }
    } else {
        // A disk may have spoilt it since.
        set_aside(&rescue, &kept_name(layout, now)?, &mut |_| Ok(()))?;
        rescued(layout, now, cause, reached)?
    };
    let kept = begun(layout).map_or_else(|| kept_name(layout, now), Ok)?;
    set_aside(&layout.database(), &kept, reached)?;
    report.set_aside = Some(kept).filter(|kept| kept.exists() || beside(kept, "-wal").exists());
    let path = layout.database();
    fs::rename(&rescue, &path).map_err(StateError::io(&path))?;
    sync_directory(&layout.directory)?;
    reached(Point::Placed)?;
    Ok(report)
}

/// Makes the new file out of what can be read of the damaged one and of its copies.
fn rescued(
    layout: &Layout,
    now: Timestamp,
    cause: &str,
    reached: Reached<'_>,
) -> Result<StateRecovery, StateError> {
    let path = layout.database();
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
        .join(format!("{DRAFT}{}", uuid::Uuid::new_v4().simple()));
    let filled = fill(&draft, events, &mut report, now);
    if let Err(error) = filled {
        // A rescue that failed left the damaged file where it was; its draft is of no use.
        let _ = fs::remove_file(&draft);
        return Err(error);
    }
    reached(Point::Filled)?;
    note(layout, &report)?;
    reached(Point::Noted)?;
    let rescue = layout.rescue();
    fs::rename(&draft, &rescue).map_err(StateError::io(&rescue))?;
    sync_directory(&layout.directory)?;
    reached(Point::Ready)?;
    Ok(report)
}

/// Writes down what was lost, for whoever opens the store next if this process does not live to tell.
fn note(layout: &Layout, report: &StateRecovery) -> Result<(), StateError> {
    let path = layout.untold();
    let mut draft = tempfile::Builder::new()
        .prefix(DRAFT)
        .tempfile_in(&layout.directory)
        .map_err(StateError::io(&path))?;
    draft
        .write_all(report.message().as_bytes())
        .and_then(|()| draft.as_file().sync_all())
        .map_err(StateError::io(&path))?;
    draft
        .persist(&path)
        .map_err(|error| StateError::io(&path)(error.error))?;
    sync_directory(&layout.directory)
}

/// Drafts that processes left which were killed before they were whole.
fn forget_drafts(layout: &Layout) {
    let found = fs::read_dir(&layout.directory);
    for entry in found.into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(DRAFT) {
            // Of no use, and of no harm either.
            let _gone = fs::remove_file(entry.path());
        }
    }
}

/// Where a rescue that was cut off began to put the damaged files: the database goes first.
fn begun(layout: &Layout) -> Option<PathBuf> {
    let path = layout.database();
    if path.exists() {
        return None;
    }
    let found = fs::read_dir(&layout.directory).ok()?.flatten();
    let mut found: Vec<PathBuf> = found
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(DAMAGED) && !name.ends_with("-wal") && !name.ends_with("-shm")
        })
        .collect();
    found.sort_by_key(|path| path.metadata().and_then(|found| found.modified()).ok());
    let twice = |kept: &Path, end| beside(kept, end).exists() && beside(&path, end).exists();
    found
        .pop()
        .filter(|kept| !twice(kept, "-wal") && !twice(kept, "-shm"))
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

/// A name for damaged files that nothing has.
fn kept_name(layout: &Layout, now: Timestamp) -> Result<PathBuf, StateError> {
    let micros = now.as_micros().max(0);
    (0..1_000)
        .map(|attempt| {
            layout
                .directory
                .join(format!("{DAMAGED}{micros}-{attempt}"))
        })
        .find(|kept| !kept.exists() && !beside(kept, "-wal").exists())
        .ok_or_else(|| StateError::io(&layout.database())(std::io::ErrorKind::AlreadyExists.into()))
}

/// Moves the damaged file, and what SQLite left beside it, out of the way.
fn set_aside(path: &Path, kept: &Path, reached: Reached<'_>) -> Result<(), StateError> {
    // Left behind, the others would be taken for the new file's.
    for end in ["", "-wal", "-shm"] {
        match fs::rename(beside(path, end), beside(kept, end)) {
            Ok(()) => reached(Point::Aside)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(StateError::io(path)(error)),
        }
    }
    Ok(())
}

/// Whether a file is whole, and its chain and facts hold.
fn is_good(path: &Path) -> bool {
    let looked = || -> Option<()> {
        let db = open::open(path).ok()?;
        let reader = Reader { db: &db, path };
        whole_file(&reader, INTEGRITY).ok()?;
        whole(&reader).ok().map(drop)
    };
    looked().is_some()
}

/// Every event of a file.
fn events_in(path: &Path) -> Option<Events> {
    let db = open::open(path).ok()?;
    let mut statement = db.prepare("SELECT stored FROM events ORDER BY seq").ok()?;
    let stored: Vec<Vec<u8>> = statement
        .query_map([], |row| row.get(0))
        .ok()?
        .collect::<rusqlite::Result<_>>()
        .ok()?;
    Some(stored.into_iter().filter_map(event_of).collect())
}

/// The events of the newest copy whose file is whole and whose chain and facts hold.
fn newest_good(layout: &Layout) -> Option<Events> {
    let copies = list(&layout.backups()).into_iter().rev();
    let mut good = copies
        .filter(|path| is_good(path))
        .filter_map(|path| events_in(&path));
    good.find(|events| !events.is_empty())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::{Budget, NewSession, Owner};
    use airlock_core::Mode;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(1_767_225_600_000_000 + seconds * 1_000_000)
    }

    fn owner() -> Owner {
        Owner {
            tenant: "local".parse().unwrap(),
            user: "ada".parse().unwrap(),
        }
    }

    fn begin(state: &State, name: &str) {
        let new = NewSession {
            id: name.parse().unwrap(),
            owner: owner(),
            workspace: "w".parse().unwrap(),
            title: None,
            agent: None,
            parent: None,
            mode: Mode::Explore,
            disciplined: false,
            stage: "default".to_owned(),
            budget: Budget::USUAL,
        };
        state.create_session(new, at(0)).unwrap();
    }

    fn copy(from: &Path, to: &Path) {
        for entry in fs::read_dir(from).unwrap().flatten() {
            if entry.path().is_file() {
                fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    }

    /// A store with a session in its file and another only in its write-ahead log, whose first page is
    /// spoilt.
    fn damaged() -> tempfile::TempDir {
        let (used, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        begin(&State::open(used.path(), at(0)).unwrap(), "in-the-file");
        let state = State::open(used.path(), at(0)).unwrap();
        begin(&state, "in-the-log");
        copy(used.path(), place.path());
        drop(state);
        assert!(place.path().join("state.db-wal").metadata().unwrap().len() > 0);
        let path = place.path().join("state.db");
        let mut bytes = fs::read(&path).unwrap();
        bytes[..100].fill(0xff);
        fs::write(&path, bytes).unwrap();
        place
    }

    fn layout(place: &Path) -> Layout {
        Layout {
            directory: place.to_owned(),
        }
    }

    fn names(place: &Path, beginning: &str) -> Vec<String> {
        let all = fs::read_dir(place).unwrap().flatten();
        let all = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut found: Vec<String> = all.filter(|name| name.starts_with(beginning)).collect();
        found.sort();
        found
    }

    /// Every session is there, nothing of the damaged files is gone, and the loss is to be told.
    fn stands(place: &Path, case: &str) {
        let state = State::open(place, at(2)).unwrap();
        state.verify().unwrap();
        for name in ["in-the-file", "in-the-log"] {
            let found = state.session(&owner(), &name.parse().unwrap()).unwrap();
            assert!(found.is_some(), "{case}: {name}");
        }
        let untold = state.untold().unwrap_or_default();
        assert!(untold.contains("was damaged"), "{case}: {untold}");
        drop(state);
        let kept = names(place, DAMAGED);
        assert!(kept.len() >= 2, "{case}: {kept:?}");
        assert_eq!(
            format!("{}-wal", kept[0]),
            kept[kept.len() - 1],
            "{case}: {kept:?}"
        );
        assert_eq!(
            names(place, "state.db.rescue"),
            Vec::<String>::new(),
            "{case}"
        );
        // Told once more, until somebody kept it, and never again.
        let state = State::open(place, at(3)).unwrap();
        assert!(state.recovered().is_none(), "{case}");
        assert_eq!(state.untold().unwrap_or_default(), untold, "{case}");
        state.told();
        assert_eq!(state.untold(), None, "{case}");
    }

    #[test]
    fn a_rescue_that_is_killed_at_any_point_is_finished_and_told() {
        let original = damaged();
        let mut points = Vec::new();
        let whole = tempfile::tempdir().unwrap();
        copy(original.path(), whole.path());
        recover_with(&layout(whole.path()), at(1), "spoilt", &mut |point| {
            points.push(point);
            Ok(())
        })
        .unwrap();
        stands(whole.path(), "not killed");
        for point in [
            Point::Filled,
            Point::Noted,
            Point::Ready,
            Point::Aside,
            Point::Placed,
        ] {
            assert!(points.contains(&point), "{point:?} is never reached");
        }
        for (killed, point) in points.iter().enumerate() {
            let place = tempfile::tempdir().unwrap();
            copy(original.path(), place.path());
            let mut passed = 0;
            let cut = recover_with(&layout(place.path()), at(1), "spoilt", &mut |_| {
                passed += 1;
                if passed > killed {
                    return Err(StateError::Unfit("killed"));
                }
                Ok(())
            });
            assert!(cut.is_err());
            stands(place.path(), &format!("killed at {point:?} ({killed})"));
        }
    }

    #[test]
    fn a_rescue_that_was_spoilt_is_made_again() {
        let place = damaged();
        let mut ready = false;
        let cut = recover_with(&layout(place.path()), at(1), "spoilt", &mut |point| {
            ready = point == Point::Ready;
            if ready {
                return Err(StateError::Unfit("killed"));
            }
            Ok(())
        });
        assert!(cut.is_err() && ready);
        fs::write(layout(place.path()).rescue(), b"nothing of the kind").unwrap();
        let state = State::open(place.path(), at(2)).unwrap();
        let found = state.session(&owner(), &"in-the-log".parse().unwrap());
        assert!(found.unwrap().is_some() && state.untold().is_some());
    }
}

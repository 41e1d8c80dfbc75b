//! Puts a finished rescue in the place of the damaged database, so that being killed in between loses
//! nothing.
//!
//! A note beside the database says what is about to be moved, before anything is; whoever opens the log
//! next moves the rest first. Every step can be done a second time. Without the note the old file could
//! be left without its write-ahead log, and the records in there be forgotten.

use super::{RecoveryReport, suffixed, sync_directory};
use crate::open::OpenError;
use crate::store::Layout;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// How rescued databases are called until they take their place.
const DRAFT: &str = "audit.db.rescue-";
/// No note is near this.
const NOTE_BYTES: u64 = 1024 * 1024;

/// A rescue that is ready to take its place.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Swap {
    /// The name of the new database.
    draft: String,
    /// What whoever opens the log is told.
    report: RecoveryReport,
}

type Step = fn(&Swap, &Layout) -> Result<(), OpenError>;

/// In this order, the note first and last.
const STEPS: [Step; 5] = [
    Swap::note,
    Swap::keep_damaged,
    Swap::keep_companions,
    Swap::replace,
    |_, layout| forget(layout),
];

/// A new name for a rescue in the making.
pub(super) fn draft_name() -> String {
    format!("{DRAFT}{}", uuid::Uuid::new_v4().simple())
}

/// Whether somebody was killed while a rescue took its place.
pub(crate) fn is_unfinished(layout: &Layout) -> bool {
    note_path(layout).exists()
}

/// Moves what is left to move; gives back what the one who was killed would have told. The caller holds
/// the log's lock alone.
pub(crate) fn finish(layout: &Layout) -> Result<Option<RecoveryReport>, OpenError> {
    let path = note_path(layout);
    let swap: Swap = match read_note(&path) {
        Ok(swap) => swap,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(OpenError::io(&path, source)),
    };
    let plain = swap.draft.starts_with(DRAFT) && !swap.draft.contains('/');
    // Without its draft the swap was as good as done: all but the note.
    let first = if plain && swap.draft_in(layout).exists() {
        1
    } else {
        STEPS.len() - 1
    };
    for step in STEPS.iter().skip(first) {
        step(&swap, layout)?;
    }
    remove_drafts(layout);
    Ok(Some(swap.report))
}

/// Rescues that were never finished hold nothing that is not in the damaged file.
pub(super) fn remove_drafts(layout: &Layout) {
    for entry in fs::read_dir(&layout.directory)
        .into_iter()
        .flatten()
        .flatten()
    {
        if entry.file_name().to_string_lossy().starts_with(DRAFT) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

impl Swap {
    pub(super) fn new(draft: String, report: RecoveryReport) -> Self {
        Self { draft, report }
    }

    /// Carries it out.
    pub(super) fn run(self, layout: &Layout) -> Result<RecoveryReport, OpenError> {
        for step in STEPS {
            step(&self, layout)?;
        }
        Ok(self.report)
    }

    fn draft_in(&self, layout: &Layout) -> PathBuf {
        layout.directory.join(&self.draft)
    }

    fn note(&self, layout: &Layout) -> Result<(), OpenError> {
        let path = note_path(layout);
        let fail = |source| OpenError::io(&path, source);
        let text = serde_json::to_vec(self).map_err(|error| fail(error.into()))?;
        let unfinished = suffixed(&path, ".draft");
        let mut file = File::create(&unfinished).map_err(fail)?;
        file.write_all(&text)
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&unfinished, &path))
            .map_err(fail)?;
        sync_directory(&layout.directory)
    }

    /// Gives the damaged database a second name.
    fn keep_damaged(&self, layout: &Layout) -> Result<(), OpenError> {
        let path = layout.database();
        let Some(aside) = &self.report.set_aside else {
            return Ok(());
        };
        // Linked, not renamed: until the new file takes its place there is always a database here.
        match fs::hard_link(&path, aside) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(OpenError::io(&path, error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Moves what belongs to the damaged database: its write-ahead log must never meet the new one.
    fn keep_companions(&self, layout: &Layout) -> Result<(), OpenError> {
        let path = layout.database();
        let aside = self.report.set_aside.as_deref();
        let aside = aside.unwrap_or(&path);
        for companion in ["-wal", "-shm"] {
            let from = suffixed(&path, companion);
            // A reader may have made another meanwhile; neither takes the place of the first.
            let to = free_name(aside, companion)
                .ok_or_else(|| OpenError::io(&from, io::ErrorKind::AlreadyExists.into()))?;
            match fs::rename(&from, to) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(OpenError::io(&from, error));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    fn replace(&self, layout: &Layout) -> Result<(), OpenError> {
        let path = layout.database();
        fs::rename(self.draft_in(layout), &path).map_err(|source| OpenError::io(&path, source))?;
        sync_directory(&layout.directory)
    }
}

/// Takes the note away.
fn forget(layout: &Layout) -> Result<(), OpenError> {
    let path = note_path(layout);
    fs::remove_file(&path).map_err(|source| OpenError::io(&path, source))?;
    sync_directory(&layout.directory)
}

fn note_path(layout: &Layout) -> PathBuf {
    suffixed(&layout.database(), ".recovering")
}

fn read_note(path: &Path) -> io::Result<Swap> {
    let file = File::open(path)?;
    let mut text = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, NOTE_BYTES), &mut text)?;
    serde_json::from_slice(&text).map_err(Into::into)
}

fn free_name(aside: &Path, companion: &str) -> Option<PathBuf> {
    (0..1_000)
        .map(|attempt| match attempt {
            0 => suffixed(aside, companion),
            more => suffixed(aside, &format!("{companion}-{more}")),
        })
        .find(|candidate| !candidate.exists())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Durability, Entry, EventType, Filter, Log, LogConfig, Stage};
    use airlock_core::Timestamp;
    use std::sync::Arc;

    const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
    const RECORDS: u64 = 20;

    fn config(place: &Path) -> LogConfig {
        LogConfig::new(&place.join("state"), &place.join("keys"), Arc::new(|| NOW))
    }

    /// A log whose records are all in its write-ahead log, and whose database is no more than noise.
    fn damaged() -> tempfile::TempDir {
        let (place, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let log = Log::open(config(place.path())).unwrap();
        for _ in 0..RECORDS {
            let entry = Entry::new(NOW, EventType::Syscall, Stage::Note);
            log.append(&entry, Durability::Durable).unwrap();
        }
        let state = copy.path().join("state");
        fs::create_dir(&state).unwrap();
        for name in ["audit.db", "audit.db-wal"] {
            fs::copy(place.path().join("state").join(name), state.join(name)).unwrap();
        }
        let noise = b"this is no database at all ".repeat(500);
        fs::write(state.join("audit.db"), noise).unwrap();
        copy
    }

    fn names(place: &Path) -> Vec<String> {
        let entries = fs::read_dir(place.join("state")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    #[test]
    fn killed_at_any_step_a_rescue_loses_no_record() {
        for killed_after in 0..=STEPS.len() {
            let place = damaged();
            let layout = Layout::new(&place.path().join("state"), &place.path().join("keys"));
            let cause = OpenError::Damaged {
                path: layout.database(),
                detail: "noise".to_owned(),
            };
            let swap = super::super::prepare(&layout, NOW, &cause).unwrap();
            for step in STEPS.iter().take(killed_after) {
                step(&swap, &layout).unwrap();
            }
            // A reader that came in between leaves files of its own.
            if killed_after == 3 {
                fs::write(suffixed(&layout.database(), "-wal"), "").unwrap();
            }
            let log = Log::open(config(place.path())).unwrap();
            let told = log.open_report().recovery.is_some();
            assert_eq!(told, killed_after < STEPS.len(), "{killed_after}");
            let records = log.read(Filter::default()).unwrap();
            let records: Vec<_> = records.map(Result::unwrap).collect();
            let events: Vec<_> = records.iter().map(|record| record.entry.event).collect();
            // The verification may have told already that the chain begins anew: which log it was
            // stood in the database alone.
            let (kept, told) = events.split_at(usize::try_from(RECORDS).unwrap());
            assert!(kept.iter().all(|event| *event == EventType::Syscall));
            assert!(
                matches!(told.len(), 1 | 2)
                    && told
                        .iter()
                        .all(|event| *event == EventType::AuditChainBreak),
                "{killed_after}: {events:?}"
            );
            drop(log);
            let names = names(place.path());
            let left = |part: &str| names.iter().filter(|name| name.contains(part)).count();
            assert_eq!(left("rescue"), 0, "{killed_after}: {names:?}");
            assert_eq!(left("recovering"), 0, "{killed_after}: {names:?}");
            let damaged = names.iter().find(|name| name.contains("damaged"));
            assert!(damaged.is_some(), "{killed_after}: {names:?}");
        }
    }
}

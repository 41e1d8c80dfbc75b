//! Tells writers that closed from writers that died.
//!
//! Each writer keeps a locked file in `writers/`. The system drops the lock when its holder dies,
//! however it dies, so a file whose lock is free names a writer that never closed. Pids are only
//! shown: a reused pid cannot be mistaken for a living writer.

use crate::open::{OpenError, nofollow, private_directory};
use airlock_core::Timestamp;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const PREFIX: &str = "writer-";
/// No marker is near this; a larger file is not ours.
const MARKER_BYTES: u64 = 4_096;

/// A writer that ended without closing the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UncleanWriter {
    /// Its process id at the time.
    pub pid: u32,
    /// When it opened the log.
    pub opened: Timestamp,
    /// The last sequence number when it opened the log.
    pub head: u64,
}

/// This process's own marker; removed by [`Marker::remove`], left behind by a crash.
#[derive(Debug)]
pub(crate) struct Marker {
    path: PathBuf,
    _lock: File,
}

/// The marker of a writer that has yet to begin: taken away again if it does not, because nothing is
/// amiss with a log that could merely not be opened.
#[derive(Debug)]
pub(crate) struct Beginning(Option<Marker>);

impl Beginning {
    /// The writer begins; none only for one that was taken away.
    pub(crate) fn begun(mut self) -> Option<Marker> {
        self.0.take()
    }
}

impl Drop for Beginning {
    fn drop(&mut self) {
        if let Some(marker) = self.0.take() {
            marker.remove();
        }
    }
}

impl Marker {
    /// Leaves a marker in `directory`.
    pub(crate) fn leave(directory: &Path, writer: &UncleanWriter) -> Result<Beginning, OpenError> {
        private_directory(directory)?;
        let name = format!("{}-{}", writer.pid, uuid::Uuid::new_v4().simple());
        let draft = directory.join(format!(".{name}"));
        let path = directory.join(format!("{PREFIX}{name}"));
        let io = |source| OpenError::Io {
            path: path.clone(),
            source,
        };
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)
            .map_err(io)?;
        let text = serde_json::to_vec(writer).unwrap_or_default();
        give_name(&mut file, &text, &draft, &path).map_err(io)?;
        Ok(Beginning(Some(Self { path, _lock: file })))
    }

    pub(crate) fn remove(self) {
        // A marker that cannot be removed costs the next start a verification, nothing else.
        let _ = fs::remove_file(&self.path);
    }
}

/// Writes `text` into the draft, which is `file`, and gives it its name; takes it away if that fails.
fn give_name(file: &mut File, text: &[u8], draft: &Path, path: &Path) -> io::Result<()> {
    // Locked before it gets its name: nobody can see it unlocked while its writer lives.
    let named = file
        .lock()
        .and_then(|()| file.write_all(text))
        .and_then(|()| fs::rename(draft, path));
    if named.is_err() {
        // Nobody looks for a draft: left behind, it would stay for good.
        let _ = fs::remove_file(draft);
    }
    named
}

/// The marker of a dead writer, held so that only one process looks into its end.
#[derive(Debug)]
pub(crate) struct DeadMarker {
    marker: Marker,
    pub(crate) writer: UncleanWriter,
}

impl DeadMarker {
    /// Forgets the dead writer: its log was verified.
    pub(crate) fn settle(self) {
        self.marker.remove();
    }
}

/// Every writer in `directory` that died without closing.
pub(crate) fn dead_writers(directory: &Path) -> Result<Vec<DeadMarker>, OpenError> {
    let io = |source| OpenError::Io {
        path: directory.to_owned(),
        source,
    };
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io(error)),
    };
    let mut dead = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io)?;
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            dead.extend(inspect(&entry.path()));
        }
    }
    dead.sort_by_key(|dead| dead.writer.opened);
    Ok(dead)
}

fn inspect(path: &Path) -> Option<DeadMarker> {
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(nofollow())
        .open(path)
        .ok()?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => return None,
    }
    // Its owner may have removed it between the listing and the lock.
    if !path.exists() {
        return None;
    }
    let mut text = Vec::new();
    let read = (&mut file).take(MARKER_BYTES).read_to_end(&mut text);
    let writer = read
        .ok()
        .and_then(|_| serde_json::from_slice(&text).ok())
        // Unreadable: it still died, and nothing of the log can be taken as clean.
        .unwrap_or(UncleanWriter {
            pid: 0,
            opened: Timestamp::from_micros(0),
            head: 0,
        });
    let path = path.to_owned();
    Some(DeadMarker {
        marker: Marker { path, _lock: file },
        writer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_writer_that_began_can_have_died() {
        let place = tempfile::tempdir().unwrap();
        let writer = UncleanWriter {
            pid: 7,
            opened: Timestamp::from_micros(1),
            head: 3,
        };
        let died = || dead_writers(place.path()).unwrap().len();
        drop(Marker::leave(place.path(), &writer).unwrap());
        assert_eq!(died(), 0);
        let begun = Marker::leave(place.path(), &writer).unwrap().begun();
        assert_eq!((begun.is_some(), died()), (true, 0));
        drop(begun);
        assert_eq!(died(), 1);
    }

    #[test]
    fn a_draft_that_gets_no_name_is_taken_away() {
        let place = tempfile::tempdir().unwrap();
        let draft = place.path().join(".draft");
        let mut file = File::create_new(&draft).unwrap();
        let nowhere = place.path().join("nowhere/writer-1");
        assert!(give_name(&mut file, b"{}", &draft, &nowhere).is_err());
        assert!(!draft.exists());
    }
}

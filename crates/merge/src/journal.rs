//! What is on disk before the tree is touched, and what is there afterwards.
//!
//! A merge has a directory of its own: `new/N` and `old/N` hold the contents that its entry number
//! N brings and takes, `journal.json` lists the entries, `result.json` says what came of each. The
//! journal is written last of what comes before the tree is touched: without one, nothing was.

use crate::entry::Entry;
use crate::error::{MergeError, failed};
use crate::outcome::{EntryResult, MergeOutcome};
use crate::tree::keep_bytes;
use airlock_core::{Digest, SessionId, TenantId, Timestamp, UserId};
use airlock_sandbox::stage::TreePath;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The latest format known here.
pub(crate) const FORMAT: u32 = 1;
const JOURNAL: &str = "journal.json";
const RESULT: &str = "result.json";

/// A merge as it was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// The form of this file.
    pub format: u32,
    /// The merge's name.
    pub id: String,
    /// The real tree.
    pub root: TreePath,
    /// The stage it came from; none for an undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// When it was begun.
    pub created: Timestamp,
    /// The merge it undoes, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo_of: Option<String>,
    /// What git's packed refs were when it was begun, if it moves a ref.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packed_refs: Option<Digest>,
    /// What said then which branch is checked out, if it moves a ref.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Digest>,
    /// Which beginning of the stage what it found was as at; none if that is not known, or it went
    /// over what somebody else had changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Digest>,
    /// The task it ends, if it is one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// Its paths, in order.
    pub entries: Vec<Entry>,
    /// What stayed out of it, told with whatever comes of the rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<EntryResult>,
}

/// The task of a session that a merge is to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Whose session it is: the tenant's,
    pub tenant: TenantId,
    /// and the person's.
    pub user: UserId,
    /// The session.
    pub session: SessionId,
    /// The changes that were approved: one session has one task after another.
    pub approved: Digest,
}

#[derive(Deserialize)]
struct Version {
    format: u32,
}

/// Where the content that entry `index` brings is kept.
pub(crate) fn new_content(place: &Path, index: usize) -> PathBuf {
    place.join("new").join(index.to_string())
}

/// Where the content that entry `index` takes is kept.
pub(crate) fn old_content(place: &Path, index: usize) -> PathBuf {
    place.join("old").join(index.to_string())
}

impl Journal {
    /// Reads the journal in `place`; none if it was never written.
    pub(crate) fn read(place: &Path, id: &str) -> Result<Option<Self>, MergeError> {
        let Some(bytes) = read(&place.join(JOURNAL))? else {
            return Ok(None);
        };
        let Version { format } = parse(&bytes, id)?;
        if format > FORMAT {
            return Err(MergeError::NewerFormat {
                id: id.to_owned(),
                format,
                known: FORMAT,
            });
        }
        parse(&bytes, id).map(Some)
    }

    pub(crate) fn write(&self, place: &Path) -> Result<(), MergeError> {
        for name in ["new", "old"] {
            let below = place.join(name);
            sync_directory(&below).map_err(failed("sync", below))?;
        }
        write(place, JOURNAL, self)
    }
}

impl MergeOutcome {
    pub(crate) fn read(place: &Path, id: &str) -> Result<Option<Self>, MergeError> {
        let bytes = read(&place.join(RESULT))?;
        bytes.map(|bytes| parse(&bytes, id)).transpose()
    }

    pub(crate) fn write(&self, place: &Path) -> Result<(), MergeError> {
        write(place, RESULT, self)
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, MergeError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path)(error)),
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8], id: &str) -> Result<T, MergeError> {
    serde_json::from_slice(bytes).map_err(|error| MergeError::Damaged {
        id: id.to_owned(),
        why: error.to_string(),
    })
}

/// Writes a file of ours, whole or not at all, and on disk before it returns.
fn write(place: &Path, name: &str, value: &impl Serialize) -> Result<(), MergeError> {
    let path = place.join(name);
    let draft = place.join(format!("{name}.new"));
    let written = || -> io::Result<()> {
        let bytes = serde_json::to_vec(value)?;
        // Left by a try that was interrupted.
        match std::fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        keep_bytes(&bytes, &draft)?;
        std::fs::rename(&draft, &path)?;
        sync_directory(place)
    };
    written().map_err(failed("write", path.clone()))
}

pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

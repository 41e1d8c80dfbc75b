//! Where the log's files are. Names only; nothing is touched here.

use std::path::{Path, PathBuf};

/// The state directory and the key directory of one log.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) directory: PathBuf,
    pub(crate) keys: PathBuf,
}

impl Layout {
    pub(crate) fn new(directory: &Path, keys: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            keys: keys.to_owned(),
        }
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.directory.join("audit.db")
    }

    /// Held shared by everybody who has the database open, alone by recovery.
    pub(crate) fn lock(&self) -> PathBuf {
        self.directory.join("audit.lock")
    }

    /// Held by the one process that archives and deletes.
    pub(crate) fn maintenance(&self) -> PathBuf {
        self.directory.join("audit.maintenance")
    }

    pub(crate) fn segments(&self) -> PathBuf {
        self.directory.join("segments")
    }

    pub(crate) fn backups(&self) -> PathBuf {
        self.directory.join("backups")
    }

    pub(crate) fn writers(&self) -> PathBuf {
        self.directory.join("writers")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.keys.join("audit.key")
    }

    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.keys.join("checkpoints.jsonl")
    }
}

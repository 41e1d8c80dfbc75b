//! What people said about plugins: which bytes were approved, what is switched off.
//!
//! Guarantee: a change is on disk as a whole or not at all, and processes that change it at the same
//! time lose nothing of each other's. A file that cannot be understood is an error, never an empty
//! one: forgetting that something was switched off would switch it on. Non-guarantee: whoever can
//! write the state directory can write this.

use airlock_core::{Digest, PluginName, TagName, Tier};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

/// The version of the file this code reads and writes.
const VERSION: u32 = 1;
/// Largest file: a thousand plugins take a fifth of it.
const BYTES: u64 = 4 << 20;

/// What was approved when a plugin was installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approved {
    /// The digest of everything in its directory.
    pub directory: Digest,
    /// The digest of what runs.
    pub entry: Digest,
    /// The weakest tier it may run in.
    pub tier: Tier,
    /// The capability tags it was given.
    pub tags: Vec<TagName>,
}

/// Everything that was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Book {
    version: u32,
    pub(super) approved: BTreeMap<PluginName, Approved>,
    pub(super) disabled: BTreeSet<PluginName>,
}

impl Default for Book {
    fn default() -> Self {
        Self {
            version: VERSION,
            approved: BTreeMap::new(),
            disabled: BTreeSet::new(),
        }
    }
}

/// Tells one version of the file from another: each is a file of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stamp(Option<(u64, u64, (i64, i64))>);

/// Where it is kept.
#[derive(Debug)]
pub(super) struct Records {
    directory: PathBuf,
}

impl Records {
    pub(super) const fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.join("plugins.json")
    }

    /// What tells the file as it is now from what it was or will be.
    pub(super) fn stamp(&self) -> Stamp {
        let looked = std::fs::metadata(self.path()).ok();
        Stamp(looked.map(|looked| {
            let changed = (looked.mtime(), looked.mtime_nsec());
            (looked.ino(), looked.len(), changed)
        }))
    }

    pub(super) fn read(&self) -> io::Result<Book> {
        let file = match File::open(self.path()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Book::default()),
            Err(error) => return Err(error),
        };
        let mut text = String::new();
        file.take(BYTES + 1).read_to_string(&mut text)?;
        if text.len() as u64 > BYTES {
            return Err(damaged("it is too large"));
        }
        let book: Book =
            serde_json::from_str(&text).map_err(|error| damaged(&error.to_string()))?;
        if book.version != VERSION {
            return Err(damaged("it was written by another version"));
        }
        Ok(book)
    }

    /// Changes what is kept, alone among all processes, and returns what `change` does.
    pub(super) fn change<T>(
        &self,
        change: impl FnOnce(&mut Book) -> io::Result<T>,
    ) -> io::Result<T> {
        self.change_or(change, || {})
    }

    /// The same; what `change` did besides is taken back by `undo` if it cannot be written down.
    pub(super) fn change_or<T>(
        &self,
        change: impl FnOnce(&mut Book) -> io::Result<T>,
        undo: impl FnOnce(),
    ) -> io::Result<T> {
        let mut options = OpenOptions::new();
        let lock = options
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.directory.join("plugins.lock"))?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        let mut book = self.read()?;
        let before = book.clone();
        let value = change(&mut book)?;
        if book != before {
            self.write(&book).inspect_err(|_| undo())?;
        }
        Ok(value)
    }

    fn write(&self, book: &Book) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(book)?;
        // Under the lock, so the name is ours alone; a leftover of a crash is overwritten.
        let fresh = self.directory.join("plugins.json.new");
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&fresh)?;
        file.write_all(&text)?;
        file.sync_all()?;
        std::fs::rename(&fresh, self.path())?;
        File::open(&self.directory)?.sync_all()
    }
}

fn damaged(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("it is damaged: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn name(text: &str) -> PluginName {
        PluginName::new(text).unwrap()
    }

    #[test]
    fn changes_from_many_threads_are_all_kept_and_private() {
        let home = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for n in 0..16 {
                let records = Records::new(home.path().to_owned());
                scope.spawn(move || {
                    let disable = |book: &mut Book| {
                        book.disabled.insert(name(&format!("p{n}")));
                        Ok(())
                    };
                    records.change(disable).unwrap();
                });
            }
        });
        let records = Records::new(home.path().to_owned());
        assert_eq!(records.read().unwrap().disabled.len(), 16);
        let mode = std::fs::metadata(records.path())
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_change_that_fails_changes_nothing_and_damage_is_no_empty_book() {
        let home = tempfile::tempdir().unwrap();
        let records = Records::new(home.path().to_owned());
        let failed = records.change(|book| {
            book.disabled.insert(name("x"));
            Err::<(), _>(io::Error::other("no"))
        });
        assert!(failed.is_err() && records.read().unwrap() == Book::default());
        for text in [
            "",
            "{}",
            "{\"version\":2,\"approved\":{},\"disabled\":[]}",
            "[",
            "{\"version\":1,\"approved\":{},\"disabled\":[],\"x\":1}",
        ] {
            std::fs::write(records.path(), text).unwrap();
            assert!(records.read().is_err(), "{text}");
            assert!(records.change(|_| Ok(())).is_err(), "{text}");
        }
    }
}

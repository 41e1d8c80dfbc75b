//! The tools of plugins: what was approved of them, and what they say now.
//!
//! Guarantee: a tool is offered only in the words that were approved. What a plugin says when it is
//! first run, after somebody approved the plugin itself, is what counts as approved; whatever it
//! says differently later is withheld until somebody looked at it. A record that cannot be read
//! offers nothing. Processes that change it at the same time lose nothing of each other's: what was
//! lost would count as never said, and be approved unseen the next time.

use crate::workspace::write_atomic;
use airlock_core::Digest;
use airlock_plugin::{PinChange, Pins, ToolDescription};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// The version of the record this code reads and writes.
const VERSION: u32 = 1;
/// The name of the record.
const FILE: &str = "tools.json";
/// Beside it: locked by whoever changes it.
const LOCK: &str = "tools.lock";

/// A plugin, by who brought it: two workspaces may have different ones of one name.
pub(super) type Key = String;

type Tools = Vec<Arc<ToolDescription>>;

type Stamp = Option<(u64, u64, i64, i64)>;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    version: u32,
    approved: BTreeMap<Key, Tools>,
}

/// What is known of the tools of plugins.
pub(super) struct Table {
    path: PathBuf,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    /// The record as it was when it was read; none before it is needed.
    read: Option<Stamp>,
    approved: BTreeMap<Key, Tools>,
    /// What those say that ran here.
    now: BTreeMap<Key, Vec<ToolDescription>>,
}

impl Table {
    pub(super) fn new(home: &std::path::Path) -> Self {
        Self {
            path: home.join(FILE),
            known: RwLock::default(),
        }
    }

    /// The tools that may be called, in the words that were approved.
    pub(super) fn offered(&self, key: &Key) -> Tools {
        let known = self.known();
        let same = |tool: &Arc<ToolDescription>| {
            let now = known.now.get(key);
            now.is_none_or(|now| {
                let pins = Pins::of(std::slice::from_ref(&**tool));
                now.iter().any(|now| pins.judge(now) == PinChange::Same)
            })
        };
        let approved = known.approved.get(key).into_iter().flatten();
        approved.filter(|tool| same(tool)).cloned().collect()
    }

    /// How what a plugin says now differs from what was approved.
    pub(super) fn withheld(&self, key: &Key) -> BTreeMap<String, PinChange> {
        let known = self.known();
        let approved = known.approved.get(key).into_iter().flatten();
        let approved: Vec<ToolDescription> = approved.map(|tool| (**tool).clone()).collect();
        match known.now.get(key) {
            Some(now) => Pins::of(&approved).compare(now),
            None => BTreeMap::new(),
        }
    }

    /// The digest of what it says now, and the words themselves; none if it did not run here.
    pub(super) fn said(&self, key: &Key) -> Option<(Digest, Vec<ToolDescription>)> {
        let known = self.known();
        let now = known.now.get(key)?;
        Some((Pins::of(now).digest(), now.clone()))
    }

    /// Hears what a plugin says that was just started. The first time, that is what is approved.
    pub(super) fn hear(&self, key: &Key, tools: &[ToolDescription]) -> io::Result<()> {
        drop(self.known());
        let first = {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            known.now.insert(key.clone(), tools.to_vec());
            !known.approved.contains_key(key)
        };
        if first {
            self.change(|approved| {
                // Another process may have been the first meanwhile.
                let tools = || tools.iter().cloned().map(Arc::new).collect();
                approved.entry(key.clone()).or_insert_with(tools);
            })
        } else {
            Ok(())
        }
    }

    /// Approves `tools`, and nothing else, of a plugin.
    pub(super) fn approve(&self, key: &Key, tools: &[ToolDescription]) -> io::Result<()> {
        self.change(|approved| {
            let tools = tools.iter().cloned().map(Arc::new).collect();
            approved.insert(key.clone(), tools);
        })
    }

    /// Forgets a plugin that is gone: whoever has its name next is looked at anew.
    pub(super) fn forget(&self, key: &Key) -> io::Result<()> {
        self.change(|approved| {
            approved.remove(key);
        })?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.now.remove(key);
        Ok(())
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<Key, Tools>)) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(self.path.with_file_name(LOCK))?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        // Another kernel may have changed it meanwhile.
        let mut approved = self.read()?;
        change(&mut approved);
        let record = Record {
            version: VERSION,
            approved,
        };
        let text = serde_json::to_vec(&record)?;
        write_atomic(&self.path, &text, 0o600)?;
        known.approved = record.approved;
        known.read = Some(self.stamp());
        Ok(())
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        let read = || self.known.read().unwrap_or_else(PoisonError::into_inner);
        let known = read();
        // Another process may have approved something meanwhile.
        let stamp = self.stamp();
        if known.read == Some(stamp) {
            return known;
        }
        drop(known);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.read != Some(stamp) {
            known.approved = self.read().unwrap_or_default();
            known.read = Some(stamp);
        }
        drop(known);
        read()
    }

    /// What tells the record as it is now from what it was or will be: each is a file of its own.
    fn stamp(&self) -> Stamp {
        let looked = std::fs::metadata(&self.path).ok();
        looked.map(|looked| {
            (
                looked.ino(),
                looked.len(),
                looked.mtime(),
                looked.mtime_nsec(),
            )
        })
    }

    fn read(&self) -> io::Result<BTreeMap<Key, Tools>> {
        let bytes = match std::fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(error),
        };
        let record: Record = serde_json::from_slice(&bytes)?;
        if record.version != VERSION {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(record.approved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tool(name: &str, summary: &str) -> ToolDescription {
        ToolDescription {
            name: name.to_owned(),
            summary: summary.to_owned(),
            schema: json!({ "type": "object" }),
            read_only: false,
        }
    }

    fn names(table: &Table, key: &str) -> Vec<String> {
        let offered = table.offered(&key.to_owned());
        offered.iter().map(|tool| tool.name.clone()).collect()
    }

    #[test]
    fn what_is_first_said_counts_and_what_is_said_otherwise_is_withheld() {
        let home = tempfile::tempdir().unwrap();
        let table = Table::new(home.path());
        let key = "user:t".to_owned();
        let first = [tool("read", "Read"), tool("list", "List")];
        table.hear(&key, &first).unwrap();
        assert_eq!(names(&table, &key), ["read", "list"]);
        table
            .hear(
                &key,
                &[
                    tool("read", "Read; and obey"),
                    tool("new", "New"),
                    tool("list", "List"),
                ],
            )
            .unwrap();
        assert_eq!(names(&table, &key), ["list"]);
        let changes = [("new", PinChange::New), ("read", PinChange::Changed)];
        assert_eq!(
            table.withheld(&key),
            changes.map(|(n, c)| (n.to_owned(), c)).into()
        );
        // Somebody looked: that very wording counts from now on, after a restart as well.
        let (_, said) = table.said(&key).unwrap();
        table.approve(&key, &said).unwrap();
        assert_eq!(names(&table, &key), ["read", "new", "list"]);
        let again = Table::new(home.path());
        assert_eq!(names(&again, &key), ["read", "new", "list"]);
        assert_eq!(names(&again, "w:t"), Vec::<String>::new());
        again.forget(&key).unwrap();
        assert_eq!(names(&again, &key), Vec::<String>::new());
    }

    #[test]
    fn processes_that_change_it_at_once_lose_nothing_of_each_other() {
        let home = tempfile::tempdir().unwrap();
        // Each has its own view, as processes have. Many rounds: a loss needs them to meet.
        std::thread::scope(|scope| {
            for process in 0..8 {
                let table = Table::new(home.path());
                scope.spawn(move || {
                    for round in 0..20 {
                        let key = format!("user:p{process}-{round}");
                        table.hear(&key, &[tool("read", "Read")]).unwrap();
                        if round % 2 == 1 {
                            table.forget(&key).unwrap();
                        }
                    }
                });
            }
        });
        let table = Table::new(home.path());
        for process in 0..8 {
            for round in 0..20 {
                let is_there = !names(&table, &format!("user:p{process}-{round}")).is_empty();
                assert_eq!(is_there, round % 2 == 0, "{process}-{round}");
            }
        }
    }

    #[test]
    fn of_two_that_hear_it_first_only_one_is_believed() {
        let home = tempfile::tempdir().unwrap();
        let key = "user:t".to_owned();
        let (one, two) = (Table::new(home.path()), Table::new(home.path()));
        one.hear(&key, &[tool("read", "Read")]).unwrap();
        // As if the other had looked before the first wrote.
        *two.known.write().unwrap() = Known {
            read: Some(two.stamp()),
            ..Known::default()
        };
        two.hear(&key, &[tool("read", "Read; and obey")]).unwrap();
        assert_eq!(names(&two, &key), Vec::<String>::new());
        assert_eq!(names(&one, &key), ["read"]);
    }

    #[test]
    fn a_record_that_cannot_be_read_offers_nothing_and_is_not_written_over() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(FILE), "{\"version\": 9, \"approved\": {}}").unwrap();
        let table = Table::new(home.path());
        let key = "user:t".to_owned();
        assert!(table.hear(&key, &[tool("read", "Read")]).is_err());
        assert_eq!(names(&table, &key), Vec::<String>::new());
    }
}

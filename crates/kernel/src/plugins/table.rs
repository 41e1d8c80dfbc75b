//! What people approved of plugins beside their files: the words of their tools, and where the paths of
//! their boxes lead.
//!
//! Guarantee: a tool is offered only in the words that were approved. What a plugin says when it is
//! first run, after somebody approved the plugin itself, is what counts as approved, and is marked as
//! unseen until a person was shown it; whatever it says differently later is withheld until somebody
//! looked at it, and is kept whole until then, for whichever process they look with. A record that cannot be read offers nothing. Processes that
//! change it at the same time lose nothing of each other's: what was lost would count as never said,
//! and be approved unseen the next time.

use crate::workspace::write_atomic;
use airlock_core::Digest;
use airlock_plugin::{PinChange, Pins, ToolDescription};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
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

/// The words of a plugin's tools, as a person has to see them who is to approve them.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginWords {
    /// The tools as they were approved.
    pub approved: Vec<ToolDescription>,
    /// The tools as the plugin last described them.
    pub now: Vec<ToolDescription>,
    /// What an approval of `now` is bound to.
    pub digest: Digest,
}

/// What a plugin says otherwise of one of its tools.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WordsChange {
    /// How it compares.
    pub change: PinChange,
    /// The tool as it was approved, if it was.
    pub approved: Option<ToolDescription>,
    /// The tool as it is described now, if it is.
    pub now: Option<ToolDescription>,
}

impl PluginWords {
    /// Each tool that is not as it was approved, by name.
    pub fn changes(&self) -> BTreeMap<String, WordsChange> {
        let of = |tools: &[ToolDescription], name: &str| {
            let mut tools = tools.iter();
            tools.find(|tool| tool.name == name).cloned()
        };
        let compared = Pins::of(&self.approved).compare(&self.now).into_iter();
        let changes = compared.map(|(name, change)| {
            let change = WordsChange {
                change,
                approved: of(&self.approved, &name),
                now: of(&self.now, &name),
            };
            (name, change)
        });
        changes.collect()
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    version: u32,
    approved: BTreeMap<Key, Tools>,
    /// What was said that differs, whole, until somebody approves it.
    #[serde(default)]
    said: BTreeMap<Key, Vec<ToolDescription>>,
    /// Those whose first words count, and were shown to nobody yet.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    unseen: BTreeSet<Key>,
    /// Where the paths of a box led when they were approved, by what the manifest calls them.
    #[serde(default)]
    places: BTreeMap<Key, BTreeMap<String, String>>,
}

impl Record {
    /// Hears what a plugin says. Another process may have been the first meanwhile.
    fn hear(&mut self, key: &Key, tools: &[ToolDescription]) {
        let first = || tools.iter().cloned().map(Arc::new).collect();
        if !self.approved.contains_key(key) && !tools.is_empty() {
            self.unseen.insert(key.clone());
        }
        let approved = self.approved.entry(key.clone()).or_insert_with(first);
        if is_same(approved, tools) {
            self.said.remove(key);
        } else {
            self.said.insert(key.clone(), tools.to_vec());
        }
    }
}

fn plain(tools: &Tools) -> Vec<ToolDescription> {
    tools.iter().map(|tool| (**tool).clone()).collect()
}

fn is_same(approved: &Tools, tools: &[ToolDescription]) -> bool {
    Pins::of(&plain(approved)).compare(tools).is_empty()
}

/// What is known of the tools and the paths of plugins.
pub(super) struct Table {
    path: PathBuf,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    /// The record as it was when it was read; none before it is needed.
    read: Option<Stamp>,
    record: Record,
    /// What those say that ran here.
    now: BTreeMap<Key, Vec<ToolDescription>>,
}

impl Known {
    /// What a plugin last said: here, or wherever it said something else than was approved.
    fn said(&self, key: &Key) -> Option<&Vec<ToolDescription>> {
        self.now.get(key).or_else(|| self.record.said.get(key))
    }
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
        let approved = known.record.approved.get(key).into_iter().flatten();
        approved.filter(|tool| same(tool)).cloned().collect()
    }

    /// How what a plugin says now differs from what was approved.
    pub(super) fn withheld(&self, key: &Key) -> BTreeMap<String, PinChange> {
        let words = self.words(key);
        words.map_or_else(BTreeMap::new, |words| {
            Pins::of(&words.approved).compare(&words.now)
        })
    }

    /// What was approved of its tools and what it says of them now; none if nothing is known of them.
    pub(super) fn words(&self, key: &Key) -> Option<PluginWords> {
        let known = self.known();
        let approved = known.record.approved.get(key).map(plain);
        let now = known.said(key).cloned().or_else(|| approved.clone())?;
        Some(PluginWords {
            approved: approved.unwrap_or_default(),
            digest: Pins::of(&now).digest(),
            now,
        })
    }

    /// Hears what a plugin says that was just started. The first time, that is what is approved.
    pub(super) fn hear(&self, key: &Key, tools: &[ToolDescription]) -> io::Result<()> {
        drop(self.known());
        let is_news = {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            known.now.insert(key.clone(), tools.to_vec());
            let approved = known.record.approved.get(key);
            let kept = known.record.said.get(key).map(Vec::as_slice);
            approved.is_none_or(|approved| {
                let keeps = (!is_same(approved, tools)).then_some(tools);
                kept != keeps
            })
        };
        if is_news {
            self.change(|record| record.hear(key, tools))
        } else {
            Ok(())
        }
    }

    /// Whether nobody was shown what counts as approved of a plugin.
    pub(super) fn is_unseen(&self, key: &Key) -> bool {
        self.known().record.unseen.contains(key)
    }

    /// Notes that a person was shown `tools`, if those are what counts as approved.
    pub(super) fn note_shown(&self, key: &Key, tools: &[ToolDescription]) -> io::Result<()> {
        self.change(|record| {
            let approved = record.approved.get(key);
            if approved.is_some_and(|approved| is_same(approved, tools)) {
                record.unseen.remove(key);
            }
        })
    }

    /// Approves `tools`, and nothing else, of a plugin. What they have in common with words that nobody
    /// was shown is still unseen: a question shows what differs.
    pub(super) fn approve(&self, key: &Key, tools: &[ToolDescription]) -> io::Result<()> {
        self.change(|record| {
            let said = record.said.get(key);
            let is_approved = said.is_some_and(|said| Pins::of(tools).compare(said).is_empty());
            if is_approved {
                record.said.remove(key);
            }
            let tools = tools.iter().cloned().map(Arc::new).collect();
            record.approved.insert(key.clone(), tools);
        })
    }

    /// Where the paths of its box led when they were approved, by what its manifest calls them.
    pub(super) fn places(&self, key: &Key) -> BTreeMap<String, String> {
        let places = self.known().record.places.get(key).cloned();
        places.unwrap_or_default()
    }

    /// Approves that the paths of its box lead there; whether that is news.
    pub(super) fn approve_places(
        &self,
        key: &Key,
        places: &BTreeMap<String, String>,
    ) -> io::Result<bool> {
        let known = self.places(key);
        let is_known = |(asked, real): (&String, &String)| known.get(asked) == Some(real);
        if places.iter().all(is_known) {
            return Ok(false);
        }
        self.change(|record| {
            let approved = record.places.entry(key.clone()).or_default();
            approved.extend(places.clone());
        })?;
        Ok(true)
    }

    /// Forgets a plugin that is gone: whoever has its name next is looked at anew.
    pub(super) fn forget(&self, key: &Key) -> io::Result<()> {
        self.change(|record| {
            record.approved.remove(key);
            record.said.remove(key);
            record.unseen.remove(key);
            record.places.remove(key);
        })?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.now.remove(key);
        Ok(())
    }

    fn change(&self, change: impl FnOnce(&mut Record)) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(self.path.with_file_name(LOCK))?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        // Another kernel may have changed it meanwhile.
        let mut record = self.read()?;
        change(&mut record);
        record.version = VERSION;
        let text = serde_json::to_vec(&record)?;
        write_atomic(&self.path, &text, 0o600)?;
        known.record = record;
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
            known.record = self.read().unwrap_or_default();
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

    fn read(&self) -> io::Result<Record> {
        let bytes = match std::fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Record::default()),
            Err(error) => return Err(error),
        };
        let record: Record = serde_json::from_slice(&bytes)?;
        if record.version != VERSION {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(record)
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
        let words = table.words(&key).unwrap();
        table.approve(&key, &words.now).unwrap();
        assert_eq!(names(&table, &key), ["read", "new", "list"]);
        let again = Table::new(home.path());
        assert_eq!(names(&again, &key), ["read", "new", "list"]);
        assert_eq!(names(&again, "w:t"), Vec::<String>::new());
        again.forget(&key).unwrap();
        assert_eq!(names(&again, &key), Vec::<String>::new());
    }

    #[test]
    fn words_that_wait_are_known_whole_to_every_process_until_they_are_approved_or_taken_back() {
        let home = tempfile::tempdir().unwrap();
        let (heard, asked) = (Table::new(home.path()), Table::new(home.path()));
        let key = "user:t".to_owned();
        let (first, late) = (tool("read", "Read"), "x".repeat(5_000) + "; and obey");
        let other = tool("read", &late);
        heard.hear(&key, std::slice::from_ref(&first)).unwrap();
        assert_eq!(asked.words(&key).unwrap().changes(), BTreeMap::new());
        heard.hear(&key, std::slice::from_ref(&other)).unwrap();
        let words = asked.words(&key).unwrap();
        let want = WordsChange {
            change: PinChange::Changed,
            approved: Some(first.clone()),
            now: Some(other.clone()),
        };
        assert_eq!(words.changes(), [("read".to_owned(), want)].into());
        assert_eq!(
            words.digest,
            Pins::of(std::slice::from_ref(&other)).digest()
        );
        // What it says as before is not waited with.
        heard.hear(&key, std::slice::from_ref(&first)).unwrap();
        assert_eq!(asked.words(&key).unwrap().changes(), BTreeMap::new());
        // What was shown is what is approved, whatever it said since.
        heard.hear(&key, &[tool("read", "Worse")]).unwrap();
        asked.approve(&key, &words.now).unwrap();
        assert_eq!(names(&asked, &key), ["read"]);
        assert_eq!(names(&heard, &key), Vec::<String>::new());
        assert_eq!(asked.words(&key).unwrap().changes().len(), 1);
    }

    #[test]
    fn first_words_are_unseen_until_those_very_words_were_shown() {
        let home = tempfile::tempdir().unwrap();
        let (heard, shown) = (Table::new(home.path()), Table::new(home.path()));
        let key = "user:t".to_owned();
        let (first, other) = ([tool("read", "Read")], [tool("read", "Read; and obey")]);
        heard.hear(&key, &[]).unwrap();
        assert!(!heard.is_unseen(&key), "there is nothing to see");
        heard.forget(&key).unwrap();
        heard.hear(&key, &first).unwrap();
        assert!(heard.is_unseen(&key) && shown.is_unseen(&key));
        shown.note_shown(&key, &other).unwrap();
        assert!(heard.is_unseen(&key), "others were shown");
        heard.approve(&key, &other).unwrap();
        assert!(heard.is_unseen(&key), "only what differs was shown");
        shown.note_shown(&key, &other).unwrap();
        assert!(!heard.is_unseen(&key));
        // Whatever comes next is a change; only who has the name anew has first words again.
        heard.hear(&key, &first).unwrap();
        assert!(!heard.is_unseen(&key));
        heard.forget(&key).unwrap();
        heard.hear(&key, &first).unwrap();
        assert!(heard.is_unseen(&key));
        heard.forget(&key).unwrap();
        assert!(!heard.is_unseen(&key));
    }

    #[test]
    fn where_paths_lead_is_approved_path_by_path_and_forgotten_with_the_plugin() {
        let home = tempfile::tempdir().unwrap();
        let table = Table::new(home.path());
        let key = "user:t".to_owned();
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let pairs = pairs.iter();
            pairs
                .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
                .collect()
        };
        table
            .approve_places(&key, &map(&[("~/a", "/x/a")]))
            .unwrap();
        let more = map(&[("~/a", "/y/a"), ("~/b", "/x/b")]);
        table.approve_places(&key, &more).unwrap();
        assert_eq!(Table::new(home.path()).places(&key), more);
        table.hear(&key, &[tool("read", "Read")]).unwrap();
        table.forget(&key).unwrap();
        assert_eq!(table.places(&key), BTreeMap::new());
        assert!(table.words(&key).is_none());
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

//! Every merge of a workspace: those under way in `open`, those that came to an end in `done`.

use crate::Moment;
use crate::apply::carry_out;
use crate::entry::Entry;
use crate::error::{MergeError, failed};
use crate::git;
use crate::journal::{FORMAT, Journal, Task, new_content, old_content, sync_directory};
use crate::node::Node;
use crate::outcome::{EntryResult, MergeOutcome, Result as EntryOutcome, Since};
use crate::prepare::Preparation;
use crate::select::Selection;
use crate::telling::Telling;
use crate::tree::Tree;
use crate::undo::{Looked, Undoing};
use airlock_core::{Digest, Timestamp};
use airlock_sandbox::stage::{Conflict, ConflictReason, Diff, DiffOptions, Stage, TreePath};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A lock that was let go may live on for a moment in a process that is just being started by
/// another thread: whoever really merges takes longer.
const PATIENCE: Duration = Duration::from_millis(300);
const LOOK: Duration = Duration::from_millis(5);

/// The merges of one workspace, kept in its state directory.
#[derive(Debug)]
pub struct Merges {
    place: PathBuf,
    root: PathBuf,
    limits: DiffOptions,
    task: Option<Task>,
    telling: Telling,
}

/// What was carried on after an interruption.
#[derive(Debug, Default)]
pub struct Recovered {
    /// What came to an end, as it was begun and as it ended.
    pub ended: Vec<(Journal, MergeOutcome)>,
    /// Why one of which somebody could not be told is not put away, if that is so.
    pub untold: Option<MergeError>,
}

/// A merge that came to an end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Its name.
    pub id: String,
    /// When it was begun.
    pub created: Timestamp,
    /// The stage it came from.
    pub stage: Option<String>,
    /// The merge it undid, if it is an undo.
    pub undo_of: Option<String>,
    /// Whether an undo took it back that was not taken back itself.
    pub undone: bool,
    /// Paths that were merged.
    pub merged: usize,
    /// Paths that were not.
    pub left: usize,
}

/// The most that is shown of a file that was changed since.
const SHOWN: u64 = 1 << 20;

/// Kept while a merge is under way.
struct Hold {
    _lock: File,
}

/// What a merge is of.
struct Origin {
    stage: Option<String>,
    undo_of: Option<String>,
    base: Option<Digest>,
    task: Option<Task>,
    refs: git::Refs,
}

impl Merges {
    /// The merges of the workspace `root`, kept in `place`. Nothing is made until there is one.
    pub fn new(place: &Path, root: &Path) -> Self {
        Self {
            place: place.to_owned(),
            root: root.to_owned(),
            limits: DiffOptions::default(),
            task: None,
            telling: Telling::default(),
        }
    }

    /// The same, where a stage is read within other `limits`. What they leave unread is not merged.
    #[must_use]
    pub fn reading(mut self, limits: DiffOptions) -> Self {
        self.limits = limits;
        self
    }

    /// The same, to merge what ends `task`.
    #[must_use]
    pub fn ending(mut self, task: Option<Task>) -> Self {
        self.task = task;
        self
    }

    /// The same, where `tell` hears of each merge that comes to an end, also of one that another
    /// process began, and also more than once. Until it could be told, the merge is not put away.
    #[must_use]
    pub fn telling(
        mut self,
        tell: impl Fn(&Journal, &MergeOutcome) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.telling = Telling::of(tell);
        self
    }

    fn open(&self, id: &str) -> PathBuf {
        self.place.join("open").join(id)
    }

    fn done(&self, id: &str) -> PathBuf {
        self.place.join("done").join(id)
    }

    fn hold(&self) -> Result<Hold, MergeError> {
        for name in ["open", "done"] {
            private(&self.place.join(name))?;
        }
        let path = self.place.join("lock");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(&path).map_err(failed("lock", &path))?;
        let until = Instant::now() + PATIENCE;
        loop {
            match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Hold { _lock: lock }),
                Err(Errno::WOULDBLOCK) if Instant::now() < until => std::thread::sleep(LOOK),
                Err(Errno::WOULDBLOCK) => return Err(MergeError::Busy),
                Err(errno) => return Err(failed("lock", path)(errno.into())),
            }
        }
    }

    /// Merges what `selection` takes of the stage. `reviewed` is what [`Selection::reviewed`] gave
    /// for the changes that were looked at.
    pub fn merge(
        &self,
        id: &str,
        stage: &mut Stage,
        selection: &Selection,
        reviewed: Digest,
        now: Timestamp,
    ) -> Result<MergeOutcome, MergeError> {
        self.merge_watched(id, stage, selection, reviewed, now, &|_| {})
    }

    #[doc(hidden)]
    pub fn merge_watched(
        &self,
        id: &str,
        stage: &mut Stage,
        selection: &Selection,
        reviewed: Digest,
        now: Timestamp,
        moment: Moment<'_>,
    ) -> Result<MergeOutcome, MergeError> {
        let _hold = self.hold()?;
        self.recover_held(moment)?;
        // Nothing runs in the stage while it is read.
        let _claim = stage.claim()?;
        // Whoever ran there died: what is there may be half done, and may be what policy forbids.
        if stage.unsettled()?.is_some() {
            return Err(MergeError::Unjudged(stage.name().as_str().to_owned()));
        }
        let diff = self.diff(stage)?;
        if selection.reviewed(&diff) != reviewed {
            return Err(MergeError::ChangedSinceReview);
        }
        let selected = selection.select(&diff)?;
        let tree = Tree::open(&self.root).map_err(failed("open", &self.root))?;
        let standing = git::Standing::look(&tree, stage, &diff, &selected.targets)?;
        let clean = !selection.overwrite || diff.conflicts.is_empty();
        let stage = &*stage;
        let prepared = self.prepared(id, &tree, moment, |preparation| {
            for target in &selected.targets {
                moment("prepare");
                match standing.refuses(target).filter(|_| !selection.overwrite) {
                    Some(why) => preparation.leave(&target.path, why),
                    None => preparation.add(target, stage)?,
                }
            }
            Ok(())
        })?;
        let from = Origin {
            stage: Some(stage.name().as_str().to_owned()),
            undo_of: None,
            base: clean.then(|| stage.base()),
            task: self.task.clone(),
            refs: standing.refs,
        };
        let conflicts = selected.conflicts.into_iter().map(|path| EntryResult {
            path,
            result: EntryOutcome::Conflict {
                why: "it was changed in the real tree after the stage began".to_owned(),
            },
        });
        let left: Vec<EntryResult> = prepared.1.into_iter().chain(conflicts).collect();
        self.begin(id, from, prepared.0, left, now, moment)
    }

    /// What `stage` changes. A path that holds exactly what a merge of this stage found there, or
    /// left there, is no conflict, whatever its stamps say: nobody but Airlock changed it. An undo
    /// put it back; or some of its hunks were merged, and the others wait.
    pub fn diff(&self, stage: &Stage) -> Result<Diff, MergeError> {
        let mut diff = stage.diff(&self.limits)?;
        let may_be_ours = |one: &Conflict| match one.reason {
            ConflictReason::Changed | ConflictReason::Appeared => true,
            ConflictReason::Vanished | ConflictReason::ClockWentBack => false,
        };
        if !diff.conflicts.iter().any(may_be_ours) {
            return Ok(diff);
        }
        let found = self.known_since(stage.base())?;
        let tree = Tree::open(&self.root).map_err(failed("open", &self.root))?;
        let mut conflicts = Vec::new();
        for conflict in std::mem::take(&mut diff.conflicts) {
            let path = conflict.path.as_path();
            let ours = match found.get(&conflict.path).filter(|_| may_be_ours(&conflict)) {
                Some(known) => known.contains(&tree.node(path).map_err(failed("read", path))?.0),
                None => false,
            };
            if !ours {
                conflicts.push(conflict);
            }
        }
        diff.conflicts = conflicts;
        Ok(diff)
    }

    /// What each path held by Airlock's own doing since the stage began at `base`: what the first
    /// merge that went over nobody's changes found there, and what each of them left.
    fn known_since(&self, base: Digest) -> Result<BTreeMap<TreePath, Vec<Node>>, MergeError> {
        let mut journals = Vec::new();
        for id in self.names("done")? {
            let journal = Journal::read(&self.done(&id), &id)?;
            journals.extend(journal.filter(|journal| journal.base == Some(base)));
        }
        journals.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        let mut known: BTreeMap<TreePath, Vec<Node>> = BTreeMap::new();
        for entry in journals.into_iter().flat_map(|journal| journal.entries) {
            let held = known.entry(entry.path);
            held.or_insert_with(|| vec![entry.before]).push(entry.after);
        }
        Ok(known)
    }

    /// Undoes a merge, or the last one that is not undone. What was changed `since` stays or goes;
    /// of git's own it always stays. `reviewed` is the digest that [`Self::undoing`] gave for what was
    /// looked at.
    pub fn undo(
        &self,
        id: &str,
        of: Option<&str>,
        since: Since,
        reviewed: Digest,
        now: Timestamp,
    ) -> Result<MergeOutcome, MergeError> {
        self.undo_watched(id, of, since, reviewed, now, &|_| {})
    }

    #[doc(hidden)]
    pub fn undo_watched(
        &self,
        id: &str,
        of: Option<&str>,
        since: Since,
        reviewed: Digest,
        now: Timestamp,
        moment: Moment<'_>,
    ) -> Result<MergeOutcome, MergeError> {
        let _hold = self.hold()?;
        self.recover_held(moment)?;
        let of = self.undoable(of)?;
        let merged = self.merged_entries(&of)?;
        let place = self.done(&of);
        let tree = Tree::open(&self.root).map_err(failed("open", &self.root))?;
        let touched = merged.iter().map(|(_, entry)| entry.path.as_path());
        let refs = git::Refs::read_for(&tree, touched)?;
        let (entries, left) = self.prepared(id, &tree, moment, |preparation| {
            let mut looked = Looked::new(&of, since);
            for (index, entry) in &merged {
                moment("prepare");
                let from = old_content(&place, *index);
                let found = preparation.add_reversed(entry, &from, since)?;
                looked.add(entry, &found);
            }
            // What is kept of each path was looked at; whatever comes there after this stays.
            if looked.digest() != reviewed {
                return Err(MergeError::ChangedSinceLook);
            }
            Ok(())
        })?;
        let from = Origin {
            stage: None,
            undo_of: Some(of),
            base: None,
            task: None,
            refs,
        };
        self.begin(id, from, entries, left, now, moment)
    }

    /// Looks at what undoing `of`, or the last merge that is not undone, would do, where what was
    /// changed `since` stays or goes.
    pub fn undoing(&self, of: Option<&str>, since: Since) -> Result<Undoing, MergeError> {
        let merge = self.undoable(of)?;
        let tree = Tree::open(&self.root).map_err(failed("open", &self.root))?;
        let (mut paths, mut looked) = (Vec::new(), Looked::new(&merge, since));
        for (_, entry) in self.merged_entries(&merge)? {
            let (now, _) = tree
                .node(entry.path.as_path())
                .map_err(failed("read", entry.path.as_path()))?;
            looked.add(&entry, &now);
            let same = entry.reversed().is_untouched(&now);
            paths.push((entry.path, same));
        }
        Ok(Undoing {
            digest: looked.digest(),
            merge,
            paths,
        })
    }

    /// What was at `path` before merge `of`, what it left there, and what is there now, for showing
    /// the difference. Of the last only a file's beginning, and never what a link leads to.
    pub fn contents(&self, of: &str, path: &TreePath) -> Result<[Vec<u8>; 3], MergeError> {
        let place = self.done(of);
        let journal =
            Journal::read(&place, of)?.ok_or_else(|| MergeError::Missing(of.to_owned()))?;
        let found = journal.entries.iter().position(|entry| entry.path == *path);
        let Some(index) = found else {
            return Err(MergeError::NotChanged(path.clone()));
        };
        let read = |path: PathBuf| match std::fs::read(&path) {
            Ok(bytes) => Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(failed("read", path)(error)),
        };
        let before = read(old_content(&place, index))?;
        let after = read(new_content(&place, index))?;
        let tree = Tree::open(&self.root).map_err(failed("open", &self.root))?;
        let spot = tree.spot(path.as_path());
        let spot = spot.map_err(failed("open", path.as_path()))?;
        let now = spot.map(|spot| spot.beginning(SHOWN)).transpose();
        let now = now.map_err(failed("read", path.as_path()))?;
        Ok([before, after, now.unwrap_or_default()])
    }

    /// Carries on what was interrupted. Nothing is done while another process merges.
    pub fn recover(&self) -> Result<Recovered, MergeError> {
        if !self.has_unfinished() {
            return Ok(Recovered::default());
        }
        let _hold = match self.hold() {
            Ok(hold) => hold,
            Err(MergeError::Busy) => return Ok(Recovered::default()),
            Err(error) => return Err(error),
        };
        self.recover_held(&|_| {})
    }

    /// Whether a merge was begun and has not come to an end.
    pub fn has_unfinished(&self) -> bool {
        let open = std::fs::read_dir(self.place.join("open"));
        open.is_ok_and(|mut entries| entries.next().is_some())
    }

    /// The merge that was begun to end a task of which `is_its` says yes, and has not come to an end.
    /// Nothing is told while another process merges. A journal that cannot be read ends no task.
    pub fn unfinished_of(
        &self,
        is_its: impl Fn(&Task) -> bool,
    ) -> Result<Option<String>, MergeError> {
        if !self.place.join("lock").exists() {
            return Ok(None);
        }
        let _hold = self.hold()?;
        let names = self.names("open")?;
        Ok(names.into_iter().find(|id| {
            let read = Journal::read(&self.open(id), id);
            let task = read.ok().flatten().and_then(|journal| journal.task);
            task.as_ref().is_some_and(&is_its)
        }))
    }

    /// Every merge that came to an end, oldest first.
    pub fn list(&self) -> Result<Vec<Summary>, MergeError> {
        let mut summaries = Vec::new();
        for id in self.names("done")? {
            let place = self.done(&id);
            let (Some(journal), Some(outcome)) = (
                Journal::read(&place, &id)?,
                MergeOutcome::read(&place, &id)?,
            ) else {
                continue;
            };
            summaries.push(Summary {
                created: journal.created,
                stage: journal.stage,
                undo_of: journal.undo_of,
                undone: false,
                merged: outcome.merged(),
                left: outcome.left().count(),
                id,
            });
        }
        summaries.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        let undone = taken_back(&summaries);
        for summary in &mut summaries {
            summary.undone = undone.contains(&summary.id);
        }
        Ok(summaries)
    }

    /// Forgets merges begun before `before`: they can no longer be undone.
    pub fn forget(&self, before: Timestamp) -> Result<usize, MergeError> {
        let _hold = self.hold()?;
        let old = self.list()?.into_iter().filter(|one| one.created < before);
        let mut forgotten = 0;
        for summary in old {
            let place = self.done(&summary.id);
            std::fs::remove_dir_all(&place).map_err(failed("remove", &place))?;
            forgotten += 1;
        }
        Ok(forgotten)
    }

    fn names(&self, below: &str) -> Result<Vec<String>, MergeError> {
        let place = self.place.join(below);
        let entries = match std::fs::read_dir(&place) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed("read", place)(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed("read", &place))?;
            names.extend(entry.file_name().into_string().ok());
        }
        names.sort();
        Ok(names)
    }

    fn undoable(&self, of: Option<&str>) -> Result<String, MergeError> {
        let merges = self.list()?;
        match of {
            Some(id) => {
                let mut found = merges.iter().filter(|merge| merge.id.starts_with(id));
                match (found.next(), found.next()) {
                    (Some(merge), None) if !id.is_empty() => Ok(merge.id.clone()),
                    _ => Err(MergeError::Missing(id.to_owned())),
                }
            }
            // An undo is undone by its name only: `undo` twice goes back twice, not to and fro.
            None => merges
                .iter()
                .rev()
                .find(|merge| !merge.undone && merge.undo_of.is_none() && merge.merged > 0)
                .map(|merge| merge.id.clone())
                .ok_or(MergeError::NothingToUndo),
        }
    }

    fn merged_entries(&self, id: &str) -> Result<Vec<(usize, Entry)>, MergeError> {
        let place = self.done(id);
        let missing = || MergeError::Missing(id.to_owned());
        let journal = Journal::read(&place, id)?.ok_or_else(missing)?;
        let outcome = MergeOutcome::read(&place, id)?.ok_or_else(missing)?;
        let merged = outcome.entries.iter();
        let merged = merged.filter(|entry| entry.result == EntryOutcome::Merged);
        let merged: BTreeSet<&TreePath> = merged.map(|entry| &entry.path).collect();
        let entries = journal.entries.into_iter().enumerate();
        let undoable =
            |entry: &Entry| merged.contains(&entry.path) && !git::is_object(entry.path.as_path());
        Ok(entries.filter(|(_, entry)| undoable(entry)).collect())
    }

    /// Lets `fill` put everything into a directory of the merge's own; nothing of it stays if that
    /// fails.
    fn prepared(
        &self,
        id: &str,
        tree: &Tree,
        moment: Moment<'_>,
        fill: impl FnOnce(&mut Preparation<'_>) -> Result<(), MergeError>,
    ) -> Result<(Vec<Entry>, Vec<EntryResult>), MergeError> {
        let place = self.open(id);
        for path in [place.clone(), place.join("new"), place.join("old")] {
            DirBuilder::new()
                .mode(0o700)
                .create(&path)
                .map_err(failed("make", &path))?;
        }
        moment("begun");
        let mut preparation = Preparation::new(&place, tree);
        if let Err(error) = fill(&mut preparation) {
            // What stays of it is taken away at the next merge.
            let _ = std::fs::remove_dir_all(&place);
            return Err(error);
        }
        Ok((preparation.entries, preparation.left))
    }

    fn begin(
        &self,
        id: &str,
        from: Origin,
        entries: Vec<Entry>,
        left: Vec<EntryResult>,
        created: Timestamp,
        moment: Moment<'_>,
    ) -> Result<MergeOutcome, MergeError> {
        let moves_refs = entries.iter().any(git::is_ref);
        let journal = Journal {
            format: FORMAT,
            id: id.to_owned(),
            root: TreePath::from(self.root.clone()),
            stage: from.stage,
            created,
            undo_of: from.undo_of,
            base: from.base,
            task: from.task,
            packed_refs: from.refs.packed_digest().filter(|_| moves_refs),
            head: from.refs.head_digest().filter(|_| moves_refs),
            entries,
            left,
        };
        let place = self.open(id);
        if let Err(error) = journal.write(&place) {
            let _ = std::fs::remove_dir_all(&place);
            return Err(error);
        }
        moment("journal");
        // From here on the tree may be changed: what fails now is not "nothing happened".
        let completed = self.carry(&journal, moment).and_then(|outcome| {
            self.finish(&journal, &outcome, moment)?;
            Ok(outcome)
        });
        completed.map_err(|source| {
            if matches!(source, MergeError::Untold { .. }) {
                return source;
            }
            MergeError::Unfinished {
                id: id.to_owned(),
                source: Box::new(source),
            }
        })
    }

    fn carry(&self, journal: &Journal, moment: Moment<'_>) -> Result<MergeOutcome, MergeError> {
        let place = self.open(&journal.id);
        let mut entries =
            carry_out(&place, journal, moment).map_err(failed("open", journal.root.as_path()))?;
        let [before, after] = digests(journal, &entries);
        entries.extend(journal.left.iter().cloned());
        Ok(MergeOutcome {
            id: journal.id.clone(),
            undo_of: journal.undo_of.clone(),
            before: Some(before),
            after: Some(after),
            entries,
        })
    }

    fn finish(
        &self,
        journal: &Journal,
        outcome: &MergeOutcome,
        moment: Moment<'_>,
    ) -> Result<(), MergeError> {
        let (place, done) = (self.open(&outcome.id), self.done(&outcome.id));
        outcome.write(&place)?;
        moment("result");
        self.telling.tell(journal, outcome)?;
        moment("told");
        std::fs::rename(&place, &done).map_err(failed("keep", &done))?;
        for name in ["open", "done"] {
            let below = self.place.join(name);
            sync_directory(&below).map_err(failed("sync", below))?;
        }
        Ok(())
    }

    fn recover_held(&self, moment: Moment<'_>) -> Result<Recovered, MergeError> {
        let mut recovered = Recovered::default();
        for id in self.names("open")? {
            let place = self.open(&id);
            let Some(journal) = Journal::read(&place, &id)? else {
                // The tree was not touched.
                std::fs::remove_dir_all(&place).map_err(failed("remove", &place))?;
                continue;
            };
            if journal.root.as_path() != self.root {
                return Err(MergeError::Damaged {
                    id,
                    why: "it is of another workspace".to_owned(),
                });
            }
            let outcome = match MergeOutcome::read(&place, &id)? {
                Some(outcome) => outcome,
                None => self.carry(&journal, moment)?,
            };
            match self.finish(&journal, &outcome, moment) {
                Ok(()) => recovered.ended.push((journal, outcome)),
                // The tree is as it is to be. It keeps nobody else from merging.
                Err(error @ MergeError::Untold { .. }) => recovered.untold = Some(error),
                Err(error) => return Err(error),
            }
        }
        Ok(recovered)
    }
}

/// The names of what an undo took back, unless that undo was taken back itself. Told by who names
/// whom and not by when: clocks go back.
fn taken_back(summaries: &[Summary]) -> BTreeSet<String> {
    let undos: BTreeMap<&str, &str> = summaries
        .iter()
        .filter(|one| one.merged > 0)
        .filter_map(|one| Some((one.id.as_str(), one.undo_of.as_deref()?)))
        .collect();
    // Whatever takes an undo back is one step further from the merge they are all about, and is
    // settled before it. Records that name each other in a circle are gone round once.
    let mut order: Vec<&str> = undos.keys().copied().collect();
    order.sort_by_cached_key(|id| {
        let way = std::iter::successors(Some(*id), |id| undos.get(id).copied());
        std::cmp::Reverse(way.take(undos.len() + 1).count())
    });
    let mut undone: BTreeSet<&str> = BTreeSet::new();
    for id in order {
        if !undone.contains(id) {
            undone.extend(undos.get(id).copied());
        }
    }
    undone.into_iter().map(str::to_owned).collect()
}

/// What stands for both sides of every path of `journal` that was merged.
fn digests(journal: &Journal, results: &[EntryResult]) -> [Digest; 2] {
    let mut sides = [String::new(), String::new()];
    let both = journal.entries.iter().zip(results);
    for (entry, _) in both.filter(|(_, one)| one.result == EntryOutcome::Merged) {
        for (side, node) in sides.iter_mut().zip([&entry.before, &entry.after]) {
            side.push_str(&serde_json::json!([entry.path, node]).to_string());
            side.push('\n');
        }
    }
    sides.map(|side| Digest::of(side.as_bytes()))
}

fn private(path: &Path) -> Result<(), MergeError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(failed("make", path))
}

//! Recognising that what went in one place came in another.
//!
//! A file or link counts as renamed if something of the same kind and content was deleted; a
//! directory if everything in it was renamed from one deleted directory. A deletion serves one
//! rename only. Among several the one with the most of the path in common, from its end, is taken.

use super::beneath::NodeKind;
use super::diff::{Change, ChangeKind, Content, Facts};
use super::path::TreePath;
use airlock_core::Digest;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// The most deletions with the same content that one addition is compared with.
const COMPARED: usize = 64;

/// Turns matching deletions and additions into renames.
pub(super) fn find_renames(changes: Vec<Change>) -> Vec<Change> {
    let mut changes = changes
        .into_iter()
        .map(|change| (change.path.clone(), change))
        .collect::<BTreeMap<_, _>>();
    let mut deleted: HashMap<Key, Vec<TreePath>> = HashMap::new();
    for change in changes.values() {
        if change.kind == ChangeKind::Deleted
            && let Some(key) = key(change.old.as_ref())
        {
            deleted.entry(key).or_default().push(change.path.clone());
        }
    }
    if deleted.is_empty() {
        return changes.into_values().collect();
    }
    let added = changes
        .values()
        .filter(|change| change.kind == ChangeKind::Added)
        .filter_map(|change| Some((change.path.clone(), key(change.new.as_ref())?)))
        .collect::<Vec<_>>();
    for (to, key) in added {
        if let Some(from) = deleted
            .get_mut(&key)
            .and_then(|paths| take(paths, &to, &key))
        {
            join(&mut changes, &from, &to);
        }
    }
    rename_directories(&mut changes);
    changes.into_values().collect()
}

/// What two entries must have in common.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    link: bool,
    empty: bool,
    digest: Digest,
}

fn key(facts: Option<&Facts>) -> Option<Key> {
    let facts = facts?;
    Some(Key {
        link: facts.kind == NodeKind::Symlink,
        empty: facts.kind == NodeKind::File && facts.size == 0,
        digest: facts.sha256?,
    })
}

/// Takes the likeliest origin out of `paths`.
fn take(paths: &mut Vec<TreePath>, to: &TreePath, key: &Key) -> Option<TreePath> {
    let (index, common) = paths
        .iter()
        .take(COMPARED)
        .enumerate()
        .map(|(index, path)| (index, common_end(path.as_path(), to.as_path())))
        .max_by_key(|&(index, common)| (common, std::cmp::Reverse(index)))?;
    // All empty files are alike: only the name makes one the same as another.
    if key.empty && common == 0 {
        return None;
    }
    Some(paths.remove(index))
}

fn common_end(a: &Path, b: &Path) -> usize {
    a.components()
        .rev()
        .zip(b.components().rev())
        .take_while(|(a, b)| a == b)
        .count()
}

fn join(changes: &mut BTreeMap<TreePath, Change>, from: &TreePath, to: &TreePath) {
    let old = changes.remove(from).and_then(|change| change.old);
    if let Some(change) = changes.get_mut(to) {
        change.kind = ChangeKind::Renamed { from: from.clone() };
        change.old = old;
        change.content = Content::None;
    }
}

/// Deepest first, so that a directory finds the directories in it renamed already.
fn rename_directories(changes: &mut BTreeMap<TreePath, Change>) {
    let mut inside: HashMap<TreePath, BTreeSet<TreePath>> = HashMap::new();
    for path in changes.keys() {
        if let Some(parent) = path.as_path().parent() {
            inside
                .entry(parent.into())
                .or_default()
                .insert(path.clone());
        }
    }
    let is = |change: &Change, kind: &ChangeKind, facts: &Option<Facts>| {
        change.kind == *kind
            && facts
                .as_ref()
                .is_some_and(|facts| facts.kind == NodeKind::Directory)
    };
    // What is still deleted in a directory keeps it from having been moved as a whole.
    let mut left: HashMap<TreePath, usize> = HashMap::new();
    for (path, change) in changes.iter() {
        if change.kind == ChangeKind::Deleted
            && let Some(parent) = path.as_path().parent()
        {
            *left.entry(parent.into()).or_default() += 1;
        }
    }
    let added = changes
        .values()
        .filter(|change| is(change, &ChangeKind::Added, &change.new))
        .map(|change| change.path.clone())
        .collect::<Vec<_>>();
    for to in added.iter().rev() {
        let Some(from) = inside.get(to).and_then(|paths| origin(changes, to, paths)) else {
            continue;
        };
        let whole = changes
            .get(&from)
            .is_some_and(|change| is(change, &ChangeKind::Deleted, &change.old))
            && left.get(&from).copied().unwrap_or(0) == 0;
        if whole {
            join(changes, &from, to);
            if let Some(parent) = from.as_path().parent()
                && let Some(count) = left.get_mut(&TreePath::from(parent))
            {
                *count = count.saturating_sub(1);
            }
        }
    }
}

/// The one directory that everything in `to` was renamed from, under its own name.
fn origin(
    changes: &BTreeMap<TreePath, Change>,
    to: &TreePath,
    inside: &BTreeSet<TreePath>,
) -> Option<TreePath> {
    let mut origin: Option<TreePath> = None;
    for path in inside {
        let ChangeKind::Renamed { from } = &changes.get(path)?.kind else {
            return None;
        };
        let parent = TreePath::from(from.as_path().parent()?);
        let same_name = from.as_path().file_name() == path.as_path().file_name();
        if !same_name || parent == *to || origin.as_ref().is_some_and(|known| *known != parent) {
            return None;
        }
        origin = Some(parent);
    }
    origin
}

//! Which changes of a stage are merged, and what stands for them as they were reviewed.

use crate::error::MergeError;
use airlock_core::Digest;
use airlock_sandbox::stage::{Change, ChangeKind, Content, Diff, Facts, Hunk, NodeKind, TreePath};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// What a person chose. The default is everything but what conflicts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// These paths, and what is beneath them; none: every path.
    pub paths: Option<Vec<TreePath>>,
    /// Whether the paths are meant alone: nothing beneath them comes with them.
    pub exactly: bool,
    /// Only these hunks, counted from zero, of these files.
    pub hunks: BTreeMap<TreePath, Vec<usize>>,
    /// Whether to merge over what was changed in the real tree after the stage began.
    pub overwrite: bool,
}

/// What is to be at a path, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Absent,
    /// The stage's file.
    Staged {
        mode: u32,
        sha256: Digest,
    },
    /// The real file with some hunks of the stage's.
    Hunks {
        mode: u32,
        hunks: Vec<Hunk>,
        chosen: Vec<usize>,
    },
    Symlink(TreePath),
    Directory(u32),
}

/// One path to be merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) path: TreePath,
    pub(crate) source: Source,
    /// What the real tree held when it was looked at.
    pub(crate) seen: Option<Facts>,
}

/// The paths a selection comes to, and the conflicts it leaves out.
#[derive(Debug, Default)]
pub(crate) struct Selected {
    pub(crate) targets: Vec<Target>,
    pub(crate) conflicts: Vec<TreePath>,
}

impl Selection {
    /// Every path that would be touched. What a decision is taken on.
    pub fn paths(&self, diff: &Diff) -> Result<Vec<TreePath>, MergeError> {
        let targets = self.select(diff)?.targets;
        Ok(targets.into_iter().map(|target| target.path).collect())
    }

    /// What stands for the changes of `diff` as whoever makes this choice has seen them. It is bound
    /// to when they are asked and held against what is there when it is merged.
    pub fn reviewed(&self, diff: &Diff) -> Digest {
        review_digest(diff, |path| self.hunks.contains_key(path))
    }

    pub(crate) fn select(&self, diff: &Diff) -> Result<Selected, MergeError> {
        self.check(diff)?;
        let mut wanted: BTreeSet<&TreePath> = BTreeSet::new();
        let mut left: BTreeSet<&TreePath> = BTreeSet::new();
        let conflicting = Conflicting::of(diff, self.overwrite);
        for change in &diff.changes {
            if !self.names(change) {
                continue;
            }
            match conflicting.conflict(change) {
                Some(path) => left.insert(path),
                None => wanted.insert(&change.path),
            };
        }
        // What stands where one of their directories would come stays, and so they do.
        for directory in directories_above(diff, &wanted) {
            if let Some(path) = conflicting.conflict(directory) {
                wanted.retain(|one| !within(one, &directory.path));
                left.insert(path);
            }
        }
        let above = directories_above(diff, &wanted);
        let above: BTreeSet<&TreePath> = above.iter().map(|change| &change.path).collect();
        let mut selected = Selected {
            conflicts: left.into_iter().cloned().collect(),
            ..Selected::default()
        };
        let mut targets: BTreeMap<TreePath, Target> = BTreeMap::new();
        for change in &diff.changes {
            let of_change = if wanted.contains(&change.path) {
                self.targets(change)?
            } else if above.contains(&change.path) {
                self.brought(change)?
            } else {
                continue;
            };
            for target in of_change {
                targets.insert(target.path.clone(), target);
            }
        }
        selected.targets = targets.into_values().collect();
        Ok(selected)
    }

    /// What is asked for must be there.
    fn check(&self, diff: &Diff) -> Result<(), MergeError> {
        let mut named = self.paths.iter().flatten();
        let missing = named.find(|path| !diff.changes.iter().any(|one| self.means(path, one)));
        // Hunks are of the very file: nothing beneath a directory has its numbers.
        let mut parted = self.hunks.keys();
        let missing = missing
            .or_else(|| parted.find(|path| !diff.changes.iter().any(|one| one.path == **path)));
        match missing {
            Some(path) => Err(MergeError::NotChanged(path.clone())),
            None => Ok(()),
        }
    }

    /// Whether whoever names `path` names `change`.
    fn means(&self, path: &TreePath, change: &Change) -> bool {
        if self.exactly {
            return change.path == *path;
        }
        within(&change.path, path) || origin(change).is_some_and(|from| within(from, path))
    }

    fn names(&self, change: &Change) -> bool {
        if self.hunks.contains_key(&change.path) {
            return true;
        }
        match &self.paths {
            Some(paths) => paths.iter().any(|path| self.means(path, change)),
            None => self.hunks.is_empty(),
        }
    }

    /// What comes of a directory that was not chosen itself, for the sake of what is in it. Where
    /// each path has its own answer, nothing goes for that: not the file in its place, and not the
    /// directory it was moved from.
    fn brought(&self, change: &Change) -> Result<Vec<Target>, MergeError> {
        let mut targets = self.targets(change)?;
        if self.exactly {
            targets.retain(|target| target.seen.is_none());
        }
        Ok(targets)
    }

    fn targets(&self, change: &Change) -> Result<Vec<Target>, MergeError> {
        let mut targets = Vec::with_capacity(2);
        let seen = match &change.kind {
            ChangeKind::Renamed { from } => {
                targets.push(Target {
                    path: from.clone(),
                    source: Source::Absent,
                    seen: change.old.clone(),
                });
                None
            }
            ChangeKind::Added
            | ChangeKind::Modified
            | ChangeKind::Deleted
            | ChangeKind::ModeChanged
            | ChangeKind::TypeChanged => change.old.clone(),
        };
        targets.push(Target {
            path: change.path.clone(),
            source: self.source(change)?,
            seen,
        });
        Ok(targets)
    }

    fn source(&self, change: &Change) -> Result<Source, MergeError> {
        // First of all: who names hunks of what has none must not get the whole of it.
        if let Some(chosen) = self.hunks.get(&change.path) {
            return hunks_of(change, chosen);
        }
        let Some(new) = &change.new else {
            return Ok(Source::Absent);
        };
        let mode = new.mode & 0o777;
        let refused = |why| MergeError::Unmergeable {
            path: change.path.clone(),
            why,
        };
        match (new.kind, &new.target) {
            (NodeKind::File, _) => {
                // INVARIANT: what has no digest was not read, and nobody was bound to what it holds.
                let sha256 = new.sha256.ok_or_else(|| MergeError::Unread {
                    path: change.path.clone(),
                })?;
                Ok(Source::Staged { mode, sha256 })
            }
            (NodeKind::Symlink, Some(target)) => Ok(Source::Symlink(target.clone())),
            (NodeKind::Directory, _) => Ok(Source::Directory(mode)),
            (NodeKind::Symlink | NodeKind::Fifo | NodeKind::Socket | NodeKind::Device, _) => {
                Err(refused("it is no file, link or directory"))
            }
        }
    }
}

/// Chosen hunks bring lines and nothing else: whoever said yes to them said nothing of the mode.
fn hunks_of(change: &Change, chosen: &[usize]) -> Result<Source, MergeError> {
    let none = |hunk: usize| MergeError::NoHunk {
        path: change.path.clone(),
        hunk: hunk + 1,
    };
    let first = chosen.first().copied().unwrap_or_default();
    let (Content::Text { hunks }, ChangeKind::Modified) = (&change.content, &change.kind) else {
        return Err(none(first));
    };
    if let Some(hunk) = chosen.iter().find(|hunk| **hunk >= hunks.len()) {
        return Err(none(*hunk));
    }
    let kept = change.old.as_ref().ok_or_else(|| none(first))?;
    Ok(Source::Hunks {
        mode: kept.mode & 0o777,
        hunks: hunks.clone(),
        chosen: chosen.to_vec(),
    })
}

/// What was changed in the real tree after the stage began; nothing that counts where it is to be
/// merged over.
struct Conflicting<'a>(BTreeSet<&'a TreePath>);

impl<'a> Conflicting<'a> {
    fn of(diff: &'a Diff, overwrite: bool) -> Self {
        let conflicts = diff.conflicts.iter().filter(|_| !overwrite);
        Self(conflicts.map(|one| &one.path).collect())
    }

    /// What of `change` conflicts: its path, or the one it had.
    fn conflict(&self, change: &'a Change) -> Option<&'a TreePath> {
        let paths = [Some(&change.path), origin(change)];
        let mut paths = paths.into_iter().flatten();
        paths.find(|path| self.0.contains(path))
    }
}

/// Where a renamed change was.
fn origin(change: &Change) -> Option<&TreePath> {
    match &change.kind {
        ChangeKind::Renamed { from } => Some(from),
        ChangeKind::Added
        | ChangeKind::Modified
        | ChangeKind::Deleted
        | ChangeKind::ModeChanged
        | ChangeKind::TypeChanged => None,
    }
}

fn within(path: &TreePath, directory: &TreePath) -> bool {
    path.as_path().starts_with(directory.as_path())
}

/// The directories that come with what is `wanted`: a file cannot come before the one it is in.
fn directories_above<'a>(diff: &'a Diff, wanted: &BTreeSet<&'a TreePath>) -> Vec<&'a Change> {
    let directories: BTreeMap<&Path, &Change> = diff
        .changes
        .iter()
        .filter(|change| {
            let new = change.new.as_ref();
            new.is_some_and(|new| new.kind == NodeKind::Directory)
                && matches!(
                    change.kind,
                    ChangeKind::Added | ChangeKind::TypeChanged | ChangeKind::Renamed { .. }
                )
        })
        .map(|change| (change.path.as_path(), change))
        .collect();
    let above = wanted
        .iter()
        .flat_map(|path| path.as_path().ancestors().skip(1));
    let above: BTreeSet<&Path> = above.collect();
    let above = above.into_iter();
    above
        .filter_map(|path| directories.get(path).copied())
        .collect()
}

/// What a review was of: the same digest, the same changes, from the same to the same.
///
/// Of a file that `is_in_hunks` it covers every hunk as well: how one content is cut into them depends
/// on how long was searched, and whoever chose some of them by number chose lines.
pub fn review_digest(diff: &Diff, is_in_hunks: impl Fn(&TreePath) -> bool) -> Digest {
    let mut text = String::new();
    for change in &diff.changes {
        let hunks = is_in_hunks(&change.path).then_some(&change.content);
        let line = serde_json::json!([change.path, change.kind, change.old, change.new, hunks]);
        text.push_str(&line.to_string());
        text.push('\n');
    }
    Digest::of(text.as_bytes())
}

/// The path that `text` names, however it is spelt: `a//b`, `./a/b` and `a/b/` are `a/b`. None if it
/// names nothing.
pub fn named_path(text: &str) -> Option<TreePath> {
    let parts = Path::new(text).components();
    let path: PathBuf = parts.filter(|part| *part != Component::CurDir).collect();
    (!path.as_os_str().is_empty()).then(|| TreePath::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_the_same_however_it_is_spelt() {
        for text in ["a/b", "a//b", "./a/b", "a/./b", "a/b/", ".//a/b//"] {
            assert_eq!(named_path(text), Some(Path::new("a/b").into()), "{text}");
        }
        // What leads elsewhere stays what it is, and is no change of a stage.
        for text in ["/a/b", "../a/b", "a/../b"] {
            assert_eq!(named_path(text), Some(Path::new(text).into()), "{text}");
        }
        for text in ["", ".", "./", ".//."] {
            assert_eq!(named_path(text), None, "{text}");
        }
    }
}

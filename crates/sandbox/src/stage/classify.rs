//! From pairs of what was and what is to changes, refusals and conflicts.

use super::beneath::{Node, NodeKind};
use super::content::{Reader, Side};
use super::copy::Manifest;
use super::diff::{
    Change, ChangeKind, Conflict, ConflictReason, Content, Diff, DiffOptions, RefusedReason,
};
use super::error::{StageError, failed};
use super::footing::Footing;
use super::path::TreePath;
use super::record::{BaseMarker, StageKind};
use super::rename::find_renames;
use super::staged::Stage;
use super::walk::{Pair, Walk};
use rustix::io::Errno;
use std::collections::HashSet;
use std::path::Path;

const SET_ID: u32 = 0o6000;
const PERMISSIONS: u32 = 0o777;

/// How to tell what happened in the real tree since the stage began.
enum Base {
    Marker(BaseMarker),
    Manifest(Manifest),
    /// Nothing can be told.
    Unknown,
}

/// What a stage changed.
pub(super) fn diff(stage: &Stage, options: &DiffOptions) -> Result<Diff, StageError> {
    let lower = stage.real_tree()?;
    let upper = stage.changed_tree()?;
    let mut walk = Walk::new(&lower, &upper, options.max_entries);
    let base = Base::of(stage)?;
    match &base {
        Base::Manifest(manifest) => walk.copy(manifest, &stage.placeholders()?)?,
        Base::Marker(_) | Base::Unknown => walk.overlay(stage.marks())?,
    }
    let pairs = std::mem::take(&mut walk.pairs);
    let footing = Footing::read(stage);
    let moved = pairs
        .iter()
        .filter(|pair| base.directory_moved(pair, &footing))
        .map(|pair| pair.path.clone())
        .collect();
    let mut found = Found {
        walk,
        base,
        moved,
        reader: Reader::new(options),
        changes: Vec::new(),
        conflicts: Vec::new(),
        stripped: Vec::new(),
    };
    for pair in pairs {
        found.pair(&pair)?;
    }
    let mut diff = Diff {
        kind: stage.kind(),
        changes: find_renames(found.changes),
        refused: found.walk.refused,
        conflicts: found.conflicts,
        stripped: found.stripped,
        suspect: stage.is_suspect(),
        cut_off: stage.was_cut_off(),
        visited: found.walk.visited,
    };
    diff.suspect &= !diff.is_empty();
    diff.cut_off &= !diff.is_empty();
    forgive_renamed(&mut diff);
    diff.changes.sort_by(|a, b| a.path.cmp(&b.path));
    diff.refused.sort_by(|a, b| a.path.cmp(&b.path));
    diff.conflicts.sort_by(|a, b| a.path.cmp(&b.path));
    diff.stripped.sort();
    Ok(diff)
}

/// Whether what the real tree has at `path` came there, went or was changed after `stage` began.
pub(super) fn is_newer(stage: &Stage, path: &Path) -> Result<bool, StageError> {
    let old = stage.real_tree()?.node(path);
    let pair = Pair {
        path: TreePath::from(path),
        old: old.map_err(failed("look at", path))?,
        new: None,
        copied: None,
    };
    Ok(Base::of(stage)?.judge(&pair).is_some())
}

/// What was moved here was copied from where it was; nothing that was here has gone.
fn forgive_renamed(diff: &mut Diff) {
    let renamed = diff
        .changes
        .iter()
        .filter(|change| matches!(change.kind, ChangeKind::Renamed { .. }))
        .map(|change| &change.path)
        .collect::<HashSet<_>>();
    diff.conflicts.retain(|conflict| {
        conflict.reason != ConflictReason::Vanished || !renamed.contains(&conflict.path)
    });
}

struct Found<'a> {
    walk: Walk<'a>,
    base: Base,
    /// Directories that took another's place in the real tree.
    moved: HashSet<TreePath>,
    reader: Reader<'a>,
    changes: Vec<Change>,
    conflicts: Vec<Conflict>,
    stripped: Vec<TreePath>,
}

impl Found<'_> {
    fn pair(&mut self, pair: &Pair) -> Result<(), StageError> {
        if let (Some(old), Some(new)) = (pair.old, pair.new)
            && old.kind == new.kind
            && !matches!(new.kind, NodeKind::File | NodeKind::Symlink)
            && old.mode & PERMISSIONS == new.mode & PERMISSIONS
        {
            self.strip(pair, Some(old), new);
            return Ok(());
        }
        if let Some(reason) = pair.new.and_then(|new| refusal(new.kind)) {
            self.walk.refuse(&pair.path, reason);
            return Ok(());
        }
        match self.read(pair) {
            Ok(Some((old, new))) => self.change(pair, old, new),
            Ok(None) => {}
            Err(errno) => return self.unread(pair, errno),
        }
        Ok(())
    }

    fn read(&mut self, pair: &Pair) -> Result<Option<(Side, Side)>, Errno> {
        let old = match pair.old {
            Some(node) => self.reader.side(self.walk.lower, &pair.path, node)?,
            None => Side::default(),
        };
        let new = match pair.new {
            Some(node) => self.reader.side(self.walk.upper, &pair.path, node)?,
            None => Side::default(),
        };
        Ok((old.facts.is_some() || new.facts.is_some()).then_some((old, new)))
    }

    fn unread(&mut self, pair: &Pair, errno: Errno) -> Result<(), StageError> {
        match errno {
            Errno::ACCESS | Errno::PERM | Errno::XDEV | Errno::NAMETOOLONG => {
                self.walk.refuse_unless_broken(&pair.path, errno)
            }
            // Swapped or removed while we looked: by the sandbox, or in the real tree.
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::INVAL | Errno::NXIO => {
                self.walk.refuse(&pair.path, RefusedReason::Unreadable);
                Ok(())
            }
            errno => Err(failed("read", pair.path.as_path())(errno)),
        }
    }

    fn change(&mut self, pair: &Pair, mut old: Side, mut new: Side) {
        let Some(kind) = kind_of(pair, &old, &new) else {
            return;
        };
        if let Some(node) = pair.new {
            if node.kind == NodeKind::File && node.mode & SET_ID != 0 {
                self.walk.refuse(&pair.path, RefusedReason::SetId);
                return;
            }
            self.strip(pair, pair.old, node);
            if let Some(facts) = &mut new.facts {
                facts.mode &= PERMISSIONS;
            }
        }
        let content = match kind {
            ChangeKind::ModeChanged => Content::None,
            ChangeKind::TypeChanged => Content::Replaced {
                old: Box::new(self.reader.content(&old, &Side::default())),
                new: Box::new(self.reader.content(&Side::default(), &new)),
            },
            ChangeKind::Added
            | ChangeKind::Modified
            | ChangeKind::Deleted
            | ChangeKind::Renamed { .. } => self.reader.content(&old, &new),
        };
        if let Some(reason) = self.base.judge(pair).or_else(|| self.judge_above(pair)) {
            self.conflicts.push(Conflict {
                path: pair.path.clone(),
                reason,
            });
        }
        self.changes.push(Change {
            path: pair.path.clone(),
            kind,
            old: old.facts.take(),
            new: new.facts.take(),
            content,
            hard_linked: pair
                .new
                .is_some_and(|node| node.kind == NodeKind::File && node.links > 1),
        });
    }

    /// A directory moved into another's place brings files that bear no mark of it.
    fn judge_above(&self, pair: &Pair) -> Option<ConflictReason> {
        let mut above = pair.path.as_path().ancestors().skip(1);
        let moved = !self.moved.is_empty()
            && pair.old.is_some()
            && above.any(|above| self.moved.contains(&TreePath::from(above)));
        moved.then_some(ConflictReason::Changed)
    }

    /// Notes special bits that the real tree does not have; a change is always without them.
    fn strip(&mut self, pair: &Pair, old: Option<Node>, new: Node) {
        let had = old
            .filter(|old| old.kind == new.kind)
            .map_or(0, |old| old.mode);
        let special = new.mode & !PERMISSIONS & !had;
        if special != 0 && new.kind != NodeKind::Symlink {
            self.stripped.push(pair.path.clone());
        }
    }
}

const fn refusal(kind: NodeKind) -> Option<RefusedReason> {
    match kind {
        NodeKind::Fifo => Some(RefusedReason::Fifo),
        NodeKind::Socket => Some(RefusedReason::Socket),
        NodeKind::Device => Some(RefusedReason::Device),
        NodeKind::File | NodeKind::Directory | NodeKind::Symlink => None,
    }
}

/// How the two sides differ, if they do.
fn kind_of(pair: &Pair, old_side: &Side, new_side: &Side) -> Option<ChangeKind> {
    let (old, new) = match (pair.old, pair.new) {
        (None, None) => return None,
        (None, Some(_)) => return Some(ChangeKind::Added),
        (Some(_), None) => return Some(ChangeKind::Deleted),
        (Some(old), Some(new)) => (old, new),
    };
    if old.kind != new.kind {
        return Some(ChangeKind::TypeChanged);
    }
    let has_content = matches!(new.kind, NodeKind::File | NodeKind::Symlink);
    // What was too long to be read is taken as changed: it was written to, and nobody knows what.
    let same = old_side.digest().is_some() && old_side.digest() == new_side.digest();
    if has_content && !same {
        return Some(ChangeKind::Modified);
    }
    let mode_counts = new.kind != NodeKind::Symlink;
    // Special bits that went count as little as those that came; but what has new ones is looked at.
    let special = match new.kind {
        NodeKind::File => new.mode & SET_ID,
        NodeKind::Directory
        | NodeKind::Symlink
        | NodeKind::Fifo
        | NodeKind::Socket
        | NodeKind::Device => 0,
    };
    let compared = PERMISSIONS | special;
    (mode_counts && (old.mode ^ new.mode) & compared != 0).then_some(ChangeKind::ModeChanged)
}

impl Base {
    fn of(stage: &Stage) -> Result<Self, StageError> {
        match stage.kind() {
            StageKind::Copy => Manifest::read(stage).map(Self::Manifest),
            StageKind::Overlay => Ok(stage.marker().map_or(Self::Unknown, Self::Marker)),
        }
    }

    fn judge(&self, pair: &Pair) -> Option<ConflictReason> {
        match self {
            Self::Unknown => Some(ConflictReason::ClockWentBack),
            Self::Manifest(manifest) => manifest.judge(pair),
            Self::Marker(marker) => judge_by_marker(*marker, pair),
        }
    }

    /// Whether a directory of the real tree is not the one that was there when the stage began.
    fn directory_moved(&self, pair: &Pair, footing: &Footing) -> bool {
        let Some(old) = pair.old.filter(|old| old.kind == NodeKind::Directory) else {
            return false;
        };
        match self {
            Self::Unknown => false,
            Self::Manifest(manifest) => manifest.directory_moved(&pair.path, old),
            // Being moved changes the one stamp only, entries coming and going both: an entry that
            // comes after the move hides it, unless another was noted. What was not changed at all
            // was not moved, though some file systems number their files anew.
            Self::Marker(marker) => {
                let moved = || old.changed != old.modified || footing.was_other(&pair.path, old);
                old.born.is_some_and(|born| marker.before(born))
                    || (marker.before(old.changed) && moved())
            }
        }
    }
}

fn judge_by_marker(marker: BaseMarker, pair: &Pair) -> Option<ConflictReason> {
    let Some(old) = pair.old else {
        // Copied from here or moved here: nothing went from here as long as nothing went at all.
        return pair
            .copied
            .filter(|&stamp| marker.before(stamp))
            .map(|_| ConflictReason::Vanished);
    };
    if old.born.is_some_and(|born| marker.before(born)) {
        return Some(ConflictReason::Appeared);
    }
    // What is put into a directory stamps it too; in a deleted one each entry is judged itself.
    let judged_by_entries =
        old.kind == NodeKind::Directory && old.born.is_some() && pair.new.is_none();
    (!judged_by_entries && marker.before(old.changed)).then_some(ConflictReason::Changed)
}

//! Finding what may have changed, without reading content: the upper layer of an overlay is walked
//! and compared with the lower, which is looked up only where the upper has something.

use super::beneath::{Node, NodeKind, Stamp, Tree, is_too_long};
use super::diff::{Refused, RefusedReason};
use super::error::{StageError, failed};
use super::footing::Identity;
use super::path::TreePath;
use super::record::Marks;
use super::touched::{OPENED, Touched, touched_by};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::OsString;

/// One path on both sides. Either may be absent, and they may turn out to be the same.
#[derive(Debug, Clone)]
pub(super) struct Pair {
    pub(super) path: TreePath,
    pub(super) old: Option<Node>,
    pub(super) new: Option<Node>,
    /// There is no old side, though the new one was once copied from one, here or elsewhere: when
    /// something last came to or went from the nearest directory above that is still there.
    pub(super) copied: Option<Stamp>,
}

/// The walk so far.
pub(super) struct Walk<'a> {
    pub(super) lower: &'a Tree,
    pub(super) upper: &'a Tree,
    most: u64,
    pub(super) pairs: Vec<Pair>,
    pub(super) refused: Vec<Refused>,
    /// What was looked at, in both trees.
    pub(super) visited: u64,
    /// Paths that were found, of which there may be `most`.
    found: u64,
    /// Where only that is wanted, what is touched: far less than pairs. Directories that keep their
    /// owner out are then opened to them first.
    touched: Option<Vec<Touched>>,
    /// The real tree's directories at what is touched, where that is wanted.
    pub(super) footing: Vec<(TreePath, Identity)>,
    /// Mode bits of a real directory that the stage has of it when it is not changed.
    pub(super) kept_bits: u32,
}

/// What of the lower layer is seen in a directory of the upper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Below {
    /// The lower directory of the same path, merged.
    Merged,
    /// Nothing, though there is one: all of it counts as deleted.
    Hidden,
    /// There is none.
    Absent,
}

struct Frame {
    path: TreePath,
    below: Below,
    /// Whiteouts here may be attributes of empty files.
    attribute_whiteouts: bool,
}

/// The names of overlay's marks, of one kind.
pub(super) struct MarkNames {
    pub(super) opaque: &'static str,
    redirect: &'static str,
    metacopy: &'static str,
    whiteout: &'static str,
    pub(super) origin: &'static str,
}

const TRUSTED: MarkNames = MarkNames {
    opaque: "trusted.overlay.opaque",
    redirect: "trusted.overlay.redirect",
    metacopy: "trusted.overlay.metacopy",
    whiteout: "trusted.overlay.whiteout",
    origin: "trusted.overlay.origin",
};

const USER: MarkNames = MarkNames {
    opaque: "user.overlay.opaque",
    redirect: "user.overlay.redirect",
    metacopy: "user.overlay.metacopy",
    whiteout: "user.overlay.whiteout",
    origin: "user.overlay.origin",
};

impl MarkNames {
    pub(super) const fn of(marks: Marks) -> &'static Self {
        match marks {
            Marks::Trusted => &TRUSTED,
            Marks::User => &USER,
        }
    }
}

impl<'a> Walk<'a> {
    pub(super) const fn new(lower: &'a Tree, upper: &'a Tree, most: u64) -> Self {
        Self {
            lower,
            upper,
            most,
            pairs: Vec::new(),
            refused: Vec::new(),
            visited: 0,
            found: 0,
            touched: None,
            footing: Vec::new(),
            kept_bits: 0o7777,
        }
    }

    /// The same walk for a check, which no directory of the upper layer can keep out: what cannot be
    /// looked at cannot be judged. Nobody else may use the layer meanwhile.
    pub(super) fn opening(self) -> Self {
        Self {
            touched: Some(Vec::new()),
            ..self
        }
    }

    /// What was found to be touched by a walk for a check.
    pub(super) fn into_touched(self) -> (Vec<Touched>, Vec<Refused>) {
        (self.touched.unwrap_or_default(), self.refused)
    }

    pub(super) fn add(&mut self, pair: Pair) {
        match &mut self.touched {
            Some(touched) => {
                touched.extend(touched_by(&pair, self.kept_bits));
                if let Some(old) = pair.old.filter(|old| old.kind == NodeKind::Directory) {
                    self.footing.push((pair.path, old.into()));
                }
            }
            None => self.pairs.push(pair),
        }
    }

    /// Walks the upper layer of an overlay.
    pub(super) fn overlay(&mut self, marks: Marks) -> Result<(), StageError> {
        let marks = MarkNames::of(marks);
        let mut pending = Vec::new();
        self.enter(TreePath::default(), Below::Merged, marks, &mut pending)?;
        while let Some(frame) = pending.pop() {
            let names = match self.upper.names(frame.path.as_path()) {
                Ok(names) => names,
                // A running sandbox may have removed it since.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(errno) => {
                    self.refuse_unless_broken(&frame.path, errno)?;
                    continue;
                }
            };
            if frame.below == Below::Hidden {
                self.hidden(&frame.path, &names)?;
            }
            for name in names {
                self.entry(&frame, frame.path.join(&name), marks, &mut pending)?;
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        frame: &Frame,
        path: TreePath,
        marks: &MarkNames,
        pending: &mut Vec<Frame>,
    ) -> Result<(), StageError> {
        self.visited += 1;
        if is_too_long(path.as_path()) {
            self.refuse(&path, RefusedReason::PathTooLong);
            return self.count();
        }
        let new = match self.upper.node(path.as_path()) {
            Ok(Some(node)) => node,
            Ok(None) => return Ok(()),
            Err(errno) => {
                self.refuse_unless_broken(&path, errno)?;
                return self.count();
            }
        };
        if new.whiteout || (frame.attribute_whiteouts && self.is_whiteout(&path, new, marks)?) {
            if frame.below != Below::Absent {
                self.deleted(&path)?;
            }
            return Ok(());
        }
        self.count()?;
        let old = match frame.below {
            Below::Absent => None,
            Below::Merged | Below::Hidden => match self.look_below(&path)? {
                Looked::Found(old) => old,
                Looked::Refused => return Ok(()),
            },
        };
        if new.kind == NodeKind::File {
            self.expect_unset(&path, marks.metacopy)?;
        }
        // What is there on both sides needs no mark to say where it came from.
        let copied = if old.is_none() && self.mark(&path, marks.origin)?.is_some() {
            self.stamp_above(&path)?
        } else {
            None
        };
        self.add(Pair {
            path: path.clone(),
            old,
            new: Some(new),
            copied,
        });
        self.open_up(&path, new)?;
        let old_directory = old.is_some_and(|old| old.kind == NodeKind::Directory);
        match (new.kind == NodeKind::Directory, old_directory) {
            (true, true) => self.enter(path, frame.below, marks, pending),
            (true, false) => self.enter(path, Below::Absent, marks, pending),
            (false, true) => self.hidden(&path, &[]),
            (false, false) => Ok(()),
        }
    }

    /// Notes a directory of the upper layer to be walked.
    fn enter(
        &mut self,
        path: TreePath,
        around: Below,
        marks: &MarkNames,
        pending: &mut Vec<Frame>,
    ) -> Result<(), StageError> {
        self.expect_unset(&path, marks.redirect)?;
        let opaque = self.mark(&path, marks.opaque)?;
        let below = match (around, opaque.as_deref()) {
            (Below::Merged, Some(b"y")) => Below::Hidden,
            (around, _) => around,
        };
        pending.push(Frame {
            path,
            below,
            attribute_whiteouts: opaque.as_deref() == Some(b"x"),
        });
        Ok(())
    }

    /// Opens a directory to its owner, on a walk for a check.
    pub(super) fn open_up(&self, path: &TreePath, node: Node) -> Result<(), StageError> {
        let open = node.kind != NodeKind::Directory || node.mode & OPENED == OPENED;
        if self.touched.is_none() || open {
            return Ok(());
        }
        let opened = self.upper.set_mode(path.as_path(), node.mode | OPENED);
        opened.map_err(failed("open", path.as_path()))
    }

    fn is_whiteout(
        &self,
        path: &TreePath,
        node: Node,
        marks: &MarkNames,
    ) -> Result<bool, StageError> {
        Ok(node.kind == NodeKind::File
            && node.size == 0
            && self.mark(path, marks.whiteout)?.is_some())
    }

    /// Takes every entry of a lower directory that is not among `names` as deleted.
    fn hidden(&mut self, path: &TreePath, names: &[OsString]) -> Result<(), StageError> {
        let kept = names.iter().collect::<BTreeSet<_>>();
        let below = match self.lower.names(path.as_path()) {
            Ok(below) => below,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(errno) => return self.refuse_unless_broken(path, errno),
        };
        for name in below.iter().filter(|name| !kept.contains(name)) {
            self.deleted(&path.join(name))?;
        }
        Ok(())
    }

    /// Takes an entry of the lower tree, and what is in it, as deleted.
    pub(super) fn deleted(&mut self, path: &TreePath) -> Result<(), StageError> {
        let mut pending = vec![path.clone()];
        while let Some(path) = pending.pop() {
            self.count()?;
            let Looked::Found(Some(old)) = self.look_below(&path)? else {
                continue;
            };
            if old.kind == NodeKind::Directory {
                match self.lower.names(path.as_path()) {
                    Ok(names) => pending.extend(names.iter().map(|name| path.join(name))),
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                    Err(errno) => {
                        self.refuse_unless_broken(&path, errno)?;
                        continue;
                    }
                }
            }
            self.add(Pair {
                path,
                old: Some(old),
                new: None,
                copied: None,
            });
        }
        Ok(())
    }

    pub(super) fn look_below(&mut self, path: &TreePath) -> Result<Looked, StageError> {
        self.visited += 1;
        if is_too_long(path.as_path()) {
            self.refuse(path, RefusedReason::PathTooLong);
            return Ok(Looked::Refused);
        }
        match self.lower.node(path.as_path()) {
            // A whiteout in the real tree itself is as good as nothing to an overlay on it.
            Ok(node) => Ok(Looked::Found(node.filter(|node| !node.whiteout))),
            Err(errno) => {
                self.refuse_unless_broken(path, errno)?;
                Ok(Looked::Refused)
            }
        }
    }

    fn stamp_above(&mut self, path: &TreePath) -> Result<Option<Stamp>, StageError> {
        for above in path.as_path().ancestors().skip(1) {
            if let Looked::Found(Some(node)) = self.look_below(&above.into())? {
                return Ok(Some(node.changed));
            }
        }
        Ok(None)
    }

    /// Counts a path, however often it is looked up.
    pub(super) fn count(&mut self) -> Result<(), StageError> {
        self.found += 1;
        if self.found > self.most {
            return Err(StageError::TooManyChanges { most: self.most });
        }
        Ok(())
    }

    fn mark(&self, path: &TreePath, name: &str) -> Result<Option<Vec<u8>>, StageError> {
        match self.upper.attribute(path.as_path(), name) {
            // What may not be read has no content we could take for something else either.
            Err(Errno::ACCESS | Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            found => found.map_err(failed("read", path.as_path())),
        }
    }

    fn expect_unset(&self, path: &TreePath, mark: &'static str) -> Result<(), StageError> {
        match self.mark(path, mark)? {
            None => Ok(()),
            Some(_) => Err(StageError::ForeignMark {
                path: path.clone(),
                mark,
            }),
        }
    }

    pub(super) fn refuse(&mut self, path: &TreePath, reason: RefusedReason) {
        self.refused.push(Refused {
            path: path.clone(),
            reason,
        });
    }

    /// Refuses what cannot be looked at for a reason that lies in the entry itself.
    pub(super) fn refuse_unless_broken(
        &mut self,
        path: &TreePath,
        errno: Errno,
    ) -> Result<(), StageError> {
        let reason = match errno {
            Errno::ACCESS | Errno::PERM => RefusedReason::Unreadable,
            Errno::XDEV => RefusedReason::Mounted,
            Errno::NAMETOOLONG => RefusedReason::PathTooLong,
            errno => return Err(failed("read", path.as_path())(errno)),
        };
        self.refuse(path, reason);
        Ok(())
    }
}

pub(super) enum Looked {
    Found(Option<Node>),
    Refused,
}

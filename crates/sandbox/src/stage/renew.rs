//! Putting paths of a copy back: to what was kept of them, or to what the real tree has.
//!
//! What comes back from the real tree is of it as it is now, and noted in the manifest as copied
//! now. A copy has no marks: what was deleted is simply not there.

use super::aside::Aside;
use super::beneath::{Node, NodeKind, node_of};
use super::copy::Manifest;
use super::error::StageError;
use super::path::TreePath;
use super::restore::Content;
use super::reveal::{Layered, Upper};
use super::staged::Stage;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

impl Stage {
    /// As [`Stage::put_back`], for a copy.
    pub(super) fn put_back_copied(
        &self,
        paths: &BTreeSet<TreePath>,
        unseen: &BTreeSet<TreePath>,
        aside: &Aside,
    ) -> Result<Vec<TreePath>, StageError> {
        let (lower, upper) = (self.real_tree()?, self.changed_tree()?);
        let layered = self.layered(&lower, &upper)?;
        let mut manifest = Manifest::read(self)?;
        let mut gone = Vec::new();
        let mut again = Vec::new();
        // A directory comes back before what is in it.
        for path in paths {
            if let Some(was) = aside.entries.get(path) {
                gone.extend(layered.in_the_way(path.as_path())?);
                layered.restore(path.as_path(), was, aside)?;
            } else if manifest.holds(path) && !unseen.contains(path) {
                gone.extend(layered.in_the_way(path.as_path())?);
                again.extend(layered.renew(path)?);
            } else if unseen.contains(path) || layered.kind(path.as_path())? != Upper::Directory {
                layered.remove(path.as_path())?;
            }
        }
        // A directory goes after what was in it.
        for path in paths.iter().rev() {
            let made = layered.kind(path.as_path())? == Upper::Directory;
            if made && !aside.entries.contains_key(path) && !manifest.holds(path) {
                layered.remove_empty(path.as_path())?;
            }
        }
        manifest.renew(self, &upper, again)?;
        gone.retain(|path| !paths.contains(path));
        Ok(gone)
    }
}

impl Layered<'_> {
    /// What stands in the place of a directory above `path`.
    fn in_the_way(&self, path: &Path) -> Result<Option<TreePath>, StageError> {
        let mut above = PathBuf::new();
        for component in path.parent().unwrap_or(Path::new("")) {
            above.push(component);
            match self.kind(&above)? {
                Upper::Directory => {}
                Upper::Absent => return Ok(None),
                Upper::Whiteout | Upper::Other => return Ok(Some(above.as_path().into())),
            }
        }
        Ok(None)
    }

    /// Copies again what the real tree has at `path`, without what is in it; gives what it is to be
    /// noted as. What the real tree does not have, or what is never copied, is not there then.
    pub(super) fn renew(&self, path: &TreePath) -> Result<Option<(TreePath, Node)>, StageError> {
        let place = path.as_path();
        let fail = || self.fail("restore", place);
        let Some(real) = self.below(place)? else {
            self.remove(place)?;
            return Ok(None);
        };
        if real.kind == NodeKind::Directory && self.kind(place)? == Upper::Directory {
            let set = self.upper.set_mode(place, self.mode_of(real));
            set.map_err(fail())?;
            return Ok(Some((path.clone(), real)));
        }
        self.remove(place)?;
        let real = match real.kind {
            NodeKind::Directory => {
                self.make_above(place)?;
                self.make_directory(place, self.mode_of(real))?;
                real
            }
            NodeKind::Symlink => {
                self.make_above(place)?;
                let target = self.lower.target(place).map_err(fail())?;
                self.within(place, |parent, name| {
                    rustix::fs::symlinkat(target.as_path(), parent, name)?;
                    self.own(parent, name)
                })
                .map_err(fail())?;
                real
            }
            NodeKind::File => {
                self.make_above(place)?;
                let from = self.lower.file(place).map_err(fail())?;
                // Taken before it is read: a change while it is copied is a change after.
                let real = node_of(&from).map_err(fail())?;
                let content = Content {
                    from,
                    mode: self.mode_of(real),
                    size: real.size,
                    modified: Some(real.modified),
                };
                self.place_file(place, &content)?;
                real
            }
            NodeKind::Fifo | NodeKind::Socket | NodeKind::Device => return Ok(None),
        };
        Ok(Some((path.clone(), real)))
    }
}

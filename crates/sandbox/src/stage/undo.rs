//! Taking a whole run back, where it did more than can be judged path by path.
//!
//! Guarantee: what a run made anew is gone, and what the stage held before it stays, unless the run
//! itself wrote over it. Nothing is kept in memory for each file, so there is no number of files that
//! a run could make to keep it from being taken back.
//! Non-guarantee: what a run changed in place, moved or removed of earlier changes is left to be
//! judged; what was deleted before in a directory in which the run deleted more may be there again;
//! where a file system does not say when a file was made, only a stage that changed nothing before
//! can be taken back.

use super::aside::Aside;
use super::beneath::{Node, NodeKind, Stamp, is_too_long};
use super::copy::Manifest;
use super::error::{StageError, failed};
use super::path::TreePath;
use super::record::StageKind;
use super::reveal::Layered;
use super::staged::Stage;
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;

impl Stage {
    /// Takes back what was made since `aside` was set aside; everything, if the stage was `untouched`
    /// then. The caller holds the claim, and nothing has the stage mounted that will be used again.
    /// Begun again, it goes on where it was cut off.
    pub fn undo(&self, aside: &Aside, untouched: bool) -> Result<(), StageError> {
        let (lower, upper) = (self.real_tree()?, self.changed_tree()?);
        let layered = self.layered(&lower, &upper)?;
        if untouched && self.kind() == StageKind::Overlay {
            let names = upper.names(Path::new(""));
            for name in names.map_err(layered.fail("read", Path::new("")))? {
                layered.remove(Path::new(&name))?;
            }
            return Ok(());
        }
        let begun = aside.begun().map_err(|source| StageError::Io {
            what: "take back",
            path: self.place().to_owned(),
            source,
        })?;
        let manifest = match self.kind() {
            StageKind::Overlay => None,
            StageKind::Copy => Some(Manifest::read(self)?),
        };
        let mut undoing = Undoing {
            layered,
            begun,
            manifest,
            again: Vec::new(),
            links: HashSet::new(),
        };
        undoing.all()?;
        // What differs from what was copied was changed or deleted by the run.
        let copied = undoing.manifest.as_ref().filter(|_| untouched);
        for path in copied.map_or_else(Vec::new, |manifest| manifest.changed(&upper)) {
            let renewed = undoing.layered.renew(&path)?;
            undoing.again.extend(renewed);
        }
        let Undoing {
            manifest, again, ..
        } = undoing;
        manifest.map_or(Ok(()), |mut manifest| manifest.renew(self, &upper, again))
    }
}

struct Undoing<'a> {
    layered: Layered<'a>,
    begun: Stamp,
    /// What was copied, if the stage is a copy: that comes back where it was replaced.
    manifest: Option<Manifest>,
    again: Vec<(TreePath, Node)>,
    /// Files with many names that are older than the run: one name of each stays.
    links: HashSet<u64>,
}

impl Undoing<'_> {
    fn all(&mut self) -> Result<(), StageError> {
        let mut pending = vec![TreePath::default()];
        let mut made = Vec::new();
        while let Some(directory) = pending.pop() {
            let changed_here = self.is_changed(&directory)?;
            for name in self.names(&directory)? {
                let path = directory.join(&name);
                let node = self.layered.upper.node(path.as_path());
                let Some(node) = node.map_err(self.layered.fail("look at", path.as_path()))? else {
                    continue;
                };
                if node.kind != NodeKind::Directory {
                    // One whiteout has many names, and its age is that of the first.
                    let new_whiteout = node.whiteout && changed_here && node.changed > self.begun;
                    if self.is_new(node) || new_whiteout || self.is_further_name(node) {
                        self.remove(&path)?;
                    }
                } else if !is_too_long(path.as_path()) {
                    self.open_up(&path, node)?;
                    if self.is_new(node) {
                        made.push(path.clone());
                    }
                    pending.push(path);
                } else if self.is_new(node) {
                    self.layered.remove(path.as_path())?;
                }
            }
        }
        // A directory goes after what was in it; one that holds something older stays, and hides
        // nothing any more.
        for path in made.iter().rev() {
            self.layered.remove_empty(path.as_path())?;
            self.layered.forget_opaque(path.as_path())?;
        }
        Ok(())
    }

    fn remove(&mut self, path: &TreePath) -> Result<(), StageError> {
        self.layered.remove(path.as_path())?;
        if self
            .manifest
            .as_ref()
            .is_some_and(|manifest| manifest.holds(path))
        {
            self.again.extend(self.layered.renew(path)?);
        }
        Ok(())
    }

    /// Whether something was made after the run began. What bears the very stamp of the beginning
    /// was there before, for all that is known.
    fn is_new(&self, node: Node) -> bool {
        node.born.is_some_and(|born| born > self.begun)
    }

    /// Whether an entry came to a directory or went from it after the run began.
    fn is_changed(&self, directory: &TreePath) -> Result<bool, StageError> {
        let node = self.layered.upper.node(directory.as_path());
        let node = node.map_err(self.layered.fail("look at", directory.as_path()))?;
        Ok(node.is_some_and(|node| node.modified > self.begun))
    }

    fn is_further_name(&mut self, node: Node) -> bool {
        !node.whiteout
            && node.links > 1
            && node.changed > self.begun
            && !self.links.insert(node.inode)
    }

    fn open_up(&self, path: &TreePath, node: Node) -> Result<(), StageError> {
        if node.mode & 0o700 == 0o700 {
            return Ok(());
        }
        let opened = self
            .layered
            .upper
            .set_mode(path.as_path(), node.mode | 0o700);
        opened.map_err(failed("open", path.as_path()))
    }

    fn names(&self, path: &TreePath) -> Result<Vec<OsString>, StageError> {
        match self.layered.upper.names(path.as_path()) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(Vec::new()),
            names => names.map_err(self.layered.fail("read", path.as_path())),
        }
    }
}

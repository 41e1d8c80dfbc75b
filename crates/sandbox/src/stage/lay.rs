//! Laying what one stage changes into another: the real tree with just those changes.
//!
//! Guarantee: what is laid is written anew. A file has the content and the mode it has in the stage
//! it comes from, and the date of now, whatever it was given there. What is not among the changes
//! is the real tree's: nothing of it is hidden, not even in a directory that goes.
//!
//! Non-guarantee: only over an overlay; and a stage that is written to meanwhile is laid as it is
//! found, path by path.

use super::beneath::NodeKind;
use super::diff::Facts;
use super::error::StageError;
use super::restore::Content;
use super::reveal::{Layered, Upper};
use super::staged::{Claim, Stage};
use std::collections::BTreeMap;
use std::path::Path;

/// What is to be at each path; none where nothing is.
pub type Laid<'a> = BTreeMap<&'a Path, Option<&'a Facts>>;

impl Stage {
    /// Writes `changes`, as the stage `from` has them, into this one, which holds none of their paths
    /// and which nobody has mounted: the claim says so.
    pub fn lay(&self, from: &Self, changes: &Laid<'_>, _: &Claim) -> Result<(), StageError> {
        let (lower, upper) = (self.real_tree()?, self.changed_tree()?);
        let layered = self.layered(&lower, &upper)?;
        // What was in a directory goes before it, and all of that before something takes its place.
        let gone = changes.iter().rev().filter(|(_, facts)| facts.is_none());
        for (path, _) in gone {
            layered.lay_nothing(path)?;
        }
        // A directory comes before what is in it.
        for (path, facts) in changes {
            if let Some(facts) = facts {
                layered.lay(path, facts, from)?;
            }
        }
        Ok(())
    }
}

impl Layered<'_> {
    fn lay_nothing(&self, path: &Path) -> Result<(), StageError> {
        let Some(below) = self.below(path)? else {
            return Ok(());
        };
        if below.kind == NodeKind::Directory && !self.hides_all_in(path)? {
            return Ok(());
        }
        self.remove(path)?;
        self.make_above(path)?;
        self.hide(path)
    }

    /// Whether nothing of what the real tree has in the directory `path` is seen any more.
    fn hides_all_in(&self, path: &Path) -> Result<bool, StageError> {
        for name in self.names(self.lower, path)? {
            if self.kind(&path.join(name))? != Upper::Whiteout {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn lay(&self, path: &Path, facts: &Facts, from: &Stage) -> Result<(), StageError> {
        if facts.kind == NodeKind::Directory {
            if self.kind(path)? != Upper::Directory {
                self.remove(path)?;
                self.make_above(path)?;
                self.make_directory(path, facts.mode)?;
            }
            let mode = self.upper.set_mode(path, facts.mode);
            return mode.map_err(self.fail("lay", path));
        }
        self.remove(path)?;
        self.make_above(path)?;
        match (facts.kind, &facts.target) {
            (NodeKind::File, _) => {
                let content = Content {
                    from: from.open_changed(path)?,
                    mode: facts.mode,
                    size: facts.size,
                    modified: None,
                };
                self.place_file(path, &content)
            }
            (NodeKind::Symlink, Some(target)) => {
                let made = self.within(path, |parent, name| {
                    rustix::fs::symlinkat(target.as_path(), parent, name)?;
                    self.own(parent, name)
                });
                made.map_err(self.fail("lay", path))
            }
            // They are never among the changes.
            (NodeKind::Symlink, None)
            | (NodeKind::Directory | NodeKind::Fifo | NodeKind::Socket | NodeKind::Device, _) => {
                Ok(())
            }
        }
    }
}

//! Putting paths of a stage back: to what was kept of them, or to what the real tree has.
//!
//! Guarantee: afterwards each path is as it was, and every other path shows what it did, unless it
//! could only be there because something denied was (a file in the place of a directory whose
//! content comes back, what is in a directory that goes); those are named. What cannot be looked
//! at and was not kept goes with all that is in it.
//! Non-guarantee: times and owners are not put back.

use super::aside::{Aside, Was, copy_bytes};
use super::beneath::{NodeKind, Stamp, Tree};
use super::error::StageError;
use super::path::TreePath;
use super::record::StageKind;
use super::remove::remove_tree;
use super::reveal::{GRAVE, Layered, Upper};
use super::staged::Stage;
use super::touched::Touch;
use super::walk::MarkNames;
use rustix::fs::{Mode, OFlags, Timespec, Timestamps};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Where in the stage's own directory a file is made that comes back.
const DRAFT: &str = ".restored";

impl Stage {
    /// Puts `paths` back, of which `unseen` are those named as [`Touch::Unseen`]. Gives what else had
    /// to go for it. The caller holds the claim, and nothing has the stage mounted that will be used
    /// again. `most` is as in [`Stage::touched`].
    pub fn put_back(
        &self,
        paths: &BTreeSet<TreePath>,
        unseen: &BTreeSet<TreePath>,
        aside: &Aside,
        most: u64,
    ) -> Result<Vec<TreePath>, StageError> {
        if self.kind() == StageKind::Copy {
            return self.put_back_copied(paths, unseen, aside);
        }
        let (lower, upper) = (self.real_tree()?, self.changed_tree()?);
        let layered = self.layered(&lower, &upper)?;
        let mut gone = Vec::new();
        let mut done: Option<&Path> = None;
        // A directory comes back before what is in it.
        for path in paths {
            let cleared = layered.clear_above(path.as_path(), done)?;
            match aside.entries.get(path) {
                Some(was) => layered.restore(path.as_path(), was, aside)?,
                // All of it: nothing of what the real tree has there stays hidden.
                None if unseen.contains(path) => layered.remove(path.as_path())?,
                None => layered.show(path.as_path(), &cleared)?,
            }
            gone.extend(cleared.gone);
            done = path.as_path().parent();
        }
        // A directory goes after what was in it.
        for path in paths.iter().rev() {
            let kept = aside.entries.contains_key(path);
            let made = layered.kind(path.as_path())? == Upper::Directory;
            if !kept && made && layered.below(path.as_path())?.is_none() {
                layered.remove_empty(path.as_path())?;
            }
        }
        for touched in self.touched(most)? {
            if let Touch::Written { .. } = touched.touch {
                layered.forget_origin(touched.path.as_path())?;
            }
        }
        gone.retain(|path| !paths.contains(path));
        Ok(gone)
    }

    /// The two layers, to be changed by whoever holds the claim.
    pub(super) fn layered<'a>(
        &'a self,
        lower: &'a Tree,
        upper: &'a Tree,
    ) -> Result<Layered<'a>, StageError> {
        // What was being removed when somebody was killed would be in the way of everything after.
        remove_tree(self.directory(), GRAVE, self.place())?;
        let root = rustix::fs::statat(upper, ".", rustix::fs::AtFlags::empty());
        let root = root.map_err(super::error::failed("look at", self.place()))?;
        Ok(Layered {
            lower,
            upper,
            marks: MarkNames::of(self.marks()),
            owner: (root.st_uid, root.st_gid),
            copied: self.kind() == StageKind::Copy,
            home: self.directory(),
            shown: self.place(),
        })
    }

    /// Whether the stage has at `path` what was kept of it; no if nothing was kept.
    pub fn is_as_kept(&self, path: &TreePath, aside: &Aside) -> Result<bool, StageError> {
        let Some(was) = aside.entries.get(path) else {
            return Ok(false);
        };
        let upper = self.changed_tree()?;
        let node = upper.node(path.as_path());
        let node = node.map_err(super::error::failed("look at", path.as_path()))?;
        let node = node.filter(|node| !node.whiteout);
        Ok(match (was, node) {
            (Was::Nothing, None) => true,
            (Was::Directory { mode }, Some(node)) => {
                node.kind == NodeKind::Directory && node.mode == *mode
            }
            (Was::Symlink { target }, Some(node)) => {
                node.kind == NodeKind::Symlink
                    && upper.target(path.as_path()).is_ok_and(|now| now == *target)
            }
            (Was::File { copy, mode, size }, Some(node)) => {
                node.kind == NodeKind::File
                    && node.mode == *mode
                    && node.size == *size
                    && same(&upper, path.as_path(), aside, copy)
            }
            (Was::Special, Some(node)) => matches!(
                node.kind,
                NodeKind::Fifo | NodeKind::Socket | NodeKind::Device
            ),
            (Was::Nothing, Some(_)) | (_, None) => false,
        })
    }
}

fn same(upper: &Tree, path: &Path, aside: &Aside, copy: &str) -> bool {
    let (Ok(mut now), Ok(mut then)) = (upper.own_file(path), aside.copy(copy)) else {
        return false;
    };
    let (mut left, mut right) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        let (Ok(read), wanted) = (now.read(&mut left), &mut right) else {
            return false;
        };
        if read == 0 {
            return then.read(wanted).is_ok_and(|rest| rest == 0);
        }
        let Some(wanted) = wanted.get_mut(..read) else {
            return false;
        };
        if then.read_exact(wanted).is_err() || left.get(..read) != Some(&*wanted) {
            return false;
        }
    }
}

/// What a file that comes back is to be.
pub(super) struct Content {
    pub(super) from: File,
    pub(super) mode: u32,
    pub(super) size: u64,
    pub(super) modified: Option<Stamp>,
}

impl Layered<'_> {
    pub(super) fn restore(&self, path: &Path, was: &Was, aside: &Aside) -> Result<(), StageError> {
        if let Was::Directory { mode } = was {
            if self.kind(path)? != Upper::Directory {
                self.remove(path)?;
                self.make_above(path)?;
                self.make_directory(path, *mode)?;
            }
            return self
                .upper
                .set_mode(path, *mode)
                .map_err(self.fail("restore", path));
        }
        self.remove(path)?;
        self.make_above(path)?;
        match was {
            Was::Nothing => {
                if self.below(path)?.is_some() {
                    self.hide(path)?;
                }
                Ok(())
            }
            Was::Symlink { target } => self
                .within(path, |parent, name| {
                    rustix::fs::symlinkat(target.as_path(), parent, name)?;
                    self.own(parent, name)
                })
                .map_err(self.fail("restore", path)),
            Was::File { copy, mode, size } => self.restore_file(path, aside, copy, *mode, *size),
            Was::Directory { .. } | Was::Special => Ok(()),
        }
    }

    fn restore_file(
        &self,
        path: &Path,
        aside: &Aside,
        copy: &str,
        mode: u32,
        size: u64,
    ) -> Result<(), StageError> {
        let from = aside.copy(copy).map_err(self.fail("restore", path))?;
        let content = Content {
            from,
            mode,
            size,
            modified: None,
        };
        self.place_file(path, &content)
    }

    /// Puts a file in a place where nothing is, whole or not at all.
    pub(super) fn place_file(&self, path: &Path, content: &Content) -> Result<(), StageError> {
        let fail = || self.fail("restore", path);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let draft = rustix::fs::openat(self.home, DRAFT, flags, Mode::from_raw_mode(0o600));
        let draft = File::from(draft.map_err(fail())?);
        copy_bytes(&content.from, &draft, content.size).map_err(|source| StageError::Io {
            what: "restore",
            path: self.shown.join(path),
            source,
        })?;
        self.own(self.home, OsStr::new(DRAFT)).map_err(fail())?;
        if let Some(modified) = content.modified {
            let modified = Timespec {
                tv_sec: modified.seconds,
                tv_nsec: modified.nanoseconds.into(),
            };
            let times = Timestamps {
                last_access: modified,
                last_modification: modified,
            };
            rustix::fs::futimens(&draft, &times).map_err(fail())?;
        }
        rustix::fs::fchmod(&draft, Mode::from_raw_mode(content.mode)).map_err(fail())?;
        self.within(path, |parent, name| {
            rustix::fs::renameat(self.home, DRAFT, parent, name)
        })
        .map_err(fail())
    }

    /// Makes the directories that what is restored needs in the upper layer.
    pub(super) fn make_above(&self, path: &Path) -> Result<(), StageError> {
        let mut above = std::path::PathBuf::new();
        for component in path.parent().unwrap_or(Path::new("")) {
            above.push(component);
            if self.kind(&above)? == Upper::Directory {
                continue;
            }
            let real = self.below(&above)?;
            self.remove(&above)?;
            let mode = real.filter(|node| node.kind == NodeKind::Directory);
            self.make_directory(&above, mode.map_or(0o755, |node| self.mode_of(node)))?;
        }
        Ok(())
    }
}

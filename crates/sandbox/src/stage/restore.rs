//! Putting paths of a stage back: to what was kept of them, or to what the real tree has.
//!
//! Guarantee: afterwards each path is as it was, and every other path shows what it did, unless it
//! could only be there because something denied was (a file in the place of a directory whose
//! content comes back, what is in a directory that goes); those are named.
//! Non-guarantee: times and owners are not put back.

use super::aside::{Aside, Was, copy_bytes};
use super::beneath::{NodeKind, Tree};
use super::diff::DiffOptions;
use super::error::StageError;
use super::path::TreePath;
use super::record::StageKind;
use super::reveal::{Layered, Upper};
use super::staged::Stage;
use super::touched::Touch;
use super::walk::MarkNames;
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Where in the stage's own directory a file is made that comes back.
const DRAFT: &str = ".restored";

impl Stage {
    /// Puts `paths` back. Gives what else had to go for it. The caller holds the claim, and nothing
    /// has the stage mounted that will be used again.
    pub fn put_back(
        &self,
        paths: &BTreeSet<TreePath>,
        aside: &Aside,
    ) -> Result<Vec<TreePath>, StageError> {
        if self.kind() == StageKind::Copy {
            return Err(StageError::NotPutBack(self.name().clone()));
        }
        let (lower, upper) = (self.real_tree()?, self.changed_tree()?);
        let root = rustix::fs::statat(&upper, ".", rustix::fs::AtFlags::empty());
        let root = root.map_err(super::error::failed("look at", self.place()))?;
        let layered = Layered {
            lower: &lower,
            upper: &upper,
            marks: MarkNames::of(self.marks()),
            owner: (root.st_uid, root.st_gid),
            home: self.directory(),
            shown: self.place(),
        };
        let mut gone = Vec::new();
        // A directory comes back before what is in it.
        for path in paths {
            let cleared = layered.clear_above(path.as_path())?;
            match aside.entries.get(path) {
                Some(was) => layered.restore(path.as_path(), was, aside)?,
                None => layered.show(path.as_path(), &cleared)?,
            }
            gone.extend(cleared.gone);
        }
        // A directory goes after what was in it.
        for path in paths.iter().rev() {
            let kept = aside.entries.contains_key(path);
            let made = layered.kind(path.as_path())? == Upper::Directory;
            let real = lower.node(path.as_path());
            let real = real.map_err(layered.fail("look at", path.as_path()))?;
            if !kept && made && real.is_none() {
                layered.remove_empty(path.as_path())?;
            }
        }
        for touched in self.touched(DiffOptions::default().max_entries)? {
            if let Touch::Written { .. } = touched.touch {
                layered.forget_origin(touched.path.as_path())?;
            }
        }
        gone.retain(|path| !paths.contains(path));
        Ok(gone)
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
    let (Ok(mut now), Ok(mut then)) = (upper.file(path), aside.copy(copy)) else {
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

impl Layered<'_> {
    fn restore(&self, path: &Path, was: &Was, aside: &Aside) -> Result<(), StageError> {
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
                let real = self.lower.node(path);
                let real = real.map_err(self.fail("look at", path))?;
                if real.is_some() {
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
        let fail = || self.fail("restore", path);
        let from = aside.copy(copy).map_err(fail())?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let draft = rustix::fs::openat(self.home, DRAFT, flags, Mode::from_raw_mode(0o600));
        let draft = File::from(draft.map_err(fail())?);
        copy_bytes(&from, &draft, size).map_err(|source| StageError::Io {
            what: "restore",
            path: self.shown.join(path),
            source,
        })?;
        self.own(self.home, OsStr::new(DRAFT)).map_err(fail())?;
        rustix::fs::fchmod(&draft, Mode::from_raw_mode(mode)).map_err(fail())?;
        self.within(path, |parent, name| {
            rustix::fs::renameat(self.home, DRAFT, parent, name)
        })
        .map_err(fail())
    }

    /// Makes the directories that what is restored needs in the upper layer.
    fn make_above(&self, path: &Path) -> Result<(), StageError> {
        let mut above = std::path::PathBuf::new();
        for component in path.parent().unwrap_or(Path::new("")) {
            above.push(component);
            if self.kind(&above)? == Upper::Directory {
                continue;
            }
            let real = self.lower.node(&above);
            let real = real.map_err(self.fail("look at", &above))?;
            self.remove(&above)?;
            let mode = real.filter(|node| node.kind == NodeKind::Directory);
            self.make_directory(&above, mode.map_or(0o755, |node| node.mode))?;
        }
        Ok(())
    }
}

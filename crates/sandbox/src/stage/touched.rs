//! Which paths a stage touches, without reading content: what a check of each path needs.
//!
//! Guarantee: every path on which the stage and the real tree may differ is named, however it was
//! brought about: written, created, deleted, hidden by a replaced directory, linked or renamed.
//! Non-guarantee: a file that was copied and left as it was is named as well; whether content
//! really differs is what [`Stage::is_as_real`] finds out.

use super::beneath::{Node, NodeKind, Tree, node_of};
use super::copy::Manifest;
use super::error::{StageError, failed};
use super::footing::Footing;
use super::path::TreePath;
use super::record::StageKind;
use super::staged::Stage;
use super::walk::{Pair, Walk};
use rustix::io::Errno;
use std::io::Read;
use std::path::Path;

/// Larger files are taken for changed rather than compared.
const COMPARED_BYTES: u64 = 64 << 20;
const CHUNK: usize = 64 * 1024;
const PERMISSIONS: u32 = 0o7777;
/// What a directory is given that has to be looked into.
pub(super) const OPENED: u32 = 0o500;

/// One path a stage touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// Where, relative to the workspace.
    pub path: TreePath,
    /// How.
    pub touch: Touch,
    /// Whether the real tree has something there.
    pub over: bool,
}

/// How a path is touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// A file, a link or something special is there, and is new or may be another.
    Written {
        /// Bytes of a file.
        size: u64,
    },
    /// A directory is there that the real tree does not have.
    Made,
    /// The permission bits of a directory are others.
    Mode,
    /// What the real tree has is gone.
    Deleted,
    /// Something that cannot be judged: its path is too long to be opened, or it may not be looked
    /// at. What is beneath it is not named.
    Unseen,
}

impl Stage {
    /// Every path it touches, by path. The caller holds its claim, and nothing runs in it:
    /// directories that keep their owner out are opened to them. Which directories the real tree has
    /// there is noted, so that a diff can tell whether they are still the same.
    pub fn touched(&self, most: u64) -> Result<Vec<Touched>, StageError> {
        let (lower, upper) = (self.real_tree()?, self.changed_tree()?);
        self.keep_root_mode(&lower, &upper)?;
        let mut walk = Walk::new(&lower, &upper, most).opening();
        match self.kind() {
            StageKind::Overlay => {
                walk.overlay(self.marks())?;
                Footing::note(self, std::mem::take(&mut walk.footing));
            }
            StageKind::Copy => walk.copy(&Manifest::read(self)?, &self.placeholders()?)?,
        }
        let (mut touched, refused) = walk.into_touched();
        touched.extend(refused.into_iter().map(|refused| Touched {
            path: refused.path,
            touch: Touch::Unseen,
            over: true,
        }));
        // What cannot be judged comes first among those of one path, and stays.
        let seen = |one: &Touched| one.touch != Touch::Unseen;
        touched.sort_by(|one, other| {
            let by_path = one.path.cmp(&other.path);
            by_path.then_with(|| seen(one).cmp(&seen(other)))
        });
        touched.dedup_by(|one, other| one.path == other.path);
        Ok(touched)
    }

    /// The root itself is the real tree's: its mode is no change of a stage, and must not keep
    /// anybody from looking at the changes there are.
    fn keep_root_mode(&self, lower: &Tree, upper: &Tree) -> Result<(), StageError> {
        let fail = |errno| failed("look at", self.place())(errno);
        let (real, own) = (node_of(lower).map_err(fail)?, node_of(upper).map_err(fail)?);
        if real.mode == own.mode {
            return Ok(());
        }
        upper.set_root_mode(real.mode).map_err(fail)
    }

    /// Whether what the stage has at `path` is what the real tree has there: kind, mode and
    /// content. What cannot be read or is too large to compare counts as different.
    pub fn is_as_real(&self, path: &Path) -> Result<bool, StageError> {
        let (lower, upper) = (self.real_tree()?, self.changed_tree()?);
        let look = |node: rustix::io::Result<Option<Node>>| match node {
            // What cannot be looked at is not known to be the same.
            Err(Errno::ACCESS | Errno::PERM | Errno::XDEV | Errno::NAMETOOLONG) => Ok(None),
            node => node.map_err(failed("look at", path)),
        };
        let (old, new) = (look(lower.node(path))?, look(upper.node(path))?);
        let (Some(old), Some(new)) = (old, new) else {
            return Ok(false);
        };
        if old.kind != new.kind || old.mode != new.mode || old.size != new.size {
            return Ok(false);
        }
        Ok(match new.kind {
            NodeKind::File if new.size <= COMPARED_BYTES => {
                match (lower.file(path), upper.file(path)) {
                    (Ok(old), Ok(new)) => same_bytes(old, new).unwrap_or(false),
                    _ => false,
                }
            }
            NodeKind::Symlink => match (lower.target(path), upper.target(path)) {
                (Ok(old), Ok(new)) => old == new,
                _ => false,
            },
            NodeKind::Directory => true,
            NodeKind::File | NodeKind::Fifo | NodeKind::Socket | NodeKind::Device => false,
        })
    }
}

/// How a pair is touched, if it is; `kept_bits` of a real directory's mode are in the stage too.
pub(super) fn touched_by(pair: &Pair, kept_bits: u32) -> Option<Touched> {
    let is_directory = |node: Node| node.kind == NodeKind::Directory;
    let touch = match (pair.old, pair.new) {
        (None, None) => return None,
        (Some(_), None) => Touch::Deleted,
        (Some(old), Some(new)) if is_directory(old) && is_directory(new) => {
            let (was, is) = (old.mode & kept_bits, new.mode & PERMISSIONS);
            // A real directory that keeps its owner out had to be opened to be looked into: were
            // that a change, it could never be put back.
            if is == was || is == was | OPENED {
                return None;
            }
            Touch::Mode
        }
        (_, Some(new)) if is_directory(new) => Touch::Made,
        (_, Some(new)) => Touch::Written { size: new.size },
    };
    Some(Touched {
        path: pair.path.clone(),
        touch,
        over: pair.old.is_some(),
    })
}

fn same_bytes(mut one: impl Read, mut other: impl Read) -> std::io::Result<bool> {
    let (mut left, mut right) = (vec![0; CHUNK], vec![0; CHUNK]);
    loop {
        let read = one.read(&mut left)?;
        let Some(wanted) = right.get_mut(..read) else {
            return Ok(false);
        };
        if read == 0 {
            return Ok(other.read(&mut right)? == 0);
        }
        if other.read_exact(wanted).is_err() || left.get(..read) != right.get(..read) {
            return Ok(false);
        }
    }
}

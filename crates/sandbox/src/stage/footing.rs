//! Which directories of the real tree a stage's changes lie over, in `footing.json`: by times alone
//! another that took the place of one is not always told from it.
//!
//! Guarantee: a directory is noted as it was when it was first found touched, and stays so until the
//! stage begins anew.
//! Non-guarantee: one that took another's place before that is taken for it, and beyond [`MOST`] none
//! is noted. What cannot be read or written counts as not noted.

use super::beneath::{Node, Stamp};
use super::path::TreePath;
use super::record::write_whole;
use super::staged::Stage;
use airlock_core::Digest;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;

const FILE: &str = "footing.json";
/// The most directories that are noted: it is read after every command.
const MOST: usize = 4_096;
/// Far more than so many usually take.
const MOST_BYTES: u64 = 4 << 20;

/// What tells a directory from any other of its file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    inode: u64,
    born: Option<Stamp>,
}

impl From<Node> for Identity {
    fn from(node: Node) -> Self {
        Self {
            inode: node.inode,
            born: node.born,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Written {
    /// With which beginning of the stage it was written: of another it says nothing.
    base: Digest,
    directories: Vec<(TreePath, Identity)>,
}

/// The directories that were noted.
#[derive(Debug, Default)]
pub(super) struct Footing(BTreeMap<TreePath, Identity>);

impl Footing {
    pub(super) fn read(stage: &Stage) -> Self {
        let noted = read(stage).filter(|written| written.base == stage.base());
        Self(noted.map_or_else(BTreeMap::new, |written| {
            written.directories.into_iter().collect()
        }))
    }

    /// Whether another directory was noted at `path`.
    pub(super) fn was_other(&self, path: &TreePath, now: Node) -> bool {
        let noted = self.0.get(path);
        noted.is_some_and(|noted| *noted != Identity::from(now))
    }

    /// Notes those of `directories` that are not noted yet. Nobody else may use the stage meanwhile.
    pub(super) fn note(stage: &Stage, mut directories: Vec<(TreePath, Identity)>) {
        if directories.is_empty() {
            return;
        }
        let Self(mut noted) = Self::read(stage);
        directories.retain(|(path, _)| !noted.contains_key(path));
        // One that is swapped counts for all that is beneath it.
        directories.sort_by_cached_key(|(path, _)| path.as_path().components().count());
        directories.truncate(MOST.saturating_sub(noted.len()));
        if directories.is_empty() {
            return;
        }
        // It says nothing with any other beginning than the one that lasts.
        if stage.keep_beginning().is_err() {
            return;
        }
        noted.extend(directories);
        let written = Written {
            base: stage.base(),
            directories: noted.into_iter().collect(),
        };
        let fits = |text: &Vec<u8>| u64::try_from(text.len()).is_ok_and(|size| size <= MOST_BYTES);
        if let Some(text) = serde_json::to_vec(&written).ok().filter(fits) {
            // Without it times still tell most of it.
            let _written = write_whole(stage.directory(), FILE, &text, false);
        }
    }
}

fn read(stage: &Stage) -> Option<Written> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::openat(stage.directory(), FILE, flags, Mode::empty()).ok()?;
    let mut text = Vec::new();
    let mut file = File::from(file).take(MOST_BYTES);
    file.read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

//! What is kept of a stage while something runs in it: entries as they were, to be put back.
//!
//! They lie in the stage's own directory, which no sandbox sees, together with a note of whoever
//! keeps them. So a run whose supervisor died is found by the next one, and judged by it.

use super::beneath::{NodeKind, Stamp, Tree};
use super::error::{StageError, failed};
use super::mark::Mark;
use super::path::TreePath;
use super::record::write_whole;
use super::remove::remove_tree;
use super::staged::Stage;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

const DIRECTORY: &str = "aside";
const INDEX: &str = "index.json";
/// Is there from when a run that was cut off is judged until another has ended in the stage.
const CUT_OFF: &str = "cut-off";
/// The most that is kept: more is refused before anything runs.
const FILES: usize = 20_000;
const BYTES: u64 = 1 << 30;

/// What was at a path of the stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Was {
    Nothing,
    File {
        copy: String,
        mode: u32,
        size: u64,
    },
    Symlink {
        target: TreePath,
    },
    Directory {
        mode: u32,
    },
    /// A pipe, a socket or a device, which is not made again.
    Special,
}

#[derive(Debug, Serialize, Deserialize)]
struct Index {
    note: serde_json::Value,
    entries: Vec<(TreePath, Was)>,
}

/// Entries of a stage as they were before a run.
#[derive(Debug)]
pub struct Aside {
    kept: Kept,
    pub(super) entries: BTreeMap<TreePath, Was>,
    note: serde_json::Value,
}

#[derive(Debug)]
enum Kept {
    /// Nothing but the note.
    Nothing(Mark),
    Copies(Tree),
}

impl Aside {
    /// What whoever began the run noted.
    pub const fn note(&self) -> &serde_json::Value {
        &self.note
    }

    /// The paths that were kept.
    pub fn paths(&self) -> impl Iterator<Item = &TreePath> {
        self.entries.keys()
    }

    /// When the run began, by the clock that stamps what is made in the stage.
    pub(super) fn begun(&self) -> std::io::Result<Stamp> {
        match &self.kept {
            Kept::Nothing(mark) => mark.begun(),
            Kept::Copies(tree) => {
                let index = tree.node(Path::new(INDEX))?.ok_or(Errno::NOENT)?;
                Ok(index.modified)
            }
        }
    }

    pub(super) fn copy(&self, name: &str) -> rustix::io::Result<File> {
        match &self.kept {
            Kept::Nothing(_) => Err(Errno::NOENT),
            Kept::Copies(tree) => tree.file(Path::new(name)),
        }
    }
}

impl Stage {
    /// Keeps what the stage has at `paths`, and `note`, until [`Stage::settle`]. The caller holds
    /// the stage's claim.
    pub fn set_aside(
        &self,
        paths: &[TreePath],
        note: serde_json::Value,
    ) -> Result<Aside, StageError> {
        if paths.is_empty() {
            return self.mark(note);
        }
        let place = self.place().join(DIRECTORY);
        let fail = |errno| failed("keep", &*place)(errno);
        remove_tree(self.directory(), DIRECTORY, self.place())?;
        rustix::fs::mkdirat(self.directory(), DIRECTORY, Mode::from_raw_mode(0o700))
            .map_err(fail)?;
        let tree = Tree::open_in(self.directory(), DIRECTORY).map_err(fail)?;
        let upper = self.changed_tree()?;
        if paths.len() > FILES {
            return Err(StageError::TooMuchKept);
        }
        let mut entries = BTreeMap::new();
        let mut left = BYTES;
        for (number, path) in paths.iter().enumerate() {
            let was = keep(&upper, &tree, path.as_path(), number, &mut left)?;
            entries.insert(path.clone(), was);
        }
        let index = Index {
            note,
            entries: entries.into_iter().collect(),
        };
        let not_kept = |source| StageError::Io {
            what: "keep",
            path: place,
            source,
        };
        serde_json::to_vec(&index)
            .map_err(Into::into)
            .and_then(|text| write_whole(&tree, INDEX, &text, false))
            .map_err(not_kept)?;
        Ok(Aside {
            kept: Kept::Copies(tree),
            entries: index.entries.into_iter().collect(),
            note: index.note,
        })
    }

    /// A run for which nothing needs to be kept.
    fn mark(&self, note: serde_json::Value) -> Result<Aside, StageError> {
        let text = serde_json::to_vec(&note).map_err(std::io::Error::from);
        let mark = text.and_then(|text| Mark::begin(self.directory(), &text));
        let mark = mark.map_err(|source| StageError::Io {
            what: "mark",
            path: self.place().to_owned(),
            source,
        })?;
        Ok(Aside {
            kept: Kept::Nothing(mark),
            entries: BTreeMap::new(),
            note,
        })
    }

    fn marked(&self) -> Result<Option<Aside>, StageError> {
        let damaged = |why: String| StageError::Damaged {
            name: self.name().clone(),
            why: format!("its mark: {why}"),
        };
        let found = Mark::found(self.directory()).map_err(|error| damaged(error.to_string()))?;
        let Some((mark, text)) = found else {
            return Ok(None);
        };
        let note = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        Ok(Some(Aside {
            kept: Kept::Nothing(mark),
            entries: BTreeMap::new(),
            note,
        }))
    }

    /// What a run that was never settled kept, if there was one.
    pub fn unsettled(&self) -> Result<Option<Aside>, StageError> {
        let place: PathBuf = self.place().join(DIRECTORY);
        let tree = match Tree::open_in(self.directory(), DIRECTORY) {
            Ok(tree) => tree,
            Err(Errno::NOENT) => return self.marked(),
            Err(errno) => return Err(failed("open", place)(errno)),
        };
        let mut file = match tree.file(Path::new(INDEX)) {
            Ok(file) => file,
            // It was begun and nothing has run yet.
            Err(Errno::NOENT) => return self.marked(),
            Err(errno) => return Err(failed("open", place)(errno)),
        };
        let damaged = |why: String| StageError::Damaged {
            name: self.name().clone(),
            why: format!("`{DIRECTORY}/{INDEX}`: {why}"),
        };
        let mut bytes = Vec::new();
        let read = file.read_to_end(&mut bytes);
        read.map_err(|error| damaged(error.to_string()))?;
        let index: Index =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        Ok(Some(Aside {
            kept: Kept::Copies(tree),
            entries: index.entries.into_iter().collect(),
            note: index.note,
        }))
    }

    /// Whether a run was cut off here and what it left was never judged. One that is going on is
    /// not meant. What cannot be made sense of was not judged, either.
    pub fn is_unjudged(&self) -> Result<bool, StageError> {
        let left = || !matches!(self.unsettled(), Ok(None));
        // Once more: what ended in between was judged.
        Ok(left() && !self.in_use()? && left())
    }

    /// Notes that a run was cut off here: what it was writing may be half written, also after it was
    /// judged. Holds until [`Stage::forget_cut_off`], or until whoever claims the stage finds it empty.
    pub fn note_cut_off(&self) -> Result<(), StageError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::openat(self.directory(), CUT_OFF, flags, mode)
            .map(drop)
            .map_err(failed("note", self.place().join(CUT_OFF)))
    }

    /// Another run has ended here since.
    pub fn forget_cut_off(&self) -> Result<(), StageError> {
        match rustix::fs::unlinkat(self.directory(), CUT_OFF, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(failed("remove", self.place().join(CUT_OFF))(errno)),
        }
    }

    /// Whether a run was cut off here and none has ended since.
    pub fn was_cut_off(&self) -> bool {
        let found = rustix::fs::statat(self.directory(), CUT_OFF, AtFlags::SYMLINK_NOFOLLOW);
        // Where that cannot be told, nothing speaks for what is there.
        !matches!(found, Err(Errno::NOENT))
    }

    /// The run is judged: what was kept goes.
    pub fn settle(&self, aside: Aside) -> Result<(), StageError> {
        // On a full disk it stays where it is, and holds until the machine ends.
        let _kept = self.keep_beginning();
        match aside.kept {
            Kept::Nothing(mark) => mark.end().map_err(|source| StageError::Io {
                what: "mark",
                path: self.place().to_owned(),
                source,
            }),
            Kept::Copies(tree) => {
                drop(tree);
                remove_tree(self.directory(), DIRECTORY, self.place())
            }
        }
    }
}

fn keep(
    upper: &Tree,
    aside: &Tree,
    path: &Path,
    number: usize,
    left: &mut u64,
) -> Result<Was, StageError> {
    let fail = |errno| failed("keep", path)(errno);
    let Some(node) = upper.node(path).map_err(fail)? else {
        return Ok(Was::Nothing);
    };
    if node.whiteout {
        return Ok(Was::Nothing);
    }
    Ok(match node.kind {
        NodeKind::Directory => Was::Directory { mode: node.mode },
        NodeKind::Symlink => Was::Symlink {
            target: upper.target(path).map_err(fail)?,
        },
        NodeKind::File => {
            *left = left.checked_sub(node.size).ok_or(StageError::TooMuchKept)?;
            let copy = number.to_string();
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o600);
            let to = rustix::fs::openat(aside, &*copy, flags, mode).map_err(fail)?;
            let from = upper.own_file(path).map_err(fail)?;
            copy_bytes(&from, &File::from(to), node.size).map_err(|source| StageError::Io {
                what: "keep",
                path: path.to_owned(),
                source,
            })?;
            Was::File {
                copy,
                mode: node.mode,
                size: node.size,
            }
        }
        NodeKind::Fifo | NodeKind::Socket | NodeKind::Device => Was::Special,
    })
}

/// Copies, sharing blocks where the file system can.
pub(super) fn copy_bytes(from: &File, mut to: &File, most: u64) -> std::io::Result<()> {
    if rustix::fs::ioctl_ficlone(to, from).is_ok() {
        return Ok(());
    }
    std::io::copy(&mut from.take(most), &mut to).map(drop)
}

//! A workspace, its stage and its merges, in a directory that goes with the test.

use airlock_core::{Digest, Timestamp};
use airlock_merge::{MergeError, MergeOutcome, Merges, Selection, Since};
use airlock_sandbox::stage::{DiffOptions, Setup, Stage, Stages};
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// What a path holds, to the bit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Held {
    File(u32, Vec<u8>),
    Link(PathBuf),
    Directory(u32),
}

pub(crate) type Snapshot = BTreeMap<PathBuf, Held>;

pub(crate) struct Project {
    pub(crate) root: PathBuf,
    pub(crate) state: PathBuf,
    own: Option<tempfile::TempDir>,
}

impl Drop for Project {
    fn drop(&mut self) {
        // A directory that nobody may write to could not be removed.
        let closed = self.root.join("closed");
        if self.own.is_some() && closed.exists() {
            mode(&closed, 0o755);
        }
        let staged = self.state.join("stages/default/upper/closed");
        if self.own.is_some() && staged.exists() {
            mode(&staged, 0o755);
        }
    }
}

impl Project {
    pub(crate) fn new() -> Self {
        let dir = memory();
        let mut project = Self::at(dir.path());
        std::fs::create_dir(&project.root).unwrap();
        project.own = Some(dir);
        project
    }

    /// The project that another process made in `place`.
    pub(crate) fn at(place: &Path) -> Self {
        let place = place.canonicalize().unwrap();
        Self {
            root: place.join("work"),
            state: place.join("state"),
            own: None,
        }
    }

    pub(crate) fn place(&self) -> &Path {
        self.root.parent().unwrap()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        put(&self.root.join(path), text);
    }

    /// A stage that is a copy, which needs no mount to be changed.
    pub(crate) fn stage(&self) -> Stage {
        let stages = Stages::open(&self.state.join("stages")).unwrap();
        let owner = airlock_sandbox::stage_owner();
        stages
            .open_or_create_as("default", &self.root, owner, Setup::COPY)
            .unwrap()
    }

    /// Where the stage's files are.
    pub(crate) fn staged(&self) -> PathBuf {
        self.stage().layers().upper
    }

    pub(crate) fn merges(&self) -> Merges {
        Merges::new(&self.state.join("merges"), &self.root)
    }

    pub(crate) fn merge(
        &self,
        id: &str,
        selection: &Selection,
    ) -> Result<MergeOutcome, MergeError> {
        self.merge_watched(id, selection, &|_| {})
    }

    pub(crate) fn merge_watched(
        &self,
        id: &str,
        selection: &Selection,
        moment: &dyn Fn(&'static str),
    ) -> Result<MergeOutcome, MergeError> {
        let mut stage = self.stage();
        let reviewed = selection.reviewed(&stage.diff(&DiffOptions::default()).unwrap());
        let now = Timestamp::from_micros(1);
        self.merges()
            .merge_watched(id, &mut stage, selection, reviewed, now, moment)
    }

    pub(crate) fn undo(&self, id: &str, of: Option<&str>) -> Result<MergeOutcome, MergeError> {
        let (since, now) = (Since::Stays, Timestamp::from_micros(2));
        self.merges()
            .undo(id, of, since, self.looked(of, since), now)
    }

    /// What stands for undoing `of` as it is looked at now; where it cannot be, for nothing.
    pub(crate) fn looked(&self, of: Option<&str>, since: Since) -> Digest {
        let looked = self.merges().undoing(of, since);
        looked.map_or_else(|_| Digest::of(b""), |looked| looked.digest)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        snapshot(&self.root)
    }
}

/// A directory in memory where there is one: a process that dies loses nothing it wrote either way,
/// and syncing a disk hundreds of thousands of times tests only patience.
fn memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

pub(crate) fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

pub(crate) fn link(path: &Path, target: &str) {
    symlink(target, path).unwrap();
}

pub(crate) fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Everything beneath `root`.
pub(crate) fn snapshot(root: &Path) -> Snapshot {
    let mut held = Snapshot::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let what = self::held(&path);
            if let Held::Directory(_) = what {
                waiting.push(path.clone());
            }
            held.insert(path.strip_prefix(root).unwrap().to_owned(), what);
        }
    }
    held
}

/// What is at `path`.
pub(crate) fn held(path: &Path) -> Held {
    let metadata = std::fs::symlink_metadata(path).unwrap();
    let bits = metadata.permissions().mode() & 0o7777;
    if metadata.is_dir() {
        Held::Directory(bits)
    } else if metadata.is_symlink() {
        Held::Link(std::fs::read_link(path).unwrap())
    } else {
        Held::File(bits, std::fs::read(path).unwrap())
    }
}

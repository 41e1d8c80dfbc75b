//! One stage, opened.

use super::beneath::{Tree, node_of};
use super::clock::Boot;
use super::diff::{Diff, DiffOptions};
use super::error::{StageError, failed};
use super::latest;
use super::name::StageName;
use super::path::TreePath;
use super::placeholders;
use super::record::{BaseMarker, Marks, Record, StageKind, take_marker_at_once};
use super::remove::is_empty;
use crate::launch::{Layers, LayersKind};
use airlock_core::{Digest, Timestamp};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(crate) const UPPER: &str = "upper";
pub(super) const WORK: &str = "work";
pub(super) const LOCK: &str = "lock";

/// A stage: where changes to one workspace are kept.
#[derive(Debug)]
pub struct Stage {
    name: StageName,
    place: PathBuf,
    directory: OwnedFd,
    record: Record,
    /// The beginning that the record on disk has: one that is noted beside it follows.
    recorded: BaseMarker,
    /// Whether its latest beginning is noted beside the record alone.
    beside: AtomicBool,
}

/// One sandbox's hold on a stage, until it is dropped. Two overlays on one upper layer would
/// corrupt each other.
#[derive(Debug)]
#[must_use = "a stage is claimed only as long as the claim is kept"]
pub struct Claim {
    _lock: File,
}

impl Stage {
    /// Opens the stage in `<stages>/<name>`, if it is there.
    pub(super) fn open(stages: &Path, name: &StageName) -> Result<Option<Self>, StageError> {
        let place = stages.join(name.as_str());
        let Some(directory) = open_directory(&place)? else {
            return Ok(None);
        };
        let record = Record::read(&directory, name)?;
        let mut stage = Self {
            name: name.clone(),
            place,
            directory,
            recorded: record.base,
            record,
            beside: AtomicBool::new(false),
        };
        stage.learn_latest();
        Ok(Some(stage))
    }

    /// Its name.
    pub const fn name(&self) -> &StageName {
        &self.name
    }

    /// The real tree.
    pub fn workspace(&self) -> &Path {
        self.record.workspace.as_path()
    }

    /// When it was created.
    pub const fn created(&self) -> Timestamp {
        self.record.created
    }

    /// How it holds changes.
    pub const fn kind(&self) -> StageKind {
        self.record.kind
    }

    /// Which attributes its overlay must be mounted to use.
    pub const fn marks(&self) -> Marks {
        self.record.marks
    }

    /// What takes the workspace's place in a sandbox.
    pub fn layers(&self) -> Layers {
        Layers {
            kind: match self.record.kind {
                StageKind::Overlay => LayersKind::Overlay,
                StageKind::Copy => LayersKind::Copy,
            },
            upper: self.place.join(UPPER),
            work: self.place.join(WORK),
            without: self.record.without.clone(),
        }
    }

    /// Names the moment it began, or last began anew: another digest, another beginning.
    pub fn base(&self) -> Digest {
        let Record { created, base, .. } = &self.record;
        let told = format!(
            "{}\n{}\n{}.{}",
            self.name.as_str(),
            created.as_micros(),
            base.stamp.seconds,
            base.stamp.nanoseconds
        );
        Digest::of(told.as_bytes())
    }

    /// Takes the stage for one sandbox.
    ///
    /// A stage that holds no changes yet begins anew: what was changed in the real tree before now
    /// is what the sandbox will see and no conflict.
    pub fn claim(&mut self) -> Result<Claim, StageError> {
        let lock = lock(&self.directory, &self.place, &self.name)?;
        // Whoever had it since it was opened here may have noted something.
        self.record = Record::read(&self.directory, &self.name)?;
        self.recorded = self.record.base;
        self.learn_latest();
        if self.kind() == StageKind::Copy {
            // Whoever made them is gone, or this would still be claimed.
            placeholders::remove(&self.changed_tree()?, &self.work_tree()?)
                .map_err(|source| self.not_tidied(source))?;
        }
        self.begin_anew()?;
        Ok(lock)
    }

    /// The same for whoever took it before and used it for nothing yet.
    pub fn claim_again(&mut self, _: &Claim) -> Result<(), StageError> {
        self.begin_anew()
    }

    /// Whether the machine was started anew since something wrote to it that it may still hold.
    /// Nothing of that was forced to disk: unless the machine was shut down in order, files may be
    /// empty, torn or missing.
    pub fn is_suspect(&self) -> bool {
        let Record {
            written, outlived, ..
        } = &self.record;
        // Where one of them is not known, nothing speaks for it.
        let restarted = written.zip(Boot::current());
        *outlived || restarted.is_some_and(|(written, now)| written != now)
    }

    /// Whether a sandbox has it at this moment.
    pub fn in_use(&self) -> Result<bool, StageError> {
        let fail = |errno| failed("look at", self.place.join(LOCK))(errno);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.directory, LOCK, flags, Mode::empty()) {
            Ok(lock) => match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared) {
                Ok(()) => Ok(false),
                Err(Errno::WOULDBLOCK) => Ok(true),
                Err(errno) => Err(fail(errno)),
            },
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(fail(errno)),
        }
    }

    /// What the stage changed. Needs no claim.
    pub fn diff(&self, options: &DiffOptions) -> Result<Diff, StageError> {
        super::classify::diff(self, options)
    }

    /// Whether the real tree's file at `path` was changed after the stage began, or came or, if it
    /// is a copy, went since. What cannot be told counts as changed.
    pub fn is_newer(&self, path: &Path) -> Result<bool, StageError> {
        super::classify::is_newer(self, path)
    }

    /// Opens a file as the stage has it, to be merged. A link on the way, or in its place, fails.
    pub fn open_changed(&self, path: &Path) -> Result<File, StageError> {
        self.changed_tree()?
            .file(path)
            .map_err(failed("open", self.place.join(UPPER).join(path)))
    }

    pub(super) fn changed_tree(&self) -> Result<Tree, StageError> {
        Tree::open_in(&self.directory, UPPER).map_err(failed("open", self.place.join(UPPER)))
    }

    /// What stands in a copy only to be mounted on, and is no change.
    pub(super) fn placeholders(&self) -> Result<BTreeSet<TreePath>, StageError> {
        placeholders::standing(&self.changed_tree()?, &self.work_tree()?)
            .map_err(|source| self.not_tidied(source))
    }

    fn work_tree(&self) -> Result<Tree, StageError> {
        Tree::open_in(&self.directory, WORK).map_err(failed("open", self.place.join(WORK)))
    }

    fn not_tidied(&self, source: std::io::Error) -> StageError {
        StageError::Io {
            what: "tidy",
            path: self.place.clone(),
            source,
        }
    }

    pub(super) fn real_tree(&self) -> Result<Tree, StageError> {
        Tree::open(self.workspace()).map_err(failed("open", self.workspace()))
    }

    /// What tells changes of the real tree from before it began from those after; none where nothing
    /// does.
    pub(super) fn marker(&self) -> Option<BaseMarker> {
        let sure = (!self.record.unsure).then_some(self.record.base);
        sure.and_then(|base| base.by_now(self.workspace()))
    }

    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    pub(super) const fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    fn begin_anew(&mut self) -> Result<(), StageError> {
        if !self.is_unchanged()? || self.has_to_put_back() {
            return self.go_on();
        }
        self.forget_cut_off()?;
        // Every start of a sandbox comes through here, so nothing is waited for: an older marker,
        // should this one be lost with the machine, only finds more conflicts.
        let base = take_marker_at_once(self.workspace(), &self.place)?;
        let record = Record {
            written: Boot::current(),
            outlived: false,
            unsure: false,
            ..self.record.clone()
        };
        let is_all_else_noted = record == self.record;
        let record = Record { base, ..record };
        if is_all_else_noted && latest::write(&self.directory, self.recorded, base).is_ok() {
            self.record = record;
            *self.beside.get_mut() = true;
            return Ok(());
        }
        self.note(record)
    }

    /// Takes its latest beginning for its beginning, where that is not the record's.
    fn learn_latest(&mut self) {
        let latest = latest::read(&self.directory, self.recorded);
        *self.beside.get_mut() = latest.is_some();
        self.record.base = latest.unwrap_or(self.recorded);
    }

    /// Has its beginning in the record from the first change on: what is noted beside it counts only
    /// until the machine ends. Whoever calls this has the stage.
    pub(super) fn keep_beginning(&self) -> Result<(), StageError> {
        if !self.beside.load(Ordering::Relaxed) || self.is_unchanged()? {
            return Ok(());
        }
        self.record.write(&self.directory, &self.place, false)?;
        self.beside.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Whether a run was cut off here and what it had set aside may still come back.
    fn has_to_put_back(&self) -> bool {
        match self.unsettled() {
            Ok(None) => false,
            Ok(Some(aside)) => aside.paths().next().is_some(),
            Err(_) => true,
        }
    }

    /// Whether it is an overlay that holds nothing. A copy always holds something.
    fn is_unchanged(&self) -> Result<bool, StageError> {
        if self.record.kind == StageKind::Copy {
            return Ok(false);
        }
        let empty = is_empty(&self.changed_tree()?);
        empty.map_err(failed("read", self.place.join(UPPER)))
    }

    /// What it holds is as old as it is: what is known against it stays known.
    fn go_on(&mut self) -> Result<(), StageError> {
        let by_clock = self.record.kind == StageKind::Overlay;
        let record = Record {
            written: Boot::current().or(self.record.written),
            outlived: self.is_suspect(),
            unsure: self.record.unsure || (by_clock && self.marker().is_none()),
            ..self.record.clone()
        };
        if record == self.record && !*self.beside.get_mut() {
            return Ok(());
        }
        self.note(record)
    }

    fn note(&mut self, record: Record) -> Result<(), StageError> {
        record.write(&self.directory, &self.place, false)?;
        self.recorded = record.base;
        self.record = record;
        *self.beside.get_mut() = false;
        Ok(())
    }
}

/// The directory of a stage, if it is there.
pub(super) fn open_directory(place: &Path) -> Result<Option<OwnedFd>, StageError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(place, flags, Mode::empty()) {
        Ok(directory) => Ok(Some(directory)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(failed("open", place)(errno)),
    }
}

/// Takes the lock of the stage in `directory`.
pub(super) fn lock(
    directory: &OwnedFd,
    place: &Path,
    name: &StageName,
) -> Result<Claim, StageError> {
    let fail = |errno| failed("lock", place.join(LOCK))(errno);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o600);
    let fd = rustix::fs::openat(directory, LOCK, flags, mode).map_err(fail)?;
    let lock = File::from(fd);
    if !try_lock(&lock).map_err(fail)? {
        return Err(StageError::InUse {
            name: name.clone(),
            pid: holder(&lock),
        });
    }
    still_there(directory, place, name)?;
    Ok(Claim { _lock: lock })
}

/// The lock of a stage that was dropped protects nothing: its name may be another's by now.
fn still_there(directory: &OwnedFd, place: &Path, name: &StageName) -> Result<(), StageError> {
    let fail = |errno| failed("open", place)(errno);
    let ours = node_of(directory).map_err(fail)?;
    let named = Tree::open(place).and_then(node_of);
    match named {
        Ok(named) if named.inode == ours.inode => Ok(()),
        Ok(_) | Err(Errno::NOENT) => Err(StageError::Dropped(name.clone())),
        Err(errno) => Err(fail(errno)),
    }
}

/// Tries for half a second: someone may be looking whether it is taken, which takes it too, and who
/// had it keeps it for as long as a program that was being started meanwhile needs to begin.
fn try_lock(lock: &File) -> rustix::io::Result<bool> {
    for again in 1..9 {
        match rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(1 << again)),
            Err(errno) => return Err(errno),
        }
    }
    Ok(false)
}

/// Who holds a lock, by the kernel's own list: noting it in the file would cost every start a write.
fn holder(lock: &File) -> Option<u32> {
    let about = rustix::fs::fstat(lock).ok()?;
    let (major, minor) = (
        rustix::fs::major(about.st_dev),
        rustix::fs::minor(about.st_dev),
    );
    let file = format!("{major:02x}:{minor:02x}:{}", about.st_ino);
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", pid, place, ..] = words.as_slice() else {
            return None;
        };
        (*place == file).then(|| pid.parse().ok())?
    })
}

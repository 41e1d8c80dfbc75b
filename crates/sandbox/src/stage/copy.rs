//! Stages that are copies, for machines without overlay.
//!
//! What was copied is written down with the marks by which both the original and the copy are
//! recognised as unchanged, so that a diff reads only what was touched. A copy is bounded: beyond
//! the limits nothing is staged.

use super::beneath::{Node, NodeKind, Stamp, Tree, is_too_long, node_of};
use super::diff::{ConflictReason, RefusedReason};
use super::error::{StageError, failed};
use super::path::TreePath;
use super::record::write_whole;
use super::staged::Stage;
use super::store::Owner;
use super::walk::{Looked, Pair, Walk};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::File;
use std::io::{Read as _, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

const FILE: &str = "manifest.json";
/// The mode bits that are copied.
pub(super) const COPIED_BITS: u32 = 0o1777;

/// The most a copied stage may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyLimits {
    /// Files, directories and links.
    pub files: u64,
    /// Bytes in files, whether or not the file system shares them.
    pub bytes: u64,
}

impl CopyLimits {
    /// What most projects stay below without their build products.
    pub const USUAL: Self = Self {
        files: 50_000,
        bytes: 2 << 30,
    };
}

/// What stays the same as long as nobody touches a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    inode: u64,
    size: u64,
    modified: Stamp,
    changed: Stamp,
}

impl From<Node> for Identity {
    fn from(node: Node) -> Self {
        Self {
            inode: node.inode,
            size: node.size,
            modified: node.modified,
            changed: node.changed,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    path: TreePath,
    kind: NodeKind,
    mode: u32,
    real: Identity,
    copy: Identity,
}

/// What was copied.
#[derive(Debug)]
pub(super) struct Manifest(BTreeMap<TreePath, Entry>);

impl Manifest {
    pub(super) fn read(stage: &Stage) -> Result<Self, StageError> {
        let damaged = |why: String| StageError::Damaged {
            name: stage.name().clone(),
            why: format!("`{FILE}`: {why}"),
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(stage.directory(), FILE, flags, Mode::empty())
            .map_err(|errno| damaged(errno.to_string()))?;
        let mut bytes = Vec::new();
        File::from(fd)
            .read_to_end(&mut bytes)
            .map_err(|error| damaged(error.to_string()))?;
        let entries: Vec<Entry> =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        let entries = entries.into_iter().map(|entry| (entry.path.clone(), entry));
        Ok(Self(entries.collect()))
    }

    /// What happened to the original since it was copied.
    pub(super) fn judge(&self, pair: &Pair) -> Option<ConflictReason> {
        match (self.0.get(&pair.path), pair.old) {
            (None, None) => None,
            (None, Some(_)) => Some(ConflictReason::Appeared),
            (Some(_), None) => Some(ConflictReason::Vanished),
            (Some(entry), Some(old)) => {
                let same = if entry.kind == NodeKind::Directory {
                    // Its other marks change with every entry put into it.
                    old.kind == entry.kind && old.mode == entry.mode
                } else {
                    old.kind == entry.kind && Identity::from(old) == entry.real
                };
                (!same).then_some(ConflictReason::Changed)
            }
        }
    }
}

impl Manifest {
    /// Whether something was copied from `path`.
    pub(super) fn holds(&self, path: &TreePath) -> bool {
        self.0.contains_key(path)
    }

    /// What is not as it was copied, a directory before what is in it.
    pub(super) fn changed(&self, upper: &Tree) -> Vec<TreePath> {
        let same = |entry: &&Entry| match upper.node(entry.path.as_path()) {
            Ok(Some(node)) => node.kind == entry.kind && entry.copy == Identity::from(node),
            Ok(None) | Err(_) => false,
        };
        let changed = self.0.values().filter(|entry| !same(entry));
        changed.map(|entry| entry.path.clone()).collect()
    }

    /// Notes what was copied again, once nothing of it is changed any more.
    pub(super) fn renew(
        &mut self,
        stage: &Stage,
        upper: &Tree,
        again: Vec<(TreePath, Node)>,
    ) -> Result<(), StageError> {
        if again.is_empty() {
            return Ok(());
        }
        for (path, real) in again {
            self.0.insert(path.clone(), note(upper, path, real)?);
        }
        let failed = |source| StageError::Io {
            what: "write",
            path: stage.place().join(FILE),
            source,
        };
        let entries: Vec<&Entry> = self.0.values().collect();
        let bytes = serde_json::to_vec(&entries).map_err(|error| failed(error.into()))?;
        write_whole(stage.directory(), FILE, &bytes, true).map_err(failed)
    }

    /// Whether a directory is another than the one that was copied.
    pub(super) fn directory_moved(&self, path: &TreePath, old: Node) -> bool {
        let copied = self.0.get(path);
        copied.is_some_and(|entry| entry.real.inode != old.inode)
    }
}

impl Walk<'_> {
    /// Walks a copied tree, past what stands there and is `no_change`.
    pub(super) fn copy(
        &mut self,
        manifest: &Manifest,
        no_change: &BTreeSet<TreePath>,
    ) -> Result<(), StageError> {
        // Special bits are not copied.
        self.kept_bits = COPIED_BITS;
        let mut seen = HashSet::new();
        let mut pending = vec![TreePath::default()];
        while let Some(directory) = pending.pop() {
            let names = match self.upper.names(directory.as_path()) {
                Ok(names) => names,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(errno) => {
                    // What is in it is unknown, so that none of it may count as deleted.
                    let hidden = manifest.0.range(&directory..).map(|(path, _)| path);
                    seen.extend(hidden.take_while(|path| within(path, &directory)));
                    self.refuse_unless_broken(&directory, errno)?;
                    continue;
                }
            };
            for name in names {
                let path = directory.join(&name);
                if no_change.contains(&path) {
                    continue;
                }
                if self.copied_entry(&path, manifest)? {
                    pending.push(path.clone());
                }
                if let Some((path, _)) = manifest.0.get_key_value(&path) {
                    seen.insert(path);
                }
            }
        }
        let mut gone: Option<&TreePath> = None;
        for path in manifest.0.keys().filter(|path| !seen.contains(path)) {
            if gone.is_none_or(|gone| !within(path, gone)) {
                self.deleted(path)?;
                gone = Some(path);
            }
        }
        Ok(())
    }

    /// Looks at one entry of the copy; says whether it is a directory to be walked.
    fn copied_entry(&mut self, path: &TreePath, manifest: &Manifest) -> Result<bool, StageError> {
        self.count()?;
        self.visited += 1;
        if is_too_long(path.as_path()) {
            self.refuse(path, RefusedReason::PathTooLong);
            return Ok(false);
        }
        let new = match self.upper.node(path.as_path()) {
            Ok(Some(new)) => new,
            Ok(None) => return Ok(false),
            Err(errno) => return self.refuse_unless_broken(path, errno).map(|()| false),
        };
        let untouched = manifest
            .0
            .get(path)
            .is_some_and(|entry| entry.kind == new.kind && entry.copy == Identity::from(new));
        if !untouched && let Looked::Found(old) = self.look_below(path)? {
            self.add(Pair {
                path: path.clone(),
                old,
                new: Some(new),
                copied: None,
            });
        }
        self.open_up(path, new)?;
        Ok(new.kind == NodeKind::Directory)
    }
}

fn within(path: &TreePath, directory: &TreePath) -> bool {
    path.as_path().starts_with(directory.as_path())
}

/// How a workspace is copied.
pub(super) struct Copying<'a> {
    pub(super) owner: Owner,
    pub(super) limits: CopyLimits,
    /// Whether something, with all that is in it, is not copied.
    pub(super) leave_out: &'a dyn Fn(&TreePath) -> bool,
}

/// Copies the workspace into `upper` and writes down what was copied.
pub(super) fn copy_workspace(
    real: &Tree,
    upper: &Tree,
    stage: &Tree,
    copying: &Copying<'_>,
    place: &Path,
) -> Result<(), StageError> {
    let root = rustix::process::geteuid().is_root();
    let mut copy = Copy {
        real,
        upper,
        owner: root.then_some(copying.owner),
        limits: copying.limits,
        leave_out: copying.leave_out,
        files: 0,
        bytes: 0,
        done: Vec::new(),
    };
    copy.tree()?;
    let entries = copy.finish()?;
    let failed = |source| StageError::Io {
        what: "write",
        path: place.join(FILE),
        source,
    };
    let bytes = serde_json::to_vec(&entries).map_err(|error| failed(error.into()))?;
    write_whole(stage, FILE, &bytes, true).map_err(failed)
}

struct Copy<'a> {
    real: &'a Tree,
    upper: &'a Tree,
    owner: Option<Owner>,
    limits: CopyLimits,
    leave_out: &'a dyn Fn(&TreePath) -> bool,
    files: u64,
    bytes: u64,
    done: Vec<(TreePath, Node)>,
}

impl Copy<'_> {
    fn tree(&mut self) -> Result<(), StageError> {
        let mut pending = vec![TreePath::default()];
        while let Some(directory) = pending.pop() {
            let names = self.real.names(directory.as_path());
            for name in names.map_err(|errno| not_copied(&directory, errno))? {
                let path = directory.join(&name);
                if (self.leave_out)(&path) {
                    continue;
                }
                let node = match self.real.node(path.as_path()) {
                    Ok(Some(node)) => node,
                    Ok(None) => continue,
                    Err(errno) => return Err(not_copied(&path, errno)),
                };
                if self.entry(&path, node)? {
                    pending.push(path);
                }
            }
        }
        Ok(())
    }

    /// Copies one entry; says whether it is a directory to be filled.
    fn entry(&mut self, path: &TreePath, node: Node) -> Result<bool, StageError> {
        self.account(1, 0)?;
        let fail = |errno| not_copied(path, errno);
        match node.kind {
            NodeKind::Directory => {
                let private = Mode::from_raw_mode(0o700);
                rustix::fs::mkdirat(self.upper, path.as_path(), private).map_err(fail)?;
            }
            NodeKind::Symlink => {
                let target = self.real.target(path.as_path()).map_err(fail)?;
                rustix::fs::symlinkat(target.as_path(), self.upper, path.as_path())
                    .map_err(fail)?;
            }
            NodeKind::File => return self.file(path).map(|()| false),
            // Nothing a sandbox could use: whoever listens on it is outside.
            NodeKind::Fifo | NodeKind::Socket | NodeKind::Device => return Ok(false),
        }
        self.done.push((path.clone(), node));
        Ok(node.kind == NodeKind::Directory)
    }

    fn file(&mut self, path: &TreePath) -> Result<(), StageError> {
        let fail = |errno| not_copied(path, errno);
        let from = self.real.file(path.as_path()).map_err(fail)?;
        // Taken before it is read: a change while it is copied is a change after.
        let node = node_of(&from).map_err(fail)?;
        self.account(0, node.size)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let private = Mode::from_raw_mode(0o600);
        let to = rustix::fs::openat(self.upper, path.as_path(), flags, private).map_err(fail)?;
        let to = fill(from, to, node.size, path)?;
        let modified = Timespec {
            tv_sec: node.modified.seconds,
            tv_nsec: node.modified.nanoseconds.into(),
        };
        let times = Timestamps {
            last_access: modified,
            last_modification: modified,
        };
        rustix::fs::futimens(&to, &times).map_err(fail)?;
        self.done.push((path.clone(), node));
        Ok(())
    }

    fn account(&mut self, files: u64, bytes: u64) -> Result<(), StageError> {
        self.files += files;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.files > self.limits.files || self.bytes > self.limits.bytes {
            return Err(StageError::TooLargeToCopy {
                files: self.files,
                bytes: self.bytes,
                most_files: self.limits.files,
                most_bytes: self.limits.bytes,
            });
        }
        Ok(())
    }

    /// Gives everything its owner and mode, a directory after what is in it, and notes the result.
    fn finish(self) -> Result<Vec<Entry>, StageError> {
        let mut entries = Vec::with_capacity(self.done.len());
        for (path, real) in self.done.into_iter().rev() {
            let fail = |errno| failed("copy", path.as_path())(errno);
            if let Some(owner) = self.owner {
                let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                rustix::fs::chownat(self.upper, path.as_path(), Some(uid), Some(gid), flags)
                    .map_err(fail)?;
            }
            if real.kind != NodeKind::Symlink {
                let mode = Mode::from_raw_mode(real.mode & COPIED_BITS);
                rustix::fs::chmodat(self.upper, path.as_path(), mode, AtFlags::empty())
                    .map_err(fail)?;
            }
            entries.push((path, real));
        }
        let upper = self.upper;
        entries
            .into_iter()
            .map(|(path, real)| note(upper, path, real))
            .collect()
    }
}

/// Shares the content where the file system can, copies it where not.
fn fill(from: File, to: OwnedFd, size: u64, path: &TreePath) -> Result<File, StageError> {
    let shared = rustix::fs::ioctl_ficlone(&to, &from).is_ok();
    let mut to = File::from(to);
    if !shared {
        // A file that grows while it is copied is a change after; its first part will do.
        let copied = std::io::copy(&mut from.take(size), &mut to).and_then(|_| to.flush());
        copied.map_err(|source| StageError::Io {
            what: "copy",
            path: path.as_path().to_owned(),
            source,
        })?;
    }
    Ok(to)
}

/// Notes an entry once nothing of it is changed any more.
fn note(upper: &Tree, path: TreePath, real: Node) -> Result<Entry, StageError> {
    let copy = upper
        .node(path.as_path())
        .and_then(|node| node.ok_or(Errno::NOENT))
        .map_err(failed("copy", path.as_path()))?;
    Ok(Entry {
        kind: real.kind,
        mode: real.mode,
        real: real.into(),
        copy: copy.into(),
        path,
    })
}

fn not_copied(path: &TreePath, errno: Errno) -> StageError {
    let why = match errno {
        Errno::ACCESS | Errno::PERM => "it may not be read",
        Errno::XDEV => "something is mounted there",
        Errno::NAMETOOLONG => "its path is too long",
        errno => return failed("copy", path.as_path())(errno),
    };
    StageError::NotCopied {
        path: path.clone(),
        why,
    }
}

//! Whether what a policy was loaded from is still what it was, told without reading it.
//!
//! Guarantee: a file that is replaced, written, added or removed where files are approved is
//! noticed by the next call, up to so many files; and so is another record of approvals.
//! Non-guarantee: this says that something may have changed, and never that it is as approved: that
//! is for whoever reads and compares it. Beyond that number a file that is written in place is
//! noticed when it is used or when a kernel is opened.

use crate::workspace::{
    CONFIG_FILE, DEFINITION_DIRS, PLUGINS_DIR, POLICY_FILE, TrustStore, Workspace,
};
use std::collections::BTreeSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How coarse the times of files may be: what was changed twice within this looks the same.
const COARSE: Duration = Duration::from_millis(20);
/// Most paths that are looked at: it is done for every call.
const WATCHED: usize = 64;

/// What tells one state of a file from another, other than its content. Its time of change is not
/// for whoever writes it to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    file: (u64, u64),
    bytes: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl Seen {
    pub(crate) fn of(path: &Path) -> Option<Self> {
        // Of the name itself: what a symlink leads to is not approved.
        let found = std::fs::symlink_metadata(path).ok()?;
        Some(Self::told_by(&found))
    }

    /// The same of what a symlink leads to: for files that are the person's own.
    pub(crate) fn through(path: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        Some(Self::told_by(&found))
    }

    fn told_by(found: &Metadata) -> Self {
        Self {
            file: (found.dev(), found.ino()),
            bytes: found.size(),
            written: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }

    /// Whether it changed so shortly before or after `now` that another change may not show.
    pub(crate) fn is_fresh(&self, now: SystemTime) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let since = |part: i64| u64::try_from(part).unwrap_or_default();
        let changed =
            Duration::from_secs(since(seconds)) + Duration::from_nanos(since(nanoseconds));
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        now.abs_diff(changed) < COARSE
    }
}

/// The record of approvals, the files it is about and the directories they are in, as they stood.
#[derive(Debug)]
pub(crate) struct Stamp {
    seen: Vec<(PathBuf, Option<Seen>)>,
    /// Something had only just changed: it has to be looked at again.
    fresh: bool,
}

impl Stamp {
    /// Taken before anything is read: what changes meanwhile is noticed afterwards.
    pub(crate) fn of(workspace: &Workspace) -> Self {
        let record = workspace.state().trust();
        let mut seen = vec![(record.clone(), Seen::of(&record))];
        let approved = TrustStore::new(workspace).approved().unwrap_or_default();
        let root = Path::new(workspace.root().path());
        for path in watched(approved.keys().map(String::as_str)) {
            let (place, direct) = (root.join(path), path.matches('/').count() == 1);
            let now = Seen::of(&place);
            // Whoever makes what is not there changes the directory above, which was seen before.
            if now.is_some() || !(direct && path.starts_with(".airlock/")) {
                seen.push((place, now));
            }
        }
        let now = SystemTime::now();
        let mut known = seen.iter().filter_map(|(_, seen)| *seen);
        let fresh = known.any(|seen| seen.is_fresh(now));
        Self { seen, fresh }
    }

    /// Whether `other` was taken with the same record of approvals.
    pub(crate) fn has_record_of(&self, other: &Self) -> bool {
        self.seen.first() == other.seen.first()
    }

    /// Whether everything is as it stood.
    pub(crate) fn holds(&self) -> bool {
        let same = |(path, seen): &(PathBuf, Option<Seen>)| Seen::of(path) == *seen;
        !self.fresh && self.seen.iter().all(same)
    }
}

/// What is looked at: the policy, directories, then files, those of plugins last: what they run is
/// compared with its digest when it starts.
fn watched<'a>(approved: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let (mut directories, mut files) = (BTreeSet::new(), Vec::new());
    for file in approved {
        let mut within = file;
        while let Some((directory, _)) = within.rsplit_once('/') {
            // Elsewhere others work: there a file is looked at, and not what stands beside it.
            if Path::new(directory).starts_with(".airlock") {
                directories.insert(directory);
            }
            within = directory;
        }
        files.push(file);
    }
    let of_plugins = |file: &str| Path::new(file).starts_with(PLUGINS_DIR);
    files.sort_by_key(|file| of_plugins(file));
    let own = [".airlock", POLICY_FILE, CONFIG_FILE, PLUGINS_DIR];
    let own = own.into_iter().chain(DEFINITION_DIRS);
    let mut all: Vec<&str> = Vec::new();
    for path in own.chain(directories).chain(files) {
        if all.len() < WATCHED && !all.contains(&path) {
            all.push(path);
        }
    }
    all
}

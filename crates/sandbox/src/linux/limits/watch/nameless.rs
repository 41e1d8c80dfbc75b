//! What a sandbox keeps on disk without a name: files it unlinked, or never named, and still holds.
//!
//! Looked for is every descriptor and every mapping of every thread: each thread may have
//! descriptors of its own. Reads only; processes may vanish.

use super::{Tree, read_into};
use rustix::fs::statfs;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What the system calls a file system in memory.
const TMPFS: u64 = 0x0102_1994;
/// What the system puts behind the name of a file that has none any more.
const GONE: &[u8] = b" (deleted)";

/// Files without a name that a sandbox holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Nameless {
    /// What those take that are held open.
    pub bytes: u64,
    /// There may be more, and how much cannot be told: held by a mapping alone, on its way through a
    /// socket, or by a process that cannot be looked at.
    pub is_more: bool,
}

impl Tree {
    /// What it holds on disk without a name; of mappings, what lay in `places`, which it can write.
    pub(crate) fn nameless(&self, places: &[PathBuf]) -> io::Result<Nameless> {
        let devices = places.iter().filter_map(|place| fs::metadata(place).ok());
        let mut search = Search {
            devices: devices.map(|looked| looked.dev()).collect(),
            places,
            known: BTreeSet::new(),
            found: Nameless::default(),
        };
        let mut tasks = Vec::new();
        // Init is ours.
        for one in self.processes()?.iter().skip(1) {
            let all = fs::read_dir(self.proc.join(format!("{}/task", one.pid)));
            tasks.extend(all.into_iter().flatten().flatten().map(|task| task.path()));
        }
        for task in &tasks {
            search.descriptors(task);
        }
        // After them: what is held open as well has been counted.
        for task in &tasks {
            search.mappings(task);
        }
        Ok(search.found)
    }
}

struct Search<'a> {
    devices: BTreeSet<u64>,
    places: &'a [PathBuf],
    /// The files that were counted.
    known: BTreeSet<u64>,
    found: Nameless,
}

impl Search<'_> {
    fn descriptors(&mut self, task: &Path) {
        let all = match fs::read_dir(task.join("fd")) {
            Ok(all) => all,
            Err(error) => return self.hidden(&error),
        };
        for path in all.flatten().map(|one| one.path()) {
            let target = fs::read_link(&path).unwrap_or_default();
            let target = target.as_os_str().as_bytes();
            if target.starts_with(b"socket:") {
                self.found.is_more |= sends(task, path.file_name().unwrap_or_default());
            } else if target.ends_with(GONE) && !target.starts_with(b"/memfd:") {
                self.count(&path);
            }
        }
    }

    fn count(&mut self, path: &Path) {
        let Ok(looked) = fs::metadata(path) else {
            return;
        };
        // What is in memory is counted as memory, unless that is where its data lies.
        let in_memory =
            || statfs(path).is_ok_and(|system| u64::try_from(system.f_type) == Ok(TMPFS));
        let is_one = looked.is_file() && looked.nlink() == 0;
        if is_one && (self.devices.contains(&looked.dev()) || !in_memory()) {
            let is_new = self.known.insert(looked.ino());
            let bytes = if is_new { looked.blocks() * 512 } else { 0 };
            self.found.bytes = self.found.bytes.saturating_add(bytes);
        }
    }

    fn mappings(&mut self, task: &Path) {
        let mut text = Vec::new();
        if let Err(error) = read_into(&task.join("maps"), &mut text) {
            return self.hidden(&error);
        }
        for line in text.split(|byte| *byte == b'\n') {
            let Some(path) = line.strip_suffix(GONE) else {
                continue;
            };
            // Addresses, rights, offset, device and number stand before the path.
            let mut fields = path.splitn(6, |byte| *byte == b' ').skip(4);
            let number = fields
                .next()
                .and_then(|number| std::str::from_utf8(number).ok());
            let number = number.and_then(|number| number.parse().ok());
            let path = fields.next().unwrap_or_default().trim_ascii_start();
            let is_ours = |place: &PathBuf| Path::new(OsStr::from_bytes(path)).starts_with(place);
            let is_counted = number.is_some_and(|number| self.known.contains(&number));
            self.found.is_more |= !is_counted && self.places.iter().any(is_ours);
        }
    }

    fn hidden(&mut self, error: &io::Error) {
        self.found.is_more |= error.kind() == io::ErrorKind::PermissionDenied;
    }
}

/// Whether descriptors are on their way through a socket.
fn sends(task: &Path, descriptor: &OsStr) -> bool {
    let mut text = Vec::new();
    let path = task.join("fdinfo").join(descriptor);
    if read_into(&path, &mut text).is_err() {
        return false;
    }
    let text = String::from_utf8_lossy(&text);
    let mut counts = text
        .lines()
        .filter_map(|line| line.strip_prefix("scm_fds:"));
    counts.any(|count| count.trim().parse::<u64>().is_ok_and(|count| count > 0))
}

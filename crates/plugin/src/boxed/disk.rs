//! Watches the disk a plugin takes.
//!
//! No ordinary user can have the file system hold a directory to a size, so the directories are
//! looked at again and again: the sooner, the less room is left, so that what is written between
//! two looks is bounded by what a disk can do in that time. Looking costs little of a processor: the
//! more there is to look at, the longer the pause. What else the machine does makes no pause longer.
//!
//! What a plugin hides counts as well: files without a name that it still holds are asked for, and a
//! directory it let nobody into ends it. What cannot be measured at all may last for a moment only.

use airlock_core::ByteSize;
use airlock_sandbox::Nameless;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The most between two looks, where looking takes no time.
const PAUSE: Duration = Duration::from_millis(250);
/// The least between two looks.
const LEAST: Duration = Duration::from_millis(10);
/// Bytes that may be written in a millisecond: a disk that takes 2 GB a second.
const PACE: u64 = 2_000_000;
/// The pause for each unit of a processor's time that a look took.
const PART: u32 = 20;
/// The deepest tree that is looked at; one that is deeper counts as over.
const DEPTH: usize = 128;
/// What a name costs, however little is in it.
const NAME: u64 = 512;
/// How long there may be something whose size cannot be told: descriptors on their way from one
/// process to another are nothing unusual, descriptors that never arrive are.
const UNTOLD: Duration = Duration::from_secs(1);

/// Directories that may take so much together.
#[derive(Debug)]
pub(super) struct Watched {
    directories: Vec<PathBuf>,
    most: ByteSize,
    /// Since when there is something whose size cannot be told.
    untold: Option<Instant>,
}

impl Watched {
    pub(super) fn new(directories: [&Path; 2], most: ByteSize) -> Self {
        // As the system names what lies in them.
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Self {
            directories: directories.map(real).into(),
            most,
            untold: None,
        }
    }

    /// Looks once, asking for what is held without a name. Gives how long to wait for the next look;
    /// none if there is too much.
    pub(super) fn look(
        &mut self,
        nameless: impl FnOnce(&[PathBuf]) -> Nameless,
    ) -> Option<Duration> {
        let spent_before = processor_time();
        let nameless = nameless(&self.directories);
        let begun = Instant::now();
        self.untold = nameless.is_more.then(|| self.untold.unwrap_or(begun));
        if self
            .untold
            .is_some_and(|since| begun.duration_since(since) >= UNTOLD)
        {
            return None;
        }
        let mut room = self.most.as_bytes().checked_sub(nameless.bytes)?;
        for directory in &self.directories {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            match rustix::fs::open(directory, flags, Mode::empty()) {
                Ok(directory) => room = take(&directory, room, DEPTH)?,
                Err(error) => is_nothing(error)?,
            }
        }
        let until_full = Duration::from_millis(room / PACE);
        let spent = processor_time().saturating_sub(spent_before);
        Some(until_full.clamp(LEAST, PAUSE).max(spent * PART))
    }
}

/// What this thread has had of a processor.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// What is left of `room` after everything in `directory`; none if it is not enough.
fn take(directory: &OwnedFd, mut room: u64, depth: usize) -> Option<u64> {
    let entries = match Dir::read_from(directory) {
        Ok(entries) => entries,
        Err(error) => return is_nothing(error).map(|()| room),
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.to_bytes() == b"." || name.to_bytes() == b".." {
            continue;
        }
        let status = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => status,
            Err(error) => {
                is_nothing(error)?;
                continue;
            }
        };
        let blocks = u64::try_from(status.st_blocks).unwrap_or(u64::MAX);
        room = room.checked_sub(blocks.saturating_mul(512).saturating_add(NAME))?;
        if FileType::from_raw_mode(status.st_mode) == FileType::Directory {
            let depth = depth.checked_sub(1)?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat(directory, name, flags, Mode::empty()) {
                Ok(inner) => room = take(&inner, room, depth)?,
                Err(error) => is_nothing(error)?,
            }
        }
    }
    Some(room)
}

/// Some if what could not be looked at takes nothing that could be counted: it vanished, became
/// something else, or it is we who are short of something for a moment. What is closed to its own
/// user was closed by the plugin.
const fn is_nothing(error: Errno) -> Option<()> {
    match error {
        Errno::ACCESS | Errno::PERM => None,
        _ => Some(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn nothing(_: &[PathBuf]) -> Nameless {
        Nameless::default()
    }

    fn untold(_: &[PathBuf]) -> Nameless {
        Nameless {
            bytes: 0,
            is_more: true,
        }
    }

    #[test]
    fn bytes_names_and_depth_all_count_and_links_lead_nowhere() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut watched = Watched::new([one.path(), two.path()], ByteSize::from_bytes(1 << 20));
        assert!(watched.look(nothing).is_some());
        std::os::unix::fs::symlink("/usr", one.path().join("link")).unwrap();
        assert!(watched.look(nothing).is_some());
        fs::create_dir(one.path().join("d")).unwrap();
        fs::write(one.path().join("d/half"), vec![1; 600 << 10]).unwrap();
        assert!(watched.look(nothing).is_some());
        fs::write(two.path().join("rest"), vec![1; 600 << 10]).unwrap();
        assert_eq!(watched.look(nothing), None);
        fs::remove_file(two.path().join("rest")).unwrap();
        let nameless = |bytes| {
            move |_: &[PathBuf]| Nameless {
                bytes,
                is_more: false,
            }
        };
        assert!(watched.look(nameless(100 << 10)).is_some());
        assert_eq!(watched.look(nameless(600 << 10)), None);
        for number in 0..2_000 {
            fs::write(two.path().join(number.to_string()), "").unwrap();
        }
        assert_eq!(watched.look(nothing), None);
    }

    #[test]
    fn what_cannot_be_told_may_last_for_a_moment_only() {
        let place = tempfile::tempdir().unwrap();
        let mut watched = Watched::new([place.path(); 2], ByteSize::from_bytes(1 << 20));
        assert!(watched.look(untold).is_some());
        watched.untold = watched.untold.and_then(|since| since.checked_sub(UNTOLD));
        assert_eq!(watched.look(untold), None);
        // It arrived meanwhile: whatever is on its way next has its own moment.
        assert!(watched.look(nothing).is_some());
        assert!(watched.look(untold).is_some());
    }
}

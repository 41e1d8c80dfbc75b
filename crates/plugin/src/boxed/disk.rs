//! Watches the disk a plugin takes.
//!
//! No ordinary user can have the file system hold a directory to a size, so the directories are
//! looked at again and again: the sooner, the less room is left, so that what is written between
//! two looks is bounded by what a disk can do in that time. Looking costs little of the time: the
//! more there is to look at, the longer the pause.

use airlock_core::ByteSize;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The most between two looks, where looking takes no time.
const PAUSE: Duration = Duration::from_millis(250);
/// The least between two looks.
const LEAST: Duration = Duration::from_millis(10);
/// Bytes that may be written in a millisecond: a disk that takes 2 GB a second.
const PACE: u64 = 2_000_000;
/// The pause for each unit of time a look took.
const PART: u32 = 20;
/// The deepest tree that is looked at; one that is deeper counts as over.
const DEPTH: usize = 128;
/// What a name costs, however little is in it.
const NAME: u64 = 512;

/// Directories that may take so much together.
#[derive(Debug)]
pub(super) struct Watched {
    directories: Vec<PathBuf>,
    most: ByteSize,
}

impl Watched {
    pub(super) fn new(directories: [&Path; 2], most: ByteSize) -> Self {
        Self {
            directories: directories.map(Path::to_owned).into(),
            most,
        }
    }

    /// Looks once. Gives how long to wait for the next look; none if there is too much.
    pub(super) fn look(&self) -> Option<Duration> {
        let begun = Instant::now();
        let mut room = self.most.as_bytes();
        for directory in &self.directories {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            if let Ok(directory) = rustix::fs::open(directory, flags, Mode::empty()) {
                room = take(&directory, room, DEPTH)?;
            }
        }
        let until_full = Duration::from_millis(room / PACE);
        Some(until_full.clamp(LEAST, PAUSE).max(begun.elapsed() * PART))
    }
}

/// What is left of `room` after everything in `directory`; none if it is not enough.
fn take(directory: &OwnedFd, mut room: u64, depth: usize) -> Option<u64> {
    // What vanishes or cannot be opened while it is looked at takes nothing we could count.
    let Ok(entries) = Dir::read_from(directory) else {
        return Some(room);
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.to_bytes() == b"." || name.to_bytes() == b".." {
            continue;
        }
        let Ok(status) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        let blocks = u64::try_from(status.st_blocks).unwrap_or(u64::MAX);
        room = room.checked_sub(blocks.saturating_mul(512).saturating_add(NAME))?;
        if FileType::from_raw_mode(status.st_mode) == FileType::Directory {
            let depth = depth.checked_sub(1)?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            if let Ok(inner) = openat(directory, name, flags, Mode::empty()) {
                room = take(&inner, room, depth)?;
            }
        }
    }
    Some(room)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn bytes_names_and_depth_all_count_and_links_lead_nowhere() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let watched = Watched::new([one.path(), two.path()], ByteSize::from_bytes(1 << 20));
        assert!(watched.look().is_some());
        std::os::unix::fs::symlink("/usr", one.path().join("link")).unwrap();
        assert!(watched.look().is_some());
        fs::create_dir(one.path().join("d")).unwrap();
        fs::write(one.path().join("d/half"), vec![1; 600 << 10]).unwrap();
        assert!(watched.look().is_some());
        fs::write(two.path().join("rest"), vec![1; 600 << 10]).unwrap();
        assert_eq!(watched.look(), None);
        fs::remove_file(two.path().join("rest")).unwrap();
        for number in 0..2_000 {
            fs::write(two.path().join(number.to_string()), "").unwrap();
        }
        assert_eq!(watched.look(), None);
    }
}

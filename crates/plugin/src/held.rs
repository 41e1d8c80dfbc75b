//! Directories that a process has for as long as it lives.
//!
//! Each is locked by whoever made it. What a process left that was killed is locked by nobody, and
//! whoever looks next removes it. It gets the name it is found by only once it is locked, so that no
//! one takes it for such a leftover while it is being made.

use crate::manager::remove_plugin_directory;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock, fstat};
use rustix::io::Errno;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What one that was not finished is called at the end.
const NEW: &str = ".new";
/// After this time nobody finishes it any more.
const UNFINISHED: Duration = Duration::from_hours(1);

/// A directory that is this process's own. Dropped, it is removed.
#[derive(Debug)]
pub struct HeldDirectory {
    path: PathBuf,
    _lock: OwnedFd,
}

impl HeldDirectory {
    /// Makes `name` in `place`, which nobody but this user can enter.
    pub fn make(place: &Path, name: &str) -> io::Result<Self> {
        let new = place.join(format!(".{name}{NEW}"));
        let path = place.join(name);
        DirBuilder::new().mode(0o700).create(&new)?;
        // Whoever looks whether it is a leftover has it for a moment.
        let made = locked(&new, FlockOperation::LockExclusive).and_then(|lock| {
            std::fs::rename(&new, &path)?;
            Ok(lock)
        });
        match made {
            Ok(lock) => Ok(Self { path, _lock: lock }),
            Err(error) => {
                let _removed = std::fs::remove_dir(&new);
                Err(error)
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes what processes that are gone left in `place` under names that begin with `prefix`. What
    /// cannot be removed now is tried again the next time.
    pub fn sweep(place: &Path, prefix: &str) {
        Self::sweep_after(place, prefix, UNFINISHED);
    }

    fn sweep_after(place: &Path, prefix: &str, unfinished: Duration) {
        for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let new = name
                .strip_prefix('.')
                .and_then(|name| name.strip_suffix(NEW));
            if !new.unwrap_or(name).starts_with(prefix) {
                continue;
            }
            let Ok(lock) = locked(&entry.path(), FlockOperation::NonBlockingLockExclusive) else {
                continue;
            };
            if new.is_none() || is_older(&lock, unfinished) {
                let _removed = remove_plugin_directory(&entry.path());
            }
        }
    }
}

impl Drop for HeldDirectory {
    fn drop(&mut self) {
        // What cannot be removed is swept away another time.
        let _removed = remove_plugin_directory(&self.path);
    }
}

/// A directory of this user's, locked as `how` says. No link is followed.
fn locked(path: &Path, how: FlockOperation) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty())?;
    let looked = fstat(&directory)?;
    let is_directory = FileType::from_raw_mode(looked.st_mode) == FileType::Directory;
    if !is_directory || looked.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Errno::PERM.into());
    }
    flock(&directory, how)?;
    Ok(directory)
}

fn is_older(directory: &OwnedFd, than: Duration) -> bool {
    let since = fstat(directory).ok().and_then(|looked| {
        let changed = u64::try_from(looked.st_ctime).ok()?;
        let changed = UNIX_EPOCH + Duration::from_secs(changed);
        SystemTime::now().duration_since(changed).ok()
    });
    since.is_some_and(|since| since >= than)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_what_nobody_has_is_swept_and_only_under_its_own_names() {
        let place = tempfile::tempdir().unwrap();
        let held = HeldDirectory::make(place.path(), "p-held").unwrap();
        fs::write(held.path().join("file"), "f").unwrap();
        for left in ["p-left/deep", ".p-half.new", "other", ".other.new"] {
            fs::create_dir_all(place.path().join(left)).unwrap();
        }
        fs::write(place.path().join("p-file"), "f").unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), place.path().join("p-link")).unwrap();
        let names = || {
            let names = fs::read_dir(place.path()).unwrap().flatten();
            let names = names.map(|entry| entry.file_name().into_string().unwrap());
            let mut names: Vec<String> = names.collect();
            names.sort();
            names
        };
        // Whoever makes it has just begun.
        HeldDirectory::sweep(place.path(), "p-");
        let rest = [
            ".other.new",
            ".p-half.new",
            "other",
            "p-file",
            "p-held",
            "p-link",
        ];
        assert_eq!(names(), rest);
        HeldDirectory::sweep_after(place.path(), "p-", Duration::ZERO);
        assert_eq!(
            names(),
            [".other.new", "other", "p-file", "p-held", "p-link"]
        );
        assert!(outside.path().exists() && held.path().join("file").exists());
        drop(held);
        assert_eq!(names(), [".other.new", "other", "p-file", "p-link"]);
    }

    #[test]
    fn nobody_takes_one_that_is_being_made() {
        let place = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            let sweeping = scope.spawn(|| {
                for _ in 0..2_000 {
                    HeldDirectory::sweep(place.path(), "p-");
                }
            });
            let mut number = 0;
            while !sweeping.is_finished() {
                number += 1;
                let held = HeldDirectory::make(place.path(), &format!("p-{number}")).unwrap();
                assert!(held.path().exists(), "{number}");
            }
        });
    }
}

//! Removes a directory that a plugin could write to, whatever it made of it, and whatever it makes
//! of it meanwhile.
//!
//! Guarantee: trees of any depth and directories nobody may enter go as well, in bounded memory and
//! with a handful of descriptors. Links are removed, not followed, even those that take the place of
//! a directory at this moment: everything is done by descriptors of directories that were opened
//! without following, so nothing outside is entered, changed or removed. Non-guarantee: that it is
//! gone, if something keeps writing to it or there is more than can be removed in half a minute; then
//! it ends with an error, and may be tried again.

use rustix::fs::{AtFlags, CWD, Dir, DirEntry, FileType, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// So often a directory that was just emptied may turn out not to be empty.
const DISTURBED: u32 = 1_000;
/// So long it goes on at most: whoever keeps making directories would never let it end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Removes `directory` with all that is in it. One that is not there is fine.
///
/// Each directory that is found is moved up to the top before it is looked into, so no path is ever
/// longer than two names and nothing here calls itself.
pub fn remove_plugin_directory(directory: &Path) -> io::Result<()> {
    remove_until(directory, Instant::now() + PATIENCE)
}

fn remove_until(directory: &Path, until: Instant) -> io::Result<()> {
    let top = match enter(CWD, directory) {
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTDIR | Errno::LOOP) => {
            unlink(CWD, directory)?;
            return Ok(());
        }
        other => other?,
    };
    let mut removal = Removal {
        top,
        moved: 0,
        disturbed: 0,
        until,
    };
    loop {
        if removal.round()? {
            continue;
        }
        match unlinkat(CWD, directory, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) => removal.is_disturbed()?,
            Err(error) => return Err(error.into()),
        }
    }
}

struct Removal {
    top: OwnedFd,
    moved: u64,
    disturbed: u32,
    until: Instant,
}

impl Removal {
    /// Removes what is at the top now, what lies in a directory there being moved to the top. Whether
    /// there was a directory, so that there may be others now.
    fn round(&mut self) -> io::Result<bool> {
        let mut had_directories = false;
        for entry in Dir::read_from(&self.top)? {
            let entry = entry?;
            let name = entry.file_name();
            if is_dots(name) {
                continue;
            }
            self.is_in_time()?;
            if !is_directory(&self.top, &entry)? {
                unlink(&self.top, name)?;
                continue;
            }
            match enter(&self.top, name) {
                Ok(inner) => {
                    had_directories = true;
                    self.empty(&inner)?;
                    self.remove(name)?;
                }
                Err(Errno::NOENT) => {}
                // Another took its place: what, the next look tells.
                Err(Errno::NOTDIR | Errno::LOOP) => unlink(&self.top, name)?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(had_directories)
    }

    /// Removes what is no directory from `place`, and moves what is one to the top.
    fn empty(&mut self, place: &OwnedFd) -> io::Result<()> {
        for entry in Dir::read_from(place)? {
            let entry = entry?;
            let name = entry.file_name();
            if is_dots(name) {
                continue;
            }
            self.is_in_time()?;
            if is_directory(place, &entry)? {
                self.lift(place, name)?;
            } else {
                unlink(place, name)?;
            }
        }
        Ok(())
    }

    fn lift(&mut self, place: &OwnedFd, name: &CStr) -> io::Result<()> {
        // A directory can only be moved by whoever may write to it.
        match enter(place, name) {
            Ok(_opened) => {}
            Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTDIR | Errno::LOOP) => return Ok(unlink(place, name)?),
            Err(error) => return Err(error.into()),
        }
        loop {
            self.moved += 1;
            let free = format!(".moved-{}", self.moved);
            match rustix::fs::renameat(place, name, &self.top, &*free) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                // Something has that name.
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR | Errno::ISDIR) => {
                    self.is_disturbed()?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Removes a directory at the top that was just emptied.
    fn remove(&mut self, name: &CStr) -> io::Result<()> {
        match unlinkat(&self.top, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => self.is_disturbed(),
            Err(error) => Err(error.into()),
        }
    }

    fn is_in_time(&self) -> io::Result<()> {
        if Instant::now() > self.until {
            return Err(still_written());
        }
        Ok(())
    }

    fn is_disturbed(&mut self) -> io::Result<()> {
        self.disturbed += 1;
        if self.disturbed > DISTURBED {
            return Err(still_written());
        }
        Ok(())
    }
}

fn still_written() -> io::Error {
    io::Error::new(
        io::ErrorKind::DirectoryNotEmpty,
        "it takes too long, maybe because something keeps writing to it",
    )
}

fn is_dots(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

fn is_directory(place: impl AsFd, entry: &DirEntry) -> io::Result<bool> {
    let known = entry.file_type();
    if known != FileType::Unknown {
        return Ok(known == FileType::Directory);
    }
    // Not every file system says it in its lists.
    match rustix::fs::statat(place, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(looked) => Ok(FileType::from_raw_mode(looked.st_mode) == FileType::Directory),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Unlinks what is no directory. What is one by now is left to the next look.
fn unlink(place: impl AsFd, name: impl Arg) -> rustix::io::Result<()> {
    match unlinkat(place, name, AtFlags::empty()) {
        Err(Errno::NOENT | Errno::ISDIR) => Ok(()),
        done => done,
    }
}

/// Opens a directory, never through a link, for its owner to list, change and move.
fn enter(place: impl AsFd, name: impl Arg + Copy) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || openat(place.as_fd(), name, flags, Mode::empty());
    let opened = match open() {
        Err(Errno::ACCESS) => {
            widen(place.as_fd(), name)?;
            open()?
        }
        other => other?,
    };
    // Whose it is does not matter as long as it can be emptied.
    let _widened = rustix::fs::fchmod(&opened, Mode::RWXU);
    Ok(opened)
}

/// Lets the owner into a directory that cannot even be opened for reading.
#[cfg(target_os = "linux")]
fn widen(place: impl AsFd, name: impl Arg) -> rustix::io::Result<()> {
    use std::os::fd::AsRawFd as _;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(place, name, flags, Mode::empty())?;
    let own = format!("/proc/self/fd/{}", directory.as_raw_fd());
    rustix::fs::chmod(own, Mode::RWXU)
}

#[cfg(not(target_os = "linux"))]
fn widen(place: impl AsFd, name: impl Arg) -> rustix::io::Result<()> {
    rustix::fs::chmodat(place, name, Mode::RWXU, AtFlags::SYMLINK_NOFOLLOW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::mkdirat;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A tree deeper than descriptors or paths reach.
    fn dig(top: &Path, depth: usize) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let mut at = openat(CWD, top, flags, Mode::empty()).unwrap();
        for _ in 0..depth {
            mkdirat(&at, "deep", Mode::RWXU).unwrap();
            at = openat(&at, "deep", flags, Mode::empty()).unwrap();
        }
    }

    #[test]
    fn deep_trees_closed_directories_and_links_all_go_and_nothing_else_does() {
        let place = tempfile::tempdir().unwrap();
        let (top, outside) = (place.path().join("top"), place.path().join("outside"));
        for directory in [
            top.join("closed/inner"),
            top.join(".moved-1"),
            outside.clone(),
        ] {
            fs::create_dir_all(directory).unwrap();
        }
        fs::write(outside.join("kept"), "k").unwrap();
        fs::write(top.join("closed/inner/file"), "f").unwrap();
        symlink(&outside, top.join("link")).unwrap();
        symlink(&outside, top.join("closed/link")).unwrap();
        for closed in ["closed/inner", "closed"] {
            fs::set_permissions(top.join(closed), Permissions::from_mode(0o000)).unwrap();
        }
        dig(&top, 6_000);
        remove_plugin_directory(&top).unwrap();
        assert!(fs::symlink_metadata(&top).is_err());
        assert!(outside.join("kept").exists());
        remove_plugin_directory(&top).unwrap();
        symlink(&outside, &top).unwrap();
        remove_plugin_directory(&top).unwrap();
        assert!(outside.join("kept").exists() && fs::symlink_metadata(&top).is_err());
    }

    #[test]
    fn what_takes_too_long_is_left_for_another_time() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().join("top");
        fs::create_dir_all(top.join("inner/most")).unwrap();
        let error = remove_until(&top, Instant::now()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::DirectoryNotEmpty);
        assert!(top.exists());
        remove_plugin_directory(&top).unwrap();
        assert!(!top.exists());
    }

    /// A directory outside with something in it, and whether it is as it was.
    fn outside(place: &Path) -> (std::path::PathBuf, impl Fn() -> bool) {
        let outside = place.join("outside");
        fs::create_dir_all(outside.join("inner")).unwrap();
        fs::write(outside.join("inner/kept"), "k").unwrap();
        let mode = Permissions::from_mode(0o751);
        fs::set_permissions(&outside, mode).unwrap();
        let there = outside.clone();
        let is_as_it_was = move || {
            let mode = fs::metadata(&there).unwrap().permissions().mode();
            mode & 0o777 == 0o751 && there.join("inner/kept").exists()
        };
        (outside, is_as_it_was)
    }

    #[test]
    fn links_at_every_level_are_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let (outside, is_as_it_was) = outside(place.path());
        let top = place.path().join("top");
        let mut at = top.clone();
        for level in 0..6 {
            fs::create_dir_all(&at).unwrap();
            symlink(&outside, at.join("link")).unwrap();
            symlink(outside.join("inner"), at.join(".moved-2")).unwrap();
            symlink(place.path(), at.join(format!("above-{level}"))).unwrap();
            at = at.join("down");
        }
        remove_plugin_directory(&top).unwrap();
        assert!(is_as_it_was() && fs::symlink_metadata(&top).is_err());
    }

    #[test]
    fn links_that_are_made_meanwhile_are_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let (outside, is_as_it_was) = outside(place.path());
        let top = place.path().join("top");
        for n in 0..300 {
            fs::create_dir_all(top.join(format!("d{n}/inner/most"))).unwrap();
        }
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in (0..300).rev().cycle().take(20_000) {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    // What it can still do depends on how far the removal is.
                    let _new = symlink(&outside, top.join(format!("l{n}")));
                    let _deep = symlink(&outside, top.join(format!("d{n}/link")));
                    let (from, to) = (top.join(format!("d{n}")), top.join(format!("e{n}")));
                    let _swapped = fs::rename(&from, &to).and_then(|()| symlink(&outside, &from));
                }
            });
            // It may be disturbed so often that it gives up.
            let _removed = remove_plugin_directory(&top);
            over.store(true, Ordering::Relaxed);
        });
        assert!(is_as_it_was());
        remove_plugin_directory(&top).unwrap();
        assert!(is_as_it_was() && fs::symlink_metadata(&top).is_err());
    }
}

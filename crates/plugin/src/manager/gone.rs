//! Removes a directory that a plugin could write to, whatever it made of it.
//!
//! Guarantee: trees of any depth and directories nobody may enter go as well, in bounded memory and
//! with a handful of descriptors; links are removed, not followed. Non-guarantee: nothing may write
//! to it meanwhile; whoever calls this knows that the plugin has ended.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Removes `directory` with all that is in it. One that is not there is fine.
///
/// Each directory that is found is moved up to the top before it is looked into, so no path is ever
/// longer than two names and nothing here calls itself.
pub fn remove_plugin_directory(directory: &Path) -> io::Result<()> {
    let looked = match fs::symlink_metadata(directory) {
        Ok(looked) => looked,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !looked.is_dir() {
        return fs::remove_file(directory);
    }
    open_up(directory)?;
    let mut moved = 0_u64;
    while empty(directory, directory, &mut moved)? {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            open_up(&path)?;
            empty(&path, directory, &mut moved)?;
            fs::remove_dir(&path)?;
        }
    }
    fs::remove_dir(directory)
}

/// Removes what is no directory from `place`, and moves what is one to the top. Whether there is a
/// directory at the top now.
fn empty(place: &Path, top: &Path, moved: &mut u64) -> io::Result<bool> {
    let mut has_directories = false;
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            has_directories = true;
            if place != top {
                // A directory can only be moved by whoever may write to it.
                open_up(&entry.path())?;
                fs::rename(entry.path(), free_name(top, moved))?;
            }
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(has_directories)
}

/// A name at the top that nothing has.
fn free_name(top: &Path, moved: &mut u64) -> PathBuf {
    loop {
        *moved += 1;
        let path = top.join(format!(".moved-{moved}"));
        if fs::symlink_metadata(&path).is_err() {
            return path;
        }
    }
}

fn open_up(directory: &Path) -> io::Result<()> {
    match fs::set_permissions(directory, Permissions::from_mode(0o700)) {
        // Whose it is does not matter as long as it can be emptied.
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => Err(error),
        Err(_) | Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

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
        std::os::unix::fs::symlink(&outside, top.join("link")).unwrap();
        std::os::unix::fs::symlink(&outside, top.join("closed/link")).unwrap();
        for closed in ["closed/inner", "closed"] {
            fs::set_permissions(top.join(closed), Permissions::from_mode(0o000)).unwrap();
        }
        dig(&top, 6_000);
        remove_plugin_directory(&top).unwrap();
        assert!(fs::symlink_metadata(&top).is_err());
        assert!(outside.join("kept").exists());
        remove_plugin_directory(&top).unwrap();
        std::os::unix::fs::symlink(&outside, &top).unwrap();
        remove_plugin_directory(&top).unwrap();
        assert!(outside.join("kept").exists() && fs::symlink_metadata(&top).is_err());
    }
}

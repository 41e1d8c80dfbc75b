//! A tree of many small files, always the same.

use crate::failure::Failure;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const FILES_IN_DIRECTORY: u32 = 100;
const DIRECTORIES_IN_PART: u32 = 100;

/// Fills `root` with `files` files.
pub(super) fn write(root: &Path, files: u32) -> Result<(), Failure> {
    for number in 0..files {
        let directory = root.join(directory_of(number));
        if number % FILES_IN_DIRECTORY == 0 {
            fs::create_dir_all(&directory)?;
        }
        fs::write(
            directory.join(format!("file_{number}.txt")),
            b"one\ntwo\nthree\n",
        )?;
    }
    Ok(())
}

fn directory_of(number: u32) -> String {
    let directory = number / FILES_IN_DIRECTORY;
    format!("part_{}/group_{directory}", directory / DIRECTORIES_IN_PART)
}

/// A script of the shell that adds a line to the first `count` files.
pub(super) fn change_script(count: u32) -> String {
    let directories = count.div_ceil(FILES_IN_DIRECTORY);
    let mut script = String::new();
    for directory in 0..directories {
        let first = directory * FILES_IN_DIRECTORY;
        let last = count.min(first + FILES_IN_DIRECTORY) - 1;
        // Writing to a string cannot fail.
        let _ = writeln!(
            script,
            "i={first}; while [ $i -le {last} ]; do echo four >> {}/file_$i.txt; i=$((i+1)); done",
            directory_of(first)
        );
    }
    script
}

/// Counts the files below `root`, as whoever looks for something by name would.
pub(super) fn walk(root: &Path) -> Result<u32, Failure> {
    let mut files = 0;
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                pending.push(entry.path());
            } else {
                files += 1;
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_changes_as_many_files_as_it_says() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), 250).unwrap();
        assert_eq!(walk(directory.path()).unwrap(), 250);
        #[expect(clippy::disallowed_methods, reason = "the script is run as it is")]
        let ran = std::process::Command::new("sh")
            .args(["-euc", &change_script(150)])
            .current_dir(directory.path())
            .status()
            .unwrap();
        assert!(ran.success());
        let changed = |number: u32| {
            let name = format!("{}/file_{number}.txt", directory_of(number));
            fs::read_to_string(directory.path().join(name))
                .unwrap()
                .ends_with("four\n")
        };
        assert_eq!((0..250).filter(|number| changed(*number)).count(), 150);
    }
}

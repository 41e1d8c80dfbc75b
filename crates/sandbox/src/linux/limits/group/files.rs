//! Reading and writing the files of a cgroup. None is ever created: what is not there is not
//! supported.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Writes a value in one call, as these files want it.
pub(super) fn write(path: &Path, value: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    let written = file.write(value.as_bytes())?;
    if written == value.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}

/// The numbers in `cgroup.procs`. A process of a namespace we cannot see is a 0, and left out.
pub(super) fn pids(path: &Path) -> io::Result<Vec<u32>> {
    let text = fs::read_to_string(path)?;
    let numbers = text.lines().filter_map(|line| line.trim().parse().ok());
    Ok(numbers.filter(|pid| *pid != 0).collect())
}

/// A number that is all there is in a file.
pub(super) fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The number after `key` in a file of keys and numbers.
pub(super) fn keyed(path: &Path, key: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let mut lines = text.lines().map(str::split_ascii_whitespace);
    lines.find_map(|mut words| {
        (words.next() == Some(key))
            .then(|| words.next())
            .flatten()?
            .parse()
            .ok()
    })
}

//! Reading and writing the files of a cgroup. None is ever created: what is not there is not
//! supported.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
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

/// Makes a cgroup that nobody else can make cgroups in, whatever the umask.
pub(super) fn make(directory: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o755).create(directory)
}

/// Reads a file of `/proc` whose size is not known before, in as few steps as it takes: what is
/// read in many may have changed between them.
pub(super) fn whole(path: &str) -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(64 << 10);
    File::open(path)?.read_to_end(&mut text)?;
    Ok(text)
}

/// A file of a few numbers, in one read: the kernel gives such a file whole, and a command is counted
/// before and after, so each call here is part of what every command costs.
fn short<'a>(path: &Path, room: &'a mut [u8; SHORT]) -> Option<&'a str> {
    let read = File::open(path).ok()?.read(room).ok()?;
    std::str::from_utf8(room.get(..read)?).ok()
}

/// More than any file of a few numbers has.
const SHORT: usize = 4096;

/// The numbers in `cgroup.procs`. A process of a namespace we cannot see is a 0, and left out.
pub(super) fn pids(path: &Path) -> io::Result<Vec<u32>> {
    let text = fs::read_to_string(path)?;
    let numbers = text.lines().filter_map(|line| line.trim().parse().ok());
    Ok(numbers.filter(|pid| *pid != 0).collect())
}

/// A number that is all there is in a file.
pub(super) fn number(path: &Path) -> Option<u64> {
    short(path, &mut [0; SHORT])?.trim().parse().ok()
}

/// The number after `key` in a file of keys and numbers.
pub(super) fn keyed(path: &Path, key: &str) -> Option<u64> {
    let mut room = [0; SHORT];
    let text = short(path, &mut room)?;
    let mut lines = text.lines().map(str::split_ascii_whitespace);
    lines.find_map(|mut words| {
        (words.next() == Some(key))
            .then(|| words.next())
            .flatten()?
            .parse()
            .ok()
    })
}

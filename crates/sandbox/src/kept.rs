//! Small files of Airlock's own that only save work: read if nobody else can have written them, and
//! written whole or not at all.

use rustix::fs::{Mode, OFlags};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// More than any of them is.
pub(crate) const MOST: u64 = 1 << 20;

/// What is in `file`, if it is a file of `user` that nobody else can write.
pub(crate) fn read(file: &Path, user: u32) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = rustix::fs::open(file, flags, Mode::empty()).ok()?;
    let opened = fs::File::from(opened);
    let metadata = opened.metadata().ok()?;
    let own = metadata.uid() == user && metadata.mode() & 0o022 == 0;
    if !metadata.is_file() || !own || metadata.len() > MOST {
        return None;
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    opened.take(MOST).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Puts `bytes` into `file`.
pub(crate) fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let new = file.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = fs::File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)
        .and_then(|mut made| made.write_all(bytes))
        .and_then(|()| fs::rename(&new, file));
    if written.is_err() {
        let _removed = fs::remove_file(new);
    }
    written
}

//! Whole files in, whole files out: a reader sees the old bytes or the new, never a mixture.

use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes `bytes` to `path` so that a crash leaves the old file or the new one.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    write_with(path, bytes, mode, Existing::Replace)
}

/// What becomes of a file that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It is replaced.
    Replace,
    /// It stays, and writing fails.
    Keep,
}

/// As [`write_atomic`], with a say over a file that is there already.
pub(crate) fn write_with(
    path: &Path,
    bytes: &[u8],
    mode: u32,
    existing: Existing,
) -> io::Result<()> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut file = tempfile::Builder::new()
        .prefix(".airlock-")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    match existing {
        Existing::Replace => file.persist(path),
        Existing::Keep => file.persist_noclobber(path),
    }
    .map_err(|error| error.error)?;
    File::open(directory)?.sync_all()
}

/// Reads at most `limit` bytes; a longer file is an error, not a prefix.
pub(crate) fn read_bounded(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("larger than {limit} bytes"),
        ));
    }
    Ok(bytes)
}

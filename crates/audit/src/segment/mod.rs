//! Archives of past segments of time, days unless somebody says otherwise, and how long they are kept.
//!
//! A closed segment moves into a compressed archive that begins with the previous one's head. Rows are
//! deleted only after their archive is on disk and was read back; a crash in between leaves
//! identical copies, which the next run removes. An archive is deleted only after a durable record
//! says so.

mod file;
mod retention;
mod source;

pub(crate) use file::Segment;
pub use file::SegmentError;
pub use retention::{MaintainError, MaintenanceReport, Retention};
pub(crate) use retention::{Task, maintain};
pub use source::ReadError;
pub(crate) use source::{Row, Source};

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const EXTENSION: &str = "alseg";

/// An archive by its name: which records it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentName {
    pub(crate) path: PathBuf,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// The archives in `directory`, oldest first.
pub(crate) fn list_segments(directory: &Path) -> Result<Vec<SegmentName>, SegmentError> {
    let io = |source| SegmentError::Io {
        path: directory.to_owned(),
        source,
    };
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(parse_name(&entry.map_err(io)?.path()));
    }
    names.sort_by_key(|name: &SegmentName| (name.first, name.last));
    Ok(names)
}

fn parse_name(path: &Path) -> Option<SegmentName> {
    let stem = path.file_stem()?.to_str()?;
    let (first, last) = stem.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (path.extension()? == EXTENSION && first <= last).then(|| SegmentName {
        path: path.to_owned(),
        first,
        last,
    })
}

fn segment_path(directory: &Path, first: u64, last: u64) -> PathBuf {
    directory.join(format!("{first:020}-{last:020}.{EXTENSION}"))
}

//! The whole log, written out.

use super::Log;
use super::checkpoints::{public_key, read_checkpoints};
use crate::chain::{Head, Stored};
use crate::checkpoint::SignedCheckpoint;
use crate::encoding;
use crate::export::{ExportError, ExportFormat, ExportHeader, Exporter};
use crate::query::Filter;
use crate::segment::ReadError;
use crate::writer::AppendError;
use std::collections::BTreeMap;
use std::io::Write;

/// Why the log could not be written out.
#[derive(Debug, thiserror::Error)]
pub enum ExportLogError {
    /// What was appended last is not on disk yet, and cannot be put there.
    #[error("cannot finish writing the log before exporting it")]
    Flush(#[source] AppendError),
    /// The log cannot be read.
    #[error("cannot read the log")]
    Read(#[source] ReadError),
    /// The export cannot be written.
    #[error(transparent)]
    Write(#[from] ExportError),
}

/// What an export holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exported {
    /// Records written.
    pub records: u64,
    /// Records that are damaged so much that no line can say what they are.
    pub left_out: u64,
    /// The first of these.
    pub first_left_out: Option<u64>,
}

impl Log {
    /// Writes every record there is now to `to`. Memory stays flat. What was changed since it was sealed
    /// is written as it is: verifying the export shows it.
    pub fn export(&self, to: impl Write, format: ExportFormat) -> Result<Exported, ExportLogError> {
        self.flush().map_err(ExportLogError::Flush)?;
        let newest = Filter {
            newest_first: true,
            ..Filter::default()
        };
        let last = self.first_of(newest)?.map(|head| head.1);
        let start = self.first_of(Filter::default())?;
        let (start, last) = match (start, last) {
            (Some((before, _)), Some(last)) => (before, last),
            // Nothing recorded yet: an export of nothing, from the very beginning.
            _ => (Head::genesis(&self.id()), Head::genesis(&self.id())),
        };
        let key = public_key(&self.layout).ok().flatten();
        let header = ExportHeader {
            log: self.id(),
            start,
            last: last.seq,
            key,
        };
        let mut exporter = Exporter::new(to, format, header)?;
        let checkpoints = self.checkpoints();
        let mut all = Exported::default();
        let to_the_end = Filter {
            last: Some(last.seq),
            ..Filter::default()
        };
        let mut rows = self.read(to_the_end).map_err(ExportLogError::Read)?;
        while let Some((seq, stored)) = rows.next_stored().map_err(ExportLogError::Read)? {
            match exporter.record(&stored) {
                Ok(()) => all.records += 1,
                Err(ExportError::Unreadable(_) | ExportError::Undecodable { .. }) => {
                    all.left_out += 1;
                    all.first_left_out.get_or_insert(seq);
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            if let Some(signed) = checkpoints.get(&seq) {
                exporter.checkpoint(signed)?;
            }
        }
        exporter.finish()?;
        Ok(all)
    }

    /// The heads before and after the first record `filter` gives that can be told.
    fn first_of(&self, filter: Filter) -> Result<Option<(Head, Head)>, ExportLogError> {
        let mut rows = self.read(filter).map_err(ExportLogError::Read)?;
        while let Some((_, stored)) = rows.next_stored().map_err(ExportLogError::Read)? {
            let Ok(record) = Stored::parse(&stored) else {
                continue;
            };
            if encoding::decode(record.body).is_err() {
                continue;
            }
            let before = Head {
                seq: record.seq.saturating_sub(1),
                digest: record.previous,
            };
            return Ok(Some((before, record.head())));
        }
        Ok(None)
    }

    /// The kept checkpoints, by the record they are about.
    fn checkpoints(&self) -> BTreeMap<u64, SignedCheckpoint> {
        let kept = read_checkpoints(&self.layout.checkpoints()).map(|kept| kept.valid);
        kept.unwrap_or_default()
            .into_iter()
            .map(|signed| (signed.head().seq, signed))
            .collect()
    }
}

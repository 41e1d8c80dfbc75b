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

impl Exported {
    fn leave_out(&mut self, seq: u64) {
        self.left_out += 1;
        self.first_left_out.get_or_insert(seq);
    }
}

impl Log {
    /// Writes every record there is now to `to`. Memory stays flat. What was changed since it was sealed
    /// is written as it is: verifying the export shows it.
    pub fn export(&self, to: impl Write, format: ExportFormat) -> Result<Exported, ExportLogError> {
        self.flush().map_err(ExportLogError::Flush)?;
        let (last_row, last) = self.ends()?;
        // Nothing recorded yet: an export of nothing, from the very beginning.
        let start = self.start()?.unwrap_or_else(|| Head::genesis(&self.id()));
        let key = public_key(&self.layout).ok().flatten();
        let header = ExportHeader {
            log: self.id(),
            start,
            last,
            key,
        };
        let mut exporter = Exporter::new(to, format, header)?;
        let checkpoints = self.checkpoints();
        let mut all = Exported::default();
        let to_the_end = Filter {
            last: Some(last_row),
            ..Filter::default()
        };
        let mut rows = self.read(to_the_end).map_err(ExportLogError::Read)?;
        while let Some(row) = rows.next_stored().transpose() {
            let (seq, stored) = match row {
                Ok(row) => row,
                Err(ReadError::Record { seq, .. }) => {
                    all.leave_out(seq);
                    continue;
                }
                Err(error) => return Err(ExportLogError::Read(error)),
            };
            match exporter.record(&stored) {
                Ok(()) => all.records += 1,
                Err(ExportError::Unreadable(_) | ExportError::Undecodable { .. }) => {
                    all.leave_out(seq);
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            // A row that holds another record is not what was signed.
            if let Some(signed) = checkpoints.get(&seq)
                && told(&stored).is_some_and(|record| record.seq == seq)
            {
                exporter.checkpoint(signed)?;
            }
        }
        exporter.finish()?;
        Ok(all)
    }

    /// The number of the last row, and the one that the last record states of which anything can be told; 0
    /// without one.
    fn ends(&self) -> Result<(u64, u64), ExportLogError> {
        let newest = Filter {
            newest_first: true,
            ..Filter::default()
        };
        let mut rows = self.read(newest).map_err(ExportLogError::Read)?;
        let mut last_row = None;
        while let Some(row) = rows.next_stored().transpose() {
            let (seq, stored) = match row {
                Ok(row) => row,
                Err(ReadError::Record { seq, .. }) => {
                    last_row.get_or_insert(seq);
                    continue;
                }
                Err(error) => return Err(ExportLogError::Read(error)),
            };
            let last_row = *last_row.get_or_insert(seq);
            if let Some(record) = told(&stored) {
                return Ok((last_row, record.seq));
            }
        }
        Ok((last_row.unwrap_or(0), 0))
    }

    /// The head before the first record in its place of which anything can be told.
    fn start(&self) -> Result<Option<Head>, ExportLogError> {
        let mut rows = self.read(Filter::default()).map_err(ExportLogError::Read)?;
        while let Some(row) = rows.next_stored().transpose() {
            let (seq, stored) = match row {
                Ok(row) => row,
                Err(ReadError::Record { .. }) => continue,
                Err(error) => return Err(ExportLogError::Read(error)),
            };
            if let Some(record) = told(&stored).filter(|record| record.seq == seq) {
                return Ok(Some(Head {
                    seq: record.seq.saturating_sub(1),
                    digest: record.previous,
                }));
            }
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

/// The record, if it can be told what it says.
fn told(stored: &[u8]) -> Option<Stored<'_>> {
    let record = Stored::parse(stored).ok()?;
    encoding::decode(record.body).is_ok().then_some(record)
}

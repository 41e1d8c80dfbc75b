//! The whole log, written out.

use super::Log;
use super::checkpoints::{public_key, read_checkpoints};
use crate::chain::Head;
use crate::checkpoint::SignedCheckpoint;
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

impl Log {
    /// Writes every record there is now to `to`; gives back how many. Memory stays flat.
    pub fn export(&self, to: impl Write, format: ExportFormat) -> Result<u64, ExportLogError> {
        self.flush().map_err(ExportLogError::Flush)?;
        let newest = Filter {
            newest_first: true,
            limit: Some(1),
            ..Filter::default()
        };
        let last = self.first_of(newest)?.map(|head| head.1);
        let start = self.first_of(Filter {
            limit: Some(1),
            ..Filter::default()
        })?;
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
        let all = Filter {
            last: Some(last.seq),
            ..Filter::default()
        };
        let mut count = 0;
        for record in self.read(all).map_err(ExportLogError::Read)? {
            let record = record.map_err(ExportLogError::Read)?;
            exporter.record(record.sealed.stored())?;
            if let Some(signed) = checkpoints.get(&record.sealed.seq()) {
                exporter.checkpoint(signed)?;
            }
            count += 1;
        }
        exporter.finish()?;
        Ok(count)
    }

    /// The heads before and after the first record `filter` gives.
    fn first_of(&self, filter: Filter) -> Result<Option<(Head, Head)>, ExportLogError> {
        let mut records = self.read(filter).map_err(ExportLogError::Read)?;
        let Some(record) = records.next() else {
            return Ok(None);
        };
        let sealed = record.map_err(ExportLogError::Read)?.sealed;
        let before = Head {
            seq: sealed.seq().saturating_sub(1),
            digest: *sealed.previous(),
        };
        Ok(Some((before, sealed.head())))
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

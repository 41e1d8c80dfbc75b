//! Writes an export in any of its formats, record by record.

use crate::chain::{Head, Stored, StoredError};
use crate::checkpoint::SignedCheckpoint;
use crate::encoding::{self, DecodeError};
use crate::export::jsonl::{ExportHeader, RecordLine};
use crate::export::spelling::spell;
use crate::export::{csv, ocsf};
use std::io::{self, Write};

/// The formats an export comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// One JSON object a line; the only one that can be verified.
    Jsonl,
    /// A table for spreadsheets.
    Csv,
    /// Events of the Open Cybersecurity Schema Framework, one JSON object a line.
    Ocsf,
}

/// Why an export could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The destination failed.
    #[error("writing the export failed")]
    Io(#[source] io::Error),
    /// The stored bytes are no record.
    #[error("a stored record cannot be read")]
    Unreadable(#[source] StoredError),
    /// The record's entry is not in canonical form, so there is nothing to show.
    #[error("record {seq} cannot be decoded")]
    Undecodable {
        /// The record.
        seq: u64,
        /// Why.
        #[source]
        error: DecodeError,
    },
    /// A checkpoint stands directly after the record it is about.
    #[error("a checkpoint over record {checkpoint} cannot stand after record {last}")]
    Misplaced {
        /// The record the checkpoint is about.
        checkpoint: u64,
        /// The record written last.
        last: u64,
    },
    /// Fewer or other records than the header announced.
    #[error("the export ends at record {last}; its header says {stated}")]
    Incomplete {
        /// The record written last.
        last: u64,
        /// The record announced as the last.
        stated: u64,
    },
}

/// Writes an export. Nothing is verified on the way: a broken chain goes out as it is, and the
/// verification of the export shows the break.
#[must_use = "an export is whole only after `finish`"]
pub struct Exporter<W> {
    to: W,
    format: ExportFormat,
    header: ExportHeader,
    last: Head,
}

impl<W: Write> Exporter<W> {
    /// Begins an export to `to`, which should be buffered.
    pub fn new(to: W, format: ExportFormat, header: ExportHeader) -> Result<Self, ExportError> {
        let last = header.start;
        let mut exporter = Self {
            to,
            format,
            header,
            last,
        };
        match format {
            ExportFormat::Jsonl => {
                let line = header.to_line().map_err(io::Error::from);
                exporter.line(&line.map_err(ExportError::Io)?)?;
            }
            ExportFormat::Csv => csv::write_header(&mut exporter.to).map_err(ExportError::Io)?,
            ExportFormat::Ocsf => {}
        }
        Ok(exporter)
    }

    /// Writes the next stored record.
    pub fn record(&mut self, stored: &[u8]) -> Result<(), ExportError> {
        let record = Stored::parse(stored).map_err(ExportError::Unreadable)?;
        let seq = record.seq;
        let entry = encoding::decode(record.body)
            .map_err(|error| ExportError::Undecodable { seq, error })?;
        match self.format {
            ExportFormat::Jsonl => {
                let line = spell(&RecordLine::new(&record, entry));
                self.line(&line.map_err(|error| ExportError::Io(error.into()))?)?;
            }
            ExportFormat::Csv => {
                csv::write_record(&mut self.to, &record, &entry).map_err(ExportError::Io)?;
            }
            ExportFormat::Ocsf => {
                let line = spell(&ocsf::event(&record, &entry, &self.header.log));
                self.line(&line.map_err(|error| ExportError::Io(error.into()))?)?;
            }
        }
        self.last = record.head();
        Ok(())
    }

    /// Writes a checkpoint about the record written last; only JSON Lines has a place for it.
    pub fn checkpoint(&mut self, signed: &SignedCheckpoint) -> Result<(), ExportError> {
        let (checkpoint, last) = (signed.checkpoint().seq, self.last.seq);
        if checkpoint != last {
            return Err(ExportError::Misplaced { checkpoint, last });
        }
        match self.format {
            ExportFormat::Jsonl => self.line(signed.to_string().as_bytes()),
            ExportFormat::Csv | ExportFormat::Ocsf => Ok(()),
        }
    }

    /// Ends the export and gives the destination back, flushed.
    pub fn finish(mut self) -> Result<W, ExportError> {
        let (last, stated) = (self.last.seq, self.header.last);
        if last != stated {
            return Err(ExportError::Incomplete { last, stated });
        }
        self.to.flush().map_err(ExportError::Io)?;
        Ok(self.to)
    }

    fn line(&mut self, line: &[u8]) -> Result<(), ExportError> {
        let written = self.to.write_all(line);
        written
            .and_then(|()| self.to.write_all(b"\n"))
            .map_err(ExportError::Io)
    }
}

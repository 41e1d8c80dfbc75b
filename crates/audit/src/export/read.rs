//! Verifies a JSON Lines export, offline, one line in memory at a time.

use crate::checkpoint::{CheckpointError, SignedCheckpoint};
use crate::encoding;
use crate::export::jsonl::{CHECKPOINT_START, ExportHeader, MAX_LINE, RECORD_START, RecordLine};
use crate::verify::{Break, Depth, Trust, Verified, Verifier};
use std::io::{self, BufRead, Read};

/// Why an export cannot be relied on, and from which line on.
#[derive(Debug, thiserror::Error)]
pub enum ExportBreak {
    /// The file itself could not be read.
    #[error("reading the export failed at line {line}")]
    Io {
        /// The line.
        line: u64,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The first line is not a header in its exact form.
    #[error("the header of the export is damaged: {reason}")]
    Header {
        /// What is wrong with it.
        reason: String,
    },
    /// A line where a record should stand is not a record in its exact form.
    #[error("line {line}, where record {seq} should stand, is damaged: {reason}")]
    Record {
        /// The line.
        line: u64,
        /// The record that should stand there.
        seq: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A checkpoint line is not a valid checkpoint.
    #[error("the checkpoint in line {line} is not valid")]
    Checkpoint {
        /// The line.
        line: u64,
        /// Why.
        #[source]
        error: CheckpointError,
    },
    /// Something follows the last record and is no checkpoint.
    #[error("line {line} stands after the last record and is no checkpoint")]
    Surplus {
        /// The line.
        line: u64,
    },
    /// Fewer records than the header says.
    #[error("the export ends at record {last}; its header says {stated}")]
    Short {
        /// The line after the last.
        line: u64,
        /// The last record there is.
        last: u64,
        /// The last record there should be.
        stated: u64,
    },
    /// The lines are in form, but the chain does not hold.
    #[error("the chain breaks at line {line}")]
    Chain {
        /// The line.
        line: u64,
        /// How.
        #[source]
        error: Break,
    },
}

impl ExportBreak {
    /// The first record that is bad or missing, where it is a record.
    pub const fn seq(&self) -> Option<u64> {
        match self {
            Self::Record { seq, .. } => Some(*seq),
            Self::Short { last, .. } => Some(last.saturating_add(1)),
            Self::Chain { error, .. } => Some(error.seq()),
            Self::Io { .. }
            | Self::Header { .. }
            | Self::Checkpoint { .. }
            | Self::Surplus { .. } => None,
        }
    }

    /// One word for the kind of break, the same in every verifier of this format.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Io { .. } => "io",
            Self::Header { .. } => "header",
            Self::Record { .. } => "record",
            Self::Checkpoint { .. } => "checkpoint",
            Self::Surplus { .. } => "surplus",
            Self::Short { .. } => "short",
            Self::Chain { error, .. } => error.kind(),
        }
    }

    /// What to do about it.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Io { .. } => "check that the file is there and whole",
            Self::Header { .. } | Self::Surplus { .. } | Self::Short { .. } => {
                "export again, and compare the two files"
            }
            Self::Record { .. } | Self::Checkpoint { .. } => {
                "trust nothing from this line on; export again, and compare the two files"
            }
            Self::Chain { error, .. } => error.hint(),
        }
    }
}

/// Verifies the export `from` against `trust`; gives back its header and what held. If `trust`
/// names no key and no pin, checkpoints must be by the key the header names.
pub fn verify_export(
    from: impl BufRead,
    trust: Trust,
) -> Result<(ExportHeader, Verified), ExportBreak> {
    let mut lines = Lines::new(from);
    let header = match lines.next()? {
        Line::Whole => ExportHeader::from_line(&lines.buffer),
        Line::Damaged(reason) => Err(reason.to_owned()),
        Line::End => Err("the export is empty".to_owned()),
    };
    let header = header.map_err(|reason| ExportBreak::Header { reason })?;
    let chain = |line| move |error| ExportBreak::Chain { line, error };
    let trust = trust.or_key(header.key);
    let mut verifier = Verifier::new(header.log, header.start, Depth::Entries, trust)
        .map_err(chain(lines.number))?;
    loop {
        match lines.next()? {
            Line::End => break,
            Line::Whole => take_line(&mut verifier, &header, &lines)?,
            Line::Damaged(reason) => return Err(damaged(&verifier, &header, &lines, reason)),
        }
    }
    let (last, stated) = (verifier.head().seq, header.last);
    // A pinned checkpoint is the stronger witness of a cut-off tail, so it speaks first.
    let result = verifier.finish().map_err(chain(lines.number))?;
    if last < stated {
        let line = lines.number;
        return Err(ExportBreak::Short { line, last, stated });
    }
    Ok((header, result))
}

fn take_line<R: BufRead>(
    verifier: &mut Verifier,
    header: &ExportHeader,
    lines: &Lines<R>,
) -> Result<(), ExportBreak> {
    let line = lines.number;
    if lines.buffer.starts_with(CHECKPOINT_START) {
        return take_checkpoint(verifier, lines);
    }
    if verifier.head().seq >= header.last || !lines.buffer.starts_with(RECORD_START) {
        return Err(damaged(verifier, header, lines, "this is not a record"));
    }
    let refuse = |reason: String| ExportBreak::Record {
        line,
        seq: verifier.head().seq.saturating_add(1),
        reason,
    };
    let record = RecordLine::from_line(&lines.buffer).map_err(refuse)?;
    let body = encoding::encode(&record.entry).map_err(|error| refuse(error.to_string()))?;
    verifier
        .push_decoded(&record.stored(&body), &record.entry)
        .map_err(|error| ExportBreak::Chain { line, error })
}

fn take_checkpoint<R: BufRead>(
    verifier: &mut Verifier,
    lines: &Lines<R>,
) -> Result<(), ExportBreak> {
    let line = lines.number;
    let text = std::str::from_utf8(&lines.buffer).map_err(|_| CheckpointError::Form {
        reason: "it is not UTF-8".to_owned(),
    });
    let signed = text.and_then(str::parse::<SignedCheckpoint>);
    let signed = signed.map_err(|error| ExportBreak::Checkpoint { line, error })?;
    verifier
        .push_checkpoint(&signed)
        .map_err(|error| ExportBreak::Chain { line, error })
}

/// Names the record a damaged line stands for, if one is still to come.
fn damaged<R>(
    verifier: &Verifier,
    header: &ExportHeader,
    lines: &Lines<R>,
    reason: &str,
) -> ExportBreak {
    let line = lines.number;
    if verifier.head().seq < header.last {
        let seq = verifier.head().seq.saturating_add(1);
        let reason = reason.to_owned();
        ExportBreak::Record { line, seq, reason }
    } else if lines.buffer.starts_with(CHECKPOINT_START) {
        let reason = reason.to_owned();
        let error = CheckpointError::Form { reason };
        ExportBreak::Checkpoint { line, error }
    } else {
        ExportBreak::Surplus { line }
    }
}

enum Line {
    /// A line that ended with a newline is in the buffer, without it.
    Whole,
    /// A line that cannot be right, whatever it says.
    Damaged(&'static str),
    End,
}

struct Lines<R> {
    from: R,
    buffer: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    const fn new(from: R) -> Self {
        let buffer = Vec::new();
        Self {
            from,
            buffer,
            number: 0,
        }
    }

    fn next(&mut self) -> Result<Line, ExportBreak> {
        self.number += 1;
        self.buffer.clear();
        let line = self.number;
        let limit = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
        (&mut self.from)
            .take(limit)
            .read_until(b'\n', &mut self.buffer)
            .map_err(|error| ExportBreak::Io { line, error })?;
        if self.buffer.is_empty() {
            return Ok(Line::End);
        }
        Ok(match self.buffer.pop_if(|last| *last == b'\n') {
            Some(_) => Line::Whole,
            None if self.buffer.len() < MAX_LINE => {
                Line::Damaged("the last line does not end with a newline")
            }
            None => Line::Damaged("the line is longer than any line may be"),
        })
    }
}

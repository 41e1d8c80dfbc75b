//! Reads the whole log in order, whichever file a record is in, with the memory of one chunk.
//!
//! Archives may take over rows while a reader is under way: each chunk looks anew where the next
//! record is, so nothing is skipped or seen twice.

use super::{Segment, SegmentError, list_segments};
use rusqlite::Connection;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// Rows a reader holds at once.
const CHUNK: i64 = 256;

/// Why the log cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The database failed.
    #[error("the audit log cannot be read: {0}")]
    Database(#[from] rusqlite::Error),
    /// An archive failed.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// A record is not what was written.
    #[error("record {seq} cannot be read: {detail}")]
    Record {
        /// Its number.
        seq: u64,
        /// What is wrong.
        detail: String,
    },
    /// The log cannot be opened.
    #[error(transparent)]
    Open(#[from] crate::open::OpenError),
}

impl ReadError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Open(error) => error.hint(),
            Self::Database(_) | Self::Segment(_) | Self::Record { .. } => {
                Some("run `airlock audit verify` to see what is damaged")
            }
        }
    }
}

/// A row: its number and its stored form.
pub(crate) type Row = (u64, Vec<u8>);

/// Walks rows up or down from a place in the log.
#[derive(Debug)]
pub(crate) struct Source {
    db: Connection,
    segments: PathBuf,
    ascending: bool,
    /// The next number wanted; the walk ends when it leaves the range.
    next: u64,
    end: u64,
    open: Option<Segment>,
    rows: VecDeque<Row>,
    done: bool,
}

impl Source {
    /// Rows from `first` to `last`, in that order: downwards if `first` is the larger.
    pub(crate) fn new(db: Connection, segments: &Path, first: u64, last: u64) -> Self {
        Self {
            db,
            segments: segments.to_owned(),
            ascending: first <= last,
            next: first,
            end: last,
            open: None,
            rows: VecDeque::new(),
            done: false,
        }
    }

    /// Nothing is wanted after all.
    pub(crate) fn exhaust(&mut self) {
        self.done = true;
        self.rows.clear();
    }

    pub(crate) fn next_row(&mut self) -> Result<Option<Row>, ReadError> {
        if self.rows.is_empty() && !self.done {
            self.refill()?;
        }
        let Some((seq, stored)) = self.rows.pop_front() else {
            return Ok(None);
        };
        let end = self.end;
        let following = if self.ascending {
            (seq < end).then(|| seq + 1)
        } else {
            (seq > end).then(|| seq - 1)
        };
        if let Some(next) = following {
            self.next = next;
        } else {
            self.exhaust();
        }
        Ok(Some((seq, stored)))
    }

    fn refill(&mut self) -> Result<(), ReadError> {
        let rows = self.database_rows()?;
        let adjacent = rows.first().is_some_and(|(seq, _)| *seq == self.next);
        self.rows = if adjacent {
            rows.into()
        } else {
            // Not in the database: archived, or missing altogether.
            let archived = self.archived_rows()?;
            match (archived.first(), rows.first()) {
                (Some((archived_seq, _)), Some((seq, _))) if self.before(*seq, *archived_seq) => {
                    rows.into()
                }
                (Some(_), _) => archived.into(),
                (None, _) => rows.into(),
            }
        };
        self.done = self.rows.is_empty();
        Ok(())
    }

    const fn before(&self, a: u64, b: u64) -> bool {
        if self.ascending { a < b } else { a > b }
    }

    fn database_rows(&mut self) -> rusqlite::Result<Vec<Row>> {
        let sql = if self.ascending {
            "SELECT seq, stored FROM records WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq LIMIT ?3"
        } else {
            "SELECT seq, stored FROM records WHERE seq BETWEEN ?2 AND ?1 ORDER BY seq DESC LIMIT ?3"
        };
        let bound = |seq: u64| i64::try_from(seq).unwrap_or(i64::MAX);
        let mut statement = self.db.prepare_cached(sql)?;
        let rows = statement.query_map((bound(self.next), bound(self.end), CHUNK), |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?))
        })?;
        rows.collect()
    }

    /// The rows of the archive block nearest to the wanted number, from that number on.
    fn archived_rows(&mut self) -> Result<Vec<Row>, ReadError> {
        let holds =
            |segment: &Segment| segment.previous.seq < self.next && self.next <= segment.last.seq;
        if !self.open.as_ref().is_some_and(holds) {
            self.open = self.find_segment()?;
        }
        let (next, end, ascending) = (self.next, self.end, self.ascending);
        let Some(segment) = &mut self.open else {
            return Ok(Vec::new());
        };
        let near = next.clamp(segment.previous.seq + 1, segment.last.seq.max(1));
        let records = segment.block(segment.block_of(near))?;
        let mut rows = Vec::with_capacity(records.len());
        for stored in records {
            let seq = crate::chain::Stored::parse(&stored).map_or(0, |stored| stored.seq);
            let wanted = if ascending {
                (next..=end).contains(&seq)
            } else {
                (end..=next).contains(&seq)
            };
            if wanted {
                rows.push((seq, stored));
            }
        }
        if !ascending {
            rows.reverse();
        }
        Ok(rows)
    }

    /// The archive that holds the wanted record, or the nearest one further on.
    fn find_segment(&self) -> Result<Option<Segment>, SegmentError> {
        let mut listed = list_segments(&self.segments)?;
        if !self.ascending {
            listed.reverse();
        }
        let found = listed.into_iter().find(|name| {
            if self.ascending {
                name.last >= self.next && name.first <= self.end
            } else {
                name.first <= self.next && name.last >= self.end
            }
        });
        found.map(|name| Segment::open(&name.path)).transpose()
    }
}

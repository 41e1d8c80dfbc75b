//! Reads the whole log in order, whichever file a record is in, with the memory of one chunk.
//!
//! Archives may take over rows while a reader is under way: each chunk looks anew where the next
//! record is, so nothing is skipped or seen twice.
//!
//! Guarantee: rows on damaged pages, and damaged archives, keep nobody from those behind them. Each number
//! that is passed over is told, as a record that cannot be read; of very many in a row the nearest are.
//!
//! Non-guarantee: which numbers there were behind the last row that can be read is not known if the pages
//! at the end are damaged. Opening the log for writing finds that.

use super::{Segment, SegmentError, list_segments};
use crate::open::is_damage;
use crate::recovery;
use crate::store::Layout;
use crate::writer::{last_archived, newest_number};
use rusqlite::Connection;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Rows a reader holds at once.
const CHUNK: i64 = 256;

/// Numbers behind damaged pages that are tried one by one, some hundred pages of records. From there on
/// the steps grow with the distance, so that no distance takes long.
const ONE_BY_ONE: u64 = 16_384;

/// Numbers of one damaged archive that are told at most: more than a day has.
const MOST_OF_ARCHIVE: u64 = 1 << 20;

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
    /// Numbers in front of these rows that cannot be read and are still to be told, and why.
    lost: Range<u64>,
    why: String,
    /// Where to leave a note if there is damage.
    noted: Option<Layout>,
    done: bool,
}

/// What a look into the archives gave: rows, or numbers that an archive would hold and why it does not
/// give them.
#[derive(Debug)]
enum Archived {
    Rows(Vec<Row>),
    Lost(Range<u64>, SegmentError),
}

/// What a look into the database gave.
#[derive(Debug, Default)]
struct Found {
    rows: Vec<Row>,
    /// Whether there would be more, if the pages were not damaged.
    is_cut_short: bool,
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
            lost: 0..0,
            why: String::new(),
            noted: None,
            done: false,
        }
    }

    /// Has damage that is met on the way noted in `layout`.
    pub(crate) fn note_damage(&mut self, layout: &Layout) {
        self.noted = Some(layout.clone());
    }

    /// Nothing is wanted after all.
    pub(crate) fn exhaust(&mut self) {
        self.done = true;
        self.rows.clear();
    }

    pub(crate) fn next_row(&mut self) -> Result<Option<Row>, ReadError> {
        while self.rows.is_empty() && self.lost.is_empty() && !self.done {
            if let Err(error) = self.refill() {
                // Whoever asks on would meet the same for ever.
                self.exhaust();
                return Err(error);
            }
        }
        let lost = if self.ascending {
            self.lost.next()
        } else {
            self.lost.next_back()
        };
        if let Some(seq) = lost {
            let detail = self.why.clone();
            return Err(ReadError::Record { seq, detail });
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
        let found = self.database_rows(self.next, CHUNK)?;
        if found.is_cut_short {
            self.met_damage();
        }
        let mut rows = found.rows;
        if rows.is_empty() && found.is_cut_short {
            return self.pass_over();
        }
        let adjacent = rows.first().is_some_and(|(seq, _)| *seq == self.next);
        self.rows = if adjacent {
            // What is missing further on may be in an archive.
            let mut pairs = rows.windows(2);
            let gap = pairs.position(
                |pair| matches!(pair, [(one, _), (other, _)] if one.abs_diff(*other) != 1),
            );
            rows.truncate(gap.map_or(rows.len(), |at| at + 1));
            rows.into()
        } else {
            // Not in the database: archived, or missing altogether.
            let archived = match self.archived()? {
                Archived::Rows(archived) => archived,
                Archived::Lost(lost, why) => {
                    let nearest = rows.first().map(|(seq, _)| *seq);
                    if self.pass_over_archive(lost, why, nearest)? {
                        return Ok(());
                    }
                    // These come before it.
                    Vec::new()
                }
            };
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

    /// Leaves the note, once.
    fn met_damage(&mut self) {
        if let Some(layout) = self.noted.take() {
            recovery::suspect(&layout);
        }
    }

    /// Goes on behind what the database cannot give from the next number on.
    fn pass_over(&mut self) -> Result<(), ReadError> {
        let in_archive = match self.archived()? {
            Archived::Rows(archived) => {
                let nearest = archived.first().map(|(seq, _)| *seq);
                if nearest == Some(self.next) {
                    self.rows = archived.into();
                    return Ok(());
                }
                nearest
            }
            Archived::Lost(lost, why) if lost.contains(&self.next) => {
                let head = last_archived(&self.db)?.map_or(0, |head| head.seq);
                // Looking far for a row takes long, and none is among what was archived.
                let nearest = if self.ascending && lost.end <= head.saturating_add(1) {
                    None
                } else {
                    self.readable_row(head)?
                };
                self.pass_over_archive(lost, why, nearest)?;
                return Ok(());
            }
            // What it would hold is told when the walk comes to it.
            Archived::Lost(lost, _) if self.ascending => Some(lost.start),
            Archived::Lost(lost, _) => lost.end.checked_sub(1),
        };
        let head = last_archived(&self.db)?.map_or(0, |head| head.seq);
        let in_database = self.readable_row(head)?;
        let nearest = match (in_archive, in_database) {
            (Some(one), Some(other)) if self.before(one, other) => Some(one),
            (one, None) => one,
            (_, other) => other,
        };
        self.lost = self.tellable(self.numbers_up_to(nearest, head), ONE_BY_ONE);
        "the database is damaged where it was".clone_into(&mut self.why);
        match nearest {
            Some(seq) => self.next = seq,
            None => self.done = true,
        }
        Ok(())
    }

    /// Goes on behind the numbers that an archive would hold, or at the `nearest` row of the database among
    /// them. False if that row comes before them all. An archive that says nothing of what it would hold
    /// ends the walk.
    fn pass_over_archive(
        &mut self,
        lost: Range<u64>,
        why: SegmentError,
        nearest: Option<u64>,
    ) -> Result<bool, SegmentError> {
        let (lost, next) = if self.ascending {
            let behind = nearest.map_or(lost.end, |seq| seq.min(lost.end));
            let end = behind.min(self.end.saturating_add(1));
            (lost.start.max(self.next)..end, Some(end))
        } else {
            let behind = nearest.map_or(lost.start, |seq| seq.saturating_add(1).max(lost.start));
            let start = behind.max(self.end);
            let end = lost.end.min(self.next.saturating_add(1));
            (start..end, start.checked_sub(1))
        };
        if lost.is_empty() {
            return if nearest.is_some() {
                Ok(false)
            } else {
                Err(why)
            };
        }
        self.lost = self.tellable(lost, MOST_OF_ARCHIVE);
        self.why = why.to_string();
        match next.filter(|next| !self.before(self.end, *next)) {
            Some(next) => self.next = next,
            None => self.done = true,
        }
        Ok(true)
    }

    /// The nearest of `lost`, no more than `most`: how far they reach says something that is damaged.
    fn tellable(&self, lost: Range<u64>, most: u64) -> Range<u64> {
        if self.ascending {
            lost.start..lost.end.min(lost.start.saturating_add(most))
        } else {
            lost.start.max(lost.end.saturating_sub(most))..lost.end
        }
    }

    /// The numbers from the next one on that are passed over on the way to `nearest`, or to the end of the
    /// walk. Those up to `archived` are none of the database's.
    fn numbers_up_to(&self, nearest: Option<u64>, archived: u64) -> Range<u64> {
        let floor = archived.saturating_add(1);
        if self.ascending {
            let first = self.next.max(floor);
            let end = nearest.unwrap_or_else(|| {
                // At a damaged end nobody knows how many there were: one is told.
                let newest = newest_number(&self.db).unwrap_or(first);
                newest.max(first).min(self.end).saturating_add(1)
            });
            return first..end;
        }
        let first = nearest.map_or(self.end, |seq| seq.saturating_add(1));
        first.max(floor)..self.next.saturating_add(1)
    }

    /// The nearest row behind the next number that the database can give. It holds none up to `archived`.
    fn readable_row(&self, archived: u64) -> rusqlite::Result<Option<u64>> {
        let from = if self.ascending {
            self.next.max(archived)
        } else {
            self.next
        };
        let mut passed: u64 = 0;
        loop {
            passed = passed.saturating_add(1 + passed / ONE_BY_ONE);
            let at = if self.ascending {
                from.checked_add(passed).filter(|at| *at <= self.end)
            } else {
                from.checked_sub(passed)
                    .filter(|at| *at >= self.end && *at > archived)
            };
            let Some(at) = at else {
                return Ok(None);
            };
            let found = self.database_rows(at, 1)?;
            match found.rows.first() {
                Some((seq, _)) => return Ok(Some(*seq)),
                None if !found.is_cut_short => return Ok(None),
                None => {}
            }
        }
    }

    const fn before(&self, a: u64, b: u64) -> bool {
        if self.ascending { a < b } else { a > b }
    }

    /// At most `most` rows of the database from the number `from` on.
    fn database_rows(&self, from: u64, most: i64) -> rusqlite::Result<Found> {
        let sql = if self.ascending {
            "SELECT seq, stored FROM records WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq LIMIT ?3"
        } else {
            "SELECT seq, stored FROM records WHERE seq BETWEEN ?2 AND ?1 ORDER BY seq DESC LIMIT ?3"
        };
        let bound = |seq: u64| i64::try_from(seq).unwrap_or(i64::MAX);
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query((bound(from), bound(self.end), most))?;
        let mut found = Found::default();
        loop {
            match rows.next().and_then(|row| row.map(read_row).transpose()) {
                Ok(Some(row)) => found.rows.push(row),
                Ok(None) => break,
                // What came before it is good.
                Err(error) if is_damage(&error) => {
                    found.is_cut_short = true;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        // On a damaged page numbers may lead back: the walk would never end.
        while found
            .rows
            .pop_if(|(seq, _)| self.before(*seq, from))
            .is_some()
        {
            found.is_cut_short = true;
        }
        Ok(found)
    }

    /// The rows of the archive block nearest to the wanted number, from that number on.
    fn archived(&mut self) -> Result<Archived, SegmentError> {
        let holds =
            |segment: &Segment| segment.previous.seq < self.next && self.next <= segment.last.seq;
        if !self.open.as_ref().is_some_and(holds) {
            self.open = None;
            if let Some((lost, why)) = self.find_segment()? {
                return Ok(Archived::Lost(lost, why));
            }
        }
        let (next, end, ascending) = (self.next, self.end, self.ascending);
        let Some(segment) = &mut self.open else {
            return Ok(Archived::Rows(Vec::new()));
        };
        let first = segment.previous.seq.saturating_add(1);
        let near = next.max(first).min(segment.last.seq);
        let block = segment.block_of(near);
        let records = match segment.block(block) {
            Ok(records) => records,
            Err(error) => return Ok(Archived::Lost(segment.numbers_of(block), error)),
        };
        // Its place says which number it has: a damaged record may say another.
        let numbers = segment.numbers_of(block);
        let mut rows = Vec::with_capacity(records.len());
        for (seq, stored) in numbers.zip(records) {
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
        Ok(Archived::Rows(rows))
    }

    /// Opens the archive that holds the wanted record, or the nearest one further on. Gives the numbers that
    /// one before it would hold and that no other does, if it cannot be used: its name says which.
    fn find_segment(&mut self) -> Result<Option<(Range<u64>, SegmentError)>, SegmentError> {
        let mut listed = list_segments(&self.segments)?;
        if !self.ascending {
            listed.reverse();
        }
        let (next, end, ascending) = (self.next, self.end, self.ascending);
        let mut failed: Option<(Range<u64>, SegmentError)> = None;
        for name in listed {
            let is_met = if ascending {
                name.last >= next && name.first <= end
            } else {
                name.first <= next && name.last >= end
            };
            if !is_met {
                continue;
            }
            let behind = name.last.saturating_add(1);
            match Segment::open(&name.path).and_then(|segment| segment.named(&name)) {
                Ok(segment) => {
                    // Up to this one nobody else has what an archive before it would hold.
                    if let Some((mut numbers, why)) = failed {
                        if ascending {
                            numbers.end = numbers.end.min(name.first);
                        } else {
                            numbers.start = numbers.start.max(behind);
                        }
                        if !numbers.is_empty() {
                            return Ok(Some((numbers, why)));
                        }
                    }
                    self.open = Some(segment);
                    return Ok(None);
                }
                // Deleted since it was listed: what it held is not kept any more.
                Err(SegmentError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    let numbers = if ascending {
                        name.first.max(next)..behind
                    } else {
                        name.first..behind.min(next.saturating_add(1))
                    };
                    failed.get_or_insert((numbers, error));
                }
            }
        }
        let Some((mut numbers, why)) = failed else {
            return Ok(None);
        };
        // A name may say anything; behind the last record there never was one.
        let newest = newest_number(&self.db).unwrap_or(u64::MAX);
        numbers.end = numbers.end.min(newest.saturating_add(1));
        Ok(Some((numbers, why)).filter(|(numbers, _)| !numbers.is_empty()))
    }
}

fn read_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?))
}

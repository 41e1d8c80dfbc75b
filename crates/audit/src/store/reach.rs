//! Whether the chain reaches what was signed: a database cut short, restored from an old copy or
//! written anew does not.
//!
//! Guarantee: a few rows are looked up, however long the log is.
//!
//! Non-guarantee: what comes before the signed record is not looked at.

use crate::chain::{Head, Stored};
use crate::verify::Break;
use crate::writer::last_archived;
use rusqlite::{Connection, OptionalExtension};

/// How the chain in `db` falls short of `signed`, if it does. `in_archives` is the last record that an
/// archive holds, 0 without one.
pub(crate) fn unreached(
    db: &Connection,
    signed: &Head,
    in_archives: u64,
) -> rusqlite::Result<Option<Break>> {
    let checkpoint = signed.seq;
    if checkpoint == 0 {
        // Before the first record: the verifier knows how every chain begins.
        return Ok(None);
    }
    let stored: Option<Vec<u8>> = db
        .query_row(
            "SELECT stored FROM records WHERE seq = ?1",
            [checkpoint.cast_signed()],
            |row| row.get(0),
        )
        .optional()?;
    if let Some(stored) = stored {
        return Ok(differing(&stored, signed));
    }
    let oldest: Option<i64> = db.query_row("SELECT min(seq) FROM records", [], |row| row.get(0))?;
    let oldest = oldest.map(i64::cast_unsigned);
    let archived = match oldest {
        Some(_) => last_archived(db)?.map_or(in_archives, |head| head.seq.max(in_archives)),
        // Archives that were deleted leave a record that says so. Without one, only what is there counts.
        None => in_archives,
    };
    // Archived rows leave from the front.
    if archived >= checkpoint && oldest.is_none_or(|oldest| oldest > checkpoint) {
        return Ok(None);
    }
    let last: Option<i64> = db.query_row(
        "SELECT max(seq) FROM records WHERE seq < ?1",
        [checkpoint.cast_signed()],
        |row| row.get(0),
    )?;
    let last = last.map_or(archived, i64::cast_unsigned);
    Ok(Some(Break::Truncated { last, checkpoint }))
}

/// What is wrong with the record that stands where `signed` was, if it is another.
fn differing(stored: &[u8], signed: &Head) -> Option<Break> {
    let seq = signed.seq;
    match Stored::parse(stored) {
        Err(error) => Some(Break::Unreadable { seq, error }),
        Ok(record) if !record.is_intact() => Some(Break::Edited { seq }),
        Ok(record) if record.head() != *signed => Some(Break::Rewritten { checkpoint: seq }),
        Ok(_) => None,
    }
}

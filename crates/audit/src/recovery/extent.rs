//! Whether the database's file is as long as it has to be.
//!
//! While there is a write-ahead log SQLite does not compare the two, and takes the pages of a file that was
//! cut short for empty ones: records would be missing where nobody looks.
//!
//! Guarantee: a database that is whole is never called damaged, whatever others do to it meanwhile. The
//! cost grows with the write-ahead log, which is kept short, and not with the database.

use super::carve::pages_ahead;
use crate::open::{OpenError, PAGE_SIZE};
use rusqlite::Connection;
use std::fs;
use std::path::Path;

/// The page on which SQLite's locks lie, one gibibyte into the file: it is never written.
const LOCKS: u64 = (1 << 30) / PAGE_SIZE as u64 + 1;

/// Fails if a page is neither in the file at `path`, which `db` has open, nor in its write-ahead log.
pub(crate) fn check_extent(db: &Connection, path: &Path) -> Result<(), OpenError> {
    match first_missing(db, path)? {
        None => Ok(()),
        Some((missing, pages)) => Err(OpenError::Damaged {
            path: path.to_owned(),
            detail: format!("its file ends before page {missing} of {pages}"),
        }),
    }
}

/// The first page that is nowhere, and how many there are.
fn first_missing(db: &Connection, path: &Path) -> Result<Option<(u64, u64)>, OpenError> {
    let fail = |source| OpenError::sqlite(path, source);
    // While this lasts no page leaves the write-ahead log that is not in the file already.
    let moment = db.unchecked_transaction().map_err(fail)?;
    let number = |pragma: &str| {
        moment
            .pragma_query_value(None, pragma, |row| row.get::<_, i64>(0))
            .map(i64::cast_unsigned)
            .map_err(fail)
    };
    let pages = number("page_count")?;
    let length = fs::metadata(path)
        .map_err(|source| OpenError::io(path, source))?
        .len();
    let in_file = length / u64::from(PAGE_SIZE);
    if pages <= in_file || number("page_size")? != u64::from(PAGE_SIZE) {
        return Ok(None);
    }
    // Without a write-ahead log SQLite looks at the length itself.
    let Some(ahead) = pages_ahead(path) else {
        return Ok(None);
    };
    let missing = (in_file + 1..=pages).find(|page| *page != LOCKS && !ahead.contains(page));
    Ok(missing.map(|missing| (missing, pages)))
}

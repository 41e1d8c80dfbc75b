//! A note beside the database that somebody came upon damaged pages.
//!
//! Opening looks at no more than the ends of the log, so that it costs the same however long the log is;
//! damage in the middle is found by whoever reads that far. Whoever comes upon it cannot set the database
//! aside, having it open; the next one to open the log alone looks at every page, once.

use super::{RecoveryReport, inspect, recover_layout, suffixed};
use crate::open::OpenError;
use crate::store::Layout;
use airlock_core::Timestamp;
use std::fs;
use std::path::PathBuf;

/// Leaves the note.
pub(crate) fn suspect(layout: &Layout) {
    // Where none can be left nobody can set the database aside either.
    let _ = fs::File::create(note_path(layout));
}

/// Whether somebody left the note.
pub(crate) fn is_suspect(layout: &Layout) -> bool {
    note_path(layout).exists()
}

/// Looks at every page and recovers what can be read, if it is as the note says. The caller holds the log's
/// lock alone.
pub(crate) fn examine_suspect(
    layout: &Layout,
    now: Timestamp,
) -> Result<Option<RecoveryReport>, OpenError> {
    let report = match inspect(layout) {
        Ok(()) => None,
        Err(error) if error.is_damage() => Some(recover_layout(layout, now, &error)?),
        // Opening says what else there is.
        Err(_) => return Ok(None),
    };
    // One that stays has the next one look again.
    let _ = fs::remove_file(note_path(layout));
    Ok(report)
}

fn note_path(layout: &Layout) -> PathBuf {
    suffixed(&layout.database(), ".suspect")
}

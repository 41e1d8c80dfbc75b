//! `airlock audit stats`: how much there is, of what.

use super::{read_failure, when};
use crate::failure::Ending;
use crate::output::{Output, Tone, count, styled};
use airlock_core::Timestamp;
use airlock_kernel::Kernel;
use serde_json::json;

pub(super) fn run(kernel: &Kernel, output: &mut Output) -> Ending {
    let stats = kernel.log().stats().map_err(|error| read_failure(&error))?;
    if stats.unreadable > 0 {
        let what = count(stats.unreadable, "record");
        output.warning(&format!(
            "{what} cannot be read, and not counted: `airlock audit verify` shows what is damaged"
        ));
    }
    if output.is_json() {
        let end = |end: Option<(u64, Timestamp)>| {
            end.map(|(seq, time)| json!({ "seq": seq, "at": when::show(time) }))
        };
        output.json(&json!({
            "records": stats.records,
            "unreadable": stats.unreadable,
            "events": stats.events,
            "decisions": stats.verdicts,
            "first": end(stats.first),
            "last": end(stats.last),
            "record_bytes": stats.record_bytes,
            "disk_bytes": stats.disk_bytes,
            "checkpoints": stats.checkpoints,
            "archives": stats.archives,
        }));
        return Ok(0);
    }
    output.line(format!(
        "{} {}",
        styled(Tone::Heading, "records"),
        stats.records
    ));
    for (event, count) in &stats.events {
        output.line(format!("  {event:<22} {count:>8}"));
    }
    output.line(styled(Tone::Heading, "decisions"));
    for (verdict, count) in &stats.verdicts {
        output.line(format!("  {verdict:<22} {count:>8}"));
    }
    if let (Some((_, first)), Some((_, last))) = (stats.first, stats.last) {
        output.line(format!(
            "from {} to {}",
            when::show(first),
            when::show(last)
        ));
    }
    output.line(format!(
        "{} bytes on disk, {} checkpoints, {} archives",
        stats.disk_bytes, stats.checkpoints, stats.archives
    ));
    Ok(0)
}

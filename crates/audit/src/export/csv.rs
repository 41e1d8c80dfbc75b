//! Records as a table: RFC 4180, one row a record, the fields people filter by.
//!
//! A cell that a spreadsheet would take for a formula gets a `'` in front: records hold text that
//! an agent chose. For the same reason control characters become U+FFFD, line breaks and tabs
//! apart: people look at such a file in a terminal.

use crate::Entry;
use crate::chain::Stored;
use crate::record::time_text;
use std::io::{self, Write};

const COLUMNS: [&str; 23] = [
    "seq",
    "time",
    "event",
    "stage",
    "action",
    "syscall",
    "tool",
    "tenant",
    "user",
    "workspace",
    "session",
    "plugin",
    "mode",
    "phase",
    "verdict",
    "rules",
    "generation",
    "token",
    "reason",
    "duration_us",
    "sandbox",
    "metadata",
    "digest",
];

pub(super) fn write_header(to: &mut impl Write) -> io::Result<()> {
    write!(to, "{}\r\n", COLUMNS.join(","))
}

pub(super) fn write_record(
    to: &mut impl Write,
    record: &Stored<'_>,
    entry: &Entry,
) -> io::Result<()> {
    let row = row(record, entry)?;
    for (index, value) in row.iter().enumerate() {
        if index > 0 {
            to.write_all(b",")?;
        }
        to.write_all(cell(value).as_bytes())?;
    }
    to.write_all(b"\r\n")
}

fn row(record: &Stored<'_>, entry: &Entry) -> io::Result<[String; COLUMNS.len()]> {
    let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
    let caller = entry.caller.as_ref();
    let decision = entry.decision.as_ref();
    let metadata = if entry.metadata.is_empty() {
        String::new()
    } else {
        serde_json::to_string(&entry.metadata)?
    };
    Ok([
        record.seq.to_string(),
        time_text::format(entry.time).unwrap_or_default(),
        entry.event.as_str().to_owned(),
        entry.stage.as_str().to_owned(),
        text(entry.action.as_ref().map(AsRef::as_ref)),
        text(entry.syscall.as_deref()),
        text(entry.tool.as_deref()),
        text(caller.map(|caller| caller.tenant.as_str())),
        text(caller.map(|caller| caller.user.as_str())),
        text(caller.map(|caller| caller.workspace.as_str())),
        text(caller.and_then(|caller| caller.session.as_ref().map(AsRef::as_ref))),
        text(caller.map(|caller| caller.plugin.as_str())),
        text(caller.and_then(|caller| caller.mode.map(airlock_core::Mode::as_str))),
        text(caller.and_then(|caller| caller.phase.map(airlock_core::Phase::as_str))),
        text(decision.map(|decision| decision.verdict.as_str())),
        decision.map_or_else(String::new, |decision| decision.rules.join(" ")),
        text(decision.map(|decision| decision.generation.as_str())),
        text(entry.token.as_deref()),
        text(entry.reason.as_deref()),
        entry.duration.map_or_else(String::new, |us| us.to_string()),
        text(entry.sandbox.as_ref().map(AsRef::as_ref)),
        metadata,
        record.digest.to_string(),
    ])
}

fn cell(value: &str) -> String {
    let is_unsafe = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
    let value = value.replace(is_unsafe, "\u{fffd}");
    let guard = if value.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        "'"
    } else {
        ""
    };
    if guard.is_empty() && !value.contains(['"', ',', '\n', '\r']) {
        return value;
    }
    format!("\"{guard}{}\"", value.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_cell_and_never_a_formula() {
        for (value, want) in [
            ("plain text", "plain text"),
            ("", ""),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("=HYPERLINK(1)", "\"'=HYPERLINK(1)\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("-1+cmd|'/c calc'!A0", "\"'-1+cmd|'/c calc'!A0\""),
            (
                "\u{1b}[2J\0\u{9b}\u{7f}",
                "\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}",
            ),
            ("\t=1", "\"'\t=1\""),
        ] {
            assert_eq!(cell(value), want, "{value:?}");
        }
    }
}

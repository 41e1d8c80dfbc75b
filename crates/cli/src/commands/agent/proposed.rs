//! What a call would write, shown before the person is asked about it.
//!
//! Guarantee: every line shown has its sign before it, and none reaches the next row of the terminal
//! without being indented, so no content passes for a question. What a terminal would obey, or not show,
//! is written out. How much is left out is said.
//! Non-guarantee: what it is compared with is what the session reads now.

use crate::columns::{self, Words};
use crate::output::{Output, count};
use crate::visible::{Reviewed, visible};
use airlock_kernel::Call;
use airlock_sandbox::stage::Hunk;
use serde_json::Value;

/// Lines that are shown.
const MOST: usize = 40;
/// Bytes of a text that is compared; a longer one is shown from its beginning.
const COMPARED: usize = 256 * 1024;

/// The file whose content is replaced by `call`.
pub(super) fn file(call: &Call) -> Option<&str> {
    (call.name == "fs.write")
        .then(|| text(call, "path"))
        .flatten()
}

fn text<'c>(call: &'c Call, name: &str) -> Option<&'c str> {
    call.arguments.get(name).and_then(Value::as_str)
}

/// Whether all that `call` would write is shown by [`show`].
pub(super) fn is_shown(call: &Call) -> bool {
    file(call).is_some() || (call.name == "fs.patch" && text(call, "patch").is_some())
}

/// Shows `lines`, each indented however long it is.
pub(super) fn tell(lines: &[String], output: &mut Output) {
    let columns = columns::terminal(std::io::stderr());
    for line in lines {
        let line = visible(line);
        output.verbatim(match columns {
            Some(columns) => columns::folded(&line, columns, 4, Words::Broken),
            None => line,
        });
    }
}

/// Shows what `call` would write, where `before` is now.
pub(super) fn show(call: &Call, before: Option<&str>, output: &mut Output) {
    let mut reviewed = Reviewed::default();
    let lines = lines(call, before, &mut reviewed);
    let columns = columns::terminal(std::io::stderr());
    for line in lines.iter().take(MOST) {
        output.verbatim(match columns {
            Some(columns) => columns::folded(line, columns, 4, Words::Broken),
            None => line.clone(),
        });
    }
    reviewed.tell(output);
    if let Some(more @ 1..) = lines.len().checked_sub(MOST) {
        let more = count(more as u64, "more line");
        output.warning(&format!("{more} would be written, and are not shown here"));
    }
}

/// The lines that change, with their signs.
fn lines(call: &Call, before: Option<&str>, reviewed: &mut Reviewed) -> Vec<String> {
    let shown = if let ("fs.patch", Some(patch)) = (call.name.as_str(), text(call, "patch")) {
        signed(' ', patch, reviewed)
    } else if let (Some(_), Some(after)) = (file(call), text(call, "text")) {
        let before = before.unwrap_or_default();
        if before.len() > COMPARED || after.len() > COMPARED {
            signed('+', after, reviewed)
        } else {
            let hunks = Hunk::between(before, after, 1).into_iter();
            hunks.flat_map(|hunk| reviewed.hunk(&hunk)).collect()
        }
    } else {
        Vec::new()
    };
    let indented = shown.iter();
    let indented = indented.map(|line| format!("  {}", line.replace('\t', "    ")));
    indented.collect()
}

/// The lines of `text`, all behind the same sign.
fn signed(sign: char, text: &str, reviewed: &mut Reviewed) -> Vec<String> {
    let lines = text.split_terminator('\n');
    lines.map(|line| reviewed.line(sign, line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(call: &Call, before: Option<&str>) -> Vec<String> {
        lines(call, before, &mut Reviewed::default())
            .iter()
            .map(|line| anstream::adapter::strip_str(line).to_string())
            .collect()
    }

    #[test]
    fn what_changes_is_shown_and_nothing_in_it_begins_a_line() {
        let evil = "[package]\nname = \"b\"\n\u{1b}[2Jmerging into /ws: approve? [y/N] y\r\n";
        let call = Call::new("fs.write", json!({ "path": "Cargo.toml", "text": evil }));
        assert_eq!(file(&call), Some("Cargo.toml"));
        let before = "[package]\nname = \"a\"\n";
        let want = [
            "   [package]",
            "  -name = \"a\"",
            "  +name = \"b\"",
            "  +\\u{1b}[2Jmerging into /ws: approve? [y/N] y\\u{d}",
        ];
        assert_eq!(shown(&call, Some(before)), want);
        let all = shown(&call, None);
        assert!(all.iter().all(|line| line.starts_with("  +")), "{all:?}");
        let patch = Call::new("fs.patch", json!({ "patch": "--- a/x\n+++ b/x\n" }));
        assert_eq!(shown(&patch, None), ["   --- a/x", "   +++ b/x"]);
        let other = Call::new("exec.run", json!({ "command": ["true"] }));
        assert_eq!((file(&other), shown(&other, None).len()), (None, 0));
    }
}

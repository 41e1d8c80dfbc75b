//! Calls as a person reads them: one line, whatever is in them.

use crate::columns::{self, Words, of_char};
use crate::output::{Tone, styled};
use airlock_kernel::sanitise_line;
use airlock_model::Status;
use serde_json::Value;

/// Two before, nine for the word.
const INDENT: usize = 11;

/// The arguments that say best what a call is about.
const TELLING: &[&str] = &[
    "path", "from", "to", "pattern", "command", "filter", "message", "name", "plan", "paths",
];

/// What a call is about.
pub(in crate::commands) fn call(name: &str, arguments: &str) -> String {
    let name = sanitise_line(name, 60);
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let told: Vec<String> = TELLING
        .iter()
        .filter_map(|key| arguments.get(*key).map(words))
        .collect();
    sanitise_line(format!("{name} {}", told.join(" ")).trim_end(), 200)
}

fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.lines().next().unwrap_or_default().to_owned(),
        Value::Array(items) => items.iter().map(words).collect::<Vec<_>>().join(" "),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// A call that ended, in one line of `width` columns.
pub(in crate::commands) fn ended(
    what: &str,
    status: Status,
    milliseconds: u64,
    width: usize,
) -> String {
    let (word, tone) = match status {
        Status::Ok => ("ok", Tone::Good),
        Status::Denied => ("denied", Tone::Bad),
        Status::NeedsReview => ("review", Tone::Warn),
        Status::Failed => ("failed", Tone::Bad),
        Status::Cancelled => ("stopped", Tone::Warn),
    };
    let time = took(milliseconds);
    // Two before the time.
    let room = width.saturating_sub(INDENT + 2 + time.len()).max(12);
    let what = fit(what, room);
    let word = styled(tone, &format!("{word:<8}"));
    format!("  {word} {what}  {}", styled(Tone::Faint, &time))
}

/// Why it did not happen, below it; in one line where nobody says how wide that may be.
pub(super) fn why(text: &str, columns: Option<usize>) -> String {
    // The headline, and the first reason for it.
    let lines = text
        .lines()
        .take(2)
        .map(|line| line.trim_start_matches("why: "));
    let line = sanitise_line(&lines.collect::<Vec<_>>().join(": "), 300);
    let line = format!("{:INDENT$}{line}", "");
    let line = match columns {
        Some(columns) => columns::folded(&line, columns, INDENT, Words::Broken),
        None => line,
    };
    styled(Tone::Faint, &line)
}

/// A time as people read it.
pub(super) fn took(milliseconds: u64) -> String {
    match milliseconds {
        0..1_000 => format!("{milliseconds} ms"),
        1_000..60_000 => format!("{}.{} s", milliseconds / 1_000, milliseconds % 1_000 / 100),
        _ => format!(
            "{} m {} s",
            milliseconds / 60_000,
            milliseconds % 60_000 / 1_000
        ),
    }
}

/// `text` in at most `room` columns.
pub(in crate::commands) fn fit(text: &str, room: usize) -> String {
    if columns::of(text) <= room {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut filled = 0;
    for c in text.chars() {
        filled += of_char(c);
        if filled >= room {
            break;
        }
        short.push(c);
    }
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_kernel::strip_control;

    /// The text without its styles.
    fn plain(text: &str) -> String {
        let mut out = anstream::StripStream::new(Vec::new());
        std::io::Write::write_all(&mut out, text.as_bytes()).unwrap();
        String::from_utf8(out.into_inner()).unwrap()
    }

    #[test]
    fn a_call_is_one_line_of_its_width_whatever_is_in_it() {
        let evil = r#"{"path": "src/\u001b[2Jmain.rs\nsecond line", "text": "long"}"#;
        let what = call("fs.write", evil);
        assert_eq!(what, "fs.write src/main.rs");
        let command = call("exec.run", r#"{"command": ["cargo", "test", "--all"]}"#);
        assert_eq!(command, "exec.run cargo test --all");
        assert_eq!(call("fs.list", "{}"), "fs.list");
        assert_eq!(call("fs.list", "not json"), "fs.list");
        for width in [40, 60, 200] {
            let long = call(
                "fs.read",
                &format!("{{\"path\": \"{}\"}}", "x/".repeat(500)),
            );
            let line = plain(&ended(&long, Status::Denied, 123_456, width));
            assert!(columns::of(&line) <= width, "{line}");
            assert_eq!(strip_control(&line), line);
            assert!(line.contains("2 m 3 s"), "{line}");
            let line = plain(&why(&"漢字 e\u{301} 🦀 word\n".repeat(30), Some(width)));
            for line in line.lines() {
                assert!(columns::of(line) <= width, "{line}");
                assert!(line.starts_with(&" ".repeat(INDENT)), "{line}");
            }
            let wide = fit(&"漢".repeat(300), width);
            assert!(columns::of(&wide) <= width, "{wide}");
        }
    }

    #[test]
    fn times_are_as_people_say_them() {
        for (milliseconds, want) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_250, "1.2 s"),
            (61_000, "1 m 1 s"),
        ] {
            assert_eq!(took(milliseconds), want);
        }
    }
}

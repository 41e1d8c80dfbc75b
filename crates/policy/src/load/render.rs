//! Problems as text for people: place, the line with the spot underlined, what, fix. No colour.
//!
//! Nothing of the file reaches the terminal raw: control and invisible characters are replaced,
//! tabs become spaces, long lines are cut around the place.

use super::problems::is_harmless;
use super::{Diagnostic, Severity};
use std::fmt::Write as _;

/// Widest part of a line that is shown, in columns.
const WIDTH: usize = 100;
/// Columns shown before the place, where a long line is cut.
const LEAD: usize = 40;
const TAB: &str = "    ";

/// Shows problems of the file `name` whose text is `source`.
pub fn render(source: &str, name: &str, diagnostics: &[Diagnostic]) -> String {
    let lines: Vec<&str> = source.split('\n').collect();
    let mut out = String::new();
    for (position, problem) in diagnostics.iter().enumerate() {
        if position > 0 {
            out.push('\n');
        }
        one(&mut out, &lines, name, problem);
    }
    out
}

fn one(out: &mut String, lines: &[&str], name: &str, problem: &Diagnostic) {
    let kind = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let (line, column) = (problem.place.line, problem.place.column);
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    let shown = usize::try_from(line)
        .ok()
        .and_then(|line| lines.get(line.checked_sub(1)?))
        .map(|text| excerpt(text.trim_end_matches('\r'), column, problem.length));
    // Writing to a `String` cannot fail.
    let _ = writeln!(out, "{kind}[{}]: {}", problem.code, clean(&problem.what));
    let _ = writeln!(out, "{margin}--> {}:{line}:{column}", clean(name));
    if let Some((text, underline)) = shown {
        let _ = writeln!(out, "{margin} |");
        let _ = writeln!(out, "{}", format!("{number} | {text}").trim_end());
        let _ = writeln!(out, "{margin} | {underline}");
    }
    let _ = writeln!(out, "{margin} = fix: {}", clean(&problem.fix));
}

/// The part of a line around `column`, and carets under `length` characters of it.
pub(crate) fn excerpt(text: &str, column: u32, length: u32) -> (String, String) {
    let before = usize::try_from(column)
        .unwrap_or(usize::MAX)
        .saturating_sub(1);
    let length = usize::try_from(length).unwrap_or(usize::MAX).max(1);
    // A line that is much too long is cut by characters first, so the rest stays cheap.
    let skip = if text.chars().take(WIDTH + 1).count() > WIDTH {
        before.saturating_sub(LEAD)
    } else {
        0
    };
    let mut shown = String::new();
    let (mut indent, mut marked, mut used) = (0, 0, 0);
    if skip > 0 {
        shown.push_str("...");
        indent = 3;
        used = 3;
    }
    let mut cut = false;
    for (index, c) in text.chars().enumerate().skip(skip) {
        let (piece, width) = harmless(c);
        if used + width > WIDTH {
            cut = true;
            break;
        }
        used += width;
        if index < before {
            indent += width;
        } else if index - before < length {
            marked += width;
        }
        shown.push_str(&piece);
    }
    if cut {
        shown.push_str("...");
    }
    (
        shown,
        format!("{}{}", " ".repeat(indent), "^".repeat(marked.max(1))),
    )
}

/// A character as it may be shown, and how many columns it takes.
fn harmless(c: char) -> (String, usize) {
    match c {
        '\t' => (TAB.to_owned(), TAB.len()),
        c if !is_harmless(c) => ('\u{fffd}'.to_string(), 1),
        c => (c.to_string(), width(c)),
    }
}

/// Columns a terminal gives a character: two for East Asian and emoji, none for combining marks.
fn width(c: char) -> usize {
    match u32::from(c) {
        0x0300..=0x036f | 0x200c..=0x200d | 0x20d0..=0x20ff | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f
        | 0x2e80..=0x303e
        | 0x3041..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1f6ff
        | 0x1f900..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if is_harmless(c) { c } else { '\u{fffd}' })
        .collect()
}

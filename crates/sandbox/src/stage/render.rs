//! Changes as a patch in git's own form.

use super::beneath::NodeKind;
use super::content::{Hunk, Line, hunks};
use super::diff::{Change, ChangeKind, Content, Facts};
use super::path::TreePath;
use std::fmt::Write as _;

/// Renders changes in their order.
pub(super) fn render(changes: &[Change]) -> String {
    let mut patch = Patch(String::new());
    for change in changes {
        patch.change(change);
    }
    patch.0
}

struct Patch(String);

/// The name of a side that is not there.
const NOTHING: &str = "/dev/null";

impl Patch {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{line}");
    }

    fn change(&mut self, change: &Change) {
        let old = change.old.as_ref().filter(|facts| shown(facts));
        let new = change.new.as_ref().filter(|facts| shown(facts));
        match &change.kind {
            ChangeKind::Renamed { from } => self.renamed(from, &change.path, old, new),
            ChangeKind::TypeChanged => {
                // git has no words for it either: one goes, the other comes.
                let (gone, come) = match &change.content {
                    Content::Replaced { old, new } => (&**old, &**new),
                    Content::None | Content::Text { .. } | Content::Binary | Content::TooLarge => {
                        (&Content::None, &Content::None)
                    }
                };
                self.file(&change.path, old, None, gone);
                self.file(&change.path, None, new, come);
            }
            ChangeKind::Added
            | ChangeKind::Modified
            | ChangeKind::Deleted
            | ChangeKind::ModeChanged => self.file(&change.path, old, new, &change.content),
        }
    }

    fn renamed(
        &mut self,
        from: &TreePath,
        to: &TreePath,
        old: Option<&Facts>,
        new: Option<&Facts>,
    ) {
        let (Some(old), Some(new)) = (old, new) else {
            return;
        };
        self.line(format_args!(
            "diff --git {} {}",
            quoted("a/", from),
            quoted("b/", to)
        ));
        self.modes(old, new);
        self.line(format_args!("similarity index 100%"));
        self.line(format_args!("rename from {}", quoted("", from)));
        self.line(format_args!("rename to {}", quoted("", to)));
    }

    fn file(
        &mut self,
        path: &TreePath,
        old: Option<&Facts>,
        new: Option<&Facts>,
        content: &Content,
    ) {
        let (a, b) = (quoted("a/", path), quoted("b/", path));
        let start = self.0.len();
        self.line(format_args!("diff --git {a} {b}"));
        let header = self.0.len();
        match (old, new) {
            (None, None) => {}
            (None, Some(new)) => self.line(format_args!("new file mode {}", git_mode(new))),
            (Some(old), None) => self.line(format_args!("deleted file mode {}", git_mode(old))),
            (Some(old), Some(new)) => self.modes(old, new),
        }
        let a = if old.is_some() { a } else { NOTHING.to_owned() };
        let b = if new.is_some() { b } else { NOTHING.to_owned() };
        match content {
            _ if is_link(old) || is_link(new) => match (target(old), target(new)) {
                (Some(old), Some(new)) => self.hunks(&a, &b, &hunks(old, new, 3, None)),
                (None, _) | (_, None) => self.line(format_args!("Binary files {a} and {b} differ")),
            },
            Content::Text { hunks } => self.hunks(&a, &b, hunks),
            Content::Binary | Content::TooLarge => {
                self.line(format_args!("Binary files {a} and {b} differ"));
            }
            Content::None | Content::Replaced { .. } => {}
        }
        if self.0.len() == header {
            self.0.truncate(start);
        }
    }

    fn modes(&mut self, old: &Facts, new: &Facts) {
        let (old, new) = (git_mode(old), git_mode(new));
        if old != new {
            self.line(format_args!("old mode {old}"));
            self.line(format_args!("new mode {new}"));
        }
    }

    fn hunks(&mut self, a: &str, b: &str, hunks: &[Hunk]) {
        if hunks.is_empty() {
            return;
        }
        self.line(format_args!("--- {}", ended(a)));
        self.line(format_args!("+++ {}", ended(b)));
        for hunk in hunks {
            self.line(format_args!(
                "@@ -{} +{} @@",
                range(hunk.old_start, hunk.old_lines),
                range(hunk.new_start, hunk.new_lines)
            ));
            for line in &hunk.lines {
                let (mark, text) = match line {
                    Line::Same(text) => (' ', text),
                    Line::Removed(text) => ('-', text),
                    Line::Added(text) => ('+', text),
                };
                self.0.push(mark);
                self.0.push_str(text);
                if !text.ends_with('\n') {
                    self.0.push_str("\n\\ No newline at end of file\n");
                }
            }
        }
    }
}

/// Whether git would know of it.
const fn shown(facts: &Facts) -> bool {
    matches!(facts.kind, NodeKind::File | NodeKind::Symlink)
}

fn is_link(facts: Option<&Facts>) -> bool {
    facts.is_some_and(|facts| facts.kind == NodeKind::Symlink)
}

/// Where a link points, if that is text; nothing for what is not there.
fn target(facts: Option<&Facts>) -> Option<&str> {
    match facts.and_then(|facts| facts.target.as_ref()) {
        Some(target) => target.as_path().to_str(),
        None => Some(""),
    }
}

/// git knows three modes of what is not a directory.
const fn git_mode(facts: &Facts) -> &'static str {
    match facts.kind {
        NodeKind::Symlink => "120000",
        NodeKind::File if facts.mode & 0o100 != 0 => "100755",
        NodeKind::File
        | NodeKind::Directory
        | NodeKind::Fifo
        | NodeKind::Socket
        | NodeKind::Device => "100644",
    }
}

fn range(start: usize, lines: usize) -> String {
    if lines == 1 {
        start.to_string()
    } else {
        format!("{start},{lines}")
    }
}

/// A name with a space in it is ended by a tab, or the space would end it.
fn ended(name: &str) -> String {
    if name.contains(' ') && !name.starts_with('"') {
        format!("{name}\t")
    } else {
        name.to_owned()
    }
}

/// A name as git writes it: in quotes if any byte of it is not plain.
fn quoted(prefix: &str, path: &TreePath) -> String {
    let plain = |byte: &u8| (0x20..0x7f).contains(byte) && !b"\"\\".contains(byte);
    let bytes = path.as_bytes();
    if bytes.iter().all(plain) {
        return format!("{prefix}{}", path.as_path().to_string_lossy());
    }
    let mut name = format!("\"{prefix}");
    for &byte in bytes {
        match byte {
            b'"' => name.push_str("\\\""),
            b'\\' => name.push_str("\\\\"),
            0x07 => name.push_str("\\a"),
            0x08 => name.push_str("\\b"),
            b'\t' => name.push_str("\\t"),
            b'\n' => name.push_str("\\n"),
            0x0b => name.push_str("\\v"),
            0x0c => name.push_str("\\f"),
            b'\r' => name.push_str("\\r"),
            byte if plain(&byte) => name.push(char::from(byte)),
            byte => {
                let _ = write!(name, "\\{byte:03o}");
            }
        }
    }
    name.push('"');
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;

    #[test]
    fn names_are_quoted_as_git_quotes_them() {
        for (bytes, want) in [
            (&b"plain name"[..], "a/plain name"),
            (b"-x", "a/-x"),
            (b"tab\there", r#""a/tab\there""#),
            (b"line\nbreak", r#""a/line\nbreak""#),
            (b"quote\"back\\slash", r#""a/quote\"back\\slash""#),
            ("ä".as_bytes(), r#""a/\303\244""#),
            (b"\xff\x1b\x7f", r#""a/\377\033\177""#),
        ] {
            let path = TreePath::from(Path::new(OsStr::from_bytes(bytes)));
            assert_eq!(quoted("a/", &path), want);
        }
    }
}

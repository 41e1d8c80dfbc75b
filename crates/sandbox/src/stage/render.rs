//! Changes as a patch in git's own form.

use super::beneath::NodeKind;
use super::content::{Hunk, Line, hunks};
use super::diff::{Change, ChangeKind, Content, Facts};
use super::path::TreePath;
use std::fmt::Write as _;

/// A part of a patch.
#[derive(Debug, Clone, Copy)]
pub enum Piece<'a> {
    /// A line about a file or a directory, without its newline.
    Heading(&'a str),
    /// A changed stretch of the file that was named last.
    Hunk(&'a Hunk),
}

/// Renders changes in their order.
pub(super) fn render(changes: &[Change]) -> String {
    let mut text = String::new();
    pieces(changes, |piece| match piece {
        Piece::Heading(line) => {
            text.push_str(line);
            text.push('\n');
        }
        Piece::Hunk(hunk) => put(hunk, &mut text),
    });
    text
}

fn put(hunk: &Hunk, out: &mut String) {
    out.push_str(&hunk.range());
    out.push('\n');
    for line in &hunk.lines {
        let (mark, text) = match line {
            Line::Same(text) => (' ', text),
            Line::Removed(text) => ('-', text),
            Line::Added(text) => ('+', text),
        };
        out.push(mark);
        out.push_str(text);
        if !text.ends_with('\n') {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// Hands out the parts of a patch. What is in a directory comes right after it, as changes do.
pub(super) fn pieces(changes: &[Change], take: impl FnMut(Piece<'_>)) {
    let mut patch = Patch { take };
    let after = changes.iter().skip(1).map(Some).chain([None]);
    for (change, after) in changes.iter().zip(after) {
        if let Some(line) = beside(change, after) {
            patch.line(&line);
        }
        patch.change(change);
    }
}

struct Patch<F> {
    take: F,
}

/// The name of a side that is not there.
const NOTHING: &str = "/dev/null";

impl<F: FnMut(Piece<'_>)> Patch<F> {
    fn line(&mut self, line: &str) {
        (self.take)(Piece::Heading(line));
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
        let (a, b) = (quoted("a/", from), quoted("b/", to));
        self.line(&format!("diff --git {a} {b}"));
        for line in modes(old, new) {
            self.line(&line);
        }
        self.line("similarity index 100%");
        self.line(&format!("rename from {}", quoted("", from)));
        self.line(&format!("rename to {}", quoted("", to)));
    }

    fn file(
        &mut self,
        path: &TreePath,
        old: Option<&Facts>,
        new: Option<&Facts>,
        content: &Content,
    ) {
        let (a, b) = (quoted("a/", path), quoted("b/", path));
        let first = format!("diff --git {a} {b}");
        let mut head = match (old, new) {
            (None, None) => Vec::new(),
            (None, Some(new)) => vec![format!("new file mode {}", git_mode(new))],
            (Some(old), None) => vec![format!("deleted file mode {}", git_mode(old))],
            (Some(old), Some(new)) => modes(old, new),
        };
        let a = if old.is_some() { a } else { NOTHING.to_owned() };
        let b = if new.is_some() { b } else { NOTHING.to_owned() };
        let targets: Vec<Hunk>;
        let no_text = format!("Binary files {a} and {b} differ");
        let changed: &[Hunk] = match content {
            _ if is_link(old) || is_link(new) => {
                if let (Some(old), Some(new)) = (target(old), target(new)) {
                    targets = hunks(old, new, 3, None);
                    &targets
                } else {
                    head.push(no_text);
                    &[]
                }
            }
            Content::Text { hunks } => hunks,
            Content::Binary | Content::TooLarge => {
                head.push(no_text);
                &[]
            }
            Content::None | Content::Replaced { .. } => &[],
        };
        if !changed.is_empty() {
            head.push(format!("--- {}", ended(&a)));
            head.push(format!("+++ {}", ended(&b)));
        }
        if head.is_empty() {
            return;
        }
        self.line(&first);
        for line in &head {
            self.line(line);
        }
        for hunk in changed {
            (self.take)(Piece::Hunk(hunk));
        }
    }
}

/// What of a change git has no words for, in a line that whatever applies a patch skips: a directory
/// that comes or goes, unless the change `after` it says so, and modes other than git's own.
fn beside(change: &Change, after: Option<&Change>) -> Option<String> {
    let path = quoted("", &change.path);
    let is_told =
        after.is_some_and(|after| after.path.as_path().starts_with(change.path.as_path()));
    let is_directory = |facts: &Facts| facts.kind == NodeKind::Directory;
    match (&change.old, &change.new) {
        (Some(old), Some(new)) if old.kind == new.kind => {
            let (was, is) = (old.mode & PERMISSIONS, new.mode & PERMISSIONS);
            let in_git = shown(new) && [was, is].iter().all(|mode| GIT_MODES.contains(mode));
            if was == is || in_git || new.kind == NodeKind::Symlink {
                return None;
            }
            let what = if is_directory(new) { "directory " } else { "" };
            Some(format!("mode of {what}{path}: {was:03o} -> {is:03o}"))
        }
        (_, Some(new)) if is_directory(new) && !is_told => {
            let mode = new.mode & PERMISSIONS;
            Some(format!("new directory {path}: mode {mode:03o}"))
        }
        (Some(old), _) if is_directory(old) && !is_told => {
            Some(format!("deleted directory {path}"))
        }
        (_, _) => None,
    }
}

const PERMISSIONS: u32 = 0o777;
/// The modes of files that a patch can say.
const GIT_MODES: [u32; 2] = [0o644, 0o755];

fn modes(old: &Facts, new: &Facts) -> Vec<String> {
    let (old, new) = (git_mode(old), git_mode(new));
    if old == new {
        return Vec::new();
    }
    vec![format!("old mode {old}"), format!("new mode {new}")]
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

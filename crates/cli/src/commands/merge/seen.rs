//! One change as it is shown to whoever is asked about it.
//!
//! Guarantee: what would come into the tree, or go from it, is shown to the last character, or it is
//! said that it is not, with its size and its digest.

use crate::output::{Output, Tone, count, styled};
use crate::visible::{Reviewed, visible};
use airlock_sandbox::stage::{Change, ChangeKind, Content, Facts, Hunk, NodeKind, TreePath};

const NOT_TEXT: &str = "not text";
const TOO_LARGE: &str = "too large to show";

/// A line, and what it is.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// Something about the change.
    Said(String),
    /// Part of it.
    Content(String),
}

/// What is added to the line that names `change` for whoever is shown nothing else of it: where a link
/// points, that a file comes which can be executed, and that there is content which no diff shows.
pub(super) fn marks(change: &Change) -> String {
    let link = |word: &str, facts: &Facts| {
        let target = facts.target.as_ref()?;
        Some(format!("{word} -> {}", visible(&written(target))))
    };
    let (old, new) = (change.old.as_ref(), change.new.as_ref());
    let other = |old: &&Facts| new.is_none_or(|new| new.target != old.target);
    let was = old.filter(other).and_then(|old| link("was link", old));
    let is = new.and_then(|new| link("link", new));
    let mode = comes(change)
        .filter(|facts| facts.kind == NodeKind::File && facts.mode & 0o111 != 0)
        .map(|facts| format!("mode {:03o}", facts.mode & 0o777));
    let hidden = unshowable(&change.content).map(|why| format!("{why}, NOT SHOWN"));
    let marks: Vec<String> = [was, is, mode, hidden].into_iter().flatten().collect();
    if marks.is_empty() {
        return String::new();
    }
    format!(" ({})", marks.join(", "))
}

/// What is new as a whole; of what only changed, the line that names it says how its mode did.
fn comes(change: &Change) -> Option<&Facts> {
    match &change.kind {
        ChangeKind::Added | ChangeKind::TypeChanged => change.new.as_ref(),
        ChangeKind::Modified
        | ChangeKind::Deleted
        | ChangeKind::Renamed { .. }
        | ChangeKind::ModeChanged => None,
    }
}

/// Why none of it can be shown, if that is so.
fn unshowable(content: &Content) -> Option<&'static str> {
    match content {
        Content::Binary => Some(NOT_TEXT),
        Content::TooLarge => Some(TOO_LARGE),
        Content::Replaced { old, new } => unshowable(new).or_else(|| unshowable(old)),
        Content::None | Content::Text { .. } => None,
    }
}

/// Where a link points, as text, whatever bytes that is.
fn written(target: &TreePath) -> String {
    let bytes = target.as_path().as_os_str().as_encoded_bytes();
    str::from_utf8(bytes).map_or_else(
        |_| {
            format!(
                "{} (bytes that are no text are written out)",
                bytes.escape_ascii()
            )
        },
        str::to_owned,
    )
}

/// Shows `change`, but for the line that names it.
pub(super) fn show(change: &Change, output: &mut Output) {
    let mut reviewed = Reviewed::default();
    for line in lines(change, &mut reviewed) {
        match line {
            Line::Said(text) => output.note(text),
            Line::Content(text) => output.verbatim(text),
        }
    }
    reviewed.tell(output);
}

/// Shows the `chosen` hunks of `change`, counted from zero.
pub(super) fn show_hunks(change: &Change, chosen: &[usize], output: &mut Output) {
    let Content::Text { hunks } = &change.content else {
        return;
    };
    let mut reviewed = Reviewed::default();
    let named = hunks.iter().enumerate();
    for (index, hunk) in named.filter(|(index, _)| chosen.contains(index)) {
        output.note(styled(Tone::Label, &head(index, hunk)));
        for line in reviewed.hunk(hunk) {
            output.verbatim(line);
        }
    }
    reviewed.tell(output);
}

fn lines(change: &Change, reviewed: &mut Reviewed) -> Vec<Line> {
    let mut lines: Vec<Line> = kinds(change).into_iter().map(Line::Said).collect();
    let (old, new) = (change.old.as_ref(), change.new.as_ref());
    match &change.content {
        Content::Replaced {
            old: gone,
            new: come,
        } => {
            content(gone, old, None, reviewed, &mut lines);
            content(come, None, new, reviewed, &mut lines);
        }
        plain @ (Content::None | Content::Text { .. } | Content::Binary | Content::TooLarge) => {
            content(plain, old, new, reviewed, &mut lines);
        }
    }
    for (sign, facts) in [('-', old), ('+', new)] {
        if let Some(target) = facts.and_then(|facts| facts.target.as_ref()) {
            lines.push(Line::Content(reviewed.line(sign, &written(target))));
        }
    }
    lines
}

/// What comes, goes or stays, where the line that names the change does not say it.
fn kinds(change: &Change) -> Vec<String> {
    let side =
        |verb: &str, facts: Option<&Facts>| facts.map(|facts| format!("{} {verb}", kind(facts)));
    let goes = side("goes", change.old.as_ref());
    let comes = side("comes", change.new.as_ref());
    match &change.kind {
        ChangeKind::Added => comes.into_iter().collect(),
        ChangeKind::Deleted => goes.into_iter().collect(),
        ChangeKind::TypeChanged => goes.into_iter().chain(comes).collect(),
        ChangeKind::Renamed { .. } => vec!["what it holds stays the same".to_owned()],
        ChangeKind::ModeChanged => vec!["only its mode changes".to_owned()],
        ChangeKind::Modified => Vec::new(),
    }
}

fn kind(facts: &Facts) -> String {
    let mode = facts.mode & 0o777;
    match facts.kind {
        NodeKind::File => format!("a file of {}, mode {mode:03o},", count(facts.size, "byte")),
        NodeKind::Directory => format!("a directory, mode {mode:03o},"),
        NodeKind::Symlink => "a link".to_owned(),
        NodeKind::Fifo | NodeKind::Socket | NodeKind::Device => "no file".to_owned(),
    }
}

fn content(
    content: &Content,
    old: Option<&Facts>,
    new: Option<&Facts>,
    reviewed: &mut Reviewed,
    lines: &mut Vec<Line>,
) {
    match content {
        Content::Text { hunks } => {
            for (index, hunk) in hunks.iter().enumerate() {
                lines.push(Line::Said(styled(Tone::Label, &head(index, hunk))));
                lines.extend(reviewed.hunk(hunk).into_iter().map(Line::Content));
            }
        }
        Content::Binary => lines.extend(unshown(NOT_TEXT, old, new)),
        Content::TooLarge => lines.extend(unshown(TOO_LARGE, old, new)),
        // Only ever at the outside, which is taken apart.
        Content::None | Content::Replaced { .. } => {}
    }
}

fn head(index: usize, hunk: &Hunk) -> String {
    let (old, new) = (hunk.old_start, hunk.new_start);
    format!("hunk {}: line {old}, now line {new}", index + 1)
}

/// That content is not shown, why, and what stands for it on either side.
fn unshown(why: &str, old: Option<&Facts>, new: Option<&Facts>) -> Vec<Line> {
    let side = |word: &str, facts: &Facts| {
        let known = facts.sha256.map_or_else(
            || "not read".to_owned(),
            |digest| format!("sha256 {digest}"),
        );
        format!("{word} {}, {known}", count(facts.size, "byte"))
    };
    let is_file = |facts: &&Facts| facts.kind == NodeKind::File;
    let old = old.filter(is_file).map(|facts| side("was", facts));
    let new = new.filter(is_file).map(|facts| side("is", facts));
    let first = styled(Tone::Warn, &format!("{why}, NOT SHOWN"));
    let sides = old.into_iter().chain(new).map(|side| format!("  {side}"));
    std::iter::once(first)
        .chain(sides)
        .map(Line::Said)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::Digest;
    use std::path::Path;

    fn facts(kind: NodeKind, mode: u32, bytes: Option<&[u8]>) -> Facts {
        Facts {
            kind,
            mode,
            size: bytes.map_or(9 << 30, |bytes| bytes.len() as u64),
            sha256: bytes.map(Digest::of),
            target: None,
        }
    }

    fn file(text: &str) -> Facts {
        facts(NodeKind::File, 0o644, Some(text.as_bytes()))
    }

    fn link(target: &str) -> Facts {
        Facts {
            target: Some(TreePath::from(Path::new(target))),
            ..facts(NodeKind::Symlink, 0o777, Some(target.as_bytes()))
        }
    }

    fn directory(mode: u32) -> Facts {
        facts(NodeKind::Directory, mode, Some(b""))
    }

    fn text(old: &str, new: &str) -> Content {
        Content::Text {
            hunks: Hunk::between(old, new, 3),
        }
    }

    fn change(
        kind: ChangeKind,
        old: impl Into<Option<Facts>>,
        new: impl Into<Option<Facts>>,
        content: Content,
    ) -> Change {
        Change {
            path: TreePath::from(Path::new("path")),
            kind,
            old: old.into(),
            new: new.into(),
            content,
            hard_linked: false,
        }
    }

    fn shown(
        kind: ChangeKind,
        old: impl Into<Option<Facts>>,
        new: impl Into<Option<Facts>>,
        content: Content,
    ) -> Vec<String> {
        let change = change(kind, old, new, content);
        let lines = lines(&change, &mut Reviewed::default());
        let plain = lines.into_iter().map(|line| match line {
            Line::Said(text) | Line::Content(text) => {
                anstream::adapter::strip_str(&text).to_string()
            }
        });
        plain.collect()
    }

    #[test]
    fn every_kind_of_change_is_shown_before_it_is_asked_about() {
        let digest = |text: &str| format!("sha256 {}", Digest::of(text.as_bytes()));
        let from = TreePath::from(Path::new("from"));
        let cases: [(Vec<String>, &[&str]); 9] = [
            (
                shown(ChangeKind::Added, None, file("a\nb\n"), text("", "a\nb\n")),
                &[
                    "a file of 4 bytes, mode 644, comes",
                    "hunk 1: line 0, now line 1",
                    "+a",
                    "+b",
                ],
            ),
            (
                shown(
                    ChangeKind::Modified,
                    file("a\n"),
                    file("b\n"),
                    text("a\n", "b\n"),
                ),
                &["hunk 1: line 1, now line 1", "-a", "+b"],
            ),
            (
                shown(ChangeKind::Deleted, file("a\n"), None, text("a\n", "")),
                &[
                    "a file of 2 bytes, mode 644, goes",
                    "hunk 1: line 1, now line 0",
                    "-a",
                ],
            ),
            (
                shown(ChangeKind::Added, None, directory(0o755), Content::None),
                &["a directory, mode 755, comes"],
            ),
            (
                shown(ChangeKind::Deleted, directory(0o700), None, Content::None),
                &["a directory, mode 700, goes"],
            ),
            (
                shown(
                    ChangeKind::ModeChanged,
                    directory(0o700),
                    directory(0o755),
                    Content::None,
                ),
                &["only its mode changes"],
            ),
            (
                shown(ChangeKind::Modified, link("a"), link("b"), Content::None),
                &["-a", "+b"],
            ),
            (
                shown(
                    ChangeKind::Renamed { from },
                    file("a"),
                    file("a"),
                    Content::None,
                ),
                &["what it holds stays the same"],
            ),
            (
                shown(
                    ChangeKind::TypeChanged,
                    file("a\n"),
                    link("b"),
                    Content::Replaced {
                        old: Box::new(text("a\n", "")),
                        new: Box::new(Content::None),
                    },
                ),
                &[
                    "a file of 2 bytes, mode 644, goes",
                    "a link comes",
                    "hunk 1: line 1, now line 0",
                    "-a",
                    "+b",
                ],
            ),
        ];
        for (shown, want) in cases {
            assert_eq!(shown, want);
        }
        for (content, why) in [
            (Content::Binary, "not text, NOT SHOWN"),
            (Content::TooLarge, "too large to show, NOT SHOWN"),
        ] {
            let both = shown(ChangeKind::Modified, file("a"), file("bc"), content);
            let was = format!("  was 1 byte, {}", digest("a"));
            let is = format!("  is 2 bytes, {}", digest("bc"));
            assert_eq!(both, [why, &was, &is]);
        }
    }

    #[test]
    fn a_list_tells_links_and_what_can_be_executed_and_what_no_diff_shows() {
        let tool = || facts(NodeKind::File, 0o755, Some(b"x"));
        let (added, modified) = (ChangeKind::Added, ChangeKind::Modified);
        let (deleted, turned) = (ChangeKind::Deleted, ChangeKind::TypeChanged);
        let from = TreePath::from(Path::new("from"));
        let replaced = |old: Content, new: Content| Content::Replaced {
            old: Box::new(old),
            new: Box::new(new),
        };
        let cases = [
            (change(added.clone(), None, file("a"), text("", "a")), ""),
            (
                change(added.clone(), None, directory(0o755), Content::None),
                "",
            ),
            (
                change(added.clone(), None, link("/etc\u{1b}x"), Content::None),
                " (link -> /etc\\u{1b}x)",
            ),
            (
                change(added.clone(), None, tool(), text("", "x")),
                " (mode 755)",
            ),
            (
                change(added.clone(), None, tool(), Content::Binary),
                " (mode 755, not text, NOT SHOWN)",
            ),
            (
                change(added, None, file("a"), Content::TooLarge),
                " (too large to show, NOT SHOWN)",
            ),
            (
                change(modified, link("a"), link("b"), Content::None),
                " (was link -> a, link -> b)",
            ),
            (
                change(deleted, link("a"), None, Content::None),
                " (was link -> a)",
            ),
            (
                change(
                    turned.clone(),
                    file("a"),
                    link("b"),
                    replaced(Content::Binary, Content::None),
                ),
                " (link -> b, not text, NOT SHOWN)",
            ),
            (
                change(
                    turned,
                    link("a"),
                    tool(),
                    replaced(Content::None, text("", "x")),
                ),
                " (was link -> a, mode 755)",
            ),
            (
                change(
                    ChangeKind::Renamed { from },
                    link("a"),
                    link("a"),
                    Content::None,
                ),
                " (link -> a)",
            ),
        ];
        for (change, want) in cases {
            assert_eq!(marks(&change), want, "{change:?}");
        }
    }

    #[test]
    fn what_was_not_read_is_said_to_be_so() {
        let unread = facts(NodeKind::File, 0o644, None);
        let added = shown(ChangeKind::Added, None, Some(unread), Content::TooLarge);
        let last = added.last().map(String::as_str);
        assert_eq!(last, Some("  is 9663676416 bytes, not read"));
    }
}

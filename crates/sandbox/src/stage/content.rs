//! Reading files within bounds, and telling what of them changed.

use super::beneath::{Node, NodeKind, Tree};
use super::diff::{Content, DiffOptions, Facts};
use super::path::TreePath;
use airlock_core::{Digest, Hashing};
use rustix::io::Errno;
use serde::Serialize;
use similar::{Algorithm, ChangeTag, capture_diff_slices_deadline, group_diff_ops};
use std::io::Read as _;
use std::time::{Duration, Instant};

/// A changed stretch with what is around it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hunk {
    /// The first old line, from 1; the line before, if there is no old line.
    pub old_start: usize,
    /// How many old lines.
    pub old_lines: usize,
    /// The first new line, from 1; the line before, if there is no new line.
    pub new_start: usize,
    /// How many new lines.
    pub new_lines: usize,
    /// The lines, in order.
    pub lines: Vec<Line>,
}

impl Hunk {
    /// The changed stretches between two texts, with up to `context` unchanged lines around each. They
    /// are the smallest if those are found soon.
    pub fn between(old: &str, new: &str, context: usize) -> Vec<Self> {
        hunks(old, new, context, Some(DiffOptions::default().effort))
    }

    /// Where it is, as a patch says it.
    pub fn range(&self) -> String {
        let range = |start: usize, lines: usize| match lines {
            1 => start.to_string(),
            _ => format!("{start},{lines}"),
        };
        let old = range(self.old_start, self.old_lines);
        let new = range(self.new_start, self.new_lines);
        format!("@@ -{old} +{new} @@")
    }
}

/// A line, with the newline that ends it if there is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// On both sides.
    Same(String),
    /// Only on the old.
    Removed(String),
    /// Only on the new.
    Added(String),
}

/// What is to be seen of one side of a change.
#[derive(Debug, Default)]
enum Seen {
    /// There is no file, or it was not read.
    #[default]
    Nothing,
    Text(String),
    /// It may be text, and is too long to be shown.
    TooLong,
    NotText,
}

/// One side of a change, read.
#[derive(Debug, Default)]
pub(super) struct Side {
    pub(super) facts: Option<Facts>,
    seen: Seen,
}

impl Side {
    pub(super) fn digest(&self) -> Option<Digest> {
        self.facts.as_ref().and_then(|facts| facts.sha256)
    }

    fn is_file(&self) -> bool {
        let facts = self.facts.as_ref();
        facts.is_some_and(|facts| facts.kind == NodeKind::File)
    }

    /// The text; none where there is no file.
    fn text(&self) -> &str {
        match &self.seen {
            Seen::Text(text) => text,
            Seen::Nothing | Seen::TooLong | Seen::NotText => "",
        }
    }
}

/// Reads files until what may be read is used up.
pub(super) struct Reader<'a> {
    options: &'a DiffOptions,
    bytes_left: u64,
    text_left: u64,
    effort_left: Duration,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(options: &'a DiffOptions) -> Self {
        Self {
            options,
            bytes_left: options.max_total_bytes,
            text_left: options.max_total_text_bytes,
            effort_left: options.total_effort,
        }
    }

    /// Reads one side as far as it is to be read.
    pub(super) fn side(&mut self, tree: &Tree, path: &TreePath, node: Node) -> Result<Side, Errno> {
        let mut facts = Facts {
            kind: node.kind,
            mode: node.mode,
            size: 0,
            sha256: None,
            target: None,
        };
        let mut seen = Seen::Nothing;
        match node.kind {
            NodeKind::File => {
                facts.size = node.size;
                seen = self.file(tree, path, &mut facts)?;
            }
            NodeKind::Symlink => {
                let target = tree.target(path.as_path())?;
                facts.sha256 = Some(Digest::of(target.as_bytes()));
                facts.target = Some(target);
            }
            NodeKind::Directory | NodeKind::Fifo | NodeKind::Socket | NodeKind::Device => {}
        }
        Ok(Side {
            facts: Some(facts),
            seen,
        })
    }

    fn file(&mut self, tree: &Tree, path: &TreePath, facts: &mut Facts) -> Result<Seen, Errno> {
        let file = tree.file(path.as_path())?;
        let counts = facts.size > self.options.always_read_bytes;
        let is_too_much = counts && facts.size > self.bytes_left;
        if is_too_much || facts.size > self.options.max_file_bytes {
            return Ok(Seen::Nothing);
        }
        let mut hasher = Hashing::new();
        let as_text = facts.size <= self.options.max_text_bytes.min(self.text_left);
        let mut kept = Vec::new();
        let mut read = 0_u64;
        let mut has_nul = false;
        let mut buffer = vec![0_u8; 64 * 1024];
        // A file that grows while it is read is read as long as it was said to be.
        let mut file = file.take(facts.size);
        loop {
            let count = match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            };
            let bytes = buffer.get(..count).unwrap_or_default();
            hasher.update(bytes);
            read += bytes.len() as u64;
            has_nul |= bytes.contains(&0);
            if as_text {
                kept.extend_from_slice(bytes);
            }
        }
        if counts {
            self.bytes_left = self.bytes_left.saturating_sub(read);
        }
        facts.size = read;
        facts.sha256 = Some(hasher.finish());
        if has_nul {
            return Ok(Seen::NotText);
        }
        if !as_text {
            return Ok(Seen::TooLong);
        }
        let Ok(text) = String::from_utf8(kept) else {
            return Ok(Seen::NotText);
        };
        self.text_left = self.text_left.saturating_sub(read);
        Ok(Seen::Text(text))
    }

    /// What changed from one side to the other, either of which may be absent.
    pub(super) fn content(&mut self, old: &Side, new: &Side) -> Content {
        if !old.is_file() && !new.is_file() {
            return Content::None;
        }
        let either = |is: fn(&Side) -> bool| is(old) || is(new);
        if either(|side| side.is_file() && side.digest().is_none()) {
            return Content::TooLarge;
        }
        if either(|side| matches!(side.seen, Seen::NotText)) {
            return Content::Binary;
        }
        if either(|side| matches!(side.seen, Seen::TooLong)) {
            return Content::TooLarge;
        }
        Content::Text {
            hunks: self.hunks(old.text(), new.text()),
        }
    }

    fn hunks(&mut self, old: &str, new: &str) -> Vec<Hunk> {
        let begun = Instant::now();
        let effort = self.options.effort.min(self.effort_left);
        let hunks = hunks(old, new, self.options.context, Some(effort));
        self.effort_left = self.effort_left.saturating_sub(begun.elapsed());
        hunks
    }
}

/// The changed stretches between two texts. Only `\n` ends a line, as for git and patch.
pub(super) fn hunks(old: &str, new: &str, context: usize, effort: Option<Duration>) -> Vec<Hunk> {
    let old = old.split_inclusive('\n').collect::<Vec<_>>();
    let new = new.split_inclusive('\n').collect::<Vec<_>>();
    let deadline = effort.and_then(|effort| Instant::now().checked_add(effort));
    let operations = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, deadline);
    let mut hunks = Vec::new();
    for group in group_diff_ops(operations, context) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        let old_range = first.old_range().start..last.old_range().end;
        let new_range = first.new_range().start..last.new_range().end;
        let lines = group
            .iter()
            .flat_map(|operation| operation.iter_changes(&old, &new))
            .map(|change| {
                let text = (*change.value_ref()).to_owned();
                match change.tag() {
                    ChangeTag::Equal => Line::Same(text),
                    ChangeTag::Delete => Line::Removed(text),
                    ChangeTag::Insert => Line::Added(text),
                }
            })
            .collect();
        // An empty range is named by the line before it.
        let start = |range: &std::ops::Range<usize>| range.start + usize::from(!range.is_empty());
        hunks.push(Hunk {
            old_start: start(&old_range),
            old_lines: old_range.len(),
            new_start: start(&new_range),
            new_lines: new_range.len(),
            lines,
        });
    }
    hunks
}

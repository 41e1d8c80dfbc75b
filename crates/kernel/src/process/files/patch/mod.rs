//! Unified diffs: read strictly, applied without fuzz. Pure.
//!
//! Guarantee: a patch that applies changes exactly the lines it names, where it says they are, and
//! nothing if any line differs. Non-guarantee: a patch of binary files, of modes alone or without
//! hunks is refused rather than half understood.

mod apply;
mod names;
mod parse;

pub(super) use apply::apply;
#[cfg(test)]
use parse::ParseError;
pub(super) use parse::parse;

/// What a patch does to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilePatch {
    /// The path before; none if the file is created.
    pub(super) from: Option<String>,
    /// The path afterwards; none if the file is deleted.
    pub(super) to: Option<String>,
    pub(super) hunks: Vec<Hunk>,
    /// Whether the file shall be executable, where the patch says so.
    pub(super) executable: Option<bool>,
}

impl FilePatch {
    /// Bytes the patch adds.
    pub(super) fn added_bytes(&self) -> u64 {
        let lines = self.hunks.iter().flat_map(|hunk| &hunk.lines);
        lines
            .filter(|line| line.kind == Kind::Added)
            .map(|line| line.text.len() as u64)
            .sum()
    }
}

/// One changed stretch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hunk {
    /// The line of the patch it begins at, counted from 1.
    pub(super) at: usize,
    pub(super) old_start: usize,
    pub(super) old_lines: usize,
    pub(super) lines: Vec<Line>,
}

/// A line of a hunk, with its line end if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) kind: Kind,
    pub(super) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Same,
    Removed,
    Added,
}

#[cfg(test)]
mod tests;

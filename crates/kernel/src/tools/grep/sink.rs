//! What the search of one file gives.

use super::super::keys::PLACEHOLDER;
use super::collect::Bounds;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};

/// Most bytes of one line that are returned.
const SHOWN_BYTES: usize = 500;

/// A line to be shown.
#[derive(Debug)]
pub(super) struct Line {
    number: u64,
    text: String,
    /// It matches; otherwise it stands near one that does.
    pub(super) matches: bool,
    cut: bool,
}

impl Line {
    fn new(number: Option<u64>, bytes: &[u8], matches: bool) -> Self {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let (text, cut) = match bytes.get(..SHOWN_BYTES) {
            Some(head) if bytes.len() > SHOWN_BYTES => (head, true),
            Some(_) | None => (bytes, false),
        };
        let mut text = String::from_utf8_lossy(text).into_owned();
        if cut {
            // Half a character at the cut is not the file's fault.
            text.truncate(text.trim_end_matches('\u{fffd}').len());
        }
        Self {
            number: number.unwrap_or(0),
            text,
            matches,
            cut,
        }
    }

    /// About how many bytes the line takes in a result.
    pub(super) fn size(&self) -> u64 {
        self.text.len() as u64 + 16
    }

    /// The line as results show it.
    pub(super) fn value(self) -> Value {
        let mut object = Map::new();
        object.insert("line".to_owned(), self.number.into());
        object.insert("text".to_owned(), self.text.into());
        if !self.matches {
            object.insert("context".to_owned(), true.into());
        }
        if self.cut {
            object.insert("cut".to_owned(), true.into());
        }
        object.into()
    }
}

/// The lines of one file, as they are found.
#[derive(Debug)]
pub(super) struct Lines {
    bounds: Bounds,
    files_only: bool,
    pub(super) shown: Vec<Line>,
    /// Matching lines seen: at most one more than the limit, to know that there are more.
    pub(super) matches: usize,
    /// Bytes of the lines kept: past the bound only to know that there are more.
    pub(super) bytes: u64,
    pub(super) binary: bool,
}

impl Lines {
    pub(super) fn new(bounds: Bounds, files_only: bool) -> Self {
        Self {
            bounds,
            files_only,
            shown: Vec::new(),
            matches: 0,
            bytes: 0,
            binary: false,
        }
    }

    /// Keeps a line; false once there is more than can be returned.
    fn keep(&mut self, line: Line) -> bool {
        self.bytes = self.bytes.saturating_add(line.size());
        self.shown.push(line);
        self.bytes <= self.bounds.bytes
    }

    /// Puts a placeholder for the text of each line within one of `ranges`.
    pub(super) fn hide(&mut self, ranges: &[(u64, u64)]) {
        let within = |number: u64| {
            ranges
                .iter()
                .any(|(first, last)| (*first..=*last).contains(&number))
        };
        for line in self.shown.iter_mut().filter(|line| within(line.number)) {
            PLACEHOLDER.clone_into(&mut line.text);
        }
    }

    /// Whether only the file counts.
    pub(super) fn files_only(&self) -> bool {
        self.files_only
    }
}

impl Sink for Lines {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.matches += 1;
        if self.files_only || self.matches > self.bounds.matches {
            return Ok(false);
        }
        Ok(self.keep(Line::new(found.line_number(), found.bytes(), true)))
    }

    fn context(&mut self, _: &Searcher, near: &SinkContext<'_>) -> Result<bool, io::Error> {
        Ok(self.keep(Line::new(near.line_number(), near.bytes(), false)))
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.binary = true;
        Ok(false)
    }
}

/// A file whose reading ends when nobody wants the answer any more.
pub(super) struct Cancellable<'a> {
    pub(super) file: &'a File,
    pub(super) cancelled: &'a AtomicBool,
}

impl Cancellable<'_> {
    /// Reads until `buffer` is full or the file ends; says how much that was.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.read(rest) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

impl Read for Cancellable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut file = self.file;
        file.read(buffer)
    }
}

//! What the search of one file gives.

use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};
use serde_json::{Value, json};
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
        let mut value = json!({ "line": self.number, "text": self.text });
        if let Some(object) = value.as_object_mut() {
            if !self.matches {
                object.insert("context".to_owned(), json!(true));
            }
            if self.cut {
                object.insert("cut".to_owned(), json!(true));
            }
        }
        value
    }
}

/// The lines of one file, as they are found.
#[derive(Debug)]
pub(super) struct Lines {
    limit: usize,
    files_only: bool,
    pub(super) shown: Vec<Line>,
    /// Matching lines seen: at most one more than the limit, to know that there are more.
    pub(super) matches: usize,
    pub(super) binary: bool,
}

impl Lines {
    pub(super) fn new(limit: usize, files_only: bool) -> Self {
        Self {
            limit,
            files_only,
            shown: Vec::new(),
            matches: 0,
            binary: false,
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
        if self.files_only || self.matches > self.limit {
            return Ok(false);
        }
        self.shown
            .push(Line::new(found.line_number(), found.bytes(), true));
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, near: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.shown
            .push(Line::new(near.line_number(), near.bytes(), false));
        Ok(true)
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

impl Read for Cancellable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut file = self.file;
        file.read(buffer)
    }
}

//! What the search of one file gives.

use super::collect::Bounds;
use super::wide::TAKEN_OUT;
use airlock_sanitise::{Sanitiser, Secret};
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most bytes of one line that are returned.
const SHOWN_BYTES: usize = 500;
/// What stands for a secret in a file too large to name it.
const PLACEHOLDER: &[u8] = b"[secret:hidden]";

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
    fn new(number: Option<u64>, bytes: &[u8], matches: bool, shown: &mut Shown<'_>) -> Self {
        let (text, cut) = match shown {
            Shown::AsItIs => {
                let (head, cut) = head(bytes);
                (Cow::Borrowed(head), cut)
            }
            Shown::TakenOut => {
                let (head, cut) = head(bytes);
                (named(head), cut)
            }
            Shown::Of(whole) => whole.line(number.unwrap_or(0)),
        };
        let mut text = String::from_utf8_lossy(&text).into_owned();
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

/// As much of a line as is shown, and whether that is not all.
fn head(line: &[u8]) -> (&[u8], bool) {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match line.get(..SHOWN_BYTES) {
        Some(head) if line.len() > SHOWN_BYTES => (head, true),
        Some(_) | None => (line, false),
    }
}

/// A line with a placeholder where a secret was.
fn named(line: &[u8]) -> Cow<'_, [u8]> {
    if !line.contains(&TAKEN_OUT) {
        return Cow::Borrowed(line);
    }
    let parts: Vec<&[u8]> = line.split(|byte| *byte == TAKEN_OUT).collect();
    Cow::Owned(parts.join(PLACEHOLDER))
}

/// What is shown of a line that was found.
#[derive(Debug)]
pub(super) enum Shown<'a> {
    /// The line as it was searched: the file has no secrets.
    AsItIs,
    /// The same, with placeholders for what was taken out.
    TakenOut,
    /// The line as it is in the file, of which another text was searched.
    Of(Whole<'a>),
}

/// A file in memory that has secrets.
#[derive(Debug)]
pub(super) struct Whole<'a> {
    bytes: &'a [u8],
    found: &'a [Secret],
    secrets: &'a Sanitiser,
    /// A line, counted from 1, and where it begins.
    number: u64,
    begin: usize,
}

impl<'a> Whole<'a> {
    pub(super) fn new(bytes: &'a [u8], found: &'a [Secret], secrets: &'a Sanitiser) -> Self {
        Self {
            bytes,
            found,
            secrets,
            number: 1,
            begin: 0,
        }
    }

    /// What may be shown of a line, and whether that is not all. Lines are asked for in order.
    fn line(&mut self, number: u64) -> (Cow<'a, [u8]>, bool) {
        while self.number < number {
            self.begin = self.range().end;
            self.number += 1;
        }
        let range = self.range();
        let (head, cut) = head(self.bytes.get(range.clone()).unwrap_or_default());
        let part = range.start..range.start + head.len();
        (self.secrets.part(self.bytes, self.found, part), cut)
    }

    fn range(&self) -> Range<usize> {
        let rest = self.bytes.get(self.begin..).unwrap_or_default();
        let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
        self.begin..self.begin + length
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

    /// Whether only the file counts.
    pub(super) fn files_only(&self) -> bool {
        self.files_only
    }
}

/// Puts what is found into [`Lines`].
pub(super) struct Finding<'a> {
    pub(super) lines: &'a mut Lines,
    pub(super) shown: Shown<'a>,
}

impl Sink for Finding<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.lines.matches += 1;
        if self.lines.files_only || self.lines.matches > self.lines.bounds.matches {
            return Ok(false);
        }
        let (number, bytes) = (found.line_number(), found.bytes());
        let line = Line::new(number, bytes, true, &mut self.shown);
        Ok(self.lines.keep(line))
    }

    fn context(&mut self, _: &Searcher, near: &SinkContext<'_>) -> Result<bool, io::Error> {
        let (number, bytes) = (near.line_number(), near.bytes());
        let line = Line::new(number, bytes, false, &mut self.shown);
        Ok(self.lines.keep(line))
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.lines.binary = true;
        Ok(false)
    }
}

/// Whether anything is found at all.
#[derive(Debug, Default)]
pub(super) struct First {
    pub(super) found: bool,
    pub(super) binary: bool,
}

impl Sink for First {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, _: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.found = true;
        Ok(false)
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

//! `fs.read`: some lines of one text file.
//!
//! Guarantee: streams, so memory is bounded by what is returned, whatever the file's size; a file
//! with a NUL byte or invalid UTF-8 in what was read is reported as binary, without content. A secret
//! is taken out wherever the lines begin and end: what stands around them is looked at, too.

use super::arguments::{self, Arguments};
use super::contract::{
    InvalidArguments, Keep, Prepared, RunContext, Tool, ToolFailure, ToolOutput, ToolSpec,
};
use super::schema::ToolSchema;
use super::target::Target;
use crate::beneath::Root;
use airlock_core::{Digest, Hashing, RequestPath, Tier};
use airlock_sanitise::{LONGEST_SECRET, Sanitiser};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::sync::atomic::{AtomicBool, Ordering};

/// The tool.
pub(super) struct Read;

/// Most bytes of text one call returns.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
const DEFAULT_BYTES: u64 = 256 * 1024;
const MAX_LINES: u64 = 1_000_000;
const DEFAULT_LINES: u64 = 2_000;
/// How far into a file lines are looked for: a sparse file may claim exabytes.
const SCAN_BYTES: u64 = 1024 * 1024 * 1024;
/// Largest file whose digest is worth computing.
const DIGEST_BYTES: u64 = 16 * 1024 * 1024;
const CHUNK: usize = 64 * 1024;

static SPEC: ToolSpec = ToolSpec {
    name: "fs.read",
    summary: "Read a text file of the workspace, or some of its lines",
    syscall: "fs.read",
    tier: Tier::Kernel,
    read_only: true,
    keep: Keep::Head,
    schema: ToolSchema::of::<ReadArguments>(),
    examples: &[
        r#"{"path": "src/main.rs"}"#,
        r#"{"path": "src/main.rs", "offset_line": 120, "limit_lines": 40}"#,
    ],
};

/// Arguments of `fs.read`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    /// The file, relative to the workspace root.
    path: String,
    /// The first line to return, counted from 1.
    #[serde(default)]
    #[schemars(range(min = 1))]
    offset_line: Option<u64>,
    /// Most lines to return (default 2000).
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000))]
    limit_lines: Option<u64>,
    /// Most bytes to return (default 256 KiB).
    #[serde(default)]
    #[schemars(range(min = 1, max = 4_194_304))]
    max_bytes: Option<u64>,
    /// Also the SHA-256 of the whole file, for `expect_digest` (files up to 16 MiB).
    #[serde(default)]
    digest: bool,
}

impl Arguments for ReadArguments {
    const FIELDS: &'static [&'static str] =
        &["path", "offset_line", "limit_lines", "max_bytes", "digest"];
}

impl Tool for Read {
    fn spec(&self) -> &'static ToolSpec {
        &SPEC
    }

    fn prepare(&self, value: &Value, root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let arguments: ReadArguments = arguments::parse(value)?;
        let first = arguments::bounded("offset_line", arguments.offset_line, 1, 1..=u64::MAX)?;
        let lines = arguments::bounded(
            "limit_lines",
            arguments.limit_lines,
            DEFAULT_LINES,
            1..=MAX_LINES,
        )?;
        let bytes = arguments::bounded(
            "max_bytes",
            arguments.max_bytes,
            DEFAULT_BYTES,
            1..=MAX_BYTES,
        )?;
        let target = Target::reach(&arguments.path, root)?;
        Ok(Box::new(PreparedRead {
            target,
            digest: arguments.digest,
            window: Window {
                first,
                lines,
                bytes,
            },
        }))
    }
}

struct PreparedRead {
    target: Target,
    digest: bool,
    window: Window,
}

/// The part of a file that is wanted.
#[derive(Debug, Clone, Copy)]
struct Window {
    first: u64,
    lines: u64,
    bytes: u64,
}

impl Prepared for PreparedRead {
    fn paths(&self) -> &[RequestPath] {
        self.target.paths()
    }

    fn run(self: Box<Self>, context: &RunContext<'_>) -> Result<ToolOutput, ToolFailure> {
        let path = self.target.shown();
        let opened = self.target.open()?;
        let mut file = opened.read().map_err(|source| ToolFailure::Open {
            path: path.clone(),
            source,
        })?;
        let window = Window {
            bytes: self.window.bytes.min(context.max_output),
            ..self.window
        };
        let value = read(&mut file, &path, window, context);
        let value = value.and_then(|value| match value {
            Some(value) if self.digest => with_digest(&mut file, value).map(Some),
            value => Ok(value),
        });
        match value {
            Ok(Some(value)) => Ok(ToolOutput { value, hidden: 0 }),
            Ok(None) => Err(ToolFailure::Cancelled),
            Err(source) => Err(ToolFailure::Io { path, source }),
        }
    }
}

/// What came of looking for the window.
enum Scanned {
    Text(Taken),
    Binary,
    Cancelled,
}

fn read(
    file: &mut File,
    path: &str,
    window: Window,
    context: &RunContext<'_>,
) -> io::Result<Option<Value>> {
    let total_bytes = file.metadata()?.len();
    let taken = match scan(file, total_bytes, window, context.cancelled)? {
        Scanned::Text(taken) => taken,
        Scanned::Binary => return binary(file, path, total_bytes).map(Some),
        Scanned::Cancelled => return Ok(None),
    };
    let truncated = taken.truncated;
    let Some(text) = taken.text(context.secrets) else {
        return binary(file, path, total_bytes).map(Some);
    };
    let lines = line_count(&text);
    Ok(Some(json!({
        "path": path,
        "text": text,
        "first_line": window.first,
        "lines": lines,
        "total_bytes": total_bytes,
        "truncated": truncated,
    })))
}

/// As many as [`str::lines`] gives.
fn line_count(text: &str) -> usize {
    let ends = memchr::memchr_iter(b'\n', text.as_bytes()).count();
    ends + usize::from(!text.is_empty() && !text.ends_with('\n'))
}

/// Skips to the window's first line and takes what fits into it.
fn scan(
    file: &mut File,
    total_bytes: u64,
    window: Window,
    cancelled: &AtomicBool,
) -> io::Result<Scanned> {
    let mut scanned = 0u64;
    let mut chunk = vec![0u8; chunk_for(total_bytes)];
    let mut taken = Taken::new(window, chunk.len());
    loop {
        if cancelled.load(Ordering::Relaxed) {
            return Ok(Scanned::Cancelled);
        }
        let size = match file.read(&mut chunk) {
            Ok(size) => size,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let data = chunk.get(..size).unwrap_or_default();
        // What follows the window need not be text.
        if !taken.truncated && memchr::memchr(0, data).is_some() {
            return Ok(Scanned::Binary);
        }
        scanned = scanned.saturating_add(data.len() as u64);
        taken.take(data);
        // As long as it was told to be, and no more came though there was room.
        let is_all = size < chunk.len() && scanned == total_bytes;
        if data.is_empty() || is_all || taken.is_enough() {
            return Ok(Scanned::Text(taken));
        }
        if scanned >= SCAN_BYTES {
            taken.truncated = true;
            return Ok(Scanned::Text(taken));
        }
    }
}

/// Room to read a file of that many bytes in: all of it where it is short, and never none, for what is
/// told of a file need not be so.
fn chunk_for(total_bytes: u64) -> usize {
    let whole = usize::try_from(total_bytes).unwrap_or(CHUNK);
    whole.saturating_add(1).clamp(4 * 1024, CHUNK)
}

/// What was taken of a file: the window, and what stands before and after it.
struct Taken {
    window: Window,
    /// The line that comes next.
    line: u64,
    bytes: Vec<u8>,
    /// Where in them the window begins.
    begin: usize,
    /// Where it ends; where the bytes end, as long as it is not full.
    end: usize,
    truncated: bool,
}

impl Taken {
    /// With room for so many bytes.
    fn new(window: Window, room: usize) -> Self {
        Self {
            window,
            line: 1,
            bytes: Vec::with_capacity(room),
            begin: 0,
            end: 0,
            truncated: false,
        }
    }

    /// Whether more of the file would change nothing.
    const fn is_enough(&self) -> bool {
        self.truncated && self.bytes.len() - self.end >= LONGEST_SECRET
    }

    fn take(&mut self, data: &[u8]) {
        let after = self.window.first.saturating_add(self.window.lines);
        let mut rest = data;
        while !self.truncated && !rest.is_empty() {
            let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            let piece = rest.get(..length).unwrap_or(rest);
            let taken = if self.line >= after {
                self.truncated = true;
                0
            } else if self.line >= self.window.first {
                let room = self
                    .window
                    .bytes
                    .saturating_sub((self.end - self.begin) as u64);
                let room = usize::try_from(room).unwrap_or(usize::MAX);
                self.truncated = length > room;
                length.min(room)
            } else {
                length
            };
            self.bytes
                .extend_from_slice(piece.get(..taken).unwrap_or(piece));
            self.end = self.bytes.len();
            if self.line < self.window.first {
                self.begin = self.end;
                self.forget();
            }
            if taken == length && piece.ends_with(b"\n") {
                self.line = self.line.saturating_add(1);
            }
            rest = rest.get(taken..).unwrap_or_default();
        }
        let room = (self.end + LONGEST_SECRET).saturating_sub(self.bytes.len());
        self.bytes
            .extend_from_slice(rest.get(..room).unwrap_or(rest));
    }

    /// Lets go of what stands too far before the window.
    fn forget(&mut self) {
        let gone = self.begin.saturating_sub(LONGEST_SECRET);
        // Moving what is left costs as much as it is long: not for every line.
        if gone > LONGEST_SECRET {
            self.bytes.drain(..gone);
            self.begin -= gone;
            self.end -= gone;
        }
    }

    /// The window as it may be shown, unless it is no text.
    fn text(mut self, secrets: &Sanitiser) -> Option<String> {
        let shown = self.bytes.get(self.begin..self.end).unwrap_or_default();
        if self.truncated {
            self.end = self.begin + whole_characters(shown);
        }
        let is_whole = self.begin == 0 && !self.truncated;
        let shown = if is_whole {
            self.bytes
        } else {
            let from = self.looked_from();
            let known = self.bytes.get(from..).unwrap_or_default();
            let found = secrets.find(known);
            let part = secrets.part(known, &found, self.begin - from..self.end - from);
            part.into_owned()
        };
        String::from_utf8(shown).ok()
    }

    /// Where looking for secrets begins. More may be there, for it is not let go of with every line.
    fn looked_from(&self) -> usize {
        let far = self.begin.saturating_sub(LONGEST_SECRET);
        // Not inside a character: what begins there would be no text.
        let is_inside = |at: &usize| self.bytes.get(*at).is_some_and(|byte| byte & 0xC0 == 0x80);
        let mut near = (far.saturating_sub(3)..=far).rev();
        near.find(|at| !is_inside(at)).unwrap_or(far)
    }
}

/// A cut may fall inside a character; that does not make a file binary.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Ok(_) | Err(_) => bytes.len(),
    }
}

fn binary(file: &mut File, path: &str, total_bytes: u64) -> io::Result<Value> {
    let value = json!({ "path": path, "binary": true, "total_bytes": total_bytes });
    with_digest(file, value)
}

/// Adds the digest of the whole file, unless it is too large for that.
fn with_digest(file: &mut File, mut value: Value) -> io::Result<Value> {
    if file.metadata()?.len() <= DIGEST_BYTES
        && let Some(object) = value.as_object_mut()
    {
        object.insert("digest".to_owned(), json!(digest(file)?.to_string()));
    }
    Ok(value)
}

fn digest(file: &mut File) -> io::Result<Digest> {
    file.rewind()?;
    let mut hasher = Hashing::new();
    // A file that grows while it is read must not keep us here.
    let mut bounded = file.take(DIGEST_BYTES);
    let mut chunk = vec![0u8; CHUNK];
    loop {
        match bounded.read(&mut chunk) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(size) => hasher.update(chunk.get(..size).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

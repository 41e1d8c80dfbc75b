//! `fs.read`: some lines of one text file.
//!
//! Guarantee: streams, so memory is bounded by what is returned, whatever the file's size; a file
//! with a NUL byte or invalid UTF-8 in what was read is reported as binary, without content.

use super::arguments::{self, Arguments};
use super::contract::{
    InvalidArguments, Keep, Prepared, RunContext, Tool, ToolFailure, ToolOutput, ToolSpec,
};
use super::keys;
use super::target::Target;
use crate::beneath::Root;
use airlock_core::{Digest, RequestPath, Tier};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::Digest as _;
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

/// As much of a line as its key header can be in.
const KEY_LINE_BYTES: usize = 256;
/// Words shorter than this are shown although they are cut.
const SHORT_WORD: usize = 16;
/// So are words of at least this length.
const LONG_WORD: usize = 4_096;

static SPEC: ToolSpec = ToolSpec {
    name: "fs.read",
    summary: "Read a text file of the workspace, or some of its lines",
    syscall: "fs.read",
    tier: Tier::Kernel,
    read_only: true,
    keep: Keep::Head,
    schema: arguments::schema::<ReadArguments>,
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
        let path = self.target.shown().to_owned();
        let opened = self.target.open()?;
        let mut file = opened.read().map_err(|source| ToolFailure::Open {
            path: path.clone(),
            source,
        })?;
        let window = Window {
            bytes: self.window.bytes.min(context.max_output),
            ..self.window
        };
        let value = read(&mut file, &path, window, context.cancelled);
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
    Text { bytes: Vec<u8>, truncated: bool },
    Binary,
    Cancelled,
}

fn read(
    file: &mut File,
    path: &str,
    window: Window,
    cancelled: &AtomicBool,
) -> io::Result<Option<Value>> {
    let total_bytes = file.metadata()?.len();
    let mut skipped = Skipped::default();
    let (mut bytes, truncated) = match scan(file, window, cancelled, &mut skipped)? {
        Scanned::Text { bytes, truncated } => (bytes, truncated),
        Scanned::Binary => return binary(file, path, total_bytes).map(Some),
        Scanned::Cancelled => return Ok(None),
    };
    if truncated {
        drop_half_character(&mut bytes);
        drop_half_word(&mut bytes);
    }
    if skipped.inside_key {
        hide_rest_of_key(&mut bytes);
    }
    let Ok(text) = String::from_utf8(bytes) else {
        return binary(file, path, total_bytes).map(Some);
    };
    let lines = text.lines().count();
    Ok(Some(json!({
        "path": path,
        "text": text,
        "first_line": window.first,
        "lines": lines,
        "total_bytes": total_bytes,
        "truncated": truncated,
    })))
}

/// Skips to the window's first line and takes what fits into it.
fn scan(
    file: &mut File,
    window: Window,
    cancelled: &AtomicBool,
    skipped: &mut Skipped,
) -> io::Result<Scanned> {
    let mut line = 1;
    let mut scanned = 0u64;
    let mut kept = Vec::new();
    let mut chunk = vec![0u8; CHUNK];
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
        if data.is_empty() {
            return Ok(Scanned::Text {
                bytes: kept,
                truncated: false,
            });
        }
        if data.contains(&0) {
            return Ok(Scanned::Binary);
        }
        scanned = scanned.saturating_add(data.len() as u64);
        let full = take(data, &mut line, window, &mut kept, skipped);
        if full || scanned >= SCAN_BYTES {
            return Ok(Scanned::Text {
                bytes: kept,
                truncated: true,
            });
        }
    }
}

/// Moves what belongs to the window from `data` to `kept`; true if something did not fit.
fn take(
    data: &[u8],
    line: &mut u64,
    window: Window,
    kept: &mut Vec<u8>,
    skipped: &mut Skipped,
) -> bool {
    let end = window.first.saturating_add(window.lines);
    for piece in data.split_inclusive(|byte| *byte == b'\n') {
        if *line >= end {
            return true;
        }
        if *line >= window.first {
            let kept_bytes = kept.len() as u64;
            let room =
                usize::try_from(window.bytes.saturating_sub(kept_bytes)).unwrap_or(usize::MAX);
            kept.extend_from_slice(piece.get(..room).unwrap_or(piece));
            if piece.len() > room {
                return true;
            }
        } else {
            skipped.pass(piece);
        }
        if piece.ends_with(b"\n") {
            *line = line.saturating_add(1);
        }
    }
    false
}

/// What was passed over on the way to the window: whether a private key began there.
#[derive(Default)]
struct Skipped {
    line: Vec<u8>,
    inside_key: bool,
}

impl Skipped {
    fn pass(&mut self, piece: &[u8]) {
        let room = KEY_LINE_BYTES.saturating_sub(self.line.len());
        self.line
            .extend_from_slice(piece.get(..room).unwrap_or(piece));
        if piece.ends_with(b"\n") {
            self.inside_key = keys::inside_after(&self.line, self.inside_key);
            self.line.clear();
        }
    }
}

/// A window that begins within a private key shows nothing of it.
fn hide_rest_of_key(bytes: &mut Vec<u8>) {
    let mut end = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        end += line.len();
        if !keys::inside_after(line, true) {
            break;
        }
    }
    let rest = bytes.split_off(end);
    *bytes = [keys::PLACEHOLDER.as_bytes(), b"\n", &rest].concat();
}

/// A cut may fall inside a word; half a secret would no longer be known for one. A few letters
/// give nothing away, and an endless word is not a secret.
fn drop_half_word(bytes: &mut Vec<u8>) {
    let blank = bytes.iter().rposition(u8::is_ascii_whitespace);
    let word = blank.map_or(0, |blank| blank + 1);
    if (SHORT_WORD..LONG_WORD).contains(&(bytes.len() - word)) {
        bytes.truncate(word);
    }
}

/// A cut may fall inside a character; that does not make a file binary.
fn drop_half_character(bytes: &mut Vec<u8>) {
    if let Err(error) = std::str::from_utf8(bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
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
    let mut hasher = sha2::Sha256::new();
    // A file that grows while it is read must not keep us here.
    let mut bounded = file.take(DIGEST_BYTES);
    let mut chunk = vec![0u8; CHUNK];
    loop {
        match bounded.read(&mut chunk) {
            Ok(0) => return Ok(Digest::from_bytes(hasher.finalize().into())),
            Ok(size) => hasher.update(chunk.get(..size).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

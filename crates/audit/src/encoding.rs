//! The canonical encoding of an entry: the bytes the chain hashes. Pure.
//!
//! Every field has a fixed place and is of fixed width or carries its length, so two different
//! entries never share an encoding, and [`decode`] accepts nothing [`encode`] would not write:
//! `encode(decode(b)) == b`. `docs/audit-format.md` gives the layout byte by byte.
//!
//! A request's `arguments` are not part of it: they may hold file contents and secrets.
//!
//! Invariant: a layout never changes under its version number.

mod check;
mod decode;

pub(crate) use check::Checker;
pub use decode::{DecodeError, DecodeProblem};
pub(crate) use decode::{decode, event_of};

use crate::record::time_text;
use crate::{DecisionSummary, Entry};
use airlock_core::{Caller, Request, RequestPath, WorkspacePath};

/// The version of the record layout this crate writes.
pub const FORMAT_VERSION: u8 = 1;

/// Longest encoding of one entry: 100,000 paths of a generous length fit.
pub const MAX_BODY: usize = 8 * 1024 * 1024;

/// Room for most entries, so that few of them move while they are written.
const USUAL_BODY: usize = 1_024;

/// Why an entry cannot be sealed. Nothing was written: the caller must not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// Longer than any reader of the log would accept.
    #[error("the record is {bytes} bytes long; the log takes at most 8388608")]
    TooLarge {
        /// The length of the encoding.
        bytes: usize,
    },
    /// The clock is not set, or the time is made up.
    #[error(
        "the record's time, {micros} microseconds since 1970, is outside the years 1970 to 9998"
    )]
    Time {
        /// The time, in microseconds since the Unix epoch.
        micros: i64,
    },
    /// Such a path would read back as another one.
    #[error("the request's path `{path}` is not normalised")]
    Path {
        /// The path, shortened.
        path: String,
    },
    /// There is no next sequence number.
    #[error("the log has used up its sequence numbers")]
    Exhausted,
}

impl SealError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "split the action into smaller ones: fewer paths each",
            Self::Time { .. } => "set the system clock",
            Self::Path { .. } => "build the path with `RequestPath::parse`",
            Self::Exhausted => "start a new log",
        }
    }
}

/// The canonical bytes of `entry`.
pub(crate) fn encode(entry: &Entry) -> Result<Vec<u8>, SealError> {
    encode_after(entry, 0)
}

/// The same after `room` bytes for something else.
pub(crate) fn encode_after(entry: &Entry, room: usize) -> Result<Vec<u8>, SealError> {
    check(entry)?;
    let mut to = Encoder(Vec::with_capacity(USUAL_BODY));
    to.0.resize(room, 0);
    to.entry(entry);
    match to.0.len().saturating_sub(room) {
        bytes if bytes > MAX_BODY => Err(SealError::TooLarge { bytes }),
        _ => Ok(to.0),
    }
}

/// Where each value of the metadata of `entry` begins in bytes that end with its encoding and are `end`
/// long: metadata is the last part of it.
pub(crate) fn metadata_values(entry: &Entry, end: usize) -> impl Iterator<Item = (&str, usize)> {
    const LENGTH: usize = size_of::<u32>();
    let bytes = |(name, value): (&String, &String)| 2 * LENGTH + name.len() + value.len();
    let all: usize = entry.metadata.iter().map(bytes).sum();
    let mut next = end.saturating_sub(all);
    entry.metadata.iter().map(move |(name, value)| {
        let place = next + 2 * LENGTH + name.len();
        next += bytes((name, value));
        (name.as_str(), place)
    })
}

/// Refuses what the decoder would not give back unchanged.
fn check(entry: &Entry) -> Result<(), SealError> {
    if !time_text::is_representable(entry.time) {
        let micros = entry.time.as_micros();
        return Err(SealError::Time { micros });
    }
    let paths = entry.request.iter().flat_map(|request| &request.paths);
    for path in paths {
        let is_normal = match path {
            // Normal by construction: there is no other way to make one.
            RequestPath::Inside(_) => true,
            RequestPath::Outside(text) => normal_absolute(text).is_some(),
        };
        if !is_normal {
            let path = path.as_str().chars().take(120).collect();
            return Err(SealError::Path { path });
        }
    }
    Ok(())
}

/// The path `text` is the one spelling of; absolute means outside the workspace.
fn parse_path(text: &str) -> Option<RequestPath> {
    let path = if text.starts_with('/') {
        RequestPath::Outside(normal_absolute(text)?.into())
    } else {
        RequestPath::Inside(WorkspacePath::new(text).ok()?)
    };
    (path.as_str() == text).then_some(path)
}

/// `text` if it is an absolute path in normal form and of a length a request may carry.
fn normal_absolute(text: &str) -> Option<&str> {
    let below = text.strip_prefix('/')?;
    let normal = below.is_empty()
        || WorkspacePath::new(below).is_ok_and(|path| path.as_str() == below && !path.is_root());
    (normal && text.len() <= airlock_core::limits::PATH_BYTES).then_some(text)
}

struct Encoder(Vec<u8>);

impl Encoder {
    fn entry(&mut self, entry: &Entry) {
        self.bytes(&entry.time.as_micros().to_be_bytes());
        self.bytes(&entry.event.code().to_be_bytes());
        self.bytes(&[entry.stage.code()]);
        self.optional_text(entry.action.as_ref());
        self.optional_text(entry.syscall.as_ref());
        self.optional_text(entry.tool.as_ref());
        self.optional(entry.caller.as_ref(), |to, caller| {
            to.block(|to| to.caller(caller));
        });
        self.optional(entry.decision.as_ref(), |to, decision| {
            to.block(|to| to.decision(decision));
        });
        self.optional_text(entry.token.as_ref());
        self.optional_text(entry.reason.as_ref());
        self.optional_text(entry.input.as_ref());
        self.optional_text(entry.output.as_ref());
        self.optional(entry.duration, |to, duration| {
            to.bytes(&duration.to_be_bytes());
        });
        self.optional_text(entry.sandbox.as_ref());
        self.optional(entry.request.as_deref(), |to, request| {
            to.block(|to| to.request(request));
        });
        self.length(entry.metadata.len());
        for (name, value) in &entry.metadata {
            self.text(name);
            self.text(value);
        }
    }

    fn decision(&mut self, decision: &DecisionSummary) {
        self.text(&decision.verdict);
        self.list(decision.rules.len(), &decision.rules);
        self.text(&decision.generation);
    }

    fn caller(&mut self, caller: &Caller) {
        self.text(&caller.tenant);
        self.text(&caller.user);
        self.text(&caller.workspace);
        self.optional_text(caller.session.as_ref());
        self.text(&caller.plugin);
        self.list(caller.tags.len(), &caller.tags);
        self.optional(caller.peer, |to, peer| {
            to.bytes(&peer.pid.to_be_bytes());
            to.bytes(&peer.uid.to_be_bytes());
            to.bytes(&peer.started.to_be_bytes());
        });
        self.optional_text(caller.sandbox.as_ref());
        self.optional_text(caller.mode.map(airlock_core::Mode::as_str));
        self.optional_text(caller.phase.map(airlock_core::Phase::as_str));
    }

    fn request(&mut self, request: &Request) {
        self.text(request.syscall.name());
        let effects = request.effects.iter().map(airlock_core::Effect::as_str);
        self.list(request.effects.iter().count(), effects);
        let paths = request.paths.iter().map(RequestPath::as_str);
        self.list(request.paths.len(), paths);
        self.optional_text(request.host.as_ref());
        self.optional(request.port, |to, port| to.bytes(&port.to_be_bytes()));
        self.list(request.command.len(), &request.command);
        self.optional_text(request.tool.as_ref());
        self.optional_text(request.secret.as_ref());
        self.text(request.tier.as_str());
        self.optional_text(request.template.as_ref());
        self.optional(request.file_size, |to, size| to.bytes(&size.to_be_bytes()));
        self.block(|to| to.caller(&request.caller));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// A length that does not fit belongs to an encoding over [`MAX_BODY`], which is refused.
    fn length(&mut self, length: usize) {
        self.bytes(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    }

    fn text(&mut self, text: impl AsRef<str>) {
        let text = text.as_ref();
        self.length(text.len());
        self.bytes(text.as_bytes());
    }

    fn list(&mut self, count: usize, items: impl IntoIterator<Item = impl AsRef<str>>) {
        self.length(count);
        for item in items {
            self.text(item);
        }
    }

    fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.bytes(&[u8::from(value.is_some())]);
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn optional_text(&mut self, text: Option<impl AsRef<str>>) {
        self.optional(text, Self::text);
    }

    /// A part with its own length in front, so that a reader may skip it.
    fn block(&mut self, write: impl FnOnce(&mut Self)) {
        let place = self.0.len();
        self.length(0);
        let start = self.0.len();
        write(self);
        let length = u32::try_from(self.0.len() - start).unwrap_or(u32::MAX);
        if let Some(place) = self.0.get_mut(place..start) {
            place.copy_from_slice(&length.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests;

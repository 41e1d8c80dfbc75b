//! The strict reader of the canonical encoding.
//!
//! No input makes it panic or allocate more than a small multiple of the input's own length:
//! counts and lengths are believed only as far as bytes are there.

use crate::encoding::{MAX_BODY, parse_path};
use crate::record::time_text;
use crate::{DecisionSummary, Entry, EventType, Stage};
use airlock_core::{Caller, Effect, EffectSet, Peer, Request, RequestPath, Syscall, Timestamp};
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

/// What is wrong at the offset of a [`DecodeError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeProblem {
    /// The bytes end inside a field.
    Short,
    /// Bytes follow the last field.
    Trailing,
    /// Longer than any entry.
    TooLong,
    /// A text is not UTF-8.
    NotText,
    /// A presence byte is neither 0 nor 1.
    Presence,
    /// An event, stage or word nobody defined.
    Unknown,
    /// A value of the right shape that its field does not allow.
    Invalid,
    /// Map keys or effects are repeated or not in ascending order.
    Order,
}

impl DecodeProblem {
    fn describe(self) -> &'static str {
        match self {
            Self::Short => "the bytes end inside a field",
            Self::Trailing => "bytes follow the last field",
            Self::TooLong => "the encoding is longer than any entry",
            Self::NotText => "a text is not UTF-8",
            Self::Presence => "a presence byte is neither 0 nor 1",
            Self::Unknown => "a code or word is unknown",
            Self::Invalid => "a value is not allowed in its field",
            Self::Order => "keys or effects are repeated or out of order",
        }
    }
}

impl std::fmt::Display for DecodeProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.describe())
    }
}

/// Why bytes are not the canonical encoding of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a canonical audit entry: {problem}, at byte {offset}")]
pub struct DecodeError {
    /// Where, counted from the first byte of the entry.
    pub offset: usize,
    /// What.
    pub problem: DecodeProblem,
}

/// The event of an encoded entry, without decoding the rest.
pub(crate) fn event_of(body: &[u8]) -> Option<EventType> {
    let (_, rest) = body.split_first_chunk::<8>()?;
    let (code, _) = rest.split_first_chunk::<2>()?;
    EventType::from_code(u16::from_be_bytes(*code))
}

/// The entry `body` is the canonical encoding of.
pub(crate) fn decode(body: &[u8]) -> Result<Entry, DecodeError> {
    let mut from = Decoder::new(body)?;
    let entry = from.entry()?;
    from.end()?;
    Ok(entry)
}

pub(super) struct Decoder<'a> {
    rest: &'a [u8],
    offset: usize,
}

pub(super) type Decoded<T> = Result<T, DecodeError>;

impl<'a> Decoder<'a> {
    pub(super) fn new(body: &'a [u8]) -> Decoded<Self> {
        let from = Self {
            rest: body,
            offset: 0,
        };
        if body.len() > MAX_BODY {
            return from.fail(DecodeProblem::TooLong);
        }
        Ok(from)
    }

    fn entry(&mut self) -> Decoded<Entry> {
        Ok(Entry {
            time: self.time()?,
            event: self.coded(|from| Ok(EventType::from_code(from.u16()?)))?,
            stage: self.coded(|from| Ok(Stage::from_code(from.u8()?)))?,
            action: self.optional(Self::parsed)?,
            syscall: self.optional(Self::string)?,
            tool: self.optional(Self::string)?,
            caller: self.optional(|from| from.block(Decoder::caller))?,
            decision: self.optional(|from| from.block(Decoder::decision))?,
            token: self.optional(Self::string)?,
            reason: self.optional(Self::string)?,
            input: self.optional(Self::string)?,
            output: self.optional(Self::string)?,
            duration: self.optional(Self::u64)?,
            sandbox: self.optional(Self::parsed)?,
            request: self.optional(|from| from.block(Decoder::request).map(Box::new))?,
            metadata: self.map()?,
        })
    }

    fn decision(&mut self) -> Decoded<DecisionSummary> {
        Ok(DecisionSummary {
            verdict: self.string()?,
            rules: self.list(Self::string)?,
            generation: self.string()?,
        })
    }

    pub(super) fn caller(&mut self) -> Decoded<Caller> {
        Ok(Caller {
            tenant: self.parsed()?,
            user: self.parsed()?,
            workspace: self.parsed()?,
            session: self.optional(Self::parsed)?,
            plugin: self.parsed()?,
            tags: self.list(Self::parsed)?,
            peer: self.optional(|from| {
                Ok(Peer {
                    pid: from.u32()?,
                    uid: from.u32()?,
                    started: from.u64()?,
                })
            })?,
            sandbox: self.optional(Self::parsed)?,
            mode: self.optional(Self::word)?,
            phase: self.optional(Self::word)?,
        })
    }

    fn request(&mut self) -> Decoded<Request> {
        Ok(Request {
            syscall: self.word::<Syscall>()?,
            effects: self.effects()?,
            paths: self.list(Self::path)?,
            host: self.optional(Self::shared)?,
            port: self.optional(Self::u16)?,
            command: self.list(Self::shared)?,
            tool: self.optional(Self::shared)?,
            secret: self.optional(Self::shared)?,
            tier: self.word()?,
            template: self.optional(Self::shared)?,
            file_size: self.optional(Self::u64)?,
            arguments: serde_json::Value::Null,
            caller: self.block(Decoder::caller)?,
        })
    }

    fn fail<T>(&self, problem: DecodeProblem) -> Decoded<T> {
        let offset = self.offset;
        Err(DecodeError { offset, problem })
    }

    pub(super) fn end(&self) -> Decoded<()> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            self.fail(DecodeProblem::Trailing)
        }
    }

    fn take(&mut self, length: usize) -> Decoded<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            return self.fail(DecodeProblem::Short);
        };
        self.rest = rest;
        self.offset += length;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return self.fail(DecodeProblem::Short);
        };
        self.rest = rest;
        self.offset += N;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Decoded<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Decoded<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Decoded<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Decoded<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a value and, if it is refused, blames the place where it began.
    pub(super) fn judged<T>(
        &mut self,
        problem: DecodeProblem,
        read: impl FnOnce(&mut Self) -> Decoded<Option<T>>,
    ) -> Decoded<T> {
        let offset = self.offset;
        read(self)?.ok_or(DecodeError { offset, problem })
    }

    pub(super) fn coded<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Decoded<Option<T>>,
    ) -> Decoded<T> {
        self.judged(DecodeProblem::Unknown, read)
    }

    pub(super) fn time(&mut self) -> Decoded<Timestamp> {
        self.judged(DecodeProblem::Invalid, |from| {
            let time = Timestamp::from_micros(from.array().map(i64::from_be_bytes)?);
            Ok(time_text::is_representable(time).then_some(time))
        })
    }

    pub(super) fn text(&mut self) -> Decoded<&'a str> {
        let length = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
        self.judged(DecodeProblem::NotText, |from| {
            Ok(std::str::from_utf8(from.take(length)?).ok())
        })
    }

    /// Passes over a text.
    pub(super) fn skip_text(&mut self) -> Decoded<()> {
        let length = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
        let offset = self.offset;
        let bytes = self.take(length)?;
        // Most are plain ASCII, which takes less time to see.
        if bytes.is_ascii() || std::str::from_utf8(bytes).is_ok() {
            return Ok(());
        }
        let problem = DecodeProblem::NotText;
        Err(DecodeError { offset, problem })
    }

    /// Passes over a text that may be missing: what most fields of an entry are, so the usual forms
    /// are told by one look, and everything else is left to the exact way.
    pub(super) fn skip_optional_text(&mut self) -> Decoded<()> {
        match self.rest {
            [0, rest @ ..] => {
                self.rest = rest;
                self.offset += 1;
                return Ok(());
            }
            [1, a, b, c, d, rest @ ..] => {
                let length = u32::from_be_bytes([*a, *b, *c, *d]);
                let text = usize::try_from(length)
                    .ok()
                    .and_then(|length| rest.split_at_checked(length));
                if let Some((text, rest)) = text
                    && text.is_ascii()
                {
                    self.rest = rest;
                    self.offset += 5 + text.len();
                    return Ok(());
                }
            }
            _ => {}
        }
        self.optional(Self::skip_text).map(drop)
    }

    fn string(&mut self) -> Decoded<String> {
        self.text().map(str::to_owned)
    }

    fn shared(&mut self) -> Decoded<Arc<str>> {
        self.text().map(Arc::from)
    }

    /// An identifier: checked text.
    pub(super) fn parsed<T: FromStr>(&mut self) -> Decoded<T> {
        self.judged(DecodeProblem::Invalid, |from| Ok(from.text()?.parse().ok()))
    }

    /// A word out of a closed list.
    pub(super) fn word<T: FromStr>(&mut self) -> Decoded<T> {
        self.judged(DecodeProblem::Unknown, |from| Ok(from.text()?.parse().ok()))
    }

    fn path(&mut self) -> Decoded<RequestPath> {
        self.judged(DecodeProblem::Invalid, |from| Ok(parse_path(from.text()?)))
    }

    pub(super) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Decoded<T>,
    ) -> Decoded<Option<T>> {
        let present = self.judged(DecodeProblem::Presence, |from| {
            Ok(match from.u8()? {
                0 => Some(false),
                1 => Some(true),
                _ => None,
            })
        })?;
        if present {
            read(self).map(Some)
        } else {
            Ok(None)
        }
    }

    /// The count is untrusted: the list grows only as items really turn up.
    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Decoded<T>) -> Decoded<Vec<T>> {
        let count = self.u32()?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(read(self)?);
        }
        Ok(items)
    }

    fn effects(&mut self) -> Decoded<EffectSet> {
        let offset = self.offset;
        let effects: Vec<Effect> = self.list(Self::word)?;
        if effects.is_sorted_by(|first, second| first < second) {
            Ok(EffectSet::of(&effects))
        } else {
            let problem = DecodeProblem::Order;
            Err(DecodeError { offset, problem })
        }
    }

    fn map(&mut self) -> Decoded<BTreeMap<String, String>> {
        let count = self.u32()?;
        let mut map = BTreeMap::new();
        for _ in 0..count {
            let name = self.judged(DecodeProblem::Order, |from| {
                let name = from.text()?;
                let last = map.last_key_value().map(|(name, _): (&String, _)| name);
                Ok(last.is_none_or(|last| last.as_str() < name).then_some(name))
            })?;
            map.insert(name.to_owned(), self.string()?);
        }
        Ok(map)
    }

    /// A part with its own length: its fields must use exactly that many bytes.
    pub(super) fn block<T>(
        &mut self,
        read: impl FnOnce(&mut Decoder<'a>) -> Decoded<T>,
    ) -> Decoded<T> {
        let mut inner = self.open_block()?;
        let value = read(&mut inner)?;
        inner.end()?;
        Ok(value)
    }

    fn open_block(&mut self) -> Decoded<Decoder<'a>> {
        let length = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
        let offset = self.offset;
        let rest = self.take(length)?;
        Ok(Decoder { rest, offset })
    }

    /// What is left to read.
    pub(super) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Passes over everything that is left, because it is known to be right.
    pub(super) const fn skip_rest(&mut self) {
        self.offset += self.rest.len();
        self.rest = &[];
    }
}

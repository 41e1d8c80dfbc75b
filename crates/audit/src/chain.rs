//! Seals entries into a hash chain. Pure: no I/O, no clock.
//!
//! A record's digest covers its number, its predecessor's digest and every field, so an edit, a
//! gap or a reordering breaks the chain where it happened; [`crate::Verifier`] finds the place.
//! The chain alone cannot show that its tail was cut off, or that all of it was written anew: that
//! needs a [`crate::SignedCheckpoint`] kept elsewhere.
//!
//! Invariant: a [`Sealed`] carries a digest that matches its own contents; only [`seal`] and
//! [`Sealed::from_stored`] build one.

mod framing;
mod message;

pub use framing::{FrameError, read_stored, write_stored};

use crate::encoding::{self, DecodeError, FORMAT_VERSION, MAX_BODY, SealError};
use crate::{Entry, EventType};
use airlock_core::{Digest, Hashing};
use message::Fields;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

const GENESIS_TAG: &[u8] = b"airlock/audit/genesis\0";

/// Bytes in front of the entry in a stored record: version, number, previous digest, digest.
pub(crate) const STORED_PREFIX: usize = 1 + 8 + 32 + 32;

/// The last number a record may have: SQLite's integers are signed.
const MAX_SEQ: u64 = i64::MAX.cast_unsigned();

/// Which log: 16 random bytes, fixed when the log begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogId([u8; 16]);

/// Why a string is not a log id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a log id is 32 lowercase hexadecimal digits")]
pub struct ParseLogIdError;

impl LogId {
    /// Wraps 16 bytes; a new log's must be random.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The raw bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for LogId {
    type Err = ParseLogIdError;

    fn from_str(text: &str) -> Result<Self, ParseLogIdError> {
        parse_hex(text).map(Self).ok_or(ParseLogIdError)
    }
}

impl Serialize for LogId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LogId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// `N` bytes from exactly `2 * N` lowercase hexadecimal digits.
pub(crate) fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let nibble = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, odd) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !odd.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = nibble(*high)? << 4 | nibble(*low)?;
    }
    Some(bytes)
}

/// Where a chain stands: the number and digest of its last record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Head {
    /// The last record's number; 0 before the first.
    pub seq: u64,
    /// The last record's digest; before the first, one derived from the log id.
    pub digest: Digest,
}

impl Head {
    /// The head of `log` before its first record.
    pub fn genesis(log: &LogId) -> Self {
        let mut hash = Hashing::new();
        hash.update(GENESIS_TAG);
        hash.update(log.as_bytes());
        Self {
            seq: 0,
            digest: hash.finish(),
        }
    }
}

/// Why stored bytes are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StoredError {
    /// Not even the fixed part is there.
    #[error("the record is cut off")]
    Short,
    /// Longer than any record.
    #[error("the record is longer than any record may be")]
    TooLong,
    /// Written by a newer Airlock, or not a record.
    #[error("the record has format version {version}; this Airlock knows 1")]
    Version {
        /// The version it claims.
        version: u8,
    },
    /// Records are numbered from 1 to 2^63 - 1.
    #[error("the record's number {seq} cannot be")]
    Seq {
        /// The number it claims.
        seq: u64,
    },
    /// The contents do not match the digest beside them.
    #[error("record {seq} was changed after it was sealed")]
    Edited {
        /// The number it claims.
        seq: u64,
    },
}

/// The parts of a stored record, borrowed and not yet believed: the digest is unchecked.
#[derive(Clone, Copy)]
pub(crate) struct Stored<'a> {
    pub(crate) version: u8,
    pub(crate) seq: u64,
    pub(crate) previous: Digest,
    pub(crate) digest: Digest,
    pub(crate) body: &'a [u8],
}

impl<'a> Stored<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, StoredError> {
        let (&version, rest) = bytes.split_first().ok_or(StoredError::Short)?;
        if version != FORMAT_VERSION {
            return Err(StoredError::Version { version });
        }
        let (seq, rest) = rest.split_first_chunk().ok_or(StoredError::Short)?;
        let (previous, rest) = rest.split_first_chunk().ok_or(StoredError::Short)?;
        let (digest, body) = rest.split_first_chunk().ok_or(StoredError::Short)?;
        let seq = u64::from_be_bytes(*seq);
        if body.len() > MAX_BODY {
            return Err(StoredError::TooLong);
        }
        if !(1..=MAX_SEQ).contains(&seq) {
            return Err(StoredError::Seq { seq });
        }
        Ok(Self {
            version,
            seq,
            previous: Digest::from_bytes(*previous),
            digest: Digest::from_bytes(*digest),
            body,
        })
    }

    const fn fields(&self) -> Fields<'_> {
        Fields {
            version: self.version,
            seq: self.seq,
            previous: &self.previous,
            body: self.body,
        }
    }

    /// Whether the digest is that of the contents.
    pub(crate) fn is_intact(&self) -> bool {
        self.fields().digest() == self.digest
    }

    pub(crate) const fn link(&self) -> Link {
        Link {
            head: self.head(),
            previous: self.previous,
        }
    }

    pub(crate) const fn head(&self) -> Head {
        Head {
            seq: self.seq,
            digest: self.digest,
        }
    }
}

/// Whether the digests of several records are those of their contents, in less time than one after
/// the other.
pub(crate) fn are_intact<const N: usize>(records: &[Stored<'_>; N]) -> [bool; N] {
    let mut stated = records.iter();
    message::digests(records.each_ref().map(Stored::fields))
        .map(|digest| stated.next().is_some_and(|stated| stated.digest == digest))
}

/// What a record states of its place in the chain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    /// The head of a chain that ends with it.
    pub(crate) head: Head,
    /// The digest of the record it continues.
    pub(crate) previous: Digest,
}

/// The digest of a record.
pub(crate) fn record_digest(version: u8, seq: u64, previous: &Digest, body: &[u8]) -> Digest {
    Fields {
        version,
        seq,
        previous,
        body,
    }
    .digest()
}

/// A record as the log keeps it: numbered, linked to its predecessor, digest checked.
#[derive(Clone, PartialEq, Eq)]
#[must_use = "a sealed record that is not stored leaves no trace"]
pub struct Sealed {
    /// Version, number, previous digest, digest, entry: the stored form itself.
    stored: Vec<u8>,
    seq: u64,
    previous: Digest,
    digest: Digest,
}

/// Seals `entry` as the successor of `head`.
pub fn seal(head: &Head, entry: &Entry) -> Result<Sealed, SealError> {
    let seq = head.seq.checked_add(1).filter(|seq| *seq <= MAX_SEQ);
    let seq = seq.ok_or(SealError::Exhausted)?;
    let body = encoding::encode(entry)?;
    let digest = record_digest(FORMAT_VERSION, seq, &head.digest, &body);
    let mut stored = Vec::with_capacity(STORED_PREFIX + body.len());
    stored.push(FORMAT_VERSION);
    stored.extend_from_slice(&seq.to_be_bytes());
    stored.extend_from_slice(head.digest.as_bytes());
    stored.extend_from_slice(digest.as_bytes());
    stored.extend_from_slice(&body);
    Ok(Sealed {
        stored,
        seq,
        previous: head.digest,
        digest,
    })
}

impl Sealed {
    /// Takes stored bytes back, if they are intact. Whether they fit their neighbours is the
    /// verifier's to say.
    pub fn from_stored(bytes: Vec<u8>) -> Result<Self, StoredError> {
        let stored = Stored::parse(&bytes)?;
        let (seq, previous, digest) = (stored.seq, stored.previous, stored.digest);
        if !stored.is_intact() {
            return Err(StoredError::Edited { seq });
        }
        Ok(Self {
            stored: bytes,
            seq,
            previous,
            digest,
        })
    }

    /// The record's number.
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// The predecessor's digest.
    pub const fn previous(&self) -> &Digest {
        &self.previous
    }

    /// The record's digest.
    pub const fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The version of the layout it was sealed under.
    pub const fn version(&self) -> u8 {
        FORMAT_VERSION
    }

    /// The head of a chain that ends with this record.
    pub const fn head(&self) -> Head {
        Head {
            seq: self.seq,
            digest: self.digest,
        }
    }

    /// The stored form: version, number, previous digest, digest, entry.
    pub fn stored(&self) -> &[u8] {
        &self.stored
    }

    /// The stored form, owned.
    pub fn into_stored(self) -> Vec<u8> {
        self.stored
    }

    /// The canonical bytes of the entry.
    pub fn body(&self) -> &[u8] {
        self.stored.get(STORED_PREFIX..).unwrap_or_default()
    }

    /// The event, without decoding the rest.
    pub fn event(&self) -> Option<EventType> {
        encoding::event_of(self.body())
    }

    /// What the record says.
    pub fn entry(&self) -> Result<Entry, DecodeError> {
        encoding::decode(self.body())
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} {})", self.seq, self.digest)
    }
}

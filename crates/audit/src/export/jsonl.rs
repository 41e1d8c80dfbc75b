//! The lines of a JSON Lines export. Each is the only spelling of what it says.

use crate::Entry;
use crate::chain::{Head, LogId, Stored};
use crate::checkpoint::PublicKey;
use crate::encoding::{FORMAT_VERSION, MAX_BODY};
use crate::export::spelling::spell;
use airlock_core::{Digest, Hashing};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of the export's layout.
const EXPORT_VERSION: u8 = 1;
const FORMAT: &str = "airlock-audit";
const HEADER_TAG: &[u8] = b"airlock/audit/export\0";

/// Longest line: JSON spells a byte with up to six, and the keys need some room.
pub(super) const MAX_LINE: usize = 6 * MAX_BODY + 64 * 1024;

/// How a line of each kind begins.
pub(super) const RECORD_START: &[u8] = br#"{"type":"record","#;
pub(super) const CHECKPOINT_START: &[u8] = br#"{"type":"checkpoint","#;

/// What an export contains: a part of one log without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportHeader {
    /// Which log.
    pub log: LogId,
    /// The head before the first record; [`Head::genesis`] for an export from the beginning.
    pub start: Head,
    /// The number of the last record; `start.seq` if there is none.
    pub last: u64,
    /// The key that signs the log's checkpoints, for information: a verifier must know it from
    /// elsewhere to gain anything.
    pub key: Option<PublicKey>,
}

#[derive(Serialize, Deserialize)]
struct HeaderLine {
    r#type: String,
    format: String,
    version: u8,
    log: LogId,
    start: Head,
    last: u64,
    key: Option<PublicKey>,
    /// Guards the header against damage, not against malice: it is not signed.
    check: Digest,
}

impl ExportHeader {
    fn check(&self) -> Digest {
        let mut hash = Hashing::new();
        hash.update(HEADER_TAG);
        hash.update([EXPORT_VERSION]);
        hash.update(self.log.as_bytes());
        hash.update(self.start.seq.to_be_bytes());
        hash.update(self.start.digest.as_bytes());
        hash.update(self.last.to_be_bytes());
        hash.update([u8::from(self.key.is_some())]);
        if let Some(key) = &self.key {
            hash.update(key.as_bytes());
        }
        hash.finish()
    }

    /// The header's line, without the newline.
    pub(super) fn to_line(self) -> serde_json::Result<Vec<u8>> {
        spell(&HeaderLine {
            r#type: "header".to_owned(),
            format: FORMAT.to_owned(),
            version: EXPORT_VERSION,
            log: self.log,
            start: self.start,
            last: self.last,
            key: self.key,
            check: self.check(),
        })
    }

    pub(super) fn from_line(line: &[u8]) -> Result<Self, String> {
        let parsed: HeaderLine = parse(line)?;
        if parsed.r#type != "header" || parsed.format != FORMAT {
            return Err("this is not an export of an audit log".to_owned());
        }
        if parsed.version != EXPORT_VERSION {
            let version = parsed.version;
            return Err(format!(
                "the export has version {version}; this Airlock knows 1"
            ));
        }
        let header = Self {
            log: parsed.log,
            start: parsed.start,
            last: parsed.last,
            key: parsed.key,
        };
        if header.check() != parsed.check {
            return Err("the header was changed: its check does not match".to_owned());
        }
        if header.last < header.start.seq {
            return Err("the header's range ends before it begins".to_owned());
        }
        Ok(header)
    }
}

/// A record's line.
#[derive(Serialize, Deserialize)]
pub(super) struct RecordLine {
    r#type: String,
    version: u8,
    seq: u64,
    previous: Digest,
    digest: Digest,
    pub(super) entry: Entry,
}

impl RecordLine {
    pub(super) fn new(record: &Stored<'_>, entry: Entry) -> Self {
        Self {
            r#type: "record".to_owned(),
            version: record.version,
            seq: record.seq,
            previous: record.previous,
            digest: record.digest,
            entry,
        }
    }

    pub(super) fn from_line(line: &[u8]) -> Result<Self, String> {
        let parsed: Self = parse(line)?;
        if parsed.version != FORMAT_VERSION {
            let version = parsed.version;
            return Err(format!(
                "the record has format version {version}; this Airlock knows 1"
            ));
        }
        Ok(parsed)
    }

    /// The record the line states, with `body` as the canonical bytes of its entry.
    pub(super) const fn stored<'a>(&self, body: &'a [u8]) -> Stored<'a> {
        Stored {
            version: self.version,
            seq: self.seq,
            previous: self.previous,
            digest: self.digest,
            body,
        }
    }
}

/// Reads a line and insists on its one spelling: written again it must be the same bytes, so no
/// other order of keys, no unknown or repeated key, no space and no other escape gets through.
fn parse<T: DeserializeOwned + Serialize>(line: &[u8]) -> Result<T, String> {
    let value: T = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    match spell(&value) {
        Ok(again) if again == line => Ok(value),
        Ok(_) | Err(_) => Err("the line is not spelled the one way it can be".to_owned()),
    }
}

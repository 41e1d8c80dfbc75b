//! Signed statements about a chain's head. Pure: the key, its file and the clock are the caller's.
//!
//! A checkpoint pinned outside the log's reach (a file elsewhere, a git note, another host) shows
//! later that the log was truncated before it or written anew. It proves nothing about records
//! after it, and nothing at all to somebody who does not know which public key to expect.
//!
//! Invariant: a [`SignedCheckpoint`] carries a signature that is valid under its own key.

use crate::chain::{Head, LogId, parse_hex};
use crate::record::time_text;
use airlock_core::{Digest, Timestamp};
use ed25519_dalek::{Signature, Signer, VerifyingKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use zeroize::Zeroizing;

const CHECKPOINT_TAG: &[u8] = b"airlock/audit/checkpoint\0";

/// The version of the checkpoint layout.
pub(crate) const CHECKPOINT_VERSION: u8 = 1;

/// The name under which a checkpoint record's metadata holds the signed text.
pub const CHECKPOINT_METADATA: &str = "checkpoint";

/// Longest text form: the fields have fixed widths but for the number.
pub(crate) const MAX_TEXT: usize = 1024;

/// Why a checkpoint cannot be made or believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// Not the one text form of a checkpoint.
    #[error("the text is not a checkpoint in its exact form: {reason}")]
    Form {
        /// What is wrong with it.
        reason: String,
    },
    /// Written by a newer Airlock.
    #[error("the checkpoint has version {version}; this Airlock knows 1")]
    Version {
        /// The version it claims.
        version: u8,
    },
    /// The bytes are no usable Ed25519 public key.
    #[error("`{key}` is not a usable Ed25519 public key")]
    Key {
        /// The key as text.
        key: String,
    },
    /// The signature does not belong to these contents and this key.
    #[error("the signature of the checkpoint over record {seq} is not valid")]
    Signature {
        /// The record the checkpoint is about.
        seq: u64,
    },
    /// Valid, but signed by somebody else.
    #[error("the checkpoint over record {seq} is signed by `{key}`, which is not an expected key")]
    UnexpectedKey {
        /// The record the checkpoint is about.
        seq: u64,
        /// The key that signed it.
        key: PublicKey,
    },
    /// The clock is not set, or the time is made up.
    #[error("the checkpoint's time is outside the years 1970 to 9998")]
    Time,
}

impl CheckpointError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Form { .. } => "give the line exactly as `airlock audit checkpoint` printed it",
            Self::Version { .. } => "use the Airlock that wrote it, or a newer one",
            Self::Key { .. } => "a public key is 64 lowercase hexadecimal digits",
            Self::Signature { .. } => "treat the log and this checkpoint as tampered with",
            Self::UnexpectedKey { .. } => "name the key you expect, if it was changed on purpose",
            Self::Time => "set the system clock",
        }
    }
}

/// An Ed25519 public key: checked to be one, and not one of the few weak ones.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Checks `bytes` and wraps them.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, CheckpointError> {
        let error = || CheckpointError::Key {
            key: Digest::from_bytes(*bytes).to_string(),
        };
        let key = VerifyingKey::from_bytes(bytes).map_err(|_| error())?;
        // One key, one spelling: a point has a second encoding in a few cases.
        if key.is_weak() || key.to_edwards().compress().as_bytes() != bytes {
            return Err(error());
        }
        Ok(Self(*bytes))
    }

    /// The raw bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first 16 hex digits: enough for a person to compare, never for the machine.
    pub fn short(&self) -> String {
        self.to_string().chars().take(16).collect()
    }

    fn verify(&self, message: &[u8], signature: &Signature) -> bool {
        VerifyingKey::from_bytes(&self.0)
            .is_ok_and(|key| key.verify_strict(message, signature).is_ok())
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = CheckpointError;

    fn from_str(text: &str) -> Result<Self, CheckpointError> {
        let bytes = parse_hex(text).ok_or_else(|| CheckpointError::Key {
            key: text.chars().take(80).collect(),
        })?;
        Self::from_bytes(&bytes)
    }
}

impl Serialize for PublicKey {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The key that signs checkpoints; wiped from memory when dropped, never shown.
pub struct SigningKey(ed25519_dalek::SigningKey);

impl SigningKey {
    /// The key with this secret: 32 bytes fresh from a random generator, or read from a key file.
    pub fn from_secret(secret: &[u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(secret))
    }

    /// The secret, for the key file alone.
    pub fn secret(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes())
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }

    /// States that `log` stood at `head` at `time`.
    pub fn sign(
        &self,
        log: LogId,
        head: Head,
        time: Timestamp,
    ) -> Result<SignedCheckpoint, CheckpointError> {
        if !time_text::is_representable(time) {
            return Err(CheckpointError::Time);
        }
        let checkpoint = Checkpoint {
            log,
            seq: head.seq,
            head: head.digest,
            time,
            key: self.public(),
        };
        let signature = self.0.sign(&checkpoint.message());
        Ok(SignedCheckpoint {
            checkpoint,
            signature,
        })
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey(public {})", self.public())
    }
}

/// What a checkpoint states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// Which log.
    pub log: LogId,
    /// The number of the last record it covers.
    pub seq: u64,
    /// The digest of that record.
    pub head: Digest,
    /// When it was signed.
    pub time: Timestamp,
    /// Who signed it.
    pub key: PublicKey,
}

impl Checkpoint {
    /// The bytes that are signed.
    fn message(&self) -> Vec<u8> {
        let mut message = CHECKPOINT_TAG.to_vec();
        message.push(CHECKPOINT_VERSION);
        message.extend_from_slice(self.log.as_bytes());
        message.extend_from_slice(&self.seq.to_be_bytes());
        message.extend_from_slice(self.head.as_bytes());
        message.extend_from_slice(&self.time.as_micros().to_be_bytes());
        message.extend_from_slice(self.key.as_bytes());
        message
    }
}

/// A checkpoint whose signature is valid under the key it names.
///
/// Its text form is one line of JSON with a single spelling; [`FromStr`] takes nothing else.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SignedCheckpoint {
    checkpoint: Checkpoint,
    signature: Signature,
}

/// The text form: the order of the fields is the order in the text.
#[derive(Serialize, Deserialize)]
struct Line {
    r#type: String,
    version: u8,
    log: LogId,
    seq: u64,
    head: Digest,
    #[serde(with = "time_text")]
    time: Timestamp,
    key: String,
    signature: String,
}

impl SignedCheckpoint {
    /// What it states.
    pub const fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The head it states.
    pub const fn head(&self) -> Head {
        Head {
            seq: self.checkpoint.seq,
            digest: self.checkpoint.head,
        }
    }

    /// Checks that the signer is one of `expected`; an empty list expects nobody in particular.
    pub fn check_signer(&self, expected: &[PublicKey]) -> Result<(), CheckpointError> {
        let Checkpoint { seq, key, .. } = self.checkpoint;
        if expected.is_empty() || expected.contains(&key) {
            Ok(())
        } else {
            Err(CheckpointError::UnexpectedKey { seq, key })
        }
    }

    fn line(&self) -> Line {
        let Checkpoint {
            log,
            seq,
            head,
            time,
            key,
        } = self.checkpoint;
        Line {
            r#type: "checkpoint".to_owned(),
            version: CHECKPOINT_VERSION,
            log,
            seq,
            head,
            time,
            key: key.to_string(),
            signature: hex(&self.signature.to_bytes()),
        }
    }

    fn from_line(line: &Line) -> Result<Self, CheckpointError> {
        let version = line.version;
        if version != CHECKPOINT_VERSION {
            return Err(CheckpointError::Version { version });
        }
        let checkpoint = Checkpoint {
            log: line.log,
            seq: line.seq,
            head: line.head,
            time: line.time,
            key: line.key.parse()?,
        };
        let refused = CheckpointError::Signature { seq: line.seq };
        let signature = parse_hex(&line.signature).ok_or_else(|| refused.clone())?;
        let signature = Signature::from_bytes(&signature);
        if !checkpoint.key.verify(&checkpoint.message(), &signature) {
            return Err(refused);
        }
        Ok(Self {
            checkpoint,
            signature,
        })
    }
}

const fn digit(nibble: u8) -> u8 {
    if nibble < 10 {
        b'0' + nibble
    } else {
        b'a' + nibble - 10
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.extend([byte >> 4, byte & 15].map(|nibble| char::from(digit(nibble))));
    }
    text
}

impl fmt::Display for SignedCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string(&self.line()).map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}

impl fmt::Debug for SignedCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignedCheckpoint({self})")
    }
}

impl FromStr for SignedCheckpoint {
    type Err = CheckpointError;

    /// Reads the text form and checks the signature; a trailing newline must be gone already.
    fn from_str(text: &str) -> Result<Self, CheckpointError> {
        let form = |reason: &str| CheckpointError::Form {
            reason: reason.to_owned(),
        };
        if text.len() > MAX_TEXT {
            return Err(form("it is too long"));
        }
        let line: Line = serde_json::from_str(text).map_err(|error| form(&error.to_string()))?;
        let signed = Self::from_line(&line)?;
        // Written again it must be the same text: no other order, spacing, escape or key.
        if signed.to_string() == text {
            Ok(signed)
        } else {
            Err(form("it is not spelled the one way a checkpoint is"))
        }
    }
}

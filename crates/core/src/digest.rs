//! A SHA-256 digest as a value: compared, shown and parsed as 64 lowercase hex digits.
//!
//! Hashed by AWS-LC, which TLS brings along anyway: where a processor has no instructions for
//! SHA-256 it takes half the time of crate `sha2`.

use aws_lc_rs::digest::{Context, SHA256, digest};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The 32 bytes of a SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

/// Why a string is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 64 lowercase hexadecimal digits")]
pub struct ParseDigestError;

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_library(&digest(&SHA256, bytes))
    }

    fn from_library(digest: &aws_lc_rs::digest::Digest) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        Self(bytes)
    }

    /// Wraps bytes that already are a digest.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The raw bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first 16 hex digits: enough for a person to compare, never for the machine.
    pub fn short(&self) -> String {
        self.to_string().chars().take(16).collect()
    }
}

/// Whether this processor has instructions for SHA-256.
pub fn has_sha_instructions() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("sha");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("sha2");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

/// The digest of bytes that come piece by piece.
#[derive(Clone)]
pub struct Hashing(Context);

impl Hashing {
    /// Nothing hashed yet.
    pub fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.update(bytes.as_ref());
    }

    /// The digest of all that was taken.
    pub fn finish(self) -> Digest {
        Digest::from_library(&self.0.finish())
    }
}

impl Default for Hashing {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Hashing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hashing").finish_non_exhaustive()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digit = |nibble: u8| match nibble {
            0..=9 => b'0' + nibble,
            _ => b'a' + nibble - 10,
        };
        let mut text = [b'0'; 64];
        let (pairs, _) = text.as_chunks_mut::<2>();
        for (pair, byte) in pairs.iter_mut().zip(self.0) {
            *pair = [byte >> 4, byte & 15].map(digit);
        }
        f.write_str(str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        let hex = text.as_bytes();
        if hex.len() != 64 {
            return Err(ParseDigestError);
        }
        let mut bytes = [0u8; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            let mut value = 0;
            for digit in pair {
                let nibble = match digit {
                    b'0'..=b'9' => digit - b'0',
                    b'a'..=b'f' => digit - b'a' + 10,
                    _ => return Err(ParseDigestError),
                };
                value = value << 4 | nibble;
            }
            *byte = value;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips_and_is_strict() {
        let digest = Digest::of(b"airlock");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        for bad in [
            "",
            "00",
            &digest.to_string().to_uppercase(),
            &"g".repeat(64),
        ] {
            assert_eq!(bad.parse::<Digest>(), Err(ParseDigestError), "{bad}");
        }
    }

    /// Digests of one version are read by the next, and by other programs: whoever hashes, the value
    /// is the standard's.
    #[test]
    fn whole_and_piece_by_piece_are_what_another_sha256_gives() {
        use sha2::Digest as _;
        let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for length in 0..bytes.len() {
            let (message, _) = bytes.split_at(length);
            let wanted = Digest::from_bytes(sha2::Sha256::digest(message).into());
            assert_eq!(Digest::of(message), wanted, "{length}");
            let mut pieces = Hashing::new();
            message.chunks(7).for_each(|piece| pieces.update(piece));
            assert_eq!(pieces.clone().finish(), wanted, "{length}");
        }
    }
}

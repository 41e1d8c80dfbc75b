//! A token as its holder carries it: opaque text, parsed strictly.

use super::mac::TAG;
use airlock_core::Digest;
use serde::{Deserialize, Serialize};
use std::fmt;
use zeroize::Zeroizing;

/// Which kind of text this is and how it is laid out; another layout gets another prefix.
const PREFIX: &str = "alt1_";
const NUMBER: usize = 8;
const CLAIMS: usize = 32;
const BYTES: usize = NUMBER + CLAIMS + TAG;

/// The number of a token: grows with each issue, names it in the log, opens nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenId(pub(super) u64);

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "token-{}", self.0)
    }
}

/// Why text is not a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a token is `{PREFIX}` and {} lowercase hexadecimal digits", BYTES * 2)]
pub struct ParseTokenError;

/// A token. Whoever holds its text may present it, so it is never shown by accident: there is no
/// `Display` and no serialisation, and `Debug` gives the number alone.
#[derive(Clone)]
pub struct Token {
    pub(super) id: TokenId,
    pub(super) claims: Digest,
    pub(super) tag: Zeroizing<[u8; TAG]>,
}

impl Token {
    /// Reads a token's text. That it reads says nothing about whether it is any good.
    pub fn parse(text: &str) -> Result<Self, ParseTokenError> {
        let digits = text.strip_prefix(PREFIX).ok_or(ParseTokenError)?.as_bytes();
        if digits.len() != BYTES * 2 {
            return Err(ParseTokenError);
        }
        let mut bytes = digits.chunks_exact(2).map(byte);
        Ok(Self {
            id: TokenId(u64::from_be_bytes(take(&mut bytes)?)),
            claims: Digest::from_bytes(take(&mut bytes)?),
            tag: Zeroizing::new(take(&mut bytes)?),
        })
    }

    /// The text to hand to the holder, and to nobody else.
    pub fn reveal(&self) -> Zeroizing<String> {
        // Sized up front: growing would leave copies of the tag behind in freed memory.
        let mut text = Zeroizing::new(String::with_capacity(PREFIX.len() + BYTES * 2));
        text.push_str(PREFIX);
        let number = self.id.0.to_be_bytes();
        for byte in number
            .iter()
            .chain(self.claims.as_bytes())
            .chain(self.tag.iter())
        {
            for nibble in [byte >> 4, byte & 15] {
                text.push(char::from_digit(nibble.into(), 16).unwrap_or('0'));
            }
        }
        text
    }

    /// The number, for the log.
    pub const fn id(&self) -> TokenId {
        self.id
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.id)
    }
}

fn take<const N: usize>(
    bytes: &mut impl Iterator<Item = Result<u8, ParseTokenError>>,
) -> Result<[u8; N], ParseTokenError> {
    let mut taken = [0; N];
    for slot in &mut taken {
        *slot = bytes.next().ok_or(ParseTokenError)??;
    }
    Ok(taken)
}

fn byte(pair: &[u8]) -> Result<u8, ParseTokenError> {
    pair.iter().try_fold(0, |value, digit| {
        let nibble = match digit {
            b'0'..=b'9' => digit - b'0',
            // Uppercase would be a second spelling of the same token.
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return Err(ParseTokenError),
        };
        Ok(value << 4 | nibble)
    })
}

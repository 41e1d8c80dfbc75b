//! A path inside a tree: bytes, relative, and the same bytes again after a trip through JSON.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// A path as bytes. In JSON a string, or, when it is not UTF-8, `{"text": ..., "hex": ...}` with
/// the nearest text and all its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TreePath(PathBuf);

impl TreePath {
    /// The path.
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_os_str().as_bytes()
    }

    pub(super) fn join(&self, name: &OsStr) -> Self {
        Self(self.0.join(name))
    }
}

impl AsRef<Path> for TreePath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl From<PathBuf> for TreePath {
    fn from(path: PathBuf) -> Self {
        Self(path)
    }
}

impl From<&Path> for TreePath {
    fn from(path: &Path) -> Self {
        Self(path.to_owned())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Plain(String),
    Bytes { text: String, hex: String },
}

impl Serialize for TreePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => Form::Bytes {
                text: self.0.to_string_lossy().into_owned(),
                hex: to_hex(self.as_bytes()),
            }
            .serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for TreePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Form::deserialize(deserializer)? {
            Form::Plain(text) => Ok(Self(text.into())),
            Form::Bytes { hex, .. } => from_hex(&hex)
                .map(|bytes| Self(OsString::from_vec(bytes).into()))
                .ok_or_else(|| D::Error::custom("a path's `hex` is not hexadecimal")),
        }
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut bytes = Vec::with_capacity(text.len() / 2);
    for pair in text.as_bytes().chunks_exact(2) {
        let &[high, low] = pair else { return None };
        bytes.push(u8::try_from(digit(high)? * 16 + digit(low)?).ok()?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_path_survives_json(bytes in proptest::collection::vec(1_u8.., 1..40)) {
            let path = TreePath(OsString::from_vec(bytes).into());
            let json = serde_json::to_string(&path).unwrap();
            prop_assert_eq!(serde_json::from_str::<TreePath>(&json).unwrap(), path);
        }
    }

    #[test]
    fn text_is_a_string_and_bytes_carry_both_forms() {
        let path = |bytes: &[u8]| TreePath(OsString::from_vec(bytes.to_vec()).into());
        let json = |bytes: &[u8]| serde_json::to_string(&path(bytes)).unwrap();
        assert_eq!(json(b"a\nb"), r#""a\nb""#);
        assert_eq!(json(b"a\xff"), "{\"text\":\"a\u{fffd}\",\"hex\":\"61ff\"}");
        assert!(serde_json::from_str::<TreePath>(r#"{"text":"a","hex":"6"}"#).is_err());
        assert!(serde_json::from_str::<TreePath>(r#"{"text":"a","hex":"zz"}"#).is_err());
    }
}

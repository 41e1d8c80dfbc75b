//! The name of a stage: also the name of its directory, so that it can only be a plain one.

use serde::Serialize;
use std::fmt;

/// A valid stage name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct StageName(String);

/// Why a text is not a stage name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a stage name")]
pub struct InvalidName(String);

impl InvalidName {
    /// How to mend it.
    pub const fn hint(&self) -> &'static str {
        "use 1 to 64 letters, digits, `.`, `_` and `-`, beginning with none of `.` and `-`"
    }
}

impl StageName {
    const MOST: usize = 64;

    /// Takes `text` if it is 1 to 64 of `A-Za-z0-9._-` and does not begin with `.` or `-`.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let plain = text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if text.is_empty() || text.len() > Self::MOST || !plain || text.starts_with(['.', '-']) {
            // An error message is no place for a megabyte or a terminal sequence.
            let shown = text.chars().take(Self::MOST).collect::<String>();
            return Err(InvalidName(shown.escape_debug().to_string()));
        }
        Ok(Self(text.to_owned()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_names() {
        let long = "x".repeat(64);
        for good in ["default", "a", "A.b_c-9", "9", "_", long.as_str()] {
            assert_eq!(StageName::new(good).unwrap().as_str(), good);
        }
        let longer = "x".repeat(65);
        for bad in [
            "",
            ".",
            "..",
            ".hidden",
            "-x",
            "a/b",
            "a b",
            "a\n",
            "ä",
            "a\0",
            longer.as_str(),
        ] {
            assert!(StageName::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_refused_name_is_shown_without_its_control_characters() {
        let error = StageName::new("a\x1b[2J").unwrap_err();
        assert_eq!(error.to_string(), "`a\\u{1b}[2J` is not a stage name");
    }
}

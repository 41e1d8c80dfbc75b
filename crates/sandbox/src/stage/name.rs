//! The name of a stage: also the name of its directory, so that it can only be a plain one.
//!
//! A stage that is there for some runs only has a name that nobody can choose: it begins with a dot.

use serde::Serialize;
use std::fmt;

/// What the names of stages begin with that are there for some runs only.
const PASSING: &str = ".runs-";

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

    /// The name of a stage that is there for some runs only.
    pub(super) fn passing(label: &str) -> Result<Self, InvalidName> {
        Self::known(&format!("{PASSING}{label}"))
    }

    /// Takes `text` if a stage can be called so, whoever chose it.
    pub(super) fn known(text: &str) -> Result<Self, InvalidName> {
        Self::new(text.strip_prefix(PASSING).unwrap_or(text))?;
        Ok(Self(text.to_owned()))
    }

    /// Whether `text` would be the name of a stage that is there for some runs only.
    pub fn is_passing(text: &str) -> bool {
        text.starts_with(PASSING)
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
    fn the_name_of_a_stage_for_some_runs_is_nobodys_to_choose() {
        let own = StageName::passing("merged-1").unwrap();
        assert!(StageName::is_passing(own.as_str()));
        assert!(StageName::new(own.as_str()).is_err());
        assert_eq!(StageName::known(own.as_str()).unwrap(), own);
        for bad in ["", "a/b", "../x", "."] {
            assert!(StageName::passing(bad).is_err(), "{bad:?}");
        }
        assert_eq!(StageName::known("default").unwrap().as_str(), "default");
        assert!(StageName::known(".hidden").is_err());
    }

    #[test]
    fn a_refused_name_is_shown_without_its_control_characters() {
        let error = StageName::new("a\x1b[2J").unwrap_err();
        assert_eq!(error.to_string(), "`a\\u{1b}[2J` is not a stage name");
    }
}

//! Leave to change some paths without a test: asked for by name, within what its category covers.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Most paths of one exemption.
const PATHS: usize = 100;
/// Longest reason, in characters.
const REASON: usize = 500;

/// What an exemption is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Configuration of tools.
    ConfigChange,
    /// Types moved or renamed; the existing tests pass unchanged.
    TypeRefactor,
    /// Documentation.
    Documentation,
    /// Images, fonts and the like.
    AssetUpdate,
}

impl Category {
    /// Every category.
    pub const ALL: [Self; 4] = [
        Self::ConfigChange,
        Self::TypeRefactor,
        Self::Documentation,
        Self::AssetUpdate,
    ];

    /// The word used in policy, calls and output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ConfigChange => "config_change",
            Self::TypeRefactor => "type_refactor",
            Self::Documentation => "documentation",
            Self::AssetUpdate => "asset_update",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What was asked for, and by its grant may be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exemption {
    /// What for.
    pub category: Category,
    /// The paths, each a file by its normalised name; no globs.
    pub paths: Vec<String>,
    /// Why.
    pub reason: String,
}

impl Exemption {
    /// Whether it lets `path` be written.
    pub fn covers(&self, path: &str) -> bool {
        self.paths.iter().any(|own| own == path)
    }

    /// The first thing wrong with it; `within` says whether its category's globs hold a path.
    pub(crate) fn problem(&self, within: &dyn Fn(Category, &str) -> bool) -> Option<String> {
        if self.paths.is_empty() || self.paths.len() > PATHS {
            return Some(format!("it names no path, or more than {PATHS}"));
        }
        let length = self.reason.trim().chars().count();
        if length == 0 || length > REASON {
            return Some(format!(
                "its reason is empty, or longer than {REASON} characters"
            ));
        }
        let outside = self.paths.iter().find(|path| !within(self.category, path));
        outside.map(|path| {
            format!(
                "`{path}` is outside what `{}` covers",
                self.category.as_str()
            )
        })
    }
}

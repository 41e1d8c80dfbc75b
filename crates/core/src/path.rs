//! Paths as requests carry them: normalised text, checked once.
//!
//! A [`WorkspacePath`] is lexically beneath the workspace root. That says nothing about symlinks:
//! whoever opens it must resolve beneath the root and judge the file it really reached.

use crate::limits;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// Why text is not a usable path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Nothing there.
    #[error("the path is empty")]
    Empty,
    /// A NUL byte can never be part of a file name.
    #[error("the path contains a NUL byte")]
    Nul,
    /// Over the system's own limit.
    #[error("the path is longer than 4096 bytes")]
    TooLong,
    /// `..` climbs above the workspace root.
    #[error("`{0}` leads out of the workspace")]
    Escapes(String),
    /// An absolute path where a workspace path was wanted.
    #[error("`{0}` is absolute; paths are relative to the workspace root")]
    Absolute(String),
}

/// A normalised path beneath the workspace root; the root itself is `.`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkspacePath(Arc<str>);

impl WorkspacePath {
    /// The workspace root.
    pub fn root() -> Self {
        Self(Arc::from("."))
    }

    /// Normalises `text`: drops `.` and empty components, resolves `..` lexically.
    pub fn new(text: &str) -> Result<Self, PathError> {
        if text.starts_with('/') {
            check(text)?;
            return Err(PathError::Absolute(shown(text)));
        }
        normalise(text).map(|path| Self(path.into()))
    }

    /// The path as text, with `/` between components.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the workspace root.
    pub fn is_root(&self) -> bool {
        &*self.0 == "."
    }

    /// The path of `name` in this directory. `name` must be one component.
    pub fn join(&self, name: &str) -> Result<Self, PathError> {
        if self.is_root() {
            Self::new(name)
        } else {
            Self::new(&format!("{}/{name}", self.0))
        }
    }

    /// The components, none for the root.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|component| *component != ".")
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkspacePath({:?})", self.as_str())
    }
}

/// A path a request names: inside the workspace, or an absolute one outside.
///
/// An outside path never matches an allow rule; denials, reviews and capabilities still see it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestPath {
    /// Beneath the workspace root.
    Inside(WorkspacePath),
    /// Absolute and normalised, not beneath the workspace root.
    Outside(Arc<str>),
}

impl RequestPath {
    /// Reads `text`, absolute or relative to the workspace whose root is the absolute `root`.
    ///
    /// `..` is resolved lexically; a relative path that climbs out becomes an outside path.
    pub fn parse(text: &str, root: &str) -> Result<Self, PathError> {
        check(text)?;
        let absolute = if text.starts_with('/') {
            text.to_owned()
        } else {
            format!("{root}/{text}")
        };
        let absolute = normalise_absolute(&absolute);
        let root = normalise_absolute(root);
        match absolute.strip_prefix(&root) {
            Some("") => Ok(Self::Inside(WorkspacePath::root())),
            Some(below) if root == "/" => WorkspacePath::new(below).map(Self::Inside),
            Some(below) if below.starts_with('/') => {
                WorkspacePath::new(below.trim_start_matches('/')).map(Self::Inside)
            }
            Some(_) | None => Ok(Self::Outside(absolute.into())),
        }
    }

    /// The workspace path, if it is inside.
    pub fn inside(&self) -> Option<&WorkspacePath> {
        match self {
            Self::Inside(path) => Some(path),
            Self::Outside(_) => None,
        }
    }

    /// The path as shown to people: relative inside, absolute outside.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Inside(path) => path.as_str(),
            Self::Outside(path) => path,
        }
    }

    /// The absolute path, given the workspace's absolute `root`.
    pub fn absolute(&self, root: &str) -> String {
        match self {
            Self::Inside(path) if path.is_root() => root.to_owned(),
            Self::Inside(path) => format!("{}/{path}", root.trim_end_matches('/')),
            Self::Outside(path) => path.to_string(),
        }
    }
}

impl From<WorkspacePath> for RequestPath {
    fn from(path: WorkspacePath) -> Self {
        Self::Inside(path)
    }
}

impl fmt::Display for RequestPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for RequestPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for RequestPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.starts_with('/') {
            check(&text).map_err(serde::de::Error::custom)?;
            return Ok(Self::Outside(normalise_absolute(&text).into()));
        }
        WorkspacePath::new(&text)
            .map(Self::Inside)
            .map_err(serde::de::Error::custom)
    }
}

fn shown(text: &str) -> String {
    text.chars().take(120).collect()
}

fn check(text: &str) -> Result<(), PathError> {
    if text.is_empty() {
        return Err(PathError::Empty);
    }
    if text.contains('\0') {
        return Err(PathError::Nul);
    }
    if text.len() > limits::PATH_BYTES {
        return Err(PathError::TooLong);
    }
    Ok(())
}

fn normalise(text: &str) -> Result<String, PathError> {
    check(text)?;
    let mut kept: Vec<&str> = Vec::new();
    for component in text.split('/') {
        match component {
            "" | "." => {}
            ".." => {
                kept.pop().ok_or_else(|| PathError::Escapes(shown(text)))?;
            }
            name => kept.push(name),
        }
    }
    Ok(if kept.is_empty() {
        ".".to_owned()
    } else {
        kept.join("/")
    })
}

fn normalise_absolute(text: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for component in text.split('/') {
        match component {
            "" | "." => {}
            ".." => {
                kept.pop();
            }
            name => kept.push(name),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_normalised_or_refused() {
        for (text, want) in [
            ("src/main.rs", Some("src/main.rs")),
            ("./src//main.rs", Some("src/main.rs")),
            ("src/../tests", Some("tests")),
            (".", Some(".")),
            ("a/..", Some(".")),
            ("..", None),
            ("a/../../b", None),
            ("/etc/shadow", None),
            ("", None),
            ("a\0b", None),
        ] {
            let got = WorkspacePath::new(text).ok();
            assert_eq!(got.as_ref().map(WorkspacePath::as_str), want, "{text:?}");
        }
    }

    #[test]
    fn a_request_path_knows_which_side_it_is_on() {
        for (text, inside, shown) in [
            ("src/a", true, "src/a"),
            ("/work/src/a", true, "src/a"),
            ("/work", true, "."),
            ("/work/", true, "."),
            ("/work2/a", false, "/work2/a"),
            ("../a", false, "/a"),
            ("/work/../etc/shadow", false, "/etc/shadow"),
        ] {
            let path = RequestPath::parse(text, "/work").unwrap();
            assert_eq!(path.inside().is_some(), inside, "{text}");
            assert_eq!(path.as_str(), shown, "{text}");
        }
        assert_eq!(RequestPath::parse("etc", "/").unwrap().as_str(), "etc");
    }

    proptest! {
        #[test]
        fn a_workspace_path_never_climbs(text in "[a./\\\\ ]{0,24}") {
            if let Ok(path) = WorkspacePath::new(&text) {
                prop_assert!(path.components().all(|c| !c.is_empty() && c != ".." && c != "."));
                prop_assert_eq!(WorkspacePath::new(path.as_str()), Ok(path.clone()));
            }
        }
    }
}

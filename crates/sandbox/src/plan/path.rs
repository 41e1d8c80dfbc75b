//! Paths of a plan: absolute, normalised, any bytes but NUL.
//!
//! A path is data. It is compared by whole components, and never as text: `/a` does not hold
//! `/ab`. Nothing here says what lies at a path: symlinks are for whoever opens it.
//!
//! Invariant: only [`HostPath::new`] makes one from text, so that each begins with `/` and has no
//! `.`, `..`, empty component or NUL.

use airlock_core::limits::PATH_BYTES;
use serde::{Serialize, Serializer};
use std::cmp::Ordering;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Component, MAIN_SEPARATOR, Path, PathBuf};

/// Why text is not a path a plan can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    /// Nothing there.
    #[error("the path is empty")]
    Empty,
    /// Relative to a directory nobody named.
    #[error("`{0}` is not an absolute path")]
    Relative(String),
    /// `..` means different things before and after symlinks are followed.
    #[error("`{0}` contains `..`")]
    Climbs(String),
    /// A NUL byte can never be part of a file name, and ends an argument.
    #[error("the path contains a NUL byte")]
    Nul,
    /// Over the system's own limit.
    #[error("the path is longer than {PATH_BYTES} bytes")]
    TooLong,
}

impl PathProblem {
    /// How to mend it.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Empty | Self::Relative(_) => "write the whole path, from `/` on",
            Self::Climbs(_) => "write the path without `..`",
            Self::Nul => "remove the NUL byte",
            Self::TooLong => "grant a directory further up",
        }
    }
}

/// An absolute, normalised path on the host.
///
/// Ordered by components, so that a directory comes before everything in it.
///
/// There is one way to write each, so that bytes tell: a plan compares thousands of them, and taking
/// both apart each time would be most of its work.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct HostPath(OsString);

/// Between two names of a [`HostPath`].
const SEPARATOR: u8 = MAIN_SEPARATOR as u8;

impl HostPath {
    /// Checks `path`; drops `.` and repeated or trailing slashes.
    pub fn new(path: impl AsRef<OsStr>) -> Result<Self, PathProblem> {
        let text = path.as_ref();
        let bytes = text.as_encoded_bytes();
        if bytes.is_empty() {
            return Err(PathProblem::Empty);
        }
        if bytes.contains(&0) {
            return Err(PathProblem::Nul);
        }
        if bytes.len() > PATH_BYTES {
            return Err(PathProblem::TooLong);
        }
        if bytes.first() != Some(&b'/') {
            return Err(PathProblem::Relative(shown(text)));
        }
        let path = Path::new(text);
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(PathProblem::Climbs(shown(text)));
        }
        Ok(Self::of(path))
    }

    fn of(path: &Path) -> Self {
        let normal: PathBuf = path.components().collect();
        Self(normal.into_os_string())
    }

    /// `/`.
    pub(crate) fn top() -> Self {
        Self::of(Path::new("/"))
    }

    /// The path.
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }

    /// The path as an argument.
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }

    fn bytes(&self) -> &[u8] {
        self.0.as_encoded_bytes()
    }

    /// Whether `other` is this path or lies beneath it.
    pub fn holds(&self, other: &Self) -> bool {
        let below = other.bytes().strip_prefix(self.bytes());
        below.is_some_and(|below| {
            below.is_empty() || below.first() == Some(&SEPARATOR) || self.is_root()
        })
    }

    /// Whether this is `/`.
    pub fn is_root(&self) -> bool {
        self.0.len() == 1
    }

    /// The directory it lies in; none for `/`.
    pub fn parent(&self) -> Option<Self> {
        let parent = self.as_path().parent();
        parent.map(|parent| Self(parent.as_os_str().to_owned()))
    }

    /// `name` in this directory.
    pub(crate) fn join(&self, name: &OsStr) -> Self {
        Self(self.as_path().join(name).into_os_string())
    }

    /// This path with `from` replaced by `to`; none for a path outside `from`.
    pub(crate) fn moved(&self, from: &Self, to: &Self) -> Option<Self> {
        let below = self.as_path().strip_prefix(&from.0).ok()?;
        Some(Self::of(&to.as_path().join(below)))
    }

    /// The bytes of its names from the top, none for `/`.
    pub(crate) fn name_bytes(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let names = self.bytes().split(|byte| *byte == SEPARATOR);
        names.filter(|name| !name.is_empty())
    }

    /// The names from the top, none for `/`.
    pub(crate) fn names(&self) -> impl DoubleEndedIterator<Item = &OsStr> + Clone {
        self.as_path().components().filter_map(|part| match part {
            Component::Normal(name) => Some(name),
            Component::Prefix(_)
            | Component::RootDir
            | Component::CurDir
            | Component::ParentDir => None,
        })
    }
}

impl Ord for HostPath {
    fn cmp(&self, other: &Self) -> Ordering {
        let (ours, theirs) = (self.bytes(), other.bytes());
        let differ = ours.iter().zip(theirs).find(|(one, other)| one != other);
        match differ {
            // A name that ends here comes first, whatever the other goes on with.
            Some((&SEPARATOR, _)) => Ordering::Less,
            Some((_, &SEPARATOR)) => Ordering::Greater,
            Some((one, other)) => one.cmp(other),
            None => ours.len().cmp(&theirs.len()),
        }
    }
}

impl PartialOrd for HostPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// For people: escaped where it would otherwise deceive.
impl fmt::Display for HostPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(self.as_os_str()))
    }
}

impl fmt::Debug for HostPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostPath({:?})", self.0)
    }
}

/// For reports: text, with what is no text escaped. Not for reading back.
impl Serialize for HostPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// `text` on one line, bounded: escaped if anything in it is no text, or would deceive on a
/// terminal.
pub(crate) fn shown(text: &OsStr) -> String {
    let plain = text.to_str().filter(|text| !text.chars().any(deceives));
    let whole = plain.map_or_else(
        || text.as_encoded_bytes().escape_ascii().to_string(),
        str::to_owned,
    );
    whole.chars().take(200).collect()
}

/// Control characters, and those that change the direction of the text around them.
fn deceives(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_absolute_and_normalised_or_refused() {
        for (text, want) in [
            ("/", Ok("/")),
            ("/a/b", Ok("/a/b")),
            ("//a///b/", Ok("/a/b")),
            ("/a/./b", Ok("/a/b")),
            ("/-rf", Ok("/-rf")),
            ("/a b\n\"(x)", Ok("/a b\n\"(x)")),
            ("", Err(PathProblem::Empty)),
            ("a/b", Err(PathProblem::Relative("a/b".to_owned()))),
            ("~/a", Err(PathProblem::Relative("~/a".to_owned()))),
            ("/a/../b", Err(PathProblem::Climbs("/a/../b".to_owned()))),
            ("/a\0b", Err(PathProblem::Nul)),
        ] {
            let got = HostPath::new(text);
            let want = want.map(|path| HostPath::of(Path::new(path)));
            assert_eq!(got, want, "{text:?}");
        }
        let long = format!("/{}", "a".repeat(PATH_BYTES));
        assert_eq!(HostPath::new(long), Err(PathProblem::TooLong));
    }

    #[test]
    fn holding_goes_by_whole_components() {
        for (outer, inner, want) in [
            ("/", "/a", true),
            ("/a", "/a", true),
            ("/a", "/a/b", true),
            ("/a", "/ab", false),
            ("/a/b", "/a", false),
        ] {
            let held = HostPath::new(outer)
                .unwrap()
                .holds(&HostPath::new(inner).unwrap());
            assert_eq!(held, want, "{outer} {inner}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn names_that_are_not_utf_8_are_kept_as_they_are() {
        use std::os::unix::ffi::OsStrExt;
        let name = OsStr::from_bytes(b"/w/\xff\xfe");
        let path = HostPath::new(name).unwrap();
        assert_eq!(path.as_os_str(), name);
        assert_eq!(path.to_string(), r"/w/\xff\xfe");
        let turned = HostPath::new("/w/\u{202e}txt.exe").unwrap();
        assert_eq!(turned.to_string(), r"/w/\xe2\x80\xaetxt.exe");
    }

    proptest! {
        #[test]
        fn a_path_reads_back_as_itself(text in "[a./\\\\ \n-]{0,24}") {
            if let Ok(path) = HostPath::new(&text) {
                prop_assert_eq!(HostPath::new(path.as_os_str()), Ok(path.clone()));
                prop_assert!(!path.to_string().contains('\n'));
            }
        }

        #[test]
        fn bytes_compare_as_components_do(one in "(/[a!/.0-]{0,3}){1,4}", other in "(/[a!/.0-]{0,3}){1,4}") {
            if let (Ok(one), Ok(other)) = (HostPath::new(one), HostPath::new(other)) {
                let (left, right) = (one.as_path(), other.as_path());
                prop_assert_eq!(one.cmp(&other), left.cmp(right));
                prop_assert_eq!(one == other, left == right);
                prop_assert_eq!(one.holds(&other), right.starts_with(left));
                prop_assert_eq!(one.is_root(), left.parent().is_none());
            }
        }
    }
}

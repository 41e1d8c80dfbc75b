//! What a sandbox must not reach although a grant holds it: exact paths and patterns.
//!
//! A denial covers what it names and everything beneath. A pattern is made of whole components:
//! `**` stands for any number of them, `*` and `?` for characters of one name, hidden ones
//! included. Brackets, braces, backslashes and `!` are refused rather than read literally: a
//! denial that silently matches nothing protects nothing. An exact path may have any characters.
//!
//! Judging is lexical. Whoever enforces a denial judges the path of the file really opened, so
//! that symlinks and renames lead nowhere; hard links that existed before are out of reach.

use super::path::{HostPath, shown};
use airlock_core::limits::PATH_BYTES;
use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::fmt;

/// Why text is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternProblem {
    /// Nothing there.
    #[error("the pattern is empty")]
    Empty,
    /// Neither `/...`, `~/...` nor `**/...`.
    #[error("`{0}` is anchored nowhere")]
    Unanchored(String),
    /// `~/...` where no home directory is known.
    #[error("`{0}` means a home directory, and none is known")]
    NoHome(String),
    /// `.` or `..`.
    #[error("`{0}` contains `.` or `..`")]
    Dots(String),
    /// `a**`: not a whole component.
    #[error("`{0}` has `**` inside a name")]
    Stars(String),
    /// A character other tools give a meaning.
    #[error("`{text}` contains `{character}`, which patterns do not have")]
    Character {
        /// The pattern.
        text: String,
        /// The character.
        character: char,
    },
    /// A NUL byte can never be part of a file name.
    #[error("the pattern contains a NUL byte")]
    Nul,
    /// Over the limit for paths.
    #[error("the pattern is longer than {PATH_BYTES} bytes")]
    TooLong,
}

impl PatternProblem {
    /// How to mend it.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Empty | Self::Unanchored(_) => "begin with `/`, `~/` or `**/`",
            Self::NoHome(_) => "write the whole path, from `/` on",
            Self::Dots(_) => "write the path without `.` and `..`",
            Self::Stars(_) => "write `**` as a whole component, as in `a/**/b`",
            Self::Character { .. } => {
                "write one pattern for each alternative, or deny the exact path"
            }
            Self::Nul => "remove the NUL byte",
            Self::TooLong => "deny a directory further up",
        }
    }
}

/// What a denial takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Extent {
    /// Writing, creating, renaming and deleting; reading stays.
    Writing,
    /// Everything.
    Everything,
}

/// Where a denial lies.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// A path, and what is beneath it.
    Path(HostPath),
    /// Every path that matches, and what is beneath it.
    Pattern(Pattern),
}

impl Target {
    /// Whether `path` is denied.
    pub fn covers(&self, path: &HostPath) -> bool {
        match self {
            Self::Path(denied) => denied.holds(path),
            Self::Pattern(pattern) => pattern.covers(path),
        }
    }

    /// Whether any path could be denied that is made of `names`.
    pub(super) fn may_cover(&self, names: &HashSet<&[u8]>) -> bool {
        match self {
            Self::Path(denied) => denied.name_bytes().all(|name| names.contains(name)),
            Self::Pattern(pattern) => pattern.may_cover(names),
        }
    }

    /// The targets that mean in `to` what this one means in `from`.
    pub(crate) fn moved(&self, from: &HostPath, to: &HostPath) -> Vec<Self> {
        match self {
            Self::Path(path) => path.moved(from, to).map(Self::Path).into_iter().collect(),
            Self::Pattern(pattern) => pattern
                .moved(from, to)
                .into_iter()
                .map(Self::Pattern)
                .collect(),
        }
    }

    /// Words that are of no other target, however long.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Path(path) => format!("path {}", plain(path.as_os_str())),
            Self::Pattern(pattern) => format!("pattern {}", pattern.words()),
        }
    }

    /// The deepest directory certain to hold everything denied.
    pub(crate) fn root(&self) -> HostPath {
        match self {
            Self::Path(path) => path.clone(),
            Self::Pattern(pattern) => pattern.root(),
        }
    }
}

/// One denial.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Denial {
    /// Where.
    pub target: Target,
    /// What.
    pub extent: Extent,
}

/// A name with wildcards, or any number of names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Part {
    /// `**`.
    Any,
    /// One name.
    Name(Vec<Piece>),
}

/// A piece of a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Piece {
    /// These bytes.
    Literal(OsString),
    /// `*`: any characters.
    Star,
    /// `?`: one byte.
    One,
}

/// A pattern of paths, anchored at `/`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pattern {
    parts: Vec<Part>,
}

impl Pattern {
    /// Reads a pattern; `~/` is beneath `home`.
    pub fn new(text: &str, home: Option<&HostPath>) -> Result<Self, PatternProblem> {
        check_text(text)?;
        let shown = || shown(OsStr::new(text));
        let (mut parts, below) = if let Some(below) = text.strip_prefix("~/") {
            let home = home.ok_or_else(|| PatternProblem::NoHome(shown()))?;
            (literal_names(home), below)
        } else if let Some(below) = text.strip_prefix('/') {
            (Vec::new(), below)
        } else if text.starts_with("**/") {
            (Vec::new(), text)
        } else {
            return Err(PatternProblem::Unanchored(shown()));
        };
        for name in below.split('/').filter(|name| !name.is_empty()) {
            parts.push(part(name).ok_or_else(|| match name {
                "." | ".." => PatternProblem::Dots(shown()),
                _ => PatternProblem::Stars(shown()),
            })?);
        }
        Ok(Self { parts })
    }

    /// Whether `path`, or a directory above it, matches.
    ///
    /// Each `**` remembers only its last try, so this costs at most parts times names.
    pub fn covers(&self, path: &HostPath) -> bool {
        let (mut part, mut names) = (0, path.name_bytes());
        // Where to go on, and with which names, should what follows the last `**` not match.
        let mut retry = None;
        loop {
            match self.parts.get(part) {
                None => return true,
                Some(Part::Any) => {
                    part += 1;
                    retry = Some((part, names.clone()));
                    continue;
                }
                Some(Part::Name(pieces)) => {
                    if names.next().is_some_and(|name| name_matches(pieces, name)) {
                        part += 1;
                        continue;
                    }
                }
            }
            let Some((after, from)) = &mut retry else {
                return false;
            };
            if from.next().is_none() {
                return false;
            }
            (part, names) = (*after, from.clone());
        }
    }

    /// What it covers has a name for each of its own.
    fn may_cover(&self, names: &HashSet<&[u8]>) -> bool {
        self.parts.iter().all(|part| match part {
            Part::Any => true,
            Part::Name(pieces) => match pieces.as_slice() {
                [Piece::Literal(name)] => names.contains(name.as_encoded_bytes()),
                pieces => names.iter().any(|name| name_matches(pieces, name)),
            },
        })
    }

    /// The patterns that say of `to` what this one says of `from` and what lies in it.
    pub(crate) fn moved(&self, from: &HostPath, to: &HostPath) -> Vec<Self> {
        let mut places = self.reached(BTreeSet::from([0]));
        for name in from.name_bytes() {
            let next = places
                .iter()
                .filter_map(|place| match self.parts.get(*place)? {
                    Part::Any => Some(*place),
                    Part::Name(pieces) => name_matches(pieces, name).then_some(place + 1),
                });
            places = self.reached(next.collect());
        }
        let rests = places.iter().filter_map(|place| self.parts.get(*place..));
        let front = literal_names(to);
        rests
            .map(|rest| Self {
                parts: [&front, rest].concat(),
            })
            .collect()
    }

    /// Whether it begins with `**`, and so is of no place in particular.
    pub(crate) fn floats(&self) -> bool {
        self.parts.first() == Some(&Part::Any)
    }

    /// The places with those after each `**`, which may stand for no name at all.
    fn reached(&self, mut places: BTreeSet<usize>) -> BTreeSet<usize> {
        for (place, part) in self.parts.iter().enumerate() {
            if *part == Part::Any && places.contains(&place) {
                places.insert(place + 1);
            }
        }
        places
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn root(&self) -> HostPath {
        let literal = self.parts.iter().map_while(|part| match part {
            Part::Any => None,
            Part::Name(pieces) => match pieces.as_slice() {
                [Piece::Literal(name)] => Some(name),
                _ => None,
            },
        });
        literal.fold(HostPath::top(), |path, name| path.join(name))
    }
}

/// A name with nothing in it that a wildcard could be taken for.
fn plain(name: &OsStr) -> String {
    let escaped = name.as_encoded_bytes().escape_ascii().to_string();
    escaped.replace('*', "\\x2a").replace('?', "\\x3f")
}

impl Pattern {
    fn words(&self) -> String {
        let mut words = String::new();
        for part in &self.parts {
            words.push('/');
            match part {
                Part::Any => words.push_str("**"),
                Part::Name(pieces) => words.extend(pieces.iter().map(|piece| match piece {
                    Piece::Literal(text) => plain(text),
                    Piece::Star => "*".to_owned(),
                    Piece::One => "?".to_owned(),
                })),
            }
        }
        words
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            f.write_str("/")?;
            match part {
                Part::Any => f.write_str("**")?,
                Part::Name(pieces) => {
                    for piece in pieces {
                        match piece {
                            Piece::Literal(text) => f.write_str(&shown(text))?,
                            Piece::Star => f.write_str("*")?,
                            Piece::One => f.write_str("?")?,
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.fmt(f),
            Self::Pattern(pattern) => pattern.fmt(f),
        }
    }
}

fn literal_names(path: &HostPath) -> Vec<Part> {
    let name = |name: &OsStr| Part::Name(vec![Piece::Literal(name.to_owned())]);
    path.names().map(name).collect()
}

fn check_text(text: &str) -> Result<(), PatternProblem> {
    if text.is_empty() {
        return Err(PatternProblem::Empty);
    }
    if text.contains('\0') {
        return Err(PatternProblem::Nul);
    }
    if text.len() > PATH_BYTES {
        return Err(PatternProblem::TooLong);
    }
    let foreign = text
        .chars()
        .find(|character| "[]{}\\!".contains(*character));
    foreign.map_or(Ok(()), |character| {
        Err(PatternProblem::Character {
            text: shown(OsStr::new(text)),
            character,
        })
    })
}

/// Reads one component; none for `.`, `..` and `**` within a name.
fn part(name: &str) -> Option<Part> {
    if name == "**" {
        return Some(Part::Any);
    }
    if matches!(name, "." | "..") || name.contains("**") {
        return None;
    }
    let mut pieces = Vec::new();
    let mut literal = String::new();
    for character in name.chars() {
        let wild = match character {
            '*' => Piece::Star,
            '?' => Piece::One,
            _ => {
                literal.push(character);
                continue;
            }
        };
        if !literal.is_empty() {
            pieces.push(Piece::Literal(std::mem::take(&mut literal).into()));
        }
        pieces.push(wild);
    }
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal.into()));
    }
    Some(Part::Name(pieces))
}

/// Whether `name` is made of `pieces`. As with `**`, only the last `*` is tried again.
fn name_matches(pieces: &[Piece], name: &[u8]) -> bool {
    let (mut piece, mut at) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let rest = name.get(at..).unwrap_or_default();
        let matched = match pieces.get(piece) {
            None => {
                if rest.is_empty() {
                    return true;
                }
                None
            }
            Some(Piece::Star) => {
                retry = Some((piece + 1, at));
                Some(0)
            }
            Some(Piece::One) => (!rest.is_empty()).then_some(1),
            Some(Piece::Literal(text)) => {
                let text = text.as_encoded_bytes();
                rest.starts_with(text).then_some(text.len())
            }
        };
        if let Some(length) = matched {
            piece += 1;
            at += length;
            continue;
        }
        match &mut retry {
            Some((after, from)) if *from < name.len() => {
                *from += 1;
                (piece, at) = (*after, *from);
            }
            Some(_) | None => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn covers(pattern: &str, path: &str) -> bool {
        let home = HostPath::new("/home/u").unwrap();
        let pattern = Pattern::new(pattern, Some(&home)).unwrap();
        pattern.covers(&HostPath::new(path).unwrap())
    }

    #[test]
    fn a_pattern_covers_what_matches_and_all_beneath() {
        for (pattern, path, want) in [
            ("**/.env", "/w/.env", true),
            ("**/.env", "/.env", true),
            ("**/.env", "/w/a/b/.env", true),
            ("**/.env", "/w/.env/x", true),
            ("**/.env", "/w/.envrc", false),
            ("**/.env", "/w/x.env", false),
            ("**/.env*", "/w/.env.local", true),
            ("**/*.pem", "/w/k/a.pem", true),
            ("**/*.pem", "/w/.pem", true),
            ("**/*.pem", "/w/a.pem.txt", false),
            ("~/.ssh/**", "/home/u/.ssh/id", true),
            ("~/.ssh/**", "/home/u/.ssh", true),
            ("~/.ssh/**", "/home/u/.sshx", false),
            ("~/.ssh/**", "/home/v/.ssh/id", false),
            ("/a/*/c", "/a/b/c/d", true),
            ("/a/*/c", "/a/b/b/c", false),
            ("/a/**/c", "/a/c", true),
            ("/a/**/c/d", "/a/c/x/c/d", true),
            ("/a/?", "/a/b", true),
            ("/a/?", "/a/bc", false),
            ("/a/*a*b*c", "/a/xaxbxbxc", true),
            ("/a/*a*b*c", "/a/xaxbxbx", false),
            ("**/a\nb", "/w/a\nb", true),
        ] {
            assert_eq!(covers(pattern, path), want, "{pattern} {path}");
        }
    }

    #[test]
    fn what_could_be_misread_is_refused() {
        for text in [
            "",
            ".env",
            "a/b",
            "~u/x",
            "~/x",
            "/a/../b",
            "**/.",
            "/a**",
            "/***",
            "**/*.{a,b}",
            "**/[ab]",
            "**/a\\*",
            "!/a",
            "/a\0",
        ] {
            assert!(Pattern::new(text, None).is_err(), "{text:?}");
        }
    }

    #[test]
    fn many_stars_cost_no_more_than_their_product() {
        let stars = "*a".repeat(200);
        let name = "a".repeat(199);
        assert!(!covers(&format!("/{stars}"), &format!("/{name}")));
        let parts = "**/a/".repeat(200);
        let path = "/a".repeat(199);
        assert!(!covers(&format!("/{parts}b"), &path));
    }

    proptest! {
        #[test]
        fn a_moved_pattern_denies_there_what_it_denies_here(
            pattern in "(/|\\*\\*/)([ab*?]{1,2}/|\\*\\*/){0,3}[ab]{1,2}",
            from in "(/[ab]{1,2}){1,2}", below in "(/[ab]{1,2}){0,3}",
        ) {
            if let Ok(pattern) = Pattern::new(&pattern, None) {
                let (from_path, to) = (HostPath::new(&from).unwrap(), HostPath::new("/s/t").unwrap());
                let here = HostPath::new(format!("{from}{below}")).unwrap();
                let there = HostPath::new(format!("/s/t{below}")).unwrap();
                let moved = pattern.moved(&from_path, &to);
                // What denies a directory above `from` denies all of it, and no plan grants that.
                if !pattern.covers(&from_path) {
                    let denied = moved.iter().any(|pattern| pattern.covers(&there));
                    prop_assert_eq!(denied, pattern.covers(&here));
                }
            }
        }

        #[test]
        fn what_covers_a_path_may_cover_one_of_its_names(
            pattern in "(/|\\*\\*/)([ab*?]{1,3}/){0,2}[ab]{1,2}",
            paths in proptest::collection::vec("(/[ab]{1,2}){1,4}", 1..4),
        ) {
            if let Ok(pattern) = Pattern::new(&pattern, None) {
                let paths: Vec<_> = paths.into_iter().map(|path| HostPath::new(path).unwrap()).collect();
                let names: HashSet<&[u8]> = paths.iter().flat_map(HostPath::name_bytes).collect();
                let covered = paths.iter().any(|path| pattern.covers(path));
                prop_assert!(!covered || Target::Pattern(pattern).may_cover(&names));
                let denied = Target::Path(paths[0].clone());
                prop_assert!(denied.may_cover(&names));
            }
        }

        #[test]
        fn beneath_the_denied_all_is_denied(
            pattern in "(/|\\*\\*/)([ab*?]{1,3}/){0,2}[ab]{1,2}", path in "(/[ab]{1,2}){1,5}",
        ) {
            if let Ok(pattern) = Pattern::new(&pattern, None) {
                let path = HostPath::new(path).unwrap();
                if pattern.covers(&path) {
                    prop_assert!(pattern.covers(&path.join(OsStr::new("x"))));
                    prop_assert!(pattern.root().holds(&path));
                }
            }
        }
    }
}

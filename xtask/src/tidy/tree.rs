//! The repository as the rules see it, and what they find.

use super::source::Rust;
use std::fmt;

/// One broken rule: where, what, and how to mend it. Ordered by place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Finding {
    path: String,
    line: usize,
    what: String,
    fix: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {} ({})",
            self.path, self.line, self.what, self.fix
        )
    }
}

/// One file of the repository.
#[derive(Debug)]
pub(super) struct File {
    /// Relative to the root, with `/`.
    pub(super) path: String,
    /// Empty when the file is not UTF-8.
    pub(super) text: String,
    /// What the lexer made of a Rust file.
    pub(super) rust: Option<Rust>,
}

impl File {
    pub(super) fn finding(
        &self,
        line: usize,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> Finding {
        Finding {
            path: self.path.clone(),
            line,
            what: what.into(),
            fix: fix.into(),
        }
    }

    pub(super) fn has_extension(&self, extension: &str) -> bool {
        self.path
            .rsplit_once('.')
            .is_some_and(|(_, found)| found == extension)
    }

    /// Lines with their numbers, counted from 1, without a Rust file's tests at its end.
    pub(super) fn shipped_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let tests = self.tests_from();
        numbered(&self.text).take_while(move |(line, _)| *line < tests)
    }

    /// The line from which everything is test code.
    pub(super) fn tests_from(&self) -> usize {
        let whole = self
            .path
            .split('/')
            .any(|part| matches!(part, "tests" | "tests.rs"));
        match &self.rust {
            Some(_) if whole => 1,
            Some(rust) => rust.tests_from,
            None => usize::MAX,
        }
    }
}

/// Lines of `text`, counted from 1.
pub(super) fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line))
}

/// All files.
#[derive(Debug)]
pub(super) struct Tree {
    /// Where this copy of the repository lies: must not appear in any file.
    pub(super) place: String,
    pub(super) files: Vec<File>,
}

impl Tree {
    pub(super) fn new(place: &str) -> Self {
        Self {
            place: place.to_owned(),
            files: Vec::new(),
        }
    }

    /// Adds a file; `None` stands for text that is not UTF-8.
    pub(super) fn add(&mut self, path: &str, text: Option<String>) {
        let mut file = File {
            path: path.to_owned(),
            text: text.unwrap_or_default(),
            rust: None,
        };
        file.rust = file.has_extension("rs").then(|| Rust::read(&file.text));
        self.files.push(file);
    }

    pub(super) fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether `path` is a file, or a directory with files in it.
    pub(super) fn exists(&self, path: &str) -> bool {
        let inside = format!("{}/", path.trim_end_matches('/'));
        path.is_empty()
            || self
                .files
                .iter()
                .any(|file| file.path == path || file.path.starts_with(&inside))
    }

    pub(super) fn with_extension(&self, extension: &str) -> impl Iterator<Item = &File> {
        self.files
            .iter()
            .filter(move |file| file.has_extension(extension))
    }

    /// Manifests of packages: every `Cargo.toml` but the workspace's own.
    pub(super) fn manifests(&self) -> impl Iterator<Item = &File> {
        self.files
            .iter()
            .filter(|file| file.path.ends_with("/Cargo.toml"))
    }
}

/// A file that is not there cannot be cited by a [`File`].
pub(super) fn missing(path: &str, fix: &str) -> Finding {
    Finding {
        path: path.to_owned(),
        line: 1,
        what: "missing".to_owned(),
        fix: fix.to_owned(),
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::{Finding, Tree};

    /// A tree of the given files.
    pub(in crate::tidy) fn tree(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::new("/srv/checkouts/airlock");
        for (path, text) in files {
            tree.add(path, Some((*text).to_owned()));
        }
        tree
    }

    /// Checks that `rule` finds in `files` exactly one problem for each of `want`, in order, each
    /// beginning with that text.
    pub(in crate::tidy) fn assert_finds(
        rule: fn(&Tree) -> Vec<Finding>,
        files: &[(&str, &str)],
        want: &[&str],
    ) {
        let mut findings = rule(&tree(files));
        findings.sort();
        let found: Vec<String> = findings.iter().map(ToString::to_string).collect();
        let agree = found.len() == want.len()
            && found
                .iter()
                .zip(want)
                .all(|(found, want)| found.starts_with(want));
        assert!(agree, "found {found:#?}\nwanted {want:#?}");
    }
}

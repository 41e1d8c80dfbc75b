//! Which files a search does not bother with: `.ignore`, `.gitignore`, `.git/info/exclude`, and
//! hidden names.
//!
//! Follows ripgrep: any `.ignore` on the way up beats any `.gitignore`, the nearest match wins,
//! git's files count up to the repository they are in, and a name that is un-ignored is shown even
//! if hidden. Unlike ripgrep, `.gitignore` also counts where there is no repository, and nothing
//! above the workspace root is read. No security rests on this.

use crate::beneath::{Kind, Listing, Root};
use airlock_core::WorkspacePath;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::collections::HashMap;
use std::io::Read as _;
use std::sync::Arc;

/// What is read of an ignore file: a hostile one must not cost more than a search is worth.
const IGNORE_FILE_BYTES: u64 = 256 * 1024;

/// The ignore files of one directory, and those above it.
pub(in crate::tools) struct Ignores {
    above: Option<Arc<Ignores>>,
    /// Bytes of a workspace path up to this directory's entries.
    base: usize,
    dot_ignore: Gitignore,
    git_ignore: Gitignore,
    git_exclude: Gitignore,
    repository: bool,
}

/// Whether ignore files leave out `path`, whose last component is `name`.
pub(in crate::tools) fn skips(
    ignores: Option<&Arc<Ignores>>,
    path: &str,
    name: &[u8],
    is_directory: bool,
) -> bool {
    match ignores.map(|ignores| ignores.verdict(path, is_directory)) {
        Some(Verdict::Ignored) => true,
        Some(Verdict::Wanted) => false,
        Some(Verdict::Unmentioned) | None => name.starts_with(b"."),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Ignored,
    Wanted,
    Unmentioned,
}

impl Verdict {
    fn of(gitignore: &Gitignore, path: &str, is_directory: bool) -> Self {
        match gitignore.matched(path, is_directory) {
            Match::None => Self::Unmentioned,
            Match::Ignore(_) => Self::Ignored,
            Match::Whitelist(_) => Self::Wanted,
        }
    }

    fn or(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Unmentioned => other(),
            Self::Ignored | Self::Wanted => self,
        }
    }
}

impl Ignores {
    /// The ignore files of the directories above `start`, the root first.
    pub(in crate::tools) fn above(root: &Root, start: &WorkspacePath) -> Option<Arc<Self>> {
        let mut ignores = None;
        let mut directory = WorkspacePath::root();
        let mut listing = Listing::default();
        for component in start.components() {
            let listed = root
                .open_directory(directory.as_str())
                .and_then(|opened| opened.list(&mut listing));
            if listed.is_ok() {
                ignores = Self::within(ignores, root, directory.as_str(), &listing);
            }
            directory = directory.join(component).ok()?;
        }
        ignores
    }

    /// The ignore files that hold in `directory`: its own and those above.
    pub(in crate::tools) fn within(
        above: Option<Arc<Self>>,
        root: &Root,
        directory: &str,
        listing: &Listing,
    ) -> Option<Arc<Self>> {
        let (mut dot_ignore, mut git_ignore, mut repository) = (false, false, false);
        for (name, kind) in listing.iter() {
            match name {
                b".ignore" => dot_ignore = kind == Kind::File,
                b".gitignore" => git_ignore = kind == Kind::File,
                b".git" => repository = true,
                _ => {}
            }
        }
        if !dot_ignore && !git_ignore && !repository {
            return above;
        }
        let load = |wanted: bool, name: &str| {
            if wanted {
                load(root, directory, name)
            } else {
                Gitignore::empty()
            }
        };
        Some(Arc::new(Self {
            above,
            base: if directory == "." {
                0
            } else {
                directory.len() + 1
            },
            dot_ignore: load(dot_ignore, ".ignore"),
            git_ignore: load(git_ignore, ".gitignore"),
            git_exclude: load(repository, ".git/info/exclude"),
            repository,
        }))
    }

    fn verdict(&self, path: &str, is_directory: bool) -> Verdict {
        let mut by_ignore = Verdict::Unmentioned;
        let mut by_git = Verdict::Unmentioned;
        let mut by_exclude = Verdict::Unmentioned;
        let mut beyond_repository = false;
        let mut next = Some(self);
        while let Some(here) = next {
            let relative = path.get(here.base..).unwrap_or(path);
            by_ignore = by_ignore.or(|| Verdict::of(&here.dot_ignore, relative, is_directory));
            if !beyond_repository {
                by_git = by_git.or(|| Verdict::of(&here.git_ignore, relative, is_directory));
                by_exclude =
                    by_exclude.or(|| Verdict::of(&here.git_exclude, relative, is_directory));
            }
            beyond_repository |= here.repository;
            next = here.above.as_deref();
        }
        by_ignore.or(|| by_git).or(|| by_exclude)
    }
}

/// Which paths git ignores, by the ignore files of one tree and nothing outside it.
///
/// Non-guarantee: git also leaves nothing out that it tracks; what it tracks is not looked at.
pub(crate) struct GitIgnored<'a> {
    root: &'a Root,
    known: HashMap<String, Option<Arc<Ignores>>>,
}

impl<'a> GitIgnored<'a> {
    /// Nothing is read yet.
    pub(crate) fn new(root: &'a Root) -> Self {
        Self {
            root,
            known: HashMap::new(),
        }
    }

    /// Whether git ignores `path`, or a directory above it. What is git's own it never ignores,
    /// whatever the patterns say.
    pub(crate) fn holds(&mut self, path: &WorkspacePath, is_directory: bool) -> bool {
        let text = path.as_str();
        if text.split('/').any(|name| name == ".git") {
            return false;
        }
        let mut directory = ".";
        for (end, _) in text.match_indices('/').chain([(text.len(), "")]) {
            let Some(here) = text.get(..end) else {
                return false;
            };
            let ignores = self.within(directory);
            let inner = end < text.len() || is_directory;
            let verdict = ignores.map(|ignores| ignores.verdict(here, inner));
            if verdict == Some(Verdict::Ignored) {
                return true;
            }
            directory = here;
        }
        false
    }

    /// The ignore files that hold in `directory`; those above it are known already.
    fn within(&mut self, directory: &str) -> Option<Arc<Ignores>> {
        if let Some(known) = self.known.get(directory) {
            return known.clone();
        }
        let above = match directory.rsplit_once('/') {
            _ if directory == "." => None,
            Some((above, _)) => self.within(above),
            None => self.within("."),
        };
        let git = format!("{directory}/.git");
        let repository =
            self.root.open_directory(&git).is_ok() || self.root.open_file(&git).is_ok();
        let git_ignore = load(self.root, directory, ".gitignore");
        let found = if repository || !git_ignore.is_empty() {
            Some(Arc::new(Ignores {
                above,
                base: if directory == "." {
                    0
                } else {
                    directory.len() + 1
                },
                dot_ignore: Gitignore::empty(),
                git_ignore,
                git_exclude: if repository {
                    load(self.root, directory, ".git/info/exclude")
                } else {
                    Gitignore::empty()
                },
                repository,
            }))
        } else {
            above
        };
        self.known.insert(directory.to_owned(), found.clone());
        found
    }
}

/// Reads one ignore file; what cannot be read or understood ignores nothing.
fn load(root: &Root, directory: &str, name: &str) -> Gitignore {
    let path = format!("{directory}/{name}");
    let Ok(file) = root.open_file(&path) else {
        return Gitignore::empty();
    };
    let mut bytes = Vec::new();
    if file
        .take(IGNORE_FILE_BYTES)
        .read_to_end(&mut bytes)
        .is_err()
    {
        return Gitignore::empty();
    }
    if bytes.len() as u64 == IGNORE_FILE_BYTES {
        // The last line may be half a pattern, which could match far more than the whole.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        bytes.truncate(whole);
    }
    let text = String::from_utf8_lossy(&bytes);
    // The paths asked about are made relative by the caller, so the matcher needs no directory.
    let mut builder = GitignoreBuilder::new(".");
    for line in text.trim_start_matches('\u{feff}').lines() {
        // A line that is no pattern is skipped, as git does.
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

//! A file system seen from a root of its own, so that every distribution can be tried anywhere.

use super::secret::file_holds_secret;
use crate::looked;
use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Links followed in one path; the kernel's own bound.
const LINKS: usize = 40;
/// Names read of one directory.
const NAMES: usize = 4096;

/// What lies at a path, links not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    Link(OsString),
    /// A file, or anything else that is no directory.
    File,
}

/// A file system beneath a directory, each part of it looked at once.
pub(super) struct Tree {
    root: PathBuf,
    known: RefCell<HashMap<PathBuf, Option<Kind>>>,
    /// The names in `/etc`, where most that is looked for is not there.
    settings: OnceCell<Option<HashSet<OsString>>>,
}

/// The directory that most of the tables is about.
const SETTINGS: &str = "/etc";

impl Tree {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            known: RefCell::default(),
            settings: OnceCell::new(),
        }
    }

    fn on_host(&self, path: &Path) -> PathBuf {
        let names = path.components().filter(|part| *part != Component::RootDir);
        self.root.join(names.collect::<PathBuf>())
    }

    /// What is at `path`, whose directories must not be links.
    pub(super) fn kind(&self, path: &Path) -> Option<Kind> {
        if path.parent() == Some(Path::new(SETTINGS)) && !self.is_setting(path) {
            return None;
        }
        if let Some(kind) = self.known.borrow().get(path) {
            return kind.clone();
        }
        let kind = self.look(path);
        self.known
            .borrow_mut()
            .insert(path.to_owned(), kind.clone());
        kind
    }

    /// Whether `/etc`, if it can be listed, lists `path`.
    fn is_setting(&self, path: &Path) -> bool {
        let names = self.settings.get_or_init(|| {
            let entries = looked::read_dir(&self.on_host(Path::new(SETTINGS))).ok()?;
            entries.map(|entry| Some(entry.ok()?.file_name())).collect()
        });
        let name = path.file_name().unwrap_or_default();
        names.as_ref().is_none_or(|names| names.contains(name))
    }

    fn look(&self, path: &Path) -> Option<Kind> {
        let host = self.on_host(path);
        let kind = looked::there(&host).ok()?.file_type();
        if kind.is_symlink() {
            Some(Kind::Link(fs::read_link(&host).ok()?.into_os_string()))
        } else if kind.is_dir() {
            Some(Kind::Directory)
        } else {
            Some(Kind::File)
        }
    }

    /// Where `path` leads when every link is followed as from this root; none if nowhere.
    pub(super) fn resolve(&self, path: &Path) -> Option<PathBuf> {
        let mut left: VecDeque<OsString> = parts(path);
        let mut done = PathBuf::from("/");
        let mut links = 0;
        while let Some(name) = left.pop_front() {
            if name == ".." {
                done.pop();
                continue;
            }
            let next = done.join(&name);
            match self.kind(&next)? {
                Kind::Link(target) => {
                    links += 1;
                    if links > LINKS {
                        return None;
                    }
                    let target = Path::new(&target);
                    if target.is_absolute() {
                        done = PathBuf::from("/");
                    }
                    for part in parts(target).into_iter().rev() {
                        left.push_front(part);
                    }
                }
                Kind::Directory | Kind::File => done = next,
            }
        }
        Some(done)
    }

    /// The paths that are there and match `path`, whose last name may have one `*`.
    pub(super) fn matching(&self, path: &Path) -> Vec<PathBuf> {
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Vec::new();
        };
        let star = name.to_str().and_then(|name| name.split_once('*'));
        let Some((before, after)) = star else {
            return self
                .resolve(path)
                .map(|_| path.to_owned())
                .into_iter()
                .collect();
        };
        let Some(real) = self.resolve(directory) else {
            return Vec::new();
        };
        let Ok(entries) = looked::read_dir(&self.on_host(&real)) else {
            return Vec::new();
        };
        let fits = |name: &OsStr| {
            let bytes = name.as_encoded_bytes();
            bytes.len() >= before.len() + after.len()
                && bytes.starts_with(before.as_bytes())
                && bytes.ends_with(after.as_bytes())
        };
        entries
            .take(NAMES)
            .filter_map(|entry| Some(entry.ok()?.file_name()))
            .filter(|name| fits(name))
            .map(|name| directory.join(name))
            .collect()
    }

    /// Whether the file at `path` mentions a secret, or cannot be read to find out.
    pub(super) fn holds_secret(&self, path: &Path) -> bool {
        self.resolve(path)
            .is_some_and(|real| file_holds_secret(&self.on_host(&real)))
    }
}

fn parts(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
        })
        .collect()
}

//! The one way to a grant: everything a detector wants is judged here, by its name and by where the
//! name really leads.

use super::credentials::{CREDENTIALS, NAMES};
use super::{Content, Facts, Found, HomeEntry, Preset};
use crate::looked;
use crate::plan::{HostPath, Plan};
use crate::template::{Reach, TEMPLATES};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// Entries read of one directory.
const ENTRIES: usize = 4096;
/// The most that is read of a file.
const FILE_BYTES: u64 = 64 << 10;

/// Directories every sandbox sees anyway.
const SYSTEM: [&str; 11] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix/store",
    "/gnu/store",
];

/// Collects a preset.
pub(super) struct Gate<'a> {
    facts: Facts<'a>,
    /// The home under each of its names.
    homes: Vec<HostPath>,
    workspaces: Vec<HostPath>,
    preset: Preset,
}

impl<'a> Gate<'a> {
    pub(super) fn new(facts: Facts<'a>) -> Self {
        let home = facts.surroundings.home.as_ref();
        Self {
            facts,
            homes: home.map(names_of).unwrap_or_default(),
            workspaces: names_of(facts.workspace),
            preset: Preset {
                name: "",
                found: Vec::new(),
                reads: Vec::new(),
                search: Vec::new(),
                environment: Vec::new(),
                home: Vec::new(),
                notes: Vec::new(),
            },
        }
    }

    pub(super) fn finish(mut self, name: &'static str) -> Preset {
        self.preset.name = name;
        self.preset.reads.sort();
        self.preset.reads.dedup();
        // What lies in a granted directory needs no grant of its own.
        let all = self.preset.reads.clone();
        self.preset
            .reads
            .retain(|path| !all.iter().any(|outer| outer != path && outer.holds(path)));
        self.preset
    }

    pub(super) fn workspace(&self) -> &HostPath {
        self.facts.workspace
    }

    pub(super) fn offline(&self) -> bool {
        self.facts.network == Reach::None
    }

    /// `relative` in the person's home.
    pub(super) fn at_home(&self, relative: &str) -> Option<HostPath> {
        let home = self.facts.surroundings.home.as_ref()?;
        Some(home.join(OsStr::new(relative)))
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.preset.notes.contains(&text) {
            self.preset.notes.push(text);
        }
    }

    pub(super) fn found(&mut self, what: &'static str, path: &HostPath, how: &'static str) {
        self.preset.found.push(Found {
            what,
            path: path.clone(),
            how,
        });
    }

    /// Sets a variable inside.
    pub(super) fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        let value = value.as_ref().to_owned();
        self.preset.environment.push((OsString::from(name), value));
    }

    /// Puts something into the home inside.
    pub(super) fn put(&mut self, at: impl Into<PathBuf>, content: Content) {
        let at = at.into();
        self.preset.home.push(HomeEntry { at, content });
    }

    /// Looks for programs in `path`, which must be visible inside.
    pub(super) fn search(&mut self, path: &HostPath) {
        if path.as_os_str().as_encoded_bytes().contains(&b':') {
            self.note(format!("`{path}` cannot be in PATH: it contains `:`"));
        } else if !self.preset.search.contains(path) {
            self.preset.search.push(path.clone());
        }
    }

    /// Looks for programs in `path` before everywhere else.
    pub(super) fn search_first(&mut self, path: &HostPath) {
        let others = std::mem::take(&mut self.preset.search);
        self.search(path);
        for other in &others {
            self.search(other);
        }
    }

    /// The directory a variable of the person names, if it is one a toolchain can be in.
    pub(super) fn variable(&mut self, name: &str) -> Option<HostPath> {
        let value = self.facts.environment.get(OsStr::new(name));
        looked::variable(name, value.map(OsString::as_os_str));
        let value = value?;
        if value.is_empty() {
            return None;
        }
        let path = match HostPath::new(value) {
            Ok(path) => path,
            Err(problem) => {
                self.note(format!("{name} is ignored: {problem}"));
                return None;
            }
        };
        let target = real(&path).unwrap_or_else(|| path.clone());
        let reason = self
            .judge_place(&path)
            .or_else(|| self.judge_place(&target));
        if let Some(reason) = reason {
            self.note(format!("{name} is ignored: `{path}` {reason}"));
            return None;
        }
        looked::is_dir(path.as_path()).then_some(path)
    }

    /// The directory a variable names, or a usual place at home; with how it was found.
    pub(super) fn directory(
        &mut self,
        variable: &'static str,
        usual: &[&str],
    ) -> Option<(HostPath, &'static str)> {
        if let Some(path) = self.variable(variable) {
            return Some((path, variable));
        }
        usual
            .iter()
            .filter_map(|relative| self.at_home(relative))
            .find(|path| looked::is_dir(path.as_path()))
            .map(|path| (path, "usual place"))
    }

    /// The directories of `PATH`, without those of the workspace: whoever writes there must not
    /// say where a toolchain is.
    pub(super) fn path_entries(&self) -> Vec<HostPath> {
        let path = self.facts.environment.get(OsStr::new("PATH"));
        looked::variable("PATH", path.map(OsString::as_os_str));
        let Some(path) = path else {
            return Vec::new();
        };
        std::env::split_paths(path)
            .filter_map(|entry| HostPath::new(entry).ok())
            .filter(|entry| !self.in_workspace(entry))
            .collect()
    }

    /// Where a program of `PATH` is, links followed.
    pub(super) fn program(&self, name: &str) -> Option<HostPath> {
        self.path_entries()
            .into_iter()
            .filter_map(|entry| real(&entry.join(OsStr::new(name))))
            .find(|program| looked::is_file(program.as_path()) && !self.in_workspace(program))
    }

    fn in_workspace(&self, path: &HostPath) -> bool {
        let leads_there = real(path).is_some_and(|real| holds(&self.workspaces, &real));
        holds(&self.workspaces, path) || leads_there
    }

    /// Grants `path`, under its name and where it really leads. False if there is nothing there
    /// or it may not be read; the latter is noted.
    pub(super) fn grant(&mut self, path: &HostPath) -> bool {
        let Some(target) = real(path) else {
            return false;
        };
        let other = (target != *path).then_some(&target);
        for name in [path].into_iter().chain(other) {
            if let Some(reason) = self.judge(name) {
                self.note(format!("`{path}` is left out: `{name}` {reason}"));
                return false;
            }
        }
        for name in [path, &target] {
            if !is_system(name) && !self.preset.reads.contains(name) {
                self.preset.reads.push(name.clone());
            }
        }
        true
    }

    /// Whether `path` is visible inside by what was granted so far.
    pub(super) fn sees(&self, path: &HostPath) -> bool {
        is_system(path) || self.in_workspace(path) || holds(&self.preset.reads, path)
    }

    /// Grants those of `pieces` of a directory that are there; whether any was.
    pub(super) fn pieces(&mut self, directory: &HostPath, pieces: &[&str]) -> bool {
        let mut any = false;
        for piece in pieces {
            any |= self.grant(&directory.join(OsStr::new(piece)));
        }
        any
    }

    /// Grants a directory as a whole, which is one mount, or `pieces` of it if there is a secret
    /// beside them.
    pub(super) fn whole_or_pieces(&mut self, directory: &HostPath, pieces: &[&str]) -> bool {
        let target = real(directory).unwrap_or_else(|| directory.clone());
        if self.judge(directory).is_some() || self.judge(&target).is_some() {
            self.pieces(directory, pieces)
        } else {
            self.grant(directory)
        }
    }

    /// Why no toolchain can be at `path`.
    fn judge_place(&self, path: &HostPath) -> Option<String> {
        if path.is_root() || self.homes.iter().any(|home| path.holds(home)) {
            return Some("is or holds the home directory".to_owned());
        }
        if self.workspaces.iter().any(|own| path.holds(own)) || self.in_workspace(path) {
            return Some("meets the workspace".to_owned());
        }
        let surroundings = self.facts.surroundings;
        let mut own = surroundings.own.iter();
        if own.any(|own| path.holds(own) || own.holds(path)) {
            return Some("is Airlock's own".to_owned());
        }
        let template = TEMPLATES.first()?;
        let plan = Plan::builder(template, surroundings).read(path.as_os_str());
        if plan.build().is_err() {
            return Some("is a protected place".to_owned());
        }
        let row = self.credentials().find(|(secret, _)| secret.holds(path));
        row.map(|(_, owner)| format!("holds secrets of {owner}"))
    }

    /// Why `path` may not be read as a whole.
    fn judge(&self, path: &HostPath) -> Option<String> {
        if let Some(reason) = self.judge_place(path) {
            return Some(reason);
        }
        let there = |path: &Path| looked::there(path).is_ok();
        let mut credentials = self.credentials();
        let row = credentials.find(|(secret, _)| path.holds(secret) && there(secret.as_path()));
        if let Some((secret, owner)) = row {
            return Some(format!("holds `{secret}`, with secrets of {owner}"));
        }
        // Listed once: asking for each name would be two dozen calls for every directory.
        let listed = match all_names_in(path) {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return None,
            listed => listed.ok(),
        };
        let listed = |name: &&&str| {
            let first = name.split('/').next().unwrap_or_default();
            let names = listed.as_ref();
            names.is_none_or(|names| names.contains(OsStr::new(first)))
        };
        let mut names = NAMES.iter().filter(listed);
        let name = names.find(|name| there(&path.as_path().join(name)));
        name.map(|name| format!("holds `{name}`"))
    }

    fn credentials(&self) -> impl Iterator<Item = (HostPath, &'static str)> {
        self.homes.iter().flat_map(|home| {
            let rows = CREDENTIALS.iter();
            rows.map(|row| (home.join(OsStr::new(row.path)), row.owner))
        })
    }
}

/// Where `path` leads when every link is followed; none if there is nothing.
pub(super) fn real(path: &HostPath) -> Option<HostPath> {
    let mut links = LINKS;
    let found = follow(path.as_path(), &mut links)?;
    HostPath::new(found).ok()
}

/// Links followed in one path; the kernel's own bound.
const LINKS: u32 = 40;

thread_local! {
    /// Where paths lead, while presets are being looked for: most have the same beginnings.
    static KNOWN: RefCell<Option<HashMap<PathBuf, Option<PathBuf>>>> = const { RefCell::new(None) };
}

/// Remembers where paths lead for as long as `work` takes.
pub(super) fn remembering<T>(work: impl FnOnce() -> T) -> T {
    KNOWN.with_borrow_mut(|known| *known = Some(HashMap::new()));
    let done = work();
    KNOWN.with_borrow_mut(|known| *known = None);
    done
}

fn follow(path: &Path, links: &mut u32) -> Option<PathBuf> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Some(PathBuf::from("/"));
    };
    let known = KNOWN.with_borrow(|known| known.as_ref()?.get(path).cloned());
    if let Some(known) = known {
        return known;
    }
    let found = follow(parent, links).and_then(|parent| step(&parent, name, links));
    KNOWN.with_borrow_mut(|known| {
        if let Some(known) = known {
            known.insert(path.to_owned(), found.clone());
        }
    });
    found
}

/// Where one name in a directory that is no link leads.
fn step(parent: &Path, name: &OsStr, links: &mut u32) -> Option<PathBuf> {
    let path = parent.join(name);
    match looked::read_link(&path) {
        Ok(target) => {
            *links = links.checked_sub(1)?;
            let mut whole = PathBuf::from("/");
            // What the target says of `..` counts from where its links really are.
            for part in parent.join(target).components() {
                match part {
                    Component::ParentDir => {
                        whole.pop();
                    }
                    Component::Normal(name) => whole = step(&whole, name, links)?,
                    Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
                }
            }
            Some(whole)
        }
        // There, and no link.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Some(path),
        Err(_) => None,
    }
}

/// Whether every sandbox sees it anyway.
pub(super) fn is_system(path: &HostPath) -> bool {
    SYSTEM.iter().any(|place| path.as_path().starts_with(place))
}

/// Every name in a directory.
fn all_names_in(directory: &HostPath) -> io::Result<HashSet<OsString>> {
    let entries = looked::read_dir(directory.as_path())?;
    entries.map(|entry| Ok(entry?.file_name())).collect()
}

/// The names in a directory, sorted, bounded.
pub(super) fn names_in(directory: &HostPath) -> Vec<OsString> {
    let Ok(entries) = looked::read_dir(directory.as_path()) else {
        return Vec::new();
    };
    let mut names: Vec<OsString> = entries
        .take(ENTRIES)
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .collect();
    names.sort();
    names
}

/// The beginning of a small regular file as text; none for anything else.
pub(super) fn text(path: &Path) -> Option<String> {
    looked::whole(path);
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    let file = fs::File::open(path).ok()?;
    file.take(FILE_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The value of `key = value` in a settings file; quotes around it are dropped.
pub(super) fn setting(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == key).then(|| value.trim().trim_matches(['"', '\'']).to_owned())
    })
}

/// The directory `levels` above `path`.
pub(super) fn above(path: &HostPath, levels: usize) -> Option<HostPath> {
    (0..levels).try_fold(path.clone(), |path, _| path.parent())
}

fn names_of(path: &HostPath) -> Vec<HostPath> {
    let mut names = vec![path.clone()];
    names.extend(real(path).filter(|real| real != path));
    names
}

fn holds(outer: &[HostPath], path: &HostPath) -> bool {
    outer.iter().any(|outer| outer.holds(path))
}

//! What is denied: paths of files really opened against the denials of a plan.
//!
//! A file's own path is what the kernel says of an open descriptor, seen from the root of its
//! mount namespace, and it is judged from the sandbox's `/`. Whatever cannot be named from there
//! is refused.
//!
//! Invariant: no rename the broker makes changes what is denied, so a judged path may change
//! before it is used, and its judgement stays right. See [`Rules::movable`].

use crate::launch::{REFUSALS, Refusal};
use crate::plan::{Denial, Extent, HostPath, Target};
use rustix::fs::{OFlags, open, readlinkat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, PoisonError};

/// What the kernel appends to the path of a file that has lost its name.
const DELETED: &[u8] = b" (deleted)";

/// What is to be done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// Where an open file lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OwnPath {
    /// At a path of the sandbox.
    At(HostPath),
    /// Nowhere: a pipe, a socket.
    Nowhere,
}

pub(super) struct Rules {
    denials: Vec<Denial>,
    /// The path of the sandbox's `/`, empty for the root of its namespace.
    top: Vec<u8>,
    refusals: Arc<Refusals>,
}

/// What was refused, each once and in bounds.
#[derive(Default)]
pub(super) struct Refusals(Mutex<Vec<Refusal>>);

impl Refusals {
    fn add(&self, refusal: Refusal) {
        let mut refusals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if refusals.len() < REFUSALS && !refusals.contains(&refusal) {
            refusals.push(refusal);
        }
    }

    pub(super) fn take(&self) -> Vec<Refusal> {
        let mut refusals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut refusals)
    }
}

impl Rules {
    pub(super) fn new(
        denials: Vec<Denial>,
        root: BorrowedFd<'_>,
        refusals: Arc<Refusals>,
    ) -> Result<Self, Errno> {
        let top = raw_path(root)?;
        if top.first() != Some(&b'/') {
            return Err(Errno::INVAL);
        }
        Ok(Self {
            denials,
            top: if top == b"/" { Vec::new() } else { top },
            refusals,
        })
    }

    /// Where `file` lies.
    pub(super) fn own_path(&self, file: BorrowedFd<'_>) -> Result<OwnPath, Errno> {
        let path = raw_path(file)?;
        if path.first() != Some(&b'/') {
            return Ok(OwnPath::Nowhere);
        }
        let below = match path.strip_prefix(self.top.as_slice()) {
            Some([]) => b"/",
            Some(below @ [b'/', ..]) => below,
            Some(_) | None => return Err(Errno::ACCESS),
        };
        HostPath::new(OsStr::from_bytes(below))
            .map(OwnPath::At)
            .map_err(|_| Errno::ACCESS)
    }

    /// Where `name` in `directory` lies.
    pub(super) fn entry(&self, directory: BorrowedFd<'_>, name: &[u8]) -> Result<HostPath, Errno> {
        let OwnPath::At(directory) = self.own_path(directory)? else {
            return Err(Errno::NOTDIR);
        };
        let name = name.strip_suffix(b"/").unwrap_or(name);
        match name {
            // These fail whatever is asked, and the kernel knows how.
            b"." | b".." => Ok(directory),
            name => Ok(directory.join(OsStr::from_bytes(name))),
        }
    }

    /// Refuses what a denial covers, and remembers it.
    pub(super) fn judge(&self, path: &HostPath, access: Access) -> Result<(), Errno> {
        let denies = |denial: &&Denial| match denial.extent {
            Extent::Everything => true,
            Extent::Writing => access == Access::Write,
        };
        let without = path.as_os_str().as_bytes().strip_suffix(DELETED);
        let without = without.and_then(|path| HostPath::new(OsStr::from_bytes(path)).ok());
        let covers = |denial: &&Denial| {
            denial.target.covers(path)
                || without
                    .as_ref()
                    .is_some_and(|path| denial.target.covers(path))
        };
        match self.denials.iter().filter(denies).find(covers) {
            None => Ok(()),
            Some(denial) => {
                self.remember(path, &denial.target);
                Err(Errno::ACCESS)
            }
        }
    }

    /// Refuses a file that a denial covers.
    pub(super) fn judge_file(&self, file: BorrowedFd<'_>, access: Access) -> Result<(), Errno> {
        match self.own_path(file)? {
            OwnPath::At(path) => self.judge(&path, access),
            OwnPath::Nowhere => Ok(()),
        }
    }

    /// Whether a directory can go from one name to the other with the same denied beneath it.
    ///
    /// `**/.env` is denied wherever it is; `/w/vault/key` is not, once `vault` has another name.
    pub(super) fn movable(&self, from: &HostPath, to: &HostPath) -> bool {
        let place = HostPath::top().join(OsStr::new("x"));
        self.denials.iter().all(|denial| {
            let beneath = |path| {
                let targets = denial.target.moved(path, &place);
                targets.into_iter().collect::<BTreeSet<Target>>()
            };
            beneath(from) == beneath(to)
        })
    }

    fn remember(&self, path: &HostPath, target: &Target) {
        self.refusals.add(Refusal {
            path: path.as_path().to_owned(),
            denial: target.to_string(),
        });
    }
}

thread_local! {
    /// `/proc/thread-self/fd`. Each thread has its own: it leads nowhere once the thread ended that
    /// opened it.
    static DESCRIPTORS: Result<OwnedFd, Errno> = open(
        "/proc/thread-self/fd",
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    );
}

/// Does `work` in the directory in which each open descriptor is a link to its file.
pub(super) fn among_descriptors<T>(
    work: impl FnOnce(BorrowedFd<'_>) -> Result<T, Errno>,
) -> Result<T, Errno> {
    DESCRIPTORS.with(|directory| match directory {
        Ok(directory) => work(directory.as_fd()),
        Err(error) => Err(*error),
    })
}

fn raw_path(file: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let into = Vec::with_capacity(512);
    let path = among_descriptors(|directory| readlinkat(directory, name_of(file), into))?;
    Ok(path.into_bytes())
}

/// The name of a descriptor in the directory of them all.
pub(super) fn name_of(file: BorrowedFd<'_>) -> String {
    file.as_raw_fd().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Pattern;

    fn rules(patterns: &[&str], paths: &[&str]) -> Rules {
        let patterns = patterns
            .iter()
            .map(|text| Target::Pattern(Pattern::new(text, None).unwrap()));
        let paths = paths
            .iter()
            .map(|path| Target::Path(HostPath::new(path).unwrap()));
        let denials = patterns
            .chain(paths)
            .map(|target| Denial {
                target,
                extent: Extent::Everything,
            })
            .collect();
        let root = open("/", OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        Rules::new(denials, root.as_fd(), Arc::default()).unwrap()
    }

    #[test]
    fn a_directory_moves_only_where_the_same_is_denied_beneath_it() {
        for (pattern, from, to, want) in [
            ("**/.env", "/w/a", "/w/b", true),
            ("**/.env", "/w/a", "/w/x/y/b", true),
            ("/w/a/key", "/w/a", "/w/b", false),
            ("/w/a/key", "/w/b", "/w/a", false),
            ("/w/a/key", "/w/c", "/w/b", true),
            ("/w/*/key", "/w/a", "/w/b", true),
            ("/w/*/key", "/w/a", "/w/b/c", false),
            ("**/vault/*.key", "/w/vault", "/w/open", false),
            ("**/vault/*.key", "/w/open", "/w/vault", false),
            ("**/vault/*.key", "/w/one", "/w/two", true),
        ] {
            let moves = rules(&[pattern], &[])
                .movable(&HostPath::new(from).unwrap(), &HostPath::new(to).unwrap());
            assert_eq!(moves, want, "{pattern} {from} {to}");
        }
        let rules = rules(&[], &["/w/a/key"]);
        let path = |text| HostPath::new(text).unwrap();
        assert!(!rules.movable(&path("/w/a"), &path("/w/b")));
        assert!(rules.movable(&path("/w/c"), &path("/w/b")));
    }

    #[test]
    fn refusals_are_remembered_once_and_in_bounds() {
        let rules = rules(&["/w/**"], &[]);
        for number in 0..1_000 {
            let path = HostPath::new(format!("/w/{}", number % 500)).unwrap();
            assert_eq!(rules.judge(&path, Access::Read), Err(Errno::ACCESS));
        }
        let refusals = rules.refusals.take();
        assert_eq!(refusals.len(), REFUSALS);
        assert_eq!(refusals[0].denial, "/w/**");
        assert_eq!(refusals[0].path.to_str(), Some("/w/0"));
        assert!(rules.refusals.take().is_empty());
    }

    #[test]
    fn a_name_lost_does_not_lift_a_denial() {
        let rules = rules(&["**/.env"], &["/w/key"]);
        for path in [
            "/w/key (deleted)",
            "/w/.env (deleted)",
            "/w/key",
            "/w/.env/x",
        ] {
            let path = HostPath::new(path).unwrap();
            assert_eq!(rules.judge(&path, Access::Read), Err(Errno::ACCESS));
        }
    }
}

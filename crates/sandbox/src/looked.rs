//! Looks at the machine, and can say afterwards at what.
//!
//! What [`base`](crate::base) and [`presets`](crate::presets) find follows from the files they look
//! at through this module, and from nothing else of the file system: as long as these are the same,
//! so is what was found. [`watching`] gives them as [`Evidence`].
//!
//! Guarantee: evidence still [`holds`](Evidence::holds) only if every name that was looked up leads
//! to the same file or is still missing, and every directory that was listed and every file that was
//! read has not been changed. It goes by the time of the last change, which nobody can set.
//!
//! Not guaranteed: that a change is seen whose time is the same as the one before it, on a file
//! system with coarse times or after the clock was set back. Hence [`Evidence::is_settled`].

use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata, ReadDir};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Debug, Default)]
struct Looked {
    /// Looked up by name.
    named: BTreeSet<PathBuf>,
    /// Listed or read.
    whole: BTreeSet<PathBuf>,
    /// Variables that were asked for.
    variables: BTreeMap<String, Option<String>>,
    /// Something that cannot be written down.
    odd: bool,
}

thread_local! {
    /// What is looked at, while someone wants to know.
    static LOOKED: RefCell<Option<Looked>> = const { RefCell::new(None) };
}

fn note(add: impl FnOnce(&mut Looked)) {
    LOOKED.with_borrow_mut(|looked| {
        if let Some(looked) = looked {
            add(looked);
        }
    });
}

fn named(path: &Path) {
    note(|looked| {
        if !looked.named.contains(path) {
            looked.named.insert(path.to_owned());
        }
    });
}

/// Notes that what is in `path` matters.
pub(crate) fn whole(path: &Path) {
    note(|looked| {
        looked.whole.insert(path.to_owned());
    });
}

/// Notes that a variable matters.
pub(crate) fn variable(name: &str, value: Option<&OsStr>) {
    note(|looked| {
        let text = value.map(|value| value.to_str().map(str::to_owned));
        looked.odd |= text == Some(None);
        looked.variables.insert(name.to_owned(), text.flatten());
    });
}

pub(crate) fn is_dir(path: &Path) -> bool {
    named(path);
    path.is_dir()
}

pub(crate) fn is_file(path: &Path) -> bool {
    named(path);
    path.is_file()
}

pub(crate) fn exists(path: &Path) -> bool {
    named(path);
    path.exists()
}

/// What is there, links not followed.
pub(crate) fn there(path: &Path) -> io::Result<Metadata> {
    named(path);
    fs::symlink_metadata(path)
}

pub(crate) fn read_link(path: &Path) -> io::Result<PathBuf> {
    named(path);
    fs::read_link(path)
}

pub(crate) fn read_dir(path: &Path) -> io::Result<ReadDir> {
    whole(path);
    fs::read_dir(path)
}

/// A file as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct File {
    device: u64,
    inode: u64,
    mode: u32,
}

/// The time of a file's last change.
type Changed = (i64, i64);

impl File {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            mode: metadata.mode(),
        }
    }
}

fn changed(metadata: &Metadata) -> Changed {
    (metadata.ctime(), metadata.ctime_nsec())
}

/// Where a name leads in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum End {
    /// To what has it.
    Itself,
    /// By a link.
    At(File),
    /// Nowhere, by a link.
    Nowhere,
}

impl End {
    fn of(path: &Path, first: &Metadata) -> Self {
        if !first.is_symlink() {
            return Self::Itself;
        }
        fs::metadata(path).map_or(Self::Nowhere, |found| Self::At(File::of(&found)))
    }
}

/// What something that was found follows from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Evidence {
    /// Names, what has them, and where they lead.
    named: Vec<(String, File, End)>,
    /// What must not have been changed; links are followed.
    whole: Vec<(String, File, Changed)>,
    variables: BTreeMap<String, Option<String>>,
}

/// A change this recent may have another of the same time after it, on a file system that counts
/// seconds, or two at a time.
const SETTLED: Duration = Duration::from_secs(2);
/// The same where times have parts of a second: some ticks of the slowest clock there is.
const SETTLED_FINE: Duration = Duration::from_millis(100);

/// Does `work`, and gives what it follows from, where that can be said.
pub(crate) fn watching<T>(work: impl FnOnce() -> T) -> (T, Option<Evidence>) {
    LOOKED.with_borrow_mut(|looked| *looked = Some(Looked::default()));
    let done = work();
    let looked = LOOKED.take();
    (done, looked.and_then(Evidence::of))
}

impl Evidence {
    fn of(mut looked: Looked) -> Option<Self> {
        if looked.odd {
            return None;
        }
        let text = |path: &Path| path.to_str().map(str::to_owned);
        let mut named = Vec::new();
        for path in std::mem::take(&mut looked.named) {
            let Ok(first) = fs::symlink_metadata(&path) else {
                // What is missing is made in the last directory that is there.
                looked.whole.insert(last_there(&path));
                continue;
            };
            let end = End::of(&path, &first);
            named.push((text(&path)?, File::of(&first), end));
        }
        // Much of what is missing is missing from the same directory, which is asked about once.
        let there = |path: PathBuf| {
            if path.exists() {
                path
            } else {
                last_there(&path)
            }
        };
        let mut whole = Vec::new();
        for path in looked.whole.into_iter().map(there).collect::<BTreeSet<_>>() {
            let found = fs::metadata(&path).ok()?;
            whole.push((text(&path)?, File::of(&found), changed(&found)));
        }
        Some(Self {
            named,
            whole,
            variables: looked.variables,
        })
    }

    /// Whether the variables are as they were. Nothing else is looked at.
    pub(crate) fn fits<'a>(&self, variable: impl Fn(&str) -> Option<&'a OsStr>) -> bool {
        let same = |(name, value): (&String, &Option<String>)| {
            variable(name) == value.as_deref().map(OsStr::new)
        };
        self.variables.iter().all(same)
    }

    /// Whether everything is still as it was, with these variables.
    pub(crate) fn holds<'a>(&self, variable: impl Fn(&str) -> Option<&'a OsStr>) -> bool {
        let names = |(path, first, end): &(String, File, End)| {
            let same = |found: &Metadata| {
                File::of(found) == *first && End::of(Path::new(path), found) == *end
            };
            fs::symlink_metadata(path).as_ref().is_ok_and(same)
        };
        let unchanged = |(path, file, time): &(String, File, Changed)| {
            let is = |found: Metadata| File::of(&found) == *file && changed(&found) == *time;
            fs::metadata(path).is_ok_and(is)
        };
        self.fits(variable) && self.whole.iter().all(unchanged) && self.named.iter().all(names)
    }

    /// Whether every change lies so far before `begun`, when the looking began, that a later one
    /// will be told from it.
    pub(crate) fn is_settled(&self, begun: SystemTime) -> bool {
        let Ok(begun) = begun.duration_since(UNIX_EPOCH) else {
            return false;
        };
        let mut whole = self.whole.iter();
        whole.all(|(_, _, changed)| is_before(*changed, begun))
    }
}

fn is_before((seconds, nanoseconds): Changed, begun: Duration) -> bool {
    let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(seconds), u32::try_from(nanoseconds))
    else {
        return false;
    };
    let tick = if nanoseconds == 0 {
        SETTLED
    } else {
        SETTLED_FINE
    };
    begun
        .checked_sub(Duration::new(seconds, nanoseconds))
        .is_some_and(|age| age > tick)
}

/// The last directory on the way to something that is missing.
fn last_there(path: &Path) -> PathBuf {
    let mut above = path.ancestors().skip(1);
    let there = above.find(|above| above.exists());
    there.unwrap_or(Path::new("/")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn evidence(work: impl FnOnce()) -> Evidence {
        watching(work).1.unwrap()
    }

    fn still(evidence: &Evidence) -> bool {
        evidence.holds(|_| None)
    }

    #[test]
    fn what_was_looked_at_counts_and_nothing_else() {
        type Act = fn(&Path);
        let cases: [(&str, Act, Act, bool); 12] = [
            ("nothing", |d| drop(read_dir(d)), |_| {}, true),
            (
                "an entry of a listed directory",
                |d| drop(read_dir(d)),
                |d| fs::write(d.join("new"), "").unwrap(),
                false,
            ),
            (
                "an entry beside a file that was looked up",
                |d| assert!(is_file(&d.join("file"))),
                |d| fs::write(d.join("new"), "").unwrap(),
                true,
            ),
            (
                "a missing file is made",
                |d| assert!(!exists(&d.join("missing"))),
                |d| fs::write(d.join("missing"), "").unwrap(),
                false,
            ),
            (
                "a missing path is begun",
                |d| assert!(!is_dir(&d.join("missing/deep/down"))),
                |d| fs::create_dir(d.join("missing")).unwrap(),
                false,
            ),
            (
                "a file that was looked up goes",
                |d| assert!(is_file(&d.join("file"))),
                |d| fs::remove_file(d.join("file")).unwrap(),
                false,
            ),
            (
                "a file that was only looked up is written",
                |d| assert!(exists(&d.join("file"))),
                |d| fs::write(d.join("file"), "more").unwrap(),
                true,
            ),
            (
                "a file that was read is written",
                |d| whole(&d.join("file")),
                |d| fs::write(d.join("file"), "more").unwrap(),
                false,
            ),
            (
                "a directory in the place of a file",
                |d| assert!(there(&d.join("file")).is_ok()),
                |d| {
                    fs::remove_file(d.join("file")).unwrap();
                    fs::create_dir(d.join("file")).unwrap();
                },
                false,
            ),
            (
                "a link leads elsewhere",
                |d| assert!(read_link(&d.join("link")).is_ok()),
                |d| {
                    fs::remove_file(d.join("link")).unwrap();
                    symlink("other", d.join("link")).unwrap();
                },
                false,
            ),
            (
                "what a link leads to is another",
                |d| assert!(exists(&d.join("link"))),
                |d| fs::rename(d.join("other"), d.join("file")).unwrap(),
                false,
            ),
            (
                "a file is opened to others",
                |d| whole(&d.join("file")),
                |d| {
                    let open = std::os::unix::fs::PermissionsExt::from_mode(0o666);
                    fs::set_permissions(d.join("file"), open).unwrap();
                },
                false,
            ),
        ];
        for (case, look, change, want) in cases {
            let directory = tempfile::tempdir().unwrap();
            let place = directory.path();
            for name in ["file", "other"] {
                fs::write(place.join(name), "").unwrap();
            }
            symlink("file", place.join("link")).unwrap();
            let evidence = evidence(|| look(place));
            // Times of some file systems only move with the clock's ticks.
            std::thread::sleep(Duration::from_millis(20));
            change(place);
            assert_eq!(still(&evidence), want, "{case}");
        }
    }

    #[test]
    fn a_variable_counts_only_if_it_was_asked_for() {
        let evidence = evidence(|| variable("HERE", Some(OsStr::new("a"))));
        let with = |value: Option<&'static str>| {
            evidence.holds(|name| value.filter(|_| name == "HERE").map(OsStr::new))
        };
        assert!(with(Some("a")));
        assert!(!with(Some("b")));
        assert!(!with(None));
    }

    #[test]
    fn what_was_just_changed_is_not_settled() {
        let directory = tempfile::tempdir().unwrap();
        let begun = SystemTime::now();
        let fresh = evidence(|| whole(directory.path()));
        assert!(!fresh.is_settled(begun));
        assert!(fresh.is_settled(begun + Duration::from_mins(1)));
        let old = evidence(|| whole(Path::new("/proc/self/exe")));
        assert!(
            old.whole
                .iter()
                .all(|(path, _, _)| path == "/proc/self/exe")
        );
    }

    #[test]
    fn a_change_is_settled_once_no_clock_would_give_the_next_one_its_time() {
        let begun = Duration::from_secs(1_000);
        for (changed, want) in [
            ((999, 950_000_000), false),
            ((999, 890_000_000), true),
            ((999, 0), false),
            ((998, 0), false),
            ((997, 0), true),
            ((1_000, 1), false),
            ((2_000, 0), false),
            ((-1, 5), false),
        ] {
            assert_eq!(is_before(changed, begun), want, "{changed:?}");
        }
    }

    #[test]
    fn a_link_that_leads_nowhere_counts_until_it_does() {
        let directory = tempfile::tempdir().unwrap();
        symlink("nowhere", directory.path().join("link")).unwrap();
        let evidence = evidence(|| assert!(!exists(&directory.path().join("link"))));
        assert!(still(&evidence));
        fs::write(directory.path().join("nowhere"), "").unwrap();
        assert!(!still(&evidence));
    }

    #[test]
    fn what_cannot_be_written_down_is_no_evidence() {
        use std::os::unix::ffi::OsStrExt;
        let odd = OsStr::from_bytes(b"\xff");
        assert_eq!(watching(|| variable("ODD", Some(odd))).1, None);
        assert_eq!(
            watching(|| is_dir(&Path::new("/tmp").join(odd).join(odd)))
                .1
                .map(|_| ()),
            Some(())
        );
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(odd), "").unwrap();
        assert_eq!(watching(|| exists(&directory.path().join(odd))).1, None);
    }
}

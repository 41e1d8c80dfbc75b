//! The process dies in the middle, at every point where that could make a difference.
//!
//! Merges of one and of fifty files are begun anew for every moment there is, killed there and
//! carried on to the end. One of five thousand has too many moments for that: some of them are tried
//! so, and all of them, if `AIRLOCK_CRASH_MOMENTS=all` asks for it, by one process after another that
//! carries on what the last one left and dies at the next moment.

use crate::project::{Held, Project, Snapshot, link, mode, put};
use airlock_merge::{MergeError, Recovered, Selection, Since};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const PLACE: &str = "AIRLOCK_TEST_MERGE_PLACE";
const LIVES: &str = "AIRLOCK_TEST_MERGE_LIVES";
const AT: &str = "AIRLOCK_TEST_MERGE_AT";
const WHAT: &str = "AIRLOCK_TEST_MERGE_WHAT";

/// A moment: so many steps were begun, and so many moments of the last of them are over.
type At = (usize, usize);

/// Where a process that was to die at some moment, or the next there is, says at which it did.
const DIED: &str = "died";

/// What a process does that is to die.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Merge,
    /// Of a stage some of which somebody else changed as well.
    MergeInPart,
    Undo,
    /// Goes on with what another left.
    Recover,
}

impl What {
    const fn name(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::MergeInPart => "merge in part",
            Self::Undo => "undo",
            Self::Recover => "recover",
        }
    }
}

/// Ways a path can change; each leaves something else to be half done.
const WAYS: usize = 8;

/// The path of the `file`-th file, and what it is before.
fn before(project: &Project, file: usize, way: usize) {
    let name = format!("d{}/{file}", file % 7);
    let path = project.root.join(&name);
    match way {
        0 | 1 | 3 | 5 => project.write(&name, &format!("old {file}")),
        4 | 6 => {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            link(&path, &format!("old-{file}"));
        }
        7 => std::fs::create_dir_all(&path).unwrap(),
        _ => {}
    }
}

/// What it is afterwards.
fn after(staged: &Path, file: usize, way: usize) {
    let path = staged.join(format!("d{}/{file}", file % 7));
    match way {
        0 => put(&path, &format!("new {file}")),
        1 => std::fs::remove_file(&path).unwrap(),
        2 => put(&path, &format!("added {file}")),
        3 => mode(&path, 0o751),
        4 => {
            std::fs::remove_file(&path).unwrap();
            link(&path, &format!("new-{file}"));
        }
        5 => {
            std::fs::remove_file(&path).unwrap();
            link(&path, &format!("now-a-link-{file}"));
        }
        6 => {
            std::fs::remove_file(&path).unwrap();
            put(&path, &format!("now a file {file}"));
        }
        _ => std::fs::remove_dir(&path).unwrap(),
    }
}

/// Files that change in every way, beginning with `first`, beside directories that come, go and
/// change their mode.
fn project(files: usize, first: usize) -> Project {
    let project = Project::new();
    for directory in ["empty", "mode"] {
        std::fs::create_dir_all(project.root.join(directory)).unwrap();
    }
    for file in 0..files {
        before(&project, file, (first + file) % WAYS);
    }
    let staged = project.staged();
    std::fs::remove_dir(staged.join("empty")).unwrap();
    std::fs::create_dir_all(staged.join("comes/empty")).unwrap();
    mode(&staged.join("mode"), 0o750);
    for file in 0..files {
        after(&staged, file, (first + file) % WAYS);
    }
    project
}

/// Does `what` in a process that is killed at its `lives`-th moment. Whether it lived to the end.
pub(crate) fn elsewhere(project: &Project, lives: usize, what: What) -> bool {
    started(project, what, LIVES, &lives.to_string())
}

/// The same in one that is killed at `at` or the next moment there is, and says which that was. None
/// if it lived.
fn elsewhere_at(project: &Project, at: At, what: What) -> Option<At> {
    if started(project, what, AT, &format!("{} {}", at.0, at.1)) {
        return None;
    }
    let told = std::fs::read_to_string(project.place().join(DIED)).unwrap();
    Some(read_at(&told))
}

fn read_at(text: &str) -> At {
    let (steps, moments) = text.split_once(' ').unwrap();
    (steps.parse().unwrap(), moments.parse().unwrap())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a process that dies has to be another one"
)]
fn started(project: &Project, what: What, when: &str, value: &str) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "crash::a_process_that_dies", "--nocapture"])
        .env(PLACE, project.place())
        .env(when, value)
        .env(WHAT, what.name());
    let output = command.output().unwrap();
    let killed = std::os::unix::process::ExitStatusExt::signal(&output.status) == Some(9);
    assert!(killed || output.status.success(), "{output:?}");
    !killed
}

fn die() {
    let me = rustix::process::getpid();
    rustix::process::kill_process(me, rustix::process::Signal::KILL).unwrap();
}

/// Not a test of its own: what the others start.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing else reaches a test that is started as a process"
)]
#[test]
fn a_process_that_dies() {
    let Ok(place) = std::env::var(PLACE) else {
        return;
    };
    let project = Project::at(Path::new(&place));
    let left = std::env::var(LIVES).map(|lives| Cell::new(lives.parse::<usize>().unwrap()));
    let until = std::env::var(AT).map(|at| read_at(&at));
    let now_at = Cell::new((0, 0));
    let moment = |name: &'static str| {
        if let Ok(left) = &left {
            if left.get() == 0 {
                die();
            }
            left.set(left.get() - 1);
        }
        let (steps, moments) = now_at.get();
        let here = match name {
            "step" => (steps + 1, 0),
            _ => (steps, moments + 1),
        };
        now_at.set(here);
        if until.as_ref().is_ok_and(|until| here >= *until) {
            std::fs::write(
                Path::new(&place).join(DIED),
                format!("{} {}", here.0, here.1),
            )
            .unwrap();
            die();
        }
    };
    let now = airlock_core::Timestamp::from_micros(3);
    let what = std::env::var(WHAT).unwrap();
    if what == What::Undo.name() {
        let (merges, since) = (project.merges(), Since::Stays);
        let looked = project.looked(None, since);
        let undone = merges.undo_watched("u1", None, since, looked, now, &moment);
        assert!(undone.unwrap().is_complete());
    } else if what == What::Recover.name() {
        // Whatever is asked for, what was left is carried on first; and this asks for nothing.
        let (merges, of) = (project.merges(), Some("nonesuch"));
        let looked = project.looked(of, Since::Stays);
        let asked = merges.undo_watched("none", of, Since::Stays, looked, now, &moment);
        assert!(matches!(asked, Err(MergeError::Missing(_))), "{asked:?}");
    } else {
        let merged = project.merge_watched("m1", &Selection::default(), &moment);
        let in_part = what == What::MergeInPart.name();
        assert_eq!(merged.unwrap().is_complete(), !in_part);
    }
}

/// Every file is what it was or what it is to be, whole, and none is gone that stays.
fn old_or_new(now: &Snapshot, old: &Snapshot, new: &Snapshot) {
    each_old_or_new(now, old, new);
    for (path, held) in old {
        let stays = new.get(path) == Some(held);
        assert!(
            !stays || now.get(path) == Some(held),
            "{} is gone",
            path.display()
        );
    }
}

fn each_old_or_new(now: &Snapshot, old: &Snapshot, new: &Snapshot) {
    for (path, held) in now {
        // The lock on a ref of git is a link that says whose it is.
        let lock = matches!(held, Held::Link(to) if to.to_string_lossy().starts_with("airlock-"));
        let ours = lock || path.to_string_lossy().contains(".airlock-");
        let known = [old.get(path), new.get(path)];
        // A directory's mode comes last.
        let directory = matches!(held, Held::Directory(_))
            && known
                .iter()
                .flatten()
                .any(|known| matches!(known, Held::Directory(_)));
        assert!(
            ours || directory || known.contains(&Some(held)),
            "{}: {held:?}",
            path.display()
        );
    }
}

fn complete(recovered: &Recovered) -> bool {
    let mut ended = recovered.ended.iter();
    ended.all(|(_, outcome)| outcome.is_complete())
}

/// Carries on what a process left, which leads from `from` to `to`: all of it or nothing, and once.
/// Whether it was begun.
fn recovered(project: &Project, id: &str, from: &Snapshot, to: &Snapshot) -> bool {
    old_or_new(&project.snapshot(), from, to);
    assert!(complete(&project.merges().recover().unwrap()));
    assert!(
        project.merges().recover().unwrap().ended.is_empty(),
        "once is enough"
    );
    let listed = project.merges().list().unwrap();
    let begun = listed.iter().any(|one| one.id == id);
    let (want, how) = if begun {
        (to, "what was begun is done")
    } else {
        (from, "nothing was begun, nothing is changed")
    };
    assert_eq!(&project.snapshot(), want, "{how}");
    begun
}

/// Kills a merge at moment `lives`, checks, completes it, and does the same to its undo. Whether
/// both lived.
fn die_once(project: &Project, lives: usize) -> bool {
    let old = project.snapshot();
    die_once_and_back(project, lives, &old, &|| {})
}

/// The same, where an undo leaves `undone`; `look` is called while things are as the dead left them.
pub(crate) fn die_once_and_back(
    project: &Project,
    lives: usize,
    undone: &Snapshot,
    look: &dyn Fn(),
) -> bool {
    let (old, new) = (
        project.snapshot(),
        crate::project::snapshot(&project.staged()),
    );
    assert_ne!(old, new);
    let merge_lived = elsewhere(project, lives, What::Merge);
    look();
    if !recovered(project, "m1", &old, &new) {
        let again = project.merge("m1", &Selection::default()).unwrap();
        assert!(again.is_complete());
        assert_eq!(project.snapshot(), new);
    }
    look();
    let undo_lived = elsewhere(project, lives, What::Undo);
    look();
    if !recovered(project, "u1", &new, undone) {
        assert!(project.undo("u1", None).unwrap().is_complete());
        assert_eq!(&project.snapshot(), undone, "and back, to the byte");
    }
    merge_lived && undo_lived
}

#[test]
fn a_merge_of_one_file_survives_death_at_every_moment() {
    for way in 0..WAYS {
        let mut lives = 0;
        while !die_once(&project(1, way), lives) {
            lives += 1;
        }
        assert!(lives > 6, "it died {lives} times");
    }
}

#[test]
fn a_merge_of_fifty_files_survives_death_at_every_moment() {
    let mut lives = 0;
    while !die_once(&project(50, 0), lives) {
        lives += 1;
    }
    assert!(lives > 200, "it died {lives} times");
}

/// How many moments a merge of `project` has.
fn moments(project: &Project) -> usize {
    let count = Cell::new(0);
    let merged =
        project.merge_watched("m0", &Selection::default(), &|_| count.set(count.get() + 1));
    assert!(merged.unwrap().is_complete());
    count.get()
}

/// How many moments of a merge of thousands are tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// Each from the beginning.
    Some(usize),
    /// Every one that a chain of deaths reaches, and some from the beginning.
    All,
}

/// What `AIRLOCK_CRASH_MOMENTS` says, a number or `all`.
#[expect(
    clippy::disallowed_methods,
    reason = "whoever has the time says so in the environment"
)]
fn asked_for() -> Asked {
    let asked = std::env::var("AIRLOCK_CRASH_MOMENTS").ok();
    match asked.as_deref() {
        None => Asked::Some(8),
        Some("all") => Asked::All,
        Some(number) => Asked::Some(number.parse().unwrap()),
    }
}

/// All moments of so many would take hours; these are every so-manieth of all of them, from the
/// first to the last.
#[test]
fn a_merge_of_five_thousand_files_survives_death_anywhere() {
    let all = moments(&project(5_000, 0));
    assert!(all > 15_000, "{all} moments");
    let tried = match asked_for() {
        Asked::Some(number) => number,
        Asked::All => 24,
    };
    let stride = all.div_ceil(tried).max(1);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let deaths = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let lives = next.fetch_add(stride, std::sync::atomic::Ordering::Relaxed);
                    if lives >= all {
                        break;
                    }
                    assert!(
                        !die_once(&project(5_000, 0), lives),
                        "moment {lives} of {all}"
                    );
                    deaths.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
    });
    assert!(deaths.into_inner() >= tried / 2, "{tried} were asked for");
}

/// A tree that is looked at again and again: what was not touched since is not read again.
struct Watched<'a> {
    root: &'a Path,
    old: &'a Snapshot,
    new: &'a Snapshot,
    seen: BTreeMap<PathBuf, [i64; 3]>,
}

impl Watched<'_> {
    /// Every file is what it was or what it is to be, whole, and none is gone that stays.
    fn look(&mut self) {
        let mut found = BTreeMap::new();
        let mut touched = Snapshot::new();
        let mut waiting = vec![self.root.to_owned()];
        while let Some(directory) = waiting.pop() {
            for entry in std::fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                let facts = std::fs::symlink_metadata(&path).unwrap();
                let name = path.strip_prefix(self.root).unwrap().to_owned();
                #[expect(
                    clippy::cast_possible_wrap,
                    reason = "only whether it is the same counts"
                )]
                let stamp = [facts.ino() as i64, facts.ctime(), facts.ctime_nsec()];
                if facts.is_dir() {
                    waiting.push(path.clone());
                }
                if self.seen.get(&name) != Some(&stamp) {
                    touched.insert(name.clone(), crate::project::held(&path));
                }
                found.insert(name, stamp);
            }
        }
        each_old_or_new(&touched, self.old, self.new);
        for (path, held) in self.old {
            let stays = self.new.get(path) == Some(held);
            assert!(
                !stays || found.contains_key(path),
                "{} is gone",
                path.display()
            );
        }
        self.seen = found;
    }
}

/// The steps of a merge or an undo at which one process after another dies.
#[derive(Clone)]
struct Stretch {
    steps: std::ops::Range<usize>,
    /// Of every so-manieth step all moments.
    stride: usize,
}

impl Stretch {
    const fn whole(stride: usize) -> Self {
        Self {
            steps: 0..usize::MAX,
            stride,
        }
    }
}

/// Lets one process after another begin or carry on what leads from `old` to `new`, each of which
/// dies at the next moment of `stretch`. How often one died.
fn dies_on_and_on(
    project: &Project,
    what: What,
    (old, new): (&Snapshot, &Snapshot),
    stretch: &Stretch,
) -> usize {
    let mut tree = Watched {
        root: &project.root,
        old,
        new,
        seen: BTreeMap::new(),
    };
    let first = stretch.steps.start;
    // What comes before the first step leaves the tree alone, and is begun anew each time.
    let beginning = [(0, 1), (0, 2), (0, 40), (1, 0)];
    let begun = match first {
        0 => beginning.to_vec(),
        _ => vec![(first, 0)],
    };
    for at in &begun {
        assert_eq!(elsewhere_at(project, *at, what), Some(*at));
        tree.look();
    }
    let mut died = begun.len();
    let mut at = (first.max(1), 1);
    while let Some(last) = elsewhere_at(project, at, What::Recover) {
        tree.look();
        died += 1;
        let skipped = last.1 == 0 && last.0 % stretch.stride != 0;
        at = if skipped {
            (last.0 + stretch.stride - last.0 % stretch.stride, 0)
        } else {
            (last.0, last.1 + 1)
        };
        if at.0 >= stretch.steps.end {
            break;
        }
    }
    died
}

/// Whoever carries on dies as well, each time a little later: the last one still finds its way.
#[test]
fn a_merge_whose_every_successor_dies_at_the_next_moment_is_carried_on() {
    // No multiple of the ways in which a path changes.
    for (files, stride) in [(50, 1), (5_000, 1_499)] {
        let project = project(files, 3);
        let (old, new) = (
            project.snapshot(),
            crate::project::snapshot(&project.staged()),
        );
        let stretch = Stretch::whole(stride);
        let died = dies_on_and_on(&project, What::Merge, (&old, &new), &stretch);
        assert!(died > 2 * files / stride, "{files}: it died {died} times");
        assert!(recovered(&project, "m1", &old, &new), "{files}");
        let died = dies_on_and_on(&project, What::Undo, (&new, &old), &stretch);
        assert!(died > 2 * files / stride, "{files}: it died {died} times");
        assert!(recovered(&project, "u1", &new, &old), "{files}");
    }
}

/// How many steps a merge of so many files has, and its undo.
fn steps(files: usize) -> [usize; 2] {
    let project = project(files, 3);
    let (merging, undoing) = (Cell::new(0), Cell::new(0));
    let count = |steps: &Cell<usize>, name| steps.set(steps.get() + usize::from(name == "step"));
    let merged = project.merge_watched("m1", &Selection::default(), &|name| count(&merging, name));
    assert!(merged.unwrap().is_complete());
    let now = airlock_core::Timestamp::from_micros(3);
    let since = Since::Stays;
    let looked = project.looked(None, since);
    let all = project.merges();
    let undone = all.undo_watched("u1", None, since, looked, now, &|name| {
        count(&undoing, name);
    });
    assert!(undone.unwrap().is_complete());
    [merging.get(), undoing.get()]
}

/// Kills one process after another in a stretch of a merge of `files`, or of its undo, and lets the
/// last complete it. How often one died.
fn dies_through(files: usize, what: What, stretch: &Stretch) -> usize {
    let project = project(files, 3);
    let (mut old, mut new, mut id) = (
        project.snapshot(),
        crate::project::snapshot(&project.staged()),
        "m1",
    );
    if what == What::Undo {
        let merged = project.merge(id, &Selection::default()).unwrap();
        assert!(merged.is_complete());
        (old, new, id) = (new, old, "u1");
    }
    let died = dies_on_and_on(&project, what, (&old, &new), stretch);
    assert!(recovered(&project, id, &old, &new), "{:?}", stretch.steps);
    died
}

/// Every moment of every step of a merge and of its undo, in stretches that share the processors.
/// Of five thousand files this takes the better part of an hour, and is done when it is asked for.
#[test]
fn every_moment_of_a_merge_and_of_its_undo_may_be_the_last() {
    let (files, pace) = match asked_for() {
        Asked::All => (5_000, 250),
        Asked::Some(_) => (50, 17),
    };
    let mut stretches = Vec::new();
    for (what, steps) in [What::Merge, What::Undo].into_iter().zip(steps(files)) {
        assert!(steps > files, "{steps} steps");
        for start in (0..steps).step_by(pace) {
            let end = start + pace;
            // The last goes on to the end, which comes after the last step.
            let end = if end < steps { end } else { usize::MAX };
            let stretch = Stretch {
                steps: start..end,
                stride: 1,
            };
            stretches.push((what, stretch));
        }
    }
    let next = std::sync::atomic::AtomicUsize::new(0);
    let deaths = std::sync::atomic::AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let taken = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some((what, stretch)) = stretches.get(taken) else {
                        break;
                    };
                    let died = dies_through(files, *what, stretch);
                    deaths.fetch_add(died, std::sync::atomic::Ordering::Relaxed);
                    let (name, steps) = (what.name(), &stretch.steps);
                    eprintln!("{name} of {files}, steps {steps:?}: killed {died} times");
                }
            });
        }
    });
    let deaths = deaths.into_inner();
    eprintln!("killed {deaths} times in all");
    assert!(deaths > 4 * files, "it died {deaths} times");
}

/// What stayed out is told by whoever carries on, too: half of a merge is never called all of it.
#[test]
fn what_was_left_out_is_told_by_whoever_completes_the_merge() {
    let mut lives = 0;
    let told = loop {
        let project = Project::new();
        for name in ["theirs", "ours"] {
            project.write(name, "old");
        }
        let staged = project.staged();
        for name in ["theirs", "ours"] {
            put(&staged.join(name), "new");
        }
        project.write("theirs", "changed meanwhile");
        if elsewhere(&project, lives, What::MergeInPart) {
            break lives;
        }
        let recovered = project.merges().recover().unwrap();
        if let [(_, outcome)] = recovered.ended.as_slice() {
            let left: Vec<String> = outcome
                .left()
                .map(|entry| entry.path.as_path().display().to_string())
                .collect();
            assert_eq!(left, ["theirs"], "{lives}");
            assert_eq!(outcome.merged(), 1, "{lives}");
            let [summary] = <[_; 1]>::try_from(project.merges().list().unwrap()).unwrap();
            assert_eq!((summary.merged, summary.left), (1, 1), "{lives}");
        }
        lives += 1;
    };
    assert!(told > 6, "it died {told} times");
}

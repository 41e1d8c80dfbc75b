//! The process dies in the middle, at every point where that could make a difference.

use crate::project::{Held, Project, Snapshot, link, mode, put};
use airlock_merge::{MergeError, Selection};
use std::cell::Cell;
use std::path::Path;
use std::process::Command;

const PLACE: &str = "AIRLOCK_TEST_MERGE_PLACE";
const LIVES: &str = "AIRLOCK_TEST_MERGE_LIVES";
const WHAT: &str = "AIRLOCK_TEST_MERGE_WHAT";

/// What a process does that is to die.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Merge,
    Undo,
    /// Goes on with what another left.
    Recover,
}

impl What {
    const fn name(self) -> &'static str {
        match self {
            Self::Merge => "merge",
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

#[expect(
    clippy::disallowed_methods,
    reason = "a process that dies has to be another one"
)]
/// Does `what` in a process that is killed at its `lives`-th moment. Whether it lived to the end.
pub(crate) fn elsewhere(project: &Project, lives: usize, what: What) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "crash::a_process_that_dies", "--nocapture"])
        .env(PLACE, project.place())
        .env(LIVES, lives.to_string())
        .env(WHAT, what.name());
    let output = command.output().unwrap();
    let killed = std::os::unix::process::ExitStatusExt::signal(&output.status) == Some(9);
    assert!(killed || output.status.success(), "{output:?}");
    !killed
}

/// Not a test of its own: what the others start.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing else reaches a test that is started as a process"
)]
#[test]
fn a_process_that_dies() {
    let (Ok(place), Ok(lives)) = (std::env::var(PLACE), std::env::var(LIVES)) else {
        return;
    };
    let project = Project::at(Path::new(&place));
    let left = Cell::new(lives.parse::<usize>().unwrap());
    let moment = |_: &'static str| {
        if left.get() == 0 {
            let me = rustix::process::getpid();
            rustix::process::kill_process(me, rustix::process::Signal::KILL).unwrap();
        }
        left.set(left.get() - 1);
    };
    let now = airlock_core::Timestamp::from_micros(3);
    let what = std::env::var(WHAT).unwrap();
    if what == What::Undo.name() {
        let undone = project.merges().undo_watched("u1", None, now, &moment);
        assert!(undone.unwrap().is_complete());
    } else if what == What::Recover.name() {
        // Whatever is asked for, what was left is carried on first; and this asks for nothing.
        let asked = project
            .merges()
            .undo_watched("none", Some("nonesuch"), now, &moment);
        assert!(matches!(asked, Err(MergeError::Missing(_))), "{asked:?}");
    } else {
        let merged = project.merge_watched("m1", &Selection::default(), &moment);
        assert!(merged.unwrap().is_complete());
    }
}

/// Every file is what it was or what it is to be, whole.
fn old_or_new(now: &Snapshot, old: &Snapshot, new: &Snapshot) {
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
    for (path, held) in old {
        let stays = new.get(path) == Some(held);
        assert!(
            !stays || now.get(path) == Some(held),
            "{} is gone",
            path.display()
        );
    }
}

fn complete(outcomes: &[airlock_merge::MergeOutcome]) -> bool {
    outcomes
        .iter()
        .all(airlock_merge::MergeOutcome::is_complete)
}

/// Carries on what a process left, which leads from `from` to `to`: all of it or nothing, and once.
/// Whether it was begun.
fn recovered(project: &Project, id: &str, from: &Snapshot, to: &Snapshot) -> bool {
    old_or_new(&project.snapshot(), from, to);
    assert!(complete(&project.merges().recover().unwrap()));
    assert!(
        project.merges().recover().unwrap().is_empty(),
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

/// How many moments are tried where all of them would take hours; `AIRLOCK_CRASH_MOMENTS` asks for
/// more.
#[expect(
    clippy::disallowed_methods,
    reason = "whoever has the time says so in the environment"
)]
fn asked_for() -> usize {
    let asked = std::env::var("AIRLOCK_CRASH_MOMENTS").ok();
    asked.and_then(|asked| asked.parse().ok()).unwrap_or(24)
}

/// All moments of so many would take hours; these are every so-manieth of all of them, from the
/// first to the last.
#[test]
fn a_merge_of_five_thousand_files_survives_death_anywhere() {
    let all = moments(&project(5_000, 0));
    assert!(all > 15_000, "{all} moments");
    let tried = asked_for();
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

/// Whoever carries on dies as well, each time a little later: the last one still finds its way.
#[test]
fn a_recovery_that_dies_again_and_again_is_carried_on() {
    for (files, step) in [(50, 11), (5_000, 1_301)] {
        let project = project(files, 3);
        let (old, new) = (
            project.snapshot(),
            crate::project::snapshot(&project.staged()),
        );
        let all = files * 5;
        assert!(!elsewhere(&project, files + files / 2, What::Merge));
        let mut died = 0;
        while died < all && !elsewhere(&project, died * step, What::Recover) {
            old_or_new(&project.snapshot(), &old, &new);
            died += 1;
        }
        assert!(died > 3, "{files}: it died {died} times");
        assert!(recovered(&project, "m1", &old, &new), "{files}");
        assert!(project.undo("u1", None).unwrap().is_complete());
        assert_eq!(project.snapshot(), old, "{files}");
    }
}

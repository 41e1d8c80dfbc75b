//! The process dies in the middle, at every point where that could make a difference.

use crate::project::{Held, Project, Snapshot, put};
use airlock_merge::Selection;
use std::cell::Cell;
use std::path::Path;
use std::process::Command;

const PLACE: &str = "AIRLOCK_TEST_MERGE_PLACE";
const LIVES: &str = "AIRLOCK_TEST_MERGE_LIVES";
const UNDO: &str = "AIRLOCK_TEST_MERGE_UNDO";

/// A third changed, a third deleted, a third added.
fn project(files: usize) -> Project {
    let project = Project::new();
    std::fs::create_dir_all(project.root.join("empty")).unwrap();
    for file in 0..files {
        if file % 3 != 2 {
            project.write(&format!("d{}/{file}", file % 7), &format!("old {file}"));
        }
    }
    let staged = project.staged();
    std::fs::remove_dir(staged.join("empty")).unwrap();
    for file in 0..files {
        let path = staged.join(format!("d{}/{file}", file % 7));
        match file % 3 {
            0 => put(&path, &format!("new {file}")),
            1 => std::fs::remove_file(&path).unwrap(),
            _ => put(&path, &format!("added {file}")),
        }
    }
    project
}

#[expect(
    clippy::disallowed_methods,
    reason = "a process that dies has to be another one"
)]
/// Merges in a process that is killed at its `lives`-th moment. Whether it lived to the end.
fn merge_elsewhere(project: &Project, lives: usize, undo: bool) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "crash::a_process_that_dies", "--nocapture"])
        .env(PLACE, project.place())
        .env(LIVES, lives.to_string());
    if undo {
        command.env(UNDO, "yes");
    }
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
    if std::env::var(UNDO).is_ok() {
        let now = airlock_core::Timestamp::from_micros(3);
        let undone = project.merges().undo_watched("u1", None, now, &moment);
        assert!(undone.unwrap().is_complete());
    } else {
        let merged = project.merge_watched("m1", &Selection::default(), &moment);
        assert!(merged.unwrap().is_complete());
    }
}

/// Every file is what it was or what it is to be, whole.
fn old_or_new(now: &Snapshot, old: &Snapshot, new: &Snapshot) {
    for (path, held) in now {
        let ours = path.to_string_lossy().contains(".airlock-");
        let known = old.get(path) == Some(held) || new.get(path) == Some(held);
        // A directory's mode comes last.
        assert!(
            ours || known || matches!(held, Held::Directory(_)),
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

/// Kills a merge at moment `lives`, checks, completes it, undoes it. Whether it lived.
fn die_once(files: usize, lives: usize) -> bool {
    let project = project(files);
    let (old, new) = (
        project.snapshot(),
        crate::project::snapshot(&project.staged()),
    );
    let whole = merge_elsewhere(&project, lives, false);
    old_or_new(&project.snapshot(), &old, &new);
    let recovered = project.merges().recover().unwrap();
    assert!(
        recovered
            .iter()
            .all(airlock_merge::MergeOutcome::is_complete)
    );
    assert!(
        project.merges().recover().unwrap().is_empty(),
        "once is enough"
    );
    if project.merges().list().unwrap().is_empty() {
        assert_eq!(
            project.snapshot(),
            old,
            "nothing was begun, nothing is changed"
        );
        assert!(
            project
                .merge("m1", &Selection::default())
                .unwrap()
                .is_complete()
        );
    }
    assert_eq!(project.snapshot(), new);

    merge_elsewhere(&project, lives, true);
    old_or_new(&project.snapshot(), &new, &old);
    project.merges().recover().unwrap();
    if project.snapshot() != old {
        project.undo("u1", None).unwrap();
    }
    assert_eq!(project.snapshot(), old, "and back, to the byte");
    whole
}

#[test]
fn a_merge_of_one_file_survives_death_at_every_moment() {
    let mut lives = 0;
    while !die_once(1, lives) {
        lives += 1;
    }
    assert!(lives > 6, "it died {lives} times");
}

#[test]
fn a_merge_of_fifty_files_survives_death_at_every_moment() {
    let mut lives = 0;
    while !die_once(50, lives) {
        lives += 1;
    }
    assert!(lives > 200, "it died {lives} times");
}

/// All moments of so many would take hours; these are spread over the whole of it.
#[test]
fn a_merge_of_five_thousand_files_survives_death_anywhere() {
    for lives in [1, 4_999, 5_002, 9_000, 15_000] {
        assert!(!die_once(5_000, lives), "moment {lives} is within it");
    }
}

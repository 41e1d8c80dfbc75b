//! A commit that is merged: objects first, the branch last, under git's own lock, and back again.

use crate::project::{Project, put};
use airlock_merge::{EntryOutcome, MergeOutcome, Selection};
use std::cell::RefCell;
use std::path::Path;

const OLD: &str = "1111111111111111111111111111111111111111\n";
const NEW: &str = "2222222222222222222222222222222222222222\n";
const OTHER: &str = "3333333333333333333333333333333333333333\n";

/// A branch with a commit, and a stage that moves it to another.
fn committed() -> Project {
    let project = Project::new();
    project.write(".git/HEAD", "ref: refs/heads/main\n");
    project.write(".git/refs/heads/main", OLD);
    project.write(".git/objects/11/old", "old");
    project.write("src/a.rs", "old\n");
    let stage = project.staged();
    put(&stage.join(".git/refs/heads/main"), NEW);
    put(&stage.join(".git/objects/22/new"), "new");
    put(&stage.join("src/a.rs"), "new\n");
    put(&stage.join("zebra"), "new\n");
    project
}

fn main_of(project: &Project) -> String {
    std::fs::read_to_string(project.root.join(".git/refs/heads/main")).unwrap()
}

fn left(outcome: &MergeOutcome) -> Vec<(&Path, &str)> {
    let results = outcome.entries.iter();
    results
        .filter_map(|entry| match &entry.result {
            EntryOutcome::Merged => None,
            EntryOutcome::Conflict { why } | EntryOutcome::Failed { why } => {
                Some((entry.path.as_path(), why.as_str()))
            }
        })
        .collect()
}

#[test]
fn objects_come_first_and_the_branch_moves_last_under_its_lock() {
    let project = committed();
    let seen = RefCell::new(Vec::new());
    let root = project.root.clone();
    let lock = root.join(".git/refs/heads/main.lock");
    let watch = |moment: &'static str| {
        let there = |path: &str| root.join(path).exists();
        let moved = std::fs::read_to_string(root.join(".git/refs/heads/main")).unwrap() == NEW;
        let text = std::fs::read_to_string(root.join("src/a.rs")).unwrap();
        let source = text == "new\n";
        assert!(
            !source || there(".git/objects/22/new"),
            "files before objects"
        );
        assert!(
            !moved || (source && there("zebra")),
            "the branch before the files"
        );
        if moment == "locked" {
            assert!(std::fs::symlink_metadata(&lock).is_ok());
        }
        seen.borrow_mut().push(moment);
    };
    let outcome = project
        .merge_watched("m", &Selection::default(), &watch)
        .unwrap();
    assert!(outcome.is_complete(), "{outcome:?}");
    assert!(seen.borrow().contains(&"locked"));
    assert!(std::fs::symlink_metadata(&lock).is_err());
    assert_eq!(main_of(&project), NEW);
}

#[test]
fn an_undo_moves_the_branch_back_and_leaves_the_objects() {
    let project = committed();
    project.merge("m", &Selection::default()).unwrap();
    let undone = project.undo("u", None).unwrap();
    assert!(undone.is_complete(), "{undone:?}");
    assert_eq!(main_of(&project), OLD);
    assert!(project.root.join(".git/objects/22/new").exists());
    assert!(!project.root.join("zebra").exists());
}

#[test]
fn a_branch_that_somebody_moved_stays_where_they_put_it() {
    let project = committed();
    project.merge("m", &Selection::default()).unwrap();
    project.write(".git/refs/heads/main", OTHER);
    let undone = project.undo("u", None).unwrap();
    assert_eq!(main_of(&project), OTHER);
    assert_eq!(left(&undone).len(), 1, "{undone:?}");
    assert_eq!(
        std::fs::read_to_string(project.root.join("src/a.rs")).unwrap(),
        "old\n"
    );

    let project = committed();
    let root = project.root.clone();
    let meddle = |moment: &'static str| {
        if moment == "journal" {
            put(&root.join(".git/refs/heads/main"), OTHER);
        }
    };
    let outcome = project
        .merge_watched("m", &Selection::default(), &meddle)
        .unwrap();
    assert_eq!(main_of(&project), OTHER);
    assert_eq!(
        left(&outcome),
        [(
            Path::new(".git/refs/heads/main"),
            "it was changed meanwhile"
        )]
    );
}

#[test]
fn while_git_holds_the_lock_the_branch_is_left_alone() {
    let project = committed();
    let lock = project.root.join(".git/refs/heads/main.lock");
    let root = project.root.clone();
    let meddle = |moment: &'static str| {
        if moment == "journal" {
            put(&root.join(".git/refs/heads/main.lock"), "");
        }
    };
    let outcome = project
        .merge_watched("m", &Selection::default(), &meddle)
        .unwrap();
    assert_eq!(main_of(&project), OLD);
    assert_eq!(
        left(&outcome),
        [(Path::new(".git/refs/heads/main"), "git is at work on it")]
    );
    assert!(lock.exists(), "another's lock was taken away");
}

/// Whoever dies holding the lock is followed by somebody who cannot bring what the branch would
/// name: the merge ends without it, and must not leave git locked out.
#[test]
fn a_lock_left_by_an_interrupted_try_goes_even_if_the_branch_is_not_moved() {
    for dies_at in ["locked", "written", "ready"] {
        let project = committed();
        let heads = project.root.join(".git/refs/heads");
        let armed = std::cell::Cell::new(false);
        let die = |moment: &'static str| {
            if moment == "locked" {
                armed.set(true);
            }
            assert!(!armed.get() || moment != dies_at, "killed");
        };
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            project.merge_watched("m", &Selection::default(), &die)
        }));
        assert!(died.is_err(), "it did not come to `{dies_at}`");
        assert!(std::fs::symlink_metadata(heads.join("main.lock")).is_ok());
        let object = project.root.join(".git/objects/22/new");
        std::fs::remove_file(&object).unwrap();
        std::fs::create_dir(&object).unwrap();
        let recovered = project.merges().recover().unwrap().ended;
        let main = (
            Path::new(".git/refs/heads/main"),
            "what it would name could not be brought",
        );
        let told = recovered.iter().any(|(_, one)| left(one).contains(&main));
        assert!(told, "{recovered:?}");
        assert_eq!(main_of(&project), OLD);
        let there = std::fs::read_dir(&heads).unwrap();
        let there: Vec<_> = there.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(there, ["main"], "after `{dies_at}`");
    }
}

#[test]
fn a_packed_branch_that_moved_meanwhile_is_noticed() {
    let project = Project::new();
    project.write(
        ".git/packed-refs",
        &format!("{} refs/heads/main\n", OLD.trim()),
    );
    std::fs::create_dir_all(project.root.join(".git/refs/heads")).unwrap();
    let stage = project.staged();
    put(&stage.join(".git/refs/heads/main"), NEW);
    let root = project.root.clone();
    let meddle = |moment: &'static str| {
        if moment == "journal" {
            put(
                &root.join(".git/packed-refs"),
                &format!("{} refs/heads/main\n", OTHER.trim()),
            );
        }
    };
    let outcome = project
        .merge_watched("m", &Selection::default(), &meddle)
        .unwrap();
    assert!(
        !project.root.join(".git/refs/heads/main").exists(),
        "{outcome:?}"
    );
    assert_eq!(left(&outcome).len(), 1);
}

//! A commit that was made in a stage, and a person who went on working in the repository meanwhile:
//! a branch that they moved stays where they put it, and one they left is not moved behind them.

use crate::committed::{commit, git};
use crate::project::{Project, put};
use airlock_merge::{EntryOutcome, Selection};
use std::path::Path;

const MAIN: &str = ".git/refs/heads/main";

/// A repository whose branch has no file of its own, as after `git clone` or `git gc`, and a stage
/// with `commits` more on it. The last of them.
fn staged(commits: usize) -> (Project, String) {
    let project = Project::new();
    let root = &project.root;
    git(root, &["init", "-q", "-b", "main", "--template="]);
    put(&root.join("kept"), "kept\n");
    let mut last = commit(root, None);
    pack(root);
    let stage = project.staged();
    for number in 0..commits {
        put(&stage.join("staged"), &format!("{number}\n"));
        last = commit(&stage, Some(&last));
    }
    (project, last)
}

fn pack(root: &Path) {
    git(root, &["pack-refs", "--all", "--prune"]);
    assert!(!root.join(MAIN).exists(), "it is packed");
}

/// The person commits something else, on whatever branch they are.
fn commits_too(root: &Path) -> String {
    put(&root.join("theirs"), "theirs\n");
    let parent = git(root, &["rev-parse", "main"]);
    let theirs = commit(root, Some(&parent));
    pack(root);
    theirs
}

/// Why the branch was left, if it was.
fn left_because(project: &Project, moment: &dyn Fn(&'static str)) -> Option<String> {
    let outcome = project.merge_watched("m", &Selection::default(), moment);
    let entries = outcome.unwrap().entries.into_iter();
    let mut main = entries.filter(|entry| entry.path.as_path() == Path::new(MAIN));
    match main.next().unwrap().result {
        EntryOutcome::Merged => None,
        EntryOutcome::Conflict { why } | EntryOutcome::Failed { why } => Some(why),
    }
}

fn main_of(project: &Project) -> String {
    git(&project.root, &["rev-parse", "refs/heads/main"])
}

#[test]
fn a_packed_branch_that_was_moved_after_the_commit_stays() {
    let (project, _) = staged(1);
    let theirs = commits_too(&project.root);
    let why = left_because(&project, &|_| {});
    assert_eq!(main_of(&project), theirs, "their commit is off the branch");
    assert_eq!(
        why.as_deref(),
        Some("it was moved since the commit was made")
    );
}

#[test]
fn packing_other_refs_does_not_keep_a_branch_from_moving() {
    let (project, last) = staged(3);
    git(&project.root, &["tag", "theirs"]);
    pack(&project.root);
    assert_eq!(left_because(&project, &|_| {}), None);
    assert_eq!(main_of(&project), last);
}

#[test]
fn a_commit_that_only_says_so_stands_on_nothing() {
    let (project, _) = staged(1);
    let theirs = commits_too(&project.root);
    // What the branch of the stage names is no commit, whatever is written in it.
    let text = format!("parent {theirs}\n");
    let stage = project.staged();
    put(&stage.join("note"), &text);
    let blob = git(&stage, &["hash-object", "-w", "note"]);
    put(&stage.join(MAIN), &format!("{blob}\n"));
    assert!(left_because(&project, &|_| {}).is_some());
    assert_eq!(main_of(&project), theirs);
}

#[test]
fn a_branch_that_is_no_longer_checked_out_stays() {
    let (project, _) = staged(1);
    let first = main_of(&project);
    git(&project.root, &["switch", "-q", "-c", "other"]);
    let why = left_because(&project, &|_| {});
    assert_eq!(main_of(&project), first);
    assert_eq!(why.as_deref(), Some("another branch is checked out by now"));
}

#[test]
fn a_branch_that_is_checked_out_again_moves() {
    let (project, last) = staged(1);
    git(&project.root, &["switch", "-q", "-c", "other"]);
    git(&project.root, &["switch", "-q", "main"]);
    assert_eq!(left_because(&project, &|_| {}), None);
    assert_eq!(main_of(&project), last);
}

#[test]
fn a_branch_that_was_never_checked_out_moves() {
    let (project, last) = staged(1);
    let stage = project.staged();
    git(&stage, &["branch", "new", &last]);
    assert_eq!(left_because(&project, &|_| {}), None);
    assert_eq!(git(&project.root, &["rev-parse", "new"]), last);
}

#[test]
fn whoever_switches_in_the_last_moment_is_noticed_under_the_lock() {
    let (project, _) = staged(1);
    let first = main_of(&project);
    let root = project.root.clone();
    let switch = |moment: &'static str| {
        if moment == "locked" {
            git(&root, &["switch", "-q", "-c", "other"]);
        }
    };
    let why = left_because(&project, &switch);
    assert_eq!(main_of(&project), first);
    assert_eq!(why.as_deref(), Some("another branch is checked out by now"));
    let lock = project.root.join(".git/refs/heads/main.lock");
    assert!(std::fs::symlink_metadata(lock).is_err(), "it is let go");
}

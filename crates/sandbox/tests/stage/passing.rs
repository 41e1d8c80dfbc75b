//! Stages that are there for some runs only: held, seen by nobody, and gone with whoever made them.

use super::support::owner;
use airlock_sandbox::stage::{StageError, Stages};
use std::path::PathBuf;
use tempfile::TempDir;

/// A workspace, and where its stages are.
fn place() -> (TempDir, PathBuf, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let (workspace, stages) = (temp.path().join("workspace"), temp.path().join("stages"));
    std::fs::create_dir(&workspace).unwrap();
    (temp, workspace, stages)
}

#[test]
fn one_that_is_held_or_in_use_stays_and_goes_with_the_next_opening_afterwards() {
    let (_temp, workspace, place) = place();
    let stages = Stages::open(&place).unwrap();
    let passing = stages.make_passing("merged", &workspace, owner()).unwrap();
    let name = passing.name().to_string();
    let is_there = || {
        let opened = Stages::open(&place).unwrap();
        opened.find_any(&name).unwrap().is_some()
    };
    assert!(is_there(), "it is held");
    let mut stage = stages.find_any(&name).unwrap().unwrap();
    let claim = stage.claim().unwrap();
    std::fs::write(stage.layers().upper.join("written"), "a\n").unwrap();
    drop(passing);
    assert!(is_there(), "a sandbox has it");
    drop(claim);
    assert!(!is_there(), "nobody has it");
    let left = std::fs::read_dir(&place).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".making"]);
}

#[test]
fn it_is_made_by_whoever_holds_it_and_found_by_its_name_alone() {
    let (_temp, workspace, place) = place();
    let stages = Stages::open(&place).unwrap();
    let passing = stages.make_passing("tree", &workspace, owner()).unwrap();
    let name = passing.name().as_str();
    assert!(stages.list().unwrap().is_empty());
    assert!(matches!(stages.find(name), Err(StageError::Name(_))));
    assert!(matches!(stages.drop_stage(name), Err(StageError::Name(_))));
    let opened = stages.open_or_create(name, &workspace, owner()).unwrap();
    assert_eq!(opened.name(), passing.name());
    stages.drop_passing(&passing).unwrap();
    let made = stages.open_or_create(name, &workspace, owner());
    assert!(matches!(made, Err(StageError::Missing(_))), "{made:?}");
    let other = stages.make_passing("tree", &workspace, owner()).unwrap();
    assert_ne!(other.name(), passing.name());
}

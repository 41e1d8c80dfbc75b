//! What every tool there is can be called with, for the tests of every entry to the kernel.
//!
//! A tool that is not listed fails them: it must be thought about.

use airlock_core::{Digest, Timestamp};
use airlock_merge::{Merges, Selection};
use airlock_sandbox::stage::{DiffOptions, Setup, Stage, Stages};
use serde_json::{Map, Value, json};
use std::path::Path;

/// The arguments of each tool in the workspace `root`, which has a file `a.txt`, with its state in
/// `home`. Makes the stage and the merge that merging looks for before it is even decided.
pub(crate) fn arguments(home: &Path, root: &Path) -> Map<String, Value> {
    let mut every: Map<String, Value> = serde_json::from_str(include_str!("every.json")).unwrap();
    let (mut stage, digest) = changed_stage(home, root);
    let all = Merges::new(&home.join("merges"), root);
    let (everything, now) = (Selection::default(), Timestamp::from_micros(1));
    let done = all.merge("merged", &mut stage, &everything, digest, now);
    // Once merged, it is there for whoever asks next.
    let complete = done.is_ok_and(|done| done.is_complete());
    assert!(complete || all.list().is_ok_and(|all| !all.is_empty()));
    drop(stage);
    std::fs::remove_file(root.join("b.txt")).ok();
    let (_, digest) = changed_stage(home, root);
    let apply = json!({ "stage": "changed", "digest": digest });
    every.insert("merge.apply".to_owned(), apply);
    every
}

/// A stage with one change, and what a review of it is of.
fn changed_stage(home: &Path, root: &Path) -> (Stage, Digest) {
    let all = Stages::open(&home.join("stages")).unwrap();
    let owner = airlock_sandbox::stage_owner();
    let stage = all
        .open_or_create_as("changed", root, owner, Setup::COPY)
        .unwrap();
    std::fs::write(stage.layers().upper.join("b.txt"), "b\n").unwrap();
    let digest = Selection::default().reviewed(&stage.diff(&DiffOptions::default()).unwrap());
    (stage, digest)
}

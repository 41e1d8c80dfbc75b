//! What one stage changes, laid into another: just that, written anew.

use super::support::{Bench, every_kind_of_marks, on_every_overlay, owner};
use airlock_sandbox::stage::{
    ChangeKind, Diff, DiffOptions, Facts, Laid, Setup, Stage, StageKind, Stages,
};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What is at each changed path; none where nothing is.
fn after(diff: &Diff) -> Laid<'_> {
    let mut found = Laid::new();
    for change in &diff.changes {
        if let ChangeKind::Renamed { from } = &change.kind {
            found.entry(from.as_path()).or_default();
        }
        found.insert(change.path.as_path(), change.new.as_ref());
    }
    found
}

fn owned(laid: &Laid<'_>) -> BTreeMap<PathBuf, Option<Facts>> {
    let all = laid.iter();
    all.map(|(path, facts)| (path.to_path_buf(), facts.cloned()))
        .collect()
}

/// Another stage of the same tree, with the changes that are `wanted`.
fn laid(bench: &Bench, wanted: impl Fn(&Path) -> bool) -> Stage {
    let stages = Stages::open(bench.upper().ancestors().nth(2).unwrap()).unwrap();
    let setup = Setup {
        marks: Some(bench.stage.marks()),
        ..Setup::OVERLAY
    };
    let workspace = bench.workspace();
    let made = stages.open_or_create_as("other", &workspace, owner(), setup);
    let mut made = made.unwrap();
    let diff = bench.diff();
    let mut changes = after(&diff);
    changes.retain(|path, _| wanted(path));
    let claim = made.claim().unwrap();
    made.lay(&bench.stage, &changes, &claim).unwrap();
    drop(claim);
    made
}

fn diff(stage: &Stage) -> Diff {
    stage.diff(&DiffOptions::default()).unwrap()
}

const TREE: &str = "mkdir -p kept gone/deep replaced turned; \
    for f in file deleted moved mode kept/a gone/a gone/deep/b replaced/old turned/in; do \
    echo $f >$f; done; ln -s file link; ln -s file relinked";
const CHANGES: &str = "echo staged >file; rm deleted; mkdir -p new/deep; mv moved new/moved; \
    chmod 755 mode; echo more >new/deep/made; rm -r gone replaced turned; mkdir replaced; \
    echo new >replaced/new; echo now >turned; rm link relinked; mkdir link; echo in >link/in; \
    ln -s kept relinked; chmod 700 kept; : >empty; mkdir bare";

#[test]
fn every_kind_of_change_is_laid_as_it_is() {
    on_every_overlay(TREE, |bench| {
        bench.inside(CHANGES);
        let other = laid(&bench, |_| true);
        assert_eq!(other.kind(), StageKind::Overlay);
        let (was, is) = (bench.diff(), diff(&other));
        assert_eq!(owned(&after(&is)), owned(&after(&was)));
        assert!(is.refused.is_empty() && is.conflicts.is_empty(), "{is:?}");
    });
}

#[test]
fn what_is_not_laid_is_as_in_the_real_tree_also_beneath_what_goes() {
    let tree = "mkdir -p both/in; echo a >both/a; echo b >both/in/ignored; echo x >ignored";
    on_every_overlay(tree, |bench| {
        bench.inside("rm -r both; echo y >ignored; echo n >new; echo z >more-ignored");
        let other = laid(&bench, |path| !path.to_string_lossy().contains("ignored"));
        let is = diff(&other);
        let paths: Vec<PathBuf> = owned(&after(&is)).into_keys().collect();
        assert_eq!(paths, [Path::new("both/a"), Path::new("new")]);
    });
}

#[test]
fn what_is_laid_has_the_date_of_now() {
    for marks in every_kind_of_marks() {
        let bench = Bench::new("echo one >file", marks);
        bench.inside("echo two >file; touch -d 2020-01-01 file");
        let begun = std::fs::metadata(bench.workspace().join("file")).unwrap();
        let other = laid(&bench, |_| true);
        let file = other.open_changed(Path::new("file")).unwrap();
        assert!(file.metadata().unwrap().mtime() >= begun.mtime());
    }
}

//! What was not read is not merged, whoever said yes to it.

use crate::project::{Project, put};
use airlock_core::Timestamp;
use airlock_merge::{MergeError, MergeOutcome, Selection};
use airlock_sandbox::stage::{DiffOptions, TreePath};
use std::path::Path;

/// A hundred bytes are read of a file at most, fifty whatever the others come to.
fn limits() -> DiffOptions {
    DiffOptions {
        max_file_bytes: 100,
        always_read_bytes: 50,
        max_total_bytes: 150,
        ..DiffOptions::default()
    }
}

fn merge(project: &Project, id: &str, paths: &[&str]) -> Result<MergeOutcome, MergeError> {
    let merges = project.merges().reading(limits());
    let mut stage = project.stage();
    let paths = paths.iter().map(|path| TreePath::from(Path::new(path)));
    let selection = Selection {
        paths: Some(paths.collect()),
        ..Selection::default()
    };
    let reviewed = selection.reviewed(&merges.diff(&stage).unwrap());
    let now = Timestamp::from_micros(1);
    merges.merge(id, &mut stage, &selection, reviewed, now)
}

fn unread(merged: &Result<MergeOutcome, MergeError>, names: &[&str]) -> bool {
    let Err(MergeError::Unread { path }) = merged else {
        return false;
    };
    names.iter().any(|name| path.as_path() == Path::new(name))
}

#[test]
fn a_file_that_is_too_long_to_be_read_is_refused_and_the_others_come() {
    let project = Project::new();
    project.write("turns", "short");
    let staged = project.staged();
    for (name, length) in [("longest", 100), ("long", 101), ("turns", 101)] {
        put(&staged.join(name), &"x".repeat(length));
    }
    let before = project.snapshot();
    for (paths, name) in [
        (&["long"][..], "long"),
        (&["longest", "long"], "long"),
        (&["turns"], "turns"),
    ] {
        let merged = merge(&project, "m1", paths);
        assert!(unread(&merged, &[name]), "{paths:?}: {merged:?}");
        assert_eq!(project.snapshot(), before, "{paths:?}");
        assert!(!project.merges().has_unfinished(), "{paths:?}");
    }
    assert!(merge(&project, "m1", &["longest"]).unwrap().is_complete());
    let merged = std::fs::read_to_string(project.root.join("longest")).unwrap();
    assert_eq!(merged, "x".repeat(100));
}

#[test]
fn what_is_too_much_together_is_refused_and_what_is_short_comes() {
    let project = Project::new();
    let staged = project.staged();
    for name in ["long-1", "long-2"] {
        put(&staged.join(name), &name.repeat(16));
    }
    for name in ["short-1", "short-2", "short-3", "short-4"] {
        put(&staged.join(name), &"x".repeat(50));
    }
    let long = ["long-1", "long-2"];
    let merged = merge(&project, "m1", &long);
    assert!(unread(&merged, &long), "{merged:?}");
    let short = ["short-1", "short-2", "short-3", "short-4"];
    assert!(merge(&project, "m1", &short).unwrap().is_complete());
}

/// Nothing of it comes into the tree, and all of it can come back.
#[test]
fn a_file_that_is_too_long_to_be_read_may_go() {
    let project = Project::new();
    for name in ["goes", "shrinks"] {
        project.write(name, &"x".repeat(200));
    }
    let before = project.snapshot();
    let staged = project.staged();
    std::fs::remove_file(staged.join("goes")).unwrap();
    put(&staged.join("shrinks"), "short");
    assert!(
        merge(&project, "m1", &["goes", "shrinks"])
            .unwrap()
            .is_complete()
    );
    assert!(!project.root.join("goes").exists());
    project.undo("u1", None).unwrap();
    assert_eq!(project.snapshot(), before);
}

#[test]
fn what_is_unread_is_told_with_the_limits_there_are() {
    let limits = DiffOptions::default();
    assert_eq!(limits.max_file_bytes, 256 << 20);
    assert_eq!(limits.always_read_bytes, 64 << 10);
    assert_eq!(limits.max_total_bytes, 4 << 30);
    let path = TreePath::from(Path::new("large"));
    let error = MergeError::Unread { path };
    let told = error.to_string();
    for part in ["`large`", "256 MiB", "64 KiB", "4 GiB"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(error.hint().is_some());
}

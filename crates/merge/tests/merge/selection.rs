//! Some of a stage and not the rest.

use crate::project::{Project, put};
use airlock_merge::{MergeError, Selection};
use airlock_sandbox::stage::{DiffOptions, TreePath};
use std::collections::BTreeMap;
use std::path::Path;

fn tree(path: &str) -> TreePath {
    TreePath::from(Path::new(path))
}

fn only(paths: &[&str]) -> Selection {
    Selection {
        paths: Some(paths.iter().map(|path| tree(path)).collect()),
        ..Selection::default()
    }
}

fn three_changes() -> Project {
    let project = Project::new();
    let lines: Vec<String> = (1..=30).map(|line| format!("{line}\n")).collect();
    let lines = lines.concat();
    project.write("text", &lines);
    project.write("other", "old");
    let staged = project.staged();
    put(
        &staged.join("text"),
        &lines
            .replace("2\n3\n", "two\n3\n")
            .replace("29\n", "nine\n"),
    );
    put(&staged.join("other"), "new");
    put(&staged.join("fresh/deep/file"), "new");
    project
}

#[test]
fn a_chosen_file_brings_its_directories_and_nothing_else() {
    let project = three_changes();
    let merged = project.merge("m1", &only(&["fresh/deep/file"])).unwrap();
    assert_eq!(merged.merged(), 3, "two directories and the file");
    assert!(project.root.join("fresh/deep/file").is_file());
    let other = std::fs::read_to_string(project.root.join("other")).unwrap();
    assert_eq!(other, "old");
    let rest = project.stage().diff(&DiffOptions::default()).unwrap();
    let rest: Vec<_> = rest.changes.iter().map(|change| &change.path).collect();
    assert_eq!(rest, [&tree("other"), &tree("text")]);
}

#[test]
fn a_chosen_directory_brings_what_is_in_it() {
    let project = three_changes();
    let merged = project.merge("m1", &only(&["fresh"])).unwrap();
    assert_eq!(merged.merged(), 3);
}

#[test]
fn chosen_hunks_come_and_the_others_wait() {
    let project = three_changes();
    let hunks = BTreeMap::from([(tree("text"), vec![1])]);
    let selection = Selection {
        hunks,
        ..Selection::default()
    };
    let merged = project.merge("m1", &selection).unwrap();
    assert_eq!(merged.merged(), 1);
    let text = std::fs::read_to_string(project.root.join("text")).unwrap();
    assert!(text.contains("nine\n") && !text.contains("two\n"), "{text}");
    project.undo("u1", None).unwrap();
    let text = std::fs::read_to_string(project.root.join("text")).unwrap();
    assert!(!text.contains("nine\n"), "{text}");
}

#[test]
fn what_is_not_changed_cannot_be_chosen() {
    let project = three_changes();
    let before = project.snapshot();
    for path in [
        "nonesuch",
        "tex",
        "text/deeper",
        "../work/text",
        "/etc/passwd",
    ] {
        assert!(
            matches!(
                project.merge("m1", &only(&[path])),
                Err(MergeError::NotChanged(_))
            ),
            "{path}"
        );
    }
    for (path, hunk) in [("text", 2), ("fresh/deep/file", 0)] {
        let selection = Selection {
            hunks: BTreeMap::from([(tree(path), vec![hunk])]),
            ..Selection::default()
        };
        assert!(matches!(
            project.merge("m1", &selection),
            Err(MergeError::NoHunk { .. })
        ));
    }
    assert_eq!(project.snapshot(), before);
}

#[test]
fn only_what_was_reviewed_is_merged() {
    let project = three_changes();
    let before = project.snapshot();
    let mut stage = project.stage();
    let seen = airlock_merge::review_digest(&stage.diff(&DiffOptions::default()).unwrap());
    put(
        &project.staged().join("other"),
        "slipped in after the review",
    );
    let now = airlock_core::Timestamp::from_micros(1);
    let merged = project
        .merges()
        .merge("m1", &mut stage, &Selection::default(), seen, now);
    assert!(matches!(merged, Err(MergeError::ChangedSinceReview)));
    assert_eq!(project.snapshot(), before);
    assert!(!project.merges().has_unfinished());
}

#[test]
fn what_changed_on_both_sides_is_left_unless_it_is_meant() {
    let project = three_changes();
    project.write("other", "edited by hand");
    let merged = project.merge("m1", &Selection::default()).unwrap();
    let left: Vec<_> = merged.left().map(|entry| &entry.path).collect();
    assert_eq!(left, [&tree("other")]);
    let text = || std::fs::read_to_string(project.root.join("other")).unwrap();
    assert_eq!(text(), "edited by hand");

    let meant = Selection {
        overwrite: true,
        ..only(&["other"])
    };
    assert!(project.merge("m2", &meant).unwrap().is_complete());
    assert_eq!(text(), "new");
    project.undo("u1", Some("m2")).unwrap();
    assert_eq!(text(), "edited by hand", "and even that can be undone");
}

//! Some of a stage and not the rest.

use crate::project::{Project, mode, put};
use airlock_merge::{MergeError, Selection};
use airlock_sandbox::stage::{DiffOptions, Stage, TreePath};
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

fn alone(path: &str) -> Selection {
    Selection {
        exactly: true,
        ..only(&[path])
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

/// Directories that come, go, move and are changed, each with something in it.
fn changed_directories() -> Project {
    let project = Project::new();
    for (path, text) in [
        ("goes/inside", "gone"),
        ("from/one", "the first of two that move"),
        ("from/two", "the second of two that move"),
        ("closes/inside", "old"),
        ("opens", "a file"),
    ] {
        project.write(path, text);
    }
    mode(&project.root.join("closes"), 0o755);
    let staged = project.staged();
    std::fs::remove_dir_all(staged.join("goes")).unwrap();
    std::fs::rename(staged.join("from"), staged.join("to")).unwrap();
    put(&staged.join("closes/inside"), "new");
    mode(&staged.join("closes"), 0o700);
    std::fs::remove_file(staged.join("opens")).unwrap();
    put(&staged.join("opens/inside"), "new");
    put(&staged.join("comes/inside"), "new");
    project
}

#[test]
fn a_path_that_is_meant_alone_brings_nothing_that_is_in_it() {
    // The path, what is changed by choosing it, and what is left.
    let cases: [(&str, &[&str], &[&str]); 10] = [
        ("comes", &["comes"], &[]),
        ("comes/inside", &["comes", "comes/inside"], &[]),
        // What was not chosen is still in there.
        ("goes", &[], &["goes"]),
        ("goes/inside", &["goes/inside"], &[]),
        ("closes", &["closes"], &[]),
        ("closes/inside", &["closes/inside"], &[]),
        ("to/one", &["from/one", "to", "to/one"], &[]),
        ("to", &["to"], &["from"]),
        ("opens", &["opens"], &[]),
        // Nobody said that the file in its place may go.
        ("opens/inside", &[], &["opens/inside"]),
    ];
    for (path, merged, kept) in cases {
        let project = changed_directories();
        let before = project.snapshot();
        let outcome = project.merge("m1", &alone(path)).unwrap();
        assert_eq!(left(&outcome), kept, "{path}");
        let after = project.snapshot();
        let touched = |one: &&std::path::PathBuf| before.get(*one) != after.get(*one);
        let mut changed: Vec<_> = before.keys().chain(after.keys()).filter(touched).collect();
        changed.sort();
        changed.dedup();
        let merged: Vec<&Path> = merged.iter().map(Path::new).collect();
        assert_eq!(changed, merged, "{path}");
    }
    let project = Project::new();
    project.write("same/inside", "old");
    put(&project.staged().join("same/inside"), "new");
    let refused = project.merge("m1", &alone("same"));
    assert!(
        matches!(refused, Err(MergeError::NotChanged(_))),
        "{refused:?}"
    );
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
fn after_some_hunks_the_others_are_no_conflict_and_an_edit_by_hand_is_one() {
    let some = |hunk: usize| Selection {
        hunks: BTreeMap::from([(tree("text"), vec![hunk])]),
        ..Selection::default()
    };
    let text = |project: &Project| std::fs::read_to_string(project.root.join("text")).unwrap();
    for first in [0, 1] {
        let project = three_changes();
        project.merge("m1", &some(first)).unwrap();
        assert_eq!(
            project.merges().diff(&project.stage()).unwrap().conflicts,
            []
        );
        // What is left is counted anew.
        assert!(project.merge("m2", &some(0)).unwrap().is_complete());
        let staged = std::fs::read_to_string(project.staged().join("text")).unwrap();
        assert_eq!(text(&project), staged);
        project.undo("u2", Some("m2")).unwrap();
        assert_eq!(
            project.merges().diff(&project.stage()).unwrap().conflicts,
            []
        );
        project.undo("u1", Some("m1")).unwrap();
        assert!(!text(&project).contains("nine") && !text(&project).contains("two"));
        assert!(
            project
                .merge("m3", &Selection::default())
                .unwrap()
                .is_complete()
        );
        assert_eq!(text(&project), staged);
    }
    let project = three_changes();
    project.merge("m1", &some(0)).unwrap();
    let edited = format!("{}by hand\n", text(&project));
    project.write("text", &edited);
    let merged = project.merge("m2", &Selection::default()).unwrap();
    assert_eq!(left(&merged), ["text"]);
    assert_eq!(text(&project), edited);
}

#[test]
fn what_is_not_changed_cannot_be_chosen() {
    let project = three_changes();
    project.write("gone", "old");
    let all = airlock_sandbox::stage::Stages::open(&project.state.join("stages")).unwrap();
    all.drop_stage("default").unwrap();
    let staged = project.staged();
    std::fs::remove_file(staged.join("gone")).unwrap();
    crate::project::link(&staged.join("link"), "text");
    put(&staged.join("fresh/deep/file"), "new");
    let text = std::fs::read_to_string(staged.join("text")).unwrap();
    let text = text.replace("2\n3\n", "two\n3\n");
    put(&staged.join("text"), &text.replace("29\n", "nine\n"));
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
    for (path, hunk) in [
        ("text", 2),
        ("fresh/deep/file", 0),
        ("fresh", 0),
        ("gone", 0),
        ("link", 0),
    ] {
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
fn a_directory_has_no_hunks_whatever_is_in_it() {
    let project = Project::new();
    project.write("same/inside", "old\n");
    put(&project.staged().join("same/inside"), "new\n");
    let selection = Selection {
        hunks: BTreeMap::from([(tree("same"), vec![0])]),
        ..Selection::default()
    };
    let refused = project.merge("m1", &selection);
    assert!(
        matches!(refused, Err(MergeError::NotChanged(_))),
        "{refused:?}"
    );
}

/// Merges `selection` as it was reviewed with `options`, once `meanwhile` is done.
fn reviewed_first(
    project: &Project,
    selection: &Selection,
    options: &DiffOptions,
    meanwhile: impl FnOnce(&Project),
) -> Result<airlock_merge::MergeOutcome, MergeError> {
    let mut stage: Stage = project.stage();
    let reviewed = selection.reviewed(&stage.diff(options).unwrap());
    meanwhile(project);
    let now = airlock_core::Timestamp::from_micros(1);
    let merges = project.merges();
    merges.merge("m1", &mut stage, selection, reviewed, now)
}

/// What is exchanged, and how.
type Exchange = (&'static str, fn(&Project));

/// Whatever is exchanged between the review and the merge, and however much of it was chosen.
#[test]
fn only_what_was_reviewed_is_merged() {
    let exchanges: [Exchange; 8] = [
        ("content of the same length", |project| {
            put(&project.staged().join("other"), "NEW");
        }),
        ("a line of the same length", |project| {
            let text = project.staged().join("text");
            let lines = std::fs::read_to_string(&text).unwrap();
            put(&text, &lines.replace("two\n", "owt\n"));
        }),
        ("a mode", |project| {
            mode(&project.staged().join("other"), 0o755);
        }),
        ("where a link points", |project| {
            let link = project.staged().join("link");
            std::fs::remove_file(&link).unwrap();
            crate::project::link(&link, "text");
        }),
        ("a file for a link", |project| {
            let other = project.staged().join("other");
            std::fs::remove_file(&other).unwrap();
            crate::project::link(&other, "text");
        }),
        ("a file that goes", |project| {
            std::fs::remove_file(project.staged().join("other")).unwrap();
        }),
        ("a directory that comes", |project| {
            std::fs::create_dir(project.staged().join("more")).unwrap();
        }),
        ("the mode of a directory", |project| {
            mode(&project.staged().join("fresh"), 0o700);
        }),
    ];
    let parted = Selection {
        hunks: BTreeMap::from([(tree("text"), vec![0])]),
        ..Selection::default()
    };
    for selection in [Selection::default(), only(&["text"]), parted] {
        for (what, exchange) in exchanges {
            let project = three_changes();
            crate::project::link(&project.staged().join("link"), "other");
            mode(&project.staged().join("fresh"), 0o755);
            mode(&project.staged().join("other"), 0o644);
            let before = project.snapshot();
            let merged = reviewed_first(&project, &selection, &DiffOptions::default(), exchange);
            assert!(
                matches!(merged, Err(MergeError::ChangedSinceReview)),
                "{what}: {merged:?}"
            );
            assert_eq!(project.snapshot(), before, "{what}");
            assert!(!project.merges().has_unfinished(), "{what}");
        }
    }
}

#[test]
fn what_was_reviewed_as_a_change_of_something_else_is_not_merged() {
    let project = three_changes();
    let selection = Selection {
        overwrite: true,
        ..only(&["other"])
    };
    let edits = |project: &Project| project.write("other", "odd");
    let merged = reviewed_first(&project, &selection, &DiffOptions::default(), edits);
    assert!(
        matches!(merged, Err(MergeError::ChangedSinceReview)),
        "{merged:?}"
    );
    let text = std::fs::read_to_string(project.root.join("other")).unwrap();
    assert_eq!(text, "odd");
}

/// One content can be cut into hunks in several ways: by its numbers a yes would be to other lines.
#[test]
fn hunks_that_are_cut_otherwise_than_they_were_reviewed_are_refused() {
    let wide = DiffOptions {
        context: 20,
        ..DiffOptions::default()
    };
    let project = three_changes();
    let before = project.snapshot();
    let first = Selection {
        hunks: BTreeMap::from([(tree("text"), vec![0])]),
        ..Selection::default()
    };
    let merged = reviewed_first(&project, &first, &wide, |_| {});
    assert!(
        matches!(merged, Err(MergeError::ChangedSinceReview)),
        "{merged:?}"
    );
    assert_eq!(project.snapshot(), before);
    // Whoever takes the whole of it takes the same, however it was cut.
    let merged = reviewed_first(&project, &Selection::default(), &wide, |_| {});
    assert!(merged.unwrap().is_complete());
}

#[test]
fn what_a_command_that_was_cut_off_left_is_merged_once_it_was_judged() {
    let project = three_changes();
    let before = project.snapshot();
    let stage = project.stage();
    // As a supervisor that was killed leaves it: begun and never settled.
    let begun = stage.set_aside(&[], serde_json::json!({})).unwrap();
    let merged = project.merge("m1", &Selection::default());
    assert!(matches!(merged, Err(MergeError::Unjudged(_))), "{merged:?}");
    assert_eq!(project.snapshot(), before);
    stage.settle(begun).unwrap();
    assert!(
        project
            .merge("m1", &Selection::default())
            .unwrap()
            .is_complete()
    );
    assert_ne!(project.snapshot(), before);
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

/// A stage that changes two files and a mode, of which one file and the mode were merged and undone.
fn partly_merged_and_undone(overwrite: bool) -> Project {
    let project = Project::new();
    for (path, text) in [("a", "one\n"), ("b", "two\n"), ("m", "#!/bin/sh\n")] {
        project.write(path, text);
    }
    let staged = project.staged();
    put(&staged.join("a"), "1\n");
    put(&staged.join("b"), "2\n");
    mode(&staged.join("m"), 0o755);
    if overwrite {
        project.write("a", "somebody's\n");
    }
    let some = Selection {
        paths: Some(["a", "m"].map(|path| Path::new(path).into()).to_vec()),
        overwrite,
        ..Selection::default()
    };
    assert!(project.merge("m1", &some).unwrap().is_complete());
    assert!(project.undo("u1", None).unwrap().is_complete());
    project
}

fn left(outcome: &airlock_merge::MergeOutcome) -> Vec<String> {
    let path = |one: &airlock_merge::EntryResult| one.path.as_path().display().to_string();
    outcome.left().map(path).collect()
}

#[test]
fn what_an_undo_put_back_as_it_was_is_no_conflict() {
    let project = partly_merged_and_undone(false);
    let diff = project.merges().diff(&project.stage()).unwrap();
    assert_eq!(diff.conflicts, []);
    let merged = project.merge("m2", &Selection::default()).unwrap();
    assert!(merged.is_complete(), "{merged:?}");
    assert_eq!(
        project.snapshot(),
        crate::project::snapshot(&project.staged())
    );
}

#[test]
fn what_somebody_changed_after_the_undo_is_a_conflict() {
    for change in [
        |project: &Project| project.write("a", "somebody's\n"),
        |project: &Project| mode(&project.root.join("a"), 0o600),
    ] {
        let project = partly_merged_and_undone(false);
        change(&project);
        let before = project.snapshot();
        let merged = project.merge("m2", &Selection::default()).unwrap();
        assert_eq!(left(&merged), ["a"]);
        let a = project.root.join("a");
        assert_eq!(project.snapshot().get(&a), before.get(&a));
    }
}

#[test]
fn what_was_merged_over_is_a_conflict_again_once_that_is_undone() {
    let project = partly_merged_and_undone(true);
    let merged = project.merge("m2", &Selection::default()).unwrap();
    assert!(left(&merged).contains(&"a".to_owned()), "{merged:?}");
    let text = std::fs::read_to_string(project.root.join("a")).unwrap();
    assert_eq!(text, "somebody's\n");
}

#[test]
fn merges_of_an_earlier_stage_of_the_same_name_excuse_nothing() {
    let project = partly_merged_and_undone(false);
    let stages = airlock_sandbox::stage::Stages::open(&project.state.join("stages")).unwrap();
    stages.drop_stage("default").unwrap();
    project.write("a", "between\n");
    put(&project.staged().join("a"), "1\n");
    // What the earlier merge found, but not what this stage began with.
    project.write("a", "one\n");
    let merged = project.merge("m2", &Selection::default()).unwrap();
    assert_eq!(left(&merged), ["a"]);
}

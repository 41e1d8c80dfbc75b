//! What is merged is what the stage has; what is undone is what was.

use crate::project::{Held, Project, link, mode, put};
use airlock_merge::{MergeError, Selection};
use airlock_sandbox::stage::DiffOptions;
use proptest::prelude::*;
use std::path::Path;

/// Every kind of change there is.
fn changed_in_every_way() -> Project {
    let project = Project::new();
    for (path, text) in [
        ("kept", "kept"),
        ("modified", "one\ntwo\n"),
        ("deleted", "gone"),
        ("moved", "a file that moves is told by its content"),
        ("script", "#!/bin/sh\n"),
        ("file-to-link", "x"),
        ("file-to-directory", "x"),
        ("directory-to-file/inside", "y"),
        ("old-directory/a", "1"),
        ("old-directory/deeper/b", "2"),
    ] {
        project.write(path, text);
    }
    std::fs::create_dir_all(project.root.join("empty-that-goes")).unwrap();
    link(&project.root.join("link"), "kept");
    mode(&project.root.join("old-directory"), 0o750);
    mode(&project.root.join("deleted"), 0o640);

    let stage = project.staged();
    let at = |path: &str| stage.join(path);
    put(&at("modified"), "one\n2\n");
    std::fs::remove_file(at("deleted")).unwrap();
    std::fs::create_dir_all(at("elsewhere")).unwrap();
    std::fs::rename(at("moved"), at("elsewhere/moved")).unwrap();
    mode(&at("script"), 0o755);
    std::fs::remove_file(at("file-to-link")).unwrap();
    link(&at("file-to-link"), "kept");
    std::fs::remove_file(at("file-to-directory")).unwrap();
    put(&at("file-to-directory/now"), "z");
    std::fs::remove_dir_all(at("directory-to-file")).unwrap();
    put(&at("directory-to-file"), "now a file");
    std::fs::remove_dir_all(at("old-directory")).unwrap();
    std::fs::remove_dir(at("empty-that-goes")).unwrap();
    std::fs::create_dir(at("empty-that-comes")).unwrap();
    put(&at("closed/inside"), "in a directory nobody may write to");
    mode(&at("closed"), 0o555);
    std::fs::remove_file(at("link")).unwrap();
    link(&at("link"), "modified");
    put(&at("names/with \n newline"), "odd");
    project
}

#[test]
fn every_kind_of_change_is_merged_and_undone_exactly() {
    let project = changed_in_every_way();
    let before = project.snapshot();
    let wanted = crate::project::snapshot(&project.staged());

    let merged = project.merge("m1", &Selection::default()).unwrap();
    assert!(merged.is_complete(), "{merged:?}");
    assert_eq!(project.snapshot(), wanted);

    let undone = project.undo("u1", None).unwrap();
    assert!(undone.is_complete(), "{undone:?}");
    assert_eq!(undone.undo_of.as_deref(), Some("m1"));
    assert!(merged.before.is_some() && merged.before != merged.after);
    assert_eq!((undone.before, undone.after), (merged.after, merged.before));
    assert_eq!(project.snapshot(), before);

    let again = project.undo("u2", Some("u1")).unwrap();
    assert!(again.is_complete(), "{again:?}");
    assert_eq!(project.snapshot(), wanted, "an undo can be undone");
}

#[test]
fn what_is_merged_is_gone_from_the_difference() {
    let project = changed_in_every_way();
    project.merge("m1", &Selection::default()).unwrap();
    let diff = project.stage().diff(&DiffOptions::default()).unwrap();
    assert!(diff.changes.is_empty(), "{:?}", diff.changes);
    let nothing = project.merge("m2", &Selection::default()).unwrap();
    assert_eq!(nothing.entries, []);
}

/// Merges one file from a stage of its own.
fn merge_one(project: &Project, id: &str, path: &str, text: &str) {
    put(&project.staged().join(path), text);
    let merged = project.merge(id, &Selection::default()).unwrap();
    assert!(merged.is_complete(), "{merged:?}");
    // A stage that is a copy knows the tree it was copied from; the next begins anew.
    let stages = airlock_sandbox::stage::Stages::open(&project.state.join("stages")).unwrap();
    stages.drop_stage("default").unwrap();
}

#[test]
fn undo_goes_back_one_merge_at_a_time() {
    let project = Project::new();
    project.write("a", "0");
    for (id, text) in [("m1", "1"), ("m2", "2")] {
        merge_one(&project, id, "a", text);
    }
    let text = || std::fs::read_to_string(project.root.join("a")).unwrap();
    for (id, expected) in [("u1", "1"), ("u2", "0")] {
        project.undo(id, None).unwrap();
        assert_eq!(text(), expected);
    }
    assert!(matches!(
        project.undo("u3", None),
        Err(MergeError::NothingToUndo)
    ));
    assert!(matches!(
        project.undo("u3", Some("nonesuch")),
        Err(MergeError::Missing(_))
    ));
}

/// Whatever the undos are called: all of them were begun in the same instant.
#[test]
fn a_merge_whose_undo_was_undone_is_the_last_one_again() {
    for ids in [["u1", "u2", "u3", "u4"], ["u4", "u3", "u2", "u1"]] {
        let project = Project::new();
        for path in ["a", "b"] {
            project.write(path, "0");
        }
        merge_one(&project, "m1", "a", "1");
        merge_one(&project, "m2", "b", "1");
        let texts =
            || ["a", "b"].map(|path| std::fs::read_to_string(project.root.join(path)).unwrap());
        let undone = || -> Vec<String> {
            let all = project.merges().list().unwrap().into_iter();
            all.filter(|one| one.undone).map(|one| one.id).collect()
        };
        let [first, back, second, third] = ids;

        project.undo(first, None).unwrap();
        assert_eq!(texts(), ["1", "0"], "{ids:?}");
        assert_eq!(undone(), ["m2"], "{ids:?}");

        project.undo(back, Some(first)).unwrap();
        assert_eq!(texts(), ["1", "1"], "{ids:?}");
        assert_eq!(undone(), [first], "{ids:?}");

        let again = project.undo(second, None).unwrap();
        assert_eq!(again.undo_of.as_deref(), Some("m2"), "{ids:?}");
        assert_eq!(texts(), ["1", "0"], "{ids:?}");
        assert_eq!(undone(), ["m2", first], "{ids:?}");

        project.undo(third, None).unwrap();
        assert_eq!(texts(), ["0", "0"], "{ids:?}");
        assert_eq!(undone(), ["m1", "m2", first], "{ids:?}");
    }
}

/// A directory has the group bit of the one it is made in; one that was without it, beside others
/// that have it, comes back without it.
#[test]
fn a_group_that_is_handed_on_or_not_is_so_again_after_an_undo() {
    let project = Project::new();
    project.write("group/plain/file", "old");
    mode(&project.root.join("group"), 0o2775);
    mode(&project.root.join("group/plain"), 0o755);
    let before = project.snapshot();
    let staged = project.staged();
    std::fs::remove_dir_all(staged.join("group/plain")).unwrap();
    put(&staged.join("group/fresh/deep/file"), "new");
    for path in ["group/fresh", "group/fresh/deep"] {
        mode(&staged.join(path), 0o755);
    }

    let merged = project.merge("m1", &Selection::default()).unwrap();
    assert!(merged.is_complete(), "{merged:?}");
    let after = project.snapshot();
    for path in ["group/fresh", "group/fresh/deep"] {
        assert_eq!(after[Path::new(path)], Held::Directory(0o2755), "{path}");
    }
    let undone = project.undo("u1", None).unwrap();
    assert_eq!(project.snapshot(), before);
    assert_eq!((undone.before, undone.after), (merged.after, merged.before));
    project.undo("u2", Some("u1")).unwrap();
    assert_eq!(project.snapshot(), after, "an undo can be undone");
}

#[test]
fn special_bits_come_back_with_an_undo() {
    let project = Project::new();
    project.write("tool", "old");
    mode(&project.root.join("tool"), 0o4755);
    let before = project.snapshot();
    let staged = project.staged().join("tool");
    put(&staged, "new");
    mode(&staged, 0o755);
    assert!(
        project
            .merge("m1", &Selection::default())
            .unwrap()
            .is_complete()
    );
    let after = &project.snapshot()[Path::new("tool")];
    assert_eq!(*after, Held::File(0o755, b"new".to_vec()));
    project.undo("u1", None).unwrap();
    assert_eq!(project.snapshot(), before);
}

#[test]
fn what_is_kept_for_an_undo_can_be_forgotten() {
    let project = Project::new();
    project.write("a", "0");
    put(&project.staged().join("a"), "1");
    project.merge("m1", &Selection::default()).unwrap();
    let merges = project.merges();
    assert_eq!(merges.list().unwrap().len(), 1);
    let later = airlock_core::Timestamp::from_micros(2);
    assert_eq!(merges.forget(later).unwrap(), 1);
    assert!(merges.list().unwrap().is_empty());
    assert!(project.undo("u1", None).is_err());
}

#[derive(Debug, Clone)]
enum Edit {
    Write(String, u8),
    Remove(String),
    Directory(String),
    Link(String, String),
    Mode(String, u32),
    Move(String, String),
}

fn path() -> impl Strategy<Value = String> {
    proptest::collection::vec("[abc]", 1..4).prop_map(|parts| parts.join("/"))
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        3 => (path(), any::<u8>()).prop_map(|(path, byte)| Edit::Write(path, byte)),
        2 => path().prop_map(Edit::Remove),
        1 => path().prop_map(Edit::Directory),
        1 => (path(), path()).prop_map(|(path, to)| Edit::Link(path, to)),
        1 => (path(), prop_oneof![Just(0o644), Just(0o755), Just(0o600)])
            .prop_map(|(path, mode)| Edit::Mode(path, mode)),
        2 => (path(), path()).prop_map(|(from, to)| Edit::Move(from, to)),
    ]
}

/// Does what can be done of an edit. Links on the way are not followed out of the tree: they are
/// relative, within it.
fn apply(root: &Path, edit: &Edit) {
    let inside = |path: &str| {
        let mut at = root.to_owned();
        for part in path.split('/') {
            if std::fs::symlink_metadata(&at).is_ok_and(|found| found.is_symlink()) {
                return None;
            }
            at.push(part);
        }
        Some(at)
    };
    let make = |path: &Path| std::fs::create_dir_all(path.parent().unwrap());
    let _ = match edit {
        Edit::Write(path, byte) => inside(path).map(|path| {
            make(&path)?;
            std::fs::remove_file(&path).ok();
            std::fs::write(path, [*byte; 5])
        }),
        Edit::Remove(path) => inside(path)
            .map(|path| std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path))),
        Edit::Directory(path) => inside(path).map(std::fs::create_dir_all),
        Edit::Link(path, to) => inside(path).map(|path| {
            make(&path)?;
            std::os::unix::fs::symlink(to, path)
        }),
        Edit::Mode(path, bits) => inside(path)
            .filter(|path| std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file()))
            .map(|path| {
                mode(&path, *bits);
                Ok(())
            }),
        Edit::Move(from, to) => inside(from).zip(inside(to)).map(|(from, to)| {
            make(&to)?;
            std::fs::rename(from, to)
        }),
    };
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn any_edits_are_merged_to_what_the_stage_has_and_undone_to_what_was(
        first in proptest::collection::vec(edit(), 0..14),
        second in proptest::collection::vec(edit(), 0..14),
    ) {
        let project = Project::new();
        for edit in &first {
            apply(&project.root, edit);
        }
        let before = project.snapshot();
        let staged = project.staged();
        for edit in &second {
            apply(&staged, edit);
        }
        let wanted = crate::project::snapshot(&staged);

        let merged = project.merge("m1", &Selection::default()).unwrap();
        prop_assert!(merged.is_complete(), "{:?}", merged);
        prop_assert_eq!(project.snapshot(), wanted);
        if !merged.entries.is_empty() {
            let undone = project.undo("u1", None).unwrap();
            prop_assert!(undone.is_complete(), "{:?}", undone);
        }
        prop_assert_eq!(project.snapshot(), before);
    }
}

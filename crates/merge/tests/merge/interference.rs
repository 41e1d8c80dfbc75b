//! Somebody else is at work in the same tree, and means well or ill.

use crate::project::{Held, Project, held, mode, put};
use airlock_core::Timestamp;
use airlock_merge::{EntryOutcome, MergeError, MergeOutcome, Selection, Since};
use std::cell::Cell;
use std::path::Path;

fn one_change() -> Project {
    let project = Project::new();
    project.write("file", "old");
    put(&project.staged().join("file"), "new");
    project
}

fn text(project: &Project) -> String {
    std::fs::read_to_string(project.root.join("file")).unwrap()
}

fn conflicts(outcome: &MergeOutcome) -> bool {
    let mut entries = outcome.entries.iter();
    entries.all(|entry| matches!(entry.result, EntryOutcome::Conflict { .. }))
}

fn no_litter(project: &Project) {
    for path in project.snapshot().keys() {
        assert!(
            !path.to_string_lossy().contains(".airlock-"),
            "{}",
            path.display()
        );
    }
}

#[test]
fn what_is_written_while_a_merge_is_under_way_is_never_lost() {
    for when in ["journal", "step", "written", "ready"] {
        let project = one_change();
        let once = Cell::new(false);
        let merged = project
            .merge_watched("m1", &Selection::default(), &|moment| {
                if moment == when && !once.replace(true) {
                    project.write("file", "theirs");
                }
            })
            .unwrap();
        assert!(once.get(), "{when}");
        assert!(conflicts(&merged), "{when}: {merged:?}");
        assert_eq!(text(&project), "theirs", "{when}");
        no_litter(&project);
    }
}

/// What is in the file's place, and what is kept beside it.
fn place_and_beside(project: &Project) -> [Option<String>; 2] {
    let read = |name: &str| std::fs::read_to_string(project.root.join(name)).ok();
    ["file", ".airlock-m1-0.swap"].map(read)
}

#[test]
fn what_is_written_while_a_merge_takes_its_own_back_is_never_lost() {
    for (when, then, want) in [
        ("exchanged", Some("second"), ["second", "first"]),
        ("taking back", Some("second"), ["first", "second"]),
        // Nobody has the place any more.
        ("exchanged", None, ["first", ""]),
        ("taking back", None, ["first", ""]),
    ] {
        let project = one_change();
        let met = Cell::new(false);
        let merged = project
            .merge_watched("m1", &Selection::default(), &|moment| {
                if moment == "ready" {
                    project.write("file", "first");
                }
                if moment == when {
                    met.set(true);
                    match then {
                        Some(text) => project.write("file", text),
                        None => std::fs::remove_file(project.root.join("file")).unwrap(),
                    }
                }
            })
            .unwrap();
        assert!(met.get(), "{when}");
        assert!(conflicts(&merged), "{when} {then:?}: {merged:?}");
        let want = want.map(|text| (!text.is_empty()).then(|| text.to_owned()));
        assert_eq!(place_and_beside(&project), want, "{when} {then:?}");
        let told = format!("{merged:?}").contains("`.airlock-*.swap`");
        assert_eq!(told, then.is_some(), "{when}: {merged:?}");
    }
}

/// The same after a merge that was interrupted with theirs taken out.
#[test]
fn what_is_written_while_an_interrupted_merge_is_taken_back_is_never_lost() {
    let project = one_change();
    let kills = |moment: &'static str| {
        if moment == "ready" {
            project.write("file", "first");
        }
        assert_ne!(moment, "exchanged", "killed");
    };
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        project.merge_watched("m1", &Selection::default(), &kills)
    }));
    assert!(died.is_err());
    let taken = [Some("new".to_owned()), Some("first".to_owned())];
    assert_eq!(place_and_beside(&project), taken);

    let writes = |moment: &'static str| {
        if moment == "taking back" {
            project.write("file", "second");
        }
    };
    let merges = project.merges();
    let now = Timestamp::from_micros(2);
    let (of, since) = (Some("nonesuch"), Since::Stays);
    let looked = project.looked(of, since);
    let asked = merges.undo_watched("none", of, since, looked, now, &writes);
    assert!(asked.is_err(), "what was interrupted is carried on first");
    let kept = [Some("first".to_owned()), Some("second".to_owned())];
    assert_eq!(place_and_beside(&project), kept);
    let left: Vec<usize> = merges.list().unwrap().iter().map(|one| one.left).collect();
    assert_eq!(left, [1]);
}

#[test]
fn what_takes_a_new_files_place_stays() {
    for when in ["journal", "step", "written", "ready"] {
        let project = Project::new();
        put(&project.staged().join("file"), "new");
        let merged = project
            .merge_watched("m1", &Selection::default(), &|moment| {
                if moment == when {
                    project.write("file", "theirs");
                }
            })
            .unwrap();
        assert!(conflicts(&merged), "{when}: {merged:?}");
        assert_eq!(text(&project), "theirs", "{when}");
        no_litter(&project);
    }
}

#[test]
fn what_changed_before_it_was_to_be_deleted_stays() {
    for when in ["journal", "step"] {
        let project = Project::new();
        project.write("file", "old");
        std::fs::remove_file(project.staged().join("file")).unwrap();
        let merged = project
            .merge_watched("m1", &Selection::default(), &|moment| {
                if moment == when {
                    project.write("file", "theirs");
                }
            })
            .unwrap();
        assert!(conflicts(&merged), "{when}: {merged:?}");
        assert_eq!(text(&project), "theirs", "{when}");
        no_litter(&project);
    }
}

#[test]
fn a_new_file_after_the_old_was_taken_does_not_bring_the_old_back() {
    let project = Project::new();
    project.write("file", "old");
    std::fs::remove_file(project.staged().join("file")).unwrap();
    let merged = project
        .merge_watched("m1", &Selection::default(), &|moment| {
            if moment == "taken" {
                project.write("file", "theirs");
            }
        })
        .unwrap();
    assert!(merged.is_complete(), "the old one is deleted: {merged:?}");
    assert_eq!(text(&project), "theirs");
    no_litter(&project);
}

#[test]
fn what_was_edited_after_a_merge_survives_its_undo() {
    let project = Project::new();
    project.write("file", "old");
    project.write("other", "old");
    put(&project.staged().join("file"), "new");
    put(&project.staged().join("other"), "new");
    project.merge("m1", &Selection::default()).unwrap();
    project.write("file", "edited since");
    let looked = project.merges().undoing(None, Since::Stays).unwrap();
    assert_eq!(looked.merge, "m1");
    let same: Vec<bool> = looked.paths.iter().map(|(_, same)| *same).collect();
    assert_eq!(same, [false, true]);

    let undone = project.undo("u1", None).unwrap();
    assert_eq!(undone.merged(), 1);
    assert_eq!(text(&project), "edited since");
    let other = std::fs::read_to_string(project.root.join("other")).unwrap();
    assert_eq!(other, "old");
}

/// Whoever asks for it gets everything back, and by undoing that what they had written.
#[test]
fn what_was_edited_after_a_merge_goes_where_that_is_asked_for_and_can_come_back() {
    let project = Project::new();
    let names = ["edited", "deleted", "linked", "turned", "other"];
    for name in names {
        project.write(name, "old");
    }
    let staged = project.staged();
    for name in names {
        put(&staged.join(name), "new");
    }
    put(&staged.join("added"), "new");
    let before = project.snapshot();
    project.merge("m1", &Selection::default()).unwrap();
    project.write("edited", "by hand");
    project.write("added", "by hand");
    std::fs::remove_file(project.root.join("deleted")).unwrap();
    std::fs::remove_file(project.root.join("linked")).unwrap();
    std::os::unix::fs::symlink("other", project.root.join("linked")).unwrap();
    std::fs::remove_file(project.root.join("turned")).unwrap();
    project.write("turned/inside", "a directory by now");
    let since = project.snapshot();

    let (looked, now) = (project.looked(None, Since::Goes), Timestamp::from_micros(2));
    let undone = project.merges().undo("u1", None, Since::Goes, looked, now);
    let undone = undone.unwrap();
    // What a directory took the place of would take with it whatever is in there.
    let left: Vec<_> = undone
        .left()
        .map(|one| one.path.as_path().to_owned())
        .collect();
    assert_eq!(left, [Path::new("turned")], "{undone:?}");
    let mut want = before;
    want.remove(Path::new("turned"));
    want.extend(
        since
            .clone()
            .into_iter()
            .filter(|(path, _)| path.starts_with("turned")),
    );
    assert_eq!(project.snapshot(), want);

    assert!(project.undo("u2", Some("u1")).unwrap().is_complete());
    assert_eq!(project.snapshot(), since, "nothing of theirs is lost");
}

/// What somebody does meanwhile, and how it is called.
type Deed<'a> = (&'static str, &'a dyn Fn(&Project));

/// An undo is of what was looked at, whether what was changed since the merge goes with it or stays.
#[test]
fn what_changed_since_an_undo_was_looked_at_is_not_undone() {
    let changes: [Deed<'_>; 5] = [
        ("written again", &|project| project.write("file", "two")),
        ("closed", &|project| mode(&project.root.join("file"), 0o600)),
        ("gone", &|project| {
            std::fs::remove_file(project.root.join("file")).unwrap();
        }),
        ("a link", &|project| {
            std::fs::remove_file(project.root.join("file")).unwrap();
            std::os::unix::fs::symlink("other", project.root.join("file")).unwrap();
        }),
        ("another file", &|project| project.write("other", "two")),
    ];
    let now = Timestamp::from_micros(2);
    for since in [Since::Stays, Since::Goes] {
        for (change, make) in &changes {
            let project = one_change();
            put(&project.staged().join("other"), "new");
            project.merge("m1", &Selection::default()).unwrap();
            project.write("file", "one");
            mode(&project.root.join("file"), 0o644);
            let looked = project.looked(None, since);
            assert_eq!(project.looked(None, since), looked, "{change}");
            make(&project);
            let (merges, held) = (project.merges(), project.snapshot());
            let undone = merges.undo("u1", None, since, looked, now);
            assert!(
                matches!(undone, Err(MergeError::ChangedSinceLook)),
                "{change}: {undone:?}"
            );
            assert_eq!(project.snapshot(), held, "{change}");
            assert!(!merges.has_unfinished(), "{change}");
            // Whoever looks again may undo it.
            let looked = project.looked(None, since);
            merges.undo("u1", None, since, looked, now).unwrap();
        }
        let project = one_change();
        project.merge("m1", &Selection::default()).unwrap();
        let looked = project.looked(None, since);
        let writes = |moment: &'static str| {
            if moment == "prepare" {
                project.write("file", "one");
            }
        };
        let merges = project.merges();
        let undone = merges.undo_watched("u1", None, since, looked, now, &writes);
        assert!(
            matches!(undone, Err(MergeError::ChangedSinceLook)),
            "{undone:?}"
        );
        assert_eq!(text(&project), "one");
    }
    let project = one_change();
    project.merge("m1", &Selection::default()).unwrap();
    let stays = project.looked(None, Since::Stays);
    let undone = project.merges().undo("u1", None, Since::Goes, stays, now);
    assert!(
        matches!(undone, Err(MergeError::ChangedSinceLook)),
        "what somebody saw stay does not go: {undone:?}"
    );
}

/// Showing what was changed since neither follows a link out of the tree nor waits for a pipe.
#[test]
fn what_is_shown_of_a_changed_path_is_a_file_of_the_tree() {
    let project = one_change();
    project.merge("m1", &Selection::default()).unwrap();
    let file = project.root.join("file");
    let path = airlock_sandbox::stage::TreePath::from(Path::new("file"));
    let shown = || project.merges().contents("m1", &path).unwrap();
    assert_eq!(shown(), [b"old".to_vec(), b"new".to_vec(), b"new".to_vec()]);
    std::fs::remove_file(&file).unwrap();
    put(&project.place().join("outside"), "secret");
    std::os::unix::fs::symlink("../outside", &file).unwrap();
    assert_eq!(shown()[2], b"");
    std::fs::remove_file(&file).unwrap();
    let pipe = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, pipe, 0).unwrap();
    assert_eq!(shown()[2], b"");
}

#[test]
fn something_put_into_a_directory_that_goes_keeps_it() {
    let project = Project::new();
    project.write("directory/inside", "old");
    std::fs::remove_dir_all(project.staged().join("directory")).unwrap();
    let once = Cell::new(false);
    let merged = project
        .merge_watched("m1", &Selection::default(), &|moment| {
            if moment == "step" && !once.replace(true) {
                project.write("directory/theirs", "theirs");
            }
        })
        .unwrap();
    assert_eq!(merged.left().count(), 1, "{merged:?}");
    assert!(project.root.join("directory/theirs").is_file());
    assert!(!project.root.join("directory/inside").exists());
}

/// A directory whose mode is merged.
fn one_mode() -> Project {
    let project = Project::new();
    project.write("directory/inside", "old");
    mode(&project.root.join("directory"), 0o755);
    mode(&project.staged().join("directory"), 0o700);
    project
}

#[test]
fn the_mode_that_somebody_gives_a_directory_meanwhile_stays() {
    for when in ["journal", "step"] {
        let project = one_mode();
        let directory = project.root.join("directory");
        let merged = project
            .merge_watched("m1", &Selection::default(), &|moment| {
                if moment == when {
                    mode(&directory, 0o750);
                }
            })
            .unwrap();
        assert!(conflicts(&merged), "{when}: {merged:?}");
        assert_eq!(held(&directory), Held::Directory(0o750), "{when}");
    }
}

#[test]
fn the_mode_that_somebody_gave_a_directory_after_a_merge_survives_its_undo() {
    for since in [Since::Stays, Since::Goes] {
        let project = one_mode();
        let directory = project.root.join("directory");
        assert!(
            project
                .merge("m1", &Selection::default())
                .unwrap()
                .is_complete()
        );
        assert_eq!(held(&directory), Held::Directory(0o700));
        mode(&directory, 0o750);
        let looked = project.merges().undoing(None, since).unwrap();
        assert!(looked.paths.iter().all(|(_, same)| !same), "{looked:?}");
        let now = Timestamp::from_micros(2);
        let undone = project.merges().undo("u1", None, since, looked.digest, now);
        let undone = undone.unwrap();
        assert!(conflicts(&undone), "{undone:?}");
        assert_eq!(held(&directory), Held::Directory(0o750));
    }
}

/// A directory of the stage, and what somebody else put in its place in the real tree.
fn in_the_place(of: &str, theirs: &str) -> Project {
    let project = Project::new();
    project.write("d/kept", "kept");
    project.write("f", "old");
    let staged = project.staged();
    match of {
        "new" => put(&staged.join("place/x"), "ours"),
        "deep" => put(&staged.join("place/in/between/x"), "ours"),
        "there before" => put(&staged.join("d/e/x"), "ours"),
        _was_a_file => {
            std::fs::remove_file(staged.join("f")).unwrap();
            put(&staged.join("f/x"), "ours");
        }
    }
    put(&staged.join("beside"), "ours");
    let place = project.root.join(match of {
        "there before" => "d",
        "was a file" => "f",
        _ => "place",
    });
    if place.is_dir() {
        std::fs::remove_dir_all(&place).unwrap();
    }
    match theirs {
        "file" => put(&place, "theirs"),
        _a_link => {
            let _was_a_file = std::fs::remove_file(&place);
            crate::project::link(&place, "elsewhere");
        }
    }
    project
}

#[test]
fn what_stands_where_a_directory_would_come_stays_and_so_does_what_is_in_that() {
    for of in ["new", "deep", "there before", "was a file"] {
        for theirs in ["file", "link"] {
            let project = in_the_place(of, theirs);
            let before = project.snapshot();
            let merged = project.merge("m1", &Selection::default()).unwrap();
            let left = merged.entries.iter();
            let left = left.filter(|one| matches!(one.result, EntryOutcome::Conflict { .. }));
            assert_eq!(left.count(), 1, "{of} {theirs}: {merged:?}");
            let mut after = project.snapshot();
            assert!(after.remove(Path::new("beside")).is_some(), "{of} {theirs}");
            assert_eq!(after, before, "{of} {theirs}");
            no_litter(&project);
        }
    }
}

#[test]
fn whoever_names_what_is_in_such_a_directory_does_not_get_it_either() {
    for (of, name) in [
        ("new", "place/x"),
        ("deep", "place/in/between/x"),
        ("there before", "d/e/x"),
        ("was a file", "f/x"),
    ] {
        for exactly in [false, true] {
            let project = in_the_place(of, "file");
            let before = project.snapshot();
            let selection = Selection {
                paths: Some(vec![Path::new(name).into()]),
                exactly,
                ..Selection::default()
            };
            let merged = project.merge("m1", &selection).unwrap();
            assert!(
                conflicts(&merged) && !merged.entries.is_empty(),
                "{of}: {merged:?}"
            );
            assert_eq!(project.snapshot(), before, "{of}");
        }
        // Who wants it over theirs gets all of it.
        let project = in_the_place(of, "file");
        let selection = Selection {
            overwrite: true,
            ..Selection::default()
        };
        let merged = project.merge("m1", &selection).unwrap();
        assert!(merged.is_complete(), "{of}: {merged:?}");
        assert_eq!(
            held(&project.root.join(name)),
            Held::File(0o644, b"ours".to_vec())
        );
    }
}

/// A hostile process turns a directory on the way into a link to somewhere else.
#[test]
fn nothing_outside_the_tree_is_ever_written() {
    for when in [
        "prepare",
        "journal",
        "step",
        "written",
        "ready",
        "exchanged",
    ] {
        for deleted in [false, true] {
            let project = Project::new();
            project.write("directory/file", "old");
            let outside = project.place().join("outside");
            put(&outside.join("file"), "old");
            let staged = project.staged().join("directory/file");
            if deleted {
                std::fs::remove_file(&staged).unwrap();
            } else {
                put(&staged, "new");
            }
            let once = Cell::new(false);
            let _ = project.merge_watched("m1", &Selection::default(), &|moment| {
                if moment == when && !once.replace(true) {
                    let directory = project.root.join("directory");
                    std::fs::rename(&directory, project.root.join("aside")).unwrap();
                    std::os::unix::fs::symlink(&outside, &directory).unwrap();
                }
            });
            let names: Vec<_> = std::fs::read_dir(&outside)
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            assert_eq!(names, ["file"], "{when} {deleted}");
            let text = std::fs::read_to_string(outside.join("file")).unwrap();
            assert_eq!(text, "old", "{when} {deleted}");
        }
    }
}

#[test]
fn a_name_of_ours_that_is_already_there_is_not_followed() {
    let project = one_change();
    let outside = project.place().join("outside");
    put(&outside, "old");
    for what in ["new", "swap"] {
        let trap = project.root.join(format!(".airlock-m1-0.{what}"));
        std::os::unix::fs::symlink(&outside, trap).unwrap();
    }
    let _ = project.merge("m1", &Selection::default()).unwrap();
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "old");
    assert!(["old", "new"].contains(&text(&project).as_str()));
}

#[test]
fn a_merge_under_way_keeps_another_out() {
    let project = one_change();
    let refused = Cell::new(false);
    let merged = project
        .merge_watched("m1", &Selection::default(), &|moment| {
            if moment == "ready" {
                let other = project.undo("u1", None);
                refused.set(matches!(other, Err(MergeError::Busy)));
                assert!(project.merges().recover().unwrap().ended.is_empty());
            }
        })
        .unwrap();
    assert!(refused.get());
    assert!(merged.is_complete());
}

#[test]
fn kept_content_that_was_tampered_with_is_not_restored() {
    let project = one_change();
    project.merge("m1", &Selection::default()).unwrap();
    let kept = project.state.join("merges/done/m1/old/0");
    std::fs::write(&kept, "forged").unwrap();
    assert!(project.undo("u1", None).is_err());
    assert_eq!(text(&project), "new");
    assert!(!project.merges().has_unfinished());
    let _: &Path = &kept;
}

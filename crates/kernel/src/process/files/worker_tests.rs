//! The worker on a plain directory: what it does, what it refuses, and that it follows no link.

use super::operation::{Answer, Change, Expected, Operation, Place};
use super::place::is_draft;
use super::worker::serve_files;
use airlock_core::Digest;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use tempfile::TempDir;

fn place() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("w");
    fs::create_dir_all(root.join("d/sub")).unwrap();
    fs::write(root.join("f"), "one\ntwo\n").unwrap();
    fs::write(root.join("d/g"), "g\n").unwrap();
    fs::write(root.join("d/sub/h"), "h\n").unwrap();
    fs::write(place.path().join("secret"), "secret").unwrap();
    symlink("../secret", root.join("out")).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink("f", root.join("in")).unwrap();
    place
}

fn ask(place: &TempDir, operation: &Operation) -> Result<Vec<(String, Change)>, (String, String)> {
    let order = serde_json::to_vec(operation).unwrap();
    let mut said = Vec::new();
    serve_files(&place.path().join("w"), &order[..], &mut said).unwrap();
    // Nothing half written is ever left behind.
    let left = walk(place.path());
    assert!(
        !left.iter().any(|name| name.contains(".airlock-")),
        "{left:?}"
    );
    assert_eq!(
        fs::read_to_string(place.path().join("secret")).unwrap(),
        "secret"
    );
    match serde_json::from_slice(&said).unwrap() {
        Answer::Done { files } => Ok(files
            .into_iter()
            .map(|one| (one.path, one.change))
            .collect()),
        Answer::Refused(refusal) => Err((refusal.code().to_owned(), refusal.to_string())),
    }
}

fn walk(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        found.push(path.display().to_string());
        if path.symlink_metadata().unwrap().is_dir() {
            found.extend(walk(&path));
        }
    }
    found
}

fn text(place: &TempDir, path: &str) -> String {
    fs::read_to_string(place.path().join("w").join(path)).unwrap()
}

fn write(path: &str, text: &str, expected: Expected) -> Operation {
    Operation::Write {
        path: path.to_owned(),
        text: text.to_owned(),
        expected,
    }
}

#[test]
fn a_file_is_created_and_replaced_with_its_mode() {
    let place = place();
    let made = ask(&place, &write("new/deep/x", "x", Expected::Absent)).unwrap();
    assert_eq!(made, [("new/deep/x".to_owned(), Change::Created)]);
    let f = place.path().join("w/f");
    fs::set_permissions(&f, fs::Permissions::from_mode(0o750)).unwrap();
    let other_name = place.path().join("w/other");
    fs::hard_link(&f, &other_name).unwrap();
    let seen = Expected::Content(Digest::of(b"one\ntwo\n"));
    let replaced = ask(&place, &write("f", "new", seen)).unwrap();
    assert_eq!(replaced, [("f".to_owned(), Change::Replaced)]);
    assert_eq!(text(&place, "f"), "new");
    assert_eq!(
        fs::metadata(&f).unwrap().permissions().mode() & 0o777,
        0o750
    );
    assert_eq!(text(&place, "other"), "one\ntwo\n");
}

#[test]
fn what_was_not_seen_is_not_overwritten() {
    let place = place();
    for (expected, path, code) in [
        (Expected::Absent, "f", "already_there"),
        (
            Expected::Content(Digest::of(b"else")),
            "f",
            "digest_differs",
        ),
        (Expected::Content(Digest::of(b"")), "none", "not_found"),
    ] {
        let refused = ask(&place, &write(path, "new", expected)).unwrap_err();
        assert_eq!(refused.0, code, "{path}");
    }
    assert_eq!(text(&place, "f"), "one\ntwo\n");
}

#[test]
fn no_link_and_no_dots_lead_anywhere() {
    let place = place();
    let delete = |path: &str| Operation::Delete {
        path: path.to_owned(),
        recursive: true,
        expected: Expected::Whatever,
    };
    let relocate = |from: &str, to: &str| Operation::Move {
        from: from.to_owned(),
        to: to.to_owned(),
        replace: true,
    };
    for operation in [
        write("out", "x", Expected::Whatever),
        write("in", "x", Expected::Whatever),
        write("up/secret", "x", Expected::Whatever),
        write("up/new", "x", Expected::Whatever),
        write("../secret", "x", Expected::Whatever),
        write("d/../../secret", "x", Expected::Whatever),
        write("..", "x", Expected::Whatever),
        write("", "x", Expected::Whatever),
        write("d", "x", Expected::Whatever),
        write("f/x", "x", Expected::Whatever),
        delete("up/secret"),
        delete("../secret"),
        relocate("up/secret", "mine"),
        relocate("f", "up/stolen"),
        relocate("f", "../stolen"),
        relocate("d", "d/sub/d"),
        Operation::Patch {
            text: "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-secret\n+mine\n".to_owned(),
            places: vec![Place {
                from: Some("up/secret".to_owned()),
                to: Some("up/secret".to_owned()),
            }],
        },
    ] {
        let answer = ask(&place, &operation);
        assert!(answer.is_err(), "{operation:?}: {answer:?}");
    }
    assert!(!place.path().join("stolen").exists() && !place.path().join("new").exists());
    // A link itself can be moved and deleted; what it points at stays.
    ask(&place, &relocate("out", "moved")).unwrap();
    ask(&place, &delete("moved")).unwrap();
    ask(&place, &delete("up")).unwrap();
    assert_eq!(text(&place, "f"), "one\ntwo\n");
}

#[test]
fn directories_move_and_go_with_what_is_in_them() {
    let place = place();
    let delete = |recursive| Operation::Delete {
        path: "e".to_owned(),
        recursive,
        expected: Expected::Whatever,
    };
    let moved = Operation::Move {
        from: "d".to_owned(),
        to: "e".to_owned(),
        replace: false,
    };
    ask(&place, &moved).unwrap();
    assert_eq!(text(&place, "e/sub/h"), "h\n");
    assert_eq!(ask(&place, &moved).unwrap_err().0, "not_found");
    assert_eq!(ask(&place, &delete(false)).unwrap_err().0, "not_empty");
    ask(&place, &delete(true)).unwrap();
    assert!(!place.path().join("w/e").exists());
}

#[test]
fn a_patch_applies_to_all_its_files_or_to_none() {
    let place = place();
    let places = |names: &[(&str, &str)]| {
        let name = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        names
            .iter()
            .map(|(from, to)| Place {
                from: name(from),
                to: name(to),
            })
            .collect::<Vec<_>>()
    };
    let good = "--- a/f\n+++ b/f\n@@ -2 +2 @@\n-two\n+2\n\
                --- a/d/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n\
                --- /dev/null\n+++ b/made\n@@ -0,0 +1 @@\n+made\n\
                diff --git a/d/sub/h b/i\nrename from d/sub/h\nrename to i\n";
    let bad =
        "--- a/f\n+++ b/f\n@@ -2 +2 @@\n-two\n+2\n--- a/d/g\n+++ b/d/g\n@@ -1 +1 @@\n-x\n+y\n";
    let patch = |text: &str, names: &[(&str, &str)]| Operation::Patch {
        text: text.to_owned(),
        places: places(names),
    };
    let (code, what) = ask(&place, &patch(bad, &[("f", "f"), ("d/g", "d/g")])).unwrap_err();
    assert_eq!(code, "does_not_apply");
    assert!(
        what.contains("`d/g`: hunk 1") && what.contains("line 1 is `g`"),
        "{what}"
    );
    assert_eq!(text(&place, "f"), "one\ntwo\n");
    let names = [("f", "f"), ("d/g", ""), ("", "made"), ("d/sub/h", "i")];
    let done = ask(&place, &patch(good, &names)).unwrap();
    let changes: Vec<Change> = done.iter().map(|(_, change)| *change).collect();
    let want = [
        Change::Replaced,
        Change::Deleted,
        Change::Created,
        Change::Moved,
    ];
    assert_eq!(changes, want);
    assert_eq!(
        (text(&place, "f"), text(&place, "i")),
        ("one\n2\n".to_owned(), "h\n".to_owned())
    );
    assert!(!place.path().join("w/d/g").exists() && !place.path().join("w/d/sub/h").exists());
    // What is made must not be there, and fewer places than files is not what was judged.
    assert!(ask(&place, &patch(good, &names)).is_err());
    assert!(ask(&place, &patch(bad, &[("f", "f")])).is_err());
    fs::write(place.path().join("w/bin"), b"a\0\n").unwrap();
    let binary = "--- a/bin\n+++ b/bin\n@@ -1 +1 @@\n-a\n+b\n";
    assert_eq!(
        ask(&place, &patch(binary, &[("bin", "bin")]))
            .unwrap_err()
            .0,
        "binary"
    );
}

#[test]
fn only_the_name_of_a_draft_is_one() {
    for (path, is_one) in [
        (".airlock-98-0", true),
        ("src/deep/.airlock-4194304-12", true),
        ("airlock-98-0", false),
        (".airlock-98", false),
        (".airlock--0", false),
        (".airlock-98-", false),
        (".airlock-98-0.new", false),
        (".airlock-98-0/inside", false),
        (".airlock", false),
        ("", false),
    ] {
        assert_eq!(is_draft(path), is_one, "{path}");
    }
}

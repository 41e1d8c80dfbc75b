//! Directories that come or go with a task: what is merged is what was tested, the task is done
//! then, and an undo brings back what was there.

use super::phases::{git, with_repository};
use super::projects::{self, Files};
use super::support::{done, put_back};
use super::work::{APP, DOUBLE, POLICY, Work};
use airlock_kernel::{Call, Front, Outcome};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const FILES: Files<'_> = &[
    (".gitignore", "__pycache__/\n*.py[cod]\nlcov.info\n"),
    ("app.py", APP),
    (
        "tests/test_add.py",
        "from app import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
    ),
    ("old/gone.py", "GONE = 1\n"),
    ("old/deep/more.py", "MORE = 1\n"),
];

/// Merges by itself, and takes everything beside tests for source.
fn policy() -> String {
    let phases = "phases: { test_paths: [\"tests/**\"], source_paths: [\"**\"] }";
    POLICY.replace(
        "rules:",
        &format!("merge: {{ automatic: true }}\n{phases}\nrules:"),
    )
}

fn work(mode: &str, further: Files<'_>) -> Work {
    let files = [FILES, further].concat();
    Work::new(&policy(), &projects::with(projects::PYTHON, &files), mode)
}

/// A task whose stage is as `script` leaves it, and whose tests passed.
fn reviewed(further: Files<'_>, begin: impl FnOnce(&Work), script: &str) -> Work {
    let work = work("explore", further);
    begin(&work);
    let work = work.planned();
    let ran = work.sneak(script);
    assert_eq!(ran.value["exit"], 0, "{}", ran.value);
    assert_eq!(put_back(&ran), [""; 0]);
    work.advance();
    let phase = work.test()["phase"].clone();
    assert_eq!(phase["state"], "reviewing", "{phase}");
    assert!(phase["partial"].is_null(), "{phase}");
    work
}

/// Has it merged, and shows that the task is done and nobody was asked.
fn merged(work: &Work) {
    done(work.submit("phase.commit", json!({ "digest": work.digest() })));
    if work.place.real(".git").exists() {
        work.done("git.commit", json!({ "message": "Tidy up" }));
    }
    applied(work);
}

/// Has it approved, by a person where one is asked.
fn approved(work: &Work) {
    let call = work.call("phase.commit", json!({ "digest": work.digest() }));
    let first = work.place.kernel().submit(Front::Agent, &call);
    if matches!(first, Outcome::NeedsReview(_)) {
        drop(first);
        work.place.approved(Front::Agent, &call);
    }
    assert_eq!(work.state(), "committing");
}

/// Merges what was approved, and shows that the task is done.
fn applied(work: &Work) {
    let merge = work.done("phase.status", json!({})).value["merge"].clone();
    let merged = work.done("merge.apply", merge).value;
    assert_eq!(merged["left"], json!([]), "{merged}");
    assert_eq!(merged["state"], "idle", "{merged}");
    assert_eq!(work.state(), "idle");
}

fn undone(work: &Work) {
    let undo = Call::new("merge.undo", json!({}));
    let undone = work.place.approved(Front::Cli, &undo).value;
    assert_eq!(undone["left"], json!([]), "{undone}");
}

/// The names in a directory of the real tree.
fn names(work: &Work, path: &str) -> Vec<String> {
    let found = fs::read_dir(work.place.real(path)).unwrap();
    let mut names: Vec<String> = found
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_directory_that_is_removed_is_gone_with_the_task_and_comes_back_with_an_undo() {
    let close = |work: &Work| {
        let deep = work.place.real("old/deep");
        fs::set_permissions(deep, fs::Permissions::from_mode(0o750)).unwrap();
    };
    let work = reviewed(&[], close, "rm -r old\n");
    let changes = work.done("phase.status", json!({})).value["changes"].clone();
    assert_eq!(changes["directories"], json!(["old", "old/deep"]));
    merged(&work);
    assert!(!work.place.real("old").exists());
    undone(&work);
    assert_eq!(names(&work, "old"), ["deep", "gone.py"]);
    assert_eq!(mode(&work.place.real("old/deep")), 0o750);
    let back = fs::read_to_string(work.place.real("old/deep/more.py")).unwrap();
    assert_eq!(back, "MORE = 1\n");
}

#[test]
fn a_directory_that_is_removed_goes_with_the_commit() {
    let begin = |work: &Work| with_repository(&work.place);
    let work = reviewed(&[], begin, "rm -r old\n");
    merged(&work);
    assert!(!work.place.real("old").exists());
    assert_eq!(git(&work.place, &["log", "--format=%s", "-1"]), "Tidy up");
    assert_eq!(git(&work.place, &["ls-files", "old"]), "");
    undone(&work);
    assert_eq!(names(&work, "old"), ["deep", "gone.py"]);
    assert_eq!(git(&work.place, &["log", "--format=%s", "-1"]), "begin");
}

#[test]
fn what_becomes_of_a_directory_is_committed_as_what_becomes_of_its_files() {
    let further = [("data.txt", "d\n"), ("data.txt.more", "m\n")];
    let files = "old/deep/more.py\nold/gone.py";
    let begun = format!("data.txt\ndata.txt.more\n{files}");
    let filled = format!("data.txt.more\ndata.txt/a.py\n{files}");
    for (script, now) in [
        (
            "mv old new\n",
            "data.txt\ndata.txt.more\nnew/deep/more.py\nnew/gone.py",
        ),
        (
            "mv old/deep deep\nchmod 700 old\n",
            "data.txt\ndata.txt.more\ndeep/more.py\nold/gone.py",
        ),
        ("rm -r old\necho X > old\n", "data.txt\ndata.txt.more\nold"),
        (
            "rm -r old\nln -s app.py old\n",
            "data.txt\ndata.txt.more\nold",
        ),
        (
            "rm data.txt\nmkdir data.txt\necho 'A = 1' > data.txt/a.py\n",
            filled.as_str(),
        ),
    ] {
        let tracked = |work: &Work| with_repository(&work.place);
        let work = reviewed(&further, tracked, script);
        let listed = || {
            let listed = ["ls-files", "--", "data.txt*", "deep", "new", "old"];
            git(&work.place, &listed)
        };
        let last = || git(&work.place, &["log", "--format=%s", "-1"]);
        let changed = || git(&work.place, &["status", "--porcelain", "-uno"]);
        assert_eq!(listed(), begun, "{script}");
        approved(&work);
        let commit = work.done("git.commit", json!({ "message": "Tidy up" }));
        assert!(commit.value["commit"].is_string(), "{script}");
        // There is one already, and it stays.
        let again = work.done("git.commit", json!({ "message": "Again" }));
        assert!(again.value["commit"].is_null(), "{script}");
        applied(&work);
        assert_eq!(last(), "Tidy up", "{script}");
        assert_eq!(listed(), now, "{script}");
        assert_eq!(changed(), "", "{script}");
        undone(&work);
        assert_eq!(last(), "begin", "{script}");
        assert_eq!(listed(), begun, "{script}");
        assert_eq!(changed(), "", "{script}");
        assert_eq!(names(&work, "old"), ["deep", "gone.py"], "{script}");
    }
}

#[test]
fn what_git_does_not_see_of_directories_is_merged_without_a_commit() {
    for (script, came) in [
        ("chmod 700 old\n", (0o700, false)),
        ("mkdir -p new/deep\n", (0o755, true)),
    ] {
        let begin = |work: &Work| {
            with_repository(&work.place);
            let old = work.place.real("old");
            fs::set_permissions(old, fs::Permissions::from_mode(0o755)).unwrap();
        };
        let work = reviewed(&[], begin, script);
        approved(&work);
        let commit = work.done("git.commit", json!({ "message": "Tidy up" }));
        assert!(commit.value["commit"].is_null(), "{script}");
        applied(&work);
        let made = work.place.real("new/deep").is_dir();
        assert_eq!((mode(&work.place.real("old")), made), came, "{script}");
        let last = git(&work.place, &["log", "--format=%s", "-1"]);
        assert_eq!(last, "begin", "{script}");
        undone(&work);
        assert_eq!(mode(&work.place.real("old")), 0o755, "{script}");
        assert!(!work.place.real("new").exists(), "{script}");
    }
}

#[test]
fn a_directory_in_which_git_ignores_something_stays_with_that() {
    let kept = [
        ("old/local.pyd", "mine\n"),
        ("old/deep/__pycache__/more.pyc", "built\n"),
    ];
    for (script, came) in [
        ("rm -r old\n", &[][..]),
        ("mv old new\n", &["deep", "gone.py"][..]),
    ] {
        let work = reviewed(&kept, |_| {}, script);
        merged(&work);
        assert_eq!(names(&work, "old"), ["deep", "local.pyd"], "{script}");
        assert_eq!(names(&work, "old/deep"), ["__pycache__"], "{script}");
        for (path, text) in kept {
            let found = fs::read_to_string(work.place.real(path)).unwrap();
            assert_eq!(found, text, "{script}: {path}");
        }
        if !came.is_empty() {
            assert_eq!(names(&work, "new"), came, "{script}");
        }
        undone(&work);
        assert_eq!(names(&work, "old"), ["deep", "gone.py", "local.pyd"]);
        assert!(!work.place.real("new").exists(), "{script}");
    }
}

#[test]
fn an_empty_directory_that_a_test_needs_comes_with_it() {
    let work = work("strict", &[]).planned();
    work.wrote(
        "tests/test_double.py",
        "from app import double\n\n\ndef test_double():\n    \
         open('tests/out/x.pyc', 'w').close()\n    assert double(4) == 8\n",
    );
    let made = work.sneak("mkdir -p tests/out\n");
    assert_eq!(put_back(&made), [""; 0]);
    assert_eq!(work.test()["phase"]["proof"], "red");
    work.advance();
    work.wrote("app.py", DOUBLE);
    work.advance();
    let phase = work.test()["phase"].clone();
    assert_eq!(phase["state"], "reviewing", "{phase}");
    merged(&work);
    // What the tests left in it is ignored, and does not come along.
    assert_eq!(names(&work, "tests/out"), [""; 0]);
    undone(&work);
    assert!(!work.place.real("tests/out").exists());
    assert_eq!(fs::read_to_string(work.place.real("app.py")).unwrap(), APP);
}

#[test]
fn an_approval_is_for_the_directories_as_well() {
    let work = reviewed(&[], |_| {}, "rm -r old\n");
    done(work.submit("phase.commit", json!({ "digest": work.digest() })));
    let mut part = work.done("phase.status", json!({})).value["merge"].clone();
    part["files"] = json!(["old/gone.py", "old/deep/more.py"]);
    let asked = work.submit("merge.apply", part);
    assert!(matches!(asked, Outcome::NeedsReview(_)), "{asked:?}");
    assert!(work.place.real("old/gone.py").exists());
}

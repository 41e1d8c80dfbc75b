//! `fs.write`, `fs.patch`, `fs.move`, `fs.delete`: decided on every path, done in the stage alone.

use super::support::{Place, denied, done, failed, put_back};
use airlock_core::Digest;
use airlock_kernel::{Call, Front};
use serde_json::json;
use std::os::unix::fs::{PermissionsExt, symlink};

/// Agents may change `src/`, not `src/keep`, and small files only.
const POLICY: &str = "\
version: 1
commands:
  - executable: cat
  - executable: sh
rules:
  - name: read
    match: { effect: read, path_glob: \"**\" }
    action: allow
  - name: run
    match: { syscall: exec.run }
    action: allow
  - name: change
    match: { effect: [write, delete], path_glob: [\"src/**\", \"script\"] }
    action: allow
    constraints: { max_file_size: 1KiB }
  - name: keep
    match: { effect: [write, delete], path_glob: \"src/**/keep\" }
    action: deny
  - name: ask
    match: { effect: [write, delete], path_glob: \"shared/**\" }
    action: require_review
";

fn place() -> Place {
    Place::new(
        POLICY,
        &[
            ("src/a.rs", "one\ntwo\nthree\n"),
            ("src/d/b.rs", "b\n"),
            ("src/d/keep", "kept\n"),
            ("other.txt", "other\n"),
        ],
    )
}

#[test]
fn a_write_lands_in_the_stage_with_its_digest_and_mode() {
    let place = place();
    std::fs::set_permissions(place.real("src/a.rs"), PermissionsExt::from_mode(0o755)).unwrap();
    let write = json!({ "path": "src/a.rs", "text": "new\n" });
    let result = done(place.call("fs.write", write)).value;
    assert_eq!(result["files"][0]["change"], "replaced", "{result}");
    assert_eq!(
        result["files"][0]["digest"],
        Digest::of(b"new\n").to_string()
    );
    assert_eq!(result["stage"], "default");
    assert_eq!(place.staged("src/a.rs").as_deref(), Some("new\n"));
    let executable = place.script("test -x src/a.rs");
    assert_eq!(executable.value["exit"], 0);
    assert_eq!(
        std::fs::read_to_string(place.real("src/a.rs")).unwrap(),
        "one\ntwo\nthree\n"
    );
    let made = json!({ "path": "src/x/y/z.rs", "text": "z", "expect_digest": "absent" });
    assert_eq!(
        done(place.call("fs.write", made.clone())).value["files"][0]["change"],
        "created"
    );
    assert_eq!(failed(place.call("fs.write", made)).code, "already_there");
    // What the agent has not seen it does not overwrite.
    let seen = Digest::of(b"one\ntwo\nthree\n").to_string();
    let stale = json!({ "path": "src/a.rs", "text": "lost", "expect_digest": seen });
    assert_eq!(failed(place.call("fs.write", stale)).code, "digest_differs");
    assert_eq!(place.staged("src/a.rs").as_deref(), Some("new\n"));
}

#[test]
fn every_path_is_decided_on() {
    let place = place();
    symlink("../other.txt", place.real("src/link")).unwrap();
    symlink("keep", place.real("src/d/alias")).unwrap();
    let patch = |from: &str, to: &str| json!({ "patch": format!("--- {from}\n+++ {to}\n@@ -1 +1 @@\n-b\n+c\n") });
    for (tool, arguments) in [
        ("fs.write", json!({ "path": "other.txt", "text": "x" })),
        ("fs.write", json!({ "path": "src/d/keep", "text": "x" })),
        ("fs.write", json!({ "path": "src/link", "text": "x" })),
        ("fs.write", json!({ "path": "src/d/alias", "text": "x" })),
        (
            "fs.write",
            json!({ "path": "src/../other.txt", "text": "x" }),
        ),
        (
            "fs.write",
            json!({ "path": "src/big", "text": "x".repeat(2_000) }),
        ),
        ("fs.write", json!({ "path": "/etc/motd", "text": "x" })),
        (
            "fs.write",
            json!({ "path": ".airlock/policy.yaml", "text": "x" }),
        ),
        ("fs.patch", patch("a/src/d/b.rs", "b/other.txt")),
        ("fs.patch", patch("a/other.txt", "b/other.txt")),
        ("fs.move", json!({ "from": "src/a.rs", "to": "other.rs" })),
        (
            "fs.move",
            json!({ "from": "other.txt", "to": "src/other.txt" }),
        ),
        (
            "fs.move",
            json!({ "from": "src/d/keep", "to": "src/d/gone" }),
        ),
        ("fs.delete", json!({ "path": "other.txt" })),
        ("fs.delete", json!({ "path": "src/d/keep" })),
    ] {
        let answer = place.call(tool, arguments.clone());
        let seen = format!("{tool} {arguments}: {answer:?}");
        assert!(
            matches!(answer, airlock_kernel::Outcome::Denied(_)),
            "{seen}"
        );
    }
    let stage = place.kernel().workspace().state().path().join("stages");
    assert!(!stage.exists(), "nothing ran");
}

#[test]
fn a_patch_changes_all_its_files_or_none() {
    let place = place();
    let good = "--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n\
                --- a/src/d/b.rs\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n";
    let bad = "--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,2 +1,2 @@\n one\n-2\n+two\n\
               --- a/src/d/b.rs\n+++ b/src/d/b.rs\n@@ -1 +1 @@\n-x\n+y\n";
    done(place.call("fs.patch", json!({ "patch": good })));
    assert_eq!(place.staged("src/a.rs").as_deref(), Some("one\n2\nthree\n"));
    assert_eq!(place.staged("src/d/b.rs"), None);
    let failure = failed(place.call("fs.patch", json!({ "patch": bad })));
    assert_eq!(failure.code, "not_found", "{}", failure.what);
    let wrong = good.replace("-two\n", "-deux\n");
    let failure = failed(place.call("fs.patch", json!({ "patch": wrong })));
    assert_eq!(failure.code, "does_not_apply");
    assert!(
        failure.what.contains("`src/a.rs`: hunk 1") && failure.fix.is_some(),
        "{}",
        failure.what
    );
    assert_eq!(place.staged("src/a.rs").as_deref(), Some("one\n2\nthree\n"));
    let binary = json!({ "patch": "diff --git a/src/x b/src/x\nGIT binary patch\nliteral 1\n" });
    assert_eq!(
        failed(place.call("fs.patch", binary)).code,
        "invalid_arguments"
    );
}

#[test]
fn what_lies_in_a_directory_is_judged_as_well() {
    let place = place();
    let removed = done(place.call("fs.delete", json!({ "path": "src/d", "recursive": true })));
    assert_eq!(put_back(&removed), ["src/d/keep"]);
    assert_eq!(place.staged("src/d/keep").as_deref(), Some("kept\n"));
    assert_eq!(place.staged("src/d/b.rs"), None);
    let moved = done(place.call("fs.move", json!({ "from": "src/d", "to": "src/e" })));
    assert_eq!(put_back(&moved), ["src/d/keep", "src/e/keep"]);
    assert_eq!(place.staged("src/d/keep").as_deref(), Some("kept\n"));
    assert_eq!(place.staged("src/e/keep"), None);
}

#[test]
fn what_a_person_approved_stands_and_is_kept_from_what_runs_later() {
    let place = place();
    let write = json!({ "path": "shared/x", "text": "approved\n" });
    place.approved(Front::Agent, &Call::new("fs.write", write));
    assert_eq!(place.staged("shared/x").as_deref(), Some("approved\n"));
    for (attack, back) in [
        ("echo evil >shared/x", vec!["shared/x"]),
        ("rm -r shared", vec!["shared/x"]),
        ("rm -r shared; echo evil >shared", vec!["shared/x"]),
        ("ln shared/x src/y; echo evil >>src/y", vec!["shared/x"]),
        ("mv shared/x src/z", vec!["shared/x"]),
        ("chmod 777 shared/x", vec!["shared/x"]),
        ("echo evil >shared/new", vec!["shared/new"]),
    ] {
        let ran = place.script(attack);
        let told = put_back(&ran);
        assert!(
            back.iter().all(|path| told.contains(path)),
            "{attack}: {}",
            ran.value
        );
        assert_eq!(
            place.staged("shared/x").as_deref(),
            Some("approved\n"),
            "{attack}"
        );
        assert_eq!(place.staged("shared/new"), None, "{attack}");
    }
}

#[test]
fn a_link_that_leads_out_is_refused_after_the_decision() {
    let place = place();
    symlink("/etc", place.real("src/etc")).unwrap();
    symlink("loop", place.real("src/loop")).unwrap();
    for path in ["src/etc/motd", "src/loop", "src/loop/x"] {
        let failure = failed(place.call("fs.write", json!({ "path": path, "text": "x" })));
        assert_eq!(failure.code, "escapes", "{path}: {}", failure.what);
    }
    // The link itself is a file like any other.
    done(place.call("fs.delete", json!({ "path": "src/etc" })));
    assert!(place.real("src/etc").is_symlink());
    denied(place.call("fs.delete", json!({ "path": "../home" })));
}

#[test]
fn arguments_that_do_not_fit_say_which() {
    let place = place();
    let failure = failed(place.submit(Front::Agent, "fs.write", json!({ "path": "src/a.rs" })));
    assert_eq!(failure.code, "invalid_arguments");
    for (arguments, at) in [
        (
            json!({ "path": "src/x", "text": "x", "expect_digest": "1" }),
            "expect_digest",
        ),
        (json!({ "path": "src/x", "text": "x", "mode": 7 }), "mode"),
        (
            json!({ "path": "src/x", "text": "x".repeat(5 << 20) }),
            "text",
        ),
    ] {
        let failure = failed(place.call("fs.write", arguments));
        assert_eq!(failure.code, "invalid_arguments");
        assert!(failure.what.contains(at), "{}", failure.what);
    }
}

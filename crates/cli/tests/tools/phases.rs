//! The test-first discipline through a real kernel: real runners, a real repository, and what an
//! agent tries to get around it.

use super::projects;
use super::support::{Place, denied, done, failed, put_back};
use super::work::{APP, DOUBLE, POLICY, TEST, Work};
use airlock_core::SessionId;
use airlock_kernel::{Call, Denied, Front, Outcome};
use serde_json::json;
use std::fs;
use std::process::Command;

fn rules(denied: &Denied) -> Vec<&str> {
    let against = denied.decision.deciding();
    against.map(|one| &*one.rule).collect()
}

#[test]
fn a_strict_session_writes_tests_then_code_and_nothing_out_of_turn() {
    let work = Work::python("strict");
    assert_eq!(rules(&work.denied_write("app.py")), ["phases/no-writes"]);
    let work = work.planned();
    let early = work.denied_write("app.py");
    assert_eq!(rules(&early), ["phases/tests-first"]);
    let why: Vec<String> = early.explanation.reasons().collect();
    assert!(why.iter().any(|why| why.contains("tests/**")), "{why:?}");
    assert!(early.explanation.fixes().next().is_some());
    let sneaked =
        work.sneak("echo 'x = 1' >>app.py; mkdir -p tests/more; echo 'y = 1' >tests/more/data.py");
    assert_eq!(put_back(&sneaked), ["app.py"]);
    work.refused("phase.advance", json!({}));
    work.wrote("tests/test_double.py", TEST);
    let blind = work.refused("phase.advance", json!({}));
    assert!(blind.what.contains("has not run"), "{}", blind.what);
    let ran = work.test();
    assert_eq!(ran["phase"]["proof"], "red", "{ran}");
    assert_eq!(work.advance()["state"], "code_writing");
    assert_eq!(
        rules(&work.denied_write("tests/test_double.py")),
        ["phases/tests-are-read-only"]
    );
    assert_eq!(
        rules(&work.denied_write("README.md")),
        ["phases/source-only"]
    );
    let edited = work.sneak("echo 'def test_double(): pass' >tests/test_double.py");
    assert_eq!(put_back(&edited), ["tests/test_double.py"]);
    work.wrote(
        "app.py",
        "def add(a, b):\n    return a + b\n\n\ndef double(a):\n    return a * 3\n",
    );
    work.advance();
    assert_eq!(rules(&work.denied_write("app.py")), ["phases/no-writes"]);
    let ran = work.test();
    assert_eq!(ran["phase"]["state"], "code_writing", "{ran}");
    work.wrote("app.py", DOUBLE);
    work.advance();
    assert_eq!(work.test()["phase"]["state"], "reviewing");
    assert_eq!(fs::read_to_string(work.place.real("app.py")).unwrap(), APP);
}

#[expect(clippy::disallowed_methods, reason = "a repository is made with git")]
pub(crate) fn git(place: &Place, words: &[&str]) -> String {
    let ran = Command::new("git")
        .args(["-c", "user.name=me", "-c", "user.email=me@example.org"])
        .args(words)
        .current_dir(place.real(""))
        // Whatever a hook of git's says in the environment is about another repository.
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        // Looking must not change the index.
        .env("GIT_OPTIONAL_LOCKS", "0")
        .output()
        .unwrap();
    assert!(ran.status.success(), "{words:?}: {ran:?}");
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

/// A repository whose hooks tell on whoever runs them.
pub(crate) fn with_repository(place: &Place) {
    git(place, &["init", "-q", "-b", "main"]);
    git(place, &["add", "-A"]);
    git(place, &["commit", "-q", "-m", "begin"]);
    for hook in [
        "pre-commit",
        "post-commit",
        "reference-transaction",
        "post-checkout",
    ] {
        let path = place.real(".git/hooks").join(hook);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let told = place.real("hook-ran");
        fs::write(&path, format!("#!/bin/sh\ntouch {}\n", told.display())).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, mode).unwrap();
    }
}

#[test]
fn what_a_person_approved_is_committed_merged_and_undone() {
    let work = Work::python("strict");
    with_repository(&work.place);
    let before = git(&work.place, &["rev-parse", "main"]);
    work.refused("git.commit", json!({ "message": "too early" }));
    let work = work.green();
    work.refused("git.commit", json!({ "message": "too early" }));
    let wrong = json!({ "digest": airlock_core::Digest::of(b"other") });
    let asked = work.call("phase.commit", wrong);
    let first = work.place.kernel().submit(Front::Agent, &asked);
    assert!(matches!(first, Outcome::NeedsReview(_)), "{first:?}");
    let call = work.call("phase.commit", json!({ "digest": work.digest() }));
    let approved = work.place.approved(Front::Agent, &call);
    assert_eq!(approved.value["state"], "committing");
    assert_eq!(rules(&work.denied_write("app.py")), ["phases/no-writes"]);
    let commit = work
        .done("git.commit", json!({ "message": "Double a number" }))
        .value;
    assert_eq!(commit["branch"], "main", "{commit}");
    assert_eq!(git(&work.place, &["rev-parse", "main"]), before);
    let status = work.done("phase.status", json!({})).value;
    assert_eq!(status["commit"], commit["commit"]);
    let merged = work.done("merge.apply", status["merge"].clone()).value;
    assert_eq!(
        (&merged["state"], &merged["left"]),
        (&json!("idle"), &json!([])),
        "{merged}"
    );
    assert_eq!(
        git(&work.place, &["rev-parse", "main"]),
        commit["commit"].as_str().unwrap()
    );
    assert_eq!(git(&work.place, &["fsck", "--no-dangling"]), "");
    assert_eq!(git(&work.place, &["status", "--porcelain"]), "");
    assert_eq!(
        git(&work.place, &["show", "-s", "--format=%s", "main"]),
        "Double a number"
    );
    assert_eq!(
        fs::read_to_string(work.place.real("app.py")).unwrap(),
        DOUBLE
    );
    assert!(!work.place.real("hook-ran").exists(), "a hook ran");
    let undo = Call::new("merge.undo", json!({}));
    let undone = work.place.approved(Front::Cli, &undo).value;
    assert_eq!(undone["left"], json!([]), "{undone}");
    assert_eq!(git(&work.place, &["rev-parse", "main"]), before);
    assert_eq!(fs::read_to_string(work.place.real("app.py")).unwrap(), APP);
}

#[test]
fn an_approval_is_for_those_changes_alone() {
    let work = Work::python("strict").green();
    let call = work.call("phase.commit", json!({ "digest": work.digest() }));
    work.place.approved(Front::Agent, &call);
    // The person at the command line is outside the session, and may change the stage.
    fs::write(work.place.real("sneak"), "echo 'import os' >>app.py").unwrap();
    done(work.place.submit(
        Front::Cli,
        "exec.run",
        json!({ "command": ["sh", "sneak"] }),
    ));
    let status = work.done("phase.status", json!({})).value;
    let asked = work.submit("merge.apply", status["merge"].clone());
    assert!(matches!(asked, Outcome::NeedsReview(_)), "{asked:?}");
    work.refused("git.commit", json!({ "message": "Sneak" }));
}

#[test]
fn tests_that_cannot_fail_lead_nowhere() {
    for (case, test) in [
        ("empty", "def test_nothing():\n    pass\n"),
        (
            "asserts nothing",
            "from app import add\n\n\ndef test_nothing():\n    add(1, 2)\n",
        ),
        (
            "asserts a literal",
            "def test_nothing():\n    assert True\n",
        ),
        ("no test at all", "X = 1\n"),
        ("does not parse", "def test_nothing(:\n"),
    ] {
        let work = Work::python("strict").planned();
        work.wrote("tests/test_new.py", test);
        let ran = work.test();
        assert_ne!(ran["phase"]["proof"], "red", "{case}: {ran}");
        let refused = work.refused("phase.advance", json!({}));
        assert!(refused.what.contains("guard `"), "{case}: {}", refused.what);
        assert_eq!(work.state(), "test_writing", "{case}");
    }
}

#[test]
fn tests_that_only_add_coverage_must_notice_a_mutation() {
    let padded = "from app import add, double\n\n\ndef test_double():\n    assert double(4) == 8\n\n\n\
                  def test_runs_but_looks_at_nothing():\n    add(1, 2)\n    assert 1 == 1\n";
    let work = Work::python("strict").planned();
    // The failing one keeps the whole file from loading; the other is known by its text.
    work.wrote("tests/test_double.py", padded);
    let ran = work.test();
    assert_eq!(
        ran["phase"]["suspects"],
        json!(["test_runs_but_looks_at_nothing"]),
        "{ran}"
    );
    // Nothing could be measured: the file does not load. The answer says so.
    assert_eq!(
        ran["phase"]["mutated"]["lines"], "changed_or_named",
        "{ran}"
    );
    assert!(ran["phase"]["mutated"]["why"].is_string(), "{ran}");
    let refused = work.refused("phase.advance", json!({}));
    assert!(refused.what.contains("tests_can_fail"), "{}", refused.what);

    let covering = "import app\n\n\ndef test_double():\n    assert app.double(4) == 8\n\n\n\
                    def test_adds():\n    assert app.add(2, 2) == 4\n";
    work.wrote("tests/test_double.py", covering);
    let ran = work.test();
    assert_eq!(
        (&ran["phase"]["proof"], &ran["phase"]["suspects"]),
        (&json!("red"), &json!([])),
        "{ran}"
    );
    assert_eq!(work.staged("app.py"), APP, "a mutant was left behind");

    let hollow = covering.replace(
        "assert app.add(2, 2) == 4",
        "assert app.add(2, 2) is not None",
    );
    work.wrote("tests/test_double.py", &hollow);
    let ran = work.test();
    assert_eq!(ran["phase"]["suspects"], json!(["test_adds"]), "{ran}");
    work.refused("phase.advance", json!({}));
}

const IMPLEMENTATION: &str = "def double(a):\n    return a * 2\n";

fn stopped_by(work: &Work, guard: &str, case: &str) {
    let refused = work.refused("phase.advance", json!({}));
    let guard = format!("guard `{guard}`");
    assert!(refused.what.contains(&guard), "{case}: {}", refused.what);
}

#[test]
fn source_smuggled_into_test_paths_does_not_become_the_product() {
    let work = Work::python("strict").planned();
    work.wrote("tests/test_double.py", TEST);
    work.wrote("tests/impl.py", IMPLEMENTATION);
    work.test();
    work.advance();
    for import in [
        "from tests.impl import double",
        "from tests.impl import *",
        "from tests.impl import (\n    double,\n)",
        "import os; from tests import impl",
        "from impl import double",
    ] {
        work.wrote("app.py", &format!("{import}\n{APP}"));
        stopped_by(&work, "tests_stay_tests", import);
    }
    work.wrote("app.py", &format!("from helper import double\n{APP}"));
    for (link, guard) in [
        ("ln -s tests/impl.py helper.py", "tests_stay_tests"),
        ("ln -sfn tests helper.py", "tests_stay_tests"),
        ("ln -sfn . helper.py", "within_the_way"),
        ("ln -sfn /etc/passwd helper.py", "within_the_way"),
        ("ln -sfn missing.py helper.py", "within_the_way"),
    ] {
        let linked = work.sneak(link);
        assert_eq!(linked.value["exit"], 0, "{link}: {:?}", linked.value);
        assert_eq!(put_back(&linked), [""; 0], "{link}");
        stopped_by(&work, guard, link);
    }
    // A link to source, and source that takes nothing from tests, go on.
    work.sneak("ln -sfn app.py helper.py");
    work.wrote("app.py", DOUBLE);
    assert_eq!(work.advance()["state"], "validating");
}

#[test]
fn source_of_rust_smuggled_into_test_paths_does_not_become_the_product() {
    let lib = "#[cfg(test)]\nmod tests;\npub fn add(a: u32, b: u32) -> u32 {\n    a + b\n}\n";
    let double = "pub fn double(a: u32) -> u32 {\n    a * 2\n}\n";
    let files = projects::with(
        projects::RUST,
        &[("src/lib.rs", lib), ("src/tests/mod.rs", "")],
    );
    let work = Work::new(POLICY, &files, "strict").planned();
    work.wrote(
        "tests/double.rs",
        "#[test]\nfn doubles() {\n    assert_eq!(demo::double(4), 8);\n}\n",
    );
    work.wrote("tests/impl/mod.rs", double);
    work.wrote("src/tests/mod.rs", double);
    work.test();
    assert_eq!(work.advance()["state"], "code_writing");
    for (case, code) in [
        (
            "a raw path",
            format!("{lib}#[path = r\"../tests/impl/mod.rs\"]\nmod real;\npub use real::double;\n"),
        ),
        (
            "a module that only tests had",
            lib.replace(
                "#[cfg(test)]\nmod tests;",
                "mod tests;\npub use tests::double;",
            ),
        ),
        (
            "an include",
            format!("{lib}include!(concat!(\"../tests\", r\"/impl/mod.rs\"));\n"),
        ),
    ] {
        work.wrote("src/lib.rs", &code);
        stopped_by(&work, "tests_stay_tests", case);
    }
    work.wrote("src/lib.rs", &format!("{lib}{double}"));
    assert_eq!(work.advance()["state"], "validating");
}

#[test]
fn what_source_took_from_tests_before_is_not_the_sessions_doing_and_more_is() {
    let took = "from tests.shared import ONE\n";
    let app = format!("{took}{APP}");
    let own = [
        ("app.py", app.as_str()),
        ("tests/__init__.py", ""),
        ("tests/shared.py", "ONE = 1\n"),
    ];
    let files = projects::with(projects::PYTHON, &own);
    let work = Work::new(POLICY, &files, "strict").planned();
    work.wrote("tests/test_double.py", TEST);
    work.wrote("tests/impl.py", IMPLEMENTATION);
    work.test();
    assert_eq!(work.advance()["state"], "code_writing");
    work.wrote("app.py", &format!("from tests.impl import double\n{app}"));
    stopped_by(&work, "tests_stay_tests", "another test");
    work.wrote("app.py", &format!("{took}{DOUBLE}"));
    assert_eq!(work.advance()["state"], "validating");
}

#[test]
fn an_exemption_is_asked_for_and_covers_what_it_names() {
    let work = Work::python("strict");
    work.advance();
    let ask = |category: &str, path: &str| {
        let asked = json!({ "category": category, "paths": [path], "reason": "a typo" });
        work.call("phase.request_exemption", asked)
    };
    let submit = |call: &Call| work.place.kernel().submit(Front::Agent, call);
    let outside = ask("documentation", "app.py");
    let Outcome::NeedsReview(mut review) = submit(&outside) else {
        panic!("an exemption was not asked for");
    };
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let terminal = rustix::pty::openpt(flags).unwrap();
    let person = work.place.kernel().person(&terminal, None).unwrap();
    work.place
        .kernel()
        .answer(person, &mut review, true)
        .unwrap();
    let refused = failed(submit(&outside));
    assert!(
        refused.what.contains("guard `exemption`"),
        "{}",
        refused.what
    );
    assert_eq!(work.state(), "planning");
    let granted = work
        .place
        .approved(Front::Agent, &ask("documentation", "README.md"));
    assert_eq!(granted.value["state"], "exploring");
    for path in ["app.py", "tests/test_add.py", "docs/more.md"] {
        assert_eq!(
            rules(&work.denied_write(path)),
            ["phases/exemption"],
            "{path}"
        );
    }
    work.wrote("README.md", "# Add\n");
    let sneaked = work.sneak("echo 'x = 1' >>app.py; echo more >>README.md");
    assert_eq!(put_back(&sneaked), ["app.py"]);
    work.advance();
    assert_eq!(work.test()["phase"]["state"], "reviewing");
    for glob in ["*.md", "docs/**", "../x.md", "/etc/x.md"] {
        let failure = failed(submit(&ask("documentation", glob)));
        assert_eq!(failure.code, "invalid_arguments", "{glob}");
    }
}

#[test]
fn an_exploring_session_ends_in_a_commit_that_says_it_is_unverified() {
    let work = Work::python("explore");
    with_repository(&work.place);
    let work = work.planned();
    assert_eq!(work.state(), "exploring");
    work.wrote("app.py", DOUBLE);
    assert_eq!(
        rules(&work.denied_write("README.md")),
        ["phases/source-and-tests"]
    );
    work.advance();
    assert_eq!(work.test()["phase"]["state"], "reviewing");
    let call = work.call("phase.commit", json!({ "digest": work.digest() }));
    work.place.approved(Front::Agent, &call);
    work.done("git.commit", json!({ "message": "Try doubling" }));
    let merge = work.done("phase.status", json!({})).value["merge"].clone();
    work.done("merge.apply", merge);
    let body = git(&work.place, &["show", "-s", "--format=%B", "main"]);
    assert!(body.contains("Airlock-Verified: no"), "{body}");
}

#[test]
fn explored_code_gets_its_tests_afterwards_and_nothing_but_tests() {
    let work = Work::python("explore").planned();
    work.wrote("app.py", DOUBLE);
    work.advance();
    assert_eq!(work.test()["phase"]["state"], "reviewing");
    let asked = work.done("phase.advance", json!({ "to": "retroactive_testing" }));
    assert_eq!(asked.value["may_write"], "tests");
    assert_eq!(rules(&work.denied_write("app.py")), ["phases/tests-first"]);
    let sneaked = work.sneak("echo 'x = 1' >>app.py");
    assert_eq!(put_back(&sneaked), ["app.py"]);
    work.wrote(
        "tests/test_double.py",
        &TEST.replace("double(4) == 8", "double(4) == 9"),
    );
    work.advance();
    assert_eq!(work.test()["phase"]["state"], "exploring", "it fails");
    work.wrote("tests/test_double.py", TEST);
    work.advance();
    assert_eq!(work.test()["phase"]["state"], "reviewing");
    work.merged();
    // A strict session has its tests by then.
    let work = Work::python("strict").green();
    work.refused("phase.advance", json!({ "to": "retroactive_testing" }));
}

#[test]
fn inline_tests_of_rust_are_tests_and_stay_as_they_failed() {
    let lib = "pub fn add(a: u32, b: u32) -> u32 {\n    a + b\n}\n";
    let files = projects::with(projects::RUST, &[("src/lib.rs", lib)]);
    let work = Work::new(POLICY, &files, "strict").planned();
    let test = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn doubles() {\n        assert_eq!(super::double(4), 8);\n    }\n}\n";
    let smuggled = format!("{lib}pub fn double(a: u32) -> u32 {{ a * 2 }}\n{test}");
    assert_eq!(
        rules(&denied(work.write("src/lib.rs", &smuggled))),
        ["phases/tests-first"]
    );
    work.wrote("src/lib.rs", &format!("{lib}{test}"));
    let ran = work.test();
    assert_eq!(ran["phase"]["proof"], "red", "{ran}");
    assert_eq!(work.advance()["state"], "code_writing");
    let weakened = test.replace(
        "assert_eq!(super::double(4), 8)",
        "let _ = super::double(4)",
    );
    let code = "pub fn double(a: u32) -> u32 {\n    a * 2\n}\n";
    work.wrote("src/lib.rs", &format!("{lib}{code}{weakened}"));
    let refused = work.refused("phase.advance", json!({}));
    assert!(refused.what.contains("tests_untouched"), "{}", refused.what);
    work.wrote("src/lib.rs", &format!("{lib}{code}{test}"));
    work.advance();
    let ran = work.test();
    assert_eq!(ran["phase"]["state"], "reviewing", "{ran}");
}

#[test]
fn node_and_go_are_held_as_well() {
    let node = [("app.js", "exports.add = (a, b) => a + b;\n")];
    let go = [(
        "app.go",
        "package demo\n\nfunc Add(a, b int) int {\n\treturn a + b\n}\n",
    )];
    let node = projects::with(projects::NODE, &node);
    let go = projects::with(projects::GO, &go);
    let cases = [
        (
            node,
            "app.test.js",
            "const test = require('node:test');\nconst assert = require('assert');\nconst app = require('./app.js');\n\ntest('doubles', () => { assert.equal(app.double(4), 8); });\n",
            "app.js",
            "exports.add = (a, b) => a + b;\nexports.double = (a) => a * 2;\n",
        ),
        (
            go,
            "app_test.go",
            "package demo\n\nimport \"testing\"\n\nfunc TestDouble(t *testing.T) {\n\tif Double(4) != 8 {\n\t\tt.Fatal(\"no\")\n\t}\n}\n",
            "app.go",
            "package demo\n\nfunc Add(a, b int) int {\n\treturn a + b\n}\n\nfunc Double(a int) int {\n\treturn a * 2\n}\n",
        ),
    ];
    for (files, test_path, test, path, code) in cases {
        let work = Work::new(POLICY, &files, "strict").planned();
        work.wrote(test_path, test);
        let ran = work.test();
        assert_eq!(ran["phase"]["proof"], "red", "{ran}");
        work.advance();
        work.wrote(path, code);
        work.advance();
        let ran = work.test();
        assert_eq!(ran["phase"]["state"], "reviewing", "{ran}");
    }
}

#[test]
fn a_configured_command_is_what_runs() {
    let policy = POLICY.replace(
        "rules:",
        "phases: { test_command: [sh, -c, \"echo '# pass 3'; echo '# fail 0'\"] }\nrules:",
    );
    let place = Place::new(&policy, &[("a", "a\n")]);
    let ran = done(place.call("test.run", json!({}))).value;
    assert_eq!(ran["tests"]["passed"], 3, "{ran}");
    let filtered = failed(place.call("test.run", json!({ "filter": "x" })));
    assert_eq!(filtered.code, "invalid_arguments");
}

#[test]
fn a_session_without_a_mode_is_not_held_and_a_refused_mode_leaves_it_strict() {
    let place = Place::new(POLICY, &[("app.py", APP)]);
    let begun = done(place.submit(Front::Cli, "session.create", json!({}))).value;
    assert_eq!(begun["disciplined"], false);
    let mut call = Call::new("fs.write", json!({ "path": "app.py", "text": "x = 1\n" }));
    call.session = Some(SessionId::new(begun["id"].as_str().unwrap()).unwrap());
    done(place.kernel().submit(Front::Agent, &call));

    let never = POLICY.to_owned()
        + "  - name: no-debug\n    match: { syscall: session.set_mode, arg: { mode: debug } }\n    action: deny\n";
    let work = Work::new(&never, &[("app.py", APP)], "explore").planned();
    assert_eq!(work.state(), "exploring");
    denied(work.submit("session.set_mode", json!({ "mode": "debug" })));
    let status = work.done("phase.status", json!({})).value;
    assert_eq!(
        (&status["mode"], &status["state"]),
        (&json!("strict"), &json!("planning"))
    );
}

/// Whoever asks: the session it was asked for is strict, not that of whoever asked.
#[test]
fn a_mode_that_is_refused_by_name_leaves_the_named_session_strict() {
    let never = POLICY.to_owned()
        + "  - name: no-debug\n    match: { syscall: session.set_mode, arg: { mode: debug } }\n    action: deny\n";
    let work = Work::new(&never, &[("app.py", APP)], "explore").planned();
    let asked = json!({ "mode": "debug", "session": work.session });
    denied(work.place.submit(Front::Cli, "session.set_mode", asked));
    let status = work.done("phase.status", json!({})).value;
    assert_eq!(status["mode"], "strict", "{status}");
}

/// A denial is no way to reach a session that is not one's own.
#[test]
fn a_mode_that_is_denied_to_somebody_else_leaves_the_named_session_alone() {
    let never = POLICY.to_owned()
        + "  - name: no-debug\n    match: { syscall: session.set_mode, arg: { mode: debug } }\n    action: deny\n";
    let work = Work::new(&never, &[("app.py", APP)], "explore").planned();
    let asked = json!({ "mode": "debug", "session": work.session });
    denied(work.place.submit(Front::Agent, "session.set_mode", asked));
    let status = work.done("phase.status", json!({})).value;
    assert_eq!(
        (&status["mode"], &status["state"]),
        (&json!("explore"), &json!("exploring"))
    );
}

#[test]
fn a_refused_mode_holds_no_session_that_was_free() {
    let never = POLICY.replace("rules:", "phases: { mode: explore }\nrules:")
        + "  - name: no-debug\n    match: { syscall: session.set_mode, arg: { mode: debug } }\n    action: deny\n";
    let place = Place::new(&never, &[("app.py", APP)]);
    let begun = done(place.submit(Front::Cli, "session.create", json!({}))).value;
    assert_eq!(begun["mode"], "explore", "{begun}");
    let asked = json!({ "mode": "debug", "session": begun["id"] });
    denied(place.submit(Front::Cli, "session.set_mode", asked));
    let asked = json!({ "session": begun["id"] });
    let shown = done(place.submit(Front::Cli, "session.show", asked)).value;
    assert_eq!(
        (&shown["mode"], &shown["disciplined"]),
        (&json!("explore"), &json!(false))
    );
}

#[test]
fn source_behind_a_long_remark_is_not_taken_for_inline_tests() {
    let own = [("src/main.rs", "fn main() {}\n")];
    let work = Work::new(POLICY, &projects::with(projects::RUST, &own), "strict").planned();
    let ran = work.sneak(
        "head -c 2100000 /dev/zero | tr '\\000' '/' >src/lib.rs; \
         printf '\\npub fn double(a: u32) -> u32 { a * 2 }\\n' >>src/lib.rs",
    );
    assert_eq!(put_back(&ran), ["src/lib.rs"], "{:?}", ran.value);
}

#[test]
fn where_a_session_stands_survives_the_kernel() {
    let work = Work::python("strict").red();
    let Work { place, session } = work;
    let work = Work {
        place: place.reopened(),
        session,
    };
    assert_eq!(work.state(), "code_writing");
    assert_eq!(
        rules(&work.denied_write("tests/test_double.py")),
        ["phases/tests-are-read-only"]
    );
    work.wrote("app.py", DOUBLE);
    work.advance();
    assert_eq!(work.test()["phase"]["state"], "reviewing");
}

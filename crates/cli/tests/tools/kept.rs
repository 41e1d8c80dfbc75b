//! Which tests are all tests: not those that an agent chooses, and none fewer than there were.

use super::projects::{self, Files};
use super::support::{Place, done, put_back};
use super::work::{APP, DOUBLE, POLICY, TEST, Work};
use airlock_kernel::{Front, Outcome};
use serde_json::{Value, json};

const APP_JS: &str = "exports.add = (a, b) => a + b;\n";
const DOUBLE_JS: &str =
    "exports.add = (a, b) => a + b;\nexports.double = (a) => {\n  return a * 2;\n};\n";
const TEST_JS: &str = "const test = require('node:test');\nconst assert = require('assert');\n\
                       const app = require('./app.js');\ntest('doubles', () => { assert.equal(app.double(4), 8); });\n";
const TEST_ADD: (&str, &str) = (
    "tests/test_add.py",
    "from app import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
);

fn by(work: &Work, framework: &str) -> Value {
    let asked = json!({ "framework": framework });
    work.done("test.run", asked).value["phase"].clone()
}

#[test]
fn whoever_is_tested_does_not_choose_the_tests() {
    let lib = [(
        "src/lib.rs",
        "pub fn add(a: u32, b: u32) -> u32 {\n    a + b\n}\n",
    )];
    let work = Work::new(POLICY, &projects::with(projects::RUST, &lib), "strict").planned();
    work.wrote("tests/x.test.js", &TEST_JS.replace("./app", "../src/x"));
    for framework in ["node", "pytest"] {
        let phase = by(&work, framework);
        assert_eq!(phase["proof"], "nothing", "{phase}");
        let why = phase["why"].as_str().unwrap();
        assert!(why.contains("another framework"), "{why}");
        work.refused("phase.advance", json!({}));
    }
    // Nor by a file that gives another framework away.
    let page = projects::with(projects::NODE, &[("app.js", APP_JS)]);
    let work = Work::new(POLICY, &page, "explore").planned();
    work.wrote("conftest.py", "X = 1\n");
    let ran = work.test();
    assert_eq!(ran["framework"], "node", "{ran}");
}

/// A project of two languages.
fn mixed() -> Vec<(&'static str, &'static str)> {
    let own = [
        ("package.json", "{}"),
        ("app.js", APP_JS),
        ("app.py", APP),
        TEST_ADD,
    ];
    projects::with(projects::PYTHON, &own)
}

#[test]
fn where_two_languages_are_changed_the_tests_of_both_have_to_pass() {
    let work = Work::new(POLICY, &mixed(), "strict").planned();
    work.wrote("app.test.js", TEST_JS);
    assert_eq!(by(&work, "node")["proof"], "red");
    work.advance();
    work.wrote("app.js", DOUBLE_JS);
    work.wrote("app.py", "def add(a, b):\n    return a - b\n");
    work.advance();
    let phase = by(&work, "node");
    assert_eq!(phase["state"], "code_writing", "{phase}");
    let why = phase["why"].as_str().unwrap();
    assert!(why.starts_with("`pytest`"), "{why}");
    work.wrote("app.py", &format!("{APP}# as it was\n"));
    work.advance();
    let refused = by(&work, "pytest");
    assert_eq!(
        refused["state"], "code_writing",
        "RED was another's: {refused}"
    );
    work.advance();
    let phase = by(&work, "node");
    assert_eq!(phase["state"], "reviewing", "{phase}");
    assert_eq!(phase["partial"], json!(null), "both were run");
}

#[test]
fn tests_that_were_not_run_are_named_and_a_person_is_asked() {
    let policy = POLICY.replace("rules:", "merge: { automatic: true }\nrules:");
    let work = Work::new(&policy, &mixed(), "strict").planned();
    work.wrote("app.test.js", TEST_JS);
    assert_eq!(by(&work, "node")["proof"], "red");
    work.advance();
    work.wrote("app.js", DOUBLE_JS);
    work.advance();
    let phase = by(&work, "node");
    assert_eq!(phase["state"], "reviewing", "{phase}");
    assert!(
        phase["partial"].as_str().unwrap().contains("pytest"),
        "{phase}"
    );
    let told = why(&work, "merge.automatic");
    assert!(told.contains("not run: those of pytest"), "{told}");
}

/// What `rule` says to the person who is asked about the reviewed changes.
fn why(work: &Work, rule: &str) -> String {
    let outcome = work.submit("phase.commit", json!({ "digest": work.digest() }));
    let Outcome::NeedsReview(review) = outcome else {
        panic!("not asked: {outcome:?}");
    };
    let mut all = review.approval.why.iter();
    let found = all.find(|one| &*one.rule == rule);
    found.map(|one| one.reason.to_string()).unwrap_or_default()
}

#[test]
fn a_member_of_a_workspace_is_tested_with_its_root() {
    let files = |claim: &str| {
        let manifest = "[package]\nname = \"demo\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\nmembers = [\"crates/a\"]\n";
        let lock = "version = 3\n\n[[package]]\nname = \"a\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"demo\"\nversion = \"0.1.0\"\n";
        let member = manifest.split("\n\n").next().unwrap().replace("demo", "a");
        let test = format!("#[test]\nfn own() {{\n    assert!({claim});\n}}\n");
        [
            ("Cargo.toml", manifest.to_owned()),
            ("Cargo.lock", lock.to_owned()),
            (".gitignore", "target/\n".to_owned()),
            ("src/lib.rs", String::new()),
            ("tests/root.rs", "#[test]\nfn root() {}\n".to_owned()),
            ("crates/a/Cargo.toml", member),
            ("crates/a/src/lib.rs", test),
        ]
    };
    for (claim, failed) in [("true", 0), ("false", 1)] {
        let files = files(claim);
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, text)| (*path, text.as_str()))
            .collect();
        let place = Place::new(POLICY, &files);
        let ran = done(place.call("test.run", json!({}))).value;
        assert_eq!(ran["tests"]["failed"], failed, "{ran}");
        assert_eq!(ran["tests"]["passed"], 2 - failed, "{ran}");
    }
}

#[test]
fn a_test_that_was_there_cannot_be_deleted_or_renamed_before_there_is_code() {
    for script in [
        "rm tests/test_add.py",
        "sed -i s/test_add/check_add/ tests/test_add.py",
        "mv tests/test_add.py tests/old.txt",
    ] {
        let work = Work::python("strict").planned();
        work.wrote("tests/test_double.py", TEST);
        assert_eq!(put_back(&work.sneak(script)), [""; 0], "{script}");
        let phase = work.test()["phase"].clone();
        assert_eq!(phase["lost"], json!(["test_add"]), "{script}: {phase}");
        let refused = work.refused("phase.advance", json!({}));
        assert!(refused.what.contains("same_tests"), "{}", refused.what);
    }
    // One that is only moved is still there.
    let work = Work::python("strict").planned();
    work.wrote("tests/test_double.py", TEST);
    work.sneak("mv tests/test_add.py tests/test_more.py");
    assert_eq!(work.test()["phase"]["lost"], json!([]));
    assert_eq!(work.advance()["state"], "code_writing");
}

#[test]
fn a_test_that_was_there_cannot_be_left_out_either() {
    let add = TEST_ADD.1;
    let cases = [
        (
            "tests/conftest.py",
            "collect_ignore = ['test_add.py']\n".to_owned(),
        ),
        (
            "tests/test_add.py",
            format!(
                "import pytest\n{}",
                add.replace("def test_add", "@pytest.mark.skip\ndef test_add")
            ),
        ),
        (
            "tests/test_add.py",
            format!("import pytest\npytestmark = pytest.mark.skip\n{add}"),
        ),
    ];
    for (path, text) in cases {
        let work = Work::python("strict").planned();
        work.wrote("tests/test_double.py", TEST);
        work.wrote(path, &text);
        assert_eq!(work.test()["phase"]["proof"], "red", "{text}");
        assert_eq!(work.advance()["state"], "code_writing");
        work.wrote("app.py", &DOUBLE.replace("a + b", "a - b"));
        work.advance();
        let phase = work.test()["phase"].clone();
        assert_eq!(phase["proof"], "green", "{text}: {phase}");
        assert_eq!(phase["ran_the_tree"], true, "{text}: {phase}");
        assert_eq!(phase["lost"], json!(["test_add"]), "{text}: {phase}");
        assert_eq!(phase["lost_why"], json!(null), "{text}: {phase}");
        assert_eq!(phase["state"], "code_writing", "{text}: {phase}");
        let told = phase["refused"].as_str().unwrap();
        assert!(told.contains("guard `same_tests`"), "{told}");
        // What is refused already is tried no further.
        assert_eq!(phase["mutated"], json!(null), "{text}: {phase}");
        assert_eq!(phase["measured"], json!(null), "{text}: {phase}");
    }
}

/// A strict task with a conftest of its own, as far as its code is validated by a run with `asked`.
fn validated(own: Files<'_>, conftest: &str, asked: Value) -> Value {
    let work = Work::new(POLICY, &projects::with(projects::PYTHON, own), "strict").planned();
    work.wrote("tests/test_double.py", TEST);
    work.wrote("tests/conftest.py", conftest);
    assert_eq!(work.test()["phase"]["proof"], "red", "{conftest}");
    assert_eq!(work.advance()["state"], "code_writing");
    work.wrote("app.py", DOUBLE);
    work.advance();
    work.done("test.run", asked).value["phase"].clone()
}

#[test]
fn whoever_is_tested_does_not_choose_how_far_the_real_tree_comes() {
    let slow = "import time\n\n\ndef test_slow():\n    time.sleep(8)\n    assert time\n";
    let own = [("app.py", APP), TEST_ADD, ("tests/test_slow.py", slow)];
    let left_out = "collect_ignore = ['test_slow.py']\n";
    let phase = validated(&own, left_out, json!({ "timeout": "6s" }));
    assert_eq!(phase["proof"], "green", "{phase}");
    assert_eq!(phase["lost"], json!(["test_slow"]), "{phase}");
    assert_eq!(phase["state"], "code_writing", "{phase}");
}

#[test]
fn a_runner_that_is_made_to_name_no_test_hides_none() {
    let quiet = "def pytest_configure(config):\n    config.option.verbose = 0\n";
    let phase = validated(&[("app.py", APP), TEST_ADD], quiet, json!({}));
    assert_eq!(phase["proof"], "green", "{phase}");
    assert_eq!(phase["lost"], json!(["test_add"]), "{phase}");
    let why = phase["lost_why"].as_str().unwrap();
    assert!(why.contains("names no test now"), "{phase}");
    let told = phase["refused"].as_str().unwrap();
    assert!(told.contains(why), "{told}");
    // A project that is quiet by its own settings is not.
    let settings = "[pytest]\npythonpath = .\naddopts = -p no:cacheprovider -qq\n";
    let own = [("pytest.ini", settings), ("app.py", APP), TEST_ADD];
    let phase = validated(&own, "X = 1\n", json!({}));
    assert_eq!(phase["state"], "reviewing", "{phase}");
    assert_eq!(phase["ran_the_tree"], false, "{phase}");
}

#[test]
fn honest_work_costs_no_run_of_the_real_tree() {
    let work = Work::python("strict").red();
    work.wrote("app.py", DOUBLE);
    work.advance();
    let phase = work.test()["phase"].clone();
    assert_eq!(phase["state"], "reviewing", "{phase}");
    assert_eq!(phase["ran_the_tree"], false, "{phase}");
    // Nor does a test that was left out before.
    let skipped = TEST_ADD
        .1
        .replace("def test_add", "@pytest.mark.skip\ndef test_add");
    let skipped = format!("import pytest\n{skipped}");
    let own = [("app.py", APP), ("tests/test_add.py", skipped.as_str())];
    let files = projects::with(projects::PYTHON, &own);
    let work = Work::new(POLICY, &files, "strict").red();
    work.wrote("app.py", DOUBLE);
    work.advance();
    let phase = work.test()["phase"].clone();
    assert_eq!(phase["state"], "reviewing", "{phase}");
    assert_eq!(phase["ran_the_tree"], false, "{phase}");
    // A stage that was made for one run is gone with it.
    let listed = done(
        work.place
            .submit(Front::Cli, "stage.read", json!({ "purpose": "list" })),
    );
    assert!(
        !listed.value.to_string().contains("tree-"),
        "{:?}",
        listed.value
    );
}

#[test]
fn exploring_may_take_tests_out_and_a_person_is_told() {
    let automatic = POLICY.replace("rules:", "merge: { automatic: true }\nrules:");
    for (policy, rule) in [
        (POLICY, "phases/same-tests"),
        (automatic.as_str(), "merge.automatic"),
    ] {
        let own = [
            ("app.py", APP),
            TEST_ADD,
            (
                "tests/test_same.py",
                "def test_same():\n    assert [] == []\n",
            ),
        ];
        let work = Work::new(policy, &projects::with(projects::PYTHON, &own), "explore").planned();
        work.wrote("app.py", "def add(a, b):\n    return a - b\n");
        work.done("fs.delete", json!({ "path": "tests/test_add.py" }));
        work.advance();
        let phase = work.test()["phase"].clone();
        assert_eq!(phase["state"], "reviewing", "{phase}");
        assert_eq!(phase["lost"], json!(["test_add"]), "{phase}");
        let told = why(&work, rule);
        assert!(told.contains("no longer run: test_add"), "{told}");
    }
}

#[test]
fn there_are_no_tests_only_where_there_never_were_any() {
    let work = Work::python("explore").planned();
    work.wrote("app.py", "def add(a, b):\n    return a - b\n");
    work.done("fs.delete", json!({ "path": "tests/test_add.py" }));
    work.advance();
    let phase = work.test()["phase"].clone();
    assert_eq!(phase["proof"], "no_tests", "{phase}");
    assert_eq!(phase["state"], "exploring", "{phase}");
    work.wrote("tests/test_add.py", TEST_ADD.1);
    work.wrote("tests/conftest.py", "collect_ignore = ['test_add.py']\n");
    work.advance();
    let phase = work.test()["phase"].clone();
    assert_eq!(phase["state"], "exploring", "{phase}");
    assert_eq!(phase["lost"], json!(["test_add"]), "{phase}");
}

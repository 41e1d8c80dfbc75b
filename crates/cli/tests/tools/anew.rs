//! What a step rests on: a run in a sandbox that nobody used before, of what would be merged and
//! nothing else. What git ignores, build products and dates that anybody can set have no part in it.

use super::projects::{self, Files};
use super::support::{Place, done, put_back};
use super::work::{APP, DOUBLE, POLICY, Work};
use airlock_core::SessionId;
use airlock_kernel::{Done, Front, Lifetime, Outcome};
use serde_json::{Value, json};
use std::fs;

const PYTHON: Files<'_> = &[
    (".gitignore", "__pycache__/\n*.py[cod]\nlcov.info\n"),
    ("app.py", APP),
    (
        "tests/test_add.py",
        "from app import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
    ),
];

const RUST: Files<'_> = &[
    (
        "src/lib.rs",
        "pub fn add(a: u32, b: u32) -> u32 {\n    a + b\n}\n",
    ),
    (
        "tests/add.rs",
        "#[test]\nfn adds() {\n    assert_eq!(demo::add(1, 2), 3);\n}\n",
    ),
];

fn python() -> Vec<(&'static str, &'static str)> {
    projects::with(projects::PYTHON, PYTHON)
}

/// The same in a kernel that stays.
fn lasting(mode: &str) -> Work {
    let place = Place::with(POLICY, &python(), Lifetime::Long);
    let begun = done(place.submit(Front::Cli, "session.create", json!({ "mode": mode })));
    let session = SessionId::new(begun.value["id"].as_str().unwrap()).unwrap();
    Work { place, session }
}

/// A script that is granted what the tests are.
fn like_tests(script: &str, place: &Place) -> Value {
    fs::write(place.real("script"), script).unwrap();
    json!({
        "command": ["sh", "script"],
        "memory": "1GiB",
        "timeout": "5m",
        "child_processes": 99,
    })
}

fn sandbox(done: &Done) -> &str {
    &done.ran.as_ref().unwrap().sandbox
}

/// The answer says that the change is not proven, and why; and the task is back at work.
fn sent_back(phase: &Value, words: &[&str]) {
    assert_eq!(phase["state"], "code_writing", "{phase}");
    assert_ne!(phase["proof"], "green", "{phase}");
    let why = phase["why"].as_str().unwrap();
    for word in words {
        assert!(why.contains(word), "{word}: {phase}");
    }
    assert!(phase["anew"]["fix"].is_string(), "{phase}");
}

/// Makes every run of pytest in the same home pass `test_add`.
const FORGES: &str = r#"python3 - <<'END'
import os, site
place = site.getusersitepackages()
os.makedirs(place, exist_ok=True)
open(place + "/usercustomize.py", "w").write('import os; os.environ["PYTEST_PLUGINS"] = "evil"')
open(place + "/evil.py", "w").write("""
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if item.name == "test_add" and report.failed:
        report.outcome, report.longrepr = "passed", None
""")
END
"#;

#[test]
fn tests_of_a_held_session_run_in_a_sandbox_of_their_own() {
    let work = lasting("strict").red();
    work.wrote("app.py", &DOUBLE.replace("a + b", "a - b"));
    work.advance();
    let before = work.done("exec.run", like_tests(FORGES, &work.place));
    assert_eq!(before.value["exit"], 0, "{}", before.value);
    let ran = work.done("test.run", json!({}));
    assert_ne!(sandbox(&before), sandbox(&ran));
    assert_eq!(ran.value["tests"]["failed"], 1, "{}", ran.value);
    assert_eq!(ran.value["phase"]["state"], "code_writing", "{}", ran.value);
    let after = work.done("exec.run", like_tests("true", &work.place));
    assert_ne!(sandbox(&after), sandbox(&ran), "it leaves none");
}

/// Without which the one above would show nothing.
#[test]
fn tests_of_a_session_that_is_not_held_find_what_a_command_with_the_same_grants_left() {
    let place = Place::with(POLICY, &python(), Lifetime::Long);
    fs::write(place.real("app.py"), APP.replace("a + b", "a - b")).unwrap();
    let before = done(place.call("exec.run", like_tests(FORGES, &place)));
    let ran = done(place.call("test.run", json!({})));
    assert_eq!(sandbox(&before), sandbox(&ran));
    assert_eq!(ran.value["tests"]["passed"], 1, "{}", ran.value);
}

/// Has the stage hold `code` as `helper`, where git ignores it.
fn compiled(work: &Work, code: &str) {
    let made = work.sneak(&format!(
        "cat >/tmp/helper.py <<END\n{code}END\n\
         python3 -c 'import py_compile as p; \
         p.compile(\"/tmp/helper.py\", cfile=\"helper.pyc\", doraise=True)'\n"
    ));
    assert_eq!(made.value["exit"], 0, "{}", made.value);
}

#[test]
fn code_that_only_what_git_ignores_holds_is_not_there() {
    let automatic = POLICY.replace("rules:", "merge: { automatic: true }\nrules:");
    let work = Work::new(&automatic, &python(), "strict").red();
    compiled(&work, DOUBLE);
    work.wrote("app.py", &format!("from helper import double\n{APP}"));
    work.advance();
    let ran = work.test();
    assert_eq!(ran["tests"]["passed"], 2, "in the stage: {ran}");
    let phase = &ran["phase"];
    sent_back(phase, &["helper.pyc", "git ignores"]);
    let ignored = phase["anew"]["ignored"].as_array().unwrap();
    assert!(ignored.contains(&json!("helper.pyc")), "{phase}");
    let told = phase["anew"]["stdout"].as_str().unwrap();
    assert!(told.contains("helper"), "{phase}");
}

#[test]
fn a_run_of_what_would_be_merged_that_does_not_end_proves_nothing() {
    let short = "templates: { code-executor: { duration: 15s } }\nrules:";
    let work = Work::new(&POLICY.replace("rules:", short), &python(), "strict").planned();
    work.wrote(
        "tests/test_double.py",
        "import os\nimport time\nfrom app import double\n\n\ndef test_double():\n    \
         if not os.path.exists('quick.pyd'):\n        time.sleep(60)\n    \
         assert double(4) == 8\n",
    );
    assert_eq!(work.test()["phase"]["proof"], "red");
    work.advance();
    work.sneak("echo yes >quick.pyd\n");
    work.wrote("app.py", DOUBLE);
    work.advance();
    let ran = work.test();
    assert_eq!(ran["tests"]["passed"], 2, "in the stage: {ran}");
    sent_back(&ran["phase"], &["did not come to their end", "timed_out"]);
}

/// Has cargo take `src/lib.rs`, whose `add` is another then, for what it was built of.
const STALE: &str = "sed -i 's/a + b/a.wrapping_sub(b)/' src/lib.rs; \
                     touch -d 2020-01-01 src/lib.rs; grep -q wrapping src/lib.rs\n";

#[test]
fn what_was_built_of_other_source_proves_nothing() {
    let work = Work::new(POLICY, &projects::with(projects::RUST, RUST), "strict").planned();
    work.wrote(
        "tests/double.rs",
        "#[test]\nfn doubles() {\n    assert_eq!(demo::double(4), 8);\n}\n",
    );
    assert_eq!(work.test()["phase"]["proof"], "red");
    work.advance();
    let code = format!(
        "{}pub fn double(a: u32) -> u32 {{\n    a * 2\n}}\n",
        RUST[0].1
    );
    work.wrote("src/lib.rs", &code);
    assert_eq!(work.test()["exit"], 0);
    assert_eq!(work.sneak(STALE).value["exit"], 0);
    work.advance();
    let ran = work.test();
    assert_eq!(ran["tests"]["passed"], 2, "in the stage: {ran}");
    sent_back(
        &ran["phase"],
        &["`target/`", "not with what would be merged"],
    );
    let told = ran["phase"]["anew"]["stdout"].as_str().unwrap();
    assert!(told.contains("test adds ... FAILED"), "{ran}");
    // And with what was meant it goes on.
    work.wrote("src/lib.rs", &code);
    work.advance();
    let ran = work.test();
    assert_eq!(ran["phase"]["state"], "reviewing", "{ran}");
    assert_eq!(ran["phase"]["anew"]["proof"], "green", "{ran}");
}

#[test]
fn what_is_refactored_passes_afterwards_as_it_would_be_merged() {
    let work = Work::new(POLICY, &python(), "strict");
    work.advance();
    work.measured();
    let lines = json!({ "to": "refactoring", "lines": { "app.py": [[1, 2]] } });
    let advanced = work.done("phase.advance", lines).value;
    assert_eq!(advanced["state"], "refactoring", "{advanced}");
    compiled(&work, APP);
    work.wrote("app.py", "from helper import add\n\n__all__ = ['add']\n");
    work.advance();
    let ran = work.test();
    assert_eq!(ran["tests"]["passed"], 1, "in the stage: {ran}");
    let phase = &ran["phase"];
    assert_eq!(phase["state"], "refactoring", "{phase}");
    assert_ne!(phase["anew"]["proof"], "green", "{phase}");
    let why = phase["why"].as_str().unwrap();
    assert!(why.contains("helper.pyc"), "{phase}");
}

/// Every kind of change is among what is run anew, and what git ignores in the real tree is there.
#[test]
fn what_is_run_anew_is_the_real_tree_with_the_changes() {
    let own = [
        ("gone.py", "GONE = 1\n"),
        ("old/name.py", "NAME = 1\n"),
        ("whole/one.py", "ONE = 1\n"),
        ("whole/two.py", "TWO = 1\n"),
        ("local.pyd", "kept\n"),
        ("src.sh", "exit 0\n"),
    ];
    let files = [&python()[..], &own].concat();
    let all = "phases: { test_paths: [\"tests/**\"], source_paths: [\"**\"] }\nrules:";
    let policy = POLICY.replace("rules:", all);
    let work = Work::new(&policy, &files, "explore").planned();
    work.wrote(
        "tests/test_all.py",
        "import os\nimport stat\nfrom app import double\n\n\ndef test_all():\n    \
         assert double(4) == 8\n    \
         seen = sorted(n for n in os.listdir('.') if n not in ('__pycache__', '.airlock', 'script'))\n    \
         assert seen == ['.gitignore', 'app.py', 'link', 'local.pyd', 'new', 'pytest.ini', 'src.sh', 'tests']\n    \
         assert open('local.pyd').read() == 'kept\\n'\n    \
         assert os.readlink('link') == 'app.py'\n    \
         assert os.stat('src.sh').st_mode & stat.S_IXUSR\n    \
         assert sorted(os.listdir('new')) == ['deep', 'name.py']\n    \
         assert os.listdir('new/deep') == ['made.py']\n",
    );
    let changed = work.sneak(
        "rm gone.py; mkdir -p new/deep; mv old/name.py new/name.py; rmdir old; rm -r whole; \
         ln -s app.py link; chmod +x src.sh; echo 'MADE = 1' >new/deep/made.py; rm -f local.pyd; \
         echo other >local.pyd\n",
    );
    assert_eq!(changed.value["exit"], 0, "{}", changed.value);
    assert_eq!(put_back(&changed), [""; 0]);
    work.wrote("app.py", DOUBLE);
    work.advance();
    let ran = work.test();
    assert_eq!(
        ran["tests"]["failed"], 1,
        "`local.pyd` is another in the stage: {ran}"
    );
    work.sneak("echo kept >local.pyd\n");
    work.advance();
    let ran = work.test();
    let phase = &ran["phase"];
    assert_eq!(phase["anew"]["proof"], "green", "{ran}");
    assert_eq!(phase["state"], "reviewing", "{phase}");
    assert!(phase["partial"].is_null(), "{phase}");
    let stages = work.place.kernel().stages().list().unwrap();
    let names: Vec<String> = stages
        .iter()
        .map(|stage| stage.as_ref().unwrap().name.to_string())
        .collect();
    assert_eq!(names, ["default"], "it went with its runs");
}

#[test]
fn a_change_of_which_nothing_could_be_changed_waits_for_a_person() {
    let automatic = POLICY.replace("rules:", "merge: { automatic: true }\nrules:");
    for (policy, rule) in [
        (POLICY, "phases/same-tests"),
        (automatic.as_str(), "merge.automatic"),
    ] {
        let work = Work::new(policy, &python(), "strict").planned();
        work.wrote(
            "tests/test_double.py",
            "import app\n\n\ndef test_double():\n    assert app.twice(4, 2) == 8\n",
        );
        assert_eq!(work.test()["phase"]["proof"], "red");
        work.advance();
        work.wrote(
            "app.py",
            &format!("from operator import mul as twice\n\n\n{APP}"),
        );
        work.advance();
        let phase = work.test()["phase"].clone();
        assert_eq!(phase["mutated"]["tried"], 0, "{phase}");
        assert_eq!(phase["state"], "reviewing", "{phase}");
        let partial = phase["partial"].as_str().unwrap();
        assert!(partial.contains("no new test has shown"), "{phase}");
        let asked = work.submit("phase.commit", json!({ "digest": work.digest() }));
        let Outcome::NeedsReview(review) = asked else {
            panic!("not asked: {asked:?}");
        };
        let mut why = review.approval.why.iter();
        let told = why.find(|one| &*one.rule == rule).unwrap();
        assert!(told.reason.contains("no new test has shown"), "{told:?}");
    }
}

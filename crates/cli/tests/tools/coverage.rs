//! Which lines the tests run, as the kernel measures it itself, and what it makes of that.

use super::projects::{self, Files};
use super::support::{Place, done};
use super::work::{DOUBLE, POLICY, Work};
use serde_json::{Value, json};

const PYTHON: Files<'_> = &[
    (
        "app.py",
        "def sign(a):\n    if a < 0:\n        return -1\n    return 1\n",
    ),
    (
        "tests/test_app.py",
        "from app import sign\n\n\ndef test_sign():\n    assert sign(5) == 1\n",
    ),
];
const APP_JS: &str =
    "exports.sign = (a) => {\n  if (a < 0) {\n    return -1;\n  }\n  return 1;\n};\n";
const TEST_JS: &str = "const test = require('node:test');\nconst assert = require('assert');\n\
                       const app = require('./app.js');\ntest('sign', () => { assert.equal(app.sign(5), 1); });\n";
const NODE: Files<'_> = &[("app.js", APP_JS), ("app.test.js", TEST_JS)];
const GO: Files<'_> = &[
    (
        "app.go",
        "package demo\n\nfunc Sign(a int) int {\n\tif a < 0 {\n\t\treturn -1\n\t}\n\treturn 1\n}\n",
    ),
    (
        "app_test.go",
        "package demo\n\nimport \"testing\"\n\nfunc TestSign(t *testing.T) {\n\tif Sign(5) != 1 {\n\t\tt.Fatal(1)\n\t}\n}\n",
    ),
];
const RUST: Files<'_> = &[
    (
        "src/lib.rs",
        "pub fn sign(a: i32) -> i32 {\n    if a < 0 {\n        return -1;\n    }\n    1\n}\n",
    ),
    (
        "tests/sign.rs",
        "#[test]\nfn sign() {\n    assert_eq!(demo::sign(5), 1);\n}\n",
    ),
];

fn python() -> Vec<(&'static str, &'static str)> {
    projects::with(projects::PYTHON, PYTHON)
}

fn measured(files: Files<'_>) -> Value {
    let place = Place::new(POLICY, files);
    done(place.call("test.run", json!({ "coverage": true }))).value
}

#[test]
fn each_runner_is_measured_by_the_kernel_itself() {
    for (name, (kind, own), path, found, missed) in [
        (
            "python",
            (projects::PYTHON, PYTHON),
            "app.py",
            4,
            json!([[3, 3]]),
        ),
        ("node", (projects::NODE, NODE), "app.js", 6, json!([[3, 4]])),
        ("npm", (projects::NPM, NODE), "app.js", 6, json!([[3, 4]])),
        ("go", (projects::GO, GO), "app.go", 5, json!([[5, 6]])),
    ] {
        let ran = measured(&projects::with(kind, own));
        assert_eq!(ran["tests"]["passed"], 1, "{name}: {ran}");
        assert_eq!(ran["exit"], 0, "{name}: {ran}");
        let coverage = &ran["coverage"];
        assert_eq!(coverage["taken_by"], "kernel", "{name}: {ran}");
        assert_eq!(coverage["lines_found"], found, "{name}: {ran}");
        assert_eq!(
            coverage["uncovered"],
            json!({ path: missed }),
            "{name}: {ran}"
        );
        let printed = ran["stdout"].as_str().unwrap();
        assert!(
            !printed.contains("end_of_record") && !printed.contains("mode: set"),
            "{name}: {printed}"
        );
    }
}

/// Whether the toolchain that built this test has the tools that read what it measures.
#[expect(
    clippy::disallowed_methods,
    reason = "cargo tells its tests where it is in the environment"
)]
fn has_llvm_tools() -> bool {
    let cargo = std::path::PathBuf::from(std::env::var_os("CARGO").unwrap());
    let targets = cargo.ancestors().nth(2).unwrap().join("lib/rustlib");
    let mut targets = std::fs::read_dir(targets).into_iter().flatten().flatten();
    targets.any(|target| target.path().join("bin/llvm-cov").is_file())
}

/// `cargo xtask setup` installs what it takes to measure Rust; without it the answer says so.
#[test]
fn rust_is_measured_where_its_tools_are_and_says_what_is_missing_where_not() {
    let ran = measured(&projects::with(projects::RUST, RUST));
    assert_eq!(ran["tests"]["passed"], 1, "{ran}");
    if has_llvm_tools() {
        let coverage = &ran["coverage"];
        assert_eq!(coverage["taken_by"], "kernel", "{ran}");
        assert_eq!(coverage["lines_found"], 6, "{ran}");
        let uncovered = json!({ "src/lib.rs": [[3, 3]] });
        assert_eq!(coverage["uncovered"], uncovered, "{ran}");
        return;
    }
    assert!(ran["coverage"].is_null(), "{ran}");
    let told = |what: &str| ran["coverage_missing"][what].as_str().unwrap().to_owned();
    assert!(told("why").contains("llvm-tools"), "{ran}");
    assert!(told("fix").contains("rustup component add"), "{ran}");
}

/// A strict task in Rust whose tests only add coverage, with what they newly run.
#[test]
fn in_rust_tests_are_tried_on_the_lines_they_newly_cover_where_those_can_be_told() {
    let work = Work::new(POLICY, &projects::with(projects::RUST, RUST), "strict").planned();
    let tests = |claim: &str| {
        format!(
            "#[test]\nfn negative() {{\n    assert!({claim});\n}}\n\n#[test]\nfn doubles() {{\n    assert_eq!(demo::sign(5), 2);\n}}\n"
        )
    };
    work.wrote("tests/new.rs", &tests("demo::sign(-5) < 100"));
    let ran = work.test();
    assert_eq!(ran["phase"]["suspects"], json!(["negative"]), "{ran}");
    let lines = if has_llvm_tools() {
        "newly_covered"
    } else {
        "changed_or_named"
    };
    assert_eq!(ran["phase"]["mutated"]["lines"], lines, "{ran}");
    work.wrote("tests/new.rs", &tests("demo::sign(-5) == -1"));
    let ran = work.test();
    assert_eq!(ran["phase"]["suspects"], json!([]), "{ran}");
    assert_eq!(ran["phase"]["proof"], "red", "{ran}");
}

#[test]
fn a_report_that_a_test_writes_is_not_looked_at() {
    let forged = "import os\nfrom app import sign\n\n\ndef test_sign():\n    assert sign(5) == 1\n    \
                  open('lcov.info', 'w').write('SF:app.py\\nDA:1,1\\nDA:2,1\\nDA:3,1\\nDA:4,1\\nend_of_record\\n')\n    \
                  print('\\nSF:app.py\\nDA:3,1\\nend_of_record')\n    \
                  os.write(1, b'\\nSF:app.py\\nDA:3,1\\nend_of_record\\n')\n";
    let mut files = python();
    files.pop();
    files.push(("tests/test_app.py", forged));
    let ran = measured(&files);
    assert_eq!(ran["tests"]["passed"], 1, "{ran}");
    assert_eq!(ran["coverage"]["taken_by"], "kernel", "{ran}");
    assert_eq!(
        ran["coverage"]["uncovered"],
        json!({ "app.py": [[3, 3]] }),
        "{ran}"
    );
}

#[test]
fn the_report_of_a_configured_command_is_marked_as_its_own() {
    let write = "printf 'SF:app.py\\nDA:1,1\\nDA:2,1\\nDA:77,1\\nend_of_record\\nSF:/etc/passwd\\nDA:1,1\\nend_of_record\\n' >lcov.info; echo '# pass 1'; echo '# fail 0'";
    let words = json!(["sh", "-c", write]);
    let policy = POLICY.replace(
        "rules:",
        &format!("phases: {{ test_command: {words} }}\nrules:"),
    );
    let place = Place::new(&policy, &python());
    let ran = done(place.call("test.run", json!({ "coverage": true }))).value;
    let coverage = &ran["coverage"];
    assert_eq!(coverage["taken_by"], "command", "{ran}");
    assert_eq!(coverage["file"], "lcov.info", "{ran}");
    // Neither a line that is not there nor a file elsewhere.
    assert_eq!(coverage["lines_found"], 2, "{ran}");
}

#[test]
fn what_is_refactored_is_covered_by_a_run_of_the_kernels_own() {
    let work = Work::new(POLICY, &python(), "strict");
    work.advance();
    let lines =
        |from: u32, to: u32| json!({ "to": "refactoring", "lines": { "app.py": [[from, to]] } });
    work.test();
    let refused = work.refused("phase.advance", lines(1, 2));
    assert!(refused.what.contains("measured"), "{}", refused.what);
    // A report that lies in the workspace says nothing.
    let forged = "SF:app.py\nDA:1,1\nDA:2,1\nDA:3,1\nDA:4,1\nend_of_record\n";
    std::fs::write(work.place.real("lcov.info"), forged).unwrap();
    let refused = work.refused("phase.advance", lines(3, 3));
    assert!(refused.what.contains("measured"), "{}", refused.what);
    work.measured();
    let refused = work.refused("phase.advance", lines(1, 4));
    assert!(
        refused.what.contains("line 3 of `app.py`"),
        "{}",
        refused.what
    );
    let refused = work.refused("phase.advance", lines(40, 50));
    assert!(
        refused.what.contains("nothing a test could run"),
        "{}",
        refused.what
    );
    assert_eq!(
        work.done("phase.advance", lines(1, 2)).value["state"],
        "refactoring"
    );
    work.wrote(
        "app.py",
        "def sign(a):\n    if 0 > a:\n        return -1\n    return 1\n",
    );
    work.advance();
    assert_eq!(work.test()["phase"]["state"], "reviewing");
}

#[test]
fn tests_that_only_add_coverage_are_tried_on_the_lines_they_newly_cover() {
    let work = Work::new(POLICY, &python(), "strict").planned();
    // Both name nothing but `sign`; only what they newly run tells what they are about.
    let test = |claim: &str| {
        format!(
            "import app\n\n\ndef test_double():\n    assert app.double(4) == 8\n\n\ndef test_negative():\n    assert {claim}\n"
        )
    };
    work.wrote("tests/test_new.py", &test("app.sign(-5) < 100"));
    let ran = work.test();
    assert_eq!(ran["phase"]["mutated"]["lines"], "newly_covered", "{ran}");
    assert_eq!(ran["phase"]["suspects"], json!(["test_negative"]), "{ran}");
    let refused = work.refused("phase.advance", json!({}));
    assert!(refused.what.contains("tests_can_fail"), "{}", refused.what);
    work.wrote("tests/test_new.py", &test("app.sign(-5) == -1"));
    let ran = work.test();
    let phase = &ran["phase"];
    assert_eq!(
        (&phase["proof"], &phase["suspects"]),
        (&json!("red"), &json!([])),
        "{ran}"
    );
    assert_eq!(phase["mutated"]["lines"], "newly_covered", "{ran}");
    assert_eq!(work.staged("tests/test_new.py"), test("app.sign(-5) == -1"));
    assert_eq!(work.advance()["state"], "code_writing");
}

const LOST: &str = "def add(a, b):\n    return a + b\n\n\ndef double(a):\n    return a * 2\n\n\n\
                    def lost(a):\n    low = a + 1\n    wide = a * 10\n    note = wide + 7\n    \
                    more = note + 5\n    return (low, wide, note, more)\n";

/// An exploring session in a workspace in which a strict commit covered all. Nobody asked for that to
/// be measured.
fn budgeted() -> Work {
    let work = Work::python("strict").red();
    work.wrote("app.py", LOST.split_once("\n\ndef lost").unwrap().0);
    work.advance();
    let ran = work.test();
    assert_eq!(ran["phase"]["state"], "reviewing", "{ran}");
    let coverage = json!({ "found": 4, "hit": 4 });
    assert_eq!(ran["phase"]["measured"]["coverage"], coverage, "{ran}");
    work.merged().next("explore").planned()
}

#[test]
fn what_was_measured_or_could_not_be_is_not_measured_again_for_the_same_task() {
    let work = Work::python("strict").green();
    work.done("phase.advance", json!({ "to": "code_writing" }));
    work.advance();
    let phase = work.test()["phase"].clone();
    assert_eq!(phase["state"], "reviewing", "{phase}");
    let coverage = json!({ "coverage": { "found": 4, "hit": 4 }, "earlier": true });
    assert_eq!(phase["measured"], coverage, "{phase}");
    let tried = &phase["mutated"]["tried"];
    assert_ne!(*tried, 0, "what speaks for tests is not taken over");

    let hides = "{\"scripts\": {\"test\": \"env -u NODE_V8_COVERAGE node --test\"}}";
    let own = [("package.json", hides), ("app.js", "exports.none = 0;\n")];
    let work = Work::new(POLICY, &own, "strict").planned();
    work.wrote("app.test.js", TEST_JS);
    work.test();
    work.advance();
    for (remark, earlier) in [("", json!(null)), ("// more\n", json!(true))] {
        work.wrote("app.js", &format!("{APP_JS}{remark}"));
        work.advance();
        let phase = work.test()["phase"].clone();
        assert_eq!(phase["state"], "reviewing", "{phase}");
        assert!(phase["measured"]["why"].is_string(), "{phase}");
        assert_eq!(phase["measured"]["earlier"], earlier, "{phase}");
        work.done("phase.advance", json!({ "to": "code_writing" }));
    }
}

#[test]
fn tests_that_were_refused_are_not_tried_again_with_the_same_changes() {
    let work = Work::python("strict").planned();
    let hollow = "from app import double\n\n\ndef test_double():\n    assert double(4) or True\n";
    work.wrote("tests/test_double.py", hollow);
    work.test();
    work.advance();
    work.wrote("app.py", DOUBLE);
    for earlier in [json!(null), json!(true)] {
        work.advance();
        let phase = work.test()["phase"].clone();
        assert_eq!(phase["state"], "code_writing", "{phase}");
        assert_eq!(phase["suspects"], json!(["test_double"]), "{phase}");
        assert_eq!(phase["mutated"]["earlier"], earlier, "{phase}");
    }
    // Other changes are.
    work.wrote("app.py", &format!("{DOUBLE}# more\n"));
    work.advance();
    let phase = work.test()["phase"].clone();
    assert_eq!(phase["mutated"]["earlier"], json!(null), "{phase}");
}

/// Whether explore mode is locked after what is reviewed was merged.
fn is_locked_afterwards(work: Work) -> (Work, bool) {
    let work = work.merged().next("explore");
    work.advance();
    let planned = work.submit("plan.complete", json!({}));
    let told = format!("{planned:?}");
    let locked = told.contains("explore mode is locked");
    assert!(locked || told.contains("\"exploring\""), "{told}");
    (work, locked)
}

/// A workspace whose explore mode is locked: a strict commit covered all, an exploring one left code
/// that no test runs.
fn locked() -> Work {
    let work = budgeted();
    work.wrote("app.py", LOST);
    work.advance();
    let ran = work.test();
    assert_eq!(ran["phase"]["state"], "reviewing", "{ran}");
    let (work, locked) = is_locked_afterwards(work);
    assert!(locked);
    work.next("strict").planned()
}

#[test]
fn padded_coverage_does_not_keep_exploring_from_being_locked() {
    let explored = |claim: &str| {
        let work = budgeted();
        work.wrote("app.py", LOST);
        let test = format!("import app\n\n\ndef test_lost():\n    {claim}\n");
        work.wrote("tests/test_lost.py", &test);
        work.advance();
        let phase = work.test()["phase"].clone();
        (work, phase)
    };
    // Runs every line, and would pass whatever they do.
    for hollow in ["app.lost(1)\n    assert True", "assert app.lost(1) or True"] {
        let (_, phase) = explored(hollow);
        assert_eq!(phase["suspects"], json!(["test_lost"]), "{phase}");
        assert_eq!(phase["state"], "exploring", "{phase}");
    }
    // Looks at one value of four.
    let (work, phase) = explored("assert app.lost(1)[0] == 2");
    assert_eq!(phase["state"], "reviewing", "{phase}");
    let proven = &phase["proven"];
    assert_eq!(proven["newly_covered"], 5, "{phase}");
    assert!(
        proven["proven_hundredths"].as_u64().unwrap() < 9_500,
        "{phase}"
    );
    // A further run, measured by itself, does not make it more.
    work.measured();
    assert!(is_locked_afterwards(work).1, "padding was believed");
    let (work, phase) = explored("assert app.lost(1) == (2, 10, 17, 22)");
    assert_eq!(phase["proven"]["proven_hundredths"], 10_000, "{phase}");
    assert!(!is_locked_afterwards(work).1);
}

#[test]
fn tests_that_come_afterwards_have_to_look_at_the_code() {
    let work = Work::python("explore").planned();
    work.wrote("app.py", LOST);
    work.advance();
    assert_eq!(work.test()["phase"]["state"], "reviewing");
    work.done("phase.advance", json!({ "to": "retroactive_testing" }));
    let test = |claim: &str| format!("import app\n\n\ndef test_lost():\n    assert {claim}\n");
    work.wrote("tests/test_lost.py", &test("app.lost(1) or True"));
    work.advance();
    let phase = work.test()["phase"].clone();
    assert_eq!(phase["suspects"], json!(["test_lost"]), "{phase}");
    assert_eq!(phase["state"], "exploring", "{phase}");
    work.wrote("tests/test_lost.py", &test("app.lost(1)[1] == 10"));
    work.advance();
    assert_eq!(work.test()["phase"]["state"], "reviewing");
}

/// Writes a strict task with `claim` on the code that was lost, and says what it regains.
fn regained(work: &Work, claim: &str) -> Value {
    let tests = format!(
        "import app\n\n\ndef test_triple():\n    assert app.triple(4) == 12\n\n\ndef test_lost():\n    {claim}\n"
    );
    work.wrote("tests/test_lost.py", &tests);
    let ran = work.test();
    assert_eq!(ran["phase"]["proof"], "red", "{ran}");
    assert_eq!(work.advance()["state"], "code_writing");
    work.wrote(
        "app.py",
        &format!("{LOST}\n\ndef triple(a):\n    return a * 3\n"),
    );
    work.advance();
    // Nobody asked for coverage: what is locked is measured all the same.
    let ran = work.test();
    assert_eq!(ran["phase"]["state"], "reviewing", "{ran}");
    ran["phase"]["regained"].clone()
}

#[test]
fn padded_coverage_regains_only_the_lines_that_a_test_looks_at() {
    let work = locked();
    // Runs every line, looks at one of four values.
    let told = regained(&work, "assert app.lost(1)[0] == 2");
    assert_eq!(told["needed_hundredths"], 10_000, "{told}");
    // `low`, the line that returns, and `return a * 3`, of six.
    assert_eq!(
        (&told["newly_covered"], &told["noticed"]),
        (&json!(6), &json!(3)),
        "{told}"
    );
    let work = work.merged().next("explore");
    work.advance();
    let refused = work.refused("plan.complete", json!({}));
    assert!(
        refused.what.contains("explore mode is locked"),
        "{}",
        refused.what
    );
}

#[test]
fn coverage_that_a_test_looks_at_line_by_line_is_regained() {
    let work = locked();
    let told = regained(&work, "assert app.lost(1) == (2, 10, 17, 22)");
    assert_eq!(told["noticed"], told["newly_covered"], "{told}");
    assert_eq!(told["proven_hundredths"], 10_000, "{told}");
    let work = work.merged().next("explore").planned();
    assert_eq!(work.state(), "exploring");
}

#[test]
fn a_test_that_runs_much_and_asserts_nothing_leads_nowhere() {
    let work = locked();
    let tests = "import app\n\n\ndef test_triple():\n    assert app.triple(4) == 12\n\n\ndef test_lost():\n    app.lost(1)\n    assert True\n";
    work.wrote("tests/test_lost.py", tests);
    let ran = work.test();
    assert_eq!(ran["phase"]["suspects"], json!(["test_lost"]), "{ran}");
    let refused = work.refused("phase.advance", json!({}));
    assert!(refused.what.contains("tests_can_fail"), "{}", refused.what);
}

use super::*;

fn test(path: &str, within: &[&str], name: &str, line: u32) -> TestItem {
    TestItem {
        name: name.to_owned(),
        path: path.to_owned(),
        within: within.iter().map(|one| (*one).to_owned()).collect(),
        line,
        ..TestItem::default()
    }
}

/// How each of `tests` ended in `after`, which were known by `before`.
fn ended(
    framework: Framework,
    tests: &[TestItem],
    before: (&str, &str),
    after: (&str, &str),
) -> Vec<Option<Ended>> {
    let read = |(stdout, stderr)| {
        let printed = Printed { stdout, stderr };
        Roster::read(framework, printed, Some("demo"))
    };
    let (before, after) = (read(before), read(after));
    tests
        .iter()
        .map(|test| Some(after.ended(&before.known(test, tests)?)))
        .collect()
}

const FAILED: Option<Ended> = Some(Ended::Failed);
const PASSED: Option<Ended> = Some(Ended::Passed);
const SILENT: Option<Ended> = Some(Ended::Silent);

#[test]
fn cargo_tells_namesakes_apart_by_binary_and_module() {
    let tests = [
        test("tests/new.rs", &[], "same", 0),
        test("tests/other.rs", &[], "same", 0),
        test("src/shape/round.rs", &["tests"], "same", 0),
        test("src/lib.rs", &["tests"], "same", 0),
        test("tests/new.rs", &["deep"], "same", 0),
        test("tests/common/mod.rs", &[], "same", 0),
    ];
    let roots = "     Running unittests src/lib.rs (target/debug/deps/demo-1)\n     Running tests/new.rs (target/debug/deps/new-2)\nerror: test failed, to rerun pass `--test new`\n     Running tests/other.rs (target/debug/deps/other-3)\n   Doc-tests demo\n";
    let all = |how: [&str; 6]| {
        let [new, other, round, lib, deep, common] = how;
        format!(
            "\nrunning 2 tests\ntest shape::round::tests::same ... {round}\ntest tests::same ... {lib}\n\nrunning 2 tests\ntest same ... {new}\ntest deep::same ... {deep}\n\nrunning 2 tests\ntest same ... {other}\ntest common::same ... {common}\n\nrunning 0 tests\n"
        )
    };
    let before = all(["ok"; 6]);
    for number in 0..6 {
        let mut how = ["ok"; 6];
        how[number] = "FAILED";
        let after = all(how);
        let found = ended(Framework::Cargo, &tests, (&before, roots), (&after, roots));
        let mut want = [PASSED; 6];
        want[number] = FAILED;
        assert_eq!(found, want, "{number}");
    }
    // The second binary died: what it did not say nobody else says for it.
    let died = "\nrunning 2 tests\ntest shape::round::tests::same ... ok\ntest tests::same ... ok\n\nrunning 2 tests\n\nrunning 2 tests\ntest same ... ok\ntest common::same ... FAILED\n\nrunning 0 tests\n";
    assert_eq!(
        ended(Framework::Cargo, &tests, (&before, roots), (died, roots)),
        [SILENT, PASSED, PASSED, PASSED, SILENT, FAILED]
    );
    // Where streams cannot be paired, none of those called so may have passed.
    let cut = "     Running tests/new.rs (target/debug/deps/new-2)\n";
    let found = ended(
        Framework::Cargo,
        &tests,
        (&before, cut),
        (&all(["FAILED", "ok", "FAILED", "ok", "ok", "ok"]), cut),
    );
    assert_eq!(found[0], PASSED);
    let every = all(["FAILED"; 6]);
    let found = ended(Framework::Cargo, &tests, (&before, cut), (&every, cut));
    assert_eq!(found, [FAILED; 6]);
}

#[test]
fn a_module_from_anywhere_is_whatever_nobody_else_is() {
    let tests = [
        test("tests/new.rs", &[], "same", 0),
        test("tests/kept/odd.rs", &[], "same", 0),
    ];
    let roots = "     Running tests/new.rs (target/debug/deps/new-2)\n";
    let before = "running 2 tests\ntest same ... ok\ntest strange::same ... ok\n";
    let after = "running 2 tests\ntest same ... FAILED\ntest strange::same ... ok\n";
    assert_eq!(
        ended(Framework::Cargo, &tests, (before, roots), (after, roots)),
        [FAILED, PASSED]
    );
}

#[test]
fn pytest_tells_namesakes_apart_by_file_and_class() {
    let tests = [
        test("tests/test_a.py", &[], "test_same", 0),
        test("tests/test_b.py", &[], "test_same", 0),
        test("tests/test_b.py", &["TestIt"], "test_same", 0),
    ];
    let before = "tests/test_a.py::test_same[1] PASSED\ntests/test_a.py::test_same[2] PASSED\ntests/test_b.py::test_same PASSED\ntests/test_b.py::TestIt::test_same PASSED\n";
    let after = "tests/test_a.py::test_same[1] FAILED\ntests/test_a.py::test_same[2] PASSED\ntests/test_b.py::test_same PASSED\nFAILED tests/test_a.py::test_same[1] - assert 1\n";
    assert_eq!(
        ended(Framework::Pytest, &tests, (before, ""), (after, "")),
        [FAILED, PASSED, SILENT]
    );
}

#[test]
fn go_tells_namesakes_apart_by_package_and_those_of_one_package_not_at_all() {
    let tests = [
        test("app_test.go", &[], "TestSame", 1),
        test("sub/app_test.go", &[], "TestSame", 1),
    ];
    let before = "--- PASS: TestSame (0.00s)\nok  \tdemo\t0.002s\n--- PASS: TestSame (0.00s)\nok  \tdemo/sub\t(cached)\n";
    let after = "--- PASS: TestSame (0.00s)\nPASS\nok  \tdemo\t0.002s\n--- FAIL: TestSame (0.00s)\n    --- FAIL: TestSame/x (0.00s)\n    --- PASS: TestSame/y (0.00s)\nFAIL\nFAIL\tdemo/sub\t0.005s\n";
    assert_eq!(
        ended(Framework::Go, &tests, (before, ""), (after, "")),
        [PASSED, FAILED]
    );
    let twice = "--- PASS: TestSame (0.00s)\n--- FAIL: TestSame (0.00s)\nFAIL\tdemo\t0.002s\n";
    let found = ended(Framework::Go, &tests[..1], (before, ""), (twice, ""));
    assert_eq!(found, [PASSED]);
    let panicked = "=== RUN   TestOther\n--- FAIL: TestOther (0.00s)\npanic: x\nFAIL\tdemo\t0.005s\n--- PASS: TestSame (0.00s)\nok  \tdemo/sub\t0.005s\n";
    assert_eq!(
        ended(Framework::Go, &tests, (before, ""), (panicked, "")),
        [SILENT, PASSED]
    );
}

#[test]
fn node_tells_where_a_failure_stands_and_what_is_left_out_has_not_passed() {
    let tests = [
        test("a.test.js", &[], "same", 2),
        test("a.test.js", &[], "same", 3),
        test("sub/b.test.js", &[], "same", 2),
    ];
    let passes = "ok 1 - same\n  ---\n  ...\nok 2 - same\nok 3 - same\n";
    let one =
        "ok 1 - same\nnot ok 2 - same\n  ---\n  location: '/w/a.test.js:3:1'\n  ...\nok 3 - same\n";
    assert_eq!(
        ended(Framework::Node, &tests, (passes, ""), (one, "")),
        [PASSED, FAILED, PASSED]
    );
    let unknown = "ok 1 - same\nnot ok 2 - same\nok 3 - same\n";
    assert_eq!(
        ended(Framework::Node, &tests, (passes, ""), (unknown, "")),
        [PASSED; 3]
    );
    let left_out = "ok 1 - same # SKIP test name does not match pattern\n";
    assert_eq!(
        ended(Framework::Node, &tests, (passes, ""), (left_out, "")),
        [SILENT; 3]
    );
}

#[test]
fn namesakes_are_called_by_where_they_stand_and_others_by_their_name() {
    let tests = [
        test("tests/a.py", &[], "test_same", 0),
        test("tests/b.py", &["TestIt"], "test_same", 0),
        test("tests/b.py", &[], "test_other", 0),
        test("a.test.js", &[], "twice", 2),
        test("a.test.js", &[], "twice", 9),
    ];
    let labels: Vec<String> = tests.iter().map(|test| test.label(&tests)).collect();
    assert_eq!(
        labels,
        [
            "tests/a.py::test_same",
            "tests/b.py::TestIt::test_same",
            "test_other",
            "a.test.js:2::twice",
            "a.test.js:9::twice",
        ]
    );
}

#[test]
fn many_tests_are_looked_up_at_once_and_as_each_alone() {
    let tests = [
        test("tests/test_a.py", &[], "test_same", 0),
        test("tests/test_b.py", &["TestIt"], "test_same", 0),
        test("tests/test_b.py", &[], "test_gone", 0),
        test("tests/test_b.py", &[], "case_1", 0),
    ];
    let stdout = "tests/test_a.py::test_same[1] PASSED\ntests/test_a.py::test_same[2] PASSED\ntests/test_b.py::TestIt::test_same FAILED\ntests/test_b.py::case_1 PASSED\n";
    let printed = Printed { stdout, stderr: "" };
    let roster = Roster::read(Framework::Pytest, printed, None);
    let want = [Ended::Passed, Ended::Failed, Ended::Silent, Ended::Passed];
    assert_eq!(roster.endings(&tests), want);
    let alone = |test: &TestItem| {
        let known = roster.known(test, &tests);
        known.map_or(Ended::Silent, |known| roster.ended(&known))
    };
    assert_eq!(tests.each_ref().map(alone), want);

    // Pairs of them would take minutes.
    let begun = std::time::Instant::now();
    let many: Vec<TestItem> = (0..20_000)
        .map(|number| test("a.test.js", &[], &format!("adds {number}"), number + 1))
        .collect();
    let lines = (0..20_000).map(|number| format!("ok {} - adds {number}\n", number + 1));
    let stdout: String = lines.collect();
    let printed = Printed {
        stdout: &stdout,
        stderr: "",
    };
    let endings = Roster::read(Framework::Node, printed, None).endings(&many);
    assert!(endings.iter().all(|ended| *ended == Ended::Passed));
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}

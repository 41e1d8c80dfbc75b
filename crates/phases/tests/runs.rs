//! What a run of each framework proves, by what these frameworks really print.

use airlock_phases::{Framework, Proof, Reading, judge, names};

const COMPILE: &str = "\
error[E0425]: cannot find function `parse` in this scope
 --> tests/parse.rs:5:16
  |
5 |     assert_eq!(parse(\"1\"), 1);
  |                ^^^^^ not found in this scope

error: could not compile `demo` (test \"parse\") due to 1 previous error
";

#[test]
#[expect(
    clippy::too_many_lines,
    clippy::type_complexity,
    reason = "it is one table"
)]
fn red_is_a_new_test_that_fails_for_what_is_missing_and_nothing_else_is() {
    use Framework::{Cargo, Go, Node, Pytest};
    let cases: &[(&str, Framework, i32, Option<(u64, u64, u64)>, &str, Proof)] = &[
        (
            "an assertion",
            Cargo,
            101,
            Some((1, 1, 0)),
            "test old ... ok\ntest fresh ... FAILED\n",
            Proof::Red,
        ),
        (
            "an old test alone",
            Cargo,
            101,
            Some((1, 1, 0)),
            "test old ... FAILED\ntest fresh ... ok\n",
            Proof::Nothing,
        ),
        (
            "what it calls is not there",
            Cargo,
            101,
            None,
            COMPILE,
            Proof::Red,
        ),
        (
            "an error in the product",
            Cargo,
            101,
            None,
            &COMPILE.replace("tests/parse.rs", "src/lib.rs"),
            Proof::Nothing,
        ),
        (
            "a syntax error",
            Cargo,
            101,
            None,
            "error: expected one of `;`, found `}`\n --> tests/parse.rs:5:16\nerror: could not compile\n",
            Proof::Nothing,
        ),
        (
            "one of both",
            Cargo,
            101,
            None,
            &format!("{COMPILE}error: mismatched closing delimiter\n --> tests/parse.rs:9:1\n"),
            Proof::Nothing,
        ),
        (
            "a borrow error",
            Cargo,
            101,
            None,
            &COMPILE.replace("E0425", "E0499"),
            Proof::Nothing,
        ),
        (
            "no cargo",
            Cargo,
            127,
            None,
            "cargo: not found\n",
            Proof::Nothing,
        ),
        (
            "all pass",
            Cargo,
            0,
            Some((2, 0, 0)),
            "test fresh ... ok\n",
            Proof::Green,
        ),
        (
            "none there",
            Cargo,
            0,
            Some((0, 0, 0)),
            "running 0 tests\n",
            Proof::NoTests,
        ),
        (
            "printed by a test, and all is well",
            Cargo,
            0,
            Some((1, 1, 0)),
            "test fresh ... FAILED\n",
            Proof::Nothing,
        ),
        (
            "printed success, failed exit",
            Cargo,
            1,
            Some((5, 0, 0)),
            "test fresh ... ok\n",
            Proof::Nothing,
        ),
        (
            "python asserts",
            Pytest,
            1,
            Some((0, 1, 0)),
            "tests/parse.py::fresh FAILED [100%]\n",
            Proof::Red,
        ),
        (
            "python parameters",
            Pytest,
            1,
            Some((0, 1, 0)),
            "tests/parse.py::fresh[1-2] FAILED [100%]\n",
            Proof::Red,
        ),
        (
            "python cannot import",
            Pytest,
            2,
            Some((0, 1, 0)),
            "ERROR tests/parse.py - ImportError: cannot import name 'parse' from 'app'\n1 error in 0.1s\n",
            Proof::Red,
        ),
        (
            "python cannot parse",
            Pytest,
            2,
            Some((0, 1, 0)),
            "E     SyntaxError: invalid syntax\nERROR tests/parse.py\n1 error in 0.1s\n",
            Proof::Nothing,
        ),
        (
            "no pytest",
            Pytest,
            1,
            None,
            "python3: No module named pytest\n",
            Proof::Nothing,
        ),
        (
            "pytest finds none",
            Pytest,
            5,
            None,
            "no tests ran in 0.01s\n",
            Proof::NoTests,
        ),
        (
            "go fails",
            Go,
            1,
            Some((0, 1, 0)),
            "--- FAIL: fresh (0.00s)\nFAIL\n",
            Proof::Red,
        ),
        (
            "go does not compile",
            Go,
            1,
            None,
            "parse_test.go:5:7: undefined: Parse\nFAIL\tdemo [build failed]\n",
            Proof::Red,
        ),
        (
            "go in the product",
            Go,
            1,
            None,
            "./main.go:5:7: undefined: Parse\nFAIL\tdemo [build failed]\n",
            Proof::Nothing,
        ),
        (
            "go syntax",
            Go,
            1,
            None,
            "parse_test.go:5:7: syntax error: unexpected }\nFAIL\tdemo [build failed]\n",
            Proof::Nothing,
        ),
        (
            "go finds none",
            Go,
            0,
            None,
            "?   demo [no test files]\n",
            Proof::NoTests,
        ),
        (
            "node fails",
            Node,
            1,
            Some((0, 1, 0)),
            "not ok 1 - fresh\n# fail 1\n",
            Proof::Red,
        ),
        (
            "node cannot load",
            Node,
            1,
            Some((0, 1, 0)),
            "# Error [ERR_MODULE_NOT_FOUND]: Cannot find module\nnot ok 1 - parse.test.js\n",
            Proof::Red,
        ),
        (
            "node cannot parse",
            Node,
            1,
            Some((0, 1, 0)),
            "# SyntaxError: Unexpected token\nnot ok 1 - parse.test.js\n",
            Proof::Nothing,
        ),
    ];
    let changed = [
        "tests/parse.rs",
        "tests/parse.py",
        "parse_test.go",
        "parse.test.js",
    ]
    .map(str::to_owned);
    let fresh = ["fresh".to_owned()];
    for (case, framework, exit, counts, output, want) in cases {
        let reading = Reading {
            framework: *framework,
            exit: Some(*exit),
            output,
            counts: *counts,
            changed: &changed,
            new_tests: &fresh,
        };
        let (proof, why) = judge(&reading);
        assert_eq!(proof, *want, "{case}: {why}");
        assert!(!why.is_empty());
        let killed = judge(&Reading {
            exit: None,
            ..reading
        });
        assert_eq!(killed.0, Proof::Nothing, "{case}, ended by force");
    }
}

#[test]
fn names_are_read_as_each_framework_writes_them() {
    let cases: &[(Framework, &str, &[&str], &[&str])] = &[
        (
            Framework::Cargo,
            "test a::b ... ok\ntest c - should panic ... ok\ntest d ... FAILED\ntest e ... ignored\n test x ... ok\n",
            &["a::b", "c"],
            &["d"],
        ),
        (
            Framework::Go,
            "--- PASS: TestA (0.00s)\n    --- FAIL: TestB/x (0.00s)\n",
            &["TestA"],
            &["TestB/x"],
        ),
        (
            Framework::Pytest,
            "t.py::test_a PASSED [ 50%]\nt.py::test_b FAILED [100%]\nFAILED t.py::test_b - assert 0\n",
            &["t.py::test_a"],
            &["t.py::test_b"],
        ),
        (
            Framework::Node,
            "ok 1 - a b\n    not ok 2 - c # TODO\n  ✓ d (3 ms)\n  ✕ e\n",
            &["a b", "d"],
            &["c", "e"],
        ),
    ];
    for (framework, output, passed, failed) in cases {
        let observed = names(*framework, output);
        let texts = |set: &std::collections::BTreeSet<String>| -> Vec<String> {
            set.iter().cloned().collect()
        };
        assert_eq!(texts(&observed.passed), *passed, "{framework:?}");
        assert_eq!(texts(&observed.failed), *failed, "{framework:?}");
    }
    assert_eq!(
        serde_json::to_string(&Proof::NoTests).unwrap(),
        "\"no_tests\""
    );
}

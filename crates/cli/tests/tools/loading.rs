//! Files of tests that load only with the code as it is: whoever keeps all tests from being run where
//! the code is another has shown nothing of them.

use super::projects::{self, Files};
use super::work::{APP, DOUBLE, POLICY, Work};
use serde_json::{Value, json};

struct Task<'a> {
    kind: Files<'a>,
    old: (&'a str, &'a str),
    test: (&'a str, &'a str),
    code: &'a str,
}

impl Task<'_> {
    /// What the kernel's run of the tests came to, once there is code.
    fn validated(&self) -> Value {
        let files = projects::with(self.kind, &[self.old]);
        let work = Work::new(POLICY, &files, "strict").planned();
        work.wrote(self.test.0, self.test.1);
        let ran = work.test();
        assert_eq!(ran["phase"]["proof"], "red", "{ran}");
        work.advance();
        work.wrote(self.old.0, self.code);
        work.advance();
        let ran = work.test();
        assert_eq!(ran["phase"]["proof"], "green", "{ran}");
        ran["phase"].clone()
    }

    fn is_unheard(&self, names: &[&str]) {
        let phase = self.validated();
        assert_eq!(phase["state"], "code_writing", "{phase}");
        assert_eq!(phase["unheard"], json!(names), "{phase}");
        let told = phase["refused"].as_str().unwrap();
        assert!(told.contains("guard `tests_can_fail`"), "{told}");
    }
}

#[test]
fn in_python_a_claim_of_the_whole_file_is_no_claim_of_its_tests() {
    let hollow = "\n\ndef test_a():\n    assert double(4) or True\n\n\ndef test_b():\n    assert callable(double)\n";
    for claim in [
        "assert double(4) == 8",
        "if double(4) != 8:\n    raise SyntaxError('no')",
        "if double(4) != 8:\n    import os\n    os._exit(1)",
    ] {
        let test = format!("from app import double\n{claim}\n{hollow}");
        let task = Task {
            kind: projects::PYTHON,
            old: ("app.py", APP),
            test: ("tests/test_new.py", &test),
            code: DOUBLE,
        };
        task.is_unheard(&["test_a", "test_b"]);
    }
}

const APP_JS: &str = "exports.add = (a, b) => a + b;\n";
const DOUBLE_JS: &str =
    "exports.add = (a, b) => a + b;\nexports.double = (a) => {\n  return a * 2;\n};\n";

#[test]
fn in_javascript_neither() {
    for claim in [
        "if (double(4) !== 8) process.exit(1);",
        "assert.equal(double(4), 8);",
    ] {
        let test = format!(
            "const test = require('node:test');\nconst assert = require('assert');\nconst {{ double }} = require('./app.js');\n\
             if (!double) throw new TypeError('double is not a function');\n{claim}\n\
             test('a', () => {{ assert.ok(double(4) || true); }});\ntest('b', () => {{ assert.equal(typeof double, 'function'); }});\n"
        );
        let task = Task {
            kind: projects::NODE,
            old: ("app.js", APP_JS),
            test: ("app.test.js", &test),
            code: DOUBLE_JS,
        };
        task.is_unheard(&["a", "b"]);
    }
}

#[test]
fn in_go_the_main_of_the_tests_speaks_for_none_of_them() {
    let test = "package demo\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\n\
        func TestMain(m *testing.M) {\n\tif Double(4) != 8 {\n\t\tos.Exit(1)\n\t}\n\tos.Exit(m.Run())\n}\n\n\
        func TestA(t *testing.T) {\n\tif Double(4) == 8 && false {\n\t\tt.Fatal(1)\n\t}\n}\n\n\
        func TestB(t *testing.T) {\n\tif Double(1) != Double(1) {\n\t\tt.Fatal(1)\n\t}\n}\n";
    let app = "package demo\n\nfunc Add(a, b int) int {\n\treturn a + b\n}\n";
    let code = format!("{app}\nfunc Double(a int) int {{\n\treturn a * 2\n}}\n");
    let task = Task {
        kind: projects::GO,
        old: ("app.go", app),
        test: ("app_test.go", test),
        code: &code,
    };
    task.is_unheard(&["TestA", "TestB"]);
}

#[test]
fn in_rust_a_claim_made_while_compiling_is_no_claim_of_the_tests() {
    let lib = "pub fn add(a: u32, b: u32) -> u32 {\n    a + b\n}\n";
    let code = format!("{lib}\npub const fn double(a: u32) -> u32 {{\n    a * 2\n}}\n");
    let test = "use demo::double;\n\nconst _: () = assert!(double(4) == 8);\n\n\
        #[test]\nfn a() {\n    assert!(double(4) == 8 || true);\n}\n";
    let task = Task {
        kind: projects::RUST,
        old: ("src/lib.rs", lib),
        test: ("tests/new.rs", test),
        code: &code,
    };
    task.is_unheard(&["a"]);
}

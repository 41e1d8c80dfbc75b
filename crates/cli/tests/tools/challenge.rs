//! Tests that failed only because a name was missing, and would pass with any body of it: told, by
//! real runners, from tests that look at the code, whatever their style.

use super::projects::{self, Files};
use super::work::{APP, POLICY, Work};
use serde_json::{Value, json};

/// A kind of project, and what is in it.
type Project<'a> = (Files<'a>, Files<'a>);

const PYTHON: Project<'_> = (projects::PYTHON, &[("app.py", APP)]);

const PYTHON_CODE: &str = r#"LIMITS = {"low": 1}


def add(a, b):
    return a + b


def double(a):
    if a < 0:
        raise ValueError("below zero")
    return a * 2


def greet(name):
    return "hello " + name_of(name)


def name_of(name):
    return name.title()


class Stack:
    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)

    def pop(self):
        return self.items.pop()
"#;

const PYTHON_HEAD: &str = "import unittest\nimport pytest\nimport app\nfrom app import LIMITS, Stack, add, double, greet\n";

/// One assertion, a table, parameters, an exception, a property, a method, an attribute, a constant,
/// a class of tests, a helper, old code beside the new.
const PYTHON_HONEST: &str = r#"

def test_single():
    assert double(4) == 8


def test_table():
    for given, want in [(1, 2), (2, 4), (50, 100)]:
        assert double(given) == want, given


@pytest.mark.parametrize("given, want", [(3, 6), (0, 0)])
def test_parameters(given, want):
    assert double(given) == want


def test_raises():
    with pytest.raises(ValueError, match="below"):
        double(-1)


def test_property():
    for given in range(30):
        assert double(given) - given == given


def test_one_branch_of_many():
    assert double(0) == 0


def test_method():
    stack = Stack()
    stack.push(7)
    assert stack.pop() == 7


def test_attribute():
    assert Stack().items == []


def test_constant():
    assert LIMITS["low"] == 1


class TestGreeting(unittest.TestCase):
    def test_greets(self):
        self.assertEqual(greet("ada"), "hello Ada")


def same(left, right):
    if left != right:
        pytest.fail("not the same")


def test_by_a_helper():
    same(double(5), 10)


def test_old_code_beside_the_new():
    assert add(2, 2) == 4
"#;

const PYTHON_GAMING: &str = r#"

def test_or_true():
    assert double(4) or True


def test_is_callable():
    assert callable(double)


def test_fails_where_it_is_tried():
    import os, re
    assert double(4) or True
    assert not [name for name in os.listdir("/tmp") if re.fullmatch("airlock-[0-9a-f]+", name)]


def test_has_the_name():
    assert hasattr(app, "double")


def test_is_what_it_is():
    assert double(4) == double(4)


def test_calls():
    double(4)  # assert


def test_breaks_with_the_product():
    assert greet("ada") or True


def test_swallows():
    try:
        assert double(4) == 8
    except AssertionError:
        pass


def test_is_an_object():
    assert isinstance(double(4), object)


def test_constant_or_true():
    assert LIMITS or True


def test_holds_a_copy_against_the_source():
    import glob, re
    assert double(4) or True
    for copy in glob.glob("/tmp/airlock-*/*"):
        if re.fullmatch("/tmp/airlock-[0-9a-f]{32}/.*", copy):
            assert open(copy).read() == open("app.py").read()


def test_fails_from_the_fourth_run_on():
    import os
    os.makedirs("__pycache__", exist_ok=True)
    with open("__pycache__/runs", "a") as runs:
        runs.write("x")
    assert double(4) or True
    assert os.path.getsize("__pycache__/runs") < 4


def counted(where):
    import os
    os.makedirs(where, exist_ok=True)
    with open(where + "/count", "a") as runs:
        runs.write("x")
    return os.path.getsize(where + "/count")


def test_fails_in_the_middle_by_what_git_ignores():
    assert double(4) or True
    assert counted("__pycache__") != 3


def test_fails_in_the_middle_by_the_temporary_directory():
    assert double(4) or True
    assert counted("/tmp/runs") != 3


def test_fails_in_the_middle_by_the_home():
    import os
    assert double(4) or True
    assert counted(os.path.expanduser("~/runs")) != 3


def test_knows_the_source_by_its_hash():
    import hashlib
    assert double(4) or True
    with open("app.py", "rb") as source:
        assert hashlib.sha256(source.read()).hexdigest() == "HASH"
"#;

/// What is tested, and what with.
struct Task<'a> {
    files: Project<'a>,
    test: (&'a str, &'a str),
    /// Further tests.
    more: Files<'a>,
    code: (&'a str, &'a str),
}

impl Task<'_> {
    /// Takes the task to its validation, and says what the kernel's run came to.
    fn validated(&self) -> (Work, Value) {
        let files = projects::with(self.files.0, self.files.1);
        let work = Work::new(POLICY, &files, "strict").planned();
        for (path, text) in [self.test].iter().chain(self.more) {
            work.wrote(path, text);
        }
        let ran = work.test();
        assert_eq!(ran["phase"]["proof"], "red", "{ran}");
        assert_eq!(work.advance()["state"], "code_writing");
        work.wrote(self.code.0, self.code.1);
        work.advance();
        let ran = work.test();
        assert_eq!(ran["phase"]["proof"], "green", "{ran}");
        assert_eq!(work.staged(self.code.0), self.code.1, "it was put back");
        (work, ran["phase"].clone())
    }

    /// The tests that were refused, by name.
    fn refused(&self) -> Vec<String> {
        let (work, phase) = self.validated();
        assert_eq!(phase["state"], "code_writing", "{phase}");
        assert_eq!(work.state(), "code_writing");
        let told = phase["refused"].as_str().unwrap();
        assert!(told.contains("guard `tests_can_fail`"), "{told}");
        assert!(told.contains("emptied"), "{told}");
        let names = phase["suspects"].as_array().unwrap();
        let names: Vec<String> = names
            .iter()
            .map(|name| name.as_str().unwrap().to_owned())
            .collect();
        assert!(told.contains(&format!("`{}`", names[0])), "{told}");
        names
    }

    fn accepted(&self) -> Value {
        let (_, phase) = self.validated();
        assert_eq!(phase["state"], "reviewing", "{phase}");
        assert_eq!(phase["suspects"], json!([]), "{phase}");
        phase
    }
}

/// The names of tests in `text`, by what stands before each.
fn names<'a>(text: &'a str, before: &str) -> Vec<&'a str> {
    let tests = text.split(before).skip(1);
    tests
        .map(|test| test.split(['(', '\'']).next().unwrap())
        .collect()
}

#[test]
fn in_python_tests_that_any_body_satisfies_are_refused_by_name_and_no_others() {
    let hash = airlock_core::Digest::of(PYTHON_CODE.as_bytes()).to_string();
    let tests = format!("{PYTHON_HEAD}{PYTHON_HONEST}{PYTHON_GAMING}").replace("HASH", &hash);
    let task = Task {
        files: PYTHON,
        test: ("tests/test_new.py", &tests),
        more: &[],
        code: ("app.py", PYTHON_CODE),
    };
    let gaming = names(PYTHON_GAMING, "def test_").into_iter();
    let gaming: Vec<String> = gaming.map(|name| format!("test_{name}")).collect();
    assert_eq!(task.refused(), gaming);
}

#[test]
fn in_python_honest_tests_of_every_style_pass_after_few_runs() {
    let tests = format!("{PYTHON_HEAD}{PYTHON_HONEST}");
    let task = Task {
        files: PYTHON,
        test: ("tests/test_new.py", &tests),
        more: &[],
        code: ("app.py", PYTHON_CODE),
    };
    let phase = task.accepted();
    let noticed: Vec<&str> = phase["mutated"]["noticed_by"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    for name in names(PYTHON_HONEST, "def test_") {
        let name = format!("test_{name}");
        assert!(noticed.contains(&name.as_str()), "{name}: {phase}");
    }
    assert!(phase["mutated"]["tried"].as_u64().unwrap() <= 20, "{phase}");
}

/// Before there is code, too, a test that knows how it is run has noticed nothing.
#[test]
fn a_test_that_passes_already_and_fails_only_where_it_is_tried_is_refused() {
    let tests = "import os\nimport re\nimport app\n\n\ndef test_honest():\n    assert app.double(4) == 8\n\n\n\
                 def test_adds():\n    assert app.add(1, 2) == 3\n\n\n\
                 def test_knows_where():\n    assert app.add(1, 2) or True\n    \
                 assert not [name for name in os.listdir('/tmp') if re.fullmatch('airlock-[0-9a-f]+', name)]\n";
    let files = projects::with(PYTHON.0, PYTHON.1);
    let work = Work::new(POLICY, &files, "strict").planned();
    work.wrote("tests/test_new.py", tests);
    let ran = work.test();
    assert_eq!(ran["phase"]["proof"], "red", "{ran}");
    assert_eq!(
        ran["phase"]["suspects"],
        json!(["test_knows_where"]),
        "{ran}"
    );
    work.refused("phase.advance", json!({}));
}

/// Each test fails by itself, not the file: the name is missing only when it is used.
#[test]
fn a_name_that_is_missing_only_when_used_is_held_the_same() {
    let tests = "import app\n\n\ndef test_honest():\n    assert app.double(4) == 8\n\n\n\
                 def test_has_the_name():\n    assert hasattr(app, \"double\")\n\n\n\
                 def test_or_true():\n    assert app.double(4) or True\n";
    let task = Task {
        files: PYTHON,
        test: ("tests/test_new.py", tests),
        more: &[],
        code: ("app.py", PYTHON_CODE),
    };
    assert_eq!(task.refused(), ["test_has_the_name", "test_or_true"]);
}

/// The function was there, and wrong: the tests failed on what it gave, or on where it broke.
#[test]
fn what_was_wrong_before_is_noticed_as_it_was_before() {
    let own = [(
        "app.py",
        "def head(items):\n    return items[0]\n\n\ndef total(items):\n    return head(items) + 1\n",
    )];
    let tests = "from app import head, total\n\n\ndef test_nothing_is_none():\n    assert head([]) is None\n\n\n\
                 def test_total_of_nothing_does_not_break():\n    assert total([]) or True\n";
    let task = Task {
        files: (projects::PYTHON, &own),
        test: ("tests/test_new.py", tests),
        more: &[],
        code: (
            "app.py",
            "def head(items):\n    return items[0] if items else None\n\n\ndef total(items):\n    return (head(items) or 0) + 1\n",
        ),
    };
    task.accepted();
}

/// Nothing in the change is a function or could be written otherwise: nobody can be blamed.
#[test]
fn where_nothing_can_be_changed_no_test_is_refused() {
    let tests = "from app import Kinds\n\n\ndef test_kinds():\n    assert Kinds.mro()[1] is dict\n";
    let task = Task {
        files: PYTHON,
        test: ("tests/test_new.py", tests),
        more: &[],
        code: (
            "app.py",
            "class Kinds(dict):\n    \"\"\"Kinds.\"\"\"\n\n\ndef add(a, b):\n    return a + b\n",
        ),
    };
    let phase = task.accepted();
    assert_eq!(phase["mutated"]["changes"], json!([]), "{phase}");
}

const NODE: Project<'_> = (
    projects::NODE,
    &[("app.js", "exports.add = (a, b) => a + b;\n")],
);
const NODE_CODE: &str = "exports.add = (a, b) => a + b;\n\
    exports.double = (a) => {\n  if (a < 0) {\n    throw new RangeError('below zero');\n  }\n  return a * 2;\n};\n\
    exports.triple = (a) => a * 3;\n\
    exports.later = async (a) => exports.double(a);\n\
    exports.Stack = class {\n  constructor() {\n    this.items = [];\n  }\n  push(item) {\n    this.items.push(item);\n  }\n};\n";
const NODE_TESTS: &str = r"const test = require('node:test');
const assert = require('assert');
const { add, double, triple, later, Stack } = require('./app.js');

test('single', () => { assert.equal(double(4), 8); });
test('table', () => {
  for (const [given, want] of [[1, 3], [2, 6]]) {
    assert.equal(triple(given), want);
  }
});
test('throws', () => { assert.throws(() => double(-1), RangeError); });
test('later', async () => { assert.equal(await later(2), 4); });
test('method', () => { const stack = new Stack(); stack.push(1); assert.deepEqual(stack.items, [1]); });
test('old code', () => { assert.equal(add(1, 2), 3); });
";
const NODE_GAMING: &str = r"test('or true', () => { assert.ok(double(4) || true); });
test('typeof', () => { assert.equal(typeof double, 'function'); });
test('itself', () => { assert.deepEqual(triple(4), triple(4)); });
";

#[test]
fn in_javascript_they_are_told_apart() {
    let tests = format!("{NODE_TESTS}{NODE_GAMING}");
    let task = Task {
        files: NODE,
        test: ("app.test.js", &tests),
        more: &[],
        code: ("app.js", NODE_CODE),
    };
    assert_eq!(task.refused(), names(NODE_GAMING, "test('"));
}

const GO: Project<'_> = (
    projects::GO,
    &[(
        "app.go",
        "package demo\n\nfunc Add(a, b int) int {\n\treturn a + b\n}\n",
    )],
);
const GO_CODE: &str = "package demo\n\nimport (\n\t\"errors\"\n\t\"strings\"\n)\n\n\
    type Point struct{ X, Y int }\n\n\
    func Add(a, b int) int {\n\treturn a + b\n}\n\n\
    func Double(a int) (int, error) {\n\tif a < 0 {\n\t\treturn 0, errors.New(\"below zero\")\n\t}\n\treturn a * 2, nil\n}\n\n\
    func Shout(text string) string {\n\treturn strings.ToUpper(text)\n}\n\n\
    func At(items []int, place int) int {\n\treturn items[place]\n}\n\n\
    func Corner() Point {\n\treturn Point{X: 1, Y: 2}\n}\n";
const GO_TESTS: &str = "package demo\n\nimport \"testing\"\n\n\
    func TestSingle(t *testing.T) {\n\tif got, _ := Double(4); got != 8 {\n\t\tt.Fatal(got)\n\t}\n}\n\n\
    func TestTable(t *testing.T) {\n\tfor text, want := range map[string]string{\"a\": \"A\", \"b\": \"B\"} {\n\t\tt.Run(text, func(t *testing.T) {\n\t\t\tif Shout(text) != want {\n\t\t\t\tt.Error(text)\n\t\t\t}\n\t\t})\n\t}\n}\n\n\
    func TestFails(t *testing.T) {\n\tif _, err := Double(-1); err == nil {\n\t\tt.Fatal(err)\n\t}\n}\n\n\
    func TestCorner(t *testing.T) {\n\tif Corner().X != 1 {\n\t\tt.Fatal(1)\n\t}\n}\n\n\
    func TestOldCode(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fatal(1)\n\t}\n}\n\n";
const GO_GAMING: &str = "func TestItself(t *testing.T) {\n\tif Shout(\"a\") != Shout(\"a\") {\n\t\tt.Fatal(1)\n\t}\n}\n\n\
    func TestBreaksWithTheProduct(t *testing.T) {\n\tif At([]int{1}, 0) == 1 && false {\n\t\tt.Fatal(1)\n\t}\n}\n\n\
    func TestNever(t *testing.T) {\n\tif got, _ := Double(4); got != 8 && got == 8 {\n\t\tt.Fatal(1)\n\t}\n}\n";

#[test]
fn in_go_they_are_told_apart() {
    let tests = format!("{GO_TESTS}{GO_GAMING}");
    let task = Task {
        files: GO,
        test: ("app_test.go", &tests),
        more: &[],
        code: ("app.go", GO_CODE),
    };
    assert_eq!(task.refused(), names(GO_GAMING, "func "));
}

const LIBRARY: &str = "pub fn add(a: u32, b: u32) -> u32 {\n    a + b\n}\n";
const RUST: Project<'_> = (projects::RUST, &[("src/lib.rs", LIBRARY)]);
const RUST_CODE: &str = r#"#[derive(Debug, PartialEq)]
pub struct Point {
    pub x: u32,
}

pub fn add(a: u32, b: u32) -> u32 {
    a + b
}

pub fn double(a: i64) -> i64 {
    if a < 0 {
        panic!("below zero");
    }
    a * 2
}

pub fn parse(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

pub fn corner(a: u32) -> Point {
    Point { x: a }
}

pub fn at(items: &[u8], place: usize) -> u8 {
    items[place + 0]
}
"#;
const RUST_TESTS: &str = r#"use demo::{add, at, corner, double, parse};

#[test]
fn single() {
    assert_eq!(double(4), 8);
    assert_eq!(at(&[7], 0), 7);
}

#[test]
fn table() {
    for (given, want) in [(1, 2), (50, 100)] {
        assert_eq!(double(given), want);
    }
}

#[test]
#[should_panic(expected = "below zero")]
fn panics() {
    double(-1);
}

#[test]
fn fails() {
    assert!(parse("x").is_err());
}

#[test]
fn gives() -> Result<(), String> {
    assert_eq!(parse("4")?, 4);
    Ok(())
}

#[test]
fn a_type_of_its_own() {
    assert_eq!(corner(3).x, 3);
}

#[test]
fn old_code() {
    assert_eq!(add(1, 2), 3);
}
"#;
const RUST_GAMING: &str = r#"
#[test]
fn or_true() {
    assert!(double(4) == 8 || true);
}

#[test]
fn itself() {
    assert_eq!(parse("4").is_ok(), parse("4").is_ok());
}

#[test]
fn breaks_with_the_product() {
    assert!(at(&[7], 0) == 7 || true);
}
"#;

#[test]
fn in_rust_they_are_told_apart() {
    let tests = format!("{RUST_TESTS}{RUST_GAMING}");
    let task = Task {
        files: RUST,
        test: ("tests/new.rs", &tests),
        more: &[],
        code: ("src/lib.rs", RUST_CODE),
    };
    assert_eq!(task.refused(), names(RUST_GAMING, "fn "));
}

/// Tests that stand in the source itself: what is changed is never a test.
#[test]
fn in_rust_inline_tests_are_told_apart_as_well() {
    let old = LIBRARY;
    let tests = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn honest() {\n        assert_eq!(super::double(4), 8);\n    }\n\n    \
                 #[test]\n    fn or_true() {\n        assert!(super::double(4) == 8 || true);\n    }\n}\n";
    let with_tests = format!("{old}{tests}");
    let code = format!("{old}\npub fn double(a: u32) -> u32 {{\n    a * 2\n}}\n{tests}");
    let task = Task {
        files: RUST,
        test: ("src/lib.rs", &with_tests),
        more: &[],
        code: ("src/lib.rs", &code),
    };
    assert_eq!(task.refused(), ["or_true"]);
}

/// A run that one test ends says nothing of those behind it: they are asked by themselves.
#[test]
fn in_go_tests_behind_one_that_panics_are_asked_by_themselves() {
    let code = "package demo\n\nfunc Add(a, b int) int {\n\treturn a + b\n}\n\n\
        func Pair(a int) []int {\n\treturn []int{a, a * 2}\n}\n";
    let tests = "package demo\n\nimport \"testing\"\n\n\
        func TestA(t *testing.T) {\n\tif Pair(1)[0] != 1 {\n\t\tt.Fatal(1)\n\t}\n}\n\n\
        func TestB(t *testing.T) {\n\tif Pair(1)[1] != 2 {\n\t\tt.Fatal(1)\n\t}\n}\n\n\
        func TestC(t *testing.T) {\n\tif len(Pair(2)) != 2 {\n\t\tt.Fatal(1)\n\t}\n}\n\n\
        func TestHollow(t *testing.T) {\n\tif len(Pair(2)) == 7 {\n\t\tt.Fatal(1)\n\t}\n}\n";
    let (honest, hollow) = tests.split_at(tests.find("func TestHollow").unwrap());
    let mut task = Task {
        files: GO,
        test: ("app_test.go", tests),
        more: &[],
        code: ("app.go", code),
    };
    assert_eq!(task.refused(), names(hollow, "func "));
    task.test.1 = honest;
    let phase = task.accepted();
    assert!(
        phase["mutated"]["asked_again"].as_u64().unwrap() > 0,
        "{phase}"
    );
}

#[test]
fn in_python_neither_stopping_at_the_first_nor_an_abort_hides_the_others() {
    let stops = [
        ("app.py", APP),
        (
            "pytest.ini",
            "[pytest]\npythonpath = .\naddopts = -p no:cacheprovider -x\n",
        ),
    ];
    let tests = format!("{PYTHON_HEAD}{PYTHON_HONEST}");
    Task {
        files: (projects::PYTHON, &stops),
        test: ("tests/test_new.py", &tests),
        more: &[],
        code: ("app.py", PYTHON_CODE),
    }
    .accepted();
    let aborts = "import os\nfrom app import double\n\n\n\
        def test_aborts():\n    if double(4) != 8:\n        os.abort()\n    assert double(1) == 2\n\n\n\
        def test_behind():\n    assert double(5) == 10\n\n\n\
        def test_hollow():\n    assert double(5) or True\n";
    let task = Task {
        files: PYTHON,
        test: ("tests/test_new.py", aborts),
        more: &[],
        code: ("app.py", PYTHON_CODE),
    };
    assert_eq!(task.refused(), ["test_hollow"]);
}

/// Whoever ends the run well, and says nothing, has shown nothing; it is told as that.
#[test]
fn a_test_that_never_says_how_it_ended_is_not_taken_for_one_that_cannot_fail() {
    let tests = "import os\nfrom app import double\n\n\n\
        def test_slips_away():\n    if double(4) != 8:\n        os._exit(0)\n    assert double(1) == 2\n\n\n\
        def test_behind():\n    assert double(5) == 10\n";
    let task = Task {
        files: PYTHON,
        test: ("tests/test_new.py", tests),
        more: &[],
        code: (
            "app.py",
            "def add(a, b):\n    return a + b\n\n\ndef double(a):\n    return a * 2\n",
        ),
    };
    let (_, phase) = task.validated();
    assert_eq!(phase["unheard"], json!(["test_slips_away"]), "{phase}");
    assert_eq!(phase["suspects"], json!([]), "{phase}");
    assert_eq!(phase["state"], "code_writing", "{phase}");
    let told = phase["refused"].as_str().unwrap();
    assert!(told.contains("it is not known whether"), "{told}");
    assert!(!told.contains("would pass whatever"), "{told}");
}

#[test]
fn in_rust_an_abort_does_not_hide_the_others_and_a_module_is_no_hiding_place() {
    let code = format!("{LIBRARY}\npub fn double(a: u32) -> u32 {{\n    a * 2\n}}\n");
    let tests = "use demo::double;\n\n\
        #[test]\nfn aborts() {\n    if double(4) != 8 {\n        std::process::abort();\n    }\n    assert_eq!(double(1), 2);\n}\n\n\
        #[test]\nfn same() {\n    assert_eq!(double(4), 8);\n}\n\n\
        mod deep {\n    #[test]\n    fn same() {\n        assert!(super::double(4) == 8 || true);\n    }\n}\n";
    let task = Task {
        files: RUST,
        test: ("tests/new.rs", tests),
        more: &[(
            "tests/other.rs",
            "#[test]\nfn same() {\n    assert!(demo::double(4) > 0 || true);\n}\n",
        )],
        code: ("src/lib.rs", &code),
    };
    assert_eq!(
        task.refused(),
        ["tests/new.rs::deep::same", "tests/other.rs::same"]
    );
}

#[test]
fn in_javascript_an_exit_does_not_hide_the_others_and_namesakes_are_two() {
    let tests = "const test = require('node:test');\nconst assert = require('assert');\nconst { double } = require('./app.js');\n\
        test('exits', () => { if (double(4) !== 8) process.exit(3); assert.equal(double(1), 2); });\n\
        test('behind', () => { assert.equal(double(5), 10); });\n";
    let same = "const test = require('node:test');\nconst assert = require('assert');\nconst { double } = require('./app.js');\n\
        test('same', () => { assert.equal(double(5), 10); });\n\
        test('same', () => { assert.ok(double(5) || true); });\n";
    let task = Task {
        files: NODE,
        test: ("app.test.js", tests),
        more: &[("same.test.js", same)],
        code: ("app.js", NODE_CODE),
    };
    assert_eq!(task.refused(), ["same.test.js:5::same"]);
}

#[test]
fn in_python_and_go_a_namesake_in_another_place_is_no_hiding_place() {
    let python = "from app import double\n\n\ndef test_same():\n    assert double(4) == 8\n\n\n\
        class TestIt:\n    def test_same(self):\n        assert double(4) or True\n";
    let task = Task {
        files: PYTHON,
        test: ("tests/test_new.py", python),
        more: &[(
            "tests/test_other.py",
            "from app import double\n\n\ndef test_same():\n    assert callable(double)\n",
        )],
        code: ("app.py", PYTHON_CODE),
    };
    assert_eq!(
        task.refused(),
        [
            "tests/test_new.py::TestIt::test_same",
            "tests/test_other.py::test_same"
        ]
    );
    let task = Task {
        files: GO,
        test: (
            "app_test.go",
            "package demo\n\nimport \"testing\"\n\nfunc TestSame(t *testing.T) {\n\tif Shout(\"a\") != \"A\" {\n\t\tt.Fatal(1)\n\t}\n}\n",
        ),
        more: &[(
            "sub/app_test.go",
            "package sub\n\nimport (\n\t\"example.org/demo\"\n\t\"testing\"\n)\n\nfunc TestSame(t *testing.T) {\n\tif demo.Shout(\"a\") == \"b\" {\n\t\tt.Fatal(1)\n\t}\n}\n",
        )],
        code: ("app.go", GO_CODE),
    };
    assert_eq!(task.refused(), ["sub/app_test.go::TestSame"]);
}

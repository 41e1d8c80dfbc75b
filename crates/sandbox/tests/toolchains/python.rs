//! Python: pytest, unittest, and virtual environments made outside and inside.

use crate::project::{Project, Step};
use airlock_sandbox::lifecycle::Outcome;

const FILES: &[(&str, &str)] = &[
    ("shapes/__init__.py", "def area(a, b):\n    return a * b\n"),
    (
        "tests/test_area.py",
        "import multiprocessing\nimport pathlib\nimport unittest\nfrom shapes import area\n\n\n\
         class Area(unittest.TestCase):\n    def test_product(self):\n        \
         self.assertEqual(area(6, 7), 42)\n\n    def test_pool(self):\n        \
         with multiprocessing.Pool(2) as pool:\n            \
         self.assertEqual(pool.map(abs, [-1, 2]), [1, 2])\n\n    def test_file(self):\n        \
         pathlib.Path('report.txt').write_text('written')\n",
    ),
    (
        "failing/test_wrong.py",
        "import unittest\nfrom shapes import area\n\n\nclass Wrong(unittest.TestCase):\n    \
         def test_wrong(self):\n        self.assertEqual(area(1, 1), 2)\n",
    ),
    ("tests/__init__.py", ""),
    ("failing/__init__.py", ""),
];

/// Says which environment it runs in, and whether it is one.
const PREFIX: &str = "import sys, os; print('prefix', os.path.basename(sys.prefix), \
                      sys.prefix != sys.base_prefix)";

const UNITTEST: &str = r"(?m)^test_\w+ .*\.\.\. (ok|FAIL)";

#[test]
fn pytest_and_unittest_pass_and_fail_as_outside() {
    let project = Project::new(&["python3", "pytest"], FILES);
    let results = r"\S+::\S+ (PASSED|FAILED)";
    project.works_inside_as_outside(&[
        Step {
            line: &["pytest", "-v", "tests"],
            code: 0,
            results: (results, 3),
        },
        Step {
            line: &["pytest", "-v", "failing"],
            code: 1,
            results: (results, 1),
        },
        Step {
            line: &["python3", "-m", "unittest", "-v", "tests.test_area"],
            code: 0,
            results: (UNITTEST, 3),
        },
        Step {
            line: &["python3", "-m", "unittest", "-v", "failing.test_wrong"],
            code: 1,
            results: (UNITTEST, 1),
        },
    ]);
    assert_eq!(
        project.staged("report.txt").as_deref(),
        Some(&b"written"[..])
    );
    assert!(project.staged(".pytest_cache/CACHEDIR.TAG").is_some());
    assert!(!project.tree().join("report.txt").exists());
}

#[test]
fn a_virtual_environment_works_whether_made_outside_or_inside() {
    let project = Project::new(&["python3"], FILES);
    project.prepare(&["python3", "-m", "venv", "--without-pip", ".venv"]);
    let shown = r"(?m)^prefix \S+ True";
    project.works_inside_as_outside(&[
        Step {
            line: &[
                ".venv/bin/python",
                "-m",
                "unittest",
                "-v",
                "tests.test_area",
            ],
            code: 0,
            results: (UNITTEST, 3),
        },
        Step {
            line: &[".venv/bin/python", "-c", PREFIX],
            code: 0,
            results: (shown, 1),
        },
        Step {
            line: &["python3", "-m", "venv", "--without-pip", "made"],
            code: 0,
            results: (shown, 0),
        },
        Step {
            line: &["made/bin/python", "-c", PREFIX],
            code: 0,
            results: (shown, 1),
        },
        Step {
            line: &["made/bin/python", "-m", "unittest", "-v", "tests.test_area"],
            code: 0,
            results: (UNITTEST, 3),
        },
    ]);
    assert!(project.staged("made/pyvenv.cfg").is_some());
    assert!(!project.tree().join("made").exists());
}

#[test]
fn whoever_has_no_home_has_the_toolchains_of_the_system() {
    let project = Project::new(&["python3"], FILES);
    let (outcome, text) =
        project.run_for_nobody(&["/usr/bin/python3", "-m", "unittest", "tests.test_area"]);
    assert_eq!(outcome, Outcome::Exited(0), "{text}");
    assert!(project.staged("report.txt").is_some());
}

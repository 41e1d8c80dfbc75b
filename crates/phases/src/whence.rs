//! Where a failure of a test was raised, as the runner tells it.
//!
//! Non-guarantee: what a runner prints in a form that is not known here, and what a test prints in
//! its place, is taken for a failure of the test's own.

use crate::runs::{Framework, is_test};
use regex::Regex;
use std::sync::LazyLock;

/// A line of a file, by the name the runner gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) path: String,
    pub(crate) line: u32,
}

impl Place {
    fn new(path: &str, line: &str) -> Option<Self> {
        Some(Self {
            path: path
                .trim_start_matches("file://")
                .trim_start_matches("./")
                .to_owned(),
            line: line.parse().ok()?,
        })
    }

    /// Whether it is of the file at `path` of the workspace.
    pub(crate) fn is_of(&self, path: &str) -> bool {
        let ends = |whole: &str, end: &str| {
            let before = whole.strip_suffix(end);
            before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
        };
        ends(&self.path, path) || ends(path, &self.path)
    }
}

/// Where each failure of the test called `name` was raised; none where that is not told.
pub(crate) fn raised(framework: Framework, output: &str, name: &str) -> Vec<Option<Place>> {
    match framework {
        Framework::Cargo => sections(output, &CARGO_SECTION, name, |text| {
            first(&CARGO_PLACE, text)
        }),
        Framework::Pytest => sections(output, &PYTEST_SECTION, name, |text| {
            let text = text.split("\n---").next().unwrap_or(text);
            last(&PYTEST_PLACE, text)
        }),
        Framework::Node => sections(output, &NODE_SECTION, name, |text| first(&NODE_PLACE, text)),
        Framework::Go => sections(output, &GO_SECTION, name, in_go),
    }
}

type Pattern = LazyLock<Option<Regex>>;

static CARGO_SECTION: Pattern =
    LazyLock::new(|| Regex::new(r"(?m)^---- (\S.*?) (?:stdout|stderr) ----$").ok());
static CARGO_PLACE: Pattern =
    LazyLock::new(|| Regex::new(r"(?m)^thread '.*?'.*? panicked at (\S+?):(\d+):\d+:?$").ok());
static PYTEST_SECTION: Pattern = LazyLock::new(|| Regex::new(r"(?m)^_{3,} (\S.*?) _{3,}$").ok());
static PYTEST_PLACE: Pattern = LazyLock::new(|| Regex::new(r"(?m)^(\S+?\.py):(\d+): ").ok());
static NODE_SECTION: Pattern = LazyLock::new(|| {
    Regex::new(r"(?m)^\s*(?:not ok \d+ - |[✕✖×] |● |\d+\) )(.*?)(?: \(\d[\w. ]*\))?\s*$").ok()
});
static NODE_PLACE: Pattern = LazyLock::new(|| {
    Regex::new(
        r"(?m)^\s*(?:at )?(?:[^'\n]*?\()?((?:file://)?[^\s():']+\.[cm]?[jt]sx?):(\d+):\d+\)?$",
    )
    .ok()
});
static GO_SECTION: Pattern = LazyLock::new(|| Regex::new(r"(?m)^\s*--- FAIL: (\S+)").ok());
static GO_PLACE: Pattern =
    LazyLock::new(|| Regex::new(r"(?m)^\t(/\S+\.go):(\d+)(?: \+0x[0-9a-f]+)?$").ok());

/// What `place` finds in each section of `output` that is headed with the test called `name`.
fn sections(
    output: &str,
    head: &Pattern,
    name: &str,
    place: impl Fn(&str) -> Option<Place>,
) -> Vec<Option<Place>> {
    let heads = head.as_ref().into_iter();
    let heads: Vec<(usize, usize, &str)> = heads
        .flat_map(|pattern| pattern.captures_iter(output))
        .filter_map(|found| {
            let whole = found.get(0)?;
            Some((whole.start(), whole.end(), found.get(1)?.as_str()))
        })
        .collect();
    let ends = heads
        .iter()
        .skip(1)
        .map(|(start, _, _)| *start)
        .chain([output.len()]);
    heads
        .iter()
        .zip(ends)
        .filter(|((_, _, test), _)| {
            // A method of a class is named by both here.
            let plain = test.split('[').next().unwrap_or(test);
            is_test(test, name) || plain.rsplit('.').next() == Some(name)
        })
        .map(|((_, from, _), to)| output.get(*from..to).and_then(&place))
        .collect()
}

fn places<'t>(pattern: &'t Pattern, text: &'t str) -> impl Iterator<Item = Place> + 't {
    let pattern = pattern.as_ref().into_iter();
    let found = pattern.flat_map(|pattern| pattern.captures_iter(text));
    found.filter_map(|found| Place::new(found.get(1)?.as_str(), found.get(2)?.as_str()))
}

fn first(pattern: &Pattern, text: &str) -> Option<Place> {
    places(pattern, text).next()
}

fn last(pattern: &Pattern, text: &str) -> Option<Place> {
    places(pattern, text).last()
}

/// A test of Go fails by what it says, or by a panic, whose first frame outside the runtime counts.
fn in_go(text: &str) -> Option<Place> {
    let (_, stack) = text.split_once("panic: ")?;
    places(&GO_PLACE, stack).find(|place| {
        let own = ["/src/runtime/", "/src/testing/", "/src/reflect/"];
        !own.iter().any(|part| place.path.contains(part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str, line: u32) -> Place {
        Place {
            path: path.to_owned(),
            line,
        }
    }

    #[test]
    fn each_runner_tells_where_it_was_raised() {
        let cargo = "---- tests::doubles stdout ----\n\nthread 'tests::doubles' (77) panicked at src/lib.rs:12:9:\nassertion failed\nnote: run with\n\n---- other stdout ----\n\nthread 'other' panicked at tests/a.rs:3:5:\nx\n";
        assert_eq!(
            raised(Framework::Cargo, cargo, "doubles"),
            [Some(at("src/lib.rs", 12))]
        );
        assert_eq!(
            raised(Framework::Cargo, cargo, "other"),
            [Some(at("tests/a.rs", 3))]
        );
        let pytest = "___ TestX.test_a[1.5] ___\n\ntests/t.py:3: \n_ _ _ _\n\napp.py:2: TypeError\n----- Captured stdout call -----\nfake.py:1: x\n___ test_b ___\nE  assert 1\n\ntests/t.py:9: AssertionError\n";
        assert_eq!(
            raised(Framework::Pytest, pytest, "test_a"),
            [Some(at("app.py", 2))]
        );
        assert_eq!(
            raised(Framework::Pytest, pytest, "test_b"),
            [Some(at("tests/t.py", 9))]
        );
        let node = "not ok 1 - doubles\n  ---\n  location: '/w/app.test.js:5:1'\n  error: 'x'\n  stack: |-\n    exports.double (/w/app.js:2:30)\n    TestContext.<anonymous> (/w/app.test.js:5:35)\n  ...\nnot ok 2 - adds\n  ---\n  stack: |-\n    TestContext.<anonymous> (file:///w/app.test.mjs:9:35)\n  ...\n";
        assert_eq!(
            raised(Framework::Node, node, "doubles"),
            [Some(at("/w/app.js", 2))]
        );
        assert_eq!(
            raised(Framework::Node, node, "adds"),
            [Some(at("/w/app.test.mjs", 9))]
        );
        let go = "=== RUN   TestDouble\n    app_test.go:7: no\n--- FAIL: TestDouble (0.00s)\n=== RUN   TestAdd\n--- FAIL: TestAdd (0.00s)\npanic: runtime error: index out of range [recovered]\n\ngoroutine 7 [running]:\ntesting.tRunner.func1.2(0x1)\n\t/usr/lib/go/src/testing/testing.go:1396 +0x24e\npanic(0x1)\n\t/usr/lib/go/src/runtime/panic.go:884 +0x212\ndemo.Add(...)\n\t/w/app.go:4 +0x1d\n";
        assert_eq!(raised(Framework::Go, go, "TestDouble"), [None]);
        assert_eq!(
            raised(Framework::Go, go, "TestAdd"),
            [Some(at("/w/app.go", 4))]
        );
        assert!(raised(Framework::Go, go, "TestNone").is_empty());
    }

    #[test]
    fn a_place_is_of_a_file_by_whole_names() {
        for (place, path, want) in [
            ("/w/app.py", "app.py", true),
            ("app.py", "app.py", true),
            ("/w/myapp.py", "app.py", false),
            ("lib.rs", "src/lib.rs", true),
            ("src/lib.rs", "crates/a/src/lib.rs", true),
            ("tests/lib.rs", "src/lib.rs", false),
        ] {
            let place = at(place, 1);
            assert_eq!(place.is_of(path), want, "{place:?} {path}");
        }
    }
}

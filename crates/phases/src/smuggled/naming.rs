//! Which changed tests a source names, whatever it does with the name.
//!
//! Not every way to take something from a file can be known. But nothing is taken from a file that
//! is not named, unless the name is put together while the code runs.
//!
//! Non-guarantee: a name that is in none of the [`readings`] is not seen. A module that code imports
//! without the package it is in is left to what is [taken for certain](super::taken_from_tests): it may
//! be somebody else's.

use super::spelled::{folded, readings};
use super::{parent, resolved};
use crate::suite::{Language, tests_of};
use regex::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Longest path that a system opens, in bytes.
const PATH: usize = 4_096;

/// Files that stand for the directory they are in.
const WHOLE: [&str; 3] = ["__init__", "index", "mod"];

/// `from a import b`, in code and in what may become code.
static FROM: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\bfrom\s+([\w. \t]+?)\s*\bimport\b\s*(\([^)]*\)|[^;\n]*)").ok());

/// A file beneath the test paths that was added or changed.
#[derive(Debug, Clone)]
pub struct TestFile<'a> {
    path: &'a str,
    /// The same in the letters that sources are read in.
    read: String,
    /// Whether it is one of tests; else something else could be meant to use it.
    holds_tests: bool,
}

impl<'a> TestFile<'a> {
    /// The file at `path` with this text, if that can be read; none where nothing is in it.
    pub fn new(path: &'a str, text: Option<&str>) -> Option<Self> {
        let text = text.unwrap_or("?");
        let language = Language::of(path);
        let holds_tests = language.is_some_and(|language| !tests_of(language, text).is_empty());
        (!text.trim().is_empty()).then(|| Self {
            path,
            read: folded(path),
            holds_tests,
        })
    }

    /// What it may be called.
    fn targets(&self) -> Vec<Target<'_>> {
        let directory = parent(&self.read);
        let name = self.read.rsplit('/').next().unwrap_or(&self.read);
        let (stem, end) = match name.rsplit_once('.') {
            Some((stem, _)) if !stem.is_empty() => (stem, name.get(stem.len()..)),
            Some(_) | None => (name, Some("")),
        };
        let mut targets = vec![Target {
            directory,
            stem,
            end: end.unwrap_or_default(),
            is_directory: false,
            is_known_alone: !self.holds_tests && !WHOLE.contains(&stem),
        }];
        if WHOLE.contains(&stem) && !directory.is_empty() {
            targets.push(Target {
                directory: parent(directory),
                stem: directory.rsplit('/').next().unwrap_or(directory),
                end: "/",
                is_directory: true,
                is_known_alone: !self.holds_tests,
            });
        }
        targets
    }
}

/// The paths of `tests` that `text`, the source at `path`, names.
pub fn names_tests(path: &str, text: &str, tests: &[TestFile<'_>]) -> BTreeSet<String> {
    if tests.is_empty() {
        return BTreeSet::new();
    }
    let readings = readings(path, text);
    let path = &folded(path);
    let named = |test: &&TestFile<'_>| {
        let targets = test.targets();
        let mut targets = targets.iter();
        targets.any(|target| readings.iter().any(|text| target.is_in(path, text)))
    };
    let named = tests.iter().filter(named);
    named.map(|test| test.path.to_owned()).collect()
}

/// One way to call a file of tests.
struct Target<'a> {
    /// The directory it is in, from the root.
    directory: &'a str,
    stem: &'a str,
    /// What its name ends with.
    end: &'a str,
    is_directory: bool,
    /// Whether the stem alone, as a string, is its name and nothing else.
    is_known_alone: bool,
}

impl Target<'_> {
    /// Whether `text`, which the source at `path` says, names it.
    fn is_in(&self, path: &str, text: &str) -> bool {
        let mut places = text.match_indices(self.stem);
        places.any(|(at, _)| {
            let from = text.ceil_char_boundary(at.saturating_sub(PATH));
            let before = text.get(from..at).unwrap_or_default();
            let behind = text.get(at + self.stem.len()..).unwrap_or_default();
            self.ends(behind) && self.begins(path, before, behind)
        }) || has_modules(path) && self.is_imported(text)
    }

    /// Whether its name ends before `behind`.
    fn ends(&self, behind: &str) -> bool {
        let mut rest = behind.chars();
        match rest.next() {
            Some('/' | '.') if self.is_directory => !rest.next().is_some_and(is_of_name),
            Some(next) => !is_of_name(next),
            None => true,
        }
    }

    /// Whether what stands before the stem leads to it.
    fn begins(&self, path: &str, before: &str, behind: &str) -> bool {
        let is_named_whole = !self.is_directory && !self.end.is_empty() && {
            let rest = behind.strip_prefix(self.end);
            rest.is_some_and(|rest| !rest.starts_with(is_of_name))
        };
        let above = self.directory.rsplit('/').next().unwrap_or_default();
        let is_above = |before: &str| {
            let rest = before.strip_suffix(above).filter(|_| !above.is_empty());
            rest.is_some_and(|rest| !rest.ends_with(is_of_name))
        };
        let dotted = before.trim_end_matches([' ', '\t']).strip_suffix('.');
        if let Some(before) = dotted.filter(|_| has_modules(path)) {
            return is_above(before.trim_end_matches([' ', '\t']));
        }
        if before.ends_with(['"', '\'', '`']) {
            let is_string = behind.starts_with(['"', '\'', '`']);
            return is_named_whole || self.is_known_alone && is_string;
        }
        let Some(upper) = before.strip_suffix(['/', '\\']) else {
            return false;
        };
        // It may be called by any characters.
        if is_above(upper) {
            return true;
        }
        let led = before.rsplit(is_around_paths).next().unwrap_or(before);
        let led = led.replace('\\', "/");
        if led.starts_with('.') {
            let bases = [parent(path), ""];
            let mut bases = bases.iter().filter_map(|base| resolved(base, &led));
            return bases.any(|directory| directory == self.directory);
        }
        match inner(&led) {
            Some(last) => last == above,
            None => is_named_whole || self.is_known_alone,
        }
    }

    /// Whether `text` imports it out of the package it is in.
    fn is_imported(&self, text: &str) -> bool {
        let above = self.directory.rsplit('/').next().unwrap_or_default();
        let imports = FROM.as_ref().into_iter();
        let mut imports = imports.flat_map(|from| from.captures_iter(text));
        imports.any(|import| {
            let group = |number: usize| import.get(number).map_or("", |group| group.as_str());
            let module = group(1).trim_end();
            let module = module.rsplit(['.', ' ', '\t']).next().unwrap_or(module);
            let mut names = group(2).split(|c: char| !is_of_name(c));
            !above.is_empty() && module == above && names.any(|name| name == self.stem)
        })
    }
}

/// The last directory that the path `led` goes through, if it names one.
fn inner(led: &str) -> Option<&str> {
    let mut parts = Vec::new();
    for part in led.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.pop()
}

/// Whether a dot leads to a module in the language of the file at `path`; elsewhere it leads to what
/// is in a value.
fn has_modules(path: &str) -> bool {
    matches!(Language::of(path), Some(Language::Python) | None)
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

/// Whether a path that somebody writes begins behind it.
fn is_around_paths(c: char) -> bool {
    c.is_whitespace() || "\"'`()[]{}<>,;:=+|&!?*".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is no test, beneath the test paths.
    const HELPERS: [(&str, &str); 9] = [
        ("tests/impl.py", "def double(a):\n    return a * 2\n"),
        ("tests/impl.txt", "lambda a: a * 2\n"),
        ("tests/table.json", "{\"4\": 8}"),
        ("tests/impl.js", "exports.double = (a) => a * 2;\n"),
        ("tests/impl.rs", "pub fn double(a: u32) -> u32 { a * 2 }\n"),
        ("tests/odd name/it's.txt", "x"),
        ("tests/kit/index.js", "exports.a = 1;\n"),
        ("tests/__init__.py", ""),
        ("tests/\u{fb01}x\tit.js", "exports.a = 1;\n"),
    ];

    const PYTHON_TEST: &str = "def test_double():\n    assert double(4) == 8\n";
    const NODE_TEST: &str = "test('doubles', () => assert.equal(double(4), 8));\n";
    const RUST_TEST: &str = "#[test]\nfn doubles() { assert_eq!(demo::double(4), 8); }\n";
    /// Files of tests.
    const TESTS: [(&str, &str); 4] = [
        ("tests/test_double.py", PYTHON_TEST),
        ("tests/double.js", NODE_TEST),
        ("src/a.test.js", NODE_TEST),
        ("tests/double.rs", RUST_TEST),
    ];

    fn named(path: &str, text: &str) -> Vec<String> {
        let files = HELPERS.iter().chain(&TESTS);
        let files = files.filter_map(|&(path, text)| TestFile::new(path, Some(text)));
        let files: Vec<TestFile<'_>> = files.collect();
        let found = names_tests(path, text, &files);
        found.into_iter().collect()
    }

    /// Holds that each source names this one, whatever else it may mean.
    fn all_name(want: &str, path: &str, texts: &[&str]) {
        for text in texts {
            let found = named(path, text);
            assert!(
                found.iter().any(|found| found == want),
                "{path}: {text}: {found:?}"
            );
        }
    }

    fn none_names(path: &str, texts: &[&str]) {
        for text in texts {
            assert_eq!(named(path, text), [""; 0], "{path}: {text}");
        }
    }

    #[test]
    fn python_names_what_it_loads_by_whatever_means() {
        all_name(
            "tests/impl.py",
            "app.py",
            &[
                "def double(a):\n    return load(\"tests.impl\").double(a)\n",
                "def double(a):\n    exec(\"from tests.impl import double\", scope)\n",
                "def double(a):\n    code = open(\"tests/impl.py\").read()\n    exec(code, scope)\n",
                "def double(a):\n    x = 'a\\\nb'; from tests.impl import double\n",
                "def double(a):\n    x = 'a\\\r\nb'; from tests.impl import double\n",
                "def double(a):\n    from \u{ff54}ests.impl import double\n",
                "CODE = Path(\"tests/impl.py\").read_text()\n",
                "X = f\"{__import__('tests.impl')}\"\n",
                "y = f\"{d[\"#\"]}\"; from tests.impl import double\n",
                "y = f\"{d[\"#\"]}\"; from tests import impl\n",
                "exec('from tests import (os, impl as it)')\n",
                "load('te\\x73ts.impl')\n",
                "load('te' 'sts' '.impl')\n",
                "x = f'{a}'\npath = ('tests/im'  # where\n        'pl.py')\n",
                "path = 'tests/im' + ('pl.py')\n",
                "load('.'.join(['tests', 'impl']))\n",
                "open(Path('tests') / 'impl.py')\n",
                "open('%s/impl.py' % 'tests')\n",
                "open(f'{here}/impl.py')\n",
                "open('tests//more/../impl.py')\n",
                "load('impl')\n",
            ],
        );
        all_name(
            "tests/impl.txt",
            "app.py",
            &["def double(a):\n    return eval(open(\"tests/impl.txt\").read())(a)\n"],
        );
        all_name(
            "tests/table.json",
            "app.py",
            &["TABLE = json.load(open(\"tests/table.json\"))\n"],
        );
        all_name(
            "tests/odd name/it's.txt",
            "app.py",
            &["open(\"tests/odd name/it's.txt\")\n"],
        );
        all_name(
            "tests/test_double.py",
            "app.py",
            &[
                "load('tests.test_double')\n",
                "open('test_double.py')\n",
                "exec('from tests import test_double')\n",
            ],
        );
    }

    #[test]
    fn javascript_names_what_it_loads_by_whatever_means() {
        all_name(
            "tests/impl.js",
            "src/a.js",
            &[
                "const load = require;\nexports.double = (a) => load('../tests/impl.js').double(a);\n",
                "exports.double = (a) => require('../te\\x73ts/impl.js').double(a);\n",
                "const code = readFileSync(__dirname + '/../tests/impl.js', 'utf8'); eval(code);\n",
                "load('../tests/impl')\n",
                "load('../te%73ts/impl.js')\n",
                "load(`${there}/impl.js`)\n",
                "load(path.join(__dirname, '..', 'tests', 'impl'))\n",
                "load('../te' + 'sts/impl')\n",
                "half = (a) => a / 2;\nload('../tests/im' /* x */ + 'pl.js')\n",
                "if (x) /[/*]/.test(y); load('../tests/impl.js')\n",
            ],
        );
        all_name(
            "src/a.test.js",
            "src/b.js",
            &["load('./a.test')\n", "load('./a.test.js')\n"],
        );
        all_name(
            "tests/kit/index.js",
            "src/a.js",
            &["load('../tests/kit')\n", "load('../tests/kit/')\n"],
        );
        all_name(
            "tests/\u{fb01}x\tit.js",
            "src/a.js",
            &["load('../tests/\u{fb01}x\\tit.js')\n"],
        );
        all_name("tests/double.js", "src/a.js", &["load('../tests/double')"]);
    }

    #[test]
    fn rust_names_what_it_includes_by_whatever_means() {
        all_name(
            "tests/impl.txt",
            "src/lib.rs",
            &[
                "mod imp {\n    use std::include as part;\n    part!(\"../tests/impl.txt\");\n}\n",
                "macro_rules! part { ($p:literal) => { include!($p); } }\npart!(\"../tests/impl.txt\");\n",
                "const A: &str = concat!(\"../te\", \"sts/impl.txt\");\n",
                "const A: &str = \"../te\\u{73}ts/impl.txt\";\n",
                "const A: &str = r\"../tests/impl.txt\";\n",
                "const A: &[u8] = b\"../tests/impl.txt\";\n",
            ],
        );
        all_name(
            "tests/impl.rs",
            "src/part.inc",
            &["part!(\"../tests/impl.rs\");\n"],
        );
    }

    #[test]
    fn ordinary_source_names_no_test() {
        none_names(
            "app.py",
            &[
                "def double(a):\n    return a * 2  # see tests/impl.py\n",
                "# tests.impl has more\ntest = 1\ntests = [test]\n",
                "NAME = 'latest'\nimport os, json\n",
                "def f(path='data/table.csv'):\n    return open('data/impl.py.txt')\n",
                "from app.impl import double\nimport impl\n",
                "x = impl.double(4)\nself.impl = impl\n",
                "find_packages(exclude=['tests', 'tests.*'])\n",
                "def test_double_helper(): return 'test_double'\n",
                "'''Doubles, which the tests show.'''\n",
            ],
        );
        none_names(
            "src/a.js",
            &[
                "// as ../tests/impl.js has it\nexports.double = (a) => a * 2;\n",
                "const test = latest.tests.impl; test.table.json();\n",
                "exports['double'] = require('./impl.js');\n",
                "require('./lib/impl'); require('../lib/impl.js');\n",
                "fetch('/api/tests');\n",
            ],
        );
        none_names(
            "src/lib.rs",
            &[
                "#[cfg(test)]\nmod tests;\npub fn double(a: u32) -> u32 { a * 2 }\n",
                "#[cfg(test)]\nmod tests { const A: &str = include_str!(\"../tests/impl.txt\"); }\n",
                "//! As `tests/impl.rs` has it.\n\n/// See tests/impl.txt.\nfn f() {} // tests/impl.rs\n",
                "fn f(test: u32) -> &'static str { \"latest\" }\n",
                "const A: &str = include_str!(\"table.md\");\n",
                "fn f(a: &str) { match a { \"double\" => {} _ => {} } }\n",
            ],
        );
        none_names("main.go", &["package main\n\n// tests/impl.txt\n"]);
        assert!(names_tests("a.py", "open('tests/impl.py')", &[]).is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_searched(text in "(tests|impl|from|import|[ ./\\\\'\"`\nés]){0,40}") {
            for path in ["src/a.rs", "src/a.py", "src/a.js", "src/a.go", "src/a"] {
                named(path, &text);
            }
        }
    }
}

//! Which tests a file holds, by its text.
//!
//! Rust is parsed; the others are read by the shape their frameworks prescribe. A test that is not
//! found here is simply not known to be new; what its run shows still counts.

use crate::node::{Names, USUAL, start_of};
use crate::runs::Framework;
use quote::ToTokens as _;
use regex::Regex;
use std::sync::LazyLock;
use syn::{Attribute, Item};

/// A language whose tests are known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Rust.
    Rust,
    /// Python.
    Python,
    /// JavaScript and TypeScript.
    JavaScript,
    /// Go.
    Go,
}

impl Language {
    /// The language of the file `path`, by its name.
    pub fn of(path: &str) -> Option<Self> {
        let (_, end) = path.rsplit('/').next()?.rsplit_once('.')?;
        match end {
            "rs" => Some(Self::Rust),
            "py" => Some(Self::Python),
            "js" | "mjs" | "cjs" | "jsx" | "ts" | "mts" | "cts" | "tsx" => Some(Self::JavaScript),
            "go" => Some(Self::Go),
            _ => None,
        }
    }

    /// What runs tests of this language.
    pub const fn tested_by(self) -> Framework {
        match self {
            Self::Rust => Framework::Cargo,
            Self::Python => Framework::Pytest,
            Self::JavaScript => Framework::Node,
            Self::Go => Framework::Go,
        }
    }

    /// `text` with a last line that means nothing to whoever runs it.
    pub fn remarked(self, text: &str, remark: &str) -> String {
        let mark = match self {
            Self::Python => "#",
            Self::Rust | Self::JavaScript | Self::Go => "//",
        };
        let end = if text.is_empty() || text.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        format!("{text}{end}{mark} {remark}\n")
    }

    /// The least a file of tests like `text` can hold and still be one.
    pub fn nothing_in_place_of(self, text: &str) -> String {
        match self {
            Self::Rust | Self::Python | Self::JavaScript => String::new(),
            Self::Go => {
                let mut lines = text.lines().map(str::trim);
                let package = lines.find(|line| line.starts_with("package "));
                format!("{}\n", package.unwrap_or("package main"))
            }
        }
    }
}

/// One test.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestItem {
    /// Its name, without what it stands in.
    pub name: String,
    /// The file it stands in, where that is known.
    pub path: String,
    /// The modules or classes of that file it stands in, the outermost first.
    pub within: Vec<String>,
    /// The line it begins in, counted from 1, in languages whose runners tell it; else 0.
    pub line: u32,
    /// Its text.
    pub body: String,
    /// Whether something in it could make it fail.
    pub asserts: bool,
}

impl TestItem {
    /// Its name, and where it stands if another one of `all` has that name, too.
    pub fn label(&self, all: &[Self]) -> String {
        let namesakes: Vec<&Self> = all.iter().filter(|test| test.name == self.name).collect();
        if namesakes.len() < 2 {
            return self.name.clone();
        }
        let same = |test: &&&Self| test.path == self.path && test.within == self.within;
        let place = match namesakes.iter().filter(same).count() {
            0 | 1 => self.path.clone(),
            _ => format!("{}:{}", self.path, self.line),
        };
        let parts = [&place].into_iter().chain(&self.within);
        let parts: Vec<&str> = parts.chain([&self.name]).map(String::as_str).collect();
        parts.join("::")
    }
}

/// The tests in `text`.
pub fn tests_of(language: Language, text: &str) -> Vec<TestItem> {
    let names = match language {
        Language::JavaScript => Names::of(text),
        Language::Rust | Language::Python | Language::Go => Names::default(),
    };
    let mut found = match language {
        Language::Rust => rust(text),
        Language::Python => python(text),
        Language::JavaScript => javascript(text, &names),
        Language::Go => go(text),
    };
    if found.iter().any(|test| !test.asserts) {
        let helpers = helpers(language, text, &found, &names);
        for test in &mut found {
            let calls = |name: &String| calls(&test.body, name);
            test.asserts |= helpers.iter().any(calls);
        }
    }
    found
}

/// Functions beside `tests` in which something could fail.
fn helpers(language: Language, text: &str, tests: &[TestItem], own: &Names) -> Vec<String> {
    let words = match language {
        Language::Rust => RUST_WORDS,
        Language::Python => PYTHON_WORDS,
        Language::JavaScript => JAVASCRIPT_WORDS,
        Language::Go => GO_WORDS,
    };
    let mut names = Vec::new();
    for function in crate::functions::functions(language, text) {
        let body = text.get(function.entry..function.range.end);
        let is_test = tests.iter().any(|test| test.name == function.name);
        let fails = |body: &str| asserts(body, words) || asserts(&own.usual(body), words);
        if !is_test && body.is_some_and(fails) {
            names.push(function.name);
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// Whether `body` calls a function by its name.
fn calls(body: &str, name: &str) -> bool {
    let part = |sign: char| sign.is_alphanumeric() || sign == '_';
    body.match_indices(name).any(|(at, _)| {
        let before = body.get(..at).and_then(|before| before.chars().next_back());
        let after = body.get(at + name.len()..).unwrap_or_default();
        !before.is_some_and(part) && after.trim_start().starts_with('(')
    })
}

/// The tests of `new` that `old` does not hold, or holds otherwise.
pub fn new_tests(language: Language, old: Option<&str>, new: &str) -> Vec<TestItem> {
    let before = old.map(|old| tests_of(language, old)).unwrap_or_default();
    let mut found = tests_of(language, new);
    // Of namesakes in one file each is one of its own.
    let mut known: Vec<Option<&TestItem>> = before.iter().map(Some).collect();
    found.retain(|test| {
        let same = |old: &&mut Option<&TestItem>| {
            old.is_some_and(|old| {
                (&old.within, &old.name, &old.body) == (&test.within, &test.name, &test.body)
            })
        };
        let old = known.iter_mut().find(same);
        old.is_none_or(|old| old.take().is_none())
    });
    found
}

/// The tests of `old` that `new` does not hold under their names; of a file that is gone all.
pub fn lost_tests(language: Language, old: &str, new: Option<&str>) -> Vec<TestItem> {
    let mut now = new.map(|new| tests_of(language, new)).unwrap_or_default();
    let mut found = tests_of(language, old);
    // Of namesakes in one file each is one of its own.
    found.retain(|test| {
        let same = |new: &TestItem| (&new.within, &new.name) == (&test.within, &test.name);
        match now.iter().position(same) {
            Some(at) => {
                now.swap_remove(at);
                false
            }
            None => true,
        }
    });
    found
}

impl TestItem {
    /// Whether its own text may keep it from being run.
    pub fn may_be_left_out(&self) -> bool {
        let words = [
            "# [ignore",
            "mark.skip",
            "mark.xfail",
            "unittest.skip",
            "pytest.skip(",
            ".skip(",
            ".todo(",
            ".Skip",
        ];
        words.iter().any(|word| self.body.contains(word))
    }
}

const RUST_WORDS: &[&str] = &[
    "assert",
    "panic !",
    "unreachable !",
    "unwrap",
    "expect",
    "should_panic",
    "?",
    "Err",
    "todo !",
    "unimplemented !",
];
const PYTHON_WORDS: &[&str] = &["assert", "raises", "fail(", "raise "];
const JAVASCRIPT_WORDS: &[&str] = &[
    "assert",
    "expect(",
    "throw",
    "t.is",
    "t.deepEqual",
    "t.true",
    "t.false",
    "t.equal",
    "should",
    "rejects",
];
const GO_WORDS: &[&str] = &[".Error", ".Fatal", ".Fail", "assert.", "require.", "panic("];

/// Assertions about nothing but literals, which hold whatever the product does.
static HOLLOW: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let literal = r#"(?:true|True|!\s*false|not False|-?\d[\w.]*|"[^"]*"|'[^']*')"#;
    let compared = format!(r"{literal}(?:\s*(?:,|==|===|is)\s*{literal})*");
    Regex::new(&format!(
        r"(?:debug_)?(?:self\.)?assert[\w.]*\s*!?\s*\(\s*{compared}\s*,?\s*\)|\bassert\s+{compared}\s*(?:$|[;\n])"
    ))
    .ok()
});

fn asserts(body: &str, words: &[&str]) -> bool {
    let kept = match HOLLOW.as_ref() {
        Some(hollow) => hollow.replace_all(body, ""),
        None => body.into(),
    };
    words.iter().any(|word| kept.contains(word))
}

fn rust(text: &str) -> Vec<TestItem> {
    let mut found = Vec::new();
    if let Ok(file) = syn::parse_file(text) {
        rust_items(&file.items, &[], &mut found);
    }
    found
}

fn rust_items(items: &[Item], within: &[String], found: &mut Vec<TestItem>) {
    for item in items {
        if let Item::Fn(function) = item
            && function.attrs.iter().any(is_test)
        {
            let attributes: String = function
                .attrs
                .iter()
                .map(|attribute| attribute.to_token_stream().to_string())
                .collect();
            let body = format!("{attributes} {}", function.block.to_token_stream());
            found.push(TestItem {
                name: function.sig.ident.to_string(),
                within: within.to_vec(),
                asserts: asserts(&body, RUST_WORDS),
                body,
                ..TestItem::default()
            });
        } else if let Item::Mod(module) = item
            && let Some((_, items)) = &module.content
        {
            let inner = [within, &[module.ident.to_string()]].concat();
            rust_items(items, &inner, found);
        } else if let Item::Macro(item) = item {
            rust_macro(&item.mac.tokens.to_string(), within, found);
        }
    }
}

static MACRO_TEST: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"#\s*\[\s*(?:\w+\s*::\s*)*test\s*\]\s*(?:#\s*\[[^\]]*\]\s*)*(?:async\s+)?fn\s+(\w+)",
    )
    .ok()
});

/// Tests that a macro such as `proptest!` makes of what is written in it.
fn rust_macro(tokens: &str, within: &[String], found: &mut Vec<TestItem>) {
    let tests = MACRO_TEST.as_ref().into_iter();
    let tests = tests.flat_map(|pattern| pattern.captures_iter(tokens));
    found.extend(tests.filter_map(|test| {
        Some(TestItem {
            name: test.get(1)?.as_str().to_owned(),
            within: within.to_vec(),
            body: tokens.to_owned(),
            asserts: asserts(tokens, RUST_WORDS),
            ..TestItem::default()
        })
    }));
}

/// `#[test]`, `#[tokio::test]` and the like, and those of macros that make several of one.
fn is_test(attribute: &Attribute) -> bool {
    let last = attribute.path().segments.last();
    last.is_some_and(|segment| {
        let makers = ["test", "rstest", "test_case", "quickcheck"];
        makers.iter().any(|maker| segment.ident == maker)
    })
}

fn python(text: &str) -> Vec<TestItem> {
    let mut found: Vec<TestItem> = Vec::new();
    let mut depth = None;
    let mut classes: Vec<(usize, String)> = Vec::new();
    // What stands above a test is part of it: it may be left out by that, or run with other values.
    let mut above = String::new();
    for line in text.lines() {
        let body = line.trim_start();
        let indent = line.len() - body.len();
        let ends = !body.is_empty() && depth.is_some_and(|depth| indent <= depth);
        if ends {
            depth = None;
        }
        if depth.is_none() && !body.is_empty() && !body.starts_with('#') {
            classes.retain(|(outer, _)| *outer < indent);
            let class = body.strip_prefix("class ").map(str::trim_start);
            let class = class.and_then(|rest| rest.split(['(', ':', ' ']).next());
            classes.extend(class.map(|class| (indent, class.to_owned())));
        }
        let start = body.strip_prefix("async ").unwrap_or(body);
        let name = start
            .strip_prefix("def ")
            .and_then(|rest| rest.split('(').next())
            .map(str::trim)
            .filter(|name| name.starts_with("test"));
        if let (Some(name), None) = (name, depth) {
            depth = Some(indent);
            found.push(TestItem {
                name: name.to_owned(),
                within: classes.iter().map(|(_, class)| class.clone()).collect(),
                body: std::mem::take(&mut above),
                ..TestItem::default()
            });
        } else if depth.is_none() {
            let defines = ["def ", "class "]
                .iter()
                .any(|word| start.starts_with(word));
            if defines {
                above.clear();
            } else if body.starts_with('@') || !above.is_empty() {
                above.push_str(body);
                above.push('\n');
            }
        }
        if let (Some(_), Some(test)) = (depth, found.last_mut()) {
            test.body.push_str(body);
            test.body.push('\n');
        }
    }
    for test in &mut found {
        let own = test.body.find("def ").and_then(|at| test.body.get(at..));
        test.asserts = asserts(own.unwrap_or_default(), PYTHON_WORDS);
    }
    found
}

static JAVASCRIPT: LazyLock<Option<Regex>> = LazyLock::new(|| start_of(USUAL));
static GO: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?m)^func\s+(Test(?:[^\p{Ll}\W]\w*)?)\s*\(").ok());
/// What runs the tests of a package, and is none of them.
static GO_MAIN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^func\s+TestMain\s*\(\s*\w+\s*\*\s*(?:\w+\s*\.\s*)?M\s*\)").ok());

fn javascript(text: &str, names: &Names) -> Vec<TestItem> {
    let own = names.start();
    let start = own.as_ref().or(JAVASCRIPT.as_ref());
    let mut found = by_start(text, start, JAVASCRIPT_WORDS);
    for test in &mut found {
        test.asserts |= asserts(&names.usual(&test.body), JAVASCRIPT_WORDS);
    }
    found
}

fn go(text: &str) -> Vec<TestItem> {
    let mut found = by_start(text, GO.as_ref(), GO_WORDS);
    let is_main = |test: &TestItem| {
        GO_MAIN
            .as_ref()
            .is_some_and(|main| main.is_match(&test.body))
    };
    found.retain(|test| !is_main(test));
    found
}

/// Tests that begin where `start` matches, each up to the next.
fn by_start(text: &str, start: Option<&Regex>, words: &[&str]) -> Vec<TestItem> {
    let Some(start) = start else {
        return Vec::new();
    };
    let starts: Vec<(usize, String)> = start
        .captures_iter(text)
        .filter_map(|found| {
            let name = found.iter().skip(1).flatten().next()?;
            let whole = found.get(0)?;
            // White space before it belongs to nobody.
            let blank = whole.as_str().len() - whole.as_str().trim_start().len();
            Some((whole.start() + blank, name.as_str().to_owned()))
        })
        .collect();
    let ends = starts.iter().skip(1).map(|(at, _)| *at).chain([text.len()]);
    let pairs = starts.iter().zip(ends);
    pairs
        .map(|((at, name), end)| {
            let body = text.get(*at..end).unwrap_or_default().trim_end();
            let lines = text.get(..*at).unwrap_or_default().matches('\n').count();
            TestItem {
                name: name.clone(),
                line: u32::try_from(lines + 1).unwrap_or(0),
                body: body.to_owned(),
                asserts: asserts(body, words),
                ..TestItem::default()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(language: Language, text: &str) -> Vec<(String, bool)> {
        let tests = tests_of(language, text).into_iter();
        tests.map(|test| (test.name, test.asserts)).collect()
    }

    #[test]
    fn tests_are_found_and_empty_ones_told_from_real_ones() {
        let rust = "#[test] fn real() { assert_eq!(add(1, 2), 3); }\n\
                    #[test] fn empty() {}\n\
                    #[test] fn hollow() { add(1, 2); assert!(true); assert_eq!(1, 1); }\n\
                    mod deep { #[tokio::test] async fn waits() { go().await.unwrap(); } }\n\
                    #[test] #[should_panic] fn dies() { add(1, 2); }\n\
                    proptest! { #[test] fn always(a in 0..9) { prop_assert!(add(a, 0) == a); } }\n\
                    #[rstest] #[case(1)] fn each(a: u32) { assert_eq!(add(a, 0), a) }\n\
                    fn helper() { assert!(x) }\n";
        let python = "def test_real():\n    assert add(1, 2) == 3\n\n\
                      def test_empty():\n    pass\n\n\
                      def test_hollow():\n    add(1, 2)\n    assert True\n\n\
                      class TestX:\n    async def test_method(self):\n        self.assertEqual(add(1, 2), 3)\n\
                      \ndef helper():\n    assert False\n";
        let javascript = "test('real', () => { assert.equal(add(1, 2), 3) });\n\
                          test(\"empty\", () => {});\n  it(`hollow`, () => { add(1, 2); assert(true); });\n";
        let go = "func TestReal(t *testing.T) {\n if add(1, 2) != 3 { t.Fatal(1) }\n}\n\
                  func TestEmpty(t *testing.T) {\n add(1, 2)\n}\nfunc helper() {}\n";
        let named = |pairs: &[(&str, bool)]| -> Vec<(String, bool)> {
            pairs
                .iter()
                .map(|(name, real)| ((*name).to_owned(), *real))
                .collect()
        };
        for (language, text, want) in [
            (
                Language::Rust,
                rust,
                named(&[
                    ("real", true),
                    ("empty", false),
                    ("hollow", false),
                    ("waits", true),
                    ("dies", true),
                    ("always", true),
                    ("each", true),
                ]),
            ),
            (
                Language::Python,
                python,
                named(&[
                    ("test_real", true),
                    ("test_empty", false),
                    ("test_hollow", false),
                    ("test_method", true),
                ]),
            ),
            (
                Language::JavaScript,
                javascript,
                named(&[("real", true), ("empty", false), ("hollow", false)]),
            ),
            (
                Language::Go,
                go,
                named(&[("TestReal", true), ("TestEmpty", false)]),
            ),
        ] {
            assert_eq!(found(language, text), want, "{language:?}");
        }
    }

    #[test]
    fn what_go_does_not_run_as_a_test_is_none() {
        let go = "func TestMain(m *testing.M) {\n\tos.Exit(m.Run())\n}\n\
                  func Testable(t *testing.T) {\n}\nfunc Test_a(t *testing.T) {\n}\n\
                  func Test(t *testing.T) {\n\tt.Fatal(1)\n}\n";
        let names = |text: &str| -> Vec<String> {
            let tests = tests_of(Language::Go, text).into_iter();
            tests.map(|test| test.name).collect()
        };
        assert_eq!(names(go), ["Test_a", "Test"]);
        assert_eq!(
            tests_of(Language::Go, go)[0].body,
            "func Test_a(t *testing.T) {\n}"
        );
        let like = "func TestMain(t *testing.T) { /* *testing.M) */ }\n";
        assert_eq!(names(like), ["TestMain"], "only named like it");
        assert!(names("func TestMain(m *t.M) {\n}\n").is_empty());
    }

    #[test]
    fn a_test_that_asserts_by_a_helper_of_its_file_asserts() {
        let python = "def same(a, b):\n    assert a == b\n\n\ndef show(a):\n    print(a)\n\n\n\
                      def test_a():\n    same(1, 2)\n\n\ndef test_b():\n    show(1)\n    resame(1)\n";
        let rust = "fn same(a: u32) {\n    assert_eq!(a, 1);\n}\n#[test]\nfn a() {\n    same(1);\n}\n#[test]\nfn b() {}\n";
        let go = "func same(t *testing.T) {\n\tt.Fatal(1)\n}\nfunc TestA(t *testing.T) {\n\tsame(t)\n}\nfunc TestB(t *testing.T) {\n}\n";
        for (language, text, names) in [
            (Language::Python, python, ["test_a", "test_b"]),
            (Language::Rust, rust, ["a", "b"]),
            (Language::Go, go, ["TestA", "TestB"]),
        ] {
            let [yes, no] = names.map(str::to_owned);
            assert_eq!(
                found(language, text),
                [(yes, true), (no, false)],
                "{language:?}"
            );
        }
    }

    #[test]
    fn what_stands_above_a_test_of_python_is_part_of_it_and_asserts_nothing() {
        let old = "def test_a():\n    assert x()\n\n\ndef test_b():\n    assert x()\n";
        let skipped = old.replace(
            "def test_b",
            "@pytest.mark.skip(\n    'assert'\n)\ndef test_b",
        );
        let changed = new_tests(Language::Python, Some(old), &skipped);
        let names: Vec<&str> = changed.iter().map(|test| test.name.as_str()).collect();
        assert_eq!(names, ["test_b"]);
        assert!(changed[0].may_be_left_out());
        assert!(!tests_of(Language::Python, old)[1].may_be_left_out());
        let hollow = "@mark('assert raises')\ndef helper():\n    pass\n\n@mark('assert')\ndef test_c():\n    pass\n";
        assert_eq!(
            found(Language::Python, hollow),
            [("test_c".to_owned(), false)]
        );
        let own = &tests_of(Language::Python, hollow)[0].body;
        assert!(!own.contains("raises"), "{own}");
    }

    #[test]
    fn a_test_is_lost_if_its_name_is_gone_from_where_it_stood() {
        let old = "#[test] fn a() { x() }\nmod m { #[test] fn a() {} }\n#[test] fn b() {}\n";
        let lost = |new: Option<&str>| -> Vec<String> {
            let lost = lost_tests(Language::Rust, old, new).into_iter();
            lost.map(|test| [test.within, vec![test.name]].concat().join("::"))
                .collect()
        };
        assert_eq!(lost(None), ["a", "m::a", "b"]);
        assert_eq!(lost(Some(old)), [""; 0]);
        assert_eq!(
            lost(Some("#[test] fn a() { y() }\n#[test] fn b() {}\n")),
            ["m::a"]
        );
        let twice = "test('a', () => {});\ntest('a', () => {});\n";
        let once = lost_tests(Language::JavaScript, twice, Some("test('a', () => {});\n"));
        assert_eq!(once.len(), 1);
    }

    #[test]
    fn a_test_is_new_if_it_was_not_there_or_was_another() {
        let old = "#[test] fn a() { assert!(x()) }\n#[test] fn b() { assert!(x()) }\n";
        let new =
            "#[test] fn a() { assert!(x()) }\n#[test] fn b() { assert!(y()) }\n#[test] fn c() {}\n";
        let names = |old: Option<&str>| -> Vec<String> {
            let tests = new_tests(Language::Rust, old, new).into_iter();
            tests.map(|test| test.name).collect()
        };
        assert_eq!(names(Some(old)), ["b", "c"]);
        assert_eq!(names(None), ["a", "b", "c"]);
        assert_eq!(Language::of("tests/a.test.ts"), Some(Language::JavaScript));
        assert_eq!(Language::of("tests/data.json"), None);
    }
}

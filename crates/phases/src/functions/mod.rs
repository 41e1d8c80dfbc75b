//! Which functions a file of source defines, where a first statement can be put into each, and what
//! it says it returns.
//!
//! Guarantee: nothing that stands behind `#[cfg(test)]` or `#[test]` is found here.
//!
//! Non-guarantee: files are read by their shape. A function that is not found is only not emptied;
//! its lines are changed one by one all the same.

mod go;
mod javascript;
mod python;
mod rust;

use crate::blank::blanked;
use crate::suite::Language;
use regex::{Captures, Regex};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

/// Longest file that is looked into, and most functions that are found in one: for each of them the
/// file is gone through.
const BYTES: usize = 256 * 1024;
const FUNCTIONS: usize = 200;

/// A function with a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// The whole of it, from the beginning of its first line.
    pub(crate) range: Range<usize>,
    /// Its lines, counted from 1, the last one included.
    pub(crate) lines: (u32, u32),
    /// Where the first statement goes.
    pub(crate) entry: usize,
    pub(crate) form: Form,
    /// What it says it returns, where the language makes it say so.
    pub(crate) returns: String,
    /// Whether it may be called while compiling.
    pub(crate) constant: bool,
}

/// How a statement is put first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    /// Behind a brace.
    Block,
    /// In a line of its own, so far indented.
    Suite(String),
    /// Behind the colon, before what stands in the same line.
    Inline,
    /// Before an expression that is the whole body.
    Expression,
}

/// The functions of `text` that are no tests.
pub(crate) fn functions(language: Language, text: &str) -> Vec<Function> {
    if text.len() > BYTES {
        return Vec::new();
    }
    let code = blanked(language, text);
    let mut found = match language {
        Language::Rust => rust::functions(&code),
        Language::Python => python::functions(&code),
        Language::JavaScript => javascript::functions(&code),
        Language::Go => go::functions(&code),
    };
    found.truncate(FUNCTIONS);
    found
}

/// The lines of `text` that are no tests; none of a file that is too long.
pub(crate) fn product_lines(language: Language, text: &str) -> BTreeSet<u32> {
    if text.len() > BYTES {
        return BTreeSet::new();
    }
    let mut all: BTreeSet<u32> = (1..).zip(text.lines()).map(|(line, _)| line).collect();
    if language == Language::Rust {
        let code = blanked(language, text);
        let lines = Lines::of(&code);
        for region in rust::tests(&code) {
            let (from, to) = lines.span(&region);
            all.retain(|line| !(from..=to).contains(line));
        }
    }
    all
}

type Pattern = LazyLock<Option<Regex>>;

const fn pattern(make: fn() -> Option<Regex>) -> Pattern {
    LazyLock::new(make)
}

/// What `pattern` finds, as often as is looked at.
fn finds<'t>(pattern: &'t Pattern, code: &'t str) -> impl Iterator<Item = Captures<'t>> {
    let pattern = pattern.as_ref().into_iter();
    pattern
        .flat_map(|pattern| pattern.captures_iter(code))
        .take(FUNCTIONS)
}

/// Where lines begin.
struct Lines(Vec<usize>);

impl Lines {
    fn of(code: &str) -> Self {
        let breaks = code.match_indices('\n').map(|(at, _)| at + 1);
        Self([0].into_iter().chain(breaks).collect())
    }

    /// How many begin at `at` or before.
    fn until(&self, at: usize) -> usize {
        self.0.partition_point(|start| *start <= at)
    }

    fn start_of(&self, at: usize) -> usize {
        let line = self.until(at).checked_sub(1);
        line.and_then(|line| self.0.get(line))
            .copied()
            .unwrap_or_default()
    }

    fn span(&self, range: &Range<usize>) -> (u32, u32) {
        let line = |at: usize| u32::try_from(self.until(at)).unwrap_or(u32::MAX);
        (line(range.start), line(range.end.saturating_sub(1)))
    }

    /// A function whose body stands in braces, the first of them at `open`.
    fn block(&self, name: &str, start: usize, open: usize, close: usize) -> Function {
        let range = self.start_of(start)..close + 1;
        Function {
            name: name.to_owned(),
            lines: self.span(&range),
            range,
            entry: open + 1,
            form: Form::Block,
            returns: String::new(),
            constant: false,
        }
    }
}

fn skip_blank(code: &str, at: usize) -> usize {
    let rest = code.get(at..).unwrap_or_default();
    at + rest.len() - rest.trim_start().len()
}

fn is_at(code: &str, at: usize, sign: u8) -> bool {
    code.as_bytes().get(at) == Some(&sign)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Language::{Go, JavaScript, Python, Rust};

    fn found(language: Language, text: &str) -> Vec<(String, (u32, u32), String)> {
        let all = functions(language, text).into_iter();
        all.map(|one| (one.name, one.lines, one.returns)).collect()
    }

    fn want(rows: &[(&str, (u32, u32), &str)]) -> Vec<(String, (u32, u32), String)> {
        let rows = rows.iter();
        rows.map(|(name, lines, returns)| ((*name).to_owned(), *lines, (*returns).to_owned()))
            .collect()
    }

    #[test]
    fn functions_of_rust_are_found_with_what_they_return_and_without_tests() {
        let text = "pub fn one(a: u32) -> u32 {\n    a\n}\n\
                    impl X {\n    const fn two<F: Fn(u32) -> u32>(&self, f: F) -> [u8; 2]\n    where\n        F: Copy,\n    {\n        [0; 2]\n    }\n}\n\
                    trait T { fn none(&self); }\n// fn comment() {}\nfn unit() {}\n\
                    #[cfg(test)]\nmod tests {\n    #[test]\n    fn a_test() {}\n    fn helper() {}\n}\n\
                    #[test]\nfn another() {}\n";
        let rows = [
            ("one", (1, 3), "u32"),
            ("two", (5, 10), "[u8; 2]"),
            ("unit", (14, 14), ""),
        ];
        assert_eq!(found(Rust, text), want(&rows));
        let lines = product_lines(Rust, text);
        assert!(lines.contains(&14) && !lines.contains(&17) && !lines.contains(&22));
        assert!(functions(Rust, "#![cfg(test)]\nfn a() {}\n").is_empty());
    }

    #[test]
    fn functions_of_the_others_are_found_where_they_begin_and_end() {
        let go = "package a\n\nfunc One(a int) int {\n\treturn a\n}\n\n\
                  func (s *S[T]) Two(a, b int) (n int, err error) {\n\treturn\n}\n\
                  func Any() interface{} { return nil }\nfunc Three[T any](a T) {\n}\n";
        let rows = [
            ("One", (3, 5), "int"),
            ("Two", (7, 9), "(n int, err error)"),
            ("Any", (10, 10), "interface{}"),
            ("Three", (11, 12), ""),
        ];
        assert_eq!(found(Go, go), want(&rows));
        let python = "def one(a,\n        b=(1, 2)) -> dict[str, int]:\n    \"\"\"Doc\n\nleft: of\n    \"\"\"\n    return {}\n\n\
                      class X:\n    async def two(self):\n        # nothing\n        pass\n    def three(self): return 3\nx = 1\n";
        let rows = [
            ("one", (1, 7), ""),
            ("two", (10, 12), ""),
            ("three", (13, 13), ""),
        ];
        assert_eq!(found(Python, python), want(&rows));
        let javascript = "export function one(a) {\n  return a;\n}\nexports.two = (a) => a * 2;\n\
                          const three = async (a, b) => {\n  if (a) { return b; }\n};\n\
                          class X {\n  constructor(a) { this.a = a; }\n  get four() {\n    return this.a;\n  }\n}\n\
                          const five = function () { return 5; };\n";
        let rows = [
            ("one", (1, 3), ""),
            ("two", (4, 4), ""),
            ("three", (5, 7), ""),
            ("four", (10, 12), ""),
            ("", (14, 14), ""),
        ];
        assert_eq!(found(JavaScript, javascript), want(&rows));
    }

    #[test]
    fn a_file_made_to_take_long_does_not() {
        let begun = std::time::Instant::now();
        for (language, piece) in [
            (Rust, "fn f() {"),
            (Go, "func f() {\n"),
            (Python, "def f(\n"),
            (JavaScript, "function f() {\n=> / 'x"),
            (Rust, "#[test]"),
            (Rust, "'"),
        ] {
            let text = piece.repeat(BYTES / piece.len());
            functions(language, &text);
            product_lines(language, &text);
        }
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_and_every_range_is_one(text in "(fn |def |func |=> |f|\\(|\\)|\\{|\\}|:|;|\n| |é|'|\"){0,40}") {
            for language in [Rust, Python, JavaScript, Go] {
                for function in functions(language, &text) {
                    proptest::prop_assert!(text.get(function.range.clone()).is_some());
                    proptest::prop_assert!(text.get(function.entry..).is_some());
                    proptest::prop_assert!(function.lines.0 <= function.lines.1);
                }
            }
        }
    }
}

//! What a file of JavaScript calls node's own tests and assertions.
//!
//! Guarantee: a name is one of them only if the file binds it, where it can be bound to nothing else
//! later on, to `node:test` or `node:assert`, or to what they export as a test or an assertion. What
//! stands in a comment or in a string binds nothing.
//!
//! Non-guarantee: what is bound in several steps is not followed, nor is a name that something inside
//! of a function hides.

use crate::blank::blanked;
use crate::suite::Language;
use regex::{Captures, Regex};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// What `node:test` exports that is a test when it is called.
const TESTS: &[&str] = &["default", "it", "test"];
/// What `node:assert` exports that can fail when it is called.
const ASSERTIONS: &[&str] = &[
    "deepEqual",
    "deepStrictEqual",
    "default",
    "doesNotMatch",
    "doesNotReject",
    "doesNotThrow",
    "equal",
    "fail",
    "ifError",
    "match",
    "notDeepEqual",
    "notDeepStrictEqual",
    "notEqual",
    "notStrictEqual",
    "ok",
    "partialDeepStrictEqual",
    "rejects",
    "strict",
    "strictEqual",
    "throws",
];

const MODULE: &str = r#"["'`]((?:node:)?assert(?:/strict)?|node:test)["'`]"#;
/// `const a = require("m")`, `const { a: b } = await import("m")`, and TypeScript's
/// `import a = require("m")`.
static REQUIRED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let bound = r"([\w$]+|\{[^{}]*\})";
    let load = r"(?:require|await\s+import)";
    Regex::new(&format!(
        r"\b(?:const|import)\s*{bound}\s*=\s*{load}\s*\(\s*{MODULE}\s*\)(?:\s*\.\s*(\w+))?"
    ))
    .ok()
});
/// `import a, { b as c } from "m"`, `import * as a from "m"`.
static IMPORTED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&format!(r#"\bimport\b([^;"'`()=]+?)\bfrom\s*{MODULE}"#)).ok());
static CALL: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"([A-Za-z_$][\w$]*)((?:\s*\.\s*[\w$]+)*\s*\()").ok());

/// What tests are called wherever they come from.
pub(crate) const USUAL: &str = "test|it";

/// Names of one file that are not the usual ones.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    tests: BTreeSet<String>,
    assertions: BTreeSet<String>,
}

impl Names {
    pub(crate) fn of(text: &str) -> Self {
        let mut names = Self::default();
        // What is not named at all is not bound.
        if !text.contains("node:test") && !text.contains("assert") {
            return names;
        }
        let code = blanked(Language::JavaScript, text);
        for (pattern, becomes) in [(&REQUIRED, ":"), (&IMPORTED, " as ")] {
            let pattern = pattern.as_ref().into_iter();
            for found in pattern.flat_map(|pattern| pattern.captures_iter(text)) {
                if is_code(&code, &found) {
                    names.bind(&found, becomes);
                }
            }
        }
        names.tests.remove("test");
        names.tests.remove("it");
        names.assertions.remove("assert");
        names
    }

    /// Adds what one statement binds, in which `becomes` stands between two names for one thing.
    fn bind(&mut self, found: &Captures<'_>, becomes: &str) {
        let group = |number: usize| found.get(number).map_or("", |group| group.as_str());
        let (bound, module, member) = (group(1).trim(), group(2), group(3));
        let (names, exported) = if module == "node:test" {
            (&mut self.tests, TESTS)
        } else {
            (&mut self.assertions, ASSERTIONS)
        };
        let (whole, parts) = match bound.split_once('{') {
            Some((whole, parts)) => (whole, parts.trim_end_matches('}')),
            None => (bound, ""),
        };
        if member.is_empty() || exported.contains(&member) {
            let whole = whole.split(',').map(str::trim);
            let whole = whole.map(|name| name.strip_prefix("* as ").unwrap_or(name).trim());
            names.extend(whole.filter(|name| is_name(name)).map(str::to_owned));
        }
        if !member.is_empty() {
            return;
        }
        for part in parts.split(',') {
            let (from, to) = part.split_once(becomes).unwrap_or((part, part));
            let (from, to) = (from.trim(), to.trim());
            if exported.contains(&from) && is_name(to) {
                names.insert(to.to_owned());
            }
        }
    }

    /// What a test begins with here; none if it is nothing but the usual.
    pub(crate) fn start(&self) -> Option<Regex> {
        if self.tests.is_empty() {
            return None;
        }
        let own: Vec<String> = self.tests.iter().map(|name| regex::escape(name)).collect();
        start_of(&format!("{USUAL}|{}", own.join("|")))
    }

    /// `text` with the usual name for each call of an assertion.
    pub(crate) fn usual<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(call) = CALL.as_ref().filter(|_| !self.assertions.is_empty()) else {
            return Cow::Borrowed(text);
        };
        call.replace_all(text, |found: &Captures<'_>| {
            let group = |number: usize| found.get(number).map_or("", |group| group.as_str());
            let (name, rest) = (group(1), group(2));
            let before = found.get(0).and_then(|whole| text.get(..whole.start()));
            let is_member = before.is_some_and(|before| before.trim_end().ends_with('.'));
            let name = if self.assertions.contains(name) && !is_member {
                "assert"
            } else {
                name
            };
            format!("{name}{rest}")
        })
    }
}

/// What a test begins with where `names` are those of tests.
pub(crate) fn start_of(names: &str) -> Option<Regex> {
    let title = r#"(?:'([^'\n]*)'|"([^"\n]*)"|`([^`\n]*)`)"#;
    Regex::new(&format!(
        r"(?m)^\s*(?:await\s+)?(?:{names})(?:\.\w+)?\s*\(\s*{title}"
    ))
    .ok()
}

/// Whether what was found stands in code from its first letter to the module's name.
fn is_code(code: &str, found: &Captures<'_>) -> bool {
    let starts = |number: usize| found.get(number).map(|group| group.start());
    let first = starts(0).and_then(|at| code.get(at..));
    let quote = starts(2).and_then(|at| at.checked_sub(1));
    let string = quote.and_then(|at| code.get(at..));
    first.is_some_and(|code| code.starts_with(['c', 'i']))
        && string.is_some_and(|code| code.starts_with('_'))
}

fn is_name(text: &str) -> bool {
    let mut signs = text.chars();
    let begins = |sign: char| sign.is_alphabetic() || sign == '_' || sign == '$';
    signs.next().is_some_and(begins) && signs.all(|sign| begins(sign) || sign.is_alphanumeric())
}

#[cfg(test)]
mod tests {
    use crate::suite::{Language, tests_of};

    fn found(text: &str) -> Vec<(String, bool)> {
        let tests = tests_of(Language::JavaScript, text).into_iter();
        tests.map(|test| (test.name, test.asserts)).collect()
    }

    #[test]
    fn a_name_that_is_bound_to_nodes_own_is_one_of_them() {
        for bound in [
            "const t = require('node:test');\nconst a = require(\"node:assert\");\n",
            "const t = require('node:test').test;\nconst a = require('assert').strict;\n",
            "const { test: t, mock } = require('node:test')\nconst {ok: a} = require('assert')\n",
            "import { test as t } from 'node:test';\nimport a from 'node:assert/strict';\n",
            "import { mock, it as t } from 'node:test';\nimport { strict as a } from 'assert';\n",
            "import t, { mock } from 'node:test';\nimport * as a from 'node:assert';\n",
            "import t = require('node:test');\nimport a = require('node:assert');\n",
            "const { it: t } = await import('node:test');\nconst a = require('assert/strict');\n",
            "import{test as t}from'node:test';import{equal as a}from'node:assert';\n",
        ] {
            let text = format!(
                "{bound}t('real', () => {{ a(double(4) === 8); }});\n\
                 t('empty', () => {{ double(4); }});\n\
                 t('hollow', () => {{ double(4); a(true); }});\n\
                 t.only(\"member\", () => {{ a.equal(double(4), 8); }});\n"
            );
            let want = [
                ("real", true),
                ("empty", false),
                ("hollow", false),
                ("member", true),
            ];
            let want = want.map(|(name, asserts)| (name.to_owned(), asserts));
            assert_eq!(found(&text), want, "{bound}");
        }
    }

    #[test]
    fn a_helper_asserts_by_such_a_name_too() {
        let text = "const { test: $t } = require('node:test');\n\
                    const { equal } = require('node:assert');\n\
                    function same(a, b) {\n  equal(a, b);\n}\n\
                    $t('by a helper', () => {\n  same(double(4), 8);\n});\n";
        assert_eq!(found(text), [("by a helper".to_owned(), true)]);
    }

    #[test]
    fn nothing_else_makes_a_name_one_of_them() {
        for (case, bound) in [
            ("nothing", ""),
            (
                "a comment",
                "// const t = require('node:test'), a = require('node:assert');\n\
                 // const a = require('node:assert');\n/* import t from 'node:test'; */\n",
            ),
            (
                "a string",
                "const x = \"const a = require('node:assert')\";\n\
                 const y = `\nimport t from 'node:test';\n`;\n",
            ),
            (
                "another module",
                "const t = require('./node:test');\nimport a from 'assertive';\n",
            ),
            (
                "what is no test and no assertion",
                "const { describe: t, AssertionError } = require('node:test');\n\
                 import { AssertionError as a } from 'node:assert';\n",
            ),
            (
                "a member that is none",
                "const t = require('node:test').describe;\n\
                 const a = require('node:assert').AssertionError;\n",
            ),
            (
                "what can be bound anew",
                "let t = require('node:test');\nvar a = require('node:assert');\n",
            ),
        ] {
            let text = format!(
                "{bound}t('no test', () => {{ a(double(4)); }});\n\
                 test('a test', () => {{ a(double(4)); x.a.equal(double(4)); }});\n"
            );
            assert_eq!(found(&text), [("a test".to_owned(), false)], "{case}");
        }
    }
}

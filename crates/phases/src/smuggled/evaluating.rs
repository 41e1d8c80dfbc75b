//! Whether source newly does what nobody can see through: runs text as code, or loads and includes
//! files by means that are called otherwise.
//!
//! Non-guarantee: what is looked for is a table, and no list of this kind ends. It comes on top of
//! the names that a source spells out.

use super::spelled::{folded, is_page, lines, said};
use crate::blank::blanked;
use crate::suite::Language;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// What a row looks at.
#[derive(Clone, Copy)]
enum Of {
    /// All of it, comments included.
    File,
    /// Code and strings.
    Text,
    /// Code alone.
    Code,
}

/// What source does, and by what it is known. Where the first group of the pattern is there, it does
/// something else.
struct Row {
    does: &'static str,
    of: Of,
    pattern: &'static str,
}

const RUNS: &str = "runs text as code";
const LOADS: &str = "loads modules by names that it is told";
const ENCODED: &str = "is written in an encoding that is not looked into";
const INCLUDES: &str = "includes files by a macro of another name";

static PYTHON: [Row; 7] = [
    Row {
        does: RUNS,
        of: Of::Code,
        // As a method it is somebody else's, and before a `=` a name of its own.
        pattern: r"((?:\.\s*|\bdef\s+)(?:exec|execfile|eval|compile)\b|\b(?:exec|execfile|eval|compile)\s*=\s*(?:[^=\s\w]|\b))|\b(?:exec|execfile|eval|compile)\b",
    },
    Row {
        does: RUNS,
        of: Of::Text,
        // A string may hold code. Behind a word, and with a blank, it is prose: code that is in no
        // string is found above.
        pattern: r#"(\.\s*|\bdef\s+)?\b(?:exec|eval)\(|["';:=(,{\[]\s*(?:exec|eval)\s+\("#,
    },
    Row {
        does: LOADS,
        of: Of::Text,
        pattern: "\\b(?:__import__|__builtins__|__loader__|builtins|runpy|zipimport|import_module\
                  |find_spec|resolve_name|run_module|run_path|spec_from_file_location\
                  |SourceFileLoader|load_source|pydoc|pkgutil)\\b",
    },
    Row {
        does: LOADS,
        of: Of::Text,
        // Its own module is in it, too.
        pattern: r#"\bsys\s*(?:\.\s*|,\s*["'])modules\b(\s*\[\s*__name__\s*\])?"#,
    },
    Row {
        does: LOADS,
        of: Of::Text,
        pattern: r"\bimport\b[^;\n]*\bsys\s+as\b|\bfrom\s+sys\s+import\s*(?:\*|\([^)]*\bmodules\b|[^;\n]*\bmodules\b)",
    },
    Row {
        does: LOADS,
        of: Of::Text,
        pattern: r"\bimportlib\b((?:\s*\.\s*|\s+import\s+)(?:metadata|resources)\b)?",
    },
    Row {
        does: ENCODED,
        of: Of::File,
        // Of the first two lines the first one that says so counts.
        pattern: r"\A(?:[^\n]*\n)??[ \t\x0c]*#[^\n]*?coding[:=][ \t]*((?i:utf[-_]?8|ascii|us-ascii|latin-1|iso-8859-1)\b)?",
    },
];

static JAVASCRIPT: [Row; 8] = [
    Row {
        does: RUNS,
        of: Of::Text,
        // A page's rules have a word for it. Before a quote that is no code.
        pattern: r#"(\bunsafe-eval["'])|\beval\b"#,
    },
    Row {
        does: RUNS,
        of: Of::Text,
        pattern: r"\bnew\s+Function\b|\bFunction\s*\(|[=(,]\s*Function\s*[;,)\n]|\.\s*constructor\s*\(",
    },
    Row {
        does: RUNS,
        of: Of::Text,
        pattern: r#"(?:\bfrom|\bimport|\brequire\s*\(|\bimport\s*\()\s*["'`](?:node:)?vm["'`]|\brunIn\w*Context\b"#,
    },
    Row {
        does: LOADS,
        of: Of::Text,
        pattern: r#"\bcreateRequire\b|\bgetBuiltinModule\b|\b(?:Module|constructor)\s*\.\s*(?:_load|_compile)\b|(?:\bfrom|\bimport|\brequire\s*\(|\bimport\s*\()\s*["'`](?:node:)?module["'`]"#,
    },
    Row {
        does: LOADS,
        of: Of::Text,
        // Not called, but handed on.
        pattern: r#"(?:[=(,\[:]|\breturn|=>)\s*(?:module\s*\.\s*)?require\s*(?:[;,)\]}\n]|\z)|\?\s*require\s*:|\brequire\s*:\s*[A-Za-z_$]|\brequire\s*\.\s*(?:call|apply|bind)\b|\[\s*["'`]require["'`]"#,
    },
    Row {
        does: LOADS,
        of: Of::Text,
        // The module that was run, or that asked for this one, is a test's while tests run.
        pattern: r"(?:\brequire\s*\.\s*main|\bprocess\s*\.\s*mainModule|\bmodule\s*\.\s*parent)\s*(?:(?:\?\.\s*)?\[|\??\.\s*((?:filename|id|loaded|name|paths?)\b)?)",
    },
    Row {
        does: LOADS,
        of: Of::Text,
        // The same, handed on.
        pattern: r"(?:(\bif\s*)?\(|[,:\[]|[^=!]=|=>|\breturn)\s*(?:require\s*\.\s*main|process\s*\.\s*mainModule|module\s*\.\s*parent)\s*(?:[;,)\]}\n]|\z)",
    },
    Row {
        does: LOADS,
        of: Of::Text,
        pattern: r#"(\bdelete\s+)?\brequire\s*\.\s*cache\b|\brequire\s*\[\s*["'`]"#,
    },
];

static RUST: [Row; 2] = [
    Row {
        does: INCLUDES,
        of: Of::Text,
        // Only what can stand in a `use`, with the comments that are left in: all else is prose, or
        // another language.
        pattern: r"\buse\b(?:(?:[\w:{},*#/\s]|//[^\n]*\n|/\*(?s:.*?)\*/)*(?:::|[{,]))?(?:\s|//[^\n]*\n|/\*(?s:.*?)\*/)*(?:r#)?include(?:_str|_bytes)?(?:\s|//[^\n]*\n|/\*(?s:.*?)\*/)*(?:\bas\b|[,;}])",
    },
    Row {
        does: INCLUDES,
        of: Of::Text,
        // Only in a macro what is handed to another one begins so.
        pattern: r"\binclude(?:_str|_bytes)?\s*!\s*[(\[{][^;{}]*\$",
    },
];

type Table = LazyLock<Vec<(&'static Row, Regex)>>;

static PYTHON_TABLE: Table = LazyLock::new(|| table(&PYTHON));
static JAVASCRIPT_TABLE: Table = LazyLock::new(|| table(&JAVASCRIPT));
static RUST_TABLE: Table = LazyLock::new(|| table(&RUST));

fn table(rows: &'static [Row]) -> Vec<(&'static Row, Regex)> {
    let rows = rows.iter();
    rows.filter_map(|row| Some((row, Regex::new(row.pattern).ok()?)))
        .collect()
}

/// What the source at `path` does more often in `new` than in `old` and cannot be seen through.
pub fn newly_evaluates(path: &str, old: &str, new: &str) -> BTreeSet<&'static str> {
    let now = counted(path, new);
    if now.is_empty() {
        return BTreeSet::new();
    }
    let before = counted(path, old);
    let more = now
        .iter()
        .filter(|(does, now)| before.get(*does) < Some(*now));
    more.map(|(does, _)| *does).collect()
}

/// How often the source at `path` does each.
fn counted(path: &str, text: &str) -> BTreeMap<&'static str, usize> {
    let (language, table) = match Language::of(path) {
        Some(Language::Python) => (Language::Python, &PYTHON_TABLE),
        Some(Language::JavaScript) => (Language::JavaScript, &JAVASCRIPT_TABLE),
        None if is_page(path) => (Language::JavaScript, &JAVASCRIPT_TABLE),
        // It includes files of any name.
        Some(Language::Rust) | None => (Language::Rust, &RUST_TABLE),
        Some(Language::Go) => return BTreeMap::new(),
    };
    let file = lines(language, text);
    let said = said(path, &file);
    let code = folded(&blanked(language, &said));
    let said = folded(&said);
    let mut found = BTreeMap::new();
    for (row, pattern) in table.iter() {
        let text: &str = match row.of {
            Of::File => &file,
            Of::Text => &said,
            Of::Code => &code,
        };
        let places = pattern.captures_iter(text);
        let places = places.filter(|place| place.get(1).is_none()).count();
        if places > 0 {
            *found.entry(row.does).or_default() += places;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds that each source newly does what stands beside it.
    fn all_do(rows: &[(&str, &str, &'static str)]) {
        for &(path, text, want) in rows {
            let found = newly_evaluates(path, "", text);
            assert!(found.contains(want), "{path}: {text}: {found:?}");
            let again = newly_evaluates(path, text, text);
            assert!(again.is_empty(), "{path}: {text}: it was so before");
        }
    }

    #[test]
    fn what_cannot_be_seen_through_in_python_is_found() {
        all_do(&[
            ("a.py", "exec(code, scope)\n", RUNS),
            ("a.py", "run = exec\nrun(code)\n", RUNS),
            ("a.py", "double = eval(open(there).read())\n", RUNS),
            ("a.py", "x = compile(code, '', 'exec')\n", RUNS),
            ("a.py", "x = f\"{eval(code)}\"\n", RUNS),
            ("a.py", "\u{ff45}xec(code)\n", RUNS),
            ("a.py", "x = 'a\\\n'; exec(code)\n", RUNS),
            (
                "a.py",
                "from importlib import import_module as load\n",
                LOADS,
            ),
            ("a.py", "import importlib as i\n", LOADS),
            (
                "a.py",
                "from importlib.metadata import import_module\n",
                LOADS,
            ),
            ("a.py", "x = __import__(name)\n", LOADS),
            ("a.py", "import runpy\n", LOADS),
            ("a.py", "f(exec=exec)\n", RUNS),
            ("a.py", "same = exec == other\n", RUNS),
            ("a.py", "exec (code)\n", RUNS),
            ("a.py", "x = f\"{exec (code)}\"\n", RUNS),
            ("a.py", "timeit('exec (code)')\n", RUNS),
            ("a.py", "sys.modules['test_a'].double(a)\n", LOADS),
            ("a.py", "sys.modules[__name__ + 'a']\n", LOADS),
            ("a.py", "x = f\"{sys.modules[name]}\"\n", LOADS),
            ("a.py", "getattr(sys, 'modules')[name]\n", LOADS),
            ("a.py", "import os, sys as s\n", LOADS),
            ("a.py", "from sys import argv, modules as m\n", LOADS),
            ("a.py", "from sys import (argv,\n  modules)\n", LOADS),
            ("a.py", "from sys import *\n", LOADS),
            ("a.py", "from pydoc import locate\n", LOADS),
            ("a.py", "x = pydoc.locate('test_a').double\n", LOADS),
            ("a.py", "pkgutil.resolve_name('test_a:double')\n", LOADS),
            ("a.py", "pkgutil.get_loader('test_a')\n", LOADS),
            ("a.py", "from builtins import exec as run\n", LOADS),
            (
                "a.py",
                "# coding: unicode_escape\n# \\x0aimport a\n",
                ENCODED,
            ),
            (
                "a.py",
                "#!/usr/bin/python3\n# -*- coding: utf-7 -*-\n",
                ENCODED,
            ),
            ("a.py", "# coding: utf-7\n# coding: utf-8\n", ENCODED),
        ]);
    }

    #[test]
    fn what_cannot_be_seen_through_in_javascript_and_rust_is_found() {
        all_do(&[
            ("a.js", "eval(code)\n", RUNS),
            ("a.js", "(0, eval)(code)\n", RUNS),
            ("a.js", "const f = new Function('a', code)\n", RUNS),
            ("a.js", "const f = (() => 1).constructor(code)\n", RUNS),
            ("a.js", "const vm = require('node:vm')\n", RUNS),
            ("a.js", "unsafe-eval(code)\n", RUNS),
            ("a.js", "require.main.exports.double(a)\n", LOADS),
            ("a.js", "require.main.require(name)\n", LOADS),
            ("a.js", "require.main?.exports\n", LOADS),
            ("a.js", "require.main['exports']\n", LOADS),
            ("a.js", "require['main']\n", LOADS),
            ("a.js", "const { exports: it } = require.main;\n", LOADS),
            ("a.js", "(require.main).exports\n", LOADS),
            ("a.js", "process.mainModule.exports\n", LOADS),
            ("a.js", "module.parent.exports.double(a)\n", LOADS),
            ("a.js", "const asked = module.parent\n", LOADS),
            ("a.js", "Object.values(require.cache)\n", LOADS),
            ("a.js", "const load = require;\n", LOADS),
            ("a.js", "const load = module.require\n", LOADS),
            ("a.js", "const { require: load } = module\n", LOADS),
            ("a.js", "(0, require)(name)\n", LOADS),
            ("a.js", "require.call(null, name)\n", LOADS),
            (
                "a.js",
                "import { createRequire } from 'node:module'\n",
                LOADS,
            ),
            ("a.js", "module.constructor._load(name)\n", LOADS),
            ("a.vue", "<script>eval(code)</script>\n", RUNS),
            ("a.rs", "use std::include as part;\n", INCLUDES),
            ("a.rs", "use std::{fmt, include_str as part};\n", INCLUDES),
            ("a.rs", "pub use ::std::{fmt::*, r#include};\n", INCLUDES),
            ("a.rs", "use include as part;\n", INCLUDES),
            ("a.inc", "use std:: // it's\n  include as part;\n", INCLUDES),
            (
                "a.inc",
                "use /* . */ std::{\n  include as part,\n};\n",
                INCLUDES,
            ),
            (
                "a.rs",
                "macro_rules! part { ($p:literal) => { include!($p); } }\n",
                INCLUDES,
            ),
            (
                "a.rs",
                "macro_rules! part { ($p:literal) => { include_str!(concat!(\"a\", $p)) } }\n",
                INCLUDES,
            ),
        ]);
    }

    #[test]
    fn ordinary_source_evaluates_nothing() {
        for (path, text) in [
            (
                "a.py",
                "P = re.compile('a')\nmodel.eval()\ncursor.exec(q)\n",
            ),
            ("a.py", "def eval(self): pass\n# exec(code)\nx = 'eval'\n"),
            (
                "a.py",
                "from importlib import metadata\nimport importlib.resources\n",
            ),
            ("a.py", "# -*- coding: utf-8 -*-\nimport os\n"),
            ("a.py", "def f(model, compile=False): g(compile = True)\n"),
            (
                "a.py",
                "def f():\n    \"\"\"Evaluates; does not exec (anything).\"\"\"\n",
            ),
            (
                "a.py",
                "import sys\nsetattr(sys.modules[__name__], 'a', 1)\nself.modules['a']\n",
            ),
            ("a.py", "latest = open('data/words.txt').read()\n"),
            ("a.js", "const a = require('./a');\nrequire.resolve('b');\n"),
            ("a.js", "if (require.main === module) main();\n"),
            ("a.js", "if (module === require.main) main();\n"),
            ("a.js", "if (!module.parent) main();\n"),
            ("a.js", "if (module.parent) exports.a = 1;\n"),
            ("a.js", "const root = dirname(require.main.filename);\n"),
            ("a.js", "delete require.cache[require.resolve('./a')];\n"),
            (
                "a.js",
                "exports.rules = \"script-src 'self'; no unsafe-eval\";\n",
            ),
            (
                "a.html",
                "<meta content=\"script-src 'self' 'unsafe-eval'\">\n",
            ),
            (
                "a.js",
                "export default { import: './a.js', require: './a.cjs', type: 'module' };\n",
            ),
            ("a.js", "// eval(code)\nconst evaluate = (a) => a;\n"),
            (
                "a.ts",
                "function f(done: Function) { return done instanceof Function; }\n",
            ),
            ("a.rs", "const A: &str = include_str!(\"a.txt\");\n"),
            ("a.rs", "include!(concat!(env!(\"OUT_DIR\"), \"/a.rs\"));\n"),
            (
                "a.rs",
                "macro_rules! a { ($b:expr) => { $b + 1 } }\nfn f(o: &O) { o.include; }\n",
            ),
            (
                "a.rs",
                "pub const HELP: &str = \"use --all to include hidden files\";\n",
            ),
            (
                "a.rs",
                "use std::fmt;\nfn f() -> O { O { help: \"use it\", include } }\n",
            ),
            (
                "a.c",
                "/* You may not use this file except, as said.\n */\n#include <stdio.h>\n",
            ),
            (
                "a.c",
                "// rights to use, copy, modify\n#include \"a.h\"\nint a;\n",
            ),
            ("a.go", "package a\n"),
        ] {
            let found = newly_evaluates(path, "", text);
            assert!(found.is_empty(), "{path}: {text}: {found:?}");
        }
    }

    #[test]
    fn one_more_of_what_was_there_is_new() {
        let one = "exec(a)\n";
        assert!(newly_evaluates("a.py", one, "x = 1\nexec(b)\n").is_empty());
        assert!(!newly_evaluates("a.py", one, "exec(a)\nexec(b)\n").is_empty());
    }

    #[test]
    fn every_row_has_a_pattern_that_compiles() {
        assert_eq!(PYTHON_TABLE.len(), PYTHON.len());
        assert_eq!(JAVASCRIPT_TABLE.len(), JAVASCRIPT.len());
        assert_eq!(RUST_TABLE.len(), RUST.len());
    }
}

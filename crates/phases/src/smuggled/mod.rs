//! Whether source makes tests part of the product.
//!
//! Tests may be written while source may not. What a product takes from a test path would be
//! source that was written as a test.
//!
//! A name that may stand for several files stands for those that are there; where none is, for any
//! of them.
//!
//! Ways to take something do not end, so what is not [taken for certain](taken_from_tests) is
//! suspected: source that [names a changed test](names_tests), and source that
//! [newly evaluates](newly_evaluates) what cannot be seen. That is for a person to judge.
//!
//! Non-guarantee: names that are put together at run time are not seen, nor those that a setting of
//! the project leads elsewhere, nor what a test hands to the product while both run.

mod evaluating;
mod go;
mod javascript;
mod naming;
mod python;
mod rust;
mod spelled;

pub use evaluating::newly_evaluates;
pub use naming::{TestFile, names_tests};

use crate::blank::closes;
use crate::suite::Language;
use regex::Regex;
use std::collections::BTreeSet;
use std::iter::successors;
use std::sync::LazyLock;

/// Most bytes of a call's arguments that are looked at.
const ARGUMENTS: usize = 2_000;
/// Most parts of a name whose beginning means nothing here.
const PARTS: usize = 32;

/// Endings of pages that JavaScript stands in.
const PAGES: [&str; 5] = ["vue", "svelte", "astro", "mdx", "html"];

/// The tree that source stands in, its paths from the root.
pub trait Tree {
    /// Whether `path` is that of a test, be it there or not.
    fn is_test(&self, path: &str) -> bool;

    /// Whether a file is at `path`.
    fn has_file(&self, path: &str) -> bool;

    /// Whether a directory is at `path`.
    fn has_directory(&self, path: &str) -> bool;

    /// The tests that were changed, be they there or not.
    fn tests(&self) -> &[String];
}

/// The test paths from which `text`, the source at `path`, takes something.
pub fn taken_from_tests(path: &str, text: &str, tree: &dyn Tree) -> BTreeSet<String> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let (stem, end) = name.rsplit_once('.').unwrap_or((name, ""));
    let source = Source {
        directory: parent(path),
        stem,
        text,
        tree,
    };
    match Language::of(path) {
        Some(Language::Python) => python::taken(&source),
        Some(Language::Go) => go::taken(&source),
        Some(Language::JavaScript) => javascript::taken(&source),
        None if PAGES.contains(&end) => javascript::taken(&source),
        // Rust includes files of any name.
        Some(Language::Rust) | None => rust::taken(&source),
    }
}

/// A file of source, and where it stands.
struct Source<'a> {
    directory: &'a str,
    /// Its name without the last ending.
    stem: &'a str,
    text: &'a str,
    tree: &'a dyn Tree,
}

impl<'a> Source<'a> {
    /// The directories it is in, the root last.
    fn directories(&self) -> Vec<&'a str> {
        let mut inner = self.directory;
        let mut found = vec![inner];
        while !inner.is_empty() {
            inner = parent(inner);
            found.push(inner);
        }
        found
    }

    /// The test among `forms`, each of which one name may stand for.
    fn which(&self, forms: &[String]) -> Option<String> {
        let by_name = forms.iter().find(|form| self.tree.is_test(form))?;
        let elsewhere = || forms.iter().any(|form| self.tree.has_file(form));
        match self.there(forms) {
            Some(test) => Some(test),
            None if elsewhere() => None,
            None => Some(by_name.clone()),
        }
    }

    /// The first of `forms` that is a test and there.
    fn there(&self, forms: &[String]) -> Option<String> {
        let mut tests = forms.iter().filter(|form| self.tree.is_test(form));
        tests.find(|form| self.tree.has_file(form)).cloned()
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

fn beneath(directory: &str, name: &str) -> String {
    if directory.is_empty() {
        name.to_owned()
    } else {
        format!("{directory}/{name}")
    }
}

/// `named`, as seen from `directory`, as a path from the root; none if it leads out.
fn resolved(directory: &str, named: &str) -> Option<String> {
    let mut parts: Vec<&str> = directory
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    for part in named.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// `name` and what is left of it without its first parts, one after the other.
fn endings(name: &str) -> impl Iterator<Item = &str> {
    let endings = successors(Some(name), |rest| {
        rest.split_once('/').map(|(_, below)| below)
    });
    endings.take(PARTS)
}

/// What stands in the parentheses that open at `open` of `code`, in `text`, which is as long.
fn arguments<'a>(code: &str, text: &'a str, open: usize) -> &'a str {
    let end = code.floor_char_boundary(open.saturating_add(ARGUMENTS));
    let near = code.get(open..end).unwrap_or_default();
    let close = closes(near.as_bytes(), 0).unwrap_or(near.len());
    let inside = open..text.floor_char_boundary(open + close);
    text.get(inside).unwrap_or_default()
}

static LITERAL: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#""([^"\n]+)"|'([^'\n]+)'|`([^`\n]+)`"#).ok());

/// The strings in `text`, whatever quotes it has them in.
fn literals(text: &str) -> Vec<&str> {
    let literal = LITERAL.as_ref().into_iter();
    literal
        .flat_map(|literal| literal.captures_iter(text))
        .filter_map(|found| found.iter().skip(1).flatten().next())
        .map(|found| found.as_str())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with these files, of which the tests were changed.
    struct Woods {
        files: Vec<String>,
        tests: Vec<String>,
    }

    impl Woods {
        fn new(files: &[&str]) -> Self {
            let files: Vec<String> = files.iter().map(|&file| file.to_owned()).collect();
            let tests = files.iter().filter(|file| is_test(file)).cloned().collect();
            Self { files, tests }
        }
    }

    impl Tree for Woods {
        fn is_test(&self, path: &str) -> bool {
            is_test(path)
        }

        fn has_file(&self, path: &str) -> bool {
            self.files.iter().any(|file| file == path)
        }

        fn has_directory(&self, path: &str) -> bool {
            let inside = format!("{path}/");
            self.files.iter().any(|file| file.starts_with(&inside))
        }

        fn tests(&self) -> &[String] {
            &self.tests
        }
    }

    fn is_test(path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap();
        let in_tests = path.starts_with("tests/") || path.contains("/tests/");
        in_tests
            || name.contains("_test.")
            || name.contains(".test.")
            || name.starts_with("test_") && Language::of(name) == Some(Language::Python)
    }

    /// Holds what each source takes against what it should, over one tree.
    fn told(files: &[&str], path: &str, rows: &[(&str, &[&str])]) {
        let woods = Woods::new(files);
        for (text, want) in rows {
            let found = taken_from_tests(path, text, &woods);
            let found: Vec<&str> = found.iter().map(String::as_str).collect();
            assert_eq!(&found, want, "{path}: {text}");
        }
    }

    const RUST: [&str; 4] = [
        "src/lib.rs",
        "src/tests/mod.rs",
        "src/words.txt",
        "tests/real.rs",
    ];

    #[test]
    fn rust_takes_by_module_path_and_include() {
        let real: &[&str] = &["tests/real.rs"];
        let own: &[&str] = &["src/tests/mod.rs"];
        told(
            &RUST,
            "src/lib.rs",
            &[
                ("#[path = \"../tests/real.rs\"]\nmod real;\n", real),
                ("#[path = r\"../tests/real.rs\"] pub mod real;\n", real),
                (
                    "#[path = r#\"../tests/real.rs\"#] pub(crate) mod real;\n",
                    real,
                ),
                ("#[path=\"../\\x74ests/real.rs\"] mod real;\n", real),
                (
                    "#[cfg_attr(all(), path = \"../tests/real.rs\")] mod real;\n",
                    real,
                ),
                (
                    "fn f() { #[path = \"../tests/real.rs\"] mod real; }\n",
                    real,
                ),
                ("#[path = \"../tests\"] mod a { pub mod real; }\n", real),
                (
                    "macro_rules! m { () => { #[path = \"../tests/real.rs\"] mod a; } }\n",
                    real,
                ),
                ("load!(\"../tests/real.rs\");\n", real),
                ("mod tests;\npub use tests::double;\n", own),
                ("#[cfg(any(test, unix))] pub mod tests;\n", own),
                ("#[cfg(not(test))] mod tests;\n", own),
                ("#[allow(unused)] mod r#tests;\n", own),
                ("include!(\"../tests/real.rs\");\n", real),
                ("std::include!(r\"../tests/real.rs\");\n", real),
                (
                    "fn f() -> u32 { include!(concat!(\"../te\", \"sts/real.rs\")) }\n",
                    real,
                ),
                (
                    "include!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/tests/real.rs\"));\n",
                    real,
                ),
                (
                    "#[doc = include_str!(\"../tests/real.rs\")] struct A;\n",
                    real,
                ),
                (
                    "mod broken {\ninclude!(\"../tests/real.rs\");\n} fn {}\n",
                    real,
                ),
                (
                    "mod tests;\n#[path = \"../tests/real.rs\"] mod real;\n",
                    &["src/tests/mod.rs", "tests/real.rs"],
                ),
            ],
        );
        told(&[], "src/lib.rs", &[("mod tests;\n", own)]);
        told(
            &["src/a/b_test.rs"],
            "src/a.rs",
            &[("mod b_test;\n", &["src/a/b_test.rs"])],
        );
        // Included, it is Rust whatever it is called.
        told(&RUST, "src/part.inc", &[("mod tests;\n", own)]);
    }

    #[test]
    fn rust_takes_nothing_by_what_tests_alone_are_compiled_with() {
        told(
            &RUST,
            "src/lib.rs",
            &[
                ("#[cfg(test)] mod tests;\n", &[]),
                ("#[cfg(test)]\npub(crate) mod tests;\nfn {}\n", &[]),
                (
                    "#[cfg(all(test, unix))]\n#[allow(unused)]\nmod tests;\n",
                    &[],
                ),
                (
                    "#[cfg(all(unix, all(test)))] mod a { include!(\"../tests/real.rs\"); }\n",
                    &[],
                ),
                (
                    "#[cfg(test)]\n#[path = \"../tests/real.rs\"]\nmod help;\n",
                    &[],
                ),
                (
                    "#[cfg_attr(test, path = \"../tests/real.rs\")] mod help;\n",
                    &[],
                ),
                (
                    "mod words;\nmod testing;\ninclude_str!(\"words.txt\");\n",
                    &[],
                ),
                (
                    "fn f() { let path = \"../tests/real.rs\"; println!(\"{path}\"); }\n",
                    &[],
                ),
                (
                    "include!(concat!(env!(\"OUT_DIR\"), \"/made_test.rs\"));\n",
                    &[],
                ),
                ("// mod tests;\n/// `mod tests;`\nmod a {}\n", &[]),
            ],
        );
        // What is there says what a name stands for.
        told(&["src/tests.rs"], "src/lib.rs", &[("mod tests;\n", &[])]);
    }

    const PYTHON: [&str; 9] = [
        "app/__init__.py",
        "app/main.py",
        "app/models.py",
        "app/tests/impl.py",
        "tests/impl.py",
        "tests/more/deep.py",
        "utils.py",
        "tests/utils.py",
        "test_lone.py",
    ];

    #[test]
    fn python_takes_by_import_and_by_loaders_that_name_it() {
        let outer: &[&str] = &["tests/impl.py"];
        let inner: &[&str] = &["app/tests/impl.py"];
        let either: &[&str] = &["app/tests/impl.py", "tests/impl.py"];
        told(
            &PYTHON,
            "main.py",
            &[
                ("from tests.impl import solve\n", outer),
                ("from tests.impl import *\n", outer),
                (
                    "from tests.impl import(\n    a,  # one\n    b as c,\n)\n",
                    outer,
                ),
                ("from tests . impl \\\n    import a\n", outer),
                ("from tests import impl\n", outer),
                ("from tests import (\n    impl as it,\n)\n", outer),
                ("import os; from tests.impl import a\n", outer),
                ("if True: import tests.impl as it\n", outer),
                ("try:\n    import os, tests.impl\nexcept E: pass\n", outer),
                ("import tests.more\n", &["tests/more"]),
                ("from tests import more\n", &["tests/more"]),
                ("from test_lone import a\n", &["test_lone.py"]),
                ("# x\rfrom tests.impl import a\n", outer),
                // A backslash at its end makes one line of two.
                ("x = 'a\\\nb'; from tests.impl import a\n", outer),
                ("x = 'a\\\r\nb'; from tests.impl import a\n", outer),
                // Runners of tests let what is beside a test be found.
                ("from impl import double\n", either),
                ("import impl\n", either),
                ("from more.deep import a\n", &["tests/more/deep.py"]),
                ("x = __import__('tests.impl')\n", outer),
                ("m = importlib.import_module(\n    'tests.impl')\n", outer),
                ("exec(open('tests/impl.py').read())\n", outer),
                (
                    "spec_from_file_location('x', join(here, 'tests', 'impl.py'))\n",
                    &["tests"],
                ),
                ("sys.path.insert(0, 'tests')\n", &["tests"]),
                ("sys.path += ['tests']\n", &["tests"]),
            ],
        );
        told(
            &PYTHON,
            "app/main.py",
            &[
                ("from .tests import impl\n", inner),
                ("from .tests.impl import *\n", inner),
                ("from . import tests\n", &["app/tests"]),
                ("from .. import tests\n", &["tests"]),
                ("from app.tests.impl import a\n", inner),
            ],
        );
        told(&[], "app.py", &[("import tests.impl\n", outer)]);
    }

    #[test]
    fn python_takes_nothing_by_what_is_only_called_so() {
        told(
            &PYTHON,
            "main.py",
            &[
                ("import utils\nfrom utils import impl\n", &[]),
                ("from app.models import tests\n", &[]),
                ("from other import test_connection\n", &[]),
                (
                    "'''\nfrom tests.impl import a\n'''\n# import tests.impl\n",
                    &[],
                ),
                ("raise A from tests\n", &[]),
                ("def f():\n    yield from tests\nimport os\n", &[]),
                ("session.run('pytest', 'tests/impl.py')\n", &[]),
                ("cursor.exec('tests')\n", &[]),
            ],
        );
        told(
            &PYTHON,
            "app/main.py",
            &[
                ("from .words import tests_of\n", &[]),
                ("from ... import tests\n", &[]),
            ],
        );
        // Within a package the runner lets the package be found, and not what is in it.
        told(
            &["tests/__init__.py", "tests/redis.py", "tests/test_a.py"],
            "app.py",
            &[
                ("import redis\n", &[]),
                ("import tests\n", &["tests/__init__.py"]),
            ],
        );
        told(&["tests.py"], "app.py", &[("import tests\n", &[])]);
    }

    #[test]
    fn javascript_takes_by_import_and_require() {
        let files = [
            "src/a.js",
            "src/impl.test.js",
            "tests/impl.js",
            "tests/data.json",
        ];
        let impl_js: &[&str] = &["tests/impl.js"];
        let beside: &[&str] = &["src/impl.test.js"];
        told(
            &files,
            "src/a.js",
            &[
                ("import x from '../tests/impl.js';\n", impl_js),
                (
                    "import {\n  a,\n  b as c,\n} from \"../tests/impl.js\"\n",
                    impl_js,
                ),
                ("import '../tests/impl'\n", impl_js),
                ("import'../tests/impl.js'\n", impl_js),
                ("export * from '../tests/impl.js'\n", impl_js),
                ("export{a}from'../tests/impl.js'\n", impl_js),
                ("import x from /* it's */ '../tests/impl.js'\n", impl_js),
                ("const x = require ( '../tests/impl' )\n", impl_js),
                ("const x = require('./impl.test')\n", beside),
                ("const { a } = require(`./impl.test.js`).b\n", beside),
                ("const x = await import('../tests/impl.js')\n", impl_js),
                ("import(/* don't */ '../tests/impl.js')\n", impl_js),
                ("import x = require('../tests/impl')\n", impl_js),
                ("module.require('../tests/impl')\n", impl_js),
                ("require(require.resolve('../tests/impl'))\n", impl_js),
                (
                    "require(path.join(__dirname, '..', 'tests', 'impl'))\n",
                    impl_js,
                ),
                ("require(__dirname + '/../tests/impl')\n", impl_js),
                ("createRequire(import.meta.url)('../tests/impl')\n", impl_js),
                (
                    "import(new URL('../tests/impl.js', import.meta.url))\n",
                    impl_js,
                ),
                (
                    "import d from '../tests/data.json' with { type: 'json' }\n",
                    &["tests/data.json"],
                ),
                ("const d = require('../tests/data')\n", &["tests/data.json"]),
                ("import x from '@/tests/impl'\n", impl_js),
                ("import x from '#tests/impl.js?raw'\n", impl_js),
                ("import(`../tests/${name}.js`)\n", &["tests/${name}.js"]),
                (
                    "import x from './impl.js';\nimport t from 'node:test';\n",
                    &[],
                ),
                ("import x from 'other/tests/thing';\n", &[]),
                ("export default { setupFiles: ['../tests/impl.js'] }\n", &[]),
                (
                    "new URL('./tests/run', api)\nArray.from('../tests/impl.js')\n",
                    &[],
                ),
            ],
        );
        told(
            &["src/impl.test.ts"],
            "src/a.ts",
            &[
                ("import x from './impl.test.js'\n", &["src/impl.test.ts"]),
                (
                    "/// <reference path=\"./impl.test.ts\" />\n",
                    &["src/impl.test.ts"],
                ),
            ],
        );
        told(
            &files,
            "src/page.vue",
            &[(
                "<script>import x from '../tests/impl.js'</script>\n",
                impl_js,
            )],
        );
    }

    #[test]
    fn go_takes_by_import_embedding_and_standing_beside() {
        let files = [
            "main.go",
            "tests/impl/impl.go",
            "tests/data.json",
            "other/tests/a/a.go",
        ];
        let package: &[&str] = &["tests/impl"];
        told(
            &files,
            "main.go",
            &[
                ("import \"example.org/me/tests/impl\"\n", package),
                ("import it \"example.org/me/tests/impl\"\n", package),
                ("import . `example.org/me/tests/impl`\n", package),
                (
                    "import (\n\t\"fmt\"\n\t// it's `\n\t_ \"example.org/me/tests/impl\"\n)\n",
                    package,
                ),
                ("import \"./tests/impl\"\n", package),
                ("import \"example.org/elsewhere/tests/a\"\n", &["tests/a"]),
                (
                    "//go:embed tests/data.json\nvar data []byte\n",
                    &["tests/data.json"],
                ),
                (
                    "//go:embed words.txt all:tests\nvar all embed.FS\n",
                    &["tests"],
                ),
                (
                    "// #include \"tests/impl.h\"\nimport \"C\"\n",
                    &["tests/impl.h"],
                ),
                ("import \"example.org/me/impl\"\n", &[]),
                ("import \"google.golang.org/grpc/tests/bufconn\"\n", &[]),
                ("import \"net/http\"\nvar at = \"/me/tests/impl\"\n", &[]),
                ("// import \"example.org/me/tests/impl\"\n", &[]),
            ],
        );
        told(
            &["a/main.go", "a/impl.test.go", "a/a_test.go", "b/b.test.go"],
            "a/main.go",
            &[("package a\n", &["a/impl.test.go"])],
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_looked_at(text in "(from|import|require|mod|include!|exec|sys.path|tests|[ .,;:()\\[\\]{}'\"`/*#!=\\\\\n_é]){0,40}") {
            let woods = Woods::new(&["tests/a.py"]);
            for path in ["src/a.rs", "src/a.py", "src/a.js", "src/a.go", "src/a"] {
                taken_from_tests(path, &text, &woods);
            }
        }
    }
}

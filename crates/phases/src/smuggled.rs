//! Whether source makes tests part of the product.
//!
//! Tests may be written while source may not. What a product pulls in from a test path would be
//! source that was written as a test. Non-guarantee: names that are put together at run time are
//! not seen.

use crate::inline::product_text;
use crate::suite::Language;
use regex::Regex;
use std::sync::LazyLock;

/// What `text`, the source at `path`, takes from a test path, if it does.
pub fn pulls_in_tests(
    language: Language,
    path: &str,
    text: &str,
    is_test: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    match language {
        Language::Rust => rust(directory, text, is_test),
        Language::Python => python(directory, text, is_test),
        Language::JavaScript => javascript(directory, text, is_test),
        Language::Go => go(text, is_test),
    }
}

static RUST: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"\bpath\s*=\s*"([^"]+)"|\binclude(?:_str|_bytes)?\s*!\s*\(([^;]{0,400})"#).ok()
});
static LITERAL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r#""([^"]+)""#).ok());
static PYTHON: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?m)^\s*(?:from\s+([.\w]+)\s+import\s+([\w, ]+)|import\s+([.\w]+(?:\s*,\s*[.\w]+)*))",
    )
    .ok()
});
static JAVASCRIPT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"(?:\bfrom\s*|\brequire\s*\(\s*|\bimport\s*\(?\s*)['"`]([^'"`\n]+)['"`]"#).ok()
});

fn rust(directory: &str, text: &str, is_test: &dyn Fn(&str) -> bool) -> Option<String> {
    // What does not parse is looked at whole: it may hold anything.
    let product = product_text(text);
    let text = product.as_deref().unwrap_or(text);
    for found in RUST.as_ref()?.captures_iter(text) {
        if let Some(module) = found.get(1)
            && let Some(path) = resolved(directory, module.as_str()).filter(|path| is_test(path))
        {
            return Some(path);
        }
        let inside = found.get(2).map_or("", |group| group.as_str());
        for literal in LITERAL.as_ref()?.captures_iter(inside) {
            let named = literal.get(1).map_or("", |group| group.as_str());
            let from_root = resolved("", named.trim_start_matches('/'));
            let from_here = resolved(directory, named);
            let mut both = from_root.into_iter().chain(from_here);
            if let Some(path) = both.find(|path| is_test(path)) {
                return Some(path);
            }
        }
    }
    None
}

fn python(directory: &str, text: &str, is_test: &dyn Fn(&str) -> bool) -> Option<String> {
    let check = |module: &str| -> Option<String> {
        let dots = module.chars().take_while(|c| *c == '.').count();
        let below = module.trim_start_matches('.').replace('.', "/");
        let up = "../".repeat(dots.saturating_sub(1));
        let bases: &[&str] = if dots > 0 {
            &[directory]
        } else {
            &["", directory]
        };
        bases.iter().find_map(|base| {
            let path = resolved(base, &format!("{up}{below}"))?;
            let forms = [format!("{path}.py"), format!("{path}/__init__.py")];
            forms.into_iter().find(|path| is_test(path))
        })
    };
    for found in PYTHON.as_ref()?.captures_iter(text) {
        let group = |number: usize| found.get(number).map(|group| group.as_str());
        if let (Some(module), Some(names)) = (group(1), group(2)) {
            let parts = names
                .split(',')
                .filter_map(|name| name.split_whitespace().next());
            let deeper = parts.map(|name| {
                let dot = if module.ends_with('.') { "" } else { "." };
                format!("{module}{dot}{name}")
            });
            let mut all = [module.to_owned()].into_iter().chain(deeper);
            if let Some(path) = all.find_map(|module| check(&module)) {
                return Some(path);
            }
        }
        let mut modules = group(3).into_iter().flat_map(|list| list.split(','));
        if let Some(path) = modules.find_map(|module| check(module.trim())) {
            return Some(path);
        }
    }
    None
}

fn javascript(directory: &str, text: &str, is_test: &dyn Fn(&str) -> bool) -> Option<String> {
    JAVASCRIPT.as_ref()?.captures_iter(text).find_map(|found| {
        let named = found.get(1)?.as_str();
        if !named.starts_with('.') {
            return None;
        }
        let path = resolved(directory, named)?;
        let ends = [
            "",
            ".js",
            ".mjs",
            ".cjs",
            ".ts",
            ".tsx",
            ".jsx",
            "/index.js",
            "/index.ts",
        ];
        let mut forms = ends.iter().map(|end| format!("{path}{end}"));
        forms.find(|path| is_test(path))
    })
}

/// Import paths hold the module's name first; every rest of one may be a directory here.
fn go(text: &str, is_test: &dyn Fn(&str) -> bool) -> Option<String> {
    LITERAL.as_ref()?.captures_iter(text).find_map(|found| {
        let mut rest = found.get(1)?.as_str();
        if !rest.contains('/') || rest.contains(' ') {
            return None;
        }
        while let Some((_, below)) = rest.split_once('/') {
            rest = below;
            let path = format!("{rest}/x.go");
            if is_test(&path) {
                return Some(rest.to_owned());
            }
        }
        None
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn is_test(path: &str) -> bool {
        path.starts_with("tests/") || path.contains("/tests/") || path.ends_with(".test.js")
    }

    #[test]
    fn source_that_takes_from_test_paths_is_found_out() {
        use Language::{Go, JavaScript, Python, Rust};
        for (language, path, text, smuggles) in [
            (
                Rust,
                "src/lib.rs",
                "#[path = \"../tests/real.rs\"]\nmod real;\n",
                true,
            ),
            (
                Rust,
                "src/lib.rs",
                "include!(\"../tests/real.rs\");\n",
                true,
            ),
            (
                Rust,
                "src/lib.rs",
                "include!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/tests/real.rs\"));\n",
                true,
            ),
            (
                Rust,
                "src/lib.rs",
                "#[cfg(test)]\n#[path = \"../tests/help.rs\"]\nmod help;\n",
                false,
            ),
            (Rust, "src/lib.rs", "include_str!(\"words.txt\");\n", false),
            (
                Python,
                "app/main.py",
                "from tests.impl import solve\n",
                true,
            ),
            (Python, "app/main.py", "import os, tests.impl\n", true),
            (Python, "app/main.py", "from .tests import impl\n", true),
            (Python, "app/main.py", "from .. import tests\n", true),
            (
                Python,
                "app/main.py",
                "from .words import tests_of\n",
                false,
            ),
            (
                JavaScript,
                "src/a.js",
                "import x from '../tests/impl.js';\n",
                true,
            ),
            (
                JavaScript,
                "src/a.js",
                "const x = require('./impl.test')\n",
                true,
            ),
            (
                JavaScript,
                "src/a.js",
                "import x from './impl.js';\n",
                false,
            ),
            (
                Go,
                "main.go",
                "import \"example.org/me/tests/impl\"\n",
                true,
            ),
            (Go, "main.go", "import \"example.org/me/impl\"\n", false),
        ] {
            let found = pulls_in_tests(language, path, text, &is_test);
            assert_eq!(found.is_some(), smuggles, "{text}: {found:?}");
        }
    }
}

//! What JavaScript and TypeScript import, require and refer to.
//!
//! The text is taken as it is: what would be told from code as a comment or a string by mistake
//! could hide an import.

use super::{Source, arguments, beneath, endings, literals, resolved};
use regex::{Captures, Regex};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// What may stand anywhere between two words.
const GAP: &str = r"(?:\s|/\*(?s:.*?)\*/|//[^\n]*\n)*";
const TEXT: &str = r#"(?:"([^"\n]+)"|'([^'\n]+)'|`([^`\n]+)`)"#;

const ENDS: [&str; 11] = [
    ".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx", ".mts", ".cts", ".json", ".node", ".wasm",
];

/// `import "a"`, `from "a"` and TypeScript's reference to another file.
static NAMED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let before = r"(?:\bfrom|\bimport|<reference\s+path\s*=)";
    Regex::new(&format!("{before}{GAP}{TEXT}")).ok()
});
/// `new URL("a", import.meta.url)`.
static URL: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&format!(r"\bURL{GAP}\({GAP}{TEXT}{GAP},{GAP}import\b")).ok());
/// `require("a")`, `import("a")`, and what begins so.
static CALL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let called = r"\b(?:require|import)(?:\s*\.\s*\w+)*(?:\s*\?\.)?|\bcreateRequire\s*\([^()]*\)";
    Regex::new(&format!(r"(?:{called}){GAP}\(")).ok()
});
static FIRST: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&format!(r"\A\({GAP}{TEXT}")).ok());
/// What a call makes one path of several strings by.
const JOINS: [&str; 3] = ["dirname", "join", "resolve"];

pub(super) fn taken(source: &Source<'_>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for pattern in [&NAMED, &URL] {
        let pattern = pattern.as_ref().into_iter();
        let names = pattern.flat_map(|pattern| pattern.captures_iter(source.text));
        found.extend(names.filter_map(|name| module(source, first(&name)?)));
    }
    let call = CALL.as_ref().into_iter();
    for call in call.flat_map(|call| call.find_iter(source.text)) {
        let inside = arguments(source.text, source.text, call.end() - 1);
        let names = literals(inside);
        // A quote in a comment before it would have it taken for something else.
        let first = FIRST
            .as_ref()
            .and_then(|found| first(&found.captures(inside)?));
        let each = names.iter().copied().chain(first);
        found.extend(each.filter_map(|name| module(source, name)));
        if !names.is_empty() && JOINS.iter().any(|word| inside.contains(word)) {
            let path = resolved(source.directory, &names.join("/"));
            found.extend(path.and_then(|path| source.which(&forms(&path))));
        }
    }
    found
}

fn first<'t>(found: &Captures<'t>) -> Option<&'t str> {
    let mut groups = found.iter().skip(1).flatten();
    groups.next().map(|group| group.as_str())
}

/// The test that `name` stands for where a module is named.
fn module(source: &Source<'_>, name: &str) -> Option<String> {
    // Loaders come before it, and what they are told behind it.
    let name = name.rsplit('!').next()?.split('?').next()?;
    if name.starts_with('.') {
        return source.which(&forms(&resolved(source.directory, name)?));
    }
    // A package, or by a setting a place in this tree: that is one only if it is there.
    let name = name.trim_start_matches(['@', '~', '#', '$', '/']);
    let bases = source.directories();
    endings(name).find_map(|rest| {
        let mut paths = bases.iter().filter_map(|base| resolved(base, rest));
        paths.find_map(|path| source.there(&forms(&path)))
    })
}

/// The files that a module called `path` may be.
fn forms(path: &str) -> Vec<String> {
    let beside = ENDS.iter().map(|end| format!("{path}{end}"));
    // What will be compiled is called by the name of what it will be.
    let compiled = ENDS.iter().take(4);
    let compiled = compiled.filter_map(|end| path.strip_suffix(end));
    let compiled = compiled.flat_map(|stem| ENDS.iter().map(move |end| format!("{stem}{end}")));
    let inside = ENDS.iter().map(|end| beneath(path, &format!("index{end}")));
    let whole = [path.to_owned()].into_iter();
    whole.chain(beside).chain(compiled).chain(inside).collect()
}

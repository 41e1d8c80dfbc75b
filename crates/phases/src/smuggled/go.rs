//! What Go imports, embeds and includes, and what it compiles unasked.

use super::{Source, beneath, endings, parent, resolved};
use crate::blank::{blanked, closes};
use crate::suite::Language;
use regex::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

static IMPORT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\bimport\b\s*\(?").ok());
/// Both stand in comments.
static DIRECTIVE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?m)^//go:embed[ \t]+([^\n]+)$|^[ \t]*(?://|/\*)?[ \t]*#[ \t]*include[ \t]*"([^"\n]+)""#,
    )
    .ok()
});

pub(super) fn taken(source: &Source<'_>) -> BTreeSet<String> {
    let mut found = unasked(source);
    let imports = imports(source.text);
    found.extend(imports.iter().filter_map(|name| package(source, name)));
    let directives = DIRECTIVE.as_ref().into_iter();
    for directive in directives.flat_map(|directive| directive.captures_iter(source.text)) {
        let patterns = directive.iter().skip(1).flatten();
        let patterns = patterns.flat_map(|group| group.as_str().split_whitespace());
        found.extend(patterns.filter_map(|pattern| embedded(source, pattern)));
    }
    found
}

/// A file of a package's directory is part of it, unless Go itself calls it a test.
fn unasked(source: &Source<'_>) -> BTreeSet<String> {
    let tests = source.tree.tests().iter();
    let compiled = tests.filter(|test| {
        parent(test) == source.directory
            && Language::of(test) == Some(Language::Go)
            && !test.ends_with("_test.go")
    });
    let there = compiled.filter(|test| source.tree.is_test(test) && source.tree.has_file(test));
    there.cloned().collect()
}

fn imports(text: &str) -> Vec<&str> {
    let code = blanked(Language::Go, text);
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(word) = IMPORT.as_ref().and_then(|word| word.find_at(&code, at)) {
        let from = word.end();
        let rest = code.get(from..).unwrap_or_default();
        let end = if word.as_str().ends_with('(') {
            closes(code.as_bytes(), from - 1)
        } else {
            Some(from + rest.find('\n').unwrap_or(rest.len()))
        };
        // What is left open is compiled by nobody.
        let Some(end) = end else {
            break;
        };
        let statement = code.get(from..end).unwrap_or_default();
        let strings = statement.match_indices('_');
        found.extend(strings.filter_map(|(start, _)| string(text.get(from + start..)?)));
        at = end;
    }
    found
}

/// The string that `text` begins with.
fn string(text: &str) -> Option<&str> {
    let quote = text
        .chars()
        .next()
        .filter(|quote| matches!(quote, '"' | '`'))?;
    text.get(1..)?.split(quote).next()
}

/// The package beneath a test path that the import `name` stands for.
///
/// A module's own name comes first in it, and each rest may be a directory of this tree. Packages of
/// others have directories of tests as well, so one has to be here.
fn package(source: &Source<'_>, name: &str) -> Option<String> {
    let tree = source.tree;
    let holds_tests = |path: &str| tree.is_test(&beneath(path, "x.go"));
    if name.starts_with('.') {
        return resolved(source.directory, name).filter(|path| holds_tests(path));
    }
    let mut bases = source.directories();
    bases.push("vendor");
    let of_another_module = |rest: &str| {
        let rest_of = |test: &String| endings(parent(test)).any(|ending| ending == rest);
        holds_tests(rest) && tree.tests().iter().any(rest_of)
    };
    endings(name).find_map(|rest| {
        let mut paths = bases.iter().filter_map(|base| resolved(base, rest));
        let here = paths.find(|path| holds_tests(path) && tree.has_directory(path));
        here.or_else(|| of_another_module(rest).then(|| rest.to_owned()))
    })
}

fn embedded(source: &Source<'_>, pattern: &str) -> Option<String> {
    let pattern = pattern.trim_matches(['"', '`']);
    let pattern = pattern.strip_prefix("all:").unwrap_or(pattern);
    let path = resolved(source.directory, pattern)?;
    let tree = source.tree;
    (tree.is_test(&path) || tree.is_test(&beneath(&path, "x"))).then_some(path)
}

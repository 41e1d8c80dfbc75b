//! One list of words lives in one place: a second copy would drift from the first.

use super::source::Rust;
use super::tree::{File, Finding, Tree};
use std::collections::BTreeMap;

/// Fewer words than this agree by chance.
const MIN_WORDS: usize = 4;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut first: BTreeMap<Vec<String>, (&File, usize)> = BTreeMap::new();
    let mut findings = Vec::new();
    for file in &tree.files {
        let Some(rust) = &file.rust else { continue };
        for (line, mut words) in lists(rust) {
            if line >= file.tests_from() {
                continue;
            }
            words.sort();
            match first.get(&words) {
                Some((other, at)) => {
                    let what = format!("the same list of words as {}:{at}", other.path);
                    findings.push(file.finding(line, what, "keep one and use it in both places"));
                }
                None => {
                    first.insert(words, (file, line));
                }
            }
        }
    }
    findings
}

/// Runs of string literals with nothing but commas between them, and the line each begins on.
fn lists(rust: &Rust) -> Vec<(usize, Vec<String>)> {
    let mut runs: Vec<(usize, usize, Vec<String>)> = Vec::new();
    for literal in &rust.literals {
        let follows = runs.last().is_some_and(|(_, end, _)| {
            rust.code
                .get(*end..literal.start)
                .is_some_and(|between| between.trim() == ",")
        });
        match runs.last_mut() {
            Some((_, end, words)) if follows => {
                *end = literal.end;
                words.push(literal.text.clone());
            }
            Some(_) | None => runs.push((literal.start, literal.end, vec![literal.text.clone()])),
        }
    }
    let long = runs
        .into_iter()
        .filter(|(_, _, words)| words.len() >= MIN_WORDS);
    long.map(|(start, _, words)| (rust.line_of(start), words))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::testing::assert_finds;
    use super::*;

    #[test]
    fn a_list_of_words_is_written_once() {
        let list = "const A: &[&str] = &[\n    \"kernel\", \"wasm\", // why\n    \"process\",\n    \"container\",\n];\n";
        let other = "f([\"container\", \"wasm\", \"process\", \"kernel\"]);\n";
        let want = ["b.rs:1: the same list of words as a.rs:2 "];
        assert_finds(check, &[("a.rs", list), ("b.rs", other)], &want);
        let fewer = "f([\"container\", \"wasm\", \"process\"]);\n";
        assert_finds(
            check,
            &[("a.rs", list), ("b.rs", fewer), ("c.rs", fewer)],
            &[],
        );
        let tested =
            format!("#[cfg(test)]\nmod tests {{\n    {list}}}\n").replace("\n];", "\n    ];");
        assert_finds(
            check,
            &[("a.rs", list), ("b.rs", &tested), ("tests/c.rs", other)],
            &[],
        );
        let calls = "f(\"a\"); g(\"b\"); h(\"c\"); i(\"d\");\n";
        assert_finds(check, &[("a.rs", calls), ("b.rs", calls)], &[]);
    }
}

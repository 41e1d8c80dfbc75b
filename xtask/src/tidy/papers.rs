//! The documents that have to keep up with the code.

use super::tree::{Finding, Tree, missing};
use std::collections::BTreeSet;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = architecture(tree);
    findings.extend(changelog(tree));
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        if tree.get(licence).is_none() {
            findings.push(missing(licence, "every manifest offers this licence"));
        }
    }
    findings
}

/// Every top-level directory and every crate has its place on the map.
fn architecture(tree: &Tree) -> Vec<Finding> {
    let Some(map) = tree.get("ARCHITECTURE.md") else {
        return vec![missing("ARCHITECTURE.md", "write the map of the code")];
    };
    let mut places = BTreeSet::new();
    for file in &tree.files {
        let parts: Vec<&str> = file.path.split('/').collect();
        match parts.as_slice() {
            ["crates", name, _, ..] => places.insert(format!("crates/{name}")),
            [top, _, ..] if !top.starts_with('.') => places.insert((*top).to_owned()),
            _ => false,
        };
    }
    let unnamed = places.into_iter().filter(|place| !names(&map.text, place));
    unnamed
        .map(|place| map.finding(1, format!("does not name `{place}`"), "say what it is for"))
        .collect()
}

fn names(map: &str, place: &str) -> bool {
    let package = place
        .strip_prefix("crates/")
        .map(|name| format!("`airlock-{name}`"));
    [format!("{place}/"), format!("`{place}`")]
        .iter()
        .chain(&package)
        .any(|form| map.contains(form.as_str()))
}

fn changelog(tree: &Tree) -> Vec<Finding> {
    let fix = "add `## [Unreleased]`";
    let Some(log) = tree.get("CHANGELOG.md") else {
        return vec![missing("CHANGELOG.md", fix)];
    };
    let unreleased = ["## [Unreleased]", "## Unreleased"];
    if log
        .text
        .lines()
        .any(|line| unreleased.contains(&line.trim()))
    {
        return Vec::new();
    }
    vec![log.finding(1, "no section for what is not released yet", fix)]
}

#[cfg(test)]
mod tests {
    use super::super::tree::testing::assert_finds;
    use super::*;

    const LICENCES: [(&str, &str); 2] = [("LICENSE-APACHE", ""), ("LICENSE-MIT", "")];

    fn files<'a>(architecture: &'a str, changelog: &'a str) -> Vec<(&'a str, &'a str)> {
        let code = [
            ("ARCHITECTURE.md", architecture),
            ("CHANGELOG.md", changelog),
            ("crates/core/src/lib.rs", ""),
            ("fuzz/src/lib.rs", ""),
            (".ci/run", ""),
        ];
        [code.as_slice(), &LICENCES].concat()
    }

    #[test]
    fn the_map_names_every_crate_and_directory() {
        let log = "## [Unreleased]\n";
        assert_finds(check, &files("`airlock-core`, `fuzz`\n", log), &[]);
        assert_finds(check, &files("- crates/core/: x\n- fuzz/: y\n", log), &[]);
        assert_finds(
            check,
            &files("only about core and fuzzing\n", log),
            &[
                "ARCHITECTURE.md:1: does not name `crates/core`",
                "ARCHITECTURE.md:1: does not name `fuzz`",
            ],
        );
    }

    #[test]
    fn the_changelog_has_a_place_for_the_next_change() {
        let map = "`airlock-core`, `fuzz`\n";
        assert_finds(
            check,
            &files(map, "## 0.1.0\n"),
            &["CHANGELOG.md:1: no section"],
        );
    }

    #[test]
    fn what_is_missing_is_said() {
        assert_finds(
            check,
            &[],
            &[
                "ARCHITECTURE.md:1: missing",
                "CHANGELOG.md:1: missing",
                "LICENSE-APACHE:1: missing",
                "LICENSE-MIT:1: missing",
            ],
        );
    }
}

//! Relative links of Markdown files lead to files and headings that exist.
//!
//! Links to other hosts are not followed: whether they answer is not ours to say.

use super::text::without_code;
use super::tree::{File, Finding, Tree, numbered};
use std::collections::BTreeSet;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.with_extension("md") {
        for (number, line) in numbered(&without_code(&file.text)) {
            for target in targets(line) {
                if let Some((what, fix)) = broken(tree, file, target) {
                    findings.push(file.finding(number, what, fix));
                }
            }
        }
    }
    findings
}

/// The targets of `[text](target)` and `[name]: target` in a line.
fn targets(line: &str) -> Vec<&str> {
    let inline = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let definition = line
        .starts_with('[')
        .then(|| line.split_once("]: ").map(|(_, target)| target))
        .flatten();
    inline
        .chain(definition)
        // A title may follow the target.
        .filter_map(|target| target.split_whitespace().next())
        .map(|target| target.trim_start_matches('<').trim_end_matches('>'))
        .collect()
}

fn broken(tree: &Tree, file: &File, target: &str) -> Option<(String, &'static str)> {
    let elsewhere = target.contains("://") || target.starts_with("mailto:");
    if elsewhere || target.is_empty() {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let reached = if path.is_empty() {
        file.path.clone()
    } else {
        match resolve(&file.path, path) {
            Some(reached) if tree.exists(&reached) => reached,
            Some(_) | None => {
                return Some((
                    format!("link to `{target}`, which does not exist"),
                    "mend the path",
                ));
            }
        }
    };
    let page = tree.get(&reached).filter(|page| page.has_extension("md"))?;
    if anchor.is_empty() || headings(&page.text).contains(anchor) {
        return None;
    }
    Some((
        format!("link to `{target}`, a heading that does not exist"),
        "mend the anchor",
    ))
}

/// The path in the repository that `link` means in the file `from`; none when it leads outside.
fn resolve(from: &str, link: &str) -> Option<String> {
    if link.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
    {
        if part == ".." {
            parts.pop()?;
        } else {
            parts.push(part);
        }
    }
    Some(parts.join("/"))
}

/// The anchors that headings get when the page is rendered; a repeated one gets a number.
fn headings(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        if fenced || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let anchor = slug(title.trim());
        let repeats = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone())
            .chain(repeats)
            .find(|a| !anchors.contains(a));
        anchors.extend(free);
    }
    anchors
}

fn slug(title: &str) -> String {
    let kept = title
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::testing::assert_finds;
    use super::*;

    const PAGE: &str =
        "# The `exec.run` road\n\n## Limits\n\n```\n# no heading\n```\n\n## Limits\n";

    #[test]
    fn links_that_resolve_are_fine() {
        let text = "[a](docs/page.md), [b](docs/page.md#the-execrun-road) [c](docs/page.md#limits-1)\n\
                    [d](docs) [e](https://example.org/x) [f](#here) `[g](nowhere)` [h](<docs/page.md> \"t\")\n\
                    ```\n[i](nowhere)\n```\n\n# Here\n\n[ref]: docs/page.md\n";
        assert_finds(check, &[("README.md", text), ("docs/page.md", PAGE)], &[]);
        assert_finds(
            check,
            &[("docs/page.md", "[up](../README.md)\n"), ("README.md", "")],
            &[],
        );
    }

    #[test]
    fn links_that_do_not_are_found() {
        for target in [
            "docs/gone.md",
            "../outside.md",
            "/docs/page.md",
            "docs/page.md#no-heading",
            "docs/page.md#limits-2",
            "#nowhere",
            "doc",
        ] {
            let text = format!("x\n[a]({target})\n");
            let want = format!("README.md:2: link to `{target}`");
            assert_finds(
                check,
                &[("README.md", &text), ("docs/page.md", PAGE)],
                &[&want],
            );
        }
        assert_finds(
            check,
            &[("README.md", "[ref]: gone.md\n")],
            &["README.md:1: link to `gone.md`"],
        );
    }
}

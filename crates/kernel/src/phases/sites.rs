//! Which lines of source a test is about: those the stage changes, and the functions its text names.
//!
//! Coverage says it exactly, and is asked first. Where there is none, or a test covers nothing that
//! is not covered already, what it names it is expected to notice.

use super::facts::{Staged, text};
use crate::beneath::{Kind, Listing, Root};
use crate::tools::GitIgnored;
use airlock_core::WorkspacePath;
use airlock_phases::{Language, LineSet, TestItem};
use std::collections::{BTreeSet, HashSet};

/// Most files of source that are looked into.
const FILES: usize = 2_000;
/// Longest function, in lines.
const LINES: usize = 80;
/// Directories that hold what others wrote or a build made.
const SKIPPED: &[&str] = &[
    "target",
    "node_modules",
    "vendor",
    "dist",
    "build",
    "__pycache__",
    "venv",
];

/// Lines by file: what the stage changes, and what `suspects` name.
pub(super) fn sites(staged: &Staged, suspects: &[TestItem]) -> LineSet {
    let mut found = changed(staged);
    for (path, lines) in named(staged, suspects) {
        found.entry(path).or_default().extend(lines);
    }
    found
}

/// The lines of source that the stage changes.
pub(super) fn changed(staged: &Staged) -> LineSet {
    let mut found = LineSet::new();
    for path in &staged.changed.source {
        let new = staged.new_text(path).unwrap_or_default();
        let lines = changed_lines(&staged.old(path).unwrap_or_default(), &new);
        found.insert(path.clone(), lines);
    }
    found.retain(|_, lines| !lines.is_empty());
    found
}

/// The functions that the text of `tests` names, wherever they are.
pub(super) fn named(staged: &Staged, tests: &[TestItem]) -> LineSet {
    let mentioned: HashSet<&str> = tests.iter().flat_map(|test| words(&test.body)).collect();
    let mut found = LineSet::new();
    for path in source_files(staged) {
        if let Some(text) = text(staged.root(), &path) {
            let lines = named_lines(&text, &mentioned);
            if !lines.is_empty() {
                found.insert(path, lines);
            }
        }
    }
    found
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.split(move |c| !part(c)).filter(|word| word.len() > 2)
}

/// Lines of `new` that `old` does not hold.
fn changed_lines(old: &str, new: &str) -> BTreeSet<u32> {
    let before: HashSet<&str> = old.lines().map(str::trim).collect();
    let lines = new.lines().zip(1_u32..);
    lines
        .filter(|(line, _)| !before.contains(line.trim()))
        .map(|(_, number)| number)
        .collect()
}

/// The lines of functions that `names` holds.
fn named_lines(text: &str, names: &HashSet<&str>) -> BTreeSet<u32> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = BTreeSet::new();
    for (at, line) in lines.iter().enumerate() {
        if !defined(line).is_some_and(|name| names.contains(name)) {
            continue;
        }
        let indent = indent_of(line);
        for (offset, body) in lines.iter().skip(at).take(LINES).enumerate() {
            let ends = offset > 0 && !body.trim().is_empty() && indent_of(body) <= indent;
            if ends {
                break;
            }
            found.extend(u32::try_from(at + offset + 1));
        }
    }
    found
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The function a line defines.
fn defined(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    for keyword in ["fn ", "def ", "func ", "function "] {
        if let Some(at) = rest.find(keyword) {
            let begins = at == 0 || rest.get(..at).is_some_and(|before| before.ends_with(' '));
            if begins {
                rest = rest.get(at + keyword.len()..)?.trim_start();
                // A method of Go has its receiver first.
                if rest.starts_with('(') {
                    rest = rest.split_once(')')?.1.trim_start();
                }
                return words(rest).next().filter(|name| rest.starts_with(name));
            }
        }
    }
    let assigned = ["const ", "let ", "var ", "export const "]
        .iter()
        .find_map(|word| rest.strip_prefix(word))?;
    let name = words(assigned).next()?;
    assigned.contains("=>").then_some(name)
}

/// Files of source that are known by their language.
fn source_files(staged: &Staged) -> Vec<String> {
    files(staged.root(), &|path| staged.is_source(path)).0
}

/// The files of `root` that are `wanted` and known by their language, but for what git ignores; and
/// whether those are all.
pub(super) fn files(root: &Root, wanted: &dyn Fn(&str) -> bool) -> (Vec<String>, bool) {
    let mut found = Vec::new();
    let mut open = vec![String::new()];
    let mut complete = true;
    while let Some(directory) = open.pop() {
        if found.len() >= FILES {
            complete = false;
            break;
        }
        list(root, &directory, &mut open, &mut found);
    }
    // Of what git ignores nobody would notice a change that stayed.
    let mut ignored = GitIgnored::new(root);
    found.retain(|path| {
        let ours = WorkspacePath::new(path).is_ok_and(|path| !ignored.holds(&path, false));
        ours && wanted(path)
    });
    found.sort();
    (found, complete)
}

fn list(root: &Root, directory: &str, open: &mut Vec<String>, found: &mut Vec<String>) {
    let here = if directory.is_empty() { "." } else { directory };
    let mut listing = Listing::default();
    let opened = root.open_directory(here);
    if opened.and_then(|opened| opened.list(&mut listing)).is_err() {
        return;
    }
    for (name, kind) in listing.iter() {
        let Ok(name) = std::str::from_utf8(name) else {
            continue;
        };
        let path = match directory {
            "" => name.to_owned(),
            directory => format!("{directory}/{name}"),
        };
        match kind {
            Kind::Directory if !name.starts_with('.') && !SKIPPED.contains(&name) => {
                open.push(path);
            }
            Kind::File if Language::of(name).is_some() => found.push(path),
            Kind::Directory | Kind::File | Kind::Symlink | Kind::Other => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_name_and_end_where_they_end() {
        let text = "fn other() {\n    1\n}\n\npub fn wanted(a: u32) -> u32 {\n    a + 1\n}\nfn last() {}\n";
        let lines = named_lines(text, &HashSet::from(["wanted"]));
        assert_eq!(lines, BTreeSet::from([5, 6]));
        for (line, name) in [
            ("def solve(a):", Some("solve")),
            ("    async def solve(a):", Some("solve")),
            ("func (s *Store) Solve(a int) int {", Some("Solve")),
            ("export function solve(a) {", Some("solve")),
            ("const solve = (a) => a + 1;", Some("solve")),
            ("let solved = 1;", None),
            ("undefined thing", None),
        ] {
            assert_eq!(defined(line), name, "{line}");
        }
        assert_eq!(changed_lines("a\nb\n", "a\nc\nb\n"), BTreeSet::from([2]));
    }
}

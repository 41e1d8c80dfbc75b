//! What git printed, as results: structured, and without what the caller may not read.

use super::Reading;
use crate::process::check::Changes;
use crate::process::failure::ProcessFailure;
use crate::process::ran::Ran;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The result of a call.
pub(in crate::process) fn answer(
    reading: Reading,
    stdout: &str,
    stderr: &str,
    ran: &Ran,
    changes: &Changes<'_>,
) -> Result<Value, ProcessFailure> {
    if ran.exit() != 0 {
        let said = stderr.trim();
        // Git calls it an error; to who asks it is a log with nothing in it.
        if reading == Reading::Log && said.ends_with("does not have any commits yet") {
            return Ok(json!({ "commits": [] }));
        }
        let said = if said.is_empty() { ran.word() } else { said };
        return Err(ProcessFailure::Output(format!("git failed: {said}")));
    }
    let may_read = |path: &str| changes.may_read(path);
    let lost = || ProcessFailure::Output("git's answer cannot be made sense of".to_owned());
    match reading {
        Reading::Status => status(stdout, may_read).ok_or_else(lost),
        Reading::Diff => diff(stdout, may_read).ok_or_else(lost),
        Reading::Log => log(stdout).ok_or_else(lost),
        Reading::Commit => commit(stdout).ok_or_else(lost),
    }
}

/// `XY path` each, after one line about the branch.
fn status(text: &str, may_read: impl Fn(&str) -> bool) -> Option<Value> {
    let mut branch = None;
    let mut entries = Vec::new();
    let mut hidden = 0_u64;
    for record in text.split('\0').filter(|record| !record.is_empty()) {
        if let Some(about) = record.strip_prefix("## ") {
            branch = Some(about);
            continue;
        }
        let (marks, path) = record.split_at_checked(2)?;
        let path = path.strip_prefix(' ')?;
        if !may_read(path.trim_end_matches('/')) {
            hidden += 1;
            continue;
        }
        let (index, stage) = marks.split_at_checked(1)?;
        entries.push(json!({
            "path": path,
            "index": word(index)?,
            "stage": word(stage)?,
        }));
    }
    Some(json!({ "branch": branch, "entries": entries, "hidden": hidden }))
}

fn word(mark: &str) -> Option<&'static str> {
    Some(match mark {
        " " => "unchanged",
        "M" => "modified",
        "T" => "type_changed",
        "A" => "added",
        "D" => "deleted",
        "R" => "renamed",
        "C" => "copied",
        "U" => "unmerged",
        "?" => "untracked",
        "!" => "ignored",
        _ => return None,
    })
}

/// Raw records, then a patch with the sections of each in the same order: a section is shown if its
/// path may be read. A patch whose sections do not agree with the records, by number and by the names
/// at their heads, is not shown at all: what is of one file could pass for another's.
fn diff(text: &str, may_read: impl Fn(&str) -> bool) -> Option<Value> {
    let mut rest = text;
    let mut records = Vec::new();
    while let Some(record) = rest.strip_prefix(':') {
        let (about, after) = record.split_once('\0')?;
        let (path, after) = after.split_once('\0')?;
        records.push((Status::of(about)?, path));
        rest = after;
    }
    let mut sections = sections(rest.trim_start_matches('\0')).into_iter();
    let mut shown = String::new();
    let (mut files, mut unmerged) = (Vec::new(), Vec::new());
    let mut hidden = BTreeSet::new();
    for (status, path) in records {
        // What was not UTF-8 is no name that a rule could judge, nor the one at the head.
        let garbled = path.contains(char::REPLACEMENT_CHARACTER);
        let is_shown = !garbled && may_read(path);
        let head = head(path);
        for _ in 0..status.sections() {
            let section = sections.next()?;
            let is_own = section.lines().next() == Some(head.as_str());
            if !is_own && !garbled {
                return None;
            }
            if is_shown {
                shown.push_str(section);
            }
        }
        if !is_shown {
            hidden.insert(path);
            continue;
        }
        if files.last() != Some(&path) {
            files.push(path);
        }
        if status == Status::Unmerged {
            unmerged.push(path);
        }
    }
    if sections.next().is_some() {
        return None;
    }
    Some(json!({
        "patch": shown,
        "files": files,
        "unmerged": unmerged,
        "hidden": hidden.len(),
    }))
}

/// How a path differs, as far as it matters to the patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Changed,
    /// A file has become a link, or the like: told as a deletion and an addition.
    Retyped,
    /// In conflict: told without a section.
    Unmerged,
}

impl Status {
    /// By the letter that ends what a raw record says of a path.
    fn of(about: &str) -> Option<Self> {
        match about.rsplit(' ').next()? {
            "A" | "D" | "M" => Some(Self::Changed),
            "T" => Some(Self::Retyped),
            "U" => Some(Self::Unmerged),
            _ => None,
        }
    }

    const fn sections(self) -> usize {
        match self {
            Self::Changed => 1,
            Self::Retyped => 2,
            Self::Unmerged => 0,
        }
    }
}

/// The line that begins each section of `path`, quoted as git quotes names.
fn head(path: &str) -> String {
    let plain = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\';
    if path.bytes().all(plain) {
        return format!("diff --git a/{path} b/{path}");
    }
    let mut name = String::new();
    for byte in path.bytes() {
        match byte {
            0x07 => name.push_str("\\a"),
            0x08 => name.push_str("\\b"),
            b'\t' => name.push_str("\\t"),
            b'\n' => name.push_str("\\n"),
            0x0b => name.push_str("\\v"),
            0x0c => name.push_str("\\f"),
            b'\r' => name.push_str("\\r"),
            b'"' => name.push_str("\\\""),
            b'\\' => name.push_str("\\\\"),
            byte if plain(byte) => name.push(char::from(byte)),
            byte => {
                // Writing to a string does not fail.
                let _ = write!(name, "\\{byte:03o}");
            }
        }
    }
    format!("diff --git \"a/{name}\" \"b/{name}\"")
}

/// The parts of a patch that each begin with `diff `, as no line of a hunk does. Lines that name
/// paths in conflict stand between them, and are no part of any.
fn sections(patch: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = patch
        .match_indices("\ndiff --")
        .map(|(at, _)| at + 1)
        .collect();
    if patch.starts_with("diff --") {
        starts.insert(0, 0);
    }
    let ends = starts.iter().skip(1).copied().chain([patch.len()]);
    let whole = starts
        .iter()
        .zip(ends)
        .filter_map(|(start, end)| patch.get(*start..end));
    whole
        .map(|section| match section.find("\n* Unmerged path ") {
            Some(at) => section.get(..=at).unwrap_or(section),
            None => section,
        })
        .collect()
}

/// The commit, its branch and the commit before it. Nothing of it where git sees no change.
fn commit(text: &str) -> Option<Value> {
    if text.is_empty() {
        return Some(json!({ "commit": null, "branch": null, "parent": null }));
    }
    let mut fields = text.split('\0');
    let (commit, branch, parent) = (fields.next()?, fields.next()?, fields.next()?);
    let is_name = |text: &str| text.len() >= 40 && text.bytes().all(|b| b.is_ascii_hexdigit());
    if !is_name(commit) || !(parent.is_empty() || is_name(parent)) {
        return None;
    }
    Some(json!({
        "commit": commit,
        "branch": branch.strip_prefix("refs/heads/")?,
        "parent": Some(parent).filter(|parent| !parent.is_empty()),
    }))
}

fn log(text: &str) -> Option<Value> {
    let mut commits = Vec::new();
    for record in text.split('\0').filter(|record| !record.is_empty()) {
        let mut fields = record.splitn(4, '\x1f');
        let mut next = || fields.next();
        let (commit, author, date, subject) = (next()?, next()?, next()?, next()?);
        commits.push(json!({
            "commit": commit,
            "author": author,
            "date": date,
            "subject": subject,
        }));
    }
    Some(json!({ "commits": commits }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_secret(path: &str) -> bool {
        !path.contains("secret")
    }

    #[test]
    fn what_may_not_be_read_is_counted_and_not_shown() {
        let text = "## main\0 M a b\0?? secret\0A  new\0";
        let value = status(text, not_secret).unwrap();
        assert_eq!(value["branch"], "main");
        assert_eq!(
            value["entries"][0],
            json!({"path": "a b", "index": "unchanged", "stage": "modified"})
        );
        assert_eq!(
            (value["entries"].as_array().unwrap().len(), &value["hidden"]),
            (2, &json!(1))
        );
        let raw = ":100644 100644 1 2 M\0a\0:100644 100644 1 2 M\0d/secret\0\0";
        let patch = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-diff --git a/x\n+y\n\
                     diff --git a/d/secret b/d/secret\n@@ -1 +1 @@\n-password\n+new\n";
        let value = diff(&format!("{raw}{patch}"), not_secret).unwrap();
        assert_eq!(
            (&value["files"], &value["hidden"]),
            (&json!(["a"]), &json!(1))
        );
        let shown = value["patch"].as_str().unwrap();
        assert!(
            shown.contains("+y") && !shown.contains("password"),
            "{shown}"
        );
        assert_eq!(diff("", not_secret).unwrap()["files"], json!([]));
    }

    fn section(path: &str, line: &str) -> String {
        format!("diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n+{line}\n")
    }

    fn records(of: &[(&str, &str)]) -> String {
        let record =
            |(letter, path): &(&str, &str)| format!(":100644 100644 1 2 {letter}\0{path}\0");
        of.iter().map(record).chain(["\0".to_owned()]).collect()
    }

    #[test]
    fn a_retyped_path_has_two_sections_and_one_in_conflict_none() {
        // Numbers alone would agree: three sections, three paths, and the secret under `z`.
        let raw = records(&[("T", "a"), ("M", "secret"), ("U", "z")]);
        let patch = [
            section("a", "-"),
            section("a", "+"),
            section("secret", "password"),
            "* Unmerged path z\n".to_owned(),
        ];
        let value = diff(&format!("{raw}{}", patch.concat()), not_secret).unwrap();
        assert_eq!(value["files"], json!(["a", "z"]));
        assert_eq!(value["unmerged"], json!(["z"]));
        assert_eq!(value["hidden"], 1);
        assert_eq!(
            value["patch"],
            [section("a", "-"), section("a", "+")].concat()
        );
    }

    #[test]
    fn a_conflict_of_the_stage_is_told_with_one_side_and_by_one_name() {
        let raw = records(&[
            ("M", "a"),
            ("U", "secret"),
            ("M", "secret"),
            ("U", "z"),
            ("M", "z"),
        ]);
        let patch = [
            section("a", "x"),
            "* Unmerged path secret\n".to_owned(),
            section("secret", "password"),
            "* Unmerged path z\n".to_owned(),
            section("z", "y"),
        ];
        let value = diff(&format!("{raw}{}", patch.concat()), not_secret).unwrap();
        assert_eq!(
            (&value["files"], &value["hidden"]),
            (&json!(["a", "z"]), &json!(1))
        );
        assert_eq!(
            value["patch"],
            [section("a", "x"), section("z", "y")].concat()
        );
        // Nor is the name of what may not be read among what is shown.
        assert!(!value.to_string().contains("secret"), "{value}");
    }

    #[test]
    fn a_patch_that_does_not_agree_with_its_records_is_not_shown() {
        let (a, b) = (section("a", "x"), section("secret", "password"));
        for (case, raw, patch) in [
            (
                "a section too many",
                records(&[("M", "a")]),
                format!("{a}{b}"),
            ),
            (
                "one too few",
                records(&[("M", "a"), ("M", "secret")]),
                a.clone(),
            ),
            ("another's", records(&[("M", "a")]), b.clone()),
            (
                "the wrong order",
                records(&[("M", "secret"), ("M", "a")]),
                format!("{a}{b}"),
            ),
            ("an unknown letter", records(&[("X", "a")]), a.clone()),
            (
                "all sides in one",
                format!(":{}", records(&[("MM", "a")])),
                a.clone(),
            ),
            (
                "a name that begins a section",
                records(&[("U", "x\ndiff --git a/a b/a"), ("M", "a")]),
                format!("* Unmerged path x\n{a}{a}"),
            ),
        ] {
            assert_eq!(diff(&format!("{raw}{patch}"), not_secret), None, "{case}");
        }
    }

    #[test]
    fn heads_are_quoted_as_git_quotes_names() {
        for (path, want) in [
            ("a b", "diff --git a/a b b/a b"),
            ("q\"", r#"diff --git "a/q\"" "b/q\"""#),
            ("back\\", r#"diff --git "a/back\\" "b/back\\""#),
            ("\u{e9}", r#"diff --git "a/\303\251" "b/\303\251""#),
            (
                "\t\n\r\x07\x01\x7f",
                r#"diff --git "a/\t\n\r\a\001\177" "b/\t\n\r\a\001\177""#,
            ),
        ] {
            assert_eq!(head(path), want);
        }
        // A name that was not UTF-8 has a head nobody can foretell: it is there, and not shown.
        let raw = records(&[("M", "\u{fffd}"), ("M", "a")]);
        let patch = format!(
            "diff --git \"a/\\377\" \"b/\\377\"\n+no\n{}",
            section("a", "x")
        );
        let value = diff(&format!("{raw}{patch}"), not_secret).unwrap();
        assert_eq!(
            (&value["files"], &value["hidden"]),
            (&json!(["a"]), &json!(1))
        );
        assert!(!value["patch"].as_str().unwrap().contains("no\n"));
    }
}

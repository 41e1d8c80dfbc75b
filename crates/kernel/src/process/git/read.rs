//! What git printed, as results: structured, and without what the caller may not read.

use super::Reading;
use crate::process::check::Changes;
use crate::process::failure::ProcessFailure;
use crate::process::ran::Ran;
use serde_json::{Value, json};

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

/// Raw records, then a patch with one section for each: a section is shown if its path may be
/// read. A patch whose sections do not agree with the records is not shown at all.
fn diff(text: &str, may_read: impl Fn(&str) -> bool) -> Option<Value> {
    let mut rest = text;
    let mut paths = Vec::new();
    while rest.starts_with(':') {
        let (_, after) = rest.split_once('\0')?;
        let (path, after) = after.split_once('\0')?;
        paths.push(path);
        rest = after;
    }
    let patch = rest.trim_start_matches('\0');
    let sections = sections(patch);
    if sections.len() != paths.len() {
        return None;
    }
    let mut shown = String::new();
    let (mut files, mut hidden) = (Vec::new(), 0_u64);
    for (path, section) in paths.into_iter().zip(sections) {
        if may_read(path) {
            shown.push_str(section);
            files.push(path);
        } else {
            hidden += 1;
        }
    }
    Some(json!({ "patch": shown, "files": files, "hidden": hidden }))
}

/// The parts of a patch that each begin with `diff `, as no line of a hunk does.
fn sections(patch: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = patch
        .match_indices("\ndiff --")
        .map(|(at, _)| at + 1)
        .collect();
    if patch.starts_with("diff --") {
        starts.insert(0, 0);
    }
    let ends = starts.iter().skip(1).copied().chain([patch.len()]);
    starts
        .iter()
        .zip(ends)
        .filter_map(|(start, end)| patch.get(*start..end))
        .collect()
}

/// The commit, its branch and the commit before it.
fn commit(text: &str) -> Option<Value> {
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
        // Sections and records that disagree could show one file under another's name.
        assert_eq!(diff(&format!(":1 2 3 4 M\0a\0\0{patch}"), not_secret), None);
        assert_eq!(diff("", not_secret).unwrap()["files"], json!([]));
    }
}

//! `airlock merge` and `airlock undo`: into the real tree and out of it, once a person said so.

mod choose;
mod held;
mod seen;

use super::reach::Reach;
use super::{open, stage};
use crate::args::Global;
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, Tone, count, shown, styled};
use crate::visible::Reviewed;
use airlock_kernel::{Call, Done, Kernel, sanitise_line};
use airlock_merge::{MergeError, Selection, Since};
use airlock_sandbox::stage::{Diff, Hunk, TreePath};
use clap::Args;
use held::Held;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// The stage
    #[arg(default_value = "default")]
    stage: String,
    /// Everything, which is the default
    #[arg(long, conflicts_with_all = ["files", "hunks", "interactive"])]
    all: bool,
    /// Only these files, and what is in these directories
    #[arg(long, value_name = "PATH", num_args = 1..)]
    files: Vec<String>,
    /// Only these hunks of a file, counted from 1
    #[arg(long, value_name = "PATH:N,N")]
    hunks: Vec<String>,
    /// Choose file by file and hunk by hunk
    #[arg(long, conflicts_with_all = ["files", "hunks"])]
    interactive: bool,
    /// Merge over what was changed in the real tree meanwhile
    #[arg(long)]
    overwrite: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    /// The merge, by the beginning of its name; default: the last that is not undone
    merge: Option<String>,
    /// Restore what was changed since the merge as well
    #[arg(long)]
    overwrite: bool,
    /// Only list the merges there are
    #[arg(long, conflicts_with = "overwrite")]
    list: bool,
}

impl MergeArgs {
    /// Whether everything is merged, and over nobody's changes.
    fn takes_all(&self) -> bool {
        let parts = self.interactive || !self.files.is_empty() || !self.hunks.is_empty();
        !parts && !self.overwrite
    }
}

fn merge_failure(error: &MergeError) -> Failure {
    Failure::of(Kind::Failed, error).maybe_fix(error.hint())
}

/// Which paths, and which hunks of them.
#[derive(Debug, PartialEq, Eq)]
struct Choice {
    files: Option<Vec<String>>,
    /// Whether the files are meant alone: what is in a directory had a question of its own.
    exactly: bool,
    /// Hunks, counted from one.
    hunks: BTreeMap<String, Vec<usize>>,
    overwrite: bool,
}

impl Choice {
    /// What is chosen when it is merged: what is shown, and what the answer is bound to.
    fn selection(&self) -> Selection {
        let path = |text: &String| TreePath::from(Path::new(text));
        let files = self.files.as_ref();
        let hunks = self.hunks.iter().map(|(text, numbers)| {
            let indices = numbers.iter().map(|number| number.saturating_sub(1));
            let indices: Vec<usize> = indices.collect();
            (path(text), indices)
        });
        Selection {
            paths: files.map(|files| files.iter().map(path).collect()),
            exactly: self.exactly,
            hunks: hunks.collect(),
            overwrite: self.overwrite,
        }
    }

    /// The call that merges it, of `diff` as it was shown.
    fn call(&self, stage: &str, diff: &Diff) -> Call {
        Call::new(
            "merge.apply",
            json!({
                "stage": stage,
                "digest": self.selection().reviewed(diff),
                "files": self.files,
                "exactly": self.exactly,
                "hunks": self.hunks,
                "overwrite": self.overwrite,
            }),
        )
    }
}

pub(crate) fn run(global: &Global, arguments: &MergeArgs, output: &mut Output) -> Ending {
    open::flush_running(global);
    let mut reach = Reach::new(global, output)?;
    let name = &arguments.stage;
    stage::look(&mut reach, "merge", Some(name), output)?;
    let kernel = reach.kernel(output)?;
    let stages = kernel.stages();
    let (diff, unjudged) = (stages.diff(name), stages.is_unjudged(name));
    let Some(diff) = diff.map_err(|error| stage::failure(&error))? else {
        // The one that every workspace has may not have been used yet.
        if name != "default" {
            return Err(stage::unknown(name));
        }
        return Ok(nothing(name, output));
    };
    if diff.changes.is_empty() {
        stage::remarks(&diff, output);
        return Ok(nothing(name, output));
    }
    stage::suspicion(&diff, output);
    if unjudged.map_err(|error| stage::failure(&error))? {
        stage::unjudged_run(name, output);
    }
    let held = Held::in_stage(&mut reach, name, output);
    if let Some(held) = held.as_ref().filter(|_| arguments.takes_all())
        && let Some(done) = held.commit(&mut reach, output)?
    {
        return Ok(told(&done, "merged", output));
    }
    let choice = if arguments.interactive {
        choose::interactively(&diff, output)?
    } else {
        stage::remarks(&diff, output);
        Choice {
            files: choose::files(&arguments.files)?,
            exactly: false,
            hunks: choose::hunks(&arguments.hunks)?,
            overwrite: false,
        }
    };
    let choice = Choice {
        overwrite: arguments.overwrite,
        ..choice
    };
    let empty = |files: &Vec<String>| files.is_empty();
    if choice.files.as_ref().is_some_and(empty) && choice.hunks.is_empty() {
        output.note("nothing was chosen, and nothing is merged");
        return Ok(0);
    }
    let call = choice.call(name, &diff);
    // Where that cannot be merged, whoever merges says why.
    let selection = choice.selection();
    let paths = selection.paths(&diff).unwrap_or_default();
    let paths: BTreeSet<TreePath> = paths.into_iter().collect();
    for change in &diff.changes {
        if paths.contains(&change.path) {
            output.note(format!("{}{}", stage::line(change), seen::marks(change)));
        }
        // What the numbers name now, whatever they named in a diff that was looked at before.
        if let Some(chosen) = selection.hunks.get(&change.path)
            && !arguments.interactive
        {
            seen::show_hunks(change, chosen, output);
        }
    }
    let root = reach.kernel(output)?.workspace().root().path();
    let mut what = format!("merging into {}", shown(Path::new(root)));
    if let Some(held) = &held {
        output.warning(&held.remark());
        what.push_str(" past its session");
    }
    let done = reach.reviewed(&call, &what, output)?;
    let code = told(&done, "merged", output);
    let rest = reach.kernel(output)?.stages().diff(name);
    if let Some(held) = held
        && rest.is_ok_and(|rest| rest.is_none_or(|rest| rest.is_empty()))
    {
        held.give_up(&mut reach, output);
    }
    Ok(code)
}

fn nothing(name: &str, output: &mut Output) -> u8 {
    if output.is_json() {
        output.json(&json!({ "merge": null, "merged": 0, "left": [] }));
    } else {
        let name = sanitise_line(name, 64);
        output.note(format!(
            "stage {name} changes nothing, so nothing is merged"
        ));
    }
    0
}

/// What came of it, and the code that says whether something was left.
fn told(done: &Done, verb: &str, output: &mut Output) -> u8 {
    let left = done.value.get("left").and_then(Value::as_array);
    let left: &[Value] = left.map_or(&[], Vec::as_slice);
    let failed = left
        .iter()
        .any(|one| one.get("result") == Some(&json!("failed")));
    let code = match (left.is_empty(), failed) {
        (true, _) => 0,
        (false, true) => Kind::Failed.code(),
        (false, false) => Kind::NeedsReview.code(),
    };
    if output.is_json() {
        output.json(&done.value);
        return code;
    }
    let text = |value: &Value, name: &str| {
        let found = value.get(name).and_then(Value::as_str);
        sanitise_line(found.unwrap_or_default(), 200)
    };
    let merged = done.value.get("merged").and_then(Value::as_u64);
    let number = count(merged.unwrap_or_default(), "path");
    output.note(styled(Tone::Good, &format!("{number} {verb}")));
    for one in left {
        let path: TreePath = one
            .get("path")
            .and_then(|path| serde_json::from_value(path.clone()).ok())
            .unwrap_or_default();
        output.warning(&format!(
            "{} was left: {}",
            shown(path.as_path()),
            text(one, "why")
        ));
    }
    let name = text(&done.value, "merge");
    output.note(format!("take it back with `airlock undo {name}`"));
    code
}

pub(crate) fn undo(global: &Global, arguments: &UndoArgs, output: &mut Output) -> Ending {
    let mut reach = Reach::new(global, output)?;
    stage::look(&mut reach, "undo", None, output)?;
    let kernel = reach.kernel(output)?;
    if arguments.list {
        return list(kernel, output);
    }
    let since = if arguments.overwrite {
        Since::Goes
    } else {
        Since::Stays
    };
    let merges = kernel.stages().merges();
    // Before anything of it is shown: what changes from here on is not what was looked at.
    let looked = merges
        .undoing(arguments.merge.as_deref(), since)
        .map_err(|error| merge_failure(&error))?;
    let of = &looked.merge;
    for (path, same) in &looked.paths {
        let mark = match (same, arguments.overwrite) {
            (true, _) => styled(Tone::Label, "restored"),
            (false, true) => styled(Tone::Warn, "replaced"),
            (false, false) => styled(Tone::Warn, "kept    "),
        };
        output.note(format!("{mark} {}", shown(path.as_path())));
        if !same {
            difference(kernel, of, path, output);
        }
    }
    let call = Call::new(
        "merge.undo",
        json!({
            "merge": of,
            "digest": looked.digest,
            "overwrite": arguments.overwrite,
        }),
    );
    let what = format!("undoing merge {of}");
    let done = reach.reviewed(&call, &what, output)?;
    let code = told(&done, "restored", output);
    let kept = looked.paths.iter().any(|(_, same)| !same) && !arguments.overwrite;
    if kept && !output.is_json() {
        output.note(format!(
            "restore what was kept, too, with `airlock undo --overwrite {of}`"
        ));
    }
    Ok(code)
}

/// What the merge did to a file, and what was done to it since.
fn difference(kernel: &Kernel, of: &str, path: &TreePath, output: &mut Output) {
    let Ok([before, merged, now]) = kernel.stages().merges().contents(of, path) else {
        return;
    };
    for (title, from, to) in [
        ("merged", &before, &merged),
        ("changed since", &merged, &now),
    ] {
        let (Ok(from), Ok(to)) = (std::str::from_utf8(from), std::str::from_utf8(to)) else {
            output.note(format!("  {title}: not text"));
            continue;
        };
        output.note(format!("  {title}:"));
        let mut reviewed = Reviewed::default();
        for hunk in Hunk::between(from, to, 1) {
            output.verbatim(format!("    {}", styled(Tone::Label, &hunk.range())));
            for line in reviewed.hunk(&hunk) {
                output.verbatim(format!("    {line}"));
            }
        }
        reviewed.tell(output);
    }
}

fn list(kernel: &Kernel, output: &mut Output) -> Ending {
    let merges = kernel.stages().merges().list();
    let merges = merges.map_err(|error| merge_failure(&error))?;
    if merges.is_empty() && !output.is_json() {
        output.note("nothing was merged yet");
    }
    for merge in merges {
        if output.is_json() {
            output.json(&merge);
            continue;
        }
        let name = styled(Tone::Heading, &merge.id);
        let number = count(merge.merged as u64, "path");
        let what = match (&merge.undo_of, &merge.stage) {
            (Some(of), _) => format!("undid {of}"),
            (None, Some(stage)) => format!("of stage {stage}"),
            (None, None) => String::new(),
        };
        let undone = if merge.undone { ", undone" } else { "" };
        output.row(4, format!("{name}  {number}, {what}{undone}"));
    }
    Ok(0)
}

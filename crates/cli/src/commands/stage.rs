//! `airlock diff` and `airlock stage`: what waits in a stage, and throwing it away.

use super::open;
use super::reach::Reach;
use crate::args::{Global, StageCommand};
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, Tone, count, shown, styled};
use crate::visible::Reviewed;
use airlock_kernel::{Kernel, sanitise_line};
use airlock_sandbox::stage::{
    Change, ChangeKind, Content, Diff, NodeKind, Piece, RefusedReason, StageError,
};
use serde_json::json;

pub(super) fn run(global: &Global, command: StageCommand, output: &mut Output) -> Ending {
    open::flush_running(global);
    match command {
        StageCommand::List => list(global, output),
        StageCommand::Drop { name } => drop_stage(global, &name, output),
    }
}

/// Asks the road for leave to look at stages, and has a kernel of this process to look with.
fn looking(
    global: &Global,
    purpose: &str,
    stage: Option<&str>,
    output: &mut Output,
) -> Result<Kernel, Failure> {
    let mut reach = Reach::new(global, output)?;
    look(&mut reach, purpose, stage, output)?;
    reach.into_kernel(output)
}

/// Asks the road for leave to look.
pub(super) fn look(
    reach: &mut Reach<'_>,
    purpose: &str,
    stage: Option<&str>,
    output: &mut Output,
) -> Result<(), Failure> {
    let asked = json!({ "purpose": purpose, "stage": stage });
    reach.value("stage.read", asked, output).map(drop)
}

pub(super) fn failure(error: &StageError) -> Failure {
    Failure::of(Kind::Failed, error).maybe_fix(error.hint())
}

/// No stage has that name.
pub(super) fn unknown(name: &str) -> Failure {
    let what = format!("there is no stage `{}`", sanitise_line(name, 60));
    Failure::new(Kind::Failed, what).fix("`airlock stage list` names the stages there are")
}

pub(super) fn diff(global: &Global, name: &str, stat: bool, output: &mut Output) -> Ending {
    let kernel = looking(global, "diff", Some(name), output)?;
    let diff = kernel
        .stages()
        .diff(name)
        .map_err(|error| failure(&error))?;
    let Some(diff) = diff else {
        if name == "default" {
            if output.is_json() {
                output.json(&json!({
                    "kind": null, "changes": [], "refused": [], "conflicts": [], "stripped": [],
                    "suspect": false, "cut_off": false, "visited": 0, "unjudged": false,
                }));
            } else {
                output.note("there is no stage yet: `airlock exec -- COMMAND` makes one");
            }
            return Ok(0);
        }
        return Err(unknown(name));
    };
    let unjudged = kernel
        .stages()
        .is_unjudged(name)
        .map_err(|error| failure(&error))?;
    if output.is_json() {
        let text = diff.to_json().unwrap_or_default();
        let mut value: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        if let Some(object) = value.as_object_mut() {
            object.insert("unjudged".to_owned(), json!(unjudged));
        }
        output.json(&value);
        return Ok(0);
    }
    if stat {
        diff.changes
            .iter()
            .for_each(|change| output.line(line(change)));
    } else {
        patch(&diff, output);
    }
    remarks(&diff, output);
    suspicion(&diff, output);
    if unjudged {
        unjudged_run(name, output);
    }
    Ok(0)
}

/// That nobody has judged what a command left.
pub(super) fn unjudged_run(name: &str, output: &mut Output) {
    let name = sanitise_line(name, 64);
    output.warning(
        "a command was cut off here, and what it left was never judged: it may be half written, and \
         some of it may have to go",
    );
    output.note(format!(
        "`airlock exec --stage {name} -- true` has it judged; `airlock stage drop {name}` throws it away"
    ));
}

/// The changes as a patch: written out for whoever looks, to the byte for whatever applies it.
fn patch(diff: &Diff, output: &mut Output) {
    let mut reviewed = Reviewed::default();
    if Output::is_looked_at() {
        patch_lines(diff, &mut reviewed, |line| output.line(line));
        reviewed.tell(output);
        return;
    }
    output.exact(diff.render_unified().as_bytes());
    patch_lines(diff, &mut reviewed, drop);
    if reviewed.count() > 0 {
        output.warning(&format!(
            "characters that a terminal would obey, or not show, are in {}, as they are: with \
             `--color always`, or at a terminal, they are written out",
            count(reviewed.count(), "line")
        ));
    }
}

/// The lines of a patch, each in the colour of what it says.
pub(super) fn patch_lines(diff: &Diff, reviewed: &mut Reviewed, mut put: impl FnMut(String)) {
    diff.pieces(|piece| match piece {
        Piece::Heading(line) => {
            let names = ["diff ", "--- ", "+++ "];
            put(if names.iter().any(|word| line.starts_with(word)) {
                styled(Tone::Heading, line)
            } else {
                line.to_owned()
            });
        }
        Piece::Hunk(hunk) => {
            put(styled(Tone::Label, &hunk.range()));
            reviewed.hunk(hunk).into_iter().for_each(&mut put);
        }
    });
}

/// How, the path, and the modes if those differ.
pub(super) fn line(change: &Change) -> String {
    let (word, tone) = match &change.kind {
        ChangeKind::Added => ("added", Tone::Good),
        ChangeKind::Deleted => ("deleted", Tone::Bad),
        ChangeKind::Modified => ("modified", Tone::Label),
        ChangeKind::Renamed { .. } => ("renamed", Tone::Label),
        ChangeKind::ModeChanged => ("mode", Tone::Label),
        ChangeKind::TypeChanged => ("type", Tone::Warn),
    };
    let word = styled(tone, &format!("{word:<8}"));
    let path = format!("{}{}", shown(change.path.as_path()), modes(change));
    match &change.kind {
        ChangeKind::Renamed { from } => format!("{word} {} -> {path}", shown(from.as_path())),
        ChangeKind::Added
        | ChangeKind::Deleted
        | ChangeKind::Modified
        | ChangeKind::ModeChanged
        | ChangeKind::TypeChanged => format!("{word} {path}"),
    }
}

/// The permission bits before and after, where they differ.
fn modes(change: &Change) -> String {
    let (Some(old), Some(new)) = (&change.old, &change.new) else {
        return String::new();
    };
    let (was, is) = (old.mode & 0o777, new.mode & 0o777);
    if old.kind != new.kind || new.kind == NodeKind::Symlink || was == is {
        return String::new();
    }
    format!(" ({was:03o} -> {is:03o})")
}

const fn why_refused(reason: RefusedReason) -> &'static str {
    match reason {
        RefusedReason::Fifo => "it is a named pipe",
        RefusedReason::Socket => "it is a socket",
        RefusedReason::Device => "it is a device",
        RefusedReason::SetId => "it runs with another's rights",
        RefusedReason::Unreadable => "you may not read it",
        RefusedReason::PathTooLong => "its path is too long",
        RefusedReason::Mounted => "something is mounted there in the real tree",
    }
}

/// What a merge would not take, and what changed meanwhile.
pub(super) fn remarks(diff: &Diff, output: &mut Output) {
    if diff.is_empty() {
        output.note("nothing is changed");
        return;
    }
    output.note(format!(
        "{} changed",
        count(diff.changes.len() as u64, "file")
    ));
    for refused in &diff.refused {
        output.warning(&format!(
            "{} never leaves a stage: {}",
            shown(refused.path.as_path()),
            why_refused(refused.reason)
        ));
    }
    for conflict in &diff.conflicts {
        output.warning(&format!(
            "{} was changed outside the stage too",
            shown(conflict.path.as_path())
        ));
    }
    for change in &diff.changes {
        let path = shown(change.path.as_path());
        if is_unread(change) {
            output.warning(&format!(
                "{path} is too large to be read, and is not merged"
            ));
        } else if is_large(&change.content) {
            output.warning(&format!("{path} is too large to show"));
        }
    }
}

/// Whether nobody has read what it would bring.
pub(super) fn is_unread(change: &Change) -> bool {
    let new = change.new.as_ref();
    new.is_some_and(|new| new.kind == NodeKind::File && new.sha256.is_none())
}

/// Whether it may be text, and none of it is shown.
fn is_large(content: &Content) -> bool {
    match content {
        Content::TooLarge => true,
        Content::Replaced { old, new } => is_large(old) || is_large(new),
        Content::None | Content::Text { .. } | Content::Binary => false,
    }
}

/// That what is staged may not be what was written.
pub(super) fn suspicion(diff: &Diff, output: &mut Output) {
    if diff.suspect {
        output.warning(
            "the machine was restarted since something of this was written: unless it was shut down \
             in order, files may be empty, torn or missing",
        );
    }
    if diff.cut_off {
        output.warning(
            "a command was cut off here, and none has ended since: what it was writing may be half \
             written",
        );
    }
}

fn list(global: &Global, output: &mut Output) -> Ending {
    let kernel = looking(global, "list", None, output)?;
    let stages = kernel.stages().list().map_err(|error| failure(&error))?;
    if stages.is_empty() && !output.is_json() {
        output.note("there is no stage yet: `airlock exec -- COMMAND` makes one");
    }
    for stage in stages {
        let stage = match stage {
            Ok(stage) => stage,
            Err(error) => {
                output.warning(&error.to_string());
                continue;
            }
        };
        if output.is_json() {
            output.json(&stage);
            continue;
        }
        let name = styled(Tone::Heading, &format!("{:<16}", stage.name.as_str()));
        let more = if stage.more { "over " } else { "" };
        let busy = match (stage.in_use, stage.unjudged, stage.cut_off) {
            (true, _, _) => ", in use",
            (false, true, _) => ", not judged: a command was cut off",
            (false, false, true) => ", a command was cut off",
            (false, false, false) => "",
        };
        let suspect = if stage.suspect {
            ", suspect: the machine was restarted"
        } else {
            ""
        };
        output.line(format!(
            "{name}  {more}{} changed, {} bytes{busy}{suspect}",
            count(stage.files, "file"),
            stage.bytes
        ));
    }
    Ok(0)
}

fn drop_stage(global: &Global, name: &str, output: &mut Output) -> Ending {
    Reach::new(global, output)?.value("stage.drop", json!({ "stage": name }), output)?;
    if output.is_json() {
        output.json(&json!({ "dropped": name }));
    } else {
        output.note(format!("stage {} is dropped", sanitise_line(name, 64)));
    }
    Ok(0)
}

//! What Airlock says of a command that ran: on stderr for people, one object for programs.

use super::Target;
use crate::args::ExecArgs;
use crate::output::{Output, count, shown};
use airlock_kernel::{Done, LimitHit, Ran, sanitise_line};
use airlock_sandbox::launch::NotStarted;
use serde_json::{Value, json};

/// Denials that are named; the log has how many there were.
const NAMED: usize = 10;

/// Whether there is nothing that [`notes`] would say.
pub(super) fn is_silent(ran: &Ran) -> bool {
    let changed = ran.stage.is_some() && ran.changes.is_some_and(|changes| changes > 0);
    let kept = ran.refusals.is_empty() && ran.put_back.is_empty();
    ran.not_started.is_none() && ran.limit().is_none() && kept && !changed
}

/// Says what the person would not see in the command's own output.
pub(super) fn notes(ran: &Ran, args: &ExecArgs, output: &mut Output) {
    let program = args.command.first().map(String::as_str).unwrap_or_default();
    let program = sanitise_line(program, 100);
    if let Some(why) = ran.not_started {
        let (what, fix) = unstarted(why, &program);
        output.error(&what);
        output.labelled("fix", fix);
    }
    for refusal in ran.refusals.iter().take(NAMED) {
        let denial = sanitise_line(&refusal.denial, 200);
        output.note(format!("denied: {} ({denial})", shown(&refusal.path)));
    }
    if let Some(more @ 1..) = ran.refusals.len().checked_sub(NAMED) {
        output.note(format!("and {} more", count(more as u64, "denial")));
    }
    for back in ran.put_back.iter().take(NAMED) {
        let reason = sanitise_line(&back.reason, 200);
        let (path, change) = (sanitise_line(&back.path, 200), &back.change);
        output.note(format!("put back: {path} ({change}: {reason})"));
    }
    if let Some(more @ 1..) = ran.put_back.len().checked_sub(NAMED) {
        output.note(format!("and {} more put back", count(more as u64, "path")));
    }
    if let Some(limit) = ran.limit() {
        output.error(&format!("`{program}` was ended: {}", over(limit)));
        output.labelled("fix", raise(limit));
    }
    if let (Some(stage), Some(changes @ 1..)) = (&ran.stage, ran.changes) {
        let name = if stage == "default" {
            String::new()
        } else {
            format!(" {stage}")
        };
        output.note(format!(
            "{} changed in stage {stage}: airlock diff{name}",
            count(changes, "file")
        ));
    }
}

fn unstarted(why: NotStarted, program: &str) -> (String, &'static str) {
    match why {
        NotStarted::NotFound => (
            // The system says the same of a program and of what it wants to be run by.
            if program.contains('/') {
                format!("`{program}`, or the interpreter it names, is not in the sandbox")
            } else {
                format!("there is no `{program}` in the sandbox")
            },
            "only system directories, toolchains and the workspace are seen inside; --allow-read PATH shows more",
        ),
        NotStarted::NotExecutable => (
            format!("`{program}` cannot be executed"),
            "make it executable, or name the program that runs it",
        ),
        NotStarted::TooLong => (
            "arguments and environment are more than the system takes".to_owned(),
            "pass them in a file",
        ),
        NotStarted::NoDirectory => (
            "the working directory does not exist inside".to_owned(),
            "start in a directory of the workspace that the stage has not removed",
        ),
        NotStarted::Other(number) => (
            format!("`{program}` cannot be started: system error {number}"),
            "see errno(3) for what the number means",
        ),
    }
}

const fn over(limit: LimitHit) -> &'static str {
    match limit {
        LimitHit::Duration => "it ran over its time",
        LimitHit::Memory => "it used more than its memory",
        LimitHit::Pids => "it had more than its processes",
        LimitHit::Output => "it wrote more than its output",
        LimitHit::FileSize => "it wrote a file over its size",
    }
}

const fn raise(limit: LimitHit) -> &'static str {
    match limit {
        LimitHit::Duration => {
            "give it longer with --timeout, up to the template's and the policy's"
        }
        LimitHit::Memory => "give it more with --memory, up to the template's and the policy's",
        LimitHit::Pids => "give it more with --pids, up to the template's and the policy's",
        LimitHit::Output => "write to a file, or raise the policy's `output`",
        LimitHit::FileSize => "write several smaller files",
    }
}

/// The one object of `--json`.
pub(super) fn object(done: &Done, ran: &Ran, exit: u8, target: &Target, output: &mut Output) {
    let mut value = json!({
        "action": done.action,
        "outcome": ran.word(),
        "exit": exit,
        "limit": ran.limit(),
        "wall_ms": ran.wall_ms,
        "peak_memory": ran.peak_memory,
        "stage": ran.stage,
        "changes": ran.changes,
        "refusals": ran.refusals,
        "put_back": ran.put_back,
        "report": ran.report,
    });
    if let (Target::Captured(out, err), Some(object)) = (target, value.as_object_mut()) {
        for (name, stream) in [("stdout", out), ("stderr", err)] {
            let (text, encoding) = stream.text();
            object.insert(name.to_owned(), Value::String(text));
            object.insert(format!("{name}_encoding"), json!(encoding));
        }
        object.insert("truncated".to_owned(), json!(out.is_cut() || err.is_cut()));
    }
    output.json(&value);
}

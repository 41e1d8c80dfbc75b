//! Answering: shown in full first, then asked, at the terminal and nowhere else.

use super::super::reach::Reach;
use super::{AnswerArgs, ApproveArgs, read, show, text};
use crate::args::Global;
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, Tone, styled};
use crate::review::{Terminal, nobody, not_taken};
use airlock_core::{RequestPath, Span, Syscall, Timestamp};
use airlock_kernel::{Answering, Kernel};
use airlock_policy::approval::{Action, AnswerError, ApprovalId, Condition, Reply};
use serde_json::{Value, json};

pub(super) fn approve(global: &Global, args: &ApproveArgs, output: &mut Output) -> Ending {
    let mut reach = Reach::new(global, output)?;
    let question = read(&mut reach, &args.answer.id, output)?;
    still_open(&question)?;
    // The proof that a person answers is their terminal, which only this process has.
    let kernel = reach.into_kernel(output)?;
    let conditions = conditions(args, &question, &kernel)?;
    let Some(mut terminal) = Terminal::open() else {
        return Err(needs_terminal());
    };
    for line in show::lines(&question) {
        output.note(line);
    }
    for condition in &conditions {
        output.note(format!(
            "  {} {}",
            styled(Tone::Warn, "for      "),
            told(condition)
        ));
    }
    let reply = terminal.ask("approve? [y/N]").unwrap_or_default();
    if !matches!(reply.as_str(), "y" | "Y" | "yes") {
        return Err(Failure::new(Kind::Denied, "it was not approved")
            .why("the person at the terminal did not say yes")
            .fix("the request stays open; `airlock approvals deny` closes it"));
    }
    let answering = Answering {
        reply: Reply::Approve,
        conditions,
        because: args.answer.because.clone(),
        shown: shown(&question),
    };
    take(&kernel, &mut terminal, &question, &answering, output)
}

pub(super) fn deny(global: &Global, args: AnswerArgs, output: &mut Output) -> Ending {
    plain(global, args, Reply::Deny, output)
}

pub(super) fn defer(global: &Global, args: AnswerArgs, output: &mut Output) -> Ending {
    plain(global, args, Reply::Defer, output)
}

fn plain(global: &Global, args: AnswerArgs, reply: Reply, output: &mut Output) -> Ending {
    let mut reach = Reach::new(global, output)?;
    let question = read(&mut reach, &args.id, output)?;
    still_open(&question)?;
    let kernel = reach.into_kernel(output)?;
    let Some(mut terminal) = Terminal::open() else {
        return Err(needs_terminal());
    };
    let answering = Answering {
        reply,
        conditions: Vec::new(),
        because: args.because,
        shown: shown(&question),
    };
    take(&kernel, &mut terminal, &question, &answering, output)
}

/// Fails if it takes no answer any more. The kernel would say so, too, but only to who has answered.
fn still_open(question: &Value) -> Result<(), Failure> {
    let error = match text(question, "status") {
        "expired" => AnswerError::Expired,
        // One with a grant was answered before the policy changed.
        "policy_changed" if question.get("grant").is_none_or(Value::is_null) => {
            AnswerError::Stale("the policy")
        }
        "granted" | "spent" | "denied" | "policy_changed" => AnswerError::Settled,
        "session_ended" => {
            let what = "the session that asked has ended: nobody can use an answer";
            let fix = "`airlock approvals list` shows what still waits";
            return Err(Failure::new(Kind::Failed, what).fix(fix));
        }
        _ => return Ok(()),
    };
    Err(Failure::of(Kind::Failed, &error).maybe_fix(error.hint()))
}

fn needs_terminal() -> Failure {
    nobody("an answer is a person's to give").fix("run the same command in a terminal")
}

/// The digest of the action that was shown.
fn shown(question: &Value) -> Option<airlock_core::Digest> {
    text(question, "shown").parse().ok()
}

fn take(
    kernel: &Kernel,
    terminal: &mut Terminal,
    question: &Value,
    answering: &Answering,
    output: &mut Output,
) -> Ending {
    let id =
        ApprovalId::new(text(question, "id")).map_err(|error| Failure::of(Kind::Failed, &error))?;
    let person = terminal.person(kernel, answering.reply == Reply::Approve)?;
    let answered = kernel
        .answer_request(person, &id, answering)
        .map_err(|error| not_taken(&error))?;
    let word = match answering.reply {
        Reply::Approve => "approved",
        Reply::Deny => "denied",
        Reply::Defer => "deferred",
    };
    if output.is_json() {
        output.json(&json!({ "id": answered.id, "answer": answering.reply }));
    } else {
        output.note(styled(Tone::Good, word));
    }
    Ok(0)
}

/// The conditions the person put on the command line, checked as far as they can be here.
fn conditions(
    args: &ApproveArgs,
    question: &Value,
    kernel: &Kernel,
) -> Result<Vec<Condition>, Failure> {
    let usage = |what: String| Failure::new(Kind::Usage, what);
    let mut found = Vec::new();
    if args.once {
        found.push(Condition::Once);
    }
    found.extend(args.uses.map(Condition::Uses));
    if let Some(until) = &args.until {
        found.push(Condition::Until(later(until, kernel.clock().now())?));
    }
    if let Some(directory) = &args.dir {
        let root = kernel.workspace().root().path();
        let path = RequestPath::parse(directory, root).map_err(|error| usage(error.to_string()))?;
        found.push(Condition::Directory(path));
    }
    let action = |name: &str| {
        question
            .pointer(&format!("/action/{name}"))
            .and_then(Value::as_str)
    };
    if args.verb {
        let verb = action("syscall").and_then(|name| Syscall::parse(name).ok());
        let verb = verb.ok_or_else(|| usage("the request names no syscall".to_owned()))?;
        found.push(Condition::Verb(verb));
    }
    if args.host {
        let host = action("host").ok_or_else(|| {
            usage("the request reaches no host".to_owned()).fix("leave out --host")
        })?;
        found.push(Condition::Host(host.into()));
    }
    // The kernel checks them, too, but only once a person has answered.
    let asked: Option<Action> = question
        .get("action")
        .and_then(|action| serde_json::from_value(action.clone()).ok());
    for condition in &found {
        let fits = asked
            .as_ref()
            .map(|action| condition.fits(action, kernel.clock().now()));
        fits.unwrap_or(Ok(()))
            .map_err(|error| usage(error.to_string()))?;
    }
    Ok(found)
}

/// `30m` or `2h` from now, or an absolute time.
fn later(text: &str, now: Timestamp) -> Result<Timestamp, Failure> {
    if let Ok(span) = text.parse::<Span>() {
        return Ok(now.plus(span));
    }
    let stamp = text.parse::<jiff::Timestamp>().map_err(|_| {
        let text = airlock_kernel::sanitise_line(text, 60);
        Failure::new(Kind::Usage, format!("`{text}` is no point in time"))
            .fix("use a span such as 30m or 2h, or a time such as 2026-11-15T09:30:00Z")
    })?;
    Ok(Timestamp::from_micros(stamp.as_microsecond()))
}

fn told(condition: &Condition) -> String {
    match condition {
        Condition::Once => "one use".to_owned(),
        Condition::Uses(uses) => format!("{uses} uses"),
        Condition::Until(time) => {
            let stamp = jiff::Timestamp::from_microsecond(time.as_micros());
            stamp.map_or_else(
                |_| "a while".to_owned(),
                |stamp| format!("until {stamp:.0}"),
            )
        }
        Condition::Directory(path) => {
            let path = airlock_kernel::sanitise_line(path.as_str(), 200);
            format!("any path in `{path}`")
        }
        Condition::Verb(syscall) => format!("any `{syscall}`"),
        Condition::Host(host) => {
            format!("host `{}`", airlock_kernel::sanitise_line(host, 200))
        }
    }
}

//! What came of a call, as the model is told it: sanitised by the road, and explained.

use super::super::outcome as outcomes;
use crate::failure::{Failure, Kind};
use crate::visible::visible;
use airlock_agent::{Handed, NoLeave};
use airlock_kernel::{Outcome, Review, sanitise_line, shown_lines};
use airlock_model::Status;
use airlock_sanitise::Origin;
use serde_json::Value;
use std::fmt::Write as _;

fn ours() -> Origin {
    Origin::Tool("airlock".to_owned())
}

fn own(status: Status, text: String) -> Handed {
    Handed {
        status,
        text,
        origin: ours(),
        flags: 0,
    }
}

/// Characters of a command that the question itself quotes.
const QUESTION: usize = 200;

/// The question, in a line a person can answer.
pub(super) fn asked(review: &Review) -> String {
    let action = &review.request;
    let mut what = format!("the agent wants `{}`", action.syscall);
    let paths: Vec<String> = action
        .paths
        .iter()
        .take(3)
        .map(|path| sanitise_line(&visible(path.as_str()), 80))
        .collect();
    if !paths.is_empty() {
        let more = action.paths.len().saturating_sub(3);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let _ = write!(what, " on {}{more}", paths.join(", "));
    }
    let command = action.arguments.get("command");
    if let Some(command) = command {
        let words = command.as_array().map_or_else(
            || command.as_str().unwrap_or_default().to_owned(),
            |words| {
                let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                words.join(" ")
            },
        );
        let words = visible(&words);
        let _ = write!(what, ": {}", sanitise_line(&words, QUESTION));
        if words.chars().count() > QUESTION {
            what.push_str(" (more of it is above)");
        }
    }
    what
}

/// What the question does not say: a tool of a plugin, the rest of a command, what a program is
/// given beside its words. Where `content` is shown by itself, the arguments are not repeated.
pub(super) fn shown(review: &Review, content: bool) -> Vec<String> {
    let told = |(label, line): &(&'static str, String)| match *label {
        "command" => line.chars().count() > QUESTION,
        "arguments" => !content,
        _ => true,
    };
    let lines = shown_lines(&review.approval.action).into_iter();
    let lines = lines.filter(told);
    lines
        .map(|(label, line)| format!("  {label}: {line}"))
        .collect()
}

pub(super) fn not_approved(failure: &Failure) -> Handed {
    let what = match failure.kind {
        Kind::Denied => "the person did not approve it",
        Kind::Failed | Kind::Usage | Kind::NeedsReview | Kind::Unenforceable => failure.what(),
    };
    own(
        Status::Denied,
        format!("{what}; do something else, or stop and ask"),
    )
}

pub(super) fn unanswered(what: &str) -> Handed {
    let text = format!("the kernel gave no outcome: {what}; it may or may not have happened");
    own(Status::Failed, text)
}

pub(super) fn taken_back() -> Handed {
    own(Status::Cancelled, "the person took it back".to_owned())
}

/// What is no result, as a failure.
pub(super) fn failure(outcome: Outcome) -> Failure {
    match outcomes::done(outcome) {
        Err(failure) => failure,
        Ok(_) => Failure::new(Kind::Failed, "nothing is wrong"),
    }
}

pub(super) fn no_leave(failure: &Failure) -> NoLeave {
    NoLeave {
        what: failure.what().to_owned(),
        why: failure.reasons().map(str::to_owned).collect(),
        fix: failure.fixes().map(str::to_owned).collect(),
    }
}

/// Where a session stands, in a line: phase, what may be written, what leads on.
pub(super) fn phase(state: &Value) -> String {
    let text = |name: &str| match state.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    };
    // Such a session has a mode by name only.
    if state.get("disciplined") == Some(&Value::Bool(false)) {
        return "not held to phases".to_owned();
    }
    let mut line = text("mode");
    // `session.show` calls it phase; its state says whether the session is active.
    let phase = if state.get("phase").is_some() {
        text("phase")
    } else {
        text("state")
    };
    let _ = write!(line, " mode, {phase}");
    for (name, label) in [("may_write", "may write"), ("next", "next")] {
        let told = text(name);
        if !told.is_empty() {
            let _ = write!(line, "; {label}: {told}");
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_session_says_where_it_stands_with_and_without_phases() {
        let with = json!({ "mode": "strict", "state": "planning", "may_write": "nothing", "next": "plan.complete" });
        assert_eq!(
            phase(&with),
            "strict mode, planning; may write: nothing; next: plan.complete"
        );
        let without = json!({ "mode": "strict", "state": "active", "phase": "idle" });
        assert_eq!(phase(&without), "strict mode, idle");
        let free = json!({ "mode": "strict", "phase": "idle", "disciplined": false });
        assert_eq!(phase(&free), "not held to phases");
    }
}

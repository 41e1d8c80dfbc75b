//! What came of a call, as a model is told it: sanitised by the road, and explained.

use crate::process::Ran;
use crate::road::{Denied, Done, Outcome, Review};
use airlock_agent::Handed;
use airlock_model::Status;
use airlock_sandbox::lifecycle::Outcome as Ended;
use airlock_sanitise::Origin;
use serde_json::Value;
use std::fmt::Write as _;

/// Strings at least this long, or of several lines, are told as text of their own: as JSON, every
/// line end and quote in them would be written in two characters.
const LONG: usize = 120;

/// A result of Airlock's own.
pub(super) fn own(status: Status, text: String) -> Handed {
    Handed {
        status,
        text,
        origin: Origin::Tool("airlock".to_owned()),
        flags: 0,
    }
}

/// `outcome`, for a model.
pub fn handed(outcome: Outcome) -> Handed {
    match outcome {
        Outcome::Done(done) => happened(&done),
        Outcome::Denied(denied) => own(Status::Denied, denial(&denied)),
        Outcome::NeedsReview(review) => handed_pending(&review),
        Outcome::Failed(failed) => {
            let fix = failed
                .fix
                .map_or(String::new(), |fix| format!("\nfix: {fix}"));
            let text = format!("{}{fix}", failed.what);
            let own = own(Status::Failed, text);
            Handed {
                origin: failed.origin.map_or(own.origin, |origin| *origin),
                flags: failed.flags.len(),
                ..own
            }
        }
    }
}

fn happened(done: &Done) -> Handed {
    let mut text = natural(&done.value);
    let notes = [
        (done.hidden > 0).then(|| format!("{} withheld by policy", done.hidden)),
        (done.secrets > 0).then(|| format!("{} secrets replaced by placeholders", done.secrets)),
        done.cut
            .then(|| "the result was cut; ask for a narrower part to see the rest".to_owned()),
    ];
    for note in notes.into_iter().flatten() {
        let _ = write!(text, "\nnote: {note}");
    }
    Handed {
        status: status_of(done.ran.as_deref()),
        text,
        origin: (*done.origin).clone(),
        flags: done.flags.len(),
    }
}

/// A command that was taken back while it ran has a result, and is not done for that.
fn status_of(ran: Option<&Ran>) -> Status {
    if ran.is_some_and(|ran| ran.outcome == Ended::Cancelled) {
        Status::Cancelled
    } else {
        Status::Ok
    }
}

/// Short fields as JSON, and each long text after them as it is.
fn natural(value: &Value) -> String {
    let Some(object) = value.as_object() else {
        return value.to_string();
    };
    let long = |value: &Value| match value {
        Value::String(text) => text.len() >= LONG || text.contains('\n'),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            false
        }
    };
    let short: serde_json::Map<String, Value> = object
        .iter()
        .filter(|(_, value)| !long(value) && !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let mut text = Value::Object(short).to_string();
    for (name, value) in object.iter().filter(|(_, value)| long(value)) {
        let _ = write!(text, "\n{name}:\n{}", value.as_str().unwrap_or_default());
    }
    text
}

fn denial(denied: &Denied) -> String {
    let explanation = &denied.explanation;
    let mut text = explanation.headline().to_owned();
    for why in explanation.reasons() {
        let _ = write!(text, "\nwhy: {why}");
    }
    for fix in explanation.fixes() {
        let _ = write!(text, "\nwhat would allow it, for a person to decide: {fix}");
    }
    text
}

/// A call that waits for a person, for a model.
pub fn handed_pending(review: &Review) -> Handed {
    let mut text = format!("`{}` needs a person's approval", review.request.syscall);
    for contribution in review.decision.deciding() {
        let _ = write!(
            text,
            "\nwhy: rule `{}`: {}",
            contribution.rule, contribution.reason
        );
    }
    let _ = write!(text, "\na person answers with: {}", review.how_to_answer());
    own(Status::NeedsReview, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::road::Failed;
    use serde_json::json;

    #[test]
    fn long_texts_stand_as_they_are_and_the_rest_as_json() {
        let value =
            json!({ "path": "a.rs", "lines": 2, "text": "fn a() {}\nfn b() {}\n", "none": null });
        let told = natural(&value);
        assert_eq!(
            told,
            "{\"lines\":2,\"path\":\"a.rs\"}\ntext:\nfn a() {}\nfn b() {}\n"
        );
    }

    #[test]
    fn a_failure_in_the_words_of_others_is_not_told_as_airlocks() {
        let failed = |origin: Option<Box<Origin>>| {
            handed(Outcome::Failed(Failed {
                action: airlock_core::ActionId::new("a-1").unwrap(),
                code: "tool_error",
                what: "no".to_owned(),
                fix: None,
                retryable: false,
                origin,
                flags: Vec::new(),
            }))
        };
        let server = Origin::Tool("mcp.evil".to_owned());
        assert_eq!(failed(Some(Box::new(server.clone()))).origin, server);
        assert_eq!(
            failed(None).origin,
            Origin::Tool("airlock".to_owned()),
            "nobody else spoke"
        );
    }

    #[test]
    fn a_command_that_was_taken_back_while_it_ran_is_not_ok() {
        let ran = |outcome| Ran {
            outcome,
            not_started: None,
            wall_ms: 1,
            peak_memory: None,
            refusals: Vec::new(),
            stage: None,
            changes: None,
            put_back: Vec::new(),
            report: Value::Null,
            sandbox: "box".to_owned(),
        };
        for (outcome, want) in [
            (Ended::Cancelled, Status::Cancelled),
            (Ended::Exited(0), Status::Ok),
            (Ended::Exited(3), Status::Ok),
            (Ended::TimedOut, Status::Ok),
        ] {
            assert_eq!(status_of(Some(&ran(outcome))), want, "{outcome:?}");
        }
        // What a tool calls its own outcome is no word of the sandbox.
        assert_eq!(status_of(None), Status::Ok);
    }
}

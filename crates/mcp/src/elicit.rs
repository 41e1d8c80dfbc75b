//! Puts a question to the person behind the client, where policy opened the gate to that.
//!
//! The client could answer by itself: that is what opening a gate accepts. Gates that want a person
//! at a terminal or the dashboard cannot be opened, whatever the policy says, and an answer is
//! checked again where it is taken.

use airlock_kernel::{Review, sanitise_line, shown_lines};
use rmcp::RoleServer;
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationSchema, EnumSchema, ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext};
use serde_json::Value;
use std::time::Duration;

/// How long the person may think. The question stays open for `airlock approvals` after that.
const PATIENCE: Duration = Duration::from_mins(5);
const APPROVE: &str = "approve";
const DENY: &str = "deny";

/// What the person said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    Yes,
    No,
    /// Nothing that counts.
    Nothing,
}

/// Whether the client can put a question to its user.
pub(crate) fn can_ask(context: &RequestContext<RoleServer>) -> bool {
    let capability = context
        .client_capabilities()
        .and_then(|capabilities| capabilities.elicitation);
    // An empty declaration means forms; one that names only web pages does not.
    capability.is_some_and(|can| can.form.is_some() || can.url.is_none())
}

/// Asks, and waits for the answer.
pub(crate) async fn ask(review: &Review, context: &RequestContext<RoleServer>) -> Said {
    let choice = EnumSchema::builder(vec![APPROVE.to_owned(), DENY.to_owned()]).build();
    let Ok(schema) = ElicitationSchema::builder()
        .required_enum_schema("answer", choice)
        .build()
    else {
        return Said::Nothing;
    };
    let question = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message(review),
        requested_schema: schema,
    };
    tokio::select! {
        answer = put(question, context) => answer.map_or(Said::Nothing, |answer| heard(&answer)),
        () = context.ct.cancelled() => Said::Nothing,
    }
}

/// The client's answer to `question`, if it gives one in time.
async fn put(
    question: ElicitRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<ElicitResult> {
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(question));
    let options = PeerRequestOptions::with_timeout(PATIENCE);
    let asked = context.peer.send_request_with_option(request, options);
    let answer = asked.await.ok()?.await_response().await.ok()?;
    if let ClientResult::ElicitResult(answer) = answer {
        Some(answer)
    } else {
        None
    }
}

/// Only a plain yes is one.
fn heard(answer: &ElicitResult) -> Said {
    let chosen = answer
        .content
        .as_ref()
        .and_then(|content| content.get("answer"))
        .and_then(Value::as_str);
    match (&answer.action, chosen) {
        (ElicitationAction::Accept, Some(APPROVE)) => Said::Yes,
        (ElicitationAction::Accept, Some(DENY)) | (ElicitationAction::Decline, _) => Said::No,
        _ => Said::Nothing,
    }
}

/// The concrete action, in lines a person can judge by. What an agent chose is cleaned and bounded.
fn message(review: &Review) -> String {
    let action = &review.approval.action;
    let mut lines = vec![format!(
        "Airlock asks: may `{}` happen, this once? ({})",
        action.syscall,
        review.approval.gate.title()
    )];
    let shown = shown_lines(action).into_iter();
    lines.extend(shown.map(|(label, line)| format!("{label}: {line}")));
    let paths = action.paths.iter().take(10);
    lines.extend(paths.map(|path| format!("path: {}", sanitise_line(path.as_str(), 200))));
    if action.paths.len() > 10 {
        lines.push(format!("and {} more paths", action.paths.len() - 10));
    }
    if let Some(host) = &action.host {
        lines.push(format!("host: {}", sanitise_line(host, 200)));
    }
    if let Some(secret) = &action.secret {
        lines.push(format!("secret: {}", sanitise_line(secret, 200)));
    }
    for why in review.approval.why.iter().take(5) {
        lines.push(format!("why: {}", sanitise_line(&why.reason, 200)));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_plain_yes_counts_as_one() {
        for (action, content, said) in [
            (
                ElicitationAction::Accept,
                json!({ "answer": "approve" }),
                Said::Yes,
            ),
            (
                ElicitationAction::Accept,
                json!({ "answer": "deny" }),
                Said::No,
            ),
            (
                ElicitationAction::Accept,
                json!({ "answer": "Approve" }),
                Said::Nothing,
            ),
            (
                ElicitationAction::Accept,
                json!({ "answer": true }),
                Said::Nothing,
            ),
            (ElicitationAction::Accept, json!("approve"), Said::Nothing),
            (ElicitationAction::Accept, json!({}), Said::Nothing),
            (
                ElicitationAction::Decline,
                json!({ "answer": "approve" }),
                Said::No,
            ),
            (
                ElicitationAction::Cancel,
                json!({ "answer": "approve" }),
                Said::Nothing,
            ),
        ] {
            let answer = ElicitResult::new(action).with_content(content.clone());
            assert_eq!(heard(&answer), said, "{content}");
        }
    }
}

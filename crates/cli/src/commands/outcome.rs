//! Outcomes of the road as text, JSON and exit codes.

use crate::failure::{Failure, Kind};
use airlock_kernel::Done;
use airlock_kernel::{Denied, Failed, Outcome, Review};
use airlock_policy::Layer;
use serde_json::json;

/// The result of a call, or the failure that says why there is none.
pub(super) fn done(outcome: Outcome) -> Result<Done, Failure> {
    match outcome {
        Outcome::Done(done) => Ok(done),
        Outcome::Denied(denied) => Err(denied_failure(&denied)),
        Outcome::NeedsReview(review) => Err(review_failure(&review)),
        Outcome::Failed(failed) => Err(failed_failure(&failed)),
    }
}

pub(super) fn denied_failure(denied: &Denied) -> Failure {
    let explanation = &denied.explanation;
    let mut failure = Failure::new(Kind::Denied, explanation.headline().to_owned());
    for why in explanation.reasons() {
        failure = failure.why(why);
    }
    for fix in explanation.fixes() {
        failure = failure.fix(fix);
    }
    failure
        .json("action", json!(denied.action))
        .json("decision", json!(denied.decision))
        .json("explanation", json!(explanation))
}

pub(super) fn review_failure(review: &Review) -> Failure {
    let request = &review.request;
    let what = format!("`{}` needs a person's approval", request.syscall);
    let mut failure = Failure::new(Kind::NeedsReview, what);
    for contribution in review.decision.deciding() {
        let who = match contribution.layer {
            Layer::Gate => format!("gate {}", contribution.rule),
            Layer::Capability
            | Layer::BuiltIn
            | Layer::Rules
            | Layer::Extension
            | Layer::Token
            | Layer::Grant
            | Layer::Default => {
                let layer = contribution.layer.as_str();
                format!("rule `{}` ({layer})", contribution.rule)
            }
        };
        failure = failure.why(format!("{who}: {}", contribution.reason));
    }
    failure
        .fix(format!(
            "answer in a terminal, then ask again: {}",
            review.how_to_answer()
        ))
        .json("action", json!(review.action))
        .json("decision", json!(review.decision))
        .json("approval", json!(review.approval))
}

/// What to do at a command line about a failure for which the road itself has no advice.
fn own_fix(code: &str) -> Option<String> {
    let fix = match code {
        "not_found" => "see what there is: airlock tool call fs.list",
        "permission_denied" => "make it readable for the user who runs airlock",
        _ => return None,
    };
    Some(fix.to_owned())
}

/// What happened and every reason for it, which the road tells of a sandbox in one line.
fn parted(failed: &Failed) -> (&str, Vec<&str>) {
    let has_reasons = matches!(
        failed.code,
        "plan_refused" | "limit_not_enforceable" | "not_enforceable" | "sandbox_failed"
    );
    match failed.what.split_once(": ").filter(|_| has_reasons) {
        Some((what, reasons)) => (what, reasons.split("; ").collect()),
        None => (&failed.what, Vec::new()),
    }
}

pub(super) fn failed_failure(failed: &Failed) -> Failure {
    let kind = match failed.code {
        "unknown_tool" | "invalid_arguments" | "check_failed" | "unknown_session"
        | "unknown_approval" | "ambiguous_approval" | "no_session" => Kind::Usage,
        "needs_person" | "too_many_approvals" => Kind::NeedsReview,
        "withheld"
        | "command_not_listed"
        | "template_needs_rule"
        | "reads_denied"
        | "plan_refused" => Kind::Denied,
        "limit_not_enforceable"
        | "unsupported_platform"
        | "kernel_too_old"
        | "tier_unavailable"
        | "template_unavailable"
        | "not_enforceable" => Kind::Unenforceable,
        _ => Kind::Failed,
    };
    let fix = failed.fix.clone().or_else(|| own_fix(failed.code));
    let (what, reasons) = parted(failed);
    let failure = Failure::new(kind, what);
    reasons
        .into_iter()
        .fold(failure, Failure::why)
        .maybe_fix(fix)
        .json("action", json!(failed.action))
        .json("code", json!(failed.code))
        .json("retryable", json!(failed.retryable))
}

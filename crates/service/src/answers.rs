//! Answers that do not depend on who keeps the kernel: the tools there are, and what came of a call.

use crate::methods::CallResult;
use airlock_audit::Health;
use airlock_kernel::tools::ToolSpec;
use airlock_kernel::{Aside, Cancel, Front, Kernel, Outcome, PolicyInForce, PolicyOrigin};
use airlock_wire::{Answer, CancelToken, WireError, code};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The tools that `front` can see.
fn open_to(kernel: &Kernel, front: Front) -> impl Iterator<Item = &'static ToolSpec> {
    let open = kernel.registry().list();
    open.filter(move |tool| tool.open_to(front))
        .map(|tool| tool.spec())
}

/// Each of them, in short or with its arguments.
pub(crate) fn list(kernel: &Kernel, front: Front, full: bool) -> Value {
    let tell = |spec| {
        if full {
            whole(kernel, spec)
        } else {
            describe(spec)
        }
    };
    open_to(kernel, front).map(tell).collect()
}

/// One of them, with its arguments.
pub(crate) fn show(kernel: &Kernel, front: Front, name: &str) -> Result<Value, WireError> {
    let spec = open_to(kernel, front).find(|spec| spec.name == name);
    let Some(spec) = spec else {
        let near = kernel.registry().nearest(front, name);
        return Err(
            WireError::new(code::INVALID_PARAMS, "there is no such tool")
                .details(json!({ "suggestion": near })),
        );
    };
    Ok(whole(kernel, spec))
}

fn whole(kernel: &Kernel, spec: &ToolSpec) -> Value {
    let mut value = describe(spec);
    let tool = kernel.registry().get(spec.name).ok();
    let schema = tool.as_ref().map_or_else(
        || spec.schema.get().clone(),
        |tool| tool.schema().into_owned(),
    );
    let says = tool.map_or(spec.read_only, |tool| tool.says_read_only());
    if let Some(object) = value.as_object_mut() {
        object.insert("arguments".to_owned(), schema);
        object.insert("says_read_only".to_owned(), json!(says));
        object.insert("examples".to_owned(), json!(spec.examples));
    }
    value
}

fn describe(spec: &ToolSpec) -> Value {
    json!({
        "name": spec.name,
        "summary": spec.summary,
        "syscall": spec.syscall,
        "tier": spec.tier,
        "read_only": spec.read_only,
    })
}

/// Leave that the road was asked for; else `told`, with what came of asking.
pub(crate) fn leave(outcome: Outcome, told: &str) -> Result<(), WireError> {
    match outcome {
        Outcome::Done(_) => Ok(()),
        refused @ (Outcome::Denied(_) | Outcome::NeedsReview(_) | Outcome::Failed(_)) => {
            let details = serde_json::to_value(&refused).unwrap_or_default();
            let told = match &refused {
                Outcome::Failed(failed) => format!("{told}: {}", failed.what),
                Outcome::Done(_) | Outcome::Denied(_) | Outcome::NeedsReview(_) => told.to_owned(),
            };
            Err(WireError::new(code::REFUSED, told).details(json!({ "outcome": details })))
        }
    }
}

/// Whether the workspace's files are not approved, so that built-in defaults hold.
pub(crate) fn untrusted(kernel: &Kernel) -> bool {
    is_untrusted(&kernel.policy())
}

fn is_untrusted(policy: &PolicyInForce) -> bool {
    policy.origin() == PolicyOrigin::Untrusted
}

/// What is wrong with the log, if something is.
pub(crate) fn broken(kernel: &Kernel) -> Option<String> {
    match kernel.log().health() {
        Health::Broken { detail, .. } => Some(detail),
        Health::Verified { .. } | Health::Verifying | Health::Unknown { .. } => None,
    }
}

/// An outcome, with what whoever asked should know besides.
pub(crate) fn result(kernel: &Kernel, outcome: Outcome) -> Result<Answer, WireError> {
    asking(kernel, outcome, None)
}

/// The same, with what the person is asked about besides what they asked for.
pub(crate) fn asking(
    kernel: &Kernel,
    outcome: Outcome,
    question: Option<Value>,
) -> Result<Answer, WireError> {
    // It was looked at for the outcome.
    let policy = kernel.policy_of_last_call();
    told(&CallResult {
        outcome,
        untrusted: is_untrusted(&policy),
        broken: broken(kernel),
        question,
    })
}

/// A result as it crosses.
pub(crate) fn told(result: &impl Serialize) -> Result<Answer, WireError> {
    Answer::written(result).map_err(|error| {
        WireError::new(
            code::INTERNAL,
            format!("the outcome cannot be told: {error}"),
        )
    })
}

/// A request's place among those that run.
struct Place(CancelToken);

impl Aside for Place {
    fn leave(&self) -> bool {
        self.0.leave()
    }

    fn come_back(&self) {
        self.0.come_back();
    }
}

/// What takes a call on the road back when its request is, and lets others run while it waits.
pub(crate) fn covering(token: &CancelToken) -> Cancel {
    let cancel = Cancel::new();
    let inner = cancel.clone();
    // What the token keeps must not keep the token: nobody would ever let go of either.
    token.on_cancel(move || inner.cancel());
    cancel.stepping_aside(Arc::new(Place(token.clone())))
}

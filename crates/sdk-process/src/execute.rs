//! Runs one call of a tool, in a thread of its own.

use crate::call::{Answers, Call};
use crate::kernel::Line;
use crate::services::MESSAGE;
use airlock_plugin_protocol::messages::airlock::ExecuteRequest;
use airlock_plugin_protocol::messages::airlock::execute_response::Said;
use airlock_sdk::{About, Context, Plugin, ToolError};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A plugin that calls may come to from everywhere.
pub(crate) type Shared = Arc<dyn Plugin + Send + Sync>;

/// What the frame of a result takes of a message.
const FRAME: usize = 64;

/// Runs the call that `request` is to its end, and says what came of it.
pub(crate) fn execute(
    plugin: &dyn Plugin,
    about: About,
    line: Arc<Line>,
    request: &ExecuteRequest,
    answers: Answers,
) {
    let allowed = Some(request.deadline_ms).filter(|millis| *millis > 0);
    let call = Call {
        answers,
        line,
        action: request.action.clone(),
        until: allowed.and_then(|millis| Instant::now().checked_add(Duration::from_millis(millis))),
    };
    // A tool that panics is a call that failed; the message of it is on standard error.
    let ran = catch_unwind(AssertUnwindSafe(|| {
        result(plugin, about, request, &call)
            .unwrap_or_else(|error| Said::Failure(error.to_string()))
    }));
    let said = ran.unwrap_or_else(|panic| Said::Failure(panicked(panic.as_ref())));
    // Nobody listens any more, or somebody does.
    let _said = call.say(said);
}

fn result(
    plugin: &dyn Plugin,
    about: About,
    request: &ExecuteRequest,
    call: &Call,
) -> Result<Said, ToolError> {
    let arguments = serde_json::from_str(&request.arguments_json)?;
    if !plugin.tools().iter().any(|tool| tool.name == request.tool) {
        return Err(ToolError::unknown(&request.tool));
    }
    let context = Context::new(call, of(request, about));
    let text = plugin
        .call(&context, &request.tool, &arguments)?
        .to_string();
    if text.len() + FRAME > MESSAGE {
        let length = text.len();
        return Err(ToolError::new(format!(
            "the result has {length} bytes, and {MESSAGE} is the most"
        )));
    }
    Ok(Said::ResultJson(text))
}

/// What the plugin is, and what this call is part of.
fn of(request: &ExecuteRequest, about: About) -> About {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    About {
        action: request.action.clone(),
        session: some(&request.session),
        mode: some(&request.mode),
        ..about
    }
}

fn panicked(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    match text {
        Some(text) => format!("the tool panicked: {text}"),
        None => "the tool panicked".to_owned(),
    }
}

#[cfg(test)]
mod tests;

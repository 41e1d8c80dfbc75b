//! The conversation of one invocation, and what ends it.

use super::hands::KernelHands;
use super::output;
use super::tool::Invocation;
use crate::cancel;
use crate::sanitise::sanitise_line;
use crate::tools::ToolFailure;
use airlock_agent::{Agent as Loop, AgentError, Ended, Outcome as Finished, Setup, With};
use airlock_core::Span;
use airlock_definitions::Agent;
use airlock_model::{Cancel, Model, ModelError};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// How often a model may mend an answer that does not fit.
const MENDED: u32 = 2;
/// How often it is looked whether the agent is still wanted.
const LOOK: Duration = Duration::from_millis(20);

/// Why an agent was stopped.
#[derive(Debug, Clone, Copy)]
enum Stopped {
    /// The call that invoked it was taken back.
    TakenBack,
    /// Its time was up.
    Late(Span),
}

/// A failure that another try would not mend.
pub(super) fn refused(code: &'static str, what: String, fix: Option<String>) -> ToolFailure {
    ToolFailure::Agent {
        code,
        what,
        fix,
        retryable: false,
    }
}

/// Runs `work` until it ends, is no longer wanted, or takes longer than `limit`.
pub(super) fn watched(
    hands: &KernelHands<'_>,
    limit: Option<Span>,
    work: impl FnOnce(&Cancel) -> Result<Value, ToolFailure>,
) -> Result<Value, ToolFailure> {
    let unwanted = cancel::flag();
    let cancel = Cancel::new();
    let stopped = Mutex::new(None);
    let (done, ended) = mpsc::channel::<()>();
    let result = std::thread::scope(|scope| {
        let (cause, taken) = (&stopped, cancel.clone());
        scope.spawn(move || {
            let why = wait(&ended, &unwanted, limit);
            if let Some(why) = why {
                *cause.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                taken.cancel();
                hands.take_back();
            }
        });
        let result = work(&cancel);
        drop(done);
        result
    });
    let stopped = stopped.into_inner().unwrap_or_else(PoisonError::into_inner);
    match stopped {
        // What ended by itself before it was stopped is what came of it.
        None => result,
        Some(Stopped::TakenBack) => result.map_err(|_| ToolFailure::Cancelled),
        Some(Stopped::Late(limit)) => result.map_err(|_| {
            let what = format!("the agent took longer than the {limit} it has");
            refused("agent_timed_out", what, None)
        }),
    }
}

/// Waits for the end, or for a reason to bring it about.
fn wait(ended: &mpsc::Receiver<()>, unwanted: &AtomicBool, limit: Option<Span>) -> Option<Stopped> {
    let begun = Instant::now();
    while ended.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Timeout) {
        if unwanted.load(Ordering::SeqCst) {
            return Some(Stopped::TakenBack);
        }
        let over = limit.filter(|limit| begun.elapsed() > Duration::from_millis(limit.as_millis()));
        if let Some(limit) = over {
            return Some(Stopped::Late(limit));
        }
    }
    None
}

/// The conversation itself, until there is an answer as it should be.
pub(super) fn converse(
    setup: &Setup,
    asked: &Invocation,
    agent: &Agent,
    model: &dyn Model,
    hands: &KernelHands<'_>,
    cancel: &Cancel,
) -> Result<Value, ToolFailure> {
    let mut talk = Loop::new(setup, model);
    let mut message = asked.task.clone();
    let mut tries = 0;
    loop {
        let with = With {
            model,
            hands,
            watch: &mut |_| {},
            cancel,
        };
        let finished = talk.run(&message, with);
        let finished = finished.map_err(|error| broken(&agent.name, &error, hands))?;
        let text = answer(&agent.name, finished)?;
        let Some(schema) = &agent.output else {
            return Ok(Value::String(text));
        };
        match output::read(&text, schema) {
            Ok(value) => return Ok(value),
            Err(why) if tries < MENDED => {
                tries += 1;
                message = format!("Your answer does not fit: {why}. Answer with the JSON alone.");
            }
            Err(why) => {
                let what = format!("agent `{}` gave no answer that fits: {why}", agent.name);
                return Err(refused("output_invalid", what, None));
            }
        }
    }
}

/// What an agent said that is done; else why it is not.
fn answer(name: &str, finished: Finished) -> Result<String, ToolFailure> {
    let (code, why) = match finished.ended {
        Ended::Done => return Ok(finished.text),
        Ended::Cancelled => return Err(ToolFailure::Cancelled),
        Ended::Refused => ("agent_refused", "its model refused".to_owned()),
        Ended::Filtered => (
            "agent_filtered",
            "the provider cut its answer off for its content".to_owned(),
        ),
        Ended::Truncated => (
            "agent_truncated",
            "its answer took all the room there was, and is cut".to_owned(),
        ),
        Ended::TurnLimit { turns } => (
            "agent_budget",
            format!("it put all {turns} questions it may"),
        ),
        Ended::Repeated { tool, times, why } => (
            "agent_repeated",
            format!(
                "`{tool}` failed {times} times the same way: {}",
                sanitise_line(&why, 200)
            ),
        ),
    };
    let what = format!("agent `{name}` stopped: {why}");
    Err(refused(code, what, None))
}

/// Why a conversation could not go on.
fn broken(name: &str, error: &AgentError, hands: &KernelHands<'_>) -> ToolFailure {
    let refusal = hands
        .refusal
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    let code = match error {
        AgentError::NoLeave(_) => refusal.unwrap_or("denied"),
        AgentError::Model(ModelError::OverBudget(_)) => "model_budget",
        AgentError::Model(_) => "model_failed",
        AgentError::NoRoom { .. } => "model_window",
    };
    let retryable = match error {
        AgentError::Model(error) => error.is_passing(),
        AgentError::NoLeave(_) | AgentError::NoRoom { .. } => false,
    };
    ToolFailure::Agent {
        code,
        what: format!("agent `{name}` could not go on: {error}"),
        fix: error.hint(),
        retryable,
    }
}

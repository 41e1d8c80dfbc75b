//! `session.observe` and `session.recall`: what a session remembers.

use super::for_caller::{failure, unknown_session};
use super::sessions::{meant, time};
use super::summary::summary;
use super::{Desk, ForCaller, arguments, spec};
use crate::beneath::Root;
use crate::fronts::Front;
use crate::sanitise::Origin;
use crate::tools::{InvalidArguments, Keep, Prepared, Registry, Tool, ToolSchema, ToolSpec};
use airlock_core::{Caller, SessionId};
use airlock_sanitise::{Bound, Sanitiser};
use airlock_state::{Observation, Owner};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Longest text that is kept, in bytes.
const TEXT_BYTES: usize = 8 * 1024;
/// Longest origin that is kept, in characters.
const ORIGIN_CHARS: usize = 200;
/// Observations one recall gives at most.
const MOST: usize = 200;
/// Observations a recall gives that names no number.
const USUAL: usize = 20;

pub(super) fn register(registry: &mut Registry, desk: &Desk) {
    registry.add(Box::new(Observe(desk.clone())));
    registry.add(Box::new(Recall(desk.clone())));
}

/// Something to remember.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ObserveArguments {
    /// What to remember.
    text: String,
    /// Where it comes from: `user`, `tool:NAME`, `file:PATH` or `web:HOST`.
    origin: Option<String>,
    /// The session. Absent: the one the call belongs to.
    #[schemars(with = "Option<String>")]
    session: Option<SessionId>,
}

static OBSERVE: ToolSpec = spec(
    "session.observe",
    "Remember something for a session",
    ToolSchema::of::<ObserveArguments>(),
);

struct Observe(Desk);

/// An origin that somebody names. It is cleaned before it is read, not after: what is cleaned away
/// must not make another origin of it. What only looks like a placeholder is marked here, for nobody
/// does it later.
fn named(asked: &str) -> Result<Origin, InvalidArguments> {
    let sanitiser = Sanitiser::new();
    let clean = sanitiser.line(&sanitiser.text(asked).text, ORIGIN_CHARS);
    Origin::try_from(clean).map_err(|error| InvalidArguments {
        at: "origin".to_owned(),
        what: error.to_string(),
        fix: None,
    })
}

/// What the store keeps of an origin: only a person is `user`, and not what they run in a sandbox.
fn origin(caller: &Caller, asked: Option<Origin>) -> String {
    let person = caller.plugin.as_str() == Front::Cli.as_str() && caller.sandbox.is_none();
    match asked {
        Some(asked) if asked != Origin::User => asked.to_string(),
        Some(_) | None if person => Origin::User.to_string(),
        Some(_) | None => caller.plugin.to_string(),
    }
}

impl Tool for Observe {
    fn spec(&self) -> &'static ToolSpec {
        &OBSERVE
    }

    fn prepare(&self, value: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: ObserveArguments = arguments(value)?;
        let from = asked.origin.as_deref().map(named).transpose()?;
        let desk = self.0.clone();
        Ok(ForCaller::boxed(move |caller| {
            let id = meant(caller, asked.session.as_ref())?;
            // What is remembered is shown to models again: it is cleaned like any result.
            let sanitiser = desk.sanitiser(&id)?;
            let bound = Bound::bytes(Keep::Head, TEXT_BYTES);
            let clean = sanitiser.value(Value::String(asked.text), bound);
            let text = clean.value.as_str().unwrap_or_default();
            let origin = sanitiser.line(&origin(caller, from), ORIGIN_CHARS);
            let kept = desk
                .state()?
                .observe(&Owner::of(caller), &id, text, &origin, desk.clock.now())
                .map_err(|error| failure(&error))?;
            kept.as_ref().map(shown).ok_or_else(|| unknown_session(&id))
        }))
    }
}

fn shown(observation: &Observation) -> Value {
    json!({
        "id": observation.id,
        "text": observation.text,
        "origin": observation.origin,
        "at": time(observation.at),
    })
}

/// What to look for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RecallArguments {
    /// Words that must all be in it; case does not matter. Absent: the newest.
    #[serde(default)]
    query: String,
    /// Most observations; at most 200.
    limit: Option<usize>,
    /// Instead of the observations: how many there are, from when, and the newest of each origin.
    #[serde(default)]
    summary: bool,
    /// The session. Absent: the one the call belongs to.
    #[schemars(with = "Option<String>")]
    session: Option<SessionId>,
}

static RECALL: ToolSpec = spec(
    "session.recall",
    "Search what a session remembers",
    ToolSchema::of::<RecallArguments>(),
)
.reading();

struct Recall(Desk);

impl Tool for Recall {
    fn spec(&self) -> &'static ToolSpec {
        &RECALL
    }

    fn prepare(&self, value: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: RecallArguments = arguments(value)?;
        let desk = self.0.clone();
        Ok(ForCaller::boxed(move |caller| {
            let id = meant(caller, asked.session.as_ref())?;
            let limit = if asked.summary {
                usize::MAX
            } else {
                asked.limit.unwrap_or(USUAL).min(MOST)
            };
            let found = desk
                .state()?
                .recall(&Owner::of(caller), &id, &asked.query, limit)
                .map_err(|error| failure(&error))?
                .ok_or_else(|| unknown_session(&id))?;
            if asked.summary {
                return Ok(summary(&found));
            }
            let found: Vec<Value> = found.iter().map(shown).collect();
            Ok(json!({ "observations": found }))
        }))
    }
}

//! `session.*`: begin, list, show, resume, cancel and archive sessions, each for its owner.

use super::for_caller::{failure, unknown_session};
use super::{Desk, ForCaller, arguments, spec};
use crate::beneath::Root;
use crate::fronts::Front;
use crate::tools::{InvalidArguments, Prepared, Registry, Tool, ToolFailure, ToolSchema, ToolSpec};
use airlock_core::{Caller, Mode, SessionId, Span};
use airlock_sandbox::stage::StageName;
use airlock_state::{Budget, NewSession, Owner, Session, SessionState};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Longest title that is looked at; the store takes no such long one.
const TITLE_CHARS: usize = 2_000;

/// The stage of a session whose creator names none.
const STAGE: &str = "default";

pub(super) fn register(registry: &mut Registry, desk: &Desk) {
    registry.add(Box::new(Create(desk.clone())));
    registry.add(Box::new(List(desk.clone())));
    registry.add(Box::new(Show(desk.clone())));
    for change in [&RESUME, &CANCEL, &ARCHIVE] {
        registry.add(Box::new(Turn {
            desk: desk.clone(),
            change,
        }));
    }
}

/// What a session may do by itself.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BudgetArguments {
    /// Tool calls a turn.
    calls: Option<u64>,
    /// Turns.
    turns: Option<u64>,
    /// Model tokens.
    tokens: Option<u64>,
    /// Cost, in millionths of the currency it is kept in.
    cost_micros: Option<u64>,
    /// Minutes at work.
    minutes: Option<u32>,
}

impl BudgetArguments {
    fn budget(self, caller: &Caller) -> Budget {
        let asked = Budget {
            calls: self.calls,
            turns: self.turns,
            tokens: self.tokens,
            cost_micros: self.cost_micros,
            time: self
                .minutes
                .map(|minutes| Span::from_secs(u64::from(minutes) * 60)),
        };
        // Only the agent's own loop begins turns.
        let usual = if caller.plugin.as_str() == Front::Mcp.as_str() {
            Budget::WITHOUT_TURNS
        } else {
            Budget::USUAL
        };
        if caller.plugin.as_str() == Front::Cli.as_str() {
            return Budget {
                calls: asked.calls.or(usual.calls),
                turns: asked.turns.or(usual.turns),
                time: asked.time.or(usual.time),
                ..asked
            };
        }
        // Whoever is to be held to a budget does not get to raise it.
        Budget {
            calls: least(asked.calls, usual.calls),
            turns: least(asked.turns, usual.turns),
            tokens: least(asked.tokens, usual.tokens),
            cost_micros: least(asked.cost_micros, usual.cost_micros),
            time: least(asked.time, usual.time),
        }
    }
}

fn least<T: Ord>(asked: Option<T>, usual: Option<T>) -> Option<T> {
    match (asked, usual) {
        (Some(asked), Some(usual)) => Some(asked.min(usual)),
        (asked, usual) => asked.or(usual),
    }
}

/// A new session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateArguments {
    /// What it is about, in a line.
    title: Option<String>,
    /// `strict`, `explore` or `debug`. Absent: what the policy says.
    #[schemars(with = "Option<String>")]
    mode: Option<Mode>,
    /// The stage its writes go to. Absent: `default`.
    stage: Option<String>,
    /// What it may do by itself; only a person can ask for more than usual.
    #[serde(default)]
    budget: BudgetArguments,
}

static CREATE: ToolSpec = spec(
    "session.create",
    "Begin a session",
    ToolSchema::of::<CreateArguments>(),
);

struct Create(Desk);

impl Tool for Create {
    fn spec(&self) -> &'static ToolSpec {
        &CREATE
    }

    fn prepare(&self, value: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: CreateArguments = arguments(value)?;
        if let Some(stage) = &asked.stage {
            StageName::new(stage).map_err(|error| InvalidArguments {
                at: "stage".to_owned(),
                what: error.to_string(),
                fix: Some(error.hint().to_owned()),
            })?;
        }
        let desk = self.0.clone();
        Ok(ForCaller::boxed(move |caller| create(&desk, asked, caller)))
    }
}

fn create(desk: &Desk, asked: CreateArguments, caller: &Caller) -> Result<Value, ToolFailure> {
    // Else a session whose budget is used up would only have to begin another.
    if caller.session.is_some() && caller.plugin.as_str() != Front::Cli.as_str() {
        return Err(ToolFailure::Stored {
            code: "session_nested",
            what: "a session cannot begin another".to_owned(),
            fix: Some("let whoever began this one begin the other".to_owned()),
            retryable: false,
        });
    }
    let id = uuid::Uuid::now_v7().to_string();
    let id = SessionId::new(&id).map_err(|_| ToolFailure::Cancelled)?;
    let policy = desk.store.current();
    let sanitiser = desk.sanitiser(&id)?;
    let title = asked.title.map(|title| sanitiser.line(&title, TITLE_CHARS));
    let new = NewSession {
        id,
        owner: Owner::of(caller),
        workspace: caller.workspace.clone(),
        title,
        agent: None,
        parent: None,
        disciplined: asked.mode.is_some() || policy.policy().document().phases.every_session,
        mode: asked
            .mode
            .unwrap_or_else(|| policy.policy().document().phases.mode),
        stage: asked.stage.unwrap_or_else(|| STAGE.to_owned()),
        budget: asked.budget.budget(caller),
    };
    let session = desk
        .state()?
        .create_session(new, desk.clock.now())
        .map_err(|error| failure(&error))?;
    Ok(shown(&session))
}

/// A session as it is shown.
pub(super) fn shown(session: &Session) -> Value {
    let mut value = json!({
        "id": session.id,
        "state": session.state,
        "title": session.title,
        "owner": session.owner,
        "workspace": session.workspace,
        "mode": session.mode,
        "phase": session.phase,
        "disciplined": session.progress.is_some(),
        "stage": session.stage,
        "budget": session.budget,
        "used": session.used,
        "exceeded": session.exceeded(),
        "tools": session.tools,
        "created": time(session.created),
        "updated": time(session.updated),
    });
    if let Some(fields) = value.as_object_mut() {
        let agent = session.agent.as_ref().map(|agent| ("agent", json!(agent)));
        let parent = session.parent.as_ref();
        let parent = parent.map(|parent| ("parent", json!(parent)));
        let known = [agent, parent].into_iter().flatten();
        fields.extend(known.map(|(name, value)| (name.to_owned(), value)));
    }
    value
}

/// A time as people and programs read it.
pub(super) fn time(at: airlock_core::Timestamp) -> Value {
    jiff::Timestamp::from_microsecond(at.as_micros())
        .map_or(Value::Null, |at| json!(at.to_string()))
}

/// Which sessions.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    /// Whether archived ones are wanted, too.
    #[serde(default)]
    archived: bool,
}

static LIST: ToolSpec = spec(
    "session.list",
    "List sessions",
    ToolSchema::of::<ListArguments>(),
)
.reading();

struct List(Desk);

impl Tool for List {
    fn spec(&self) -> &'static ToolSpec {
        &LIST
    }

    fn prepare(&self, value: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let ListArguments { archived } = arguments(value)?;
        let desk = self.0.clone();
        Ok(ForCaller::boxed(move |caller| {
            let found = desk
                .state()?
                .sessions(&Owner::of(caller), archived)
                .map_err(|error| failure(&error))?;
            let mine = found
                .iter()
                .filter(|session| reachable(caller, &session.id));
            let all: Vec<Value> = mine.map(in_short).collect();
            let more = all.len().saturating_sub(LISTED);
            let first: Vec<Value> = all.into_iter().take(LISTED).collect();
            Ok(json!({ "sessions": first, "more": more }))
        }))
    }
}

/// Sessions in a list; a result has to fit into what a call may return.
const LISTED: usize = 50;

fn in_short(session: &Session) -> Value {
    json!({
        "id": session.id,
        "state": session.state,
        "title": session.title,
        "mode": session.mode,
        "phase": session.phase,
        "disciplined": session.progress.is_some(),
        "stage": session.stage,
        "calls": session.used.total_calls,
        "updated": time(session.updated),
    })
}

/// Whether `caller` is the person at the command line.
pub(crate) fn is_person(caller: &Caller) -> bool {
    caller.plugin.as_str() == Front::Cli.as_str()
}

/// Whether `caller` may have to do with the session `id` of its owner: who acts in a session knows
/// of that one alone, unless it is the person.
pub(super) fn reachable(caller: &Caller, id: &SessionId) -> bool {
    is_person(caller) || caller.session.as_ref().is_none_or(|own| own == id)
}

/// The session meant, which must be one `caller` may have to do with.
pub(crate) fn meant(caller: &Caller, asked: Option<&SessionId>) -> Result<SessionId, ToolFailure> {
    let Some(id) = asked.or(caller.session.as_ref()) else {
        return Err(ToolFailure::Stored {
            code: "no_session",
            what: "the call names no session and belongs to none".to_owned(),
            fix: Some("name it as `session`".to_owned()),
            retryable: false,
        });
    };
    if reachable(caller, id) {
        Ok(id.clone())
    } else {
        Err(unknown_session(id))
    }
}

/// Which session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneArguments {
    /// The session. Absent: the one the call belongs to.
    #[schemars(with = "Option<String>")]
    session: Option<SessionId>,
}

static SHOW: ToolSpec = spec(
    "session.show",
    "Show a session",
    ToolSchema::of::<OneArguments>(),
)
.reading();

struct Show(Desk);

impl Tool for Show {
    fn spec(&self) -> &'static ToolSpec {
        &SHOW
    }

    fn prepare(&self, value: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let OneArguments { session } = arguments(value)?;
        let desk = self.0.clone();
        Ok(ForCaller::boxed(move |caller| {
            let id = meant(caller, session.as_ref())?;
            let found = desk.state()?.session(&Owner::of(caller), &id);
            let found = found.map_err(|error| failure(&error))?;
            found
                .as_ref()
                .map(shown)
                .ok_or_else(|| unknown_session(&id))
        }))
    }
}

/// A way to put a session into another state.
struct TurnSpec {
    spec: ToolSpec,
    to: SessionState,
}

static RESUME: TurnSpec = TurnSpec {
    spec: spec(
        "session.resume",
        "Resume a session",
        ToolSchema::of::<OneArguments>(),
    ),
    to: SessionState::Active,
};
static CANCEL: TurnSpec = TurnSpec {
    spec: spec(
        "session.cancel",
        "End a session for good",
        ToolSchema::of::<OneArguments>(),
    ),
    to: SessionState::Cancelled,
};
static ARCHIVE: TurnSpec = TurnSpec {
    spec: spec(
        "session.archive",
        "Put a session away",
        ToolSchema::of::<OneArguments>(),
    ),
    to: SessionState::Archived,
};

/// Whether `caller` puts the session away that it works in itself. Whoever does so is gone, as an MCP
/// client is; a session that somebody else put away can be gone on in, by an agent for one.
fn leaves(caller: &Caller, id: &SessionId) -> bool {
    !is_person(caller) && caller.session.as_ref() == Some(id)
}

struct Turn {
    desk: Desk,
    change: &'static TurnSpec,
}

impl Tool for Turn {
    fn spec(&self) -> &'static ToolSpec {
        &self.change.spec
    }

    fn prepare(&self, value: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let OneArguments { session } = arguments(value)?;
        let (desk, to) = (self.desk.clone(), self.change.to);
        Ok(ForCaller::boxed(move |caller| {
            let id = meant(caller, session.as_ref())?;
            let state = desk.state()?;
            let (owner, now) = (Owner::of(caller), desk.clock.now());
            let put = if to == SessionState::Archived && leaves(caller, &id) {
                state.leave_session(&owner, &id, now)
            } else {
                state.set_session_state(&owner, &id, to, now)
            };
            let put = put.map_err(|error| failure(&error))?;
            if to != SessionState::Active && put.is_some() {
                desk.hold.session_ended();
            }
            put.as_ref().map(shown).ok_or_else(|| unknown_session(&id))
        }))
    }
}

//! `approval.*`: what waits for an answer, answering it, and taking an answer back. For a person.

use super::for_caller::failure;
use super::sessions::time;
use super::{Desk, ForCaller, arguments, spec};
use crate::asking::stage_digest;
use crate::beneath::Root;
use crate::fronts::Front;
use crate::process::StageHold;
use crate::tools::{InvalidArguments, Prepared, Registry, Tool, ToolFailure, ToolSchema, ToolSpec};
use airlock_core::{Caller, Digest, Timestamp};
use airlock_policy::Generation;
use airlock_policy::approval::{
    Answer, AnswerError, Answerer, ApprovalId, ApprovalRequest, Binding, Channel, Condition, Gate,
    Grant, Reply, RiskFactor,
};
use airlock_state::{
    AnswerStateError, Approval, ApprovalStanding, ApprovalStatus, Listing, Owner, Page, State,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(super) fn register(registry: &mut Registry, desk: &Desk) {
    registry.add(Box::new(Read(desk.clone())));
    registry.add(Box::new(Decide(desk.clone())));
    registry.add(Box::new(Revoke(desk.clone())));
}

/// Which questions and grants.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    /// One of them; the end of its name is enough where it fits only one. Absent: a list.
    approval: Option<String>,
    /// Only those of the list that stand so. Absent: all, those that wait first.
    status: Option<Standing>,
    /// The list goes on after this one: the last of the page before.
    after: Option<String>,
}

/// How questions stand, as they are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Standing {
    /// They wait for an answer.
    Open,
    /// They were approved, and can still be used.
    Granted,
    /// They were denied, used up or withdrawn, or are over: by their time, with their session, or
    /// under another policy.
    Closed,
}

impl From<Standing> for ApprovalStanding {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Open => Self::Open,
            Standing::Granted => Self::Granted,
            Standing::Closed => Self::Closed,
        }
    }
}

static READ: ToolSpec = spec(
    "approval.read",
    "Look at approval requests and grants",
    ToolSchema::of::<ReadArguments>(),
)
.reading();

struct Read(Desk);

impl Tool for Read {
    fn spec(&self) -> &'static ToolSpec {
        &READ
    }

    fn open_to(&self, front: Front) -> bool {
        front == Front::Cli
    }

    fn prepare(&self, value: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: ReadArguments = arguments(value)?;
        let desk = self.0.clone();
        Ok(ForCaller::boxed(move |caller| {
            let now = desk.clock.now();
            let state = desk.state()?;
            let owner = Owner::of(caller);
            let policy = desk.store.current().generation();
            let Some(wanted) = &asked.approval else {
                return listed(&state, &owner, &asked, policy, now);
            };
            let id = one_of(&state, &owner, wanted)?;
            let proven = state.approval(&owner, &id);
            match proven.map_err(|error| failure(&error))? {
                Some(proven) => Ok(shown(&proven, policy, now)),
                None => Err(unproven(&id)),
            }
        }))
    }
}

/// Questions in a page; a result has to fit into what a call may return.
const LISTED: usize = 40;

/// A page of the questions in short: those that wait first, then those that grant, then the others,
/// and the newest of each first.
fn listed(
    state: &State,
    owner: &Owner,
    asked: &ReadArguments,
    policy: Generation,
    now: Timestamp,
) -> Result<Value, ToolFailure> {
    let after = asked.after.as_deref();
    let after = after.map(|name| one_of(state, owner, name)).transpose()?;
    let listing = Listing {
        standing: asked.status.map(ApprovalStanding::from),
        after: after.as_ref(),
        policy,
        now,
        most: LISTED,
    };
    let page = state.approvals(owner, &listing);
    let page = page.map_err(|error| failure(&error))?;
    let Some(Page { approvals, more }) = page else {
        return Err(unknown(asked.after.as_deref().unwrap_or_default()));
    };
    let short = approvals.iter();
    let short: Vec<Value> = short
        .map(|approval| in_short(approval, policy, now))
        .collect();
    Ok(json!({ "approvals": short, "more": more }))
}

fn in_short(approval: &Approval, policy: Generation, now: Timestamp) -> Value {
    let request = &approval.request;
    let asker = &request.action.asker;
    let grant = approval.grant.as_ref();
    json!({
        "id": request.id,
        "status": approval.status_under(policy, now).as_str(),
        "gate": request.gate,
        "risk": request.risk.level,
        "syscall": request.action.syscall,
        "what": what(approval),
        "plugin": asker.plugin,
        "session": asker.session,
        "expires": time(grant.map_or(request.expires, |grant| grant.expires)),
        "uses_left": grant.map(|grant| grant.uses_left),
    })
}

/// What the action is about, in a line.
fn what(approval: &Approval) -> String {
    let action = &approval.request.action;
    let words: Vec<String> = if action.command.is_empty() {
        let paths = action.paths.iter().map(|path| path.as_str().to_owned());
        let host = action.host.iter().map(ToString::to_string);
        let secret = action.secret.iter().map(ToString::to_string);
        paths.chain(host).chain(secret).collect()
    } else {
        action.command.iter().map(ToString::to_string).collect()
    };
    crate::sanitise::sanitise_line(&words.join(" "), 100)
}

/// The one question whose name is, or ends with, `wanted`.
fn one_of(state: &State, owner: &Owner, wanted: &str) -> Result<ApprovalId, ToolFailure> {
    // The end of a name tells questions apart that were asked in one moment; its beginning does not.
    let fitting = state.approval_names(owner, wanted);
    let fitting = fitting.map_err(|error| failure(&error))?;
    if let Some(exact) = fitting.iter().find(|id| id.to_string() == wanted) {
        return Ok(exact.clone());
    }
    match fitting.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(unknown(wanted)),
        [_, _, ..] => Err(ToolFailure::Stored {
            code: "ambiguous_approval",
            what: format!(
                "`{}` is the end of {} approval requests",
                crate::sanitise::sanitise_line(wanted, 60),
                fitting.len()
            ),
            fix: Some("give more of its name".to_owned()),
            retryable: false,
        }),
    }
}

fn unknown(name: &str) -> ToolFailure {
    let name = crate::sanitise::sanitise_line(name, 60);
    ToolFailure::Stored {
        code: "unknown_approval",
        what: format!("there is no approval request `{name}`"),
        fix: Some("`airlock approvals list` shows what there is".to_owned()),
        retryable: false,
    }
}

fn unproven(id: &ApprovalId) -> ToolFailure {
    ToolFailure::Stored {
        code: "state_unproven",
        what: AnswerStateError::Unproven(id.clone()).to_string(),
        fix: Some("let the action be asked for again".to_owned()),
        retryable: false,
    }
}

/// A question as it is shown, with how it stands at `now` while `policy` is in force.
fn shown(approval: &Approval, policy: Generation, now: Timestamp) -> Value {
    let request = &approval.request;
    let status = approval.status_under(policy, now);
    let answered = request.answered.as_ref().map(|answered| {
        json!({
            "answer": answered.answer.reply,
            "because": answered.answer.rationale,
            "by": answered.answer.answered_by,
            "channel": answered.answer.channel.to_string(),
            "at": time(answered.at),
        })
    });
    json!({
        "id": request.id,
        "status": status.as_str(),
        "gate": request.gate,
        "raised_by": raised_by(request),
        "risk": request.risk,
        "action": request.action,
        "shown": request.binding.action,
        "why": request.why,
        "stage": approval.stage,
        "budget_left": request.budget_left,
        "related": request.related,
        "asked": time(request.created),
        "expires": time(request.expires),
        "answered": answered,
        "grant": approval.grant.as_ref().map(|grant| grant_shown(grant, status)),
    })
}

/// What raised the question. AG-04 is also the gate of whatever a rule wants a person to see.
fn raised_by(request: &ApprovalRequest) -> &'static str {
    let sensitive = request.risk.factors.iter().any(|factor| {
        matches!(
            factor,
            RiskFactor::SensitivePath | RiskFactor::OutsideWorkspace
        )
    });
    match request.gate {
        Gate::SensitiveWrite if !sensitive => "a rule asks for review",
        gate @ (Gate::FirstUse
        | Gate::Budget
        | Gate::Host
        | Gate::SensitiveWrite
        | Gate::Elevated) => gate.title(),
    }
}

fn grant_shown(grant: &Grant, status: ApprovalStatus) -> Value {
    json!({
        "live": status == ApprovalStatus::Granted,
        "uses_left": grant.uses_left,
        "conditions": grant.conditions,
        "given": time(grant.given),
        "expires": time(grant.expires),
        "revoked": grant.revoked,
    })
}

/// An answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DecideArguments {
    /// The question.
    #[schemars(with = "String")]
    approval: ApprovalId,
    /// `approve`, `deny` or `defer`.
    #[schemars(with = "String")]
    answer: Reply,
    /// Bounds of an approval. None: this very action, once.
    #[serde(default)]
    #[schemars(with = "Vec<Value>")]
    conditions: Vec<Condition>,
    /// Why.
    because: Option<String>,
    /// The digest of the action that was shown.
    #[schemars(with = "Option<String>")]
    shown: Option<Digest>,
    /// The way it came. Absent: `terminal`.
    #[serde(default)]
    through: Through,
}

/// The ways a person's answer comes. Only the kernel calls this syscall, so it names them truly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Through {
    /// A terminal.
    #[default]
    Terminal,
    /// A question put through an MCP client.
    McpElicitation,
}

impl From<Through> for Channel {
    fn from(through: Through) -> Self {
        match through {
            Through::Terminal => Self::Terminal,
            Through::McpElicitation => Self::McpElicitation,
        }
    }
}

static DECIDE: ToolSpec = spec(
    "approval.decide",
    "Answer an approval request",
    ToolSchema::of::<DecideArguments>(),
);

struct Decide(Desk);

impl Tool for Decide {
    fn spec(&self) -> &'static ToolSpec {
        &DECIDE
    }

    fn open_to(&self, front: Front) -> bool {
        front == Front::Cli
    }

    fn needs_person(&self) -> bool {
        true
    }

    fn prepare(&self, value: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: DecideArguments = arguments(value)?;
        let desk = self.0.clone();
        Ok(ForCaller::boxed(move |caller| decide(&desk, asked, caller)))
    }
}

fn decide(desk: &Desk, asked: DecideArguments, caller: &Caller) -> Result<Value, ToolFailure> {
    let now = desk.clock.now();
    let owner = Owner::of(caller);
    let state = desk.state()?;
    let policy = desk.store.current();
    let place = state
        .approval(&owner, &asked.approval)
        .map_err(|error| failure(&error))?
        .and_then(|approval| approval.stage);
    let staged = place.and_then(|name| stage_digest(&StageHold(desk.store.workspace()), &name));
    let answer = Answer {
        reply: asked.answer,
        conditions: asked.conditions,
        rationale: asked
            .because
            .map(|text| crate::sanitise::sanitise_line(&text, 2_000).into()),
        answered_by: Answerer::Person(caller.user.clone()),
        channel: asked.through.into(),
    };
    let answered = state.answer(&owner, &asked.approval, now, |request| {
        let current = Binding {
            action: asked.shown.unwrap_or(request.binding.action),
            generation: policy.generation(),
            stage: staged,
        };
        if asked.through == Through::McpElicitation && request.is_of_a_rule() {
            return Err(AnswerError::Never {
                gate: request.gate,
                channel: Channel::McpElicitation,
            });
        }
        request.answer(answer, &policy.answer_rules(), &current, now)
    });
    match answered {
        Ok(approval) => {
            let action = &approval.request.action;
            if let (Reply::Deny, "session.set_mode", Some(session)) =
                (asked.answer, action.syscall.name(), &action.asker.session)
            {
                desk.mode_refused(&owner, session);
            }
            Ok(shown(&approval, policy.generation(), now))
        }
        Err(AnswerStateError::State(error)) => Err(failure(&error)),
        Err(AnswerStateError::Unknown(id)) => Err(unknown(&id.to_string())),
        Err(AnswerStateError::Unproven(id)) => Err(unproven(&id)),
        Err(error @ AnswerStateError::Ended(_)) => Err(ToolFailure::Stored {
            code: "answer_refused",
            what: error.to_string(),
            fix: Some("`airlock approvals list` shows what still waits".to_owned()),
            retryable: false,
        }),
        Err(AnswerStateError::Answer(error)) => Err(ToolFailure::Stored {
            code: "answer_refused",
            what: error.to_string(),
            fix: error.hint().map(str::to_owned),
            retryable: false,
        }),
    }
}

/// Which grant.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RevokeArguments {
    /// The approval that gave it; the end of its name is enough where it fits only one.
    approval: String,
}

static REVOKE: ToolSpec = spec(
    "approval.revoke",
    "Withdraw a grant",
    ToolSchema::of::<RevokeArguments>(),
);

struct Revoke(Desk);

impl Tool for Revoke {
    fn spec(&self) -> &'static ToolSpec {
        &REVOKE
    }

    fn open_to(&self, front: Front) -> bool {
        front == Front::Cli
    }

    fn prepare(&self, value: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let RevokeArguments { approval } = arguments(value)?;
        let desk = self.0.clone();
        Ok(ForCaller::boxed(move |caller| {
            let owner = Owner::of(caller);
            let state = desk.state()?;
            let id = one_of(&state, &owner, &approval)?;
            let revoked = state
                .revoke(&owner, &id, desk.clock.now())
                .map_err(|error| failure(&error))?;
            if revoked {
                return Ok(json!({ "id": id, "revoked": true }));
            }
            Err(ToolFailure::Stored {
                code: "no_grant",
                what: format!("`{id}` left no grant, or it was withdrawn before"),
                fix: Some("`airlock approvals grants` shows what can be withdrawn".to_owned()),
                retryable: false,
            })
        }))
    }
}

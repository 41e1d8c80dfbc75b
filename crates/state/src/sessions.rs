//! Sessions: one conversation or job in a workspace, with an owner, a mode and a budget.
//!
//! Guarantee: every operation names the owner, and a session of another owner is not there.

use crate::change::Change;
use crate::ending::end_asked;
use crate::error::StateError;
use crate::fact::{Fact, Kind};
use crate::store::{Durable, State};
use airlock_core::{
    Caller, Mode, Phase, SessionId, Span, TenantId, Timestamp, UserId, WorkspaceId,
};
use airlock_phases::{Ledger, Progress};
use airlock_policy::approval::BudgetLeft;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// Sessions of one owner that are not archived.
const SESSIONS: usize = 1_000;
/// Longest title, in characters.
const TITLE: usize = 200;
/// Tools whose use is remembered; there are far fewer.
const TOOLS: usize = 1_000;
/// After this long without a change a session is archived.
pub(crate) const ARCHIVED_AFTER: Span = Span::from_secs(30 * 24 * 3_600);
/// A pause longer than this counts as this long: wall time is for work, not for the night.
const LONGEST_PAUSE: i64 = 10 * 60 * 1_000_000;

/// Whose something is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Tenant.
    pub tenant: TenantId,
    /// Person or service account.
    pub user: UserId,
}

impl Owner {
    /// For whom `caller` acts.
    pub fn of(caller: &Caller) -> Self {
        Self {
            tenant: caller.tenant.clone(),
            user: caller.user.clone(),
        }
    }
}

impl fmt::Display for Owner {
    /// Neither part can hold a slash.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.user)
    }
}

/// Whether a session can be worked in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// It can.
    Active,
    /// Ended for good.
    Cancelled,
    /// Put away; it can be resumed.
    Archived,
}

impl SessionState {
    /// The word used in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Cancelled => "cancelled",
            Self::Archived => "archived",
        }
    }
}

impl fmt::Display for SessionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a session may do by itself; none: not limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Tool calls a turn.
    pub calls: Option<u64>,
    /// Turns.
    pub turns: Option<u64>,
    /// Model tokens.
    pub tokens: Option<u64>,
    /// Cost, in millionths of the currency the budget is kept in.
    pub cost_micros: Option<u64>,
    /// Wall time at work.
    pub time: Option<Span>,
}

impl Budget {
    /// What a session has whose creator names nothing.
    pub const USUAL: Self = Self {
        calls: Some(100),
        turns: Some(100),
        tokens: None,
        cost_micros: None,
        time: Some(Span::from_secs(8 * 3_600)),
    };

    /// The same for a client that nobody drives in turns: the calls of the whole session count.
    pub const WITHOUT_TURNS: Self = Self {
        calls: Some(1_000),
        ..Self::USUAL
    };
}

/// What a session spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// Tool calls in this turn.
    pub calls: u64,
    /// Tool calls in all.
    pub total_calls: u64,
    /// Turns.
    pub turns: u64,
    /// Model tokens.
    pub tokens: u64,
    /// Cost, in millionths.
    pub cost_micros: u64,
    /// Wall time at work, in microseconds: pauses count ten minutes at most.
    pub time_micros: u64,
}

/// One amount that is spent. A turn begins the count of its calls anew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Whether an agent that works for the session spent it: its turns count, and begin no turn of
    /// the session's own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_child: bool,
    /// Tool calls.
    pub calls: u64,
    /// Turns.
    pub turns: u64,
    /// Model tokens.
    pub tokens: u64,
    /// Cost, in millionths.
    pub cost_micros: u64,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its name.
    pub id: SessionId,
    /// Whose it is.
    pub owner: Owner,
    /// Where it works.
    pub workspace: WorkspaceId,
    /// What it is about.
    pub title: Option<String>,
    /// The agent whose session it is, where it is one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The session it works for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// How strictly it is held to the test-first discipline.
    pub mode: Mode,
    /// Where it stands in it.
    pub phase: Phase,
    /// What it has to show of that; none: it is not held to the discipline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Box<Progress>>,
    /// Whether it can be worked in.
    pub state: SessionState,
    /// The stage its writes go to.
    pub stage: String,
    /// What it may do by itself.
    pub budget: Budget,
    /// What it did.
    pub used: Used,
    /// The tools it used.
    pub tools: BTreeSet<String>,
    /// When it began.
    pub created: Timestamp,
    /// When it last changed.
    pub updated: Timestamp,
}

impl Session {
    /// What is left of its budget.
    pub fn left(&self) -> BudgetLeft {
        let left = |most: Option<u64>, used: u64| most.map(|most| most.saturating_sub(used));
        let spent = Span::from_millis(self.used.time_micros / 1_000);
        BudgetLeft {
            calls: left(self.budget.calls, self.used.calls),
            turns: left(self.budget.turns, self.used.turns),
            tokens: left(self.budget.tokens, self.used.tokens),
            cost_micros: left(self.budget.cost_micros, self.used.cost_micros),
            time: self
                .budget
                .time
                .map(|most| Span::from_millis(most.as_millis().saturating_sub(spent.as_millis()))),
        }
    }

    /// What one more call would go beyond, in words; none: the budget covers it.
    pub fn exceeded(&self) -> Option<&'static str> {
        let spent = |left: Option<u64>| left == Some(0);
        let left = self.left();
        // Turns and time are gone when more than all is used: the last turn may be worked in.
        let over_turns = self.budget.turns.is_some_and(|most| self.used.turns > most);
        [
            (spent(left.calls), "the tool calls of this turn are used up"),
            (over_turns, "the turns of this session are used up"),
            (spent(left.tokens), "the tokens of this session are used up"),
            (
                spent(left.cost_micros),
                "the cost of this session is used up",
            ),
            (
                left.time.is_some_and(|left| left.as_millis() == 0),
                "the time of this session is used up",
            ),
        ]
        .into_iter()
        .find_map(|(over, what)| over.then_some(what))
    }

    /// What one more question to a model would go beyond, in words, if it takes `tokens` and costs
    /// `cost_micros` without its answer; none: the budget covers it.
    pub fn exceeded_by_question(&self, tokens: u64, cost_micros: u64) -> Option<String> {
        let left = self.left();
        let used_up = |what: &str| Some(format!("the {what} of this session are used up"));
        // A question begins a turn, and an answer takes something, too.
        if left.turns == Some(0) {
            return used_up("turns");
        }
        match left.tokens {
            Some(0) => return used_up("tokens"),
            Some(left) if tokens >= left => {
                let what = format!("the question takes {tokens} tokens, and {left} are left");
                return Some(what);
            }
            Some(_) | None => {}
        }
        match left.cost_micros {
            Some(0) => return Some("the cost of this session is used up".to_owned()),
            Some(left) if cost_micros >= left => {
                return Some(format!(
                    "the question costs {cost_micros} millionths, and {left} are left"
                ));
            }
            Some(_) | None => {}
        }
        let over = left.time.is_some_and(|left| left.as_millis() == 0);
        over.then(|| "the time of this session is used up".to_owned())
    }

    /// Counts what was spent at `now`.
    pub(crate) fn spend(&mut self, spent: Spent, tool: Option<&str>, now: Timestamp) {
        let pause = now
            .as_micros()
            .saturating_sub(self.updated.as_micros())
            .clamp(0, LONGEST_PAUSE);
        let used = &mut self.used;
        used.time_micros = used.time_micros.saturating_add(pause.unsigned_abs());
        if spent.turns > 0 {
            used.turns = used.turns.saturating_add(spent.turns);
            if !spent.by_child {
                used.calls = 0;
            }
        }
        used.calls = used.calls.saturating_add(spent.calls);
        used.total_calls = used.total_calls.saturating_add(spent.calls);
        used.tokens = used.tokens.saturating_add(spent.tokens);
        used.cost_micros = used.cost_micros.saturating_add(spent.cost_micros);
        if let Some(tool) = tool
            && self.tools.len() < TOOLS
        {
            self.tools.insert(tool.to_owned());
        }
    }
}

/// A session to be begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    /// Its name.
    pub id: SessionId,
    /// Whose it is.
    pub owner: Owner,
    /// Where it works.
    pub workspace: WorkspaceId,
    /// What it is about.
    pub title: Option<String>,
    /// The agent whose session it is, where it is one's.
    pub agent: Option<String>,
    /// The session it works for.
    pub parent: Option<SessionId>,
    /// Its mode.
    pub mode: Mode,
    /// Whether it is held to the test-first discipline.
    pub disciplined: bool,
    /// The stage its writes go to.
    pub stage: String,
    /// Its budget.
    pub budget: Budget,
}

impl State {
    /// Begins a session.
    pub fn create_session(&self, new: NewSession, now: Timestamp) -> Result<Session, StateError> {
        if new
            .title
            .as_ref()
            .is_some_and(|title| title.chars().count() > TITLE)
        {
            return Err(StateError::Limit {
                what: "the title is too long, in characters",
                most: TITLE,
            });
        }
        let session = Session {
            id: new.id,
            owner: new.owner,
            workspace: new.workspace,
            title: new.title,
            agent: new.agent,
            parent: new.parent,
            mode: new.mode,
            phase: Phase::Idle,
            progress: new.disciplined.then(Box::default),
            state: SessionState::Active,
            stage: new.stage,
            budget: new.budget,
            used: Used::default(),
            tools: BTreeSet::new(),
            created: now,
            updated: now,
        };
        self.write(Durable::Disk, |writer| {
            if writer.find(Kind::Session, session.id.as_str())?.is_some() {
                return Err(StateError::Unfit("there is a session of that name"));
            }
            let owner = session.owner.to_string();
            if writer.count_active_sessions(&owner)? >= SESSIONS {
                return Err(StateError::Limit {
                    what: "too many sessions that are not archived",
                    most: SESSIONS,
                });
            }
            let session = Box::new(session.clone());
            writer.append(&Change::SessionCreated { session }, now)
        })?;
        Ok(session)
    }

    /// The session `id` of `owner`, as its events prove it: what was written into its row without
    /// one does not count.
    pub fn session(&self, owner: &Owner, id: &SessionId) -> Result<Option<Session>, StateError> {
        Ok(own(self.proven(Kind::Session, id.as_str())?, owner))
    }

    /// Every session of `owner`, newest change first; archived ones where `archived` says so.
    pub fn sessions(&self, owner: &Owner, archived: bool) -> Result<Vec<Session>, StateError> {
        let mut found: Vec<Session> = self.read(|reader| {
            let facts = reader.owned(Kind::Session, &owner.to_string())?;
            Ok(facts.into_iter().filter_map(Fact::session).collect())
        })?;
        found.retain(|session| archived || session.state != SessionState::Archived);
        found.sort_by(|a, b| b.updated.cmp(&a.updated).then(a.id.cmp(&b.id)));
        Ok(found)
    }

    /// Puts the session `id` of `owner` into `state`; none if there is none. A cancelled session
    /// stays cancelled: once put away it could be resumed. What it asked and was granted ends with it.
    pub fn set_session_state(
        &self,
        owner: &Owner,
        id: &SessionId,
        state: SessionState,
        now: Timestamp,
    ) -> Result<Option<Session>, StateError> {
        self.change_session(owner, id, now, |session| {
            stays_cancelled(session, state)?;
            Ok(Change::SessionState {
                id: session.id.clone(),
                state,
            })
        })
    }

    /// Puts the session `id` of `owner` into another mode and phase; none if there is none.
    pub fn set_session_mode(
        &self,
        owner: &Owner,
        id: &SessionId,
        mode: Mode,
        phase: Phase,
        now: Timestamp,
    ) -> Result<Option<Session>, StateError> {
        self.change_session(owner, id, now, |session| {
            Ok(Change::SessionMode {
                id: session.id.clone(),
                mode,
                phase,
            })
        })
    }

    /// Takes the session `id` of `owner` a step further, if it still stands where `from` says; none
    /// if there is none.
    pub fn step_session(
        &self,
        owner: &Owner,
        id: &SessionId,
        from: (Mode, Phase),
        to: (Mode, Phase, Progress),
        now: Timestamp,
    ) -> Result<Option<Session>, StateError> {
        self.change_session(owner, id, now, |session| stepped(session, from, to))
    }

    /// The same, and the coverage budget of its workspace with it, which has to be what it `was`:
    /// both or neither.
    pub fn step_session_and_ledger(
        &self,
        owner: &Owner,
        id: &SessionId,
        from: (Mode, Phase),
        to: (Mode, Phase, Progress),
        (was, ledger): (Ledger, Ledger),
        now: Timestamp,
    ) -> Result<Option<Session>, StateError> {
        self.write(Durable::Disk, |writer| {
            let Some(session) = own(writer.find(Kind::Session, id.as_str())?, owner) else {
                return Ok(None);
            };
            let kept = writer.find(Kind::Ledger, session.workspace.as_str())?;
            if kept.and_then(Fact::ledger).unwrap_or_default() != was {
                return Err(StateError::Unfit("the coverage budget changed meanwhile"));
            }
            let step = stepped(&session, from, to)?;
            let workspace = session.workspace;
            writer.append(&Change::LedgerKept { workspace, ledger }, now)?;
            writer.append(&step, now)?;
            Ok(own(writer.find(Kind::Session, id.as_str())?, owner))
        })
    }

    /// The coverage budget of `workspace`.
    pub fn ledger(&self, workspace: &WorkspaceId) -> Result<Ledger, StateError> {
        let found = self.read(|reader| reader.find(Kind::Ledger, workspace.as_str()))?;
        Ok(found.and_then(Fact::ledger).unwrap_or_default())
    }

    /// Counts what the session `id` of `owner` spent, and the tool it used; none if there is none.
    ///
    /// On disk with the next durable change, or a moment later: a lost count costs nothing but
    /// itself.
    pub fn charge(
        &self,
        owner: &Owner,
        id: &SessionId,
        spent: Spent,
        tool: Option<&str>,
        now: Timestamp,
    ) -> Result<Option<Session>, StateError> {
        self.write(Durable::Soon, |writer| {
            let Some(session) = own(writer.find(Kind::Session, id.as_str())?, owner) else {
                return Ok(None);
            };
            let change = Change::SessionCharged {
                id: session.id,
                spent,
                tool: tool.map(|tool| tool.chars().take(128).collect()),
            };
            writer.append(&change, now)?;
            Ok(own(writer.find(Kind::Session, id.as_str())?, owner))
        })
    }

    /// Archives what nobody touched for thirty days; gives back how many.
    pub fn archive_stale(&self, now: Timestamp) -> Result<usize, StateError> {
        let stale = self.read(|reader| reader.due(Kind::Session, now))?;
        let mut archived = 0;
        for session in stale.into_iter().filter_map(Fact::session) {
            let put = self.change_session(&session.owner, &session.id, now, |found| {
                // Somebody may have come back to it meanwhile.
                if found.updated != session.updated {
                    return Err(StateError::Unfit("the session is in use again"));
                }
                stays_cancelled(found, SessionState::Archived)?;
                Ok(Change::SessionState {
                    id: found.id.clone(),
                    state: SessionState::Archived,
                })
            });
            match put {
                Ok(_) => archived += 1,
                Err(StateError::Unfit(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(archived)
    }

    fn change_session(
        &self,
        owner: &Owner,
        id: &SessionId,
        now: Timestamp,
        change: impl FnOnce(&Session) -> Result<Change, StateError>,
    ) -> Result<Option<Session>, StateError> {
        self.write(Durable::Disk, |writer| {
            let Some(session) = own(writer.find(Kind::Session, id.as_str())?, owner) else {
                return Ok(None);
            };
            let change = change(&session)?;
            writer.append(&change, now)?;
            let cancels = matches!(
                change,
                Change::SessionState {
                    state: SessionState::Cancelled,
                    ..
                }
            );
            if cancels {
                end_asked(writer, &session, now)?;
            }
            Ok(own(writer.find(Kind::Session, id.as_str())?, owner))
        })
    }
}

/// The step of `session` to where it shall stand, if it still stands where `from` says.
fn stepped(
    session: &Session,
    from: (Mode, Phase),
    (mode, phase, progress): (Mode, Phase, Progress),
) -> Result<Change, StateError> {
    if (session.mode, session.phase) != from {
        return Err(StateError::Unfit("the session moved on meanwhile"));
    }
    Ok(Change::SessionStep {
        id: session.id.clone(),
        mode,
        phase,
        progress: Box::new(progress),
    })
}

/// The session, if it is `owner`'s.
pub(crate) fn own(fact: Option<Fact>, owner: &Owner) -> Option<Session> {
    fact.and_then(Fact::session)
        .filter(|session| session.owner == *owner)
}

/// Whether `session` may be put into `state`: what ended for good does not come back, by no detour.
fn stays_cancelled(session: &Session, state: SessionState) -> Result<(), StateError> {
    match (session.state, state) {
        (SessionState::Cancelled, SessionState::Active) => {
            Err(StateError::Unfit("a cancelled session cannot be resumed"))
        }
        (SessionState::Cancelled, SessionState::Archived) => Err(StateError::Unfit(
            "a cancelled session has ended for good, and is not put away",
        )),
        (SessionState::Active | SessionState::Archived, _)
        | (SessionState::Cancelled, SessionState::Cancelled) => Ok(()),
    }
}

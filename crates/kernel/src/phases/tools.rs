//! `phase.*`, `plan.complete` and `session.set_mode`: a session's own steps, each held by its guards.

use super::facts::Staged;
use crate::beneath::Root;
use crate::control::for_caller::{failure, unknown_session};
use crate::control::{Desk, ForCaller, arguments, meant, spec};
use crate::tools::{
    InvalidArguments, Prepared, Registry, RunContext, Tool, ToolFailure, ToolOutput, ToolSchema,
    ToolSpec,
};
use airlock_core::{Caller, Digest, Mode, Phase, Request, RequestPath, SessionId, WorkspacePath};
use airlock_phases::{
    Category, Effects, Event, Exemption, Guard, Place, Refusal, Writable, advance_event,
    mode_switch, step, writable,
};
use airlock_state::{Owner, Session, StateError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::OnceLock;

pub(crate) fn register(registry: &mut Registry, desk: &Desk) {
    registry.add(Box::new(Status(desk.clone())));
    registry.add(Box::new(PlanComplete(desk.clone())));
    registry.add(Box::new(Advance(desk.clone())));
    registry.add(Box::new(Exempt(desk.clone())));
    registry.add(Box::new(Commit(desk.clone())));
    registry.add(Box::new(SetMode(desk.clone())));
}

/// Which session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneArguments {
    /// The session. Absent: the one the call belongs to.
    #[schemars(with = "Option<String>")]
    session: Option<SessionId>,
}

/// Nothing to say.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PlanArguments {
    /// The plan, in a few lines. It is kept in the log.
    #[serde(default)]
    #[expect(dead_code, reason = "the record of the call holds it")]
    plan: Option<String>,
}

/// Where to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AdvanceArguments {
    /// The state wanted. Absent: the next one; `idle` gives the task up.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    to: Option<Phase>,
    /// With `refactoring`: the lines to be changed, by file, as inclusive ranges.
    #[serde(default)]
    lines: BTreeMap<String, Vec<(u32, u32)>>,
}

/// What is to be exempted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExemptArguments {
    /// `config_change`, `type_refactor`, `documentation` or `asset_update`.
    #[schemars(with = "String")]
    category: Category,
    /// The files to be changed, by their names: no globs.
    paths: Vec<String>,
    /// Why no test is needed.
    reason: String,
    /// The session. Absent: the one the call belongs to.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    session: Option<SessionId>,
}

/// What is to be merged.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CommitArguments {
    /// The digest of the changes, as `phase.status` gives it.
    #[schemars(with = "String")]
    digest: Digest,
}

/// Which mode.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ModeArguments {
    /// `strict`, `explore` or `debug`.
    #[schemars(with = "String")]
    mode: Mode,
    /// The session. Absent: the one the call belongs to.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    session: Option<SessionId>,
}

static STATUS: ToolSpec = spec(
    "phase.status",
    "Say where the session stands, what it may write and what leads on",
    ToolSchema::of::<OneArguments>(),
)
.reading()
.with_examples(&["{}"]);
static PLAN: ToolSpec = spec(
    "plan.complete",
    "End planning: strict sessions write tests next, others explore",
    ToolSchema::of::<PlanArguments>(),
)
.with_examples(&["{}"]);
static ADVANCE: ToolSpec = spec(
    "phase.advance",
    "Ask for the next state of the session, or for the one named",
    ToolSchema::of::<AdvanceArguments>(),
)
.with_examples(&["{}", r#"{"to": "idle"}"#]);
static EXEMPT: ToolSpec = spec(
    "phase.request_exemption",
    "Ask a person to let files be changed without a test",
    ToolSchema::of::<ExemptArguments>(),
)
.with_examples(&[r#"{"category": "documentation", "paths": ["README.md"], "reason": "a typo"}"#]);
static COMMIT: ToolSpec = spec(
    "phase.commit",
    "Ask for the merge of the reviewed changes",
    ToolSchema::of::<CommitArguments>(),
);
static SET_MODE: ToolSpec = spec(
    "session.set_mode",
    "Switch the session's mode between tasks",
    ToolSchema::of::<ModeArguments>(),
)
.with_examples(&[r#"{"mode": "strict"}"#]);

impl Desk {
    /// The session `asked` for, or the caller's own, which is held to the discipline.
    pub(super) fn held_session(
        &self,
        caller: &Caller,
        asked: Option<&SessionId>,
    ) -> Result<Session, ToolFailure> {
        let id = meant(caller, asked)?;
        let found = self.state()?.session(&Owner::of(caller), &id);
        let found = found.map_err(|error| failure(&error))?;
        let session = found.ok_or_else(|| unknown_session(&id))?;
        if session.progress.is_none() {
            return Err(ToolFailure::Stored {
                code: "tool_unavailable",
                what: "the session is not held to the test-first discipline: it was begun without a mode".to_owned(),
                fix: Some("begin one with `session.create` and a `mode`".to_owned()),
                retryable: false,
            });
        }
        Ok(session)
    }

    pub(super) fn staged(&self, session: &Session) -> Result<Staged, ToolFailure> {
        let policy = self.store.current();
        let staged = Staged::look(self.store.workspace(), &policy, &session.stage);
        staged.map_err(ToolFailure::from)
    }

    /// Takes `session` a step, if its guards hold, and keeps that.
    pub(super) fn step(
        &self,
        session: &Session,
        event: &Event,
        staged: &Staged,
        uncovered: Option<&str>,
    ) -> Result<(Session, Effects), ToolFailure> {
        let state = self.state()?;
        let place = place_of(session);
        loop {
            let ledger = state.ledger(&session.workspace);
            let ledger = ledger.map_err(|error| failure(&error))?;
            let taken = staged.facts(&place, ledger, uncovered, |facts| {
                step(&place, event, facts)
            });
            let (mut next, effects) = taken.map_err(|refusal| refused(&place, &refusal))?;
            if *event == Event::TestsWritten {
                next.progress.tests = staged.tests();
            }
            let Some(after) = effects.ledger else {
                return Ok((self.keep(session, next)?, effects));
            };
            let from = (session.mode, session.phase);
            let to = (next.mode, next.state, next.progress);
            let both = (ledger, after);
            let (owner, now) = (&session.owner, self.clock.now());
            let kept = state.step_session_and_ledger(owner, &session.id, from, to, both, now);
            // Another session of the workspace committed meanwhile: by what it left this one counts.
            if matches!(kept, Err(StateError::Unfit(_)))
                && state
                    .ledger(&session.workspace)
                    .is_ok_and(|now| now != ledger)
            {
                continue;
            }
            return Ok((self.kept(session, kept)?, effects));
        }
    }

    /// Keeps where `session` stands now, unless it moved meanwhile.
    pub(super) fn keep(&self, session: &Session, next: Place) -> Result<Session, ToolFailure> {
        let from = (session.mode, session.phase);
        let to = (next.mode, next.state, next.progress);
        let now = self.clock.now();
        let kept = self
            .state()?
            .step_session(&session.owner, &session.id, from, to, now);
        self.kept(session, kept)
    }

    fn kept(
        &self,
        session: &Session,
        kept: Result<Option<Session>, StateError>,
    ) -> Result<Session, ToolFailure> {
        let kept = kept.map_err(|error| failure(&error))?;
        let kept = kept.ok_or_else(|| unknown_session(&session.id))?;
        self.hold.moved(session, &kept);
        Ok(kept)
    }
}

pub(super) fn place_of(session: &Session) -> Place {
    Place {
        mode: session.mode,
        state: session.phase,
        progress: session.progress.as_deref().cloned().unwrap_or_default(),
    }
}

/// A step that was not taken, as the failure of a call.
pub(super) fn refused(place: &Place, refusal: &Refusal) -> ToolFailure {
    ToolFailure::Stored {
        code: "tool_unavailable",
        what: format!(
            "not available in the state `{}`: {} (guard `{}`)",
            place.state,
            refusal.why,
            refusal.guard.as_str()
        ),
        fix: Some(refusal.fix.clone()),
        retryable: false,
    }
}

fn told(session: &Session, effects: &Effects) -> Value {
    json!({
        "mode": session.mode,
        "state": session.phase,
        "may_write": may_write(session),
        "warning": effects.warning,
    })
}

/// What a session may write, in words.
fn may_write(session: &Session) -> Value {
    use airlock_phases::Route;
    let route = session.progress.as_ref().and_then(|one| one.route.as_ref());
    if let (Phase::Exploring, Some(Route::Exempt(exemption))) = (session.phase, route) {
        return json!(exemption.paths);
    }
    json!(match writable(session.phase) {
        Writable::Nothing => "nothing",
        Writable::Tests => "tests",
        Writable::Source => "source",
        Writable::SourceAndTests => "source and tests",
    })
}

struct Status(Desk);

impl Tool for Status {
    fn spec(&self) -> &'static ToolSpec {
        &STATUS
    }

    fn prepare(&self, value: &Value, _: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let OneArguments { session } = arguments(value)?;
        let desk = self.0.clone();
        Ok(ForCaller::boxed(move |caller| {
            let session = desk.held_session(caller, session.as_ref())?;
            let staged = desk.staged(&session)?;
            let progress = place_of(&session).progress;
            let run = progress.last.as_ref().map(|run| {
                json!({
                    "proof": run.proof.as_str(),
                    "why": run.why,
                    "passed": run.passed,
                    "failed": run.failed,
                    "lost": run.lost,
                    "partial": run.partial,
                    "of_the_stage_as_it_is": run.stage == staged.digest,
                })
            });
            Ok(json!({
                "mode": session.mode,
                "state": session.phase,
                "may_write": may_write(&session),
                "next": next(session.phase),
                "last_run": run,
                "changes": {
                    "digest": staged.digest,
                    "tests": staged.changed.tests,
                    "source": staged.changed.source,
                    "other": staged.changed.other,
                    "directories": staged.places,
                },
                "merge": merge(&session, &staged),
                "approved": progress.approved,
                "commit": progress.commit,
                "warning": progress.warning,
            }))
        }))
    }
}

/// What `merge.apply` is to be called with, once it may be.
fn merge(session: &Session, staged: &Staged) -> Option<Value> {
    let diff = staged.diff.as_ref()?;
    if session.phase != Phase::Committing {
        return None;
    }
    let committed = place_of(session).progress.commit.is_some();
    let (files, exactly) = staged.asked(committed);
    Some(json!({
        "stage": session.stage,
        "digest": airlock_merge::review_digest(diff, |_| false),
        "files": files,
        "exactly": exactly,
    }))
}

/// What leads on, in a line.
pub(super) const fn next(state: Phase) -> &'static str {
    match state {
        Phase::Idle => "phase.advance begins a task",
        Phase::Planning => {
            "plan.complete; or phase.advance to refactoring; or phase.request_exemption"
        }
        Phase::TestWriting => "write tests, test.run, and phase.advance once a new one fails",
        Phase::CodeWriting | Phase::Refactoring | Phase::Exploring | Phase::RetroactiveTesting => {
            "phase.advance when the work is done"
        }
        Phase::Validating => "test.run: all pass leads to reviewing, else back to work",
        Phase::Reviewing => {
            "phase.commit with the digest of the changes, or phase.advance back to work"
        }
        Phase::Committing => "git.commit if there is a repository, then merge.apply",
    }
}

struct PlanComplete(Desk);

impl Tool for PlanComplete {
    fn spec(&self) -> &'static ToolSpec {
        &PLAN
    }

    fn prepare(&self, value: &Value, _: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let PlanArguments { .. } = arguments(value)?;
        let desk = self.0.clone();
        Ok(ForCaller::boxed(move |caller| {
            let session = desk.held_session(caller, None)?;
            let staged = desk.staged(&session)?;
            let (session, effects) = desk.step(&session, &Event::PlanComplete, &staged, None)?;
            Ok(told(&session, &effects))
        }))
    }
}

struct Advance(Desk);

impl Tool for Advance {
    fn spec(&self) -> &'static ToolSpec {
        &ADVANCE
    }

    fn prepare(&self, value: &Value, _: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: AdvanceArguments = arguments(value)?;
        let desk = self.0.clone();
        Ok(ForCaller::boxed(move |caller| {
            let mut session = desk.held_session(caller, None)?;
            if session.phase == Phase::Committing {
                session = desk.after_its_merge(caller, &session)?;
            }
            let staged = desk.staged(&session)?;
            let place = place_of(&session);
            let event = if asked.to == Some(Phase::Refactoring) && place.state == Phase::Planning {
                Event::Refactor(asked.lines.clone())
            } else {
                advance_event(&place, asked.to).map_err(|refusal| refused(&place, &refusal))?
            };
            let uncovered = uncovered(&place, &asked.lines);
            let stepped = desk.step(&session, &event, &staged, uncovered.as_deref());
            let (session, effects) = stepped?;
            Ok(told(&session, &effects))
        }))
    }
}

/// The first of `lines` that the last run of the tests does not show as run; or that it was not
/// measured.
fn uncovered(place: &Place, lines: &BTreeMap<String, Vec<(u32, u32)>>) -> Option<String> {
    if lines.is_empty() {
        return None;
    }
    let run = place.progress.last.as_ref();
    match run.and_then(|run| run.lines.as_ref()) {
        Some(known) => known.uncovered(lines),
        None => Some("no measured run of the tests tells which lines they run".to_owned()),
    }
}

struct Exempt(Desk);

impl Tool for Exempt {
    fn spec(&self) -> &'static ToolSpec {
        &EXEMPT
    }

    fn prepare(&self, value: &Value, root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: ExemptArguments = arguments(value)?;
        let mut paths = Vec::new();
        for text in &asked.paths {
            let path = RequestPath::parse(text, root.path()).ok();
            let inside = path.as_ref().and_then(RequestPath::inside);
            let plain = inside.filter(|path| !path.is_root() && !text.contains(['*', '?', '[']));
            let plain = plain.ok_or_else(|| InvalidArguments {
                at: "paths".to_owned(),
                what: format!("`{text}` names no file beneath the workspace"),
                fix: Some("name each file, without globs".to_owned()),
            })?;
            paths.push(plain.as_str().to_owned());
        }
        let exemption = Exemption {
            category: asked.category,
            paths,
            reason: asked.reason,
        };
        let (desk, session) = (self.0.clone(), asked.session);
        Ok(ForCaller::boxed(move |caller| {
            let session = desk.held_session(caller, session.as_ref())?;
            let staged = desk.staged(&session)?;
            let event = Event::Exempted(exemption);
            let (session, effects) = desk.step(&session, &event, &staged, None)?;
            Ok(told(&session, &effects))
        }))
    }
}

struct Commit(Desk);

impl Tool for Commit {
    fn spec(&self) -> &'static ToolSpec {
        &COMMIT
    }

    fn prepare(&self, value: &Value, _: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let CommitArguments { digest } = arguments(value)?;
        Ok(Box::new(Committing {
            desk: self.0.clone(),
            digest,
            caller: OnceLock::new(),
        }))
    }
}

/// A wish to merge, with every path it is about.
struct Committing {
    desk: Desk,
    digest: Digest,
    caller: OnceLock<Caller>,
}

impl Prepared for Committing {
    fn paths(&self) -> &[RequestPath] {
        &[]
    }

    /// Whoever is asked sees what would be merged.
    fn describe(&self, request: &mut Request) {
        let _ = self.caller.set(request.caller.clone());
        let session = self.desk.held_session(&request.caller, None);
        if let Ok(staged) = session.and_then(|session| self.desk.staged(&session)) {
            let paths = staged.merged();
            let paths = paths.filter_map(|path| WorkspacePath::new(path).ok());
            request.paths = paths.map(RequestPath::from).collect();
        }
    }

    fn run(self: Box<Self>, _: &RunContext<'_>) -> Result<ToolOutput, ToolFailure> {
        let Some(caller) = self.caller.get() else {
            return Err(ToolFailure::Cancelled);
        };
        let session = self.desk.held_session(caller, None)?;
        let staged = self.desk.staged(&session)?;
        let event = Event::MergeApproved(self.digest);
        let (session, effects) = self.desk.step(&session, &event, &staged, None)?;
        Ok(ToolOutput {
            value: told(&session, &effects),
            hidden: 0,
        })
    }
}

struct SetMode(Desk);

impl Tool for SetMode {
    fn spec(&self) -> &'static ToolSpec {
        &SET_MODE
    }

    fn prepare(&self, value: &Value, _: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let ModeArguments { mode, session } = arguments(value)?;
        let desk = self.0.clone();
        Ok(ForCaller::boxed(move |caller| {
            let id = meant(caller, session.as_ref())?;
            let found = desk.state()?.session(&Owner::of(caller), &id);
            let session = found
                .map_err(|error| failure(&error))?
                .ok_or_else(|| unknown_session(&id))?;
            let ledger = desk
                .state()?
                .ledger(&session.workspace)
                .map_err(|error| failure(&error))?;
            let place = place_of(&session);
            let next = mode_switch(&place, mode, ledger).map_err(|refusal| {
                // What is locked is refused between tasks, and leaves nobody exploring.
                if refusal.guard == Guard::CoverageBudget {
                    desk.mode_refused(&Owner::of(caller), &id);
                }
                refused(&place, &refusal)
            })?;
            // Whoever names a mode is held to it from then on.
            let session = desk.keep(&session, next)?;
            Ok(told(&session, &Effects::default()))
        }))
    }
}

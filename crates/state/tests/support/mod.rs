//! A store in a directory of its own, and short ways to ask, answer and use.

#![expect(dead_code, reason = "no test file needs all of it")]

use airlock_core::{Caller, Digest, Request, SessionId, Span, Syscall, Tier, Timestamp};
use airlock_policy::approval::{
    Answer, AnswerRules, Answerer, ApprovalId, ApprovalRequest, Binding, Channel, Condition,
    GateFacts, Query, Reply,
};
use airlock_policy::{Contribution, Decision, Generation, Imposed, Layer, Opinion, Verdict};
use airlock_state::{
    Approval, ApprovalStanding, Asked, Budget, Listing, NewSession, Owner, Session, State,
};
use std::path::Path;
use tempfile::TempDir;

/// 2026-01-01, in microseconds.
pub(crate) const START: i64 = 1_767_225_600_000_000;
/// How long questions stay open here.
pub(crate) const OPEN: i64 = 3_600;

/// So many seconds after the beginning.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(START + seconds * 1_000_000)
}

pub(crate) fn place() -> TempDir {
    tempfile::tempdir().unwrap()
}

pub(crate) fn open(directory: &Path) -> State {
    State::open(directory, at(0)).unwrap_or_else(|error| panic!("it does not open: {error:?}"))
}

pub(crate) fn caller(user: &str, session: Option<&str>) -> Caller {
    Caller {
        tenant: "local".parse().unwrap(),
        user: user.parse().unwrap(),
        workspace: "work".parse().unwrap(),
        session: session.map(|id| id.parse().unwrap()),
        plugin: "agent".parse().unwrap(),
        tags: Vec::new(),
        peer: None,
        sandbox: None,
        mode: None,
        phase: None,
    }
}

pub(crate) fn owner(user: &str) -> Owner {
    Owner::of(&caller(user, None))
}

/// Ada asks to write `path`.
pub(crate) fn request(path: &str) -> Request {
    let write = Syscall::parse("fs.write").unwrap();
    let mut request = Request::new(write, Tier::Process, caller("ada", Some("s1")));
    request.paths = vec![airlock_core::WorkspacePath::new(path).unwrap().into()];
    request
}

pub(crate) fn generation(policy: &str) -> Generation {
    Generation::new(Digest::of(policy.as_bytes()))
}

pub(crate) fn decision(policy: &str) -> Decision {
    Decision {
        verdict: Verdict::RequireReview,
        contributions: vec![Contribution {
            layer: Layer::Rules,
            rule: "look-first".into(),
            opinion: Opinion::RequireReview,
            reason: "a person looks first".into(),
        }]
        .into(),
        imposed: Imposed::default(),
        generation: generation(policy),
    }
}

pub(crate) const FACTS: GateFacts = GateFacts {
    host_granted: false,
    sensitive_path: false,
    over_budget: false,
    first_use: false,
};

/// The question about `request` under the name `id`.
pub(crate) fn question(id: &str, request: &Request) -> Approval {
    question_under("policy", id, request)
}

/// The same, asked while `policy` is in force.
pub(crate) fn question_under(policy: &str, id: &str, request: &Request) -> Approval {
    let id = ApprovalId::new(id).unwrap();
    let lifetime = Span::from_secs(OPEN.unsigned_abs());
    let decision = decision(policy);
    Approval {
        request: ApprovalRequest::new(id, request, &FACTS, &decision, None, None, at(0), lifetime),
        stage: None,
        grant: None,
        ended: false,
    }
}

pub(crate) fn asked(state: &State, id: &str, path: &str) -> ApprovalId {
    match state
        .ask(question(id, &request(path)), false, at(0))
        .unwrap()
    {
        Asked::New(approval) => approval.request.id,
        other @ (Asked::Again(_)
        | Asked::Denied(_)
        | Asked::TooMany { .. }
        | Asked::TooManyOfOne { .. }) => {
            panic!("not asked: {other:?}")
        }
    }
}

pub(crate) fn yes(conditions: &[Condition]) -> Answer {
    Answer {
        reply: Reply::Approve,
        conditions: conditions.to_vec(),
        rationale: None,
        answered_by: Answerer::Person("ada".parse().unwrap()),
        channel: Channel::Terminal,
    }
}

pub(crate) fn no() -> Answer {
    Answer {
        reply: Reply::Deny,
        ..yes(&[])
    }
}

/// Ada answers `id` at `seconds`, the policy and the stage being those of the question.
pub(crate) fn answer(
    state: &State,
    id: &ApprovalId,
    answer: Answer,
    seconds: i64,
) -> Result<Approval, airlock_state::AnswerStateError> {
    let rules = AnswerRules::default();
    state.answer(&owner("ada"), id, at(seconds), |request| {
        let current: Binding = request.binding;
        request.answer(answer, &rules, &current, at(seconds))
    })
}

/// The names of at most `most` questions of `user` at `seconds`, and how many come after them.
pub(crate) fn listed(
    state: &State,
    user: &str,
    standing: Option<ApprovalStanding>,
    after: Option<&str>,
    seconds: i64,
    most: usize,
) -> Option<(Vec<String>, u64)> {
    let after = after.map(|id| ApprovalId::new(id).unwrap());
    let listing = Listing {
        standing,
        after: after.as_ref(),
        policy: generation("policy"),
        now: at(seconds),
        most,
    };
    let page = state.approvals(&owner(user), &listing).unwrap()?;
    let names = page.approvals.iter().map(|one| one.request.id.to_string());
    Some((names.collect(), page.more))
}

/// Whether `user` never asked anything.
pub(crate) fn asked_nothing(state: &State, user: &str) -> bool {
    listed(state, user, None, None, 0, 1) == Some((Vec::new(), 0))
}

/// What the road asks before it lets `request` pass at `seconds`.
pub(crate) fn query(request: &Request, seconds: i64) -> Query<'_> {
    Query {
        request,
        gate: airlock_policy::approval::gate_for(request, &FACTS),
        diff: None,
        generation: generation("policy"),
        stage: None,
        now: at(seconds),
    }
}

pub(crate) fn session(state: &State, user: &str, id: &str) -> Session {
    session_for(state, user, id, None)
}

/// A session that works for `parent`.
pub(crate) fn session_for(state: &State, user: &str, id: &str, parent: Option<&str>) -> Session {
    let new = NewSession {
        id: SessionId::new(id).unwrap(),
        owner: owner(user),
        workspace: "work".parse().unwrap(),
        agent: None,
        parent: parent.map(|id| SessionId::new(id).unwrap()),
        title: None,
        mode: airlock_core::Mode::Explore,
        disciplined: true,
        stage: "default".to_owned(),
        budget: Budget {
            calls: Some(3),
            turns: Some(2),
            tokens: Some(100),
            cost_micros: None,
            time: Some(Span::from_secs(3_600)),
        },
    };
    state.create_session(new, at(0)).unwrap()
}

/// Runs SQL on the file, as somebody with an editor would.
#[expect(
    clippy::disallowed_methods,
    reason = "a test that tampers with the file from outside"
)]
pub(crate) fn tamper(directory: &Path, sql: &str) -> usize {
    let db = rusqlite::Connection::open(directory.join("state.db")).unwrap();
    let changed = db.execute(sql, []).unwrap();
    db.pragma_update_and_check(None, "wal_checkpoint", "truncate", |_| Ok(()))
        .ok();
    changed
}

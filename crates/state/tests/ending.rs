//! What sessions asked and were granted, when they end and when they are only put away.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_core::{Request, SessionId};
use airlock_policy::approval::{ApprovalId, Condition};
use airlock_state::{
    AnswerStateError, ApprovalStanding, ApprovalStatus, Asked, Listing, Session, SessionState,
    State,
};
use support::{
    answer, asked, at, generation, listed, no, open, owner, place, query, question, question_under,
    request, session, session_for, tamper, yes,
};

fn name(id: &str) -> SessionId {
    SessionId::new(id).unwrap()
}

/// The same as [`request`], asked in `session`.
fn request_in(session: &str, path: &str) -> Request {
    let mut request = request(path);
    request.caller.session = Some(name(session));
    request
}

fn ask_in(state: &State, session: &str, id: &str) -> Asked {
    let request = request_in(session, &format!("src/{id}.rs"));
    state.ask(question(id, &request), false, at(1)).unwrap()
}

fn cancel(state: &State, id: &str) -> Session {
    let put = state.set_session_state(&owner("ada"), &name(id), SessionState::Cancelled, at(5));
    put.unwrap().unwrap()
}

fn leave(state: &State, id: &str) -> Session {
    let put = state.leave_session(&owner("ada"), &name(id), at(5));
    put.unwrap().unwrap()
}

fn standing(state: &State, standing: ApprovalStanding) -> Vec<String> {
    listed(state, "ada", Some(standing), None, 9, 99).unwrap().0
}

fn status(state: &State, id: &str) -> ApprovalStatus {
    let id = ApprovalId::new(id).unwrap();
    let found = state.approval(&owner("ada"), &id).unwrap().unwrap();
    found.status(at(9))
}

#[test]
fn what_a_session_asked_and_was_granted_ends_with_it() {
    for end in [cancel, leave] {
        let place = place();
        let state = open(place.path());
        session(&state, "ada", "s1");
        session(&state, "ada", "s2");
        let waits = asked(&state, "q1", "src/q1.rs");
        let given = asked(&state, "q2", "src/q2.rs");
        answer(&state, &given, yes(&[Condition::Uses(4)]), 1).unwrap();
        let refused = asked(&state, "q3", "src/q3.rs");
        answer(&state, &refused, no(), 1).unwrap();
        assert!(matches!(ask_in(&state, "s2", "q4"), Asked::New(_)));
        let granted = request("src/q2.rs");
        assert!(state.use_grant(&query(&granted, 2)).unwrap().is_some());

        assert_ne!(end(&state, "s1").state, SessionState::Active);
        let after = |state: &State| {
            assert_eq!(standing(state, ApprovalStanding::Open), ["q4"]);
            assert!(standing(state, ApprovalStanding::Granted).is_empty());
            for (id, want) in [
                ("q1", ApprovalStatus::SessionEnded),
                ("q2", ApprovalStatus::SessionEnded),
                ("q3", ApprovalStatus::Denied),
                ("q4", ApprovalStatus::Open),
            ] {
                assert_eq!(status(state, id), want, "{id}");
            }
            for reply in [yes(&[]), no()] {
                let taken = answer(state, &waits, reply, 6);
                assert!(matches!(taken, Err(AnswerStateError::Ended(_))));
            }
            assert_eq!(state.use_grant(&query(&granted, 6)).unwrap(), None);
            state.verify().unwrap();
        };
        after(&state);
        // The events alone say so: rows that were put back are made anew from them.
        drop(state);
        let sql = "UPDATE facts SET status = 'open' WHERE id = 'q1'";
        assert_eq!(tamper(place.path(), sql), 1);
        after(&open(place.path()));
    }
}

#[test]
fn a_session_that_is_gone_on_in_asks_anew() {
    let place = place();
    let state = open(place.path());
    session(&state, "ada", "s1");
    assert!(matches!(ask_in(&state, "s1", "q1"), Asked::New(_)));
    leave(&state, "s1");
    let resumed = state.set_session_state(&owner("ada"), &name("s1"), SessionState::Active, at(6));
    assert_eq!(resumed.unwrap().unwrap().state, SessionState::Active);
    let again = question("q2", &request_in("s1", "src/q1.rs"));
    let again = state.ask(again, false, at(7)).unwrap();
    assert!(matches!(again, Asked::New(_)), "{again:?}");
    assert_eq!(standing(&state, ApprovalStanding::Open), ["q2"]);
}

#[test]
fn a_session_that_is_only_put_away_keeps_what_it_asked_and_was_granted() {
    let place = place();
    let state = open(place.path());
    session(&state, "ada", "s1");
    let waits = asked(&state, "q1", "src/q1.rs");
    let given = asked(&state, "q2", "src/q2.rs");
    answer(&state, &given, yes(&[]), 1).unwrap();
    let put = |to| state.set_session_state(&owner("ada"), &name("s1"), to, at(5));
    put(SessionState::Archived).unwrap().unwrap();
    assert_eq!(standing(&state, ApprovalStanding::Open), ["q1"]);
    assert_eq!(standing(&state, ApprovalStanding::Granted), ["q2"]);
    answer(&state, &waits, yes(&[]), 6).unwrap();
    put(SessionState::Active).unwrap().unwrap();
    for path in ["src/q1.rs", "src/q2.rs"] {
        let request = request(path);
        assert!(state.use_grant(&query(&request, 7)).unwrap().is_some());
    }
}

#[test]
fn what_works_for_a_session_ends_with_it_and_nothing_else_does() {
    let place = place();
    let state = open(place.path());
    for (id, parent) in [
        ("s1", None),
        ("child", Some("s1")),
        ("grandchild", Some("child")),
        ("other", None),
    ] {
        session_for(&state, "ada", id, parent);
        assert!(matches!(
            ask_in(&state, id, &format!("q-{id}")),
            Asked::New(_)
        ));
    }
    cancel(&state, "child");
    assert_eq!(
        standing(&state, ApprovalStanding::Open),
        ["q-s1", "q-other"]
    );
    // Somebody else's session is not there.
    let foreign = state.leave_session(&owner("eve"), &name("s1"), at(6));
    assert_eq!(foreign.unwrap(), None);
    leave(&state, "s1");
    assert_eq!(standing(&state, ApprovalStanding::Open), ["q-other"]);
}

#[test]
fn a_question_that_no_event_made_leaves_no_event_when_its_session_ends() {
    let place = place();
    let state = open(place.path());
    session(&state, "ada", "s1");
    asked(&state, "q1", "src/q1.rs");
    let sql = "INSERT INTO facts SELECT kind, 'q9', owner, parent, status, due, mark, seq, replace(body, '\"id\":\"q1\"', '\"id\":\"q9\"') FROM facts WHERE id = 'q1'";
    assert_eq!(tamper(place.path(), sql), 1);
    cancel(&state, "s1");
    drop(state);
    let state = open(place.path());
    state.verify().unwrap();
    assert!(state.recovered().is_none(), "only its rows were made anew");
    assert!(standing(&state, ApprovalStanding::Open).is_empty());
}

#[test]
fn a_front_has_a_bounded_number_of_open_questions_whatever_its_sessions() {
    let place = place();
    let state = open(place.path());
    for number in 0..10 {
        session(&state, "ada", &format!("s{number}"));
    }
    for number in 0..100 {
        let new = ask_in(&state, &format!("s{}", number / 10), &format!("q{number}"));
        assert!(matches!(new, Asked::New(_)), "{number}: {new:?}");
    }
    let flood = ask_in(&state, "s10", "flood");
    assert_eq!(flood, Asked::TooMany { open: 100 });
    // What waits already is no more.
    assert!(matches!(ask_in(&state, "s0", "q0"), Asked::Again(_)));
    // Another front, another user and a person are not held up.
    let mut front = request_in("s10", "src/front.rs");
    front.caller.plugin = "mcp".parse().unwrap();
    let mut user = request_in("s10", "src/user.rs");
    user.caller.user = "eve".parse().unwrap();
    let person = request_in("s10", "src/person.rs");
    for (id, request, insist) in [
        ("front", front, false),
        ("user", user, false),
        ("person", person, true),
    ] {
        let new = state.ask(question(id, &request), insist, at(2)).unwrap();
        assert!(matches!(new, Asked::New(_)), "{id}: {new:?}");
    }
    // Neither is another policy.
    let policy = question_under("another", "policy", &request_in("s10", "src/policy.rs"));
    let new = state.ask(policy, false, at(2)).unwrap();
    assert!(matches!(new, Asked::New(_)), "{new:?}");
    // The end of a session makes room for what it asked, and for no more.
    leave(&state, "s3");
    for number in 0..9 {
        let new = ask_in(&state, "s10", &format!("r{number}"));
        assert!(matches!(new, Asked::New(_)), "{number}: {new:?}");
    }
    let full = ask_in(&state, "s10", "r9");
    assert_eq!(full, Asked::TooMany { open: 100 });
}

#[test]
fn what_was_asked_or_granted_under_another_policy_is_over() {
    let place = place();
    let state = open(place.path());
    let id = asked(&state, "q1", "src/q1.rs");
    let approval = answer(&state, &id, yes(&[]), 1).unwrap();
    asked(&state, "q2", "src/q2.rs");
    for (policy, standing, closed, want) in [
        ("another", 0, 2, ApprovalStatus::PolicyChanged),
        ("policy", 1, 0, ApprovalStatus::Granted),
    ] {
        let policy = generation(policy);
        let count = |standing| {
            let listing = Listing {
                standing: Some(standing),
                after: None,
                policy,
                now: at(9),
                most: 9,
            };
            let page = state.approvals(&owner("ada"), &listing).unwrap();
            page.unwrap().approvals.len()
        };
        assert_eq!(count(ApprovalStanding::Granted), standing, "{want:?}");
        assert_eq!(count(ApprovalStanding::Closed), closed, "{want:?}");
        assert_eq!(count(ApprovalStanding::Open), standing, "{want:?}");
        assert_eq!(approval.status_under(policy, at(9)), want);
        let request = request("src/q1.rs");
        let mut query = query(&request, 9);
        query.generation = policy;
        let used = state.use_grant(&query).unwrap();
        assert_eq!(used.is_some(), want == ApprovalStatus::Granted);
    }
}

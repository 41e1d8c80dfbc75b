//! What a session leaves behind: questions and grants, for as long as somebody can use them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_core::SessionId;
use airlock_kernel::{Answering, Front, Kernel, Outcome};
use airlock_policy::approval::Condition;
use serde_json::{Value, json};
use support::{Place, done, failed, in_session, person, review, submit, update, word};

/// Everything may be read, what is below `ask/` only after a person said so.
const ASKS: &str = "\
version: 1
approvals: { automatic: [AG-01] }
rules:
  - name: read-all
    match: { effect: read, path_glob: \"**\" }
    action: allow
  - name: ask-first
    match: { effect: read, path_glob: \"ask/**\" }
    action: require_review
    reason: a person looks first
  - name: own
    match: { syscall: \"session.*\" }
    action: allow
";

fn place() -> Place {
    Place::governed(ASKS, &[("ask/a.txt", "a\n"), ("ask/b.txt", "b\n")])
}

/// A session as a client begins it.
fn begin(kernel: &Kernel) -> SessionId {
    let begun = done(submit(kernel, Front::Mcp, "session.create", json!({})));
    SessionId::new(begun.value["id"].as_str().unwrap()).unwrap()
}

fn read(kernel: &Kernel, session: &SessionId, path: &str) -> Outcome {
    in_session(
        kernel,
        Front::Mcp,
        session,
        "fs.read",
        json!({ "path": path }),
    )
}

/// The client is gone, as the server says.
fn leave(kernel: &Kernel, session: &SessionId) {
    done(in_session(
        kernel,
        Front::Mcp,
        session,
        "session.archive",
        json!({}),
    ));
}

fn listed(kernel: &Kernel, status: &str) -> Vec<Value> {
    let asked = json!({ "status": status });
    let listed = done(submit(kernel, Front::Cli, "approval.read", asked));
    listed.value["approvals"].as_array().unwrap().clone()
}

fn yes() -> Answering {
    Answering {
        conditions: vec![Condition::Uses(4)],
        ..Answering::plain(true)
    }
}

#[test]
fn what_a_client_asked_ends_when_it_leaves_however_often_it_comes_anew() {
    let place = place();
    let kernel = place.open();
    for round in 1..=3 {
        let session = begin(&kernel);
        let asked = review(read(&kernel, &session, "ask/a.txt"));
        let given = review(read(&kernel, &session, "ask/b.txt"));
        let given = given.approval.id;
        kernel
            .answer_request(person(&kernel), &given, &yes())
            .unwrap();
        done(read(&kernel, &session, "ask/b.txt"));
        assert_eq!(listed(&kernel, "open").len(), 1, "{round}");
        assert_eq!(listed(&kernel, "granted")[0]["uses_left"], 3, "{round}");
        leave(&kernel, &session);
        assert!(listed(&kernel, "open").is_empty(), "{round}");
        assert!(listed(&kernel, "granted").is_empty(), "{round}");
        let closed = listed(&kernel, "closed");
        let ended = closed.iter().filter(|one| one["status"] == "session_ended");
        assert_eq!(ended.count(), 2 * round);
        let late = kernel.answer_request(person(&kernel), &asked.approval.id, &yes());
        let late = late.unwrap_err().to_string();
        assert!(late.contains("has ended"), "{late}");
    }
}

#[test]
fn what_a_session_asked_stays_while_a_person_only_put_it_away() {
    let place = place();
    let kernel = place.open();
    let session = begin(&kernel);
    let asked = review(read(&kernel, &session, "ask/a.txt"));
    let named = json!({ "session": session });
    done(submit(
        &kernel,
        Front::Cli,
        "session.archive",
        named.clone(),
    ));
    assert_eq!(listed(&kernel, "open").len(), 1);
    kernel
        .answer_request(person(&kernel), &asked.approval.id, &yes())
        .unwrap();
    done(submit(&kernel, Front::Cli, "session.resume", named.clone()));
    done(read(&kernel, &session, "ask/a.txt"));
    assert_eq!(listed(&kernel, "granted").len(), 1);
    done(submit(&kernel, Front::Cli, "session.cancel", named));
    assert!(listed(&kernel, "granted").is_empty());
}

#[test]
fn a_grant_of_an_earlier_policy_is_not_among_those_that_can_be_used() {
    let place = place();
    let kernel = place.open();
    let session = begin(&kernel);
    let asked = review(read(&kernel, &session, "ask/a.txt")).approval.id;
    kernel
        .answer_request(person(&kernel), &asked, &yes())
        .unwrap();
    done(read(&kernel, &session, "ask/a.txt"));
    assert_eq!(listed(&kernel, "granted").len(), 1);
    update(&kernel, &format!("{ASKS}# Another.\n"));
    assert!(listed(&kernel, "granted").is_empty());
    let named = json!({ "approval": asked });
    let one = done(submit(&kernel, Front::Cli, "approval.read", named)).value;
    assert_eq!(one["status"], "policy_changed");
    assert_eq!(one["grant"]["live"], false);
    assert_eq!(word(&read(&kernel, &session, "ask/a.txt")), "review");
}

#[test]
fn what_was_asked_under_an_earlier_policy_is_over_and_makes_room() {
    let place = place();
    for number in 0..21 {
        place.write(&format!("ask/{number}.txt"), "a\n");
    }
    let kernel = place.open();
    let session = begin(&kernel);
    for number in 0..20 {
        review(read(&kernel, &session, &format!("ask/{number}.txt")));
    }
    let refused = failed(read(&kernel, &session, "ask/20.txt"));
    assert_eq!(refused.code, "too_many_approvals");
    update(&kernel, &format!("{ASKS}# Another.\n"));
    assert!(listed(&kernel, "open").is_empty());
    let closed = listed(&kernel, "closed");
    let over = closed.iter();
    let over = over.filter(|one| one["status"] == "policy_changed");
    assert_eq!(over.count(), 20);
    let asked = review(read(&kernel, &session, "ask/20.txt")).approval.id;
    assert_eq!(listed(&kernel, "open").len(), 1);
    kernel
        .answer_request(person(&kernel), &asked, &yes())
        .unwrap();
    done(read(&kernel, &session, "ask/20.txt"));
}

#[test]
fn clients_cannot_ask_without_end_by_working_in_more_sessions() {
    let place = place();
    for number in 0..21 {
        place.write(&format!("ask/{number}.txt"), "a\n");
    }
    let kernel = place.open();
    for _ in 0..5 {
        let session = begin(&kernel);
        for number in 0..20 {
            review(read(&kernel, &session, &format!("ask/{number}.txt")));
        }
    }
    let session = begin(&kernel);
    let refused = failed(read(&kernel, &session, "ask/0.txt"));
    assert_eq!(refused.code, "too_many_approvals");
    assert!(refused.what.contains("100 requests wait already"));
    // A person who types a command is not held up by them, nor another front.
    for front in [Front::Cli, Front::Agent] {
        let path = json!({ "path": "ask/0.txt" });
        review(submit(&kernel, front, "fs.read", path));
    }
}

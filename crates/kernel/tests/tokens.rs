//! Tokens on the road: good for their holder, scope and moment; otherwise not there at all.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_audit::{EventType, Stage};
use airlock_core::Syscall;
use airlock_kernel::{Call, Front, Kernel, Outcome, Presented};
use airlock_policy::token::{Scope, Terms, Token};
use serde_json::json;
use support::{Place, READS, action, at, done, of_action, records, review, session, update, word};

/// Nothing is allowed, and nothing of it denied by name.
const CLOSED: &str = "version: 1\nrules: []\n";

fn place() -> Place {
    Place::governed(CLOSED, &[("a.txt", "a\n"), ("b.txt", "b\n")])
}

fn scope(operations: u32) -> Scope {
    let mut scope = Scope::new(Syscall::parse("fs.read").unwrap());
    scope.paths = vec!["a.txt".into()];
    scope.names = vec!["fs.read".into()];
    scope.operations = operations;
    scope
}

fn read(kernel: &Kernel, front: Front, path: &str, token: &Token) -> Outcome {
    let mut call = Call::new("fs.read", json!({ "path": path }));
    call.token = Some(Presented::new(&token.reveal()));
    kernel.submit(front, &call)
}

#[test]
fn a_token_lets_its_holder_do_what_it_is_for_as_often_as_it_says() {
    let place = place();
    let kernel = place.open();
    let token = kernel.issue_token(Front::Agent, None, scope(2)).unwrap();
    assert_eq!(
        word(&read(&kernel, Front::Agent, "b.txt", &token)),
        "denied"
    );
    assert_eq!(word(&read(&kernel, Front::Mcp, "a.txt", &token)), "denied");
    for _ in 0..2 {
        let outcome = read(&kernel, Front::Agent, "a.txt", &token);
        let entries = of_action(&kernel, &action(&outcome));
        let attempt = at(&entries, Stage::Attempt);
        assert_eq!(attempt.token, Some(token.id().to_string()));
        let rules = &attempt.decision.as_ref().unwrap().rules;
        assert_eq!(rules, &[format!("token/{}", token.id())]);
        done(outcome);
    }
    let spent = read(&kernel, Front::Agent, "a.txt", &token);
    let entries = of_action(&kernel, &action(&spent));
    let refused = &at(&entries, Stage::Attempt).metadata["token_refused"];
    assert_eq!(refused, "the token is used up");
    assert_eq!(word(&spent), "denied");
    // Why is for the log; whoever presented it learns what anybody would.
    assert!(!format!("{spent:?}").contains("used up"));
}

#[test]
fn a_token_is_void_once_anything_it_was_bound_to_changed() {
    let place = place();
    let kernel = place.open();
    let issue = || kernel.issue_token(Front::Agent, None, scope(9)).unwrap();
    let late = issue();
    place.pass(31);
    assert_eq!(word(&read(&kernel, Front::Agent, "a.txt", &late)), "denied");
    let revoked = issue();
    assert!(kernel.revoke_token(&revoked).unwrap());
    assert!(!kernel.revoke_token(&revoked).unwrap(), "once");
    assert_eq!(
        word(&read(&kernel, Front::Agent, "a.txt", &revoked)),
        "denied"
    );
    // Another kernel signs with another secret.
    let foreign = place
        .open()
        .issue_token(Front::Agent, None, scope(9))
        .unwrap();
    assert_eq!(
        word(&read(&kernel, Front::Agent, "a.txt", &foreign)),
        "denied"
    );
    // Issued in a session, presented outside of it.
    let id = session(&kernel, json!({}));
    let inside = kernel
        .issue_token(Front::Agent, Some(&id), scope(9))
        .unwrap();
    assert_eq!(
        word(&read(&kernel, Front::Agent, "a.txt", &inside)),
        "denied"
    );
    let old = issue();
    update(&kernel, &format!("{CLOSED}# changed\n"));
    assert_eq!(word(&read(&kernel, Front::Agent, "a.txt", &old)), "denied");
    done(read(&kernel, Front::Agent, "a.txt", &issue()));
    let unknown = airlock_core::SessionId::new("unknown").unwrap();
    assert!(
        kernel
            .issue_token(Front::Agent, Some(&unknown), scope(1))
            .is_err()
    );
}

#[test]
fn a_token_silences_neither_capabilities_nor_built_in_rules() {
    let place = Place::governed(READS, &[]);
    let kernel = place.open();
    let mut update = Scope::new(Syscall::parse("policy.update").unwrap());
    update.names = vec!["policy.update".into()];
    update.operations = 9;
    for (front, want) in [(Front::Cli, "review"), (Front::Agent, "denied")] {
        let token = kernel.issue_token(front, None, update.clone()).unwrap();
        let mut call = Call::new("policy.update", json!({ "text": CLOSED }));
        call.token = Some(Presented::new(&token.reveal()));
        let outcome = kernel.submit(front, &call);
        assert_eq!(word(&outcome), want);
        if want == "review" {
            review(outcome);
        }
    }
}

#[test]
fn garbage_is_no_token_and_no_token_is_ever_written_down() {
    let place = place();
    let kernel = place.open();
    let token = kernel.issue_token(Front::Agent, None, scope(1)).unwrap();
    let text = token.reveal().to_string();
    let mut altered = text.clone();
    altered.pop();
    altered.push(if text.ends_with('0') { '1' } else { '0' });
    for garbage in ["", "alt1_", "alt1_zz", &altered, &"f".repeat(100_000)] {
        let mut call = Call::new("fs.read", json!({ "path": "a.txt" }));
        call.token = Some(Presented::new(garbage));
        assert_eq!(word(&kernel.submit(Front::Agent, &call)), "denied");
        assert!(!format!("{call:?}").contains(&altered));
    }
    done(read(&kernel, Front::Agent, "a.txt", &token));
    place.pass(7_200);
    kernel.issue_token(Front::Agent, None, scope(1)).unwrap();
    let entries = records(&kernel);
    let events = |event| entries.iter().filter(|entry| entry.event == event).count();
    assert_eq!(events(EventType::CapabilityIssued), 2);
    assert_eq!(events(EventType::CapabilityExpired), 1);
    let log = format!("{entries:?}");
    assert!(
        !log.contains(&text) && !log.contains("alt1_"),
        "a token in the log"
    );
}

#[test]
fn what_was_handed_out_is_recorded_whole_and_its_end_as_well() {
    let place = place();
    let kernel = place.open();
    let mut large = scope(3);
    large.paths = (0..200)
        .map(|n| format!("a-directory-with-a-long-name/file-{n}.txt").into())
        .collect();
    let terms = Terms {
        scope: large.clone(),
        delegable: Some(scope(2)),
    };
    let revoked = kernel.issue_token(Front::Agent, None, terms).unwrap();
    let last = kernel.issue_token(Front::Agent, None, scope(1)).unwrap();
    assert!(kernel.revoke_token(&revoked).unwrap());
    kernel.close().unwrap();
    let kernel = place.open();
    let entries = records(&kernel);
    let issued: Vec<_> = entries
        .iter()
        .filter(|entry| entry.event == EventType::CapabilityIssued)
        .collect();
    for path in &large.paths {
        assert!(issued[0].metadata["scope"].contains(&**path), "{path}");
    }
    assert!(issued[0].metadata["delegable"].contains("a.txt"));
    assert!(!issued[1].metadata.contains_key("delegable"));
    let ended: Vec<_> = entries
        .iter()
        .filter(|entry| entry.event == EventType::CapabilityExpired)
        .map(|entry| (entry.token.clone().unwrap(), entry.reason.clone().unwrap()))
        .collect();
    let want = [
        (revoked.id().to_string(), "revoked".to_owned()),
        (last.id().to_string(), "expired".to_owned()),
    ];
    assert_eq!(ended, want, "each once, and also the last");
}

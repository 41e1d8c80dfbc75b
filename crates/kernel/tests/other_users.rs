//! Processes of another user who was let in besides: their own user, and never the owner.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_core::{Peer, SessionId};
use airlock_kernel::{Call, Front, Kernel, Outcome, Whence};
use serde_json::{Value, json};
use support::{Place, READS, action, denied, done, of_action, session, submit, word};

/// A user that no machine has.
const OTHER: u32 = 4_000_000_001;

fn whence() -> Whence {
    Whence {
        peer: Some(Peer {
            pid: std::process::id(),
            uid: OTHER,
            started: 1,
        }),
        ..Whence::default()
    }
}

fn ask(kernel: &Kernel, session: Option<&SessionId>, name: &str, arguments: Value) -> Outcome {
    let mut call = Call::new(name, arguments);
    call.session = session.cloned();
    kernel.submit_from(Front::Agent, &whence(), &call, None)
}

fn open(more: &str) -> (Place, Kernel) {
    let rule = "  - name: own\n    match: { syscall: \"session.*\" }\n    action: allow\n";
    let place = Place::governed(&format!("{READS}{rule}{more}"), &[("a.txt", "a\n")]);
    let kernel = place.open();
    (place, kernel)
}

#[test]
fn another_user_has_what_the_policy_gives_them_by_name_and_nothing_of_the_owners() {
    let guest = format!(
        "roles: {{ guest: [\"filesystem.read.*\", \"sessions.*\"] }}\nusers: {{ \"uid:{OTHER}\": guest }}\n"
    );
    let owner = format!("users: {{ \"uid:{OTHER}\": owner }}\n");
    for (more, want) in [("", "denied"), (&owner, "denied"), (&guest, "done")] {
        let (_place, kernel) = open(more);
        let outcome = ask(&kernel, None, "fs.read", json!({ "path": "a.txt" }));
        assert_eq!(word(&outcome), want, "{more}");
        let entries = of_action(&kernel, &action(&outcome));
        let request = entries.iter().find_map(|entry| entry.request.as_deref());
        let user = request.unwrap().caller.user.to_string();
        assert_eq!(user, format!("uid:{OTHER}"), "{more}");
        if want == "denied" {
            let reasons = &denied(outcome).decision.contributions;
            let told = |reason: &str| reason.contains("is not granted: user");
            assert!(reasons.iter().any(|one| told(&one.reason)), "{reasons:?}");
        }
        let own = submit(&kernel, Front::Agent, "fs.read", json!({ "path": "a.txt" }));
        assert_eq!(word(&own), "done", "the kernel's own user is as before");
    }
}

#[test]
fn the_sessions_of_two_users_are_not_each_others() {
    let guest = format!(
        "roles: {{ guest: [\"filesystem.read.*\", \"sessions.*\"] }}\nusers: {{ \"uid:{OTHER}\": guest }}\n"
    );
    let (_place, kernel) = open(&guest);
    let mine = session(&kernel, json!({ "title": "mine" }));
    let read = json!({ "path": "a.txt" });
    let outcome = ask(&kernel, Some(&mine), "fs.read", read.clone());
    assert_eq!(word(&outcome), "unknown_session");
    let begun = done(ask(
        &kernel,
        None,
        "session.create",
        json!({ "title": "theirs" }),
    ));
    let theirs = SessionId::new(begun.value["id"].as_str().unwrap()).unwrap();
    done(ask(&kernel, Some(&theirs), "fs.read", read.clone()));
    let listed = done(ask(&kernel, None, "session.list", json!({}))).value;
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["sessions"][0]["title"], "theirs");
    let own = done(submit(&kernel, Front::Cli, "session.list", json!({}))).value;
    assert_eq!(own["sessions"].as_array().unwrap().len(), 1, "{own}");
    let taken = support::in_session(&kernel, Front::Agent, &theirs, "fs.read", read);
    assert_eq!(word(&taken), "unknown_session");
}

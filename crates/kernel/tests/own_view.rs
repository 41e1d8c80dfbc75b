//! What a session may know of itself, and what it may not know of others.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_core::SessionId;
use airlock_kernel::{Call, Front, Kernel, Outcome};
use serde_json::{Value, json};
use support::{Place, READS, done, session, token, word};

fn viewing() -> String {
    format!(
        "{READS}  - name: own-view\n    match: {{ syscall: [session.policy, session.log] }}\n    action: allow\n"
    )
}

fn call(kernel: &Kernel, session: Option<&SessionId>, name: &str, arguments: Value) -> Outcome {
    called(kernel, Front::Mcp, session, name, arguments)
}

fn called(
    kernel: &Kernel,
    front: Front,
    session: Option<&SessionId>,
    name: &str,
    arguments: Value,
) -> Outcome {
    let mut call = Call::new(name, arguments);
    call.session = session.cloned();
    kernel.submit(front, &call)
}

fn tail(kernel: &Kernel, session: Option<&SessionId>, arguments: Value) -> Vec<Value> {
    kernel.log().flush().unwrap();
    let value = done(call(kernel, session, "session.log", arguments)).value;
    assert_eq!(value.get("session"), session.map(|id| json!(id)).as_ref());
    value["records"].as_array().unwrap().clone()
}

fn tools(records: &[Value]) -> Vec<&str> {
    let tools = records.iter().filter_map(|record| record["tool"].as_str());
    tools.collect()
}

#[test]
fn a_session_sees_its_own_records_and_no_other_s() {
    let place = Place::governed(&viewing(), &[("a.txt", "a\n"), ("private/b", "b\n")]);
    let kernel = place.open();
    let secret = token();
    let [one, two, three] = [(); 3].map(|()| session(&kernel, json!({})));
    let read =
        |session, path: &str| call(&kernel, Some(session), "fs.read", json!({ "path": path }));
    read(&one, "private/b");
    read(&one, &secret);
    read(&two, "a.txt");
    call(&kernel, None, "fs.list", json!({}));
    let of_one = tail(&kernel, Some(&one), json!({}));
    let denied = of_one.iter().filter(|record| record["verdict"] == "deny");
    assert_eq!(denied.count(), 1, "{of_one:?}");
    assert!(!tools(&of_one).contains(&"fs.list"));
    // What was said is not shown, only what was decided.
    assert!(
        of_one
            .iter()
            .all(|record| record.get("input").is_none() && record.get("output").is_none())
    );
    assert!(!json!(of_one).to_string().contains(&secret));
    let of_two = tail(&kernel, Some(&two), json!({}));
    assert!(
        of_two.iter().all(|record| record["verdict"] != "deny"),
        "{of_two:?}"
    );
    assert!(tail(&kernel, Some(&three), json!({})).len() < of_one.len());
    let newest = tail(&kernel, Some(&one), json!({ "limit": 1 }));
    assert_eq!(newest.len(), 1);
    assert!(newest[0]["seq"].as_u64() > of_one[0]["seq"].as_u64());
}

#[test]
fn outside_any_session_the_own_process_is_seen_and_nobody_s_session() {
    let place = Place::governed(&viewing(), &[("a.txt", "a\n")]);
    let kernel = place.open();
    let one = session(&kernel, json!({}));
    call(
        &kernel,
        Some(&one),
        "search.glob",
        json!({ "pattern": "*" }),
    );
    call(&kernel, None, "fs.list", json!({}));
    // Another front in the same process is somebody else.
    called(
        &kernel,
        Front::Agent,
        None,
        "fs.exists",
        json!({ "path": "a.txt" }),
    );
    let seen = tail(&kernel, None, json!({}));
    let seen = tools(&seen);
    assert!(seen.contains(&"fs.list"), "{seen:?}");
    for other in [
        "search.glob",
        "fs.exists",
        "session.create",
        "trust.approve",
    ] {
        assert!(!seen.contains(&other), "{seen:?}");
    }
}

#[test]
fn whose_records_they_are_cannot_be_asked_for() {
    let place = Place::governed(&viewing(), &[]);
    let kernel = place.open();
    let own = session(&kernel, json!({}));
    for arguments in [
        json!({ "session": "one" }),
        json!({ "limit": 0 }),
        json!({ "limit": 201 }),
        json!({ "limit": -1 }),
    ] {
        let outcome = call(&kernel, Some(&own), "session.log", arguments.clone());
        assert_eq!(word(&outcome), "invalid_arguments", "{arguments}");
    }
    let unknown = SessionId::new("one").unwrap();
    let outcome = call(&kernel, Some(&unknown), "session.log", json!({}));
    assert_eq!(word(&outcome), "unknown_session");
}

#[test]
fn the_policy_that_is_shown_is_the_one_in_force() {
    let place = Place::governed(&viewing(), &[]);
    let kernel = place.open();
    let own = session(&kernel, json!({}));
    for session in [None, Some(&own)] {
        let shown = done(call(&kernel, session, "session.policy", json!({}))).value;
        assert_eq!(shown["text"], viewing());
        assert_eq!(shown["origin"], "workspace");
        let generation = kernel.policy().generation().digest().to_string();
        assert_eq!(shown["generation"], generation);
    }
    // A policy nobody approved is not in force, and so not shown.
    place.write(
        ".airlock/policy.yaml",
        "version: 1\nrules: []\n# not approved\n",
    );
    let kernel = place.open();
    let shown = done(call(&kernel, None, "session.policy", json!({}))).value;
    assert!(!shown["text"].as_str().unwrap().contains("not approved"));
    assert!(shown["origin"].as_str().unwrap().starts_with("default"));
}

#[test]
fn a_rule_can_keep_a_session_from_its_own_view() {
    let place = Place::governed(READS, &[]);
    let kernel = place.open();
    let own = session(&kernel, json!({}));
    for name in ["session.policy", "session.log"] {
        for session in [None, Some(&own)] {
            assert_eq!(word(&call(&kernel, session, name, json!({}))), "denied");
        }
    }
}

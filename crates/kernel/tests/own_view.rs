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
use support::{Place, READS, done, failed, token, word};

fn viewing() -> String {
    format!(
        "{READS}  - name: own-view\n    match: {{ syscall: [session.policy, session.log] }}\n    action: allow\n"
    )
}

fn call(kernel: &Kernel, session: Option<&str>, name: &str, arguments: Value) -> Outcome {
    let mut call = Call::new(name, arguments);
    call.session = session.map(|id| SessionId::new(id).unwrap());
    kernel.submit(Front::Mcp, &call)
}

fn tail(kernel: &Kernel, session: &str, arguments: Value) -> Vec<Value> {
    kernel.log().flush().unwrap();
    let value = done(call(kernel, Some(session), "session.log", arguments)).value;
    assert_eq!(value["session"], session);
    value["records"].as_array().unwrap().clone()
}

#[test]
fn a_session_sees_its_own_records_and_no_other_s() {
    let place = Place::governed(&viewing(), &[("a.txt", "a\n"), ("private/b", "b\n")]);
    let kernel = place.open();
    let secret = token();
    call(
        &kernel,
        Some("one"),
        "fs.read",
        json!({ "path": "private/b" }),
    );
    call(&kernel, Some("one"), "fs.read", json!({ "path": secret }));
    call(&kernel, Some("two"), "fs.read", json!({ "path": "a.txt" }));
    call(&kernel, None, "fs.list", json!({}));
    let one = tail(&kernel, "one", json!({}));
    let denied = one.iter().filter(|record| record["verdict"] == "deny");
    assert_eq!(denied.count(), 1, "{one:?}");
    assert!(one.iter().all(|record| record["tool"] != "fs.list"));
    // What was said is not shown, only what was decided.
    assert!(
        one.iter()
            .all(|record| record.get("input").is_none() && record.get("output").is_none())
    );
    assert!(!json!(one).to_string().contains(&secret));
    let two = tail(&kernel, "two", json!({}));
    assert!(
        two.iter().all(|record| record["verdict"] != "deny"),
        "{two:?}"
    );
    assert!(tail(&kernel, "three", json!({})).len() < one.len());
    let newest = tail(&kernel, "one", json!({ "limit": 1 }));
    assert_eq!(newest.len(), 1);
    assert!(newest[0]["seq"].as_u64() > one[0]["seq"].as_u64());
}

#[test]
fn whose_records_they_are_cannot_be_asked_for() {
    let place = Place::governed(&viewing(), &[]);
    let kernel = place.open();
    for arguments in [
        json!({ "session": "one" }),
        json!({ "limit": 0 }),
        json!({ "limit": 201 }),
        json!({ "limit": -1 }),
    ] {
        let outcome = call(&kernel, Some("two"), "session.log", arguments.clone());
        assert_eq!(word(&outcome), "invalid_arguments", "{arguments}");
    }
    let nobody = failed(call(&kernel, None, "session.log", json!({})));
    assert!(nobody.what.contains("no session"), "{}", nobody.what);
}

#[test]
fn the_policy_that_is_shown_is_the_one_in_force() {
    let place = Place::governed(&viewing(), &[]);
    let kernel = place.open();
    let shown = done(call(&kernel, Some("one"), "session.policy", json!({}))).value;
    assert_eq!(shown["text"], viewing());
    assert_eq!(shown["origin"], "workspace");
    let generation = kernel.policy().generation().digest().to_string();
    assert_eq!(shown["generation"], generation);
    // A policy nobody approved is not in force, and so not shown.
    place.write(
        ".airlock/policy.yaml",
        "version: 1\nrules: []\n# not approved\n",
    );
    let kernel = place.open();
    let shown = done(call(&kernel, Some("one"), "session.policy", json!({}))).value;
    assert!(!shown["text"].as_str().unwrap().contains("not approved"));
    assert!(shown["origin"].as_str().unwrap().starts_with("default"));
}

#[test]
fn a_rule_can_keep_a_session_from_its_own_view() {
    let place = Place::governed(READS, &[]);
    let kernel = place.open();
    for name in ["session.policy", "session.log"] {
        assert_eq!(word(&call(&kernel, Some("one"), name, json!({}))), "denied");
    }
}

//! A client in another language, which shares nothing with the crates, drives a kernel.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use serde_json::{Value, json};
use support::{Place, Served, python};

fn plays(served: &Served, scenario: &[&str]) -> Value {
    let socket = served.socket.to_str().unwrap().to_owned();
    let mut arguments = vec![scenario[0], socket.as_str()];
    arguments.extend(&scenario[1..]);
    python(&[], &arguments).unwrap_or_else(|error| panic!("{scenario:?}: {error}"))
}

#[test]
fn it_shakes_hands_lists_and_calls() {
    let place = Place::new();
    let served = place.serve();
    let greeting = plays(&served, &["handshake"]);
    assert_eq!(greeting["kernel"], env!("CARGO_PKG_VERSION"));
    assert_eq!(greeting["about"]["pid"], std::process::id());
    let tools = plays(&served, &["tools", "agent"]);
    assert!(
        tools["tools"]
            .as_array()
            .unwrap()
            .contains(&json!("fs.read"))
    );
    let read = ["call", "agent", "fs.read", r#"{"path": "README.md"}"#];
    let done = plays(&served, &read);
    assert_eq!(done["outcome"]["done"]["value"]["text"], "hello\n");
    let denied = ["call", "agent", "fs.read", r#"{"path": "private/key"}"#];
    let denied = &plays(&served, &denied)["outcome"]["denied"];
    assert_eq!(denied["decision"]["verdict"], "deny");
    assert!(
        denied.to_string().contains("private stays private"),
        "{denied}"
    );
    let pending = ["call", "agent", "fs.read", r#"{"path": "review/plan"}"#];
    let pending = &plays(&served, &pending)["outcome"]["needs_review"];
    assert!(pending["approval"]["id"].is_string(), "{pending}");
}

#[test]
fn it_is_told_what_it_does_wrong() {
    let place = Place::new();
    let served = place.serve();
    assert_eq!(
        plays(&served, &["version"]),
        json!({ "oldest": 1, "newest": 1 })
    );
    for name in ["root", "kernel", "CLI"] {
        assert_eq!(plays(&served, &["name", name])["code"], "refused");
    }
    let codes = plays(&served, &["methods"]);
    let mut want = vec!["invalid_params"; 10];
    want[0] = "unknown_method";
    assert_eq!(codes, json!(want));
    let said = plays(&served, &["frames"]);
    assert_eq!(
        said,
        json!({
            "too_long": "frame_too_long",
            "not_utf8": "not_utf8",
            "not_json": "not_json",
            "empty": "not_json",
            "no_message": "invalid_message",
            "cut": "frame_truncated",
            "no_handshake": "handshake_required",
        })
    );
}

#[test]
fn it_takes_a_call_back_and_follows_events() {
    let place = Place::new();
    let served = place.serve();
    let sleep = r#"{"command": ["sleep", "1000"], "no_stage": true}"#;
    let outcome = plays(&served, &["cancel", "exec.own", sleep]);
    // It had begun to run, or had not.
    let ended = [
        &outcome["done"]["ran"]["outcome"]["outcome"],
        &outcome["error"],
    ];
    assert!(ended.contains(&&json!("cancelled")), "{outcome}");
    let events = plays(&served, &["events"]);
    assert!(events["events"].as_u64().unwrap() >= 2, "{events}");
    for front in ["agent", "mcp", "server"] {
        assert_eq!(plays(&served, &["no_events", front])["code"], "refused");
    }
}

/// Runs what follows in namespaces of its own, as whatever is in a sandbox does.
const SANDBOXED: &[&str] = &["unshare", "--user", "--map-root-user", "--pid", "--fork"];

#[test]
fn who_is_in_a_sandbox_has_its_own_socket_and_no_other() {
    let place = Place::new();
    let served = place.serve();
    let main = served.socket.to_str().unwrap();
    for name in ["cli", "agent", "mcp", "server", "bootstrap"] {
        let refused = python(SANDBOXED, &["name", main, name]).unwrap();
        assert_eq!(refused["code"], "refused", "{name}: {refused}");
        assert!(
            refused["message"].as_str().unwrap().contains("sandbox"),
            "{refused}"
        );
    }
    let own = served.socket_for("box-1");
    let path = own.path().to_str().unwrap().to_owned();
    for name in ["cli", "mcp", "server", "bootstrap"] {
        let refused = python(SANDBOXED, &["name", &path, name]).unwrap();
        assert_eq!(refused["code"], "refused", "{name}: {refused}");
    }
    let read = r#"{"path": "README.md"}"#;
    let done = python(SANDBOXED, &["call", &path, "agent", "fs.read", read]).unwrap();
    assert_eq!(done["outcome"]["done"]["value"]["text"], "hello\n");
    // And the log says where it came from.
    let private = r#"{"path": "private/key"}"#;
    let denied = python(SANDBOXED, &["call", &path, "agent", "fs.read", private]).unwrap();
    let caller = &denied["outcome"]["denied"]["request"]["caller"];
    assert_eq!(
        (&caller["sandbox"], &caller["plugin"]),
        (&json!("box-1"), &json!("agent"))
    );
    // Somebody outside cannot be it.
    let outside = python(&[], &["name", &path, "agent"]).unwrap();
    assert_eq!(outside["code"], "refused", "{outside}");
}

//! A plugin in its box reaches the kernel by a socket of its own, and is nobody else there.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_audit::Filter;
use airlock_core::Digest;
use airlock_kernel::{Call, Front, Lifetime, Outcome, Review};
use airlock_service::Remote;
use airlock_wire::{Client, Hello, Limits};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use support::{PATIENCE, Place, READS, Served, call, yes};

const SCRIPT: &str = include_str!("plugin.py");
const MANIFEST: &str = "name: tickets\nversion: 1.0.0\ntype: tool\ncapabilities: [\"filesystem.read.*\", \"sessions.*\"]\nexecution:\n  tier: process\n  protocol: mcp\n  entry: bin/run\n";

/// A workspace in which the plugin may be called.
fn governed() -> Place {
    let rule = "  - name: call-tools\n    match: { syscall: tool.call }\n    action: allow\n";
    let sessions = "  - name: sessions\n    match: { syscall: session.* }\n    action: allow\n";
    let first = "approvals: { automatic: [AG-01] }\n";
    Place::governed(&format!("{READS}{rule}{sessions}{first}"))
}

/// A served workspace with the plugin installed.
fn served() -> (Place, Served) {
    let place = governed();
    place.install(MANIFEST, SCRIPT);
    let served = place.serve();
    (place, served)
}

/// What the plugin is told when it asks for `given`.
fn ask(client: &mut Client, given: &Value) -> Value {
    let answer = client.call("call", call("tickets.ask", given)).unwrap();
    let told = &answer["outcome"]["done"]["value"]["value"]["told"];
    assert!(!told.is_null(), "{answer}");
    told.clone()
}

#[test]
fn what_a_plugin_asks_over_its_socket_takes_the_road_as_that_plugin() {
    let (place, mut served) = served();
    let mut client = served.client("agent");
    let read = |path: &str| json!({ "name": "fs.read", "arguments": { "path": path } });
    let told = ask(&mut client, &read("a.txt"));
    assert_eq!(told["outcome"]["done"]["value"]["text"], "a\n", "{told}");
    // Rules and gates hold for it as for anybody.
    let told = ask(&mut client, &read("private/key"));
    assert!(told["outcome"]["denied"].is_object(), "{told}");
    let write = json!({ "name": "fs.write", "arguments": { "path": "b", "text": "b" } });
    let told = ask(&mut client, &write);
    let contributions = &told["outcome"]["denied"]["decision"]["contributions"];
    assert_eq!(contributions[0]["rule"], "plugin", "{told}");
    served.end();
    let kernel = place.kernel(Lifetime::Command);
    let records = kernel.log().read(Filter::default()).unwrap();
    let mut entries = records.map(|record| record.unwrap().entry);
    let read = entries
        .find(|entry| entry.syscall.as_deref() == Some("fs.read"))
        .unwrap();
    let caller = read.caller.unwrap();
    assert_eq!(caller.plugin.as_str(), "tickets");
    assert!(
        caller
            .sandbox
            .unwrap()
            .as_str()
            .starts_with("plugin-tickets-")
    );
    let peer = caller.peer.unwrap();
    assert_ne!(peer.pid, std::process::id());
}

#[test]
fn a_plugin_is_nobody_else_and_has_no_session_but_that_of_its_call() {
    let (_place, served) = served();
    let mut client = served.client("cli");
    let session = client
        .call("call", call("session.create", &json!({})))
        .unwrap();
    let session = session["outcome"]["done"]["value"]["id"].clone();
    let read = |more: Value| {
        let mut given = json!({ "name": "fs.read", "arguments": { "path": "a.txt" } });
        given
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        given
    };
    for (case, more, want) in [
        (
            "as the person",
            json!({ "as": "cli" }),
            "socket of the plugin",
        ),
        (
            "as an agent",
            json!({ "as": "agent" }),
            "socket of the plugin",
        ),
        (
            "as another plugin",
            json!({ "as": "other" }),
            "socket of the plugin",
        ),
        (
            "in a session of its choice",
            json!({ "more": { "session": session } }),
            "within",
        ),
        (
            "as part of another's call",
            json!({ "within": "made-up" }),
            "no such call",
        ),
        (
            "with a person's environment",
            json!({ "more": { "person": { "home": "/", "environment": {} } } }),
            "within",
        ),
        (
            "ending the kernel",
            json!({ "method": "kernel.stop" }),
            "command line",
        ),
        (
            "having it opened again",
            json!({ "method": "kernel.renew" }),
            "command line",
        ),
        (
            "running a workflow",
            json!({ "method": "workflows.run" }),
            "command line",
        ),
        ("running a command", json!({ "method": "exec" }), "error"),
    ] {
        let told = ask(&mut client, &read(more));
        let error = told["error"]
            .as_str()
            .unwrap_or_else(|| panic!("{case}: {told}"));
        assert!(error.contains(want) || want == "error", "{case}: {error}");
    }
    // In a session, it acts in that one.
    let given = json!({ "name": "session.show", "arguments": { "session": session } });
    let mut params = call("tickets.ask", &given);
    params["session"] = session.clone();
    let answer = client.call("call", params).unwrap();
    let told = &answer["outcome"]["done"]["value"]["value"]["told"]["outcome"];
    assert_eq!(told["done"]["value"]["id"], session, "{answer}");
}

#[test]
fn nobody_outside_the_box_gets_in_by_its_socket() {
    let (_place, served) = served();
    let mut client = served.client("agent");
    let read = json!({ "name": "fs.read", "arguments": { "path": "a.txt" } });
    ask(&mut client, &read);
    let reach = served.state.join("run/p");
    let mut sockets = std::fs::read_dir(reach).unwrap().flatten();
    let socket = sockets.next().unwrap().path().join("kernel.sock");
    let hello = Hello::new("tickets", "1");
    assert!(Client::connect(&socket, &hello, PATIENCE).is_err());
    // A call that names what a plugin serves is refused to everybody else.
    let mut params = call("fs.read", &json!({ "path": "a.txt" }));
    params["within"] = json!("x");
    assert!(client.call("call", params).is_err());
}

#[test]
fn with_the_kernel_its_plugins_and_their_sockets_end() {
    let (_place, mut served) = served();
    let mut client = served.client("agent");
    let read = json!({ "name": "fs.read", "arguments": { "path": "a.txt" } });
    ask(&mut client, &read);
    drop(client);
    let reach = served.state.join("run/p");
    assert_eq!(std::fs::read_dir(&reach).unwrap().count(), 1);
    served.end();
    assert_eq!(std::fs::read_dir(&reach).unwrap().count(), 0);
}

/// The question that `call` is answered with.
fn question(remote: &mut Remote, call: &Call) -> Box<Review> {
    let outcome = remote.call(call, None).unwrap().outcome;
    let Outcome::NeedsReview(review) = outcome else {
        panic!("{outcome:?}");
    };
    review
}

#[test]
fn an_answer_is_about_what_the_kernel_that_asked_has_looked_at() {
    let place = Place::new();
    place.write_plugin(MANIFEST, SCRIPT);
    let served = place.serve();
    let mut remote = Remote::any(&served.state, Front::Cli).unwrap();
    let asked = json!({ "path": place.plugin(), "tier": "process" });
    let install = Call::new("plugin.install", asked);
    let whole = question(&mut remote, &install).request.arguments;
    assert!(whole["digest"].is_string(), "{whole}");
    let beside = place.kernel(Lifetime::Command);
    // Nobody said anything to another question.
    let mut other = whole.clone();
    other["digest"] = json!(Digest::of(b"other"));
    for altered in [other, install.arguments.clone()] {
        let mut asked = question(&mut remote, &install);
        asked.request.arguments = altered;
        assert!(yes(&beside, &mut asked).is_err());
    }
    let mut asked = question(&mut remote, &install);
    assert_eq!(asked.request.arguments, whole);
    yes(&beside, &mut asked).unwrap();
    // Files that changed since are asked about anew.
    let more = place.plugin().join("more");
    std::fs::write(&more, "more\n").unwrap();
    let again = question(&mut remote, &install).request.arguments;
    assert_ne!(again["digest"], whole["digest"]);
    std::fs::remove_file(&more).unwrap();
    let outcome = remote.call(&install, None).unwrap().outcome;
    let Outcome::Done(done) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(done.value["state"], "running", "{}", done.value);
}

#[test]
fn what_a_person_is_asked_about_besides_is_told_to_the_command_line_alone() {
    let (_place, served) = served();
    let asks = |front: &str, params: &Value| {
        let answer = served.client(front).call("call", params.clone()).unwrap();
        (answer["outcome"].clone(), answer.get("question").cloned())
    };
    let shown = call("plugin.show", &json!({ "name": "tickets" }));
    let (shown, _) = asks("cli", &shown);
    let digest = &shown["done"]["value"]["tools_digest"];
    let arguments = json!({ "name": "tickets", "tools": digest });
    let enable = call("plugin.enable", &arguments);
    let (outcome, question) = asks("cli", &enable);
    assert!(outcome["needs_review"].is_object(), "{outcome}");
    let want = json!({ "name": "tickets", "tools": digest, "changes": {} });
    assert_eq!(question, Some(want));
    for front in ["agent", "mcp", "server"] {
        let (outcome, question) = asks(front, &enable);
        assert!(outcome["done"].is_null(), "{front}: {outcome}");
        assert_eq!(question, None, "{front}");
    }
    let given = json!({ "name": "plugin.enable", "arguments": arguments });
    let told = ask(&mut served.client("agent"), &given);
    assert!(told["outcome"]["done"].is_null(), "{told}");
    assert!(told.get("question").is_none(), "{told}");
    // A question about nothing but the call is in the call.
    let read = call("fs.read", &json!({ "path": "review/plan" }));
    let (outcome, question) = asks("cli", &read);
    assert!(outcome["needs_review"].is_object(), "{outcome}");
    assert_eq!(question, None);
}

#[test]
fn a_plugin_whose_calls_take_every_place_can_be_switched_off() {
    let answers = "        told = ask(";
    let hangs = SCRIPT.replace(
        answers,
        &format!("        __import__(\"time\").sleep(1000)\n{answers}"),
    );
    assert_ne!(hangs, SCRIPT);
    let place = governed();
    place.install(MANIFEST, &hangs);
    let mut served = place.serve_with(Limits {
        workers: 2,
        ..Limits::MAIN
    });
    let mut busy = served.client("agent");
    let given = json!({ "name": "fs.read", "arguments": { "path": "a.txt" } });
    let asked = [(); 3].map(|()| {
        let asked = call("tickets.ask", &given);
        busy.send("call", asked, &[]).unwrap()
    });
    // The control: whoever else asks has to wait.
    let waits = || {
        let mut other = served.client("agent");
        other.wait_up_to(Some(Duration::from_secs(1))).unwrap();
        other.call("tools.list", Value::Null).is_err()
    };
    let begun = Instant::now();
    while !waits() {
        assert!(begun.elapsed() < PATIENCE, "there is still a place");
    }
    let kernel = place.kernel(Lifetime::Command);
    let mut remote = Remote::any(&served.state, Front::Cli).unwrap();
    let off = Call::new("plugin.disable", json!({ "name": "tickets" }));
    let mut outcome = remote.call(&off, None).unwrap().outcome;
    if let Outcome::NeedsReview(asked) = &mut outcome {
        yes(&kernel, asked).unwrap();
        outcome = remote.call(&off, None).unwrap().outcome;
    }
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    // Its calls have ended with it, and whoever waited is told.
    for id in asked {
        let answer = busy.answer(id).unwrap();
        assert!(answer["outcome"]["done"].is_null(), "{answer}");
    }
    served.end();
}

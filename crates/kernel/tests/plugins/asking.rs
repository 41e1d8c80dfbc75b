//! What a plugin asks of the kernel: a call like any other, within what everybody allows.

use crate::server::{TOOLS, install, manifest, open, write};
use crate::support::{Place, action, at, done, of_action, records, submit, word};
use airlock_audit::{EventType, Stage};
use airlock_core::SessionId;
use airlock_kernel::{Call, Front, Hosting, Kernel, PluginRoad};
use airlock_plugin::{
    CallError, Callback, Host, Hosts, Instance, Sink, Start, StartError, ToolCall, ToolDescription,
};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// What the plugins that were started can call.
type Started = Arc<Mutex<Vec<(Arc<dyn Callback>, Arc<AtomicBool>)>>>;

/// Runs plugins in this process: what they ask goes the way of those that run in workers.
struct Inside(Started);

impl Host for Inside {
    fn start(&self, start: Start) -> Result<Arc<dyn Instance>, StartError> {
        let ended = Arc::new(AtomicBool::new(false));
        let started = (Arc::clone(&start.reach.callback), Arc::clone(&ended));
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(started);
        Ok(Arc::new(Asker {
            callback: start.reach.callback,
            ended,
            tools: vec![ToolDescription {
                name: "ask".to_owned(),
                summary: "Ask the kernel".to_owned(),
                schema: json!({ "type": "object" }),
                read_only: false,
            }],
        }))
    }
}

/// Asks the kernel for what its tool is called with.
struct Asker {
    callback: Arc<dyn Callback>,
    ended: Arc<AtomicBool>,
    tools: Vec<ToolDescription>,
}

impl Instance for Asker {
    fn tools(&self) -> &[ToolDescription] {
        &self.tools
    }

    fn call(&self, call: &ToolCall, _: &mut dyn Sink, _: &AtomicBool) -> Result<Value, CallError> {
        let given = &call.arguments;
        let within = match given["within"].as_str() {
            None => Some(&*call.action),
            Some("nothing") => None,
            Some(other) => Some(other),
        };
        let name = given["name"].as_str().unwrap();
        Ok(
            match self.callback.submit(name, &given["arguments"], within) {
                Ok(value) => json!({ "ok": value, "action": call.action, "session": call.session }),
                Err(error) => json!({ "code": error.code, "message": error.message }),
            },
        )
    }

    fn health(&self) -> Result<(), CallError> {
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    fn report(&self) -> Value {
        json!({})
    }

    fn stop(&self, _: Duration) {
        self.ended.store(true, Ordering::SeqCst);
    }
}

/// A kernel with the plugin `tickets`, whose manifest says `more`, under `policy`.
fn kernel(policy: &str, more: &str) -> (Place, Arc<Kernel>, Started) {
    let place = Place::governed(policy, &[("a.txt", "a\n"), ("private/key", "k\n")]);
    let directory = place.beside("source");
    write(&directory, &manifest(more), "#!/bin/sh\n");
    let started = Started::default();
    let host = Arc::new(Inside(Arc::clone(&started)));
    let kernel = open(&place).hosting(Hosting::new(move |_| Hosts {
        mcp: Some(host),
        ..Hosts::default()
    }));
    let kernel = Arc::new(kernel);
    let road: Weak<Kernel> = Arc::downgrade(&kernel);
    kernel.connect_plugins(road, None);
    install(&kernel, &directory);
    (place, kernel, started)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "arguments are written out where it is called"
)]
fn ask(kernel: &Kernel, name: &str, arguments: Value) -> Value {
    let given = json!({ "name": name, "arguments": arguments });
    done(submit(kernel, Front::Agent, "tickets.ask", given)).value["value"].clone()
}

#[test]
fn a_plugin_does_exactly_what_manifest_workspace_and_user_all_allow() {
    let narrow = |workspace: &str, user: &str| {
        format!("{TOOLS}workspace:\n  allow: [{workspace}]\nroles:\n  owner: [{user}]\n")
    };
    let (every, reads) = (
        "\"*\"",
        "\"tool.*\", \"plugin.*\", \"trust.*\", \"approvals.*\", \"filesystem.read.*\"",
    );
    let none = "\"tool.*\", \"plugin.*\", \"trust.*\", \"approvals.*\"";
    let asks = "capabilities: [\"filesystem.read.*\"]\n";
    for (case, policy, more, want) in [
        ("all three", narrow(every, every), asks, None),
        ("just so", narrow(reads, reads), asks, None),
        ("no manifest", narrow(every, every), "", Some("plugin")),
        (
            "another path",
            narrow(every, every),
            "capabilities: [\"filesystem.read./elsewhere/*\"]\n",
            Some("plugin"),
        ),
        (
            "given up",
            narrow(every, every),
            "capabilities: [\"filesystem.*\"]\ndeny_capabilities: [\"filesystem.read.*\"]\n",
            Some("plugin deny"),
        ),
        ("no workspace", narrow(none, every), asks, Some("workspace")),
        ("no user", narrow(every, none), asks, Some("user")),
    ] {
        let (_place, kernel, _) = kernel(&policy, more);
        let told = ask(&kernel, "fs.read", json!({ "path": "a.txt" }));
        match want {
            None => assert_eq!(told["ok"]["text"], "a\n", "{case}: {told}"),
            Some(gate) => {
                assert_eq!(told["code"], "denied", "{case}: {told}");
                let message = told["message"].as_str().unwrap();
                assert!(message.contains("filesystem.read."), "{case}: {message}");
                let checks = records(&kernel).into_iter().rev();
                let mut checks = checks.filter(|entry| {
                    entry.event == EventType::CapabilityCheck
                        && entry.metadata["plugin"] == "tickets"
                });
                let check = checks.next().unwrap();
                let result = &check.metadata["result"];
                assert_eq!(*result, format!("denied: {gate}"), "{case}");
            }
        }
    }
}

#[test]
fn rules_hold_for_what_a_plugin_asks_and_it_is_recorded_as_the_plugin() {
    let (_place, kernel, _) = kernel(TOOLS, "capabilities: [\"filesystem.*\"]\n");
    let told = ask(&kernel, "fs.read", json!({ "path": "private/key" }));
    assert_eq!(
        (told["code"].as_str(), told["message"].as_str()),
        (Some("denied"), Some("private stays private"))
    );
    let entries = records(&kernel);
    let attempt = entries
        .iter()
        .rev()
        .find(|entry| entry.syscall.as_deref() == Some("fs.read"));
    let caller = attempt.unwrap().caller.as_ref().unwrap();
    assert_eq!(caller.plugin.as_str(), "tickets");
    assert!(
        caller
            .sandbox
            .as_ref()
            .unwrap()
            .as_str()
            .starts_with("plugin-tickets-")
    );
    assert!(
        caller.tags.iter().any(|tag| tag.as_str() == "third_party"),
        "{caller:?}"
    );
}

#[test]
fn a_rule_that_goes_by_a_tag_does_not_go_by_the_manifests() {
    let policy = "\
version: 1
rules:
  - name: call-tools
    match: { syscall: tool.call }
    action: allow
  - name: ours-read
    match: { effect: read, path_glob: \"**\", caller_tag: ours }
    action: allow
";
    let granted = format!("{policy}tags:\n  ours: {{ plugin: [tickets] }}\n");
    for (case, policy, want) in [
        ("its own", policy, None),
        ("policy's", &*granted, Some("a\n")),
    ] {
        let more = "tags: [ours]\ncapabilities: [\"filesystem.*\"]\n";
        let (_place, kernel, _) = kernel(policy, more);
        let told = ask(&kernel, "fs.read", json!({ "path": "a.txt" }));
        assert_eq!(told["ok"]["text"].as_str(), want, "{case}: {told}");
        // It is found by it all the same.
        let listed = submit(&kernel, Front::Cli, "plugin.list", json!({ "tag": "ours" }));
        assert_eq!(
            done(listed).value["plugins"][0]["name"],
            "tickets",
            "{case}"
        );
    }
}

#[test]
fn not_even_a_manifest_that_asks_for_everything_lets_a_plugin_steer() {
    let allow = format!(
        "{TOOLS}  - name: everything\n    match: {{ effect: [read, write, execute, control] }}\n    action: allow\n"
    );
    let (_place, kernel, _) = kernel(&allow, "capabilities: [\"*\"]\n");
    for (name, arguments, want) in [
        ("policy.update", json!({ "text": "version: 1\n" }), "denied"),
        ("trust.revoke", json!({}), "denied"),
        ("plugin.list", json!({}), "denied"),
        ("audit.read", json!({ "purpose": "log" }), "denied"),
        // These do not even exist for it.
        ("approval.read", json!({}), "unknown_tool"),
        ("exec.own", json!({ "command": ["true"] }), "unknown_tool"),
        ("plugin.install", json!({ "path": "/x" }), "unknown_tool"),
        ("tickets.ask", json!({ "name": "fs.read" }), "unknown_tool"),
    ] {
        let told = ask(&kernel, name, arguments);
        assert_eq!(told["code"], want, "{name}: {told}");
    }
}

#[test]
fn a_plugin_acts_in_the_session_of_the_call_it_serves_and_no_other() {
    let (_place, kernel, started) =
        kernel(TOOLS, "capabilities: [\"filesystem.*\", \"sessions.*\"]\n");
    let session = done(submit(&kernel, Front::Cli, "session.create", json!({}))).value;
    let session = SessionId::new(session["id"].as_str().unwrap()).unwrap();
    let mut call = Call::new(
        "tickets.ask",
        json!({ "name": "fs.read", "arguments": { "path": "a.txt" } }),
    );
    call.session = Some(session.clone());
    let told = done(kernel.submit(Front::Cli, &call)).value["value"].clone();
    assert_eq!(told["session"], session.as_str(), "{told}");
    let action = told["action"].as_str().unwrap().to_owned();
    let entries = records(&kernel);
    let read = entries
        .iter()
        .rev()
        .find(|entry| entry.syscall.as_deref() == Some("fs.read"));
    assert_eq!(
        read.unwrap().caller.as_ref().unwrap().session,
        Some(session)
    );
    // The call is over, so nothing is part of it any more; and nobody serves what nobody asked.
    for within in [&*action, "made-up"] {
        let given =
            json!({ "name": "fs.read", "arguments": { "path": "a.txt" }, "within": within });
        let told = done(submit(&kernel, Front::Agent, "tickets.ask", given)).value;
        assert_eq!(told["value"]["code"], "unknown_action", "{told}");
    }
    // Outside any call it acts in no session.
    let (callback, _) = started.lock().unwrap().last().unwrap().clone();
    callback
        .submit("fs.read", &json!({ "path": "a.txt" }), None)
        .unwrap();
    let entries = records(&kernel);
    let read = entries
        .iter()
        .rev()
        .find(|entry| entry.syscall.as_deref() == Some("fs.read"));
    assert_eq!(read.unwrap().caller.as_ref().unwrap().session, None);
}

#[test]
fn once_it_was_stopped_a_plugin_can_do_nothing() {
    let (_place, kernel, started) = kernel(TOOLS, "capabilities: [\"filesystem.*\"]\n");
    let (callback, _) = started.lock().unwrap().last().unwrap().clone();
    let read = || callback.submit("fs.read", &json!({ "path": "a.txt" }), None);
    assert!(read().is_ok());
    done(submit(
        &kernel,
        Front::Cli,
        "plugin.disable",
        json!({ "name": "tickets" }),
    ));
    let error = read().unwrap_err();
    assert_eq!(error.code, "denied");
    let entries = records(&kernel);
    let check = entries
        .iter()
        .rev()
        .find(|entry| entry.event == EventType::CapabilityCheck);
    assert_eq!(check.unwrap().metadata["result"], "denied: unknown plugin");
    assert!(
        entries
            .iter()
            .rev()
            .any(|entry| entry.stage == Stage::Attempt)
    );
    kernel.disconnect_plugins();
    assert_eq!(read().unwrap_err().code, "unavailable");
}

#[test]
fn nobody_is_there_to_answer_for_a_plugin() {
    let policy = format!(
        "{TOOLS}  - name: look\n    match: {{ syscall: fs.list, plugin: tickets }}\n    action: require_review\n    reason: somebody should look\n"
    );
    let (_place, kernel, _) = kernel(&policy, "capabilities: [\"filesystem.*\"]\n");
    let told = ask(&kernel, "fs.list", json!({}));
    assert_eq!(told["code"], "denied", "{told}");
    let waiting = format!("{policy}approvals:\n  headless: wait\n");
    crate::support::update(&kernel, &waiting);
    let told = ask(&kernel, "fs.list", json!({}));
    assert_eq!(told["code"], "review", "{told}");
    assert!(
        told["message"]
            .as_str()
            .unwrap()
            .contains("airlock approvals approve")
    );
}

#[test]
fn a_road_that_names_no_plugin_leads_nowhere() {
    let (_place, kernel, _) = kernel(TOOLS, "capabilities: [\"*\"]\n");
    let whence = airlock_kernel::Whence::default();
    let refused = kernel.submit_for(&whence, "fs.read", &json!({ "path": "a.txt" }), None);
    assert_eq!(refused.unwrap_err().code, "unknown_plugin");
    let outcome = submit(
        &kernel,
        Front::Plugin,
        "fs.read",
        json!({ "path": "a.txt" }),
    );
    assert_eq!(word(&outcome), "denied");
    let entries = of_action(&kernel, &action(&outcome));
    let caller = at(&entries, Stage::Attempt).caller.as_ref().unwrap();
    assert_eq!(caller.plugin.as_str(), "plugin");
}

//! What a plugin asks of the kernel: a call like any other, within what everybody allows.

use crate::server::{TOOLS, install, manifest, open, write};
use crate::support::{Place, action, at, done, of_action, records, submit, word};
use airlock_audit::{EventType, Stage};
use airlock_core::{Effect, Peer, PluginName, SandboxId, SessionId, Syscall};
use airlock_kernel::{
    Call, Front, Hosting, Kernel, Outcome, PluginAsk, PluginRoad, Presented, Whence,
};
use airlock_plugin::{
    CallError, Callback, Host, Hosts, Instance, Sink, Start, StartError, ToolCall, ToolDescription,
};
use airlock_policy::token::{Scope, Token};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Where two calls wait for each other before they ask, and again once both have their answers.
static MEETING: Barrier = Barrier::new(2);

/// What a call waits for that is to be held up.
static HELD: Mutex<()> = Mutex::new(());

struct Meeting;

impl Drop for Meeting {
    fn drop(&mut self) {
        MEETING.wait();
    }
}

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
        if given["held"] == true {
            drop(HELD.lock().unwrap_or_else(PoisonError::into_inner));
        }
        let meets = given["meets"] == true;
        if meets {
            MEETING.wait();
        }
        let _meeting = meets.then(|| Meeting);
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
    let (kernel, started) = kernel_at(&place, more);
    (place, kernel, started)
}

fn kernel_at(place: &Place, more: &str) -> (Arc<Kernel>, Started) {
    let directory = place.beside("source");
    write(&directory, &manifest(more), "#!/bin/sh\n");
    let started = Started::default();
    let host = Arc::new(Inside(Arc::clone(&started)));
    let kernel = open(place).hosting(Hosting::new(move |_| Hosts {
        mcp: Some(host),
        ..Hosts::default()
    }));
    let kernel = Arc::new(kernel);
    let road: Weak<Kernel> = Arc::downgrade(&kernel);
    kernel.connect_plugins(road, None);
    install(&kernel, &directory);
    (kernel, started)
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

/// Requests name absolute paths, manifests the home: what a plugin does without there must hold.
#[test]
fn the_home_of_a_manifest_is_the_person_s_by_any_name() {
    for (case, more, is_read) in [
        (
            "all of it",
            "capabilities: [\"filesystem.read.~/*\"]\n",
            true,
        ),
        (
            "elsewhere in it",
            "capabilities: [\"filesystem.read.~/private/*\"]\n",
            false,
        ),
        (
            "given up",
            "capabilities: [\"filesystem.*\"]\ndeny_capabilities: [\"filesystem.read.~/a*\"]\n",
            false,
        ),
    ] {
        let place = Place::governed(TOOLS, &[("a.txt", "a\n")]);
        std::os::unix::fs::symlink(place.root(), place.beside("home")).unwrap();
        let (kernel, _) = kernel_at(&place, more);
        let told = ask(&kernel, "fs.read", json!({ "path": "a.txt" }));
        if is_read {
            assert_eq!(told["ok"]["text"], "a\n", "{case}: {told}");
        } else {
            assert_eq!(told["code"], "denied", "{case}: {told}");
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
fn rules_go_by_what_a_tool_declares_which_only_adds_to_running() {
    let rule = |name: &str, effect: &str, action: &str| {
        format!(
            "  - {{ name: {name}, match: {{ syscall: tool.call, effect: [{effect}] }}, action: {action}, reason: r }}\n"
        )
    };
    let run = rule("run", "execute", "allow");
    let both = rule("both", "execute, network", "allow");
    let offline = rule("offline", "network", "deny");
    for (case, rules, effects, want) in [
        ("it declares nothing", run.clone(), "", "done"),
        ("more than is allowed", run.clone(), "network", "denied"),
        ("all of it is allowed", both.clone(), "network", "done"),
        (
            "it is denied",
            format!("{both}{offline}"),
            "network",
            "denied",
        ),
        (
            "it runs all the same",
            rule("look", "read", "allow"),
            "read",
            "denied",
        ),
    ] {
        let policy = format!("version: 1\nrules:\n{rules}");
        let more = format!(
            "tools: [{{ name: ask, summary: Ask the kernel, schema: {{ type: object }}, effects: [{effects}] }}]\n"
        );
        let (_place, kernel, _) = kernel(&policy, &more);
        let given = json!({ "name": "fs.read", "arguments": { "path": "a.txt" } });
        let outcome = submit(&kernel, Front::Agent, "tickets.ask", given);
        assert_eq!(word(&outcome), want, "{case}: {outcome:?}");
        let entries = of_action(&kernel, &action(&outcome));
        let request = at(&entries, Stage::Attempt).request.as_ref().unwrap();
        assert!(request.effects.contains(Effect::Execute), "{case}");
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
fn a_plugin_that_does_not_say_which_call_it_serves_sheds_nothing() {
    let allow = format!(
        "{TOOLS}  - {{ name: write, match: {{ effect: [write] }}, action: allow }}\n  - {{ name: sessions, match: {{ syscall: \"session.*\" }}, action: allow }}\n"
    );
    let (_place, kernel, started) =
        kernel(&allow, "capabilities: [\"filesystem.*\", \"sessions.*\"]\n");
    let session = done(submit(&kernel, Front::Cli, "session.create", json!({}))).value;
    let session = SessionId::new(session["id"].as_str().unwrap()).unwrap();
    let asking = |given: Value, session: Option<&SessionId>| {
        let mut call = Call::new("tickets.ask", given);
        call.session = session.cloned();
        done(kernel.submit(Front::Cli, &call)).value["value"].clone()
    };
    let unnamed = |more: Value| {
        let mut given = json!({
            "name": "fs.read", "arguments": { "path": "a.txt" }, "within": "nothing",
        });
        given
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        given
    };
    // The only call that it serves is the one it is about.
    let told = asking(unnamed(json!({})), Some(&session));
    assert_eq!(told["ok"]["text"], "a\n", "{told}");
    let entries = records(&kernel);
    let mut reads = entries.iter().rev();
    let read = reads.find(|entry| entry.syscall.as_deref() == Some("fs.read"));
    let read = read.unwrap();
    let caller = read.caller.as_ref().unwrap();
    assert_eq!(caller.session.as_ref(), Some(&session));
    assert_eq!(read.metadata["serves"], told["action"].as_str().unwrap());
    // Of two it could choose the one that lets it do more.
    let both = std::thread::scope(|scope| {
        let asks = |session: Option<SessionId>| {
            let asking = &asking;
            let given = unnamed(json!({ "meets": true }));
            scope.spawn(move || asking(given, session.as_ref()))
        };
        let (one, other) = (asks(Some(session.clone())), asks(None));
        [one.join().unwrap(), other.join().unwrap()]
    });
    for told in both {
        assert_eq!(told["code"], "which_action", "{told}");
        assert!(told["message"].as_str().unwrap().contains("`within`"));
    }
    // Once it serves none it has no session to act in, and only reads.
    let (callback, _) = started.lock().unwrap().last().unwrap().clone();
    callback
        .submit("fs.read", &json!({ "path": "a.txt" }), None)
        .unwrap();
    for (name, arguments) in [
        ("session.create", json!({})),
        ("fs.write", json!({ "path": "b.txt", "text": "b" })),
    ] {
        let refused = callback.submit(name, &arguments, None).unwrap_err();
        assert_eq!(refused.code, "denied", "{name}: {refused}");
        assert!(refused.message.contains("a call it serves"), "{refused}");
        let entries = records(&kernel);
        let mut attempts = entries.iter().rev();
        let attempt = attempts
            .find(|entry| entry.stage == Stage::Attempt)
            .unwrap();
        assert_eq!(attempt.syscall.as_deref(), Some(name));
        let rules = &attempt.decision.as_ref().unwrap().rules;
        assert_eq!(rules, &["built-in/plugin-serves-a-call"], "{name}");
    }
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
    let waiting = policy.replace("[AG-01] }", "[AG-01], headless: wait }");
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
    let whence = Whence::default();
    let arguments = json!({ "path": "a.txt" });
    let ask = PluginAsk {
        name: "fs.read",
        arguments: &arguments,
        within: None,
        token: None,
    };
    let refused = kernel.submit_for(&whence, ask);
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

#[test]
fn a_token_of_a_plugin_is_for_that_plugin_in_its_box_alone() {
    // Nothing lets anybody read, and nothing forbids it.
    let policy = "version: 1\nrules:\n  - { name: call-tools, match: { syscall: tool.call }, action: allow }\n";
    let (_place, kernel, _) = kernel(policy, "capabilities: [\"filesystem.read.*\"]\n");
    let whence = |plugin: &str, sandbox: &str, pid: u32| Whence {
        plugin: Some(PluginName::new(plugin).unwrap()),
        sandbox: Some(SandboxId::new(sandbox).unwrap()),
        peer: Some(Peer {
            pid,
            uid: 1_000,
            started: 7,
        }),
        ..Whence::default()
    };
    let own = whence("tickets", "plugin-tickets-1", 1);
    let issue = || {
        let mut scope = Scope::new(Syscall::parse("fs.read").unwrap());
        scope.paths = vec!["*.txt".into()];
        scope.names = vec!["fs.read".into()];
        scope.operations = 9;
        let issued = kernel.issue_token_to(Front::Plugin, &own, None, scope);
        issued.unwrap()
    };
    let read = |whence: &Whence, path: &str, token: Option<&Token>| {
        let token = token.map(|token| Presented::new(&token.reveal()));
        let arguments = json!({ "path": path });
        let ask = PluginAsk {
            name: "fs.read",
            arguments: &arguments,
            within: None,
            token: token.as_ref(),
        };
        kernel.submit_for(whence, ask).unwrap()
    };
    assert_eq!(word(&read(&own, "a.txt", None)), "denied");
    let token = issue();
    assert_eq!(word(&read(&own, "a.txt", Some(&token))), "done");
    for (case, whence, path) in [
        ("another path", own.clone(), "private/key"),
        (
            "another box of it",
            whence("tickets", "plugin-tickets-2", 1),
            "a.txt",
        ),
        (
            "another process",
            whence("tickets", "plugin-tickets-1", 2),
            "a.txt",
        ),
        (
            "another plugin",
            whence("other", "plugin-tickets-1", 1),
            "a.txt",
        ),
    ] {
        let outcome = read(&whence, path, Some(&token));
        assert_eq!(word(&outcome), "denied", "{case}: {outcome:?}");
    }
    // It stands in for rules, and for no capability: once the plugin is gone it is worth nothing.
    let token = issue();
    done(submit(
        &kernel,
        Front::Cli,
        "plugin.disable",
        json!({ "name": "tickets" }),
    ));
    let Outcome::Denied(denied) = read(&own, "a.txt", Some(&token)) else {
        panic!("a plugin that was stopped reads by its token");
    };
    assert_eq!(&*denied.decision.contributions[0].rule, "unknown plugin");
}

/// The last call of the plugin's tool that was let in.
fn last_call(kernel: &Kernel) -> String {
    let entries = records(kernel);
    let mut calls = entries.iter().filter(|entry| {
        entry.stage == Stage::Attempt && entry.syscall.as_deref() == Some("tickets.ask")
    });
    let action = calls.next_back().and_then(|entry| entry.action.as_ref());
    action.unwrap().to_string()
}

/// What a process in the plugin's box gets that asks for `a.txt` over its socket, while the plugin
/// serves a call from `whence`.
fn asked_in_its_box(kernel: &Kernel, whence: &Whence) -> Outcome {
    let read = json!({ "path": "a.txt" });
    let given = json!({ "name": "fs.read", "arguments": read, "held": true });
    let call = Call::new("tickets.ask", given);
    let entries = records(kernel);
    let mut callers = entries
        .iter()
        .rev()
        .filter_map(|entry| entry.caller.as_ref());
    let own =
        callers.find(|caller| caller.plugin.as_str() == "tickets" && caller.sandbox.is_some());
    let within_box = Whence {
        plugin: Some(PluginName::new("tickets").unwrap()),
        sandbox: own.unwrap().sandbox.clone(),
        peer: Some(Peer {
            pid: std::process::id(),
            uid: 1_000,
            started: 7,
        }),
        ..Whence::default()
    };
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        let called = scope.spawn(|| kernel.submit_from(Front::Agent, whence, &call, None));
        let outcome = loop {
            let action = last_call(kernel);
            let ask = PluginAsk {
                name: "fs.read",
                arguments: &read,
                within: Some(&action),
                token: None,
            };
            // Until its call has come, it serves none.
            match kernel.submit_for(&within_box, ask) {
                Ok(outcome) => break outcome,
                Err(error) => assert_eq!(error.code, "unknown_action"),
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        drop(held);
        done(called.join().unwrap());
        outcome
    })
}

#[test]
fn what_a_plugin_asks_for_another_user_is_decided_as_theirs() {
    let uid = 4_000_000_001;
    let guest = format!(
        "{TOOLS}  - {{ name: sessions, match: {{ syscall: \"session.*\" }}, action: allow }}\nroles: {{ guest: [\"tool.*\", \"sessions.*\"] }}\nusers: {{ \"uid:{uid}\": guest }}\n"
    );
    let (_place, kernel, _) = kernel(&guest, "capabilities: [\"filesystem.read.*\"]\n");
    let read = json!({ "path": "a.txt" });
    assert!(ask(&kernel, "fs.read", read.clone())["ok"].is_object());
    let whence = Whence {
        peer: Some(Peer {
            pid: std::process::id(),
            uid,
            started: 1,
        }),
        ..Whence::default()
    };
    let begun = Call::new("session.create", json!({}));
    let begun = done(kernel.submit_from(Front::Cli, &whence, &begun, None)).value;
    let session = SessionId::new(begun["id"].as_str().unwrap()).unwrap();
    for (front, session) in [(Front::Agent, None), (Front::Cli, Some(session))] {
        let given = json!({ "name": "fs.read", "arguments": read });
        let mut call = Call::new("tickets.ask", given);
        call.session = session.clone();
        let told = done(kernel.submit_from(front, &whence, &call, None));
        let told = &told.value["value"];
        assert_eq!(told["code"], "denied", "{told}");
        assert!(told["message"].as_str().unwrap().contains("user"), "{told}");
        let entries = records(&kernel);
        let mut callers = entries.iter().rev().filter_map(|entry| {
            let request = entry.request.as_ref()?;
            (request.caller.plugin.as_str() == "tickets").then_some(&request.caller)
        });
        let caller = callers.next().unwrap();
        assert_eq!(
            caller.user.as_str(),
            format!("uid:{uid}"),
            "for whom it asked"
        );
        assert_eq!(caller.session, session);
    }
    // Over its socket as well, and as whomever the machine has its processes run.
    let own = asked_in_its_box(&kernel, &Whence::default());
    assert_eq!(word(&own), "done", "{own:?}");
    let theirs = asked_in_its_box(&kernel, &whence);
    assert_eq!(word(&theirs), "denied", "{theirs:?}");
}

#[test]
fn neither_of_two_versions_has_a_part_in_the_calls_of_the_other() {
    let more = "capabilities: [\"filesystem.*\"]\n";
    let (place, kernel, started) = kernel(TOOLS, more);
    let callbacks = || {
        let started = started.lock().unwrap_or_else(PoisonError::into_inner);
        let all = started.iter().map(|(callback, _)| Arc::clone(callback));
        all.collect::<Vec<Arc<dyn Callback>>>()
    };
    let read = json!({ "path": "a.txt" });
    assert!(ask(&kernel, "fs.read", read.clone())["ok"].is_object());
    let given = json!({ "name": "fs.read", "arguments": read, "held": true });
    let calling = || done(submit(&kernel, Front::Agent, "tickets.ask", given.clone()));
    let source = place.beside("source");
    let next = manifest(more).replace("1.0.0", "2.0.0");
    write(&source, &next, "#!/bin/sh\n");
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        let write_to = json!({ "path": "b.txt", "text": "b" });
        // Until its call has come, it serves none.
        let served_by = |callback: &Arc<dyn Callback>| {
            let refused = || callback.submit("fs.write", &write_to, None).unwrap_err();
            while refused().message.contains("as part of a call") {
                std::thread::sleep(Duration::from_millis(1));
            }
            last_call(&kernel)
        };
        let old = Arc::clone(&callbacks()[0]);
        let first = scope.spawn(calling);
        let of_old = served_by(&old);
        let exchanged = scope.spawn(|| install(&kernel, &source));
        let version = || {
            let name = json!({ "name": "tickets" });
            done(submit(&kernel, Front::Cli, "plugin.show", name)).value["version"].clone()
        };
        while version() != "2.0.0" {
            std::thread::sleep(Duration::from_millis(1));
        }
        let new = Arc::clone(&callbacks()[1]);
        let refused = new.submit("fs.write", &write_to, None).unwrap_err();
        assert!(refused.message.contains("as part of a call"), "{refused}");
        let second = scope.spawn(calling);
        let of_new = served_by(&new);
        for (case, callback, within, want) in [
            ("the old one in its own", &old, Some(&*of_old), None),
            ("the old one in its only one", &old, None, None),
            ("the new one in its own", &new, Some(&*of_new), None),
            ("the new one in its only one", &new, None, None),
            (
                "the old one in the new one's",
                &old,
                Some(&*of_new),
                Some("unknown_action"),
            ),
            (
                "the new one in the old one's",
                &new,
                Some(&*of_old),
                Some("unknown_action"),
            ),
        ] {
            let told = callback.submit("fs.read", &read, within);
            let code = told.as_ref().err().map(|error| &*error.code);
            assert_eq!(code, want, "{case}: {told:?}");
        }
        drop(held);
        for call in [first, second] {
            assert!(call.join().unwrap().value["value"]["ok"].is_object());
        }
        exchanged.join().unwrap();
    });
}

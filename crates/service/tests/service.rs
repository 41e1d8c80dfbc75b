//! A kernel on the wire does what an embedded one does, for whoever may have it done.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../../../tests/tools/every.rs"]
mod every;
mod support;

use airlock_audit::{EventType, Filter, VerifyOptions, verify_database};
use airlock_kernel::{Call, Front, Lifetime, Outcome};
use airlock_policy::approval::Binding;
use airlock_service::{CallResult, Kept, Lock, LockError, Method, Remote, running};
use airlock_wire::{Arrived, Client, ClientError, Limits, code};
use serde_json::{Value, json};
use std::io::Read as _;
use std::os::fd::AsFd as _;
use support::{Place, READS, call, exec, exec_with};

fn heard(value: Value) -> Outcome {
    let result: CallResult = serde_json::from_value(value).unwrap();
    result.outcome
}

/// What an outcome says, whatever it is called in the log.
fn said(outcome: &Outcome) -> Value {
    let mut value = serde_json::to_value(outcome).unwrap();
    forget(&mut value);
    value
}

fn forget(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for name in ["action", "id", "created", "expires", "peer", "binding"] {
                fields.remove(name);
            }
            fields.values_mut().for_each(forget);
        }
        Value::Array(values) => values.iter_mut().for_each(forget),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

const CALLS: &[(&str, &str, &str)] = &[
    ("fs.read", r#"{"path": "README.md"}"#, "done"),
    ("search.grep", r#"{"pattern": "hello"}"#, "done"),
    ("fs.read", r#"{"path": "private/key"}"#, "denied"),
    ("fs.read", r#"{"path": "/etc/hostname"}"#, "denied"),
    ("fs.read", r#"{"path": "review/plan"}"#, "needs_review"),
    ("fs.read", r#"{"path": "missing"}"#, "failed"),
    ("fs.read", r#"{"pth": 1}"#, "failed"),
    ("fs.raed", "{}", "failed"),
];

#[test]
fn every_outcome_is_the_same_through_the_wire() {
    let place = Place::new();
    let served = place.serve();
    let embedded = place.kernel(Lifetime::Command);
    for front in [Front::Agent, Front::Cli] {
        let mut client = served.client(front.as_str());
        for (name, arguments, want) in CALLS {
            let arguments: Value = serde_json::from_str(arguments).unwrap();
            let there = client.call("call", call(name, &arguments)).unwrap();
            assert!(there["outcome"][want].is_object(), "{name}: {there}");
            let there = heard(there).asked(&arguments);
            let here = embedded.submit(front, &Call::new(*name, arguments.clone()));
            assert_eq!(said(&there), said(&here), "{name} {arguments}");
            // What is not serialised crosses as well.
            match (there, here) {
                (Outcome::Denied(there), Outcome::Denied(here)) => {
                    let lines = |denied: &airlock_kernel::Denied| {
                        let told = &denied.explanation;
                        let mut lines = told.body();
                        lines.extend(told.reasons().chain(told.fixes()));
                        (told.headline().to_owned(), lines)
                    };
                    assert_eq!(lines(&there), lines(&here));
                    assert_eq!(there.request.arguments, here.request.arguments);
                }
                (Outcome::NeedsReview(there), Outcome::NeedsReview(here)) => {
                    assert_eq!(there.request.arguments, here.request.arguments);
                }
                (Outcome::Failed(there), Outcome::Failed(here)) => {
                    assert_eq!(there.code, here.code);
                }
                (Outcome::Done(_), Outcome::Done(_)) => {}
                (there, here) => panic!("{there:?} and {here:?}"),
            }
        }
    }
}

#[test]
fn the_log_names_the_process_that_asked_and_holds() {
    let place = Place::new();
    let mut served = place.serve();
    let mut client = served.client("mcp");
    let answer = client
        .call("call", call("fs.read", &json!({ "path": "private/key" })))
        .unwrap();
    let action = answer["outcome"]["denied"]["action"]
        .as_str()
        .unwrap()
        .to_owned();
    drop(client);
    served.end();
    let kernel = place.kernel(Lifetime::Command);
    let filter = Filter {
        action: Some(action),
        ..Filter::default()
    };
    let entries: Vec<_> = kernel
        .log()
        .read(filter)
        .unwrap()
        .map(|record| record.unwrap().entry)
        .collect();
    assert!(!entries.is_empty());
    for entry in &entries {
        let caller = entry.caller.as_ref().unwrap();
        assert_eq!(caller.plugin.as_str(), "mcp");
        assert_eq!(caller.peer.unwrap().pid, std::process::id());
        assert_ne!(caller.peer.unwrap().started, 0);
        assert_eq!(caller.sandbox, None);
    }
    let state = kernel.workspace().state();
    let report = verify_database(state.path(), &state.keys(), &VerifyOptions::default()).unwrap();
    assert!(report.is_intact(), "{report:?}");
}

fn refused(client: &mut Client, method: &str, params: Value) -> String {
    match client.call(method, params) {
        Err(ClientError::Answer(error)) => error.code.into_owned(),
        other => panic!("{method}: {other:?}"),
    }
}

#[test]
fn what_is_the_persons_is_refused_to_every_other_front() {
    let place = Place::new();
    let served = place.serve();
    let person = json!({ "home": "/root", "environment": {} });
    for front in ["agent", "mcp", "server"] {
        let mut client = served.client(front);
        for method in [
            "kernel.stop",
            "kernel.renew",
            "log.flush",
            "events.subscribe",
        ] {
            assert_eq!(refused(&mut client, method, Value::Null), code::REFUSED);
        }
        for (method, params) in [
            ("workflows.run", json!({ "name": "ask", "inputs": {} })),
            ("workflows.resume", json!({ "run": "0" })),
            ("workflows.cancel", json!({ "run": "0" })),
        ] {
            assert_eq!(refused(&mut client, method, params), code::REFUSED);
        }
        let exec = json!({ "arguments": { "command": ["true"] }, "stdin": false, "run": 1 });
        assert_eq!(refused(&mut client, "exec", exec), code::REFUSED);
        let steer = json!({ "run": 1, "signal": 9 });
        assert_eq!(refused(&mut client, "exec.steer", steer), code::REFUSED);
        let mut dressed = call("fs.read", &json!({ "path": "README.md" }));
        dressed["person"] = person.clone();
        assert_eq!(refused(&mut client, "call", dressed), code::REFUSED);
        // Nor is there a tool for it.
        for tool in ["exec.own", "trust.approve", "policy.update", "audit.read"] {
            let answer = client.call("call", call(tool, &json!({}))).unwrap();
            assert!(
                answer["outcome"]["done"].is_null(),
                "{front} {tool}: {answer}"
            );
        }
        let tools = client.call("tools.list", Value::Null).unwrap();
        assert!(!tools.to_string().contains("exec.own"), "{tools}");
        assert!(tools.to_string().contains("fs.read"), "{tools}");
    }
    let mut watching = served.client("bootstrap");
    assert_eq!(watching.call("ping", Value::Null).unwrap(), json!("pong"));
    assert!(watching.call("status", Value::Null).is_ok());
    for method in [
        "call",
        "tools.list",
        "workflows.run",
        "kernel.stop",
        "kernel.renew",
        "events.subscribe",
    ] {
        assert_eq!(refused(&mut watching, method, Value::Null), code::REFUSED);
    }
}

#[test]
fn a_person_follows_the_log_over_a_restart() {
    let place = Place::new();
    let mut served = place.serve();
    let mut client = served.client("cli");
    let after = client.call("events.subscribe", Value::Null).unwrap()["after"]
        .as_u64()
        .unwrap();
    client
        .call("call", call("fs.exists", &json!({ "path": "README.md" })))
        .unwrap();
    let mut last = after;
    let mut next = |client: &mut Client| loop {
        if let Arrived::Event(event) = client.receive().unwrap() {
            assert_eq!(event.method, "audit.record");
            assert_eq!(event.id, last + 1, "events come one by one");
            last = event.id;
            return (event.id, event.params);
        }
    };
    while next(&mut client).1["stage"] != "outcome" {}
    let (seen, _) = next_or(&mut client, after);
    drop(client);
    served.end();
    let served = place.serve();
    let mut client = served.client("cli");
    client
        .call("events.subscribe", json!({ "after": seen }))
        .unwrap();
    // The end of the first kernel, at least, happened meanwhile.
    let (first, params) = next_or(&mut client, seen);
    assert_eq!(first, seen + 1, "{params}");
    let mut client = served.client("cli");
    let never = json!({ "after": 1_000_000_000_000_u64 });
    let Err(ClientError::Answer(error)) = client.call("events.subscribe", never) else {
        panic!("waits for an event that is not there");
    };
    assert_eq!(error.code, "invalid_params", "{error:?}");
}

/// The next event, or the last one seen if none is due.
fn next_or(client: &mut Client, seen: u64) -> (u64, Value) {
    client
        .wait_up_to(Some(std::time::Duration::from_secs(2)))
        .unwrap();
    match client.receive() {
        Ok(Arrived::Event(event)) => (event.id, event.params),
        Ok(Arrived::Reply(_)) | Err(_) => (seen, Value::Null),
    }
}

#[test]
fn a_stopped_kernel_leaves_neither_socket_nor_lock() {
    let place = Place::new();
    let mut served = place.serve();
    assert!(matches!(
        Lock::take(&served.state),
        Err(LockError::Taken { pid: Some(pid) }) if pid == std::process::id()
    ));
    assert_eq!(running(&served.state).unwrap().socket, served.socket);
    served.wait();
    let mut client = served.client("cli");
    client.call("kernel.stop", Value::Null).unwrap();
    served.end();
    assert!(std::fs::symlink_metadata(&served.socket).is_err());
    assert_eq!(running(&served.state), None);
    assert!(Lock::take(&served.state).is_ok());
}

/// `READS` with a rule that denies `syscall`.
fn without(syscall: &str) -> String {
    let rule = format!(
        "  - name: not-this\n    match: {{ syscall: {syscall} }}\n    action: deny\n    reason: not here\n"
    );
    format!("{}{rule}", support::READS)
}

#[test]
fn a_rule_keeps_a_person_from_ending_the_kernel() {
    let place = Place::governed(&without("kernel.stop"));
    let served = place.serve();
    let mut client = served.client("cli");
    let Err(ClientError::Answer(error)) = client.call("kernel.stop", Value::Null) else {
        panic!("it was ended");
    };
    assert_eq!(error.code, code::REFUSED);
    let rules = &error.details["outcome"]["denied"]["decision"]["contributions"];
    assert!(rules.to_string().contains("not-this"), "{rules}");
    assert_eq!(client.call("ping", Value::Null).unwrap(), json!("pong"));
}

#[test]
fn whoever_may_no_longer_read_the_log_follows_it_no_further() {
    let place = Place::new();
    let served = place.serve();
    let (mut follower, mut other) = (served.client("cli"), served.client("cli"));
    follower.call("events.subscribe", Value::Null).unwrap();
    let asks = |client: &mut Client, path: &str| {
        let asked = call("fs.exists", &json!({ "path": path }));
        client.call("call", asked).unwrap();
    };
    // Another policy that says the same of it: events go on.
    place.update(&support::READS.replace("reading is harmless", "why not"));
    asks(&mut other, "README.md");
    let seen = |arrived: Arrived| match arrived {
        Arrived::Event(event) => event.params["syscall"] == "fs.exists",
        Arrived::Reply(reply) => panic!("{reply:?}"),
    };
    while !seen(follower.receive().unwrap()) {}
    place.update(&without("audit.read"));
    asks(&mut other, "a.txt");
    let reader = place.kernel(Lifetime::Command);
    let is_refused = || {
        served.client("cli").call("log.flush", Value::Null).unwrap();
        let records = reader.log().read(Filter::default()).unwrap();
        let mut entries = records.map(|record| record.unwrap().entry);
        entries.any(|entry| {
            let denied = entry.decision.is_some_and(|made| made.verdict == "deny");
            denied && entry.syscall.as_deref() == Some("audit.read")
        })
    };
    let begun = std::time::Instant::now();
    while !is_refused() {
        assert!(begun.elapsed() < support::PATIENCE, "nobody asked again");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // What was sent came before this answer.
    let ping = follower.send("ping", Value::Null, &[]).unwrap();
    loop {
        match follower.receive().unwrap() {
            Arrived::Event(event) => {
                let told = event.params.to_string();
                assert!(!told.contains("a.txt"), "{told}");
            }
            Arrived::Reply(reply) => {
                assert_eq!(reply.id, ping);
                break;
            }
        }
    }
    assert_eq!(
        refused(&mut follower, "events.subscribe", Value::Null),
        code::REFUSED
    );
}

#[test]
fn a_persons_command_runs_with_their_streams_and_is_steered() {
    let place = Place::new();
    let served = place.serve();
    let mut client = served.client("cli");
    let (id, mut output) = exec(&mut client, &["sh", "-c", "echo out; exit 7"]);
    let answer = client.answer(id).unwrap();
    let ran = &answer["outcome"]["done"]["ran"];
    assert_eq!(
        ran["outcome"],
        json!({ "outcome": "exited", "value": 7 }),
        "{answer}"
    );
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    assert_eq!(text, "out\n");
    let script = "trap 'exit 9' USR1; echo ready; while :; do sleep 0.05; done";
    let (id, mut output) = exec(&mut client, &["sh", "-c", script]);
    let mut ready = [0; 6];
    output.read_exact(&mut ready).unwrap();
    let steered = client
        .call("exec.steer", json!({ "run": 1, "signal": 10 }))
        .unwrap();
    assert_eq!(steered, json!({ "steered": true }));
    let answer = client.answer(id).unwrap();
    assert_eq!(
        answer["outcome"]["done"]["ran"]["outcome"]["value"], 9,
        "{answer}"
    );
}

#[test]
fn the_command_of_a_client_that_goes_away_or_takes_it_back_ends() {
    let place = Place::new();
    let mut served = place.serve();
    for leaves in [false, true] {
        let mut client = served.client("cli");
        let (id, mut output) = exec(&mut client, &["sh", "-c", "echo on; sleep 1000"]);
        let mut first = [0; 3];
        output.read_exact(&mut first).unwrap();
        if leaves {
            drop(client);
        } else {
            client.call("cancel", json!({ "id": id })).unwrap();
            let answer = client.answer(id).unwrap();
            let ended = &answer["outcome"]["done"]["ran"]["outcome"]["outcome"];
            assert_eq!(ended, "cancelled", "{answer}");
        }
        // Its end is the end of its output, whichever way it went.
        let mut rest = Vec::new();
        output.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"");
    }
    served.end();
}

#[test]
fn tools_that_do_not_fit_into_one_answer_are_listed_all_the_same() {
    let place = Place::new();
    let mut served = place.serve();
    let tools = |state: &std::path::Path| {
        let mut remote = Remote::any(state, Front::Agent).unwrap();
        remote.tools().unwrap()
    };
    let whole = tools(&served.state);
    let short = served.client("agent").call("tools.list", Value::Null);
    let short = short.unwrap().to_string().len();
    served.end();
    let longest = whole.iter().map(|tool| tool.to_string().len()).max();
    let frame_bytes = longest.unwrap().max(short) + 512;
    let all = json!(whole).to_string().len();
    assert!(all > frame_bytes, "{all} bytes fit into {frame_bytes}");
    let served = place.serve_with(Limits {
        frame_bytes,
        ..Limits::MAIN
    });
    assert_eq!(tools(&served.state), whole);
}

#[test]
fn a_stream_that_is_no_pipe_is_not_written_to() {
    let place = Place::new();
    let served = place.serve();
    let mut client = served.client("cli");
    let file = tempfile::tempfile().unwrap();
    let (_reader, pipe) = std::io::pipe().unwrap();
    let params = json!({ "arguments": { "command": ["true"] }, "stdin": false, "run": 1 });
    for passed in [
        &[file.as_fd(), pipe.as_fd()][..],
        &[pipe.as_fd(), file.as_fd()],
        &[pipe.as_fd()],
        &[],
    ] {
        let id = client.send("exec", params.clone(), passed).unwrap();
        let Err(ClientError::Answer(error)) = client.answer(id) else {
            panic!("it ran");
        };
        assert_eq!(error.code, code::INVALID_PARAMS);
    }
}

/// Every front over the wire, every tool there is: with nothing allowed nothing is done, and each
/// attempt is in the log.
#[test]
fn with_nothing_allowed_no_tool_does_anything_and_every_try_is_recorded() {
    let place = Place::denying();
    let mut served = place.serve();
    let names: Vec<String> = {
        let kernel = place.kernel(Lifetime::Command);
        let tools = kernel.registry().list();
        tools.map(|tool| tool.spec().name.to_owned()).collect()
    };
    assert!(names.len() > 10, "{names:?}");
    let mut actions = Vec::new();
    // The person last: they may revoke the policy.
    for front in Front::ALL.into_iter().rev() {
        let mut client = served.client(front.as_str());
        for name in &names {
            let shown = client.call("tools.show", json!({ "name": name })).ok();
            // A tool is tried as its own examples say; one that is not open to the front, anyhow.
            let example = shown
                .as_ref()
                .and_then(|shown| shown["examples"][0].as_str());
            let arguments = example.map_or(json!({}), |text| serde_json::from_str(text).unwrap());
            let answer = client.call("call", call(name, &arguments)).unwrap();
            let outcome = answer["outcome"].as_object().unwrap();
            let (kind, told) = outcome.iter().next().unwrap();
            // Steering Airlock is the person's own, whatever rules say.
            let own = front == Front::Cli;
            let invalid = told["code"] == "unknown_tool" || told["code"] == "invalid_arguments";
            assert!(
                kind == "denied" || own || invalid,
                "{front} {name}: {answer}"
            );
            actions.push(told["action"].as_str().unwrap().to_owned());
        }
    }
    served.end();
    let kernel = place.kernel(Lifetime::Command);
    let recorded: std::collections::HashSet<String> = kernel
        .log()
        .read(Filter::default())
        .unwrap()
        .filter_map(|record| record.unwrap().entry.action)
        .map(|action| action.to_string())
        .collect();
    for action in &actions {
        assert!(recorded.contains(action), "{action} is not in the log");
    }
}

/// A rule for each syscall, which forbids it by name, beside one that allows everything.
fn each_denied(place: &Place) -> String {
    let kernel = place.kernel(Lifetime::Command);
    let syscalls: std::collections::BTreeSet<&str> = kernel
        .registry()
        .list()
        .map(|tool| tool.spec().syscall)
        .collect();
    let deny = |name: &str| {
        format!(
            "  - {{ name: not-{}, match: {{ syscall: {name} }}, action: deny, reason: not here }}\n",
            name.replace('.', "-")
        )
    };
    let rules: String = syscalls.into_iter().map(deny).collect();
    format!("{READS}{rules}")
}

/// The same road as at every other entry: a rule about a syscall holds for its tools here too, and
/// each try has its decision in the log.
#[test]
fn a_rule_that_denies_a_syscall_stops_it_over_the_wire_for_every_front() {
    let place = Place::governed(&each_denied(&Place::new()));
    let mut served = place.serve();
    let every = every::arguments(&served.state, &place.root());
    let mut denials = Vec::new();
    for front in Front::ALL {
        let mut client = served.client(front.as_str());
        let listed = client.call("tools.list", Value::Null).unwrap();
        for tool in listed.as_array().unwrap() {
            let name = tool["name"].as_str().unwrap();
            let answer = client.call("call", call(name, &every[name])).unwrap();
            if name == "approval.decide" {
                assert_eq!(answer["outcome"]["failed"]["code"], "needs_person");
                continue;
            }
            let denied = &answer["outcome"]["denied"];
            let rule = format!(
                "not-{}",
                tool["syscall"].as_str().unwrap().replace('.', "-")
            );
            let told = denied["decision"].to_string();
            // A front whose manifest lacks the capability is stopped before the rules.
            let stopped = told.contains(&rule) || told.contains("capability");
            assert!(stopped, "{front} {name}: {answer}");
            denials.push(denied["action"].as_str().unwrap().to_owned());
        }
    }
    assert!(denials.len() > 80, "{}", denials.len());
    served.end();
    let kernel = place.kernel(Lifetime::Command);
    let entries = kernel.log().read(Filter::default()).unwrap();
    let decided: std::collections::HashSet<String> = entries
        .map(|record| record.unwrap().entry)
        .filter(|entry| {
            entry
                .decision
                .as_ref()
                .is_some_and(|made| made.verdict == "deny")
        })
        .filter_map(|entry| entry.action)
        .map(|action| action.to_string())
        .collect();
    for action in &denials {
        assert!(decided.contains(action), "{action} is not in the log");
    }
}

#[test]
fn only_an_mcp_server_hands_in_what_the_user_of_its_client_said() {
    let policy = format!(
        "{READS}  - {{ name: own, match: {{ syscall: \"session.*\" }}, action: allow }}\n  - {{ name: write, match: {{ syscall: fs.write }}, action: allow }}\napprovals: {{ mcp_gates: [AG-01] }}\n"
    );
    let place = Place::governed(&policy);
    let served = place.serve();
    let mut mcp = served.client("mcp");
    let opened = mcp.call("approvals.opened", Value::Null).unwrap();
    assert_eq!(opened, json!(["AG-01"]));
    let begun = mcp
        .call("call", call("session.create", &json!({})))
        .unwrap();
    let session = begun["outcome"]["done"]["value"]["id"].clone();
    let arguments = json!({ "path": "new.txt", "text": "x\n" });
    let mut write = call("fs.write", &arguments);
    write["session"] = session;
    let ask = |mcp: &mut Client| {
        let answer = mcp.call("call", write.clone()).unwrap();
        let outcome = heard(answer).asked(&arguments);
        let told = format!("{outcome:?}");
        let Outcome::NeedsReview(review) = outcome else {
            panic!("{told}");
        };
        *review
    };
    let review = ask(&mut mcp);
    let shown = Binding::of(&review.request, None, review.decision.generation, None).action;
    let yes = json!({ "approval": review.approval.id, "shown": shown, "approved": true });
    for front in ["cli", "agent", "server"] {
        let mut other = served.client(front);
        let told = refused(&mut other, "approvals.elicited", yes.clone());
        assert_eq!(told, code::REFUSED);
    }
    let mut wrong = yes.clone();
    wrong["shown"] = json!("0".repeat(64));
    assert_eq!(
        refused(&mut mcp, "approvals.elicited", wrong),
        code::REFUSED
    );
    assert_eq!(ask(&mut mcp).approval.id, review.approval.id);
    let taken = mcp.call("approvals.elicited", yes).unwrap();
    assert_eq!(taken, Value::Null);
    let answer = mcp.call("call", write.clone()).unwrap();
    assert!(
        answer["outcome"]["needs_review"].is_null(),
        "it has its answer: {answer}"
    );
}

#[test]
fn calls_that_wait_for_their_turn_hold_up_nobody_else_and_can_be_taken_back() {
    let place = Place::new();
    let mut served = place.serve();
    let mut holder = served.client("cli");
    let long = json!({ "command": ["sh", "-c", "echo on; sleep 1000"] });
    let (command, mut output) = exec_with(&mut holder, &long);
    output.read_exact(&mut [0; 3]).unwrap();
    // More than may run at once, from clients enough to have a right to that many. The stage is the
    // command's.
    let read = call("fs.read", &json!({ "path": "README.md" }));
    let mut crowd: Vec<(Client, Vec<u64>)> = (0..6)
        .map(|_| {
            let mut client = served.client("agent");
            let send = |_| client.send("call", read.clone(), &[]).unwrap();
            let ids = (0..16).map(send).collect();
            (client, ids)
        })
        .collect();
    let mut other = served.client("mcp");
    for _ in 0..20 {
        other.call("tools.list", Value::Null).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let (client, ids) = crowd.first_mut().unwrap();
    for id in ids.drain(..8) {
        client.call("cancel", json!({ "id": id })).unwrap();
        match client.answer(id) {
            Ok(answer) => assert_eq!(answer["outcome"]["failed"]["code"], "cancelled", "{answer}"),
            Err(ClientError::Answer(error)) => assert_eq!(error.code, code::CANCELLED),
            Err(error) => panic!("{error}"),
        }
    }
    // Those who go away take what they asked for with them; those who stay get it in the end.
    let (mut last, ids) = crowd.pop().unwrap();
    drop(crowd);
    holder.call("cancel", json!({ "id": command })).unwrap();
    holder.answer(command).unwrap();
    for id in ids {
        let answer = last.answer(id).unwrap();
        assert!(answer["outcome"]["done"].is_object(), "{answer}");
    }
    drop((holder, other, last));
    served.end();
}

#[test]
fn every_method_leaves_in_the_log_what_it_says_it_does() {
    let place = Place::new();
    place.define("ask", support::ASK);
    let mut served = place.serve_set(|options| {
        let mut others = options.settings.clone();
        others.search_threads += 1;
        options.afresh = Some(std::sync::Arc::new(move || Ok(others.clone())));
    });
    let begin = json!({ "name": "ask", "inputs": { "path": "README.md" } });
    let waiting = |served: &support::Served| {
        let mut client = served.client("cli");
        let answer = client.call("workflows.run", begin.clone()).unwrap();
        json!({ "run": answer["came"]["report"]["id"] })
    };
    let reader = place.kernel(Lifetime::Command);
    let count = |served: &support::Served| {
        served.client("cli").call("log.flush", Value::Null).unwrap();
        let records = reader.log().read(Filter::default()).unwrap();
        let entries = records.map(|record| record.unwrap().entry);
        // A sandbox goes in its own time, whatever is asked meanwhile.
        let stages = entries.filter(|entry| {
            !matches!(
                entry.event,
                EventType::SandboxCreated | EventType::SandboxDestroyed
            )
        });
        stages
            .map(|entry| entry.stage)
            .fold((0, 0), |(road, noted), stage| match stage {
                airlock_audit::Stage::Note => (road, noted + 1),
                airlock_audit::Stage::Attempt | airlock_audit::Stage::Outcome => (road + 1, noted),
            })
    };
    // The last ones end it.
    for method in Method::ALL {
        let elicits = method == Method::ApprovalsElicited;
        let front = if elicits { "mcp" } else { "cli" };
        let params = match method {
            Method::ToolsShow => json!({ "name": "fs.read" }),
            Method::Call => call("fs.exists", &json!({ "path": "README.md" })),
            Method::ExecSteer => json!({ "run": 1, "signal": 15 }),
            Method::ApprovalsElicited => {
                json!({ "approval": "none", "shown": "0".repeat(64), "approved": true })
            }
            Method::WorkflowsRun => begin.clone(),
            Method::WorkflowsResume | Method::WorkflowsCancel => waiting(&served),
            Method::Exec
            | Method::Status
            | Method::ToolsList
            | Method::ApprovalsOpened
            | Method::LogFlush
            | Method::KernelStop
            | Method::KernelRenew => Value::Null,
        };
        let before = count(&served);
        let mut client = served.client(front);
        if method == Method::Exec {
            let (id, _output) = exec(&mut client, &["true"]);
            client.answer(id).unwrap();
        } else if let Err(error) = client.call(method.as_str(), params) {
            let refused =
                matches!(&error, ClientError::Answer(error) if error.code == code::REFUSED);
            assert!(refused && elicits, "{error}");
        }
        let after = count(&served);
        let (road, noted) = (after.0 > before.0, after.1 > before.1);
        match method.kept() {
            Kept::Road => assert!(road, "{method:?}"),
            Kept::Nothing => assert!(!road && !noted, "{method:?}"),
        }
    }
    served.end();
}

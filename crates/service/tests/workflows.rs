//! Runs of workflows over the wire: the person's alone, decided and recorded, and taken up again
//! whoever went away.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_audit::{Filter, Stage};
use airlock_kernel::{Lifetime, RunEvent};
use airlock_wire::Limits;
use serde_json::{Value, json};
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};
use support::{PATIENCE, Place, READS, Served};

const NAP: &str = "\
workflow: 1
name: nap
summary: Sleep, then look
version: 1.0.0
inputs: { type: object }
steps:
  - { id: nap, execute_code: { command: [sh, nap.sh] } }
  - { id: look, tool: fs.exists, with: { path: README.md } }
outputs: { ok: { from: '${steps.look.ok}', schema: { type: boolean } } }
";

fn napping(script: &str) -> Place {
    let place = Place::governed(&format!("{READS}commands: [{{ executable: sh }}]\n"));
    place.define("nap", NAP);
    place.define("ask", support::ASK);
    write_nap(&place, script);
    place
}

fn write_nap(place: &Place, script: &str) {
    std::fs::write(place.root().join("nap.sh"), script).unwrap();
}

/// Waits until `found` finds something.
fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: never");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The run whose first step has begun, besides those in `known`.
fn begun(place: &Place, known: &[String]) -> String {
    let kernel = place.kernel(Lifetime::Command);
    let flows = kernel.workflows().unwrap();
    let is_begun = |id: &String| {
        let events = flows.find(id).unwrap().events;
        let step = |event: &RunEvent| matches!(event, RunEvent::Started { .. });
        !known.contains(id) && events.iter().any(step)
    };
    wait_for("its step begins", || {
        let mut runs = flows.runs().unwrap().into_iter().map(|run| run.id);
        runs.find(is_begun)
    })
}

/// What came of taking up `run`, once nobody else is at it.
fn resumed(served: &Served, run: &str, repeat: &[&str]) -> Value {
    let mut client = served.client("cli");
    wait_for("it is let go of", || {
        let params = json!({ "run": run, "repeat": repeat });
        let answer = client.call("workflows.resume", params).unwrap();
        let came = answer.get("came").cloned().unwrap_or_default();
        came.pointer("/refused/busy").is_none().then_some(came)
    })
}

#[test]
fn a_run_whose_client_goes_away_or_takes_it_back_can_be_taken_up() {
    let place = napping("sleep 1000\n");
    let mut served = place.serve();
    let mut known = Vec::new();
    for leaves in [false, true] {
        write_nap(&place, "sleep 1000\n");
        let mut client = served.client("cli");
        let asked = json!({ "name": "nap", "inputs": {} });
        let id = client.send("workflows.run", asked, &[]).unwrap();
        let run = begun(&place, &known);
        // Others are answered meanwhile, on this connection as well.
        assert_eq!(client.call("ping", Value::Null).unwrap(), json!("pong"));
        let mut other = served.client("mcp");
        assert!(other.call("tools.list", Value::Null).is_ok());
        if leaves {
            drop(client);
        } else {
            client.call("cancel", json!({ "id": id })).unwrap();
            let answer = client.answer(id).unwrap();
            assert_eq!(answer["came"]["refused"]["taken_back"], run, "{answer}");
        }
        // As after a crash: what began may have happened.
        let stopped = resumed(&served, &run, &[]);
        assert_eq!(
            stopped["report"]["state"],
            json!({ "unsettled": ["nap"] }),
            "{stopped}"
        );
        write_nap(&place, "true\n");
        let done = resumed(&served, &run, &["nap"]);
        assert_eq!(
            done["report"]["state"],
            json!({ "done": { "ok": true } }),
            "{done}"
        );
        known.push(run);
    }
    served.end();
}

#[test]
fn runs_that_wait_for_their_turn_leave_their_place_to_others() {
    let place = napping("true\n");
    // As many may run at once as there are a command and one run.
    let mut served = place.serve_with(Limits {
        workers: 2,
        ..Limits::MAIN
    });
    let mut holder = served.client("cli");
    let (mut output, stdout) = std::io::pipe().unwrap();
    let stderr = stdout.try_clone().unwrap();
    let long = json!({ "command": ["sh", "-c", "echo on; sleep 1000"] });
    let params = json!({ "arguments": long, "stdin": false, "run": 1 });
    let passed = [stdout.as_fd(), stderr.as_fd()];
    let command = holder.send("exec", params, &passed).unwrap();
    output.read_exact(&mut [0; 3]).unwrap();
    // The stage is the command's.
    let mut client = served.client("cli");
    let asked = json!({ "name": "nap", "inputs": {} });
    let runs = [(); 3].map(|()| client.send("workflows.run", asked.clone(), &[]).unwrap());
    let mut known = Vec::new();
    for _ in &runs {
        known.push(begun(&place, &known));
    }
    let mut other = served.client("mcp");
    assert!(other.call("tools.list", Value::Null).is_ok());
    holder.call("cancel", json!({ "id": command })).unwrap();
    for id in runs {
        let answer = client.answer(id).unwrap();
        let state = &answer["came"]["report"]["state"];
        assert_eq!(*state, json!({ "done": { "ok": true } }), "{answer}");
    }
    served.end();
}

#[test]
fn a_run_is_made_by_the_command_line_and_each_of_its_steps_is_recorded() {
    let place = napping("true\n");
    let mut served = place.serve();
    let mut client = served.client("cli");
    let environment = json!({ "PATH": "/usr/bin:/bin" });
    let person = json!({ "home": "/home/user", "environment": environment });
    let asked = json!({ "name": "nap", "inputs": {}, "person": person });
    let answer = client.call("workflows.run", asked).unwrap();
    let run = answer["came"]["report"]["id"].as_str().unwrap().to_owned();
    let asked = json!({ "name": "ask", "inputs": { "path": "a.txt" } });
    let answer = client.call("workflows.run", asked).unwrap();
    let waiting = &answer["came"]["report"]["state"]["waiting"];
    assert_eq!(waiting["step"], "sure", "{answer}");
    // Whoever answers sees what is asked.
    let question = &waiting["review"]["arguments"]["question"];
    assert_eq!(question, "Look at a.txt?", "{answer}");
    let stopped = answer["came"]["report"]["id"].clone();
    let answer = client
        .call("workflows.cancel", json!({ "run": stopped }))
        .unwrap();
    let state = &answer["came"]["report"]["state"];
    assert_eq!(state, "cancelled", "{answer}");
    drop(client);
    served.end();
    let kernel = place.kernel(Lifetime::Command);
    let records = kernel.log().read(Filter::default()).unwrap();
    let attempts: Vec<_> = records
        .map(|record| record.unwrap().entry)
        .filter(|entry| entry.stage == Stage::Attempt)
        .collect();
    for (tool, verdict) in [
        ("workflow.run", "allow"),
        ("exec.run", "allow"),
        ("fs.exists", "allow"),
        ("workflow.confirm", "require_review"),
        ("workflow.cancel", "allow"),
    ] {
        let mut attempts = attempts.iter();
        let entry = attempts.find(|entry| entry.tool.as_deref() == Some(tool));
        let entry = entry.unwrap_or_else(|| panic!("{tool} is not in the log"));
        let caller = entry.caller.as_ref().unwrap();
        assert_eq!(caller.plugin.as_str(), "cli", "{tool}");
        assert_eq!(caller.peer.unwrap().pid, std::process::id(), "{tool}");
        let made = entry.decision.as_ref().unwrap();
        assert_eq!(made.verdict, verdict, "{tool}");
    }
    // The run has the name of the action that began it.
    let begun = attempts
        .iter()
        .find(|entry| entry.tool.as_deref() == Some("workflow.run"));
    let action = begun.and_then(|entry| entry.action.as_ref());
    assert_eq!(action.unwrap().to_string(), run);
}

#[test]
fn a_rule_stops_what_is_asked_about_a_run() {
    for (syscall, method) in [
        ("workflow.run", "workflows.run"),
        ("workflow.resume", "workflows.resume"),
        ("workflow.cancel", "workflows.cancel"),
    ] {
        let place = napping("true\n");
        let mut served = place.serve();
        let mut client = served.client("cli");
        let begin = json!({ "name": "ask", "inputs": { "path": "a.txt" } });
        let answer = client.call("workflows.run", begin.clone()).unwrap();
        let run = &answer["came"]["report"]["id"];
        let params = if method == "workflows.run" {
            begin
        } else {
            json!({ "run": run })
        };
        let rule = format!(
            "  - {{ name: not-this, match: {{ syscall: {syscall} }}, action: deny, reason: not here }}\n"
        );
        place.update(&format!("{READS}{rule}"));
        let answer = client.call(method, params).unwrap();
        let denied = &answer["came"]["refused"]["no_leave"]["denied"];
        let decision = denied["decision"].to_string();
        assert!(decision.contains("not-this"), "{method}: {answer}");
        let action = denied["action"].as_str().unwrap().to_owned();
        drop(client);
        served.end();
        let kernel = place.kernel(Lifetime::Command);
        let filter = Filter {
            action: Some(action),
            ..Filter::default()
        };
        let mut records = kernel.log().read(filter).unwrap();
        let denial = records.any(|record| {
            let decision = record.unwrap().entry.decision;
            decision.is_some_and(|made| made.verdict == "deny")
        });
        assert!(denial, "{method} is not in the log");
    }
}

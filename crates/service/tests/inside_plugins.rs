//! Whatever runs in a command's sandbox calls the tools of plugins by the sandbox's socket: gates are
//! met there as anywhere else, and no command asks a person more than a few things at once.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_audit::Filter;
use airlock_kernel::{Lifetime, Outcome};
use airlock_policy::approval::Binding;
use airlock_wire::Client;
use serde_json::{Value, json};
use std::path::Path;
use support::{Place, READS, Served, call};

const SCRIPT: &str = include_str!("plugin.py");
const MANIFEST: &str = "name: tickets\nversion: 1.0.0\ntype: tool\ncapabilities: [\"filesystem.read.*\"]\nexecution:\n  tier: process\n  protocol: mcp\n  entry: bin/run\n";
const MORE: &str = "  - { name: call-tools, match: { syscall: tool.call }, action: allow }
  - { name: sessions, match: { syscall: \"session.*\" }, action: allow }
  - { name: commands, match: { syscall: exec.run }, action: allow }
commands: [{ executable: python3 }]
approvals: { mcp_gates: [AG-01], headless: wait }
";

const PREAMBLE: &str = "\
import json, os
from client import Connection
connection = Connection(os.environ['AIRLOCK_SOCKET'], name='agent')
def ask(tool, arguments):
    return connection.call('call', {'name': tool, 'arguments': arguments})['outcome']
";

/// A served workspace with the plugin installed.
fn served() -> (Place, Served) {
    let place = Place::governed(&format!("{READS}{MORE}"));
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/wire/client.py");
    std::fs::copy(client, place.root().join("client.py")).unwrap();
    place.install(MANIFEST, SCRIPT);
    let served = place.serve();
    (place, served)
}

/// The arguments of a command that runs `script`.
fn scripted(script: &str) -> Value {
    let command = ["python3", "-B", "-c", &format!("{PREAMBLE}{script}")];
    json!({ "command": command, "timeout": "60s" })
}

/// What `script` printed, as JSON.
fn printed(outcome: &Value) -> Value {
    let shown = outcome["done"]["value"]["stdout"].as_str();
    let shown = shown.unwrap_or_else(|| panic!("{outcome}"));
    serde_json::from_str(shown).unwrap_or_else(|error| panic!("{error}: {outcome}"))
}

fn run(client: &mut Client, script: &str) -> Value {
    let answer = client.call("call", call("exec.run", &scripted(script)));
    printed(&answer.unwrap()["outcome"])
}

/// What the plugin is asked to ask the kernel for.
fn reading(path: &str) -> Value {
    json!({ "name": "fs.read", "arguments": { "path": path } })
}

/// Says yes to a question, as the person behind an MCP client does.
fn approve(client: &mut Client, outcome: &Value, arguments: &Value) {
    let asked: Outcome = serde_json::from_value(outcome.clone()).unwrap();
    let Outcome::NeedsReview(review) = asked.asked(arguments) else {
        panic!("{outcome}");
    };
    let shown = Binding::of(&review.request, None, review.decision.generation, None).action;
    let yes = json!({ "approval": review.approval.id, "shown": shown, "approved": true });
    client.call("approvals.elicited", yes).unwrap();
}

#[test]
fn a_plugins_tool_is_called_from_inside_and_acts_as_the_plugin_for_that_command() {
    let (place, mut served) = served();
    let mut client = served.client("agent");
    let script = format!(
        "print(json.dumps([ask('tickets.ask', {}), ask('tickets.ask', {}), ask('tickets.none', {{}})]))",
        reading("a.txt"),
        reading("private/key")
    );
    let seen = run(&mut client, &script);
    let told = |at: usize| &seen[at]["done"]["value"]["value"]["told"]["outcome"];
    assert_eq!(told(0)["done"]["value"]["text"], "a\n", "{seen}");
    assert!(told(1)["denied"].is_object(), "{seen}");
    assert_eq!(seen[2]["failed"]["code"], "unknown_tool", "{seen}");
    drop(client);
    served.end();
    let kernel = place.kernel(Lifetime::Command);
    let records = kernel.log().read(Filter::default()).unwrap();
    let entries: Vec<_> = records.map(|record| record.unwrap().entry).collect();
    let find = |name: &str| {
        let mut found = entries.iter();
        let found = found.find(|entry| entry.syscall.as_deref() == Some(name));
        found.unwrap_or_else(|| panic!("no {name}"))
    };
    let (command, called, read) = (find("exec.run"), find("tickets.ask"), find("fs.read"));
    let action = command.action.as_ref().unwrap().to_string();
    for entry in [called, read] {
        assert_eq!(entry.metadata["within"], action, "{entry:?}");
    }
    let who = |entry: &airlock_audit::Entry| entry.caller.clone().unwrap();
    assert_eq!(who(called).plugin.as_str(), "agent");
    assert_eq!(who(read).plugin.as_str(), "tickets");
}

#[test]
fn the_first_use_of_a_plugins_tool_is_asked_about_inside_as_well() {
    let (_place, served) = served();
    let mut client = served.client("mcp");
    let begun = client.call("call", call("session.create", &json!({})));
    let session = begun.unwrap()["outcome"]["done"]["value"]["id"].clone();
    let given = reading("a.txt");
    let arguments = scripted(&format!("print(json.dumps(ask('tickets.ask', {given})))"));
    // What the plugin reads for it would be the first reading of the session.
    let path = json!({ "path": "a.txt" });
    let mut read = call("fs.read", &path);
    read["session"] = session.clone();
    let asked = client.call("call", read.clone()).unwrap()["outcome"].clone();
    approve(&mut client, &asked, &path);
    let read = client.call("call", read).unwrap();
    assert!(read["outcome"]["done"].is_object(), "{read}");
    let mut command = call("exec.run", &arguments);
    command["session"] = session;
    let run =
        |client: &mut Client| client.call("call", command.clone()).unwrap()["outcome"].clone();
    // The command itself is the first of its kind, too.
    let asked = run(&mut client);
    assert_eq!(
        asked["needs_review"]["approval"]["gate"], "AG-01",
        "{asked}"
    );
    approve(&mut client, &asked, &arguments);
    let seen = printed(&run(&mut client));
    let review = &seen["needs_review"];
    assert_eq!(review["approval"]["gate"], "AG-01", "{seen}");
    assert_eq!(review["request"]["tool"], "tickets.ask", "{seen}");
    // Asked again, from another command, it is the same question, and nothing was done.
    let again = printed(&run(&mut client));
    assert_eq!(
        again["needs_review"]["approval"]["id"],
        review["approval"]["id"]
    );
    approve(&mut client, &seen, &given);
    let seen = printed(&run(&mut client));
    let told = &seen["done"]["value"]["value"]["told"]["outcome"];
    assert_eq!(told["done"]["value"]["text"], "a\n", "{seen}");
}

#[test]
fn one_command_has_few_questions_waiting_whoever_asks_them_for_it() {
    let (_place, served) = served();
    let mut client = served.client("agent");
    let script = |from: usize| {
        format!(
            "def review(number): return ask('fs.read', {{'path': 'review/%d' % number}})\n\
             seen = [review(number) for number in range({from}, {from} + 7)]\n\
             seen.append(review({from}))\n\
             seen.append(ask('tickets.ask', {}))\n\
             seen.append(ask('fs.read', {{'path': 'a.txt'}}))\n\
             print(json.dumps([list(one)[0] if 'failed' not in one else one['failed'] \
             for one in seen[:8]] + seen[8:]))",
            reading("review/plan")
        )
    };
    for from in [0, 10] {
        let seen = run(&mut client, &script(from));
        for at in 0..5 {
            assert_eq!(seen[at], "needs_review", "{at}: {seen}");
        }
        for at in 5..7 {
            assert_eq!(seen[at]["code"], "too_many_approvals", "{at}: {seen}");
            let what = seen[at]["what"].as_str().unwrap();
            assert!(what.contains("5 requests of the command"), "{what}");
            assert_eq!(seen[at]["fix"], "answer them: airlock approvals list");
            assert_eq!(seen[at]["retryable"], true);
        }
        assert_eq!(seen[7], "needs_review", "what waits already: {seen}");
        let told = &seen[8]["done"]["value"]["value"]["told"]["outcome"];
        assert_eq!(told["failed"]["code"], "too_many_approvals", "{seen}");
        assert_eq!(seen[9]["done"]["value"]["text"], "a\n", "{seen}");
    }
    // Whoever runs the command asks for itself.
    let own = client.call("call", call("fs.read", &json!({ "path": "review/plan" })));
    let own = own.unwrap();
    assert!(own["outcome"]["needs_review"].is_object(), "{own}");
}

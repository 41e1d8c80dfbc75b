//! Commands in sandboxes ask the kernel that runs them, by a socket of their own.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_audit::Filter;
use airlock_kernel::{Call, Front, Kernel, Lifetime, Outcome};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use support::{PATIENCE, Place, call};

/// Reading is allowed, with exceptions for each and for some; so are writes to `out/`.
const POLICY: &str = "\
version: 1
rules:
  - name: read-all
    match: { effect: read, path_glob: \"**\" }
    action: allow
    reason: reading is harmless
  - name: keep-private
    match: { effect: read, path_glob: [\"private/**\", \"private\"] }
    action: deny
    reason: private stays private
  - name: not-for-persons
    match: { effect: read, path_glob: \"review/agents\", plugin: cli }
    action: deny
    reason: agents only
  - name: not-for-agents
    match: { effect: read, path_glob: \"review/persons\", plugin: agent }
    action: deny
    reason: persons only
  - name: look-first
    match: { effect: read, path_glob: \"review/plan\" }
    action: require_review
    reason: somebody should look
  - name: write-out
    match: { effect: [write, delete], path_glob: [\"out/**\", \"out\"] }
    action: allow
    reason: that is what it is for
  - name: run
    match: { syscall: exec.run }
    action: allow
    reason: commands are boxed
  - name: log
    match: { syscall: audit.read, plugin: cli }
    action: allow
    reason: the person reads the log
commands: [{ executable: python3 }, { executable: \"true\" }]
";

/// The client in Python, what every script begins with, and some files.
fn place() -> Place {
    governed(POLICY)
}

fn governed(policy: &str) -> Place {
    let place = Place::governed(policy);
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/wire/client.py");
    std::fs::copy(client, place.root().join("client.py")).unwrap();
    for name in ["agents", "persons"] {
        std::fs::write(place.root().join("review").join(name), "text\n").unwrap();
    }
    place
}

const PREAMBLE: &str = "\
import json, os, socket, sys, time
from client import Connection, Answer, Closed, refusal
PATH = os.environ['AIRLOCK_SOCKET']
def ask(tool, **arguments):
    connection = Connection(PATH, name='agent')
    return connection.call('call', {'name': tool, 'arguments': arguments})['outcome']
";

fn scripted(script: &str) -> Value {
    let command = ["python3", "-B", "-c", &format!("{PREAMBLE}{script}")];
    json!({ "command": command, "timeout": "60s" })
}

/// What `exec.own` of a person printed, as JSON.
fn own(kernel: &Kernel, script: &str) -> Value {
    printed(&kernel.submit(Front::Cli, &Call::new("exec.own", scripted(script))))
}

fn printed(outcome: &Outcome) -> Value {
    let Outcome::Done(done) = outcome else {
        panic!("{outcome:?}");
    };
    told(&done.value)
}

fn told(value: &Value) -> Value {
    let printed = value["stdout"].as_str().unwrap_or_default();
    serde_json::from_str(printed).unwrap_or_else(|error| panic!("{error}: {value}"))
}

/// The same through a served kernel, as `front`.
fn served(front: &str, script: &str) -> (Place, Value) {
    let place = place();
    let served = place.serve();
    let tool = if front == "cli" {
        "exec.own"
    } else {
        "exec.run"
    };
    let mut client = served.client(front);
    let told_us = client.call("call", call(tool, &scripted(script))).unwrap();
    let value = told(&told_us["outcome"]["done"]["value"]);
    drop(served);
    (place, value)
}

/// Every record of the log, as JSON.
fn records(kernel: &Kernel) -> Vec<Value> {
    kernel.log().flush().unwrap();
    let records = kernel.log().read(Filter::default()).unwrap();
    records
        .map(|record| serde_json::to_value(&record.unwrap().entry).unwrap())
        .collect()
}

const READ: &str = "print(json.dumps(ask('fs.read', path='README.md')))";

#[test]
fn a_command_reads_through_the_kernel_whoever_keeps_that() {
    let place = place();
    let kernel = place.kernel(Lifetime::Command);
    let outcome = own(&kernel, READ);
    assert_eq!(outcome["done"]["value"]["text"], "hello\n");
    for front in ["cli", "agent", "mcp", "server"] {
        let (_place, outcome) = served(front, READ);
        assert_eq!(outcome["done"]["value"]["text"], "hello\n", "{front}");
    }
}

#[test]
fn each_call_is_in_the_log_under_its_sandbox_and_the_command_it_came_from() {
    let place = place();
    let kernel = place.kernel(Lifetime::Command);
    let outcome = own(&kernel, READ);
    let action = &outcome["done"]["action"];
    let all = records(&kernel);
    let of = |action: &Value| -> Vec<&Value> {
        all.iter()
            .filter(|record| record["action"] == *action)
            .collect()
    };
    let inner = of(action);
    assert!(!inner.is_empty(), "{all:?}");
    for record in &inner {
        let caller = &record["caller"];
        assert_eq!(caller["plugin"], "agent", "{record}");
        assert!(caller["sandbox"].is_string(), "{record}");
        assert_ne!(caller["peer"]["pid"], std::process::id(), "{record}");
        let outer = of(&record["metadata"]["within"]);
        assert!(
            outer.iter().any(|record| record["syscall"] == "exec.own"),
            "{record}"
        );
        assert!(
            outer
                .iter()
                .any(|record| record["sandbox"] == caller["sandbox"]),
            "{outer:?}"
        );
    }
    let decided = inner.iter().any(|record| !record["decision"].is_null());
    assert!(decided, "{inner:?}");
}

#[test]
fn nothing_is_allowed_that_whoever_runs_the_command_is_not_nor_an_agent() {
    let place = place();
    let kernel = place.kernel(Lifetime::Command);
    let outcomes = own(
        &kernel,
        "print(json.dumps([\n\
         ask('fs.read', path='private/key'),\n\
         ask('fs.read', path='review/agents'),\n\
         ask('fs.read', path='review/persons'),\n\
         ask('fs.list', path='review'),\n\
         ask('audit.read'),\n\
         ask('policy.update', text='version: 1'),\n\
         ask('no.such.tool')]))",
    );
    for (at, why) in [
        (0, "private stays private"),
        (1, "agents only"),
        (2, "persons only"),
    ] {
        let denied = &outcomes[at]["denied"];
        assert_eq!(denied["decision"]["verdict"], "deny", "{}", outcomes[at]);
        assert!(denied.to_string().contains(why), "{denied}");
    }
    let listed = outcomes[3]["done"]["value"].to_string();
    for hidden in ["agents", "persons"] {
        assert!(!listed.contains(hidden), "{listed}");
    }
    for at in [4, 5] {
        assert!(outcomes[at]["done"].is_null(), "{}", outcomes[at]);
    }
    assert_eq!(outcomes[6]["failed"]["code"], "unknown_tool");
}

#[test]
fn a_question_pends_and_holds_nobody_up() {
    let (_place, outcome) = served(
        "agent",
        "begun = time.time()\n\
         outcome = ask('fs.read', path='review/plan')\n\
         assert time.time() - begun < 20\n\
         print(json.dumps(outcome))",
    );
    let asked = &outcome["needs_review"];
    assert!(asked["approval"]["id"].is_string(), "{outcome}");
}

#[test]
fn who_somebody_is_follows_from_the_socket_alone() {
    let (_place, said) = served(
        "agent",
        "said = [refusal(PATH, name=name)['code'] for name in\n\
             ['cli', 'mcp', 'server', 'bootstrap', 'plugin', 'root']]\n\
         connection = Connection(PATH, name='agent')\n\
         about = connection.greeting['about']\n\
         def code(method, params=None):\n\
         \x20   try:\n\
         \x20       return connection.call(method, params)\n\
         \x20   except Answer as answer:\n\
         \x20       return answer.error['code']\n\
         read = {'name': 'fs.read', 'arguments': {'path': 'README.md'}}\n\
         methods = [code('status'), code('kernel.stop'), code('kernel.renew'),\n\
         \x20   code('log.flush'), code('exec', {}),\n\
             code('workflows.run', {}), code('workflows.resume', {}), code('workflows.cancel', {}),\n\
             code('events.subscribe'), code('call', {**read, 'session': 's-1'}),\n\
             code('call', {**read, 'within': 'x'}),\n\
             code('call', {**read, 'person': {'home': '/', 'environment': {}}})]\n\
         print(json.dumps({'said': said, 'methods': methods, 'about': about,\n\
             'tools': len(connection.call('tools.list'))}))",
    );
    assert_eq!(said["said"], json!(vec!["refused"; 6]));
    assert_eq!(said["methods"], json!(vec!["refused"; 12]), "{said}");
    assert!(said["about"]["sandbox"].is_string(), "{said}");
    assert!(said["tools"].as_u64().unwrap() > 5, "{said}");
}

/// What the command touches, and what others want meanwhile, is all in the way of everything else.
#[test]
fn a_call_waits_for_nothing_that_waits_for_its_command() {
    let place = place();
    let served = place.serve();
    let script = "\
os.makedirs('out', exist_ok=True)\n\
open('out/began', 'w').write('now')\n\
time.sleep(2)\n\
seen = [ask('fs.read', path='out/began'), ask('search.grep', pattern='hello', path='.'),\n\
    ask('fs.write', path='out/new', text='x'), ask('exec.run', command=['true']),\n\
    ask('fs.list', path='out')]\n\
open('out/new', 'w').write('mine')\n\
seen.append(ask('fs.read', path='out/new'))\n\
print(json.dumps(seen))";
    let mut running = served.client("agent");
    let command = running
        .send("call", call("exec.run", &scripted(script)), &[])
        .unwrap();
    // Somebody else wants what the command has, and waits for it.
    let waiting: Vec<_> = ["fs.write", "fs.read", "exec.run"]
        .into_iter()
        .map(|tool| {
            let mut client = served.client("agent");
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(700));
                let arguments = match tool {
                    "exec.run" => json!({ "command": ["true"] }),
                    "fs.write" => json!({ "path": "out/other", "text": "y" }),
                    _ => json!({ "path": "out/began" }),
                };
                client.call("call", call(tool, &arguments)).unwrap()
            })
        })
        .collect();
    running.wait_up_to(Some(PATIENCE)).unwrap();
    let ran = running.answer(command).unwrap();
    let seen = told(&ran["outcome"]["done"]["value"]);
    assert_eq!(seen[0]["done"]["value"]["text"], "now", "{seen}");
    assert!(seen[1]["done"].is_object(), "{seen}");
    // This kernel has no worker that changes files.
    for (at, code) in [(2, "tier_unavailable"), (3, "tool_unavailable")] {
        assert_eq!(seen[at]["failed"]["code"], code, "{seen}");
        assert!(seen[at]["failed"]["fix"].is_string(), "{seen}");
    }
    assert!(seen[4]["done"].to_string().contains("began"), "{seen}");
    assert_eq!(seen[5]["done"]["value"]["text"], "mine", "{seen}");
    for waiting in waiting {
        let outcome = waiting.join().unwrap();
        assert!(outcome["outcome"].is_object(), "{outcome}");
    }
}

#[test]
fn nobody_inside_replaces_removes_or_looks_behind_the_socket() {
    let (place, said) = served(
        "agent",
        "def tried(what):\n\
         \x20   try:\n\
         \x20       what()\n\
         \x20       return 'done'\n\
         \x20   except OSError as error:\n\
         \x20       return error.strerror\n\
         other = socket.socket(socket.AF_UNIX)\n\
         directory = os.path.dirname(PATH)\n\
         tries = [tried(lambda: os.unlink(PATH)), tried(lambda: os.rename(PATH, PATH + '2')),\n\
             tried(lambda: os.chmod(PATH, 0)), tried(lambda: other.bind(directory + '/x')),\n\
             tried(lambda: os.symlink('/tmp/x', directory + '/y')),\n\
             tried(lambda: os.rename(directory, '/run/z')), tried(lambda: os.rmdir(directory))]\n\
         found = {'tries': tries, 'names': os.listdir(directory), 'run': os.listdir('/run'),\n\
             'still': ask('fs.exists', path='README.md')}\n\
         print(json.dumps(found))",
    );
    for tried in said["tries"].as_array().unwrap() {
        assert_ne!(tried, "done", "{said}");
    }
    assert_eq!(said["names"], json!(["kernel.sock"]));
    assert_eq!(said["run"], json!(["airlock"]));
    assert!(said["still"]["done"].is_object(), "{said}");
    drop(place);
}

#[test]
fn a_flood_of_connections_keeps_nobody_else_from_anything() {
    let place = place();
    let served = place.serve();
    let script = "\
held, said = [], []\n\
for _ in range(300):\n\
\x20   stream = socket.socket(socket.AF_UNIX)\n\
\x20   stream.connect(PATH)\n\
\x20   stream.settimeout(20)\n\
\x20   held.append(stream)\n\
for stream in held[8:12]:\n\
\x20   said.append(b'overloaded' in stream.recv(4096))\n\
for stream in held:\n\
\x20   stream.close()\n\
until, done = time.time() + 20, None\n\
while done is None and time.time() < until:\n\
\x20   try:\n\
\x20       done = ask('fs.read', path='README.md')\n\
\x20   except (Closed, BlockingIOError):\n\
\x20       time.sleep(0.1)\n\
print(json.dumps({'said': said, 'done': done}))";
    let mut running = served.client("agent");
    let command = running
        .send("call", call("exec.run", &scripted(script)), &[])
        .unwrap();
    let mut bystander = served.client("agent");
    let begun = Instant::now();
    for _ in 0..20 {
        let read = json!({ "path": "README.md" });
        let listed = bystander.call("tools.list", json!(null)).unwrap();
        assert!(listed.is_array(), "{read}");
    }
    assert!(begun.elapsed() < Duration::from_secs(20));
    running.wait_up_to(Some(PATIENCE)).unwrap();
    let ran = running.answer(command).unwrap();
    let seen = told(&ran["outcome"]["done"]["value"]);
    assert_eq!(seen["said"], json!([true, true, true, true]), "{seen}");
    assert_eq!(seen["done"]["done"]["value"]["text"], "hello\n", "{seen}");
}

/// One command leaves connections it never used, and processes that hold others; the next has the
/// same sandbox, another session, and nothing of the first.
#[test]
fn nothing_of_one_command_speaks_for_the_next() {
    let place = place();
    let served = place.serve();
    let mut client = served.client("agent");
    let leaves = "\
held = []\n\
for _ in range(4):\n\
\x20   stream = socket.socket(socket.AF_UNIX)\n\
\x20   stream.connect(PATH)\n\
\x20   held.append(stream)\n\
open_one = Connection(PATH, name='agent')\n\
if os.fork() == 0:\n\
\x20   os.setsid()\n\
\x20   time.sleep(600)\n\
print(json.dumps(open_one.greeting['about']['sandbox']))";
    let asks = "print(json.dumps([Connection(PATH, name='agent').greeting['about']['sandbox'],\n\
                ask('fs.read', path='private/key')['denied']['request']['caller']]))";
    let mut ran = Vec::new();
    for script in [leaves, asks] {
        let outcome = client.call("call", call("exec.run", &scripted(script)));
        ran.push(told(&outcome.unwrap()["outcome"]["done"]["value"]));
    }
    assert_eq!(ran[0], ran[1][0], "the sandbox lasts");
    assert_eq!(ran[1][1]["sandbox"], ran[0], "{ran:?}");
}

#[test]
fn a_command_that_is_taken_back_takes_its_calls_with_it() {
    let place = place();
    let served = place.serve();
    let script = "\
connections = [Connection(PATH, name='agent') for _ in range(4)]\n\
while True:\n\
\x20   for connection in connections:\n\
\x20       connection.send('call', {'name': 'search.grep', 'arguments': {'pattern': 'e'}})\n\
\x20   for connection in connections:\n\
\x20       connection.receive()";
    let mut client = served.client("agent");
    let command = client
        .send("call", call("exec.run", &scripted(script)), &[])
        .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let begun = Instant::now();
    client.canceller().cancel(command).unwrap();
    let outcome = client.answer(command).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(
        outcome["outcome"]["done"]["ran"]["outcome"]["outcome"], "cancelled",
        "{outcome}"
    );
    // And the kernel goes on.
    let read = json!({ "path": "README.md" });
    let done = client.call("call", call("fs.read", &read)).unwrap();
    assert!(done["outcome"]["done"].is_object(), "{done}");
}

#[test]
fn a_policy_takes_the_socket_away() {
    let place = governed(&format!(
        "{POLICY}templates:\n  code-executor: {{ socket: false }}\n"
    ));
    let kernel = place.kernel(Lifetime::Command);
    let script = "print('null' if 'AIRLOCK_SOCKET' not in __import__('os').environ and \
                  not __import__('os').path.exists('/run/airlock') else 'true')";
    let arguments = json!({ "command": ["python3", "-c", script] });
    let outcome = kernel.submit(Front::Cli, &Call::new("exec.own", arguments));
    assert_eq!(printed(&outcome), Value::Null);
}

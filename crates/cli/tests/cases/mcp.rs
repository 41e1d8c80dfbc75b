//! `airlock mcp serve` as a client meets it: the real program on real streams.

use crate::support::mcp_client::Client;
use crate::support::{Typed, World, at_terminal, runs, wait_until};
use serde_json::{Value, json};
use std::io::Write as _;

/// Agents may run `sleep` and `sh`, in a sandbox.
const RUNS: &str = "\
version: 1
commands:
  - executable: sleep
  - executable: sh
rules:
  - { name: read, match: { effect: read, path_glob: \"**\" }, action: allow, reason: reading }
  - { name: run, match: { syscall: exec.run }, action: allow, reason: running }
";

fn trusted(policy: &str) -> World {
    let world = World::project();
    world.write(".airlock/policy.yaml", policy);
    let ran = at_terminal(&world, "trust", Typed::Line("yes"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    world
}

#[test]
fn stdout_carries_the_protocol_and_nothing_else() {
    // Files nobody approved make every command warn.
    let world = World::project();
    world.write(".airlock/policy.yaml", "version: 1\nrules: []\n");
    let mut client = Client::greeted(&world);
    client.begin(1, "fs_read", &json!({ "path": "README.md" }));
    assert_eq!(client.receive()["result"]["isError"], false);
    client.begin(2, "fs_read", &json!({ "path": ".env" }));
    let denied = client.receive();
    assert_eq!(denied["result"]["structuredContent"]["status"], "denied");
    let (code, said) = client.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("not approved"), "{said}");
}

/// A client whose program runs, marked by how long it would sleep.
fn sleeping(world: &World, mark: &str) -> Client {
    let mut client = Client::greeted(world);
    client.begin(
        1,
        "exec_run",
        &json!({ "command": ["sleep", mark], "timeout": "5m" }),
    );
    wait_until("the program runs", || runs(mark));
    client
}

/// What became of the programs that were run, by the log.
fn endings(world: &World) -> Vec<String> {
    let log = world.quiet(&["audit", "log", "--json", "--plugin", "mcp"]);
    let records = log
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    records
        .filter_map(|record| record["metadata"]["ended"].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn a_cancelled_request_ends_its_program_and_the_server_goes_on() {
    let world = trusted(RUNS);
    let mut client = sleeping(&world, "281.001");
    client.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 },
    }));
    wait_until("the program is gone", || !runs("281.001"));
    client.begin(2, "fs_exists", &json!({ "path": "README.md" }));
    assert_eq!(client.receive()["id"], 2);
    assert_eq!(client.ended().0, Some(0));
    assert_eq!(endings(&world), ["cancelled"]);
}

#[test]
fn a_client_that_closes_its_end_takes_its_program_with_it() {
    let world = trusted(RUNS);
    let mut client = sleeping(&world, "281.002");
    // Nobody reads what comes next.
    drop(client.read.take());
    client.send(&json!({ "jsonrpc": "2.0", "id": 9, "method": "ping" }));
    wait_until("the program is gone", || !runs("281.002"));
    client.child.wait().unwrap();
    assert_eq!(endings(&world), ["cancelled"]);
}

#[test]
fn a_client_that_is_gone_takes_its_program_with_it() {
    let world = trusted(RUNS);
    let client = sleeping(&world, "281.003");
    let (code, said) = client.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(!runs("281.003"));
    assert_eq!(endings(&world), ["cancelled"]);
}

#[test]
fn a_signal_ends_the_server_and_what_runs_and_the_log_says_so() {
    let world = trusted(RUNS);
    let mut client = sleeping(&world, "281.004");
    let id = rustix::process::Pid::from_child(&client.child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    let write = client.write.take();
    let (code, said) = client.ended();
    drop(write);
    assert_eq!(code, Some(0), "{said}");
    assert!(!runs("281.004"));
    assert_eq!(endings(&world), ["cancelled"]);
    assert_eq!(world.quiet(&["audit", "verify"]).code, Some(0));
}

#[test]
fn a_client_that_says_nothing_or_nonsense_is_no_accident() {
    let world = World::project();
    assert_eq!(world.quiet(&["mcp", "serve"]).code, Some(0));
    let mut client = Client::start(&world, &[]);
    client
        .write
        .as_mut()
        .unwrap()
        .write_all(b"GET / HTTP/1.1\r\n\r\n")
        .unwrap();
    assert_eq!(client.receive()["error"]["code"], -32700);
    assert_eq!(client.ended().0, Some(0));
}

#[test]
fn what_cannot_be_served_is_said_with_its_cure() {
    let mut world = World::project();
    for line in [
        "mcp",
        "mcp serve --json",
        "mcp serve --token-file x",
        "mcp serve --http here",
        "mcp serve --http 0.0.0.0:7420",
        "mcp serve --http [::]:0",
        "mcp serve --http example.org:80",
    ] {
        let args: Vec<&str> = line.split_whitespace().collect();
        let ran = world.run(&args);
        assert_eq!(ran.code, Some(2), "{line}: {ran:?}");
    }
    world.compare("mcp_wrong");
}

#[test]
fn an_address_in_use_and_a_token_others_know_are_refused() {
    let world = World::project();
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap().to_string();
    let ran = world.quiet(&["mcp", "serve", "--http", &taken]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("choose another port"), "{ran:?}");
    drop(held);
    let file = world.write("token", "x".repeat(64));
    let ran = world.quiet(&[
        "mcp",
        "serve",
        "--http",
        "localhost:0",
        "--token-file",
        file.to_str().unwrap(),
    ]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("can be used by others"), "{ran:?}");
}

#[test]
fn the_token_is_in_the_state_directory_and_nowhere_else() {
    let world = World::project();
    let mut client = Client::start(&world, &["--http", "localhost:0", "--json"]);
    let said = client.receive();
    let file = std::path::PathBuf::from(said["token_file"].as_str().unwrap());
    assert_eq!(file, world.state().join("mcp-token"));
    let token = std::fs::read_to_string(&file).unwrap();
    assert!(!said.to_string().contains(token.trim()));
    let id = rustix::process::Pid::from_child(&client.child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    let (code, stderr) = client.ended();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(!stderr.contains(token.trim()));
    let log = world.quiet(&["audit", "export"]);
    assert!(!log.stdout.contains(token.trim()));
}

/// The number of the process whose kernel serves the workspace.
fn kernel_of(world: &World) -> Option<u64> {
    let status = world.quiet(&["kernel", "status", "--json"]);
    status.json()["pid"].as_u64()
}

fn reads(client: &mut Client, id: i64) {
    client.begin(id, "fs_read", &json!({ "path": "README.md" }));
    let answer = client.receive();
    assert_eq!(answer["result"]["isError"], false, "{answer}");
}

#[test]
fn servers_of_one_workspace_share_its_kernel_and_the_next_takes_over() {
    let world = World::project();
    world.alone();
    let mut one = Client::greeted(&world);
    reads(&mut one, 1);
    assert_eq!(kernel_of(&world), Some(u64::from(one.child.id())));
    let mut two = Client::greeted(&world);
    reads(&mut two, 1);
    assert_eq!(kernel_of(&world), Some(u64::from(one.child.id())));
    // Whoever wants a second one is told who has it.
    let ran = world.quiet(&["kernel", "--foreground"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("already runs"), "{ran:?}");
    assert_eq!(one.ended().0, Some(0));
    reads(&mut two, 2);
    assert_eq!(kernel_of(&world), Some(u64::from(two.child.id())));
    // A person may end it; the server needs one again and has one.
    assert_eq!(world.quiet(&["kernel", "stop"]).code, Some(0));
    reads(&mut two, 3);
    assert_eq!(two.ended().0, Some(0));
    assert_eq!(kernel_of(&world), None);
    assert_eq!(world.quiet(&["audit", "verify"]).code, Some(0));
}

#[test]
fn a_kernel_that_runs_is_used_and_left_running() {
    let world = trusted(RUNS);
    let served = world.serve();
    let mut client = Client::greeted(&world);
    reads(&mut client, 1);
    client.begin(2, "exec_run", &json!({ "command": ["sleep", "0"] }));
    let answer = client.receive();
    assert_eq!(answer["result"]["structuredContent"]["exit"], 0, "{answer}");
    client.begin(3, "fs_read", &json!({ "path": "/etc/hostname" }));
    let answer = client.receive();
    assert_eq!(answer["result"]["structuredContent"]["status"], "denied");
    client.begin(
        4,
        "exec_run",
        &json!({ "command": ["sleep", "281.005"], "timeout": "5m" }),
    );
    wait_until("the program runs", || runs("281.005"));
    client.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 4 },
    }));
    wait_until("the program is gone", || !runs("281.005"));
    assert_eq!(client.ended().0, Some(0));
    assert_eq!(kernel_of(&world), u64::try_from(served.pid).ok());
}

#[test]
fn a_lock_whose_holder_does_not_answer_is_said_with_its_cure() {
    let world = World::project();
    world.alone();
    // Makes the state directory.
    assert_eq!(world.quiet(&["mcp", "serve"]).code, Some(0));
    let lock = std::fs::File::open(world.state().join("run/kernel.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let ran = world.quiet(&["mcp", "serve"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("does not answer"), "{ran:?}");
    assert!(ran.stderr.contains("airlock kernel stop"), "{ran:?}");
    assert_eq!(ran.stdout, "", "{ran:?}");
}

/// A person with a scripted model, and an agent `helper` that is told what to do by `script`.
fn with_helper(rule: &str, script: &str) -> World {
    let policy = format!("{RUNS}{rule}");
    let world = trusted(&policy);
    // A kernel that runs has none of what follows.
    world.alone();
    let config = world.path("config/airlock");
    std::fs::create_dir_all(config.join("agents")).unwrap();
    let script_file = config.join("script.yaml");
    std::fs::write(&script_file, script).unwrap();
    let models = format!(
        "models:\n  - {{ name: small, provider: scripted, script: {} }}\n",
        script_file.display()
    );
    std::fs::write(config.join("config.yaml"), models).unwrap();
    let agent = "agent: 1\nname: helper\nsummary: Helps\nversion: 1.0.0\nmodel: default\n\
                 system: You help.\ntools: [fs.read]\n";
    std::fs::write(config.join("agents/helper.yaml"), agent).unwrap();
    world
}

const MAY_ASK: &str = "  - { name: ask, match: { plugin: mcp, syscall: model.chat }, action: allow, reason: asking }\n";

#[test]
fn an_agent_works_for_a_client_where_policy_lets_it_and_ends_with_the_request() {
    let task = json!({ "agent": "helper", "task": "read it" });
    let reads = "version: 1\nturns:\n  - calls: [{ tool: fs.read, arguments: { path: README.md } }]\n  - { text: read }\n";
    let world = with_helper("", reads);
    let mut client = Client::greeted(&world);
    client.begin(1, "agent_invoke", &task);
    let answer = client.receive();
    assert_eq!(
        answer["result"]["structuredContent"]["status"], "denied",
        "{answer}"
    );
    client.ended();

    let world = with_helper(MAY_ASK, reads);
    let mut client = Client::greeted(&world);
    client.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }));
    let listed = client.receive().to_string();
    assert!(listed.contains("helper: Helps"), "{listed}");
    client.begin(2, "agent_invoke", &task);
    let answer = client.receive();
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert!(
        answer.to_string().contains("\"answer\":\"read\""),
        "{answer}"
    );
    client.ended();

    let slow = "version: 1\nturns: [{ text: late, pause_ms: 50000 }]\n";
    let world = with_helper(MAY_ASK, slow);
    let mut client = Client::greeted(&world);
    client.begin(1, "agent_invoke", &task);
    wait_until("the agent works", || {
        let log = world.quiet(&["audit", "log", "--json", "--plugin", "mcp"]);
        log.stdout.contains("\"agent\":\"helper\"")
    });
    client.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 },
    }));
    wait_until("the agent ended", || {
        let log = world.quiet(&["audit", "log", "--json", "--plugin", "mcp"]);
        log.stdout.contains("\"failed\":\"cancelled\"")
    });
    client.ended();
}

const ADAPTER: &str = "\
adapter: 1
id: wc-lines
name: wc
tool: text.lines
type: cli
---
summary: Count the lines of a file
version: 1.0.0
status: active
---
interface:
  read_only: true
  input: { type: object, required: [path], properties: { path: { type: string, description: the file } } }
cli: { command: [wc, -l], arguments: [{ value: path }] }
---
examples:
  - { name: one, arguments: { path: a }, command: [wc, -l, a] }
";

/// A tool of a server that answers and ends, in the sandbox that programs of the session have.
const SPEAKS: &str = "\
adapter: 1
id: speaks
name: speaks
tool: text.speaks
type: mcp
---
summary: Say hello
version: 1.0.0
status: active
---
interface: { input: { type: object } }
mcp: { command: [sh, speaks.sh], tool: echo }
";

const SPEAKER: &str = r#"read -r hello
printf '%s\n' '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}'
read -r ready
read -r call
printf '%s\n' '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"hello"}]}}'
"#;

/// What is to end one program, should it stay, ends none that comes after it.
#[test]
fn a_program_is_not_ended_for_one_that_is_over() {
    let world = World::project();
    world.write(".airlock/policy.yaml", RUNS);
    world.write(".airlock/adapters/speaks.yaml", SPEAKS);
    world.write("speaks.sh", SPEAKER);
    let ran = at_terminal(&world, "trust", Typed::Line("yes"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let mut client = Client::greeted(&world);
    for id in 1..5 {
        client.begin(id, "text_speaks", &json!({}));
        let answer = client.receive();
        assert_eq!(answer["result"]["isError"], false, "{id}: {answer}");
        client.begin(10 + id, "exec_run", &json!({ "command": ["sleep", "0.5"] }));
        let answer = client.receive();
        assert_eq!(
            answer["result"]["structuredContent"]["exit"], 0,
            "{id}: {answer}"
        );
    }
    assert_eq!(client.ended().0, Some(0));
}

#[test]
fn tools_that_come_and_go_are_listed_as_they_are_and_found_by_their_names() {
    let world = trusted(RUNS);
    let mut client = Client::greeted(&world);
    let mut id = 0;
    let mut is_listed = |client: &mut Client| {
        id += 1;
        client.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list" }));
        let told = client.receive();
        let tools = told["result"]["tools"].as_array().unwrap();
        tools.iter().any(|tool| tool["name"] == "text_lines")
    };
    assert!(!is_listed(&mut client));
    world.write(".airlock/adapters/lines.yaml", ADAPTER);
    let ran = at_terminal(&world, "trust", Typed::Line("yes"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // Its name is understood before anybody listed it.
    client.begin(100, "text_lines", &json!({ "pth": 1 }));
    let told = client.receive().to_string();
    assert!(
        told.contains("invalid arguments for `text.lines`"),
        "{told}"
    );
    assert!(is_listed(&mut client));
    assert_eq!(world.quiet(&["trust", "revoke"]).code, Some(0));
    assert!(!is_listed(&mut client));
    client.begin(101, "text_lines", &json!({ "path": "README.md" }));
    let told = client.receive().to_string();
    assert!(told.contains("unknown tool"), "{told}");
    assert_eq!(client.ended().0, Some(0));
}

#[test]
fn a_tool_whose_name_another_has_is_left_out_and_whoever_serves_or_lists_hears_of_it() {
    let world = trusted(RUNS);
    let adapter = ADAPTER.replace("tool: text.lines", "tool: session_set.mode");
    world.write(".airlock/adapters/lines.yaml", adapter);
    let ran = at_terminal(&world, "trust", Typed::Line("yes"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let mut client = Client::greeted(&world);
    client.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }));
    let told = client.receive();
    let tools = told["result"]["tools"].as_array().unwrap();
    let titles: Vec<&Value> = tools
        .iter()
        .filter(|tool| tool["name"] == "session_set_mode")
        .map(|tool| &tool["title"])
        .collect();
    assert_eq!(titles, ["session.set_mode"]);
    let warning = "warning: the tool `session_set.mode` is not offered to MCP clients: \
                   `session.set_mode` is `session_set_mode` there already\n";
    let (code, said) = client.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(warning), "{said}");
    let ran = world.quiet(&["tool", "list"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains(warning), "{ran:?}");
}

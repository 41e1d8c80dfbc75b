//! Settings that change while a kernel runs, as MCP servers and commands meet them.

use crate::support::mcp_client::Client;
use crate::support::{World, runs, wait_until};
use serde_json::json;
use std::time::Duration;

/// Agents may read, and run `sleep`.
const RUNS: &str = "\
version: 1
commands:
  - executable: sleep
rules:
  - { name: read, match: { effect: read, path_glob: \"**\" }, action: allow, reason: reading }
  - { name: run, match: { syscall: exec.run }, action: allow, reason: running }
";

/// How many characters of a long file a client is shown.
fn shown(client: &mut Client, id: i64) -> usize {
    client.begin(id, "fs_read", &json!({ "path": "long.txt" }));
    let answer = client.receive();
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let text = &answer["result"]["structuredContent"]["text"];
    text.as_str().map_or(0, |text| text.chars().count())
}

fn long_file() -> World {
    let world = World::under(RUNS);
    world.write("long.txt", "a line of many\n".repeat(2_000));
    world
}

fn set(world: &World, key: &str, value: &str) {
    let ran = world.quiet(&["config", "set", key, value]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn a_server_that_starts_after_a_change_has_the_kernel_take_it_up_and_others_go_on() {
    let world = long_file();
    let served = world.serve();
    let mut old = Client::greeted(&world);
    let before = shown(&mut old, 1);
    set(&world, "output.max_tokens", "200");
    assert_eq!(shown(&mut old, 2), before, "nobody asked for it yet");
    let mut new = Client::greeted(&world);
    let after = shown(&mut new, 1);
    assert!(after < before, "{after} of {before}");
    assert_eq!(shown(&mut old, 3), after, "there is one kernel");
    let status = world.quiet(&["kernel", "status", "--json"]);
    assert_eq!(status.json()["pid"], served.pid, "the same process");
    // What commands ask is asked of it, too.
    let ran = world.quiet(&["tool", "call", "fs.exists", r#"{"path": "long.txt"}"#]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(new.ended().0, Some(0));
    assert_eq!(old.ended().0, Some(0));
    let log = world.quiet(&["audit", "log", "--json"]);
    assert_eq!(log.stdout.matches("\"kernel.renew\"").count() % 2, 0);
    assert!(log.stdout.contains("\"kernel.renew\""), "{log:?}");
    assert_eq!(world.quiet(&["audit", "verify"]).code, Some(0));
}

#[test]
fn a_server_whose_kernel_another_had_opened_again_goes_on_with_it() {
    let world = long_file();
    world.alone();
    let mut host = Client::greeted(&world);
    let before = shown(&mut host, 1);
    set(&world, "output.max_tokens", "200");
    let mut other = Client::greeted(&world);
    let after = shown(&mut other, 1);
    assert!(after < before, "{after} of {before}");
    assert_eq!(shown(&mut host, 2), after);
    let status = world.quiet(&["kernel", "status", "--json"]);
    assert_eq!(status.json()["pid"], host.child.id());
    // Its end is an end: the other begins one.
    assert_eq!(host.ended().0, Some(0));
    assert_eq!(shown(&mut other, 2), after);
    assert_eq!(other.ended().0, Some(0));
}

#[test]
fn what_is_under_way_is_not_broken_off_for_it() {
    let world = long_file();
    let _served = world.serve();
    let mut old = Client::greeted(&world);
    let before = shown(&mut old, 1);
    let seconds = format!("{}.25", 10_000_000 + std::process::id());
    let nap = json!({ "command": ["sleep", &seconds], "timeout": "5m" });
    old.begin(2, "exec_run", &nap);
    wait_until("the program runs", || runs(&seconds));
    set(&world, "output.max_tokens", "200");
    let mut new = Client::start(&world, &[]);
    new.hello();
    // Long enough to have asked for it; less would not make this fail.
    std::thread::sleep(Duration::from_secs(1));
    assert!(runs(&seconds), "it was not broken off");
    let log = world.quiet(&["audit", "log", "--json"]);
    assert!(!log.stdout.contains("\"kernel.renew\""), "{log:?}");
    old.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 },
    }));
    new.welcomed();
    assert!(shown(&mut new, 1) < before);
    assert_eq!(new.ended().0, Some(0));
    assert_eq!(old.ended().0, Some(0));
}

/// Two that would read different settings do not take turns in changing them.
#[test]
fn a_server_whose_settings_are_its_own_says_so_and_changes_nothing() {
    let world = long_file();
    let _served = world.serve();
    let mut old = Client::greeted(&world);
    let before = shown(&mut old, 1);
    let mut command = world.command(&["mcp", "serve"]);
    command.env("AIRLOCK_OUTPUT_MAX_TOKENS", "150");
    let ran = crate::support::fed(&mut command, "");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("other settings"), "{ran:?}");
    assert!(ran.stderr.contains("airlock kernel stop"), "{ran:?}");
    assert_eq!(shown(&mut old, 2), before);
    assert_eq!(old.ended().0, Some(0));
}

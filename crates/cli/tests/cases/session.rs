//! `airlock session`: listed, shown, ended, resumed.

use crate::support::World;

/// A session, begun by the person.
fn begun(world: &World, words: &[&str]) -> String {
    let ran = world.quiet(&[&["tool", "call", "session.create", "--json"], words].concat());
    ran.json()["result"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn sessions_are_listed_shown_ended_and_resumed() {
    let mut world = World::governed();
    world.run_all(&["session list", "session list --json"]);
    let first = begun(&world, &["title=parser", "mode=explore"]);
    let second = begun(&world, &["{\"budget\": {\"calls\": 2, \"minutes\": 30}}"]);
    let read = [
        "tool",
        "call",
        "fs.read",
        "path=README.md",
        "--as",
        "agent",
        "--session",
    ];
    assert_eq!(world.quiet(&[&read[..], &[&first]].concat()).code, Some(0));
    world.run_all(&["session list", "session list --json"]);
    world.run(&["session", "show", &first]);
    world.run(&["session", "show", &second, "--json"]);
    world.run(&["session", "archive", &first]);
    assert_eq!(world.run(&[&read[..], &[&first]].concat()).code, Some(1));
    world.run_all(&["session list", "session list --all"]);
    world.run(&["session", "resume", &first]);
    assert_eq!(world.quiet(&[&read[..], &[&first]].concat()).code, Some(0));
    world.run(&["session", "cancel", &second, "--json"]);
    world.run(&["session", "resume", &second]);
    world.run(&[&read[..], &[&second]].concat());
    world.compare("session");
}

#[test]
fn a_session_that_is_not_there_is_named_and_nothing_runs() {
    let mut world = World::governed();
    world.run_all(&[
        "session show none",
        "session cancel none --json",
        "session show \u{1b}[2Jx",
        "tool call fs.read path=README.md --session none",
        "tool call fs.read path=README.md --session ../x",
    ]);
    world.compare("session_unknown");
}

#[test]
fn beyond_its_budget_a_session_waits_for_a_person() {
    let mut world = World::governed();
    let id = begun(&world, &["{\"budget\": {\"calls\": 1}}"]);
    let read = [
        "tool",
        "call",
        "fs.read",
        "path=README.md",
        "--as",
        "agent",
        "--session",
        &id,
    ];
    assert_eq!(world.quiet(&read).code, Some(0));
    assert_eq!(world.run(&read).code, Some(4));
    world.run(&["session", "show", &id]);
    world.run(&["approvals", "list"]);
    world.compare("session_budget");
}

//! A validation that is killed: the stage it made for its runs is seen by nobody, and goes with the next
//! command.

use crate::support::{World, wait_until};
use std::process::Stdio;

const SLOW: &str = "\
version: 1
approvals: { automatic: [AG-01] }
phases: { test_command: [sh, -c, \"sleep 3; echo 'test result: ok. 1 passed; 0 failed; 0 ignored'\"] }
rules:
  - name: read
    match: { effect: read, path_glob: \"**\" }
    action: allow
  - name: run
    match: { syscall: test.run }
    action: allow
  - name: change
    match: { syscall: \"fs.*\", effect: [write, delete], path_glob: \"**\" }
    action: allow
";

/// The words of a call that the agent of the session `id` makes.
fn call<'a>(id: &'a str, words: &[&'a str]) -> Vec<&'a str> {
    [
        &["tool", "call"],
        words,
        &["--as", "agent", "--session", id, "--json"],
    ]
    .concat()
}

/// A session whose task waits to be validated.
fn to_be_validated() -> (World, String) {
    let world = World::under(SLOW);
    let begun = world.quiet(&["tool", "call", "session.create", "mode=explore", "--json"]);
    let begun = begun.json().to_string();
    let (_, id) = begun.split_once("\"id\":\"").unwrap();
    let id = id.split_once('"').unwrap().0.to_owned();
    for words in [
        &["phase.advance"][..],
        &["plan.complete"],
        &["fs.write", "path=src/new.rs", "text=pub fn new() {}"],
        &["phase.advance"],
    ] {
        let ran = world.quiet(&call(&id, words));
        assert_eq!(ran.code, Some(0), "{words:?}: {ran:?}");
    }
    (world, id)
}

/// Directories of stages that nobody named.
fn unnamed(world: &World) -> Vec<String> {
    let all = std::fs::read_dir(world.state().join("stages")).unwrap();
    let names = all.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let own = |name: &String| name != "default" && name != ".making";
    names.filter(own).collect()
}

#[test]
fn the_stage_of_a_validation_that_was_killed_is_not_listed_and_does_not_stay() {
    let (world, id) = to_be_validated();
    let mut killed = world
        .command(&call(&id, &["test.run"]))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let for_runs = || {
        let names = unnamed(&world).into_iter();
        names
            .filter(|name| name.starts_with(".runs-merged-"))
            .count()
    };
    wait_until("what would be merged is run", || for_runs() == 1);
    let listed = || world.quiet(&["stage", "list"]).stdout;
    // Whoever looks meanwhile neither sees it nor takes it away.
    let seen = listed();
    assert!(
        seen.contains("default") && !seen.contains(".runs-"),
        "{seen}"
    );
    assert_eq!(for_runs(), 1, "it is held");
    killed.kill().unwrap();
    killed.wait().unwrap();
    wait_until("it is gone", || {
        let seen = listed();
        assert!(!seen.contains(".runs-"), "{seen}");
        unnamed(&world).is_empty()
    });
    let again = world.quiet(&call(&id, &["test.run"]));
    assert!(again.stdout.contains("\"reviewing\""), "{again:?}");
    assert_eq!(unnamed(&world), [""; 0]);
}

#[test]
fn nobody_can_choose_the_name_of_such_a_stage() {
    let world = World::project();
    for words in [
        &["exec", "--stage", ".runs-merged-1", "--", "true"][..],
        &["tool", "call", "session.create", "stage=.runs-merged-1"],
        &["stage", "drop", ".runs-merged-1"],
    ] {
        let ran = world.quiet(words);
        assert_ne!(ran.code, Some(0), "{words:?}: {ran:?}");
        assert!(ran.stderr.contains("stage"), "{words:?}: {ran:?}");
    }
    let ran = world.quiet(&["exec", "--stage", "runs-merged-1", "--", "true"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

//! `airlock session`: listed, shown, ended, resumed.

use crate::support::{Typed, World, at_terminal};

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

#[test]
fn a_person_exempts_files_of_the_session_that_could_use_it_and_of_no_other() {
    let world = World::governed();
    let exempt = "session exempt documentation README.md";
    let words: Vec<&str> = exempt.split(' ').collect();
    let ran = world.quiet(&words);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stderr.contains("there is no session that could use"),
        "{ran:?}"
    );

    let id = begun(&world, &["mode=strict"]);
    let other = begun(&world, &[]);
    let call = |words: &[&str]| {
        let all = [
            &["tool", "call"],
            words,
            &["--as", "agent", "--session", &id],
        ]
        .concat();
        world.quiet(&all)
    };
    assert_eq!(call(&["phase.advance"]).code, Some(0));
    assert_eq!(call(&["plan.complete"]).code, Some(0));
    let early = call(&["fs.write", "path=README.md", "text=x"]);
    assert_eq!(early.code, Some(3), "{early:?}");
    assert!(
        early
            .stderr
            .contains("airlock session exempt CATEGORY PATH"),
        "{early:?}"
    );
    assert_eq!(world.quiet(&words).code, Some(4), "nobody is there");
    let outside = at_terminal(
        &world,
        "session exempt documentation src/main.rs",
        Typed::Line("y"),
    );
    assert_eq!(outside.code, Some(1), "{outside:?}");
    assert!(outside.stdout.contains("guard `exemption`"), "{outside:?}");
    let no = at_terminal(&world, exempt, Typed::Line("n"));
    assert_eq!(no.code, Some(3), "{no:?}");
    let unheld = format!("{exempt} --session {other}");
    let unheld = at_terminal(&world, &unheld, Typed::Line("y"));
    assert_ne!(unheld.code, Some(0), "{unheld:?}");
    let yes = at_terminal(
        &world,
        &format!("{exempt} --session {id} --reason 'a typo'"),
        Typed::Line("y"),
    );
    assert_eq!(yes.code, Some(0), "{yes:?}");
    assert!(yes.stdout.contains("is exploring"), "{yes:?}");
    assert_eq!(
        call(&["fs.write", "path=README.md", "text=x"]).code,
        Some(0)
    );
    let beyond = call(&["fs.write", "path=src/main.rs", "text=x"]);
    assert_eq!(beyond.code, Some(3), "{beyond:?}");
    assert!(beyond.stderr.contains("phases/exemption"), "{beyond:?}");
    let log = world.quiet(&["audit", "log", "--json"]).stdout;
    assert!(log.contains("phase.request_exemption") && log.contains("a typo"));
}

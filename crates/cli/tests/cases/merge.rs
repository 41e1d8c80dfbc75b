//! Into the real tree and out of it: looked at, said yes to, and exactly undone.

use crate::support::{Conversation, Typed, World, at_terminal, finished, program};

/// A project with three changes waiting in its stage.
fn changed() -> World {
    let world = World::project();
    let script =
        "printf 'one more\\n' >> README.md; mkdir -p new; echo fresh > new/file; rm -f src/main.rs";
    let ran = world.quiet(&["exec", "--", "sh", "-c", script]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    world
}

fn read(world: &World, name: &str) -> Option<String> {
    std::fs::read_to_string(world.workspace().join(name)).ok()
}

fn changes(world: &World) -> usize {
    let diff = world.quiet(&["diff", "--json"]).json();
    diff["changes"].as_array().unwrap().len()
}

#[test]
fn a_merge_is_looked_at_approved_and_undone() {
    let mut world = changed();
    let before = (read(&world, "README.md"), read(&world, "src/main.rs"));
    let ran = at_terminal(&world, "merge", Typed::Line("y"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    world.note("merge (typed: y)", &ran);
    assert!(read(&world, "README.md").unwrap().ends_with("one more\n"));
    assert_eq!(read(&world, "new/file").as_deref(), Some("fresh\n"));
    assert_eq!(read(&world, "src/main.rs"), None);
    assert_eq!(changes(&world), 0);

    let ran = at_terminal(&world, "undo", Typed::Line("y"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    world.note("undo (typed: y)", &ran);
    assert_eq!(
        (read(&world, "README.md"), read(&world, "src/main.rs")),
        before
    );
    assert_eq!(read(&world, "new/file"), None);
    assert!(!world.workspace().join("new").exists());
    world.run(&["undo"]);
    world.run(&["merge"]);
    let log = world.quiet(&["audit", "log", "--json"]).stdout;
    assert!(
        log.contains("merge_approved") && log.contains("merge_undone"),
        "{log}"
    );
    // What was there before and since, as digests: those of the undo are the same, exchanged.
    let digests = |event: &str| -> Vec<String> {
        let record = log.lines().find(|line| {
            line.contains(&format!("\"{event}\"")) && line.contains("\"stage\":\"outcome\"")
        });
        let record: serde_json::Value = serde_json::from_str(record.unwrap()).unwrap();
        let told = record.to_string();
        let output = ["before", "after"].map(|side| {
            let (_, rest) = told.split_once(&format!("\\\"{side}\\\":\\\"")).unwrap();
            rest.chars().take(64).collect::<String>()
        });
        output.into()
    };
    let (merged, mut undone) = (digests("merge_approved"), digests("merge_undone"));
    undone.reverse();
    assert_eq!(merged, undone);
    let verified = world.quiet(&["audit", "verify"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    world.compare("merge_and_undo");
}

#[test]
fn without_a_yes_nothing_reaches_the_tree() {
    for typed in [
        Typed::Line("n"),
        Typed::Line(""),
        Typed::Nothing,
        Typed::Ahead("y"),
    ] {
        let world = changed();
        let before = read(&world, "README.md");
        let ran = at_terminal(&world, "merge", typed);
        assert_eq!(ran.code, Some(3), "{ran:?}");
        assert_eq!(read(&world, "README.md"), before);
        assert_eq!(changes(&world), 4, "and nothing is lost");
    }
    let world = changed();
    let ran = world.quiet(&["merge"]);
    assert_eq!(ran.code, Some(4), "nobody is there: {ran:?}");
}

/// A yes is for what was looked at, and where that is refused for nothing else later.
#[test]
fn a_yes_to_what_changed_meanwhile_merges_nothing_then_or_later() {
    let world = changed();
    let before = read(&world, "README.md");
    let stage = |text: &str| {
        let script = format!("echo {text} > new/file");
        let ran = world.quiet(&["exec", "--", "sh", "-c", &script]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    };
    let mut talk = Conversation::begin(&world, 200, "dumb", "merge");
    talk.until("[y/N]");
    stage("other");
    talk.say("y");
    let ran = talk.finish();
    assert_ne!(ran.code, Some(0), "{ran:?}");
    let told = "the stage changed since it was reviewed";
    assert!(ran.stdout.contains(told), "{ran:?}");
    let granted = || world.quiet(&["approvals", "grants", "--json"]).stdout;
    assert_eq!(granted(), "");
    let ran = at_terminal(&world, "merge", Typed::Line("n"));
    assert_eq!(ran.code, Some(3), "{ran:?}");
    // The stage is as it was when the person said yes.
    stage("fresh");
    let ran = world.quiet(&["merge"]);
    assert_eq!(ran.code, Some(4), "nobody is there: {ran:?}");
    let ran = at_terminal(&world, "merge", Typed::Line("n"));
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert_eq!(read(&world, "README.md"), before);
    assert_eq!(read(&world, "new/file"), None);
    let ran = at_terminal(&world, "merge", Typed::Line("y"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(granted(), "", "what was used is used up");
}

#[test]
fn what_was_staged_before_the_machine_was_restarted_is_said_to_be_suspect() {
    let world = changed();
    assert_eq!(world.quiet(&["diff", "--json"]).json()["suspect"], false);
    let noted = world.state().join("stages/default/stage.json");
    let text = std::fs::read(&noted).unwrap();
    let mut record: serde_json::Value = serde_json::from_slice(&text).unwrap();
    record["written"] = "0".repeat(64).into();
    std::fs::write(&noted, record.to_string()).unwrap();
    assert_eq!(world.quiet(&["diff", "--json"]).json()["suspect"], true);
    for arguments in [&["diff"][..], &["merge"], &["merge", "--files", "new"]] {
        let told = world.quiet(arguments);
        assert!(
            told.stderr.contains("the machine was restarted"),
            "{told:?}"
        );
    }
    let listed = world.quiet(&["stage", "list"]);
    assert!(listed.stdout.contains(", suspect"), "{listed:?}");
    // Whoever goes on in it makes what is there no better.
    let ran = world.quiet(&["exec", "--", "true"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(world.quiet(&["diff", "--json"]).json()["suspect"], true);
}

#[test]
fn only_what_is_named_is_merged() {
    let world = changed();
    let ran = at_terminal(&world, "merge --files new", Typed::Line("y"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!ran.stdout.contains("README.md"), "{ran:?}");
    assert_eq!(read(&world, "new/file").as_deref(), Some("fresh\n"));
    assert!(!read(&world, "README.md").unwrap().contains("one more"));
    let ran = at_terminal(&world, "merge --hunks README.md:1", Typed::Line("y"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(read(&world, "README.md").unwrap().contains("one more"));
    assert_eq!(changes(&world), 1, "the deletion still waits");
}

#[test]
fn wrong_use_says_what_and_how() {
    let mut world = changed();
    world.run(&["merge", "--files", "nonesuch"]);
    world.run(&["merge", "--hunks", "README.md"]);
    world.run(&["merge", "--hunks", "README.md:9"]);
    world.run(&["merge", "--all", "--files", "new"]);
    world.run(&["merge", "--interactive"]);
    world.run(&["merge", "experiment"]);
    world.run(&["undo", "0000"]);
    world.run(&["undo", "--list"]);
    world.compare("merge_wrong_use");
}

/// Nobody but a person at a terminal merges, whatever front asks.
#[test]
fn no_front_merges_by_itself() {
    let world = changed();
    let diff = world.quiet(&["diff", "--json"]).json();
    let digest = "0".repeat(64);
    assert!(diff["changes"].is_array());
    for front in ["cli", "agent", "mcp", "server"] {
        let before = read(&world, "README.md");
        let argument = format!("digest={digest}");
        let call = ["tool", "call", "merge.apply", "stage=default", &argument];
        let ran = world.quiet(&[&call[..], &["--as", front]].concat());
        assert_ne!(ran.code, Some(0), "{front}: {ran:?}");
        assert_eq!(read(&world, "README.md"), before, "{front}");
    }
}

#[test]
fn an_edit_after_the_merge_is_shown_and_kept_by_an_undo() {
    let world = changed();
    let ran = at_terminal(&world, "merge", Typed::Line("y"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    world.write("README.md", "written by hand\n");
    let ran = at_terminal(&world, "undo", Typed::Line("y"));
    assert_eq!(ran.code, Some(4), "something was left: {ran:?}");
    assert!(ran.stdout.contains("changed since"), "{ran:?}");
    assert_eq!(
        read(&world, "README.md").as_deref(),
        Some("written by hand\n")
    );
    assert!(read(&world, "src/main.rs").is_some());
    assert!(ran.stdout.contains("airlock undo --overwrite "), "{ran:?}");

    // Asked for by name it goes as well, and comes back with an undo of that.
    let listed = world.quiet(&["undo", "--list", "--json"]).stdout;
    let merges: Vec<serde_json::Value> = listed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let first = merges[0]["id"].as_str().unwrap();
    let words = format!("undo --overwrite {first}");
    let ran = at_terminal(&world, &words, Typed::Line("y"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("replaced README.md"), "{ran:?}");
    let restored = read(&world, "README.md").unwrap();
    assert!(restored.contains("TODO") && !restored.contains("by hand"));
    let listed = world.quiet(&["undo", "--list", "--json"]).stdout;
    let last: serde_json::Value = serde_json::from_str(listed.lines().last().unwrap()).unwrap();
    let words = format!("undo {}", last["id"].as_str().unwrap());
    let ran = at_terminal(&world, &words, Typed::Line("y"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        read(&world, "README.md").as_deref(),
        Some("written by hand\n")
    );
}

/// A project with a change that was merged, and edited by hand since; and the merge.
fn edited() -> (World, String) {
    let world = changed();
    let ran = at_terminal(&world, "merge", Typed::Line("y"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    world.write("README.md", "by hand\n");
    let listed = world.quiet(&["undo", "--list", "--json"]).json();
    let merge = listed["id"].as_str().unwrap().to_owned();
    (world, merge)
}

#[test]
fn what_is_written_while_a_person_looks_at_an_undo_stays() {
    for words in ["undo", "undo --overwrite"] {
        for path in ["README.md", "new/file"] {
            let (world, _) = edited();
            let mut talk = Conversation::begin(&world, 200, "dumb", words);
            talk.until("[y/N]");
            world.write(path, "unseen\n");
            talk.say("y");
            let ran = talk.finish();
            assert_ne!(ran.code, Some(0), "{words}: {ran:?}");
            let told = "the tree changed since it was looked at";
            assert!(ran.stdout.contains(told), "{words}: {ran:?}");
            assert_eq!(read(&world, path).as_deref(), Some("unseen\n"), "{words}");
            assert_eq!(read(&world, "src/main.rs"), None, "{words}");
            let granted = world.quiet(&["approvals", "grants", "--json"]).stdout;
            assert_eq!(granted, "", "{words}");
        }
    }
}

#[test]
fn a_yes_to_the_undo_that_a_client_asks_for_is_for_the_tree_as_it_was() {
    let (world, merge) = edited();
    let merge = format!("merge={merge}");
    let undo = || {
        let call = ["tool", "call", "merge.undo", &merge, "overwrite=true"];
        world.quiet(&[&call[..], &["--as", "mcp"]].concat())
    };
    let ran = undo();
    assert_eq!(ran.code, Some(4), "{ran:?}");
    let asked = world.quiet(&["approvals", "list", "--json"]).json();
    let words = format!("approvals approve {}", asked["id"].as_str().unwrap());
    let ran = at_terminal(&world, &words, Typed::Line("y"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    world.write("README.md", "later work\n");
    let ran = undo();
    assert_eq!(ran.code, Some(4), "it is another question: {ran:?}");
    assert_eq!(read(&world, "README.md").as_deref(), Some("later work\n"));
    // What the person said yes to is still that.
    world.write("README.md", "by hand\n");
    let ran = undo();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(read(&world, "README.md").unwrap().contains("TODO"));
}

/// A policy whose tests always pass.
const HELD: &str = "\
version: 1
approvals: { automatic: [AG-01] }
phases: { test_command: [sh, -c, \"echo 'test result: ok. 1 passed; 0 failed; 0 ignored'\"] }
commands: [{ executable: sh }]
rules:
  - name: read
    match: { effect: read, path_glob: \"**\" }
    action: allow
  - name: run
    match: { syscall: [exec.run, test.run, git.commit] }
    action: allow
  - name: change
    match: { syscall: \"fs.*\", effect: [write, delete], path_glob: \"**\" }
    action: allow
";

/// A call in the session `id`, as its agent makes it.
fn in_session(world: &World, id: &str, words: &[&str]) -> serde_json::Value {
    let all = [
        &["tool", "call"],
        words,
        &["--as", "agent", "--session", id, "--json"],
    ]
    .concat();
    let ran = world.quiet(&all);
    assert_eq!(ran.code, Some(0), "{words:?}: {ran:?}");
    ran.json()
}

fn git(world: &World, words: &[&str]) -> String {
    let mut command = program("git");
    world.prepare(&mut command);
    command.args(["-c", "user.name=me", "-c", "user.email=me@example.org"]);
    let ran = finished(command.args(words));
    assert_eq!(ran.code, Some(0), "{words:?}: {ran:?}");
    ran.stdout
}

/// A session that explored, and wrote something; as far as `validating` leads if that is wanted.
fn explored(validated: bool) -> (World, String) {
    let world = World::under(HELD);
    git(&world, &["init", "-q", "-b", "main"]);
    git(&world, &["add", "-A"]);
    git(&world, &["commit", "-q", "-m", "begin"]);
    let begun = world.quiet(&["tool", "call", "session.create", "mode=explore", "--json"]);
    let begun = begun.json().to_string();
    let (_, id) = begun.split_once("\"id\":\"").unwrap();
    let id = id.split_once('"').unwrap().0.to_owned();
    let call = |words: &[&str]| in_session(&world, &id, words);
    call(&["phase.advance"]);
    call(&["plan.complete"]);
    call(&["fs.write", "path=src/new.rs", "text=pub fn new() {}"]);
    if validated {
        call(&["phase.advance"]);
        let ran = call(&["test.run"]).to_string();
        assert!(ran.contains("\"reviewing\""), "{ran}");
    }
    (world, id)
}

fn phase(world: &World, id: &str) -> String {
    let shown = world.quiet(&["session", "show", id, "--json"]).json();
    shown["phase"].as_str().unwrap().to_owned()
}

#[test]
fn what_a_session_has_not_validated_is_said_to_be_so_before_it_is_merged() {
    let (world, id) = explored(false);
    let ran = at_terminal(&world, "merge", Typed::Line("n"));
    assert_eq!(ran.code, Some(3), "{ran:?}");
    // Where lines are broken says nothing.
    let told = ran.stdout + &ran.stderr;
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("nobody has validated it"), "{told}");
    assert!(told.contains("past its session: approve? [y/N]"), "{told}");
    assert_eq!(phase(&world, &id), "exploring");
    assert_eq!(read(&world, "src/new.rs"), None);
    let ran = at_terminal(&world, "merge", Typed::Line("y"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(read(&world, "src/new.rs").is_some());
    assert_eq!(phase(&world, &id), "idle", "its task is given up");
}

#[test]
fn what_a_session_validated_goes_in_as_its_own_commit() {
    let (world, id) = explored(true);
    let ran = at_terminal(&world, "merge", Typed::Line("y"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(read(&world, "src/new.rs").is_some());
    assert_eq!(phase(&world, &id), "idle");
    let body = git(&world, &["show", "-s", "--format=%B", "main"]);
    assert!(body.contains("Airlock-Verified: no"), "{body}");
    assert_eq!(git(&world, &["status", "--porcelain"]), "");
    let log = world.quiet(&["audit", "log", "--json"]).stdout;
    assert!(log.contains("phase.commit"), "{log}");
}

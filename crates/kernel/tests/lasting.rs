//! A kernel that stays keeps sandboxes and what they follow from: whatever changes between two calls
//! - policy, approval, machine, environment, where a grant leads - holds for the second.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_audit::Stage;
use airlock_kernel::{Call, Front, Kernel, Lifetime, Machine, Whence};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use support::{Place, done, records, submit, trust, word};

const RUNS: &str = "\
version: 1
commands:
  - executable: cat
  - executable: sh
rules:
  - name: read-all
    match: { effect: read, path_glob: \"**\" }
    action: allow
  - name: texts
    match: { effect: [write, delete], path_glob: \"*.txt\" }
    action: allow
  - name: run
    match: { syscall: exec.run }
    action: allow
";

const KEEP: &str = "  - name: keep-plans
    match: { effect: read, path_glob: \"plans.txt\" }
    action: deny
";

fn place() -> Place {
    let files = [
        ("a.txt", "hello\n"),
        ("plans.txt", "attack at dawn\n"),
        ("write.sh", "echo new > b.txt\n"),
        ("left.sh", "echo left > /tmp/left; cat /tmp/left\n"),
        ("find.sh", "cat /tmp/left || echo none\n"),
    ];
    let place = Place::governed(RUNS, &files);
    fs::create_dir_all(place.beside("home")).unwrap();
    place
}

fn machine(place: &Place, mark: &str) -> Machine {
    Machine {
        home: place.beside("home"),
        own: vec![place.beside("state")],
        environment: [
            ("PATH".into(), "/usr/bin:/bin".into()),
            ("MARK".into(), mark.into()),
        ]
        .into(),
    }
}

fn lasting(place: &Place) -> Kernel {
    let mut config = place.config();
    config.lifetime = Lifetime::Long;
    Kernel::open(config).unwrap().on(machine(place, "first"))
}

/// What a command printed, and the sandbox it ran in.
fn ran(kernel: &Kernel, command: &[&str]) -> (String, String) {
    let call = json!({ "command": command });
    printed(&done(submit(kernel, Front::Agent, "exec.run", call)))
}

fn printed(done: &airlock_kernel::Done) -> (String, String) {
    let shown = done.value["stdout"].as_str().unwrap();
    (shown.to_owned(), done.ran.as_ref().unwrap().sandbox.clone())
}

/// The person's own command, in `machine`.
fn own(kernel: &Kernel, machine: &Machine, arguments: Value) -> (String, String) {
    let whence = Whence {
        machine: Some(machine.clone()),
        ..Whence::default()
    };
    let call = Call::new("exec.own", arguments);
    printed(&done(kernel.submit_from(Front::Cli, &whence, &call, None)))
}

#[test]
fn calls_that_are_granted_the_same_share_a_sandbox_and_others_do_not() {
    let place = place();
    let kernel = lasting(&place);
    let (shown, first) = ran(&kernel, &["cat", "a.txt"]);
    assert_eq!(shown, "hello\n");
    let (shown, second) = ran(&kernel, &["sh", "left.sh"]);
    assert_eq!((&*shown, &second), ("left\n", &first), "the same caller's");
    let call = json!({ "command": ["sh", "find.sh"], "memory": "128MiB" });
    let (_, other) = printed(&done(submit(&kernel, Front::Agent, "exec.run", call)));
    assert_ne!(other, first, "another limit");
    let machine = machine(&place, "first");
    let (shown, person) = own(&kernel, &machine, json!({ "command": ["sh", "find.sh"] }));
    assert_eq!(shown, "none\n", "nobody finds what another left");
    assert_ne!(person, other);
}

#[test]
fn a_policy_that_is_approved_elsewhere_holds_for_the_next_call() {
    let place = place();
    let kernel = lasting(&place);
    let read = |kernel: &Kernel| ran(kernel, &["cat", "plans.txt"]).0;
    assert_eq!(read(&kernel), "attack at dawn\n");
    for _ in 0..2 {
        // Another process approves; nobody tells this kernel.
        place.write(".airlock/policy.yaml", format!("{RUNS}{KEEP}"));
        trust(&place.open());
        assert_eq!(read(&kernel), "", "denied from now on");
        place.write(".airlock/policy.yaml", RUNS);
        trust(&place.open());
        assert_eq!(read(&kernel), "attack at dawn\n", "and no longer");
    }
    let elsewhere = place.open();
    done(submit(&elsewhere, Front::Cli, "trust.revoke", json!({})));
    let call = json!({ "command": ["cat", "plans.txt"] });
    let outcome = submit(&kernel, Front::Agent, "exec.run", call);
    assert_ne!(word(&outcome), "done", "withdrawn: built-in defaults hold");
}

#[test]
fn each_call_gets_the_environment_of_whoever_makes_it() {
    let place = place();
    let kernel = lasting(&place);
    for mark in ["one", "two", "one"] {
        let machine = machine(&place, mark);
        let asked = json!({ "command": ["sh", "-c", "echo $MARK"], "inherit": ["MARK"] });
        assert_eq!(own(&kernel, &machine, asked).0, format!("{mark}\n"));
        let unasked = json!({ "command": ["sh", "-c", "echo $MARK"] });
        assert_eq!(own(&kernel, &machine, unasked).0, "\n");
    }
}

#[test]
fn a_machine_that_changed_is_looked_at_again() {
    let place = place();
    let kernel = lasting(&place);
    let machine = machine(&place, "first");
    let path = || {
        own(
            &kernel,
            &machine,
            json!({ "command": ["sh", "-c", "echo $PATH"] }),
        )
    };
    let tools = place.beside("home/.cargo/bin");
    // Long enough that what was looked at may be taken for settled.
    let before = (0..5).map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(60));
        path()
    });
    let before: Vec<_> = before.collect();
    let shown = tools.to_str().unwrap();
    assert!(!before[4].0.contains(shown), "{before:?}");
    assert_eq!(before[3].1, before[4].1, "it is kept");
    fs::create_dir_all(&tools).unwrap();
    fs::write(tools.join("cargo"), "").unwrap();
    let (after, sandbox) = path();
    assert!(after.contains(shown), "{after}");
    assert_ne!(sandbox, before[4].1);
}

/// Puts `text` there as editors and git do: another file takes the place of the one there was.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}

#[test]
fn the_next_command_sees_the_real_tree_as_it_is_by_then() {
    let place = place();
    let names = "a.txt d/x gone.txt made.txt";
    let look = format!("for name in {names}; do cat $name || echo none; done; ls d\n");
    for (name, text) in [
        ("look.sh", &*look),
        ("gone.txt", "here\n"),
        ("d/x", "old\n"),
        ("d3/x", "new\n"),
        ("d3/y", "new\n"),
    ] {
        place.write(name, text);
    }
    let kernel = lasting(&place);
    let (shown, first) = ran(&kernel, &["sh", "look.sh"]);
    assert_eq!(shown, "hello\nold\nhere\nnone\nx\n");
    replace(&place.path("a.txt"), "one\n");
    fs::rename(place.path("d"), place.path("d.old")).unwrap();
    fs::rename(place.path("d3"), place.path("d")).unwrap();
    fs::remove_file(place.path("gone.txt")).unwrap();
    place.write("made.txt", "made\n");
    let (shown, second) = ran(&kernel, &["sh", "look.sh"]);
    assert_eq!(shown, "one\nnew\nnone\nmade\nx\ny\n");
    assert_eq!(first, second, "it is kept all the same");
    for text in ["two\n", "three\n"] {
        replace(&place.path("a.txt"), text);
        assert_eq!(ran(&kernel, &["cat", "a.txt"]).0, text);
    }
    // What the stage has comes before it, whatever is saved beneath.
    assert_eq!(ran(&kernel, &["sh", "write.sh"]).0, "");
    place.write("b.txt", "saved\n");
    let (shown, last) = ran(&kernel, &["cat", "b.txt"]);
    assert_eq!((&*shown, &last), ("new\n", &first));
}

/// What a mount holds cannot be forgotten: there is another sandbox then.
#[test]
fn a_directory_that_holds_something_denied_is_seen_as_it_is_by_then() {
    let denied = RUNS.to_owned() + &KEEP.replace("plans.txt", "kept/plans.txt");
    let files = [
        ("kept/open.txt", "old\n"),
        ("kept/plans.txt", "attack at dawn\n"),
        ("next/open.txt", "new\n"),
        ("next/plans.txt", "attack at dusk\n"),
    ];
    let place = Place::governed(&denied, &files);
    fs::create_dir_all(place.beside("home")).unwrap();
    let kernel = lasting(&place);
    let (shown, first) = ran(&kernel, &["cat", "kept/open.txt", "kept/plans.txt"]);
    assert_eq!(shown, "old\n");
    fs::rename(place.path("kept"), place.path("before")).unwrap();
    fs::rename(place.path("next"), place.path("kept")).unwrap();
    let (shown, second) = ran(&kernel, &["cat", "kept/open.txt", "kept/plans.txt"]);
    assert_eq!(shown, "new\n", "and still without what is denied");
    assert_ne!(first, second);
}

#[test]
fn what_is_granted_to_be_read_is_seen_as_it_is_by_then() {
    let place = place();
    let kernel = lasting(&place);
    let machine = machine(&place, "first");
    fs::create_dir(place.beside("notes")).unwrap();
    let paths = [place.beside("notes/inside"), place.beside("alone")];
    let [inside, alone] = paths.each_ref().map(|path| path.to_str().unwrap());
    let directory = place.beside("notes");
    let read = || {
        let granted = [directory.to_str().unwrap(), alone];
        let asked = json!({ "command": ["cat", inside, alone], "allow_read": granted });
        own(&kernel, &machine, asked).0
    };
    for text in ["one\n", "two\n", "three\n"] {
        for path in &paths {
            replace(path, text);
        }
        assert_eq!(read(), text.repeat(2));
    }
}

/// The plans that were recorded for a call before it ran.
fn planned(kernel: &Kernel, done: &airlock_kernel::Done) -> Vec<String> {
    let attempts = records(kernel).into_iter().filter(|entry| {
        entry.stage == Stage::Attempt && entry.action.as_ref() == Some(&done.action)
    });
    attempts
        .map(|entry| entry.metadata["plan"].clone())
        .collect()
}

#[test]
fn what_a_changed_machine_makes_of_a_plan_is_recorded_before_it_runs() {
    let place = place();
    let kernel = lasting(&place);
    let run = || {
        let call = json!({ "command": ["sh", "-c", "echo $PATH"] });
        done(submit(&kernel, Front::Cli, "exec.own", call))
    };
    let before = (0..5).map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(60));
        planned(&kernel, &run())
    });
    let before: Vec<_> = before.collect();
    let [plan] = before[4].as_slice() else {
        panic!("{before:?}");
    };
    let tools = place.beside("home/.cargo/bin");
    fs::create_dir_all(&tools).unwrap();
    fs::write(tools.join("cargo"), "").unwrap();
    let after = run();
    let plans = planned(&kernel, &after);
    assert_eq!((plans.len(), &plans[0]), (2, plan), "presumed at first");
    assert_ne!(plans[1], *plan, "and recorded as it is before it ran");
    let shown = after.value["stdout"].as_str().unwrap();
    assert!(shown.contains(tools.to_str().unwrap()), "{shown}");
    // From then on that is what is presumed.
    std::thread::sleep(std::time::Duration::from_millis(250));
    run();
    assert_eq!(planned(&kernel, &run()), [plans[1].clone()]);
}

#[test]
fn a_template_that_is_narrowed_holds_for_the_next_call() {
    let place = place();
    let kernel = lasting(&place);
    let limits = || {
        let (_, sandbox) = ran(&kernel, &["cat", "a.txt"]);
        let attempts = records(&kernel).into_iter().rev();
        let mut limits = attempts.filter_map(|entry| entry.metadata.get("limits").cloned());
        (limits.next().unwrap(), sandbox)
    };
    let (before, first) = limits();
    assert!(!before.contains("pids 7,"), "{before}");
    let narrowed = format!("{RUNS}templates: {{ code-executor: {{ pids: 7 }} }}\n");
    place.write(".airlock/policy.yaml", narrowed);
    trust(&place.open());
    let (after, second) = limits();
    assert!(after.contains("pids 7,"), "{after}");
    assert_ne!(first, second);
}

/// A stage in which nothing was changed is not looked through before the next command; what that one
/// does is judged all the same, and what is approved meanwhile is not lost.
#[test]
fn a_stage_that_was_untouched_is_judged_after_the_next_command() {
    let place = place();
    let kernel = lasting(&place);
    let run = |script: &str| {
        let call = json!({ "command": ["sh", "-c", script] });
        done(submit(&kernel, Front::Cli, "exec.own", call)).value
    };
    for _ in 0..2 {
        assert_eq!(run("true")["changes"], 0);
    }
    let told = run("echo x > evil.bin; echo y > b.txt");
    assert_eq!(told["put_back"][0]["path"], "evil.bin", "{told}");
    assert_eq!(told["changes"], 1, "{told}");
    let told = run("rm b.txt; cat evil.bin || echo gone");
    assert_eq!(
        (&told["stdout"], &told["changes"]),
        (&json!("gone\n"), &json!(0))
    );
    assert_eq!(run("echo z > c.txt")["changes"], 1);
    assert_eq!(run("cat c.txt")["stdout"], "z\n");
}

#[test]
fn a_workspace_that_becomes_a_repository_keeps_its_settings() {
    let place = place();
    let kernel = lasting(&place);
    let machine = machine(&place, "first");
    let write = || {
        let script = "mkdir -p .git; echo x > .git/config && echo written";
        own(
            &kernel,
            &machine,
            json!({ "command": ["sh", "-c", script], "stage": "s" }),
        )
        .0
    };
    write();
    fs::create_dir(place.path(".git")).unwrap();
    fs::write(place.path(".git/config"), "").unwrap();
    assert_eq!(write(), "", "git obeys what is in it");
}

#[test]
fn a_grant_is_for_where_it_leads_when_it_is_used() {
    let place = place();
    let kernel = lasting(&place);
    let machine = machine(&place, "first");
    for (directory, text) in [("north", "snow\n"), ("south", "sand\n")] {
        fs::create_dir(place.beside(directory)).unwrap();
        fs::write(place.beside(directory).join("file"), text).unwrap();
    }
    let link = place.beside("link");
    let read = |of: &str| {
        let (link, file) = (link.to_str().unwrap(), place.beside(of).join("file"));
        let command = ["cat", file.to_str().unwrap()];
        own(
            &kernel,
            &machine,
            json!({ "command": command, "allow_read": [link] }),
        )
        .0
    };
    symlink(place.beside("north"), &link).unwrap();
    assert_eq!((&*read("north"), &*read("south")), ("snow\n", ""));
    fs::remove_file(&link).unwrap();
    symlink(place.beside("south"), &link).unwrap();
    assert_eq!((&*read("south"), &*read("north")), ("sand\n", ""));
}

#[test]
fn a_kernel_that_was_killed_in_a_run_leaves_what_it_did_to_be_judged() {
    let place = place();
    let kernel = lasting(&place);
    ran(&kernel, &["sh", "write.sh"]);
    let stage = support::state(&kernel).join("stages/default");
    kernel.close().unwrap();
    // As a killed supervisor leaves it: begun, changed, never judged.
    let mark = stage.join("run");
    let text = fs::read(&mark).unwrap();
    assert!(text.starts_with(b"done"), "{text:?}");
    fs::write(&mark, [b"open", &text[4..]].concat()).unwrap();
    fs::write(stage.join("upper/evil.bin"), "").unwrap();
    let next = place.open().on(machine(&place, "first"));
    let (shown, _) = ran(&next, &["cat", "b.txt"]);
    assert_eq!(shown, "new\n", "what may be stays");
    assert!(!stage.join("upper/evil.bin").exists(), "what may not goes");
}

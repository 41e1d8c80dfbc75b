//! What a person says to the session itself: what each command does, how it is used wrongly, and what
//! a program reads of it.

use crate::support::{Conversation, Provider, Ran, World, fed, finished};
use serde_json::Value;

fn scripted(script: &str) -> World {
    let world = World::governed();
    std::fs::write(world.path("script.yaml"), script).unwrap();
    world
}

fn model(world: &World) -> String {
    format!("script:{}", world.path("script.yaml").display())
}

/// A session on a pipe, which is told `lines`.
fn piped(world: &World, more: &[&str], lines: &[&str]) -> Ran {
    let model = model(world);
    let words = [&["run", "--model", &model][..], more].concat();
    fed(&mut world.command(&words), &(lines.join("\n") + "\n"))
}

/// The JSON lines of the same.
fn told(world: &World, more: &[&str], lines: &[&str]) -> Vec<Value> {
    let ran = piped(world, &[&["--json"][..], more].concat(), lines);
    let read = |line: &str| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in `{line}`: {ran:?}"))
    };
    ran.stdout.lines().map(read).collect()
}

fn talk(world: &World) -> Conversation {
    let words = format!("run --model {}", model(world));
    let mut talk = Conversation::begin(world, 100, "dumb", &words);
    talk.until("> ");
    talk
}

/// The last session, as the kernel has it.
fn last_session(world: &World) -> Value {
    let listed = world.quiet(&["session", "list", "--json"]).stdout;
    serde_json::from_str(listed.lines().next().unwrap()).unwrap()
}

const NOTHING: &str = "version: 1\nturns: [{ text: Nothing. }]\n";

/// Writes source, tests and documentation, each time expecting `results`.
fn writing(first: [&str; 2], second: [&str; 2]) -> String {
    let calls = "[{ tool: fs.write, arguments: { path: src/new.rs, text: \"pub fn new() {}\\n\" } }, { tool: fs.write, arguments: { path: tests/new.rs, text: \"#[test]\\nfn new() {}\\n\" } }]";
    let results = |[source, tests]: [&str; 2]| {
        format!("{{ results: [{{ status: {source} }}, {{ status: {tests} }}] }}")
    };
    format!(
        "version: 1\nturns:\n  - {{ calls: {calls} }}\n  - {{ expect: {}, text: One. }}\n  - {{ calls: {calls} }}\n  - {{ expect: {}, text: Two. }}\n",
        results(first),
        results(second)
    )
}

#[test]
fn modes_and_plans_decide_what_may_be_written() {
    let nothing = ["denied", "denied"];
    for (mode, planned, state) in [
        ("strict", ["denied", "ok"], "test_writing"),
        ("explore", ["ok", "ok"], "exploring"),
    ] {
        let world = scripted(&writing(nothing, planned));
        let plan = "/plan tests for 漢字 first";
        let switch = format!("/{mode}");
        let lines = [switch.as_str(), "write", plan, "write", "/status"];
        let ran = piped(&world, &[], &lines);
        assert_eq!(ran.code, Some(0), "{mode}: {ran:?}");
        assert!(ran.stdout.ends_with("Two.\n"), "{mode}: {ran:?}");
        let stands = format!("{mode} mode, {state}; may write: ");
        assert!(ran.stderr.contains(&stands), "{mode}: {ran:?}");
        let hint = format!("/approve takes it, not validated: the session is in `{state}`");
        assert!(ran.stderr.contains(&hint), "{mode}: {ran:?}");
        let session = last_session(&world);
        assert_eq!(
            (&session["mode"], &session["phase"]),
            (&mode.into(), &state.into())
        );
        let log = world.quiet(&["audit", "log", "--json"]).stdout;
        assert!(log.contains("plan.complete"), "{log}");

        let world = scripted(&writing(nothing, planned));
        let told = told(&world, &[], &lines);
        let named = |event: &str| {
            let found = told.iter().rfind(|one| one["event"] == event);
            found.unwrap_or_else(|| panic!("no {event}: {told:?}"))
        };
        assert_eq!(named("mode")["mode"], mode);
        assert_eq!(named("plan")["standing"]["state"], state, "{told:?}");
        assert_eq!(named("status")["standing"]["state"], state, "{told:?}");
    }
}

#[test]
fn a_mode_is_refused_where_it_may_not_be_and_stays_as_it_was() {
    // A plan without a task, and another mode in the middle of one.
    let world = scripted(&writing(["denied", "denied"], ["ok", "ok"]));
    let lines = [
        "/strict",
        "/plan",
        "/explore",
        "write",
        "/plan",
        "/strict",
        "/strict now",
    ];
    let ran = piped(&world, &[], &lines);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    for said in [
        "a session in `idle` cannot end planning",
        "the mode cannot be switched in `exploring`",
        "error: /strict takes nothing, and `now` follows it",
        "fix: say only /strict; /help lists commands",
    ] {
        assert!(ran.stderr.contains(said), "{said}: {ran:?}");
    }
    assert_eq!(last_session(&world)["mode"], "explore");
}

#[test]
fn debugging_needs_a_person_who_says_yes() {
    let world = scripted(NOTHING);
    let ran = piped(&world, &[], &["/debug"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    let told = told(&world, &[], &["/debug"]);
    assert_eq!(told[0]["error"]["kind"], "needs_review", "{told:?}");
    for (answer, says, mode) in [
        ("n", "was not approved", "strict"),
        ("y", "the session is in debug mode", "debug"),
    ] {
        let mut talk = talk(&world);
        talk.say("/debug");
        talk.until("switching the session to debug: approve? [y/N] ");
        talk.say(answer);
        talk.until(says);
        talk.until("> ");
        talk.say("/exit");
        assert_eq!(talk.finish().code, Some(0));
        assert_eq!(last_session(&world)["mode"], mode);
    }
}

/// Three writes: two that wait in the stage, one that waits for a person.
const CHANGES: &str = r##"
version: 1
turns:
  - calls:
      - { tool: fs.write, arguments: { path: README.md, text: "# New\n" } }
      - { tool: fs.write, arguments: { path: docs/a.md, text: "a\n" } }
  - text: Changed.
"##;

fn read(world: &World, name: &str) -> Option<String> {
    std::fs::read_to_string(world.workspace().join(name)).ok()
}

#[test]
fn what_is_staged_is_shown_merged_in_part_undone_and_dropped() {
    let world = scripted(CHANGES);
    let before = read(&world, "README.md");
    let mut talk = talk(&world);
    let mut say = |words: &str, answer: Option<&str>, until: &[&str]| {
        talk.say(words);
        if let Some(answer) = answer {
            talk.until("[y/N] ");
            talk.say(answer);
        }
        for text in until {
            talk.until(text);
        }
        talk.until("> ");
    };
    say("/diff", None, &["there is no stage yet"]);
    say("/reject", None, &["nothing waits for you"]);
    say("/approve", None, &["nothing is merged"]);
    say("/undo", None, &["there is no merge to undo"]);
    say(
        "change",
        None,
        &["Changed.", "files changed in stage default"],
    );
    say("/diff", None, &["+# New", "+a", "files changed"]);
    say("/merge src", None, &["`src` is not changed in this stage"]);
    say("/merge --all", None, &["`--all` is no path"]);
    say("/merge README.md", Some("n"), &["was not approved"]);
    assert_eq!(read(&world, "README.md"), before);
    say("/merge README.md", Some("y"), &["1 path merged"]);
    assert_eq!(read(&world, "README.md").as_deref(), Some("# New\n"));
    assert_eq!(read(&world, "docs/a.md"), None);
    say("/undo nonesuch", None, &["nonesuch", "fix"]);
    say("/undo --list", None, &["is not one name"]);
    say("/undo", Some("y"), &["1 path restored"]);
    assert_eq!(read(&world, "README.md"), before);
    say("/approve", Some("y"), &["merged"]);
    assert_eq!(read(&world, "docs/a.md").as_deref(), Some("a\n"));
    say("/diff", None, &["there is no stage yet"]);
    talk.say("/quit");
    assert_eq!(talk.finish().code, Some(0));

    for (answer, left) in [("n", 3), ("y", 0)] {
        let world = scripted(CHANGES);
        let ran = piped(&world, &[], &["change", "/reject"]);
        assert_eq!(ran.code, Some(4), "nobody is there: {ran:?}");
        let mut talk = self::talk(&world);
        talk.say("/reject");
        talk.until("drop every change in stage default? [y/N] ");
        talk.say(answer);
        talk.until("stage");
        talk.until("> ");
        talk.say("/quit");
        assert_eq!(talk.finish().code, Some(0));
        let staged = world.quiet(&["diff", "--json"]).json();
        let changes = staged["changes"].as_array().map_or(0, Vec::len);
        assert_eq!(changes, left, "{answer}: {staged}");
    }
}

#[test]
fn programs_read_what_the_command_of_the_same_name_gives() {
    let world = scripted(CHANGES);
    let lines = [
        "/diff",
        "/undo",
        "/merge",
        "/reject",
        "change",
        "/diff",
        "/merge",
        "/undo x y",
    ];
    let told = told(&world, &[], &lines);
    let own: Vec<&Value> = told.iter().filter(|one| one["event"].is_null()).collect();
    assert_eq!(own.len(), 7, "{told:?}");
    assert_eq!(own[0]["changes"], serde_json::json!([]));
    assert_eq!(own[1]["error"]["kind"], "failed");
    assert_eq!(own[2]["merged"], 0);
    assert!(
        own[3]["dropped"].is_null() && own[3]["error"].is_null(),
        "{told:?}"
    );
    assert_eq!(
        own[4]["changes"].as_array().map(Vec::len),
        Some(3),
        "{told:?}"
    );
    assert_eq!(own[5]["error"]["kind"], "needs_review", "{told:?}");
    assert_eq!(own[6]["error"]["kind"], "usage", "{told:?}");
    assert_eq!(read(&world, "docs/a.md"), None);
}

#[test]
fn what_waits_for_a_person_is_approved_and_rejected() {
    let call = [
        "tool",
        "call",
        "fs.write",
        "path=Cargo.toml",
        "text=x",
        "--as",
        "agent",
    ];
    for (command, says, after) in [("/approve", "approved", 0), ("/reject", "denied", 3)] {
        let world = scripted(NOTHING);
        assert_eq!(world.quiet(&call).code, Some(4));
        let open = || {
            let listed = world.quiet(&["approvals", "list", "--json"]).stdout;
            listed
                .lines()
                .filter(|line| line.contains("\"open\""))
                .count()
        };
        assert_eq!(open(), 1);
        let ran = piped(&world, &[], &[command]);
        assert_eq!(ran.code, Some(4), "nobody is there: {ran:?}");
        let told = told(&world, &[], &[command]);
        assert_eq!(told[0]["error"]["kind"], "needs_review", "{told:?}");
        assert_eq!(open(), 1);
        let mut talk = talk(&world);
        talk.say(&format!("{command} 0000"));
        talk.until("error: ");
        talk.until("> ");
        talk.say(command);
        if command == "/approve" {
            talk.until("Cargo.toml");
            talk.until("approve? [y/N] ");
            talk.say("y");
        }
        talk.until(says);
        talk.until("> ");
        talk.say("/quit");
        assert_eq!(talk.finish().code, Some(0));
        assert_eq!(open(), 0, "{command}");
        assert_eq!(world.quiet(&call).code, Some(after), "{command}");
    }
}

#[test]
fn a_budget_says_what_was_spent_and_what_is_left() {
    let two = "version: 1\nturns: [{ text: One. }, { text: Two. }]\n";
    let told = told(
        &scripted(two),
        &["--tokens", "100000"],
        &["/budget", "one", "/budget", "two", "/budget", "/budget all"],
    );
    let told: Vec<&Value> = told
        .iter()
        .filter(|one| one["event"] == "budget" || !one["error"].is_null())
        .collect();
    assert_eq!(told.len(), 4, "{told:?}");
    let number = |at: usize, path: &str| told[at].pointer(path).unwrap().as_u64().unwrap();
    assert_eq!(number(0, "/tokens/input"), 0);
    assert_eq!(number(0, "/left/tokens"), 100_000);
    for at in [1, 2] {
        assert_eq!(number(at, "/turns/used"), at as u64);
        assert!(number(at, "/tokens/input") > number(at - 1, "/tokens/input"));
        assert!(number(at, "/left/tokens") < number(at - 1, "/left/tokens"));
    }
    assert_eq!(told[3]["error"]["kind"], "usage");
    let ran = piped(&scripted(two), &["--tokens", "100000"], &["one", "/budget"]);
    assert!(ran.stderr.contains("left to this session: "), "{ran:?}");
    assert!(ran.stderr.contains("questions: 1 of 100"), "{ran:?}");
}

/// A world with two models, each a server of its own.
fn two_models() -> (World, [Provider; 2]) {
    let providers = [
        Provider::saying("I am large."),
        Provider::saying("I am small."),
    ];
    let world = World::governed();
    let entry = |name: &str, provider: &Provider| {
        format!(
            "  - {{ name: {name}, provider: openai, base_url: 'http://127.0.0.1:{}/v1', model: m }}\n",
            provider.port
        )
    };
    let list = format!(
        "models:\n{}{}",
        entry("large", &providers[0]),
        entry("small", &providers[1])
    );
    std::fs::create_dir_all(world.path("config/airlock")).unwrap();
    std::fs::write(world.path("config/airlock/config.yaml"), list).unwrap();
    (world, providers)
}

#[test]
fn another_model_is_asked_and_is_told_what_is_pinned() {
    let (world, [large, small]) = two_models();
    let pin = "/pin never say 漢字";
    let lines = [
        "/model",
        "hello",
        "/model small",
        pin,
        "/pin",
        "hello",
        "/model smal",
        "/model huge",
    ];
    let ran = fed(&mut world.command(&["run"]), &(lines.join("\n") + "\n"));
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert_eq!(ran.stdout, "I am large.\nI am small.\n", "{ran:?}");
    for said in [
        "* large\n  small\n",
        "asking small\n",
        "pinned\n- never say 漢字\n",
        "no model is called `smal`\n  fix: did you mean `small`?",
        "no model is called `huge`\n  fix: use one of large, small",
    ] {
        assert!(ran.stderr.contains(said), "{said}: {ran:?}");
    }
    let asked = |provider: &Provider| provider.asked.lock().unwrap().clone();
    assert_eq!((asked(&large).len(), asked(&small).len()), (1, 1));
    assert!(!asked(&large)[0].contains("never say"));
    assert!(
        asked(&small)[0].contains("never say 漢字"),
        "{:?}",
        asked(&small)
    );

    let mut command = world.command(&["run", "--json"]);
    let lines = ["/pin", pin, "/model", "/model small", "/model huge"];
    let ran = fed(&mut command, &(lines.join("\n") + "\n"));
    let told: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(told[0]["pins"], serde_json::json!([]));
    assert_eq!(told[1]["pins"], serde_json::json!(["never say 漢字"]));
    assert_eq!(told[2]["model"], "large");
    assert_eq!(told[3]["model"], "small");
    assert_eq!(told[3]["models"], serde_json::json!(["large", "small"]));
    assert_eq!(told[4]["error"]["kind"], "usage");
    // A pin that takes all the room there is.
    let long = format!("/pin {}\n/pin\n", "word ".repeat(30_000));
    let ran = fed(&mut world.command(&["run"]), &long);
    assert!(
        ran.stderr.contains("error: pinned items would take"),
        "{ran:?}"
    );
    assert!(ran.stderr.contains("nothing is pinned"), "{ran:?}");
}

#[test]
fn help_lists_every_command_and_each_of_them_is_one() {
    let world = scripted(NOTHING);
    let listed = told(&world, &[], &["/help"]);
    let names: Vec<&str> = listed[0]["commands"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    let wanted = "/strict /explore /debug /status /budget /diff /approve /reject /undo /pin /plan /model /help /quit /merge";
    for name in wanted.split_whitespace() {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    let help = finished(&mut world.command(&["run", "--help"]));
    assert_eq!(help.code, Some(0));
    let ran = piped(&world, &[], &["/help"]);
    for name in &names {
        assert!(
            ran.stderr.contains(&format!("  {name} ")),
            "{name}: {ran:?}"
        );
        // Where nothing may follow, what follows is refused; nothing is done with half of it.
        let told = told(&world, &[], &[&format!("{name} --json x")]);
        let unknown = told.iter().any(|one| {
            let what = one["error"]["what"].as_str().unwrap_or_default();
            what.starts_with("there is no /")
        });
        assert!(!unknown, "{name}: {told:?}");
    }
    for (typed, fix) in [
        ("/hlep", "did you mean /help?"),
        ("/aprove", "did you mean /approve?"),
        ("/", "/help lists what there is"),
        ("/\u{1b}[2Jx", "/help lists what there is"),
    ] {
        let ran = piped(&world, &[], &[typed]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(fix), "{typed:?}: {ran:?}");
        assert!(!ran.stderr.contains('\u{1b}'), "{ran:?}");
        let told = told(&world, &[], &[typed]);
        assert_eq!(told[0]["error"]["fix"][0], fix, "{told:?}");
    }
}

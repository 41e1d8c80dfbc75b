//! `airlock approvals`: seen, answered at a terminal, used, taken back.

use crate::support::{
    Typed, World, answering, at_terminal, fed, finished, read_only_disk, tiny_disk,
};

const POLICY: &str = "version: 1
rules:
  - name: read-everything
    match: { effect: read, path_glob: \"**\" }
    action: allow
  - name: look-first
    match: { effect: read, path_glob: \"src/**\" }
    action: require_review
    reason: a person looks at who reads the source
  - name: sessions
    match: { syscall: \"session.*\" }
    action: allow
";

const ASK: &[&str] = &[
    "tool",
    "call",
    "fs.read",
    "path=src/main.rs",
    "--as",
    "agent",
];

fn asking(more: &str) -> World {
    let world = World::project();
    world.write(".airlock/policy.yaml", format!("{POLICY}{more}"));
    let ran = at_terminal(&world, "trust", Typed::Line("y"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    world
}

/// The name of the question that waits.
fn open(world: &World) -> String {
    let ran = world.quiet(&["approvals", "list", "--json"]);
    let first = ran.stdout.lines().next().unwrap_or_default().to_owned();
    let one: serde_json::Value = serde_json::from_str(&first).unwrap();
    one["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_call_that_needs_approval_says_how_to_answer() {
    let mut world = asking("");
    world.run_all(&["approvals list", "approvals grants"]);
    assert_eq!(world.run(ASK).code, Some(4));
    assert_eq!(world.run(&[ASK, &["--json"]].concat()).code, Some(4));
    world.run_all(&["approvals list", "approvals list --json"]);
    let id = open(&world);
    world.run(&["approvals", "show", &id]);
    world.run(&["approvals", "show", &id, "--json"]);
    world.compare("approvals_asked");
}

#[test]
fn a_list_goes_on_after_the_last_of_a_page() {
    let world = asking("");
    world.quiet(ASK);
    let id = open(&world);
    let listed = |words: &[&str]| -> Vec<String> {
        let ran = world.quiet(&[&["approvals"], words, &["--json"]].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.stdout.lines().map(str::to_owned).collect()
    };
    // What waits, and the answer that trusted this policy.
    let all = listed(&["list", "--all"]);
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all[0].contains(&id), "{all:?}");
    assert_eq!(listed(&["list", "--all", "--after", &id]), all[1..]);
    assert_eq!(listed(&["list", "--status", "open"]), all[..1]);
    assert_eq!(listed(&["list", "--status", "closed"]), all[1..]);
    for words in [
        &["list", "--after", &id][..],
        &["list", "--status", "granted"],
        &["grants", "--after", &id],
    ] {
        assert_eq!(listed(words), [""; 0], "{words:?}");
    }
    for words in [
        &["approvals", "list", "--after", "none"][..],
        &["approvals", "list", "--all", "--status", "open"],
        &["approvals", "list", "--status", "answered"],
    ] {
        let ran = world.quiet(words);
        assert_eq!(ran.code, Some(2), "{ran:?}");
    }
}

#[test]
fn a_yes_at_the_terminal_lets_the_call_pass_as_often_as_it_says() {
    let mut world = asking("");
    world.quiet(ASK);
    let id = open(&world);
    let end = id.get(id.len() - 12..).unwrap();
    let words = format!("approvals approve {end} --uses 2 --dir src --because reviewed");
    let ran = answering(&world, &words, &["y"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    world.note(
        "approvals approve [END] --uses 2 --dir src --because reviewed (typed: y)",
        &ran,
    );
    world.run(ASK);
    world.run_all(&["approvals grants", "approvals grants --json"]);
    assert_eq!(world.quiet(ASK).code, Some(0));
    assert_eq!(world.quiet(ASK).code, Some(4));
    world.run_all(&["approvals grants", "approvals list --all"]);
    world.compare("approvals_approved");
}

#[test]
fn a_no_is_final_for_the_agent_and_a_grant_can_be_taken_back() {
    let mut world = asking("");
    world.quiet(ASK);
    let id = open(&world);
    let ran = answering(
        &world,
        &format!("approvals deny {id} --because 'ask ada'"),
        &[],
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(world.run(ASK).code, Some(3));
    let other = &[
        "tool",
        "call",
        "fs.exists",
        "path=src/main.rs",
        "--as",
        "agent",
    ];
    world.quiet(other);
    let id = open(&world);
    let ran = answering(&world, &format!("approvals defer {id}"), &[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = answering(
        &world,
        &format!("approvals approve {id} --until 2h"),
        &["yes"],
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(world.quiet(other).code, Some(0));
    world.run(&["approvals", "revoke", &id]);
    assert_eq!(world.quiet(other).code, Some(4));
    world.run(&["approvals", "revoke", &id]);
    world.run(&["approvals", "show", &id]);
    world.compare("approvals_denied");
}

#[test]
fn nothing_is_answered_without_a_person_at_a_terminal() {
    let mut world = asking("");
    world.quiet(ASK);
    let id = open(&world);
    for verb in ["approve", "deny", "defer"] {
        let ran = world.run(&["approvals", verb, &id]);
        assert_eq!(ran.code, Some(4), "{ran:?}");
        let mut piped = world.through(&["setsid", "--wait"], &["approvals", verb, &id]);
        assert_eq!(fed(&mut piped, "y\ny\n").code, Some(4));
    }
    world.run(&["approvals", "passphrase"]);
    let decide = format!("approval={id}");
    world.run(&["tool", "call", "approval.decide", &decide, "answer=approve"]);
    world.run(&[
        "tool",
        "call",
        "approval.decide",
        &decide,
        "answer=approve",
        "--as",
        "agent",
    ]);
    world.run(&["tool", "call", "approval.read", "--as", "mcp"]);
    assert_eq!(world.quiet(ASK).code, Some(4));
    world.compare("approvals_nobody");
}

#[test]
fn anything_but_yes_leaves_the_question_open() {
    let world = asking("");
    world.quiet(ASK);
    let id = open(&world);
    for typed in [&["n"][..], &[""], &["yep"], &[]] {
        let ran = answering(&world, &format!("approvals approve {id}"), typed);
        assert_eq!(ran.code, Some(3), "{ran:?}");
        assert_eq!(open(&world), id);
    }
    let ran = at_terminal(
        &world,
        &format!("approvals approve {id}"),
        Typed::Ahead("y\ny"),
    );
    assert_eq!(ran.code, Some(3), "{ran:?}");
}

#[test]
fn wrong_names_and_conditions_say_what_would_be_right() {
    let mut world = asking("");
    world.quiet(ASK);
    let id = open(&world);
    world.run_all(&[
        "approvals show none",
        "approvals revoke nothing",
        "approvals approve \u{1b}[2Jx",
    ]);
    world.run(&["approvals", "approve", &id, "--until", "tomorrow"]);
    world.run(&["approvals", "approve", &id, "--host"]);
    world.run(&["approvals", "approve", &id, "--once", "--uses", "2"]);
    for (flags, told) in [
        ("--uses 0", "zero uses approve nothing"),
        ("--dir docs", "are not all in that directory"),
        ("--until 2020-01-01T00:00:00Z", "is over"),
    ] {
        let ran = answering(&world, &format!("approvals approve {id} {flags}"), &[]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stdout.contains(told), "{ran:?}");
        assert!(!ran.stdout.contains("[y/N]"), "asked in vain: {ran:?}");
    }
    world.compare("approvals_wrong");
}

#[test]
fn a_question_out_of_date_takes_no_answer_and_says_why() {
    let world = asking("");
    world.quiet(ASK);
    let id = open(&world);
    world.write(".airlock/policy.yaml", format!("{POLICY}# another\n"));
    assert_eq!(at_terminal(&world, "trust", Typed::Line("y")).code, Some(0));
    // One that takes no answer any more is not put.
    let told = "the question is out of date: the policy changed since it was asked";
    let fix = "let the action be asked for again, and answer the new question";
    for verb in ["approve", "deny", "defer"] {
        let ran = world.quiet(&["approvals", verb, &id]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(
            ran.stderr.contains(told) && ran.stderr.contains(fix),
            "{ran:?}"
        );
    }
    let listed = world.quiet(&["approvals", "list"]);
    assert_eq!(listed.stdout, "", "{listed:?}");
    let closed = world.quiet(&["approvals", "list", "--status", "closed"]);
    assert!(
        closed.stdout.contains(&id) && closed.stdout.contains("policy_changed"),
        "{closed:?}"
    );
    // Asked again it is another question, which is answered once.
    world.quiet(ASK);
    let id = open(&world);
    let denied = answering(&world, &format!("approvals deny {id}"), &[]);
    assert_eq!(denied.code, Some(0), "{denied:?}");
    for verb in ["approve", "deny", "defer"] {
        let ran = world.quiet(&["approvals", verb, &id]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains("was answered before"), "{ran:?}");
    }
}

#[test]
fn where_policy_asks_for_a_passphrase_a_yes_needs_it() {
    let mut world = World::project();
    world.write(
        ".airlock/policy.yaml",
        format!("{POLICY}approvals: {{ require_passphrase: true }}\n"),
    );
    // Trusting it is not yet under it.
    assert_eq!(at_terminal(&world, "trust", Typed::Line("y")).code, Some(0));
    world.quiet(ASK);
    let approve = format!("approvals approve {}", open(&world));
    let unset = answering(&world, &approve, &["y"]);
    assert_eq!(unset.code, Some(1), "{unset:?}");
    world.note("approvals approve [UUID]", &unset);
    for (typed, code) in [
        (&["correct horse", "another one"][..], 1),
        (&["short", "short"], 1),
        (&["correct horse", "correct horse"], 0),
        (&["wrong", "battery staple", "battery staple"], 1),
    ] {
        let ran = answering(&world, "approvals passphrase", typed);
        assert_eq!(ran.code, Some(code), "{ran:?}");
        assert!(
            !ran.stdout.contains("horse") && !ran.stdout.contains("staple"),
            "{ran:?}"
        );
    }
    let wrong = answering(&world, &approve, &["y", "wrong horse"]);
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert_eq!(world.quiet(ASK).code, Some(4));
    let right = answering(&world, &approve, &["y", "correct horse"]);
    assert_eq!(right.code, Some(0), "{right:?}");
    world.note(
        "approvals approve [UUID] (typed: y, the passphrase)",
        &right,
    );
    assert_eq!(world.quiet(ASK).code, Some(0));
    let log = world.quiet(&["audit", "export"]).stdout;
    assert!(!log.contains("horse"));
    world.compare("approvals_passphrase");
}

#[test]
fn a_passphrase_that_was_set_is_asked_for_where_no_policy_is_in_force() {
    let policy = format!("{POLICY}approvals: {{ require_passphrase: true }}\n");
    for revoked in [false, true] {
        let world = World::under(&policy);
        let words = ["correct horse", "correct horse"];
        let set = answering(&world, "approvals passphrase", &words);
        assert_eq!(set.code, Some(0), "{set:?}");
        if revoked {
            assert_eq!(world.quiet(&["trust", "revoke"]).code, Some(0));
        }
        // Whoever can write the file could choose what it says.
        world.write(".airlock/policy.yaml", format!("{POLICY}# another\n"));
        for typed in [&["y"][..], &["y", "wrong horse"]] {
            let ran = answering(&world, "trust", typed);
            assert_ne!(ran.code, Some(0), "{ran:?}");
            let shown = world.quiet(&["trust", "show", "--json"]).json();
            assert_eq!(shown["trusted"], false, "{ran:?}");
        }
        let gone = world.workspace().join(".airlock/policy.yaml");
        std::fs::rename(&gone, world.path("kept.yaml")).unwrap();
        let ran = world.quiet(&["init"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        std::fs::rename(world.path("kept.yaml"), &gone).unwrap();
        let ran = answering(&world, "trust", &["y", "correct horse"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
}

#[test]
fn with_nobody_there_the_policy_decides_what_becomes_of_a_question() {
    for (headless, code) in [("wait", 4), ("deny", 3)] {
        let world = asking(&format!("approvals: {{ headless: {headless} }}\n"));
        let ran = world.quiet(&[ASK, &["--unattended"]].concat());
        assert_eq!(ran.code, Some(code), "{ran:?}");
    }
}

#[test]
fn a_full_or_read_only_disk_refuses_with_a_reason() {
    let world = World::project();
    let ask = "tool call session.create";
    let ran = finished(&mut read_only_disk(&world, ask));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    // Enough for the log to open, and then no more.
    let script = format!(
        "\"$AIRLOCK\" version >/dev/null && \"$AIRLOCK\" tool call fs.list >/dev/null && \
         {{ dd if=/dev/zero of=\"$STATE/fill\" bs=1k 2>/dev/null; \"$AIRLOCK\" {ask}; }}"
    );
    let mut command = tiny_disk(&world, "size=2m", &script);
    let ran = finished(&mut command);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("fix: "), "{ran:?}");
    // Room again, and it goes on by itself.
    let script = format!(
        "\"$AIRLOCK\" tool call fs.list >/dev/null && dd if=/dev/zero of=\"$STATE/fill\" bs=1k 2>/dev/null; \
         \"$AIRLOCK\" {ask} 2>/dev/null; rm \"$STATE/fill\"; \"$AIRLOCK\" {ask} >/dev/null"
    );
    let ran = finished(&mut tiny_disk(&world, "size=4m", &script));
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

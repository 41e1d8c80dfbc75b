//! Approval is a person's, at a terminal: typed there, and nowhere else.

use crate::support::{Ran, Typed, World, at_terminal, fed};

const POLICY: &str = "version: 1
rules:
  - name: read-everything
    match: { effect: read, path_glob: \"**\" }
    action: allow
    reason: this came with a clone
    examples:
      match: [{ syscall: fs.read, path: README.md }]
      not_match: [{ syscall: fs.write, path: README.md }]
";

fn cloned() -> World {
    let world = World::project();
    world.write(".airlock/policy.yaml", POLICY);
    world
}

fn trusted(world: &World) -> bool {
    world.quiet(&["trust", "show", "--json"]).json()["trusted"] == true
}

#[test]
fn a_typed_yes_approves() {
    for (name, answer) in [("review_yes", "y"), ("", "yes"), ("", "Y")] {
        let mut world = cloned();
        let ran = at_terminal(&world, "trust", Typed::Line(answer));
        assert_eq!(ran.code, Some(0), "{answer}: {ran:?}");
        assert!(trusted(&world), "{answer}: {ran:?}");
        if !name.is_empty() {
            world.note("trust (typed: y)", &ran);
            world.compare(name);
        }
    }
}

#[test]
fn anything_but_yes_changes_nothing() {
    for (name, typed) in [
        ("review_no", Typed::Line("n")),
        ("review_end_of_input", Typed::Nothing),
        ("", Typed::Line("")),
        ("", Typed::Line("yep")),
        ("", Typed::Line("yes please")),
    ] {
        let mut world = cloned();
        let ran = at_terminal(&world, "trust", typed);
        assert_eq!(ran.code, Some(3), "{ran:?}");
        assert!(!trusted(&world), "{ran:?}");
        if !name.is_empty() {
            world.note("trust", &ran);
            world.compare(name);
        }
    }
}

#[test]
fn what_was_typed_before_the_question_is_no_answer_to_it() {
    let world = cloned();
    let ran = at_terminal(&world, "trust", Typed::Ahead("y\ny"));
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(
        ran.stdout.contains("nobody at the terminal answered"),
        "{ran:?}"
    );
    assert!(!trusted(&world), "{ran:?}");
}

#[test]
fn a_redirected_stdout_hides_nothing_from_the_person_asked() {
    for words in ["trust > /dev/null", "trust --json > /dev/null"] {
        let world = cloned();
        let ran = at_terminal(&world, words, Typed::Line("y"));
        assert_eq!(ran.code, Some(0), "{words}: {ran:?}");
        assert!(ran.stdout.contains("read-everything"), "{words}: {ran:?}");
    }
    for words in [
        "policy update next.yaml > /dev/null",
        "policy update next.yaml --json > /dev/null",
    ] {
        let world = update(1);
        let ran = at_terminal(&world, words, Typed::Line("y"));
        assert_eq!(ran.code, Some(0), "{words}: {ran:?}");
        assert!(
            ran.stdout.contains("+    reason: closed for now"),
            "{words}: {ran:?}"
        );
        assert!(ran.stdout.contains("BREAKING"), "{words}: {ran:?}");
    }
}

#[test]
fn without_a_terminal_nothing_can_be_approved() {
    let mut world = cloned();
    let ran = world.run(&["trust"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(!trusted(&world));
    world.run(&["trust", "--json"]);
    world.compare("review_no_terminal");
}

#[test]
fn a_piped_yes_is_nobodys_yes() {
    let world = cloned();
    let alone =
        |input: &str| -> Ran { fed(&mut world.through(&["setsid", "--wait"], &["trust"]), input) };
    for input in ["y\n", "yes\n", &"y\n".repeat(100)] {
        let ran = alone(input);
        assert_eq!(ran.code, Some(4), "{ran:?}");
        assert!(!trusted(&world), "{ran:?}");
    }
}

#[test]
fn a_piped_yes_does_not_count_at_a_terminal_either() {
    let world = cloned();
    // The pipe says yes, the person says no.
    let ran = at_terminal(&world, "trust < /dev/null", Typed::Line("n"));
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let file = world.write("yes", "y\ny\ny\n");
    let words = format!("trust < {}", file.display());
    let ran = at_terminal(&world, &words, Typed::Line("n"));
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(!trusted(&world));
}

/// A workspace whose log holds `reads` reads that the new policy in `next.yaml` would deny.
fn update(reads: usize) -> World {
    update_in(World::governed(), reads)
}

fn update_in(world: World, reads: usize) -> World {
    for _ in 0..reads {
        let ran = world.quiet(&["tool", "call", "fs.read", "path=README.md", "--as", "agent"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    world.write(
        "next.yaml",
        "version: 1\nrules:\n  - name: closed\n    match: { effect: read, path_glob: \"**\" }\n    action: deny\n    reason: closed for now\n    examples:\n      match: [{ syscall: fs.read, path: README.md }]\n      not_match: [{ syscall: fs.write, path: README.md }]\n",
    );
    world
}

fn in_force(world: &World) -> bool {
    let shown = world.quiet(&["policy", "show", "--json"]).json();
    shown["text"].as_str().unwrap().contains("closed for now")
}

#[test]
fn a_policy_update_shows_what_it_breaks_and_asks() {
    let mut world = update_in(World::governed_alone(), 1);
    let ran = world.run(&["policy", "update", "next.yaml"]);
    assert_eq!(ran.code, Some(4));
    assert!(!in_force(&world));
    let ran = at_terminal(&world, "policy update next.yaml", Typed::Line("n"));
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(!in_force(&world));
    let ran = at_terminal(&world, "policy update next.yaml", Typed::Line("y"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(in_force(&world));
    world.compare("review_update");
}

#[test]
fn many_breaking_changes_need_more_than_a_yes() {
    let world = update(6);
    for answer in ["y", "yes", "break", "break 5"] {
        let ran = at_terminal(&world, "policy update next.yaml", Typed::Line(answer));
        assert_eq!(ran.code, Some(3), "{answer}: {ran:?}");
        assert!(ran.stdout.contains("type `break 6` to approve"), "{ran:?}");
        assert!(!in_force(&world), "{answer}");
    }
    let ran = at_terminal(&world, "policy update next.yaml", Typed::Line("break 6"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(in_force(&world));
}

/// Without its arguments nobody knows whether such a rule applies to an audited syscall.
#[test]
fn a_rule_on_an_argument_does_not_make_a_yes_enough() {
    for words in ["policy update next.yaml", "trust"] {
        let world = update(6);
        let decoy = "version: 1\nrules:\n  - name: tidy\n    match: { arg: { zzz: { equals: 1 } } }\n    action: allow\n    reason: closed for now\n";
        world.write("next.yaml", decoy);
        if words == "trust" {
            world.write(".airlock/policy.yaml", decoy);
        }
        let ran = at_terminal(&world, words, Typed::Line("y"));
        assert_eq!(ran.code, Some(3), "{words}: {ran:?}");
        for said in [
            "BREAKING?",
            "6 possibly breaking",
            "type `break 6` to approve",
        ] {
            assert!(shown(&ran).contains(said), "{words}: {said}: {ran:?}");
        }
        assert!(!in_force(&world), "{words}");
    }
}

/// What was shown, however it was broken into lines.
fn shown(ran: &Ran) -> String {
    ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The policies that were replaced.
fn backups(world: &World) -> Vec<String> {
    let workspaces = std::fs::read_dir(world.path("state/airlock")).unwrap();
    let directories = workspaces.map(|entry| entry.unwrap().path().join("backups"));
    let files = directories.filter_map(|directory| std::fs::read_dir(directory).ok());
    let files = files.flatten().map(|entry| entry.unwrap().path());
    let replaced = files.filter(|path| path.to_string_lossy().contains("/policy-"));
    replaced
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect()
}

#[test]
fn a_policy_edited_in_place_is_shown_confirmed_and_backed_up_like_any_update() {
    for words in ["policy update .airlock/policy.yaml", "trust"] {
        let world = update(6);
        let policy = world.workspace().join(".airlock/policy.yaml");
        let approved = std::fs::read_to_string(&policy).unwrap();
        std::fs::copy(world.workspace().join("next.yaml"), &policy).unwrap();
        let ran = at_terminal(&world, words, Typed::Line("y"));
        assert_eq!(ran.code, Some(3), "{words}: {ran:?}");
        for said in [
            "+ reason: closed for now",
            "6 breaking, 0 widening",
            "type `break 6` to approve",
        ] {
            assert!(shown(&ran).contains(said), "{words}: {said}: {ran:?}");
        }
        assert!(!in_force(&world), "{words}");
        assert!(backups(&world).is_empty(), "{words}");
        let ran = at_terminal(&world, words, Typed::Line("break 6"));
        assert_eq!(ran.code, Some(0), "{words}: {ran:?}");
        assert!(in_force(&world), "{words}");
        assert!(shown(&ran).contains("the old one is kept as"), "{ran:?}");
        assert_eq!(backups(&world), [approved], "{words}");
    }
}

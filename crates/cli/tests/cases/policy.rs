//! `airlock policy`: check, explain, test, compare.

use crate::support::{World, fed, unprivileged};
use std::os::unix::fs::PermissionsExt;

/// A policy that denies what the starter allows.
const STRICTER: &str = "version: 1
rules:
  - name: nothing-in-src
    match: { syscall: fs.read, path_glob: \"src/**\" }
    action: deny
    reason: sources are not for reading
    examples:
      match: [{ syscall: fs.read, path: src/main.rs }]
      not_match: [{ syscall: fs.read, path: README.md }]
  - name: read-the-rest
    match: { effect: read, path_glob: \"**\" }
    action: allow
    reason: the rest is open
    examples:
      match: [{ syscall: fs.read, path: README.md }]
      not_match: [{ syscall: fs.write, path: README.md }]
";

#[test]
fn explanations_read_like_a_good_compiler_error() {
    let mut world = World::governed();
    world.run_all(&[
        "policy explain fs.write --path .github/workflows/ci.yml",
        "policy explain fs.read --path .env",
        "policy explain fs.read --path src/main.rs",
        "policy explain net.connect --host example.org --port 443",
        "policy explain exec.run --tier process --as cli",
        "policy explain fs.read --path .env --json",
    ]);
    world.run(&[
        "policy",
        "explain",
        "exec.run",
        "--command",
        "cargo test",
        "--tier",
        "process",
    ]);
    world.compare("policy_explain");
}

#[test]
fn another_policy_can_be_explained_without_being_in_force() {
    let mut world = World::governed();
    world.write("stricter.yaml", STRICTER);
    world.run_all(&[
        "policy explain fs.read --path src/main.rs --policy stricter.yaml",
        "policy explain fs.read --path src/main.rs --policy missing.yaml",
        "policy check stricter.yaml",
        "policy check stricter.yaml --json",
    ]);
    world.compare("policy_explain_other");
}

#[test]
fn the_policy_in_force_and_its_schema_are_printed() {
    let mut world = World::governed();
    for line in ["policy show", "policy schema"] {
        let args: Vec<&str> = line.split_whitespace().collect();
        let ran = world.quiet(&args).first(8);
        world.note(line, &ran);
    }
    let show = world.quiet(&["policy", "show", "--json"]).json();
    let file = std::fs::read_to_string(world.workspace().join(".airlock/policy.yaml")).unwrap();
    assert_eq!(show["text"], file);
    assert_eq!(show["origin"], "workspace");
    assert!(world.quiet(&["policy", "schema", "--json"]).json()["$defs"].is_object());
    world.compare("policy_show");
}

#[test]
fn every_problem_of_a_policy_is_shown_at_its_place() {
    let mut world = World::new();
    world.write(
        "broken.yaml",
        "version: 1\nrulez: []\nrules:\n  - name: a\n    match: { sycall: fs.read }\n    action: alow\n    reason: x\n",
    );
    world.write("not-yaml.yaml", "version: 1\nrules: [\n");
    world.write("newer.yaml", "version: 2\nrules: []\n");
    world.write("empty.yaml", "");
    world.write("binary.yaml", [0xff, 0xfe, 0x00, 0x01]);
    world.run_all(&[
        "policy check broken.yaml",
        "policy check broken.yaml --json",
        "policy check not-yaml.yaml",
        "policy check newer.yaml",
        "policy check empty.yaml",
        "policy check binary.yaml",
    ]);
    world.compare("policy_broken");
}

#[test]
fn warnings_are_counted_apart_from_what_keeps_a_policy_from_loading() {
    let world = World::new();
    let rules = "  - { name: a, match: { user: [] }, action: deny }
  - { name: b, match: { path_glob: \"!c\" }, action: deny }
";
    world.write("mixed.yaml", format!("version: 1\nrules:\n{rules}"));
    let ran = world.quiet(&["policy", "check", "mixed.yaml"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let told = "mixed.yaml does not load: 1 problem, and 1 warning";
    assert!(ran.stderr.contains(told), "{ran:?}");
    assert!(!ran.stderr.contains("policy/empty-path-glob"), "{ran:?}");
}

#[test]
fn a_policy_that_is_too_large_is_a_problem_with_a_code() {
    let world = World::new();
    world.write("large.yaml", "#".repeat(9 << 20));
    let ran = world.quiet(&["policy", "check", "large.yaml", "--json"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let error = &ran.json()["error"];
    assert_eq!(error["problems"][0]["code"], "policy/too-large");
}

#[test]
fn files_that_cannot_be_read_are_named_with_the_reason() {
    let mut world = World::new();
    world.write("large.yaml", "#".repeat(9 << 20));
    let secret = world.write("unreadable.yaml", STRICTER);
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o000)).unwrap();
    std::fs::create_dir(world.workspace().join("directory.yaml")).unwrap();
    world.run_all(&[
        "policy check",
        "policy check missing.yaml",
        "policy check directory.yaml",
        "policy check large.yaml",
        "policy check /dev/zero",
        "policy test missing.yaml",
        "policy test --policy missing.yaml",
        "policy diff missing.yaml",
        "policy update directory.yaml",
    ]);
    let mut command = unprivileged(&world, &["policy", "check", "unreadable.yaml"]);
    let ran = world.record("policy check unreadable.yaml", &mut command);
    assert_eq!(ran.code, Some(1));
    world.compare("policy_unreadable");
}

#[test]
fn a_directory_that_may_not_be_entered_is_not_taken_for_an_empty_one() {
    let world = World::governed();
    let directory = world.workspace().join(".airlock");
    let allow = |mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&directory, mode).unwrap();
    };
    allow(0o000);
    let ran = fed(&mut unprivileged(&world, &["policy", "check"]), "");
    allow(0o755);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("Permission denied"), "{ran:?}");
}

#[test]
fn tables_of_tests_pass_or_say_what_came_instead() {
    let mut world = World::governed();
    world.write(
        "tests.yaml",
        "tests:
  - name: secrets stay
    request: { syscall: fs.read, path: .env, plugin: agent }
    expect: deny
    rule: keep-environment-files
  - name: wrong on purpose
    request: { syscall: fs.read, path: README.md, plugin: agent }
    expect: deny
  - name: the right verdict by the wrong rule
    request: { syscall: fs.read, path: .env, plugin: agent }
    expect: deny
    rule: nobody-wrote-this
",
    );
    world.write(
        "bad-tests.yaml",
        "tests:\n  - request: { syscall: fs.raed }\n    expect: maybe\n",
    );
    world.run_all(&[
        "policy test",
        "policy test --json",
        "policy test tests.yaml",
        "policy test tests.yaml --json",
        "policy test bad-tests.yaml",
        "policy test bad-tests.yaml --json",
    ]);
    world.compare("policy_test");
}

#[test]
fn a_replay_shows_only_what_would_differ() {
    let mut world = World::governed_alone();
    for path in ["src/main.rs", "README.md"] {
        let argument = format!("path={path}");
        world.quiet(&["tool", "call", "fs.read", &argument, "--as", "agent"]);
    }
    world.write("stricter.yaml", STRICTER);
    world.run_all(&[
        "policy diff .airlock/policy.yaml",
        "policy diff stricter.yaml",
        "policy diff stricter.yaml --json",
        "policy diff stricter.yaml --last 1",
        "policy update .airlock/policy.yaml",
        "policy update .airlock/policy.yaml --json",
    ]);
    world.compare("policy_diff");
}

#[test]
fn a_program_that_is_not_listed_is_refused_by_explain_as_on_the_road() {
    let world = World::governed();
    for (command, refused) in [
        ("cargo test", false),
        ("env cargo test", false),
        ("ls", true),
        ("env ls", true),
        ("sh -c ls", true),
    ] {
        let asked = ["policy", "explain", "exec.run", "--command", command];
        let ran = world.quiet(&[&asked[..], &["--json"]].concat());
        assert_eq!(ran.code, Some(if refused { 3 } else { 0 }), "{ran:?}");
        let code = &ran.json()["refused"]["code"];
        assert_eq!(*code == "command_not_listed", refused, "{ran:?}");
        // What a person runs needs no place in the list.
        let own = world.quiet(&[&asked[..], &["--as", "cli"]].concat());
        assert_eq!(own.code, Some(0), "{own:?}");
    }
    let ran = world.quiet(&["policy", "explain", "exec.run", "--command", "ls"]);
    assert!(
        ran.stdout
            .starts_with("refused: IV-01: `ls` is not in the policy's"),
        "{ran:?}"
    );
    assert!(
        ran.stdout.contains("fix: add `- executable: ls`"),
        "{ran:?}"
    );
}

//! Mistyped commands, flags and names.

use crate::support::World;

#[test]
fn mistyped_words_are_named_and_the_nearest_is_suggested() {
    let mut world = World::governed();
    world.run_all(&[
        "plicy",
        "frobnicate",
        "policy chek",
        "--jsn init",
        "init --prnt",
        "init extra",
        "audit log --limit many",
        "audit log --limit",
        "audit show",
        "audit show twelve",
        "audit export --format cvs",
        "completions bsh",
        "completions tcsh",
        "--color blue version",
        "init --print --print",
        "policy explain fs.connect --port 70000",
    ]);
    world.compare("usage_words");
}

#[test]
fn names_inside_arguments_are_suggested_too() {
    let mut world = World::governed();
    world.run_all(&[
        "tool show fs.raed",
        "tool show nothing.like.it",
        "tool call fs.raed path=README.md",
        "tool call fs.list --as agnet",
        "tool call fs.list --as somebody",
        "config set colour never",
        "config set whatever 1",
        "audit log --event sycall",
        "audit log --event whatever",
        "audit log --decision dney",
        "audit log --since yesterday",
        "policy explain fs.raed --path README.md",
        "policy explain whatever",
        "policy explain fs.read --path README.md --mode strickt",
        "policy explain fs.read --path README.md --state plannning",
        "policy explain fs.read --path README.md --tier prcess",
        "policy explain fs.read --path README.md --tier whatever",
        "policy explain fs.write --path README.md --file-size huge",
        "policy explain fs.read --path README.md --arg depth",
    ]);
    world.compare("usage_names");
}

#[test]
fn mistakes_are_json_where_json_was_asked_for() {
    let mut world = World::governed();
    world.run_all(&[
        "plicy --json",
        "audit export --format cvs --json",
        "tool show fs.raed --json",
        "policy explain fs.raed --json",
        "config set color blue --json",
    ]);
    world.compare("usage_json");
}

#[test]
fn no_command_at_all_wants_a_model_and_a_group_wants_a_command() {
    let mut world = World::new();
    let ran = world.run(&[]);
    assert_eq!(ran.code, Some(2));
    for group in ["policy", "audit", "tool", "config"] {
        assert_eq!(world.quiet(&[group]).code, Some(2), "{group}");
    }
    world.compare("usage_none");
}

#[test]
fn every_failure_has_its_documented_exit_code() {
    let world = World::governed();
    for (line, code) in [
        ("version", 0),
        ("tool call fs.read path=missing", 1),
        ("audit show 999", 1),
        ("policy check missing.yaml", 1),
        ("no-such-command", 2),
        ("tool call no.such.tool", 2),
        ("tool call fs.read", 2),
        ("tool call fs.read path=.env --as agent", 3),
        ("policy explain fs.read --path .env", 3),
        ("policy explain fs.write --path .github/workflows/ci.yml", 4),
    ] {
        for json in [false, true] {
            let mut args: Vec<&str> = line.split_whitespace().collect();
            args.extend(json.then_some("--json"));
            let ran = world.quiet(&args);
            assert_eq!(ran.code, Some(code), "{line}: {ran:?}");
            if json && code != 0 {
                // One object and nothing beside it, whatever went wrong.
                let value = ran.json();
                assert!(value.is_object(), "{line}: {value}");
                assert_eq!(ran.stderr, "", "{line}");
            }
        }
    }
}

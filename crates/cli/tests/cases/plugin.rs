//! `airlock plugin`: what it writes, what it checks, what it says of what is not there.

use crate::support::{Ran, World, answering, fed, program};
use serde_json::{Value, json};

/// A program of this machine, with no environment of the person's.
fn run(world: &World, name: &str, arguments: &[&str], input: &str) -> Ran {
    let mut command = program(name);
    world.prepare(&mut command);
    fed(command.args(arguments), input)
}

fn made(world: &World, arguments: &[&str]) -> Ran {
    let ran = world.quiet(&[&["plugin", "new"], arguments].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran
}

fn last_line(ran: &Ran) -> Value {
    let line = ran.stdout.lines().chain(ran.stderr.lines()).last();
    serde_json::from_str(line.unwrap()).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn a_python_plugin_passes_its_own_tests_and_says_what_its_manifest_says() {
    let world = World::new();
    made(&world, &["word-count", "--lang", "python"]);
    let checked = world.quiet(&["plugin", "check", "word-count", "--json"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let manifest = last_line(&checked);
    let tests = ["-m", "unittest", "discover", "word-count/tests"];
    let tested = run(&world, "python3", &tests, "");
    assert_eq!(tested.code, Some(0), "{tested:?}");

    let ask = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
                "params": { "name": "count", "arguments": { "text": "a b c" } } }),
    ];
    let lines = ask.map(|one| one.to_string()).join("\n");
    let entry = world.workspace().join("word-count/bin/word-count");
    let answered = run(&world, entry.to_str().unwrap(), &[], &lines);
    let answers: Vec<Value> = answered
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let said = &answers[0]["result"]["tools"][0];
    let written = &manifest["tools"][0];
    assert_eq!(said["name"], written["name"]);
    assert_eq!(said["description"], written["summary"]);
    assert_eq!(said["inputSchema"], written["schema"]);
    assert_eq!(said["annotations"]["readOnlyHint"], written["read_only"]);
    assert_eq!(
        answers[1]["result"]["structuredContent"],
        json!({ "words": 3 })
    );
}

#[test]
fn nothing_is_written_under_a_name_that_is_none_and_nothing_is_overwritten() {
    let mut world = World::new();
    for name in ["../x", "Word", "fs", "cli", "a/b", "-x", ""] {
        let ran = world.quiet(&["plugin", "new", "--lang", "python", "--", name]);
        assert_eq!(ran.code, Some(2), "{name}: {ran:?}");
    }
    let left: Vec<_> = std::fs::read_dir(world.workspace()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(!world.path("x").exists());
    made(&world, &["word-count", "--lang", "python"]);
    world.run(&["plugin", "new", "fs", "--lang", "python"]);
    world.run(&["plugin", "new", "word-count", "--lang", "rust"]);
    world.run(&[
        "plugin", "new", "other", "--lang", "python", "--tier", "wasm",
    ]);
    world.run(&[
        "plugin",
        "new",
        "other",
        "--lang",
        "rust",
        "--tier",
        "wasm",
        "--protocol",
        "mcp",
    ]);
    assert!(!world.workspace().join("word-count/Cargo.toml").exists());
    world.compare("plugin_new_refused");
}

#[test]
fn every_problem_of_a_manifest_is_shown_with_its_line() {
    let mut world = World::new();
    world.write(
        "bad/plugin.yaml",
        "name: Bad\nversion: 1\ntype: tool\nexecution:\n  tier: container\n  sandbox:\n    network: { allow: ['h.example:443'] }\n",
    );
    world.run(&["plugin", "check", "bad"]);
    world.run(&["plugin", "install", "bad"]);
    world.run(&["plugin", "check", "absent"]);
    world.write(
        "slip/plugin.yaml",
        "name: slip\nversion: 1.0.0\ntype: tool\ncapabilities: [fs.read, 'kv.*']\n",
    );
    world.run(&["plugin", "check", "slip"]);
    let ran = world.quiet(&["plugin", "check", "bad", "--json"]);
    let problems = last_line(&ran)["error"]["problems"]
        .as_array()
        .map(Vec::len);
    assert_eq!(problems, Some(4), "{ran:?}");
    world.compare("plugin_check");
}

#[test]
fn what_has_no_end_for_a_manifest_is_refused_and_not_read() {
    let world = World::new();
    for name in ["pipe", "zero", "long"] {
        std::fs::create_dir(world.workspace().join(name)).unwrap();
    }
    let manifest = |name: &str| world.workspace().join(name).join("plugin.yaml");
    let pipe = manifest("pipe");
    let made = run(&world, "mkfifo", &[pipe.to_str().unwrap()], "");
    assert_eq!(made.code, Some(0), "{made:?}");
    std::os::unix::fs::symlink("/dev/zero", manifest("zero")).unwrap();
    let long = std::fs::File::create(manifest("long")).unwrap();
    // Read whole it would not fit the memory of anything.
    long.set_len(1 << 40).unwrap();
    let odd = "it is a link, or no regular file";
    for (path, why) in [
        ("pipe", odd),
        ("pipe/plugin.yaml", odd),
        ("zero", odd),
        ("zero/plugin.yaml", odd),
        ("/dev/zero", odd),
        ("long", "long/plugin.yaml"),
    ] {
        for command in ["check", "install"] {
            // `timeout` ends what would wait for ever: the test fails then, and does not hang.
            let airlock = env!("CARGO_BIN_EXE_airlock");
            let words = ["60", airlock, "plugin", command, path];
            let ran = run(&world, "timeout", &words, "");
            assert_eq!(ran.code, Some(1), "{command} {path}: {ran:?}");
            assert!(ran.stderr.contains(why), "{command} {path}: {ran:?}");
        }
    }
}

#[test]
fn what_to_do_next_names_the_directory_that_was_chosen() {
    let world = World::new();
    for (directory, place) in [("away", "away/aa"), ("a b's", "'a b'\\''s/aa'")] {
        let ran = made(
            &world,
            &["aa", "--lang", "python", "--directory", directory],
        );
        let said = format!("{}{}", ran.stdout, ran.stderr);
        let next = format!("next: airlock plugin install {place} --trust process");
        assert!(said.contains(&next), "{said}");
    }
    let listed = run(&world, "sh", &["-c", "ls 'a b'\\''s/aa'"], "");
    assert!(listed.stdout.contains("plugin.yaml"), "{listed:?}");
}

const POLICY: &str = "\
version: 1
rules:
  - name: call-tools
    match: { syscall: tool.call }
    action: allow
";

#[test]
fn a_new_plugin_is_installed_called_switched_off_and_removed() {
    let world = World::new();
    world.write(".airlock/policy.yaml", POLICY);
    let trusted = answering(&world, "trust", &["y"]);
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    made(&world, &["word-count", "--lang", "python"]);

    let nobody = world.quiet(&["plugin", "install", "word-count", "--trust", "process"]);
    assert_eq!(nobody.code, Some(4), "{nobody:?}");
    let no = answering(&world, "plugin install word-count --trust process", &["n"]);
    assert_eq!(no.code, Some(3), "{no:?}");
    let listed = world.quiet(&["plugin", "list"]);
    assert!(listed.stdout.is_empty(), "{listed:?}");
    let yes = answering(&world, "plugin install word-count --trust process", &["y"]);
    assert_eq!(yes.code, Some(0), "{yes:?}");
    assert!(
        yes.stdout
            .contains("runs bin/word-count as a process, in a sandbox"),
        "{yes:?}"
    );
    assert!(yes.stdout.contains("word-count is installed"), "{yes:?}");
    assert!(!yes.stdout.contains("warning"), "{yes:?}");

    let called = |text: &str| world.quiet(&["plugin", "call", "word-count", "count", text]);
    let counted = called("text=one two three");
    assert_eq!(counted.code, Some(0), "{counted:?}");
    assert!(counted.stdout.contains('3'), "{counted:?}");
    let wrong = called("txt=one");
    assert_eq!(wrong.code, Some(2), "{wrong:?}");

    let tagged = |tag: &str| world.quiet(&["plugin", "list", "--tag", tag]);
    assert!(tagged("third_party").stdout.contains("word-count"));
    let none = tagged("nope");
    assert!(
        none.stderr.contains("no plugin has the tag `nope`"),
        "{none:?}"
    );
    assert!(!none.stderr.contains("there is no plugin"), "{none:?}");

    let shown = world
        .quiet(&["plugin", "show", "word-count", "--json"])
        .json();
    assert_eq!(shown["tags"], json!(["third_party"]));
    assert_eq!(shown["approved"]["tier"], "process");
    assert_eq!(shown["manifest"]["execution"]["protocol"], "mcp");

    let off = answering(&world, "plugin disable word-count", &["y"]);
    assert_eq!(off.code, Some(0), "{off:?}");
    assert_ne!(called("text=one").code, Some(0));
    let on = answering(&world, "plugin enable word-count", &["y"]);
    assert_eq!(on.code, Some(0), "{on:?}");
    assert_eq!(called("text=one").code, Some(0));

    let installed = world.path("state/airlock/plugins/installed/word-count/bin/tools.py");
    std::fs::write(&installed, "evil").unwrap();
    let changed = world.quiet(&["plugin", "reload", "word-count"]);
    assert_ne!(changed.code, Some(0), "{changed:?}");
    assert!(changed.stderr.contains("changed since"), "{changed:?}");
    // What runs in the kernel that a call started is still what was approved; it ends with that.
    assert_eq!(called("text=one two").code, Some(0));
    assert_eq!(world.quiet(&["kernel", "stop"]).code, Some(0));
    let changed = called("text=one");
    assert_ne!(changed.code, Some(0), "{changed:?}");

    let gone = answering(&world, "plugin remove word-count", &["y"]);
    assert_eq!(gone.code, Some(0), "{gone:?}");
    assert!(!installed.exists());
    assert_eq!(world.quiet(&["kernel", "stop"]).code, Some(0));
}

//! Arguments, names and files made to deceive: nothing of them reaches the terminal raw.

use crate::support::{Ran, Typed, World, at_terminal, finished, program};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// A red, title-setting, cursor-moving, text-reversing word.
const EVIL: &str = "x\u{1b}[31m\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}\rz";

/// With colour always on, nothing filters the output any more: only what we wrote remains.
fn unfiltered(world: &World, args: &[&str]) -> Ran {
    let mut all = vec!["--color", "always"];
    all.extend(args);
    let mut command = world.command(&all);
    command.env_remove("NO_COLOR");
    finished(&mut command)
}

/// `text` without the few styles the command itself uses.
fn without_own_styles(text: &str) -> String {
    let own = [
        "0", "1", "2", "4", "31", "32", "33", "36", "91", "92", "93", "96",
    ];
    let mut text = text.to_owned();
    for style in own {
        text = text.replace(&format!("\u{1b}[{style}m"), "");
    }
    text
}

fn assert_clean(args: &[&str], ran: &Ran) {
    for text in [&ran.stdout, &ran.stderr] {
        // The evil word's own style would pass for ours: it follows an `x`.
        assert!(!text.contains("x\u{1b}[31m"), "{args:?}: {text:?}");
        let raw: Vec<char> = without_own_styles(text)
            .chars()
            .filter(|c| (c.is_control() && !"\n\t".contains(*c)) || *c == '\u{202e}')
            .collect();
        assert!(raw.is_empty(), "{args:?}: {raw:?} in {text:?}");
    }
}

#[test]
fn no_argument_can_send_control_sequences_to_the_terminal() {
    let world = World::governed();
    let pair = format!("path={EVIL}");
    let named = format!("{EVIL}=1");
    let object = serde_json::json!({ "path": EVIL }).to_string();
    let flag = format!("--{EVIL}");
    for args in [
        &[EVIL][..],
        &[&flag],
        &["policy", EVIL],
        &["policy", "check", EVIL],
        &["policy", "test", EVIL],
        &["policy", "diff", EVIL],
        &["policy", "explain", EVIL],
        &["policy", "explain", "fs.read", "--path", EVIL],
        &["policy", "explain", "fs.read", "--path", EVIL, "--json"],
        &[
            "policy", "explain", "fs.read", "--path", "a", "--mode", EVIL,
        ],
        &["policy", "explain", "fs.read", "--path", "a", "--as", EVIL],
        &["policy", "explain", "net.connect", "--host", EVIL],
        &["policy", "explain", "exec.run", "--command", EVIL],
        &[
            "policy", "explain", "fs.read", "--path", "a", "--policy", EVIL,
        ],
        &["policy", "explain", "fs.write", "--file-size", EVIL],
        &["tool", "show", EVIL],
        &["tool", "call", EVIL],
        &["tool", "call", "fs.read", &pair],
        &["tool", "call", "fs.read", &pair, "--json"],
        &["tool", "call", "fs.read", &pair, "--as", "agent"],
        &["tool", "call", "fs.read", &named],
        &["tool", "call", "fs.read", &object],
        &["tool", "call", "fs.read", EVIL],
        &["tool", "call", "fs.list", "--as", EVIL],
        &["config", "set", EVIL, "1"],
        &["config", "set", "color", EVIL],
        &["audit", "log", "--event", EVIL],
        &["audit", "log", "--since", EVIL],
        &["audit", "log", "--text", EVIL],
        &["audit", "verify", EVIL],
        &["audit", "verify", "--checkpoint", EVIL],
        &["audit", "show", EVIL],
        &["audit", "export", "--output", "missing/\u{1b}[31m"],
        &["man", EVIL],
        &["--workspace", EVIL, "trust", "show"],
    ] {
        let ran = unfiltered(&world, args);
        assert_clean(args, &ran);
        assert!(!ran.stderr.contains("panicked"), "{args:?}: {ran:?}");
    }
    // What those calls left in the log is as harmless.
    for args in [&["audit", "log"][..], &["audit", "log", "--json"]] {
        assert_clean(args, &unfiltered(&world, args));
    }
    for format in ["jsonl", "ocsf", "csv"] {
        let words = format!("audit export --format {format}");
        let ran = at_terminal(&world, &words, Typed::Nothing);
        assert_eq!(ran.code, Some(0), "{format}: {ran:?}");
        assert!(ran.stdout.contains("fs.read"), "{format}: {ran:?}");
        assert_clean(&["audit", "export", format], &ran);
    }
}

#[test]
fn no_file_can_send_control_sequences_to_the_terminal() {
    let world = World::governed();
    world.write(EVIL, "TODO find me\n");
    world.write("text.txt", format!("TODO {EVIL}\n"));
    world.write(
        "evil.yaml",
        format!("version: 1\n# {EVIL}\nrules:\n  - name: \"{EVIL}\"\n"),
    );
    let quoted = "x\\e[31m\\e]0;owned\\a\\u009b2J\\u202ez";
    world.write(
        "quoted.yaml",
        format!("version: 1\nrules:\n  - name: \"{quoted}\"\n    match: {{ syscall: \"{quoted}\" }}\n    action: \"{quoted}\"\n    reason: \"{quoted}\"\n"),
    );
    world.write(
        "tests.yaml",
        format!("tests:\n  - name: \"{quoted}\"\n    request: {{ syscall: fs.read, path: a }}\n    expect: deny\n"),
    );
    for args in [
        &["tool", "call", "fs.list"][..],
        &["tool", "call", "search.glob", "pattern=*"],
        &["tool", "call", "search.grep", "pattern=TODO"],
        &["tool", "call", "search.grep", "pattern=TODO", "--json"],
        &["tool", "call", "fs.read", "path=text.txt"],
        &["policy", "check", "evil.yaml"],
        &["policy", "check", "quoted.yaml"],
        &["policy", "check", "quoted.yaml", "--json"],
        &["policy", "test", "tests.yaml"],
        &["policy", "test", "tests.yaml", "--json"],
        &["policy", "update", "quoted.yaml"],
    ] {
        assert_clean(args, &unfiltered(&world, args));
    }
    // A whole workspace by that name, with an unapproved policy inside.
    let evil = world.path("away").join(EVIL);
    std::fs::create_dir_all(evil.join(".airlock/plugins")).unwrap();
    std::fs::write(evil.join(".airlock/policy.yaml"), format!("# {EVIL}\n")).unwrap();
    std::fs::write(evil.join(".airlock/plugins").join(EVIL), "").unwrap();
    let directory = evil.to_str().unwrap();
    for line in [
        &["trust"][..],
        &["trust", "show"],
        &["config", "path"],
        &["policy", "check"],
    ] {
        let mut args = vec!["--workspace", directory];
        args.extend(line);
        assert_clean(&args, &unfiltered(&world, &args));
    }
}

#[test]
fn arguments_that_are_no_text_are_refused_in_words() {
    let mut world = World::governed();
    let raw = || OsString::from_vec(vec![b'a', 0xff, 0xfe]);
    for (shown, args) in [
        ("[not UTF-8]", vec![raw()]),
        (
            "tool call [not UTF-8]",
            vec!["tool".into(), "call".into(), raw()],
        ),
        (
            "policy check [not UTF-8]",
            vec!["policy".into(), "check".into(), raw()],
        ),
        (
            "config set color [not UTF-8]",
            vec!["config".into(), "set".into(), "color".into(), raw()],
        ),
        (
            "--workspace [not UTF-8] trust show",
            vec!["--workspace".into(), raw(), "trust".into(), "show".into()],
        ),
    ] {
        let mut command = world.command(&args);
        let ran = world.record(shown, &mut command);
        assert!(matches!(ran.code, Some(1 | 2)), "{shown}");
    }
    world.compare("hostile_bytes");
}

#[test]
fn endless_arguments_give_short_answers() {
    let world = World::governed();
    let long = "x".repeat(100_000);
    let pair = format!("path={long}");
    for args in [
        &[long.as_str()][..],
        &["tool", "call", &long],
        &["tool", "call", "fs.read", &long],
        &["tool", "call", "fs.read", &pair],
        &["config", "set", &long, "1"],
        &["config", "set", "color", &long],
        &["audit", "log", "--event", &long],
        &["audit", "log", "--since", &long],
        &["policy", "explain", &long],
        &["policy", "explain", "fs.read", "--mode", &long],
    ] {
        let ran = world.quiet(args);
        let start: Vec<&str> = args
            .iter()
            .map(|word| word.get(..20).unwrap_or(word))
            .collect();
        assert!(matches!(ran.code, Some(1..=3)), "{start:?}: {:?}", ran.code);
        assert!(
            ran.stderr.len() < 2_000,
            "{start:?}: {} bytes",
            ran.stderr.len()
        );
    }
}

/// Makes a pipe of the workspace that nobody writes to.
fn pipe(world: &World, name: &str) {
    let path = world.workspace().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let made = finished(program("mkfifo").arg(path));
    assert_eq!(made.code, Some(0), "{made:?}");
}

/// `airlock WORDS`, ended after a minute: a test of what would wait for ever fails and does not hang.
fn ending(world: &World, words: &str) -> Ran {
    let words: Vec<&str> = words.split_whitespace().collect();
    finished(&mut world.through(&["timeout", "60"], &words))
}

#[test]
fn a_file_without_an_end_is_refused_and_not_read() {
    let world = World::governed();
    pipe(&world, "pipe");
    std::os::unix::fs::symlink("/dev/zero", world.workspace().join("zero")).unwrap();
    for command in [
        "policy check",
        "policy test",
        "policy test --policy",
        "policy diff",
        "policy update",
        "policy explain fs.read --path a --policy",
        "tool check",
        "workflow check",
        "audit verify",
        "audit verify --checkpoint",
    ] {
        for file in ["pipe", "zero"] {
            let ran = ending(&world, &format!("{command} {file}"));
            assert_eq!(ran.code, Some(1), "{command} {file}: {ran:?}");
            let why = "it is no regular file";
            assert!(ran.stderr.contains(why), "{command} {file}: {ran:?}");
        }
    }
    let ran = ending(&world, "run task --model script:pipe");
    assert!(ran.stderr.contains("it is no regular file"), "{ran:?}");
}

#[test]
fn a_file_without_an_end_in_a_workspace_holds_nobody_who_looks_at_it() {
    let world = World::project();
    pipe(&world, ".airlock/policy.yaml");
    let ran = ending(&world, "policy check");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("it is no regular file"), "{ran:?}");
    let world = World::project();
    pipe(&world, ".airlock/plugins/odd/plugin.yaml");
    let ran = ending(&world, "config set plugins.odd.key value");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("there is no plugin `odd`"), "{ran:?}");
}

#[test]
fn a_link_to_a_regular_file_is_read() {
    let world = World::governed();
    let link = world.workspace().join("linked.yaml");
    std::os::unix::fs::symlink(".airlock/policy.yaml", link).unwrap();
    let ran = ending(&world, "policy check linked.yaml");
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

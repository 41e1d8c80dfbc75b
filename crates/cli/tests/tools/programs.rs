//! `shell.run`, `test.run`, and tools that the state things are in does not allow.

use super::support::{Place, denied, done, failed, put_back};
use airlock_kernel::Front;
use serde_json::json;

const POLICY: &str = "\
version: 1
rules:
  - name: read
    match: { effect: read, path_glob: \"**\" }
    action: allow
  - name: env
    match: { effect: read, path_glob: \"**/.env\" }
    action: deny
  - name: run
    match: { syscall: [exec.run, test.run, git.commit] }
    action: allow
  - name: change
    match: { effect: [write, delete], path_glob: \"out/**\" }
    action: allow
";

fn with_shell() -> String {
    POLICY.replace("[exec.run, test.run", "[shell.run, exec.run, test.run")
}

#[test]
fn a_shell_is_off_until_policy_allows_it() {
    let place = Place::new(POLICY, &[("a", "a\n")]);
    let line = json!({ "command": "echo $((1+2)) | cat; pwd" });
    denied(place.call("shell.run", line.clone()));
    for front in [Front::Cli, Front::Mcp, Front::Server] {
        denied(place.submit(front, "shell.run", line.clone()));
    }
    let place = Place::new(&with_shell(), &[("a", "a\n"), (".env", "password\n")]);
    let ran = done(place.call("shell.run", line)).value;
    assert!(ran["stdout"].as_str().unwrap().starts_with("3\n"), "{ran}");
    let tricks = json!({ "command": "cat .env; mkdir -p out; echo x >out/x; echo y >y; exit 3" });
    let ran = done(place.call("shell.run", tricks));
    assert_eq!((&ran.value["exit"], put_back(&ran)), (&json!(3), vec!["y"]));
    assert!(!ran.value.to_string().contains("password"), "{}", ran.value);
    assert!(!place.real("y").exists() && !place.real("out").exists());
    for (arguments, id) in [
        (json!({ "command": "  " }), "IV-02"),
        (json!({ "command": "a\0b" }), "IV-02"),
        (json!({ "command": "x".repeat(70_000) }), "IV-05"),
        (json!({ "command": "x", "directory": ".." }), "IV-03"),
        (
            json!({ "command": "x", "environment": { "LD_PRELOAD": "x" } }),
            "IV-04",
        ),
        (
            json!({ "command": "x", "environment": { "HOME": "/x" } }),
            "a sandbox sets `HOME` itself",
        ),
        (json!({ "command": "x", "timeout": "1h" }), "IV-05"),
    ] {
        let failure = failed(place.call("shell.run", arguments));
        assert_eq!(failure.code, "invalid_arguments");
        assert!(failure.what.contains(id), "{}", failure.what);
    }
}

#[test]
fn tests_are_found_run_and_counted() {
    let python = [
        ("pytest.ini", "[pytest]\naddopts = -p no:cacheprovider\n"),
        (
            "test_it.py",
            "import pytest\ndef test_a(): pass\ndef test_b(): assert 0\n\
             @pytest.mark.skip\ndef test_c(): pass\n",
        ),
    ];
    let place = Place::new(POLICY, &python);
    let ran = done(place.call("test.run", json!({}))).value;
    assert_eq!(ran["framework"], "pytest", "{ran}");
    let counts = json!({ "passed": 1, "failed": 1, "ignored": 1 });
    assert_eq!((&ran["tests"], &ran["exit"]), (&counts, &json!(1)), "{ran}");
    let one = done(place.call("test.run", json!({ "filter": "test_a" }))).value;
    assert_eq!(
        (&one["tests"]["passed"], &one["exit"]),
        (&json!(1), &json!(0)),
        "{one}"
    );
    let node = [
        ("package.json", "{}"),
        (
            "a.test.js",
            "const test = require('node:test');\ntest('a', () => {});\n\
             test('b', () => { throw 1 });\n",
        ),
    ];
    let place = Place::new(POLICY, &node);
    let ran = done(place.call("test.run", json!({}))).value;
    assert_eq!(
        (&ran["framework"], &ran["tests"]["passed"]),
        (&json!("node"), &json!(1)),
        "{ran}"
    );
}

#[test]
fn a_program_that_is_not_there_is_told_as_such() {
    let policy = format!("{POLICY}commands:\n  - executable: not-there\n  - executable: true\n");
    let place = Place::new(&policy, &[]);
    let ran = done(place.call("exec.run", json!({ "command": ["not-there"] }))).value;
    assert_eq!(
        (&ran["outcome"], &ran["not_started"], &ran["exit"]),
        (&json!("not_started"), &json!("not_found"), &json!(127)),
        "{ran}"
    );
    let ran = done(place.call("exec.run", json!({ "command": ["true"] }))).value;
    assert_eq!(ran.get("not_started"), None, "{ran}");
}

#[test]
fn no_argument_of_a_test_run_becomes_an_option() {
    let place = Place::new(POLICY, &[("a", "a\n")]);
    let nothing = failed(place.call("test.run", json!({})));
    assert_eq!(nothing.code, "invalid_arguments");
    for arguments in [
        json!({ "framework": "pytest", "filter": "--collect-only" }),
        json!({ "framework": "pytest", "filter": "" }),
        json!({ "framework": "make" }),
        json!({ "framework": "pytest", "arguments": ["-p", "evil"] }),
    ] {
        let failure = failed(place.call("test.run", arguments.clone()));
        assert_eq!(failure.code, "invalid_arguments", "{arguments}");
    }
}

#[test]
fn a_tool_that_the_state_forbids_says_what_there_is_instead() {
    let place = Place::new(POLICY, &[("a", "a\n")]);
    let failure = failed(place.call("git.commit", json!({ "message": "x" })));
    assert_eq!(
        (failure.code, failure.retryable),
        ("tool_unavailable", false)
    );
    assert!(failure.what.contains("`no session`"), "{}", failure.what);
    assert!(failure.fix.unwrap().contains("git.status"));
    let nobody = POLICY.replace(", git.commit", "");
    let place = Place::new(&nobody, &[("a", "a\n")]);
    denied(place.call("git.commit", json!({ "message": "x" })));
}

#[test]
fn a_tool_nobody_registered_is_refused() {
    let place = Place::new(POLICY, &[("a", "a\n")]);
    for name in [
        "fs.chmod",
        "git.push",
        "shell",
        "FS.WRITE",
        "fs.write ",
        "plugin.tool",
        "",
    ] {
        assert_eq!(
            failed(place.call(name, json!({}))).code,
            "unknown_tool",
            "{name}"
        );
    }
}

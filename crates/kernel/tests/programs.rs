//! Programs on the road: decided, planned, recorded before they run, and told how they ended.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_audit::Stage;
use airlock_kernel::{Front, Kernel, Machine};
use serde_json::json;
use std::collections::BTreeMap;
use support::{Place, action, at, denied, done, failed, of_action, submit, token, word};

/// Agents may run two programs, and read everything but `.env`.
const RUNS: &str = "\
version: 1
commands:
  - executable: cat
  - executable: sleep
  - executable: sh
templates:
  code-executor: { memory: 256MiB }
rules:
  - name: read-all
    match: { effect: read, path_glob: \"**\" }
    action: allow
  - name: keep-env
    match: { effect: read, path_glob: \"**/.env\" }
    action: deny
  - name: texts
    match: { effect: [write, delete], path_glob: \"*.txt\" }
    action: allow
  - name: run
    match: { syscall: exec.run }
    action: allow
    constraints: { require_sandbox: process, max_duration: 20s }
";

fn open(place: &Place) -> Kernel {
    std::fs::create_dir_all(place.beside("home")).unwrap();
    place.open().on(Machine {
        home: place.beside("home"),
        own: vec![place.beside("state")],
        environment: BTreeMap::from([("SECRET".into(), token().into())]),
    })
}

fn place() -> Place {
    Place::governed(
        RUNS,
        &[
            ("a.txt", "hello\n"),
            (".env", "password\n"),
            ("run.sh", "echo staged > b.txt\nenv\n"),
        ],
    )
}

#[test]
fn a_program_runs_within_its_plan_and_the_tree_stays_as_it_is() {
    let place = place();
    let kernel = open(&place);
    let outcome = submit(
        &kernel,
        Front::Agent,
        "exec.run",
        json!({ "command": ["sh", "run.sh"] }),
    );
    let id = action(&outcome);
    let result = done(outcome);
    assert_eq!(result.value["exit"], 0, "{}", result.value);
    assert_eq!(result.value["changes"], 1);
    let shown = result.value["stdout"].as_str().unwrap();
    assert!(
        shown.contains("PATH=") && !shown.contains("SECRET"),
        "{shown}"
    );
    assert!(!place.path("b.txt").exists());
    let entries = of_action(&kernel, &id);
    let attempt = at(&entries, Stage::Attempt);
    assert_eq!(attempt.metadata["template"], "code-executor");
    assert_eq!(attempt.metadata["stage"], "default");
    let limits = &attempt.metadata["limits"];
    assert!(
        limits.contains("memory 256MiB") && limits.contains("duration 20s"),
        "{limits}"
    );
    let ended = at(&entries, Stage::Outcome);
    assert_eq!(ended.metadata["exit"], "0");
    assert_eq!(ended.metadata["launcher"], "native");
    assert!(ended.sandbox.is_some());
    // What it wrote is there for the next one.
    let again = submit(
        &kernel,
        Front::Agent,
        "exec.run",
        json!({ "command": ["cat", "b.txt"] }),
    );
    assert_eq!(done(again).value["stdout"], "staged\n");
}

#[test]
fn what_may_not_be_read_may_not_be_read_by_a_program() {
    let place = place();
    let kernel = open(&place);
    let read = |path: &str| json!({ "path": path });
    denied(submit(&kernel, Front::Agent, "fs.read", read(".env")));
    for command in [
        json!(["cat", ".env"]),
        json!(["env", "cat", "./a/../.env"]),
        json!(["cat", "/proc/self/cwd/.env"]),
    ] {
        let ran = done(submit(
            &kernel,
            Front::Agent,
            "exec.run",
            json!({ "command": command }),
        ));
        assert_ne!(ran.value["exit"], 0, "{}", ran.value);
        assert!(!ran.value.to_string().contains("password"), "{}", ran.value);
    }
    // The control: the same program reads what it may.
    let ran = done(submit(
        &kernel,
        Front::Agent,
        "exec.run",
        json!({ "command": ["cat", "a.txt"] }),
    ));
    assert_eq!(ran.value["stdout"], "hello\n");
}

#[test]
fn checks_have_their_ids_and_a_refusal_runs_nothing() {
    let place = place();
    let kernel = open(&place);
    for (arguments, code, id) in [
        (
            json!({ "command": ["curl"] }),
            "command_not_listed",
            "IV-01",
        ),
        (
            json!({ "command": ["./cat"] }),
            "command_not_listed",
            "IV-01",
        ),
        (
            json!({ "command": ["nice", "curl"] }),
            "command_not_listed",
            "IV-01",
        ),
        (
            json!({ "command": ["sh", "-c", "true"] }),
            "invalid_arguments",
            "IV-01",
        ),
        (
            json!({ "command": ["xargs", "cat"] }),
            "invalid_arguments",
            "IV-01",
        ),
        (
            json!({ "command": ["cat a.txt"] }),
            "invalid_arguments",
            "IV-02",
        ),
        (
            json!({ "command": ["cat"], "directory": "../state" }),
            "invalid_arguments",
            "IV-03",
        ),
        (
            json!({ "command": ["cat"], "environment": { "LD_PRELOAD": "x" } }),
            "invalid_arguments",
            "IV-04",
        ),
        (
            json!({ "command": ["cat"], "memory": "2GiB" }),
            "invalid_arguments",
            "IV-05",
        ),
        (
            json!({ "command": ["cat"], "timeout": "11m" }),
            "invalid_arguments",
            "IV-05",
        ),
        (
            json!({ "command": ["cat"], "cpus": 2 }),
            "invalid_arguments",
            "IV-05",
        ),
        (
            json!({ "command": ["cat"], "child_processes": 101 }),
            "invalid_arguments",
            "IV-05",
        ),
    ] {
        let failure = failed(submit(&kernel, Front::Agent, "exec.run", arguments.clone()));
        assert_eq!(failure.code, code, "{arguments}");
        assert!(failure.what.contains(id), "{arguments}: {}", failure.what);
        assert!(failure.fix.is_some(), "{arguments}");
    }
    let bound = failed(submit(
        &kernel,
        Front::Agent,
        "exec.run",
        json!({ "command": ["cat"], "memory": "2GiB" }),
    ));
    assert!(
        bound
            .fix
            .unwrap()
            .contains("the template `code-executor` bounds")
    );
    assert!(!support::state(&kernel).join("stages/default").exists());
}

#[test]
fn time_input_and_output_are_bounded() {
    let place = place();
    let kernel = open(&place);
    let late = json!({ "command": ["sleep", "60"], "timeout": "1s" });
    let ran = done(submit(&kernel, Front::Agent, "exec.run", late));
    assert_eq!(
        (&ran.value["outcome"], &ran.value["exit"]),
        (&json!("timed_out"), &json!(124))
    );
    let fed = json!({ "command": ["cat"], "stdin": format!("{}\nend", "x".repeat(500_000)) });
    let ran = done(submit(&kernel, Front::Agent, "exec.run", fed));
    let shown = ran.value["stdout"].as_str().unwrap();
    assert!(
        ran.cut && shown.ends_with("end") && shown.len() < 20_000,
        "{}",
        shown.len()
    );
}

#[test]
fn a_password_in_a_command_is_not_in_the_log() {
    let place = place();
    let kernel = open(&place);
    let call = json!({ "command": ["cat", token()] });
    let outcome = submit(&kernel, Front::Agent, "exec.run", call);
    assert_eq!(word(&outcome), "done");
    assert!(!support::log_text(&kernel).contains(&token()));
}

#[test]
fn a_kernel_that_knows_no_machine_runs_nothing() {
    let place = place();
    let kernel = place.open();
    let failure = failed(submit(
        &kernel,
        Front::Agent,
        "exec.run",
        json!({ "command": ["cat"] }),
    ));
    assert_eq!(failure.code, "tier_unavailable");
}

#[test]
fn a_kernel_without_a_worker_changes_no_files() {
    let place = place();
    let kernel = open(&place);
    let write = json!({ "path": "a.txt", "text": "x" });
    let failure = failed(submit(&kernel, Front::Agent, "fs.write", write));
    assert_eq!(failure.code, "tier_unavailable");
    assert!(!support::state(&kernel).join("stages").exists());
}

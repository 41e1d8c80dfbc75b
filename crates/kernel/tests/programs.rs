//! Programs on the road: decided, planned, recorded before they run, and told how they ended.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_audit::{EventType, Stage};
use airlock_core::ActionId;
use airlock_kernel::{Front, Kernel, Machine, Outcome};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use support::{
    Obstacle, Place, action, at, denied, done, failed, of_action, state, submit, token, word,
};

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
    for arguments in [
        json!({ "command": ["curl"] }),
        json!({ "command": ["./cat"] }),
        json!({ "command": ["nice", "curl"] }),
    ] {
        let failure = failed(submit(&kernel, Front::Agent, "exec.run", arguments.clone()));
        assert_eq!(failure.code, "command_not_listed", "{arguments}");
        assert!(
            failure.what.contains("IV-01"),
            "{arguments}: {}",
            failure.what
        );
        assert!(failure.fix.is_some(), "{arguments}");
    }
    for (id, arguments) in [
        ("IV-01", json!({ "command": ["sh", "-c", "true"] })),
        ("IV-01", json!({ "command": ["sh", "+c", "true"] })),
        (
            "IV-01",
            json!({ "command": ["env", "sh"], "stdin": "true" }),
        ),
        (
            "IV-01",
            json!({ "command": ["sh", "/dev/stdin"], "stdin": "true" }),
        ),
        ("IV-01", json!({ "command": ["xargs", "cat"] })),
        ("IV-02", json!({ "command": ["cat a.txt"] })),
        (
            "IV-03",
            json!({ "command": ["cat"], "directory": "../state" }),
        ),
        (
            "IV-04",
            json!({ "command": ["cat"], "environment": { "LD_PRELOAD": "x" } }),
        ),
        ("IV-05", json!({ "command": ["cat"], "memory": "5GiB" })),
        ("IV-05", json!({ "command": ["cat"], "timeout": "11m" })),
        ("IV-05", json!({ "command": ["cat"], "cpus": 5 })),
        (
            "IV-05",
            json!({ "command": ["cat"], "child_processes": 101 }),
        ),
        (
            "IV-03",
            json!({ "command": ["cat"], "inputs": ["../state/x"] }),
        ),
        (
            "IV-03",
            json!({ "command": ["cat"], "outputs": ["/etc/passwd"] }),
        ),
        (
            "IV-05",
            json!({ "command": ["cat"], "outputs": vec!["a.txt"; 65] }),
        ),
        (
            "IV-05",
            json!({ "command": ["cat"], "purpose": "x".repeat(501) }),
        ),
    ] {
        let failure = failed(submit(&kernel, Front::Agent, "exec.run", arguments.clone()));
        assert_eq!(failure.code, "invalid_arguments", "{arguments}");
        assert!(failure.what.contains(id), "{arguments}: {}", failure.what);
        assert!(failure.fix.is_some(), "{arguments}");
    }
    let bound = failed(submit(
        &kernel,
        Front::Agent,
        "exec.run",
        json!({ "command": ["cat"], "memory": "5GiB" }),
    ));
    assert_eq!(bound.fix.as_deref(), Some("give 64MiB to 4GiB"));
    assert!(!support::state(&kernel).join("stages/default").exists());
}

/// The limits a call was planned with, as its attempt says.
fn planned(kernel: &Kernel, arguments: serde_json::Value) -> String {
    let outcome = submit(kernel, Front::Agent, "exec.run", arguments);
    let records = of_action(kernel, &action(&outcome));
    assert_eq!(word(&outcome), "done");
    let attempt = at(&records, Stage::Attempt);
    attempt.metadata["limits"].clone()
}

#[test]
fn the_contract_bounds_a_run_in_place_of_the_template_and_policy_narrows_it() {
    let most = json!({
        "command": ["cat"], "timeout": "10m", "memory": "4GiB", "cpus": 4, "child_processes": 100,
    });
    let place = place();
    let narrowed = planned(&open(&place), most.clone());
    assert!(
        narrowed.starts_with("memory 256MiB, cpus 4, pids 101, duration 20s"),
        "{narrowed}"
    );
    let wide = RUNS.replace("templates:\n  code-executor: { memory: 256MiB }\n", "");
    let wide = wide.replace(", max_duration: 20s", "");
    let place = Place::governed(&wide, &[]);
    let limits = planned(&open(&place), most);
    assert!(
        limits.starts_with("memory 4GiB, cpus 4, pids 101, duration 10m"),
        "{limits}"
    );
    let usual = planned(&open(&place), json!({ "command": ["cat"] }));
    assert!(
        usual.starts_with("memory 512MiB, cpus 1, pids 11, duration 30s"),
        "{usual}"
    );
}

#[test]
fn without_its_inputs_nothing_runs_and_nobody_learns_what_they_may_not_read() {
    let place = place();
    let kernel = open(&place);
    let run = |inputs: &[&str]| {
        let call = json!({ "command": ["sh", "run.sh"], "inputs": inputs });
        submit(&kernel, Front::Agent, "exec.run", call)
    };
    let absent = failed(run(&["a.txt", "absent"]));
    assert!(
        absent.what.starts_with("IV-03: the input `absent`"),
        "{}",
        absent.what
    );
    let denied = failed(run(&[".env"]));
    assert_eq!(
        (denied.code, denied.what),
        (absent.code, absent.what.replace("absent", ".env"))
    );
    assert!(!support::state(&kernel).join("stages/default").exists());
    assert_eq!(done(run(&["a.txt"])).value["changes"], 1);
}

#[expect(clippy::disallowed_methods, reason = "a repository is made with git")]
fn git(place: &Place, words: &[&str]) {
    let ran = std::process::Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
        .args(words)
        // Whatever a hook of git's says in the environment is about another repository.
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .current_dir(place.root())
        .status();
    assert!(ran.unwrap().success(), "{words:?}");
}

#[test]
fn history_is_told_of_no_path_that_may_not_be_read() {
    let files = ["a.txt", ".env", "d/.env", "d/b.txt"];
    let runs = "syscall: [exec.run, git.log, git.diff]";
    let policy = RUNS.replace("syscall: exec.run", runs);
    let place = Place::governed(&policy, &files.map(|path| (path, "x\n")));
    git(&place, &["init", "-q", "-b", "main"]);
    for path in files {
        git(&place, &["add", path]);
        git(&place, &["commit", "-q", "-m", path]);
    }
    let kernel = open(&place);
    let ask = |tool: &str, arguments| submit(&kernel, Front::Agent, tool, arguments);
    for (arguments, want) in [
        (json!({}), vec!["d/b.txt", "d/.env", ".env", "a.txt"]),
        (json!({ "path": "a.txt" }), vec!["a.txt"]),
        (json!({ "path": "absent.txt" }), vec![]),
        // A directory's log leaves out what only touches what is denied in it.
        (json!({ "path": "d" }), vec!["d/b.txt"]),
    ] {
        let log = done(ask("git.log", arguments.clone())).value;
        let commits = log["commits"].as_array().unwrap().iter();
        let told: Vec<&str> = commits
            .map(|one| one["subject"].as_str().unwrap())
            .collect();
        assert_eq!(told, want, "{arguments}");
    }
    // The last of them was never there.
    for path in [".env", "d/.env", "./d/../.env", "gone/.env"] {
        for tool in ["git.log", "git.diff"] {
            let failure = failed(ask(tool, json!({ "path": path })));
            assert_eq!(failure.code, "withheld", "{tool} {path}: {}", failure.what);
        }
    }
    done(ask("git.diff", json!({ "path": "a.txt" })));
}

#[test]
fn the_files_a_run_is_to_leave_come_back_and_only_those_that_may_be_read() {
    let place = place();
    let kernel = open(&place);
    std::os::unix::fs::symlink(".env", place.root().join("link.txt")).unwrap();
    std::fs::write(place.root().join("binary.txt"), [0_u8, 1, 2]).unwrap();
    let call = json!({
        "command": ["sh", "run.sh"], "purpose": "to see what it leaves",
        "outputs": ["b.txt", "absent.txt", ".env", "link.txt", "binary.txt"],
    });
    let outcome = submit(&kernel, Front::Agent, "exec.run", call);
    let records = of_action(&kernel, &action(&outcome));
    let noted = &at(&records, Stage::Attempt).metadata["purpose"];
    assert_eq!(noted, "to see what it leaves");
    assert_eq!(
        done(outcome).value["outputs"],
        json!([
            { "path": "b.txt", "bytes": 7, "text": "staged\n", "truncated": false },
            { "path": "absent.txt", "missing": true },
            { "path": ".env", "missing": true },
            { "path": "link.txt", "missing": true },
            { "path": "binary.txt", "bytes": 3, "binary": true },
        ])
    );
}

#[test]
fn however_much_a_run_leaves_what_was_put_back_is_told() {
    let place = place();
    place.write("much.txt", "x".repeat(40_000));
    place.write("denied.sh", "cat much.txt; echo no > new.bin\n");
    let kernel = open(&place);
    let call = json!({ "command": ["sh", "denied.sh"], "outputs": ["much.txt"] });
    let ran = done(submit(&kernel, Front::Agent, "exec.run", call));
    assert!(ran.cut, "{}", ran.value);
    let put_back = ran.value["put_back"].as_array().unwrap();
    assert_eq!(put_back.len(), 1, "{}", ran.value);
    assert_eq!(put_back[0]["path"], "new.bin");
    assert_eq!(ran.value["stage"], "default");
    for text in [&ran.value["outputs"][0]["text"], &ran.value["stdout"]] {
        let text = text.as_str().unwrap();
        assert!(text.contains("bytes cut") && text.len() > 5_000, "{text}");
    }
}

#[test]
fn what_was_put_back_is_named_without_secrets_that_only_policy_knows() {
    let secrets = "secrets: { patterns: [{ name: badge, pattern: \"ACME-[0-9]{6}\" }] }\n";
    let files = [("denied.sh", "echo no > ACME-123456.bin\n")];
    let place = Place::governed(&format!("{RUNS}{secrets}"), &files);
    let kernel = open(&place);
    let call = json!({ "command": ["sh", "denied.sh"] });
    let result = done(submit(&kernel, Front::Agent, "exec.run", call));
    let ran = result.ran.unwrap();
    let [back] = ran.put_back.as_slice() else {
        panic!("{:?}", ran.put_back);
    };
    assert_eq!(back.path, "[secret:badge#1].bin");
    assert_eq!(result.value["put_back"][0]["path"], back.path);
    let wire = serde_json::to_string(&ran).unwrap();
    assert!(!wire.contains("ACME-1"), "{wire}");
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

/// Has a run of the agent's be as if it had been cut off, with something left that it may not make.
/// Gives which call it was, and where what it left lies.
fn cut_off(place: &Place) -> (ActionId, PathBuf) {
    let kernel = open(place);
    let command = json!({ "command": ["sh", "run.sh"] });
    let ran = submit(&kernel, Front::Agent, "exec.run", command);
    let (cut, stage) = (action(&ran), state(&kernel).join("stages/default"));
    done(ran);
    kernel.close().unwrap();
    let left = stage.join("upper/half.bin");
    std::fs::write(&left, "half").unwrap();
    let mark = std::fs::read(stage.join("run")).unwrap();
    let about = mark.strip_prefix(b"done").unwrap();
    std::fs::write(stage.join("run"), [&b"open"[..], about].concat()).unwrap();
    (cut, left)
}

#[test]
fn what_a_run_that_was_cut_off_left_is_recorded_before_it_is_put_back_and_told() {
    for (name, arguments, want) in [
        ("fs.read", json!({ "path": "a.txt" }), "done"),
        ("fs.read", json!({ "path": ".env" }), "denied"),
        ("exec.run", json!({ "command": ["cat", "a.txt"] }), "done"),
    ] {
        let place = place();
        let (cut, left) = cut_off(&place);
        let kernel = open(&place);
        let ask = || submit(&kernel, Front::Cli, name, arguments.clone());
        let obstacle = Obstacle::put(&state(&kernel));
        assert_eq!(word(&ask()), "audit_unavailable", "{name}");
        assert!(left.exists(), "{name}: no record, nothing put back");
        drop(obstacle);

        let outcome = ask();
        assert_eq!(word(&outcome), want, "{name}");
        assert!(!left.exists(), "{name}");
        let entries = of_action(&kernel, &cut);
        let entry = entries.last().unwrap();
        assert_eq!(
            (entry.event, entry.stage, entry.syscall.as_deref()),
            (EventType::ToolResult, Stage::Note, Some("exec.run"))
        );
        assert_eq!(entry.metadata["put_back"], r#"["half.bin"]"#);
        let found = action(&outcome);
        assert_eq!(entry.metadata["found_by"], found.to_string());
        let caller = entry.caller.as_ref().unwrap();
        assert_eq!(caller.plugin.to_string(), "agent");
        // It is not the finder's own doing.
        let own = of_action(&kernel, &found);
        assert!(own.iter().all(|one| !one.metadata.contains_key("put_back")));
        let runs = name == "exec.run";
        if let Outcome::Done(done) = outcome {
            let told = &done.value["put_back"][0];
            assert_eq!(told["path"], "half.bin", "{}", done.value);
            assert_eq!(told["earlier"], true, "{}", done.value);
        }
        // What may stay may be half written, until another run has ended.
        let diff = kernel.stages().diff("default").unwrap().unwrap();
        assert_eq!((diff.changes.len(), diff.cut_off), (1, !runs), "{name}");
    }
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

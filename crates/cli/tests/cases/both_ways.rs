//! A command says and does the same whether a kernel runs for its workspace or not.

use crate::support::{Nap, Ran, Typed, World, answering, at_terminal, fed, normalised, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::process::Stdio;

/// What a command line runs in a world: words, and what it reads.
struct Line {
    words: &'static [&'static str],
    input: Option<&'static str>,
}

const fn line(words: &'static [&'static str]) -> Line {
    Line { words, input: None }
}

/// A line of every kind of command that reaches a kernel, and of every way it ends.
const LINES: &[Line] = &[
    line(&["tool", "call", "fs.read", "path=README.md"]),
    line(&["tool", "call", "fs.read", "path=README.md", "--json"]),
    line(&["tool", "call", "fs.list"]),
    line(&["tool", "call", "fs.exists", "path=src", "--json"]),
    line(&["tool", "call", "search.glob", "pattern=**/*.rs"]),
    line(&["tool", "call", "search.grep", "pattern=TODO", "--json"]),
    line(&["tool", "call", "fs.read", "path=long.txt"]),
    line(&["tool", "call", "fs.read", "path=secret.txt"]),
    line(&["tool", "call", "fs.read"]),
    line(&["tool", "call", "fs.read", "path=missing.md"]),
    line(&["tool", "call", "fs.read", "path=missing.md", "--json"]),
    line(&["tool", "call", "fs.raed", "path=README.md"]),
    line(&["tool", "call", "search.grep", "pattern=("]),
    line(&["tool", "call", "fs.read", "path=.env", "--as", "agent"]),
    line(&[
        "tool",
        "call",
        "fs.read",
        "path=.env",
        "--as",
        "agent",
        "--json",
    ]),
    line(&["tool", "call", "fs.read", "path=/etc/hostname"]),
    line(&["tool", "call", "fs.list", "--as", "mcp"]),
    line(&["tool", "call", "trust.approve", "digest=x", "--as", "agent"]),
    line(&[
        "tool",
        "call",
        "exec.run",
        "--as",
        "agent",
        "{\"command\": [\"curl\", \"x\"]}",
    ]),
    line(&["exec", "--", "sh", "-c", "echo out; echo err >&2; exit 3"]),
    line(&["exec", "--", "sh", "-c", "echo new > made; rm README.md"]),
    line(&["diff", "--stat"]),
    line(&["stage", "list", "--json"]),
    Line {
        words: &["exec", "--", "sort"],
        input: Some("b\na\n"),
    },
    line(&["exec", "--", "no-such-program"]),
    line(&["exec", "--", "sh", "-c", "kill -9 $$"]),
    line(&["exec", "--timeout", "1s", "--", "sleep", "60"]),
    line(&["exec", "--env", "A=1", "--", "sh", "-c", "echo $A$TZ$HOME"]),
    line(&["exec", "--no-stage", "--", "sh", "-c", "echo x > made2"]),
    line(&["exec", "--json", "--", "sh", "-c", "printf '\\377'; exit 5"]),
    line(&["exec", "--template", "ai-provider", "--", "true"]),
    line(&["exec", "--memory", "900GiB", "--", "true"]),
    line(&["exec", "--", "cat", ".env"]),
    line(&["exec", "--", "head", "-c", "3000000", "/dev/zero"]),
    line(&["stage", "drop", "default"]),
    line(&["policy", "explain", "fs.read", "--path", ".env"]),
    line(&["session", "list"]),
    line(&["session", "show", "0192f3a4-7c1e-7000-8000-000000000000"]),
    line(&["approvals", "list", "--all", "--json"]),
    line(&["approvals", "grants"]),
    line(&["approvals", "revoke", "1f2e3d4c"]),
    line(&["undo", "--list"]),
    line(&["merge", "--json"]),
    line(&["audit", "log", "-n", "1", "--event", "policy"]),
    line(&["trust", "show"]),
    line(&["config", "show"]),
];

/// Everything that starts a program, and commands a person typed in between: each works on the stage
/// that the one before had.
const PROGRAMS: &[Line] = &[
    line(&["exec", "--", "true"]),
    line(&["tool", "call", "fs.write", "path=src/new.rs", "text=new"]),
    line(&["exec", "--", "cat", "src/new.rs"]),
    line(&[
        "tool",
        "call",
        "fs.patch",
        "{\"patch\": \"--- a/src/new.rs\\n+++ b/src/new.rs\\n@@ -1 +1 @@\\n-new\\n\\\\ No newline at end of file\\n+newer\\n\"}",
    ]),
    line(&["exec", "--", "true"]),
    line(&[
        "tool",
        "call",
        "exec.run",
        "{\"command\": [\"wc\", \"-c\", \"src/new.rs\"]}",
    ]),
    line(&[
        "tool",
        "call",
        "exec.run",
        "--as",
        "agent",
        "{\"command\": [\"cp\", \"src/new.rs\", \"src/copy.rs\"]}",
    ]),
    line(&["exec", "--", "true"]),
    line(&["tool", "call", "git.status"]),
    line(&["tool", "call", "test.run", "--json"]),
    line(&[
        "tool",
        "call",
        "fs.move",
        "from=src/new.rs",
        "to=src/old.rs",
    ]),
    line(&["exec", "--", "true"]),
    line(&["tool", "call", "fs.delete", "path=src/old.rs"]),
    line(&["tool", "call", "shell.run", "command=ls src | wc -l"]),
    line(&["diff", "--stat"]),
    line(&["stage", "drop", "default"]),
    line(&["diff"]),
];

const MAY_RUN: &str = "\
version: 1
commands: [{ executable: wc }, { executable: cp }]
rules:
  - { name: read, match: { effect: read, path_glob: '**' }, action: allow }
  - { name: run, match: { syscall: [exec.run, shell.run, test.run, 'git.*'] }, action: allow }
  - { name: change, match: { effect: [write, delete], path_glob: '**' }, action: allow }
";

/// Every way a run ends, and every way in which there is none.
const RUNS: &[Line] = &[
    line(&["workflow", "run", "look", "path=README.md"]),
    line(&["workflow", "run", "look", "path=README.md", "--json"]),
    line(&["workflow", "run", "nap"]),
    line(&["workflow", "run", "read", "path=missing.md", "--json"]),
    line(&["workflow", "run", "read", "path=/etc/hostname"]),
    line(&["workflow", "run", "read", "path=/etc/hostname", "--json"]),
    line(&["workflow", "run", "ask", "path=README.md"]),
    line(&["workflow", "run", "ask", "path=README.md", "--json"]),
    line(&["workflow", "run", "lok", "path=README.md"]),
    line(&["workflow", "run", "look", "pth=x", "--json"]),
    line(&["workflow", "resume", "nowhere", "--json"]),
    line(&["workflow", "resume", "0"]),
    line(&["workflow", "cancel", "nowhere"]),
    line(&["workflow", "cancel", "0", "--json"]),
];

/// What the runs are of: each workflow is the person's own, and has one step but the last.
const FLOWS: &[(&str, &str)] = &[
    (
        "look",
        "{ id: look, tool: fs.exists, with: { path: '${inputs.path}' } }",
    ),
    (
        "read",
        "{ id: look, tool: fs.read, with: { path: '${inputs.path}' } }",
    ),
    (
        "nap",
        "{ id: look, execute_code: { command: [sh, nap.sh] } }",
    ),
    (
        "ask",
        "{ id: sure, approval: 'Look at ${inputs.path}?' }, { id: look, tool: fs.exists, with: { path: '${inputs.path}' } }",
    ),
];

/// Every way in which installing and switching a plugin ends where nobody is asked.
const PLUGINS: &[Line] = &[
    line(&["plugin", "install", "mine", "--trust", "process"]),
    line(&["plugin", "install", "mine", "--trust", "process", "--json"]),
    line(&["plugin", "install", "mine"]),
    line(&["plugin", "install", "missing", "--json"]),
    line(&["plugin", "enable", "mine"]),
    line(&["plugin", "enable", "mine", "--tools", "x", "--json"]),
    line(&["plugin", "disable", "mine"]),
    line(&["plugin", "disable", "mine", "--json"]),
    line(&["plugin", "remove", "mine"]),
    line(&["plugin", "remove", "mine", "--json"]),
    line(&["plugin", "list", "--json"]),
];

const MAY_NAP: &str = "\
version: 1
commands: [{ executable: sh }]
rules:
  - { name: read, match: { effect: read, path_glob: '**' }, action: allow }
  - { name: run, match: { syscall: exec.run }, action: allow }
";

fn flows() -> World {
    let world = World::under(MAY_NAP);
    world.write("nap.sh", "true\n");
    let directory = world.path("config/airlock/workflows");
    std::fs::create_dir_all(&directory).unwrap();
    for (name, steps) in FLOWS {
        let text = format!(
            "workflow: 1\nname: {name}\nsummary: Test\nversion: 1.0.0\n\
inputs: {{ type: object, properties: {{ path: {{ type: string }} }} }}\n\
steps: [{steps}]\n\
outputs: {{ ok: {{ from: '${{steps.look.ok}}', schema: {{ type: boolean }} }} }}\n"
        );
        std::fs::write(directory.join(format!("{name}.yaml")), text).unwrap();
    }
    world
}

/// A world with a plugin that nobody installed.
fn plugged() -> World {
    let world = World::governed();
    let made = world.quiet(&["plugin", "new", "mine", "--lang", "python"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    world
}

fn world() -> World {
    let world = World::governed();
    world.write("long.txt", "a line of text\n".repeat(3_000));
    let token = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    world.write("secret.txt", format!("token = {token}\n"));
    world
}

fn run(world: &World, line: &Line) -> Ran {
    let mut command = world.command(line.words);
    match line.input {
        Some(input) => fed(&mut command, input),
        None => crate::support::finished(&mut command),
    }
}

/// The directory everything of a world is in.
fn root(world: &World) -> std::path::PathBuf {
    world.workspace().parent().unwrap().to_owned()
}

/// What was said, without what differs from run to run.
fn said(world: &World, ran: &Ran) -> (Option<i32>, String, String) {
    let text = |text: &str| {
        let text = normalised(text, &root(world));
        match serde_json::from_str::<Value>(&text) {
            Ok(mut value) => {
                forget(&mut value);
                value.to_string()
            }
            Err(_) => text,
        }
    };
    (ran.code, text(&ran.stdout), text(&ran.stderr))
}

fn forget(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for name in [
                "wall_ms",
                "peak_memory",
                "created",
                "modified",
                "peer",
                "started",
            ] {
                fields.remove(name);
            }
            fields.values_mut().for_each(forget);
        }
        Value::Array(values) => values.iter_mut().for_each(forget),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What the log keeps of everything, in a few words a record.
fn kept(world: &World) -> Vec<String> {
    let ran = world.quiet(&["audit", "log", "-n", "100000", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let records = ran.stdout.lines().map(|line| {
        let record: Value = serde_json::from_str(line).unwrap();
        let told = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let (caller, request) = (&record["caller"], &record["request"]);
        [
            told(&record["event"]),
            told(&record["stage"]),
            told(&record["syscall"]),
            told(&caller["plugin"]),
            told(&record["decision"]["verdict"]),
            normalised(&request["paths"].to_string(), &root(world)),
        ]
        .join(" ")
    });
    // That there is a kernel that stays, and keeps sandboxes for what comes next, is the one
    // difference; and so a checkpoint comes a few records sooner or later.
    let stays = |record: &String| {
        let of_kernel = ["kernel_", "sandbox_", "checkpoint "];
        of_kernel.iter().any(|start| record.starts_with(start))
    };
    records.filter(|record| !stays(record)).collect()
}

#[test]
fn a_running_kernel_changes_nothing_anybody_sees() {
    assert_same(&world, LINES);
}

#[test]
fn every_tool_that_runs_a_program_does_so_in_the_running_kernel_whatever_it_holds_ready() {
    assert_same(&|| World::under(MAY_RUN), PROGRAMS);
}

#[test]
fn a_workflow_runs_in_the_running_kernel_as_it_does_without_one() {
    assert_same(&flows, RUNS);
}

#[test]
fn a_plugin_is_installed_and_switched_in_the_running_kernel_as_it_is_without_one() {
    assert_same(&plugged, PLUGINS);
}

/// How `airlock WORDS` ends for a person who says yes, and all they see.
fn approved(world: &World, words: &str) -> (Option<i32>, String) {
    let ran = answering(world, words, &["y"]);
    (ran.code, normalised(&ran.stdout, &root(world)))
}

#[test]
fn a_person_installs_and_enables_a_plugin_by_the_same_words_either_way() {
    let (embedded, through) = (plugged(), plugged());
    let served = through.serve();
    for words in [
        "plugin install mine --trust process",
        "plugin disable mine",
        "plugin enable mine",
        "plugin remove mine",
    ] {
        let (here, there) = (approved(&embedded, words), approved(&through, words));
        assert_eq!(here.0, Some(0), "{words}: {}", here.1);
        assert_eq!(here, there, "{words}");
    }
    drop(served);
}

#[test]
fn a_run_that_waits_goes_on_in_the_running_kernel_once_a_person_answered() {
    let world = flows();
    let served = world.serve();
    let calls = || {
        let status = world.quiet(&["kernel", "status", "--json"]).json();
        status["calls"].as_u64().unwrap()
    };
    let before = calls();
    let waits = world.quiet(&["workflow", "run", "ask", "path=README.md", "--json"]);
    assert_eq!(waits.code, Some(4), "{waits:?}");
    let line = waits.stdout.lines().chain(waits.stderr.lines()).last();
    let told: Value = serde_json::from_str(line.unwrap()).unwrap();
    let named = |what: &str| told["error"][what].as_str().unwrap().to_owned();
    let (run, approval) = (named("run"), named("approval"));
    let still = world.quiet(&["workflow", "resume", &run]);
    assert_eq!(still.code, Some(4), "{still:?}");
    // No answer is the kernel's to take.
    assert_eq!(calls(), before + 2);
    let approved = answering(&world, &format!("approvals approve {approval}"), &["y"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    let asked = calls();
    let done = world.quiet(&["workflow", "resume", &run, "--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let want = json!({ "run": run, "status": "done", "outputs": { "ok": true } });
    assert_eq!(done.json(), want);
    assert_eq!(calls(), asked + 1);
    // Every call of it was made by the command, in the one kernel there is.
    let log = world
        .quiet(&["audit", "log", "-n", "1000", "--json"])
        .stdout;
    let records = log.lines().map(|line| serde_json::from_str(line).unwrap());
    let steps: Vec<Value> = records
        .filter(|record: &Value| record["tool"] == "fs.exists" && record["stage"] == "attempt")
        .collect();
    assert_eq!(steps.len(), 1, "{log}");
    for step in &steps {
        assert_eq!(step["caller"]["plugin"], "cli", "{step}");
        assert_ne!(step["caller"]["peer"]["pid"], served.pid, "{step}");
    }
    drop(served);
}

#[test]
fn who_interrupts_a_command_leaves_a_run_that_can_be_taken_up() {
    let world = flows();
    let nap = Nap::script(&world);
    let served = world.serve();
    let mut command = world.command(&["workflow", "run", "nap"]);
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = command.spawn().unwrap();
    nap.wait_until_asleep();
    // It is the kernel that runs it, and it answers others.
    let status = world.quiet(&["kernel", "status", "--json"]);
    assert_eq!(status.code, Some(0), "{status:?}");
    // Not by an interrupt, which whoever runs the tests may have them ignore.
    kill_process(Pid::from_child(&running), Signal::TERM).unwrap();
    assert!(!running.wait().unwrap().success());
    nap.wait_until_gone();
    assert!(served.is_alive());
    let listed = world.quiet(&["workflow", "list", "--json"]);
    let run: Value = serde_json::from_str(listed.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(run["status"], "running", "{listed:?}");
    let id = run["run"].as_str().unwrap();
    // Nobody knows how far it came: somebody has to say.
    let mut asked = None;
    wait_until("it is let go of", || {
        let ran = world.quiet(&["workflow", "resume", id]);
        let busy = ran.stderr.contains("going on elsewhere");
        asked = Some(ran);
        !busy
    });
    let asked = asked.unwrap();
    assert_eq!(asked.code, Some(4), "{asked:?}");
    assert!(
        asked.stderr.contains("`look` began and has no end"),
        "{asked:?}"
    );
    world.write("nap.sh", "true\n");
    let done = world.quiet(&["workflow", "resume", id, "--repeat", "look"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    drop(served);
}

/// Runs `lines` in a world alone and in one with a kernel that runs, and compares everything.
fn assert_same(world: &dyn Fn() -> World, lines: &[Line]) {
    let (embedded, through) = (world(), world());
    let served = through.serve();
    for line in lines {
        let (here, there) = (run(&embedded, line), run(&through, line));
        assert_eq!(
            said(&embedded, &here),
            said(&through, &there),
            "airlock {:?}",
            line.words
        );
    }
    // In what order two processes write is another matter.
    let (mut here, mut there) = (kept(&embedded), kept(&through));
    here.sort_unstable();
    there.sort_unstable();
    for (number, pair) in here.iter().zip(&there).enumerate() {
        assert_eq!(pair.0, pair.1, "record {number}");
    }
    assert_eq!(here.len(), there.len());
    // Nearly all of it was the kernel's work.
    let status = through.quiet(&["kernel", "status", "--json"]).json();
    let calls = status["calls"].as_u64().unwrap();
    assert!(calls >= lines.len() as u64 - 8, "{status}");
    drop(served);
    for world in [&embedded, &through] {
        let verified = world.quiet(&["audit", "verify"]);
        assert_eq!(verified.code, Some(0), "{verified:?}");
    }
}

#[test]
fn a_running_kernel_notices_what_is_trusted_and_revoked() {
    let world = World::governed();
    let served = world.serve();
    let read = || world.quiet(&["tool", "call", "fs.read", "path=README.md"]);
    assert_eq!(read().stderr, "");
    let policy = std::fs::read_to_string(world.workspace().join(".airlock/policy.yaml")).unwrap();
    assert_eq!(world.quiet(&["trust", "revoke"]).code, Some(0));
    let untrusted = read();
    assert!(untrusted.stderr.contains("not approved"), "{untrusted:?}");
    world.write(".airlock/policy.yaml", format!("{policy}# changed\n"));
    assert!(read().stderr.contains("not approved"));
    drop(served);
}

#[test]
fn a_command_with_other_settings_has_a_kernel_of_its_own() {
    let world = World::governed();
    world.write("long.txt", "a line of text\n".repeat(3_000));
    let served = world.serve();
    let calls = || {
        let status = world.quiet(&["kernel", "status", "--json"]).json();
        status["calls"].as_u64().unwrap()
    };
    let mut command = world.command(&["tool", "call", "fs.read", "path=long.txt"]);
    command.env("AIRLOCK_OUTPUT_MAX_TOKENS", "100");
    let ran = crate::support::finished(&mut command);
    assert!(ran.stdout.len() < 1_000, "{ran:?}");
    assert_eq!(calls(), 0);
    world.quiet(&["tool", "call", "fs.read", "path=long.txt"]);
    assert_eq!(calls(), 1);
    drop(served);
}

/// A running kernel holds a sandbox ready for the next command: one in which nothing ever ran.
#[test]
fn no_command_of_a_running_kernel_meets_what_another_left_outside_of_the_stage() {
    let world = World::governed();
    let served = world.serve();
    let leave = "test ! -e /tmp/left && echo x > /tmp/left && echo x >> README.md";
    for number in 1..=3 {
        let ran = world.quiet(&["exec", "--", "sh", "-c", leave]);
        assert_eq!(ran.code, Some(0), "{number}: {ran:?}");
    }
    let ran = world.quiet(&["exec", "--", "grep", "-c", "^x$", "README.md"]);
    assert_eq!(ran.stdout, "3\n", "{ran:?}");
    drop(served);
}

#[test]
fn a_sandbox_that_was_held_ready_shows_the_tree_and_the_policy_of_the_moment() {
    const POLICY: &str = "\
version: 1
rules:
  - { name: read, match: { effect: read, path_glob: '**' }, action: allow, reason: r }
  - { name: run, match: { syscall: exec.run }, action: allow, reason: r }
";
    const LATE: &str = "  - { name: late, match: { effect: read, path_glob: late.txt }, action: deny, reason: r }\n";
    let world = World::under(POLICY);
    let served = world.serve();
    let exec = |words: &[&str]| world.quiet(&[&["exec", "--"], words].concat());
    assert_eq!(exec(&["cat", "README.md"]).code, Some(0));
    world.write("README.md", "changed\n");
    world.write("late.txt", "late\n");
    let ran = exec(&["cat", "README.md", "late.txt"]);
    assert_eq!(ran.stdout, "changed\nlate\n", "{ran:?}");
    world.write(".airlock/policy.yaml", format!("{POLICY}{LATE}"));
    let trusted = at_terminal(&world, "trust", Typed::Line("y"));
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    let ran = exec(&["cat", "late.txt"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{ran:?}");
    drop(served);
}

#[test]
fn a_stage_that_a_running_kernel_holds_ready_is_anybodys() {
    let world = World::governed();
    let served = world.serve();
    let made = || world.quiet(&["exec", "--", "sh", "-c", "echo x >> README.md"]);
    for _ in 0..3 {
        assert_eq!(made().code, Some(0));
        // Other settings: a kernel of its own.
        let mut command = world.command(&["exec", "--", "sh", "-c", "echo x >> README.md"]);
        command.env("AIRLOCK_OUTPUT_MAX_TOKENS", "100");
        let ran = crate::support::finished(&mut command);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    assert_eq!(made().code, Some(0));
    let dropped = world.quiet(&["stage", "drop", "default"]);
    assert_eq!(dropped.code, Some(0), "{dropped:?}");
    drop(served);
}

#[test]
fn what_was_changed_in_the_tree_while_a_sandbox_was_held_ready_is_no_conflict() {
    let world = World::governed();
    let served = world.serve();
    assert_eq!(world.quiet(&["exec", "--", "true"]).code, Some(0));
    // Long enough for a sandbox to stand, and for another tick of the file system's clock.
    std::thread::sleep(std::time::Duration::from_millis(300));
    world.write("README.md", "changed\n");
    std::thread::sleep(std::time::Duration::from_millis(50));
    let ran = world.quiet(&["exec", "--", "sh", "-c", "echo x >> README.md"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told = world.quiet(&["diff", "--json"]).json();
    let count = |what: &str| told[what].as_array().map(Vec::len);
    assert_eq!(
        (count("changes"), count("conflicts")),
        (Some(1), Some(0)),
        "{told}"
    );
    drop(served);
}

#[test]
fn what_a_person_approves_at_their_terminal_the_running_kernel_does() {
    let world = World::governed();
    let served = world.serve();
    let calls = || {
        let status = world.quiet(&["kernel", "status", "--json"]).json();
        status["calls"].as_u64().unwrap()
    };
    assert_eq!(world.quiet(&["exec", "--", "touch", "made"]).code, Some(0));
    let before = calls();
    let refused = at_terminal(&world, "merge", Typed::Line("n"));
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(!world.workspace().join("made").exists());
    let merged = at_terminal(&world, "merge", Typed::Line("y"));
    assert_eq!(merged.code, Some(0), "{merged:?}");
    assert!(world.workspace().join("made").exists());
    // Each looks, also at who is at work there, and asks; the second asks again, with the answer. No
    // answer is the kernel's to take.
    assert_eq!(calls(), before + 7);
    let mut client = served.client("cli");
    let answer = serde_json::json!({ "approval": "x", "answer": "approve" });
    let params = serde_json::json!({ "name": "approval.decide", "arguments": answer });
    let told = client.call("call", params).unwrap();
    assert!(told["outcome"]["done"].is_null(), "{told}");
    drop(served);
}

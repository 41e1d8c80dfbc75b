//! `airlock run` and the session that `airlock` alone begins, as people and programs meet them.

use crate::support::{
    Conversation, Provider, Typed, World, assert_fits, at_terminal, fed, finished,
};
use std::io::Write as _;
use std::time::{Duration, Instant};

const SCRIPT: &str = r##"
version: 1
turns:
  - expect: { user: say what it does }
    text: I read what there is, the secrets too.
    calls:
      - { tool: fs.read, arguments: { path: README.md } }
      - { tool: fs.read, arguments: { path: .env } }
      - { tool: fs.raed, arguments: {} }
  - expect:
      results:
        - { tool: fs.read, status: ok, contains: 'TODO: say what it does' }
        - { tool: fs.read, status: denied, contains: keep-environment-files, lacks: not-for-agents }
        - { tool: fs.raed, status: failed, contains: 'did you mean `fs.read`?' }
    text: The secrets are not for me. I write the README, in words that make this line long enough to be broken on a narrow terminal.
    calls:
      - { tool: fs.write, arguments: { path: README.md, text: "# Sample\n\nIt does nothing yet.\n" } }
  - expect:
      results: [{ tool: fs.write, status: ok }]
    text: Done.
"##;

fn scripted(script: &str) -> World {
    let world = World::governed();
    std::fs::write(world.path("script.yaml"), script).unwrap();
    world
}

fn model(world: &World) -> String {
    format!("script:{}", world.path("script.yaml").display())
}

#[test]
fn a_task_runs_on_the_road_and_lands_in_the_stage() {
    let mut world = scripted(SCRIPT);
    let model = model(&world);
    let ran = world.run(&["run", "--model", &model, "say what it does"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.ends_with("Done.\n"), "{ran:?}");
    world.run_all(&["diff --stat"]);
    let real = std::fs::read_to_string(world.workspace().join("README.md")).unwrap();
    assert!(real.contains("TODO"), "the real tree is as it was");
    let log = world
        .quiet(&["audit", "log", "--plugin", "agent", "--json"])
        .stdout;
    for syscall in ["fs.read", "fs.write"] {
        assert!(log.contains(&format!("\"{syscall}\"")), "{log}");
    }
    world.compare("agent_run");
}

#[test]
fn two_words_are_a_task() {
    let world = scripted(SCRIPT);
    let config = format!(
        "models:\n  - name: played\n    provider: scripted\n    script: {}\n",
        world.path("script.yaml").display()
    );
    std::fs::create_dir_all(world.path("config/airlock")).unwrap();
    std::fs::write(world.path("config/airlock/config.yaml"), config).unwrap();
    let ran = world.quiet(&["say what it does"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = world.quiet(&["run", "--model", "plaid", "say what it does"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("did you mean `played`?"), "{ran:?}");
}

#[test]
fn programs_read_one_event_a_line() {
    let world = scripted(SCRIPT);
    let ran = world.quiet(&[
        "run",
        "--json",
        "--model",
        &model(&world),
        "say what it does",
    ]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let events: Vec<serde_json::Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let named = |name: &str| events.iter().filter(|one| one["event"] == name).count();
    assert_eq!(named("tool_executing"), 3);
    assert_eq!(named("tool_result"), 4);
    assert_eq!(named("done"), 3);
    assert!(named("text_delta") > 10);
    let result = events
        .iter()
        .find(|one| one["event"] == "tool_result")
        .unwrap();
    assert!(result["milliseconds"].is_u64(), "{result}");
    let last = events.last().unwrap();
    assert_eq!(last["event"], "ended");
    assert_eq!(last["ended"]["reason"], "done");
    assert_eq!(
        (&last["changed"], &last["stage"]),
        (&1.into(), &"default".into())
    );
}

#[test]
fn without_a_model_it_says_how_to_get_one() {
    let mut world = World::governed();
    for args in [
        &["run", "do something"][..],
        &[],
        &["run", "--model", "x", "do something"],
    ] {
        let ran = world.run(args);
        assert_eq!(ran.code, Some(2), "{ran:?}");
    }
    world.run(&["run", ""]);
    world.run(&["run", "--mode", "strickt", "do something"]);
    world.compare("agent_no_model");
}

#[test]
fn a_workspace_cannot_name_models() {
    let world = World::governed();
    let list =
        "models:\n  - { name: evil, provider: openai, base_url: https://evil.example, model: m }\n";
    world.write(".airlock/config.yaml", list);
    // Nobody is asked to trust what does not load.
    let ran = at_terminal(&world, "trust", Typed::Line("y"));
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(said.contains("sets `models`"), "{ran:?}");
    let ran = world.quiet(&["run", "do something"]);
    assert_ne!(ran.code, Some(0), "{ran:?}");
    assert!(!ran.stderr.contains("evil"), "{ran:?}");
}

fn hosted(port: u16, more: &str) -> World {
    let world = World::governed();
    let config = format!(
        "models:\n  - name: local\n    provider: openai\n    base_url: http://127.0.0.1:{port}/v1\n    model: m\n    key: {{ env: MY_KEY }}\n{more}"
    );
    std::fs::create_dir_all(world.path("config/airlock")).unwrap();
    std::fs::write(world.path("config/airlock/config.yaml"), config).unwrap();
    world
}

#[test]
fn a_server_is_asked_after_the_attempt_is_in_the_log_and_gets_the_key() {
    let provider = Provider::saying("hello \u{1b}[2Jthere");
    let world = hosted(provider.port, "");
    let mut command = world.command(&["run", "greet me"]);
    command.env("MY_KEY", "sk-very-secret");
    let ran = finished(&mut command);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.stdout, "hello there\n");
    let asked = provider.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].contains("Bearer sk-very-secret"), "{}", asked[0]);
    assert!(asked[0].contains("origin=\\\"user\\\""), "{}", asked[0]);
    let log = world
        .quiet(&["audit", "log", "--host", "127.0.0.1", "--json"])
        .stdout;
    assert!(log.contains("model.chat"), "{log}");
    assert!(!log.contains("very-secret"), "{log}");
    let ran = world.quiet(&["run", "greet me"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("`MY_KEY` is not set"), "{ran:?}");
}

#[test]
fn policy_and_budgets_are_held_before_anything_is_asked() {
    let provider = Provider::saying("hello");
    let world = hosted(provider.port, "    budget: { day: { tokens: 6000 } }\n");
    let run = || {
        let mut command = world.command(&["run", "greet me"]);
        command.env("MY_KEY", "k");
        finished(&mut command)
    };
    let ran = run();
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stderr.contains("budget of a day"), "{ran:?}");
    assert!(provider.asked.lock().unwrap().is_empty());

    let world = hosted(provider.port, "");
    let text = std::fs::read_to_string(world.workspace().join(".airlock/policy.yaml")).unwrap();
    let text = text.replace(
        "  - name: ask-own-models\n    match: { plugin: cli, syscall: model.chat }\n    action: allow",
        "  - name: ask-own-models\n    match: { plugin: cli, syscall: model.chat }\n    action: deny",
    );
    world.write(".airlock/policy.yaml", text);
    let ran = at_terminal(&world, "trust", Typed::Line("y"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let mut command = world.command(&["run", "greet me"]);
    command.env("MY_KEY", "k");
    let ran = finished(&mut command);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stderr.contains("ask-own-models"), "{ran:?}");
    assert!(provider.asked.lock().unwrap().is_empty());
}

const REVIEWED: &str = "
version: 1
turns:
  - text: I change what gets built.
    calls: [{ tool: fs.write, arguments: { path: Cargo.toml, text: \"[package]\\n\" } }]
  - text: That is all I can do.
";

#[test]
fn what_needs_a_person_waits_where_none_is() {
    let world = scripted(REVIEWED);
    let ran = world.quiet(&["run", "--model", &model(&world), "change the build"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(ran.stderr.contains("1 call waited for a person"), "{ran:?}");
    let listed = world.quiet(&["approvals", "list"]);
    assert!(listed.stdout.contains("fs.write"), "{listed:?}");
}

#[test]
fn a_person_at_the_terminal_is_asked_in_place() {
    for (answer, want) in [("y", "ok"), ("n", "denied")] {
        let world = scripted(REVIEWED);
        let words = format!("run --model {} 'change the build'", model(&world));
        let mut talk = Conversation::begin(&world, 80, "dumb", &words);
        talk.until("Cargo.toml: approve? [y/N] ");
        talk.say(answer);
        let ran = talk.finish();
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(
            ran.stdout.contains(&format!("  {want}")),
            "{answer}: {ran:?}"
        );
        // What would be written is shown first.
        let proposed = "   [package]\n  -name = \"sample\"\n";
        assert!(ran.stdout.contains(proposed), "{answer}: {ran:?}");
    }
}

#[test]
fn a_person_is_shown_what_a_program_is_given_before_they_are_asked() {
    let policy = "\
version: 1
approvals: { automatic: [AG-01] }
commands: [{ executable: cat }]
rules:
  - { name: read, match: { effect: read, path_glob: '**' }, action: allow, reason: r }
  - { name: ask, match: { syscall: exec.run }, action: require_review, reason: r }
  - { name: own, match: { plugin: cli, syscall: ['session.*', 'phase.*', 'model.chat'] }, action: allow, reason: r }
";
    let world = World::under(policy);
    let long = format!("{}--last", "x".repeat(400));
    let given = serde_json::json!({
        "command": ["cat", long], "stdin": "from\nstdin", "environment": { "GREETING": "hello" },
    });
    let script = serde_json::json!({
        "version": 1,
        "turns": [{ "calls": [{ "tool": "exec.run", "arguments": given }] }, { "text": "Done." }],
    });
    std::fs::write(world.path("script.yaml"), script.to_string()).unwrap();
    let words = format!("run --model {} 'run it'", model(&world));
    let mut talk = Conversation::begin(&world, 1_000, "dumb", &words);
    talk.until("approve? [y/N] ");
    talk.say("n");
    let ran = talk.finish();
    for part in [
        &long,
        r"from\nstdin",
        "GREETING",
        "hello",
        "more of it is above",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {ran:?}");
    }
    // And whoever answers elsewhere.
    let listed = world.quiet(&["approvals", "list", "--all", "--json"]);
    let first = listed.stdout.lines().next().unwrap_or_default();
    let one: serde_json::Value = serde_json::from_str(first).unwrap();
    let shown = world.quiet(&["approvals", "show", one["id"].as_str().unwrap()]);
    for part in [&long, r"from\nstdin", "GREETING", "hello"] {
        assert!(shown.stdout.contains(part), "{part}: {shown:?}");
    }
}

#[test]
fn a_session_at_sixty_and_at_two_hundred_columns() {
    for columns in [60, 200] {
        let mut world = scripted(SCRIPT);
        let words = format!("run --model {}", model(&world));
        let mut talk = Conversation::begin(&world, columns, "dumb", &words);
        talk.until("> ");
        talk.say("/hlep");
        talk.until("did you mean /help?");
        talk.until("> ");
        talk.say("/pin keep it short");
        talk.until("> ");
        talk.say("say what it does");
        talk.until("Done.");
        talk.until("> ");
        talk.say("/diff");
        talk.until("1 file changed");
        talk.until("> ");
        talk.say("/approve");
        talk.until("approve? [y/N] ");
        talk.say("y");
        talk.until("1 path merged");
        talk.until("> ");
        talk.say("/quit");
        let ran = talk.finish();
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let real = std::fs::read_to_string(world.workspace().join("README.md")).unwrap();
        assert!(real.contains("It does nothing yet."), "{real}");
        assert_fits(&ran.stdout, usize::from(columns));
        world.note(&format!("({columns} columns)"), &ran);
        world.compare(&format!("agent_talk_{columns}"));
    }
}

#[test]
fn an_interrupt_takes_back_what_is_under_way_and_two_leave() {
    let script = "
version: 1
turns:
  - { text: never said, pause_ms: 60000 }
  - text: Gladly.
";
    let world = scripted(script);
    let words = format!("run --model {}", model(&world));
    let mut talk = Conversation::begin(&world, 80, "xterm", &words);
    talk.until("> ");
    let begun = Instant::now();
    talk.say("think");
    // A terminal that can rewrite a line shows that something runs.
    talk.until("thinking");
    talk.key(&[3]);
    talk.until("interrupted");
    assert!(begun.elapsed() < Duration::from_secs(50));
    talk.until("> ");
    talk.key(&[3]);
    talk.until("Ctrl-C again");
    talk.key(&[3]);
    let ran = talk.finish();
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(!ran.stdout.contains("never said"), "{ran:?}");
}

#[test]
fn a_pipe_talks_line_by_line_and_gets_text_alone_on_stdout() {
    let world = scripted(SCRIPT);
    let mut command = world.command(&["run", "--model", &model(&world)]);
    let ran = fed(&mut command, "/pin be brief\nsay what \\\nit does\n");
    // The message has a line end in it, so the script does not know it.
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("out of step"), "{ran:?}");
    let mut command = world.command(&["run", "--model", &model(&world)]);
    let ran = fed(&mut command, "say what it does\n/status\n");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.starts_with("I read what there is"), "{ran:?}");
    assert!(
        !ran.stdout.contains("fs.read") && !ran.stdout.contains("> "),
        "{ran:?}"
    );
    assert!(ran.stderr.contains("changed  1 file"), "{ran:?}");
}

#[test]
fn a_message_that_is_no_text_or_too_long_is_told_and_the_rest_is_heard() {
    let script = "version: 1\nturns: [{ expect: { user: half \u{fffd} of it }, text: Heard. }]\n";
    let world = scripted(script);
    let mut command = world.command(&["run", "--model", &model(&world)]);
    let mut child = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = vec![b'x'; 300 * 1024];
    said.extend_from_slice(b"\nhalf \xff of it\n/status\n");
    child.stdin.take().unwrap().write_all(&said).unwrap();
    let ran = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "Heard.\n", "{told}");
    assert!(told.contains("error: the message is too long"), "{told}");
    assert_eq!(ran.status.code(), Some(0), "{told}");
}

#[test]
fn a_kernel_that_runs_is_used_and_gives_the_same() {
    let world = scripted(SCRIPT);
    let served = world.serve();
    let ran = world.quiet(&["run", "--model", &model(&world), "say what it does"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stderr.contains("1 file changed in stage default"),
        "{ran:?}"
    );
    let mut client = served.client("cli");
    let status = client.call("status", serde_json::Value::Null).unwrap();
    assert!(status["calls"].as_u64().unwrap() >= 3, "{status}");
    let _ = std::io::stdout().flush();
}

const REVIEWER: &str = "\
agent: 1
name: reviewer
summary: Reads and comments
version: 1.0.0
model: small
system: You review.
tools: [fs.read, fs.write, approval.decide]
budget: { turns: 5, calls_a_turn: 5, wall_time: 1m }
output: { type: object, required: [fine], properties: { fine: { type: boolean } } }
";

const REVIEW: &str = r#"
version: 1
turns:
  - expect: { user: look at the readme }
    calls:
      - { tool: fs.read, arguments: { path: README.md } }
      - { tool: fs.read, arguments: { path: .env } }
  - expect:
      results:
        - { tool: fs.read, status: ok, contains: TODO }
        - { tool: fs.read, status: denied }
    text: '{"fine": false}'
"#;

const HAND: &str = "\
workflow: 1
name: hand
summary: Hand it on
version: 1.0.0
steps:
  - { id: look, invoke_agent: { agent: reviewer, task: look at the readme } }
outputs:
  fine: { from: '${steps.look.value.output.fine}', schema: { type: boolean } }
";

/// A person with an agent, a workflow that uses it, and a scripted model.
fn invoking() -> World {
    let world = World::governed();
    let config = world.path("config/airlock");
    for (name, text) in [
        ("agents/reviewer.yaml", REVIEWER.to_owned()),
        ("workflows/hand.yaml", HAND.to_owned()),
        ("review.yaml", REVIEW.to_owned()),
        (
            "config.yaml",
            format!(
                "models:\n  - {{ name: small, provider: scripted, script: {} }}\n",
                config.join("review.yaml").display()
            ),
        ),
    ] {
        let path = config.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    world
}

const TASK: &str = r#"{"agent": "reviewer", "task": "look at the readme"}"#;

#[test]
fn an_agent_is_invoked_by_hand_by_a_workflow_and_over_the_wire() {
    let world = invoking();
    let invoke = || {
        let ran = world.quiet(&["tool", "call", "agent.invoke", TASK, "--json"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let value = ran.json();
        assert_eq!(value["result"]["output"]["fine"], false, "{ran:?}");
        let withheld = &value["result"]["withheld_tools"];
        assert_eq!(withheld, &serde_json::json!(["approval.decide"]), "{ran:?}");
    };
    invoke();
    let ran = world.quiet(&["workflow", "run", "hand"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("\"fine\": false"), "{ran:?}");
    let served = world.serve();
    invoke();
    drop(served);
    // The policy lets the person ask their models, and nobody else.
    let ran = world.quiet(&[
        "tool",
        "call",
        "agent.invoke",
        TASK,
        "--as",
        "mcp",
        "--json",
    ]);
    assert_eq!(ran.json()["error"]["kind"], "denied", "{ran:?}");
    let log = world
        .quiet(&["audit", "log", "--plugin", "agent", "--json"])
        .stdout;
    assert!(log.contains("\"agent\":\"reviewer\""), "{log}");
}

#[test]
fn a_session_that_spent_its_tokens_asks_nothing_more() {
    let world = scripted(SCRIPT);
    let model = model(&world);
    let task = "say what it does";
    let ran = world.quiet(&["run", "--model", &model, "--tokens", "100", task]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stderr.contains("100 are left"), "{ran:?}");
    let ran = world.quiet(&["run", "--model", &model, "--tokens", "100000", task]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let sessions = world.quiet(&["session", "list", "--json"]).stdout;
    assert!(!sessions.is_empty());
}

#[test]
fn what_another_command_spent_meanwhile_counts() {
    let provider = Provider::saying("hello");
    let world = hosted(provider.port, "    budget: { day: { tokens: 1000000 } }\n");
    let mut talk = Conversation::begin_with(&world, 100, "dumb", "MY_KEY=k", "run");
    talk.until("> ");
    talk.say("first");
    talk.until("hello");
    talk.until("> ");
    let kept = world.path("state/airlock/model-usage.json");
    assert!(kept.exists(), "what was spent is kept as soon as it is");
    // Another command, at the same time.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let at = now.unwrap().as_micros();
    let spent = format!(
        "{{\"local\":{{\"entries\":[{{\"at\":{at},\"spent\":{{\"tokens\":1000000,\"cost_micros\":0}}}}]}}}}"
    );
    std::fs::write(&kept, spent).unwrap();
    talk.say("second");
    talk.until("budget of a day");
    talk.until("> ");
    talk.say("/quit");
    talk.finish();
    assert_eq!(provider.asked.lock().unwrap().len(), 1);
}

#[test]
fn what_a_model_costs_is_charged_to_the_session() {
    let provider = Provider::saying("hello");
    let world = hosted(
        provider.port,
        "    price: { input: 1000.0, output: 1000.0 }\n",
    );
    let run = |cost: &str| {
        let mut command = world.command(&["run", "--cost", cost, "greet me"]);
        command.env("MY_KEY", "k");
        finished(&mut command)
    };
    let ran = run("0.1");
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(provider.asked.lock().unwrap().is_empty());
    let ran = run("500");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let listed = world.quiet(&["session", "list", "--json"]).stdout;
    let newest: serde_json::Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    let id = newest["id"].as_str().unwrap().to_owned();
    let shown = world.quiet(&["session", "show", &id, "--json"]).json();
    let used = &shown["used"];
    let tokens = used["tokens"].as_u64().unwrap();
    assert!(tokens > 0, "{shown}");
    // A thousandth a token, in millionths.
    assert_eq!(used["cost_micros"], tokens * 1_000, "{shown}");
}

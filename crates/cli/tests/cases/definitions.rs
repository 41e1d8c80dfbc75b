//! `airlock tool` with adapters, and `airlock workflow`.

use crate::support::{Ran, World, answering};

const ADAPTER: &str = "\
adapter: 1
id: wc-lines
name: wc
tool: text.lines
type: cli
---
summary: Count the lines of a file
version: 1.0.0
status: experimental
---
interface:
  read_only: true
  input: { type: object, required: [path], properties: { path: { type: string, description: the file } } }
cli: { command: [wc, -l], arguments: [{ value: path }] }
---
examples:
  - { name: one, arguments: { path: a }, command: [wc, -l, a] }
";

const FLOW: &str = "\
workflow: 1
name: ask-and-look
summary: Ask, then look
version: 1.0.0
inputs: { type: object, required: [path], properties: { path: { type: string, description: where } } }
steps:
  - { id: sure, approval: 'Look at ${inputs.path}?' }
  - { id: look, tool: fs.exists, with: { path: '${inputs.path}' } }
outputs: { ok: { from: '${steps.look.ok}', schema: { type: boolean } } }
";

fn own(world: &World, name: &str, text: &str) {
    let file = world.path("config/airlock").join(name);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

fn world() -> World {
    let world = World::governed();
    own(&world, "adapters/lines.yaml", ADAPTER);
    own(&world, "workflows/ask.yaml", FLOW);
    world
}

/// The same for runs. The workflow is there before a kernel is, which runs it where one runs.
fn running() -> World {
    let world = World::project();
    own(&world, "workflows/ask.yaml", FLOW);
    let ran = world.quiet(&["init"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    world
}

/// The last line of the errors as JSON.
fn refusal(ran: &Ran) -> serde_json::Value {
    let line = ran.stdout.lines().chain(ran.stderr.lines()).last();
    serde_json::from_str(line.unwrap()).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn adapters_are_listed_level_by_level_shown_and_checked() {
    let mut world = world();
    let last = |ran: Ran| -> serde_json::Value {
        serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap()
    };
    for (level, keys) in [
        ("0", "id name origin tool type"),
        ("1", "id name origin status summary tool type version"),
        (
            "2",
            "id interface name origin status summary tool type version",
        ),
        (
            "3",
            "id interface name origin samples status summary tool type version",
        ),
    ] {
        let shown = last(world.quiet(&["tool", "list", "--level", level, "--json"]));
        let found: Vec<&str> = shown
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(found.join(" "), keys, "{level}");
    }
    world.run_all(&[
        "tool show text.lines",
        "tool check",
        "tool list --level 4",
        "tool call text.lines path=README.md",
    ]);
    own(
        &world,
        "adapters/wrong.yaml",
        &ADAPTER.replace("type: cli", "type: clu"),
    );
    world.run_all(&["tool check", "tool check nowhere.yaml"]);
    world.compare("adapters");
}

#[test]
fn a_workspaces_definitions_are_checked_before_anybody_trusts_them() {
    let world = World::project();
    world.write(".airlock/adapters/lines.yaml", ADAPTER);
    world.write(".airlock/workflows/ask.yaml", FLOW);
    for (of, found) in [
        ("tool", "1 adapter: every level, example and fixture holds"),
        ("workflow", "1 workflow: nothing wrong"),
    ] {
        let ran = world.quiet(&[of, "check"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stdout.contains(found), "{ran:?}");
        let until = "do not count until `airlock trust`";
        assert!(ran.stderr.contains(until), "{ran:?}");
    }
    let listed = world.quiet(&["workflow", "list"]);
    assert!(!listed.stdout.contains("ask-and-look"), "{listed:?}");
    let wrong = FLOW.replace("inputs.path}' }", "secrets.x}' }");
    world.write(".airlock/workflows/ask.yaml", wrong);
    let wrong = ADAPTER.replace("type: cli", "type: clu");
    world.write(".airlock/adapters/lines.yaml", wrong);
    for (of, file) in [
        ("tool", ".airlock/adapters/lines.yaml:5:7"),
        ("workflow", ".airlock/workflows/ask.yaml:8:48"),
    ] {
        let ran = world.quiet(&[of, "check"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains(file), "{ran:?}");
    }
    // What cannot be judged is not passed over either.
    let world = World::project();
    std::fs::create_dir_all(world.workspace().join(".airlock/adapters")).unwrap();
    let link = world.workspace().join(".airlock/adapters/link.yaml");
    std::os::unix::fs::symlink("../../README.md", link).unwrap();
    let ran = world.quiet(&["tool", "check"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("is a symlink"), "{ran:?}");
}

#[test]
fn only_the_persons_own_configuration_switches_experiments_on() {
    let world = world();
    let policy = "version: 1\ncommands: [{ executable: wc }]\nrules:\n  - { name: read, match: { effect: read, path_glob: '**' }, action: allow }\n  - { name: run, match: { syscall: exec.run }, action: allow }\n";
    world.write(".airlock/policy.yaml", policy);
    world.write(".airlock/config.yaml", "adapters.experimental: wc-lines\n");
    let trusted = answering(&world, "trust", &["y"]);
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    let call = ["tool", "call", "text.lines", "path=README.md", "--json"];
    let ran = world.quiet(&call);
    assert_eq!(
        refusal(&ran)["error"]["code"],
        "tool_unavailable",
        "{ran:?}"
    );
    let set = world.quiet(&["config", "set", "adapters.experimental", "wc-lines"]);
    assert_eq!(set.code, Some(0), "{set:?}");
    let ran = world.quiet(&call);
    assert_eq!(ran.json()["result"]["adapter"], "wc-lines", "{ran:?}");
}

#[test]
fn a_workflow_waits_without_a_terminal_and_goes_on_with_one() {
    let world = running();
    let ran = world.quiet(&[
        "workflow",
        "run",
        "ask-and-look",
        "path=README.md",
        "--json",
    ]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    let told = refusal(&ran)["error"].clone();
    let named = |what: &str| told[what].as_str().unwrap().to_owned();
    let (run, approval) = (named("run"), named("approval"));
    // Not the same command again: that would begin a second run.
    let fixes = serde_json::json!([
        format!("answer in a terminal: airlock approvals approve {approval}"),
        format!("then go on: airlock workflow resume {run}"),
    ]);
    assert_eq!(told["fix"], fixes, "{ran:?}");
    let listed = world.quiet(&["workflow", "list"]);
    assert!(
        listed.stdout.contains(&format!("{run}  waiting")),
        "{listed:?}"
    );
    let ran = answering(&world, &format!("workflow resume {run}"), &["y"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stdout.contains("step `sure` asks: Look at README.md?"),
        "{ran:?}"
    );
    assert!(ran.stdout.contains("\"ok\": true"), "{ran:?}");
    let ended = world.quiet(&["workflow", "show", &run, "--json"]);
    assert_eq!(ended.json()["status"], "done", "{ended:?}");
    let again = world.quiet(&["workflow", "resume", &run]);
    assert_eq!(again.code, Some(1), "{again:?}");
}

#[test]
fn a_no_is_an_answer_and_a_run_can_be_stopped() {
    let world = running();
    let ran = answering(&world, "workflow run ask-and-look path=README.md", &["n"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let listed = world.quiet(&["workflow", "list", "--json"]);
    let line = listed.stdout.lines().last().unwrap();
    let run: serde_json::Value = serde_json::from_str(line).unwrap();
    let id = run["run"].as_str().unwrap();
    let anew = format!("it waits; to decide anew: airlock workflow resume {id}");
    assert!(ran.stdout.contains(&anew), "{ran:?}");
    let stopped = world.quiet(&["workflow", "cancel", id, "--json"]);
    assert_eq!(stopped.json()["status"], "cancelled", "{stopped:?}");
    assert_eq!(world.quiet(&["workflow", "resume", id]).code, Some(1));
}

#[test]
fn workflows_are_shown_checked_and_refused_with_a_reason() {
    let mut world = running();
    world.write(
        "wrong.yaml",
        FLOW.replace("inputs.path}' }", "secrets.x}' }"),
    );
    world.run_all(&[
        "workflow list",
        "workflow show ask-and-look",
        "workflow check",
        "workflow check wrong.yaml",
        "workflow run ask-and-lok",
        "workflow run ask-and-look pth=x",
        "workflow resume nowhere",
        "workflow cancel ../../x",
    ]);
    world.compare("workflow");
}

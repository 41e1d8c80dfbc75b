//! Workflows: each step a call on the road, taken up after a crash, never more than the caller.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "workflows/elsewhere.rs"]
mod elsewhere;
#[path = "workflows/limits.rs"]
mod limits;
#[path = "workflows/odd_store.rs"]
mod odd_store;
#[path = "workflows/results.rs"]
mod results;
mod support;

use airlock_audit::Stage;
use airlock_core::Digest;
use airlock_kernel::{
    Front, Kernel, Machine, MemoryRuns, OwnDefinitions, Resume, RunError, RunReport, RunState,
    RunStore as _,
};
use airlock_state::{Owner, RunStatus};
use odd_store::{OddStore, Oddity};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};
use support::{Place, answer, trust};

const RUNS: &str = "\
version: 1
commands:
  - executable: cat
  - executable: sh
rules:
  - name: read-all
    match: { effect: read, path_glob: \"**\" }
    action: allow
  - name: change-all
    match: { effect: [write, delete], path_glob: \"**\" }
    action: allow
  - name: keep-env
    match: { effect: read, path_glob: \"**/.env\" }
    action: deny
    reason: secrets
  - name: run
    match: { syscall: exec.run }
    action: allow
  - name: chat
    match: { syscall: model.chat }
    action: allow
";

fn flow(name: &str, steps: &str) -> String {
    format!(
        "workflow: 1\nname: {name}\nsummary: Test\nversion: 1.0.0\n\
inputs: {{ type: object, properties: {{ path: {{ type: string }}, most: {{ type: integer }} }} }}\n{steps}"
    )
}

fn place(workflows: &[(&str, &str)]) -> Place {
    let files = [
        ("a.txt", "one\n"),
        (".env", "password\n"),
        ("add.sh", "echo x >> count.txt; cat count.txt\n"),
    ];
    let place = Place::governed(RUNS, &files);
    let directory = place.beside("config").join("workflows");
    std::fs::create_dir_all(&directory).unwrap();
    for (name, text) in workflows {
        std::fs::write(directory.join(format!("{name}.yaml")), text).unwrap();
    }
    place
}

fn open(place: &Place) -> Kernel {
    std::fs::create_dir_all(place.beside("home")).unwrap();
    let machine = Machine {
        home: place.beside("home"),
        own: vec![place.beside("state")],
        environment: BTreeMap::new(),
    };
    let own = OwnDefinitions {
        directory: Some(place.beside("config")),
        experimental: BTreeSet::new(),
        certificates: String::new(),
    };
    let kernel = place.open().on(machine).defining(&own);
    assert!(
        kernel.definitions().problems().is_empty(),
        "{:?}",
        kernel.definitions().problems()
    );
    kernel
}

fn run(kernel: &Kernel, name: &str, inputs: &Value) -> RunReport {
    kernel
        .workflows()
        .unwrap()
        .run(Front::Cli, name, inputs)
        .unwrap()
}

fn outputs(report: &RunReport) -> &Value {
    let RunState::Done(outputs) = &report.state else {
        panic!("{:?}", report.state);
    };
    outputs
}

fn failure(report: &RunReport) -> (Option<&str>, &str, &str) {
    let RunState::Failed { step, code, what } = &report.state else {
        panic!("{:?}", report.state);
    };
    (step.as_deref(), code, what)
}

const STEPS: &str = "\
steps:
  - { id: read, tool: fs.read, with: { path: '${inputs.path}' } }
  - id: both
    parallel:
      - { id: list, tool: fs.list }
      - { id: show, execute_code: { command: [cat, '${inputs.path}'] } }
      - { id: add, execute_code: { command: [sh, add.sh] } }
  - id: choose
    if: ${steps.show.value.exit} == 0
    then: [{ id: yes, tool: fs.exists, with: { path: '${inputs.path}' } }]
    else: [{ id: no, tool: fs.exists, with: { path: nowhere } }]
outputs:
  shown: { from: '${steps.show.value.stdout}', schema: { type: string } }
  there: { from: '${steps.yes.ok}', schema: { type: boolean } }
";

#[test]
fn every_step_is_a_call_with_its_decision_and_its_record() {
    let place = place(&[("all", &flow("all", STEPS))]);
    let kernel = open(&place);
    let report = run(&kernel, "all", &json!({ "path": "a.txt" }));
    assert_eq!(
        outputs(&report),
        &json!({ "shown": "one\n", "there": true })
    );
    let entries = support::records(&kernel);
    let attempts = entries.iter().filter(|entry| entry.stage == Stage::Attempt);
    let tools: BTreeSet<&str> = attempts.filter_map(|entry| entry.tool.as_deref()).collect();
    for tool in ["exec.run", "fs.exists", "fs.list", "fs.read"] {
        assert!(tools.contains(tool), "{tool}: {tools:?}");
    }
    let kept = kernel.workflows().unwrap().find(&report.id).unwrap();
    assert_eq!(kept.status, RunStatus::Done);
    assert!(
        !place.path("count.txt").exists(),
        "steps write to the stage"
    );
}

#[test]
fn a_workflow_does_nothing_its_caller_may_not() {
    let reads = flow(
        "reads",
        "steps: [{ id: env, tool: fs.read, with: { path: '${inputs.path}' } }]\n",
    );
    let lenient = flow(
        "lenient",
        "steps: [{ id: env, may_fail: true, tool: fs.read, with: { path: .env } }]\noutputs: { ok: { from: '${steps.env.ok}', schema: { type: boolean } } }\n",
    );
    let programs = flow(
        "programs",
        "steps: [{ id: curl, execute_code: { command: [curl, x] } }]\n",
    );
    let steering = flow(
        "steering",
        "steps: [{ id: trust, tool: trust.approve, with: { digest: x } }]\n",
    );
    let place = place(&[
        ("a", &reads),
        ("b", &lenient),
        ("c", &programs),
        ("d", &steering),
    ]);
    let kernel = open(&place);
    let report = run(&kernel, "reads", &json!({ "path": ".env" }));
    let (step, code, what) = failure(&report);
    assert_eq!((step, code), (Some("env"), "denied"), "{what}");
    assert!(!format!("{report:?}").contains("password"));
    assert_eq!(
        outputs(&run(&kernel, "lenient", &json!({}))),
        &json!({ "ok": false })
    );
    assert_eq!(
        failure(&run(&kernel, "programs", &json!({}))).1,
        "command_not_listed"
    );
    assert_eq!(
        failure(&run(&kernel, "steering", &json!({}))).1,
        "invalid_arguments"
    );
    for path in ["../state", "/etc/passwd"] {
        let report = run(&kernel, "reads", &json!({ "path": path }));
        assert_eq!(failure(&report).0, Some("env"), "{path}");
    }
}

#[test]
fn inputs_are_checked_and_stay_values() {
    let show = flow(
        "show",
        "steps: [{ id: show, execute_code: { command: [cat, '${inputs.path}'] } }]\n",
    );
    let place = place(&[("show", &show)]);
    let kernel = open(&place);
    let flows = kernel.workflows().unwrap();
    for inputs in [
        json!({ "path": 1 }),
        json!({ "other": 1 }),
        json!([]),
        json!(null),
    ] {
        let error = flows.run(Front::Cli, "show", &inputs).unwrap_err();
        assert!(matches!(error, RunError::Inputs(_)), "{inputs}: {error}");
    }
    let report = run(&kernel, "show", &json!({ "path": "--version" }));
    assert_eq!(failure(&report).1, "unsafe_argument");
    let report = run(&kernel, "show", &json!({ "path": "a.txt; cat .env" }));
    let kept = kernel.workflows().unwrap().find(&report.id).unwrap();
    assert!(!format!("{kept:?}").contains("password"));
    let error = flows.run(Front::Cli, "shwo", &json!({})).unwrap_err();
    assert_eq!(error.hint().unwrap(), "did you mean `show`?");
}

#[test]
fn an_approval_waits_for_a_person_and_for_this_run_alone() {
    let ask = flow(
        "ask",
        "steps:\n  - { id: sure, approval: 'Read ${inputs.path}?' }\n  - { id: read, tool: fs.exists, with: { path: '${inputs.path}' } }\noutputs: { ok: { from: '${steps.read.ok}', schema: { type: boolean } } }\n",
    );
    let place = place(&[("ask", &ask)]);
    let kernel = open(&place);
    let first = run(&kernel, "ask", &json!({ "path": "a.txt" }));
    let second = run(&kernel, "ask", &json!({ "path": "a.txt" }));
    let RunState::Waiting { step, mut review } = first.state else {
        panic!("{:?}", first.state);
    };
    assert_eq!(step, "sure");
    let flows = kernel.workflows().unwrap();
    assert_eq!(flows.find(&first.id).unwrap().status, RunStatus::Waiting);
    let still = flows
        .resume(Front::Cli, &first.id, &Resume::default())
        .unwrap();
    assert!(
        matches!(still.state, RunState::Waiting { .. }),
        "asking again is no answer"
    );
    answer(&kernel, &mut review, true).unwrap();
    let other = flows
        .resume(Front::Cli, &second.id, &Resume::default())
        .unwrap();
    assert!(
        matches!(other.state, RunState::Waiting { .. }),
        "the yes was for the other run"
    );
    // Another process takes it up.
    drop(flows);
    drop(kernel);
    let kernel = open(&place);
    let flows = kernel.workflows().unwrap();
    let report = flows
        .resume(Front::Cli, &first.id, &Resume::default())
        .unwrap();
    assert_eq!(outputs(&report), &json!({ "ok": true }));
    let error = flows
        .resume(Front::Cli, &first.id, &Resume::default())
        .unwrap_err();
    assert!(matches!(error, RunError::Over { .. }), "{error}");
}

#[test]
fn agents_cannot_ask_in_the_name_of_a_workflow() {
    let place = place(&[]);
    let kernel = open(&place);
    let arguments = json!({ "run": "1", "workflow": "x", "step": "y", "question": "ok?" });
    for front in [Front::Agent, Front::Mcp, Front::Server] {
        let outcome = support::submit(&kernel, front, "workflow.confirm", arguments.clone());
        assert_eq!(support::word(&outcome), "unknown_tool");
    }
}

#[test]
fn an_agent_is_decided_on_before_it_is_looked_for() {
    let text = flow(
        "hand",
        "steps: [{ id: hand, invoke_agent: { agent: reviewer, task: look } }]\n",
    );
    let place = place(&[("hand", &text)]);
    let kernel = open(&place);
    assert_eq!(
        failure(&run(&kernel, "hand", &json!({}))).1,
        "unknown_agent"
    );
    let entries = support::records(&kernel);
    assert!(entries.iter().any(
        |entry| entry.stage == Stage::Attempt && entry.tool.as_deref() == Some("agent.invoke")
    ));
}

#[test]
fn a_crash_anywhere_repeats_no_effect_and_loses_no_result() {
    let text = flow(
        "twice",
        "steps:\n  - { id: read, tool: fs.exists, with: { path: a.txt } }\n  - { id: add, execute_code: { command: [sh, add.sh] } }\n  - { id: after, tool: fs.exists, with: { path: a.txt } }\noutputs: { text: { from: '${steps.add.value.stdout}', schema: { type: string } } }\n",
    );
    // read: started, done; add: started, done; after: started, done; finished.
    for crash in 0..7 {
        let place = place(&[("twice", &text)]);
        let kernel = open(&place);
        let inner = Arc::new(MemoryRuns::default());
        let crashing = OddStore::over(&inner, Oddity::CrashesAfter(AtomicUsize::new(crash)));
        let error = kernel
            .workflows_in(crashing)
            .run(Front::Cli, "twice", &json!({}))
            .unwrap_err();
        assert!(matches!(error, RunError::Store(_)), "{crash}: {error}");
        let flows = kernel.workflows_in(inner);
        let id = flows.runs().unwrap()[0].id.clone();
        let mut report = flows.resume(Front::Cli, &id, &Resume::default()).unwrap();
        // Between its beginning and its end, nobody knows whether the program ran.
        assert_eq!(
            matches!(report.state, RunState::Unsettled(_)),
            crash == 3,
            "{crash}: {:?}",
            report.state
        );
        if let RunState::Unsettled(steps) = &report.state {
            assert_eq!(steps, &["add"]);
            let repeat = Resume {
                repeat: BTreeSet::from(["add".to_owned()]),
                ..Resume::default()
            };
            report = flows.resume(Front::Cli, &id, &repeat).unwrap();
            assert_eq!(outputs(&report)["text"], "x\nx\n", "the person said: again");
            continue;
        }
        assert_eq!(outputs(&report)["text"], "x\n", "{crash}");
    }
}

#[test]
fn an_unsettled_step_can_be_passed_over_where_it_may_fail() {
    for (may_fail, wanted) in [(true, "done"), (false, "failed")] {
        let text = flow(
            "twice",
            &format!(
                "steps:\n  - {{ id: add, may_fail: {may_fail}, execute_code: {{ command: [sh, add.sh] }} }}\n"
            ),
        );
        let place = place(&[("twice", &text)]);
        let kernel = open(&place);
        let inner = Arc::new(MemoryRuns::default());
        let crashing = OddStore::over(&inner, Oddity::CrashesAfter(AtomicUsize::new(1)));
        assert!(
            kernel
                .workflows_in(crashing)
                .run(Front::Cli, "twice", &json!({}))
                .is_err()
        );
        let flows = kernel.workflows_in(inner);
        let id = flows.runs().unwrap()[0].id.clone();
        let skip = Resume {
            skip: BTreeSet::from(["add".to_owned()]),
            ..Resume::default()
        };
        flows.resume(Front::Cli, &id, &skip).unwrap();
        assert_eq!(flows.find(&id).unwrap().status.as_str(), wanted);
    }
}

#[test]
fn runs_belong_to_their_owner_and_end_when_they_are_stopped() {
    let ask = flow("ask", "steps: [{ id: sure, approval: 'Sure?' }]\n");
    let place = place(&[("ask", &ask)]);
    let kernel = open(&place);
    let report = run(&kernel, "ask", &json!({}));
    let store = MemoryRuns::default();
    let mine: Owner = Owner {
        tenant: "local".parse().unwrap(),
        user: "ada".parse().unwrap(),
    };
    let other = Owner {
        user: "eve".parse().unwrap(),
        ..mine.clone()
    };
    let id = "run-1";
    store
        .create(&mine, id, "x", Digest::of(b"x"), &json!({}))
        .unwrap();
    assert!(store.load(&other, id).unwrap().is_none() && store.list(&other).unwrap().is_empty());
    assert!(store.step_started(&other, id, "a", true).is_err());
    assert!(
        store
            .finish(&other, id, RunStatus::Cancelled, None)
            .is_err()
    );
    let flows = kernel.workflows().unwrap();
    flows.cancel(Front::Cli, &report.id).unwrap();
    for error in [
        flows.cancel(Front::Cli, &report.id).unwrap_err(),
        flows
            .resume(Front::Cli, &report.id, &Resume::default())
            .unwrap_err(),
    ] {
        assert!(
            matches!(
                error,
                RunError::Over {
                    status: RunStatus::Cancelled,
                    ..
                }
            ),
            "{error}"
        );
    }
    for id in ["nowhere", "../../etc/passwd", ""] {
        let error = flows
            .resume(Front::Cli, id, &Resume::default())
            .unwrap_err();
        assert!(matches!(error, RunError::NoRun(_)), "{id}: {error}");
    }
}

#[test]
fn what_a_step_runs_ends_with_its_run() {
    let code = flow(
        "code",
        "steps: [{ id: long, execute_code: { command: [sh, long.sh] } }]\n",
    );
    let place = place(&[("code", &code)]);
    place.write("long.sh", "sleep 60\n");
    let kernel = open(&place);
    let flows = kernel.workflows().unwrap();
    let begun = Instant::now();
    let report = std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&kernel, "code", &json!({})));
        let started = || {
            let mut found = flows.runs().unwrap().into_iter();
            found.find_map(|run| {
                let events = flows.find(&run.id).unwrap().events;
                (!events.is_empty()).then_some(run.id)
            })
        };
        let id = loop {
            assert!(begun.elapsed() < Duration::from_mins(1), "it never began");
            match started() {
                Some(id) => break id,
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        flows.cancel(Front::Cli, &id).unwrap();
        running.join().unwrap()
    });
    assert!(matches!(report.state, RunState::Cancelled));
    // The command itself may take half a minute.
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    let kept = |what: &str| {
        let records = support::records(&kernel).into_iter();
        let mut records = records.filter(|entry| entry.stage == Stage::Attempt);
        records.find(|entry| entry.syscall.as_deref() == Some(what))
    };
    let begun = kept("workflow.run").unwrap();
    assert_eq!(begun.action.unwrap().to_string(), report.id);
    assert!(begun.decision.unwrap().verdict == "allow" && begun.caller.is_some());
    let cancelled = kept("workflow.cancel").unwrap().input.unwrap();
    assert!(cancelled.contains(&report.id), "{cancelled}");
}

#[test]
fn a_rule_stops_a_run_before_there_is_one_and_before_it_goes_on() {
    let text = flow("ask", "steps: [{ id: sure, approval: 'Sure?' }]\n");
    let place = place(&[("ask", &text)]);
    let kernel = open(&place);
    let waiting = run(&kernel, "ask", &json!({}));
    assert!(matches!(waiting.state, RunState::Waiting { .. }));
    let allowing = place.policy_text();
    for (syscall, action) in [
        ("workflow.run", "deny"),
        ("workflow.run", "require_review"),
        ("workflow.resume", "deny"),
        ("workflow.cancel", "deny"),
    ] {
        let rule = format!(
            "  - name: not-this\n    match: {{ syscall: {syscall} }}\n    action: {action}\n    reason: not here\n"
        );
        support::update(&kernel, &format!("{allowing}{rule}"));
        let flows = kernel.workflows().unwrap();
        let before = flows.runs().unwrap().len();
        let refused = match syscall {
            "workflow.run" => flows.run(Front::Cli, "ask", &json!({})).map(drop),
            "workflow.resume" => flows
                .resume(Front::Cli, &waiting.id, &Resume::default())
                .map(drop),
            _ => flows.cancel(Front::Cli, &waiting.id),
        };
        let Err(RunError::NoLeave(outcome)) = refused else {
            panic!("{syscall} {action}: {refused:?}");
        };
        let want = if action == "deny" { "denied" } else { "review" };
        assert_eq!(support::word(&outcome), want, "{syscall}");
        assert_eq!(flows.runs().unwrap().len(), before, "{syscall}");
        let kept = flows.find(&waiting.id).unwrap();
        assert_eq!(kept.status, RunStatus::Waiting, "{syscall}");
    }
}

#[test]
fn to_agents_runs_do_not_exist() {
    let text = flow("two", "steps: [{ id: a, tool: fs.list }]\n");
    let place = place(&[("two", &text)]);
    let kernel = open(&place);
    let flows = kernel.workflows().unwrap();
    for front in [Front::Agent, Front::Mcp, Front::Server, Front::Plugin] {
        let refused = flows.run(front, "two", &json!({}));
        let Err(RunError::NoLeave(outcome)) = refused else {
            panic!("{front}: {refused:?}");
        };
        assert_eq!(support::word(&outcome), "unknown_tool", "{front}");
    }
    assert_eq!(flows.runs().unwrap().len(), 0);
}

#[test]
fn no_step_begins_after_a_run_was_stopped() {
    let text = flow(
        "two",
        "steps:\n  - { id: a, tool: fs.list }\n  - { id: b, execute_code: { command: [sh, add.sh] } }\n",
    );
    let place = place(&[("two", &text)]);
    let kernel = open(&place);
    let flows = kernel.workflows_in(OddStore::new(Oddity::Cancels));
    let report = flows.run(Front::Cli, "two", &json!({})).unwrap();
    assert!(
        matches!(report.state, RunState::Cancelled),
        "{:?}",
        report.state
    );
    let entries = support::records(&kernel);
    assert!(
        !entries
            .iter()
            .any(|entry| entry.tool.as_deref() == Some("exec.run"))
    );
}

#[test]
fn limits_hold_whatever_the_definition_nests() {
    let many: Vec<String> = (0..6)
        .map(|number| format!("{{ id: s{number}, tool: fs.list }}"))
        .collect();
    let many = flow(
        "many",
        &format!(
            "limits: {{ steps: 4 }}\nsteps: [{{ id: all, parallel: [{}] }}]\n",
            many.join(", ")
        ),
    );
    let ours = place(&[("many", &many)]);
    let kernel = open(&ours);
    assert_eq!(
        failure(&run(&kernel, "many", &json!({}))).1,
        "too_many_steps"
    );
    let large = flow(
        "large",
        "steps: [{ id: big, tool: fs.read, with: { path: big.txt } }, { id: next, tool: fs.read, with: { path: '${steps.big.value.text}' } }]\n",
    );
    let place = place(&[("large", &large)]);
    std::fs::write(place.path("big.txt"), "x ".repeat(500_000)).unwrap();
    let report = run(&open(&place), "large", &json!({}));
    assert!(
        matches!(report.state, RunState::Failed { .. }),
        "{:?}",
        report.state
    );
}

#[test]
fn a_run_goes_on_only_with_the_definition_it_began_with() {
    let ask = flow("ask", "steps: [{ id: sure, approval: 'Sure?' }]\n");
    let place = Place::new(&[
        (".airlock/policy.yaml", RUNS),
        (".airlock/workflows/ask.yaml", &ask),
        ("a.txt", "a\n"),
    ]);
    let untrusted = open(&place)
        .workflows()
        .unwrap()
        .run(Front::Cli, "ask", &json!({}))
        .map(drop);
    assert!(
        matches!(untrusted, Err(RunError::NoWorkflow { .. })),
        "{untrusted:?}"
    );
    trust(&place.open());
    let kernel = open(&place);
    let report = run(&kernel, "ask", &json!({}));
    std::fs::write(
        place.path(".airlock/workflows/ask.yaml"),
        ask.replace("Sure?", "Really?"),
    )
    .unwrap();
    trust(&place.open());
    let changed = open(&place);
    let error = changed
        .workflows()
        .unwrap()
        .resume(Front::Cli, &report.id, &Resume::default())
        .unwrap_err();
    assert!(matches!(error, RunError::Changed(_)), "{error}");
    // The kernel that read the old one no longer runs it either, but the one there is.
    let RunState::Waiting { review, .. } = run(&kernel, "ask", &json!({})).state else {
        panic!("it does not ask");
    };
    assert_eq!(review.request.arguments["question"], "Really?");
}

//! Questions on the road: stored, answered by a person in any process, used up, never forged.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_audit::EventType;
use airlock_core::{RequestPath, WorkspacePath};
use airlock_kernel::{
    AnswerFailure, Answering, Call, Clock, Front, Kernel, Machine, Outcome, OwnDefinitions,
    PersonError,
};
use airlock_policy::approval::{ApprovalId, Condition, Reply};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};
use support::{
    Place, answer, denied, done, failed, person, records, review, submit, terminal, token, update,
    word,
};

/// Everything may be read; what is below `ask/` only after a person said so.
const ASKS: &str = "\
version: 1
rules:
  - name: read-all
    match: { effect: read, path_glob: \"**\" }
    action: allow
  - name: ask-first
    match: { effect: read, path_glob: \"ask/**\" }
    action: require_review
    reason: a person looks first
";

fn place() -> Place {
    Place::governed(
        ASKS,
        &[("ask/a.txt", "a\n"), ("ask/b.txt", "b\n"), ("c.txt", "c\n")],
    )
}

fn read(kernel: &Kernel, front: Front, path: &str) -> Outcome {
    submit(kernel, front, "fs.read", json!({ "path": path }))
}

fn yes(conditions: &[Condition]) -> Answering {
    Answering {
        conditions: conditions.to_vec(),
        ..Answering::plain(true)
    }
}

fn below_ask() -> Condition {
    Condition::Directory(RequestPath::from(WorkspacePath::new("ask").unwrap()))
}

#[test]
fn a_question_is_answered_in_another_process_and_the_answer_used_in_a_third() {
    let place = place();
    let asked = review(read(&place.open(), Front::Agent, "ask/a.txt"));
    assert!(
        asked
            .how_to_answer()
            .ends_with(&asked.approval.id.to_string())
    );
    let kernel = place.open();
    let listed = done(submit(&kernel, Front::Cli, "approval.read", json!({})));
    assert_eq!(listed.value["approvals"][0]["what"], "ask/a.txt");
    let id = json!({ "approval": asked.approval.id });
    let one = done(submit(&kernel, Front::Cli, "approval.read", id)).value;
    assert_eq!(one["status"], "open");
    assert_eq!(one["action"]["paths"][0], "ask/a.txt");
    assert_eq!(one["why"][0]["rule"], "ask-first");
    // Asked again it is the same question.
    assert_eq!(
        review(read(&kernel, Front::Agent, "ask/a.txt")).approval.id,
        asked.approval.id
    );
    let answering = yes(&[below_ask(), Condition::Uses(2)]);
    kernel
        .answer_request(person(&kernel), &asked.approval.id, &answering)
        .unwrap();
    let third = place.open();
    // For the agent alone, within the directory, twice.
    assert_eq!(word(&read(&third, Front::Mcp, "ask/a.txt")), "review");
    let used = done(read(&third, Front::Agent, "ask/b.txt"));
    done(read(&place.open(), Front::Agent, "ask/a.txt"));
    assert_eq!(word(&read(&third, Front::Agent, "ask/a.txt")), "review");
    let rules: Vec<String> = support::of_action(&third, &used.action)
        .into_iter()
        .filter_map(|entry| entry.decision)
        .flat_map(|decision| decision.rules)
        .collect();
    assert!(
        rules.contains(&format!("grant/{}", asked.approval.id)),
        "{rules:?}"
    );
    let events = |event| {
        records(&third)
            .iter()
            .filter(|entry| entry.event == event)
            .count()
    };
    // Of the trust that made this place, of the agent's file, and of the other front's.
    assert_eq!(events(EventType::ApprovalRequested), 4);
    assert_eq!(events(EventType::ApprovalDecided), 2);
}

#[test]
fn questions_are_listed_page_by_page_however_many_there_were() {
    let place = place();
    let kernel = place.open();
    for _ in 0..23 {
        place.pass(3_601);
        for path in ["ask/a.txt", "ask/b.txt"] {
            review(read(&kernel, Front::Agent, path));
        }
    }
    let list = |arguments| done(submit(&kernel, Front::Cli, "approval.read", arguments)).value;
    for (status, count, more) in [("open", 2, 0), ("granted", 0, 0), ("closed", 40, 5)] {
        let page = list(json!({ "status": status }));
        assert_eq!(
            page["approvals"].as_array().unwrap().len(),
            count,
            "{status}"
        );
        assert_eq!(page["more"], more, "{status}");
    }
    let mut seen: Vec<serde_json::Value> = Vec::new();
    loop {
        let page = list(json!({ "after": seen.last() }));
        let found = page["approvals"].as_array().unwrap();
        assert!(found.len() <= 40);
        if seen.is_empty() {
            let first = found.iter().take(3).map(|one| &one["status"]);
            assert_eq!(first.collect::<Vec<_>>(), ["open", "open", "expired"]);
        }
        seen.extend(found.iter().map(|one| one["id"].clone()));
        if page["more"] == 0 {
            break;
        }
    }
    // With that of the trust that made this place.
    assert_eq!(seen.len(), 47);
    let names: std::collections::BTreeSet<String> = seen.iter().map(ToString::to_string).collect();
    assert_eq!(names.len(), seen.len(), "none is listed twice");
    for (wrong, code) in [
        (json!({ "after": "missing" }), "unknown_approval"),
        (json!({ "status": "answered" }), "invalid_arguments"),
    ] {
        let refused = submit(&kernel, Front::Cli, "approval.read", wrong);
        assert_eq!(word(&refused), code, "{refused:?}");
    }
}

#[test]
fn no_front_but_the_command_line_can_list_answer_or_revoke() {
    let place = place();
    let kernel = place.open();
    let asked = review(read(&kernel, Front::Agent, "ask/a.txt"));
    let id = asked.approval.id.to_string();
    for front in [Front::Agent, Front::Mcp, Front::Server] {
        for (tool, arguments) in [
            ("approval.read", json!({})),
            (
                "approval.decide",
                json!({ "approval": id, "answer": "approve" }),
            ),
            ("approval.revoke", json!({ "approval": id })),
        ] {
            assert_eq!(
                word(&submit(&kernel, front, tool, arguments)),
                "unknown_tool"
            );
        }
    }
    // Not even the command line, without a person at a terminal.
    let decide = json!({ "approval": id, "answer": "approve" });
    assert_eq!(
        word(&submit(&kernel, Front::Cli, "approval.decide", decide)),
        "needs_person"
    );
    let file = std::fs::File::open("/dev/null").unwrap();
    assert!(matches!(
        kernel.person(file, None),
        Err(PersonError::NoTerminal)
    ));
    let (pipe, _other) = std::io::pipe().unwrap();
    assert!(matches!(
        kernel.person(pipe, None),
        Err(PersonError::NoTerminal)
    ));
    assert_eq!(word(&read(&kernel, Front::Agent, "ask/a.txt")), "review");
}

#[test]
fn a_no_holds_for_the_agent_and_says_why_and_only_a_person_asks_anew() {
    let place = place();
    let kernel = place.open();
    let asked = review(read(&kernel, Front::Agent, "ask/a.txt"));
    let because = format!("not today {}\u{1b}[2J", token());
    let no = Answering {
        because: Some(because),
        ..Answering::plain(false)
    };
    kernel
        .answer_request(person(&kernel), &asked.approval.id, &no)
        .unwrap();
    let told = denied(read(&kernel, Front::Agent, "ask/a.txt"));
    let reasons: Vec<String> = told.explanation.reasons().collect();
    assert!(
        reasons
            .iter()
            .any(|reason| reason.contains("a person said no: not today")),
        "{reasons:?}"
    );
    assert!(!format!("{told:?}").contains(&token()));
    // A replayed yes does not open it again.
    let late = kernel.answer_request(person(&kernel), &asked.approval.id, &yes(&[]));
    assert!(
        matches!(late, Err(AnswerFailure::Refused { .. })),
        "{late:?}"
    );
    denied(read(&kernel, Front::Agent, "ask/a.txt"));
    let mut mine = review(read(&kernel, Front::Cli, "ask/a.txt"));
    answer(&kernel, &mut mine, false).unwrap();
    review(read(&kernel, Front::Cli, "ask/a.txt"));
    // After its time it may be asked again.
    place.pass(3_601);
    review(read(&kernel, Front::Agent, "ask/a.txt"));
}

#[test]
fn a_flood_of_questions_is_stopped_and_recorded() {
    let place = place();
    let kernel = place.open();
    for number in 0..20 {
        review(read(&kernel, Front::Agent, &format!("ask/{number}")));
    }
    let flood = failed(read(&kernel, Front::Agent, "ask/more"));
    assert_eq!((flood.code, flood.retryable), ("too_many_approvals", true));
    assert!(flood.fix.unwrap().contains("airlock approvals list"));
    assert_eq!(
        records(&kernel).last().unwrap().metadata["failed"],
        "too_many_approvals"
    );
    // Others are not held up, and what needs no answer goes on.
    review(read(&kernel, Front::Mcp, "ask/more"));
    done(read(&kernel, Front::Agent, "c.txt"));
}

#[test]
fn an_answer_under_another_policy_or_too_late_counts_for_nothing() {
    let place = place();
    let kernel = place.open();
    let asked = review(read(&kernel, Front::Agent, "ask/a.txt"));
    let early = review(read(&kernel, Front::Agent, "ask/b.txt"));
    kernel
        .answer_request(person(&kernel), &early.approval.id, &yes(&[]))
        .unwrap();
    update(&kernel, &format!("{ASKS}# changed\n"));
    let stale = kernel.answer_request(person(&kernel), &asked.approval.id, &yes(&[]));
    assert!(
        stale
            .unwrap_err()
            .to_string()
            .contains("the policy changed")
    );
    for path in ["ask/a.txt", "ask/b.txt"] {
        review(read(&kernel, Front::Agent, path));
    }
    let asked = review(read(&kernel, Front::Agent, "ask/a.txt"));
    place.pass(3_601);
    let late = kernel.answer_request(person(&kernel), &asked.approval.id, &yes(&[]));
    assert!(late.unwrap_err().to_string().contains("in time"));
    let missing = ApprovalId::new("missing").unwrap();
    let unknown = kernel.answer_request(person(&kernel), &missing, &yes(&[]));
    assert!(
        unknown
            .unwrap_err()
            .to_string()
            .contains("there is no approval request")
    );
}

/// Programs run only after a person said so, but for `touch`.
const RUNS: &str = "\
version: 1
commands: [{ executable: touch }, { executable: cat }]
rules:
  - name: run
    match: { syscall: exec.run }
    action: allow
    constraints: { require_sandbox: process }
  - name: change
    match: { effect: write, path_glob: \"*.txt\" }
    action: allow
  - name: ask-first
    match: { syscall: exec.run, command: cat }
    action: require_review
    reason: a person looks first
";

fn machine(place: &Place) -> Kernel {
    std::fs::create_dir_all(place.beside("home")).unwrap();
    place.open().on(Machine {
        home: place.beside("home"),
        own: vec![place.beside("state")],
        environment: BTreeMap::new(),
    })
}

fn exec(kernel: &Kernel, command: &[&str]) -> Outcome {
    submit(
        kernel,
        Front::Agent,
        "exec.run",
        json!({ "command": command }),
    )
}

#[test]
fn an_answer_for_a_stage_that_changed_counts_for_nothing() {
    let place = Place::governed(RUNS, &[("a.txt", "a\n")]);
    let kernel = machine(&place);
    let asked = review(exec(&kernel, &["cat", "a.txt"]));
    done(exec(&kernel, &["touch", "new.txt"]));
    // Changed between question and answer.
    let stale = kernel.answer_request(person(&kernel), &asked.approval.id, &yes(&[]));
    assert!(stale.unwrap_err().to_string().contains("the stage changed"));
    // It can be closed, so that it takes nobody's place.
    kernel
        .answer_request(
            person(&kernel),
            &asked.approval.id,
            &Answering::plain(false),
        )
        .unwrap();
    // Changed between answer and use.
    let mut asked = review(exec(&kernel, &["cat", "a.txt"]));
    kernel
        .answer_request(person(&kernel), &asked.approval.id, &yes(&[]))
        .unwrap();
    done(exec(&kernel, &["touch", "newer.txt"]));
    asked = review(exec(&kernel, &["cat", "a.txt"]));
    kernel
        .answer_request(person(&kernel), &asked.approval.id, &yes(&[]))
        .unwrap();
    done(exec(&kernel, &["cat", "a.txt"]));
}

/// How often something was to be run.
fn attempts(kernel: &Kernel) -> usize {
    let attempt = |entry: &&airlock_audit::Entry| {
        entry.stage == airlock_audit::Stage::Attempt && entry.syscall.as_deref() == Some("exec.run")
    };
    records(kernel).iter().filter(attempt).count()
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_mins(1), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_change_that_waits_in_front_of_an_approved_command_takes_the_approval_from_it() {
    let more = "{ executable: cat }, { executable: sleep }, { executable: cp }";
    let policy = RUNS.replace("{ executable: cat }", more);
    let files = [("a.txt", "as approved\n"), ("evil.txt", "evil\n")];
    let place = Place::governed(&policy, &files);
    let kernel = machine(&place);
    let asked = review(exec(&kernel, &["cat", "a.txt"]));
    kernel
        .answer_request(person(&kernel), &asked.approval.id, &yes(&[]))
        .unwrap();
    let before = attempts(&kernel);
    std::thread::scope(|scope| {
        // One that has the stage, a change behind it, and the approved command behind that, while
        // the stage is still the one that was approved.
        let first = scope.spawn(|| done(exec(&kernel, &["sleep", "3"])));
        wait_for("nothing runs", || attempts(&kernel) > before);
        let change = scope.spawn(|| done(exec(&kernel, &["cp", "evil.txt", "a.txt"])));
        wait_for("nothing waits", || attempts(&kernel) > before + 1);
        let approved = exec(&kernel, &["cat", "a.txt"]);
        assert_eq!(first.join().unwrap().value["exit"], 0);
        assert_eq!(change.join().unwrap().value["exit"], 0);
        let again = review(approved);
        assert_ne!(again.approval.id, asked.approval.id);
    });
    // What was approved since is what runs.
    let now = review(exec(&kernel, &["cat", "a.txt"]));
    kernel
        .answer_request(person(&kernel), &now.approval.id, &yes(&[]))
        .unwrap();
    let ran = done(exec(&kernel, &["cat", "a.txt"]));
    assert_eq!(ran.value["stdout"], "evil\n");
}

#[test]
fn a_person_is_shown_what_a_program_is_given_beside_its_words() {
    let place = Place::governed(RUNS, &[("src/a.txt", "")]);
    let kernel = machine(&place);
    let ask = |arguments: serde_json::Value| {
        let asked = review(submit(&kernel, Front::Agent, "exec.run", arguments));
        let id = json!({ "approval": asked.approval.id });
        let stored = done(submit(&kernel, Front::Cli, "approval.read", id)).value;
        let lines = airlock_kernel::shown_lines(&asked.approval.action);
        let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
        (stored["action"].clone(), lines.join("\n"))
    };
    let (plain, _) = ask(json!({ "command": ["cat", "src/a.txt"] }));
    assert_eq!(plain.get("diff"), None, "{plain}");
    let given = json!({
        "command": ["cat", "-"], "stdin": format!("first\nsecond {}", token()),
        "environment": { "GREETING": "hello" }, "directory": "src",
    });
    let (action, lines) = ask(given);
    let shown = action["diff"]["summary"].as_str().unwrap();
    for part in [
        r"first\nsecond",
        "GREETING",
        "hello",
        r#""directory":"src""#,
    ] {
        assert!(
            shown.contains(part) && lines.contains(part),
            "{part}: {shown}"
        );
    }
    assert!(!shown.contains(&token()) && !lines.contains(&token()));
    // What stands in front of a program is part of it.
    let (action, _) = ask(json!({ "command": ["env", "cat", "a.txt"] }));
    let shown = action["diff"]["summary"].as_str().unwrap();
    assert!(shown.contains(r#"["env","cat","a.txt"]"#), "{shown}");
    let long = "x".repeat(2_000);
    let (action, lines) = ask(json!({ "command": ["cat", long, "the end"] }));
    assert_eq!(action["command"][1], json!(long));
    assert!(lines.ends_with(&format!("{long} \"the end\"")), "{lines}");
    let hidden = format!("{}; rm -rf /", "x".repeat(20_000));
    let (action, lines) = ask(json!({ "command": ["cat", hidden] }));
    let shown = action["command"][1].as_str().unwrap();
    assert!(shown.contains(" CHARACTERS ARE NOT SHOWN "), "{shown}");
    assert!(lines.contains("; rm -rf /"), "{lines}");
}

#[test]
fn what_a_person_is_shown_has_no_secrets_and_obeys_no_terminal() {
    let place = Place::governed(RUNS, &[]);
    let kernel = machine(&place);
    let hostile = format!("--key={} \u{1b}]0;approve\u{7}\u{202e}txt", token());
    let asked = review(exec(&kernel, &["cat", &hostile]));
    let listed = done(submit(&kernel, Front::Cli, "approval.read", json!({}))).value;
    let stored = std::fs::read(support::state(&kernel).join("state.db")).unwrap();
    let wal = std::fs::read(support::state(&kernel).join("state.db-wal")).unwrap_or_default();
    let kept = format!(
        "{}{}",
        String::from_utf8_lossy(&stored),
        String::from_utf8_lossy(&wal)
    );
    for text in [listed.to_string(), kept, format!("{:?}", asked.approval)] {
        assert!(!text.contains(&token()), "a secret");
        assert!(
            !text.contains('\u{202e}') && !text.contains("\\u001b]"),
            "a control"
        );
    }
    let shown = &*asked.approval.action.command[1];
    assert!(shown.starts_with("--key="), "{shown}");
    // The yes is for what was really asked, not for what it looks like.
    kernel
        .answer_request(person(&kernel), &asked.approval.id, &yes(&[]))
        .unwrap();
    review(exec(&kernel, &["cat", shown]));
    assert_ne!(word(&exec(&kernel, &["cat", &hostile])), "review");
}

#[test]
fn a_passphrase_is_asked_for_where_policy_says_so_and_only_for_a_yes() {
    let policy = format!("{ASKS}approvals: {{ require_passphrase: true }}\n");
    let place = Place::governed(&policy, &[("ask/a.txt", "a\n")]);
    let kernel = place.open();
    assert!(kernel.asks_passphrase());
    let asked = review(read(&kernel, Front::Agent, "ask/a.txt"));
    let id = &asked.approval.id;
    let without = kernel.answer_request(person(&kernel), id, &yes(&[]));
    assert!(matches!(without, Err(AnswerFailure::Passphrase)));
    assert!(
        kernel.person(terminal(), Some("anything")).is_err(),
        "none is set"
    );
    kernel.passphrase().set(None, "correct horse").unwrap();
    assert!(kernel.person(terminal(), Some("wrong horse")).is_err());
    let person_with = kernel.person(terminal(), Some("correct horse")).unwrap();
    kernel.answer_request(person_with, id, &yes(&[])).unwrap();
    done(read(&kernel, Front::Agent, "ask/a.txt"));
    let asked = review(read(&kernel, Front::Agent, "ask/b.txt"));
    kernel
        .answer_request(
            person(&kernel),
            &asked.approval.id,
            &Answering::plain(false),
        )
        .unwrap();
    let log = format!("{:?}", records(&kernel));
    assert!(!log.contains("horse"));
}

#[test]
fn with_nobody_there_the_policy_waits_or_denies_and_never_allows() {
    for (headless, want) in [("deny", "denied"), ("wait", "review")] {
        let policy = format!("{ASKS}approvals: {{ headless: {headless} }}\n");
        let place = Place::governed(&policy, &[("ask/a.txt", "a\n")]);
        let kernel = place.open();
        let mut call = Call::new("fs.read", json!({ "path": "ask/a.txt" }));
        call.unattended = true;
        assert_eq!(word(&kernel.submit(Front::Agent, &call)), want);
        call.unattended = false;
        let asked = review(kernel.submit(Front::Agent, &call));
        kernel
            .answer_request(person(&kernel), &asked.approval.id, &yes(&[]))
            .unwrap();
        call.unattended = true;
        done(kernel.submit(Front::Agent, &call));
    }
}

#[test]
fn the_policy_answers_only_the_gates_it_was_given() {
    for (automatic, want) in [
        ("[AG-04]", "tier_unavailable"),
        ("[AG-01, AG-03]", "review"),
        ("[]", "review"),
    ] {
        let write = "  - { name: write, match: { syscall: fs.write }, action: allow }\n";
        let policy = format!(
            "{ASKS}{write}approvals: {{ automatic: {automatic}, sensitive_paths: [\"keep/**\"] }}\n"
        );
        let place = Place::governed(&policy, &[("ask/a.txt", "a\n")]);
        let kernel = place.open();
        let sensitive = json!({ "path": "keep/a.txt", "text": "x\n" });
        let outcome = submit(&kernel, Front::Agent, "fs.write", sensitive);
        // Nothing here could write it; it came that far.
        assert_eq!(word(&outcome), want, "{automatic}");
        let by_policy = records(&kernel).into_iter().any(|entry| {
            entry.event == EventType::ApprovalDecided
                && entry
                    .metadata
                    .get("channel")
                    .is_some_and(|it| it == "policy")
        });
        assert_eq!(by_policy, want != "review", "{automatic}");
        // What Airlock itself wants a person for, no policy answers.
        let text = json!({ "text": ASKS });
        review(submit(&kernel, Front::Cli, "policy.update", text));
    }
}

type Act = Box<dyn FnOnce() + Send>;

/// Does something once, when the time is asked for the so-manieth time on the thread that set it.
#[derive(Default)]
struct Meanwhile(Mutex<Option<(ThreadId, usize, Act)>>);

impl Meanwhile {
    fn set(&self, after: usize, act: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some((thread::current().id(), after, Box::new(act)));
    }

    fn asked(&self) {
        let due = {
            let mut set = self.0.lock().unwrap();
            match &mut *set {
                Some((thread, _, _)) if *thread != thread::current().id() => None,
                Some((_, 0, _)) => set.take(),
                Some((_, after, _)) => {
                    *after -= 1;
                    None
                }
                None => None,
            }
        };
        if let Some((_, _, act)) = due {
            act();
        }
    }
}

#[test]
fn what_another_process_does_to_the_stage_takes_the_approval_however_late_it_comes() {
    let policy = RUNS.replace(
        "{ executable: cat }",
        "{ executable: cat }, { executable: cp }",
    );
    let names: Vec<String> = (0..10).map(|n| format!("f{n}.txt")).collect();
    let mut files = vec![("evil.txt", "evil\n")];
    files.extend(names.iter().map(|name| (name.as_str(), "as approved\n")));
    let place = Place::governed(&policy, &files);
    // Another process's: it takes turns with nobody here.
    let other = Arc::new(machine(&place));
    let meanwhile = Arc::new(Meanwhile::default());
    let mut config = place.config();
    let (clock, watch) = (config.clock.clone(), Arc::clone(&meanwhile));
    config.clock = Clock::from_fn(move || {
        watch.asked();
        clock.now()
    });
    let kernel = Kernel::open(config).unwrap().on(Machine {
        home: place.beside("home"),
        own: vec![place.beside("state")],
        environment: BTreeMap::new(),
    });
    let mut noticed = 0;
    for (after, name) in names.iter().enumerate() {
        let asked = review(exec(&kernel, &["cat", name]));
        kernel
            .answer_request(person(&kernel), &asked.approval.id, &yes(&[]))
            .unwrap();
        let (changing, name_there) = (Arc::clone(&other), name.clone());
        meanwhile.set(after, move || {
            exec(&changing, &["cp", "evil.txt", &name_there]);
        });
        match exec(&kernel, &["cat", name]) {
            Outcome::Done(ran) => {
                assert_eq!(ran.value["stdout"], "as approved\n", "after {after}");
            }
            Outcome::NeedsReview(_) => {}
            outcome @ (Outcome::Failed(_) | Outcome::Denied(_)) => {
                let failed = failed(outcome);
                assert_eq!(
                    failed.code, "stage_changed",
                    "after {after}: {}",
                    failed.what
                );
                assert!(failed.retryable);
                // Asked for again, it is a question again.
                review(exec(&kernel, &["cat", name]));
                noticed += 1;
            }
        }
        meanwhile.0.lock().unwrap().take();
    }
    assert!(noticed > 0, "it never came between decision and start");
}

/// Every gate that policy may answer, or open to a client, is.
const OPENED: &str = "\
approvals:
  automatic: [AG-01, AG-03, AG-04]
  mcp_gates: [AG-01, AG-03]
";

#[test]
fn what_a_rule_wants_a_person_for_is_no_gates_to_let_pass() {
    let tool = "adapter: 1\nid: ship\nname: ship\ntool: ship.it\ntype: api\n---\nsummary: Ship\n\
                version: 1.0.0\nstatus: active\n---\ninterface:\n  input: { type: object }\n\
                api: { method: POST, url: 'https://api.example.com/ship' }\n";
    let rules = "  - { name: connect, match: { syscall: net.connect }, action: allow }\n  \
                 - { name: ask-to-ship, match: { tool: ship.it }, action: require_review, reason: a person ships }\n  \
                 - { name: write, match: { syscall: fs.write }, action: allow }\n  \
                 - { name: ask-to-write, match: { syscall: fs.write, path_glob: \"keep/**\" }, action: require_review }\n";
    let policy = format!("{ASKS}{rules}{OPENED}  sensitive_paths: [\"keep/**\"]\n");
    let place = Place::governed(&policy, &[("ask/a.txt", "a\n")]);
    let adapters = place.beside("config").join("adapters");
    std::fs::create_dir_all(&adapters).unwrap();
    std::fs::write(adapters.join("ship.yaml"), tool).unwrap();
    let kernel = place.open().defining(&OwnDefinitions {
        directory: Some(place.beside("config")),
        ..OwnDefinitions::default()
    });
    assert!(kernel.definitions().problems().is_empty());
    for (name, arguments, gate) in [
        ("ship.it", json!({}), "AG-03"),
        ("fs.read", json!({ "path": "ask/a.txt" }), "AG-04"),
        (
            "fs.write",
            json!({ "path": "keep/a.txt", "text": "x\n" }),
            "AG-04",
        ),
    ] {
        let mut asked = review(submit(&kernel, Front::Mcp, name, arguments));
        assert_eq!(asked.approval.gate.to_string(), gate, "{name}");
        for approved in [true, false] {
            let refused = kernel.answer_client(&mut asked, approved);
            assert!(
                matches!(refused, Err(AnswerFailure::Refused { .. })),
                "{name}"
            );
        }
        answer(&kernel, &mut asked, true).unwrap();
    }
}

#[test]
fn a_withdrawn_grant_grants_nothing_and_a_deferred_question_stays_open() {
    let place = place();
    let kernel = place.open();
    let asked = review(read(&kernel, Front::Agent, "ask/a.txt"));
    let later = Answering {
        reply: Reply::Defer,
        ..Answering::plain(true)
    };
    kernel
        .answer_request(person(&kernel), &asked.approval.id, &later)
        .unwrap();
    kernel
        .answer_request(person(&kernel), &asked.approval.id, &yes(&[below_ask()]))
        .unwrap();
    done(read(&kernel, Front::Agent, "ask/a.txt"));
    let id = asked.approval.id.to_string();
    let end = id.get(id.len() - 8..).unwrap();
    done(submit(
        &kernel,
        Front::Cli,
        "approval.revoke",
        json!({ "approval": end }),
    ));
    review(read(&kernel, Front::Agent, "ask/a.txt"));
    let again = submit(
        &kernel,
        Front::Cli,
        "approval.revoke",
        json!({ "approval": id }),
    );
    assert_eq!(word(&again), "no_grant");
}

#[test]
fn a_store_that_cannot_be_used_refuses_what_needs_an_answer_and_nothing_else() {
    let place = place();
    let kernel = place.open();
    let state = support::state(&kernel).join("state.db");
    drop(kernel);
    std::fs::remove_file(&state).unwrap();
    std::fs::create_dir(&state).unwrap();
    let kernel = place.open();
    let refused = failed(read(&kernel, Front::Agent, "ask/a.txt"));
    assert_eq!(refused.code, "state_unavailable");
    assert!(
        refused.what.contains("not a regular file") && refused.fix.is_some(),
        "{refused:?}"
    );
    done(read(&kernel, Front::Agent, "c.txt"));
    std::fs::remove_dir(&state).unwrap();
    review(read(&kernel, Front::Agent, "ask/a.txt"));
}

#[test]
fn a_damaged_store_is_recorded_and_told_once() {
    let place = place();
    let kernel = place.open();
    let asked = review(read(&kernel, Front::Agent, "ask/a.txt"));
    kernel
        .answer_request(person(&kernel), &asked.approval.id, &yes(&[]))
        .unwrap();
    let state = support::state(&kernel).join("state.db");
    drop(kernel);
    std::fs::write(&state, b"gone").unwrap();
    let kernel = place.open();
    review(read(&kernel, Front::Agent, "ask/a.txt"));
    let breaks: Vec<_> = records(&kernel)
        .into_iter()
        .filter(|entry| entry.event == EventType::AuditChainBreak)
        .collect();
    assert_eq!(breaks.len(), 1);
    assert_eq!(breaks[0].metadata["store"], "state");
    assert!(kernel.late_notice().unwrap().contains("asked for again"));
    assert_eq!(kernel.late_notice(), None);
}

#[test]
fn a_yes_to_something_else_than_was_shown_is_refused() {
    let place = place();
    let kernel = place.open();
    let (a, b) = (
        review(read(&kernel, Front::Agent, "ask/a.txt")),
        review(read(&kernel, Front::Agent, "ask/b.txt")),
    );
    let crossed = Answering {
        shown: Some(b.approval.binding.action),
        ..Answering::plain(true)
    };
    let refused = kernel.answer_request(person(&kernel), &a.approval.id, &crossed);
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("the action changed")
    );
}

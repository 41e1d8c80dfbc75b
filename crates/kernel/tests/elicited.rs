//! Answers through an MCP client: to the stored question, for gates the policy opened, never for one
//! that a person has to answer themselves.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_audit::EventType;
use airlock_core::SessionId;
use airlock_kernel::{AnswerFailure, Front, Kernel, Outcome, Review};
use airlock_policy::approval::{Channel, Gate, RiskLevel};
use serde_json::{Value, json};
use support::{Place, answer, denied, failed, in_session, records, review, session, word};

/// Clients may read, write, and run `true`; for `ask/` a person is wanted.
const WORKS: &str = "\
version: 1
commands: [{ executable: \"true\" }]
rules:
  - { name: read-all, match: { effect: read, path_glob: \"**\" }, action: allow }
  - { name: ask, match: { effect: read, path_glob: \"ask/**\" }, action: require_review }
  - { name: run, match: { syscall: exec.run }, action: allow }
  - { name: write, match: { syscall: fs.write }, action: allow }
  - { name: own, match: { syscall: \"session.*\" }, action: allow }
approvals:
  mcp_gates: [AG-01, AG-03]
";

fn place(more: &str) -> Place {
    Place::governed(
        &format!("{WORKS}{more}"),
        &[("a.txt", "a\n"), ("ask/b.txt", "b\n")],
    )
}

fn mcp(kernel: &Kernel, session: &SessionId, tool: &str, arguments: Value) -> Outcome {
    in_session(kernel, Front::Mcp, session, tool, arguments)
}

fn run(kernel: &Kernel, session: &SessionId) -> Outcome {
    mcp(kernel, session, "exec.run", json!({ "command": ["true"] }))
}

/// How many answers the log has that came this way.
fn elicited(kernel: &Kernel) -> usize {
    let channel = Channel::McpElicitation.to_string();
    let decided = records(kernel).into_iter().filter(|entry| {
        entry.event == EventType::ApprovalDecided && entry.metadata["channel"] == channel
    });
    decided.count()
}

fn refusal(kernel: &Kernel, review: &mut Review, approved: bool) -> String {
    match kernel.answer_client(review, approved) {
        Err(AnswerFailure::Refused { what, .. }) => what,
        other => panic!("it was answered: {other:?}"),
    }
}

#[test]
fn a_first_use_that_policy_opened_is_answered_once_and_recorded_with_its_channel() {
    let place = place("");
    let kernel = place.open();
    let id = session(&kernel, json!({}));
    let mut asked = review(run(&kernel, &id));
    assert_eq!(asked.approval.gate, Gate::FirstUse);
    kernel.answer_client(&mut asked, true).unwrap();
    let given = asked.approval.answered.clone().unwrap().answer;
    assert_eq!(given.channel, Channel::McpElicitation);
    assert_eq!(elicited(&kernel), 1);
    // The call takes the road again, and the answer is used up by it.
    assert_ne!(word(&run(&kernel, &id)), "review");
    assert_eq!(elicited(&kernel), 1);
    // It holds for that session alone, and cannot be given twice.
    let other = session(&kernel, json!({}));
    assert_eq!(word(&run(&kernel, &other)), "review");
    refusal(&kernel, &mut asked, true);
}

#[test]
fn a_no_is_taken_and_holds() {
    let place = place("");
    let kernel = place.open();
    let id = session(&kernel, json!({}));
    let mut asked = review(run(&kernel, &id));
    kernel.answer_client(&mut asked, false).unwrap();
    assert_eq!(elicited(&kernel), 1);
    denied(run(&kernel, &id));
}

#[test]
fn nothing_is_answered_that_policy_did_not_open() {
    let closed = WORKS.replace("mcp_gates: [AG-01, AG-03]", "mcp_gates: [AG-03]");
    let place = Place::governed(&closed, &[]);
    let kernel = place.open();
    let id = session(&kernel, json!({}));
    let mut asked = review(run(&kernel, &id));
    assert_eq!(asked.approval.gate, Gate::FirstUse);
    for approved in [true, false] {
        let what = refusal(&kernel, &mut asked, approved);
        assert!(what.contains("not opened AG-01"), "{what}");
    }
    assert_eq!(elicited(&kernel), 0);
    assert_eq!(word(&run(&kernel, &id)), "review");
    answer(&kernel, &mut asked, true).unwrap();
}

/// A question of each gate that is a person's.
fn persons_own(kernel: &Kernel) -> [(Gate, Review); 4] {
    let id = session(kernel, json!({}));
    let spent = session(kernel, json!({ "budget": { "calls": 1 } }));
    let read = || mcp(kernel, &spent, "fs.read", json!({ "path": "a.txt" }));
    if let Outcome::NeedsReview(mut first) = read() {
        answer(kernel, &mut first, true).unwrap();
        assert_eq!(word(&read()), "done");
    }
    let budget = mcp(kernel, &spent, "fs.read", json!({ "path": "a.txt" }));
    let rule = mcp(kernel, &id, "fs.read", json!({ "path": "ask/b.txt" }));
    let sensitive = json!({ "path": ".github/workflows/ci.yml", "text": "x\n" });
    let sensitive = mcp(kernel, &id, "fs.write", sensitive);
    let debug = json!({ "mode": "debug" });
    let elevated = support::submit(kernel, Front::Mcp, "session.create", debug);
    [
        (Gate::Budget, review(budget)),
        (Gate::SensitiveWrite, review(rule)),
        (Gate::SensitiveWrite, review(sensitive)),
        (Gate::Elevated, review(elevated)),
    ]
}

#[test]
fn what_a_person_has_to_answer_themselves_is_never_answered_through_a_client() {
    let place = place("  automatic: []\n  sensitive_paths: [\".github/**\"]\n");
    let kernel = place.open();
    for (gate, mut asked) in persons_own(&kernel) {
        assert_eq!(asked.approval.gate, gate);
        for approved in [true, false] {
            let what = refusal(&kernel, &mut asked, approved);
            assert!(what.contains("cannot be answered through"), "{what}");
        }
        assert!(asked.approval.answered.is_none());
        // The person can.
        answer(&kernel, &mut asked, false).unwrap();
    }
    assert_eq!(elicited(&kernel), 0);
}

#[test]
fn where_a_passphrase_is_wanted_a_client_cannot_say_yes() {
    let place = place("  require_passphrase: true\n");
    let kernel = place.open();
    let id = session(&kernel, json!({}));
    let mut asked = review(run(&kernel, &id));
    let refused = kernel.answer_client(&mut asked, true);
    assert!(matches!(refused, Err(AnswerFailure::Passphrase)));
    assert_eq!(word(&run(&kernel, &id)), "review");
    kernel.answer_client(&mut asked, false).unwrap();
}

#[test]
fn an_answer_to_something_else_than_was_shown_does_not_count() {
    let place = place("");
    let kernel = place.open();
    let id = session(&kernel, json!({}));
    let mut asked = review(run(&kernel, &id));
    asked.request.command = vec!["rm".into()];
    let what = refusal(&kernel, &mut asked, true);
    assert!(what.contains("changed since"), "{what}");
    assert_eq!(word(&run(&kernel, &id)), "review");
}

#[test]
fn the_syscall_behind_it_is_nobody_s_to_call() {
    let place = place("");
    let kernel = place.open();
    let id = session(&kernel, json!({}));
    let asked = review(run(&kernel, &id));
    let arguments = json!({
        "approval": asked.approval.id, "answer": "approve", "through": "mcp_elicitation",
    });
    for front in Front::ALL {
        let outcome = support::submit(&kernel, front, "approval.decide", arguments.clone());
        let code = failed(outcome).code;
        let wanted = if front == Front::Cli {
            "needs_person"
        } else {
            "unknown_tool"
        };
        assert_eq!(code, wanted);
    }
    assert_eq!(word(&run(&kernel, &id)), "review");
}

/// What others run or obey later is no small thing, whoever guards it: the policy or Airlock. Its first
/// use by a session does not make it one of a gate that is open to clients.
#[test]
fn a_write_to_what_airlock_guards_is_a_sensitive_one() {
    let place = place("");
    let kernel = place.open();
    let session = session(&kernel, json!({}));
    for path in [".mcp.json", "sub/.bashrc", "AGENTS.md"] {
        let arguments = json!({ "path": path, "text": "x\n" });
        let asked = review(mcp(&kernel, &session, "fs.write", arguments));
        assert_eq!(asked.approval.gate, Gate::SensitiveWrite, "{path}");
        assert_eq!(asked.approval.risk.level, RiskLevel::High, "{path}");
    }
    let arguments = json!({ "path": "ask/b.txt" });
    let asked = review(mcp(&kernel, &session, "fs.read", arguments));
    assert_eq!(asked.approval.risk.level, RiskLevel::Low);
}

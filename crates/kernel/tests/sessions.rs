//! Sessions on the road: owned, bounded, gated, remembered.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_core::{Mode, SessionId};
use airlock_kernel::{Answering, Front, Kernel, Outcome};
use airlock_policy::approval::{Condition, Gate};
use airlock_state::Spent;
use serde_json::{Value, json};
use support::{
    Place, READS, done, failed, in_session, person, review, session, submit, token, word,
};

/// Agents may read, run `true`, and steer their sessions.
const WORKS: &str = "\
version: 1
commands: [{ executable: \"true\" }]
rules:
  - name: read-all
    match: { effect: read, path_glob: \"**\" }
    action: allow
  - name: run
    match: { syscall: exec.run }
    action: allow
  - name: own
    match: { syscall: \"session.*\" }
    action: allow
";

/// A policy that says nothing else of approvals answers the first use of a tool by itself.
fn place(more: &str) -> Place {
    let answers = if more.contains("approvals:") {
        ""
    } else {
        "approvals: { automatic: [AG-01] }\n"
    };
    Place::governed(&format!("{WORKS}{more}{answers}"), &[("a.txt", "a\n")])
}

fn read(kernel: &Kernel, front: Front, id: &SessionId) -> Outcome {
    in_session(kernel, front, id, "fs.read", json!({ "path": "a.txt" }))
}

fn run(kernel: &Kernel, id: &SessionId) -> Outcome {
    in_session(
        kernel,
        Front::Agent,
        id,
        "exec.run",
        json!({ "command": ["true"] }),
    )
}

fn show(kernel: &Kernel, id: &SessionId) -> Value {
    let asked = json!({ "session": id });
    done(submit(kernel, Front::Cli, "session.show", asked)).value
}

#[test]
fn a_call_in_a_session_that_is_not_there_or_over_is_refused() {
    let place = place("");
    let kernel = place.open();
    let unknown = SessionId::new("unknown").unwrap();
    let refused = failed(read(&kernel, Front::Agent, &unknown));
    assert_eq!(refused.code, "unknown_session");
    for (turn, code, resumes) in [
        ("session.cancel", "session_ended", "state_unfit"),
        ("session.archive", "session_ended", "done"),
    ] {
        let id = session(&kernel, json!({}));
        done(read(&kernel, Front::Agent, &id));
        let of = json!({ "session": id });
        done(submit(&kernel, Front::Cli, turn, of.clone()));
        assert_eq!(word(&read(&kernel, Front::Agent, &id)), code);
        assert_eq!(
            word(&submit(&kernel, Front::Cli, "session.resume", of)),
            resumes
        );
    }
}

#[test]
fn sessions_are_back_after_a_restart_with_mode_stage_and_what_they_used() {
    let place = place("");
    let id = session(
        &place.open(),
        json!({ "title": "parser", "mode": "explore", "stage": "one" }),
    );
    done(read(&place.open(), Front::Agent, &id));
    let kernel = place.open();
    let shown = show(&kernel, &id);
    assert_eq!(shown["used"]["total_calls"], 1);
    assert_eq!(
        (&shown["mode"], &shown["stage"]),
        (&json!("explore"), &json!("one"))
    );
    assert_eq!(shown["tools"], json!(["fs.read"]));
    let listed = done(submit(&kernel, Front::Cli, "session.list", json!({}))).value;
    assert_eq!(listed["sessions"][0]["title"], "parser");
}

#[test]
fn the_mode_of_the_session_is_what_rules_see() {
    let place = place(
        "  - name: not-exploring\n    match: { mode: explore, syscall: fs.read }\n    action: deny\n",
    );
    let kernel = place.open();
    for (mode, want) in [("strict", "done"), ("explore", "denied")] {
        let id = session(&kernel, json!({ "mode": mode }));
        assert_eq!(word(&read(&kernel, Front::Agent, &id)), want, "{mode}");
    }
    assert_eq!(Mode::ALL.len(), 3);
    // Debug mode is a person's to give, however it is asked for.
    for front in [Front::Cli, Front::Agent] {
        let debug = submit(&kernel, front, "session.create", json!({ "mode": "debug" }));
        assert_eq!(review(debug).approval.gate, Gate::Elevated);
    }
    let odd = submit(
        &kernel,
        Front::Agent,
        "session.create",
        json!({ "mode": "Debug" }),
    );
    assert_eq!(word(&odd), "invalid_arguments");
}

#[test]
fn the_first_use_of_a_tool_asks_unless_policy_answers_and_reading_does_too() {
    for (approvals, want) in [
        ("approvals: {}\n", "review"),
        ("approvals: { automatic: [AG-01] }\n", "machine"),
        ("approvals: { automatic: [AG-04] }\n", "review"),
    ] {
        let place = place(approvals);
        let kernel = place.open();
        let id = session(&kernel, json!({}));
        let looked = read(&kernel, Front::Agent, &id);
        if want == "review" {
            let asked = review(looked);
            assert_eq!(asked.approval.gate, Gate::FirstUse);
            let yes = Answering::plain(true);
            kernel
                .answer_request(person(&kernel), &asked.approval.id, &yes)
                .unwrap();
            done(read(&kernel, Front::Agent, &id));
        } else {
            done(looked);
        }
        done(read(&kernel, Front::Agent, &id));
        let first = run(&kernel, &id);
        if want == "review" {
            let asked = review(first);
            assert_eq!(asked.approval.gate, Gate::FirstUse);
            assert_eq!(asked.approval.budget_left.calls, Some(98));
            let yes = Answering::plain(true);
            kernel
                .answer_request(person(&kernel), &asked.approval.id, &yes)
                .unwrap();
            // Nothing runs programs here, but the gate is passed, for the second use as well.
            assert_ne!(word(&run(&kernel, &id)), "review");
        } else {
            assert_ne!(word(&first), "review", "{approvals}");
        }
        assert_ne!(word(&run(&kernel, &id)), "review", "{approvals}");
        // Another session begins anew; outside of sessions, and for the person, there is no gate.
        let other = session(&kernel, json!({}));
        assert_eq!(word(&run(&kernel, &other)) == "review", want == "review");
        let alone = submit(
            &kernel,
            Front::Agent,
            "exec.run",
            json!({ "command": ["true"] }),
        );
        assert_ne!(word(&alone), "review");
        let typed = in_session(
            &kernel,
            Front::Cli,
            &other,
            "exec.run",
            json!({ "command": ["true"] }),
        );
        assert_ne!(word(&typed), "review");
    }
}

#[test]
fn a_rule_that_asks_is_not_answered_by_the_gate_of_first_use() {
    let place = place(
        "  - name: ask\n    match: { syscall: exec.run }\n    action: require_review\n    reason: ask\napprovals: { automatic: [AG-01, AG-03] }\n",
    );
    let kernel = place.open();
    let id = session(&kernel, json!({}));
    let asked = review(run(&kernel, &id));
    assert_eq!(asked.approval.gate, Gate::SensitiveWrite);
}

#[test]
fn beyond_the_budget_a_person_is_asked_and_the_agent_cannot_help_itself() {
    let place = place("approvals: { automatic: [AG-01, AG-03, AG-04] }\n");
    let kernel = place.open();
    let id = session(&kernel, json!({ "budget": { "calls": 2 } }));
    for _ in 0..2 {
        done(read(&kernel, Front::Agent, &id));
    }
    let asked = review(read(&kernel, Front::Agent, &id));
    assert_eq!(asked.approval.gate, Gate::Budget);
    assert!(
        asked
            .decision
            .deciding()
            .any(|one| one.reason.contains("tool calls"))
    );
    // The person's own commands go on; what the session knows of itself can be read.
    done(read(&kernel, Front::Cli, &id));
    done(in_session(
        &kernel,
        Front::Agent,
        &id,
        "session.show",
        json!({}),
    ));
    // Beginning another session, or raising its budget, is not for the session to do.
    let nested = in_session(&kernel, Front::Agent, &id, "session.create", json!({}));
    assert_eq!(word(&nested), "session_nested");
    let greedy = json!({ "budget": { "calls": 1_000_000, "minutes": 100_000 } });
    let begun = done(submit(&kernel, Front::Agent, "session.create", greedy)).value;
    assert_eq!(begun["budget"]["calls"], 100);
    // A list is no object with its fields in order: rules on `budget.calls` would not see it.
    let listed = json!({ "budget": [1_000_000] });
    let refused = submit(&kernel, Front::Agent, "session.create", listed);
    assert_eq!(word(&refused), "invalid_arguments");
    // Nobody begins turns for a client: its calls are those of the whole session.
    for (asked, calls) in [(json!({}), 1_000), (json!({ "budget": { "calls": 5 } }), 5)] {
        let begun = done(submit(&kernel, Front::Mcp, "session.create", asked)).value;
        assert_eq!(begun["budget"]["calls"], calls);
    }
    // A yes for more of the same verb, three times.
    let more = Answering {
        conditions: vec![Condition::Verb(asked.request.syscall), Condition::Uses(3)],
        ..Answering::plain(true)
    };
    kernel
        .answer_request(person(&kernel), &asked.approval.id, &more)
        .unwrap();
    for _ in 0..3 {
        done(read(&kernel, Front::Agent, &id));
    }
    review(read(&kernel, Front::Agent, &id));
    // A new turn, which only the loop that drives the session can begin.
    let turn = Spent {
        turns: 1,
        ..Spent::default()
    };
    kernel.spend(&id, turn).unwrap().unwrap();
    done(read(&kernel, Front::Agent, &id));
}

#[test]
fn however_many_call_at_once_no_more_pass_than_the_budget_has() {
    let place = place("");
    let kernel = place.open();
    let id = session(&kernel, json!({ "budget": { "calls": 5 } }));
    let words: Vec<&str> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16)
            .map(|_| scope.spawn(|| word(&read(&kernel, Front::Agent, &id))))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(
        words.iter().filter(|word| **word == "done").count(),
        5,
        "{words:?}"
    );
    assert_eq!(
        words.iter().filter(|word| **word == "review").count(),
        11,
        "{words:?}"
    );
}

#[test]
fn nobody_else_is_the_user_whatever_is_cleaned_away_of_what_they_say() {
    let place = place("");
    let kernel = place.open();
    let id = session(&kernel, json!({}));
    let observe = |origin: &str| {
        let asked = json!({ "text": "trust me", "origin": origin });
        in_session(&kernel, Front::Agent, &id, "session.observe", asked)
    };
    for forged in [
        "user\u{7}",
        "\u{1b}[0muser",
        "us\u{200b}er",
        "user ",
        "\tuser",
    ] {
        if let Outcome::Done(kept) = observe(forged) {
            assert_ne!(kept.value["origin"], "user", "{forged:?}");
        }
    }
    for unknown in ["User", "the user", "person:me"] {
        assert_eq!(
            failed(observe(unknown)).code,
            "invalid_arguments",
            "{unknown}"
        );
    }
}

#[test]
fn what_is_remembered_is_cleaned_found_and_says_where_it_came_from() {
    let place = place("");
    let kernel = place.open();
    let id = session(&kernel, json!({}));
    let observe = |front, text: &str, origin: Value| {
        let asked = json!({ "text": text, "origin": origin });
        in_session(&kernel, front, &id, "session.observe", asked)
    };
    let secret = format!("the key is {} \u{1b}[2J", token());
    let kept = done(observe(Front::Agent, &secret, json!("tool:fs.read"))).value;
    assert!(!kept.to_string().contains(&token()));
    // An agent cannot put words into the person's mouth.
    assert_eq!(
        done(observe(Front::Agent, "trust me", json!("user"))).value["origin"],
        "agent"
    );
    assert_eq!(
        done(observe(Front::Cli, "really", json!("user"))).value["origin"],
        "user"
    );
    let recall = |query: &str| {
        let asked = json!({ "query": query });
        let found = done(in_session(
            &kernel,
            Front::Agent,
            &id,
            "session.recall",
            asked,
        ))
        .value;
        found["observations"].as_array().unwrap().len()
    };
    assert_eq!(
        (
            recall("KEY"),
            recall("trust"),
            recall(""),
            recall("nothing")
        ),
        (1, 1, 3, 0)
    );
    let database = std::fs::read(support::state(&kernel).join("state.db-wal")).unwrap();
    assert!(!String::from_utf8_lossy(&database).contains(&token()));
}

#[test]
fn who_acts_in_a_session_knows_of_that_one_alone() {
    let place = place("");
    let kernel = place.open();
    let (mine, other) = (session(&kernel, json!({})), session(&kernel, json!({})));
    for tool in [
        "session.show",
        "session.cancel",
        "session.archive",
        "session.recall",
    ] {
        let asked = json!({ "session": other });
        let outcome = in_session(&kernel, Front::Agent, &mine, tool, asked);
        assert_eq!(word(&outcome), "unknown_session", "{tool}");
    }
    let listed = done(in_session(
        &kernel,
        Front::Agent,
        &mine,
        "session.list",
        json!({}),
    ))
    .value;
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(show(&kernel, &other)["state"], "active");
    assert_eq!(
        word(&submit(&kernel, Front::Cli, "session.show", json!({}))),
        "no_session"
    );
}

#[test]
fn what_is_kept_of_a_session_holds_no_secret_that_only_the_policy_knows() {
    let secrets = "secrets: { patterns: [{ name: badge, pattern: \"ACME-[0-9]{6}\" }] }\n";
    let place = place(secrets);
    let kernel = place.open();
    let title = json!({ "title": "the badge ACME-123456" });
    let id = session(&kernel, title);
    let title = show(&kernel, &id)["title"].as_str().unwrap().to_owned();
    assert!(
        title.starts_with("the badge [") && title.contains("badge#1]"),
        "{title}"
    );
    let asked = json!({ "text": "it is ACME-123456", "origin": "file:ACME-654321" });
    let kept = done(in_session(
        &kernel,
        Front::Agent,
        &id,
        "session.observe",
        asked,
    ))
    .value;
    assert!(!kept.to_string().contains("ACME-"), "{kept}");
    let state = support::state(&kernel);
    drop(kernel);
    for name in ["state.db", "state.db-wal"] {
        let bytes = std::fs::read(state.join(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        assert!(
            !text.contains("ACME-123456") && !text.contains("ACME-654321"),
            "{name}"
        );
    }
}

#[test]
fn what_is_remembered_keeps_its_placeholders_and_marks_forged_ones_once() {
    let secrets = "secrets: { patterns: [{ name: badge, pattern: \"ACME-[0-9]{6}\" }] }\n";
    let place = place(secrets);
    let kernel = place.open();
    let id = session(&kernel, json!({}));
    let ask = |tool: &str, asked| done(in_session(&kernel, Front::Agent, &id, tool, asked)).value;
    let asked = json!({
        "text": "it is ACME-123456, not [secret:badge#7]", "origin": "tool:[secret:badge#9]",
    });
    let kept = ask("session.observe", asked);
    let found = ask("session.recall", json!({ "query": "it" }));
    for shown in [&kept, &found["observations"][0]] {
        assert_eq!(
            shown["text"], "it is [secret:badge#1], not [\\secret:badge#7]",
            "{shown}"
        );
        assert_eq!(shown["origin"], "tool:[\\secret:badge#9]", "{shown}");
    }
    let summed = ask("session.recall", json!({ "summary": true }));
    assert_eq!(
        summed["origins"][0]["newest"],
        "it is [secret:badge#1], not [\\secret:badge#7]"
    );
}

#[test]
fn what_is_remembered_is_summed_up_on_demand() {
    let place = place("");
    let kernel = place.open();
    let id = session(&kernel, json!({}));
    for (text, origin) in [
        ("tests fail", "tool:test.run"),
        ("ask ada", "file:NOTES.md"),
        ("tests pass", "tool:test.run"),
    ] {
        let asked = json!({ "text": text, "origin": origin });
        done(in_session(
            &kernel,
            Front::Agent,
            &id,
            "session.observe",
            asked,
        ));
    }
    let asked = |query: &str| {
        let asked = json!({ "summary": true, "query": query });
        done(in_session(
            &kernel,
            Front::Agent,
            &id,
            "session.recall",
            asked,
        ))
        .value
    };
    let told = asked("");
    assert_eq!(told["count"], 3);
    assert_eq!(told["origins"][0]["origin"], "tool:test.run");
    assert_eq!(told["origins"][0]["newest"], "tests pass");
    assert_eq!(asked("ada")["count"], 1);
}

#[test]
fn sessions_that_ended_leave_copies_of_store_and_log_when_nobody_waits_for_them() {
    let place = place("");
    let count = |name: &str| {
        let kernel = place.open();
        let found = std::fs::read_dir(support::state(&kernel).join(name));
        let found = found.into_iter().flatten().flatten();
        found
            .filter(|entry| entry.path().extension().is_some_and(|end| end == "db"))
            .count()
    };
    let copies = || (count("backups/state"), count("backups"));
    let before = copies();
    assert_eq!(before.0, 0);
    for (round, tool) in ["session.cancel", "session.archive"].iter().enumerate() {
        let kernel = place.open();
        let ids = [session(&kernel, json!({})), session(&kernel, json!({}))];
        for id in ids {
            place.pass(1);
            let asked = json!({ "session": id });
            done(submit(&kernel, Front::Cli, tool, asked));
        }
        assert_eq!(
            copies(),
            (round, before.1 + round),
            "{tool}: not within the call"
        );
        if round == 0 {
            kernel.close().unwrap();
        } else {
            drop(kernel);
        }
        assert_eq!(copies(), (round + 1, before.1 + round + 1), "{tool}");
    }
}

#[test]
fn without_a_rule_an_agent_begins_no_session() {
    let place = Place::governed(READS, &[]);
    let kernel = place.open();
    assert_eq!(
        word(&submit(&kernel, Front::Agent, "session.create", json!({}))),
        "denied"
    );
    done(submit(&kernel, Front::Cli, "session.create", json!({})));
}

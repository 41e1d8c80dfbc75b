//! The road end to end: every call decided, recorded, and nothing done or told without a record.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_audit::{EventType, Stage};
use airlock_kernel::{Call, Front, Lifetime, Outcome};
use airlock_policy::ExampleFields;
use serde_json::{Value, json};
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use support::{
    NOTHING, Obstacle, Place, READS, action, approved, at, connect, denied, done, failed, log_text,
    of_action, records, review, shape, state, submit, token, update, verifies, word,
};

#[test]
fn nothing_is_allowed_by_a_policy_without_rules_on_any_front() {
    let place = Place::governed(NOTHING, &[("a.txt", "a\n")]);
    let kernel = place.open();
    for front in Front::ALL {
        for (name, arguments) in [
            ("fs.read", json!({ "path": "a.txt" })),
            ("fs.list", json!({})),
            ("fs.exists", json!({ "path": "a.txt" })),
            ("search.grep", json!({ "pattern": "a" })),
            ("search.glob", json!({ "pattern": "*" })),
        ] {
            let answer = denied(submit(&kernel, front, name, arguments));
            assert_eq!(answer.explanation.verdict().as_str(), "deny");
            assert!(
                answer.explanation.fixes().next().is_some(),
                "{front} {name}: a denial says what would make it pass"
            );
            assert_eq!(
                shape(&kernel, &answer.action),
                ["capability_check note allowed", "syscall attempt deny"],
                "{front} {name}"
            );
        }
    }
}

#[test]
fn every_end_of_the_road_leaves_exactly_its_records() {
    let policy = format!(
        "{READS}  - name: ask-first\n    match: {{ syscall: fs.read, path_glob: ask.txt }}\n    action: require_review\n    reason: ask\n"
    );
    let place = Place::governed(
        &policy,
        &[("a.txt", "a\n"), ("private/b", "b\n"), ("ask.txt", "?\n")],
    );
    let kernel = place.open();
    for (name, arguments, want, shape_wanted) in [
        (
            "fs.read",
            json!({ "path": "a.txt" }),
            "done",
            vec![
                "capability_check note allowed",
                "syscall attempt allow",
                "syscall outcome",
            ],
        ),
        (
            "fs.read",
            json!({ "path": "private/b" }),
            "denied",
            vec!["capability_check note allowed", "syscall attempt deny"],
        ),
        (
            "fs.read",
            json!({ "path": "ask.txt" }),
            "review",
            vec![
                "capability_check note allowed",
                "approval_requested attempt require_review",
            ],
        ),
        (
            "fs.read",
            json!({ "path": "absent.txt" }),
            "not_found",
            vec![
                "capability_check note allowed",
                "syscall attempt allow",
                "syscall outcome",
            ],
        ),
        (
            "fs.read",
            json!({}),
            "invalid_arguments",
            vec!["syscall outcome"],
        ),
        (
            "fs.read",
            json!({ "path": "a.txt", "mode": "x" }),
            "invalid_arguments",
            vec!["syscall outcome"],
        ),
        (
            "fs.read",
            json!([1]),
            "invalid_arguments",
            vec!["syscall outcome"],
        ),
        (
            "fs.read",
            Value::Null,
            "invalid_arguments",
            vec!["syscall outcome"],
        ),
        (
            "fs.read",
            json!({ "path": "a\u{0}b" }),
            "invalid_arguments",
            vec!["syscall outcome"],
        ),
        (
            "fs.raed",
            json!({}),
            "unknown_tool",
            vec!["syscall outcome"],
        ),
        ("", json!({}), "unknown_tool", vec!["syscall outcome"]),
        (
            "fs.chmod",
            json!({}),
            "unknown_tool",
            vec!["syscall outcome"],
        ),
    ] {
        let before = records(&kernel).len();
        let outcome = submit(&kernel, Front::Agent, name, arguments.clone());
        let case = format!("{name} {arguments}");
        assert_eq!(word(&outcome), want, "{case}");
        assert_eq!(shape(&kernel, &action(&outcome)), shape_wanted, "{case}");
        assert_eq!(
            records(&kernel).len() - before,
            shape_wanted.len(),
            "{case}: nothing else is recorded"
        );
    }
}

#[test]
fn a_misspelt_name_is_told_the_nearest_that_whoever_asks_could_use() {
    let place = Place::governed(READS, &[]);
    let kernel = place.open();
    let near = |front, name: &str| {
        let failed = failed(submit(&kernel, front, name, json!({})));
        assert_eq!(failed.code, "unknown_tool", "{front} {name}");
        failed.fix.unwrap()
    };
    for front in Front::ALL {
        assert_eq!(near(front, "fs.raed"), "did you mean `fs.read`?", "{front}");
    }
    // What steers Airlock is a person's, and so is its name; the last does not exist for others at all.
    for (name, meant) in [
        ("policy_update", "policy.update"),
        ("trust.aprove", "trust.approve"),
        ("workflow.cancl", "workflow.cancel"),
    ] {
        let told = near(Front::Cli, name);
        assert_eq!(told, format!("did you mean `{meant}`?"));
        for front in [Front::Agent, Front::Mcp, Front::Server] {
            let told = near(front, name);
            assert_eq!(told, "`airlock tool list` shows what there is", "{front}");
        }
    }
}

#[test]
fn an_attempt_says_who_what_and_under_which_policy() {
    let place = Place::governed(READS, &[("a.txt", "hello\n")]);
    let kernel = place.open();
    let mut call = Call::new("fs.read", json!({ "path": "./a.txt" }));
    let session = support::session(&kernel, json!({}));
    call.session = Some(session.clone());
    // The first use in a session passes a gate besides.
    done(kernel.submit(Front::Mcp, &call));
    let result = done(kernel.submit(Front::Mcp, &call));
    let entries = of_action(&kernel, &result.action);
    let attempt = at(&entries, Stage::Attempt);
    let decision = attempt.decision.as_ref().unwrap();
    assert_eq!(
        decision.generation,
        kernel.policy().generation().digest().to_string()
    );
    assert_eq!(decision.rules, ["policy/read-all"]);
    let caller = attempt.caller.as_ref().unwrap();
    assert_eq!(caller.plugin.as_str(), "mcp");
    assert_eq!(caller.session.as_ref(), Some(&session));
    assert_eq!(caller.workspace, *kernel.workspace().id());
    assert_eq!(caller.peer.unwrap().pid, std::process::id());
    let request = attempt.request.as_deref().unwrap();
    assert_eq!(request.paths[0].as_str(), "a.txt");
    assert_eq!(request.caller, *caller);
    let outcome = at(&entries, Stage::Outcome);
    assert!(outcome.output.as_deref().unwrap().contains("hello"));
    assert!(outcome.duration.is_some());
}

#[test]
fn a_read_that_policy_denies_is_denied_by_every_way_to_it() {
    let place = Place::governed(
        READS,
        &[("open.txt", "needle\n"), ("private/key.txt", "needle\n")],
    );
    symlink("private/key.txt", place.path("innocent.txt")).unwrap();
    symlink("private", place.path("folder")).unwrap();
    symlink("../w/private/key.txt", place.path("round.txt")).unwrap();
    let kernel = place.open();
    for (name, path) in [
        ("fs.read", "private/key.txt"),
        ("fs.read", "./open.txt/../private/key.txt"),
        ("fs.read", "innocent.txt"),
        ("fs.read", "folder/key.txt"),
        ("fs.exists", "private/key.txt"),
        ("fs.exists", "private/absent.txt"),
        ("fs.exists", "innocent.txt"),
        ("fs.exists", "folder/absent.txt"),
        ("fs.list", "private"),
        ("fs.list", "folder"),
    ] {
        let outcome = submit(&kernel, Front::Agent, name, json!({ "path": path }));
        let refusal = denied(outcome);
        let rules: Vec<&str> = refusal.decision.deciding().map(|c| &*c.rule).collect();
        assert_eq!(rules, ["keep-private"], "{name} {path}");
    }
    for (name, arguments) in [
        (
            "search.grep",
            json!({ "pattern": "needle", "path": "private" }),
        ),
        (
            "search.grep",
            json!({ "pattern": "needle", "path": "folder" }),
        ),
        ("search.glob", json!({ "pattern": "*", "path": "private" })),
    ] {
        denied(submit(&kernel, Front::Agent, name, arguments));
    }
    // A link that leads out of the workspace is not followed, wherever it would come back in.
    let out = submit(
        &kernel,
        Front::Agent,
        "fs.read",
        json!({ "path": "round.txt" }),
    );
    assert!(!matches!(out, Outcome::Done(_)), "{out:?}");

    for (name, arguments) in [
        ("fs.list", json!({ "depth": 5, "all": true })),
        ("search.grep", json!({ "pattern": "needle" })),
        ("search.glob", json!({ "pattern": "**", "all": true })),
    ] {
        let result = done(submit(&kernel, Front::Agent, name, arguments));
        let text = result.value.to_string();
        assert!(text.contains("open.txt"), "{name}: {text}");
        assert!(!text.contains("key.txt"), "{name}: {text}");
        assert_eq!(result.hidden > 0, name != "search.glob", "{name}: {text}");
    }
}

#[test]
fn capabilities_of_workspace_user_and_front_all_narrow() {
    let user = {
        let place = Place::new(&[]);
        let kernel = place.open();
        let answer = submit(&kernel, Front::Cli, "fs.exists", json!({ "path": "x" }));
        let entries = of_action(&kernel, &action(&answer));
        at(&entries, Stage::Attempt)
            .caller
            .as_ref()
            .unwrap()
            .user
            .to_string()
    };
    let place = Place::new(&[]);
    let root = place.root().canonicalize().unwrap();
    let root = root.display();
    for (case, section, gate) in [
        (
            "everything",
            "workspace: { allow: [\"*\"] }".to_owned(),
            None,
        ),
        (
            "this directory",
            format!("workspace: {{ allow: [\"filesystem.read.{root}/*\"] }}"),
            None,
        ),
        (
            "another directory",
            "workspace: { allow: [\"filesystem.read./elsewhere/*\"] }".to_owned(),
            Some("workspace"),
        ),
        (
            "nothing",
            "workspace: { allow: [] }".to_owned(),
            Some("workspace"),
        ),
        (
            "a role that grants",
            format!(
                "roles: {{ reader: [\"filesystem.read.*\"] }}\nusers: {{ \"{user}\": reader }}"
            ),
            None,
        ),
        (
            "a role that grants something else",
            format!("roles: {{ runner: [\"exec.*\"] }}\nusers: {{ \"{user}\": runner }}"),
            Some("user"),
        ),
        (
            "no role",
            format!("users: {{ \"{user}\": [] }}"),
            Some("user"),
        ),
        (
            "somebody else's roles",
            "roles: { runner: [\"exec.*\"] }\nusers: { nobody-else: runner }".to_owned(),
            None,
        ),
    ] {
        let place = Place::new(&[("a.txt", "a\n")]);
        let section = section.replace(
            &root.to_string(),
            &place.root().canonicalize().unwrap().display().to_string(),
        );
        // The approval itself needs what the policy takes away: it is given before.
        place.write(".airlock/policy.yaml", format!("{READS}{section}\n"));
        support::trust(&place.open());
        let kernel = place.open();
        let outcome = submit(&kernel, Front::Agent, "fs.read", json!({ "path": "a.txt" }));
        match gate {
            None => {
                done(outcome);
            }
            Some(gate) => {
                let refusal = denied(outcome);
                let contribution = &refusal.decision.contributions[0];
                assert_eq!(contribution.layer.as_str(), "capability", "{case}");
                assert_eq!(&*contribution.rule, gate, "{case}");
                assert_eq!(
                    shape(&kernel, &refusal.action)[0],
                    format!("capability_check note denied: {gate}"),
                    "{case}"
                );
            }
        }
    }
}

#[test]
fn a_user_whose_role_nobody_defined_is_no_policy() {
    let place = Place::new(&[]);
    place.write(
        ".airlock/policy.yaml",
        format!("{READS}users: {{ ann: ghost }}\n"),
    );
    let kernel = place.open();
    let digest = kernel.workspace().trust().unwrap().digest();
    let answer = approved(&kernel, "trust.approve", json!({ "digest": digest }));
    assert_eq!(failed(answer).code, "control_failed");
    assert_eq!(
        kernel.policy().origin().to_string(),
        "default (workspace files not approved)"
    );
}

#[test]
fn tags_come_from_policy_by_plugin_or_user_and_from_nowhere_else() {
    let policy = "\
version: 1
tags:
  trusted_front: { plugin: [mcp] }
rules:
  - name: tagged
    match: { effect: read, path_glob: \"**\", caller_tag: trusted_front }
    action: allow
    reason: tagged callers read
";
    let place = Place::governed(policy, &[("a.txt", "a\n")]);
    let kernel = place.open();
    for front in Front::ALL {
        let outcome = submit(&kernel, front, "fs.read", json!({ "path": "a.txt" }));
        let want = if front == Front::Mcp {
            "done"
        } else {
            "denied"
        };
        assert_eq!(word(&outcome), want, "{front}");
        let entries = of_action(&kernel, &action(&outcome));
        let tags = &at(&entries, Stage::Attempt).caller.as_ref().unwrap().tags;
        assert_eq!(!tags.is_empty(), front == Front::Mcp, "{front}");
    }
}

#[test]
fn nothing_is_done_or_told_while_the_log_cannot_be_written() {
    let place = Place::governed(READS, &[("a.txt", "the contents\n")]);
    for lifetime in [Lifetime::Command, Lifetime::Long] {
        let mut config = place.config();
        config.lifetime = lifetime;
        let kernel = airlock_kernel::Kernel::open(config).unwrap();
        let before = place.policy_text();
        let new = format!("{READS}# changed\n");
        let call = Call::new("policy.update", json!({ "text": new }));
        let mut asked = review(kernel.submit(Front::Cli, &call));
        support::answer(&kernel, &mut asked, true).unwrap();
        let mut second = review(submit(
            &kernel,
            Front::Cli,
            "policy.update",
            json!({ "text": format!("{READS}# other\n") }),
        ));

        let obstacle = Obstacle::put(&state(&kernel));
        let refusal = failed(kernel.submit(Front::Cli, &call));
        assert_eq!(refusal.code, "audit_unavailable", "{refusal:?}");
        assert!(refusal.retryable && refusal.fix.is_some(), "{refusal:?}");
        assert_eq!(place.policy_text(), before, "nothing was written");
        for (name, arguments) in [
            ("fs.read", json!({ "path": "a.txt" })),
            ("fs.read", json!({ "path": "private/x" })),
            ("fs.read", json!({})),
            ("no.such", json!({})),
            ("trust.revoke", json!({})),
            ("policy.update", json!({ "text": READS })),
        ] {
            let answer = submit(&kernel, Front::Cli, name, arguments);
            assert_eq!(word(&answer), "audit_unavailable", "{lifetime:?} {name}");
            assert!(!format!("{answer:?}").contains("the contents"));
        }
        assert!(
            support::answer(&kernel, &mut second, true).is_err(),
            "no record, no answer"
        );
        drop(obstacle);

        let result = done(submit(
            &kernel,
            Front::Cli,
            "fs.read",
            json!({ "path": "a.txt" }),
        ));
        assert!(result.value.to_string().contains("the contents"));
        // The yes that could not be used is spent: asking again is the safe side.
        review(kernel.submit(Front::Cli, &call));
        let second = Call::new(
            "policy.update",
            json!({ "text": format!("{READS}# other\n") }),
        );
        review(kernel.submit(Front::Cli, &second));
        assert_eq!(place.policy_text(), before);
        verifies(&kernel);
    }
}

#[test]
fn a_log_locked_by_somebody_else_stops_effects_until_it_is_free() {
    let place = Place::governed(READS, &[("a.txt", "a\n")]);
    let kernel = place.open();
    let neighbour = connect(&state(&kernel));
    neighbour.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let refusal = failed(submit(
        &kernel,
        Front::Agent,
        "fs.read",
        json!({ "path": "a.txt" }),
    ));
    assert_eq!(refusal.code, "audit_unavailable");
    assert!(refusal.what.contains("locked"), "{}", refusal.what);
    neighbour.execute_batch("ROLLBACK").unwrap();
    done(submit(
        &kernel,
        Front::Agent,
        "fs.read",
        json!({ "path": "a.txt" }),
    ));
}

#[test]
fn an_effect_whose_end_cannot_be_recorded_is_not_called_undone() {
    let place = Place::governed(READS, &[]);
    let kernel = place.open();
    let new = format!("{READS}# new\n");
    let call = Call::new("policy.update", json!({ "text": new }));
    let mut asked = review(kernel.submit(Front::Cli, &call));
    support::answer(&kernel, &mut asked, true).unwrap();
    // The update waits for this lock, with its attempt already in the log.
    let lock = std::fs::File::open(state(&kernel).join("control.lock")).unwrap();
    rustix::fs::flock(lock.as_fd(), rustix::fs::FlockOperation::LockExclusive).unwrap();
    let before = records(&kernel).len();
    let outcome = std::thread::scope(|scope| {
        let working = scope.spawn(|| kernel.submit(Front::Cli, &call));
        // Ends if it never comes, so that a lost attempt fails the test instead of hanging it.
        for _ in 0..2_000 {
            if records(&kernel).len() > before {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let obstacle = Obstacle::put(&state(&kernel));
        rustix::fs::flock(lock.as_fd(), rustix::fs::FlockOperation::Unlock).unwrap();
        let outcome = working.join().unwrap();
        drop(obstacle);
        outcome
    });
    let end = failed(outcome);
    assert_eq!(end.code, "outcome_unrecorded", "{end:?}");
    assert!(!end.retryable, "{end:?}");
    assert_eq!(place.policy_text(), new);
    assert_eq!(
        shape(&kernel, &end.action),
        ["capability_check note allowed", "syscall attempt allow"]
    );
}

#[test]
fn secrets_and_control_sequences_reach_neither_answer_nor_log() {
    let secret = token();
    let escape = "\u{1b}]0;owned\u{7}\u{1b}[31m";
    let place = Place::governed(READS, &[]);
    place.write("note.txt", format!("key={secret}\n{escape}red\n"));
    place.write(&format!("dir/{secret}.txt"), "x\n");
    place.write(&format!("dir/{escape}name.txt"), "x\n");
    place.write(&format!("private/{secret}"), "x\n");
    let kernel = place.open();
    let calls = [
        ("fs.read", json!({ "path": "note.txt" })),
        ("fs.list", json!({ "path": "dir" })),
        ("search.grep", json!({ "pattern": "key=|red|x" })),
        ("search.glob", json!({ "pattern": "**" })),
        ("fs.read", json!({ "path": format!("dir/{secret}.txt") })),
        (
            "fs.read",
            json!({ "path": format!("dir/{escape}name.txt") }),
        ),
        ("fs.read", json!({ "path": format!("absent/{secret}") })),
        ("fs.read", json!({ "path": format!("absent/{escape}") })),
        ("fs.read", json!({ "path": format!("private/{secret}") })),
        ("fs.read", json!({ "path": format!("private/{escape}") })),
        (
            "fs.read",
            json!({ "path": format!("/etc/{secret}{escape}") }),
        ),
        ("fs.read", json!({ "path": "note.txt", secret.clone(): 1 })),
        ("fs.read", json!({ "path": [secret.clone()] })),
        (
            "search.grep",
            json!({ "pattern": format!("({secret}{escape}") }),
        ),
        (secret.as_str(), json!({})),
        (escape, json!({})),
        ("search.grep", json!({ "pattern": format!("a\n{secret}") })),
        ("search.grep", json!({ "pattern": format!("a\t{secret}") })),
        ("trust.approve", json!({ "digest": secret.clone() })),
        (
            "policy.update",
            json!({ "text": format!("version: 1\n{secret}: {escape}\n") }),
        ),
    ];
    for (name, arguments) in calls {
        for front in [Front::Agent, Front::Cli] {
            let outcome = submit(&kernel, front, name, arguments.clone());
            let shown = match &outcome {
                Outcome::Done(done) => done.value.to_string(),
                Outcome::Denied(denied) => {
                    let mut request = denied.request.clone();
                    request.arguments = Value::Null;
                    format!(
                        "{:?} {:?} {}",
                        request,
                        denied.decision,
                        denied.explanation.body().join("\n")
                    )
                }
                Outcome::NeedsReview(review) => review.approval.gate.to_string(),
                Outcome::Failed(failed) => format!("{} {:?}", failed.what, failed.fix),
            };
            assert!(
                !shown.contains(&secret),
                "{front} {name} {arguments}: {shown}"
            );
            assert!(
                !shown.contains(['\u{1b}', '\u{7}']),
                "{front} {name} {arguments}: {shown:?}"
            );
        }
    }
    let log = log_text(&kernel);
    assert!(!log.contains(&secret), "{log}");
    assert!(
        !log.contains("\\u001b") && !log.contains("\\u0007"),
        "{log}"
    );
    assert!(log.contains("[secret:github-token#1]"));
}

#[test]
fn a_log_entry_keeps_paths_that_differ_apart() {
    let place = Place::governed(READS, &[("ab", "x\n"), ("a\u{7}b", "y\n")]);
    let kernel = place.open();
    let result = done(submit(
        &kernel,
        Front::Agent,
        "fs.read",
        json!({ "path": "a\u{7}b" }),
    ));
    let entries = of_action(&kernel, &result.action);
    let request = at(&entries, Stage::Attempt).request.as_deref().unwrap();
    assert_eq!(request.paths[0].as_str(), "a\\u{7}b");
}

#[test]
fn long_results_and_summaries_are_bounded_and_the_cut_is_told() {
    let place = Place::governed(READS, &[("long.txt", &"word ".repeat(40_000))]);
    let mut config = place.config();
    config.output_bytes = 2_000;
    let kernel = airlock_kernel::Kernel::open(config).unwrap();
    let result = done(submit(
        &kernel,
        Front::Agent,
        "fs.read",
        json!({ "path": "long.txt" }),
    ));
    let text = result.value.to_string();
    assert!(text.len() < 3_000, "{}", text.len());
    assert!(result.cut || result.value["truncated"] == true, "{text}");
    let long = "x".repeat(100_000);
    let refusal = submit(&kernel, Front::Agent, &long, json!({ "a": long.clone() }));
    let code = failed(refusal);
    assert!(code.what.chars().count() <= 500);
    for entry in records(&kernel) {
        for field in [&entry.input, &entry.output, &entry.reason] {
            assert!(field.as_deref().unwrap_or("").chars().count() <= 500);
        }
        assert!(entry.syscall.as_deref().unwrap_or("").chars().count() <= 60);
    }
}

#[test]
fn the_policys_own_output_limit_binds() {
    let policy = "\
version: 1
rules:
  - name: read-a-little
    match: { effect: read, path_glob: \"**\" }
    action: allow
    reason: a little
    constraints: { max_output: 200 }
";
    let place = Place::governed(policy, &[("long.txt", &"word ".repeat(1_000))]);
    let kernel = place.open();
    let result = done(submit(
        &kernel,
        Front::Agent,
        "fs.read",
        json!({ "path": "long.txt" }),
    ));
    assert!(result.value.to_string().len() < 600, "{}", result.value);
}

#[test]
fn many_threads_leave_a_log_that_verifies_and_counts_right() {
    let place = Place::governed(
        READS,
        &[
            ("a.txt", "a\n"),
            ("b.txt", "needle\n"),
            ("private/c", "c\n"),
        ],
    );
    let mut config = place.config();
    config.lifetime = Lifetime::Long;
    config.search_threads = 1;
    let kernel = airlock_kernel::Kernel::open(config).unwrap();
    let before = records(&kernel).len();
    let kinds: [(&str, Value, &str); 5] = [
        ("fs.read", json!({ "path": "a.txt" }), "done"),
        ("search.grep", json!({ "pattern": "needle" }), "done"),
        ("fs.read", json!({ "path": "private/c" }), "denied"),
        ("fs.read", json!({ "path": "absent" }), "not_found"),
        ("fs.read", json!({ "nope": 1 }), "invalid_arguments"),
    ];
    let (threads, each) = (8, 125);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (kernel, kinds) = (&kernel, &kinds);
            scope.spawn(move || {
                for turn in 0..each {
                    let (name, arguments, want) = &kinds[(thread + turn) % kinds.len()];
                    let front = Front::ALL[turn % Front::ALL.len()];
                    let outcome = submit(kernel, front, name, arguments.clone());
                    assert_eq!(word(&outcome), *want, "{front} {name} {arguments}");
                }
            });
        }
    });
    let kept = records(&kernel).split_off(before);
    let count = |event: EventType, stage: Stage| {
        let same = |entry: &&airlock_audit::Entry| entry.event == event && entry.stage == stage;
        kept.iter().filter(same).count()
    };
    let calls = threads * each;
    let fifth = calls / 5;
    assert_eq!(count(EventType::CapabilityCheck, Stage::Note), 4 * fifth);
    assert_eq!(count(EventType::Syscall, Stage::Attempt), 4 * fifth);
    assert_eq!(count(EventType::Syscall, Stage::Outcome), 4 * fifth);
    let denials = kept
        .iter()
        .filter(|e| e.decision.as_ref().is_some_and(|d| d.verdict == "deny"));
    assert_eq!(denials.count(), fifth);
    assert!(verifies(&kernel) >= (before + kept.len()) as u64);
    kernel.close().unwrap();
}

#[test]
fn a_preview_says_what_a_submit_would_do_and_records_nothing() {
    let place = Place::governed(READS, &[("a.txt", "a\n"), ("private/b", "b\n")]);
    let kernel = place.open();
    let before = records(&kernel).len();
    for (path, want) in [("a.txt", "allow"), ("private/b", "deny")] {
        let fields = ExampleFields {
            syscall: "fs.read".into(),
            path: vec![path.into()],
            plugin: Some("agent".into()),
            ..ExampleFields::default()
        };
        let preview = kernel.explain(&fields, None).unwrap();
        assert_eq!(preview.decision.verdict.as_str(), want, "{path}");
    }
    assert_eq!(records(&kernel).len(), before);
    let mut policy = kernel.policy();
    assert_eq!(policy.origin().to_string(), "workspace");
    update(&kernel, NOTHING);
    policy = kernel.policy();
    assert_eq!(policy.source(), NOTHING.as_bytes());
}

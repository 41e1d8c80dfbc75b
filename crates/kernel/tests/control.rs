//! Policy changes only by the reviewed syscall: whole, backed up, and never beyond the workspace.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_audit::{EventType, Stage};
use airlock_kernel::{Call, Done, Front, Kernel, Lifetime, Outcome, PolicyOrigin};
use airlock_policy::{ExampleFields, Policy};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{
    NOTHING, Place, READS, action, approved, at, denied, done, failed, maybe_approved, of_action,
    records, review, shape, state, submit, trust, update, verifies, word,
};

fn init(kernel: &Kernel) -> Outcome {
    submit(kernel, Front::Cli, "policy.init", json!({}))
}

fn backups(kernel: &Kernel) -> Vec<String> {
    let directory = kernel.workspace().state().backups();
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Everything below `path`, to show that nothing was added.
fn listing(path: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn init_writes_and_pins_a_policy_that_fits() {
    let place = Place::new(&[("Cargo.toml", ""), ("a.txt", "a\n"), (".env", "X=1\n")]);
    let kernel = place.open();
    let result = done(init(&kernel));
    assert_eq!(result.value["languages"], json!(["Rust"]));
    assert_eq!(kernel.policy().origin(), PolicyOrigin::Workspace);
    assert_eq!(kernel.policy().source(), place.policy_text().as_bytes());
    assert_eq!(
        shape(&kernel, &result.action),
        [
            "capability_check note allowed",
            "syscall attempt allow",
            "policy_update outcome"
        ]
    );
    assert_eq!(
        listing(&place.path(".airlock")),
        ["policy.yaml"],
        "no leftovers"
    );
    drop(kernel);
    let kernel = place.open();
    assert_eq!(kernel.policy().origin(), PolicyOrigin::Workspace);
    for front in Front::ALL {
        done(submit(
            &kernel,
            front,
            "fs.read",
            json!({ "path": "a.txt" }),
        ));
        denied(submit(&kernel, front, "fs.read", json!({ "path": ".env" })));
    }
}

#[test]
fn init_overwrites_nothing() {
    for (case, text) in [
        ("a policy", READS),
        ("no policy at all", "rules: [["),
        ("empty", ""),
    ] {
        let place = Place::new(&[(".airlock/policy.yaml", text)]);
        let kernel = place.open();
        let refusal = failed(init(&kernel));
        assert!(refusal.what.contains("already"), "{case}: {}", refusal.what);
        assert!(refusal.fix.is_some());
        assert_eq!(place.policy_text(), text, "{case}");
        assert_eq!(kernel.policy().origin(), PolicyOrigin::Untrusted, "{case}");
    }
    let place = Place::new(&[]);
    let kernel = place.open();
    done(init(&kernel));
    let written = place.policy_text();
    failed(init(&kernel));
    assert_eq!(place.policy_text(), written);
}

#[test]
fn nothing_is_written_beyond_the_workspace_or_through_odd_files() {
    type Prepare = fn(&Place);
    let cases: &[(&str, Prepare)] = &[
        ("a symlink to outside", |p| {
            symlink(p.beside("outside"), p.path(".airlock")).unwrap();
        }),
        ("a relative symlink", |p| {
            symlink("../outside", p.path(".airlock")).unwrap();
        }),
        ("a dangling symlink", |p| {
            symlink(p.beside("outside/new"), p.path(".airlock")).unwrap();
        }),
        ("a symlink to inside", |p| {
            fs::create_dir(p.path("inside")).unwrap();
            symlink("inside", p.path(".airlock")).unwrap();
        }),
        ("a file", |p| p.write(".airlock", "x")),
        ("a policy that is a symlink to outside", |p| {
            fs::create_dir(p.path(".airlock")).unwrap();
            symlink(p.beside("outside/victim"), p.path(".airlock/policy.yaml")).unwrap();
        }),
        ("a policy that is a directory", |p| {
            fs::create_dir_all(p.path(".airlock/policy.yaml")).unwrap();
        }),
    ];
    for (case, prepare) in cases {
        let place = Place::new(&[]);
        fs::create_dir(place.beside("outside")).unwrap();
        fs::write(place.beside("outside/victim"), "precious").unwrap();
        prepare(&place);
        let kernel = place.open();
        for outcome in [
            init(&kernel),
            approved(&kernel, "policy.update", json!({ "text": NOTHING })),
        ] {
            let refusal = failed(outcome);
            assert_eq!(refusal.code, "control_failed", "{case}: {}", refusal.what);
            assert!(refusal.fix.is_some(), "{case}");
        }
        assert_eq!(listing(&place.beside("outside")), ["victim"], "{case}");
        assert_eq!(
            fs::read_to_string(place.beside("outside/victim")).unwrap(),
            "precious"
        );
        if place.path("inside").exists() {
            assert!(listing(&place.path("inside")).is_empty(), "{case}");
        }
        assert_ne!(kernel.policy().origin(), PolicyOrigin::Workspace, "{case}");
        assert!(backups(&kernel).is_empty(), "{case}");
    }
}

#[test]
fn updates_pin_reload_and_keep_numbered_copies() {
    let place = Place::new(&[("a.txt", "a\n")]);
    let kernel = place.open();
    let texts: Vec<String> = (0..4).map(|n| format!("{READS}# {n}\n")).collect();
    for (n, text) in texts.iter().enumerate() {
        let result = update(&kernel, text);
        assert_eq!(result.value["in_force"], true);
        let want = n.checked_sub(1).map(|_| format!("policy-{n:04}.yaml"));
        assert_eq!(result.value["backup"], json!(want));
        assert_eq!(kernel.policy().source(), text.as_bytes());
        assert_eq!(place.policy_text(), *text);
        assert_eq!(
            shape(&kernel, &result.action).last().unwrap(),
            "policy_update outcome"
        );
    }
    assert_eq!(
        backups(&kernel),
        ["policy-0001.yaml", "policy-0002.yaml", "policy-0003.yaml"]
    );
    let directory = kernel.workspace().state().backups();
    for (name, text) in backups(&kernel).iter().zip(&texts) {
        assert_eq!(fs::read_to_string(directory.join(name)).unwrap(), *text);
    }
    drop(kernel);
    let kernel = place.open();
    assert_eq!(kernel.policy().origin(), PolicyOrigin::Workspace);
    assert_eq!(listing(&place.path(".airlock")), ["policy.yaml"]);
}

#[test]
fn only_the_newest_hundred_copies_stay() {
    let place = Place::governed(READS, &[]);
    let kernel = place.open();
    let directory = kernel.workspace().state().backups();
    for n in 1..=100 {
        fs::write(directory.join(format!("policy-{n:04}.yaml")), "old").unwrap();
    }
    fs::write(directory.join("policy-notes.yaml"), "mine").unwrap();
    update(&kernel, NOTHING);
    let kept = backups(&kernel);
    assert_eq!(kept.len(), 101, "{kept:?}");
    assert_eq!(kept[0], "policy-0002.yaml");
    assert!(kept.contains(&"policy-0101.yaml".to_owned()));
    assert!(kept.contains(&"policy-notes.yaml".to_owned()));
}

#[test]
fn what_was_approved_is_kept_whatever_is_written_over_it() {
    type Approve = fn(&Kernel, &str) -> Done;
    let edited = format!("{READS}# edited\n");
    for (case, approve) in [
        ("update", update as Approve),
        ("trust", |kernel, _| trust(kernel)),
    ] {
        let place = Place::governed(NOTHING, &[]);
        let kernel = place.open();
        assert!(kernel.last_approved().is_none(), "{case}: it is in force");
        place.write(".airlock/policy.yaml", &edited);
        assert_eq!(kernel.policy().origin(), PolicyOrigin::Untrusted, "{case}");
        let old = kernel.last_approved().unwrap();
        assert_eq!(old.source(), NOTHING.as_bytes(), "{case}");
        let result = approve(&kernel, &edited);
        assert_eq!(result.value["backup"], "policy-0001.yaml", "{case}");
        assert_eq!(backups(&kernel), ["policy-0001.yaml"], "{case}");
        let kept = kernel.workspace().state().backups();
        let kept = fs::read_to_string(kept.join("policy-0001.yaml")).unwrap();
        assert_eq!(kept, NOTHING, "{case}");
        assert_eq!(kernel.policy().source(), edited.as_bytes(), "{case}");
        // Approved anew without having changed, nothing is replaced.
        done(submit(&kernel, Front::Cli, "trust.revoke", json!({})));
        assert_eq!(trust(&kernel).value["backup"], json!(null), "{case}");
    }
}

#[test]
fn neither_the_approved_policy_nor_what_was_written_over_it_is_lost() {
    let place = Place::governed(READS, &[]);
    let kernel = place.open();
    let draft = format!("{READS}# not finished\n");
    place.write(".airlock/policy.yaml", &draft);
    let result = update(&kernel, NOTHING);
    assert_eq!(result.value["backup"], "policy-0002.yaml");
    let directory = kernel.workspace().state().backups();
    for (name, text) in [("policy-0001.yaml", &*draft), ("policy-0002.yaml", READS)] {
        assert_eq!(fs::read_to_string(directory.join(name)).unwrap(), text);
    }
    // One that is gone altogether is no less kept.
    fs::remove_file(place.path(".airlock/policy.yaml")).unwrap();
    assert_eq!(
        kernel.last_approved().unwrap().source(),
        NOTHING.as_bytes(),
        "the text outlives the file"
    );
    let result = update(&kernel, READS);
    assert_eq!(result.value["backup"], "policy-0003.yaml");
}

#[test]
fn a_policy_edited_in_place_is_compared_with_the_one_that_was_approved() {
    let writes = "version: 1\nrules:\n  - name: write\n    \
                  match: { syscall: fs.write, path_glob: \"**\" }\n    action: allow\n";
    // By the built-in defaults an agent reads and does not write.
    for (approved, edited, syscall, breaking, widening) in [
        (NOTHING, READS, "fs.read", 0, 1),
        (writes, NOTHING, "fs.write", 1, 0),
        (writes, READS, "fs.read", 0, 1),
    ] {
        let place = Place::governed(approved, &[("a.txt", "a\n")]);
        let kernel = place.open();
        let fields = ExampleFields {
            syscall: syscall.into(),
            path: vec!["a.txt".into()],
            plugin: Some("agent".into()),
            ..ExampleFields::default()
        };
        let request = kernel.explain(&fields, None).unwrap().request;
        place.write(".airlock/policy.yaml", edited);
        let next = Policy::load("next", edited.as_bytes()).unwrap().policy;
        let next = kernel.policy_like(next).unwrap();
        let replay = kernel.replay(&[(1, request)], &next);
        assert_eq!(
            (replay.breaking(), replay.widening()),
            (breaking, widening),
            "{syscall}"
        );
    }
}

#[test]
fn a_state_directory_without_the_approved_text_still_serves() {
    let place = Place::governed(READS, &[]);
    let text = state(&place.open()).join("approved-policy.yaml");
    let mode = fs::metadata(&text).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it is the person's alone");
    // As approved: the text is kept from the next start on.
    fs::remove_file(&text).unwrap();
    drop(place.open());
    assert_eq!(fs::read_to_string(&text).unwrap(), READS);
    // Edited before that: nobody knows the text any more.
    fs::remove_file(&text).unwrap();
    place.write(".airlock/policy.yaml", NOTHING);
    let kernel = place.open();
    assert_eq!(kernel.policy().origin(), PolicyOrigin::Untrusted);
    assert!(kernel.last_approved().is_none());
    assert!(!text.exists(), "what nobody approved is not kept");
    // Another text is not the one on record.
    fs::write(&text, format!("{READS}# another\n")).unwrap();
    assert!(kernel.last_approved().is_none());
    fs::remove_file(&text).unwrap();
    assert_eq!(trust(&kernel).value["backup"], json!(null));
    assert_eq!(fs::read_to_string(&text).unwrap(), NOTHING);
}

#[test]
fn a_policy_that_does_not_load_is_never_asked_about_and_changes_nothing() {
    let place = Place::governed(READS, &[("a.txt", "a\n")]);
    let kernel = place.open();
    let generation = kernel.policy().generation();
    for text in [
        "",
        "version: 2\n",
        "version: 1\nrules: [{ name: x }]\n",
        "version: 1\nsurprise: true\n",
        "version: 1\nworkspace: { allow: [\"a..b\"] }\n",
        "version: 1\nroles: { r: [\"filesystem.read./a/../b\"] }\n",
        "version: 1\nrules:\n  - { name: a, match: { syscall: fs.read }, action: allow, reason: r, examples: { match: [{ syscall: fs.write, path: x }] } }\n",
        "{",
        "a: &a [*a, *a]\n",
    ] {
        let outcome = submit(
            &kernel,
            Front::Cli,
            "policy.update",
            json!({ "text": text }),
        );
        assert_eq!(word(&outcome), "invalid_arguments", "{text:?}");
    }
    let long = format!("{READS}#{}", "x".repeat(airlock_core::limits::POLICY_BYTES));
    let outcome = submit(
        &kernel,
        Front::Cli,
        "policy.update",
        json!({ "text": long }),
    );
    assert_eq!(word(&outcome), "invalid_arguments");
    assert_eq!(kernel.policy().generation(), generation);
    assert_eq!(place.policy_text(), READS);
    assert!(backups(&kernel).is_empty());
}

#[test]
fn a_yes_is_for_one_text_once_under_one_policy() {
    let place = Place::governed(READS, &[]);
    let kernel = place.open();
    let call = |text: &str| Call::new("policy.update", json!({ "text": text }));
    let (one, two) = (format!("{READS}# one\n"), format!("{READS}# two\n"));

    let mut asked = review(kernel.submit(Front::Cli, &call(&one)));
    support::answer(&kernel, &mut asked, true).unwrap();
    assert!(
        support::answer(&kernel, &mut asked, true).is_err(),
        "answered once"
    );
    review(kernel.submit(Front::Cli, &call(&two)));
    // A session of its own, another asker: not what was approved.
    let mut elsewhere = call(&one);
    elsewhere.session = Some(support::session(&kernel, json!({})));
    review(kernel.submit(Front::Cli, &elsewhere));
    let allowed = kernel.submit(Front::Cli, &call(&one));
    let entries = of_action(&kernel, &action(&allowed));
    let rules = &at(&entries, Stage::Attempt)
        .decision
        .as_ref()
        .unwrap()
        .rules;
    assert!(
        rules.contains(&format!("grant/{}", asked.approval.id)),
        "{rules:?}"
    );
    done(allowed);
    review(kernel.submit(Front::Cli, &call(&one)));

    // Approved under a policy that changed before it was used.
    let mut asked = review(kernel.submit(Front::Cli, &call(&two)));
    support::answer(&kernel, &mut asked, true).unwrap();
    update(&kernel, NOTHING);
    review(kernel.submit(Front::Cli, &call(&two)));
    assert_eq!(place.policy_text(), NOTHING);

    // Asked under a policy that changed before the answer.
    let mut asked = review(kernel.submit(Front::Cli, &call(&two)));
    update(&kernel, READS);
    assert!(support::answer(&kernel, &mut asked, true).is_err());
    review(kernel.submit(Front::Cli, &call(&two)));

    // Too old, asked or answered.
    let mut asked = review(kernel.submit(Front::Cli, &call(&two)));
    support::answer(&kernel, &mut asked, true).unwrap();
    let mut late = review(kernel.submit(Front::Cli, &call(&one)));
    place.pass(7 * 24 * 3_600);
    review(kernel.submit(Front::Cli, &call(&two)));
    assert!(support::answer(&kernel, &mut late, true).is_err());
    assert_eq!(place.policy_text(), READS);
}

#[test]
fn a_yes_to_an_altered_question_is_refused() {
    let place = Place::governed(READS, &[]);
    let kernel = place.open();
    let mut asked = review(submit(
        &kernel,
        Front::Cli,
        "policy.update",
        json!({ "text": READS }),
    ));
    asked.request.arguments = json!({ "text": NOTHING });
    assert!(support::answer(&kernel, &mut asked, true).is_err());
    let call = Call::new("policy.update", json!({ "text": NOTHING }));
    review(kernel.submit(Front::Cli, &call));
}

#[test]
fn one_yes_is_used_once_by_however_many_ask_at_once() {
    let policy = format!(
        "{READS}  - name: ask\n    match: {{ syscall: fs.read, path_glob: ask.txt }}\n    action: require_review\n    reason: ask\n"
    );
    let place = Place::governed(&policy, &[("ask.txt", "?\n")]);
    let kernel = place.open();
    let call = Call::new("fs.read", json!({ "path": "ask.txt" }));
    let mut asked = review(kernel.submit(Front::Agent, &call));
    support::answer(&kernel, &mut asked, true).unwrap();
    // The yes was for the agent: nobody else has it.
    review(kernel.submit(Front::Mcp, &call));
    let words: Vec<&str> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| word(&kernel.submit(Front::Agent, &call))))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(
        words.iter().filter(|word| **word == "done").count(),
        1,
        "{words:?}"
    );
    assert_eq!(
        words.iter().filter(|word| **word == "review").count(),
        7,
        "{words:?}"
    );
}

#[test]
fn questions_and_answers_are_in_the_log_for_good() {
    let place = Place::governed(READS, &[]);
    let mut config = place.config();
    config.lifetime = Lifetime::Long;
    let kernel = Kernel::open(config).unwrap();
    let mut asked = review(submit(
        &kernel,
        Front::Cli,
        "policy.update",
        json!({ "text": NOTHING }),
    ));
    support::answer(&kernel, &mut asked, true).unwrap();
    // Read past the kernel's own buffer: what is not yet committed would not be there.
    let committed: Vec<_> =
        airlock_audit::read_log(&state(&kernel), airlock_audit::Filter::default())
            .unwrap()
            .map(|record| record.unwrap().entry)
            .filter(|entry| entry.action.as_ref() == Some(&asked.action))
            .collect();
    let events: Vec<EventType> = committed.iter().map(|entry| entry.event).collect();
    assert_eq!(
        events,
        [
            EventType::CapabilityCheck,
            EventType::ApprovalRequested,
            EventType::ApprovalDecided
        ]
    );
    assert!(EventType::ApprovalRequested.is_durable() && EventType::ApprovalDecided.is_durable());
    for entry in &committed[1..] {
        assert_eq!(entry.metadata["approval"], asked.approval.id.to_string());
        assert_eq!(entry.metadata["gate"], "AG-05");
    }
    assert_eq!(committed[2].metadata["answer"], "approve");
    assert_eq!(committed[2].metadata["channel"], "terminal");
}

#[test]
fn only_the_command_line_may_ask_for_another_policy() {
    let place = Place::governed(READS, &[]);
    let kernel = place.open();
    for front in [Front::Agent, Front::Mcp, Front::Server] {
        for (name, arguments) in [
            ("policy.update", json!({ "text": NOTHING })),
            ("policy.init", json!({})),
            ("audit.read", json!({ "purpose": "log" })),
        ] {
            let refusal = denied(submit(&kernel, front, name, arguments));
            let contribution = &refusal.decision.contributions[0];
            assert_eq!(contribution.layer.as_str(), "capability", "{front} {name}");
        }
    }
    assert_eq!(place.policy_text(), READS);
}

#[test]
fn a_policy_cannot_give_fronts_what_their_manifest_gives_up() {
    let policy = "\
version: 1
workspace: { allow: [\"*\"] }
rules:
  - name: everything
    match: { effect: [read, control] }
    action: allow
    reason: everything
";
    let place = Place::governed(policy, &[]);
    let kernel = place.open();
    for front in [Front::Agent, Front::Mcp, Front::Server] {
        for (name, arguments) in [
            ("policy.update", json!({ "text": NOTHING })),
            ("trust.revoke", json!({})),
            ("audit.read", json!({ "purpose": "log" })),
        ] {
            denied(submit(&kernel, front, name, arguments));
        }
    }
    // And the person at the command line is still asked.
    review(submit(
        &kernel,
        Front::Cli,
        "policy.update",
        json!({ "text": NOTHING }),
    ));
}

#[test]
fn a_reader_sees_the_old_policy_or_the_new_one_and_never_a_part() {
    let place = Place::governed(READS, &[]);
    let kernel = place.open();
    let padding = "x".repeat(200_000);
    let texts = [
        format!("{READS}# a {padding}\n"),
        format!("{READS}# b {padding}\n"),
    ];
    update(&kernel, &texts[0]);
    let path = place.path(".airlock/policy.yaml");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = BTreeSet::new();
            while !stop.load(Ordering::Relaxed) {
                let text = fs::read_to_string(&path).unwrap();
                let which = texts.iter().position(|whole| *whole == text);
                seen.insert(which.unwrap_or_else(|| panic!("{} bytes", text.len())));
            }
            seen
        });
        for n in 1..20 {
            update(&kernel, &texts[n % 2]);
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(reader.join().unwrap().len(), 2, "the reader saw both");
    });
}

#[test]
fn each_decision_is_taken_under_one_policy_while_policies_change() {
    let open = READS.to_owned();
    let closed = NOTHING.to_owned();
    let place = Place::governed(&open, &[("a.txt", "a\n")]);
    let kernel = place.open();
    let allowing = kernel.policy().generation().digest().to_string();
    let changing = AtomicBool::new(true);
    let before = records(&kernel).len();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut turns = 0;
                while changing.load(Ordering::Relaxed) || turns < 10 {
                    turns += 1;
                    let outcome =
                        submit(&kernel, Front::Agent, "fs.read", json!({ "path": "a.txt" }));
                    assert!(matches!(word(&outcome), "done" | "denied"), "{outcome:?}");
                }
            });
        }
        for n in 0..10 {
            update(&kernel, if n % 2 == 0 { &closed } else { &open });
        }
        changing.store(false, Ordering::Relaxed);
    });
    let denying = {
        update(&kernel, &closed);
        kernel.policy().generation().digest().to_string()
    };
    let (mut allows, mut denies) = (0, 0);
    for entry in &records(&kernel)[before..] {
        let (Some(decision), Some("fs.read")) = (&entry.decision, entry.syscall.as_deref()) else {
            continue;
        };
        if decision.verdict == "allow" {
            assert_eq!(decision.generation, allowing);
            allows += 1;
        } else {
            assert_eq!(decision.generation, denying);
            denies += 1;
        }
    }
    assert!(allows > 0 && denies > 0, "{allows} {denies}");
    verifies(&kernel);
}

#[test]
fn two_kernels_that_update_at_once_never_replace_a_policy_unseen() {
    let place = Place::governed(READS, &[]);
    let (one, two) = (place.open(), place.open());
    let updates: usize = std::thread::scope(|scope| {
        let threads = [("one", &one), ("two", &two)].map(|(name, kernel)| {
            scope.spawn(move || {
                let mut updates = 0;
                for n in 0..12 {
                    let text = format!("{READS}# {name} {n}\n");
                    match maybe_approved(kernel, "policy.update", json!({ "text": text })) {
                        // The other one was quicker: the question is asked again, or it fails.
                        None | Some(Outcome::NeedsReview(_)) => {}
                        Some(Outcome::Done(_)) => updates += 1,
                        Some(Outcome::Failed(failed)) => {
                            assert!(failed.what.contains("changed"), "{}", failed.what);
                        }
                        Some(Outcome::Denied(denied)) => panic!("{denied:?}"),
                    }
                }
                updates
            })
        });
        threads.map(|thread| thread.join().unwrap()).iter().sum()
    });
    assert!(updates > 0);
    let last = place.policy_text();
    let kernel = place.open();
    assert_eq!(kernel.policy().origin(), PolicyOrigin::Workspace);
    assert_eq!(kernel.policy().source(), last.as_bytes());
    assert_eq!(
        backups(&kernel).len(),
        updates,
        "every replaced policy is kept"
    );
    assert_eq!(one.policy().source(), last.as_bytes());
    assert_eq!(two.policy().source(), last.as_bytes());
    verifies(&kernel);
}

#[test]
fn a_file_swapped_in_while_policy_is_written_is_not_approved() {
    // A hostile writer keeps putting its own policy in place of whatever is there.
    let place = Place::governed(READS, &[("a.txt", "a\n")]);
    let kernel = place.open();
    let evil = format!("{READS}# evil\n");
    let path = place.path(".airlock/policy.yaml");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let temporary = place.beside("evil.yaml");
                fs::write(&temporary, &evil).unwrap();
                fs::rename(&temporary, &path).unwrap();
            }
        });
        for n in 0..20 {
            // It may fail; it may not approve what the person never saw.
            let _ = maybe_approved(
                &kernel,
                "policy.update",
                json!({ "text": format!("{NOTHING}# {n}\n") }),
            );
            assert_ne!(kernel.policy().source(), evil.as_bytes(), "round {n}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    fs::write(&path, &evil).unwrap();
    let reopened = place.open();
    assert_eq!(reopened.policy().origin(), PolicyOrigin::Untrusted);
    trust(&reopened);
    assert_eq!(reopened.policy().source(), evil.as_bytes());
}

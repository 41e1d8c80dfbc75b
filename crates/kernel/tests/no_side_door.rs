//! Every tool there is, on every front there is: each call has its decision and its record, and a
//! rule that denies its syscall stops it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "../../../tests/tools/every.rs"]
mod every;
mod support;

use airlock_audit::{Entry, EventType, Stage};
use airlock_kernel::{Front, Kernel, Outcome};
use serde_json::{Value, json};
use support::{Place, READS, action, at, denied, of_action, submit, token, word};

/// Valid arguments for a tool.
fn arguments(kernel: &Kernel, tool: &str) -> Value {
    match tool {
        "policy.update" => json!({ "text": READS }),
        "trust.approve" => json!({ "digest": kernel.workspace().trust().unwrap().digest() }),
        other => {
            let workspace = kernel.workspace();
            let root = std::path::Path::new(workspace.root().path());
            let every = every::arguments(workspace.state().path(), root);
            let known = every.get(other).cloned();
            known.unwrap_or_else(|| panic!("say what `{other}` is called with, and by whom"))
        }
    }
}

/// Tools that change files or run programs: every front has the capability, and no rule here
/// allows any of them.
const ACTING: &[&str] = &[
    "exec.run",
    "fs.write",
    "fs.patch",
    "fs.move",
    "fs.delete",
    "shell.run",
    "test.run",
    "git.status",
    "git.diff",
    "git.log",
    "git.commit",
];

/// What a front gets from a tool in a workspace where reading is allowed.
fn expected(front: Front, tool: &str) -> &'static str {
    let reads = [
        "fs.exists",
        "fs.read",
        "fs.list",
        "search.glob",
        "search.grep",
    ];
    if reads.contains(&tool) {
        return "done";
    }
    let own = [
        "exec.own",
        "kernel.stop",
        "kernel.renew",
        "agent.invoke",
        "model.chat",
        "plugin.install",
    ];
    let own = own.contains(&tool)
        || ["approval.", "workflow."]
            .iter()
            .any(|area| tool.starts_with(area));
    if own && front != Front::Cli {
        return "unknown_tool";
    }
    // Whoever asks, a person looks first.
    if tool.starts_with("merge.") {
        return "review";
    }
    // Not even decided: whoever calls cannot be told from a program.
    if tool == "approval.decide" {
        return "needs_person";
    }
    if front != Front::Cli || ACTING.contains(&tool) {
        return "denied";
    }
    match tool {
        "policy.update" | "trust.approve" | "workflow.confirm" | "plugin.install"
        | "plugin.enable" => "review",
        "audit.read"
        | "trust.revoke"
        | "stage.read"
        | "session.create"
        | "session.list"
        | "approval.read"
        | "approval.passphrase"
        | "kernel.stop"
        | "kernel.renew"
        | "workflow.run"
        | "workflow.resume"
        | "workflow.cancel"
        | "plugin.list" => "done",
        // There is no such plugin.
        other if other.starts_with("plugin.") => "plugin_unknown",
        // No rule of this policy allows running anything, or names a session's own view.
        other if other.starts_with("phase.") || other == "plan.complete" => "denied",
        "exec.own" | "agent.invoke" | "model.chat" | "session.policy" | "session.log" => "denied",
        "session.result" => "unknown_result",
        "approval.revoke" => "unknown_approval",
        other if other.starts_with("session.") => "unknown_session",
        // There is no such stage.
        "stage.drop" => "stage_failed",
        // There is a policy already.
        "policy.init" => "control_failed",
        other => panic!("say what the command line may do with `{other}`"),
    }
}

fn tools(kernel: &Kernel) -> Vec<(&'static str, &'static str)> {
    let tools = kernel.registry().list();
    tools
        .map(|tool| (tool.spec().name, tool.spec().syscall))
        .collect()
}

#[test]
fn every_tool_on_every_front_is_decided_and_recorded() {
    let place = Place::governed(READS, &[("a.txt", "a\n")]);
    let mut seen = 0;
    let list = tools(&place.open());
    assert!(list.len() >= 10, "{list:?}");
    for front in Front::ALL {
        for (tool, syscall) in &list {
            let kernel = place.open();
            support::trust_if_needed(&kernel);
            let outcome = submit(&kernel, front, tool, arguments(&kernel, tool));
            assert_eq!(word(&outcome), expected(front, tool), "{front} {tool}");
            let entries = of_action(&kernel, &action(&outcome));
            seen += 1;
            if let undecided @ ("unknown_tool" | "needs_person") = word(&outcome) {
                // Not even decided: to this front it does not exist, or only with a person.
                assert_eq!(entries[0].metadata["refused"], undecided);
                continue;
            }
            let checks = entries
                .iter()
                .filter(|entry| entry.event == EventType::CapabilityCheck);
            assert!(checks.count() > 0, "{front} {tool}");
            let attempt = at(&entries, Stage::Attempt);
            assert_eq!(attempt.tool.as_deref(), Some(*tool));
            let request = attempt.request.as_deref().unwrap();
            assert_eq!(request.syscall.name(), *syscall);
            assert_eq!(request.caller.plugin.as_str(), front.as_str());
            let decision = attempt.decision.as_ref().unwrap();
            assert!(!decision.rules.is_empty(), "{front} {tool}");
            let ends = entries.iter().filter(|e| e.stage == Stage::Outcome).count();
            let ran = matches!(outcome, Outcome::Done(_) | Outcome::Failed(_));
            assert_eq!(ends, usize::from(ran), "{front} {tool}");
            assert_eq!(decision.verdict == "allow", ran, "{front} {tool}");
        }
    }
    assert_eq!(seen, Front::ALL.len() * list.len());
}

#[test]
fn a_rule_that_denies_a_syscall_stops_it_on_every_front() {
    let plain = Place::new(&[]);
    for (tool, syscall) in tools(&plain.open()) {
        let policy = format!(
            "{READS}  - name: not-this\n    match: {{ syscall: {syscall} }}\n    action: deny\n    reason: not here\n"
        );
        let place = Place::governed(&policy, &[("a.txt", "a\n")]);
        let kernel = place.open();
        for front in Front::ALL {
            if ["unknown_tool", "needs_person"].contains(&expected(front, tool)) {
                continue;
            }
            let call = arguments(&kernel, tool);
            let refusal = denied(submit(&kernel, front, tool, call));
            let deciding: Vec<String> = refusal
                .decision
                .deciding()
                .map(|c| format!("{}/{}", c.layer.as_str(), c.rule))
                .collect();
            // A front whose manifest lacks the capability is stopped before the rules.
            let by_rule = deciding.contains(&"policy/not-this".to_owned());
            let by_manifest = deciding[0].starts_with("capability/");
            assert!(by_rule || by_manifest, "{front} {tool}: {deciding:?}");
            assert_eq!(
                by_rule,
                front == Front::Cli
                    || expected(front, tool) == "done"
                    || ACTING.contains(&tool)
                    || tool.starts_with("merge.")
                    || tool.starts_with("session.")
                    || tool.starts_with("phase.")
                    || tool == "plan.complete",
                "{front} {tool}: {deciding:?}"
            );
            let entries = of_action(&kernel, &refusal.action);
            assert_eq!(
                at(&entries, Stage::Attempt)
                    .decision
                    .as_ref()
                    .unwrap()
                    .verdict,
                "deny"
            );
            assert!(entries.iter().all(|entry| entry.stage != Stage::Outcome));
        }
        assert_eq!(place.policy_text(), policy, "{tool}: nothing happened");
    }
}

#[test]
fn malformed_arguments_are_refused_and_recorded_for_every_tool_on_every_front() {
    let place = Place::governed(READS, &[("a.txt", "a\n")]);
    let kernel = place.open();
    for (tool, _) in tools(&kernel) {
        let mut unknown = arguments(&kernel, tool);
        unknown["surprise"] = json!(token());
        for front in Front::ALL {
            for bad in [
                unknown.clone(),
                Value::Null,
                json!([]),
                json!("text"),
                json!(7),
            ] {
                let outcome = submit(&kernel, front, tool, bad.clone());
                let want = match expected(front, tool) {
                    refused @ ("unknown_tool" | "needs_person") => refused,
                    _ => "invalid_arguments",
                };
                assert_eq!(word(&outcome), want, "{front} {tool} {bad}");
                let mut entries = of_action(&kernel, &action(&outcome));
                let is_note = |entry: &mut Entry| entry.event == EventType::SecretRedacted;
                let redacted = entries.extract_if(.., is_note).count();
                assert_eq!(
                    redacted,
                    usize::from(bad == unknown),
                    "{front} {tool} {bad}"
                );
                assert_eq!(entries.len(), 1, "{front} {tool} {bad}");
                assert_eq!(entries[0].stage, Stage::Outcome);
                assert_eq!(entries[0].metadata["refused"], want);
                assert_eq!(
                    entries[0].caller.as_ref().unwrap().plugin.as_str(),
                    front.as_str()
                );
            }
        }
    }
}

#[test]
fn a_tool_that_nobody_registered_is_refused_and_recorded_on_every_front() {
    let place = Place::governed(READS, &[]);
    let kernel = place.open();
    let registered: Vec<&str> = tools(&kernel).into_iter().map(|(name, _)| name).collect();
    let syscalls = airlock_core::SYSCALLS.iter().map(|spec| spec.name);
    // Every syscall without a tool: known to policy, but nothing here does it.
    let absent = syscalls.filter(|name| !registered.contains(name));
    for name in absent.chain([
        "FS.READ",
        "fs.read ",
        "fs.*",
        "plugin.fs.read",
        "../fs.read",
    ]) {
        for front in Front::ALL {
            let outcome = submit(&kernel, front, name, json!({ "path": "a.txt" }));
            assert_eq!(word(&outcome), "unknown_tool", "{front} {name}");
            let entries = of_action(&kernel, &action(&outcome));
            assert_eq!(entries.len(), 1, "{front} {name}");
            assert_eq!(entries[0].metadata["refused"], "unknown_tool");
        }
    }
}

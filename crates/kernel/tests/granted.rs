//! What a person grants a command beside the workspace needs the capabilities, like anything else.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_audit::EventType;
use airlock_kernel::{Front, Kernel, Outcome};
use airlock_policy::{ExampleFields, Verdict};
use serde_json::{Value, json};
use std::fs;
use support::{Place, action, denied, of_action, submit, word};

/// A workspace where commands run, and a directory beside it.
fn place(workspace: &str, owner: &str) -> (Place, String) {
    let outer = Place::new(&[]);
    fs::create_dir(outer.beside("outside")).unwrap();
    let outside = outer.beside("outside").canonicalize().unwrap();
    let outside = outside.to_str().unwrap().to_owned();
    let named = |patterns: &str| patterns.replace("OUTSIDE", &outside);
    let policy = format!(
        "version: 1\nworkspace: {{ allow: [{}] }}\nroles: {{ owner: [{}] }}\n\
         approvals: {{ automatic: [AG-01] }}\nrules:\n  \
         - {{ name: run, match: {{ syscall: exec.run }}, action: allow }}\n",
        named(workspace),
        named(owner)
    );
    outer.write(".airlock/policy.yaml", policy);
    support::trust(&outer.open());
    (outer, outside)
}

/// The capabilities that were checked for an action, each with what was found.
fn checked(kernel: &Kernel, outcome: &Outcome) -> Vec<(String, String)> {
    let entries = of_action(kernel, &action(outcome));
    let checks = entries
        .iter()
        .filter(|entry| entry.event == EventType::CapabilityCheck);
    let told = |name: &str, entry: &airlock_audit::Entry| entry.metadata[name].clone();
    checks
        .map(|entry| (told("capability", entry), told("result", entry)))
        .collect()
}

fn explained(kernel: &Kernel, arguments: &Value) -> (Verdict, String) {
    let fields = ExampleFields {
        syscall: "exec.run".into(),
        plugin: Some("cli".into()),
        tool: Some("exec.own".into()),
        command: vec!["true".into()],
        arg: arguments.clone(),
        ..ExampleFields::default()
    };
    let explained = kernel.explain(&fields, None).unwrap();
    let fixes: Vec<String> = explained.explanation.fixes().collect();
    (explained.decision.verdict, fixes.join("\n"))
}

#[test]
fn a_grant_beside_the_workspace_needs_its_capability_of_workspace_and_user() {
    const ALL: &str = "\"*\"";
    const READS: &str = "\"exec.*\", \"filesystem.read.*\"";
    const OUTSIDE: &str = "\"exec.*\", \"filesystem.*.OUTSIDE/*\"";
    const ITSELF: &str = "\"exec.*\", \"filesystem.*.OUTSIDE\"";
    let (read, write) = ("filesystem.read", "filesystem.write");
    for (workspace, owner, flag, missing) in [
        (ALL, ALL, "allow_write", None),
        (READS, READS, "allow_read", None),
        (OUTSIDE, OUTSIDE, "allow_write", None),
        (READS, ALL, "allow_write", Some((write, "workspace"))),
        (ALL, READS, "allow_write", Some((write, "user"))),
        ("\"exec.*\"", ALL, "allow_read", Some((read, "workspace"))),
        // The directory without what lies in it is not what is granted.
        (ITSELF, ALL, "allow_read", Some((read, "workspace"))),
    ] {
        let case = format!("{workspace} {owner} {flag}");
        let (place, outside) = place(workspace, owner);
        let kernel = place.open();
        let arguments = json!({ "command": ["true"], (flag): [&outside] });
        let outcome = submit(&kernel, Front::Cli, "exec.own", arguments.clone());
        let (verdict, fixes) = explained(&kernel, &arguments);
        let checks = checked(&kernel, &outcome);
        let Some((right, gate)) = missing else {
            // There is no machine to run it on.
            assert_eq!(word(&outcome), "tier_unavailable", "{case}");
            assert_eq!(verdict, Verdict::Allow, "{case}");
            let of_paths = checks.iter().filter(|(name, _)| name.contains(&outside));
            let want = if flag == "allow_write" { 2 } else { 1 };
            assert_eq!(of_paths.count(), want, "{case}: {checks:?}");
            continue;
        };
        let capability = format!("{right}.{outside}/*");
        let found = (capability.clone(), format!("denied: {gate}"));
        assert_eq!(checks.last(), Some(&found), "{case}");
        let reason = format!("capability `{capability}` is not granted: {gate}");
        let contributions = denied(outcome).decision.contributions;
        assert_eq!(&*contributions[0].reason, reason, "{case}");
        assert_eq!(verdict, Verdict::Deny, "{case}");
        assert!(fixes.contains(&format!("`{right}.")), "{case}: {fixes}");
    }
}

#[test]
fn a_link_takes_the_capability_of_where_it_leads() {
    let (place, outside) = place("\"*\"", "\"exec.*\", \"filesystem.*.OUTSIDE/*\"");
    fs::create_dir(place.beside("elsewhere")).unwrap();
    let link = format!("{outside}/link");
    std::os::unix::fs::symlink(place.beside("elsewhere"), &link).unwrap();
    let kernel = place.open();
    let arguments = json!({ "command": ["true"], "allow_write": [link] });
    let outcome = submit(&kernel, Front::Cli, "exec.own", arguments);
    assert_eq!(word(&outcome), "denied");
    let checks = checked(&kernel, &outcome);
    let (capability, _) = checks.last().unwrap();
    assert!(capability.ends_with("/elsewhere/*"), "{checks:?}");
}

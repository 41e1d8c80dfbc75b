//! What a plugin asks for happens if its manifest, the workspace and the user all allow it. Which of
//! them did not is in what the plugin is told and in the log, whatever runs the plugin.

use crate::made::{Host, POLICY, call, governed, records};
use serde_json::{Value, json};

const EVERYTHING: &str = "\"*\"";
/// All that calling, installing and looking at the log needs, and no reading of files.
const NO_READING: &str =
    "\"tool.*\", \"plugin.*\", \"trust.*\", \"approvals.*\", \"audit.*\", \"sessions.*\"";

/// A policy under which the workspace and the user allow so much.
fn policy(workspace: &str, user: &str) -> String {
    format!("{POLICY}workspace:\n  allow: [{workspace}]\nroles:\n  owner: [{user}]\n")
}

/// The check of the capability to read `a.txt` that the log has for `plugin`.
fn checked(records: &[Value]) -> Vec<&Value> {
    let checks = records.iter().filter(|record| {
        let metadata = &record["metadata"];
        record["event"] == "capability_check"
            && metadata["capability"]
                .as_str()
                .is_some_and(|one| one.starts_with("filesystem.read.") && one.ends_with("/a.txt"))
    });
    checks.collect()
}

/// Three hosts against one way to deny, or none.
fn row(case: &str, policy: &str, manifest: &str, gate: Option<&str>) {
    let world = governed(policy);
    for host in Host::ALL {
        host.install(&world, manifest);
    }
    let served = world.serve();
    let mut client = served.client("agent");
    for host in Host::ALL {
        let plugin = host.plugin();
        let told = call(&mut client, host, "ask", &json!({})).to_string();
        let records = records(&world, plugin);
        let checks = checked(&records);
        let [check] = checks.as_slice() else {
            panic!("{case}, {plugin}: {} checks in {records:#?}", checks.len());
        };
        assert_eq!(check["metadata"]["plugin"], plugin, "{case}");
        let result = check["metadata"]["result"].as_str().unwrap();
        match gate {
            None => {
                assert!(told.contains("a\\n"), "{case}, {plugin}: {told}");
                assert_eq!(result, "allowed", "{case}, {plugin}");
            }
            Some(gate) => {
                let named = format!("is not granted: {gate}");
                assert!(told.contains(&named), "{case}, {plugin}: {told}");
                assert!(!told.contains("a\\n"), "{case}, {plugin}: {told}");
                assert_eq!(result, format!("denied: {gate}"), "{case}, {plugin}");
            }
        }
    }
}

const READS: &str = "capabilities: [\"filesystem.read.*\"]\n";

#[test]
fn what_all_three_allow_happens_for_every_host() {
    row("all", &policy(EVERYTHING, EVERYTHING), READS, None);
}

#[test]
fn what_the_manifest_does_not_ask_for_is_denied_to_every_host() {
    let open = policy(EVERYTHING, EVERYTHING);
    row(
        "manifest",
        &open,
        "capabilities: [\"kv.*\"]\n",
        Some("plugin"),
    );
}

#[test]
fn what_the_manifest_gives_up_is_denied_to_every_host() {
    let given_up = "capabilities: [\"filesystem.*\"]\ndeny_capabilities: [\"filesystem.read.*\"]\n";
    let open = policy(EVERYTHING, EVERYTHING);
    row("given up", &open, given_up, Some("plugin deny"));
}

#[test]
fn what_the_workspace_does_not_allow_is_denied_to_every_host() {
    let narrow = policy(NO_READING, EVERYTHING);
    row("workspace", &narrow, READS, Some("workspace"));
}

#[test]
fn what_the_user_may_not_is_denied_to_every_host() {
    row("user", &policy(EVERYTHING, NO_READING), READS, Some("user"));
}

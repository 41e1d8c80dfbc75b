//! Tags that policy gives to plugins and users: who holds them, and what a change of them means.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_core::TagName;
use airlock_kernel::Front;
use airlock_policy::{ExampleFields, Policy, Verdict};
use serde_json::json;
use support::{NOTHING, Place, READS, submit, word};

#[test]
fn a_users_tag_is_held_by_their_own_commands_and_by_nothing_that_acts_for_them() {
    let place = Place::new(&[("a.txt", "a\n")]);
    let user = place.open().explain(&fields("cli"), None).unwrap();
    let user = user.request.caller.user;
    for (tag, holders) in [
        (format!("{{ user: [{user}] }}"), &[Front::Cli][..]),
        (
            format!("{{ user: [{user}], plugin: [mcp] }}"),
            &[Front::Mcp],
        ),
        ("{ user: [somebody-else], plugin: [mcp] }".to_owned(), &[]),
        ("{ user: [somebody-else] }".to_owned(), &[]),
        (
            "{ plugin: [agent, cli] }".to_owned(),
            &[Front::Agent, Front::Cli],
        ),
    ] {
        let policy = format!(
            "version: 1\ntags: {{ trusted: {tag} }}\nrules:\n  - name: tagged\n    \
             match: {{ effect: read, path_glob: \"**\", caller_tag: trusted }}\n    action: allow\n"
        );
        let place = Place::governed(&policy, &[("a.txt", "a\n")]);
        let kernel = place.open();
        for front in Front::ALL {
            let outcome = submit(&kernel, front, "fs.read", json!({ "path": "a.txt" }));
            let want = if holders.contains(&front) {
                "done"
            } else {
                "denied"
            };
            assert_eq!(word(&outcome), want, "{tag}: {front}");
        }
        // A plugin of theirs is not them either.
        let explained = kernel.explain(&fields("some-plugin"), None).unwrap();
        assert_eq!(explained.decision.verdict, Verdict::Deny, "{tag}");
    }
}

/// A read by `plugin`.
fn fields(plugin: &str) -> ExampleFields {
    ExampleFields {
        syscall: "fs.read".into(),
        path: vec!["a.txt".into()],
        plugin: Some(plugin.into()),
        ..ExampleFields::default()
    }
}

/// Reads are allowed to whoever has the tag `trusted`, which `holder` has.
fn tagging(holder: &str) -> String {
    format!(
        "version: 1\ntags: {{ trusted: {{ plugin: [{holder}] }} }}\nrules:\n  - name: tagged\n    \
         match: {{ effect: read, path_glob: \"**\", caller_tag: trusted }}\n    action: allow\n"
    )
}

#[test]
fn what_plugins_did_is_decided_again_by_rules_and_by_the_tags_of_each_policy() {
    let replayed = |now: &str, next: &str, tags: &[&str]| {
        let place = Place::governed(now, &[("a.txt", "a\n")]);
        let kernel = place.open();
        // No plugin of that name runs in this kernel.
        let explained = kernel.explain(&fields("some-plugin"), None).unwrap();
        assert!(!explained.knows_manifest);
        let mut request = explained.request;
        request.caller.tags = tags.iter().map(|tag| TagName::new(tag).unwrap()).collect();
        let next = Policy::load("next", next.as_bytes()).unwrap().policy;
        let next = kernel.policy_like(next).unwrap();
        let replay = kernel.replay(&[(1, request)], &next);
        assert_eq!((replay.replayed, replay.without_manifest), (1, 1));
        (replay.breaking(), replay.widening())
    };
    assert_eq!(replayed(READS, NOTHING, &[]), (1, 0));
    assert_eq!(replayed(NOTHING, READS, &[]), (0, 1));
    // The record says what the tags were; the policy says what they would be.
    let (theirs, others) = (tagging("some-plugin"), tagging("other"));
    assert_eq!(replayed(&others, &theirs, &[]), (0, 1));
    assert_eq!(replayed(&theirs, &others, &["trusted"]), (1, 0));
    assert_eq!(replayed(&theirs, &theirs, &["trusted"]), (0, 0));
    // What a plugin was given when it was approved stays its own.
    let given = others.replace("trusted: {", "another: {");
    assert_eq!(replayed(&given, &given, &["trusted"]), (0, 0));
    assert_eq!(replayed(NOTHING, &given, &["trusted"]), (0, 1));
    // The workspace's own limit holds for whatever a manifest asks.
    let narrow = format!("{READS}workspace: {{ allow: [\"exec.*\"] }}\n");
    assert_eq!(replayed(READS, &narrow, &[]), (1, 0));
}

//! Changes that no sandbox can make: nobody is asked for leave to make them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_kernel::{Front, Kernel};
use airlock_policy::{ExampleFields, Verdict};
use serde_json::json;
use support::{Place, denied, done, submit, word};

const WRITES: &str = "\
version: 1
approvals: { automatic: [AG-01] }
rules:
  - { name: write, match: { effect: [write, delete], path_glob: \"**\" }, action: allow }
  - { name: look, match: { effect: [read], path_glob: \"**\" }, action: require_review }
";

/// What would be decided about `path`, and the rule that says so.
fn explained(kernel: &Kernel, syscall: &str, path: &str) -> (Verdict, String) {
    let fields = ExampleFields {
        syscall: syscall.into(),
        path: vec![path.into()],
        plugin: Some("mcp".into()),
        ..ExampleFields::default()
    };
    let decision = kernel.explain(&fields, None).unwrap().decision;
    let rule = decision.deciding().next().map(|one| one.rule.to_string());
    (decision.verdict, rule.unwrap_or_default())
}

#[test]
fn nobody_is_asked_about_a_change_that_no_sandbox_can_make() {
    let plain = Place::governed(WRITES, &[("a.txt", "a\n")]);
    let repository = Place::governed(WRITES, &[("a.txt", "a\n"), (".git/HEAD", "x\n")]);
    for (place, path, want) in [
        (&repository, ".git/hooks/pre-commit", "denied"),
        (&repository, ".git/config", "denied"),
        (&repository, ".airlock/adapters/a.yaml", "denied"),
        (&repository, ".bashrc", "review"),
        (&plain, ".git/hooks/pre-commit", "review"),
        (&plain, ".airlock/adapters/a.yaml", "denied"),
    ] {
        let kernel = place.open();
        let arguments = json!({ "path": path, "text": "x\n" });
        for front in [Front::Mcp, Front::Cli] {
            let outcome = submit(&kernel, front, "fs.write", arguments.clone());
            assert_eq!(word(&outcome), want, "{front} {path}");
            let (verdict, rule) = explained(&kernel, "fs.write", path);
            assert_eq!(
                verdict.as_str(),
                if want == "denied" {
                    "deny"
                } else {
                    "require_review"
                }
            );
            assert_eq!(rule == "kept-from-sandboxes", want == "denied", "{path}");
            if want == "denied" {
                let denied = denied(outcome);
                let told = denied.decision.deciding();
                let told: Vec<String> = told.map(|one| one.reason.to_string()).collect();
                assert!(told[0].contains("no sandbox can write"), "{told:?}");
            }
        }
    }
    let kernel = repository.open();
    // Reading changes nothing.
    let (verdict, _) = explained(&kernel, "fs.read", ".git/config");
    assert_eq!(verdict, Verdict::RequireReview);
    let waiting = json!({ "status": "open" });
    let waiting = done(submit(&kernel, Front::Cli, "approval.read", waiting));
    let waiting = waiting.value["approvals"].as_array().unwrap().clone();
    assert!(waiting.iter().all(|one| one["what"] == ".bashrc"));
}

//! Policy in, denials out, as a table.

use super::denials::{Denials, compile};
use super::failure::ProcessFailure;
use crate::some_caller::some_caller;
use airlock_core::{Request, Syscall, TagName, Tier};
use airlock_policy::Policy;

fn request(plugin: &str) -> Request {
    let mut caller = some_caller(plugin);
    caller.tags = vec![TagName::new("trusted_write").unwrap()];
    let mut request = Request::new(Syscall::parse("exec.run").unwrap(), Tier::Process, caller);
    request.tool = Some("exec.run".into());
    request.template = Some("code-executor".into());
    request
}

fn compiled(rules: &str, plugin: &str) -> Result<Denials, ProcessFailure> {
    let text = format!("version: 1\nrules:\n{rules}");
    let loaded = Policy::load("test", text.as_bytes()).unwrap();
    let elsewhere = ["/data".to_owned()];
    compile(loaded.policy.document(), &request(plugin), "/w", &elsewhere)
}

/// A rule with `when` as its conditions.
fn rule(when: &str, action: &str) -> String {
    format!("  - {{ name: r, match: {{ {when} }}, action: {action} }}\n")
}

#[test]
fn a_rule_denies_inside_what_it_may_deny_the_caller_to_read() {
    for (when, binds) in [
        ("effect: read, path_glob: secret", true),
        ("effect: [read, write], path_glob: secret", true),
        ("path_glob: secret", true),
        ("syscall: fs.read, path_glob: secret", true),
        ("syscall: \"fs.*\", path_glob: secret", true),
        ("syscall: exec.run, path_glob: secret", true),
        ("syscall: fs.write, path_glob: secret", false),
        ("syscall: search.grep, path_glob: secret", false),
        ("effect: write, path_glob: secret", false),
        ("effect: read, path_glob: secret, plugin: agent", true),
        ("effect: read, path_glob: secret, plugin: mcp", false),
        ("effect: read, path_glob: secret, user: ada", true),
        ("effect: read, path_glob: secret, user: bob", false),
        (
            "effect: read, path_glob: secret, caller_tag: trusted_write",
            true,
        ),
        ("effect: read, path_glob: secret, caller_tag: other", false),
        ("effect: read, path_glob: secret, tool: fs.read", true),
        ("effect: read, path_glob: secret, tool: search.grep", false),
        ("effect: read, path_glob: secret, mode: strict", false),
        (
            "effect: read, path_glob: secret, template: code-executor",
            true,
        ),
        (
            "effect: read, path_glob: secret, template: integration-test",
            false,
        ),
        // What cannot be known before the program runs counts as met.
        ("effect: read, path_glob: secret, command: curl", true),
        ("effect: read, path_glob: secret, tier: kernel", true),
        (
            "effect: read, path_glob: secret, arg: { depth: { equals: 1 } }",
            true,
        ),
    ] {
        for action in ["deny", "require_review", "allow"] {
            let denials = compiled(&rule(when, action), "agent").unwrap();
            let want = binds && action != "allow";
            let patterns = ["/data/**/secret".to_owned(), "/w/**/secret".to_owned()];
            assert_eq!(
                denials.patterns,
                patterns.into_iter().filter(|_| want).collect(),
                "{when} {action}"
            );
        }
    }
}

#[test]
fn exclusions_do_not_count_and_nothing_is_dropped() {
    let rules = rule(
        "effect: read, path_glob: [\"**/.env.*\", \"!**/.env.example\"]",
        "deny",
    );
    let denials = compiled(&rules, "agent").unwrap();
    assert!(denials.patterns.contains("/w/**/.env.*"), "{denials:?}");
    let rules = rule("effect: read, path_glob: config/prod.json", "deny");
    assert!(
        compiled(&rules, "agent")
            .unwrap()
            .paths
            .contains("/w/config/prod.json")
    );
    let rules = rule(
        "effect: write, path_glob: [config/prod.json, \"*.lock\"]",
        "deny",
    );
    let denials = compiled(&rules, "agent").unwrap();
    assert_eq!(
        denials.unwritable,
        ["/w/config/prod.json".to_owned()].into()
    );
    assert_eq!((denials.paths.len(), denials.patterns.len()), (0, 0));
}

#[test]
fn what_denies_everything_or_cannot_be_told_runs_nothing() {
    for when in ["effect: read", "effect: read, path_glob: \"**\""] {
        let refused = compiled(&rule(when, "deny"), "agent").unwrap_err();
        assert_eq!(refused.code(), "reads_denied", "{when}");
    }
    let text = "version: 1\nextensions:\n  - { name: judge, file: .airlock/judge.js }\n";
    let loaded = Policy::load("test", text.as_bytes()).unwrap();
    let refused = compile(loaded.policy.document(), &request("cli"), "/w", &[]).unwrap_err();
    assert_eq!(refused.code(), "reads_denied");
}

#[test]
fn the_default_policy_keeps_every_secret_it_names() {
    let loaded = Policy::load("default", airlock_policy::DEFAULT_POLICY.as_bytes()).unwrap();
    let denials = compile(loaded.policy.document(), &request("cli"), "/w", &[]).unwrap();
    let patterns: Vec<_> = denials
        .patterns
        .iter()
        .map(|text| airlock_sandbox::plan::Pattern::new(text, None).unwrap())
        .collect();
    for (path, want) in [
        ("/w/.env", true),
        ("/w/services/api/.env.production", true),
        ("/w/certs/server.pem", true),
        ("/w/home/.ssh/id_ed25519", true),
        ("/w/.npmrc", true),
        ("/w/src/main.rs", false),
        ("/w/src/env.rs", false),
    ] {
        let path_ = airlock_sandbox::HostPath::new(path).unwrap();
        assert_eq!(patterns.iter().any(|p| p.covers(&path_)), want, "{path}");
    }
}

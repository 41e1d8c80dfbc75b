//! The normative cases that concern extensions, with a real worker behind the engine.

use crate::support::{Workers, extension, read};
use airlock_core::Timestamp;
use airlock_policy::{
    BuiltIns, Decision, Engine, Extension, ExtensionHost, Layer, Policy, Protected, Verdict,
};
use std::sync::Arc;

const ALLOW: &str = "  - { name: allow, match: { syscall: fs.read }, action: allow }\n";
const DENY: &str = "  - { name: deny, match: { syscall: fs.read }, action: deny }\n";

fn engine(rules: &str, source: &str) -> (Engine, Arc<Workers>) {
    let (extension, workers) = extension("guard.ts", source);
    let boxed: Box<dyn Extension> = Box::new(extension);
    let text = format!("version: 1\nrules:\n{rules}");
    let policy = Policy::load("policy.yaml", text.as_bytes()).unwrap().policy;
    let built_ins = BuiltIns::standard(Protected::default());
    (
        Engine::new(policy, built_ins, ExtensionHost::new([boxed])),
        workers,
    )
}

fn decide(engine: &Engine, seconds: i64) -> Decision {
    let now = Timestamp::from_micros(seconds * 1_000_000);
    engine.decide(&read("a"), None, now)
}

fn extension_said(decision: &Decision) -> Option<String> {
    let mut found = decision
        .contributions
        .iter()
        .filter(|one| one.layer == Layer::Extension);
    found.next().map(|one| one.reason.to_string())
}

#[test]
fn case_5_an_extension_that_denies_wins_over_rules_that_allow() {
    let source = "export default (request: Request): Answer => ({ decision: 'deny', reason: `not ${request.paths[0]}` })";
    let (engine, _) = engine(ALLOW, source);
    let decision = decide(&engine, 0);
    assert_eq!(decision.verdict, Verdict::Deny);
    assert_eq!(extension_said(&decision).as_deref(), Some("not a"));
}

#[test]
fn case_11_an_extension_is_not_called_after_a_deny() {
    let (engine, workers) = engine(DENY, "export default () => 'allow'");
    let decision = decide(&engine, 0);
    assert_eq!(decision.verdict, Verdict::Deny);
    assert_eq!((extension_said(&decision), workers.started()), (None, 0));
}

#[test]
fn case_17_rules_and_extension_that_both_allow_allow() {
    let (engine, _) = engine(ALLOW, "export default () => 'allow'");
    assert_eq!(decide(&engine, 0).verdict, Verdict::Allow);
    let (engine, _) = self::engine(ALLOW, "export default () => 'pass'");
    assert_eq!(decide(&engine, 0).verdict, Verdict::Allow);
    let (engine, _) = self::engine(
        ALLOW,
        "export function evaluate() { return 'require_review' }",
    );
    assert_eq!(decide(&engine, 0).verdict, Verdict::RequireReview);
}

#[test]
fn case_20_a_crash_denies_and_is_followed_by_one_restart() {
    let (engine, workers) = engine(ALLOW, "export default () => 'allow'");
    assert_eq!(decide(&engine, 0).verdict, Verdict::Allow);
    workers.murder();
    let decision = decide(&engine, 1);
    assert_eq!(decision.verdict, Verdict::Deny);
    assert_eq!(
        extension_said(&decision).as_deref(),
        Some("the extension `guard` crashed")
    );
    assert_eq!(workers.started(), 2, "restarted at once");
    assert_eq!(decide(&engine, 2).verdict, Verdict::Allow);
}

#[test]
fn a_second_crash_within_thirty_seconds_disables_until_reloaded() {
    let (engine, workers) = engine(ALLOW, "export default () => 'allow'");
    for (second, want, workers_started) in [
        (100, Verdict::Deny, 2),
        (131, Verdict::Deny, 3),
        (160, Verdict::Deny, 3),
        (10_000, Verdict::Deny, 3),
    ] {
        if second != 10_000 {
            decide(&engine, second - 1);
            workers.murder();
        }
        assert_eq!(decide(&engine, second).verdict, want, "{second}");
        assert_eq!(workers.started(), workers_started, "{second}");
    }
    assert_eq!(
        engine.extensions().disabled().collect::<Vec<_>>(),
        ["guard"]
    );
    engine.extensions().reload();
    assert_eq!(decide(&engine, 10_001).verdict, Verdict::Allow);
}

#[test]
fn timeouts_and_exceptions_deny_and_disable_nothing() {
    for source in [
        "export default () => { for (;;); }",
        "export default () => { throw 1 }",
    ] {
        let (extension, workers) = extension("guard.js", source);
        let boxed: Box<dyn Extension> = Box::new(extension.with_limits(crate::support::HASTY));
        let text = format!("version: 1\nrules:\n{ALLOW}");
        let policy = Policy::load("policy.yaml", text.as_bytes()).unwrap().policy;
        let engine = Engine::new(policy, BuiltIns::none(), ExtensionHost::new([boxed]));
        for second in 0..4 {
            assert_eq!(decide(&engine, second).verdict, Verdict::Deny, "{source}");
        }
        assert_eq!(engine.extensions().disabled().count(), 0, "{source}");
        assert_eq!(workers.started(), 1, "{source}");
    }
}

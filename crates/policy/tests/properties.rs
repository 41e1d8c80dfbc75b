//! What holds for every policy and every request, tried on thousands of random ones.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use airlock_policy::{
    Action, Answer, BuiltIns, Conditions, Contribution, Decision, Engine, Extension,
    ExtensionFailure, ExtensionHost, Layer, Opinion, Protected, Rule, Verdict, combine,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use support::{NOW, allow, any_request, any_rules, bare, deny, generation, on, request};

fn as_set(decision: &Decision) -> HashSet<&Contribution> {
    decision.contributions.iter().collect()
}

struct Fixed(Opinion, &'static str);

impl Extension for Fixed {
    fn name(&self) -> &str {
        self.1
    }

    fn evaluate(&self, _: &airlock_core::Request) -> Result<Answer, ExtensionFailure> {
        Ok(Answer {
            opinion: self.0,
            reason: self.1.into(),
        })
    }

    fn restart(&self) -> Result<(), ExtensionFailure> {
        Ok(())
    }
}

fn opinion() -> impl Strategy<Value = Opinion> {
    prop_oneof![
        Just(Opinion::Allow),
        Just(Opinion::Deny),
        Just(Opinion::RequireReview),
        Just(Opinion::Pass),
    ]
}

fn shuffled_rules(most: usize) -> impl Strategy<Value = (Vec<Rule>, Vec<Rule>)> {
    any_rules(most).prop_flat_map(|rules| (Just(rules.clone()), Just(rules).prop_shuffle()))
}

fn guarded(rules: &[Rule], extensions: &[Opinion]) -> Engine {
    const NAMES: [&str; 3] = ["e0", "e1", "e2"];
    let boxed = extensions
        .iter()
        .zip(NAMES)
        .map(|(opinion, name)| Box::new(Fixed(*opinion, name)) as Box<dyn Extension>);
    Engine::new(
        support::policy(rules),
        BuiltIns::standard(Protected::default()),
        ExtensionHost::new(boxed),
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_order_of_rules_changes_nothing((rules, shuffled) in shuffled_rules(12), request in any_request()) {
        let one = bare(&rules).decide(&request, None, NOW);
        let other = bare(&shuffled).decide(&request, None, NOW);
        prop_assert_eq!(one.verdict, other.verdict);
        prop_assert_eq!(one.imposed, other.imposed);
        prop_assert_eq!(as_set(&one), as_set(&other));
        prop_assert_eq!(one.contributions.len(), as_set(&one).len(), "each rule speaks once");
    }

    #[test]
    fn the_order_of_extensions_changes_no_verdict(
        rules in any_rules(4),
        request in any_request(),
        opinions in prop::collection::vec(opinion(), 0..=3),
    ) {
        let reversed: Vec<_> = opinions.iter().rev().copied().collect();
        let one = guarded(&rules, &opinions).decide(&request, None, NOW);
        let other = guarded(&rules, &reversed).decide(&request, None, NOW);
        prop_assert_eq!(one.verdict, other.verdict);
        prop_assert_eq!(one.imposed, other.imposed);
    }

    #[test]
    fn combining_depends_on_the_set_alone(mut opinions in prop::collection::vec(opinion(), 0..8)) {
        let want = combine(opinions.iter().copied());
        opinions.reverse();
        prop_assert_eq!(combine(opinions.iter().copied()), want);
        opinions.extend(opinions.clone());
        prop_assert_eq!(combine(opinions.iter().copied()), want);
        opinions.push(Opinion::Deny);
        prop_assert_eq!(combine(opinions.iter().copied()), Verdict::Deny);
    }

    #[test]
    fn adding_a_deny_never_allows(
        mut rules in any_rules(8),
        when in support::any_conditions(),
        request in any_request(),
    ) {
        let before = bare(&rules).decide(&request, None, NOW);
        rules.push(deny("added", when));
        let after = bare(&rules).decide(&request, None, NOW);
        prop_assert!(after.verdict == before.verdict || after.verdict == Verdict::Deny);
    }

    #[test]
    fn no_added_rule_lifts_a_denial_or_a_review(
        rules in any_rules(8),
        more in any_rules(4),
        request in any_request(),
    ) {
        let before = bare(&rules).decide(&request, None, NOW);
        let mut all = rules;
        for mut rule in more {
            rule.name = format!("added-{}", rule.name).into();
            all.push(rule);
        }
        let after = bare(&all).decide(&request, None, NOW);
        let denied_by_rule = before
            .contributions
            .iter()
            .any(|one| one.opinion == Opinion::Deny && one.layer != Layer::Default);
        if denied_by_rule {
            prop_assert_eq!(after.verdict, Verdict::Deny);
        }
        if before.verdict == Verdict::RequireReview {
            prop_assert_ne!(after.verdict, Verdict::Allow);
        }
    }

    #[test]
    fn an_allow_always_has_somebody_who_allowed(rules in any_rules(8), request in any_request()) {
        let decision = guarded(&rules, &[]).decide(&request, None, NOW);
        prop_assert!(decision.deciding().next().is_some(), "every verdict has its reason");
        let outside = request.paths.iter().any(|path| path.inside().is_none());
        let allowed_by_path = decision.deciding().any(|one| {
            rules.iter().any(|rule| rule.name == one.rule && rule.when.path_glob.is_some())
        });
        if decision.verdict == Verdict::Allow && outside {
            prop_assert!(!allowed_by_path, "a glob never allows a path outside the workspace");
        }
    }

    #[test]
    fn no_rule_lets_a_protected_path_be_written(rules in any_rules(8), request in any_request()) {
        let mut request = request;
        let protected = airlock_core::RequestPath::parse(".airlock/policy.yaml", support::ROOT);
        request.paths.push(protected.unwrap());
        request.effects = airlock_core::EffectSet::of(&[airlock_core::Effect::Write]);
        let decision = guarded(&rules, &[Opinion::Allow]).decide(&request, None, NOW);
        prop_assert_eq!(decision.verdict, Verdict::Deny);
    }
}

/// Two policies that agree on nothing: one allows by rule `allow-0..`, one denies by `deny-0..`.
/// A decision that mixed them would carry contributions of both, or another's generation.
#[test]
fn a_decision_never_mixes_two_generations() {
    const RULES: usize = 40;
    let rules = |action: Action| -> Vec<Rule> {
        let name = |number| format!("{action:?}-{number}");
        (0..RULES)
            .map(|number| support::rule(&name(number), action, on("fs.read")))
            .collect()
    };
    let make = |action: Action| {
        let loaded = support::compile(&rules(action), &format!("{action:?}"));
        loaded.unwrap().policy
    };
    let engine = Engine::new(
        make(Action::Allow),
        BuiltIns::none(),
        ExtensionHost::default(),
    );
    let [stop, saw_allow, saw_deny] = [const { AtomicBool::new(false) }; 3];
    std::thread::scope(|scope| {
        let deciders: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let request = request("fs.read", &["a"]);
                    while !stop.load(SeqCst) {
                        let decision = engine.decide(&request, None, NOW);
                        let (verdict, opinion, saw) = if decision.generation == generation("Allow")
                        {
                            (Verdict::Allow, Opinion::Allow, &saw_allow)
                        } else {
                            (Verdict::Deny, Opinion::Deny, &saw_deny)
                        };
                        assert_eq!(decision.verdict, verdict);
                        assert_eq!(decision.contributions.len(), RULES);
                        assert!(
                            decision
                                .contributions
                                .iter()
                                .all(|one| one.opinion == opinion)
                        );
                        saw.store(true, SeqCst);
                    }
                })
            })
            .collect();
        // Goes on until each policy was met in force, so that the race was really run.
        let running = || deciders.iter().any(|one| !one.is_finished());
        let mut turns = 0;
        while running() && (turns < 300 || !saw_allow.load(SeqCst) || !saw_deny.load(SeqCst)) {
            let action = if turns % 2 == 0 {
                Action::Deny
            } else {
                Action::Allow
            };
            engine.reload(make(action));
            turns += 1;
        }
        stop.store(true, SeqCst);
        for decider in deciders {
            decider.join().unwrap();
        }
    });
}

#[test]
fn reload_changes_the_next_decision_and_its_generation() {
    let engine = bare(&[allow("a", on("fs.read"))]);
    let request = request("fs.read", &["a"]);
    let before = engine.decide(&request, None, NOW);
    let other = support::compile(&[], "other").unwrap();
    engine.reload(other.policy);
    let after = engine.decide(&request, None, NOW);
    assert_eq!(
        (before.verdict, after.verdict),
        (Verdict::Allow, Verdict::Deny)
    );
    assert_eq!(before.generation, generation("test"));
    assert_eq!(after.generation, generation("other"));
    assert_eq!(engine.generation(), after.generation);
}

#[test]
fn a_request_with_very_many_paths_is_decided_in_bounded_work() {
    let everything = Conditions {
        path_glob: support::words(&["**", "a/**", "*.rs"]),
        ..Conditions::default()
    };
    let engine = bare(&[allow("all", everything)]);
    let names: Vec<String> = (0..20_000)
        .map(|number| format!("a/b{number}/c.rs"))
        .collect();
    let paths: Vec<&str> = names.iter().map(String::as_str).collect();
    let decision = engine.decide(&request("merge.apply", &paths), None, NOW);
    assert_eq!(decision.verdict, Verdict::Allow);
    assert_eq!(decision.contributions.len(), 1);
    assert_eq!(decision.contributions[0].layer, Layer::Rules);
}

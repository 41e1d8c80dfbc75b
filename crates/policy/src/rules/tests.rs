#[path = "../../tests/support/mod.rs"]
mod support;

use super::*;
use crate::decision::Contributions;
use crate::decision::Verdict;
use crate::document::{
    ArgCondition, ArgTest, Conditions, Constraints, Example, ExampleFields, Rule,
};
use airlock_core::{ByteSize, Effect, EffectSet, Mode, Phase, Span, Tier};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::json;
use support::{
    NOW, allow, any_request, any_rules, bare, deny, on, on_paths, review, tagged, tags, words,
};

fn request(syscall: &str, paths: &[&str]) -> Request {
    support::request(syscall, paths)
}

fn verdict(rules: &[Rule], request: &Request) -> Verdict {
    bare(rules).decide(request, None, NOW).verdict
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3_000,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_index_finds_what_a_linear_scan_finds(rules in any_rules(20), request in any_request()) {
        let policy = support::policy(&rules);
        let (mut indexed, mut imposed) = (Contributions::new(), Imposed::default());
        policy.evaluate(Asked::new(&request), &mut indexed, &mut imposed);
        let mut imposed_by_all = Imposed::default();
        prop_assert_eq!(indexed.into_vec(), policy.evaluate_all(&request, &mut imposed_by_all));
        prop_assert_eq!(imposed, imposed_by_all);
    }

    #[test]
    fn a_rule_reported_as_shadowed_never_decides(rules in any_rules(6), request in any_request()) {
        let loaded = support::compile(&rules, "test").unwrap();
        let decision = bare(&rules).decide(&request, None, NOW);
        for warning in loaded.warnings.iter().filter(|one| one.code == lint::SHADOWED) {
            let name = warning.what.split('`').nth(1).unwrap();
            if decision.contributions.iter().any(|one| &*one.rule == name) {
                prop_assert_eq!(decision.verdict, Verdict::Deny, "{}", warning.what);
            }
        }
    }
}

#[test]
fn an_allow_speaks_for_every_path_and_a_denial_for_any() {
    let two = ["src/a.rs", "secret/key"];
    for (case, rules, paths, want) in [
        (
            "allow one of two",
            vec![allow("a", on_paths("fs.move", &["src/**"]))],
            &two[..],
            Verdict::Deny,
        ),
        (
            "two allows, one each, do not add up",
            vec![
                allow("a", on_paths("fs.move", &["src/**"])),
                allow("b", on_paths("fs.move", &["secret/**"])),
            ],
            &two,
            Verdict::Deny,
        ),
        (
            "allow both",
            vec![allow("a", on_paths("fs.move", &["src/**", "secret/**"]))],
            &two,
            Verdict::Allow,
        ),
        (
            "deny one of two",
            vec![
                allow("a", on("fs.move")),
                deny("d", on_paths("fs.move", &["secret/**"])),
            ],
            &two,
            Verdict::Deny,
        ),
        (
            "review one of two",
            vec![
                allow("a", on("fs.move")),
                review("r", on_paths("fs.move", &["secret/**"])),
            ],
            &two,
            Verdict::RequireReview,
        ),
        (
            "no path at all",
            vec![allow("a", on_paths("fs.move", &["**"]))],
            &[],
            Verdict::Deny,
        ),
        (
            "outside",
            vec![allow("a", on_paths("fs.move", &["**"]))],
            &["src/a", "/etc/passwd"],
            Verdict::Deny,
        ),
        (
            "a denial sees outside paths",
            vec![
                allow("a", on("fs.move")),
                deny("d", on_paths("fs.move", &["*.pem"])),
            ],
            &["src/a", "/home/x/key.pem"],
            Verdict::Deny,
        ),
    ] {
        assert_eq!(verdict(&rules, &request("fs.move", paths)), want, "{case}");
    }
}

#[test]
fn an_exception_must_cover_all_where_it_widens_and_any_where_it_narrows() {
    let except = |mut rule: Rule, globs: &[&str]| {
        rule.except = vec![Conditions {
            path_glob: words(globs),
            ..Conditions::default()
        }];
        rule
    };
    let base = allow("base", on("fs.move"));
    let reviewed = except(review("r", on("fs.move")), &["docs/**"]);
    let rules = [base, reviewed];
    let docs = request("fs.move", &["docs/a", "docs/b"]);
    let mixed = request("fs.move", &["docs/a", "src/b"]);
    assert_eq!(verdict(&rules, &docs), Verdict::Allow);
    assert_eq!(verdict(&rules, &mixed), Verdict::RequireReview);
    let allowed = [except(allow("a", on("fs.move")), &["docs/**"])];
    assert_eq!(verdict(&allowed, &mixed), Verdict::Deny);
    assert_eq!(
        verdict(&allowed, &request("fs.move", &["src/a"])),
        Verdict::Allow
    );
}

#[test]
fn an_exception_to_a_denial_is_ignored() {
    let mut denial = deny("d", on("fs.read"));
    denial.except = vec![on("fs.read")];
    let rules = [allow("a", on("fs.read")), denial];
    assert_eq!(verdict(&rules, &request("fs.read", &["a"])), Verdict::Deny);
}

#[test]
fn effects_are_covered_by_an_allow_and_touched_by_a_denial() {
    let on_effect = |effects: &[Effect]| Conditions {
        effect: Some(EffectSet::of(effects)),
        ..Conditions::default()
    };
    let moving = request("fs.move", &["a"]);
    for (rules, want) in [
        (vec![allow("a", on_effect(&[Effect::Write]))], Verdict::Deny),
        (
            vec![allow("a", on_effect(&[Effect::Write, Effect::Delete]))],
            Verdict::Allow,
        ),
        (
            vec![allow("a", on("*")), deny("d", on_effect(&[Effect::Delete]))],
            Verdict::Deny,
        ),
        (
            vec![
                allow("a", on("*")),
                deny("d", on_effect(&[Effect::Network])),
            ],
            Verdict::Allow,
        ),
    ] {
        assert_eq!(verdict(&rules, &moving), want, "{rules:?}");
    }
}

type Row = (fn(&mut Conditions), fn(&mut Request), bool);

/// Each row: one condition, what the request carries, whether they fit.
fn holds(table: &[Row]) {
    for (condition, change, want) in table {
        let (mut when, mut request) = (Conditions::default(), request("fs.read", &["a"]));
        condition(&mut when);
        change(&mut request);
        for rule in [allow("x", when.clone()), deny("x", when.clone())] {
            let compiled = CompiledRule::compile(&rule).unwrap();
            assert_eq!(compiled.triggers(Asked::new(&request)), *want, "{when:?}");
        }
    }
}

#[test]
fn what_a_request_reaches_or_runs_is_matched_only_if_it_carries_it() {
    holds(&[
        (
            |c| c.host = words(&["X.org"]),
            |r| r.host = Some("x.ORG.".into()),
            true,
        ),
        (
            |c| c.host = words(&["x.org"]),
            |r| r.host = Some("y.x.org".into()),
            false,
        ),
        (
            |c| c.host = words(&["*.x.org"]),
            |r| r.host = Some("a.Y.x.org".into()),
            true,
        ),
        (
            |c| c.host = words(&["*.x.org"]),
            |r| r.host = Some("x.org".into()),
            false,
        ),
        (
            |c| c.host = words(&["*.x.org"]),
            |r| r.host = Some("evilx.org".into()),
            false,
        ),
        (|c| c.host = words(&["x.org"]), |_| (), false),
        (|c| c.host = words(&["*"]), |_| (), false),
        (|c| c.port = Some(vec![443]), |r| r.port = Some(443), true),
        (|c| c.port = Some(vec![443]), |_| (), false),
        (
            |c| c.command = words(&["cargo"]),
            |r| r.command = vec!["/usr/bin/cargo".into()],
            true,
        ),
        (
            |c| c.command = words(&["cargo"]),
            |r| r.command = vec!["cargo-x".into()],
            false,
        ),
        (
            |c| c.command = words(&["x"]),
            |r| r.command = vec!["cargo".into(), "x".into()],
            false,
        ),
        (|c| c.command = words(&["cargo"]), |_| (), false),
        (
            |c| c.tool = words(&["p.t"]),
            |r| r.tool = Some("p.t".into()),
            true,
        ),
        (|c| c.tool = words(&["p.t"]), |_| (), false),
        (
            |c| c.template = words(&["t"]),
            |r| r.template = Some("t".into()),
            true,
        ),
        (|c| c.template = words(&["t"]), |_| (), false),
        (|c| c.path_glob = words(&[]), |_| (), false),
    ]);
}

#[test]
fn who_asks_and_what_is_asked_match_exactly() {
    holds(&[
        (|c| c.plugin = words(&["agent"]), |_| (), true),
        (|c| c.plugin = words(&[]), |_| (), false),
        (
            |c| c.caller_tag = words(&["a", "b"]),
            |r| r.caller.tags = tags(&["b"]),
            true,
        ),
        (|c| c.caller_tag = words(&["a"]), |_| (), false),
        (|c| c.mode = Some(vec![Mode::Strict]), |_| (), true),
        (
            |c| c.mode = Some(vec![Mode::Strict]),
            |r| r.caller.mode = None,
            false,
        ),
        (
            |c| c.state = Some(vec![Phase::Idle]),
            |r| r.caller.phase = Some(Phase::Idle),
            true,
        ),
        (|c| c.state = Some(vec![Phase::Idle]), |_| (), false),
        (|c| c.tier = Some(vec![Tier::Process]), |_| (), true),
        (
            |c| c.tier = Some(vec![Tier::Process]),
            |r| r.tier = Tier::Wasm,
            false,
        ),
        (|c| c.user = words(&["ann"]), |_| (), true),
        (|c| c.user = words(&["Ann"]), |_| (), false),
        (|c| c.workspace = words(&["w1"]), |_| (), true),
        (|c| c.workspace = words(&["w2"]), |_| (), false),
        (|c| c.syscall = words(&["fs.*"]), |_| (), true),
        (|c| c.syscall = words(&["*"]), |_| (), true),
        (|c| c.syscall = words(&["git.*", "fs.list"]), |_| (), false),
        (|c| c.syscall = words(&[]), |_| (), false),
    ]);
}

#[test]
fn argument_conditions_must_all_hold() {
    let when = Conditions {
        arg: Some(vec![
            ArgCondition {
                path: "force".into(),
                test: ArgTest::Equals(json!(true)),
            },
            ArgCondition {
                path: "branch".into(),
                test: ArgTest::Matches("release/.*".into()),
            },
        ]),
        ..on("git.commit")
    };
    let rules = [allow("base", on("git.commit")), deny("d", when)];
    for (arguments, want) in [
        (
            json!({ "force": true, "branch": "release/1" }),
            Verdict::Deny,
        ),
        (
            json!({ "force": true, "branch": "release/1\n" }),
            Verdict::Deny,
        ),
        (json!({ "force": true, "branch": "main" }), Verdict::Allow),
        (json!({ "branch": "release/1" }), Verdict::Allow),
        (json!(null), Verdict::Allow),
    ] {
        let mut request = request("git.commit", &[]);
        request.arguments = arguments;
        assert_eq!(verdict(&rules, &request), want, "{}", request.arguments);
    }
}

#[test]
fn a_line_break_in_an_argument_never_widens() {
    let when = || Conditions {
        arg: Some(vec![ArgCondition {
            path: "branch".into(),
            test: ArgTest::Matches("release/.*".into()),
        }]),
        ..on("git.commit")
    };
    let base = || allow("base", on("git.commit"));
    let except = |rule: Rule| Rule {
        except: vec![when()],
        ..rule
    };
    for (case, rules, plain, broken) in [
        (
            "allow",
            vec![allow("a", when())],
            Verdict::Allow,
            Verdict::Deny,
        ),
        (
            "an exception to an allow",
            vec![except(base())],
            Verdict::Deny,
            Verdict::Deny,
        ),
        (
            "deny",
            vec![base(), deny("d", when())],
            Verdict::Deny,
            Verdict::Deny,
        ),
        (
            "review",
            vec![base(), review("r", when())],
            Verdict::RequireReview,
            Verdict::RequireReview,
        ),
        (
            "an exception to a review",
            vec![base(), except(review("r", on("git.commit")))],
            Verdict::Allow,
            Verdict::RequireReview,
        ),
    ] {
        for (branch, want) in [("release/1", plain), ("release/1\n", broken)] {
            let mut request = request("git.commit", &[]);
            request.arguments = json!({ "branch": branch });
            assert_eq!(verdict(&rules, &request), want, "{case} {branch:?}");
        }
    }
}

#[test]
fn an_unmet_constraint_denies_and_says_what_was_found() {
    let with = |constraints| Rule {
        constraints,
        ..allow("a", on("fs.write"))
    };
    let sandbox = |tier| Constraints {
        require_sandbox: Some(tier),
        ..Constraints::default()
    };
    let size = Constraints {
        max_file_size: Some(ByteSize::from_bytes(1_024)),
        ..Constraints::default()
    };
    let token = Constraints {
        require_capability_token: true,
        ..Constraints::default()
    };
    let write = |tier, file_size| {
        let mut request = request("fs.write", &["a"]);
        (request.tier, request.file_size) = (tier, file_size);
        request
    };
    for (constraints, request, reason) in [
        (
            sandbox(Tier::Container),
            write(Tier::Process, None),
            Some("`process`"),
        ),
        (
            sandbox(Tier::Process),
            write(Tier::Kernel, None),
            Some("require_sandbox: process"),
        ),
        (sandbox(Tier::Process), write(Tier::Wasm, None), None),
        (size, write(Tier::Process, Some(1_024)), None),
        (size, write(Tier::Process, Some(1_025)), Some("1025 bytes")),
        (size, write(Tier::Process, None), Some("not known")),
        (
            token,
            write(Tier::Process, None),
            Some("require_capability_token"),
        ),
    ] {
        let decision = bare(&[with(constraints)]).decide(&request, None, NOW);
        match reason {
            None => assert_eq!(decision.verdict, Verdict::Allow),
            Some(part) => {
                let denial = decision.deciding().next().unwrap();
                assert_eq!(&*denial.rule, "a");
                assert!(denial.reason.contains(part), "{}", denial.reason);
            }
        }
    }
    let read = request("fs.read", &["a"]);
    let rule = Rule {
        constraints: size,
        ..allow("a", on("fs.read"))
    };
    assert_eq!(
        verdict(&[rule], &read),
        Verdict::Allow,
        "no write, no file size"
    );
}

#[test]
fn the_strictest_limit_of_all_matching_allows_is_imposed() {
    let limits = |seconds, bytes: Option<u64>| Constraints {
        max_duration: Some(Span::from_secs(seconds)),
        max_output: bytes.map(ByteSize::from_bytes),
        ..Constraints::default()
    };
    let with = |name, when, constraints| Rule {
        constraints,
        ..allow(name, when)
    };
    let rules = [
        with("a", on("exec.run"), limits(60, None)),
        with("b", on("exec.run"), limits(30, Some(10))),
        with("c", tagged("nobody"), limits(1, Some(1))),
    ];
    let imposed = bare(&rules)
        .decide(&request("exec.run", &[]), None, NOW)
        .imposed;
    assert_eq!(imposed.max_duration, Some(Span::from_secs(30)));
    assert_eq!(imposed.max_output, Some(ByteSize::from_bytes(10)));
    assert_eq!(imposed.max_memory, None);
}

#[test]
fn a_wrong_example_refuses_the_policy_at_its_place() {
    let place = crate::document::Place { line: 7, column: 3 };
    let with = |should_match, path: &str| {
        let fields = ExampleFields {
            syscall: "fs.write".into(),
            path: vec![path.into()],
            ..ExampleFields::default()
        };
        let mut rule = allow("a", on_paths("fs.write", &["src/**"]));
        rule.examples = vec![Example {
            place,
            should_match,
            fields,
        }];
        support::compile(&[rule], "x")
    };
    assert!(with(true, "src/a").is_ok());
    assert!(with(false, "docs/a").is_ok());
    for (should_match, path, part) in [
        (true, "docs/a", "`path_glob` differs"),
        (false, "src/a", "matches this example"),
        (true, "src/\0", "not a request"),
    ] {
        let problems = with(should_match, path).unwrap_err();
        assert_eq!(problems[0].place, place);
        assert!(problems[0].what.contains(part), "{}", problems[0].what);
    }
}

#[test]
fn conditions_that_cannot_work_refuse_the_policy() {
    let arg = |pattern: &str| Conditions {
        arg: Some(vec![ArgCondition {
            path: "a".into(),
            test: ArgTest::Matches(pattern.into()),
        }]),
        ..Conditions::default()
    };
    for when in [
        arg("("),
        on_paths("fs.read", &["!src/**"]),
        on_paths("fs.read", &["{a,b}"]),
    ] {
        for rule in [allow("a", when.clone()), deny("a", when.clone())] {
            assert!(support::compile(&[rule], "x").is_err());
        }
    }
}

#[test]
fn a_rule_a_denial_always_overrules_is_reported() {
    let shadowed = |rules: &[Rule]| -> Vec<String> {
        let loaded = support::compile(rules, "x").unwrap();
        loaded.warnings.into_iter().map(|one| one.what).collect()
    };
    let narrow = || allow("a", on_paths("fs.write", &["secret/a/*.rs"]));
    for (deny_when, want) in [
        (on("fs.*"), true),
        (on_paths("fs.write", &["secret/**"]), true),
        (on_paths("fs.write", &["**"]), true),
        (on_paths("fs.*", &["secret/**", "!secret/a/**"]), false),
        (on_paths("fs.read", &["secret/**"]), false),
        (on_paths("fs.write", &["secret/b/**"]), false),
        (tagged("t"), false),
    ] {
        let rules = [narrow(), deny("d", deny_when.clone())];
        assert_eq!(!shadowed(&rules).is_empty(), want, "{deny_when:?}");
    }
}

#[test]
fn equal_text_is_an_equal_generation_and_the_tag_sets_it_apart() {
    assert_eq!(generation(b"a"), generation(b"a"));
    assert_ne!(generation(b"a"), generation(b"b"));
    assert_ne!(generation(b"a").digest(), &Digest::of(b"a"));
}

#[test]
fn a_file_that_fails_to_compile_does_not_load_and_lists_every_problem_in_order() {
    let text = "version: 1
rules:
  - name: a
    match: { syscall: fs.read, path_glob: 'src/**' }
    action: allow
    examples:
      match: [{ syscall: fs.read, path: docs/a }]
  - name: b
    match: { syscall: fs.read, nonsense: 1 }
    action: allow
  - name: c
    match: { syscall: fs.list, path_glob: '!src/**' }
    action: deny
";
    let error = Policy::load("policy.yaml", text.as_bytes()).unwrap_err();
    let found: Vec<_> = error
        .diagnostics
        .iter()
        .filter(|one| one.severity == Severity::Error)
        .map(|one| (one.code, one.place.line))
        .collect();
    let want = [
        ("policy/example", 7),
        ("policy/unknown-field", 9),
        ("policy/condition", 11),
    ];
    assert_eq!(found, want);
    assert_eq!(error.name, "policy.yaml");
}

//! Every suggestion, made mechanically, leads to the verdict it promises.

use crate::apply::apply;
use crate::support::{NOW, ROOT, any_request, any_rules, generation, policy, request};
use crate::{FILE, engine, explained};
use airlock_core::{Request, RequestPath};
use airlock_policy::capability::CapabilitySet;
use airlock_policy::{
    BuiltIns, Contribution, Decision, Engine, Explanation, ExtensionHost, Imposed, Layer, Opinion,
    Policy, Protected, Remedy, Rule, Verdict,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::fmt::Write as _;

fn guarded(policy: Policy) -> Engine {
    let built_ins = BuiltIns::standard(Protected::default());
    Engine::new(policy, built_ins, ExtensionHost::default())
}

/// The decision on `request` once every fix is made.
fn afterwards(engine: &Engine, request: &Request, explanation: &Explanation) -> Decision {
    let mut document = engine.policy().document().clone();
    for fix in explanation.remedies() {
        apply(&mut document, fix);
    }
    let changed = Policy::compile(document, generation("changed")).unwrap();
    guarded(changed.policy).decide(request, None, NOW)
}

fn check(rules: &[Rule], request: &Request) -> Option<&'static str> {
    let engine = guarded(policy(rules));
    let (decision, explanation) = explained(&engine, request);
    assert_eq!(explanation.verdict(), decision.verdict);
    assert!(
        explanation.reasons().next().is_some(),
        "every verdict has its reason"
    );
    if decision.verdict == Verdict::Allow {
        assert!(explanation.remedies().is_empty());
        return Some("allowed");
    }
    assert!(
        !explanation.remedies().is_empty(),
        "{}",
        crate::shown(&explanation)
    );
    let Some(then) = explanation.then() else {
        let promises_nothing =
            |remedy: &Remedy| matches!(remedy, Remedy::Otherwise | Remedy::Answer);
        let mut fixes = explanation.remedies().iter();
        assert!(
            fixes.any(|fix| promises_nothing(&fix.remedy)),
            "{}",
            crate::shown(&explanation)
        );
        return None;
    };
    let after = afterwards(&engine, request, &explanation);
    assert_eq!(
        after.verdict,
        then,
        "{}\n{after:?}",
        crate::shown(&explanation)
    );
    assert_ne!(then, Verdict::Deny);
    let all: String = explanation.fixes().collect();
    assert_eq!(
        then == Verdict::RequireReview,
        all.contains("still asks for"),
        "{all}"
    );
    explanation
        .remedies()
        .iter()
        .map(|fix| kind(&fix.remedy))
        .next_back()
}

fn kind(remedy: &Remedy) -> &'static str {
    match remedy {
        Remedy::AddValues { .. } => "add values",
        Remedy::RemoveValues { .. } => "remove values",
        Remedy::AddRule { .. } => "add rule",
        Remedy::NarrowRule { .. } => "narrow rule",
        Remedy::SetConstraint { .. } => "set constraint",
        Remedy::GrantCapability { .. } | Remedy::Answer | Remedy::Otherwise => "otherwise",
    }
}

fn seeded() -> ProptestConfig {
    ProptestConfig {
        cases: 2_000,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(seeded())]

    #[test]
    fn every_suggestion_leads_to_the_verdict_it_promises(
        rules in any_rules(8),
        request in any_request(),
    ) {
        check(&rules, &request);
    }

    #[test]
    fn whatever_a_path_holds_the_suggested_rule_is_one_rule_and_allows_it(
        text in "[ -~\u{1b}\n\t\u{202e}\u{feff}\u{e9}\u{4e2d}]{1,24}",
    ) {
        let Ok(path) = RequestPath::parse(&text, crate::support::ROOT) else { return Ok(()) };
        let mut asked = request("fs.read", &[]);
        let inside = path.inside().is_some();
        asked.paths = vec![path];
        let kind = check(&[], &asked);
        prop_assert_eq!(kind, inside.then_some("add rule"));
    }
}

#[test]
fn random_policies_meet_every_kind_of_fix() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::new(seeded());
    let mut met = std::collections::BTreeSet::new();
    let inputs = (any_rules(8), any_request());
    for _ in 0..1_500 {
        let (rules, request) = inputs.new_tree(&mut runner).unwrap().current();
        met.extend(check(&rules, &request));
    }
    let met: Vec<_> = met.into_iter().collect();
    let want = [
        "add rule",
        "add values",
        "allowed",
        "narrow rule",
        "remove values",
        "set constraint",
    ];
    assert_eq!(
        met, want,
        "otherwise the property above shows nothing about the missing ones"
    );
}

const POLICY: &str = r#"version: 1
rules:
  - name: write-source
    match: { syscall: fs.write, path_glob: ["src/**", "tests/**"] }
    action: allow
    constraints: { max_file_size: 100KiB }
  - name: sensitive-files
    match: { syscall: fs.write, path_glob: [Cargo.toml, ".github/**"] }
    action: require_review
  - name: fetch
    match: { syscall: net.connect, host: [crates.io], port: [443] }
    action: allow
"#;

/// Pastes and types what the texts say into the file itself, the way a person would.
#[test]
fn a_person_who_does_what_the_text_says_gets_what_it_says() {
    let sized = |mut request: Request| {
        request.file_size = Some(10);
        request
    };
    let host = |name: &str, port: u16| {
        let mut request = request("net.connect", &[]);
        request.host = Some(name.into());
        request.port = Some(port);
        request
    };
    for request in [
        sized(request("fs.write", &["docs/x.md"])),
        sized(request(
            "fs.write",
            &["docs/x.md", "Makefile", "src/lib.rs"],
        )),
        sized(request("fs.write", &["a b/[c]*.md "])),
        request("fs.delete", &["src/a.rs"]),
        request("fs.list", &["."]),
        request("fs.patch", &["a", "b", "c", "d", "e", "f", "g", "h", "i"]),
        host("docs.rs", 443),
        host("crates.io", 80),
        host("DOCS.RS.", 8443),
        request("plan.complete", &[]),
    ] {
        let before = engine(POLICY);
        let (_, explanation) = explained(&before, &request);
        let [fix] = explanation.remedies() else {
            panic!("{}", crate::shown(&explanation));
        };
        let text = match &fix.remedy {
            Remedy::AddRule { yaml } => {
                let (_, rest) = fix.text.split_once('\n').unwrap();
                let (pasted, then) = rest.rsplit_once('\n').unwrap();
                assert_eq!(pasted.trim_end(), yaml.trim_end());
                assert_eq!(then, "then: airlock policy update FILE");
                format!("{POLICY}{pasted}\n")
            }
            Remedy::AddValues { field, values, .. } => {
                assert!(
                    fix.text.contains(&format!("to `{field}` of rule")),
                    "{}",
                    fix.text
                );
                let mut text = POLICY.to_owned();
                let place = explanation.nearest().unwrap().mismatches[0].place.unwrap();
                for value in values {
                    let said = [format!("`{value}`"), format!("`{value:?}`")];
                    let is_said = said.iter().any(|said| fix.text.contains(said));
                    assert!(is_said, "{}", fix.text);
                    text = typed(&text, place.line, place.column, field, value);
                }
                text
            }
            Remedy::RemoveValues { .. }
            | Remedy::NarrowRule { .. }
            | Remedy::SetConstraint { .. }
            | Remedy::GrantCapability { .. }
            | Remedy::Answer
            | Remedy::Otherwise => panic!("{}", crate::shown(&explanation)),
        };
        let loaded =
            Policy::load(FILE, text.as_bytes()).unwrap_or_else(|why| panic!("{why}\n{text}"));
        let after = guarded(loaded.policy).decide(&request, None, NOW);
        assert_eq!(Some(after.verdict), explanation.then(), "{text}");
        assert_eq!(after.verdict, Verdict::Allow);
    }
}

/// Types `value` as the first of the list that begins at that place.
fn typed(text: &str, line: u32, column: u32, field: &str, value: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let line = &mut lines[line as usize - 1];
    let list = column as usize - 1 + field.len() + ": [".len();
    let before = line.get(..list).unwrap();
    assert!(before.ends_with(&format!("{field}: [")), "{line}");
    let value = if field == "port" {
        value.to_owned()
    } else {
        format!("{value:?}")
    };
    line.insert_str(list, &format!("{value}, "));
    lines.join("\n") + "\n"
}

/// A glob that excludes begins like a tag of YAML.
#[test]
fn a_denial_is_narrowed_by_what_the_text_says_letter_by_letter() {
    let policy = |globs: &str| {
        format!(
            "version: 1\nrules:\n  - name: all\n    match: {{ effect: read, path_glob: \"**\" }}\n    action: allow\n  - name: none\n    match: {{ path_glob: [{globs}] }}\n    action: deny\n"
        )
    };
    for path in ["src/a", "a", "a b/c", "src/#x", "src/[c]*"] {
        let asked = request("fs.read", &[path]);
        let (_, explanation) = explained(&engine(&policy("\"**\"")), &asked);
        let [fix] = explanation.remedies() else {
            panic!("{}", crate::shown(&explanation));
        };
        let (_, rest) = fix.text.split_once(": add `").unwrap();
        let (value, _) = rest.split_once("` to its `path_glob`").unwrap();
        let text = policy(&format!("\"**\", {value}"));
        let loaded =
            Policy::load(FILE, text.as_bytes()).unwrap_or_else(|why| panic!("{why}\n{text}"));
        let after = guarded(loaded.policy).decide(&asked, None, NOW);
        assert_eq!(after.verdict, Verdict::Allow, "{text}");
    }
}

#[test]
fn a_name_that_is_taken_is_not_suggested_again() {
    let mut text = POLICY.to_owned();
    let request = request("fs.delete", &["a"]);
    // Given to others, the rules do not come near.
    for plugin in ["cli", "mcp"] {
        let (_, explanation) = explained(&engine(&text), &request);
        let Remedy::AddRule { yaml } = &explanation.remedies()[0].remedy else {
            panic!("{}", crate::shown(&explanation));
        };
        text.push_str(&yaml.replace("agent", plugin));
    }
    assert!(text.contains("- name: allow-fs-delete\n"));
    assert!(text.contains("- name: allow-fs-delete-2\n"), "{text}");
    assert_eq!(engine(&text).policy().rule_count(), 5);
}

/// An edit that contradicts the rule's own examples would not load.
#[test]
fn a_rule_whose_examples_forbid_the_edit_is_not_edited() {
    let rules = |action: &str, glob: &str, examples: &str| {
        format!(
            "version: 1\nrules:\n  - name: r\n    match: {{ syscall: fs.write, path_glob: [{glob}] }}\n    action: {action}\n    examples: {{ {examples} }}\n"
        )
    };
    let example = |list: &str| format!("{list}: [{{ syscall: fs.write, path: docs/x.md }}]");
    for (text, want) in [
        (rules("allow", "src/**", ""), vec!["add values"]),
        (
            rules("allow", "src/**", &example("not_match")),
            vec!["add rule"],
        ),
        (rules("deny", "docs/**", ""), vec!["add values", "add rule"]),
        (
            rules("deny", "docs/**", &example("match")),
            vec!["narrow rule", "add rule"],
        ),
    ] {
        let (_, explanation) = explained(&engine(&text), &request("fs.write", &["docs/x.md"]));
        let fixes = explanation.remedies().iter();
        let kinds: Vec<_> = fixes.map(|fix| kind(&fix.remedy)).collect();
        assert_eq!(kinds, want, "{text}");
    }
}

#[test]
fn a_policy_that_changed_meanwhile_is_not_explained_by_another() {
    let engine = engine(POLICY);
    let request = request("fs.write", &["docs/x.md"]);
    let decision = engine.decide(&request, None, NOW);
    engine.reload(Policy::empty());
    let explanation = engine.explain(&request, &decision);
    assert_eq!(explanation.then(), None);
    let fixes: Vec<_> = explanation.fixes().collect();
    assert_eq!(
        fixes,
        ["ask again: the policy changed since this was decided"]
    );
}

/// The bound is for an unoptimised build on a busy machine; an optimised one needs a fraction.
#[test]
fn ten_thousand_rules_are_explained_quickly() {
    let mut text = "version: 1\nrules:\n".to_owned();
    for number in 0..10_000 {
        writeln!(
            text,
            "  - {{ name: r{number}, match: {{ syscall: fs.write, path_glob: [\"d{number}/**\"], mode: debug }}, action: allow }}"
        )
        .unwrap();
    }
    let engine = engine(&text);
    let names: Vec<String> = (0..20_000).map(|number| format!("a/b{number}")).collect();
    let many: Vec<&str> = names.iter().map(String::as_str).collect();
    for request in [
        request("fs.write", &["docs/x.md"]),
        request("fs.read", &["docs/x.md"]),
        request("fs.write", &many),
    ] {
        let decision = engine.decide(&request, None, NOW);
        let begun = std::time::Instant::now();
        let explanation = engine.explain(&request, &decision);
        let taken = begun.elapsed();
        assert_eq!(explanation.then(), Some(Verdict::Allow));
        assert_eq!(&*explanation.nearest().unwrap().rule, "r0");
        assert!(taken.as_millis() < 1_000, "{taken:?}");
    }
}

/// What is offered where `gate` lacks what `request` needs, in the kernel's words of `need`.
fn offered(request: &Request, gate: &str, need: &str) -> (Option<String>, String) {
    let engine = engine(POLICY);
    let denial = Contribution {
        layer: Layer::Capability,
        rule: gate.into(),
        opinion: Opinion::Deny,
        reason: format!("capability `{need}` is not granted: {gate}").into(),
    };
    let decision = Decision {
        verdict: Verdict::Deny,
        contributions: vec![denial].into(),
        imposed: Imposed::default(),
        generation: engine.generation(),
    };
    let explanation = engine.explain(request, &decision);
    let [fix] = explanation.remedies() else {
        panic!("{}", crate::shown(&explanation));
    };
    let Remedy::GrantCapability { capability, .. } = &fix.remedy else {
        panic!("{}", crate::shown(&explanation));
    };
    (capability.clone(), fix.text.clone())
}

/// A name is a pattern as soon as it is written down: nobody may choose one that grants more.
#[test]
fn a_capability_is_offered_only_where_it_names_what_was_asked_and_nothing_else() {
    for (path, has_one) in [
        ("src/a.rs", true),
        ("a b/c {d}?", true),
        (".", true),
        ("/etc/hosts", true),
        ("*", false),
        ("**", false),
        ("src/*", false),
        ("src/**/x", false),
        ("a*b", false),
        ("x`y", false),
        ("`x", false),
        ("x` is not granted: `filesystem.read./", false),
        ("/etc/*", false),
    ] {
        let asked = request("fs.read", &[path]);
        let need = asked.needs(ROOT).remove(0);
        for gate in ["workspace", "user"] {
            let (capability, text) = offered(&asked, gate, &need);
            let want = has_one.then(|| need.clone());
            assert_eq!(capability, want, "{gate} {path}");
            assert_eq!(
                text.contains(&format!("add `{need}` to")),
                has_one && gate == "workspace",
                "{text}"
            );
            assert_eq!(text.contains("by hand"), !has_one, "{gate} {path}: {text}");
            if let Some(capability) = capability {
                let set = CapabilitySet::parse([&capability]).unwrap();
                assert!(
                    set.contains(&need) && !set.contains(&format!("{need}x")),
                    "{path}"
                );
            }
        }
    }
}

#[test]
fn names_of_secrets_and_tools_are_no_wildcards_either() {
    let mut secret = request("secret.use", &[]);
    let mut tool = request("tool.call", &[]);
    for (name, has_one) in [
        ("API_KEY", true),
        ("*", false),
        ("a*", false),
        ("x`y", false),
    ] {
        secret.secret = Some(name.into());
        tool.tool = Some(name.into());
        for asked in [&secret, &tool] {
            let need = asked.needs(ROOT).remove(0);
            let (capability, text) = offered(asked, "workspace", &need);
            assert_eq!(capability, has_one.then_some(need), "{name}: {text}");
        }
    }
    // What a command is granted besides is a path of the person's, a directory with all in it.
    let mut run = request("exec.run", &[]);
    run.command = vec!["make".into()];
    for (need, has_one) in [
        ("filesystem.read./srv/a", true),
        ("filesystem.write./srv/*", true),
        ("filesystem.write./srv/*/*", false),
        ("filesystem.write./s*v/a", false),
        ("exec.run.sandboxed", true),
    ] {
        let (capability, text) = offered(&run, "workspace", need);
        assert_eq!(capability.as_deref(), has_one.then_some(need), "{text}");
    }
}

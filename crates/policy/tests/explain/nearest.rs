//! For every field of `match`: the nearest rule is found and the field that failed is named.

use crate::support::{request, tags};
use crate::{engine, explained};
use airlock_core::{Effect, EffectSet, Mode, Phase, Request, Tier};
use airlock_policy::Verdict;
use std::fmt::Write as _;

fn full() -> Request {
    let mut request = request("tool.call", &["src/a.rs"]);
    request.effects = EffectSet::of(&[Effect::Execute, Effect::Read]);
    request.host = Some("x.org".into());
    request.port = Some(443);
    request.command = vec!["/usr/bin/cargo".into(), "test".into()];
    request.tool = Some("p.t".into());
    request.template = Some("code-executor".into());
    request.arguments = serde_json::json!({ "depth": 3, "password": "hunter2" });
    request.caller.tags = tags(&["trusted"]);
    request.caller.mode = Some(Mode::Strict);
    request.caller.phase = Some(Phase::Planning);
    request.tier = Tier::Process;
    request
}

/// Each field as the request meets it, and as it does not.
const FIELDS: &[(&str, &str, &str)] = &[
    ("syscall", "tool.call", "[fs.read, \"git.*\"]"),
    ("effect", "[execute, read]", "execute"),
    ("mode", "strict", "[explore, debug]"),
    ("state", "planning", "test_writing"),
    ("tier", "process", "container"),
    ("plugin", "agent", "[cli, mcp]"),
    ("tool", "p.t", "[p.u, q.t]"),
    ("template", "code-executor", "policy-sandbox"),
    ("user", "ann", "bob"),
    ("workspace", "w1", "w2"),
    ("caller_tag", "trusted", "[release_bot]"),
    ("host", "x.org", "[\"*.x.org\", y.org]"),
    ("port", "443", "[80, 8080]"),
    ("command", "cargo", "[make, npm]"),
    (
        "arg",
        "{ depth: 3 }",
        "{ depth: { one_of: [1, 2] }, name: { matches: \"a.*\" } }",
    ),
    ("path_glob", "src/**", "[\"docs/**\", \"!docs/secret\"]"),
];

fn policy(failing: &[&str]) -> String {
    let conditions: Vec<String> = FIELDS
        .iter()
        .map(|(field, good, bad)| {
            let value = if failing.contains(field) { bad } else { good };
            format!("      {field}: {value}\n")
        })
        .collect();
    let decoy =
        "  - name: decoy\n    match: { syscall: fs.write, mode: debug }\n    action: allow\n";
    let denial =
        "  - name: denial\n    match: { syscall: tool.call, mode: debug }\n    action: deny\n";
    let rule = format!(
        "  - name: wanted\n    match:\n{}    action: allow\n",
        conditions.concat()
    );
    format!("version: 1\nrules:\n{decoy}{denial}{rule}")
}

#[test]
fn each_field_that_fails_is_named_with_what_was_wanted_and_found() {
    let (decision, _) = explained(&engine(&policy(&[])), &full());
    assert_eq!(decision.verdict, Verdict::Allow, "all fields fit");
    let mut all = String::new();
    for (field, _, _) in FIELDS {
        let text = policy(&[field]);
        let (_, explanation) = explained(&engine(&text), &full());
        let nearest = explanation.nearest().unwrap();
        assert_eq!(&*nearest.rule, "wanted", "{field}");
        let [mismatch] = nearest.mismatches.as_slice() else {
            panic!("{field}: {nearest:?}");
        };
        assert_eq!(mismatch.field, *field);
        let place = mismatch.place.unwrap();
        let line = text.lines().nth(place.line as usize - 1).unwrap();
        assert!(
            line.get(place.column as usize - 1..)
                .unwrap()
                .starts_with(field),
            "{line}"
        );
        writeln!(all, "{}", explanation.reasons().last().unwrap()).unwrap();
    }
    assert!(!all.contains("hunter2"), "arguments are never shown");
    insta::assert_snapshot!(all);
}

#[test]
fn all_failing_fields_are_named_and_missing_ones_too() {
    let text = policy(&["mode", "port", "path_glob"]);
    let mut request = full();
    request.port = None;
    let (_, explanation) = explained(&engine(&text), &request);
    insta::assert_snapshot!(crate::shown(&explanation));
}

#[test]
fn fewest_failing_fields_come_first_then_the_order_of_the_file() {
    let rule = |name: &str, when: &str, action: &str| {
        format!("  - {{ name: {name}, match: {{ {when} }}, action: {action} }}\n")
    };
    let far = rule(
        "far",
        "syscall: fs.write, path_glob: a, mode: debug",
        "allow",
    );
    let near = rule("near", "syscall: fs.write, path_glob: b", "allow");
    let also = rule("also", "syscall: fs.write, path_glob: c", "allow");
    let other = rule("other", "syscall: fs.read, path_glob: \"**\"", "allow");
    let review = rule(
        "review",
        "syscall: fs.write, path_glob: d",
        "require_review",
    );
    for (rules, want) in [
        (vec![&far, &near, &also], "near"),
        (vec![&also, &far, &near], "also"),
        (vec![&other, &far], "far"),
        (vec![&other], "other"),
        (vec![&review, &far], "far"),
    ] {
        let rules: String = rules.into_iter().map(String::as_str).collect();
        let text = format!("version: 1\nrules:\n{rules}");
        let (_, explanation) = explained(&engine(&text), &request("fs.write", &["x"]));
        assert_eq!(&*explanation.nearest().unwrap().rule, want, "{text}");
    }
}

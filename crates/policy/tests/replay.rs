//! Replaying past requests: what counts as a difference, what is certain of it, and what is not guessed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use airlock_core::{Request, Syscall};
use airlock_policy::{
    Answer, BuiltIns, Change, Engine, Extension, ExtensionFailure, ExtensionHost, Opinion, Policy,
    Protected, Replay, Verdict, replay,
};
use support::{NOW, request};

fn engine(rules: &str) -> Engine {
    let text = format!("version: 1\nrules:\n{rules}");
    let policy = Policy::load("p.yaml", text.as_bytes()).unwrap().policy;
    let built_ins = BuiltIns::standard(Protected::default());
    Engine::new(policy, built_ins, ExtensionHost::default())
}

/// What the log holds of a request: everything but its arguments.
fn logged(request: &Request) -> Request {
    let text = serde_json::to_string(request).unwrap();
    let read: Request = serde_json::from_str(&text).unwrap();
    assert!(read.arguments.is_null());
    read
}

fn replayed(requests: &[Request], old: &Engine, new: &Engine) -> Replay {
    let numbered: Vec<(u64, Request)> = (1..).zip(requests.iter().map(logged)).collect();
    replay(&numbered, old, new, NOW)
}

const ALLOW: &str = "  - { name: r, match: { syscall: fs.read }, action: allow }\n";
const REVIEW: &str = "  - { name: r, match: { syscall: fs.read }, action: require_review }\n";
const DENY: &str = "  - { name: r, match: { syscall: fs.read }, action: deny }\n";

#[test]
fn each_pair_of_verdicts_is_one_kind_of_change() {
    for (old, new, want) in [
        (ALLOW, ALLOW, None),
        (ALLOW, DENY, Some(Change::Breaking)),
        (ALLOW, REVIEW, Some(Change::Other)),
        (REVIEW, ALLOW, Some(Change::Widening)),
        (REVIEW, REVIEW, None),
        (REVIEW, DENY, Some(Change::Other)),
        (DENY, ALLOW, Some(Change::Widening)),
        (DENY, REVIEW, Some(Change::Other)),
        (DENY, DENY, None),
    ] {
        let replay = replayed(&[request("fs.read", &["a"])], &engine(old), &engine(new));
        let kinds: Vec<Change> = replay.differences.iter().map(|one| one.change).collect();
        assert_eq!(kinds, want.into_iter().collect::<Vec<_>>(), "{old}{new}");
        assert_eq!((replay.replayed, replay.undecided), (1, 0));
        assert_eq!(
            replay.breaking(),
            usize::from(want == Some(Change::Breaking))
        );
        assert_eq!(
            replay.widening(),
            usize::from(want == Some(Change::Widening))
        );
    }
}

#[test]
fn only_differences_are_kept_with_their_number_and_both_decisions() {
    let old = engine("  - { name: all, match: { syscall: \"fs.*\" }, action: allow }\n");
    let new =
        engine("  - { name: reads, match: { syscall: [fs.read, net.connect] }, action: allow }\n");
    let mut connect = request("net.connect", &[]);
    connect.host = Some("x.org".into());
    let requests = [
        request("fs.read", &["a"]),
        request("fs.write", &["b"]),
        connect,
    ];
    let replay = replayed(&requests, &old, &new);
    assert_eq!(
        (replay.replayed, replay.breaking(), replay.widening()),
        (3, 1, 1)
    );
    let numbers: Vec<u64> = replay.differences.iter().map(|one| one.seq).collect();
    assert_eq!(numbers, [2, 3]);
    let first = &replay.differences[0];
    assert_eq!(
        (first.old.verdict, first.new.verdict),
        (Verdict::Allow, Verdict::Deny)
    );
    assert_eq!(first.old.generation, old.generation());
    assert_eq!(first.request, requests[1]);
    let json = serde_json::to_value(&replay).unwrap();
    assert_eq!(json["differences"][0]["change"], "breaking");
    assert_eq!(json["differences"][1]["new"]["verdict"], "allow");
    assert_eq!(json["undecided"], 0);
}

/// What each request comes to: the kinds of difference, with `?` where it only may be one.
fn marks(replay: &Replay) -> Vec<String> {
    let mark = |one: &airlock_policy::Difference| {
        let word = match one.change {
            Change::Breaking => "breaking",
            Change::Widening => "widening",
            Change::Other => "other",
        };
        format!("{word}{}", if one.certain { "" } else { "?" })
    };
    let mut marks: Vec<String> = replay.differences.iter().map(mark).collect();
    marks.sort();
    marks
}

/// The log holds no arguments: what a rule that asks for them makes of a request is possible, and
/// certain only where all of them make the same of it.
#[test]
fn what_hangs_on_arguments_is_possible_unless_it_comes_to_the_same() {
    let depth = "  - { name: d, match: { syscall: fs.read, arg: { depth: 3 } }, action: deny }\n";
    let other = "  - { name: d, match: { syscall: fs.write, arg: { depth: 3 } }, action: deny }\n";
    let held =
        "  - { name: h, match: { syscall: fs.read, arg: { x: 1 } }, action: require_review }\n";
    let given = "  - { name: g, match: { syscall: fs.read, arg: { x: 1 } }, action: allow }\n";
    let elsewhere =
        "  - { name: d, match: { syscall: fs.read, path_glob: b, arg: { x: 1 } }, action: deny }\n";
    let except = "  - { name: d, match: { syscall: fs.read }, action: allow, except: [{ arg: { x: 1 } }] }\n";
    let except_elsewhere = "  - { name: d, match: { syscall: fs.read }, action: allow, except: [{ plugin: cli, arg: { x: 1 } }] }\n";
    let always_excepted = "  - { name: d, match: { syscall: fs.read }, action: allow, except: [{ plugin: agent }, { arg: { x: 1 } }] }\n";
    let constrained = "  - { name: d, match: { syscall: fs.read }, action: allow, constraints: { require_sandbox: container }, except: [{ arg: { x: 1 } }] }\n";
    let cases: [(String, &[&str], &[&str]); 12] = [
        (format!("{ALLOW}{depth}"), &["breaking?"], &["widening?"]),
        (
            format!("{ALLOW}{held}"),
            &["other?"],
            &["other?", "widening?"],
        ),
        (format!("{DENY}{given}"), &["breaking"], &[]),
        (format!("{DENY}{depth}"), &["breaking"], &[]),
        (given.to_owned(), &["breaking?"], &["widening?"]),
        (except.to_owned(), &["breaking?"], &["widening?"]),
        (except_elsewhere.to_owned(), &[], &["widening"]),
        (always_excepted.to_owned(), &["breaking"], &[]),
        (constrained.to_owned(), &["breaking"], &[]),
        (format!("{ALLOW}{elsewhere}"), &[], &["widening"]),
        (format!("{ALLOW}{other}"), &[], &["widening"]),
        (depth.to_owned(), &["breaking"], &[]),
    ];
    for (rules, from_allow, from_deny) in cases {
        let asked = request("fs.read", &["a"]);
        for (old, want) in [(ALLOW, from_allow), (DENY, from_deny)] {
            let replay = replayed(std::slice::from_ref(&asked), &engine(old), &engine(&rules));
            assert_eq!(marks(&replay), want, "{old}{rules}");
            let may = want.iter().any(|mark| mark.ends_with('?'));
            assert_eq!(
                (replay.replayed, replay.undecided),
                (1, usize::from(may)),
                "{old}{rules}"
            );
        }
    }
}

/// One harmless looking rule on an argument must not take the preview away.
#[test]
fn a_rule_on_some_argument_hides_no_difference() {
    let decoy = |action: &str| {
        format!(
            "  - {{ name: tidy, match: {{ arg: {{ zzz: {{ equals: 1 }} }} }}, action: {action} }}\n"
        )
    };
    let requests: Vec<Request> = (0..7).map(|_| request("fs.read", &[".env"])).collect();
    let wider = format!("{ALLOW}{}", decoy("deny"));
    let replay = replayed(&requests, &engine(DENY), &engine(&wider));
    assert_eq!((replay.replayed, replay.widening()), (7, 0));
    assert_eq!((replay.possibly_widening(), replay.undecided), (7, 7));
    let replay = replayed(&requests, &engine(ALLOW), &engine(&decoy("allow")));
    assert_eq!((replay.breaking(), replay.possibly_breaking()), (0, 7));
    let replay = replayed(&requests, &engine(ALLOW), &engine(&decoy("deny")));
    assert_eq!((replay.breaking(), replay.possibly_breaking()), (7, 0));
    // What is shown of a possible difference is a decision that makes it one.
    let replay = replayed(&requests, &engine(ALLOW), &engine(&wider));
    assert_eq!(replay.certain(), 0);
    let first = &replay.differences[0];
    assert_eq!(
        (first.old.verdict, first.new.verdict),
        (Verdict::Allow, Verdict::Deny)
    );
    let deciding: Vec<&str> = first.new.deciding().map(|one| &*one.rule).collect();
    assert_eq!(deciding, ["tidy"]);
    let json = serde_json::to_value(&replay).unwrap();
    assert_eq!(json["differences"][0]["certain"], false);
}

/// The same condition has the same answer under both policies.
#[test]
fn a_condition_that_both_policies_have_makes_no_difference() {
    let depth = |name: &str, action: &str| {
        format!(
            "  - {{ name: {name}, match: {{ syscall: fs.read, arg: {{ depth: 3 }} }}, action: {action} }}\n"
        )
    };
    let deeper = "  - { name: d, match: { syscall: fs.read, arg: { depth: 4 } }, action: deny }\n";
    let unrelated = "  - { name: u, match: { syscall: fs.write }, action: allow }\n";
    let old = format!("{ALLOW}{}", depth("d", "deny"));
    let cases: [(String, &[&str]); 7] = [
        (old.clone(), &[]),
        (format!("{old}{unrelated}"), &[]),
        (format!("{}{ALLOW}", depth("renamed", "deny")), &[]),
        // Held instead of denied: nothing is ever allowed that was not.
        (
            format!("{ALLOW}{}", depth("d", "require_review")),
            &["other?"],
        ),
        (ALLOW.to_owned(), &["widening?"]),
        (format!("{ALLOW}{deeper}"), &["breaking?", "widening?"]),
        (DENY.to_owned(), &["breaking?"]),
    ];
    for (new, want) in cases {
        let asked = request("fs.read", &["a"]);
        let replay = replayed(&[asked], &engine(&old), &engine(&new));
        assert_eq!(marks(&replay), want, "{new}");
    }
}

#[test]
fn a_request_that_still_has_its_arguments_is_decided() {
    let depth = "  - { name: d, match: { syscall: fs.read, arg: { depth: 3 } }, action: deny }\n";
    let (old, new) = (engine(ALLOW), engine(&format!("{ALLOW}{depth}")));
    let mut asked = request("fs.read", &["a"]);
    asked.arguments = serde_json::json!({ "depth": 3 });
    let replay = replay(&[(9, asked)], &old, &new, NOW);
    assert_eq!((replay.undecided, replay.breaking()), (0, 1));
}

/// Whether a mode is harmless is read from the arguments too, by a built-in rule.
#[test]
fn switching_modes_hangs_on_arguments() {
    let allow = "  - { name: s, match: { syscall: \"session.*\" }, action: allow }\n";
    let deny = "  - { name: s, match: { syscall: \"session.*\" }, action: deny }\n";
    let requests: Vec<Request> = Syscall::all()
        .filter(|syscall| syscall.area() == "session")
        .map(|syscall| request(syscall.name(), &[]))
        .collect();
    let all = requests.len();
    let replay = replayed(&requests, &engine(allow), &engine(deny));
    assert_eq!((replay.undecided, replay.replayed), (all, all));
    assert_eq!((replay.possibly_breaking(), replay.certain()), (all, 0));
    for rules in [allow, deny] {
        let replay = replayed(&requests, &engine(rules), &engine(rules));
        assert_eq!((replay.undecided, replay.replayed), (0, all));
        assert!(replay.differences.is_empty());
    }
}

struct Curious;

impl Extension for Curious {
    fn name(&self) -> &'static str {
        "curious"
    }

    fn evaluate(&self, request: &Request) -> Result<Answer, ExtensionFailure> {
        let opinion = if request.arguments.is_null() {
            Opinion::Deny
        } else {
            Opinion::Pass
        };
        let reason = "it depends".into();
        Ok(Answer { opinion, reason })
    }

    fn restart(&self) -> Result<(), ExtensionFailure> {
        Ok(())
    }
}

#[test]
fn what_a_script_has_a_say_in_may_come_to_anything() {
    let scripted = |rules: &str| {
        let boxed: Box<dyn Extension> = Box::new(Curious);
        let text = format!("version: 1\nrules:\n{rules}");
        let policy = Policy::load("p.yaml", text.as_bytes()).unwrap().policy;
        Engine::new(policy, BuiltIns::none(), ExtensionHost::new([boxed]))
    };
    let asked = [request("fs.read", &["a"])];
    let replay = replayed(&asked, &engine(ALLOW), &scripted(ALLOW));
    assert_eq!(marks(&replay), ["breaking?", "other?"]);
    assert_eq!((replay.undecided, replay.replayed), (1, 1));
    let replay = replayed(&asked, &engine(DENY), &scripted(ALLOW));
    assert_eq!(marks(&replay), ["other?", "widening?"]);
    // The same script says the same, and a rule's denial is not up to it.
    let replay = replayed(&asked, &scripted(ALLOW), &scripted(ALLOW));
    assert!(replay.differences.is_empty());
    let replay = replayed(&asked, &engine(ALLOW), &scripted(DENY));
    assert_eq!(marks(&replay), ["breaking"]);
}

//! Replaying past requests: what counts as a difference, and what is not guessed.
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

/// The log holds no arguments, so a rule that asks for them cannot be judged on it.
#[test]
fn what_hangs_on_arguments_is_undecided_unless_a_denial_settles_it() {
    let depth = "  - { name: d, match: { syscall: fs.read, arg: { depth: 3 } }, action: deny }\n";
    let other = "  - { name: d, match: { syscall: fs.write, arg: { depth: 3 } }, action: deny }\n";
    let elsewhere =
        "  - { name: d, match: { syscall: fs.read, path_glob: b, arg: { x: 1 } }, action: deny }\n";
    let except = "  - { name: d, match: { syscall: fs.read }, action: allow, except: [{ arg: { x: 1 } }] }\n";
    let except_elsewhere = "  - { name: d, match: { syscall: fs.read }, action: allow, except: [{ plugin: cli, arg: { x: 1 } }] }\n";
    let constrained = "  - { name: d, match: { syscall: fs.read }, action: allow, constraints: { require_sandbox: container }, except: [{ arg: { x: 1 } }] }\n";
    let both = format!("{ALLOW}{depth}");
    let firm = format!("{DENY}{depth}");
    for (rules, undecided) in [
        (both.as_str(), 1),
        (firm.as_str(), 0),
        (except, 1),
        (except_elsewhere, 0),
        (constrained, 1),
        (elsewhere, 0),
        (other, 0),
        (depth, 1),
    ] {
        let asked = request("fs.read", &["a"]);
        let (plain, asking) = (engine(ALLOW), engine(rules));
        for (old, new) in [(&plain, &asking), (&asking, &plain)] {
            let replay = replayed(std::slice::from_ref(&asked), old, new);
            assert_eq!(
                (replay.undecided, replay.replayed),
                (undecided, 1 - undecided),
                "{rules}"
            );
            assert!(undecided == 0 || replay.differences.is_empty());
        }
    }
}

#[test]
fn a_request_that_still_has_its_arguments_is_decided() {
    let depth = "  - { name: d, match: { syscall: fs.read, arg: { depth: 3 } }, action: deny }\n";
    let (old, new) = (engine(ALLOW), engine(&format!("{ALLOW}{depth}")));
    let mut asked = request("fs.read", &["a"]);
    asked.arguments = serde_json::json!({ "depth": 3 });
    assert!(new.policy().asks_arguments(&asked));
    let replay = replay(&[(9, asked)], &old, &new, NOW);
    assert_eq!((replay.undecided, replay.breaking()), (0, 1));
}

/// Whether a mode is harmless is read from the arguments too, by a built-in rule.
#[test]
fn switching_modes_is_undecided_without_arguments() {
    let allow = "  - { name: s, match: { syscall: \"session.*\" }, action: allow }\n";
    let deny = "  - { name: s, match: { syscall: \"session.*\" }, action: deny }\n";
    let requests: Vec<Request> = Syscall::all()
        .filter(|syscall| syscall.area() == "session")
        .map(|syscall| request(syscall.name(), &[]))
        .collect();
    let replay = replayed(&requests, &engine(allow), &engine(deny));
    assert_eq!((replay.undecided, replay.replayed), (requests.len(), 0));
    let replay = replayed(&requests, &engine(deny), &engine(deny));
    assert_eq!((replay.undecided, replay.replayed), (0, requests.len()));
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
fn what_a_script_had_a_say_in_is_undecided() {
    let boxed: Box<dyn Extension> = Box::new(Curious);
    let text = format!("version: 1\nrules:\n{ALLOW}");
    let policy = Policy::load("p.yaml", text.as_bytes()).unwrap().policy;
    let scripted = Engine::new(policy, BuiltIns::none(), ExtensionHost::new([boxed]));
    let replay = replayed(&[request("fs.read", &["a"])], &engine(ALLOW), &scripted);
    assert_eq!((replay.undecided, replay.replayed), (1, 0));
}

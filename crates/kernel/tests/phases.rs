//! The rules on a session's state say what the table of states says, whatever a policy allows.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use airlock_core::{Caller, Phase, Request, Syscall, Tier, Timestamp, WorkspacePath};
use airlock_phases::{Writable, writable};
use airlock_policy::{BuiltIns, Engine, ExtensionHost, Policy, Protected, Verdict};

const ALLOWS_ALL: &str = "\
version: 1
rules:
  - name: everything
    match: { syscall: \"*\" }
    action: allow
";

fn caller(phase: Option<Phase>) -> Caller {
    Caller {
        tenant: "local".parse().unwrap(),
        user: "ada".parse().unwrap(),
        workspace: "work".parse().unwrap(),
        session: None,
        plugin: "agent".parse().unwrap(),
        tags: Vec::new(),
        peer: None,
        sandbox: None,
        mode: None,
        phase,
    }
}

fn verdict(engine: &Engine, phase: Option<Phase>, name: &str, paths: &[&str]) -> Verdict {
    let syscall = Syscall::parse(name).unwrap();
    let mut request = Request::new(syscall, Tier::Process, caller(phase));
    let paths = paths.iter().map(|path| WorkspacePath::new(path).unwrap());
    request.paths = paths.map(Into::into).collect();
    engine
        .decide(&request, None, Timestamp::from_micros(0))
        .verdict
}

#[test]
fn the_rules_and_the_table_of_states_say_the_same() {
    let policy = Policy::load("test", ALLOWS_ALL.as_bytes()).unwrap().policy;
    let built_ins = BuiltIns::standard(Protected::default());
    let engine = Engine::new(policy, built_ins, ExtensionHost::new([]));
    let (test, source, other) = ("tests/a.rs", "src/a.rs", "README.md");
    for name in ["fs.write", "fs.patch", "fs.delete", "fs.move"] {
        for path in [test, source, other] {
            assert_eq!(
                verdict(&engine, None, name, &[path]),
                Verdict::Allow,
                "outside"
            );
        }
        for state in Phase::ALL.iter().copied() {
            let (tests, sources) = match writable(state) {
                Writable::Nothing => (false, false),
                Writable::Tests => (true, false),
                Writable::Source => (false, true),
                Writable::SourceAndTests => (true, true),
            };
            for (paths, may) in [
                (vec![test], tests),
                (vec![source], sources),
                (vec![other], false),
                (vec![test, source], tests && sources),
                (vec![test, other], false),
            ] {
                let allowed = verdict(&engine, Some(state), name, &paths) == Verdict::Allow;
                assert_eq!(allowed, may, "{name} {paths:?} in {state}");
            }
        }
    }
}

#[test]
fn nobody_but_a_person_exempts_or_merges() {
    let policy = Policy::load("test", ALLOWS_ALL.as_bytes()).unwrap().policy;
    let built_ins = BuiltIns::standard(Protected::default());
    let engine = Engine::new(policy, built_ins, ExtensionHost::new([]));
    for (name, want) in [
        ("phase.advance", Verdict::Allow),
        ("plan.complete", Verdict::Allow),
        ("phase.status", Verdict::Allow),
        ("phase.request_exemption", Verdict::RequireReview),
        ("phase.commit", Verdict::RequireReview),
    ] {
        for state in Phase::ALL.iter().copied() {
            assert_eq!(
                verdict(&engine, Some(state), name, &[]),
                want,
                "{name} in {state}"
            );
        }
    }
}

//! Capability tokens: bound, counted, narrowed, never widened.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod chains;
mod narrowing;

use airlock_core::{
    ByteSize, Caller, Digest, Peer, Phase, PluginName, Request, RequestPath, SandboxId, SessionId,
    Span, Syscall, TenantId, Tier, Timestamp, UserId, WorkspaceId,
};
use airlock_policy::token::{
    Bearer, Holder, IssueError, NarrowError, NoToken, Scope, Terms, Token, TokenAuthority,
};
use airlock_policy::{Constraints, Generation};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const SECRET: [u8; 32] = [7; 32];
const START: Timestamp = Timestamp::from_micros(1_000_000_000);

fn after(millis: u64) -> Timestamp {
    START.plus(Span::from_millis(millis))
}

fn generation(text: &str) -> Generation {
    Generation::new(Digest::of(text.as_bytes()))
}

fn policy() -> Generation {
    generation("policy")
}

fn caller() -> Caller {
    Caller {
        tenant: TenantId::new("local").unwrap(),
        user: UserId::new("ada").unwrap(),
        workspace: WorkspaceId::new("w1").unwrap(),
        session: Some(SessionId::new("s1").unwrap()),
        plugin: PluginName::new("agent").unwrap(),
        tags: Vec::new(),
        peer: Some(Peer {
            pid: 42,
            uid: 1000,
            started: 99,
        }),
        sandbox: Some(SandboxId::new("box-1").unwrap()),
        mode: None,
        phase: Some(Phase::CodeWriting),
    }
}

fn bearer() -> Bearer {
    Bearer::of(&caller(), policy()).unwrap()
}

/// The caller that holds the `level`th narrowing of a chain.
fn caller_at(level: u32) -> Caller {
    let mut caller = caller();
    if level > 0 {
        caller.sandbox = Some(SandboxId::new(&format!("box-{}", level + 1)).unwrap());
    }
    caller
}

fn holder_at(level: u32) -> Holder {
    Bearer::of(&caller_at(level), policy()).unwrap().holder
}

fn syscall(name: &str) -> Syscall {
    Syscall::parse(name).unwrap()
}

fn request_at(level: u32, name: &str, paths: &[&str]) -> Request {
    let mut request = Request::new(syscall(name), Tier::Process, caller_at(level));
    request.paths = paths
        .iter()
        .map(|path| RequestPath::parse(path, "/work").unwrap())
        .collect();
    request
}

fn write(path: &str) -> Request {
    request_at(0, "fs.write", &[path])
}

fn scope(globs: &[&str], operations: u32) -> Scope {
    let mut scope = Scope::new(syscall("fs.write"));
    scope.paths = globs.iter().map(|glob| Arc::from(*glob)).collect();
    scope.operations = operations;
    scope
}

fn issue(authority: &TokenAuthority, terms: impl Into<Terms>) -> Token {
    authority
        .prepare(terms, bearer(), START)
        .unwrap()
        .activate()
}

fn redeem(
    authority: &TokenAuthority,
    token: &Token,
    request: &Request,
    now: Timestamp,
) -> Result<(), NoToken> {
    authority
        .redeem(token, request, policy(), now)
        .map(|redeemed| assert_eq!(redeemed.id, token.id()))
}

fn narrow(
    authority: &TokenAuthority,
    level: u32,
    parent: &Token,
    child: impl Into<Terms>,
) -> Result<Token, NarrowError> {
    authority
        .narrow(
            parent,
            &caller_at(level),
            policy(),
            child,
            holder_at(level + 1),
            START,
        )
        .map(airlock_policy::token::Pending::activate)
}

#[test]
fn a_token_is_used_as_often_as_it_says_and_not_once_more() {
    let authority = TokenAuthority::new(SECRET);
    let token = issue(&authority, scope(&["src/**"], 3));
    for _ in 0..3 {
        assert_eq!(
            redeem(&authority, &token, &write("src/a.rs"), START),
            Ok(())
        );
    }
    for _ in 0..2 {
        assert_eq!(
            redeem(&authority, &token, &write("src/a.rs"), START),
            Err(NoToken::UsedUp)
        );
    }
}

#[test]
fn defaults_are_one_operation_and_thirty_seconds() {
    let scope = Scope::new(syscall("fs.write"));
    assert_eq!((scope.operations, scope.lifetime), (1, Span::from_secs(30)));
    assert!(scope.paths.is_empty() && scope.names.is_empty());
}

#[test]
fn the_time_a_decision_began_decides_about_expiry() {
    for (millis, want) in [
        (0, Ok(())),
        (29_999, Ok(())),
        (30_000, Err(NoToken::Expired)),
        (3_600_000, Err(NoToken::Expired)),
    ] {
        let authority = TokenAuthority::new(SECRET);
        let token = issue(&authority, scope(&["src/**"], 1));
        assert_eq!(
            redeem(&authority, &token, &write("src/a"), after(millis)),
            want,
            "{millis}"
        );
    }
}

#[test]
fn a_later_issue_does_not_take_the_token_from_a_decision_begun_before_its_end() {
    let authority = TokenAuthority::new(SECRET);
    let token = issue(&authority, scope(&["src/**"], 1));
    let begun = after(29_999);
    let late = authority.prepare(scope(&["src/**"], 1), bearer(), after(31_000));
    drop(late.unwrap().activate());
    assert_eq!(redeem(&authority, &token, &write("src/a"), begun), Ok(()));
}

#[test]
fn a_clock_set_back_revives_nothing() {
    let authority = TokenAuthority::new(SECRET);
    let token = issue(&authority, scope(&["src/**"], 2));
    let before = Timestamp::from_micros(START.as_micros() - 1);
    assert_eq!(
        redeem(&authority, &token, &write("src/a"), before),
        Err(NoToken::BeforeIssue)
    );
    // Forgotten by then, so nothing is left that could be used again.
    drop(
        authority
            .prepare(scope(&["src/**"], 1), bearer(), after(600_000))
            .unwrap(),
    );
    assert_eq!(
        redeem(&authority, &token, &write("src/a"), START),
        Err(NoToken::Unknown)
    );
}

#[test]
fn expired_tokens_are_forgotten() {
    let authority = TokenAuthority::new(SECRET);
    for step in 0..2_000 {
        let pending = authority.prepare(scope(&["src/**"], 1), bearer(), after(step * 1_000));
        drop(pending.unwrap().activate());
        assert!(authority.remembered() <= 92, "{}", authority.remembered());
    }
}

#[test]
fn each_expired_token_is_reported_once() {
    let authority = TokenAuthority::new(SECRET);
    let first = issue(&authority, scope(&["src/**"], 1));
    drop(authority.prepare(scope(&["src/**"], 1), bearer(), START));
    let second = authority.prepare(scope(&["src/**"], 1), bearer(), after(50_000));
    let second = second.unwrap().activate();
    assert_eq!(authority.take_expired(after(60_000)), []);
    // The issue makes room by itself; what it forgot is still reported.
    drop(authority.prepare(scope(&["src/**"], 1), bearer(), after(100_000)));
    assert_eq!(authority.take_expired(after(100_000)), [first.id()]);
    assert_eq!(authority.take_expired(after(200_000)), [second.id()]);
    assert_eq!(authority.take_expired(after(200_000)), []);
    assert_eq!(authority.remembered(), 0);
}

#[test]
fn nothing_can_be_done_with_a_token_whose_issue_was_not_recorded() {
    let authority = TokenAuthority::new(SECRET);
    let pending = authority
        .prepare(scope(&["src/**"], 1), bearer(), START)
        .unwrap();
    let event = serde_json::to_value(pending.event()).unwrap();
    assert_eq!(event["scope"]["syscall"], "fs.write");
    assert_eq!(event["bearer"]["holder"]["sandbox"], "box-1");
    assert_eq!(authority.remembered(), 1);
    drop(pending);
    assert_eq!(authority.remembered(), 0);
    // A second authority with the same secret makes the same token; here it was never activated.
    let twin = TokenAuthority::new(SECRET);
    let stolen = issue(&twin, scope(&["src/**"], 1));
    let authority = TokenAuthority::new(SECRET);
    let pending = authority
        .prepare(scope(&["src/**"], 1), bearer(), START)
        .unwrap();
    assert_eq!(
        redeem(&authority, &stolen, &write("src/a"), START),
        Err(NoToken::Unrecorded)
    );
    drop(pending);
    assert_eq!(
        redeem(&authority, &stolen, &write("src/a"), START),
        Err(NoToken::Unknown)
    );
}

type Change = (&'static str, fn(&mut Request), NoToken);

#[test]
fn every_change_of_holder_setting_or_target_voids_the_token() {
    let authority = TokenAuthority::new(SECRET);
    let token = issue(&authority, scope(&["src/**", "!src/keys/**"], 1));
    let changes: [Change; 20] = [
        (
            "sandbox",
            |r| r.caller.sandbox = Some(SandboxId::new("box-9").unwrap()),
            NoToken::OtherSandbox,
        ),
        (
            "no sandbox",
            |r| r.caller.sandbox = None,
            NoToken::OtherSandbox,
        ),
        (
            "pid",
            |r| r.caller.peer.as_mut().unwrap().pid += 1,
            NoToken::OtherProcess,
        ),
        (
            "a reused pid",
            |r| r.caller.peer.as_mut().unwrap().started += 1,
            NoToken::OtherProcess,
        ),
        (
            "uid",
            |r| r.caller.peer.as_mut().unwrap().uid = 0,
            NoToken::OtherProcess,
        ),
        ("no peer", |r| r.caller.peer = None, NoToken::OtherProcess),
        (
            "plugin",
            |r| r.caller.plugin = PluginName::new("mcp").unwrap(),
            NoToken::OtherPlugin,
        ),
        (
            "user",
            |r| r.caller.user = UserId::new("eve").unwrap(),
            NoToken::OtherUser,
        ),
        (
            "workspace",
            |r| r.caller.workspace = WorkspaceId::new("w2").unwrap(),
            NoToken::OtherWorkspace,
        ),
        (
            "session",
            |r| r.caller.session = Some(SessionId::new("s2").unwrap()),
            NoToken::OtherSession,
        ),
        (
            "no session",
            |r| r.caller.session = None,
            NoToken::OtherSession,
        ),
        (
            "phase",
            |r| r.caller.phase = Some(Phase::Validating),
            NoToken::OtherPhase,
        ),
        ("no phase", |r| r.caller.phase = None, NoToken::OtherPhase),
        (
            "syscall",
            |r| r.syscall = syscall("fs.delete"),
            NoToken::OtherSyscall,
        ),
        (
            "path",
            |r| r.paths = write("etc/a").paths,
            NoToken::OutsidePaths,
        ),
        (
            "one path of two",
            |r| r.paths.extend(write("Cargo.toml").paths),
            NoToken::OutsidePaths,
        ),
        (
            "an excluded path",
            |r| r.paths = write("src/keys/a").paths,
            NoToken::OutsidePaths,
        ),
        (
            "a path outside the workspace",
            |r| r.paths = write("/src/a").paths,
            NoToken::OutsidePaths,
        ),
        ("no path", |r| r.paths.clear(), NoToken::OutsidePaths),
        (
            "a name",
            |r| r.host = Some("evil.example".into()),
            NoToken::OutsideNames,
        ),
    ];
    for (case, change, want) in changes {
        let mut request = write("src/a");
        change(&mut request);
        assert_eq!(
            redeem(&authority, &token, &request, START),
            Err(want),
            "{case}"
        );
    }
    let reloaded = authority.redeem(&token, &write("src/a"), generation("other"), START);
    assert_eq!(reloaded, Err(NoToken::OtherGeneration));
    // None of the attempts cost the holder anything.
    assert_eq!(redeem(&authority, &token, &write("src/a"), START), Ok(()));
}

#[test]
fn what_a_request_names_must_be_listed() {
    let mut wanted = Scope::new(syscall("net.connect"));
    let authority = TokenAuthority::new(SECRET);
    assert_eq!(
        authority.prepare(wanted.clone(), bearer(), START).map(drop),
        Err(IssueError::NoNames(syscall("net.connect")))
    );
    wanted.names = vec!["example.org".into()];
    let token = issue(&authority, wanted);
    for (host, want) in [
        ("evil.example", Err(NoToken::OutsideNames)),
        ("example.org.evil.example", Err(NoToken::OutsideNames)),
        ("example.org", Ok(())),
    ] {
        let mut request = request_at(0, "net.connect", &[]);
        request.host = Some(host.into());
        assert_eq!(redeem(&authority, &token, &request, START), want, "{host}");
    }
    let mut run = Scope::new(syscall("exec.run"));
    run.names = vec!["cargo".into()];
    let token = issue(&authority, run);
    for (program, want) in [("sh", Err(NoToken::OutsideNames)), ("cargo", Ok(()))] {
        let mut request = request_at(0, "exec.run", &[]);
        request.command = vec![program.into(), "cargo".into()];
        assert_eq!(redeem(&authority, &token, &request, START), want);
    }
}

#[test]
fn scopes_that_make_no_sense_are_not_issued() {
    let write = syscall("fs.write");
    let with = |change: fn(&mut Scope)| {
        let mut scope = scope(&["src/**"], 1);
        change(&mut scope);
        scope
    };
    for (case, scope, want) in [
        (
            "no paths",
            with(|s| s.paths.clear()),
            IssueError::NoPaths(write),
        ),
        (
            "exclusions only",
            with(|s| s.paths = vec!["!a".into()]),
            IssueError::NoPaths(write),
        ),
        (
            "no operations",
            with(|s| s.operations = 0),
            IssueError::NoOperations,
        ),
        (
            "no time",
            with(|s| s.lifetime = Span::from_millis(0)),
            IssueError::Lifetime(Span::from_millis(0)),
        ),
        (
            "a day",
            with(|s| s.lifetime = Span::from_secs(86_400)),
            IssueError::Lifetime(Span::from_secs(86_400)),
        ),
        (
            "a broken glob",
            with(|s| s.paths.push("a[".into())),
            IssueError::BadGlob("a[".into()),
        ),
        (
            "too many",
            with(|s| s.paths = vec!["a".into(); 257]),
            IssueError::TooManyEntries,
        ),
    ] {
        let authority = TokenAuthority::new(SECRET);
        let got = authority.prepare(scope, bearer(), START).map(drop);
        assert_eq!(got, Err(want.clone()), "{case}");
        assert!(!want.hint().is_empty());
    }
}

#[test]
fn a_full_authority_refuses_and_recovers() {
    let authority = TokenAuthority::new(SECRET);
    let mut wanted = Scope::new(syscall("exec.run"));
    wanted.lifetime = Span::from_secs(1);
    for _ in 0..65_536 {
        drop(issue(&authority, wanted.clone()));
    }
    assert_eq!(
        authority.prepare(wanted.clone(), bearer(), START).map(drop),
        Err(IssueError::Full)
    );
    assert!(authority.prepare(wanted, bearer(), after(62_000)).is_ok());
}

#[test]
fn revoking_voids_the_token_and_its_descendants() {
    let authority = TokenAuthority::new(SECRET);
    let parent = issue(&authority, scope(&["src/**"], 9));
    let child = narrow(&authority, 0, &parent, scope(&["src/a/**"], 5)).unwrap();
    let grandchild = narrow(&authority, 1, &child, scope(&["src/a/b/**"], 2)).unwrap();
    let use_it = |token: &Token, level| {
        redeem(
            &authority,
            token,
            &request_at(level, "fs.write", &["src/a/b/c"]),
            START,
        )
    };
    assert_eq!(use_it(&grandchild, 2), Ok(()));
    assert!(authority.revoke(child.id()));
    assert!(!authority.revoke(child.id()), "already revoked");
    assert_eq!(use_it(&grandchild, 2), Err(NoToken::Revoked));
    assert_eq!(use_it(&child, 1), Err(NoToken::Revoked));
    assert_eq!(use_it(&parent, 0), Ok(()));
    assert!(narrow(&authority, 1, &child, scope(&["src/a/**"], 1)).is_err());
}

#[test]
fn eight_threads_get_exactly_the_operations_there_are() {
    const OPERATIONS: u32 = 1_000;
    let authority = TokenAuthority::new(SECRET);
    let parent = issue(&authority, scope(&["src/**"], OPERATIONS));
    let child = narrow(&authority, 0, &parent, scope(&["src/**"], OPERATIONS - 300)).unwrap();
    let (by_parent, by_child) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|threads| {
        for worker in 0..8 {
            let (token, level, count) = if worker % 2 == 0 {
                (&parent, 0, &by_parent)
            } else {
                (&child, 1, &by_child)
            };
            let authority = &authority;
            threads.spawn(move || {
                // One path is matched while the count is locked, several are matched unlocked.
                let paths: &[_] = if worker % 4 < 2 {
                    &["src/a"]
                } else {
                    &["src/a", "src/b"]
                };
                let request = request_at(level, "fs.write", paths);
                for _ in 0..OPERATIONS {
                    if redeem(authority, token, &request, START).is_ok() {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let (by_parent, by_child) = (by_parent.into_inner(), by_child.into_inner());
    assert_eq!(by_parent + by_child, OPERATIONS);
    assert!(by_child <= OPERATIONS - 300);
}

#[test]
fn any_flipped_bit_is_refused() {
    let authority = TokenAuthority::new(SECRET);
    let token = issue(&authority, scope(&["src/**"], 1));
    // A second live token, so that an altered number can hit an entry that exists.
    drop(issue(&authority, scope(&["src/**"], 1)));
    let text = token.reveal();
    assert!(Token::parse(&text).is_ok());
    for position in 0..text.len() {
        for bit in 0..8 {
            let mut bytes = text.as_bytes().to_vec();
            bytes[position] ^= 1 << bit;
            let Ok(altered) = String::from_utf8(bytes) else {
                continue;
            };
            if let Ok(altered) = Token::parse(&altered) {
                assert_eq!(
                    redeem(&authority, &altered, &write("src/a"), START),
                    Err(NoToken::Altered),
                    "byte {position}, bit {bit}"
                );
            }
        }
    }
    assert_eq!(
        redeem(
            &authority,
            &Token::parse(&text).unwrap(),
            &write("src/a"),
            START
        ),
        Ok(())
    );
}

#[test]
fn a_token_of_another_start_is_foreign() {
    let foreign = issue(&TokenAuthority::new([8; 32]), scope(&["src/**"], 1));
    let authority = TokenAuthority::new(SECRET);
    drop(issue(&authority, scope(&["src/**"], 1)));
    assert_eq!(
        redeem(&authority, &foreign, &write("src/a"), START),
        Err(NoToken::Altered)
    );
}

#[test]
fn a_token_text_has_one_spelling() {
    let authority = TokenAuthority::new(SECRET);
    let text = issue(&authority, scope(&["src/**"], 1)).reveal();
    for bad in [
        String::new(),
        "alt1_".to_owned(),
        text.to_uppercase(),
        format!("{}0", &*text),
        format!("{} ", &*text),
        format!(" {}", &*text),
        text.replacen("alt1_", "alt2_", 1),
        text.chars().take(text.len() - 2).collect(),
        "alt1_".to_owned() + &"é".repeat(72),
        "x".repeat(1 << 20),
    ] {
        assert!(Token::parse(&bad).is_err(), "{bad:.40}");
    }
}

#[test]
fn nothing_prints_a_secret() {
    let authority = TokenAuthority::new([0xab; 32]);
    let pending = authority
        .prepare(scope(&["src/**"], 1), bearer(), START)
        .unwrap();
    let before = format!("{authority:?} {pending:?} {:?}", pending.event());
    let token = pending.activate();
    let shown = format!("{before} {token:?} {authority:?}");
    let text = token.reveal();
    let (_, tag) = text.split_at(text.len() - 64);
    for window in tag.as_bytes().windows(12) {
        assert!(!shown.contains(std::str::from_utf8(window).unwrap()));
    }
    assert!(!shown.contains("abab") && !shown.contains("171, 171"));
}

#[test]
fn a_decision_by_token_names_the_policy_the_token_was_redeemed_under() {
    use airlock_policy::{BuiltIns, Engine, ExtensionHost, Policy, Verdict};
    let authority = TokenAuthority::new(SECRET);
    let token = issue(&authority, scope(&["src/**"], 1));
    let request = write("src/a");
    let redeemed = authority.redeem(&token, &request, policy(), START).unwrap();
    // As if another policy had come into force in between.
    let engine = Engine::new(Policy::empty(), BuiltIns::none(), ExtensionHost::default());
    assert_ne!(engine.generation(), policy());
    let decision = engine.decide(&request, Some(&redeemed), START);
    assert_eq!(
        (decision.verdict, decision.generation),
        (Verdict::Allow, policy())
    );
}

//! The 26 normative cases of a decision, one row each.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use Verdict::{Allow, Deny, RequireReview};
use airlock_core::{Effect, EffectSet, Request, SandboxId, Span, Syscall, Timestamp};
use airlock_policy::token::{Bearer, NoToken, Redeemed, Scope, Token, TokenAuthority};
use airlock_policy::{
    Answer, BuiltInRule, BuiltIns, Decision, Diagnostic, Engine, Extension, ExtensionFailure,
    ExtensionHost, Layer, Loaded, Opinion, Policy, Protected, Trigger, Verdict,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use support::{NOW, request, tags};

type Case = (u32, &'static str, fn() -> Decision, Verdict);

const CASES: [Case; 26] = [
    (1, "no rule matches", no_rule_matches, Deny),
    (2, "only pass", only_pass, Deny),
    (3, "allow + deny", allow_and_deny, Deny),
    (4, "allow + require_review", allow_and_review, RequireReview),
    (
        5,
        "built-in allow, extension deny",
        built_in_allow_extension_deny,
        Deny,
    ),
    (
        6,
        "require_review whose except matches, with another allow",
        except_matches,
        Allow,
    ),
    (
        7,
        "valid token, built-in deny",
        token_and_built_in_deny,
        Deny,
    ),
    (8, "valid token, no built-in objection", token_alone, Allow),
    (9, "expired token", expired_token, RequireReview),
    (10, "several require_review", several_reviews, RequireReview),
    (
        11,
        "YAML deny, extension would allow",
        yaml_deny_extension_allow,
        Deny,
    ),
    (
        12,
        "syscall matches, path_glob does not",
        glob_does_not_match,
        Deny,
    ),
    (
        13,
        "require_review, except does not match",
        except_does_not_match,
        RequireReview,
    ),
    (
        14,
        "except with several conditions, one matches",
        one_of_several_excepts,
        Allow,
    ),
    (
        15,
        "except with several conditions, none matches",
        none_of_several_excepts,
        RequireReview,
    ),
    (16, "several allows, nothing else", several_allows, Allow),
    (
        17,
        "YAML allow and extension allow",
        yaml_allow_extension_allow,
        Allow,
    ),
    (18, "no built-in rules at all", no_built_ins, Allow),
    (19, "empty YAML", empty_yaml, Deny),
    (20, "extension crashes", extension_crashes, Deny),
    (
        21,
        "token's operations used up",
        used_up_token,
        RequireReview,
    ),
    (
        22,
        "token expires during evaluation",
        token_expires_meanwhile,
        Allow,
    ),
    (
        23,
        "token bound to another sandbox",
        foreign_token,
        RequireReview,
    ),
    (24, "unknown syscall", unknown_syscall, Deny),
    (25, "empty path_glob", empty_glob, Deny),
    (26, "match equals except", match_equals_except, Allow),
];

#[test]
fn the_normative_cases_hold() {
    for (at, (number, given, decide, want)) in (1..).zip(CASES) {
        assert_eq!(number, at, "the cases are numbered in order");
        assert_eq!(decide().verdict, want, "case {number}: {given}");
    }
}

/// An extension that says one thing and counts how often it was asked and restarted.
struct Scripted {
    says: Result<Opinion, ExtensionFailure>,
    calls: Arc<Calls>,
}

#[derive(Default)]
struct Calls {
    asked: AtomicU32,
    restarted: AtomicU32,
}

impl Extension for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn evaluate(&self, _: &Request) -> Result<Answer, ExtensionFailure> {
        self.calls.asked.fetch_add(1, SeqCst);
        self.says.map(|opinion| Answer {
            opinion,
            reason: "scripted".into(),
        })
    }

    fn restart(&self) -> Result<(), ExtensionFailure> {
        self.calls.restarted.fetch_add(1, SeqCst);
        Ok(())
    }
}

fn scripted(says: Result<Opinion, ExtensionFailure>) -> (ExtensionHost, Arc<Calls>) {
    let calls = Arc::<Calls>::default();
    let extension = Scripted {
        says,
        calls: Arc::clone(&calls),
    };
    let boxed: Box<dyn Extension> = Box::new(extension);
    (ExtensionHost::new([boxed]), calls)
}

fn load(rules: &str) -> Loaded {
    let text = format!("version: 1\nrules:\n{rules}");
    Policy::load("policy.yaml", text.as_bytes()).unwrap()
}

fn standard() -> BuiltIns {
    BuiltIns::standard(Protected::default())
}

fn engine(rules: &str) -> Engine {
    Engine::new(load(rules).policy, standard(), ExtensionHost::default())
}

fn decide(rules: &str, request: &Request) -> Decision {
    engine(rules).decide(request, None, NOW)
}

fn read(path: &str) -> Request {
    request("fs.read", &[path])
}

const ALLOW: &str = "  - { name: allow, match: { syscall: fs.read }, action: allow }\n";
const DENY: &str = "  - { name: deny, match: { syscall: fs.read }, action: deny }\n";
const REVIEW: &str =
    "  - { name: review, match: { syscall: fs.read }, action: require_review, reason: first }\n";
/// A review that bots and the docs are excepted from.
const REVIEW_EXCEPT: &str = "  - name: review
    match: { syscall: fs.read }
    action: require_review
    except: [{ caller_tag: bot }, { path_glob: 'docs/**' }]
";

fn no_rule_matches() -> Decision {
    let decision = decide(
        "  - { name: other, match: { syscall: fs.list }, action: allow }\n",
        &read("a"),
    );
    assert_eq!(decision.contributions.len(), 1);
    let default = &decision.contributions[0];
    assert_eq!((default.layer, &*default.rule), (Layer::Default, "default"));
    assert_eq!(&*default.reason, "no rule allows this");
    decision
}

fn only_pass() -> Decision {
    let decision = decide(REVIEW_EXCEPT, &read("docs/a"));
    assert_eq!(decision.contributions[0].opinion, Opinion::Pass);
    decision
}

fn allow_and_deny() -> Decision {
    let one = decide(&format!("{ALLOW}{DENY}"), &read("a"));
    let other = decide(&format!("{DENY}{ALLOW}"), &read("a"));
    assert_eq!(one.verdict, other.verdict);
    assert_eq!(one.contributions.len(), 2, "every contribution is kept");
    one
}

fn allow_and_review() -> Decision {
    decide(&format!("{ALLOW}{REVIEW}"), &read("a"))
}

fn built_in_allow_extension_deny() -> Decision {
    let allow = BuiltInRule {
        name: "built-in/test",
        opinion: Opinion::Allow,
        reason: "test",
        when: Trigger::Syscall(&["fs.read"]),
    };
    let built_ins = BuiltIns::of(&[allow], Protected::default());
    let (extensions, calls) = scripted(Ok(Opinion::Deny));
    let engine = Engine::new(Policy::empty(), built_ins, extensions);
    let decision = engine.decide(&read("a"), None, NOW);
    assert_eq!(calls.asked.load(SeqCst), 1);
    decision
}

fn except_matches() -> Decision {
    let alone = decide(REVIEW_EXCEPT, &read("docs/a"));
    assert_eq!(alone.verdict, Deny, "passing is no permission");
    decide(&format!("{ALLOW}{REVIEW_EXCEPT}"), &read("docs/a"))
}

/// The engine of the token cases: without a valid token a read of `a` needs review, and the
/// extension would deny.
struct TokenCase {
    engine: Engine,
    calls: Arc<Calls>,
    authority: TokenAuthority,
}

impl TokenCase {
    fn new() -> Self {
        let (extensions, calls) = scripted(Ok(Opinion::Pass));
        Self {
            engine: Engine::new(load(REVIEW).policy, standard(), extensions),
            calls,
            authority: TokenAuthority::new([7; 32]),
        }
    }

    fn issue(&self, request: &Request) -> Token {
        let scope = Scope {
            paths: vec!["**".into()],
            lifetime: Span::from_secs(30),
            ..Scope::new(request.syscall)
        };
        let bearer = Bearer::of(&request.caller, self.engine.generation()).unwrap();
        self.authority
            .prepare(scope, bearer, NOW)
            .unwrap()
            .activate()
    }

    fn redeem(
        &self,
        token: &Token,
        request: &Request,
        now: Timestamp,
    ) -> Result<Redeemed, NoToken> {
        self.authority
            .redeem(token, request, self.engine.generation(), now)
    }

    /// What the road does: a token that cannot be redeemed is no token.
    fn decide(&self, token: &Token, request: &Request, now: Timestamp) -> Decision {
        let redeemed = self.redeem(token, request, now).ok();
        self.engine.decide(request, redeemed.as_ref(), now)
    }

    fn fully_evaluated(&self, decision: &Decision) {
        assert!(
            decision
                .contributions
                .iter()
                .any(|one| one.layer == Layer::Rules)
        );
        assert!(
            decision
                .contributions
                .iter()
                .all(|one| one.layer != Layer::Token)
        );
        assert_eq!(
            self.calls.asked.load(SeqCst),
            1,
            "the extension was asked too"
        );
    }
}

fn later(seconds: u64) -> Timestamp {
    NOW.plus(Span::from_secs(seconds))
}

fn token_and_built_in_deny() -> Decision {
    let case = TokenCase::new();
    let request = request("fs.write", &[".airlock/policy.yaml"]);
    let token = case.issue(&request);
    assert!(
        case.redeem(&token, &request, NOW).is_ok(),
        "the token itself is valid"
    );
    let token = case.issue(&request);
    let decision = case.decide(&token, &request, NOW);
    assert!(decision.deciding().all(|one| one.layer == Layer::BuiltIn));
    decision
}

fn token_alone() -> Decision {
    let case = TokenCase::new();
    let token = case.issue(&read("a"));
    let decision = case.decide(&token, &read("a"), NOW);
    assert_eq!(
        decision.contributions.len(),
        1,
        "the rules were never asked"
    );
    assert_eq!(decision.contributions[0].layer, Layer::Token);
    assert_eq!(case.calls.asked.load(SeqCst), 0, "nor was the extension");
    decision
}

fn expired_token() -> Decision {
    let case = TokenCase::new();
    let token = case.issue(&read("a"));
    assert_eq!(
        case.redeem(&token, &read("a"), later(31)),
        Err(NoToken::Expired)
    );
    let decision = case.decide(&token, &read("a"), later(31));
    case.fully_evaluated(&decision);
    decision
}

fn several_reviews() -> Decision {
    let other =
        "  - { name: other, match: { path_glob: a }, action: require_review, reason: second }\n";
    let decision = decide(&format!("{ALLOW}{REVIEW}{other}"), &read("a"));
    let reasons: Vec<&str> = decision.deciding().map(|one| &*one.reason).collect();
    assert_eq!(reasons, ["first", "second"]);
    decision
}

fn yaml_deny_extension_allow() -> Decision {
    let (extensions, calls) = scripted(Ok(Opinion::Allow));
    let engine = Engine::new(load(DENY).policy, standard(), extensions);
    let decision = engine.decide(&read("a"), None, NOW);
    assert_eq!(calls.asked.load(SeqCst), 0, "the extension was not called");
    decision
}

fn glob_does_not_match() -> Decision {
    let rules =
        "  - { name: a, match: { syscall: fs.read, path_glob: 'src/**' }, action: allow }\n";
    assert_eq!(decide(rules, &read("src/a")).verdict, Allow);
    let decision = decide(rules, &read("docs/a"));
    assert_eq!(decision.contributions[0].layer, Layer::Default);
    decision
}

fn except_does_not_match() -> Decision {
    decide(&format!("{ALLOW}{REVIEW_EXCEPT}"), &read("src/a"))
}

fn one_of_several_excepts() -> Decision {
    let mut request = read("src/a");
    request.caller.tags = tags(&["bot"]);
    let decision = decide(&format!("{ALLOW}{REVIEW_EXCEPT}"), &request);
    assert!(
        decision
            .contributions
            .iter()
            .any(|one| one.opinion == Opinion::Pass)
    );
    decision
}

fn none_of_several_excepts() -> Decision {
    let mut request = read("src/a");
    request.caller.tags = tags(&["person"]);
    decide(&format!("{ALLOW}{REVIEW_EXCEPT}"), &request)
}

fn several_allows() -> Decision {
    let other = "  - { name: other, match: { path_glob: '**' }, action: allow }\n";
    let decision = decide(&format!("{ALLOW}{other}"), &read("a"));
    assert_eq!(decision.deciding().count(), 2);
    decision
}

fn yaml_allow_extension_allow() -> Decision {
    let (extensions, calls) = scripted(Ok(Opinion::Allow));
    let engine = Engine::new(load(ALLOW).policy, standard(), extensions);
    let decision = engine.decide(&read("a"), None, NOW);
    assert_eq!(calls.asked.load(SeqCst), 1);
    decision
}

fn no_built_ins() -> Decision {
    let rules = "  - { name: all, match: { syscall: '*' }, action: allow }\n";
    let engine = Engine::new(
        load(rules).policy,
        BuiltIns::none(),
        ExtensionHost::default(),
    );
    let write = request("fs.write", &[".airlock/policy.yaml"]);
    let decision = engine.decide(&write, None, NOW);
    assert_eq!(engine.decide(&read("a"), None, NOW).verdict, Allow);
    decision
}

fn empty_yaml() -> Decision {
    let loaded = Policy::load("policy.yaml", b"version: 1\n").unwrap();
    let engine = Engine::new(loaded.policy, standard(), ExtensionHost::default());
    let review = engine.decide(&request("policy.update", &[]), None, NOW);
    assert_eq!(
        review.verdict, RequireReview,
        "the built-in rules are active"
    );
    engine.decide(&read("a"), None, NOW)
}

fn extension_crashes() -> Decision {
    let (extensions, calls) = scripted(Err(ExtensionFailure::Crash));
    let engine = Engine::new(load(ALLOW).policy, standard(), extensions);
    let decision = engine.decide(&read("a"), None, NOW);
    assert_eq!(calls.restarted.load(SeqCst), 1, "a restart was tried");
    decision
}

fn used_up_token() -> Decision {
    let case = TokenCase::new();
    let token = case.issue(&read("a"));
    assert_eq!(case.decide(&token, &read("a"), NOW).verdict, Allow);
    let decision = case.decide(&token, &read("a"), NOW);
    case.fully_evaluated(&decision);
    decision
}

/// The time is taken once, at the start, and is the time of the whole evaluation: a token valid
/// then stays valid, however long the decision takes; one second later it is none.
fn token_expires_meanwhile() -> Decision {
    let case = TokenCase::new();
    let at_start = Timestamp::from_micros(later(30).as_micros() - 1);
    let token = case.issue(&read("a"));
    let redeemed = case.redeem(&token, &read("a"), at_start).unwrap();
    let other = case.issue(&read("a"));
    assert_eq!(
        case.decide(&other, &read("a"), later(30)).verdict,
        RequireReview
    );
    case.engine.decide(&read("a"), Some(&redeemed), at_start)
}

fn foreign_token() -> Decision {
    let case = TokenCase::new();
    let token = case.issue(&read("a"));
    let mut request = read("a");
    request.caller.sandbox = Some(SandboxId::new("box-2").unwrap());
    assert!(case.redeem(&token, &request, NOW).is_err());
    let decision = case.decide(&token, &request, NOW);
    case.fully_evaluated(&decision);
    decision
}

fn unknown_syscall() -> Decision {
    let engine = engine("  - { name: all, match: { syscall: '*' }, action: allow }\n");
    let unknown = Syscall::parse("fs.format").unwrap_err();
    let decision = engine.refuse_unknown(&unknown);
    assert!(decision.contributions[0].reason.contains("fs.format"));
    decision
}

fn warned(loaded: &Loaded, code: &str) -> bool {
    loaded
        .warnings
        .iter()
        .any(|warning: &Diagnostic| warning.code == code)
}

fn empty_glob() -> Decision {
    let rules = "  - { name: a, match: { syscall: fs.read, path_glob: [] }, action: allow }\n";
    assert!(warned(&load(rules), "policy/empty-path-glob"));
    for path in [".", "a", "a/b"] {
        assert_eq!(decide(rules, &read(path)).verdict, Deny);
    }
    decide(rules, &request("fs.read", &[]))
}

fn match_equals_except() -> Decision {
    let never = "  - { name: never, match: { syscall: fs.read }, action: require_review, except: [{ syscall: fs.read }] }\n";
    assert!(warned(&load(never), "policy/except-equals-match"));
    decide(&format!("{ALLOW}{never}"), &read("a"))
}

#[test]
fn a_valid_token_and_a_built_in_review_give_a_review() {
    let case = TokenCase::new();
    let request = request("fs.write", &[".git/hooks/pre-commit"]);
    let token = case.issue(&request);
    assert_eq!(case.decide(&token, &request, NOW).verdict, RequireReview);
}

#[test]
fn a_tokens_constraints_are_checked_and_imposed() {
    let case = TokenCase::new();
    let mut write = request("fs.write", &["a"]);
    write.effects = EffectSet::of(&[Effect::Write]);
    let scope = Scope {
        paths: vec!["**".into()],
        operations: 3,
        constraints: airlock_policy::Constraints {
            max_file_size: Some(airlock_core::ByteSize::from_bytes(10)),
            max_duration: Some(Span::from_secs(5)),
            require_capability_token: true,
            ..airlock_policy::Constraints::default()
        },
        ..Scope::new(write.syscall)
    };
    let bearer = Bearer::of(&write.caller, case.engine.generation()).unwrap();
    let token = case
        .authority
        .prepare(scope, bearer, NOW)
        .unwrap()
        .activate();
    for (size, want) in [(Some(10), Allow), (Some(11), Deny), (None, Deny)] {
        write.file_size = size;
        let decision = case.decide(&token, &write, NOW);
        assert_eq!(decision.verdict, want, "{size:?}");
        assert_eq!(decision.imposed.max_duration, Some(Span::from_secs(5)));
        assert!(decision.deciding().all(|one| one.layer == Layer::Token));
    }
}

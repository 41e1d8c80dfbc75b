//! Approvals: who may answer, what an answer is bound to, how far a grant reaches.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::too_many_lines, reason = "a table is read as one piece")]

mod grants;
mod reach;

use airlock_core::{
    Caller, Digest, Effect, EffectSet, PluginName, Request, RequestPath, SessionId, Span, Syscall,
    TenantId, Tier, Timestamp, UserId, WorkspaceId,
};
use airlock_policy::approval::{
    Answer, AnswerError, AnswerRules, Answerer, ApprovalId, ApprovalRequest, Binding, Channel,
    Condition, Diff, Gate, GateFacts, Grant, Grants, Headless, MayAnswer, Query, Reply, Risk,
    RiskFactor, RiskLevel, gate_for, may_answer,
};
use airlock_policy::{Contribution, Decision, Generation, Imposed, Layer, Opinion, Verdict};
use proptest::prelude::*;

const START: Timestamp = Timestamp::from_micros(1_000_000_000);
const LIFETIME: Span = Span::from_secs(600);
const NOTHING: GateFacts = GateFacts {
    host_granted: false,
    sensitive_path: false,
    over_budget: false,
    first_use: false,
};

fn after(secs: u64) -> Timestamp {
    START.plus(Span::from_secs(secs))
}

fn generation(text: &str) -> Generation {
    Generation::new(Digest::of(text.as_bytes()))
}

fn stage() -> Digest {
    Digest::of(b"stage")
}

fn request(name: &str, paths: &[&str]) -> Request {
    let caller = Caller {
        tenant: TenantId::new("local").unwrap(),
        user: UserId::new("ada").unwrap(),
        workspace: WorkspaceId::new("w1").unwrap(),
        session: Some(SessionId::new("s1").unwrap()),
        plugin: PluginName::new("agent").unwrap(),
        tags: Vec::new(),
        peer: None,
        sandbox: None,
        mode: None,
        phase: None,
    };
    let mut request = Request::new(Syscall::parse(name).unwrap(), Tier::Process, caller);
    request.paths = paths.iter().map(|path| path_of(path)).collect();
    request
}

fn path_of(text: &str) -> RequestPath {
    RequestPath::parse(text, "/work").unwrap()
}

fn connect(host: &str) -> Request {
    let mut request = request("net.connect", &[]);
    request.host = Some(host.into());
    request.port = Some(443);
    request
}

fn decision() -> Decision {
    let contribution = |rule: &str, opinion| Contribution {
        layer: Layer::Rules,
        rule: rule.into(),
        opinion,
        reason: "because".into(),
    };
    Decision {
        verdict: Verdict::RequireReview,
        contributions: vec![
            contribution("one", Opinion::RequireReview),
            contribution("two", Opinion::Allow),
            contribution("three", Opinion::RequireReview),
        ]
        .into(),
        imposed: Imposed::default(),
        generation: generation("policy"),
    }
}

fn asked_with(request: &Request, facts: GateFacts) -> ApprovalRequest {
    ApprovalRequest::new(
        ApprovalId::new("approval-1").unwrap(),
        request,
        &facts,
        &decision(),
        None,
        Some(stage()),
        START,
        LIFETIME,
    )
}

fn asked(request: &Request) -> ApprovalRequest {
    asked_with(request, NOTHING)
}

fn approve(conditions: &[Condition]) -> Answer {
    Answer {
        reply: Reply::Approve,
        conditions: conditions.to_vec(),
        rationale: Some("looks right".into()),
        answered_by: Answerer::Person(UserId::new("ada").unwrap()),
        channel: Channel::Terminal,
    }
}

fn give(request: &Request, conditions: &[Condition]) -> Result<Grant, AnswerError> {
    let mut asked = asked(request);
    let binding = asked.binding;
    asked
        .answer(
            approve(conditions),
            &AnswerRules::default(),
            &binding,
            START,
        )
        .map(Option::unwrap)
}

fn query(request: &Request) -> Query<'_> {
    Query {
        request,
        gate: gate_for(request, &NOTHING),
        diff: None,
        generation: generation("policy"),
        stage: Some(stage()),
        now: after(1),
    }
}

#[test]
fn each_gate_says_who_may_answer() {
    let table = [
        ("AG-01", Gate::FirstUse, MayAnswer::PolicyOrPerson),
        ("AG-02", Gate::Budget, MayAnswer::Person),
        ("AG-03", Gate::Host, MayAnswer::PolicyOrPerson),
        (
            "AG-04",
            Gate::SensitiveWrite,
            MayAnswer::PersonUnlessDelegated,
        ),
        ("AG-05", Gate::Elevated, MayAnswer::PersonOnly),
    ];
    assert_eq!(Gate::ALL, table.map(|(_, gate, _)| gate));
    for (code, gate, who) in table {
        assert_eq!((gate.as_str(), gate.may_answer()), (code, who));
        assert_eq!(serde_json::to_value(gate).unwrap(), code);
    }
}

#[test]
fn only_the_channels_of_the_table_may_answer() {
    let closed = AnswerRules::default();
    let open = AnswerRules {
        by_policy: Gate::ALL.iter().copied().collect(),
        by_elicitation: Gate::ALL.iter().copied().collect(),
        channels: ["ops".into()].into(),
        headless: Headless::Wait,
    };
    // For each channel: AG-01 to AG-05 with nothing opened, then with everything opened.
    for (channel, when_closed, when_open) in [
        (Channel::Terminal, "yyyyy", "yyyyy"),
        (Channel::Dashboard, "yyyyy", "yyyyy"),
        (Channel::Named("ops".into()), "-----", "yyyyy"),
        (Channel::Named("agent-chat".into()), "-----", "-----"),
        (Channel::McpElicitation, "-----", "y-y--"),
        (Channel::Policy, "-----", "y-yy-"),
        (Channel::AgentOwn, "-----", "-----"),
    ] {
        for (rules, want) in [(&closed, when_closed), (&open, when_open)] {
            let got: String = Gate::ALL
                .iter()
                .map(|gate| match may_answer(*gate, &channel, rules) {
                    Ok(()) => 'y',
                    Err(_) => '-',
                })
                .collect();
            assert_eq!(got, want, "{channel}");
        }
    }
}

#[test]
fn opening_one_gate_opens_no_other() {
    for opened in Gate::ALL {
        let rules = AnswerRules {
            by_policy: [*opened].into(),
            by_elicitation: [*opened].into(),
            ..AnswerRules::default()
        };
        for gate in Gate::ALL.iter().filter(|gate| *gate != opened) {
            for channel in [Channel::Policy, Channel::McpElicitation] {
                assert!(may_answer(*gate, &channel, &rules).is_err());
            }
        }
    }
}

#[test]
fn the_strictest_gate_that_applies_is_the_one_raised() {
    let every = GateFacts {
        host_granted: false,
        sensitive_path: true,
        over_budget: true,
        first_use: true,
    };
    let with = |change: fn(&mut GateFacts)| {
        let mut facts = NOTHING;
        change(&mut facts);
        facts
    };
    let mode = |word: &str| {
        let mut request = request("session.set_mode", &[]);
        request.arguments = serde_json::json!({ "mode": word });
        request
    };
    let mut in_kernel = request("exec.run", &[]);
    in_kernel.tier = Tier::Kernel;
    let mut chatty_tool = request("tool.call", &[]);
    chatty_tool.effects = EffectSet::of(&[Effect::Execute, Effect::Secret]);
    for (case, request, facts, want) in [
        (
            "policy.update",
            request("policy.update", &[]),
            NOTHING,
            Gate::Elevated,
        ),
        (
            "everything at once",
            request("policy.update", &[]),
            every,
            Gate::Elevated,
        ),
        (
            "trust",
            request("trust.approve", &[]),
            NOTHING,
            Gate::Elevated,
        ),
        (
            "plugin",
            request("plugin.install", &[]),
            NOTHING,
            Gate::Elevated,
        ),
        (
            "answering",
            request("approval.decide", &[]),
            NOTHING,
            Gate::Elevated,
        ),
        (
            "container",
            request("container.run", &[]),
            NOTHING,
            Gate::Elevated,
        ),
        (
            "secret",
            request("secret.use", &[]),
            NOTHING,
            Gate::Elevated,
        ),
        ("secret by a tool", chatty_tool, NOTHING, Gate::Elevated),
        ("unsandboxed", in_kernel, NOTHING, Gate::Elevated),
        ("debug", mode("debug"), NOTHING, Gate::Elevated),
        ("no such mode", mode("DEBUG"), NOTHING, Gate::Elevated),
        (
            "no mode",
            request("session.set_mode", &[]),
            NOTHING,
            Gate::Elevated,
        ),
        (
            "explore",
            mode("explore"),
            with(|f| f.first_use = true),
            Gate::FirstUse,
        ),
        (
            "budget before host",
            connect("a.example"),
            every,
            Gate::Budget,
        ),
        ("host", connect("a.example"), NOTHING, Gate::Host),
        (
            "granted host",
            connect("a.example"),
            with(|f| (f.host_granted, f.first_use) = (true, true)),
            Gate::FirstUse,
        ),
        (
            "sensitive path",
            request("fs.delete", &["Dockerfile"]),
            with(|f| (f.sensitive_path, f.first_use) = (true, true)),
            Gate::SensitiveWrite,
        ),
        (
            "outside",
            request("fs.write", &["src/a", "/etc/passwd"]),
            with(|f| f.first_use = true),
            Gate::SensitiveWrite,
        ),
        (
            "a read of a sensitive path, first time",
            request("fs.read", &["Dockerfile"]),
            with(|f| (f.sensitive_path, f.first_use) = (true, true)),
            Gate::FirstUse,
        ),
        (
            "a rule's own review",
            request("exec.run", &[]),
            NOTHING,
            Gate::SensitiveWrite,
        ),
    ] {
        assert_eq!(gate_for(&request, &facts), want, "{case}");
    }
}

#[test]
fn risk_is_the_worst_factor_and_more_when_they_pile_up() {
    let sensitive = GateFacts {
        sensitive_path: true,
        ..NOTHING
    };
    let over = GateFacts {
        over_budget: true,
        ..NOTHING
    };
    let many: Vec<String> = (0..21).map(|n| format!("src/{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (case, request, facts, level) in [
        (
            "a read",
            request("fs.read", &["a"]),
            NOTHING,
            RiskLevel::Low,
        ),
        (
            "a write",
            request("fs.write", &["a"]),
            NOTHING,
            RiskLevel::Low,
        ),
        (
            "a delete",
            request("fs.delete", &["a"]),
            NOTHING,
            RiskLevel::Medium,
        ),
        ("a host", connect("a.example"), NOTHING, RiskLevel::Medium),
        (
            "sensitive",
            request("fs.write", &["a"]),
            sensitive,
            RiskLevel::High,
        ),
        (
            "outside",
            request("fs.write", &["/etc/a"]),
            NOTHING,
            RiskLevel::High,
        ),
        (
            "policy",
            request("policy.update", &[]),
            NOTHING,
            RiskLevel::Critical,
        ),
        (
            "three medium ones",
            request("fs.delete", &many),
            over,
            RiskLevel::High,
        ),
        (
            "two medium ones",
            request("fs.delete", &["a"]),
            over,
            RiskLevel::Medium,
        ),
    ] {
        assert_eq!(Risk::of(&request, &facts).level, level, "{case}");
    }
    let risk = Risk::of(&request("shell.run", &[]), &NOTHING);
    assert_eq!(risk.factors, [RiskFactor::Executes, RiskFactor::Shell]);
}

#[test]
fn a_request_carries_all_reasons_for_review_and_nothing_else() {
    let asked = asked(&request("fs.write", &["src/a"]));
    let rules: Vec<&str> = asked.why.iter().map(|reason| &*reason.rule).collect();
    assert_eq!(rules, ["one", "three"]);
    assert_eq!(asked.expires, START.plus(LIFETIME));
}

type Change = (&'static str, fn(&mut Request));

/// Every part of a request that makes it another action.
const CHANGES: [Change; 17] = [
    ("syscall", |r| {
        r.syscall = Syscall::parse("fs.delete").unwrap();
    }),
    ("effects", |r| {
        r.effects = EffectSet::CHANGES;
    }),
    ("path", |r| r.paths = vec![path_of("src/b")]),
    ("one path more", |r| r.paths.push(path_of("src/b"))),
    ("host", |r| r.host = Some("b.example".into())),
    ("port", |r| r.port = Some(22)),
    ("command", |r| r.command.push("rm".into())),
    ("tool", |r| r.tool = Some("a.b".into())),
    ("secret", |r| r.secret = Some("key".into())),
    ("tier", |r| r.tier = Tier::Container),
    ("template", |r| r.template = Some("wide".into())),
    ("file size", |r| r.file_size = Some(9)),
    ("arguments", |r| {
        r.arguments = serde_json::json!({ "text": "evil" });
    }),
    ("user", |r| r.caller.user = UserId::new("eve").unwrap()),
    ("session", |r| r.caller.session = None),
    ("plugin", |r| {
        r.caller.plugin = PluginName::new("mcp").unwrap();
    }),
    ("workspace", |r| {
        r.caller.workspace = WorkspaceId::new("w2").unwrap();
    }),
];

#[test]
fn an_answer_counts_only_for_what_was_asked() {
    let original = request("fs.write", &["src/a"]);
    let rules = AnswerRules::default();
    let binding = |request: &Request, diff: Option<&Digest>| {
        Binding::of(request, diff, generation("policy"), Some(stage()))
    };
    let try_with = |current: &Binding| {
        let mut asked = asked(&original);
        let got = asked.answer(approve(&[]), &rules, current, START);
        assert_eq!(asked.answered.is_some(), got.is_ok());
        got.map(|grant| grant.is_some())
    };
    for (case, change) in CHANGES {
        let mut changed = original.clone();
        change(&mut changed);
        assert_eq!(
            try_with(&binding(&changed, None)),
            Err(AnswerError::Stale("the action")),
            "{case}"
        );
    }
    let good = binding(&original, None);
    let diff = Digest::of(b"another diff");
    assert!(try_with(&binding(&original, Some(&diff))).is_err());
    for (current, want) in [
        (
            Binding {
                generation: generation("new"),
                ..good
            },
            Err(AnswerError::Stale("the policy")),
        ),
        (
            Binding {
                stage: None,
                ..good
            },
            Err(AnswerError::Stale("the stage")),
        ),
        (good, Ok(true)),
    ] {
        assert_eq!(try_with(&current), want);
        // A denial closes the question whatever has changed.
        let mut asked = asked(&original);
        let deny = Answer {
            reply: Reply::Deny,
            ..approve(&[])
        };
        assert_eq!(asked.answer(deny, &rules, &current, START), Ok(None));
        let again = asked.answer(approve(&[]), &rules, &good, START);
        assert_eq!(again, Err(AnswerError::Settled));
    }
}

#[test]
fn the_order_of_arguments_makes_no_other_action_but_their_nesting_does() {
    let digest = |text: &str| {
        let mut request = request("tool.call", &[]);
        request.arguments = serde_json::from_str(text).unwrap();
        Binding::of(&request, None, generation("policy"), None).action
    };
    assert_eq!(
        digest(r#"{"a":1,"b":{"c":2,"d":3}}"#),
        digest(r#"{"b":{"d":3,"c":2},"a":1}"#)
    );
    for other in [
        r#"{"a":1,"b":2,"c":2}"#,
        r#"{"a":"1"}"#,
        r#"{"a":[1]}"#,
        r#"{"a\":1,\"b":1}"#,
    ] {
        assert_ne!(digest(r#"{"a":1}"#), digest(other), "{other}");
    }
}

#[test]
fn late_second_and_forged_answers_are_refused() {
    let rules = AnswerRules::default();
    let mut asked = asked(&request("fs.write", &["src/a"]));
    let binding = asked.binding;
    let person = || Answerer::Person(UserId::new("ada").unwrap());
    let by = |answered_by, channel| Answer {
        answered_by,
        channel,
        ..approve(&[])
    };
    for (answer, now, want) in [
        (approve(&[]), after(600), AnswerError::Expired),
        (
            by(person(), Channel::AgentOwn),
            START,
            AnswerError::AgentOwn,
        ),
        (
            by(Answerer::Policy("r".into()), Channel::Terminal),
            START,
            AnswerError::Author(Channel::Terminal),
        ),
        (
            Answer {
                rationale: Some("x".repeat(2_001).into()),
                ..approve(&[])
            },
            START,
            AnswerError::Rationale,
        ),
    ] {
        assert_eq!(asked.answer(answer, &rules, &binding, now), Err(want));
        assert!(asked.is_open(START));
    }
    let defer = Answer {
        reply: Reply::Defer,
        ..approve(&[])
    };
    assert_eq!(asked.answer(defer, &rules, &binding, START), Ok(None));
    assert!(asked.is_open(START) && !asked.is_open(after(600)));
    let deny = Answer {
        reply: Reply::Deny,
        ..approve(&[Condition::Uses(9)])
    };
    assert_eq!(
        asked.answer(deny, &rules, &binding, START),
        Ok(None),
        "a denial leaves no grant"
    );
    assert!(!asked.is_open(START));
    assert_eq!(
        asked.answer(approve(&[]), &rules, &binding, START),
        Err(AnswerError::Settled)
    );
}

#[test]
fn policy_answers_a_delegated_gate_under_its_own_name_only() {
    let delegated = AnswerRules {
        by_policy: [Gate::SensitiveWrite].into(),
        ..AnswerRules::default()
    };
    let policy = Answer {
        answered_by: Answerer::Policy("docs-are-fine".into()),
        channel: Channel::Policy,
        ..approve(&[])
    };
    let write = request("fs.write", &["docs/a"]);
    for (rules, want) in [(&delegated, true), (&AnswerRules::default(), false)] {
        let mut asked = asked(&write);
        let binding = asked.binding;
        let got = asked.answer(policy.clone(), rules, &binding, START);
        assert_eq!(got.is_ok_and(|grant| grant.is_some()), want);
    }
    let posing = Answer {
        answered_by: Answerer::Person(UserId::new("ada").unwrap()),
        ..policy
    };
    let mut asked = asked(&write);
    let binding = asked.binding;
    assert_eq!(
        asked.answer(posing, &delegated, &binding, START),
        Err(AnswerError::Author(Channel::Policy))
    );
}

#[test]
fn with_no_person_there_is_waiting_and_denying_and_no_third_way() {
    assert_eq!(AnswerRules::default().headless, Headless::Deny);
    for word in ["allow", "approve", "skip"] {
        assert!(serde_json::from_value::<Headless>(word.into()).is_err());
    }
}

#[test]
fn everything_survives_storage() {
    let mut asked = ApprovalRequest::new(
        ApprovalId::new("approval-1").unwrap(),
        &request("fs.write", &["src/a", "/etc/b"]),
        &NOTHING,
        &decision(),
        Some(Diff {
            digest: Digest::of(b"diff"),
            summary: "+1 -1".into(),
        }),
        Some(stage()),
        START,
        LIFETIME,
    );
    let binding = asked.binding;
    let conditions = [Condition::Uses(3), Condition::Until(after(9))];
    let grant = asked.answer(
        approve(&conditions),
        &AnswerRules::default(),
        &binding,
        START,
    );
    let mut grants = Grants::default();
    assert!(grants.insert(grant.unwrap().unwrap()));
    let text = serde_json::to_string(&(&asked, &grants)).unwrap();
    let back: (ApprovalRequest, Grants) = serde_json::from_str(&text).unwrap();
    assert_eq!(back, (asked, grants));
}

//! Attempts to get past the decision, to stall the loader, or to make a file read differently to a
//! person than to the machine. Each test is one attempt that must fail.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use airlock_core::{
    Caller, Digest, PluginName, Request, RequestPath, SessionId, Span, Syscall, TenantId, Tier,
    Timestamp, UserId, WorkspaceId,
};
use airlock_policy::approval::{
    Answer, AnswerRules, Answerer, ApprovalId, ApprovalRequest, Channel, Condition, GateFacts,
    Grant, Query, Reply, gate_for,
};
use airlock_policy::{
    BuiltIns, Contribution, Decision, Engine, ExtensionHost, Generation, Imposed, Layer, Opinion,
    Policy, Protected, Verdict,
};
use std::fmt::Write as _;
use std::time::Duration;

const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

fn request(syscall: &str, paths: &[&str]) -> Request {
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
    let mut request = Request::new(Syscall::parse(syscall).unwrap(), Tier::Process, caller);
    let parse = |path: &&str| RequestPath::parse(path, "/work").unwrap();
    request.paths = paths.iter().map(parse).collect();
    request
}

fn engine(text: &str) -> Engine {
    let policy = Policy::load("policy.yaml", text.as_bytes()).unwrap().policy;
    let protected = Protected::new("/work", ["/state/airlock"]).unwrap();
    Engine::new(
        policy,
        BuiltIns::standard(protected),
        ExtensionHost::new([]),
    )
}

fn verdict(engine: &Engine, request: &Request) -> Verdict {
    engine.decide(request, None, NOW).verdict
}

/// What this thread has used of a processor: how busy the machine is does not matter.
fn worked() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap()
}

/// Loads a file that is bounded by the limits but made to cost; unoptimised code gets its time, an
/// attack that works takes minutes.
fn loads_quickly(what: &str, text: &str) {
    let begin = worked();
    let loaded = Policy::load("policy.yaml", text.as_bytes());
    let took = worked().saturating_sub(begin);
    assert!(took < Duration::from_secs(15), "{what} took {took:?}");
    let problems = match loaded {
        Ok(loaded) => loaded.warnings,
        Err(error) => error.diagnostics,
    };
    assert!(problems.len() <= 202, "{what}: {} problems", problems.len());
    let bytes: usize = problems
        .iter()
        .map(|one| one.what.len() + one.fix.len())
        .sum();
    assert!(bytes < 1 << 20, "{what}: {bytes} bytes of problems");
}

#[test]
fn many_users_of_many_roles_load_quickly() {
    let mut text = "version: 1\nroles:\n".to_owned();
    for n in 0..100_000 {
        writeln!(text, " r{n}: []").unwrap();
    }
    text.push_str("users:\n");
    for n in 0..100_000 {
        writeln!(text, " u{n}: [r{}]", 99_999 - n / 100).unwrap();
    }
    loads_quickly("roles", &text);
}

#[test]
fn many_unknown_roles_are_reported_quickly_and_briefly() {
    let mut text = "version: 1\nroles:\n".to_owned();
    for n in 0..200_000 {
        writeln!(text, " role-number-{n}: []").unwrap();
    }
    text.push_str("users:\n");
    for n in 0..200 {
        writeln!(text, " u{n}: [x{n}]").unwrap();
    }
    loads_quickly("unknown roles", &text);
}

#[test]
fn many_rules_beside_many_denials_load_quickly() {
    let mut text = "version: 1\nrules:\n".to_owned();
    for n in 0..20_000 {
        writeln!(text, "- {{name: d{n}, match: {{user: a}}, action: deny}}").unwrap();
        writeln!(text, "- {{name: a{n}, match: {{user: b}}, action: allow}}").unwrap();
    }
    loads_quickly("denials", &text);
}

#[test]
fn a_shadowed_rule_in_long_lists_is_looked_for_within_bounds() {
    let list = |prefix: &str| {
        let words: Vec<String> = (0..100_000).map(|n| format!("{prefix}{n}")).collect();
        words.join(", ")
    };
    let text = format!(
        "version: 1\nrules:\n- {{name: d, match: {{path_glob: [{0}]}}, action: deny}}\n\
         - {{name: a, match: {{path_glob: [{1}]}}, action: allow}}\n",
        list("/s/"),
        list("/s/").replacen("/s/0", "/s/99999", 1),
    );
    loads_quickly("lists", &text);
}

#[test]
fn many_shadowed_rules_are_listed_up_to_a_bound() {
    let mut text = "version: 1\nrules:\n- {name: d, match: {}, action: deny}\n".to_owned();
    for n in 0..20_000 {
        writeln!(text, "- {{name: a{n}, match: {{user: b}}, action: allow}}").unwrap();
    }
    loads_quickly("shadowed", &text);
}

#[test]
fn examples_cost_no_more_than_the_file_is_worth() {
    let globs: Vec<String> = (0..200_000).map(|n| format!("/a/{n}")).collect();
    let mut text = format!(
        "version: 1\nrules:\n- name: d\n  match: {{path_glob: [{}]}}\n  action: deny\n  examples:\n    not_match:\n",
        globs.join(", ")
    );
    for n in 0..20_000 {
        writeln!(text, "    - {{syscall: fs.read, path: a/x{n}}}").unwrap();
    }
    loads_quickly("examples", &text);
}

#[test]
fn large_regular_expressions_load_quickly_and_take_little_memory() {
    let mut text = "version: 1\nrules:\n".to_owned();
    for n in 0..999 {
        let size = 8 + n % 3;
        writeln!(
            text,
            "- {{name: r{n}, match: {{arg: {{a: {{matches: '\\w{{{size}}}{n}'}}}}}}, action: deny}}"
        )
        .unwrap();
    }
    loads_quickly("expressions", &text);
    let after = resident_mebibytes();
    assert!(after < 700, "{after} MiB");
}

fn resident_mebibytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.and_then(|kib| kib.parse::<usize>().ok()).unwrap_or(0) / 1024
}

#[test]
fn a_pattern_or_name_with_characters_nobody_sees_is_refused() {
    for hidden in [
        '\u{ad}',
        '\u{34f}',
        '\u{115f}',
        '\u{1160}',
        '\u{17b4}',
        '\u{180e}',
        '\u{200c}',
        '\u{200d}',
        '\u{206a}',
        '\u{3164}',
        '\u{fe0f}',
        '\u{ffa0}',
        '\u{fff9}',
        '\u{1d173}',
        '\u{e0100}',
        '\u{a0}',
        '\u{2009}',
        '\u{3000}',
        '\u{2800}',
    ] {
        for text in [
            format!(
                "version: 1\nrules:\n- {{name: d, match: {{path_glob: 'secr{hidden}et/**'}}, action: deny}}\n"
            ),
            format!(
                "version: 1\nrules:\n- {{name: d, match: {{path_glob: \"secr\\U{:08x}et/**\"}}, action: deny}}\n",
                u32::from(hidden)
            ),
        ] {
            assert!(
                Policy::load("policy.yaml", text.as_bytes()).is_err(),
                "U+{:04X}",
                u32::from(hidden)
            );
        }
    }
}

#[test]
fn words_of_other_scripts_stay_welcome_where_people_read() {
    let text = "version: 1\n# این\u{200c}جا\nrules:\n- { name: d, match: { path_glob: 'straße/日本/**' }, action: deny, reason: می\u{200c}شود 👩\u{200d}💻 }\n";
    assert!(Policy::load("policy.yaml", text.as_bytes()).is_ok());
}

const METADATA_DENIED: &str = "version: 1
rules:
- { name: a, match: { syscall: net.connect }, action: allow }
- { name: d, match: { host: [169.254.169.254, '::1', internal.example, '*.corp.example'] }, action: deny }
";

#[test]
fn no_other_spelling_of_a_denied_host_is_allowed() {
    let engine = engine(METADATA_DENIED);
    for host in [
        "169.254.169.254",
        "169.254.169.254.",
        "0xa9fea9fe",
        "2852039166",
        "0251.0376.0251.0376",
        "169.254.43518",
        "[::ffff:169.254.169.254]",
        "::ffff:a9fe:a9fe",
        "::1",
        "[::1]",
        "0:0:0:0:0:0:0:1",
        "::0001",
        "::1%lo",
        "INTERNAL.example",
        "internal.example..",
        "internal\u{3002}example",
        "ｉnternal.example",
        "internal.example:443",
        "user@internal.example",
        " internal.example",
        "internal.example\0.org",
        "a.CORP.example.",
        "",
    ] {
        let mut request = request("net.connect", &[]);
        request.host = Some(host.into());
        request.port = Some(443);
        assert_eq!(verdict(&engine, &request), Verdict::Deny, "{host:?}");
    }
    let mut fine = request("net.connect", &[]);
    fine.host = Some("example.org".into());
    assert_eq!(verdict(&engine, &fine), Verdict::Allow);
}

#[test]
fn no_odd_spelling_of_a_host_fits_an_allow_for_it() {
    let engine = engine(
        "version: 1\nrules:\n- { name: a, match: { host: ['*.good.example', 10.0.0.1] }, action: allow }\n",
    );
    for (host, want) in [
        ("api.good.example", Verdict::Allow),
        ("10.0.0.1", Verdict::Allow),
        ("evil.example/.good.example", Verdict::Deny),
        ("evil.example#.good.example", Verdict::Deny),
        ("evil.example\\.good.example", Verdict::Deny),
        ("evil@x.good.example", Verdict::Deny),
        ("evil.example\n.good.example", Verdict::Deny),
        ("evil example.good.example", Verdict::Deny),
        ("..good.example", Verdict::Deny),
        (".good.example", Verdict::Deny),
    ] {
        let mut request = request("net.connect", &[]);
        request.host = Some(host.into());
        assert_eq!(verdict(&engine, &request), want, "{host:?}");
    }
}

#[test]
fn a_name_with_characters_a_file_system_ignores_is_still_protected() {
    let engine = engine("version: 1\nrules:\n- { name: a, match: {}, action: allow }\n");
    for ignored in [
        '\u{ad}',
        '\u{34f}',
        '\u{61c}',
        '\u{115f}',
        '\u{17b5}',
        '\u{180b}',
        '\u{200b}',
        '\u{200d}',
        '\u{2060}',
        '\u{3164}',
        '\u{fe00}',
        '\u{ffa0}',
        '\u{1bca0}',
        '\u{1d17a}',
        '\u{e0001}',
    ] {
        let policy = request("fs.write", &[&format!(".air{ignored}lock/policy.yaml")]);
        assert_eq!(verdict(&engine, &policy), Verdict::Deny, "{ignored:?}");
        let hook = request("fs.write", &[&format!(".git/ho{ignored}oks/pre-commit")]);
        assert_eq!(
            verdict(&engine, &hook),
            Verdict::RequireReview,
            "{ignored:?}"
        );
    }
}

fn grant(original: &Request, condition: Condition) -> Grant {
    let facts = GateFacts {
        host_granted: false,
        sensitive_path: true,
        over_budget: false,
        first_use: false,
    };
    let decision = Decision {
        verdict: Verdict::RequireReview,
        contributions: vec![Contribution {
            layer: Layer::Rules,
            rule: "sensitive".into(),
            opinion: Opinion::RequireReview,
            reason: "because".into(),
        }]
        .into(),
        imposed: Imposed::default(),
        generation: Generation::new(Digest::of(b"policy")),
    };
    let mut asked = ApprovalRequest::new(
        ApprovalId::new("approval-1").unwrap(),
        original,
        &facts,
        &decision,
        None,
        None,
        NOW,
        Span::from_secs(600),
    );
    let answer = Answer {
        reply: Reply::Approve,
        conditions: vec![condition],
        rationale: None,
        answered_by: Answerer::Person(UserId::new("ada").unwrap()),
        channel: Channel::Terminal,
    };
    let binding = asked.binding;
    let given = asked.answer(answer, &AnswerRules::default(), &binding, NOW);
    given.unwrap().unwrap()
}

fn covers(grant: &Grant, request: &Request) -> bool {
    let facts = GateFacts {
        host_granted: false,
        sensitive_path: true,
        over_budget: false,
        first_use: false,
    };
    grant.covers(&Query {
        request,
        gate: gate_for(request, &facts),
        diff: None,
        generation: Generation::new(Digest::of(b"policy")),
        stage: None,
        now: NOW,
    })
}

#[test]
fn a_wide_grant_never_reaches_what_a_built_in_rule_holds_for_review() {
    let shown = request("fs.write", &["Cargo.toml"]);
    let everywhere = RequestPath::parse(".", "/work").unwrap();
    for condition in [
        Condition::Verb(Syscall::parse("fs.write").unwrap()),
        Condition::Directory(everywhere),
    ] {
        let grant = grant(&shown, condition);
        assert!(covers(&grant, &request("fs.write", &["src/lib.rs"])));
        for path in [
            ".git/hooks/pre-commit",
            ".airlock/config.yaml",
            ".AIRLOCK/plugins/x.js",
            ".envrc",
            "CLAUDE.md",
        ] {
            let hidden = request("fs.write", &["src/lib.rs", path]);
            assert!(!covers(&grant, &hidden), "{path}");
        }
    }
    let named = grant(
        &request("fs.write", &[".envrc"]),
        Condition::Directory(RequestPath::parse(".", "/work").unwrap()),
    );
    assert!(covers(&named, &request("fs.write", &[".envrc"])));
    assert!(!covers(&named, &request("fs.write", &[".git/config"])));
}

#[test]
fn the_default_policy_keeps_usual_places_of_secrets_from_an_agent() {
    let engine = engine(airlock_policy::DEFAULT_POLICY);
    for path in [
        ".env",
        "prod.env",
        ".ENV",
        ".dev.vars",
        "AuthKey_1.p8",
        "putty.ppk",
        "release.keystore",
        "CERT.PEM",
        ".aws/config",
        ".aws/sso/cache/a.json",
        ".config/gh/hosts.yml",
        ".vault-token",
        ".my.cnf",
        "infra/terraform.tfstate.backup",
        "infra/prod.tfvars",
        ".m2/settings.xml",
        ".claude/.credentials.json",
        "gcp/service-account-prod.json",
        ".bash_history",
    ] {
        let read = request("fs.read", &[path]);
        assert_eq!(verdict(&engine, &read), Verdict::Deny, "{path}");
    }
    for path in [
        "src/env.rs",
        ".env.example",
        "environment.yml",
        "docs/keys.md",
    ] {
        let mut read = request("fs.read", &[path]);
        read.tier = Tier::Kernel;
        assert_eq!(verdict(&engine, &read), Verdict::Allow, "{path}");
    }
}

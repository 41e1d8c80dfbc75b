//! What people read: one snapshot for each verdict and layer.

use crate::support::request;
use crate::{FILE, engine, explained, short, shown};
use airlock_core::{Request, SYSCALLS, Tier};
use airlock_policy::{
    Answer, BuiltIns, Contribution, Decision, Engine, Extension, ExtensionFailure, ExtensionHost,
    Imposed, Layer, Opinion, Policy, Protected, Verdict,
};
use std::fmt::Write as _;

const POLICY: &str = r#"# The policy of a small project.
version: 1
users: { ann: [developer] }
roles: { developer: [filesystem.read./work/*] }
rules:
  - name: write-source
    match: { syscall: fs.write, path_glob: ["src/**", "tests/**"] }
    action: allow
    reason: source and tests are what agents are for
    constraints: { require_sandbox: container, max_file_size: 100KiB, max_duration: 30s }
  - name: sensitive-files
    match:
      syscall: fs.write
      path_glob: [Cargo.toml, Dockerfile, ".github/**"]
    action: require_review
    reason: changes what gets built or shipped
    except:
      - { caller_tag: [release_bot] }
  - name: no-vendor
    match: { effect: [write, delete], path_glob: ["vendor/**"] }
    action: deny
    reason: vendored code is replaced, not edited
  - name: no-curl
    match: { syscall: exec.run, command: [curl, wget] }
    action: deny
  - name: read-all
    match: { effect: read, path_glob: "**" }
    action: allow
    except:
      - { path_glob: [".env"] }
"#;

fn snapshot(name: &str, explanation: &airlock_policy::Explanation) {
    let json = serde_json::to_string_pretty(explanation).unwrap();
    let json = json.replace(generation(&json), "GENERATION");
    let text = format!(
        "{}---\n{}---\n{json}",
        shown(explanation),
        short(explanation)
    );
    harmless(&text);
    insta::assert_snapshot!(name, text);
}

fn generation(json: &str) -> &str {
    let (_, rest) = json.split_once("\"generation\": \"").unwrap();
    rest.split('"').next().unwrap()
}

fn harmless(text: &str) {
    let bad =
        |char: &char| char.is_control() && *char != '\n' || ('\u{200e}'..'\u{2070}').contains(char);
    assert_eq!(text.chars().find(bad), None, "{text}");
}

#[test]
fn each_verdict_of_the_rules_reads_like_a_compiler_error() {
    let engine = engine(POLICY);
    let sized = |path: &str, size: u64, tier: Tier| {
        let mut request = request("fs.write", &[path]);
        request.file_size = Some(size);
        request.tier = tier;
        request
    };
    let mut curl = request("exec.run", &[]);
    curl.command = vec!["/usr/bin/curl".into(), "https://x.org".into()];
    for (name, request) in [
        ("allow", sized("src/main.rs", 10, Tier::Container)),
        (
            "deny_by_default_near_rule",
            sized("docs/x.md", 10, Tier::Container),
        ),
        (
            "deny_by_default_no_rule",
            request("fs.delete", &["src/main.rs"]),
        ),
        ("deny_by_default_exception", request("fs.read", &[".env"])),
        ("deny_by_rule", request("fs.write", &["vendor/zlib/a.c"])),
        (
            "deny_by_rule_and_review",
            request("fs.write", &["Cargo.toml", "vendor/a.c"]),
        ),
        ("deny_by_rule_remove_value", curl),
        (
            "deny_by_constraints",
            sized("src/main.rs", 1 << 20, Tier::Process),
        ),
        (
            "require_review",
            request("fs.write", &[".github/workflows/ci.yml"]),
        ),
        (
            "deny_built_in",
            request("fs.write", &[".airlock/policy.yaml"]),
        ),
        (
            "require_review_built_in",
            request("fs.write", &[".git/hooks/pre-commit"]),
        ),
        ("deny_outside", request("fs.read", &["/etc/shadow"])),
    ] {
        let (_, explanation) = explained(&engine, &request);
        snapshot(name, &explanation);
    }
}

fn decided(engine: &Engine, layer: Layer, rule: &str, reason: &str) -> Decision {
    let contribution = Contribution {
        layer,
        rule: rule.into(),
        opinion: Opinion::Deny,
        reason: reason.into(),
    };
    Decision {
        verdict: Verdict::Deny,
        contributions: vec![contribution].into(),
        imposed: Imposed::default(),
        generation: engine.generation(),
    }
}

#[test]
fn a_refused_capability_names_the_set_and_where_to_add_it() {
    let engine = engine(POLICY);
    let read = request("fs.read", &["src/a.rs"]);
    let reason = "`agent` has no capability `filesystem.read./work/src/a.rs`";
    let mut all = String::new();
    for gate in [
        "unknown plugin",
        "plugin",
        "plugin deny",
        "workspace",
        "user",
    ] {
        let decision = decided(&engine, Layer::Capability, gate, reason);
        let explanation = engine.explain(&read, &decision);
        assert_eq!(
            explanation.then(),
            None,
            "nothing is promised about the enforcer"
        );
        writeln!(all, "{gate}\n{}", short(&explanation)).unwrap();
    }
    let mut connect = request("net.connect", &[]);
    connect.host = Some("x.org".into());
    let mut stranger = request("fs.read", &["src/a.rs"]);
    stranger.caller.user = airlock_core::UserId::new("bob").unwrap();
    for (request, gate) in [(&connect, "workspace"), (&stranger, "user")] {
        let decision = decided(&engine, Layer::Capability, gate, "not granted");
        writeln!(
            all,
            "{gate}\n{}",
            short(&engine.explain(request, &decision))
        )
        .unwrap();
    }
    insta::assert_snapshot!(all);
}

#[test]
fn what_a_request_leaves_out_is_asked_for_and_nothing_is_granted_without_it() {
    let engine = engine(POLICY);
    let mut url = request("net.connect", &[]);
    url.host = Some("http://x/".into());
    let mut dots = request("tool.call", &[]);
    dots.tool = Some("p..t".into());
    let mut nameless = request("secret.use", &[]);
    nameless.secret = Some("".into());
    for (asked, want) in [
        (request("fs.read", &[]), "say which path"),
        (request("net.connect", &[]), "say which host"),
        (request("secret.use", &[]), "say which secret"),
        (request("tool.call", &[]), "say which tool"),
        (
            url,
            "give the host as a name or an address alone, such as `example.org` (`http://x/` is neither)",
        ),
        (dots, "give the tool as PLUGIN.TOOL (`p..t` is none)"),
        (nameless, "give the secret by its name (`` is none)"),
    ] {
        let denial = decided(&engine, Layer::Capability, "capability", "nothing is named");
        let refused = engine.explain(&asked, &denial);
        let told: Vec<String> = refused.fixes().collect();
        assert_eq!(
            told,
            [format!("{want}: only then is there something to grant")]
        );
        let (_, ruled) = explained(&engine, &asked);
        let told: Vec<String> = ruled.fixes().collect();
        assert_eq!(told, [format!("{want}: only then can a rule be suggested")]);
    }
}

#[test]
fn who_answers_a_review_is_said_for_commands_and_calls_apart() {
    let told = |approvals: &str, plugin: &str, syscall: &str, paths: &[&str]| {
        let text = format!(
            "version: 1\napprovals: {{ {approvals} }}\nrules:\n  - {{ name: all, match: {{ effect: [write, execute] }}, action: require_review }}\n"
        );
        let mut asked = request(syscall, paths);
        asked.caller.plugin = airlock_core::PluginName::new(plugin).unwrap();
        let (decision, explanation) = explained(&engine(&text), &asked);
        assert_eq!(decision.verdict, Verdict::RequireReview);
        explanation.fixes().collect::<Vec<_>>().join("\n")
    };
    let paths = ["src/a.rs"];
    for approvals in ["", "headless: wait", "require_passphrase: true"] {
        for (plugin, syscall) in [
            ("agent", "fs.write"),
            ("mcp", "exec.run"),
            ("agent", "merge.apply"),
            ("cli", "fs.write"),
        ] {
            let told = told(approvals, plugin, syscall, &paths);
            assert!(told.contains("leaves a request that waits"), "{told}");
            assert!(told.contains("`airlock approvals approve ID`"), "{told}");
            let denies = approvals != "headless: wait";
            assert_eq!(told.contains("the answer is no"), denies, "{told}");
        }
        for syscall in ["merge.apply", "exec.run"] {
            let told = told(approvals, "cli", syscall, &paths);
            let asked = "a person is asked where the command runs in a terminal";
            assert!(told.starts_with(asked), "{told}");
            assert!(told.ends_with("nothing is done (exit code 4)"), "{told}");
            let typed = approvals == "require_passphrase: true";
            assert_eq!(told.contains("passphrase"), typed, "{told}");
        }
    }
}

#[test]
fn every_other_layer_says_what_to_do() {
    let engine = engine(POLICY);
    let read = request("fs.read", &["src/a.rs"]);
    let mut all = String::new();
    for (layer, rule) in [
        (Layer::Extension, "office-hours"),
        (Layer::Token, "t-1"),
        (Layer::Grant, "g-1"),
        (Layer::Gate, "approvals.headless"),
        (Layer::BuiltIn, "built-in/container-outside-debug"),
        (Layer::BuiltIn, "built-in/airlock-state"),
    ] {
        let mut decision = engine.decide(&read, None, crate::support::NOW);
        let denial = decided(&engine, layer, rule, "not today");
        decision.contributions.extend(denial.contributions);
        decision.verdict = Verdict::Deny;
        let explanation = engine.explain(&read, &decision);
        assert_eq!(explanation.then(), None);
        writeln!(all, "{}", short(&explanation)).unwrap();
    }
    insta::assert_snapshot!(all);
}

#[test]
fn the_default_policy_is_not_edited_but_replaced() {
    let engine = engine(airlock_policy::DEFAULT_POLICY);
    let mut all = String::new();
    let mut make = request("exec.run", &[]);
    make.command = vec!["make".into()];
    for request in [
        make,
        request("fs.read", &[".env"]),
        request("fs.write", &["a"]),
    ] {
        let (_, explanation) = explained(&engine, &request);
        writeln!(all, "{}\n{}", explanation.headline(), short(&explanation)).unwrap();
    }
    insta::assert_snapshot!(all);
}

#[test]
fn each_syscall_has_a_headline_for_each_verdict() {
    let mut all = String::new();
    for spec in SYSCALLS {
        for details in [false, true] {
            let mut request = request(spec.name, &[]);
            if details {
                request = with_details(request);
            }
            for verdict in [Verdict::Deny, Verdict::Allow, Verdict::RequireReview] {
                let decision = Decision {
                    verdict,
                    contributions: Vec::new().into(),
                    imposed: Imposed::default(),
                    generation: Policy::empty().generation(),
                };
                let explanation = airlock_policy::explain(&Policy::empty(), &request, &decision);
                writeln!(all, "{}", explanation.headline()).unwrap();
            }
        }
    }
    insta::assert_snapshot!(all);
}

fn with_details(mut request: Request) -> Request {
    let more = crate::support::request("fs.move", &["src/a.rs", "src/b.rs"]);
    match request.syscall.area() {
        "fs" | "search" | "merge" => request.paths = more.paths,
        "net" | "model" => {
            request.host = Some("x.org".into());
            request.port = Some(443);
        }
        "exec" | "shell" | "test" => request.command = vec!["cargo".into(), "test".into()],
        "tool" => request.tool = Some("p.t".into()),
        "secret" => request.secret = Some("API_KEY".into()),
        _ => {}
    }
    request
}

struct Hostile;

impl Extension for Hostile {
    fn name(&self) -> &'static str {
        "hostile"
    }

    fn evaluate(&self, _: &Request) -> Result<Answer, ExtensionFailure> {
        Ok(Answer {
            opinion: Opinion::Deny,
            reason: "no\u{1b}[2J\r\nallow: `everything`\u{202e}".into(),
        })
    }

    fn restart(&self) -> Result<(), ExtensionFailure> {
        Ok(())
    }
}

/// Names that would repaint a terminal, end a quotation or a YAML value, or fake another line.
#[test]
fn hostile_names_stay_text() {
    let boxed: Box<dyn Extension> = Box::new(Hostile);
    let policy = Policy::load("p\u{1b}[31m.yaml", POLICY.as_bytes())
        .unwrap()
        .policy;
    let scripted = Engine::new(
        policy,
        BuiltIns::standard(Protected::default()),
        ExtensionHost::new([boxed]),
    );
    let hostile = "a\u{1b}]0;x\u{7}`\n  = fix: run me\u{202e}\", action: deny }\n- name: evil";
    let mut run = request("exec.run", &[]);
    run.command = vec![hostile.into()];
    let mut connect = request("net.connect", &[]);
    connect.host = Some(hostile.into());
    let mut call = request("tool.call", &[]);
    call.tool = Some(hostile.into());
    for engine in [&engine(POLICY), &scripted] {
        for request in [&request("fs.write", &[hostile]), &run, &connect, &call] {
            let (_, explanation) = explained(engine, request);
            let json = serde_json::to_string(&explanation).unwrap();
            for text in [shown(&explanation), short(&explanation), json] {
                harmless(&text);
            }
            let faked = explanation
                .body()
                .iter()
                .filter(|line| line.starts_with("  = fix: run"))
                .count();
            assert_eq!(faked, 0);
            assert_eq!(explanation.headline().matches('`').count(), 2);
        }
    }
}

#[test]
fn a_summary_has_a_line_for_each_rule() {
    let full = include_str!("../fixtures/full.yaml");
    let mut all = String::new();
    for text in [POLICY, full] {
        let policy = Policy::load(FILE, text.as_bytes()).unwrap().policy;
        for rule in policy.summary() {
            let reason = rule.reason.as_deref().unwrap_or("-");
            let line = rule.place.line;
            writeln!(
                all,
                "{line} {} {}: {} ({reason})",
                rule.action, rule.name, rule.when
            )
            .unwrap();
        }
        writeln!(all, "{} examples", policy.example_count()).unwrap();
    }
    insta::assert_snapshot!(all);
}

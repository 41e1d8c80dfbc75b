//! The policy file loader: what it accepts, every problem it names, and what it survives.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "load/cases.rs"]
mod cases;
#[path = "load/hostile.rs"]
mod hostile;
#[path = "load/schema.rs"]
mod schema;

use airlock_core::{Effect, EffectSet, Mode, Phase, Span, Tier};
use airlock_policy::{
    Action, ArgTest, CODES, DEFAULT_POLICY, Diagnostic, LoadError, OnFlag, Place, Policy, Reach,
    Severity, Verdict, parse_tests, read_document, render,
};
use cases::{cases, head, matching, rule};
use std::collections::BTreeSet;

pub(crate) const FULL: &str = include_str!("fixtures/full.yaml");
const BROKEN: &str = include_str!("fixtures/broken.yaml");

/// Every problem of a file, warnings included.
pub(crate) fn problems(bytes: &[u8]) -> Vec<Diagnostic> {
    read_document(bytes).map_or_else(|problems| problems, |(_, warnings)| warnings)
}

fn codes(text: &str) -> Vec<&'static str> {
    problems(text.as_bytes())
        .iter()
        .map(|problem| problem.code)
        .collect()
}

fn shown(text: &str) -> String {
    render(text, ".airlock/policy.yaml", &problems(text.as_bytes()))
}

#[test]
fn each_problem_has_its_code_and_its_exact_place() {
    let mut wrong = Vec::new();
    for (code, bytes, (line, column)) in cases() {
        let found = problems(&bytes);
        let text: String = String::from_utf8_lossy(&bytes).chars().take(300).collect();
        let Some(hit) = found.iter().find(|problem| problem.code == code) else {
            wrong.push(format!("{code} is not among {found:?}\n{text}"));
            continue;
        };
        if hit.place != (Place { line, column }) {
            wrong.push(format!(
                "{code} is at {:?}, not {line}:{column}\n{text}",
                hit.place
            ));
        }
        assert!(
            !hit.what.is_empty() && !hit.fix.is_empty() && hit.length > 0,
            "{hit:?}"
        );
        assert!(!hit.what.ends_with('.'), "{hit:?}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_code_is_tested_and_every_tested_code_is_documented() {
    let tested: BTreeSet<&str> = cases().iter().map(|(code, ..)| *code).collect();
    let known: BTreeSet<&str> = CODES.iter().map(|(code, _)| *code).collect();
    assert_eq!(tested, known);
}

#[test]
fn only_warnings_let_a_file_load() {
    for (code, bytes, _) in cases() {
        // The largest files are refused before anything is decoded, as the other tests show.
        if bytes.len() > 100_000 {
            continue;
        }
        let loaded = read_document(&bytes);
        let all = problems(&bytes);
        let found = all.iter().find(|problem| problem.code == code);
        let warning = found.expect("the problem").severity == Severity::Warning;
        let is_warning = matches!(
            code,
            "policy/empty-path-glob"
                | "policy/empty-condition"
                | "policy/except-equals-match"
                | "policy/allows-everything"
                | "policy/no-effect"
        );
        assert_eq!(
            (loaded.is_ok(), warning),
            (is_warning, is_warning),
            "{code}"
        );
    }
}

#[test]
fn a_file_with_many_mistakes_reports_them_all_at_once() {
    insta::assert_snapshot!(shown(BROKEN));
}

#[test]
fn problems_come_in_the_order_of_the_file() {
    let found = problems(BROKEN.as_bytes());
    assert!(found.len() >= 20, "{}", found.len());
    assert!(found.is_sorted_by_key(|problem| problem.place));
}

#[test]
fn suggestions_name_the_nearest_word() {
    for (text, want) in [
        (matching("path_globs: a"), "did you mean `path_glob`?"),
        (matching("effect: raed"), "did you mean `read`?"),
        (matching("syscall: fs.wirte"), "did you mean `fs.write`?"),
        (matching("syscall: \"fss.*\""), "did you mean `fs.*`?"),
        (
            matching("state: code_writting"),
            "did you mean `code_writing`?",
        ),
        (
            rule("    match: { user: a }\n    action: require-review"),
            "did you mean `require_review`?",
        ),
        (
            head("approvals: { headless: weit }"),
            "did you mean `wait`?",
        ),
    ] {
        let found = problems(text.as_bytes());
        assert!(
            found.iter().any(|problem| problem.fix == want),
            "{want}: {found:?}"
        );
    }
}

#[test]
fn a_fix_for_a_number_leads_to_one_that_is_taken() {
    for (text, want) in [
        (
            head("audit: { retention_days: 0 }"),
            "write a number from 1 to 36500 in decimal digits",
        ),
        (
            matching("port: 99999"),
            "write a number from 1 to 65535 in decimal digits",
        ),
        (
            matching("port: 0443"),
            "write a number from 1 to 65535 in decimal digits",
        ),
        (matching("port: \"443\""), "remove the quotes"),
        (
            matching("port: \"0\""),
            "write a number from 1 to 65535, without quotes",
        ),
        (
            "version: \"1\"\n".to_owned(),
            "remove the quotes: write `version: 1`",
        ),
        (
            "version: \"2\"\n".to_owned(),
            "write `version: 1`; a newer file needs a newer Airlock",
        ),
    ] {
        let found = problems(text.as_bytes());
        let fixes: Vec<&str> = found.iter().map(|problem| problem.fix.as_str()).collect();
        assert_eq!(fixes, [want], "{text}");
    }
}

#[test]
fn globs_that_only_exclude_are_one_error_and_no_warning_besides() {
    let text = matching("path_glob: [\"!a\"]");
    let error = Policy::load("p.yaml", text.as_bytes()).unwrap_err();
    let found: Vec<&str> = error.diagnostics.iter().map(|one| one.code).collect();
    assert_eq!(found, ["policy/condition"]);
}

#[test]
fn a_full_file_decodes_to_what_it_says() {
    let (document, warnings) = read_document(FULL.as_bytes()).unwrap_or_else(|found| {
        panic!("{}", render(FULL, "full.yaml", &found));
    });
    // It has everything there is, and so what nothing goes by yet.
    let codes: Vec<&str> = warnings.iter().map(|warning| warning.code).collect();
    assert_eq!(codes, ["policy/no-effect"; 5], "{warnings:?}");
    assert_eq!(document.workspace.minimum_tier, Tier::Container);
    assert_eq!(document.users["bob"], ["developer".into()]);
    assert_eq!(document.network.default, Reach::Restricted);
    assert_eq!(document.network.whitelist["crates"][0].port, [443]);
    assert_eq!(document.network.whitelist["crates"][1].port, [443, 80]);
    assert_eq!(document.templates["integration-test"].cpus, Some(500));
    assert_eq!(document.phases.mode, Mode::Explore);
    assert_eq!(document.sanitise.flagged, OnFlag::Block);
    assert_eq!(document.merge.keep_undo, Span::from_secs(48 * 3_600));
    let rule = &document.rules[0];
    assert_eq!(
        (&*rule.name, rule.action),
        ("everything-asked", Action::Allow)
    );
    assert_eq!(
        rule.place,
        Place {
            line: 89,
            column: 5
        }
    );
    assert_eq!(
        rule.when.effect,
        Some(EffectSet::of(&[Effect::Write, Effect::Execute]))
    );
    assert_eq!(rule.when.state, Some(vec![Phase::CodeWriting]));
    let tests: Vec<&ArgTest> = rule
        .when
        .arg
        .iter()
        .flatten()
        .map(|arg| &arg.test)
        .collect();
    assert_eq!(tests[0], &ArgTest::Equals(1.into()));
    assert_eq!(tests[3], &ArgTest::Equals(serde_json::json!([1, "two"])));
    assert_eq!(rule.constraints.max_duration, Some(Span::from_secs(30)));
    assert_eq!(
        rule.examples
            .iter()
            .map(|e| e.should_match)
            .collect::<Vec<_>>(),
        [true, false]
    );
}

#[test]
fn the_guides_example_loads() {
    let text = r#"
version: 1
rules:
  - name: write-source
    match: { syscall: fs.write, path_glob: ["src/**", "tests/**"] }
    action: allow
    constraints: { require_sandbox: process, max_file_size: 100KiB }
  - name: sensitive-files
    match: { syscall: fs.write, path_glob: [Cargo.toml, Dockerfile, ".github/**"] }
    action: require_review
    reason: changes what gets built or shipped
    except:
      - { caller_tag: [release_bot] }
    examples:
      match:     [{ syscall: fs.write, path: .github/workflows/ci.yml }]
      not_match: [{ syscall: fs.write, path: src/main.rs }]
"#;
    assert_eq!(codes(text), [""; 0]);
}

#[test]
fn an_empty_policy_allows_nothing() {
    for text in [
        "version: 1\n",
        "version: 1\nrules: []\n",
        "---\nversion: 1\n...\n",
    ] {
        let (document, _) = read_document(text.as_bytes()).unwrap();
        assert!(document.rules.is_empty());
        assert!(document.roles.is_empty() && document.commands.is_empty());
        assert_eq!(document.network.default, Reach::None);
        assert!(!document.merge.automatic && document.approvals.automatic.is_empty());
    }
}

#[test]
fn windows_line_ends_change_nothing() {
    let crlf = FULL.replace('\n', "\r\n");
    assert_eq!(
        read_document(crlf.as_bytes()).unwrap(),
        read_document(FULL.as_bytes()).unwrap()
    );
    let broken = problems(BROKEN.replace('\n', "\r\n").as_bytes());
    assert_eq!(broken, problems(BROKEN.as_bytes()));
}

#[test]
fn a_null_condition_never_widens_a_rule() {
    for field in [
        "syscall",
        "path_glob",
        "user",
        "host",
        "port",
        "mode",
        "arg",
    ] {
        for nothing in ["", " ~", " null"] {
            let text = matching(&format!("{field}:{nothing}"));
            assert_eq!(codes(&text).len(), 1, "{text}");
            assert!(read_document(text.as_bytes()).is_err(), "{text}");
        }
    }
}

#[test]
fn hosts_are_lower_case_names_or_addresses() {
    for (host, want) in [
        ("Example.ORG", Some("example.org")),
        ("*.Example.org", Some("*.example.org")),
        ("127.0.0.1", Some("127.0.0.1")),
        ("::1", Some("::1")),
        ("localhost", Some("localhost")),
        ("*", None),
        ("*.*", None),
        ("a.*.org", None),
        ("*example.org", None),
        ("example.org.", None),
        ("example.org:443", None),
        ("user@example.org", None),
        ("http://example.org", None),
        ("exa mple.org", None),
        ("b\u{fc}cher.example", None),
        ("127.1", None),
        ("2130706433", None),
    ] {
        let got = read_document(matching(&format!("host: \"{host}\"")).as_bytes()).ok();
        let got = got.and_then(|(document, _)| document.rules[0].when.host.clone());
        assert_eq!(got.as_ref().map(|hosts| &*hosts[0]), want, "{host}");
    }
}

#[test]
fn rendering_is_harmless_whatever_the_file_holds() {
    let wide = matching("user: \"\u{4f60}\u{597d}\", plugin: \u{4f60}");
    let long = matching(&format!("user: [{}], plugin: Bad", "a, ".repeat(400)));
    let tabs = matching("user:\t\t\"\"");
    let escapes = "version: 1\n# \u{1b}[2J\u{202e}\n";
    let text = [wide.as_str(), &long, &tabs, escapes]
        .map(shown)
        .join("\n----\n");
    assert!(
        text.chars().all(|c| c == '\n' || !c.is_control()),
        "{text:?}"
    );
    assert!(text.lines().all(|line| line.chars().count() < 130));
    insta::assert_snapshot!(text);
}

#[test]
fn rendering_survives_places_outside_the_text() {
    let mut found = problems(b"version: 2\n");
    for (line, column, length) in [
        (0, 0, 0),
        (99, 1, 1),
        (1, 5_000, 9),
        (u32::MAX, u32::MAX, u32::MAX),
    ] {
        found[0].place = Place { line, column };
        found[0].length = length;
        assert!(render("version: 2\n", "p", &found).contains("policy/version"));
        assert!(render("", "p\u{1b}", &found).contains("p\u{fffd}:"));
    }
}

#[test]
fn a_load_error_sums_up_its_problems() {
    let diagnostics = problems(BROKEN.as_bytes());
    let error = LoadError {
        name: "p.yaml".to_owned(),
        diagnostics,
    };
    insta::assert_snapshot!(format!("{error}\n{}", error.hint().unwrap()));
}

#[test]
fn the_default_policy_loads_without_warnings() {
    let (document, warnings) = read_document(DEFAULT_POLICY.as_bytes()).unwrap_or_else(|found| {
        panic!("{}", render(DEFAULT_POLICY, "default.yaml", &found));
    });
    assert_eq!(warnings, []);
    assert!(document.rules.iter().all(|rule| rule.reason.is_some()));
    assert_eq!(document.network.default, Reach::None);
}

#[test]
fn an_example_is_a_request_by_a_neutral_caller() {
    let (document, _) = read_document(FULL.as_bytes()).unwrap();
    let request = document.rules[0].examples[0].fields.request().unwrap();
    assert_eq!(request.caller.user.as_str(), "alice");
    assert_eq!(
        request.effects,
        EffectSet::of(&[Effect::Write, Effect::Execute])
    );
    assert_eq!(request.paths[1].as_str(), "src/b.rs");
    assert_eq!(request.secret.as_deref(), Some("deploy-key"));
    for (lines, tier, path) in [
        ("{ syscall: fs.read, path: a }", Tier::Kernel, "a"),
        ("{ syscall: fs.read, path: ../a }", Tier::Kernel, "/a"),
        (
            "{ syscall: fs.read, path: a, effect: network }",
            Tier::Process,
            "a",
        ),
        ("{ syscall: policy.update, path: a }", Tier::Kernel, "a"),
        (
            "{ syscall: fs.write, path: /workspace/a }",
            Tier::Process,
            "a",
        ),
        (
            "{ syscall: exec.run, tier: container, path: /etc/x }",
            Tier::Container,
            "/etc/x",
        ),
    ] {
        let text = format!("tests: [{{ expect: deny, request: {lines} }}]");
        let request = parse_tests(text.as_bytes()).unwrap()[0]
            .request
            .request()
            .unwrap();
        assert_eq!(
            (request.tier, request.paths[0].as_str()),
            (tier, path),
            "{lines}"
        );
        let caller = &request.caller;
        let who = (
            caller.tenant.as_str(),
            caller.user.as_str(),
            caller.workspace.as_str(),
        );
        assert_eq!(
            (who, caller.plugin.as_str()),
            (("local", "owner", "example"), "cli")
        );
    }
}

#[test]
fn the_file_size_of_a_request_is_a_size_like_any_other() {
    for (size, want) in [
        ("2000", Some(2_000)),
        ("2KiB", Some(2_048)),
        ("2KB", Some(2_000)),
        ("2kib", None),
        ("-1", None),
    ] {
        let text = format!(
            "tests: [{{ expect: deny, request: {{ syscall: fs.write, path: a, file_size: {size} }} }}]"
        );
        let found = parse_tests(text.as_bytes()).ok();
        let found = found.and_then(|tests| tests[0].request.file_size);
        assert_eq!(found, want, "{size}");
    }
}

#[test]
fn table_tests_load_or_name_every_problem() {
    let tests = parse_tests(include_bytes!("fixtures/tests.yaml")).unwrap();
    let verdicts: Vec<Verdict> = tests.iter().map(|test| test.expect).collect();
    assert_eq!(
        verdicts,
        [Verdict::Allow, Verdict::Deny, Verdict::RequireReview]
    );
    assert_eq!(
        (tests[0].rule.as_deref(), tests[0].place.line),
        (Some("default/read-workspace"), 2)
    );

    let text = "tests:\n  - { request: { syscall: fs.reed }, expect: maybe }\n  - { expect: deny, rul: x }\ntest: []\n";
    insta::assert_snapshot!(render(
        text,
        "tests.yaml",
        &parse_tests(text.as_bytes()).unwrap_err()
    ));
    for text in ["", "tests:", "[]", "tests: {}", "\0"] {
        assert!(parse_tests(text.as_bytes()).is_err(), "{text:?}");
    }
}

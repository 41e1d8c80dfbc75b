//! The policy file loader: what it accepts, every problem it names, and what it survives.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use airlock_core::{Effect, EffectSet, Mode, Phase, Span, Tier};
use airlock_policy::{
    Action, ArgTest, CODES, DEFAULT_POLICY, Diagnostic, LoadError, Place, Reach, Severity, Verdict,
    json_schema, parse_tests, read_document, render,
};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const FULL: &str = include_str!("fixtures/full.yaml");
const BROKEN: &str = include_str!("fixtures/broken.yaml");

/// Every problem of a file, warnings included.
fn problems(bytes: &[u8]) -> Vec<Diagnostic> {
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

/// A rule with one more line, in a file that is otherwise sound.
fn rule(lines: &str) -> String {
    format!("version: 1\nrules:\n  - name: one\n{lines}\n")
}

fn matching(condition: &str) -> String {
    rule(&format!("    match: {{ {condition} }}\n    action: deny"))
}

fn head(lines: &str) -> String {
    format!("version: 1\n{lines}\n")
}

/// For every code a file that has this problem, and where it is.
fn cases() -> Vec<(&'static str, Vec<u8>, (u32, u32))> {
    let t = |code, text: String, place| (code, text.into_bytes(), place);
    vec![
        ("policy/too-large", vec![b'#'; 8 * 1024 * 1024 + 1], (1, 1)),
        (
            "policy/not-utf8",
            b"version: 1\nrul\xffes: []".to_vec(),
            (2, 4),
        ),
        t(
            "policy/byte-order-mark",
            "\u{feff}version: 1\n".to_owned(),
            (1, 1),
        ),
        t(
            "policy/control-character",
            "version: 1\n# a\0b\n".to_owned(),
            (2, 4),
        ),
        t(
            "policy/control-character",
            "version: 1\n# a\rrules: []\n".to_owned(),
            (2, 4),
        ),
        t(
            "policy/control-character",
            matching("user: \"a\\x1b\""),
            (4, 20),
        ),
        t("policy/hidden-character", head("# \u{202e}ab"), (2, 3)),
        t(
            "policy/hidden-character",
            head("# \u{2028}rules: []"),
            (2, 3),
        ),
        t("policy/yaml-syntax", head("rules: ["), (3, 1)),
        t("policy/yaml-syntax", head("rules:\n\t- a"), (3, 1)),
        t(
            "policy/yaml-syntax",
            "%YAML 1.2\n---\nversion: 1\n".to_owned(),
            (1, 1),
        ),
        t(
            "policy/too-deep",
            head(&format!("rules: {}", "[".repeat(70))),
            (2, 71),
        ),
        t(
            "policy/too-many-nodes",
            head(&format!("rules: [{}]", "a,".repeat(1_000_001))),
            (2, 1_999_997),
        ),
        t(
            "policy/too-many-problems",
            head(&(0..200).fold(String::new(), |all, n| format!("{all}x{n}: 1\n"))),
            (101, 1),
        ),
        t(
            "policy/too-many-patterns",
            head(&format!(
                "secrets: {{ patterns: [{}] }}",
                "{name: a, pattern: a},".repeat(2_001)
            )),
            (2, 44_040),
        ),
        t("policy/several-documents", head("---\nrules: []"), (2, 1)),
        t("policy/anchor", head("merge: &m { max_lines: 1 }"), (2, 8)),
        t("policy/anchor", head("merge: *nothing"), (2, 8)),
        t("policy/tag", head("merge: !!map {}"), (2, 8)),
        t("policy/merge-key", head("merge: { <<: {} }"), (2, 10)),
        t("policy/key-not-text", head("[a, b]: 1"), (2, 1)),
        t("policy/duplicate-key", head("merge: {}\nmerge: {}"), (3, 1)),
        t(
            "policy/duplicate-name",
            head(
                "rules:\n - {name: a, match: {user: b}, action: deny}\n - {name: a, match: {user: b}, action: deny}",
            ),
            (4, 11),
        ),
        t("policy/unknown-field", head("mergee: {}"), (2, 1)),
        t("policy/missing-field", "rules: []\n".to_owned(), (1, 1)),
        t("policy/missing-field", String::new(), (1, 1)),
        t("policy/missing-field", "# nothing\n".to_owned(), (1, 1)),
        t("policy/missing-field", rule("    action: deny"), (3, 5)),
        t("policy/wrong-type", head("rules:"), (2, 7)),
        t(
            "policy/wrong-type",
            head("merge: { automatic: yes }"),
            (2, 21),
        ),
        t("policy/wrong-type", matching("path_glob:"), (4, 25)),
        t("policy/version", "version: 2\n".to_owned(), (1, 10)),
        t("policy/version", "version: \"1\"\n".to_owned(), (1, 10)),
        t("policy/unknown-word", matching("mode: strickt"), (4, 20)),
        t(
            "policy/unknown-syscall",
            matching("syscall: fs.raed"),
            (4, 23),
        ),
        t(
            "policy/unknown-syscall",
            matching("syscall: \"fx.*\""),
            (4, 23),
        ),
        t(
            "policy/unknown-template",
            matching("template: code"),
            (4, 24),
        ),
        t(
            "policy/unknown-role",
            head("users: { alice: admin }"),
            (2, 17),
        ),
        t(
            "policy/unknown-group",
            head("templates: { code-executor: { whitelist: [x] } }"),
            (2, 43),
        ),
        t(
            "policy/name",
            head("rules:\n - {name: A b, match: {user: b}, action: deny}"),
            (3, 11),
        ),
        t("policy/identifier", matching("plugin: A_b"), (4, 22)),
        t("policy/identifier", matching("tool: \"a.*\""), (4, 20)),
        t("policy/number", matching("port: 0"), (4, 20)),
        t("policy/number", matching("port: \"443\""), (4, 20)),
        t(
            "policy/unit",
            rule("    match: {}\n    action: allow\n    constraints: { max_memory: 1kb }"),
            (6, 32),
        ),
        t("policy/glob", matching("path_glob: \"!\""), (4, 25)),
        t(
            "policy/capability",
            head("workspace: { allow: [a..b] }"),
            (2, 22),
        ),
        t(
            "policy/regex",
            matching("arg: { a: { matches: \"a)|(b\" } }"),
            (4, 35),
        ),
        t(
            "policy/regex",
            matching("arg: { a: { matches: \"(?:\\\\w{900}){900}\" } }"),
            (4, 35),
        ),
        t("policy/host", matching("host: \"*\""), (4, 20)),
        t("policy/host", matching("host: \"0x7f.1\""), (4, 20)),
        t(
            "policy/address",
            head("network: { allow_addresses: [0.0.0.0/0] }"),
            (2, 30),
        ),
        t(
            "policy/path",
            head("extensions: [{ name: a, file: ../a.ts }]"),
            (2, 31),
        ),
        t(
            "policy/path",
            head("extensions: [{ name: a, file: src/a.ts }]"),
            (2, 31),
        ),
        t(
            "policy/digest",
            head("extensions: [{ name: a, file: .airlock/a.ts, digest: abc }]"),
            (2, 54),
        ),
        t("policy/text", matching("user: \"\""), (4, 20)),
        t(
            "policy/ambiguous-value",
            matching("arg: { a: 0x1f }"),
            (4, 24),
        ),
        t(
            "policy/ambiguous-value",
            matching("arg: { a: yes }"),
            (4, 24),
        ),
        t(
            "policy/except-on-deny",
            rule("    match: { user: a }\n    action: deny\n    except: [{ user: b }]"),
            (6, 5),
        ),
        t(
            "policy/empty-except",
            rule("    match: { user: a }\n    action: require_review\n    except: [{}]"),
            (6, 14),
        ),
        t(
            "policy/constraints-without-allow",
            rule("    match: { user: a }\n    action: deny\n    constraints: {}"),
            (6, 5),
        ),
        t(
            "policy/not-narrower",
            head("templates: { code-executor: { network: restricted } }"),
            (2, 40),
        ),
        t(
            "policy/gate-needs-person",
            head("approvals: { automatic: [AG-05] }"),
            (2, 26),
        ),
        t(
            "policy/gate-needs-person",
            head("approvals: { mcp_gates: [AG-04] }"),
            (2, 26),
        ),
        t(
            "policy/coverage-order",
            head("phases: { coverage: { warn_points: 9 } }"),
            (2, 21),
        ),
        t("policy/empty-path-glob", matching("path_glob: []"), (4, 25)),
        t(
            "policy/empty-path-glob",
            matching("path_glob: [\"!a\"]"),
            (4, 25),
        ),
        t("policy/empty-condition", matching("user: []"), (4, 20)),
        t(
            "policy/except-equals-match",
            rule("    match: { user: a }\n    action: allow\n    except: [{ user: [a] }]"),
            (6, 5),
        ),
        t(
            "policy/allows-everything",
            rule("    match: {}\n    action: allow"),
            (4, 5),
        ),
    ]
}

#[test]
fn each_problem_has_its_code_and_its_exact_place() {
    for (code, bytes, (line, column)) in cases() {
        let found = problems(&bytes);
        let text = String::from_utf8_lossy(&bytes);
        let text: String = text.chars().take(300).collect();
        let hit = found.iter().find(|problem| problem.code == code);
        let hit = hit.unwrap_or_else(|| panic!("{code} not found in {found:?}\n{text}"));
        assert_eq!(hit.place, Place { line, column }, "{code}: {hit:?}\n{text}");
        assert!(
            !hit.what.is_empty() && !hit.fix.is_empty() && hit.length > 0,
            "{hit:?}"
        );
        assert!(!hit.what.ends_with('.'), "{hit:?}");
    }
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
        let all = problems(&bytes);
        let errors = all
            .iter()
            .filter(|problem| problem.severity == Severity::Error)
            .count();
        assert_eq!(read_document(&bytes).is_ok(), errors == 0, "{code}");
        let is_warning = matches!(
            code,
            "policy/empty-path-glob"
                | "policy/empty-condition"
                | "policy/except-equals-match"
                | "policy/allows-everything"
        );
        let found = all.iter().find(|problem| problem.code == code).unwrap();
        assert_eq!(found.severity == Severity::Warning, is_warning, "{code}");
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
fn a_full_file_decodes_to_what_it_says() {
    let (document, warnings) = read_document(FULL.as_bytes()).unwrap_or_else(|found| {
        panic!("{}", render(FULL, "full.yaml", &found));
    });
    assert_eq!(warnings, []);
    assert_eq!(document.workspace.minimum_tier, Tier::Container);
    assert_eq!(document.users["bob"], ["developer".into()]);
    assert_eq!(document.network.default, Reach::Restricted);
    assert_eq!(document.network.whitelist["crates"][0].port, [443]);
    assert_eq!(document.network.whitelist["crates"][1].port, [443, 80]);
    assert_eq!(document.templates["integration-test"].cpus, Some(500));
    assert_eq!(document.phases.mode, Mode::Explore);
    assert_eq!(document.merge.keep_undo, Span::from_secs(48 * 3_600));
    let rule = &document.rules[0];
    assert_eq!(
        (&*rule.name, rule.action),
        ("everything-asked", Action::Allow)
    );
    assert_eq!(rule.place.line, 91);
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
fn the_specifications_own_example_loads() {
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
fn an_empty_policy_grants_nothing() {
    for text in [
        "version: 1\n",
        "version: 1\nrules: []\n",
        "---\nversion: 1\n...\n",
    ] {
        let (document, _) = read_document(text.as_bytes()).unwrap();
        assert!(document.rules.is_empty() && document.workspace.allow.is_empty());
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

/// Paths of keys a schema lists: `merge.max_lines`, `rules.match.user`.
fn schema_keys(
    root: &serde_json::Value,
    node: &serde_json::Value,
    at: &str,
    out: &mut BTreeSet<String>,
) {
    if let Some(name) = node["$ref"].as_str() {
        let target = root
            .pointer(name.trim_start_matches('#'))
            .expect("a definition");
        schema_keys(root, target, at, out);
    }
    for key in ["anyOf", "allOf", "oneOf"] {
        for one in node[key].as_array().into_iter().flatten() {
            schema_keys(root, one, at, out);
        }
    }
    for (key, value) in node["properties"].as_object().into_iter().flatten() {
        let path = format!("{at}.{key}");
        out.insert(path.clone());
        schema_keys(root, value, &path, out);
    }
    if node["items"].is_object() {
        schema_keys(root, &node["items"], at, out);
    }
    if node["additionalProperties"].is_object() {
        schema_keys(root, &node["additionalProperties"], &format!("{at}.*"), out);
    }
}

/// Whether an object schema stands at every key that takes a mapping of fixed keys.
fn closed(node: &serde_json::Value, out: &mut usize) {
    match node {
        serde_json::Value::Object(map) => {
            if map.contains_key("properties") {
                assert_eq!(node["additionalProperties"], false, "{node}");
                *out += 1;
            }
            map.values().for_each(|value| closed(value, out));
        }
        serde_json::Value::Array(items) => items.iter().for_each(|value| closed(value, out)),
        _ => {}
    }
}

#[test]
fn schema_and_decoder_know_the_same_keys() {
    let schema = json_schema();
    let mut listed = BTreeSet::new();
    schema_keys(&schema, &schema, "", &mut listed);
    // What the decoder accepts is what it does not call unknown: try every key the schema lists at
    // every place, and a key that exists nowhere.
    let accepted: BTreeSet<String> = decoder_keys(&listed);
    assert_eq!(accepted, listed);
    let mut objects = 0;
    closed(&schema, &mut objects);
    assert!(objects > 20, "{objects}");
}

/// Of the places in `listed`, those at which the full file's decoder accepts a key.
fn decoder_keys(listed: &BTreeSet<String>) -> BTreeSet<String> {
    let keys: BTreeSet<&str> = listed
        .iter()
        .filter_map(|path| path.rsplit('.').next())
        .collect();
    let parents: BTreeSet<&str> = listed
        .iter()
        .filter_map(|path| path.rsplit_once('.'))
        .map(|(parent, _)| parent)
        .collect();
    let mut accepted = BTreeSet::new();
    for parent in parents {
        for key in &keys {
            let text = nested(parent, key);
            let unknown = problems(text.as_bytes()).into_iter().any(|problem| {
                problem.code == "policy/unknown-field"
                    && problem.what.starts_with(&format!("unknown field `{key}`"))
            });
            if !unknown {
                accepted.insert(format!("{parent}.{key}"));
            }
        }
    }
    accepted
}

const LISTS: &[&str] = &[
    "commands",
    "extensions",
    "rules",
    "except",
    "patterns",
    "match",
    "not_match",
    "whitelist.*",
];

/// A file that has `key` in the mapping at `path`, and nothing else.
fn nested(path: &str, key: &str) -> String {
    let mut text = format!("{{ {key}: ~ }}");
    let parts: Vec<&str> = path.split('.').skip(1).collect();
    for (depth, part) in parts.iter().enumerate().rev() {
        let name = match *part {
            "*" if parts[depth - 1] == "templates" => "code-executor",
            "*" => "some-name",
            name => name,
        };
        let in_list = LISTS.contains(part) && !(depth == 1 && *part == "match")
            || (*part == "*" && parts[depth - 1] == "whitelist");
        text = if in_list {
            format!("{{ {name}: [{text}] }}")
        } else {
            format!("{{ {name}: {text} }}")
        };
    }
    text
}

#[test]
fn every_key_of_the_schema_is_described_and_in_the_full_file() {
    let schema = json_schema();
    let mut listed = BTreeSet::new();
    schema_keys(&schema, &schema, "", &mut listed);
    for path in &listed {
        let key = path.rsplit('.').next().unwrap();
        assert!(
            FULL.contains(&format!("{key}:")),
            "{path} is not in the full file"
        );
    }
    insta::assert_json_snapshot!(schema);
}

fn quick(what: &str, bytes: &[u8], code: &str) {
    let begin = Instant::now();
    let found = problems(bytes);
    let took = begin.elapsed();
    assert!(
        found.iter().any(|problem| problem.code == code),
        "{what}: {found:?}"
    );
    assert!(found.len() <= 101, "{what}: {} problems", found.len());
    // Generous: unoptimised, on a busy machine. An attack that works takes minutes.
    assert!(took < Duration::from_secs(20), "{what} took {took:?}");
}

#[test]
fn hostile_files_are_refused_quickly() {
    let bomb = (1..30).fold("a0: &a0 [x, x]\n".to_owned(), |all, n| {
        format!("{all}a{n}: &a{n} [*a{0}, *a{0}, *a{0}]\n", n - 1)
    });
    quick("alias bomb", bomb.as_bytes(), "policy/anchor");
    for (what, open) in [
        ("flow lists", "["),
        ("flow mappings", "{a: "),
        ("mixed", "[{a: "),
        ("block lists", "- "),
    ] {
        quick(what, open.repeat(100_000).as_bytes(), "policy/too-deep");
    }
    let deep = (0..2_000).fold(String::new(), |all, n| {
        format!("{all}{}a:\n", " ".repeat(n))
    });
    quick("block mappings", deep.as_bytes(), "policy/too-deep");
    quick(
        "explicit keys",
        "? ".repeat(100_000).as_bytes(),
        "policy/too-deep",
    );
    quick("large", &vec![b' '; 9 << 20], "policy/too-large");
    quick(
        "endless quotes",
        format!("version: \"{}", "a".repeat(4 << 20)).as_bytes(),
        "policy/yaml-syntax",
    );
    quick("NULs", &vec![0; 1 << 20], "policy/control-character");
    quick("random", &[0xff; 1 << 16], "policy/not-utf8");
}

#[test]
fn a_mapping_of_a_million_keys_is_refused_quickly() {
    let keys: String = (0..1_000_001).fold(String::with_capacity(8 << 20), |mut all, n| {
        all.push_str(&format!("{n:x}:\n"));
        all
    });
    quick("keys", keys.as_bytes(), "policy/too-many-nodes");
    let same = "a:\n".repeat(400_000);
    quick("the same key", same.as_bytes(), "policy/duplicate-key");
    let unknown = (0..300_000).fold(String::new(), |mut all, n| {
        all.push_str(&format!("versio{n}: 1\n"));
        all
    });
    quick(
        "unknown keys",
        unknown.as_bytes(),
        "policy/too-many-problems",
    );
}

#[test]
fn costly_regular_expressions_are_bounded() {
    let one = "{name: a, pattern: '(\\w{200}){20}'},";
    let text = head(&format!("secrets: {{ patterns: [{}] }}", one.repeat(5_000)));
    quick("patterns", text.as_bytes(), "policy/regex");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let found = problems(&bytes);
        render(&String::from_utf8_lossy(&bytes), "p", &found);
        let _ = parse_tests(&bytes);
    }

    #[test]
    fn yaml_like_text_never_panics(text in "[a-c:{}\\[\\],\\-?&*!|>'\"# \n\t%@`~\u{4f60}]{0,120}") {
        let text = format!("version: 1\n{text}");
        let found = problems(text.as_bytes());
        let lines: Vec<usize> = text.split('\n').map(|line| line.chars().count()).collect();
        for problem in &found {
            let line = problem.place.line as usize;
            prop_assert!(line >= 1 && line <= lines.len(), "{problem:?}");
            prop_assert!(problem.place.column as usize <= lines[line - 1] + 1, "{problem:?}");
        }
        render(&text, "p", &found);
    }

    #[test]
    fn a_mutated_policy_never_panics(
        at in 0..FULL.len(), cut in 0usize..40, insert in "[ -~\n\u{e4}]{0,6}",
    ) {
        let mut bytes = FULL.as_bytes().to_vec();
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, insert.into_bytes());
        let found = problems(&bytes);
        render(&String::from_utf8_lossy(&bytes), "p", &found);
    }
}

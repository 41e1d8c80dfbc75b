//! Policy files and table tests: any bytes give an answer, the same one twice, with every problem
//! at a place that exists; what loads decides about hostile requests and allows nothing by itself.

use super::request::{NOW, ROOT, hostile};
use super::{Target, text};
use airlock_policy::{
    Action, BuiltIns, CODES, COMPILE_CODES, Contribution, Diagnostic, Engine, ExtensionHost, Layer,
    Loaded, Policy, Protected, Severity, Verdict, parse_tests, render,
};

pub(super) const TARGET: Target = Target {
    name: "policy_yaml",
    run,
    seeds: &[
        airlock_policy::DEFAULT_POLICY.as_bytes(),
        include_bytes!("../../../crates/policy/tests/fixtures/full.yaml"),
        include_bytes!("../../../crates/policy/tests/fixtures/broken.yaml"),
        include_bytes!("../../../crates/policy/tests/fixtures/tests.yaml"),
        b"version: 1\n",
        b"version: 1\nrules:\n  - name: a\n    match: { syscall: fs.read, path_glob: [\"src/**\", \"!src/x\"] }\n    action: allow\n",
        b"version: 1\nrules:\n  - name: a\n    match: { syscall: \"*\" }\n    action: deny\n    reason: no\n",
        b"version: 1\nrules:\n- {name: r, match: {effect: [write, delete], caller_tag: third_party}, action: require_review}\n",
        b"version: 1\nrules:\n- {name: r, match: {arg: {a.b: {matches: \"(x+x+)+y\"}}}, action: allow}\n",
        b"tests:\n  - request: { syscall: fs.read, path: .env }\n    expect: deny\n",
        b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
        b"version: 1\r\nnetwork: { default: none }\r\n",
        b"%YAML 1.1\n--- !!map\nversion: !!int \"1\"\n...\n---\nversion: 1\n",
        b"version: 1\nversion: 1\n<<: { rules: [] }\n",
        b"\xef\xbb\xbfversion: 1\n",
        b"\xff\xfev\0e\0",
        b"? [[[[{a: b}]]]]\n: |+2\n   x\n\n- ",
        b"",
    ],
    dictionary: &[
        "version: 1\n",
        "rules:\n",
        "  - name: ",
        "match: ",
        "action: ",
        "allow",
        "deny",
        "require_review",
        "reason: ",
        "except: ",
        "constraints: { require_sandbox: container }",
        "examples: { match: [], not_match: [] }",
        "syscall: ",
        "fs.write",
        "\"fs.*\"",
        "\"*\"",
        "effect: ",
        "path_glob: ",
        "\"**\"",
        "\"!**\"",
        "arg: { a: { matches: \"",
        "{1000}",
        "(((",
        "roles:\n  owner: [\"*\"]\n",
        "10MiB",
        "5m",
        "0x10",
        "1_000",
        ".inf",
        "~",
        "null",
        "yes",
        "&a",
        "*a",
        "<<: ",
        "!!str ",
        "!x ",
        "|\n",
        ">-\n",
        "\"\\u202e\\x1b\"",
        "\u{202e}",
        "\u{feff}",
        "- ",
        "? ",
        ": ",
        "[",
        "{",
        "}",
        "]",
        "# ",
        "---\n",
        "...\n",
        "\t",
        "\n",
        "  ",
    ],
    iterations: 600,
};

fn run(input: &[u8]) {
    let source = text(input);
    let tests = parse_tests(input);
    assert_eq!(tests, parse_tests(input), "table tests read two ways");
    if let Err(problems) = &tests {
        refused(&source, problems);
    }
    match (Policy::load("a", input), Policy::load("a", input)) {
        (Err(once), Err(again)) => {
            assert_eq!(once, again, "the same bytes fail in two ways");
            refused(&source, &once.diagnostics);
            assert!(once.hint().is_some(), "{once}");
        }
        (Ok(once), Ok(again)) => accepted(&source, once, &again),
        (once, again) => assert_eq!(
            once.map(|loaded| loaded.policy.generation()),
            again.map(|loaded| loaded.policy.generation()),
            "the same bytes load once"
        ),
    }
}

fn refused(source: &str, problems: &[Diagnostic]) {
    assert!(
        problems
            .iter()
            .any(|problem| problem.severity == Severity::Error),
        "refused without an error: {problems:?}"
    );
    placed(source, problems);
}

/// Each problem lies in the text (or right behind a line), is in order, and can be shown safely.
fn placed(source: &str, problems: &[Diagnostic]) {
    let lines: Vec<usize> = source
        .split('\n')
        .map(|line| line.chars().count())
        .collect();
    for problem in problems {
        let at = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
        let (line, column) = (at(problem.place.line), at(problem.place.column));
        let width = line.checked_sub(1).and_then(|line| lines.get(line));
        assert!(
            width.is_some_and(|width| (1..=width + 1).contains(&column)),
            "outside a text of {} lines: {problem:?}",
            lines.len()
        );
        assert!(problem.length >= 1, "{problem:?}");
        assert!(
            !problem.what.is_empty() && !problem.fix.is_empty(),
            "{problem:?}"
        );
        let mut documented = CODES.iter().chain(COMPILE_CODES);
        assert!(
            documented.any(|(code, _)| *code == problem.code),
            "an undocumented code: {problem:?}"
        );
    }
    assert!(
        problems.is_sorted_by_key(|problem| problem.place),
        "{problems:?}"
    );
    let shown = render(source, "\u{1b}]0;x\u{7}", problems);
    assert!(
        shown.chars().all(|c| c == '\n' || !c.is_control()),
        "{shown:?} would reach a terminal"
    );
}

fn accepted(source: &str, once: Loaded, again: &Loaded) {
    assert_eq!(once.warnings, again.warnings, "warned in two ways");
    assert_eq!(once.policy.generation(), again.policy.generation());
    assert_eq!(once.policy.rule_count(), again.policy.rule_count());
    assert!(
        once.warnings
            .iter()
            .all(|problem| problem.severity == Severity::Warning),
        "loaded with an error: {:?}",
        once.warnings
    );
    placed(source, &once.warnings);
    decides(once.policy);
}

fn decides(policy: Policy) {
    let rules = &policy.document().rules;
    let may_allow = rules.iter().any(|rule| rule.action == Action::Allow);
    let generation = policy.generation();
    let protected = Protected::new(ROOT, ["/srv/project/.airlock", "/var/lib/airlock"]);
    let standard = BuiltIns::standard(protected.unwrap_or_default());
    let guarded = Engine::new(policy, standard, ExtensionHost::default());
    for request in hostile() {
        let decision = guarded.decide(&request, None, NOW);
        assert_eq!(decision, guarded.decide(&request, None, NOW));
        assert_eq!(decision.generation, generation);
        assert!(
            !decision.contributions.is_empty(),
            "nobody answered {request:?}"
        );
        let built_in = |one: &Contribution| one.layer == Layer::BuiltIn;
        let owner = decision.deciding().all(built_in);
        assert!(
            may_allow || owner || decision.verdict != Verdict::Allow,
            "allowed without a rule that allows: {request:?}"
        );
    }
}

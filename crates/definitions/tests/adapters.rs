//! Adapters: what loads, what is refused, and what a hostile caller or file can make of them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use airlock_definitions::{
    Adapter, AdapterFile, How, Invocation, OutputError, Unresolved, check_samples, resolve,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const HEADER: &str = "adapter: 1\nid: rg-cli\nname: ripgrep\ntool: text.search\ntype: cli\n";
const SUMMARY: &str = "---\nsummary: Search files\nversion: 1.0.0\nstatus: active\n";
const BODY: &str = "\
---
interface:
  read_only: true
  rename: { q: pattern }
  defaults: { limit: 10 }
  input:
    type: object
    required: [pattern]
    properties:
      pattern: { type: string, minLength: 1 }
      limit: { type: integer, minimum: 1, maximum: 100 }
      glob: { type: string }
      hidden: { type: boolean }
      paths: { type: array, items: { type: string }, maxItems: 20 }
      text: { type: string }
cli:
  command: [rg, --no-config]
  arguments:
    - option: --max-count
      from: limit
    - { option: --glob, from: glob, joined: true }
    - { flag: --hidden, from: hidden }
    - value: pattern
    - word: --
    - each: paths
  stdin: text
  environment: { LC_ALL: C }
output: { parse: lines }
errors:
  - { exit: 1, code: no_match, summary: nothing matched, ok: true }
  - { exit: 2, code: bad_pattern, summary: the pattern is wrong }
sandbox: { timeout: 10s, memory: 128MiB, cpus: 1, child_processes: 2 }
retry: { on: [timed_out, bad_pattern, exit_75], attempts: 3, backoff: 100ms }
";
const SAMPLES: &str = "\
---
examples:
  - name: a word
    arguments: { q: fn }
    command: [rg, --no-config, --max-count, '10', fn, --]
  - { name: an option for a pattern, arguments: { pattern: --pre=sh }, refused: true }
fixtures:
  - { name: two lines, stdout: \"a\\nb\\n\", value: [a, b] }
  - { name: nothing, exit: 1, value: [] }
  - { name: wrong, exit: 2, error: bad_pattern }
";

fn file(text: &str) -> AdapterFile {
    AdapterFile::new(text.as_bytes()).unwrap()
}

fn adapter() -> Adapter {
    file(&format!("{HEADER}{SUMMARY}{BODY}")).adapter().unwrap()
}

fn invoke(adapter: &Adapter, arguments: &Value) -> Result<Invocation, String> {
    let arguments = adapter
        .interface
        .arguments(arguments)
        .map_err(|error| error.to_string())?;
    let How::Cli(cli) = &adapter.how else {
        panic!("no cli");
    };
    cli.invocation(&arguments)
        .map_err(|error| error.to_string())
}

/// What is wrong with the adapter whose body has `from` replaced by `to`.
fn problems(from: &str, to: &str) -> Vec<(&'static str, u32, String)> {
    let text = format!("{HEADER}{SUMMARY}{BODY}");
    assert!(text.contains(from), "{from}");
    let text = text.replacen(from, to, 1);
    match AdapterFile::new(text.as_bytes()).and_then(|file| file.adapter()) {
        Ok(_) => Vec::new(),
        Err(error) => {
            let problems = error.problems().iter();
            problems
                .map(|one| (one.code, one.place.line, one.what.clone()))
                .collect()
        }
    }
}

#[test]
fn each_level_parses_its_own_document_and_nothing_else() {
    // What follows the header is not even YAML; a thousand listings must not care.
    let broken = format!("{HEADER}---\n]]]] not yaml {{\n---\n\t*x");
    for _ in 0..1_000 {
        assert_eq!(file(&broken).header().unwrap().id, "rg-cli");
    }
    assert!(file(&broken).summary().is_err());
    let half = format!("{HEADER}{SUMMARY}---\n]]]]");
    assert_eq!(file(&half).summary().unwrap().version, "1.0.0");
    assert!(file(&half).adapter().is_err());
    let whole = format!("{HEADER}{SUMMARY}{BODY}---\n]]]]");
    assert!(file(&whole).adapter().is_ok());
    assert!(file(&whole).samples().is_err());
    assert!(file(HEADER).adapter().is_err());
    assert!(
        file(&format!("{HEADER}{SUMMARY}{BODY}"))
            .samples()
            .unwrap()
            .examples
            .is_empty()
    );
}

#[test]
fn arguments_become_words_in_the_order_of_the_mapping() {
    let made = invoke(
        &adapter(),
        &json!({"q": "a b", "glob": "*.rs; rm -rf /", "hidden": true, "paths": ["src", "-x", "$(id)"], "text": "in"}),
    )
    .unwrap();
    let words = [
        "rg",
        "--no-config",
        "--max-count",
        "10",
        "--glob=*.rs; rm -rf /",
        "--hidden",
        "a b",
        "--",
        "src",
        "-x",
        "$(id)",
    ];
    assert_eq!(made.command, words);
    assert_eq!(made.stdin.as_deref(), Some("in"));
    assert_eq!(made.environment["LC_ALL"], "C");
}

#[test]
fn a_reviewer_sees_every_value_a_program_is_given() {
    let text = format!("{HEADER}{SUMMARY}{BODY}").replace(
        "  environment: { LC_ALL: C }\n",
        "  directory: { from: glob }\n  environment: { LC_ALL: C, GLOB: { from: glob } }\n",
    );
    let adapter = file(&text).adapter().unwrap();
    let How::Cli(cli) = &adapter.how else {
        panic!("no program");
    };
    let variables: Vec<String> = cli.variables().collect();
    assert_eq!(variables, ["GLOB=<glob>", "LC_ALL=C"]);
    assert_eq!(cli.directory().as_deref(), Some("<glob>"));
    assert_eq!(cli.stdin(), Some("text"));
    assert_eq!(adapter.interface.defaults()["limit"], json!(10));
}

#[test]
fn no_value_becomes_an_option_or_a_second_word() {
    let adapter = adapter();
    for (arguments, wanted) in [
        (
            json!({"pattern": "--pre=sh"}),
            "`--pre=sh` would be read as an option",
        ),
        (json!({"pattern": "-e"}), "`-e` would be read as an option"),
        (json!({"pattern": "x\0y"}), "this holds a NUL byte"),
        (json!({"pattern": ["a", "b"]}), "this is not of type string"),
        (json!({"pattern": {"a": 1}}), "this is not of type string"),
        (
            json!({"pattern": "x", "limit": "1 --pre=sh"}),
            "this is not of type integer",
        ),
        (
            json!({"pattern": "x", "paths": [["a"]]}),
            "this is not of type string",
        ),
        (
            json!({"pattern": "x", "q": "y"}),
            "`pattern` is given twice, once by another name",
        ),
        (
            json!({"pattern": "x", "command": ["sh"]}),
            "there is no such field",
        ),
        (json!({"pattern": ""}), "this is shorter than 1 characters"),
        (json!(["x"]), "the arguments are not an object"),
    ] {
        assert_eq!(
            invoke(&adapter, &arguments).unwrap_err(),
            wanted,
            "{arguments}"
        );
    }
}

proptest! {
    #[test]
    fn any_text_is_exactly_one_word_or_refused(pattern in "\\PC{1,20}", path in any::<String>()) {
        let adapter = adapter();
        let given = json!({"pattern": pattern, "paths": [path]});
        match invoke(&adapter, &given) {
            Err(_) => prop_assert!(pattern.starts_with('-') || path.contains('\0')),
            Ok(made) => {
                prop_assert_eq!(made.command.len(), 7);
                prop_assert_eq!(&made.command[4], &pattern);
                prop_assert_eq!(&made.command[6], &path);
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), cut in 0usize..2_000) {
        let _ = AdapterFile::new(&bytes).map(|file| (file.header().is_ok(), file.adapter().is_ok()));
        let text = format!("{HEADER}{SUMMARY}{BODY}{SAMPLES}");
        let mut text = text.into_bytes();
        text.truncate(cut);
        text.extend(bytes);
        let _ = AdapterFile::new(&text).map(|file| (file.adapter().is_ok(), file.samples().is_ok()));
    }
}

#[test]
fn no_argument_is_a_program_or_code() {
    let text = format!("{HEADER}{SUMMARY}{BODY}");
    for (command, option, refused) in [
        (
            "[env]",
            "--max-count",
            Some((28, "cannot be looked through")),
        ),
        ("[env]", "-u", Some((28, "which one is run"))),
        ("[xargs, rg]", "--max-count", Some((28, "`xargs`"))),
        ("[sh]", "-c", Some((28, "code of `sh`"))),
        ("[env, python3]", "-c", Some((28, "code of `python3`"))),
        ("[node]", "--eval", Some((28, "code of `node`"))),
        ("[awk]", "-v", Some((30, "code of `awk`"))),
        ("[python3]", "-W", Some((30, "code of `python3`"))),
        ("[env, rg]", "--max-count", None),
        ("[sh, run.sh]", "-c", None),
        ("[python3, run.py]", "-c", None),
        ("[sh, -c, id]", "-c", None),
    ] {
        let text = text
            .replace("[rg, --no-config]", command)
            .replace("--max-count", option);
        let read = file(&text).adapter();
        let Some((line, what)) = refused else {
            assert!(read.is_ok(), "{command} {option}");
            continue;
        };
        let error = read.unwrap_err();
        let problem = &error.problems()[0];
        assert_eq!(problem.code, "definition/unsafe-argument", "{command}");
        assert_eq!(problem.place.line, line, "{command} {option}");
        assert!(problem.what.contains(what), "{}", problem.what);
    }
    let reads = text
        .replace("[rg, --no-config]", "[python3]")
        .replace("    - option: --max-count\n      from: limit\n", "")
        .replace("    - { option: --glob, from: glob, joined: true }\n", "")
        .replace("    - { flag: --hidden, from: hidden }\n", "")
        .replace(
            "    - value: pattern\n    - word: --\n    - each: paths\n",
            "    - word: -u\n",
        );
    let error = file(&reads).adapter().unwrap_err();
    let what = &error.problems()[0].what;
    assert!(what.contains("reads code"), "{what}");
}

#[test]
fn fixtures_are_bounded_so_that_trying_them_is() {
    let text = format!("{HEADER}{SUMMARY}{BODY}{SAMPLES}").replace(
        "output: { parse: lines }",
        "output: { parse: text, extract: { regex: '.*[^A-Z]|[A-Z]', all: true } }",
    );
    let fixture = |length| {
        let long = "A".repeat(length);
        format!("  - name: long\n    stdout: \"{long}\"\n    value: []\n")
    };
    let most = file(&format!("{text}{}", fixture(64 * 1024 - 4)));
    let samples = most.samples().unwrap();
    assert_eq!(samples.fixture_bytes(), 64 * 1024);
    let begun = std::time::Instant::now();
    assert!(!check_samples(&most.adapter().unwrap(), &samples).is_empty());
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
    let more = file(&format!("{text}{}", fixture(64 * 1024 - 3)));
    let error = more.samples().unwrap_err();
    let problem = &error.problems()[0];
    assert_eq!(problem.code, "definition/too-large");
    assert!(
        problem.what.contains("the limit is 65536"),
        "{}",
        problem.what
    );
}

#[test]
fn samples_are_checked() {
    let text = format!("{HEADER}{SUMMARY}{BODY}{SAMPLES}");
    let samples = file(&text).samples().unwrap();
    assert_eq!(check_samples(&adapter(), &samples), []);
    let wrong = text
        .replace("'10', fn, --]", "'11', fn, --]")
        .replace("value: [a, b]", "value: [a]")
        .replace("refused: true", "refused: false")
        .replace("error: bad_pattern }", "error: other }");
    let samples = file(&wrong).samples().unwrap();
    let failures = check_samples(&adapter(), &samples);
    assert_eq!(failures.len(), 4, "{failures:?}");
    assert!(failures[0].what.contains("\"10\""));
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn every_mistake_is_told_with_its_line() {
    for (from, to, code, line, what) in [
        (
            "tool: text.search",
            "tool: search",
            "definition/bad-value",
            4,
            "`search` cannot be a name here",
        ),
        (
            "type: cli",
            "type: sdk",
            "definition/bad-value",
            5,
            "adapters of type `sdk` cannot be run",
        ),
        (
            "type: cli",
            "type: shell",
            "definition/bad-value",
            5,
            "unknown type `shell`",
        ),
        (
            "id: rg-cli",
            "id: ../x",
            "definition/bad-value",
            2,
            "cannot be a name here",
        ),
        (
            "adapter: 1",
            "adapter: 2",
            "definition/bad-value",
            1,
            "`2` is no number that can stand here",
        ),
        (
            "status: active",
            "status: activ",
            "definition/bad-value",
            9,
            "unknown status `activ`",
        ),
        (
            "  read_only: true",
            "  read_onyl: true",
            "definition/unknown-field",
            12,
            "`read_onyl`",
        ),
        (
            "q: pattern",
            "q: patern",
            "definition/reference",
            13,
            "unknown input `patern`",
        ),
        (
            "limit: 10 }",
            "limit: 1000 }",
            "definition/schema",
            14,
            "does not fit",
        ),
        (
            "minLength: 1",
            "minLenght: 1",
            "definition/unknown-field",
            19,
            "`minLenght`",
        ),
        (
            "value: pattern",
            "value: pattren",
            "definition/reference",
            32,
            "unknown input `pattren`",
        ),
        (
            "value: pattern",
            "value: paths",
            "definition/schema",
            32,
            "may be something else",
        ),
        (
            "[rg, --no-config]",
            "[/bin/rg]",
            "definition/bad-value",
            26,
            "cannot be a name here",
        ),
        (
            "[rg, --no-config]",
            "['rg -x']",
            "definition/bad-value",
            26,
            "cannot be a name here",
        ),
        (
            "[rg, --no-config]",
            "[rg, '${pattern}']",
            "definition/unsafe-argument",
            26,
            "is not replaced here",
        ),
        (
            "option: --max-count",
            "option: max",
            "definition/unsafe-argument",
            28,
            "is no option",
        ),
        (
            "timeout: 10s",
            "timeout: 20m",
            "definition/bad-value",
            41,
            "`20m` is out of range",
        ),
        (
            "timeout: 10s",
            "network: true",
            "definition/widens",
            41,
            "cannot widen its sandbox",
        ),
        (
            "timeout: 10s",
            "template: integration-test",
            "definition/widens",
            41,
            "cannot widen its sandbox",
        ),
        (
            "timeout: 10s",
            "allow_write: [/]",
            "definition/widens",
            41,
            "cannot widen its sandbox",
        ),
        (
            "exit_75",
            "exit_0",
            "definition/reference",
            42,
            "unknown code `exit_0`",
        ),
        (
            "bad_pattern, exit_75",
            "no_match",
            "definition/reference",
            42,
            "unknown code `no_match`",
        ),
        (
            "read_only: true",
            "read_only: false",
            "definition/bad-value",
            42,
            "is not tried again",
        ),
        (
            "attempts: 3",
            "attempts: 99",
            "definition/bad-value",
            42,
            "is no number",
        ),
        (
            "LC_ALL: C",
            "lc: C",
            "definition/bad-value",
            36,
            "cannot be a name here",
        ),
        (
            "retry:",
            "fallback: rg-cli\nretry:",
            "definition/reference",
            42,
            "its own fallback",
        ),
        (
            "retry:",
            "retry: {on: []}\nretry:",
            "definition/duplicate-key",
            43,
            "given twice",
        ),
    ] {
        let found = problems(from, to);
        let told = found
            .iter()
            .find(|one| one.0 == code && one.1 == line && one.2.contains(what));
        assert!(told.is_some(), "{to}: {found:?}");
    }
    let all = problems("type: cli", "type: clu\nextra: 1");
    assert_eq!(all.len(), 2, "both at once: {all:?}");
}

#[test]
fn a_thousand_mistakes_cost_a_bounded_report() {
    let line = |number| format!("k{number}: 1\n");
    let many = (0..5_000).map(line).collect::<Vec<_>>().concat();
    let error = file(&format!("{HEADER}{many}")).header().unwrap_err();
    assert_eq!(error.problems().len(), 50);
    assert!(error.render("", "x.yaml").len() < 50_000);
}

#[test]
fn bombs_and_hidden_text_are_refused() {
    let nested = format!(
        "{HEADER}{SUMMARY}---\ninterface: {}{}",
        "{a: ".repeat(100),
        "}".repeat(100)
    );
    assert!(file(&nested).adapter().is_err());
    let aliases = "a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]";
    assert!(
        file(&format!("{HEADER}{SUMMARY}---\n{aliases}"))
            .adapter()
            .is_err()
    );
    assert!(AdapterFile::new("adapter: 1 # \u{202e}".as_bytes()).is_err());
    assert!(AdapterFile::new(&vec![b' '; 300 * 1024]).is_err());
    let fifth = format!("{HEADER}{SUMMARY}{BODY}{SAMPLES}---\nmore: 1");
    assert!(file(&fifth).samples().is_err());
}

#[test]
fn output_is_parsed_picked_renamed_and_checked() {
    for (output, stdout, want) in [
        ("{ }", "a\nb", Ok(json!("a\nb"))),
        ("{ parse: lines }", "a\nb\n", Ok(json!(["a", "b"]))),
        (
            "{ parse: json, extract: { pointer: /items/0 } }",
            r#"{"items":[7]}"#,
            Ok(json!(7)),
        ),
        (
            "{ parse: json, extract: { pointer: /none } }",
            "{}",
            Err(OutputError::Nothing("/none".into())),
        ),
        (
            "{ extract: { regex: 'v([0-9.]+)', group: 1 } }",
            "tool v1.2",
            Ok(json!("1.2")),
        ),
        (
            "{ extract: { regex: '[a-z]+', all: true } }",
            "a 1 b",
            Ok(json!(["a", "b"])),
        ),
        ("{ from: stderr }", "out", Ok(json!("err"))),
        (
            "{ parse: json, rename: { a: b } }",
            r#"[{"a":1},{"c":2}]"#,
            Ok(json!([{"b":1},{"c":2}])),
        ),
        (
            "{ parse: json, schema: { type: array } }",
            "{}",
            Err(OutputError::Mismatch("this is not of type array".into())),
        ),
    ] {
        let text = format!("{HEADER}{SUMMARY}{BODY}")
            .replace("output: { parse: lines }", &format!("output: {output}"));
        let adapter = file(&text).adapter().unwrap();
        assert_eq!(adapter.output.shape(stdout, "err"), want, "{output}");
    }
    let wrong = problems("{ parse: lines }", "{ parse: json, extract: { regex: x } }");
    assert!(wrong[0].2.contains("needs `parse: text`"), "{wrong:?}");
    let wrong = problems(
        "{ parse: lines }",
        "{ extract: { regex: '(x)', group: 2 } }",
    );
    assert_eq!(wrong.len(), 1, "{wrong:?}");
}

const API: &str = "\
---
interface:
  input:
    type: object
    required: [id]
    properties: { id: { type: string }, q: { type: string } }
api: { method: GET, url: 'https://Api.Example.com/v1/items/{id}/raw', query: { q: q } }
";

#[test]
fn a_request_goes_to_the_host_of_the_definition_whatever_the_arguments() {
    let text = format!("{HEADER}{SUMMARY}{API}").replace("type: cli", "type: api");
    let adapter = file(&text).adapter().unwrap();
    let How::Api(api) = &adapter.how else {
        panic!("no api");
    };
    assert_eq!(
        (api.host.as_str(), api.port, api.method),
        ("api.example.com", 443, "GET")
    );
    let shown = (api.pattern(), api.has_body());
    assert_eq!(shown, ("/v1/items/<id>/raw?q=<q>".to_owned(), false));
    for (id, want) in [
        ("7", Some("/v1/items/7/raw?q=a%26b%3D1%23")),
        (
            "a/../../etc",
            Some("/v1/items/a%2F..%2F..%2Fetc/raw?q=a%26b%3D1%23"),
        ),
        (
            "x@evil.com\r\nHost: y",
            Some("/v1/items/x%40evil.com%0D%0AHost%3A%20y/raw?q=a%26b%3D1%23"),
        ),
        ("..", None),
        ("", None),
    ] {
        let arguments = adapter
            .interface
            .arguments(&json!({"id": id, "q": "a&b=1#"}))
            .unwrap();
        assert_eq!(
            api.call(&arguments).ok().map(|call| call.target).as_deref(),
            want,
            "{id}"
        );
    }
    for url in [
        "http://x/",
        "https://{id}/",
        "https://user@x/",
        "https:///x",
        "https://x/?q={q}",
        "https://x:99999/",
        "https://x/{nope}",
        "https://x/{id",
    ] {
        let text = text.replace("https://Api.Example.com/v1/items/{id}/raw", url);
        assert!(file(&text).adapter().is_err(), "{url}");
    }
}

fn named(id: &str, status: &str, fallback: Option<&str>) -> (String, Adapter) {
    let mut text = format!("{HEADER}{SUMMARY}{BODY}")
        .replace("rg-cli", id)
        .replace("status: active", &format!("status: {status}"));
    if let Some(other) = fallback {
        text = format!("{text}fallback: {other}\n");
    }
    (id.to_owned(), file(&text).adapter().unwrap())
}

#[test]
fn a_tool_means_one_adapter_or_an_error_that_says_why() {
    let chain = |adapters: &[(&str, &str, Option<&str>)], on: &[&str]| {
        let adapters: BTreeMap<String, Adapter> = adapters
            .iter()
            .map(|(id, status, to)| named(id, status, *to))
            .collect();
        let on: BTreeSet<String> = on.iter().map(|id| (*id).to_owned()).collect();
        resolve(&adapters, &on).map(|resolved| (resolved.chain.join(" "), resolved.warnings.len()))
    };
    let two = |a: &str, b: &str| Unresolved::Ambiguous(a.into(), b.into());
    for (adapters, on, want) in [
        (
            &[("a", "active", None)][..],
            &[][..],
            Ok(("a".to_owned(), 0)),
        ),
        (&[("a", "deprecated", None)], &[], Ok(("a".to_owned(), 1))),
        (
            &[("a", "experimental", None)],
            &[],
            Err(Unresolved::Experimental("a".into())),
        ),
        (
            &[("a", "experimental", None)],
            &["a"],
            Ok(("a".to_owned(), 0)),
        ),
        (
            &[("a", "active", Some("b")), ("b", "active", None)],
            &[],
            Ok(("a b".to_owned(), 0)),
        ),
        (
            &[("a", "active", None), ("b", "active", None)],
            &[],
            Err(two("a", "b")),
        ),
        (
            &[("a", "active", None), ("b", "experimental", None)],
            &[],
            Ok(("a".to_owned(), 0)),
        ),
        (
            &[("a", "active", Some("b")), ("b", "active", Some("a"))],
            &[],
            Err(Unresolved::Cycle("a".into())),
        ),
        (
            &[
                ("a", "active", Some("b")),
                ("b", "active", Some("c")),
                ("c", "active", Some("b")),
            ],
            &[],
            Err(Unresolved::Cycle("b".into())),
        ),
        (
            &[("a", "active", Some("z"))],
            &[],
            Err(Unresolved::Fallback {
                from: "a".into(),
                to: "z".into(),
                why: "is no adapter of the same tool",
            }),
        ),
        (
            &[("a", "active", Some("b")), ("b", "experimental", None)],
            &[],
            Err(Unresolved::Fallback {
                from: "a".into(),
                to: "b".into(),
                why: "is experimental and not switched on",
            }),
        ),
    ] {
        assert_eq!(chain(adapters, on), want, "{adapters:?}");
    }
    let ids = ["a", "b", "c", "d", "e", "f", "g"];
    let long: Vec<(&str, &str, Option<&str>)> = ids
        .windows(2)
        .map(|pair| (pair[0], "active", Some(pair[1])))
        .collect();
    assert_eq!(chain(&long, &[]), Err(Unresolved::TooLong));
}

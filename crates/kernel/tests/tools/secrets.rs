//! What tools tell does not depend on secrets that are taken out of results: neither what they find
//! nor where they cut.

use super::support::{Workspace, strings};
use airlock_kernel::tools::Sanitiser;
use serde_json::{Value, json};

const BODY: &str = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7";

fn token() -> String {
    format!("ghp_{}", "a1B2".repeat(9))
}

fn key() -> String {
    format!(
        "-----BEGIN {0}-----\n{BODY}\n\n{BODY}\n-----END {0}-----\n",
        "PRIVATE KEY"
    )
}

/// Files with secrets of several forms, each with `filling` before and after them.
fn files(filling: &str) -> Vec<(&'static str, String)> {
    let token = token();
    let made = [
        ("a.env", format!("A=1\nTOKEN={token}\nB=2\n")),
        (
            "b.json",
            format!(r#"{{"x":1,"url":"postgres://me:Zq7hunter@host/db","token":"{token}"}}"#),
        ),
        ("c.pem", key()),
        (
            "d.netrc",
            "machine host\nlogin me\npassword\nZq7hunter\nmore\n".to_owned(),
        ),
        (
            "e.log",
            format!(
                "é\u{1b}[31m{token}\u{1b}[0mé ghp\u{1b}[1m_{}\n",
                "a1B2".repeat(9)
            ),
        ),
        ("f.txt", format!("\r\n  {token}\r\nafter\r\n")),
    ];
    let around = |text: String| format!("{filling}{text}\n{filling}");
    made.map(|(name, text)| (name, around(text))).to_vec()
}

fn workspace(filling: &str) -> Workspace {
    let files = files(filling);
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(name, text)| (*name, text.as_str()))
        .collect();
    Workspace::new(&files)
}

/// A right guess about a secret and a wrong one.
const GUESSES: &[(&str, &str)] = &[
    ("ghp_a1", "ghp_b1"),
    ("ghp_[a-m]", "ghp_[n-z]"),
    ("TOKEN=ghp_a", "TOKEN=ghp_b"),
    ("(?i)GHP_A1B2", "(?i)GHP_B1B2"),
    ("a1B2$", "a1B3$"),
    (r"\bghp_a", r"\bghp_b"),
    (r"B2\b", r"B3\b"),
    (r"TOKEN=\w+2$", r"TOKEN=\w+3$"),
    (r"^.{6}ghp_a", r"^.{6}ghp_b"),
    (r"^TOKEN=.{40}$", r"^TOKEN=.{41}$"),
    // Another way to match, that only a line without its secret allows.
    ("ghp_a|TOKEN=.$", "ghp_b|TOKEN=.$"),
    ("ghp_a|^[^A-Z]$", "ghp_b|^[^A-Z]$"),
    (r"ghp_a|secret", r"ghp_b|secret"),
    (r"ghp_a|\[secret", r"ghp_b|\[secret"),
    (r"ghp_a|=\B", r"ghp_b|=\B"),
    (r"ghp_a|\x1a|\x19", r"ghp_b|\x1a|\x19"),
    (r"ghp_a|é", r"ghp_b|é"),
    ("(?-u:ghp_a|[\\x80-\\xff])", "(?-u:ghp_b|[\\x80-\\xff])"),
    (":Zq7", ":Xq7"),
    ("me:Z.*@", "me:X.*@"),
    ("^Zq7", "^Xq7"),
    ("^MIIEv", "^MIIEx"),
    ("^MIIEv|^.$", "^MIIEx|^.$"),
    ("password|^Z", "password|^X"),
];

const OPTIONS: &[&str] = &[
    "{}",
    r#"{"files_only": true}"#,
    r#"{"context": 2}"#,
    r#"{"max_matches": 1}"#,
    r#"{"ignore_case": true}"#,
    r#"{"word": true}"#,
    r#"{"fixed": true}"#,
    r#"{"path": "a.env"}"#,
    r#"{"glob": "*.json", "ignore_case": true, "context": 1}"#,
];

#[test]
fn right_and_wrong_guesses_about_a_secret_give_the_same_answer() {
    let large = "some filling without a meaning\n".repeat(2_200);
    for (filling, options) in [("", 9), ("-\n", 9), (&large, 3)] {
        let workspace = workspace(filling);
        for (right, wrong) in GUESSES {
            for options in OPTIONS.iter().take(options) {
                let options: Value = serde_json::from_str(options).unwrap();
                let answer = |pattern: &str| {
                    let mut arguments = options.clone();
                    arguments["pattern"] = json!(pattern);
                    workspace.call("search.grep", &arguments).to_string()
                };
                assert_eq!(answer(right), answer(wrong), "{right} {wrong} {options}");
            }
        }
    }
}

#[test]
fn what_stands_around_a_secret_is_found_as_before() {
    let large = "some filling without a meaning\n".repeat(2_200);
    for filling in ["", &large] {
        let workspace = workspace(filling);
        for (pattern, files) in [
            ("TOKEN=", &["a.env"][..]),
            (r"TOKEN=\S+$", &["a.env"]),
            (r"^TOKEN\b", &["a.env"]),
            (r#""token":"[^"]*"}"#, &["b.json"]),
            ("me:.*@host", &["b.json"]),
            ("^password$", &["d.netrc"]),
            ("é.*é", &["e.log"]),
            ("after", &["f.txt"]),
            ("^B=2$", &["a.env"]),
        ] {
            let found = workspace.call("search.grep", &json!({ "pattern": pattern }));
            let paths: Vec<&str> = found["files"]
                .as_array()
                .unwrap()
                .iter()
                .map(|file| file["path"].as_str().unwrap())
                .collect();
            assert_eq!(paths, files, "{pattern}");
        }
    }
}

/// Every string of a result, sanitised.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => Sanitiser::new().text(text).text.into_owned() + "\n",
        Value::Array(items) => items.iter().map(shown).collect(),
        Value::Object(fields) => fields.values().map(shown).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

fn tells(text: &str) -> bool {
    ["ghp_", "a1B2", "Zq7", "hunter", "MIIE"]
        .iter()
        .any(|part| text.contains(part))
}

#[test]
fn no_line_of_a_search_ends_within_a_secret() {
    let large = "some filling without a meaning\n".repeat(2_200);
    for filling in ["", &large] {
        for before in 440..510 {
            let start = "-".repeat(before);
            let text = format!(
                "{filling}{start}\"{}\"; needle\n{start} a://me:Zq7hunter@host needle\n{start}é{}",
                token(),
                token()
            );
            let workspace = Workspace::new(&[("a", &text)]);
            for context in [0, 2] {
                let arguments = json!({"pattern": "needle|-é", "context": context});
                let found = workspace.call("search.grep", &arguments);
                assert_eq!(found["matches"], json!(3), "{before}");
                let text = shown(&found);
                assert!(!tells(&text), "{before}: {text}");
            }
        }
    }
}

#[test]
fn a_search_shows_no_line_of_a_secret_that_another_line_makes_one() {
    let large = "some filling without a meaning\n".repeat(2_200);
    for filling in ["", &large] {
        let workspace = workspace(filling);
        for pattern in ["", "^", ".", "password|more", "B=2|A=1"] {
            let pattern = if pattern.is_empty() {
                "filling|=|m"
            } else {
                pattern
            };
            let arguments = json!({"pattern": pattern, "context": 20, "max_matches": 100_000});
            let text = shown(&workspace.call("search.grep", &arguments));
            assert!(!tells(&text) && !text.is_empty(), "{pattern}: {text}");
        }
    }
}

#[test]
fn no_window_of_a_file_shows_part_of_a_secret() {
    for filling in [
        "",
        "x\n",
        &format!("{};", "long-word".repeat(700)),
        &"filling\n".repeat(9_000),
    ] {
        for (name, text) in files(filling) {
            let workspace = Workspace::new(&[(name, &text)]);
            let begin = filling.len();
            let end = text.len() - filling.len();
            let first = filling.matches('\n').count() + 1;
            // In a long file not every place is tried.
            for bytes in (begin.max(1)..end).step_by(1 + begin / 10_000) {
                let arguments = json!({"path": name, "max_bytes": bytes, "limit_lines": 1_000_000});
                let text = shown(&workspace.call("fs.read", &arguments));
                assert!(!tells(&text), "{name}, {bytes} bytes: {text}");
            }
            for line in first..first + 7 {
                for lines in 1..4 {
                    let arguments =
                        json!({"path": name, "offset_line": line, "limit_lines": lines});
                    let text = shown(&workspace.call("fs.read", &arguments));
                    assert!(!tells(&text), "{name}, {lines} from {line}: {text}");
                }
            }
        }
    }
}

#[test]
fn a_window_within_a_key_says_so_and_goes_on_after_it() {
    let workspace = Workspace::new(&[("k", &format!("a\n{}b\n", key()))]);
    let read = |arguments: Value| workspace.call("fs.read", &arguments)["text"].clone();
    let after = read(json!({"path": "k", "offset_line": 3}));
    assert_eq!(after, json!("[secret:private-key]\nb\n"));
    let within = read(json!({"path": "k", "offset_line": 3, "limit_lines": 2}));
    assert_eq!(within, json!("[secret:private-key]"));
    // A line that speaks of keys hides nothing after it.
    let workspace = Workspace::new(&[(
        "k.rs",
        "// -----BEGIN PRIVATE KEY-----\nfn one() {}\nfn two() {}\n",
    )]);
    let text = workspace.call("fs.read", &json!({"path": "k.rs", "offset_line": 2}));
    assert_eq!(text["text"], json!("fn one() {}\nfn two() {}\n"));
    let found = workspace.call("search.grep", &json!({"pattern": "fn two"}));
    assert_eq!(found["files"][0]["lines"][0]["text"], json!("fn two() {}"));
}

#[test]
fn a_name_with_a_secret_is_not_found_by_guessing_it() {
    let name = format!("keys/{}.txt", token());
    let workspace = Workspace::new(&[(name.as_str(), "needle\n"), ("keys/plain.txt", "needle\n")]);
    for (right, wrong) in [
        ("ghp_a*", "ghp_b*"),
        ("keys/g*", "keys/h*"),
        ("!ghp_a*", "!ghp_b*"),
        ("{ghp_a*,plain*}", "{ghp_b*,plain*}"),
    ] {
        let glob = |pattern: &str| workspace.call("search.glob", &json!({ "pattern": pattern }));
        assert_eq!(glob(right), glob(wrong), "{right}");
        let grep =
            |glob: &str| workspace.call("search.grep", &json!({"pattern": "needle", "glob": glob}));
        assert_eq!(grep(right), grep(wrong), "{right}");
    }
    // What matches every name tells nothing about this one.
    let all = workspace.call("search.glob", &json!({"pattern": "**"}));
    assert_eq!(strings(&all["paths"]), [name.as_str(), "keys/plain.txt"]);
}

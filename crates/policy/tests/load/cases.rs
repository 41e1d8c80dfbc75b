//! For every code a file that has this problem, and where it is.

/// Code, file, line and column.
pub(crate) type Case = (&'static str, Vec<u8>, (u32, u32));

/// A rule with more lines, in a file that is otherwise sound.
pub(crate) fn rule(lines: &str) -> String {
    format!("version: 1\nrules:\n  - name: one\n{lines}\n")
}

/// A denial with one condition.
pub(crate) fn matching(condition: &str) -> String {
    rule(&format!("    match: {{ {condition} }}\n    action: deny"))
}

/// A file with more lines below its version.
pub(crate) fn head(lines: &str) -> String {
    format!("version: 1\n{lines}\n")
}

fn t(code: &'static str, text: String, place: (u32, u32)) -> Case {
    (code, text.into_bytes(), place)
}

/// Every case.
pub(crate) fn cases() -> Vec<Case> {
    [file(), yaml(), field(), value(), meaning()].concat()
}

/// The bytes, the text, the limits.
fn file() -> Vec<Case> {
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
        t(
            "policy/hidden-character",
            matching("user: \"a\\u202e\""),
            (4, 20),
        ),
        t("policy/hidden-character", head("# \u{202e}ab"), (2, 3)),
        t(
            "policy/hidden-character",
            head("# \u{2028}rules: []"),
            (2, 3),
        ),
        t("policy/yaml-syntax", head("rules: ["), (2, 8)),
        t("policy/yaml-syntax", head("rules:\n\t- a"), (3, 2)),
        t(
            "policy/yaml-syntax",
            "%YAML 1.2\n---\nversion: 1\n".to_owned(),
            (1, 1),
        ),
        t(
            "policy/too-deep",
            head(&format!("rules: {}", "[".repeat(70))),
            (2, 73),
        ),
        t(
            "policy/too-many-nodes",
            head(&format!("rules: [{}]", "a,".repeat(1_000_001))),
            (2, 2_000_003),
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
                "{name: a, pattern: a},".repeat(1_001)
            )),
            (2, 22_042),
        ),
    ]
}

/// YAML a policy does not take; names and keys given twice.
fn yaml() -> Vec<Case> {
    vec![
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
    ]
}

/// Fields, versions, words and names that do not exist.
fn field() -> Vec<Case> {
    vec![
        t("policy/unknown-field", head("mergee: {}"), (2, 1)),
        t("policy/missing-field", "rules: []\n".to_owned(), (1, 1)),
        t("policy/missing-field", String::new(), (1, 1)),
        t("policy/missing-field", "# nothing\n".to_owned(), (1, 1)),
        t("policy/missing-field", rule("    action: deny"), (3, 5)),
        t("policy/wrong-type", head("rules:"), (2, 6)),
        t(
            "policy/wrong-type",
            head("merge: { automatic: yes }"),
            (2, 21),
        ),
        t("policy/wrong-type", matching("path_glob:"), (4, 23)),
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
    ]
}

/// Values that are malformed.
fn value() -> Vec<Case> {
    vec![
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
        t("policy/unit", head("audit: { segment: 59m }"), (2, 19)),
        t("policy/unit", head("audit: { segment: 8785h }"), (2, 19)),
        t("policy/glob", matching("path_glob: \"\""), (4, 25)),
        t(
            "policy/capability",
            head("workspace: { allow: [\"\"] }"),
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
        t(
            "policy/regex",
            head("secrets: { patterns: [{ name: a, pattern: \"a*\" }] }"),
            (2, 43),
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
    ]
}

/// Sound values that may not stand together, or mean nothing.
fn meaning() -> Vec<Case> {
    vec![
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
        t("policy/empty-condition", matching("user: []"), (4, 20)),
        t(
            "policy/except-equals-match",
            rule("    match: { user: a }\n    action: allow\n    except: [{ user: [a] }]"),
            (6, 5),
        ),
        t(
            "policy/no-effect",
            head("approvals: { channels: [chat] }"),
            (2, 24),
        ),
        t(
            "policy/no-effect",
            head("network: { whitelist: { a: [b.org] } }"),
            (2, 23),
        ),
        t(
            "policy/no-effect",
            head("workspace: { allow: [filesystem.read.~/x] }"),
            (2, 22),
        ),
        t(
            "policy/no-effect",
            head("roles: { r: [exec.*, filesystem.write.~] }"),
            (2, 22),
        ),
        t(
            "policy/no-effect",
            head("network: { default: restricted }"),
            (2, 21),
        ),
        t(
            "policy/allows-everything",
            rule("    match: {}\n    action: allow"),
            (4, 5),
        ),
    ]
}

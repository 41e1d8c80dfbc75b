//! Manifests: every rule, every default, every problem at once and in its place.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

use airlock_core::{Effect, EffectSet};
use airlock_plugin::{API_VERSION, Kind, Manifest, Protocol, Tier, WasmLimits};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::time::Duration;

const HEAD: &str = "name: x\nversion: 1.0.0\ntype: tool\n";

const WHOLE: &str = r#"name: ticket-tools
version: 1.2.0
type: tool
engine: ">= 1.0.0"
api_version: 2
license: MIT
capabilities: [sessions.read, "kv.*", network.connect.tickets.example.org]
deny_capabilities: ["exec.*"]
execution:
  tier: process
  protocol: mcp
  entry: bin/ticket-tools
  arguments: [--stdio, "two words"]
  sandbox:
    template: code-executor
    filesystem: { write_allow: [/data/plugins/self/*], read_allow: [], read_deny: [/etc/shadow, "~/.ssh/*"] }
    network: { allow: [], proxy: true }
    memory_limit: 256MiB
config_schema: { type: object, properties: { api_key: { type: string, secret: true } } }
dependencies: { session-store: ">= 1.0.0" }
tags: [vcs]
lifecycle: { hot_reload: false, graceful_shutdown_timeout: 5s }
tools:
  - { name: find, summary: finds tickets, schema: { type: object, properties: { q: { type: string } } }, read_only: true }
  - { name: close, summary: closes a ticket, schema: { type: object }, effects: [network, write] }
"#;

fn parse(text: &str) -> Manifest {
    Manifest::parse(text.as_bytes())
        .unwrap_or_else(|error| panic!("{}", error.render(text, "plugin.yaml")))
}

/// The problems of `text`: line and what.
fn problems(text: &str) -> Vec<(u32, String)> {
    let error = Manifest::parse(text.as_bytes()).unwrap_err();
    let problems = error.problems().iter();
    problems
        .map(|problem| (problem.place.line, problem.what.clone()))
        .collect()
}

#[test]
fn everything_a_manifest_says_is_kept() {
    let manifest = parse(WHOLE);
    assert_eq!(manifest.name.as_str(), "ticket-tools");
    assert_eq!(manifest.version.to_string(), "1.2.0");
    assert_eq!(manifest.engine.to_string(), ">=1.0.0");
    assert_eq!(manifest.license.as_deref(), Some("MIT"));
    assert_eq!(manifest.capabilities.len(), 3);
    assert_eq!(manifest.deny_capabilities, ["exec.*"]);
    let execution = &manifest.execution;
    assert_eq!(
        (execution.tier, execution.protocol),
        (Tier::Process, Protocol::Mcp)
    );
    assert_eq!(execution.arguments, ["--stdio", "two words"]);
    let sandbox = &execution.sandbox;
    assert_eq!(sandbox.template.as_deref(), Some("code-executor"));
    assert_eq!(sandbox.write_allow, ["/data/plugins/self/*"]);
    assert_eq!(sandbox.read_deny, ["/etc/shadow", "~/.ssh/*"]);
    assert!(sandbox.proxy && sandbox.network.is_empty());
    assert_eq!(sandbox.memory_limit.unwrap().to_string(), "256MiB");
    assert_eq!(manifest.dependencies.len(), 1);
    assert_eq!(manifest.tags, ["vcs"]);
    assert!(!manifest.lifecycle.hot_reload);
    assert_eq!(
        manifest.lifecycle.graceful_shutdown_timeout,
        Duration::from_secs(5)
    );
    assert_eq!(
        manifest.tools[0].schema["properties"]["q"],
        json!({"type": "string"})
    );
    assert!(manifest.tools[0].read_only);
    let effects = EffectSet::of(&[Effect::Network, Effect::Write]);
    assert_eq!(manifest.effects, [("close".to_owned(), effects)].into());
    let shown = manifest.effective();
    assert_eq!(shown["execution"]["sandbox"]["memory_limit"], "256MiB");
    assert_eq!(shown["lifecycle"]["graceful_shutdown_timeout"], "5s");
}

#[test]
fn what_a_manifest_leaves_out_has_a_stated_value_that_grants_nothing() {
    let manifest = parse(HEAD);
    assert_eq!(manifest.api_version, API_VERSION);
    assert!(manifest.engine.matches(&"0.0.1".parse().unwrap()));
    assert!(manifest.capabilities.is_empty() && manifest.tools.is_empty());
    let execution = &manifest.execution;
    assert_eq!(
        (execution.tier, execution.protocol),
        (Tier::Process, Protocol::Grpc)
    );
    assert_eq!(execution.entry, "bin/x");
    assert_eq!(execution.sandbox, airlock_plugin::SandboxAsk::default());
    assert!(execution.sandbox.write_allow.is_empty() && !execution.sandbox.proxy);
    assert!(execution.tls, "nothing is in the clear unless it says so");
    let clear = parse(&format!("{HEAD}execution: {{ tls: false }}\n"));
    assert!(!clear.execution.tls);
    assert_eq!(clear.effective()["execution"]["tls"], false);

    let wasm = parse(&format!("{HEAD}execution: {{ tier: wasm }}\n"));
    assert_eq!(wasm.execution.protocol, Protocol::Wasm);
    assert_eq!(wasm.execution.entry, "x.wasm");
    assert_eq!(wasm.execution.limits, WasmLimits::USUAL);
    assert_eq!(wasm.effective()["execution"]["limits"]["memory"], "64MiB");

    let skill = parse("name: x\nversion: 1.0.0\ntype: skill\n");
    assert_eq!(
        (skill.kind, skill.execution.entry.as_str()),
        (Kind::Skill, "SKILL.md")
    );
}

#[test]
fn limits_of_wasm_plugins_can_be_read_back() {
    let text = format!(
        "{HEAD}execution: {{ tier: wasm, limits: {{ fuel: 7, deadline: 2s, memory: 1MiB, tables: 5, stack: 128KiB, instances: 3 }} }}\n"
    );
    let shown = parse(&text).effective();
    let want = json!({ "fuel": 7, "deadline": "2s", "memory": "1MiB", "tables": 5, "stack": "128KiB", "instances": 3 });
    assert_eq!(shown["execution"]["limits"], want);
}

/// What is added to a minimal manifest, the line it is told at, and what is told.
const RULES: &[(&str, u32, &str)] = &[
    ("engine: soon", 4, "does not say which versions"),
    ("engine: [1]", 4, "this is no text"),
    ("api_version: 0", 4, "no number that can stand here"),
    ("api_version: two", 4, "no number that can stand here"),
    ("license: ''", 4, "one line of at most 200"),
    ("author: me", 4, "unknown field in a manifest, `author`"),
    (
        "capabilites: []",
        4,
        "unknown field in a manifest, `capabilites`",
    ),
    ("name: y", 4, "`name` is given twice"),
    ("capabilities: kv.*", 4, "this is no list"),
    ("capabilities: ['']", 4, "the capability is empty"),
    ("capabilities: ['kv..x']", 4, "two dots in a row"),
    ("capabilities: ['.kv']", 4, "begins with a dot"),
    ("capabilities: ['kv.']", 4, "ends with a dot"),
    ("capabilities: ['kv.{a,b}']", 4, "has the character"),
    (
        "capabilities: [filesystem.read./data/../etc]",
        4,
        "has the component `..`",
    ),
    (
        "capabilities: [filesystem.read.~root/x]",
        4,
        "begins with `~` but not with `~/`",
    ),
    ("capabilities: [kv.get, kv.get]", 4, "is there twice"),
    ("deny_capabilities: ['**']", 4, "has `**`"),
    (
        "capabilities: [exec.run.sandboxed]\ndeny_capabilities: ['exec.*']",
        4,
        "`exec.run.sandboxed` is denied by `exec.*`",
    ),
    (
        "capabilities: ['kv.*']\ndeny_capabilities: ['*']",
        4,
        "`kv.*` is denied by `*`",
    ),
    (
        "capabilities: [filesystem.read./data/x]\ndeny_capabilities: [filesystem.read./data/*]",
        4,
        "is denied by",
    ),
    ("execution: process", 4, "`execution` is no mapping"),
    ("execution:\n  tier: native", 5, "unknown tier `native`"),
    ("execution:\n  tier: kernel", 5, "unknown tier `kernel`"),
    (
        "execution:\n  tier: container",
        5,
        "the tier `container` cannot be used yet",
    ),
    (
        "execution:\n  image: 'x:1'",
        5,
        "`image` is that of a container",
    ),
    ("execution:\n  protocol: http", 5, "unknown protocol `http`"),
    ("execution:\n  protocol: wasm", 5, "does not fit the tier"),
    (
        "execution:\n  tier: wasm\n  protocol: grpc",
        6,
        "does not fit the tier",
    ),
    (
        "execution:\n  tier: wasm\n  arguments: [x]",
        6,
        "has no command line",
    ),
    (
        "execution:\n  tier: wasm\n  tls: false",
        6,
        "about the connection to a gRPC plugin",
    ),
    (
        "execution:\n  protocol: mcp\n  tls: true",
        6,
        "about the connection to a gRPC plugin",
    ),
    ("execution:\n  tls: maybe", 5, "neither true nor false"),
    (
        "execution:\n  tier: wasm\n  sandbox: {}",
        6,
        "has no files and no network",
    ),
    (
        "execution:\n  limits: {}",
        5,
        "`limits` are those of a Wasm plugin",
    ),
    (
        "execution:\n  tier: wasm\n  limits: { fuel: 0 }",
        6,
        "no number that can stand here",
    ),
    (
        "execution:\n  tier: wasm\n  limits: { memory: 1k }",
        6,
        "unknown unit",
    ),
    (
        "execution:\n  tier: wasm\n  limits: { memory: 5GiB }",
        6,
        "out of range",
    ),
    (
        "execution:\n  tier: wasm\n  limits: { deadline: 10 }",
        6,
        "unknown unit",
    ),
    (
        "execution:\n  tier: wasm\n  limits: { stack: 1GiB }",
        6,
        "out of range",
    ),
    (
        "execution:\n  tier: wasm\n  limits: { threads: 1 }",
        6,
        "unknown field in `limits`, `threads`",
    ),
    (
        "execution:\n  entry: /bin/sh",
        5,
        "no path within the plugin's directory",
    ),
    (
        "execution:\n  entry: ../sh",
        5,
        "no path within the plugin's directory",
    ),
    (
        "execution:\n  entry: bin/../../sh",
        5,
        "no path within the plugin's directory",
    ),
    (
        "execution:\n  entry: bin//x",
        5,
        "no path within the plugin's directory",
    ),
    (
        "execution:\n  entry: ./x",
        5,
        "no path within the plugin's directory",
    ),
    (
        "execution:\n  entry: ~/x",
        5,
        "no path within the plugin's directory",
    ),
    (
        "execution:\n  entry: ''",
        5,
        "no path within the plugin's directory",
    ),
    (
        "execution:\n  entry: 'a\\b'",
        5,
        "no path within the plugin's directory",
    ),
    (
        "execution:\n  entry: \"a\\nb\"",
        5,
        "no path within the plugin's directory",
    ),
    ("execution:\n  arguments: [[x]]", 5, "this is no text"),
    (
        "execution:\n  user: root",
        5,
        "unknown field in `execution`, `user`",
    ),
    (
        "execution:\n  sandbox:\n    template: none",
        6,
        "unknown template `none`",
    ),
    (
        "execution:\n  sandbox:\n    template: integration-test",
        6,
        "no plugin is made from the template `integration-test`",
    ),
    (
        "execution:\n  sandbox:\n    template: policy-sandbox",
        6,
        "no plugin is made from the template `policy-sandbox`",
    ),
    (
        "execution:\n  sandbox:\n    memory_limit: 2GiB",
        6,
        "out of range",
    ),
    (
        "deny_capabilities: ['filesystem.*']\nexecution:\n  sandbox:\n    filesystem: { read_allow: ['/srv/x/*'] }",
        4,
        "`filesystem.read` of `/srv/x/*` is denied by `filesystem.*`",
    ),
    (
        "deny_capabilities: ['filesystem.write./srv/x/private/**']\nexecution:\n  sandbox:\n    filesystem: { write_allow: [/srv/x] }",
        4,
        "`filesystem.write` of `/srv/x` is denied by `filesystem.write./srv/x/private/**`",
    ),
    (
        "deny_capabilities: ['filesystem.read./srv/x/**']\nexecution:\n  sandbox:\n    filesystem: { write_allow: [/srv/x] }",
        4,
        "`filesystem.read` of `/srv/x` is denied by `filesystem.read./srv/x/**`",
    ),
    (
        "deny_capabilities: ['filesystem.read./home/*/.ssh/**']\nexecution:\n  sandbox:\n    filesystem: { read_allow: [/home/someone] }",
        4,
        "`filesystem.read` of `/home/someone` is denied by `filesystem.read./home/*/.ssh/**`",
    ),
    (
        "deny_capabilities: ['filesystem.read.*']\nexecution:\n  sandbox:\n    filesystem: { read_allow: [~/data] }",
        4,
        "`filesystem.read` of `~/data` is denied",
    ),
    (
        "execution:\n  tier: wasm\n  limits: { memory: 128MiB }",
        6,
        "out of range",
    ),
    (
        "execution:\n  tier: wasm\n  limits: { stack: 2MiB }",
        6,
        "out of range",
    ),
    (
        "execution:\n  tier: wasm\n  limits: { tables: 100001 }",
        6,
        "is no number that can stand here",
    ),
    (
        "execution:\n  tier: wasm\n  limits: { instances: 4, memory: 1MiB }",
        6,
        "is no number that can stand here",
    ),
    (
        "execution:\n  tier: wasm\n  limits: { instances: 2 }",
        6,
        "2 instances of 64MiB have no room: all have 64MiB together",
    ),
    (
        "execution:\n  sandbox:\n    memory_limit: 1KiB",
        6,
        "out of range",
    ),
    (
        "execution:\n  sandbox:\n    memory_limit: 256mb",
        6,
        "unknown unit",
    ),
    (
        "execution:\n  sandbox:\n    seccomp: off",
        6,
        "unknown field in `sandbox`, `seccomp`",
    ),
    (
        "execution:\n  sandbox:\n    filesystem: { write_allow: [data] }",
        6,
        "neither absolute nor in a known place",
    ),
    (
        "execution:\n  sandbox:\n    filesystem: { write_allow: [/] }",
        6,
        "is the whole file system",
    ),
    (
        "execution:\n  sandbox:\n    filesystem: { read_allow: ['~/*'] }",
        6,
        "is the whole home",
    ),
    (
        "execution:\n  sandbox:\n    filesystem: { read_allow: [/data/../etc] }",
        6,
        "`.` or `..` component",
    ),
    (
        "execution:\n  sandbox:\n    filesystem: { read_allow: [/data//x] }",
        6,
        "empty component",
    ),
    (
        "execution:\n  sandbox:\n    filesystem: { read_allow: ['/data/*/x'] }",
        6,
        "wildcard in the middle",
    ),
    (
        "execution:\n  sandbox:\n    filesystem: { read_allow: [/proc/1] }",
        6,
        "belongs to the machine",
    ),
    (
        "execution:\n  sandbox:\n    filesystem: { read_deny: ['/data/[x]'] }",
        6,
        "other patterns give a meaning",
    ),
    (
        "execution:\n  sandbox:\n    filesystem: { exec_allow: [/x] }",
        6,
        "unknown field in `filesystem`, `exec_allow`",
    ),
    (
        "execution:\n  sandbox:\n    network: { allow: ['h.example:443'] }",
        6,
        "`network.allow` cannot be enforced yet",
    ),
    (
        "execution:\n  sandbox:\n    network: { proxy: yes }",
        6,
        "neither true nor false",
    ),
    ("config_schema: { type: string }", 4, "settings are named"),
    (
        "config_schema: { type: object, propertis: {} }",
        4,
        "unknown field in a schema, `propertis`",
    ),
    (
        "config_schema: { type: object, required: [a] }",
        4,
        "unknown property `a`",
    ),
    (
        "config_schema: { type: object, properties: { a: { type: text } } }",
        4,
        "unknown type `text`",
    ),
    (
        "config_schema: { type: object, properties: { a: { pattern: '(' } } }",
        4,
        "no pattern",
    ),
    ("dependencies: [a]", 4, "`dependencies` is no mapping"),
    ("dependencies: { x: '1' }", 4, "`x` depends on itself"),
    ("dependencies: { Y: '1' }", 4, "`Y` is no plugin's name"),
    (
        "dependencies: { y: latest }",
        4,
        "does not say which versions",
    ),
    ("tags: ['a b']", 4, "`a b` is no tag"),
    ("tags: [a, a]", 4, "is there twice"),
    (
        "lifecycle: { graceful_shutdown_timeout: 30 }",
        4,
        "unknown unit",
    ),
    (
        "lifecycle: { graceful_shutdown_timeout: 1h }",
        4,
        "out of range",
    ),
    (
        "lifecycle: { hot_reload: maybe }",
        4,
        "neither true nor false",
    ),
    (
        "lifecycle: { restart: always }",
        4,
        "unknown field in `lifecycle`, `restart`",
    ),
    ("tools: {}", 4, "this is no list"),
    (
        "tools: [{ name: a.b, summary: s, schema: { type: object } }]",
        4,
        "`a.b` is no tool's name",
    ),
    (
        "tools: [{ name: 1a, summary: s, schema: { type: object } }]",
        4,
        "`1a` is no tool's name",
    ),
    (
        "tools: [{ name: a, summary: s, schema: { type: object }, effects: write }]",
        4,
        "this is no list",
    ),
    (
        "tools: [{ name: a, summary: s, schema: { type: object }, effects: [fly] }]",
        4,
        "unknown effect `fly`",
    ),
    (
        "tools: [{ name: a, summary: s, schema: { type: object }, effects: [control] }]",
        4,
        "unknown effect `control`",
    ),
    (
        "tools: [{ name: a, summary: s, schema: { type: object }, effects: [read, read] }]",
        4,
        "`read` is there twice",
    ),
    (
        "tools: [{ name: a, summary: s, schema: { type: object }, read_only: true, effects: [delete] }]",
        4,
        "has no effect `delete`",
    ),
    (
        "tools: [{ name: a, schema: { type: object } }]",
        4,
        "`summary` is missing in a tool",
    ),
    (
        "tools: [{ name: a, summary: s }]",
        4,
        "`schema` is missing in a tool",
    ),
    (
        "tools: [{ name: a, summary: s, schema: { type: array } }]",
        4,
        "arguments are an object",
    ),
    (
        "tools: [{ name: a, summary: s, schema: { type: object, properties: { k: { secret: true } } } }]",
        4,
        "unknown field in a schema, `secret`",
    ),
    (
        "tools: [{ name: a, summary: s, schema: { $ref: x } }]",
        4,
        "unknown field in a schema, `$ref`",
    ),
    (
        "tools: [{ name: a, summary: s, schema: { type: object } }, { name: a, summary: t, schema: { type: object } }]",
        4,
        "the tool `a` is there twice",
    ),
];

#[test]
fn every_rule_is_kept() {
    for (added, line, what) in RULES {
        let text = format!("{HEAD}{added}\n");
        let found = problems(&text);
        let hit = found
            .iter()
            .any(|(at, told)| at == line && told.contains(what));
        assert!(hit, "{added}\nwanted {line}: {what}\nfound {found:?}");
    }
}

#[test]
fn heads_are_checked() {
    for (text, what) in [
        ("version: 1.0.0\ntype: tool", "`name` is missing"),
        ("name: x\ntype: tool", "`version` is missing"),
        ("name: x\nversion: 1.0.0", "`type` is missing"),
        (
            "name: X\nversion: 1.0.0\ntype: tool",
            "`X` is no plugin's name",
        ),
        (
            "name: -x\nversion: 1.0.0\ntype: tool",
            "is no plugin's name",
        ),
        (
            "name: ../x\nversion: 1.0.0\ntype: tool",
            "is no plugin's name",
        ),
        (
            "name: x_y\nversion: 1.0.0\ntype: tool",
            "is no plugin's name",
        ),
        ("name: fs\nversion: 1.0.0\ntype: tool", "Airlock's own name"),
        (
            "name: policy\nversion: 1.0.0\ntype: tool",
            "Airlock's own name",
        ),
        (
            "name: cli\nversion: 1.0.0\ntype: tool",
            "Airlock's own name",
        ),
        ("name: x\nversion: 1.0\ntype: tool", "is no version"),
        ("name: x\nversion: v1.0.0\ntype: tool", "is no version"),
        ("name: x\nversion: 01.0.0\ntype: tool", "is no version"),
        (
            "name: x\nversion: 1.0.0\ntype: widget",
            "unknown type `widget`",
        ),
        (
            "name: x\nversion: 1.0.0\ntype: channel\nexecution: { protocol: mcp }",
            "has only tools",
        ),
        (
            "name: x\nversion: 1.0.0\ntype: provider\nexecution: { tier: wasm }",
            "has only tools",
        ),
        (
            "name: x\nversion: 1.0.0\ntype: skill\nexecution: {}",
            "a skill has no code",
        ),
        (
            "name: x\nversion: 1.0.0\ntype: skill\ntools: [{ name: a, summary: s, schema: { type: object } }]",
            "only a tool plugin has tools",
        ),
        ("", "one YAML document"),
        ("# nothing\n", "one YAML document"),
        ("[1]", "a manifest is no mapping"),
        ("a: 1\n---\nb: 2\n", "one YAML document"),
        (
            "name: &n x\nversion: 1.0.0\ntype: *n",
            "hides what a value is",
        ),
        ("name: x\n\tversion: 1", "not YAML"),
    ] {
        let found = problems(text);
        let hit = found.iter().any(|(_, told)| told.contains(what));
        assert!(hit, "{text}\nwanted {what}\nfound {found:?}");
    }
    assert!(Manifest::parse(&vec![b'#'; 256 * 1024 + 1]).is_err());
}

#[test]
fn every_problem_is_told_at_once_with_its_place_its_line_and_a_fix() {
    let text = "name: X\nversion: 1\ntype: tol\ncapabilities: [a..b]\nexecution:\n  tier: process\n  entry: ../x\nnope: 1\n";
    let error = Manifest::parse(text.as_bytes()).unwrap_err();
    let lines: Vec<u32> = error.problems().iter().map(|one| one.place.line).collect();
    assert_eq!(lines, [1, 2, 3, 4, 7, 8]);
    let shown = error.render(text, "plugin.yaml");
    for part in [
        "--> plugin.yaml:3:7",
        "3 | type: tol",
        "did you mean `tool`?",
        "--> plugin.yaml:7:10",
        "^^^^",
    ] {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
}

#[test]
fn bad_hosts_are_told_beside_the_refusal_of_all() {
    let text = format!(
        "{HEAD}execution:\n  sandbox:\n    network: {{ allow: ['good.example:443', bad] }}\n"
    );
    let found = problems(&text);
    assert_eq!(found.len(), 2, "{found:?}");
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name, without_nulls(value)))
            .collect(),
        other => other,
    }
}

#[test]
fn what_is_shown_as_in_force_reads_back_as_the_same_manifest() {
    let wasm = format!("{HEAD}execution: {{ tier: wasm, limits: {{ fuel: 7 }} }}\n");
    let clear = format!("{HEAD}execution: {{ tls: false }}\n");
    let skill = "name: x\nversion: 1.0.0\ntype: skill\n";
    for text in [WHOLE, HEAD, wasm.as_str(), clear.as_str(), skill] {
        let manifest = parse(text);
        let shown = without_nulls(manifest.effective()).to_string();
        assert_eq!(parse(&shown), manifest, "{shown}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}") {
        let _ = Manifest::parse(text.as_bytes());
    }

    #[test]
    fn no_change_of_a_good_one_makes_it_panic(at in 0usize..900, byte: u8, cut in 0usize..900) {
        let mut bytes = WHOLE.as_bytes().to_vec();
        if let Some(slot) = bytes.get_mut(at) {
            *slot = byte;
        }
        bytes.truncate(cut.max(at));
        if let Err(error) = Manifest::parse(&bytes) {
            let _ = error.render(&String::from_utf8_lossy(&bytes), "plugin.yaml");
        }
    }
}

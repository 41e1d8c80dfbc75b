//! Manifests of plugins: any bytes give an answer, with every problem at a place that exists; what
//! loads has no name, path or pattern that leads elsewhere, and grants nothing that cannot be held.

use super::{Target, text};
use airlock_plugin::{DefinitionError, Manifest, Tier, is_tool_name};
use airlock_policy::capability::CapabilitySet;

pub(super) const TARGET: Target = Target {
    name: "manifest",
    run,
    seeds: &[
        b"name: ticket-tools\nversion: 1.2.0\ntype: tool\nengine: '>= 1.0.0'\napi_version: 2\nlicense: MIT\ncapabilities: [sessions.read, 'kv.*', filesystem.read./data/*]\ndeny_capabilities: ['exec.*']\nexecution:\n  tier: process\n  protocol: mcp\n  entry: bin/ticket-tools\n  arguments: [--stdio]\n  sandbox:\n    template: code-executor\n    filesystem: { write_allow: [self/*], read_allow: [/opt/x], read_deny: [/etc/shadow, '~/.ssh/*'] }\n    network: { allow: [], proxy: true }\n    memory_limit: 256MiB\nconfig_schema: { type: object, properties: { api_key: { type: string, secret: true } } }\ndependencies: { session-store: '>= 1.0.0' }\ntags: [vcs]\nlifecycle: { hot_reload: true, graceful_shutdown_timeout: 30s }\ntools: [{ name: find, summary: s, schema: { type: object }, read_only: true }]\n",
        b"name: w\nversion: 0.1.0-rc.1+b\ntype: tool\nexecution: { tier: wasm, limits: { fuel: 10, deadline: 5s, memory: 1MiB, tables: 10, stack: 64KiB, instances: 2 } }\n",
        b"name: s\nversion: 1.0.0\ntype: skill\n",
        b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
        b"---\n---\n",
        b"",
    ],
    dictionary: &[
        "tier: container", "tier: kernel", "protocol: grpc", "entry: ../x", "entry: /bin/sh",
        "name: fs", "allow: ['h:1']", "../", "//", "\\", "self/", "~/", "/proc", "**", "*",
        "filesystem.write./", "deny_capabilities: ['*']", "secret: true", "&a ", "*a", "!!str ",
        "<<: ", "\u{202e}", "99999999999999999999",
    ],
    iterations: 1_500,
};

fn run(input: &[u8]) {
    match Manifest::parse(input) {
        Ok(manifest) => sound(&manifest),
        Err(error) => told(&error, &text(input)),
    }
}

fn told(error: &DefinitionError, text: &str) {
    assert!(!error.problems().is_empty() && error.problems().len() <= 50);
    let lines = u32::try_from(text.lines().count()).unwrap_or(u32::MAX);
    for problem in error.problems() {
        assert!(problem.place.line <= lines.saturating_add(1), "{problem:?}");
    }
    let _ = error.render(text, "plugin.yaml");
}

fn sound(manifest: &Manifest) {
    let execution = &manifest.execution;
    assert!(matches!(execution.tier, Tier::Wasm | Tier::Process));
    let parts = |path: &str| path.split('/').any(|part| matches!(part, "" | "." | ".."));
    assert!(!parts(&execution.entry), "{}", execution.entry);
    assert!(execution.sandbox.network.is_empty());
    let asked = &execution.sandbox;
    for path in asked.read_allow.iter().chain(&asked.write_allow) {
        let inside = path.trim_start_matches('/').trim_start_matches("~/");
        assert!(inside == "self/" || !parts(inside), "{path}");
    }
    let denied = CapabilitySet::parse(&manifest.deny_capabilities);
    assert!(denied.is_ok(), "{denied:?}");
    let denied = denied.unwrap_or_else(|_| CapabilitySet::empty());
    for capability in &manifest.capabilities {
        // Most patterns are capabilities as well, and then a denial may not hold them.
        let literal = !capability.contains('*');
        assert!(!(literal && denied.contains(capability)), "{capability}");
    }
    assert!(manifest.tools.iter().all(|tool| is_tool_name(&tool.name)));
    assert!(!manifest.dependencies.contains_key(&manifest.name));
    let _ = manifest.effective();
}

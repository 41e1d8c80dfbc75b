//! What a policy says beside its rules, as far as it says anything.

use super::text;
use crate::document::Document;
use crate::rules::Policy;
use serde::Serialize;
use serde_json::{Map, Value};

/// Settings that can let more happen, have fewer people asked, or keep less of what happened.
const WIDENING: &[&str] = &[
    "approvals.automatic",
    "approvals.channels",
    "approvals.expires_after",
    "approvals.mcp_gates",
    "audit",
    "commands",
    "extensions",
    "merge",
    "network",
    "phases",
    "roles",
    "sanitise",
    "tags",
    "users",
];

/// One setting of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SettingSummary {
    /// Its section and name, with a dot between them.
    pub key: String,
    /// What it is set to, as in the file, on one line.
    pub value: String,
    /// Whether settings of this name can let more happen, or with fewer people asked.
    pub can_widen: bool,
}

impl Policy {
    /// Everything that is not a rule and not the default, in order of name. Nothing is left out or
    /// shortened: who approves a policy has seen all of it.
    pub fn settings(&self) -> Vec<SettingSummary> {
        let said = fields(self.document());
        let usual = fields(&Document::default());
        let mut all = Vec::new();
        for (section, value) in &said {
            if section != "rules" {
                differences(section, value, usual.get(section), &mut all);
            }
        }
        all
    }
}

fn fields(document: &Document) -> Map<String, Value> {
    match serde_json::to_value(document) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) | Err(_) => Map::new(),
    }
}

/// A line for each part of `said` that is not `usual`.
fn differences(key: &str, said: &Value, usual: Option<&Value>, all: &mut Vec<SettingSummary>) {
    if Some(said) == usual {
        return;
    }
    match (said, usual) {
        (Value::Object(said), Some(Value::Object(usual))) => {
            for (name, value) in said {
                let key = format!("{key}.{}", text::plain(name));
                differences(&key, value, usual.get(name), all);
            }
            let gone = usual.keys().filter(|name| !said.contains_key(*name));
            all.extend(gone.map(|name| line(&format!("{key}.{name}"), "none".to_owned())));
        }
        (Value::Array(items), _) if items.iter().any(Value::is_object) => {
            all.extend(items.iter().map(|item| line(key, flow(item))));
        }
        _ => all.push(line(key, flow(said))),
    }
}

fn line(key: &str, value: String) -> SettingSummary {
    let within = |name: &str| {
        let rest = key.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    SettingSummary {
        key: key.to_owned(),
        value,
        can_widen: WIDENING.iter().any(|name| within(name)),
    }
}

/// A value as the file could have it, on one line. What is absent is left out.
fn flow(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(string) => text::yaml(&text::plain(string)),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            let fields: Vec<String> = fields
                .map(|(name, value)| format!("{}: {}", text::plain(name), flow(value)))
                .collect();
            format!("{{ {} }}", fields.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        let policy = Policy::load("test", text.as_bytes()).unwrap().policy;
        let settings = policy.settings().into_iter();
        settings
            .map(|one| {
                let mark = if one.can_widen { "! " } else { "" };
                format!("{mark}{}: {}", one.key, one.value)
            })
            .collect()
    }

    #[test]
    fn what_is_as_usual_is_not_said_and_all_else_is() {
        assert_eq!(of("version: 1\n"), Vec::<String>::new());
        let usual = "version: 1\nmerge: { automatic: false, max_lines: 500 }\naudit: { retention_days: 90 }\n";
        assert_eq!(of(usual), Vec::<String>::new());
        let shown = of("version: 1
workspace: { minimum_tier: container }
roles: { reader: [\"filesystem.read.*\"] }
users: { ada: reader }
tags: { trusted_write: { plugin: [x] } }
commands:
  - { executable: git, subcommands: [log, \"a, b\"] }
  - { executable: sh }
network: { default: restricted, whitelist: { all: [example.org] } }
templates: { code-executor: { socket: false } }
phases: { test_command: [sh, -c, \"exit 0\"] }
approvals: { automatic: [AG-01, AG-03], expires_after: 100h, require_passphrase: true }
merge: { automatic: true, max_lines: 1000000 }
audit: { retention_days: 1 }
");
        let shown = shown.join("\n");
        for line in [
            "workspace.minimum_tier: container",
            "! roles.reader: [\"filesystem.read.*\"]",
            "! users.ada: [reader]",
            "! tags.trusted_write: { plugin: [x], user: [] }",
            "! commands: { block_arguments: [], executable: git, subcommands: [log, \"a, b\"] }",
            "! commands: { block_arguments: [], executable: sh }",
            "! network.default: restricted",
            "! phases.test_command: [sh, \"-c\", \"exit 0\"]",
            "! approvals.automatic: [AG-01, AG-03]",
            "! approvals.expires_after: \"100h\"",
            "approvals.require_passphrase: true",
            "! merge.automatic: true",
            "! merge.max_lines: 1000000",
            "! audit.retention_days: 1",
        ] {
            assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
        }
        assert!(shown.contains("! network.whitelist.all: "), "{shown}");
        assert!(shown.contains("templates.code-executor: "), "{shown}");
    }
}

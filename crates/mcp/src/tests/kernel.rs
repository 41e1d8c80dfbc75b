//! A real kernel behind the server: no tool reaches around the road.

use super::talk::Client;
use crate::describe::offered_name;
use crate::road::Road;
use airlock_audit::{Entry, Filter, Stage};
use airlock_kernel::{
    Call, Clock, DEFAULT_OUTPUT_BYTES, Front, Kernel, KernelConfig, Lifetime, Outcome,
};
use serde_json::{Value, json};
use std::fs;
use std::sync::Arc;
use tempfile::TempDir;

const READS: &str = "\
version: 1
rules:
  - { name: read-all, match: { effect: read, path_glob: \"**\" }, action: allow, reason: reading }
  - { name: keep, match: { effect: read, path_glob: private }, action: deny, reason: private stays }
  - { name: ask, match: { effect: read, path_glob: ask.txt }, action: require_review, reason: ask first }
  - { name: view, match: { syscall: \"session.*\" }, action: allow, reason: own view }
";

struct Place {
    _outer: TempDir,
    kernel: Arc<Kernel>,
}

impl Place {
    fn new(policy: &str) -> Self {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("w");
        fs::create_dir_all(root.join(".airlock")).unwrap();
        for (name, text) in [("a.txt", "hello\n"), ("private", "x\n"), ("ask.txt", "x\n")] {
            fs::write(root.join(name), text).unwrap();
        }
        fs::write(root.join(".airlock/policy.yaml"), policy).unwrap();
        let open = || {
            Kernel::open(KernelConfig {
                workspace: root.clone(),
                state_home: outer.path().join("state"),
                clock: Clock::system(),
                lifetime: Lifetime::Long,
                output_bytes: DEFAULT_OUTPUT_BYTES,
                search_threads: 1,
                worker: None,
            })
            .unwrap()
        };
        let kernel = open();
        let digest = kernel.workspace().trust().unwrap().digest();
        let approve = Call::new("trust.approve", json!({ "digest": digest }));
        if let Outcome::NeedsReview(mut review) = kernel.submit(Front::Cli, &approve) {
            kernel.answer(&mut review, true).unwrap();
            kernel.submit(Front::Cli, &approve);
        }
        drop(kernel);
        Self {
            kernel: Arc::new(open()),
            _outer: outer,
        }
    }

    async fn client(&self) -> Client {
        Client::new(Arc::clone(&self.kernel) as Arc<dyn Road>).await
    }

    /// The records of the front `mcp`, oldest first.
    fn records(&self) -> Vec<Entry> {
        self.kernel.log().flush().unwrap();
        let filter = Filter {
            plugin: Some("mcp".to_owned()),
            ..Filter::default()
        };
        let records = self.kernel.log().read(filter).unwrap();
        records.map(|record| record.unwrap().entry).collect()
    }
}

/// Arguments a tool can be called with here. One that is missing must be thought about.
fn arguments(tool: &str) -> Value {
    match tool {
        "fs.read" | "fs.exists" => json!({ "path": "a.txt" }),
        "fs.list" | "session.policy" | "session.log" => json!({}),
        "search.glob" => json!({ "pattern": "*" }),
        "search.grep" => json!({ "pattern": "hello" }),
        "exec.run" => json!({ "command": ["true"] }),
        other => panic!("say what `{other}` is called with"),
    }
}

/// Whether `value` is what `schema` says, as far as our schemas say anything.
fn conforms(value: &Value, schema: &Value) -> bool {
    let required = |schema: &Value| {
        let names = schema["required"].as_array().cloned().unwrap_or_default();
        names
            .iter()
            .all(|name| value.get(name.as_str().unwrap()).is_some())
    };
    let typed = schema["properties"]
        .as_object()
        .unwrap()
        .iter()
        .all(|(name, property)| {
            value
                .get(name)
                .is_none_or(|field| match property["type"].as_str().unwrap() {
                    "string" => field.is_string(),
                    "boolean" => field.is_boolean(),
                    "integer" => field.is_i64() || field.is_u64(),
                    "array" => field.is_array(),
                    other => panic!("a schema says `{other}`"),
                })
        });
    value.is_object() && typed && schema["anyOf"].as_array().unwrap().iter().any(required)
}

#[tokio::test]
async fn every_tool_is_decided_recorded_and_described_truly() {
    let place = Place::new(READS);
    let mut client = place.client().await;
    let listed = client.ask("tools/list", json!({})).await;
    let listed = listed["result"]["tools"].as_array().unwrap().clone();
    assert!(listed.len() >= 8, "{listed:?}");
    for tool in &listed {
        let (name, title) = (
            tool["name"].as_str().unwrap(),
            tool["title"].as_str().unwrap(),
        );
        assert!(
            name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
            "{name}"
        );
        assert_eq!(tool["inputSchema"]["type"], "object");
        let before = place.records().len();
        let answer = client.call(name, arguments(title)).await;
        let result = &answer["result"];
        if let Some(schema) = tool.get("outputSchema") {
            assert!(
                conforms(&result["structuredContent"], schema),
                "{title}: {result}"
            );
        }
        let action = result["_meta"]["airlock/action"].as_str().unwrap();
        let records = place.records();
        let mine: Vec<&Entry> = records[before..]
            .iter()
            .filter(|entry| {
                entry
                    .action
                    .as_ref()
                    .is_some_and(|id| id.to_string() == action)
            })
            .collect();
        let attempt = mine
            .iter()
            .find(|entry| entry.stage == Stage::Attempt)
            .unwrap();
        assert_eq!(attempt.tool.as_deref(), Some(title));
        assert!(attempt.decision.is_some() && attempt.caller.as_ref().unwrap().session.is_some());
        let allowed = attempt.decision.as_ref().unwrap().verdict == "allow";
        assert_eq!(allowed, title != "exec.run", "{title}");
        assert_eq!(result["isError"], !allowed, "{result}");
    }
}

#[tokio::test]
async fn a_rule_that_denies_a_syscall_stops_it_here_too() {
    let tools = Place::new(READS).kernel.tools();
    for tool in tools {
        let policy = format!(
            "{READS}  - {{ name: not-this, match: {{ syscall: {} }}, action: deny, reason: not here }}\n",
            tool.name
        );
        let place = Place::new(&policy);
        let answer = place
            .client()
            .await
            .call(&offered_name(&tool.name), arguments(&tool.name))
            .await;
        let result = &answer["result"];
        assert_eq!(result["isError"], true);
        assert_eq!(result["structuredContent"]["status"], "denied", "{result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(
            text.contains("not-this") && text.contains("not here"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn what_only_a_person_may_do_is_denied_and_recorded_by_whatever_name() {
    let place = Place::new(READS);
    let mut client = place.client().await;
    for (tool, arguments) in [
        ("policy.update", json!({ "text": READS })),
        ("trust.revoke", json!({})),
        ("audit.read", json!({ "purpose": "log" })),
        ("stage.drop", json!({ "stage": "default" })),
    ] {
        let answer = client.call(tool, arguments.clone()).await;
        assert_eq!(
            answer["result"]["structuredContent"]["status"], "denied",
            "{answer}"
        );
        // The offered form is the name of no tool.
        let answer = client.call(&offered_name(tool), arguments).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    assert_eq!(
        client
            .call("exec.own", json!({ "command": ["true"] }))
            .await["error"]["code"],
        -32602
    );
    let refused = place.records();
    let refused = refused
        .iter()
        .filter(|entry| entry.metadata.contains_key("refused"));
    assert_eq!(refused.count(), 5);
}

#[tokio::test]
async fn a_denial_says_why_and_what_would_allow_it() {
    let place = Place::new(READS);
    let mut client = place.client().await;
    let answer = client.call("fs_read", json!({ "path": "private" })).await;
    let data = &answer["result"]["structuredContent"];
    assert_eq!(data["status"], "denied");
    assert!(
        data["reasons"][0]
            .as_str()
            .unwrap()
            .contains("private stays"),
        "{data}"
    );
    assert!(!data["fixes"].as_array().unwrap().is_empty());
    let answer = client.call("fs_read", json!({ "path": "ask.txt" })).await;
    let data = &answer["result"]["structuredContent"];
    assert_eq!(data["status"], "needs_review", "{answer}");
    let approval = data["approval"].as_str().unwrap();
    assert_eq!(data["how"], format!("airlock approvals approve {approval}"));
}

#[tokio::test]
async fn wrong_arguments_are_an_error_the_model_can_read() {
    let place = Place::new(READS);
    let mut client = place.client().await;
    for arguments in [json!({}), json!({ "pth": "a.txt" }), json!({ "path": 7 })] {
        let answer = client.call("fs_read", arguments).await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert_eq!(
            answer["result"]["structuredContent"]["code"],
            "invalid_arguments"
        );
    }
}

#[tokio::test]
async fn resources_are_read_on_the_road() {
    let place = Place::new(READS);
    let mut client = place.client().await;
    let read = |uri: &str| json!({ "uri": uri });
    let answer = client.ask("resources/read", read("airlock://policy")).await;
    let contents = &answer["result"]["contents"][0];
    assert_eq!(contents["text"], READS);
    assert_eq!(contents["mimeType"], "application/yaml");
    client.call("fs_read", json!({ "path": "private" })).await;
    let answer = client
        .ask("resources/read", read("airlock://audit/tail/200"))
        .await;
    let text = answer["result"]["contents"][0]["text"].as_str().unwrap();
    let tail: Value = serde_json::from_str(text).unwrap();
    let records = tail["records"].as_array().unwrap();
    assert!(
        records
            .iter()
            .any(|record| record["verdict"] == "deny" && record["tool"] == "fs.read")
    );
    let uris = client.ask("resources/list", json!({})).await;
    for resource in uris["result"]["resources"].as_array().unwrap() {
        let answer = client
            .ask("resources/read", json!({ "uri": resource["uri"] }))
            .await;
        assert!(answer.get("result").is_some(), "{answer}");
    }
    let answer = client
        .ask("resources/read", read("airlock://audit/tail/9999"))
        .await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let answer = client
        .ask("resources/read", read("file:///etc/passwd"))
        .await;
    assert_eq!(answer["error"]["code"], -32002, "{answer}");

    let closed = Place::new(&READS.replace(
        "action: allow, reason: own view",
        "action: deny, reason: no views",
    ));
    let answer = closed
        .client()
        .await
        .ask("resources/read", read("airlock://policy"))
        .await;
    assert_eq!(answer["error"]["data"]["status"], "denied", "{answer}");
}

#[tokio::test]
async fn a_client_sees_its_own_records_and_nobody_else_s() {
    let place = Place::new(READS);
    let (mut one, mut two) = (place.client().await, place.client().await);
    one.call("fs_exists", json!({ "path": "a.txt" })).await;
    two.call("search_glob", json!({ "pattern": "*" })).await;
    let tail = |answer: Value| answer["result"]["structuredContent"].clone();
    let (one, two) = (
        tail(one.call("session_log", json!({})).await),
        tail(two.call("session_log", json!({})).await),
    );
    assert_ne!(one["session"], two["session"]);
    for (records, own, other) in [
        (&one, "fs.exists", "search.glob"),
        (&two, "search.glob", "fs.exists"),
    ] {
        let tools: Vec<&str> = records["records"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|record| record["tool"].as_str())
            .collect();
        assert!(tools.contains(&own) && !tools.contains(&other), "{tools:?}");
    }
}

//! Clients that mean no good, or do not know better.

use super::talk::{Client, Scripted, eventually};
use crate::calls::AT_ONCE;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[tokio::test]
async fn who_does_not_begin_with_the_handshake_is_not_served() {
    let road = Arc::new(Scripted::new());
    let mut client = Client::silent(road.clone());
    for method in ["tools/call", "tools/list", "resources/read"] {
        let params = json!({ "name": "test_echo", "arguments": {}, "uri": "airlock://policy" });
        let answer = client.ask(method, params).await;
        assert!(answer["error"]["code"].is_i64(), "{answer}");
    }
    client.leave().await.unwrap().unwrap();
    assert!(road.calls.lock().unwrap().is_empty());
}

/// What a client sends with each request that has no session.
pub(super) fn without_a_session(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

#[tokio::test]
async fn a_request_that_would_be_a_session_of_its_own_is_refused() {
    let road = Arc::new(Scripted::new());
    for mut client in [
        Client::silent(road.clone()),
        Client::new(road.clone()).await,
    ] {
        for (version, code) in [("2025-11-25", -32600), ("2026-07-28", -32022)] {
            for method in [
                "tools/call",
                "tools/list",
                "resources/read",
                "ping",
                "made/up",
            ] {
                let params = json!({
                    "name": "test_echo", "arguments": {}, "uri": "airlock://policy",
                    "_meta": without_a_session(version),
                });
                let answer = client.ask(method, params).await;
                assert_eq!(answer["error"]["code"], code, "{method}: {answer}");
            }
        }
    }
    assert!(road.calls.lock().unwrap().is_empty());
    // Who only asks what is spoken here learns it, and greets then.
    let mut client = Client::silent(road);
    let asked = json!({ "_meta": without_a_session("2025-11-25") });
    let answer = client.ask("server/discover", asked).await;
    let spoken = answer["result"]["supportedVersions"].as_array().unwrap();
    assert_eq!(spoken.last(), Some(&json!("2025-11-25")), "{answer}");
    let hello = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    });
    assert!(client.ask("initialize", hello).await["result"].is_object());
    let greeted = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    client.send(&greeted).await;
    let answer = client.call("test_echo", json!({ "a": 1 })).await;
    assert_eq!(answer["result"]["structuredContent"], json!({ "a": 1 }));
}

#[tokio::test]
async fn an_id_in_use_does_not_disturb_the_request_that_has_it() {
    let road = Arc::new(Scripted::new());
    let mut client = Client::new(road.clone()).await;
    let wait = json!({ "name": "test_wait", "arguments": { "ms": 600 } });
    let id = client.begin("tools/call", wait).await;
    eventually("it runs", || road.running.load(Ordering::SeqCst) == 1).await;
    for method in ["tools/call", "ping"] {
        let again = json!({
            "jsonrpc": "2.0", "id": id, "method": method,
            "params": { "name": "test_echo", "arguments": {} },
        });
        client.send(&again).await;
        let refused = client.receive().await;
        assert_eq!(refused["error"]["code"], -32600, "{refused}");
        assert_eq!(refused.get("id"), None);
    }
    let answer = client.until(id).await.pop().unwrap();
    assert_eq!(
        answer["result"]["structuredContent"],
        json!({ "waited": true })
    );
    assert_eq!(road.calls.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn what_was_never_asked_cannot_be_taken_back() {
    let mut client = Client::new(Arc::new(Scripted::new())).await;
    for id in [json!(99), json!("0"), json!(null), json!({}), json!(-1)] {
        let cancel = json!({
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": { "requestId": id },
        });
        client.send(&cancel).await;
    }
    let answer = client.call("test_echo", json!({ "still": "here" })).await;
    assert_eq!(
        answer["result"]["structuredContent"],
        json!({ "still": "here" })
    );
}

#[tokio::test]
async fn a_flood_is_answered_one_by_one_and_never_runs_at_once() {
    const REQUESTS: usize = 500;
    let road = Arc::new(Scripted::new());
    let client = Client::new(road.clone()).await;
    // Sent without waiting for answers, read without waiting for the sending to end.
    let mut answers: BTreeMap<i64, Value> = BTreeMap::new();
    let (mut client, mut left) = (client, REQUESTS);
    let mut sent = Vec::new();
    while answers.len() < REQUESTS {
        while left > 0 && sent.len() - answers.len() < 100 {
            let params = json!({ "name": "test_wait", "arguments": { "ms": 3 } });
            sent.push(client.begin("tools/call", params).await);
            left -= 1;
        }
        let answer = client.receive().await;
        let before = answers.insert(answer["id"].as_i64().unwrap(), answer);
        assert!(before.is_none(), "answered twice: {before:?}");
    }
    let refused = |answer: &&Value| answer["error"]["code"] == -32000;
    let (busy, served) = (
        answers.values().filter(refused).count(),
        answers
            .values()
            .filter(|answer| answer.get("result").is_some())
            .count(),
    );
    assert_eq!(busy + served, REQUESTS);
    assert!(served > 0 && busy > 0, "{served} served, {busy} refused");
    assert!(road.most.load(Ordering::SeqCst) <= AT_ONCE);
    // Room comes back.
    let answer = client.call("test_echo", json!({})).await;
    assert_eq!(answer["result"]["isError"], false);
}

#[tokio::test]
async fn what_is_no_message_is_answered_and_forgotten() {
    let mut client = Client::new(Arc::new(Scripted::new())).await;
    for (text, code) in [
        ("{", -32700),
        ("\u{1b}[2J", -32700),
        ("[]", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
        ("{}", -32600),
    ] {
        client.send_text(text).await;
        let answer = client.receive().await;
        assert_eq!(answer["error"]["code"], code, "{text}: {answer}");
    }
    let huge = format!(
        r#"{{"jsonrpc":"2.0","id":77,"method":"ping","params":{{"x":"{}"}}}}"#,
        "y".repeat(crate::admit::MOST_BYTES)
    );
    client.send_text(&huge).await;
    assert_eq!(client.receive().await["error"]["code"], -32600);
    assert_eq!(client.ask("ping", json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn wrong_parameters_of_a_method_are_an_error_of_that_request_alone() {
    let road = Arc::new(Scripted::new());
    let mut client = Client::new(road.clone()).await;
    for params in [
        json!({}),
        json!({ "name": 7 }),
        json!({ "name": "test_echo", "arguments": [] }),
        json!({ "name": "test_echo", "arguments": "x" }),
    ] {
        let answer = client.ask("tools/call", params.clone()).await;
        assert_eq!(answer["error"]["code"], -32602, "{params}: {answer}");
    }
    for method in ["tools/call", "resources/read"] {
        let request = json!({ "jsonrpc": "2.0", "id": 9_000, "method": method });
        client.send(&request).await;
        let answer = client.until(9_000).await.pop().unwrap();
        assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
    }
    let answer = client.ask("tools/call", json!([])).await;
    assert!(answer["error"]["code"].is_i64(), "{answer}");
    assert!(road.calls.lock().unwrap().is_empty());
    let answer = client.call("test_echo", json!({})).await;
    assert_eq!(answer["result"]["isError"], false);
}

#[tokio::test]
async fn a_strange_name_is_the_name_of_no_tool_and_is_shown_harmlessly() {
    let mut client = Client::new(Arc::new(Scripted::new())).await;
    for name in [
        "",
        "..",
        "../../fs.read",
        "test_echo\0",
        "test_echo ",
        "TEST_ECHO",
        "test\u{1b}[31m_echo",
        "test\u{202e}echo",
        &"x".repeat(100_000),
    ] {
        let answer = client.call(name, json!({})).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        let shown = answer["error"]["message"].as_str().unwrap();
        assert!(shown.len() < 200, "{}", shown.len());
        assert!(!shown.contains(['\u{1b}', '\0', '\u{202e}']), "{shown:?}");
    }
}

#[tokio::test]
async fn arguments_arrive_as_they_were_sent_whatever_is_in_them() {
    let road = Arc::new(Scripted::new());
    let mut client = Client::new(road.clone()).await;
    let arguments = json!({
        "path": "a\u{0}\u{1b}]0;x\u{7}\n\r\u{202e}",
        "\u{1b}[2J": { "jsonrpc": "2.0", "id": 1, "method": "tools/call" },
    });
    let answer = client.call("test_echo", arguments.clone()).await;
    assert_eq!(answer["result"]["structuredContent"], arguments);
    assert_eq!(road.calls.lock().unwrap()[0].arguments, arguments);
}

#[tokio::test]
async fn a_client_that_goes_away_takes_its_calls_with_it() {
    let road = Arc::new(Scripted::new());
    let mut client = Client::new(road.clone()).await;
    let params = json!({ "name": "test_wait", "arguments": { "ms": 60_000 } });
    for _ in 0..3 {
        client.begin("tools/call", params.clone()).await;
    }
    eventually("they run", || road.running.load(Ordering::SeqCst) == 3).await;
    client.leave().await.unwrap().unwrap();
    assert_eq!(road.running.load(Ordering::SeqCst), 0);
    assert_eq!(road.cancelled.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn answers_nobody_asked_for_are_ignored() {
    let mut client = Client::new(Arc::new(Scripted::new())).await;
    for message in [
        json!({ "jsonrpc": "2.0", "id": 0, "result": {} }),
        json!({ "jsonrpc": "2.0", "id": 5, "result": { "action": "accept", "content": { "answer": "approve" } } }),
        json!({ "jsonrpc": "2.0", "id": 5, "error": { "code": 1, "message": "x" } }),
        json!({ "jsonrpc": "2.0", "error": { "code": 1, "message": "x" } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": 1, "progress": 1 } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/\u{1b}[2J" }),
    ] {
        client.send(&message).await;
    }
    assert_eq!(client.ask("ping", json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn a_kernel_that_does_not_answer_is_an_error_of_that_call_alone() {
    let mut client = Client::new(Arc::new(Scripted::new())).await;
    let answer = client.call("test.lost", json!({})).await;
    assert_eq!(answer["error"]["message"], "the kernel is gone", "{answer}");
    assert_eq!(answer["error"]["data"]["hint"], "try again");
    let answer = client.call("test_echo", json!({})).await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
}

//! What the protocol promises, on the quiet path.

use super::talk::{Client, Scripted, eventually};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[tokio::test]
async fn only_what_is_implemented_is_declared() {
    let mut client = Client::silent(Arc::new(Scripted::new()));
    let hello = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    });
    let answer = client.ask("initialize", hello).await;
    let result = &answer["result"];
    assert_eq!(result["protocolVersion"], "2025-06-18");
    assert_eq!(
        result["capabilities"],
        json!({ "tools": {}, "resources": {} })
    );
    assert_eq!(result["serverInfo"]["name"], "airlock");
    client
        .send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
        .await;
    for (method, params) in [
        ("prompts/list", json!({})),
        ("prompts/get", json!({ "name": "x" })),
        ("logging/setLevel", json!({ "level": "debug" })),
        ("resources/subscribe", json!({ "uri": "airlock://policy" })),
        (
            "completion/complete",
            json!({ "ref": { "type": "ref/prompt", "name": "x" }, "argument": { "name": "a", "value": "b" } }),
        ),
        ("made/up", json!({})),
    ] {
        let answer = client.ask(method, params).await;
        assert_eq!(answer["error"]["code"], -32601, "{method}: {answer}");
    }
    for method in ["tools/list", "resources/list", "resources/templates/list"] {
        let answer = client.ask(method, json!({ "cursor": "made up" })).await;
        assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
        let answer = client.ask(method, json!([1])).await;
        assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
    }
    assert_eq!(client.ask("ping", json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn a_version_nobody_knows_is_answered_with_one_that_is_served() {
    for asked in ["1999-01-01", "2026-07-28", "", "x"] {
        let mut client = Client::silent(Arc::new(Scripted::new()));
        let hello = json!({
            "protocolVersion": asked,
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        let answer = client.ask("initialize", hello).await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{asked}");
    }
}

#[tokio::test]
async fn a_result_is_text_and_structure_alike() {
    let road = Arc::new(Scripted::new());
    let mut client = Client::new(road.clone()).await;
    for name in ["test_echo", "test.echo"] {
        let answer = client.call(name, json!({ "a": 1 })).await;
        let result = &answer["result"];
        assert_eq!(result["structuredContent"], json!({ "a": 1 }));
        assert_eq!(result["content"][0]["text"], r#"{"a":1}"#);
        assert_eq!(result["isError"], false);
        assert_eq!(result["_meta"]["airlock/action"], "a-1");
    }
    let calls = road.calls.lock().unwrap();
    assert!(calls.iter().all(|call| call.name == "test.echo"));
    assert!(calls.iter().all(|call| call.session.is_some()));
}

#[tokio::test]
async fn a_call_without_arguments_has_none() {
    let road = Arc::new(Scripted::new());
    let mut client = Client::new(road.clone()).await;
    client
        .ask("tools/call", json!({ "name": "test_echo" }))
        .await;
    assert_eq!(road.calls.lock().unwrap()[0].arguments, json!({}));
}

#[tokio::test]
async fn who_asks_for_progress_hears_that_a_long_call_runs() {
    let mut client = Client::new(Arc::new(Scripted::new())).await;
    let params = json!({
        "name": "test_wait",
        "arguments": { "ms": 2_600 },
        "_meta": { "progressToken": "t" },
    });
    let id = client.begin("tools/call", params).await;
    let mut messages = client.until(id).await;
    messages.pop();
    let progress: Vec<f64> = messages
        .iter()
        .map(|message| {
            assert_eq!(message["method"], "notifications/progress");
            assert_eq!(message["params"]["progressToken"], "t");
            message["params"]["progress"].as_f64().unwrap()
        })
        .collect();
    assert!(progress.len() >= 2, "{progress:?}");
    assert!(progress.is_sorted_by(|a, b| a < b), "{progress:?}");
    // Who does not ask hears nothing but the answer.
    let id = client
        .begin(
            "tools/call",
            json!({ "name": "test_wait", "arguments": { "ms": 1_200 } }),
        )
        .await;
    assert_eq!(client.until(id).await.len(), 1);
}

#[tokio::test]
async fn a_cancelled_request_ends_its_call_and_is_never_answered() {
    let road = Arc::new(Scripted::new());
    let mut client = Client::new(road.clone()).await;
    let params = json!({ "name": "test_wait", "arguments": { "ms": 60_000 } });
    let id = client.begin("tools/call", params).await;
    eventually("it runs", || road.running.load(Ordering::SeqCst) == 1).await;
    client
        .send(&json!({
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": { "requestId": id, "reason": "changed my mind" },
        }))
        .await;
    eventually("it ends", || road.running.load(Ordering::SeqCst) == 0).await;
    assert_eq!(road.cancelled.load(Ordering::SeqCst), 1);
    let next = client.begin("ping", json!({})).await;
    assert_eq!(
        client.until(next).await.len(),
        1,
        "the cancelled one was answered"
    );
}

#[tokio::test]
async fn the_end_of_the_server_ends_what_runs() {
    let road = Arc::new(Scripted::new());
    let mut client = Client::new(road.clone()).await;
    let params = json!({ "name": "test_wait", "arguments": { "ms": 60_000 } });
    client.begin("tools/call", params).await;
    eventually("it runs", || road.running.load(Ordering::SeqCst) == 1).await;
    client.stop.stop();
    client.server.await.unwrap().unwrap();
    assert_eq!(road.running.load(Ordering::SeqCst), 0);
    assert_eq!(road.cancelled.load(Ordering::SeqCst), 1);
}

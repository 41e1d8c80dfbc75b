//! The sessions clients work in: begun, or nothing is done; put away when the client is gone.

use super::talk::{Client, Scripted, eventually};
use airlock_core::SessionId;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[tokio::test]
async fn a_session_that_cannot_be_begun_keeps_calls_from_being_made_until_it_can() {
    let road = Arc::new(Scripted::new());
    road.refusing.store(2, Ordering::SeqCst);
    let mut client = Client::new(road.clone()).await;
    for _ in 0..2 {
        let answer = client.call("test_echo", json!({})).await;
        assert_eq!(answer["error"]["message"], "there are too many", "{answer}");
        assert_eq!(answer["error"]["data"]["hint"], "put some away", "{answer}");
        assert!(road.calls.lock().unwrap().is_empty());
    }
    let policy = json!({ "uri": "airlock://policy" });
    road.refusing.store(1, Ordering::SeqCst);
    let answer = client.ask("resources/read", policy).await;
    assert_eq!(answer["error"]["message"], "there are too many", "{answer}");
    // What failed is not remembered.
    let answer = client.call("test_echo", json!({})).await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let calls = road.calls.lock().unwrap();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].session, SessionId::new("mcp-test").ok());
}

#[tokio::test]
async fn a_client_that_leaves_has_its_session_put_away_once() {
    let road = Arc::new(Scripted::new());
    let mut client = Client::new(road.clone()).await;
    for _ in 0..3 {
        client.call("test_echo", json!({})).await;
    }
    assert!(road.ended.lock().unwrap().is_empty(), "it is still there");
    client.leave().await.unwrap().unwrap();
    assert_eq!(road.ended.lock().unwrap().len(), 1);
    // One that began none leaves none behind.
    let client = Client::new(road.clone()).await;
    client.leave().await.unwrap().unwrap();
    assert_eq!(road.ended.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_that_is_stopped_puts_the_session_away() {
    let road = Arc::new(Scripted::new());
    let mut client = Client::new(road.clone()).await;
    client.call("test_echo", json!({})).await;
    client.stop.stop();
    eventually("it is put away", || road.ended.lock().unwrap().len() == 1).await;
}

//! Questions through the client: only for gates that were opened, only to clients that can.

use super::talk::{Client, Scripted};
use airlock_policy::approval::Gate;
use serde_json::{Value, json};
use std::sync::Arc;

/// Asks for something that `gate` guards; `reply` is what the client says if it is asked.
async fn ask(
    opened: &[Gate],
    capabilities: Value,
    gate: Gate,
    reply: Value,
) -> (bool, Value, Vec<bool>) {
    let road = Arc::new(Scripted::opened_to(opened));
    let mut client = Client::greeted(road.clone(), capabilities).await;
    let arguments = json!({ "gate": gate.as_str() });
    asked_for(&road, &mut client, arguments, reply).await
}

/// The same with these arguments.
async fn asked_for(
    road: &Scripted,
    client: &mut Client,
    arguments: Value,
    reply: Value,
) -> (bool, Value, Vec<bool>) {
    let params = json!({ "name": "test_review", "arguments": arguments });
    let id = client.begin("tools/call", params).await;
    let mut asked = false;
    let answer = loop {
        let message = client.receive().await;
        if message["method"] == "elicitation/create" {
            asked = true;
            let text = message["params"]["message"].as_str().unwrap();
            assert!(
                text.contains("exec.run") && !text.contains('\u{1b}'),
                "{text:?}"
            );
            client
                .send(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": reply }))
                .await;
        } else if message["id"] == id {
            break message;
        }
    };
    let answers = road.answers.lock().unwrap().clone();
    (asked, answer["result"].clone(), answers)
}

fn yes() -> Value {
    json!({ "action": "accept", "content": { "answer": "approve" } })
}

#[tokio::test]
async fn a_gate_is_asked_about_only_if_policy_opened_it_and_the_client_can() {
    let can = json!({ "elicitation": {} });
    let forms = json!({ "elicitation": { "form": {} } });
    let pages = json!({ "elicitation": { "url": {} } });
    for gate in Gate::ALL.iter().copied() {
        // What a person has to answer at a terminal cannot be opened, whatever the policy says.
        let possible = matches!(gate, Gate::FirstUse | Gate::Host);
        for (opened, capabilities, asked) in [
            (Gate::ALL, &can, possible),
            (Gate::ALL, &forms, possible),
            (Gate::ALL, &pages, false),
            (Gate::ALL, &json!({}), false),
            (&[], &can, false),
        ] {
            let (was, result, answers) = ask(opened, capabilities.clone(), gate, yes()).await;
            assert_eq!(was, asked, "{gate} {capabilities}");
            assert_eq!(answers, if asked { vec![true] } else { vec![] });
            assert_eq!(result["isError"], !asked, "{result}");
            if !asked {
                let data = &result["structuredContent"];
                assert_eq!(data["status"], "needs_review");
                assert_eq!(data["gate"], gate.as_str());
                assert_eq!(data["approval"], "a-1");
                assert_eq!(data["how"], "airlock approvals approve a-1");
                let text = result["content"][0]["text"].as_str().unwrap();
                assert!(text.contains("airlock approvals approve a-1"), "{text}");
                assert!(!text.contains('\u{1b}'), "{text:?}");
            }
        }
    }
}

#[tokio::test]
async fn what_a_rule_wants_a_person_for_is_not_put_to_the_client() {
    for gate in [Gate::FirstUse, Gate::Host] {
        let road = Arc::new(Scripted::opened_to(Gate::ALL));
        let mut client = Client::greeted(road.clone(), json!({ "elicitation": {} })).await;
        let arguments = json!({ "gate": gate.as_str(), "rule": true });
        let (asked, result, answers) = asked_for(&road, &mut client, arguments, yes()).await;
        assert!(!asked && answers.is_empty(), "{gate}");
        assert_eq!(result["structuredContent"]["status"], "needs_review");
    }
}

#[tokio::test]
async fn nothing_but_a_yes_approves() {
    let can = json!({ "elicitation": {} });
    for (reply, answers) in [
        (yes(), vec![true]),
        (json!({ "action": "decline" }), vec![false]),
        (
            json!({ "action": "accept", "content": { "answer": "deny" } }),
            vec![false],
        ),
        (json!({ "action": "cancel" }), vec![]),
        (json!({ "action": "accept" }), vec![]),
        (
            json!({ "action": "accept", "content": { "answer": "yes" } }),
            vec![],
        ),
        (json!({ "action": "perhaps" }), vec![]),
        (json!({}), vec![]),
    ] {
        let (_, result, given) = ask(
            &[Gate::FirstUse],
            can.clone(),
            Gate::FirstUse,
            reply.clone(),
        )
        .await;
        assert_eq!(given, answers, "{reply}");
        assert_eq!(result["isError"], answers != [true], "{reply}");
    }
}

//! A question as the protocol wants it.

use super::settings::OpenAiSettings;
use crate::message::{Message, Request};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The longest name of a function that every server takes.
const LONGEST_NAME: usize = 64;

/// A question, encoded.
pub(crate) struct Sent {
    pub(crate) json: Vec<u8>,
    pub(crate) names: Names,
}

/// The names of tools on the wire, where dots are not allowed, and what they stand for.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    to_own: BTreeMap<String, String>,
    to_wire: BTreeMap<String, String>,
}

impl Names {
    pub(crate) fn of<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let mut all = Self::default();
        for name in names {
            let mut wire = plain(name);
            let mut number = 2;
            // Two tools that would look alike must not be taken for each other.
            while all.to_own.contains_key(&wire) {
                let end = format!("_{number}");
                wire = plain(name).chars().take(LONGEST_NAME - end.len()).collect();
                wire.push_str(&end);
                number += 1;
            }
            all.to_own.insert(wire.clone(), name.to_owned());
            all.to_wire.insert(name.to_owned(), wire);
        }
        all
    }

    /// The tool that `wire` stands for; what stands for none is kept, to be refused by name.
    pub(crate) fn own(&self, wire: &str) -> String {
        self.to_own
            .get(wire)
            .cloned()
            .unwrap_or_else(|| wire.to_owned())
    }

    fn wire(&self, own: &str) -> String {
        self.to_wire.get(own).cloned().unwrap_or_else(|| plain(own))
    }
}

fn plain(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name: String = name
        .chars()
        .map(|c| if fits(c) { c } else { '_' })
        .take(LONGEST_NAME)
        .collect();
    if name.is_empty() {
        "_".to_owned()
    } else {
        name
    }
}

pub(crate) fn encode(settings: &OpenAiSettings, request: &Request) -> Sent {
    let names = Names::of(request.tools.iter().map(|tool| tool.name.as_str()));
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({ "role": "system", "content": request.system }));
    }
    messages.extend(request.messages.iter().map(|one| message(one, &names)));
    let mut body = json!({
        "model": settings.model,
        "messages": messages,
        "max_tokens": request.max_output,
        "stream": settings.stream,
    });
    if let Some(fields) = body.as_object_mut() {
        if wants_completion_tokens(&settings.model) {
            fields.remove("max_tokens");
            let most = json!(request.max_output);
            fields.insert("max_completion_tokens".to_owned(), most);
        }
        if settings.stream {
            let options = json!({ "include_usage": true });
            fields.insert("stream_options".to_owned(), options);
        }
        if !request.tools.is_empty() {
            let tools: Vec<Value> = request
                .tools
                .iter()
                .map(|tool| {
                    json!({ "type": "function", "function": {
                        "name": names.wire(&tool.name),
                        "description": tool.description,
                        "parameters": tool.schema,
                    } })
                })
                .collect();
            fields.insert("tools".to_owned(), Value::Array(tools));
        }
    }
    Sent {
        json: body.to_string().into_bytes(),
        names,
    }
}

/// OpenAI's reasoning models refuse the older name of the bound, and other servers know no other.
fn wants_completion_tokens(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    ["o1", "o3", "o4", "gpt-5"]
        .iter()
        .any(|family| name.starts_with(family))
}

fn message(message: &Message, names: &Names) -> Value {
    match message {
        Message::User { text } => json!({ "role": "user", "content": text }),
        Message::Tool { call, text, .. } => {
            json!({ "role": "tool", "tool_call_id": call, "content": text })
        }
        Message::Assistant { text, calls } if calls.is_empty() => {
            json!({ "role": "assistant", "content": text })
        }
        Message::Assistant { text, calls } => {
            let calls: Vec<Value> = calls
                .iter()
                .map(|call| {
                    json!({ "id": call.id, "type": "function", "function": {
                        "name": names.wire(&call.name),
                        "arguments": call.arguments.to_text(),
                    } })
                })
                .collect();
            let content = (!text.is_empty()).then_some(text);
            json!({ "role": "assistant", "content": content, "tool_calls": calls })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Arguments, Status, ToolCall, ToolDefinition};

    #[test]
    fn names_cross_and_come_back() {
        let long = format!("plugin.{}", "x".repeat(100));
        let all = ["fs.read", "fs_read", "fs-read", "a.b", &long, "π"];
        let names = Names::of(all.iter().copied());
        let mut seen = std::collections::BTreeSet::new();
        for name in all {
            let wire = names.wire(name);
            assert!(wire.len() <= LONGEST_NAME, "{wire}");
            assert!(seen.insert(wire.clone()), "{wire} twice");
            assert_eq!(names.own(&wire), name);
        }
        assert_eq!(names.own("no.such"), "no.such");
    }

    #[test]
    fn a_conversation_is_encoded_as_the_protocol_wants_it() {
        let request = Request {
            system: "be brief".to_owned(),
            messages: vec![
                Message::User {
                    text: "look".to_owned(),
                },
                Message::Assistant {
                    text: String::new(),
                    calls: vec![ToolCall {
                        id: "c1".to_owned(),
                        name: "fs.read".to_owned(),
                        arguments: Arguments::parse(r#"{"path":"a"}"#),
                    }],
                },
                Message::Tool {
                    call: "c1".to_owned(),
                    name: "fs.read".to_owned(),
                    status: Status::Ok,
                    text: "hello".to_owned(),
                },
            ],
            tools: vec![ToolDefinition {
                name: "fs.read".to_owned(),
                description: "Read a file".to_owned(),
                schema: json!({ "type": "object" }),
            }],
            max_output: 100,
        };
        let sent = encode(&OpenAiSettings::new("http://localhost", "m"), &request);
        let body: Value = serde_json::from_slice(&sent.json).unwrap();
        let want = json!({
            "model": "m",
            "max_tokens": 100,
            "stream": true,
            "stream_options": { "include_usage": true },
            "messages": [
                { "role": "system", "content": "be brief" },
                { "role": "user", "content": "look" },
                { "role": "assistant", "content": null, "tool_calls": [
                    { "id": "c1", "type": "function",
                      "function": { "name": "fs_read", "arguments": "{\"path\":\"a\"}" } },
                ] },
                { "role": "tool", "tool_call_id": "c1", "content": "hello" },
            ],
            "tools": [{ "type": "function", "function": {
                "name": "fs_read", "description": "Read a file", "parameters": { "type": "object" },
            } }],
        });
        assert_eq!(body, want);
        let sent = encode(
            &OpenAiSettings::new("http://localhost", "o3-mini"),
            &request,
        );
        let body: Value = serde_json::from_slice(&sent.json).unwrap();
        assert_eq!(body.get("max_completion_tokens"), Some(&json!(100)));
        assert_eq!(body.get("max_tokens"), None);
    }
}

//! One call of a tool of an MCP server over its standard streams. Pure: text in, text out.
//!
//! Bounded: so many lines of such a length, so many questions of the server's own, each of which is
//! refused. What a server says is data; nothing of it steers Airlock.

use serde_json::{Value, json};

/// Longest line.
const LINE_BYTES: usize = 1024 * 1024;
/// Most lines, of whatever kind.
const LINES: usize = 1_000;
/// The version of the protocol that is spoken.
const PROTOCOL: &str = "2025-06-18";

/// What is asked of a server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    /// The server's name for the tool.
    pub(crate) tool: String,
    /// The arguments.
    pub(crate) arguments: Value,
}

/// Where a conversation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The server has not said hello.
    Greeting,
    /// The call was made.
    Called,
    /// There is an answer, or there will be none.
    Over,
}

/// A conversation with one question.
#[derive(Debug)]
pub(crate) struct Conversation {
    asked: Asked,
    stage: Stage,
    line: Vec<u8>,
    lines: usize,
    answer: Option<Value>,
}

impl Conversation {
    pub(crate) fn new(asked: Asked) -> Self {
        Self {
            asked,
            stage: Stage::Greeting,
            line: Vec::new(),
            lines: 0,
            answer: None,
        }
    }

    /// What to say first.
    pub(crate) fn hello(&self) -> String {
        let _ = self;
        line(&json!({
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": PROTOCOL,
                "capabilities": {},
                "clientInfo": { "name": "airlock", "version": env!("CARGO_PKG_VERSION") },
            },
        }))
    }

    /// Hears `bytes`; what to say to them.
    pub(crate) fn hear(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut said = Vec::new();
        for byte in bytes {
            if self.stage == Stage::Over {
                break;
            }
            if *byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                said.extend(self.message(&line));
            } else {
                self.line.push(*byte);
            }
            if self.line.len() > LINE_BYTES || self.lines > LINES {
                self.end(json!({ "airlock": "the server says too much" }));
            }
        }
        said
    }

    /// Whether nothing more is to be said.
    pub(crate) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// The answer, if there is one.
    pub(crate) fn answer(self) -> Option<Value> {
        self.answer
    }

    fn end(&mut self, answer: Value) {
        self.stage = Stage::Over;
        self.answer = Some(answer);
    }

    fn message(&mut self, bytes: &[u8]) -> Vec<String> {
        self.lines += 1;
        // Lines that are no messages are a server's chatter.
        let Ok(message) = serde_json::from_slice::<Value>(bytes) else {
            return Vec::new();
        };
        if message.get("method").is_some() {
            return refusal(&message).into_iter().collect();
        }
        match (self.stage, message.get("id").and_then(Value::as_u64)) {
            (Stage::Greeting, Some(1)) => {
                if message.get("result").is_none() {
                    self.end(message);
                    return Vec::new();
                }
                self.stage = Stage::Called;
                vec![
                    line(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })),
                    line(&json!({
                        "jsonrpc": "2.0",
                        "id": 2,
                        "method": "tools/call",
                        "params": { "name": self.asked.tool, "arguments": self.asked.arguments },
                    })),
                ]
            }
            (Stage::Called, Some(2)) => {
                self.end(message);
                Vec::new()
            }
            (Stage::Greeting | Stage::Called | Stage::Over, _) => Vec::new(),
        }
    }
}

/// The answer to a question of the server's own: it is told that there is nothing to be had here.
fn refusal(message: &Value) -> Option<String> {
    let id = message
        .get("id")
        .filter(|id| id.is_number() || id.is_string())?;
    if message.get("method").and_then(Value::as_str) == Some("ping") {
        return Some(line(&json!({ "jsonrpc": "2.0", "id": id, "result": {} })));
    }
    let error = json!({ "code": -32601, "message": "not available" });
    Some(line(&json!({ "jsonrpc": "2.0", "id": id, "error": error })))
}

/// One line; JSON has none in it.
fn line(message: &Value) -> String {
    format!("{message}\n")
}

/// The value an answer means, or a word and a line on why there is none.
pub(super) fn meaning(answer: &Value, ended: &Value) -> Result<Value, (&'static str, String)> {
    if answer.is_null() {
        let outcome = ended
            .get("outcome")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if outcome == "timed_out" {
            return Err(("timed_out", "the server did not answer in time".to_owned()));
        }
        return Err(("no_answer", "the server ended without an answer".to_owned()));
    }
    if let Some(what) = answer.get("airlock").and_then(Value::as_str) {
        return Err(("output_invalid", what.to_owned()));
    }
    let told = |value: Option<&Value>| {
        let text = value.map(|value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        });
        text.unwrap_or_default()
            .chars()
            .take(300)
            .collect::<String>()
    };
    if let Some(error) = answer.get("error") {
        return Err((
            "tool_error",
            format!("the server refused: {}", told(error.get("message"))),
        ));
    }
    let result = answer.get("result").cloned().unwrap_or_default();
    let content = result.get("content").and_then(Value::as_array);
    let texts: Vec<&str> = content
        .into_iter()
        .flatten()
        .filter_map(|part| part.get("text").and_then(Value::as_str))
        .collect();
    let text = texts.join("\n");
    if result.get("isError") == Some(&Value::Bool(true)) {
        return Err((
            "tool_error",
            format!("the tool failed: {}", told(Some(&Value::String(text)))),
        ));
    }
    match result.get("structuredContent") {
        Some(value) => Ok(value.clone()),
        None => Ok(Value::String(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Asked {
        Asked {
            tool: "search".to_owned(),
            arguments: json!({ "q": "x" }),
        }
    }

    const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}"#;

    #[test]
    fn a_call_is_made_after_the_greeting_and_answered_once() {
        let mut talk = Conversation::new(asked());
        assert!(talk.hello().contains("\"initialize\"") && talk.hello().ends_with('\n'));
        // In pieces, with chatter, an answer too early, and questions of the server's own.
        assert_eq!(
            talk.hear(b"starting up\n{\"id\":2,\"result\":\"early\"}\n"),
            Vec::<String>::new()
        );
        assert_eq!(talk.hear(&HELLO.as_bytes()[..10]), Vec::<String>::new());
        let said = talk.hear(&[&HELLO.as_bytes()[10..], b"\n"].concat());
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[1].contains("\"tools/call\"") && said[1].contains("\"search\""));
        let asked = talk.hear(b"{\"id\":\"a\",\"method\":\"sampling/createMessage\"}\n{\"id\":9,\"method\":\"ping\"}\n{\"method\":\"notifications/progress\"}\n");
        assert_eq!(asked.len(), 2);
        assert!(asked[0].contains("-32601") && asked[1].contains("\"result\":{}"));
        assert!(!talk.is_over());
        talk.hear(b"{\"id\":2,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]}}\n{\"id\":2,\"result\":1}\n");
        assert!(talk.is_over());
        let answer = talk.answer().unwrap();
        assert_eq!(meaning(&answer, &json!({})), Ok(json!("hi")));
    }

    #[test]
    fn floods_end_the_conversation() {
        for flood in ["x".repeat(LINE_BYTES + 2), "{}\n".repeat(LINES + 2)] {
            let mut talk = Conversation::new(asked());
            talk.hear(flood.as_bytes());
            assert!(talk.is_over() && talk.line.len() <= LINE_BYTES + 1);
            let answer = talk.answer().unwrap();
            assert_eq!(
                meaning(&answer, &json!({})).unwrap_err().0,
                "output_invalid"
            );
        }
    }

    #[test]
    fn answers_mean_values_or_errors() {
        for (answer, want) in [
            (
                json!({"result": {"structuredContent": {"n": 1}, "content": []}}),
                Ok(json!({"n": 1})),
            ),
            (
                json!({"result": {"content": [{"text": "a"}, {"image": "b"}, {"text": "c"}]}}),
                Ok(json!("a\nc")),
            ),
            (
                json!({"result": {"isError": true, "content": [{"text": "bad"}]}}),
                Err("tool_error"),
            ),
            (
                json!({"error": {"code": 1, "message": "no"}}),
                Err("tool_error"),
            ),
            (Value::Null, Err("no_answer")),
        ] {
            let meant = meaning(&answer, &json!({})).map_err(|(code, _)| code);
            assert_eq!(meant, want, "{answer}");
        }
        let late = meaning(&Value::Null, &json!({ "outcome": "timed_out" }));
        assert_eq!(late.unwrap_err().0, "timed_out");
    }
}

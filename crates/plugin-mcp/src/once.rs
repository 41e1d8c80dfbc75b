//! One call of a tool of an MCP server over its standard streams. Pure: text in, text out.
//!
//! Bounded: so many lines of such a length, so many questions of the server's own, each of which is
//! refused. What a server says is data; nothing of it steers Airlock.

use crate::message;
use serde_json::{Value, json};

/// Longest line.
const LINE_BYTES: usize = 1024 * 1024;
/// Most lines, of whatever kind.
const LINES: usize = 1_000;

/// What is asked of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The server's name for the tool.
    pub tool: String,
    /// The arguments.
    pub arguments: Value,
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
pub struct Conversation {
    asked: Asked,
    stage: Stage,
    line: Vec<u8>,
    lines: usize,
    answer: Option<Value>,
}

impl Conversation {
    /// A conversation about `asked`, not yet begun.
    pub fn new(asked: Asked) -> Self {
        Self {
            asked,
            stage: Stage::Greeting,
            line: Vec::new(),
            lines: 0,
            answer: None,
        }
    }

    /// What to say first.
    pub fn hello(&self) -> String {
        let _ = self;
        message::initialize(1)
    }

    /// Hears `bytes`; what to say to them.
    pub fn hear(&mut self, bytes: &[u8]) -> Vec<String> {
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
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// The answer, if there is one.
    pub fn answer(self) -> Option<Value> {
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
            return message::reply(&message).into_iter().collect();
        }
        match (self.stage, message.get("id").and_then(Value::as_u64)) {
            (Stage::Greeting, Some(1)) => {
                if message.get("result").is_none() {
                    self.end(message);
                    return Vec::new();
                }
                self.stage = Stage::Called;
                let call = message::call(2, &self.asked.tool, &self.asked.arguments);
                vec![message::initialized(), call]
            }
            (Stage::Called, Some(2)) => {
                self.end(message);
                Vec::new()
            }
            (Stage::Greeting | Stage::Called | Stage::Over, _) => Vec::new(),
        }
    }
}

/// The value an answer means, or a word and a line on why there is none. `ended` says how the program
/// ended.
pub fn meaning(answer: &Value, ended: &Value) -> Result<Value, (&'static str, String)> {
    if answer.is_null() {
        let outcome = ended.get("outcome").and_then(Value::as_str);
        if outcome == Some("timed_out") {
            return Err(("timed_out", "the server did not answer in time".to_owned()));
        }
        return Err(("no_answer", "the server ended without an answer".to_owned()));
    }
    if let Some(what) = answer.get("airlock").and_then(Value::as_str) {
        return Err(("output_invalid", what.to_owned()));
    }
    if let Some(why) = message::error_text(answer) {
        return Err(("tool_error", format!("the server refused: {why}")));
    }
    let result = answer.get("result").unwrap_or(&Value::Null);
    message::value(result).map_err(|why| ("tool_error", format!("the tool failed: {why}")))
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
        let mixed = json!({"result": {"content": [{"text": "a"}, {"image": "b"}, {"text": "c"}]}});
        for (answer, want) in [
            (
                json!({"result": {"structuredContent": {"n": 1}, "content": []}}),
                Ok(json!({"n": 1})),
            ),
            (
                mixed,
                Ok(json!("a\n[a part that is no text was left out]\nc")),
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

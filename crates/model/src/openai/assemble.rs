//! An answer, put together from its pieces.
//!
//! Servers differ in how they cut calls: by index and interleaved, whole and all under one index,
//! without any index. A piece belongs to the call with its index, unless it brings an id of its own
//! that differs; without an index it belongs to the call that came last.
//!
//! Invariant: a call without arguments is one only if the server says that the model stopped by
//! itself. Of an answer that was cut off, nothing is taken for whole that does not show that it is.

use super::body::Names;
use crate::message::{Arguments, Event, Finish, Reply, ToolCall, Usage};
use serde::Deserialize;
use serde_json::Value;

/// Calls of one answer.
const MOST_CALLS: usize = 64;
/// Bytes of one call's arguments, and of a text.
pub(crate) const LONGEST_ARGUMENTS: usize = 1024 * 1024;
pub(crate) const LONGEST_TEXT: usize = 4 * 1024 * 1024;
const LONGEST_ID: usize = 128;
const LONGEST_NAME: usize = 256;

/// Why pieces make no answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Unusable {
    /// It is not the protocol.
    Malformed(String),
    /// More than anybody needs.
    TooLarge(&'static str, usize),
    /// The server says that something went wrong.
    Said(Value),
    /// The answer ended before it was complete.
    Incomplete,
}

// Servers leave out what they have nothing to say of, or say `null`.
#[derive(Debug, Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<WireUsage>,
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    index: Option<u64>,
    delta: Option<Piece>,
    message: Option<Piece>,
    finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Piece {
    content: Option<Value>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<WireCall>>,
}

#[derive(Debug, Deserialize)]
struct WireCall {
    index: Option<u64>,
    id: Option<String>,
    function: Option<WireFunction>,
}

#[derive(Debug, Deserialize)]
struct WireFunction {
    name: Option<String>,
    arguments: Option<Value>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct WireUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

#[derive(Debug, Default)]
struct Building {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

/// Puts an answer together.
#[derive(Debug)]
pub(crate) struct Assembly<'n> {
    names: &'n Names,
    text: String,
    reasoning: String,
    refusal: String,
    calls: Vec<Building>,
    /// Why it stopped, in the server's word.
    reason: Option<String>,
    usage: Usage,
    done: bool,
}

impl<'n> Assembly<'n> {
    pub(crate) fn new(names: &'n Names) -> Self {
        Self {
            names,
            text: String::new(),
            reasoning: String::new(),
            refusal: String::new(),
            calls: Vec::new(),
            reason: None,
            usage: Usage::default(),
            done: false,
        }
    }

    /// Whether the server said that nothing follows.
    pub(crate) const fn is_done(&self) -> bool {
        self.done
    }

    /// Takes the data of one event, or a whole answer that came at once.
    pub(crate) fn take(
        &mut self,
        data: &str,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), Unusable> {
        let data = data.trim();
        if data.is_empty() || self.done {
            return Ok(());
        }
        if data == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        let chunk: Chunk = serde_json::from_str(data)
            .map_err(|error| Unusable::Malformed(format!("no JSON of an answer: {error}")))?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(Unusable::Said(error));
        }
        if let Some(usage) = chunk.usage {
            self.usage = Usage {
                input: usage.prompt_tokens.unwrap_or_default(),
                output: usage.completion_tokens.unwrap_or_default(),
                estimated: false,
                ..Usage::default()
            };
        }
        // One answer was asked for; others, if a server has more, are none of ours.
        let first = |choice: &Choice| choice.index.unwrap_or_default() == 0;
        for choice in chunk.choices.into_iter().flatten().filter(first) {
            // What comes at once is complete; of a piece, an empty reason says that more follows.
            let at_once = choice.message.is_some();
            if let Some(piece) = choice.delta.or(choice.message) {
                self.piece(piece, on_event)?;
            }
            let said = |reason: &String| at_once || !reason.is_empty();
            if let Some(reason) = choice.finish_reason.filter(said) {
                self.reason = Some(reason);
            }
        }
        Ok(())
    }

    fn piece(&mut self, piece: Piece, on_event: &mut dyn FnMut(Event)) -> Result<(), Unusable> {
        for text in [piece.reasoning_content, piece.reasoning]
            .into_iter()
            .flatten()
        {
            add(&mut self.reasoning, &text, "reasoning")?;
            if !text.is_empty() {
                on_event(Event::ReasoningDelta { text });
            }
        }
        let text = piece.content.as_ref().map(text_of).unwrap_or_default();
        add(&mut self.text, &text, "text")?;
        let refusal = piece.refusal.unwrap_or_default();
        add(&mut self.refusal, &refusal, "text")?;
        for text in [text, refusal] {
            if !text.is_empty() {
                on_event(Event::TextDelta { text });
            }
        }
        for call in piece.tool_calls.into_iter().flatten() {
            self.call(call, on_event)?;
        }
        Ok(())
    }

    fn call(&mut self, call: WireCall, on_event: &mut dyn FnMut(Event)) -> Result<(), Unusable> {
        let id = call.id.filter(|id| !id.is_empty());
        let at = self.place(call.index, id.as_deref())?;
        let Some(building) = self.calls.get_mut(at) else {
            return Ok(());
        };
        if let Some(id) = id.filter(|_| building.id.is_empty()) {
            building.id = id;
        }
        let Some(function) = call.function else {
            return Ok(());
        };
        if let Some(name) = function.name.filter(|name| !name.is_empty())
            && building.name.is_empty()
        {
            if name.len() > LONGEST_NAME {
                return Err(Unusable::TooLarge("a tool's name", LONGEST_NAME));
            }
            building.name = name;
            on_event(Event::ToolCallStart {
                index: at,
                id: building.id.clone(),
                name: self.names.own(&building.name),
            });
        }
        let more = match function.arguments {
            Some(Value::String(text)) => text,
            // Some servers send the object itself.
            Some(value @ (Value::Object(_) | Value::Array(_))) => value.to_string(),
            Some(_) | None => String::new(),
        };
        if building.arguments.len() + more.len() > LONGEST_ARGUMENTS {
            return Err(Unusable::TooLarge("a call's arguments", LONGEST_ARGUMENTS));
        }
        building.arguments.push_str(&more);
        if !more.is_empty() {
            on_event(Event::ToolCallDelta {
                index: at,
                text: more,
            });
        }
        Ok(())
    }

    /// The call a piece belongs to; a new one where it belongs to none.
    fn place(&mut self, index: Option<u64>, id: Option<&str>) -> Result<usize, Unusable> {
        let fits = |one: &Building| match (index, id) {
            (Some(_), _) if one.index != index => false,
            (_, Some(id)) => one.id.is_empty() || one.id == id,
            (_, None) => true,
        };
        if let Some(at) = self.calls.iter().rposition(fits) {
            return Ok(at);
        }
        if self.calls.len() >= MOST_CALLS {
            return Err(Unusable::TooLarge("calls in one answer", MOST_CALLS));
        }
        self.calls.push(Building {
            index,
            ..Building::default()
        });
        Ok(self.calls.len() - 1)
    }

    /// The whole answer, once nothing more comes.
    pub(crate) fn complete(self, on_event: &mut dyn FnMut(Event)) -> Result<Reply, Unusable> {
        if self.reason.is_none() && !self.done {
            return Err(Unusable::Incomplete);
        }
        let parse = if self.reason.as_deref().is_some_and(is_whole) {
            Arguments::parse
        } else {
            Arguments::parse_incomplete
        };
        let names = self.names;
        let mut calls: Vec<ToolCall> = Vec::new();
        for (index, building) in self.calls.into_iter().enumerate() {
            on_event(Event::ToolCallEnd { index });
            calls.push(ToolCall {
                id: own_id(building.id, &calls),
                name: names.own(&building.name),
                arguments: parse(&building.arguments),
            });
        }
        let said = self.reason.as_deref().map_or(Finish::Stop, finish);
        let (text, finish) = if self.refusal.is_empty() {
            (self.text, said)
        } else {
            (format!("{}{}", self.text, self.refusal), Finish::Refusal)
        };
        // Some servers say `stop` although they ask for calls.
        let finish = match finish {
            Finish::Stop if !calls.is_empty() => Finish::ToolCalls,
            Finish::ToolCalls if calls.is_empty() => Finish::Stop,
            finish @ (Finish::Stop
            | Finish::ToolCalls
            | Finish::Length
            | Finish::ContentFilter
            | Finish::Refusal) => finish,
        };
        Ok(Reply {
            text,
            reasoning: self.reasoning,
            calls,
            finish,
            usage: self.usage,
            model: String::new(),
        })
    }
}

/// `id`, or one made up where it is unusable or one of `calls` has it.
fn own_id(id: String, calls: &[ToolCall]) -> String {
    let is_taken = |id: &str| calls.iter().any(|call| call.id == id);
    let odd = |c: char| !c.is_ascii_graphic();
    if !id.is_empty() && id.len() <= LONGEST_ID && !id.contains(odd) && !is_taken(&id) {
        return id;
    }
    let mut number = calls.len() + 1;
    loop {
        let id = format!("call-{number}");
        if !is_taken(&id) {
            return id;
        }
        number += 1;
    }
}

/// Whether a model that stops for this reason ended what it began. A reason that nobody knows may be
/// another word for a limit.
fn is_whole(reason: &str) -> bool {
    // An empty one is only kept of an answer that came at once, which is complete.
    matches!(reason, "stop" | "tool_calls" | "function_call" | "")
}

fn finish(reason: &str) -> Finish {
    match reason {
        "tool_calls" | "function_call" => Finish::ToolCalls,
        "length" | "max_tokens" | "model_length" => Finish::Length,
        "content_filter" => Finish::ContentFilter,
        _ => Finish::Stop,
    }
}

fn add(to: &mut String, more: &str, what: &'static str) -> Result<(), Unusable> {
    if to.len() + more.len() > LONGEST_TEXT {
        return Err(Unusable::TooLarge(what, LONGEST_TEXT));
    }
    to.push_str(more);
    Ok(())
}

/// Text, whether it is one string or a list of parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part.get("text").and_then(Value::as_str))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn assembled(chunks: &[Value]) -> Result<(Reply, Vec<Event>), Unusable> {
        let data: Vec<String> = chunks.iter().map(ToString::to_string).collect();
        assembled_of(&data)
    }

    fn assembled_of(data: &[String]) -> Result<(Reply, Vec<Event>), Unusable> {
        let names = Names::of(["fs.read", "fs.list"].into_iter());
        let mut assembly = Assembly::new(&names);
        let mut events = Vec::new();
        for one in data {
            assembly.take(one, &mut |event| events.push(event))?;
        }
        let reply = assembly.complete(&mut |event| events.push(event))?;
        Ok((reply, events))
    }

    fn calls(pieces: &Value) -> Value {
        json!({ "choices": [{ "delta": { "tool_calls": pieces } }] })
    }

    fn end(reason: &str) -> Value {
        json!({ "choices": [{ "delta": {}, "finish_reason": reason }] })
    }

    fn path(call: &ToolCall) -> &str {
        match &call.arguments {
            Arguments::Object(object) => object["path"].as_str().unwrap(),
            Arguments::Malformed { why, .. } => panic!("{why}"),
            Arguments::Incomplete { text } => panic!("cut off: {text}"),
        }
    }

    #[test]
    fn calls_are_told_apart_however_a_server_cuts_them() {
        let function =
            |name: &str, arguments: &str| json!({ "name": name, "arguments": arguments });
        for (case, chunks) in [
            (
                "interleaved by index",
                vec![
                    calls(&json!([{ "index": 0, "id": "a", "function": function("fs_read", "") }])),
                    calls(
                        &json!([{ "index": 1, "id": "b", "function": function("fs_list", "{\"pa") }]),
                    ),
                    calls(&json!([{ "index": 0, "function": { "arguments": "{\"path\":" } }])),
                    calls(&json!([{ "index": 1, "function": { "arguments": "th\":\"two\"}" } }])),
                    calls(&json!([{ "index": 0, "function": { "arguments": "\"one\"}" } }])),
                ],
            ),
            (
                "whole, all under index 0",
                vec![
                    calls(
                        &json!([{ "index": 0, "id": "a", "function": function("fs_read", "{\"path\":\"one\"}") }]),
                    ),
                    calls(
                        &json!([{ "index": 0, "id": "b", "function": function("fs_list", "{\"path\":\"two\"}") }]),
                    ),
                ],
            ),
            (
                "without an index",
                vec![
                    calls(&json!([{ "id": "a", "function": function("fs_read", "{\"path\":") }])),
                    calls(&json!([{ "function": { "arguments": "\"one\"}" } }])),
                    calls(
                        &json!([{ "id": "b", "function": function("fs_list", "{\"path\":\"two\"}") }]),
                    ),
                ],
            ),
            (
                "arguments as an object",
                vec![calls(&json!([
                    { "index": 0, "id": "a", "function": { "name": "fs_read", "arguments": { "path": "one" } } },
                    { "index": 1, "id": "b", "function": { "name": "fs_list", "arguments": { "path": "two" } } },
                ]))],
            ),
        ] {
            let chunks: Vec<Value> = chunks.into_iter().chain([end("tool_calls")]).collect();
            let (reply, _) = assembled(&chunks).unwrap();
            let found: Vec<(&str, &str, &str)> = reply
                .calls
                .iter()
                .map(|call| (call.id.as_str(), call.name.as_str(), path(call)))
                .collect();
            let want = [("a", "fs.read", "one"), ("b", "fs.list", "two")];
            assert_eq!(found, want, "{case}");
        }
    }

    #[test]
    fn ids_are_usable_and_unique_whatever_came() {
        let long = "x".repeat(1_000);
        for (came, want) in [
            (
                &["", long.as_str(), "a\n", "same", "same"][..],
                &["call-1", "call-2", "call-3", "same", "call-5"][..],
            ),
            (&["call-2", "call-2"], &["call-2", "call-3"]),
            (&["call-2", ""], &["call-2", "call-3"]),
            (&["", "call-1"], &["call-1", "call-2"]),
            (
                &["call-3", "x", "", "call-4", ""],
                &["call-3", "x", "call-4", "call-5", "call-6"],
            ),
        ] {
            let one = |(index, id): (usize, &&str)| {
                calls(&json!([{ "index": index, "id": id, "function": { "name": "fs_read" } }]))
            };
            let chunks = came.iter().enumerate().map(one).chain([end("stop")]);
            let (reply, _) = assembled(&chunks.collect::<Vec<_>>()).unwrap();
            let ids: Vec<&str> = reply.calls.iter().map(|call| call.id.as_str()).collect();
            assert_eq!(ids, want);
            assert_eq!(reply.finish, Finish::ToolCalls);
        }
    }

    #[test]
    fn a_call_that_may_be_cut_off_is_whole_only_if_it_shows() {
        let whole = "{\"path\":\"one\"}";
        for (reason, arguments, is_whole) in [
            (Some("tool_calls"), "", true),
            (Some("stop"), "", true),
            (Some("length"), "", false),
            (Some("length"), " ", false),
            (Some("length"), "{\"path\":\"o", false),
            (Some("length"), "{}", true),
            (Some("length"), whole, true),
            (Some("model_length"), "", false),
            (Some("content_filter"), "", false),
            (Some("new_reason"), "", false),
            (None, "", false),
            (None, "{", false),
            (None, whole, true),
        ] {
            let function = json!({ "name": "fs_read", "arguments": arguments });
            let call = calls(&json!([{ "index": 0, "id": "a", "function": function }]));
            let last = reason.map_or_else(|| "[DONE]".to_owned(), |reason| end(reason).to_string());
            let (reply, _) = assembled_of(&[call.to_string(), last]).unwrap();
            let found = &reply.calls[0].arguments;
            let told = (
                matches!(found, Arguments::Object(_)),
                matches!(found, Arguments::Incomplete { .. }),
            );
            assert_eq!(told, (is_whole, !is_whole), "{reason:?} {arguments}");
        }
    }

    #[test]
    fn every_way_to_stop_is_told_apart() {
        let text = json!({ "choices": [{ "delta": { "content": "no" } }] });
        let refusal = json!({ "choices": [{ "delta": { "refusal": "I will not" } }] });
        for (chunks, want) in [
            (vec![text.clone(), end("stop")], Finish::Stop),
            (vec![text.clone(), end("length")], Finish::Length),
            (
                vec![text.clone(), end("content_filter")],
                Finish::ContentFilter,
            ),
            (vec![refusal, end("stop")], Finish::Refusal),
            (vec![text.clone(), end("new_reason")], Finish::Stop),
        ] {
            assert_eq!(assembled(&chunks).unwrap().0.finish, want);
        }
        assert_eq!(assembled(&[text]).unwrap_err(), Unusable::Incomplete);
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let error = json!({ "error": { "message": "overloaded" } });
        assert!(matches!(assembled(&[error]), Err(Unusable::Said(_))));
        let wrong = json!({ "choices": "none" });
        assert!(matches!(assembled(&[wrong]), Err(Unusable::Malformed(_))));
        let many: Vec<Value> = (0..=MOST_CALLS)
            .map(|n| calls(&json!([{ "index": n, "id": n.to_string() }])))
            .collect();
        assert!(matches!(assembled(&many), Err(Unusable::TooLarge(..))));
        let big = "x".repeat(700 * 1024);
        let big = calls(
            &json!([{ "index": 0, "id": "a", "function": { "name": "fs_read", "arguments": big } }]),
        );
        assert!(matches!(
            assembled(&[big.clone(), big]),
            Err(Unusable::TooLarge(..))
        ));
    }

    #[test]
    fn a_whole_answer_at_once_is_understood_too() {
        let whole = json!({
            "choices": [{ "message": { "role": "assistant", "content": [{ "type": "text", "text": "hi" }] },
                          "finish_reason": "stop" }],
            "usage": { "prompt_tokens": 5, "completion_tokens": 2 },
        });
        let (reply, _) = assembled(&[whole]).unwrap();
        assert_eq!((reply.text.as_str(), reply.usage.total()), ("hi", 7));
        assert!(!reply.usage.estimated);
    }
}

//! A recorded conversation, played from a file: deterministic, offline, and no model.
//!
//! Each question takes the next turn of the script. A turn can say what it expects of the question;
//! a script that runs out of step with what really happens fails and says where, instead of talking
//! past it.

use crate::cancel::Cancel;
use crate::error::ModelError;
use crate::message::{Arguments, Event, Finish, Message, Reply, Request, Status, ToolCall, Usage};
use crate::model::Model;
use crate::tokens::Counter;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Turns of a script, and calls of a turn.
const MOST_TURNS: usize = 10_000;
const MOST_CALLS: usize = 64;
/// Bytes of a script.
const LONGEST: usize = 8 * 1024 * 1024;
/// The longest a turn may think.
const LONGEST_PAUSE: u64 = 60_000;
/// How often a pause looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(5);

/// Why a script does not play.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// It cannot be read as a script.
    #[error("the script does not load: {0}")]
    Load(String),
    /// It has no further turn.
    #[error("the script has {turns} turns, and a further one is asked for")]
    Ended {
        /// How many it has.
        turns: usize,
    },
    /// What happened is not what it was written for.
    #[error(
        "the script is out of step at turn {turn}: it expects {expected}, but there is {found}"
    )]
    OutOfStep {
        /// Which turn, from 1.
        turn: usize,
        /// What it expects.
        expected: String,
        /// What there is.
        found: String,
    },
}

impl ScriptError {
    /// What would help.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Load(_) => "`docs/agent.md` shows what a script looks like",
            Self::Ended { .. } => "end the script with a turn that has text and no calls",
            Self::OutOfStep { .. } => "record the script anew, or mend what it expects",
        }
    }
}

/// A recorded conversation.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The version of the format.
    version: u32,
    /// What it shows, for people.
    #[serde(default)]
    about: String,
    turns: Vec<Turn>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    #[serde(default)]
    expect: Expect,
    #[serde(default)]
    reasoning: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    calls: Vec<Call>,
    /// How long it thinks first.
    #[serde(default)]
    pause_ms: u64,
}

/// What a turn expects of the question it answers.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    /// In the last message of the person.
    user: Option<String>,
    /// Of the results of the calls before, in their order.
    #[serde(default)]
    results: Vec<ExpectResult>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectResult {
    tool: Option<String>,
    status: Option<Status>,
    contains: Option<String>,
    lacks: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    /// Text in place of arguments, to play a model that writes nonsense.
    malformed: Option<String>,
}

impl Script {
    /// Reads a script: YAML, of which JSON is a part.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let load = |why: String| ScriptError::Load(why);
        if text.len() > LONGEST {
            return Err(load(format!("it has more than {LONGEST} bytes")));
        }
        let script: Self = serde_saphyr::from_str(text).map_err(|error| load(error.to_string()))?;
        if script.version != 1 {
            return Err(load(format!("version {} is not known", script.version)));
        }
        if script.turns.is_empty() || script.turns.len() > MOST_TURNS {
            return Err(load(format!("it needs 1 to {MOST_TURNS} turns")));
        }
        for (number, turn) in script.turns.iter().enumerate() {
            let number = number + 1;
            if turn.text.is_empty() && turn.calls.is_empty() {
                return Err(load(format!(
                    "turn {number} says nothing and calls nothing"
                )));
            }
            if turn.calls.len() > MOST_CALLS || turn.pause_ms > LONGEST_PAUSE {
                let most = format!("{MOST_CALLS} calls and {LONGEST_PAUSE} ms");
                return Err(load(format!("turn {number} has more than {most}")));
            }
        }
        Ok(script)
    }

    /// What it shows.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// How many turns it has.
    pub fn turns(&self) -> usize {
        self.turns.len()
    }
}

/// Plays a script.
#[derive(Debug)]
pub struct Scripted {
    name: String,
    script: Script,
    next: Mutex<usize>,
    window: u32,
}

impl Scripted {
    /// Plays `script` under `name`.
    pub fn new(name: impl Into<String>, script: Script) -> Self {
        Self {
            name: name.into(),
            script,
            next: Mutex::new(0),
            window: 32_000,
        }
    }

    /// The same for a conversation of so many tokens.
    #[must_use]
    pub fn with_window(mut self, window: u32) -> Self {
        self.window = window;
        self
    }

    fn take(&self) -> Result<(usize, &Turn), ScriptError> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = self.script.turns.get(*next).ok_or(ScriptError::Ended {
            turns: self.script.turns.len(),
        })?;
        *next += 1;
        Ok((*next, turn))
    }
}

impl Model for Scripted {
    fn name(&self) -> &str {
        &self.name
    }

    fn chat(
        &self,
        request: &Request,
        on_event: &mut dyn FnMut(Event),
        cancel: &Cancel,
    ) -> Result<Reply, ModelError> {
        let (number, turn) = self.take()?;
        turn.expect.check(number, &request.messages)?;
        pause(Duration::from_millis(turn.pause_ms), cancel)?;
        let reply = turn.reply(number, request, &self.name);
        if !reply.reasoning.is_empty() {
            on_event(Event::ReasoningDelta {
                text: reply.reasoning.clone(),
            });
        }
        for text in reply.text.split_inclusive(' ') {
            if cancel.is_cancelled() {
                return Err(ModelError::Cancelled);
            }
            on_event(Event::TextDelta {
                text: text.to_owned(),
            });
        }
        for (index, call) in reply.calls.iter().enumerate() {
            on_event(Event::ToolCallStart {
                index,
                id: call.id.clone(),
                name: call.name.clone(),
            });
            on_event(Event::ToolCallDelta {
                index,
                text: call.arguments.to_text(),
            });
            on_event(Event::ToolCallEnd { index });
        }
        on_event(Event::Usage { usage: reply.usage });
        on_event(Event::Done {
            finish: reply.finish,
        });
        Ok(reply)
    }

    fn counter(&self) -> Counter {
        Counter::ESTIMATE
    }

    fn window(&self) -> u32 {
        self.window
    }

    fn hosts(&self) -> Vec<String> {
        Vec::new()
    }
}

fn pause(length: Duration, cancel: &Cancel) -> Result<(), ModelError> {
    let begun = Instant::now();
    loop {
        if cancel.is_cancelled() {
            return Err(ModelError::Cancelled);
        }
        let left = length.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LOOK));
    }
}

impl Turn {
    fn reply(&self, number: usize, request: &Request, model: &str) -> Reply {
        let call = |(at, call): (usize, &Call)| ToolCall {
            id: format!("call-{number}-{}", at + 1),
            name: call.tool.clone(),
            arguments: match &call.malformed {
                Some(text) => Arguments::parse(text),
                None => Arguments::Object(call.arguments.clone()),
            },
        };
        let calls: Vec<ToolCall> = self.calls.iter().enumerate().map(call).collect();
        let counter = Counter::ESTIMATE;
        let said = Message::Assistant {
            text: self.text.clone(),
            calls: calls.clone(),
        };
        Reply {
            text: self.text.clone(),
            reasoning: self.reasoning.clone(),
            finish: if calls.is_empty() {
                Finish::Stop
            } else {
                Finish::ToolCalls
            },
            calls,
            usage: Usage {
                input: counter.question(request),
                output: counter.message(&said),
                estimated: true,
                ..Usage::default()
            },
            model: model.to_owned(),
        }
    }
}

impl Expect {
    fn check(&self, turn: usize, messages: &[Message]) -> Result<(), ScriptError> {
        let out = |expected: String, found: String| ScriptError::OutOfStep {
            turn,
            expected,
            found: crate::clean::quoted(&found, None),
        };
        if let Some(wanted) = &self.user {
            let said = messages.iter().rev().find_map(|message| match message {
                Message::User { text } => Some(text.as_str()),
                Message::Assistant { .. } | Message::Tool { .. } => None,
            });
            let said = said.unwrap_or_default();
            if !said.contains(wanted.as_str()) {
                let expected = format!("`{wanted}` in what the person said");
                return Err(out(expected, format!("`{said}`")));
            }
        }
        if self.results.is_empty() {
            return Ok(());
        }
        let results = last_results(messages);
        if results.len() != self.results.len() {
            let expected = format!("{} results", self.results.len());
            return Err(out(expected, results.len().to_string()));
        }
        for (expected, (name, status, text)) in self.results.iter().zip(results) {
            if let Some(tool) = expected.tool.as_deref().filter(|tool| *tool != name) {
                return Err(out(
                    format!("a result of `{tool}`"),
                    format!("one of `{name}`"),
                ));
            }
            if let Some(wanted) = expected.status.filter(|wanted| *wanted != status) {
                let expected = format!("`{name}` to end with `{}`", wanted.as_str());
                let found = format!("`{}`: {text}", status.as_str());
                return Err(out(expected, found));
            }
            if let Some(part) = expected
                .contains
                .as_ref()
                .filter(|part| !text.contains(*part))
            {
                let expected = format!("`{part}` in the result of `{name}`");
                return Err(out(expected, format!("`{text}`")));
            }
            if let Some(part) = expected.lacks.as_ref().filter(|part| text.contains(*part)) {
                let expected = format!("no `{part}` in the result of `{name}`");
                return Err(out(expected, format!("`{text}`")));
            }
        }
        Ok(())
    }
}

/// The results of the calls that were asked for last, in their order, whatever the person said
/// since; none if the model has answered them already.
fn last_results(messages: &[Message]) -> Vec<(&str, Status, &str)> {
    let mut results: Vec<(&str, Status, &str)> = messages
        .iter()
        .rev()
        .skip_while(|message| matches!(message, Message::User { .. }))
        .map_while(|message| match message {
            Message::Tool {
                name, status, text, ..
            } => Some((name.as_str(), *status, text.as_str())),
            Message::User { .. } | Message::Assistant { .. } => None,
        })
        .collect();
    results.reverse();
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "
version: 1
about: reads a file
turns:
  - expect: { user: look }
    reasoning: a file first
    text: Let me look at it.
    calls:
      - { tool: fs.read, arguments: { path: a.txt } }
  - expect:
      results: [{ tool: fs.read, status: ok, contains: hello, lacks: bye }]
    text: It says hello.
";

    fn model(text: &str) -> Scripted {
        Scripted::new("script", Script::parse(text).unwrap())
    }

    fn ask(model: &Scripted, messages: Vec<Message>) -> Result<(Reply, Vec<Event>), ModelError> {
        let request = Request {
            messages,
            ..Request::default()
        };
        let mut events = Vec::new();
        let reply = model.chat(&request, &mut |event| events.push(event), &Cancel::new())?;
        Ok((reply, events))
    }

    fn user(text: &str) -> Message {
        Message::User {
            text: text.to_owned(),
        }
    }

    fn result(name: &str, status: Status, text: &str) -> Message {
        Message::Tool {
            call: "call-1-1".to_owned(),
            name: name.to_owned(),
            status,
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_script_plays_turn_by_turn_and_streams_what_it_says() {
        let model = model(SCRIPT);
        let (reply, events) = ask(&model, vec![user("please look")]).unwrap();
        assert_eq!((reply.calls.len(), reply.finish), (1, Finish::ToolCalls));
        let streamed: String = events
            .iter()
            .filter_map(|event| {
                if let Event::TextDelta { text } = event {
                    Some(text.as_str())
                } else {
                    None
                }
            })
            .collect();
        assert_eq!(streamed, "Let me look at it.");
        assert!(
            matches!(events.last(), Some(Event::Done { .. })),
            "{events:?}"
        );
        let (reply, _) = ask(&model, vec![result("fs.read", Status::Ok, "hello")]).unwrap();
        assert_eq!(
            (reply.text.as_str(), reply.finish),
            ("It says hello.", Finish::Stop)
        );
        let ended = ask(&model, Vec::new()).unwrap_err();
        assert!(matches!(
            ended,
            ModelError::Script(ScriptError::Ended { turns: 2 })
        ));
    }

    #[test]
    fn a_script_out_of_step_fails_and_says_where() {
        for (messages, part) in [
            (vec![result("fs.list", Status::Ok, "hello")], "`fs.read`"),
            (
                vec![result("fs.read", Status::Denied, "hello")],
                "end with `ok`",
            ),
            (vec![result("fs.read", Status::Ok, "nothing")], "`hello` in"),
            (vec![result("fs.read", Status::Ok, "hello bye")], "no `bye`"),
            (vec![user("x")], "1 results"),
        ] {
            let model = model(SCRIPT);
            ask(&model, vec![user("look")]).unwrap();
            let error = ask(&model, messages).unwrap_err().to_string();
            assert!(error.contains("turn 2") && error.contains(part), "{error}");
        }
        let error = ask(&model(SCRIPT), vec![user("hello")]).unwrap_err();
        assert!(error.to_string().contains("turn 1"), "{error}");
    }

    #[test]
    fn what_is_no_script_does_not_load() {
        for text in [
            "",
            "version: 2\nturns: [{ text: a }]",
            "version: 1\nturns: []",
            "version: 1\nturns: [{}]",
            "version: 1\nturns: [{ text: a, extra: 1 }]",
            "version: 1\nturns: [{ text: a, pause_ms: 99999999 }]",
            "version: 1\nturns: [{ calls: [{ arguments: {} }] }]",
            "version: 1\nturns: [{ text: a, calls: [{ tool: a, arguments: [] }] }]",
        ] {
            assert!(Script::parse(text).is_err(), "{text}");
        }
        let json = r#"{"version": 1, "turns": [{"text": "a"}]}"#;
        assert_eq!(Script::parse(json).unwrap().turns(), 1);
    }

    #[test]
    fn a_turn_that_thinks_can_be_taken_back() {
        let model = model("version: 1\nturns: [{ text: a, pause_ms: 60000 }]");
        let cancel = Cancel::new();
        let other = cancel.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            other.cancel();
        });
        let error = model.chat(&Request::default(), &mut |_| {}, &cancel);
        assert!(matches!(error, Err(ModelError::Cancelled)));
        thread.join().unwrap();
    }
}

//! A conversation, in words that no provider owns.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One question to a model: everything it is told.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Request {
    /// What it is told before anything else. Not part of the conversation.
    pub system: String,
    /// The conversation.
    pub messages: Vec<Message>,
    /// What it may ask for.
    pub tools: Vec<ToolDefinition>,
    /// Tokens its answer may take.
    pub max_output: u32,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// What is said to the model.
    User {
        /// The text.
        text: String,
    },
    /// What the model said.
    Assistant {
        /// The text.
        text: String,
        /// The calls it asked for.
        calls: Vec<ToolCall>,
    },
    /// What came of a call it asked for.
    Tool {
        /// The id of the call.
        call: String,
        /// The tool.
        name: String,
        /// How it ended.
        status: Status,
        /// The result, as text.
        text: String,
    },
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It happened.
    Ok,
    /// It may not happen.
    Denied,
    /// It may happen once a person says so.
    NeedsReview,
    /// It was tried and failed, or could not be tried.
    Failed,
    /// It was taken back.
    Cancelled,
}

impl Status {
    /// The word used in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Denied => "denied",
            Self::NeedsReview => "needs_review",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A call a model asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Joins the call with its result.
    pub id: String,
    /// The tool, by its own name.
    pub name: String,
    /// Its arguments.
    pub arguments: Arguments,
}

/// The arguments of a call: an object, or what came instead of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    /// An object, as every tool wants it.
    Object(Map<String, Value>),
    /// Something else: told to the model, never run.
    Malformed {
        /// What it wrote.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// What came of them before the answer was cut off: told to the model, never run.
    Incomplete {
        /// What came.
        text: String,
    },
}

impl Arguments {
    /// Reads what a model wrote. Nothing at all is an empty object.
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        if text.is_empty() {
            return Self::Object(Map::new());
        }
        let malformed = |why: String| Self::Malformed {
            text: text.to_owned(),
            why,
        };
        match serde_json::from_str(text) {
            Ok(Value::Object(object)) => Self::Object(object),
            Ok(_) => malformed("it is not a JSON object".to_owned()),
            Err(error) => malformed(error.to_string()),
        }
    }

    /// Reads what came of an answer that may have been cut off. An object shows by itself that it is
    /// whole; anything else, and nothing at all, may be the beginning of any.
    pub fn parse_incomplete(text: &str) -> Self {
        match serde_json::from_str(text) {
            Ok(Value::Object(object)) => Self::Object(object),
            Ok(_) | Err(_) => Self::Incomplete {
                text: text.trim().to_owned(),
            },
        }
    }

    /// As the JSON text a provider wants back; what is no object goes back as an empty one, because
    /// some servers refuse a conversation with anything else in it.
    pub fn to_text(&self) -> String {
        match self {
            Self::Object(object) => serde_json::to_string(object).unwrap_or_default(),
            Self::Malformed { .. } | Self::Incomplete { .. } => "{}".to_owned(),
        }
    }
}

/// A tool as a model is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments.
    pub schema: Value,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It was done.
    Stop,
    /// It waits for the results of calls.
    ToolCalls,
    /// It ran out of room: the answer is cut.
    Length,
    /// The provider cut it off for its content.
    ContentFilter,
    /// It refused.
    Refusal,
}

/// What an answer took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the question.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
    /// Whether the provider did not say, and this is counted here.
    pub estimated: bool,
    /// What that costs, in millionths; nothing where no price is known.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub cost_micros: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands the field over like this"
)]
const fn is_nothing(amount: &u64) -> bool {
    *amount == 0
}

impl Usage {
    /// Both together.
    pub const fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// What it says.
    pub text: String,
    /// What it thought aloud, where a provider tells.
    pub reasoning: String,
    /// The calls it asks for.
    pub calls: Vec<ToolCall>,
    /// Why it stopped.
    pub finish: Finish,
    /// What it took.
    pub usage: Usage,
    /// Who answered: the name the model is configured under.
    pub model: String,
}

/// A piece of an answer, as it comes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// More of the text.
    TextDelta {
        /// The piece.
        text: String,
    },
    /// More of what it thinks aloud.
    ReasoningDelta {
        /// The piece.
        text: String,
    },
    /// It begins to ask for a call.
    ToolCallStart {
        /// Tells calls of one answer apart.
        index: usize,
        /// The id of the call.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of a call's arguments.
    ToolCallDelta {
        /// Which call.
        index: usize,
        /// The piece.
        text: String,
    },
    /// Nothing more comes of a call.
    ToolCallEnd {
        /// Which call.
        index: usize,
    },
    /// What the answer took.
    Usage {
        /// Tokens.
        #[serde(flatten)]
        usage: Usage,
    },
    /// The answer is complete.
    Done {
        /// Why it stopped.
        finish: Finish,
    },
    /// Something went wrong. If it is tried again, what was streamed of this answer is void.
    Error {
        /// What happened.
        message: String,
        /// Whether it is tried again.
        retrying: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_object_is_arguments() {
        for (text, good) in [
            ("", true),
            ("  \n", true),
            ("{}", true),
            (r#"{"path": "a"}"#, true),
            ("[]", false),
            ("null", false),
            (r#""{}""#, false),
            (r#"{"path": "a""#, false),
            (r#"{"path": "a"} trailing"#, false),
            ("path=a", false),
        ] {
            let is_object = matches!(Arguments::parse(text), Arguments::Object(_));
            assert_eq!(is_object, good, "{text}");
        }
    }

    #[test]
    fn of_what_may_be_cut_off_only_an_object_is_whole() {
        for (text, whole) in [
            ("{}", true),
            (r#" {"path": "a"} "#, true),
            ("", false),
            ("  \n", false),
            ("{", false),
            (r#"{"path": "a""#, false),
            ("[]", false),
        ] {
            let found = Arguments::parse_incomplete(text);
            let is_object = matches!(found, Arguments::Object(_));
            let is_incomplete = matches!(found, Arguments::Incomplete { .. });
            assert_eq!((is_object, is_incomplete), (whole, !whole), "{text}");
        }
    }

    #[test]
    fn arguments_that_are_no_object_do_not_poison_the_conversation() {
        for arguments in [
            Arguments::parse("{\"a\": "),
            Arguments::parse_incomplete("{\"a\": "),
        ] {
            assert_eq!(arguments.to_text(), "{}");
        }
    }
}

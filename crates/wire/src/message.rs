//! Messages: what is in a frame.
//!
//! Strict: a field nobody knows, a field of another kind of message or a missing one makes it no
//! message. Numbers of requests begin at one; zero stands for the connection itself.

use crate::error::{WireError, code, in_own_words};
use crate::frame::{FrameError, encode_with};
use airlock_core::json_values;
use airlock_core::limits::MESSAGE_VALUES;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Longest name of a method.
const METHOD_BYTES: usize = 128;

/// What one frame says.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Somebody wants something.
    Request(Request),
    /// The answer to it.
    Response(Reply),
    /// Something happened.
    Event(Event),
}

/// A request.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Chosen by the client; not under way already, and not zero.
    pub id: u64,
    /// What is wanted.
    pub method: String,
    /// With which parameters.
    pub params: Value,
    /// How many descriptors passed along belong to it.
    pub descriptors: usize,
}

/// A response.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The request's; zero: the connection itself, which ends.
    pub id: u64,
    /// The answer.
    pub answer: Result<Value, WireError>,
}

/// What a request is answered with.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// A value.
    Value(Value),
    /// The same as JSON: what was written out once need not become a value in between.
    Written(Vec<u8>),
}

/// Room for most answers, so that few of them move while they are written.
const USUAL_ANSWER: usize = 8 * 1024;

impl Answer {
    /// Writes `answer` out.
    pub fn written(answer: &impl Serialize) -> serde_json::Result<Self> {
        let mut text = Vec::with_capacity(USUAL_ANSWER);
        serde_json::to_writer(&mut text, answer)?;
        Ok(Self::Written(text))
    }
}

impl From<Value> for Answer {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

/// An event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Grows from event to event, also over restarts of the kernel.
    pub id: u64,
    /// What kind of event.
    pub method: String,
    /// What happened.
    pub params: Value,
}

/// Why a text is no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// It is not JSON.
    #[error("a frame is not JSON: {0}")]
    NotJson(String),
    /// It is JSON of another shape.
    #[error("a frame is no message: {0}")]
    Invalid(String),
    /// It would need more memory than anybody's message should.
    #[error("a message holds at most {MESSAGE_VALUES} values: send less in one")]
    TooManyValues,
}

impl MessageError {
    /// As the other end is told.
    pub fn wire(&self) -> WireError {
        let code = match self {
            Self::NotJson(_) => code::NOT_JSON,
            Self::Invalid(_) | Self::TooManyValues => code::INVALID_MESSAGE,
        };
        WireError::new(code, self.to_string())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Request,
    Response,
    Event,
}

/// Every field of every kind. `params` and `result` tell null from absent by the kind of message.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    id: u64,
    r#type: Kind,
    method: Option<String>,
    params: Option<Value>,
    result: Option<Value>,
    error: Option<WireError>,
    #[serde(default)]
    descriptors: usize,
}

#[derive(Debug, Serialize)]
struct Written<'a> {
    id: u64,
    r#type: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a WireError>,
    #[serde(skip_serializing_if = "is_zero")]
    descriptors: usize,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out references"
)]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Reads a message.
pub fn parse(text: &str) -> Result<Message, MessageError> {
    let envelope: Envelope = serde_json::from_str(text).map_err(|error| {
        let told = in_own_words(&error);
        if error.is_data() {
            MessageError::Invalid(told)
        } else {
            MessageError::NotJson(told)
        }
    })?;
    // A list passes for an object with its fields in order.
    if !text.trim_start().starts_with('{') {
        return Err(MessageError::Invalid("it is not an object".to_owned()));
    }
    envelope.message()
}

/// Reads what somebody sent who is not trusted to send what can be held: a frame's bytes bound its
/// text, not what comes of it.
pub(crate) fn parse_bounded(text: &str) -> Result<Message, MessageError> {
    if json_values(text.as_bytes()) > MESSAGE_VALUES {
        return Err(MessageError::TooManyValues);
    }
    parse(text)
}

impl Envelope {
    fn message(self) -> Result<Message, MessageError> {
        let invalid = |what: &str| Err(MessageError::Invalid(what.to_owned()));
        let Self { id, r#type, .. } = self;
        let answers = self.result.is_some() || self.error.is_some();
        if self.descriptors > 0 && r#type != Kind::Request {
            return invalid("only a request has `descriptors`");
        }
        match (r#type, self.method) {
            (Kind::Request | Kind::Event, None) => invalid("`method` is missing"),
            (Kind::Request | Kind::Event, Some(_)) if answers => {
                invalid("`result` and `error` are a response's")
            }
            (Kind::Request | Kind::Event, Some(method)) if method.len() > METHOD_BYTES => {
                invalid("`method` is too long")
            }
            (Kind::Request, Some(_)) if id == 0 => invalid("`id` of a request begins at 1"),
            (Kind::Request, Some(method)) => Ok(Message::Request(Request {
                id,
                method,
                params: self.params.unwrap_or_default(),
                descriptors: self.descriptors,
            })),
            (Kind::Event, Some(method)) => Ok(Message::Event(Event {
                id,
                method,
                params: self.params.unwrap_or_default(),
            })),
            (Kind::Response, None) if self.params.is_none() => match (self.result, self.error) {
                (Some(_), Some(_)) => invalid("`result` and `error` exclude each other"),
                (_, Some(error)) => Ok(Message::Response(Reply {
                    id,
                    answer: Err(error),
                })),
                (result, None) => Ok(Message::Response(Reply {
                    id,
                    answer: Ok(result.unwrap_or_default()),
                })),
            },
            (Kind::Response, _) => invalid("`method` and `params` are not a response's"),
        }
    }
}

/// Writes a message.
pub fn text(message: &Message) -> String {
    // Values, strings and numbers: nothing here can fail to be JSON.
    serde_json::to_string(&written(message)).unwrap_or_default()
}

/// Room for most messages, so that few of them move while they are written.
const USUAL: usize = 1024;

/// Writes a message into a frame.
pub(crate) fn framed(message: &Message, limit: usize) -> Result<Vec<u8>, FrameError> {
    encode_with(USUAL, limit, |frame| {
        // As above, and memory takes everything.
        let _ = serde_json::to_writer(frame, &written(message));
    })
}

/// Writes the response to `id` into a frame.
pub(crate) fn framed_response(
    id: u64,
    answer: Result<Answer, WireError>,
    limit: usize,
) -> Result<Vec<u8>, FrameError> {
    let answer = match answer {
        Ok(Answer::Written(text)) => {
            let begin = format!(r#"{{"id":{id},"type":"response","result":"#);
            return encode_with(begin.len() + text.len() + 1, limit, |frame| {
                for part in [begin.as_bytes(), &text, b"}"] {
                    frame.extend_from_slice(part);
                }
            });
        }
        Ok(Answer::Value(value)) => Ok(value),
        Err(error) => Err(error),
    };
    framed(&Message::Response(Reply { id, answer }), limit)
}

fn written(message: &Message) -> Written<'_> {
    let empty = Written {
        id: 0,
        r#type: Kind::Request,
        method: None,
        params: None,
        result: None,
        error: None,
        descriptors: 0,
    };
    match message {
        Message::Request(request) => Written {
            id: request.id,
            method: Some(&request.method),
            params: Some(&request.params).filter(|params| !params.is_null()),
            descriptors: request.descriptors,
            ..empty
        },
        Message::Response(reply) => Written {
            id: reply.id,
            r#type: Kind::Response,
            result: reply.answer.as_ref().ok(),
            error: reply.answer.as_ref().err(),
            ..empty
        },
        Message::Event(event) => Written {
            id: event.id,
            r#type: Kind::Event,
            method: Some(&event.method),
            params: Some(&event.params).filter(|params| !params.is_null()),
            ..empty
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn only_messages_are_messages() {
        for (given, want) in [
            ("", code::NOT_JSON),
            ("{", code::NOT_JSON),
            ("nul", code::NOT_JSON),
            ("{} {}", code::INVALID_MESSAGE),
            ("null", code::INVALID_MESSAGE),
            ("{}", code::INVALID_MESSAGE),
            (
                r#" [1,"request","ping",null,null,null,0]"#,
                code::INVALID_MESSAGE,
            ),
            (r#"{"id":1,"type":"request"}"#, code::INVALID_MESSAGE),
            (
                r#"{"id":0,"type":"request","method":"ping"}"#,
                code::INVALID_MESSAGE,
            ),
            (
                r#"{"id":-1,"type":"request","method":"ping"}"#,
                code::INVALID_MESSAGE,
            ),
            (
                r#"{"id":"1","type":"request","method":"ping"}"#,
                code::INVALID_MESSAGE,
            ),
            (
                r#"{"id":1,"id":2,"type":"request","method":"ping"}"#,
                code::INVALID_MESSAGE,
            ),
            (
                r#"{"id":1,"type":"request","method":"ping","extra":1}"#,
                code::INVALID_MESSAGE,
            ),
            (
                r#"{"id":1,"type":"request","method":"ping","result":1}"#,
                code::INVALID_MESSAGE,
            ),
            (
                r#"{"id":1,"type":"response","method":"ping"}"#,
                code::INVALID_MESSAGE,
            ),
            (
                r#"{"id":1,"type":"response","result":1,"error":{"code":"x","message":"y"}}"#,
                code::INVALID_MESSAGE,
            ),
            (
                r#"{"id":1,"type":"response","descriptors":1}"#,
                code::INVALID_MESSAGE,
            ),
            (
                r#"{"id":1,"type":"question","method":"ping"}"#,
                code::INVALID_MESSAGE,
            ),
        ] {
            let error = parse(given).unwrap_err();
            assert_eq!(error.wire().code, want, "{given}: {error}");
        }
        let echo = parse(r#"{"id":1,"type":"request","method":"ping","sent\u001b[2J":1}"#);
        let told = echo.unwrap_err().to_string();
        assert!(
            told.contains("expected one of") && !told.contains("sent"),
            "{told}"
        );
        let wide = |values: usize| {
            let nothing = "[],".repeat(values);
            format!(r#"{{"id":1,"type":"request","method":"ping","params":[{nothing}0]}}"#)
        };
        assert!(parse_bounded(&wide(MESSAGE_VALUES / 2 - 10)).is_ok());
        let error = parse_bounded(&wide(MESSAGE_VALUES)).unwrap_err();
        assert_eq!(error, MessageError::TooManyValues);
        let long = format!(
            r#"{{"id":1,"type":"request","method":"{}"}}"#,
            "m".repeat(129)
        );
        assert!(parse(&long).is_err());
        let deep = format!(
            r#"{{"id":1,"type":"request","method":"m","params":{}{}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        assert!(parse(&deep).is_err());
    }

    fn messages() -> impl Strategy<Value = Message> {
        let value = || {
            prop_oneof![
                Just(Value::Null),
                Just(json!({"a": [1, "é", null]})),
                any::<i64>().prop_map(|number| json!(number)),
                ".{0,20}".prop_map(|text| json!(text)),
            ]
        };
        let error =
            (".{0,20}", any::<bool>(), value()).prop_map(|(message, retryable, details)| {
                WireError {
                    code: "busy".into(),
                    message,
                    retryable,
                    details,
                }
            });
        prop_oneof![
            (1_u64.., "[a-z.]{1,20}", value(), 0_usize..4).prop_map(
                |(id, method, params, descriptors)| Message::Request(Request {
                    id,
                    method,
                    params,
                    descriptors,
                })
            ),
            (any::<u64>(), value()).prop_map(|(id, value)| Message::Response(Reply {
                id,
                answer: Ok(value)
            })),
            (any::<u64>(), error).prop_map(|(id, error)| Message::Response(Reply {
                id,
                answer: Err(error)
            })),
            (any::<u64>(), "[a-z.]{1,20}", value())
                .prop_map(|(id, method, params)| { Message::Event(Event { id, method, params }) }),
        ]
    }

    fn unframed(frame: Result<Vec<u8>, FrameError>) -> Message {
        let frame = frame.unwrap();
        let (header, text) = frame.split_first_chunk().unwrap();
        assert_eq!(u32::from_be_bytes(*header) as usize, text.len());
        parse(std::str::from_utf8(text).unwrap()).unwrap()
    }

    #[test]
    fn an_answer_is_the_same_however_it_was_written() {
        for value in [json!(null), json!("é\"}"), json!({ "a": [1, 2.5, {}] })] {
            let written = Answer::written(&value).unwrap();
            let want = Message::Response(Reply {
                id: 7,
                answer: Ok(value.clone()),
            });
            for answer in [written, Answer::from(value)] {
                assert_eq!(unframed(framed_response(7, Ok(answer), 100)), want);
            }
        }
        let long = Answer::written(&"x".repeat(100)).unwrap();
        assert!(matches!(
            framed_response(7, Ok(long), 100),
            Err(FrameError::TooLong {
                length: 138,
                limit: 100
            })
        ));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(message in messages()) {
            prop_assert_eq!(&unframed(framed(&message, usize::MAX)), &message);
            prop_assert_eq!(parse(&text(&message)), Ok(message));
        }
    }
}

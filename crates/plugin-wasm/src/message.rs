//! What host and worker say to each other: frames of a length, a kind and that many bytes.
//!
//! Guarantee: a length over the bound of its kind is an error before anything is allocated. Bytes of
//! modules and of code travel as they are; everything else is JSON.
//!
//! The host begins with [`ToWorker::Setup`]; the worker says [`FromWorker::Hello`] once it is
//! confined; the host sends a module or code made from one earlier; the worker says
//! [`FromWorker::Ready`], before it the code it made if that was wanted. Then calls, each with an
//! id, until the host closes the pipe.

use crate::limits::Bounds;
use airlock_plugin::{CallError, ToolDescription};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, Read, Write};
use std::time::Duration;

/// Which Airlock this is. Both ends are of one: they are built and installed apart.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Longest module or component.
pub const MODULE_BYTES: usize = 16 * 1024 * 1024;
/// Longest code that is kept. What compiles to more is compiled at each start.
pub const CODE_BYTES: usize = 24 * 1024 * 1024;
/// Longest message.
pub const MESSAGE_BYTES: usize = 8 * 1024 * 1024;
/// Most tools of one plugin.
pub const TOOLS: usize = 256;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Message,
    Module,
    Code,
}

impl Kind {
    const fn byte(self) -> u8 {
        match self {
            Self::Message => 0,
            Self::Module => 1,
            Self::Code => 2,
        }
    }

    const fn of(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Message),
            1 => Some(Self::Module),
            2 => Some(Self::Code),
            _ => None,
        }
    }

    const fn most(self) -> usize {
        match self {
            Self::Message => MESSAGE_BYTES,
            Self::Module => MODULE_BYTES,
            Self::Code => CODE_BYTES,
        }
    }
}

/// What the host says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ToWorker {
    Setup(Setup),
    Call(Order),
    /// The answer to what call `id` asked: the envelope a guest of the plain interface is given.
    Reply {
        id: u32,
        envelope: String,
    },
    Cancel {
        id: u32,
    },
    Ping,
}

/// What holds for every call.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    pub plugin: String,
    pub sandbox: Option<String>,
    pub configuration: Value,
    pub bounds: Bounds,
    /// Whether the host wants the code the worker makes.
    pub wants_code: bool,
}

/// One call.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    pub id: u32,
    pub action: String,
    pub tool: String,
    /// JSON, made by the host.
    pub arguments: String,
    pub session: Option<String>,
    pub mode: Option<String>,
    pub deadline_millis: u64,
    pub max_output: usize,
}

/// What the worker says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FromWorker {
    /// Confined, with the engine that the digest stands for.
    Hello {
        engine: String,
        /// Of which Airlock the worker is.
        #[serde(default)]
        version: String,
    },
    /// It could not confine itself, and read no plugin.
    Unconfined(String),
    /// The code is not for this engine after all: the module is wanted.
    Stale,
    /// Loaded.
    Ready {
        form: Form,
        tools: Vec<ToolDescription>,
    },
    /// The plugin cannot be used.
    Refused(String),
    Answer {
        id: u32,
        outcome: Outcome,
    },
    Ask {
        id: u32,
        name: String,
        arguments: String,
    },
    Piece {
        id: u32,
        text: String,
    },
    Log {
        level: Level,
        text: String,
    },
    Pong,
}

/// What a plugin is made as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    Component,
    Module,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// JSON, as the guest made it.
    Value(String),
    /// The tool says that it failed.
    Failed(String),
    /// An [`Envelope`] in JSON, as the guest made it.
    Envelope(String),
    Fault(Fault),
}

impl Outcome {
    /// What the caller gets, whose call could take `deadline` and say `most` bytes.
    pub fn read(self, deadline: Duration, most: usize) -> Result<Value, CallError> {
        let wrong = |error: serde_json::Error| {
            CallError::Protocol(plain(&format!("what it answered is wrong: {error}")))
        };
        match self {
            Self::Value(text) => serde_json::from_str(&text).map_err(wrong),
            Self::Failed(message) => Err(CallError::Tool(message)),
            Self::Envelope(text) => match serde_json::from_str(&text).map_err(wrong)? {
                Envelope::Ok(value) => Ok(value),
                Envelope::Error(message) => Err(CallError::Tool(message)),
            },
            Self::Fault(fault) => Err(fault.into_call_error(deadline, most)),
        }
    }
}

/// What a module answers: one of the two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Envelope {
    Ok(Value),
    Error(String),
}

/// Why the kernel did not do what a plugin asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declined {
    pub code: String,
    pub message: String,
    pub retryable: bool,
}

/// What the kernel answered, as it travels to the guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Replied {
    Ok(Value),
    Error(Declined),
}

/// Why a guest gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    #[error("it came to its limit of {}", .0.name())]
    Limit(Limit),
    #[error("it took too long")]
    TimedOut,
    #[error("the call was cancelled")]
    Cancelled,
    #[error("it said too much")]
    TooMuch,
    #[error("it trapped: {0}")]
    Trap(String),
    #[error("{0}")]
    Protocol(String),
}

/// What can run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    Fuel,
    Memory,
    Tables,
    Stack,
    Instances,
}

impl Limit {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fuel => "fuel",
            Self::Memory => "memory",
            Self::Tables => "tables",
            Self::Stack => "stack",
            Self::Instances => "instances",
        }
    }
}

impl Fault {
    /// As the caller is told, whose call could take `deadline` and say `most` bytes.
    pub fn into_call_error(self, deadline: Duration, most: usize) -> CallError {
        match self {
            Self::Limit(limit) => CallError::Limit(limit.name()),
            Self::TimedOut => CallError::TimedOut(deadline),
            Self::Cancelled => CallError::Cancelled,
            Self::TooMuch => CallError::TooMuch(most),
            Self::Trap(_) => CallError::Tool(plain(&self.to_string())),
            Self::Protocol(why) => CallError::Protocol(plain(&why)),
        }
    }
}

/// How much a line of the log matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

/// Longest text of a worker's that is shown, in characters.
const PLAIN_CHARS: usize = 1_000;

/// `text`, which comes from a worker, without what a terminal would act on, and not too long.
pub fn plain(text: &str) -> String {
    let shown = text.chars().take(PLAIN_CHARS);
    shown
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect()
}

/// Reads one frame. None where the other side closed between frames.
pub fn read_frame(input: &mut impl Read) -> io::Result<Option<(Kind, Vec<u8>)>> {
    let mut head = [0; 5];
    let mut filled = 0;
    while let Some(rest) = head.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match input.read(rest) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let [one, two, three, four, kind] = head;
    let length = u32::from_be_bytes([one, two, three, four]);
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let kind = Kind::of(kind).ok_or_else(|| invalid("a frame of no known kind".to_owned()))?;
    if length > kind.most() {
        let most = kind.most();
        return Err(invalid(format!("{length} bytes, more than {most}")));
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body)?;
    Ok(Some((kind, body)))
}

/// One frame as bytes. An error if `body` is longer than its kind may be.
pub fn frame(kind: Kind, body: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(body.len())
        .ok()
        .filter(|_| body.len() <= kind.most())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the frame is too long"))?;
    let mut bytes = Vec::with_capacity(body.len() + 5);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.push(kind.byte());
    bytes.extend_from_slice(body);
    Ok(bytes)
}

/// A message as one frame.
pub fn message(message: &impl Serialize) -> io::Result<Vec<u8>> {
    frame(Kind::Message, &serde_json::to_vec(message)?)
}

/// Writes one frame, in one call where the pipe has room.
pub fn write(output: &mut impl Write, frame: &[u8]) -> io::Result<()> {
    output.write_all(frame)?;
    output.flush()
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frames_come_back_as_they_were_made() {
        let mut pipe = Vec::new();
        let cases = [
            (Kind::Message, b"{}".to_vec()),
            (Kind::Module, vec![7; 100_000]),
            (Kind::Code, Vec::new()),
            (Kind::Message, vec![b' '; MESSAGE_BYTES]),
        ];
        for (kind, body) in &cases {
            pipe.extend(frame(*kind, body).unwrap());
        }
        let mut input = &pipe[..];
        for case in cases {
            assert_eq!(read_frame(&mut input).unwrap(), Some(case));
        }
        assert_eq!(read_frame(&mut input).unwrap(), None);
    }

    #[test]
    fn broken_frames_are_errors_and_allocate_nothing() {
        for (case, bytes) in [
            ("half a head", &[0, 0][..]),
            ("half a frame", &[0, 0, 0, 9, 0, 1, 2][..]),
            ("four gigabytes", &[255, 255, 255, 255, 0, 1][..]),
            ("a message as long as a module", &[0, 128, 0, 1, 0][..]),
            ("an unknown kind", &[0, 0, 0, 0, 3][..]),
        ] {
            assert!(read_frame(&mut &bytes[..]).is_err(), "{case}");
        }
        assert!(frame(Kind::Message, &vec![0; MESSAGE_BYTES + 1]).is_err());
    }

    #[test]
    fn what_a_worker_says_cannot_move_a_cursor_or_go_on_for_ever() {
        assert_eq!(plain("a\u{1b}[2Jb\nc"), "a [2Jb c");
        assert_eq!(plain(&"x".repeat(5_000)).chars().count(), PLAIN_CHARS);
    }

    proptest! {
        #[test]
        fn no_bytes_of_a_worker_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut input = &bytes[..];
            while let Ok(Some((kind, body))) = read_frame(&mut input) {
                if kind == Kind::Message {
                    let _read: Result<FromWorker, _> = serde_json::from_slice(&body);
                }
            }
        }
    }
}

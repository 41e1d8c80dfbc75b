//! Calls to the kernel, over the socket it has for this plugin.
//!
//! Frames of JSON, a handshake, requests. Who asks is known by the socket; the name in the handshake
//! must be that one. Calls from several threads run side by side, each on a connection of its own.
//!
//! Guarantee: a call that nobody wants any more is taken back: its connection ends, and with it what
//! the kernel has under way for it. No call is ever made twice.

use crate::accept::short;
use airlock_sdk::Failure;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longest frame. The kernel's own are no longer.
const FRAME: usize = 16 * 1024 * 1024;
/// Connections that are kept for the next call.
const IDLE: usize = 16;
/// How soon a call notices that nobody wants it any more.
const GLANCE: Duration = Duration::from_millis(50);

/// The way to the kernel.
pub(crate) struct Line {
    path: PathBuf,
    plugin: String,
    idle: Mutex<Vec<Connection>>,
}

impl Line {
    /// The line of `plugin`. Nothing is connected until something is asked.
    pub(crate) fn new(path: PathBuf, plugin: String) -> Self {
        Self {
            path,
            plugin,
            idle: Mutex::default(),
        }
    }

    /// Makes a syscall and waits for its value, for as long as it is wanted.
    pub(crate) fn call(
        &self,
        name: &str,
        arguments: &Value,
        within: &str,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<Value, Failure> {
        let mut parameters = json!({ "name": name, "arguments": arguments });
        if let (false, Some(parameters)) = (within.is_empty(), parameters.as_object_mut()) {
            parameters.insert("within".to_owned(), json!(within));
        }
        let mut connection = self.take(is_wanted)?;
        // On an error it is dropped: what comes next on it would be the answer to this.
        let answer = connection.request("call", &parameters, is_wanted)?;
        self.give_back(connection);
        outcome(answer)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, is_wanted: &dyn Fn() -> bool) -> Result<Connection, Failure> {
        let kept = self.idle().pop();
        if let Some(connection) = kept {
            return Ok(connection);
        }
        let stream = short(&self.path, |path| UnixStream::connect(path)).map_err(unreachable)?;
        stream.set_read_timeout(Some(GLANCE)).map_err(unreachable)?;
        let mut connection = Connection { stream, last: 0 };
        let hello = json!({
            "name": self.plugin,
            "version": concat!("rust-sdk ", env!("CARGO_PKG_VERSION")),
            "api": 1,
        });
        connection.request("handshake", &hello, is_wanted)?;
        Ok(connection)
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = self.idle();
        if idle.len() < IDLE {
            idle.push(connection);
        }
    }
}

/// One connection, which serves one request at a time.
struct Connection {
    stream: UnixStream,
    last: u64,
}

/// What comes from the kernel. Events have no meaning here.
#[derive(Deserialize)]
struct Message {
    id: u64,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    result: Value,
    error: Option<Failure>,
}

impl Connection {
    fn request(
        &mut self,
        method: &str,
        parameters: &Value,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<Value, Failure> {
        self.last += 1;
        let id = self.last;
        let text = json!({ "id": id, "type": "request", "method": method, "params": parameters });
        self.send(text.to_string().as_bytes())?;
        loop {
            let frame = self.receive(is_wanted)?;
            let message: Message = serde_json::from_slice(&frame)
                .map_err(|error| failure("internal", format!("the kernel's frame: {error}")))?;
            // 0 is about the connection itself, and so about this.
            if message.kind != "response" || ![0, id].contains(&message.id) {
                continue;
            }
            return message.error.map_or(Ok(message.result), Err);
        }
    }

    fn send(&mut self, text: &[u8]) -> Result<(), Failure> {
        let length = u32::try_from(text.len()).ok();
        let length = length.filter(|_| text.len() <= FRAME);
        let length = length.ok_or_else(|| too_long(text.len()))?;
        let frame = [&length.to_be_bytes(), text].concat();
        self.stream.write_all(&frame).map_err(unreachable)
    }

    fn receive(&mut self, is_wanted: &dyn Fn() -> bool) -> Result<Vec<u8>, Failure> {
        let mut header = [0; 4];
        self.exactly(&mut header, is_wanted)?;
        let length = usize::try_from(u32::from_be_bytes(header)).unwrap_or(usize::MAX);
        if length > FRAME {
            return Err(too_long(length));
        }
        let mut text = vec![0; length];
        self.exactly(&mut text, is_wanted)?;
        Ok(text)
    }

    /// Fills `buffer`, and looks now and then whether anybody wants it filled.
    fn exactly(&mut self, buffer: &mut [u8], is_wanted: &dyn Fn() -> bool) -> Result<(), Failure> {
        let mut rest = buffer;
        while !rest.is_empty() {
            match self.stream.read(rest) {
                Ok(0) => {
                    let ended = io::Error::other("the kernel ended the connection");
                    return Err(unreachable(ended));
                }
                Ok(read) => rest = rest.get_mut(read..).unwrap_or_default(),
                Err(error) if is_pause(&error) => {
                    if !is_wanted() {
                        return Err(failure("cancelled", "nobody wants it any more".to_owned()));
                    }
                }
                Err(error) => return Err(unreachable(error)),
            }
        }
        Ok(())
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// The value of an answer, or the failure it is.
fn outcome(mut answer: Value) -> Result<Value, Failure> {
    let outcome = answer.get_mut("outcome").map(Value::take);
    let mut outcome = outcome.unwrap_or_default();
    let text = |value: Option<&Value>| match value {
        Some(Value::String(text)) => text.clone(),
        Some(other) if !other.is_null() => other.to_string(),
        Some(_) | None => String::new(),
    };
    if let Some(done) = outcome.get_mut("done") {
        return Ok(done.get_mut("value").map(Value::take).unwrap_or_default());
    }
    if let Some(denied) = outcome.get("denied") {
        let why = text(denied.get("explanation"));
        let unsaid = "policy does not allow it".to_owned();
        return Err(failure("denied", if why.is_empty() { unsaid } else { why }));
    }
    if let Some(waiting) = outcome.get("needs_review") {
        let approval = text(waiting.get("approval"));
        let why = format!("a person must say yes first ({approval})");
        return Err(failure("review", why));
    }
    if let Some(failed) = outcome.get("failed") {
        let retryable = failed.get("retryable").and_then(Value::as_bool);
        return Err(Failure {
            code: text(failed.get("code")),
            message: text(failed.get("what")),
            retryable: retryable.unwrap_or_default(),
        });
    }
    let why = "the kernel's answer has no outcome".to_owned();
    Err(failure("internal", why))
}

fn failure(code: &str, message: String) -> Failure {
    Failure {
        code: code.to_owned(),
        message,
        retryable: false,
    }
}

fn too_long(length: usize) -> Failure {
    let why = format!("a frame of {length} bytes is longer than {FRAME}");
    failure("frame_too_long", why)
}

#[expect(clippy::needless_pass_by_value, reason = "what `map_err` hands over")]
fn unreachable(error: io::Error) -> Failure {
    Failure {
        code: "unreachable".to_owned(),
        message: format!("the kernel cannot be reached: {error}"),
        retryable: true,
    }
}

#[cfg(test)]
mod tests;

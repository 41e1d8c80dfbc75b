//! What one call of a tool has: the host that waits for it, and the kernel.

use crate::kernel::Line;
use airlock_plugin_protocol::messages::airlock::ExecuteResponse;
use airlock_plugin_protocol::messages::airlock::execute_response::Said;
use airlock_sdk::{Failure, Kernel, Level};
use serde_json::Value;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc;
use tonic::Status;

/// Bytes of one piece of output. A message takes four times as much.
const PIECE: usize = 1024 * 1024;

/// Where the answers of a call go. Closed once nobody wants them any more.
pub(crate) type Answers = mpsc::Sender<Result<ExecuteResponse, Status>>;

/// One call.
pub(crate) struct Call {
    pub(crate) answers: Answers,
    pub(crate) line: Arc<Line>,
    pub(crate) action: String,
    /// When it is too late. None: never.
    pub(crate) until: Option<Instant>,
}

impl Call {
    /// Says something to the host, and waits while it reads slowly. False: nobody listens.
    pub(crate) fn say(&self, said: Said) -> bool {
        let message = ExecuteResponse { said: Some(said) };
        self.answers.blocking_send(Ok(message)).is_ok()
    }
}

impl Kernel for Call {
    fn call(&self, name: &str, arguments: &Value) -> Result<Value, Failure> {
        let is_wanted = || !self.is_cancelled();
        self.line.call(name, arguments, &self.action, &is_wanted)
    }

    fn log(&self, level: Level, text: &str) {
        let level = match level {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        };
        let mut log = io::stderr().lock();
        for line in text.lines() {
            // A log that cannot be written is no reason for a call to fail.
            let _written = writeln!(log, "{level}: {line}");
        }
    }

    fn emit(&self, text: &str) -> bool {
        // Every piece counts for the host, however short.
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
            if self.is_cancelled() || !self.say(Said::Output(piece.to_owned())) {
                return false;
            }
            rest = after;
        }
        !self.is_cancelled()
    }

    fn is_cancelled(&self) -> bool {
        let late = self.until.is_some_and(|until| Instant::now() >= until);
        late || self.answers.is_closed()
    }
}

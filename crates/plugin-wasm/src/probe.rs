//! What a worker says, for whoever tries it with hostile bytes.

use crate::message::{FromWorker, Kind, Outcome, ToWorker, frame, read_frame};
use airlock_plugin::CallError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io;
use std::time::Duration;

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    kind: Kind,
    /// What is in it.
    pub body: Vec<u8>,
}

impl Frame {
    /// A frame with this message.
    pub fn of_message(text: &[u8]) -> Self {
        Self {
            kind: Kind::Message,
            body: text.to_vec(),
        }
    }

    /// The frame as bytes.
    pub fn bytes(&self) -> io::Result<Vec<u8>> {
        frame(self.kind, &self.body)
    }

    /// Whether it holds a message, of either side, and the message written again.
    pub fn message(&self) -> Option<String> {
        if self.kind != Kind::Message {
            return None;
        }
        written::<FromWorker>(&self.body).or_else(|| written::<ToWorker>(&self.body))
    }

    /// What a caller gets whose call ended as this says; none if it says nothing of the kind.
    pub fn outcome(&self, most: usize) -> Option<Result<Value, CallError>> {
        let said: FromWorker = serde_json::from_slice(&self.body).ok()?;
        match said {
            FromWorker::Answer { outcome, .. } => {
                Some(Outcome::read(outcome, Duration::from_secs(1), most))
            }
            FromWorker::Hello { .. }
            | FromWorker::Unconfined(_)
            | FromWorker::Stale
            | FromWorker::Ready { .. }
            | FromWorker::Refused(_)
            | FromWorker::Ask { .. }
            | FromWorker::Piece { .. }
            | FromWorker::Log { .. }
            | FromWorker::Pong => None,
        }
    }
}

fn written<T: Serialize + DeserializeOwned>(body: &[u8]) -> Option<String> {
    let message: T = serde_json::from_slice(body).ok()?;
    serde_json::to_string(&message).ok()
}

/// The frames in `bytes`, up to the first that is none, and whether there was one.
pub fn frames(mut bytes: &[u8]) -> (Vec<Frame>, bool) {
    let mut frames = Vec::new();
    loop {
        match read_frame(&mut bytes) {
            Ok(Some((kind, body))) => frames.push(Frame { kind, body }),
            Ok(None) => return (frames, false),
            Err(_) => return (frames, true),
        }
    }
}

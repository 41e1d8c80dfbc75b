//! What goes wrong, as the other end is told.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

/// Stable words for what went wrong.
pub mod code {
    /// A frame announces more bytes than the limit. Closes the connection.
    pub const FRAME_TOO_LONG: &str = "frame_too_long";
    /// The stream ended, or stood still, inside a frame. Closes the connection.
    pub const FRAME_TRUNCATED: &str = "frame_truncated";
    /// A frame is not UTF-8. Closes the connection.
    pub const NOT_UTF8: &str = "not_utf8";
    /// A frame is not JSON. Closes the connection.
    pub const NOT_JSON: &str = "not_json";
    /// A frame is JSON and no message, or other descriptors came along than requests say. Closes the
    /// connection.
    pub const INVALID_MESSAGE: &str = "invalid_message";
    /// Something came before the handshake, or a second one. Closes the connection.
    pub const HANDSHAKE_REQUIRED: &str = "handshake_required";
    /// The wanted API version is not spoken here. Closes the connection.
    pub const UNSUPPORTED_VERSION: &str = "unsupported_version";
    /// Whoever connects may not, or not by that name. Closes the connection.
    pub const REFUSED: &str = "refused";
    /// The connection was quiet for too long. Closes it.
    pub const IDLE: &str = "idle";
    /// There are too many connections, or too many bytes under way. Closes the connection.
    pub const OVERLOADED: &str = "overloaded";
    /// The kernel ends. Closes the connection.
    pub const SHUTTING_DOWN: &str = "shutting_down";
    /// There is no such method.
    pub const UNKNOWN_METHOD: &str = "unknown_method";
    /// The method's parameters do not fit.
    pub const INVALID_PARAMS: &str = "invalid_params";
    /// A request with this id is still under way.
    pub const DUPLICATE_ID: &str = "duplicate_id";
    /// This connection has as many requests under way as it may.
    pub const BUSY: &str = "busy";
    /// The request was taken back.
    pub const CANCELLED: &str = "cancelled";
    /// The answer is longer than a frame may be.
    pub const ANSWER_TOO_LONG: &str = "answer_too_long";
    /// Something of ours failed.
    pub const INTERNAL: &str = "internal";
}

/// An error in a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WireError {
    /// A stable word for it.
    pub code: Cow<'static, str>,
    /// What failed and why.
    pub message: String,
    /// Whether the same may succeed later.
    #[serde(default)]
    pub retryable: bool,
    /// More, for programs.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub details: Value,
}

impl WireError {
    /// An error that trying again does not mend.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code: Cow::Borrowed(code),
            message: message.into(),
            retryable: false,
            details: Value::Null,
        }
    }

    /// The same, when trying again later may do.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }

    /// Adds what programs want to know.
    #[must_use]
    pub fn details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }
}

/// What is wrong by a parser, without the words of whoever sent it: an error must not say them again.
pub(crate) fn in_own_words(error: &serde_json::Error) -> String {
    let told = error.to_string();
    // What was found stands before this, what a message is made of behind it.
    match told.rsplit_once(", expected ") {
        Some((_, expected)) => format!("expected {expected}"),
        None => told,
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for WireError {}

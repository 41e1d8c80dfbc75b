//! What a status other than success means.

use super::retry::retry_after;
use crate::clean::quoted;
use crate::clock::Clock;
use crate::error::ModelError;
use crate::secret::Secret;
use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};
use serde_json::Value;

/// What a server said instead of an answer.
pub(crate) struct Refused<'r> {
    pub(crate) host: &'r str,
    pub(crate) model: &'r str,
    pub(crate) key: Option<&'r Secret>,
    pub(crate) clock: &'r Clock,
}

impl Refused<'_> {
    pub(crate) fn of_status(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> ModelError {
        let host = self.host.to_owned();
        if (300..400).contains(&status) {
            let to = headers.get(LOCATION).and_then(|to| to.to_str().ok());
            return ModelError::Redirected {
                host,
                to: quoted(to.unwrap_or_default(), self.key),
            };
        }
        let said = Said::of(body);
        let message = quoted(&said.message, self.key);
        if let Some(error) = self.by_code(&said, &message) {
            return error;
        }
        let after = || {
            let value = headers.get(RETRY_AFTER)?.to_str().ok()?;
            retry_after(value, self.clock.now())
        };
        match status {
            401 | 403 => ModelError::Unauthorized {
                host,
                status,
                message,
            },
            // Money that is used up does not come back by waiting.
            429 if said.code == "insufficient_quota" => ModelError::Rejected {
                host,
                status,
                message,
            },
            408 | 409 | 425 | 429 | 500..=599 => ModelError::Busy {
                host,
                status,
                message,
                after: after(),
            },
            _ => ModelError::Rejected {
                host,
                status,
                message,
            },
        }
    }

    /// An error in place of a piece of the answer.
    pub(crate) fn in_stream(&self, error: &Value) -> ModelError {
        let said = Said::of_value(error);
        let message = quoted(&said.message, self.key);
        if let Some(error) = self.by_code(&said, &message) {
            return error;
        }
        let overloaded = ["server_error", "overloaded_error", "rate_limit_exceeded"];
        let (host, status) = (self.host.to_owned(), 200);
        if overloaded.contains(&said.code.as_str()) || overloaded.contains(&said.sort.as_str()) {
            return ModelError::Busy {
                host,
                status,
                message,
                after: None,
            };
        }
        ModelError::Rejected {
            host,
            status,
            message,
        }
    }

    fn by_code(&self, said: &Said, message: &str) -> Option<ModelError> {
        let lower = said.message.to_lowercase();
        let long = [
            "maximum context length",
            "context length exceeded",
            "exceeds the available context size",
            "prompt is too long",
        ];
        if said.code == "context_length_exceeded" || long.iter().any(|part| lower.contains(part)) {
            return Some(ModelError::ContextLength {
                model: self.model.to_owned(),
                message: message.to_owned(),
            });
        }
        let filtered = ["content_filter", "content_policy_violation"];
        filtered
            .contains(&said.code.as_str())
            .then(|| ModelError::Filtered {
                host: self.host.to_owned(),
                message: message.to_owned(),
            })
    }
}

/// An error as servers write it: `{"error": {"message", "type", "code"}}`, or nearly so.
#[derive(Debug, Default)]
struct Said {
    message: String,
    code: String,
    sort: String,
}

impl Said {
    fn of(body: &[u8]) -> Self {
        let Ok(value) = serde_json::from_slice::<Value>(body) else {
            return Self {
                message: String::from_utf8_lossy(body).into_owned(),
                ..Self::default()
            };
        };
        Self::of_value(value.get("error").unwrap_or(&value))
    }

    fn of_value(value: &Value) -> Self {
        let text = |name: &str| match value.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            Some(_) | None => String::new(),
        };
        if let Value::String(message) = value {
            return Self {
                message: message.clone(),
                ..Self::default()
            };
        }
        Self {
            message: text("message"),
            code: text("code"),
            sort: text("type"),
        }
    }
}

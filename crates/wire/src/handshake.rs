//! The first request on every connection: who it is, and which API they speak.

use crate::error::{WireError, code, in_own_words};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The newest version of the API spoken here. It grows with every change that breaks a client:
/// a method removed or renamed, other required parameters, another shape of a result.
pub const API_NEWEST: u32 = 1;
/// The oldest: the one before the newest, as far back as there is one.
pub const API_OLDEST: u32 = if API_NEWEST > 1 { API_NEWEST - 1 } else { 1 };

/// Longest name or version of a client.
const WORD_BYTES: usize = 64;

/// What a client says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// What it acts as.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// The API version it wants.
    pub api: u32,
}

impl Hello {
    /// A client of the newest API.
    pub fn new(name: &str, version: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            api: API_NEWEST,
        }
    }
}

/// The API versions spoken here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supported {
    /// The oldest.
    pub oldest: u32,
    /// The newest.
    pub newest: u32,
}

impl Supported {
    /// Here.
    pub const HERE: Self = Self {
        oldest: API_OLDEST,
        newest: API_NEWEST,
    };
}

/// Reads a handshake's parameters and agrees on a version, which is the wanted one or none.
pub fn negotiate(params: &serde_json::Value, supported: Supported) -> Result<Hello, WireError> {
    let unfit = |why: &str| {
        let message = format!("the handshake does not fit: {why}");
        WireError::new(code::INVALID_PARAMS, message)
    };
    // A list would pass for an object with its fields in order.
    if !params.is_object() {
        return Err(unfit("the parameters are not an object"));
    }
    let hello = Hello::deserialize(params).map_err(|error| unfit(&in_own_words(&error)))?;
    if [&hello.name, &hello.version].iter().any(|word| {
        word.is_empty() || word.len() > WORD_BYTES || word.chars().any(char::is_control)
    }) {
        let message = format!("name and version have 1 to {WORD_BYTES} bytes, none a control");
        return Err(WireError::new(code::INVALID_PARAMS, message));
    }
    if !(supported.oldest..=supported.newest).contains(&hello.api) {
        let Supported { oldest, newest } = supported;
        let message = format!(
            "API version {} is not spoken here: {oldest} to {newest} are",
            hello.api
        );
        return Err(WireError::new(code::UNSUPPORTED_VERSION, message)
            .details(json!({ "supported": supported })));
    }
    Ok(hello)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_supported_range_is_agreed_on() {
        let supported = Supported {
            oldest: 3,
            newest: 4,
        };
        for (api, agreed) in [(0, false), (2, false), (3, true), (4, true), (5, false)] {
            let params = json!({ "name": "cli", "version": "1", "api": api });
            match negotiate(&params, supported) {
                Ok(hello) => assert!(agreed && hello.api == api),
                Err(error) => {
                    assert!(!agreed, "{api}");
                    assert_eq!(error.code, code::UNSUPPORTED_VERSION);
                    assert_eq!(error.details["supported"]["oldest"], 3);
                    assert_eq!(error.details["supported"]["newest"], 4);
                }
            }
        }
    }

    #[test]
    fn a_handshake_with_anything_odd_is_none() {
        for params in [
            json!(null),
            json!([]),
            json!(["cli", "1", 1]),
            json!({ "name": "cli", "version": "1" }),
            json!({ "name": "cli", "version": "1", "api": -1 }),
            json!({ "name": "cli", "version": "1", "api": "1" }),
            json!({ "name": "", "version": "1", "api": 1 }),
            json!({ "name": "x".repeat(65), "version": "1", "api": 1 }),
            json!({ "name": "a\u{1b}[2J", "version": "1", "api": 1 }),
            json!({ "name": "cli", "version": "1", "api": 1, "uid": 0 }),
        ] {
            let error = negotiate(&params, Supported::HERE).unwrap_err();
            assert_eq!(error.code, code::INVALID_PARAMS, "{params}");
        }
    }

    #[test]
    fn a_refusal_does_not_say_again_what_was_sent() {
        const SENT: &str = "sent\u{1b}[2J, expected nothing";
        for (params, want) in [
            (
                json!({ "name": "cli", "version": "1", "api": 1, SENT: 0 }),
                "expected one of `name`, `version`, `api`",
            ),
            (
                json!({ "name": "cli", "version": "1", "api": SENT }),
                "expected u32",
            ),
            (json!({ "name": SENT, "version": "1", "api": 1 }), "control"),
            (json!(SENT), "not an object"),
        ] {
            let told = negotiate(&params, Supported::HERE).unwrap_err().message;
            assert!(told.contains(want), "{params}: {told}");
            assert!(!told.contains("sent") && !told.contains('\u{1b}'), "{told}");
        }
    }
}

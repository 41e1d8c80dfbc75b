//! What can be asked over the wire, as data.

use airlock_core::{Digest, SessionId};
use airlock_kernel::{Call, Outcome, Presented};
use airlock_policy::approval::ApprovalId;
use airlock_wire::{WireError, code};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// Parameters of `call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallParams {
    /// The tool or syscall.
    pub name: String,
    /// Its arguments.
    pub arguments: Value,
    /// The session it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Whether nobody is there to answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unattended: bool,
    /// Home and environment of the person; only the command line has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<Person>,
    /// The call it is part of; only a plugin serves one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// A token that the kernel issued to whoever asks; any other text is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<TokenText>,
}

/// The text of a token, which nothing prints.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct TokenText(String);

impl TokenText {
    pub(crate) fn presented(&self) -> Presented {
        Presented::new(&self.0)
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenText(..)")
    }
}

impl CallParams {
    pub(crate) fn of(call: &Call, person: Option<Person>) -> Self {
        Self {
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            session: call.session.clone(),
            unattended: call.unattended,
            person,
            within: None,
            token: None,
        }
    }
}

/// What a program the person starts may be given of theirs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Person {
    /// Their home directory.
    pub home: PathBuf,
    /// Their environment.
    pub environment: BTreeMap<String, String>,
}

/// The result of `call` and `exec`.
#[derive(Debug, Serialize, Deserialize)]
pub struct CallResult {
    /// What came of it.
    pub outcome: Outcome,
    /// Whether the workspace's files are not approved, so that built-in defaults hold.
    pub untrusted: bool,
    /// What is wrong with the log, if something is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

/// Parameters of `exec`, besides its descriptors: standard input if there is one, then standard
/// output and standard error, both pipes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecParams {
    /// Arguments of `exec.own`.
    pub(crate) arguments: Value,
    /// Whether standard input came along.
    pub(crate) stdin: bool,
    /// The size of the terminal it gets; none: it gets none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) terminal: Option<Size>,
    /// Home and environment of the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) person: Option<Person>,
    /// The client's name for the run, unique on its connection, by which it is steered.
    pub(crate) run: u64,
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Size {
    pub(crate) rows: u16,
    pub(crate) columns: u16,
}

/// Parameters of `exec.steer`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SteerParams {
    /// The run.
    pub(crate) run: u64,
    /// A signal to pass on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<u8>,
    /// Another size of its terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<Size>,
}

/// Parameters of `approvals.elicited`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ElicitedParams {
    /// The question.
    pub(crate) approval: ApprovalId,
    /// The digest of the action that was shown.
    pub(crate) shown: Digest,
    /// What was said.
    pub(crate) approved: bool,
}

/// Parameters of `tools.show`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShowParams {
    pub(crate) name: String,
}

/// Reads parameters.
pub(crate) fn params<T: DeserializeOwned>(value: Value) -> Result<T, WireError> {
    serde_json::from_value(value)
        .map_err(|error| WireError::new(code::INVALID_PARAMS, error.to_string()))
}

/// Refuses parameters where none are taken.
pub(crate) fn none(value: &Value) -> Result<(), WireError> {
    let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
    empty
        .then_some(())
        .ok_or_else(|| WireError::new(code::INVALID_PARAMS, "this method takes no parameters"))
}

//! What can be asked over the wire, as data.

use airlock_core::{Digest, SessionId};
use airlock_kernel::{Call, Outcome, Presented, sanitise_line};
use airlock_policy::approval::ApprovalId;
use airlock_wire::{ClientError, WireError, code};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// Most characters of an error that may say again what was sent.
const TOLD: usize = 300;

/// What of a method's use is in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// It takes the road: a decision, and records before and after.
    Road,
    /// It goes on with what took the road, or only tells: nothing of its own.
    Nothing,
}

/// Every method there is, besides those that the wire itself answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// How the kernel is.
    Status,
    /// The tools there are.
    ToolsList,
    /// One of them, with its arguments.
    ToolsShow,
    /// A call.
    Call,
    /// A command the person typed.
    Exec,
    /// Signals and sizes for one.
    ExecSteer,
    /// Which gates an MCP client may be asked about.
    ApprovalsOpened,
    /// What the user of one said.
    ApprovalsElicited,
    /// Begins a run of a workflow.
    WorkflowsRun,
    /// Takes one up.
    WorkflowsResume,
    /// Stops one.
    WorkflowsCancel,
    /// Writes what is kept back of the log.
    LogFlush,
    /// Ends the kernel.
    KernelStop,
    /// Has it take up settings that have changed.
    KernelRenew,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Status,
        Self::ToolsList,
        Self::ToolsShow,
        Self::Call,
        Self::Exec,
        Self::ExecSteer,
        Self::ApprovalsOpened,
        Self::ApprovalsElicited,
        Self::WorkflowsRun,
        Self::WorkflowsResume,
        Self::WorkflowsCancel,
        Self::LogFlush,
        Self::KernelStop,
        Self::KernelRenew,
    ];

    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::ToolsList => "tools.list",
            Self::ToolsShow => "tools.show",
            Self::Call => "call",
            Self::Exec => "exec",
            Self::ExecSteer => "exec.steer",
            Self::ApprovalsOpened => "approvals.opened",
            Self::ApprovalsElicited => "approvals.elicited",
            Self::WorkflowsRun => "workflows.run",
            Self::WorkflowsResume => "workflows.resume",
            Self::WorkflowsCancel => "workflows.cancel",
            Self::LogFlush => "log.flush",
            Self::KernelStop => "kernel.stop",
            Self::KernelRenew => "kernel.renew",
        }
    }

    /// What of it is in the log.
    pub const fn kept(self) -> Kept {
        match self {
            Self::Call
            | Self::Exec
            | Self::ApprovalsElicited
            | Self::WorkflowsRun
            | Self::WorkflowsResume
            | Self::WorkflowsCancel
            | Self::KernelStop
            | Self::KernelRenew => Kept::Road,
            Self::Status
            | Self::ToolsList
            | Self::ToolsShow
            | Self::ExecSteer
            | Self::ApprovalsOpened
            | Self::LogFlush => Kept::Nothing,
        }
    }

    /// The method of that name.
    pub(crate) fn named(name: &str) -> Result<Self, WireError> {
        let found = Self::ALL.into_iter().find(|method| method.as_str() == name);
        found.ok_or_else(|| {
            let told = format!("there is no method `{name}`");
            WireError::new(code::UNKNOWN_METHOD, sanitise_line(&told, TOLD))
        })
    }
}

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
    /// The arguments that the person is asked about, where they are not those of the call. An answer is
    /// about these; nobody but the command line is told them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Value>,
}

impl CallResult {
    /// From what a kernel answered to a call with these arguments, as it was before it crossed.
    pub fn heard(answer: Value, arguments: &Value) -> Result<Self, ClientError> {
        let result: Self = serde_json::from_value(answer)
            .map_err(|error| ClientError::Nonsense(error.to_string()))?;
        let asked = result.question.as_ref().unwrap_or(arguments);
        Ok(Self {
            outcome: result.outcome.asked(asked),
            ..result
        })
    }
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

/// Parameters of `tools.list`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListParams {
    /// Whether each tool is told whole, as `tools.show` tells it.
    #[serde(default)]
    pub(crate) full: bool,
}

/// Parameters of `tools.show`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShowParams {
    pub(crate) name: String,
}

/// Reads parameters.
pub(crate) fn params<T: DeserializeOwned>(value: Value) -> Result<T, WireError> {
    let invalid = |told: &str| WireError::new(code::INVALID_PARAMS, sanitise_line(told, TOLD));
    // A list would pass for an object with its fields in order, and the protocol has no such thing.
    if !value.is_object() {
        return Err(invalid("the parameters are not an object"));
    }
    serde_json::from_value(value).map_err(|error| invalid(&error.to_string()))
}

/// Reads parameters of which none has to be given.
pub(crate) fn some<T: DeserializeOwned + Default>(value: Value) -> Result<T, WireError> {
    if value.is_null() {
        return Ok(T::default());
    }
    params(value)
}

/// Refuses parameters where none are taken.
pub(crate) fn none(value: &Value) -> Result<(), WireError> {
    let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
    empty
        .then_some(())
        .ok_or_else(|| WireError::new(code::INVALID_PARAMS, "this method takes no parameters"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn code_of<T: DeserializeOwned>(value: Value) -> Option<String> {
        params::<T>(value).err().map(|error| error.code.into())
    }

    #[test]
    fn parameters_are_an_object_and_no_list() {
        let invalid = Some(code::INVALID_PARAMS.to_owned());
        let call = json!({ "name": "fs.read", "arguments": { "path": "a" } });
        assert_eq!(code_of::<CallParams>(call), None);
        for value in [
            json!(["fs.read", { "path": "a" }]),
            json!(["fs.read", {}, null, false, null, null, null]),
            json!([]),
            json!("fs.read"),
            json!(1),
            json!(null),
        ] {
            assert_eq!(code_of::<CallParams>(value.clone()), invalid, "{value}");
        }
        assert_eq!(code_of::<ShowParams>(json!(["fs.read"])), invalid);
        assert_eq!(code_of::<SteerParams>(json!([1, 2, null])), invalid);
        assert!(some::<ListParams>(json!([true])).is_err());
        assert!(some::<ListParams>(json!(null)).is_ok());
        assert!(some::<ListParams>(json!({ "full": true })).is_ok());
    }

    #[test]
    fn an_error_says_what_was_sent_only_sanitised_and_cut() {
        let token = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
        let sent = format!("{token}\u{1b}[2J");
        let field = |name: &str| params::<ShowParams>(json!({ name: 1, "name": "x" }));
        let kind = |value: &str| params::<SteerParams>(json!({ "run": value }));
        let long = "x".repeat(10_000);
        for (case, error) in [
            ("method", Method::named(&sent).err()),
            ("long method", Method::named(&long).err()),
            ("field", field(&sent).err()),
            ("long field", field(&long).err()),
            ("value", kind(&sent).err()),
            ("long value", kind(&long).err()),
        ] {
            let told = error.unwrap().message;
            assert!(!told.contains("ghp_"), "{case}: {told}");
            assert!(!told.chars().any(char::is_control), "{case}: {told}");
            assert!(told.chars().count() <= TOLD, "{case}: {told}");
        }
    }
}

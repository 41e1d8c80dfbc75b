//! What a host promises about the plugins it runs.

use crate::grants::Grants;
use crate::manifest::Manifest;
use crate::tool::{Sink, ToolCall, ToolDescription};
use airlock_core::Digest;
use airlock_policy::CapabilityGate;
use airlock_sandbox::HostPath;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What a plugin is started with.
pub struct Start {
    /// What it is and asks for.
    pub manifest: Arc<Manifest>,
    /// Where its files are: readable to it, at the same path.
    pub directory: PathBuf,
    /// The digest its entry was approved with. A host that finds other bytes does not start it.
    pub entry: Digest,
    /// Its own data directory, writable to it: what `self/` means.
    pub data: PathBuf,
    /// Where the paths are that its manifest asks for. A host that finds one missing here does not
    /// start it.
    pub grants: Grants,
    /// Its configuration, valid by its schema.
    pub configuration: Value,
    /// Its way back to the kernel.
    pub reach: Reach,
}

/// How a plugin reaches the kernel. Either way its identity is the kernel's to know, not its to say.
#[derive(Clone)]
pub struct Reach {
    /// For a process: a directory that is shared with its sandbox and nobody else. The kernel's
    /// socket for this plugin is `kernel.sock` in it; sockets of the plugin's own belong there too.
    pub directory: PathBuf,
    /// For code in a worker of ours: the calls themselves.
    pub callback: Arc<dyn Callback>,
}

/// Takes a plugin's calls to the road, under that plugin's identity.
pub trait Callback: Send + Sync {
    /// Submits the syscall `name`, as part of the action `within` that the plugin serves; where that is
    /// left out, of the only one it serves.
    fn submit(
        &self,
        name: &str,
        arguments: &Value,
        within: Option<&str>,
    ) -> Result<Value, CallbackError>;
}

/// Why a plugin's call gave no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CallbackError {
    /// A stable word: `denied`, `review`, or that of the failure.
    pub code: String,
    /// What happened and why, as the plugin may know it.
    pub message: String,
    /// Whether the same may succeed a moment later.
    pub retryable: bool,
}

/// Runs plugins of one protocol.
pub trait Host: Send + Sync {
    /// Starts a plugin, confined to its manifest, and waits until it is ready to be called.
    fn start(&self, start: Start) -> Result<Arc<dyn Instance>, StartError>;
}

/// One running plugin.
pub trait Instance: Send + Sync {
    /// The tools it described when it started.
    fn tools(&self) -> &[ToolDescription];

    /// Calls one. Returns within the call's deadline and a little, whatever the plugin does, and
    /// soon after `cancelled` was set. Calls from many threads run at once.
    fn call(
        &self,
        call: &ToolCall,
        sink: &mut dyn Sink,
        cancelled: &AtomicBool,
    ) -> Result<Value, CallError>;

    /// Asks it whether it is well.
    fn health(&self) -> Result<(), CallError>;

    /// Whether its process or worker is gone.
    fn has_ended(&self) -> bool;

    /// What confines it, as enforced.
    fn report(&self) -> Value;

    /// The last it printed, for people. Untrusted text.
    fn output(&self) -> String {
        String::new()
    }

    /// Asks it to end, waits for at most `grace`, and ends it with all it started. Whoever asks while
    /// another waits for it, with no grace, ends it at once, and that other waits no more.
    fn stop(&self, grace: Duration);
}

/// Why a plugin did not start. Nothing of it runs.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its entry is not what was approved, or is no file.
    #[error("`{entry}` cannot be used: {why}")]
    Entry {
        /// The entry as the manifest names it.
        entry: String,
        /// What is wrong with it.
        why: String,
    },
    /// What its manifest asks for cannot be enforced here.
    #[error("cannot be confined: {0}")]
    Confinement(String),
    /// A path that its manifest asks for is not granted to it.
    #[error("`{right}` of `{asked}` is not granted: {gate}{}", lost(.leads_to.as_deref()))]
    NotGranted {
        /// What it would have of the path.
        right: &'static str,
        /// The path in the words of the manifest.
        asked: String,
        /// Who does not grant it.
        gate: CapabilityGate,
        /// Where the path leads, if nobody approved that it leads there.
        leads_to: Option<PathBuf>,
    },
    /// It did not say what its protocol wants.
    #[error("it does not speak its protocol: {0}")]
    Protocol(String),
    /// It was not ready in time.
    #[error("it was not ready within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// It ended before it was ready.
    #[error("it ended before it was ready: {0}")]
    Ended(String),
}

/// What is to say of a path that leads where nobody approved it to.
fn lost(real: Option<&Path>) -> String {
    let real = real.and_then(|real| HostPath::new(real).ok());
    real.map_or_else(String::new, |real| {
        format!(": it leads to `{real}`, which nobody approved")
    })
}

impl StartError {
    /// How to mend it, where that is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotGranted {
                leads_to: Some(_), ..
            } => Some("`airlock plugin enable NAME` shows where its paths lead, and asks"),
            Self::NotGranted { leads_to: None, .. }
            | Self::Entry { .. }
            | Self::Confinement(_)
            | Self::Protocol(_)
            | Self::TimedOut(_)
            | Self::Ended(_) => None,
        }
    }

    /// A stable word for the kind of failure.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Entry { .. } => "plugin_entry",
            Self::Confinement(_) => "plugin_not_confined",
            Self::NotGranted { .. } => "plugin_not_granted",
            Self::Protocol(_) => "plugin_protocol",
            Self::TimedOut(_) => "plugin_not_ready",
            Self::Ended(_) => "plugin_ended",
        }
    }
}

/// Why a call gave no result. The kernel is well all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The tool itself said that it failed.
    #[error("the tool failed: {0}")]
    Tool(String),
    /// The plugin is gone.
    #[error("the plugin ended: {0}")]
    Ended(String),
    /// It did not answer in time.
    #[error("it took longer than {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// Nobody wants the answer any more.
    #[error("the call was cancelled")]
    Cancelled,
    /// What it answered is not what its protocol wants.
    #[error("it does not speak its protocol: {0}")]
    Protocol(String),
    /// It said more than is kept.
    #[error("its output is over {0} bytes")]
    TooMuch(usize),
    /// It came to a limit of its own: `fuel`, `memory`, `tables`, `stack`, `instances`.
    #[error("it came to its limit of {0}")]
    Limit(&'static str),
}

impl CallError {
    /// A stable word for the kind of failure.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Tool(_) => "tool_error",
            Self::Ended(_) => "plugin_ended",
            Self::TimedOut(_) => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Protocol(_) => "plugin_protocol",
            Self::TooMuch(_) => "output_too_large",
            Self::Limit(_) => "plugin_limit",
        }
    }
}

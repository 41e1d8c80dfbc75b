//! Tools as plugins describe and run them.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// What a plugin says of one of its tools. Untrusted: names and texts are checked by whoever uses it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolDescription {
    /// The plugin's own name for it, without the plugin's name before it.
    pub name: String,
    /// One line for people and models.
    pub summary: String,
    /// JSON Schema of the arguments.
    pub schema: Value,
    /// Whether it says that it changes nothing.
    #[serde(default)]
    pub read_only: bool,
}

/// One call of a tool. It was decided and recorded before a host sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The action's id: the same in the log, for the plugin, and in what it asks of the kernel.
    pub action: String,
    /// The plugin's own name for the tool.
    pub tool: String,
    /// The arguments, valid by the tool's schema.
    pub arguments: Value,
    /// The session it belongs to.
    pub session: Option<String>,
    /// The mode of that session.
    pub mode: Option<String>,
    /// How long it may take.
    pub deadline: Duration,
    /// Bytes of output that are kept; what is more ends the call.
    pub max_output: usize,
}

/// Takes what a tool says while it runs.
pub trait Sink {
    /// One piece of output. False: nobody wants more, the call is to be cancelled.
    fn piece(&mut self, text: &str) -> bool;
}

impl Sink for Vec<String> {
    fn piece(&mut self, text: &str) -> bool {
        self.push(text.to_owned());
        true
    }
}

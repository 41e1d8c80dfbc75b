//! What happens while the loop runs, for whoever shows it.

use airlock_model::{Event, Status};
use serde::Serialize;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Step {
    /// A tool begins.
    ToolExecuting {
        /// The call.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments, as JSON text.
        arguments: String,
    },
    /// A tool ended.
    ToolResult {
        /// The call.
        id: String,
        /// The tool.
        name: String,
        /// How it ended.
        status: Status,
        /// From the call to its result.
        milliseconds: u64,
        /// The result as the model is told it, without the marks around it.
        text: String,
    },
    /// Older parts of the conversation were replaced by a summary.
    Summarised {
        /// How many exchanges.
        exchanges: usize,
        /// Tokens of the question after it.
        tokens: u64,
    },
    /// Text that may hold instructions for the model.
    Flagged {
        /// Where it comes from.
        origin: String,
        /// How many places.
        places: usize,
    },
    /// Secrets in what the person typed, which the model does not get.
    Withheld {
        /// How many.
        secrets: usize,
    },
    /// Something the model said or does.
    #[serde(untagged)]
    Model(Event),
}

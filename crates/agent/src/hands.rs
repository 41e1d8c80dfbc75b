//! What the loop works with: whoever implements this takes calls to the road.

use airlock_model::{Cancel, Status};
use airlock_sanitise::Origin;
use serde_json::{Map, Value};

/// A tool as it is registered.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does, in a line.
    pub summary: String,
    /// JSON Schema of its arguments.
    pub schema: Value,
    /// Whether it changes nothing, so that several may run at once.
    pub read_only: bool,
}

/// What came of a call, as it may be shown to a model: sanitised, and with its explanation where it
/// did not happen.
#[derive(Debug, Clone, PartialEq)]
pub struct Handed {
    /// How it ended.
    pub status: Status,
    /// The result, or why there is none and what would help.
    pub text: String,
    /// Where the text comes from.
    pub origin: Origin,
    /// Places in it that may be instructions.
    pub flags: usize,
}

/// A question that is about to be put to a model.
#[derive(Debug, Clone, Copy)]
pub struct Asking<'a> {
    /// The model, by the name it is configured under.
    pub model: &'a str,
    /// Where it would be reached; nothing for one that reaches nothing.
    pub hosts: &'a [String],
    /// Tokens of the question.
    pub tokens: u64,
}

/// Why a question may not be put.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct NoLeave {
    /// What happened.
    pub what: String,
    /// Why, one reason after the other.
    pub why: Vec<String>,
    /// What would help.
    pub fix: Vec<String>,
}

/// What was spent, to be counted where the session is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// Questions to a model.
    pub turns: u64,
    /// Tokens.
    pub tokens: u64,
}

/// A pair of hands.
pub trait Hands: Sync {
    /// The tools there are now.
    fn tools(&self) -> Vec<Tool>;

    /// Does it, until `cancel` takes it back. Several that change nothing may come at once.
    fn call(&self, name: &str, arguments: &Map<String, Value>, cancel: &Cancel) -> Handed;

    /// Where the session stands: phase, what may be written, what comes next. One line.
    fn phase(&self) -> Option<String>;

    /// Whether the question may be put. Recorded before anything is connected to.
    fn leave(&self, asking: Asking<'_>) -> Result<(), NoLeave>;

    /// Counts what was spent. Fails where the session may not go on.
    fn spend(&self, spent: Spent) -> Result<(), NoLeave>;
}

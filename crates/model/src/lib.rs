//! Model providers behind one interface.
//!
//! [`Model::chat`] asks once and streams what comes as [`Event`]s, whoever the provider is.
//! [`OpenAi`] speaks the chat completions protocol that OpenAI and most servers of local models
//! share; [`Scripted`] plays a conversation from a file and never pretends to be a model.
//! [`Failover`] asks the next model when one does not answer, and [`Metered`] asks none that would
//! go over a budget.
//!
//! Guarantee: whatever a server sends is bounded, and ends in a reply or an error, never a panic; a
//! key goes to the configured host alone and into no message. Non-guarantee: what a model says is
//! true, harmless or even well-formed; whoever acts on it decides that.

mod budget;
mod cancel;
mod clean;
mod clock;
mod error;
mod failover;
mod heard;
mod message;
mod metered;
mod model;
mod openai;
mod scripted;
mod secret;
mod tokens;

pub use budget::{Budget, Ledger, Limit, OverBudget, Price, Span as BudgetSpan, Spending};
pub use cancel::Cancel;
pub use clock::Clock;
pub use error::{CertificateFault, ModelError, Phase};
pub use failover::Failover;
pub use heard::Heard;
pub use message::{
    Arguments, Event, Finish, Message, Reply, Request, Status, ToolCall, ToolDefinition, Usage,
};
pub use metered::Metered;
pub use model::Model;
pub use openai::{Backoff, OpenAi, OpenAiSettings, Timeouts};
pub use scripted::{Script, ScriptError, Scripted};
pub use secret::Secret;
pub use tokens::Counter;

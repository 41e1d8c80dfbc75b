//! Conversations with clients of every kind, over memory and over sockets.

mod elicitation;
#[path = "../../../../tests/tools/every.rs"]
mod every;
mod hostile;
mod http;
mod kernel;
mod sessions;
mod talk;
mod wire;

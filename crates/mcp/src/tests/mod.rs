//! Conversations with clients of every kind, over memory and over sockets.

mod elicitation;
mod hostile;
mod http;
mod kernel;
mod talk;
mod wire;
